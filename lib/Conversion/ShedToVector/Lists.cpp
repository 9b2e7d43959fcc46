//===- Lists.cpp - Sets of keys -------------------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"

#include "bundle/abi/Abi.h"

using namespace mlir;
using namespace mlir::heddle;
namespace abi = ::heddle::abi;

/// How many of `count` ascending numbers are below `bound`.
Value KernelLowering::countBelow(Value count, function_ref<Value(Value)> at,
                                 Value bound) {
  // Those before the first are below; from the second on, none is.
  Values range = v.repeat(
      {v.constant(0), count},
      [&](ValueRange range) {
        return v.compare(arith::CmpIPredicate::slt, range[0], range[1]);
      },
      [&](ValueRange range) {
        Value middle = v.quotient(v.add(range[0], range[1]), 2);
        Value below = v.compare(arith::CmpIPredicate::slt, at(middle), bound);
        return Values{v.select(below, v.add(middle, 1), range[0]),
                      v.select(below, range[1], middle)};
      });
  return range[0];
}

/// How many visible positions stand before `bound`: positions ascend.
Value KernelLowering::placesBelow(Value bound) {
  return countBelow(n, [&](Value place) { return positionAt(place); }, bound);
}

/// The places of the keys that some row at hand has of a set.
KeyRange KernelLowering::keysOfRows(shed::KeySet set) {
  Value firstRow, lastRow;
  if (!set.isUniform()) {
    Value last = v.add(v.add(rows.row, rows.rows), -1);
    firstRow = positionAt(placeOfRow(rows.row));
    lastRow = positionAt(placeOfRow(last));
  }
  shed::PairArithmetic a = positionArithmetic();
  shed::PositionRange keys = set.getKeys(a, firstRow, lastRow);
  return {keys.begin ? placesBelow(keys.begin) : v.constant(0),
          keys.end ? placesBelow(keys.end) : n};
}

/// The set within which a pass's logits are masked last; null if they are not.
static shed::KeySet boundOf(shed::ForKeysOp loop) {
  for (auto update : loop.getBody().front().getOps<shed::SoftmaxUpdateOp>())
    for (auto mask = update.getLogits().getDefiningOp<shed::MaskOp>(); mask;
         mask = mask.getLogits().getDefiningOp<shed::MaskOp>())
      if (std::optional<shed::KeySet> within = mask.getWithin())
        return *within;
  return {};
}

/// The keys of a list that some row at hand has of a set besides.
KeySource KernelLowering::cut(const KeySource &list, shed::KeySet set) {
  KeyRange range = keysOfRows(set);
  auto below = [&](Value bound) {
    return countBelow(
        list.count, [&](Value t) { return placeOf(list, t); }, bound);
  };
  Value from = below(range.first);
  return {v.greatest(v.sub(below(range.end), from), v.constant(0)), Value(),
          v.at(list.list, v.mul(from, 4))};
}

/// The keys that a list has for the group of the rows at hand.
KeySource KernelLowering::listSource(const shed::KeyEntries &entries) {
  auto known = expanded.find(entries.index);
  if (known != expanded.end())
    return known->second;
  size_t entry = offsetof(abi::AttentionArgs, lists) +
                 entries.index * sizeof(abi::IndexList);
  Value indices = field(v.ptr(), entry + offsetof(abi::IndexList, indices));
  Value groups = field(v.i64(), entry + offsetof(abi::IndexList, groups));
  Value keep = field(v.i64(), entry + offsetof(abi::IndexList, keep));
  Value heads = field(v.i64(), entry + offsetof(abi::IndexList, headsPerList));
  Value row = arith::DivUIOp::create(v.b, head, heads);
  Value group = v.add(v.mul(row, groups),
                      v.quotient(placeOfRow(rows.row), entries.group));
  return {keep, Value(), v.at(indices, v.mul(v.mul(group, keep), 4))};
}

/// Writes the keys of a list of blocks to scratch, for all passes of the task.
KeySource KernelLowering::expandBlocks(const shed::KeyEntries &entries,
                                       int64_t offset) {
  size_t entry = offsetof(abi::AttentionArgs, lists) +
                 entries.index * sizeof(abi::IndexList);
  Value split = field(v.i64(), entry + offsetof(abi::IndexList, split));
  Value to = v.at(v.at(scratch, layout.bytes), v.mul(n, offset));
  KeySource list = listSource(entries);
  Value count =
      v.loop(v.constant(0), list.count, 1, v.constant(0),
             [&](Value t, ValueRange carried) {
               Value block = placeOf(list, t);
               KeyRange keys = blockKeys(block, split, entries.blockKeys);
               // Entries of -1 are missing.
               Value end = v.select(
                   v.compare(arith::CmpIPredicate::slt, block, v.constant(0)),
                   keys.first, keys.end);
               Value from = v.sub(carried[0], keys.first);
               v.loop(keys.first, end, 1, [&](Value key) {
                 v.store(v.narrow(key), v.at(to, v.mul(v.add(from, key), 4)));
               });
               return Values{v.add(from, end)};
             })[0];
  return {count, Value(), to};
}

/// The keys of a block; bundle::keysOfBlock says which these are.
KeyRange KernelLowering::blockKeys(Value block, Value split, int64_t size) {
  Value firsts = v.quotient(v.add(split, size - 1), size);
  Value second = v.compare(arith::CmpIPredicate::sge, block, firsts);
  Value first =
      v.select(second, v.add(split, v.mul(v.sub(block, firsts), size)),
               v.mul(block, size));
  Value end = v.least(v.add(first, size), v.select(second, n, split));
  return {first, end};
}

/// In the type of positions.
shed::PairArithmetic KernelLowering::positionArithmetic() {
  return {v.b, v.i64(), [this] {
            return field(v.i64(), offsetof(abi::AttentionArgs, sinks));
          }};
}

/// How many visible positions are in any of these sets, which begin at 0.
Value KernelLowering::endOf(ArrayRef<shed::KeySet> sets) {
  shed::PairArithmetic a = positionArithmetic();
  Value bound;
  for (shed::KeySet set : sets) {
    Value end = set.getKeys(a, {}, {}).end;
    bound = bound ? v.greatest(bound, end) : end;
  }
  return placesBelow(bound);
}

KeySource KernelLowering::keySource(shed::ForKeysOp loop) {
  SmallVector<shed::KeySet> before;
  SmallVector<shed::KeyEntries> lists;
  for (auto set : loop.getSkip().getAsRange<shed::KeySet>()) {
    if (std::optional<shed::KeyEntries> entries = set.getEntries())
      lists.push_back(*entries);
    else
      before.push_back(set);
  }
  KeySource source;
  if (std::optional<shed::KeyEntries> entries =
          shed::entriesOf(loop.getOver())) {
    source = listSource(*entries);
    if (shed::KeySet bound = boundOf(loop))
      source = cut(source, bound);
    if (!before.empty() || !lists.empty())
      source = compact(source, lists, before);
    return source;
  }
  // A range [first, end), which the sets before it shorten.
  Value first = v.constant(0), end = n;
  if (isa<shed::SpanAttr>(loop.getOver())) {
    size_t list = offsetof(abi::SelectArgs, list);
    Value split = field(v.i64(), list + offsetof(abi::IndexList, split));
    Value boundary = field(v.i64(), offsetof(abi::SelectArgs, boundary));
    first = blockKeys(boundary, split, *kernel.getGroup()).first;
  } else {
    KeyRange keys = keysOfRows(cast<shed::KeySet>(loop.getOver()));
    first = keys.first;
    end = keys.end;
  }
  if (!before.empty())
    first = v.greatest(first, endOf(before));
  source = {v.greatest(v.sub(end, first), v.constant(0)), first, Value()};
  return lists.empty() ? source : compact(source, lists, {});
}

/// Writes the keys of `source` behind the sets `before` and in none of the
/// lists `skip` to scratch: one merge of ascending lists.
KeySource KernelLowering::compact(KeySource source,
                                  ArrayRef<shed::KeyEntries> skip,
                                  ArrayRef<shed::KeySet> before) {
  Value to = v.at(v.at(scratch, layout.bytes), v.mul(n, layout.list));
  Value firstKey = before.empty() ? v.constant(0) : endOf(before);
  SmallVector<KeySource> lists;
  for (const shed::KeyEntries &entries : skip)
    lists.push_back(listSource(entries));
  // Carried: keys written, then the entry in each list.
  Values carried(1 + lists.size(), v.constant(0));
  carried = v.loop(
      v.constant(0), source.count, 1, carried, [&](Value t, ValueRange at) {
        Values next(at);
        Value key = placeOf(source, t);
        Value keep = v.compare(arith::CmpIPredicate::sge, key, firstKey);
        for (auto [i, list] : llvm::enumerate(lists)) {
          auto inside = [&](Value place) {
            return v.compare(arith::CmpIPredicate::slt, place, list.count);
          };
          // The entry at `place`, or the last one behind the end.
          auto entry = [&](Value place) {
            return placeOf(list, v.least(place, v.add(list.count, -1)));
          };
          Value place = v.repeat(
              at[i + 1],
              [&](ValueRange place) {
                return arith::AndIOp::create(
                           v.b, inside(place[0]),
                           v.compare(arith::CmpIPredicate::slt, entry(place[0]),
                                     key))
                    .getResult();
              },
              [&](ValueRange place) { return Values{v.add(place[0], 1)}; })[0];
          next[i + 1] = place;
          Value differs = arith::OrIOp::create(
              v.b, v.compare(arith::CmpIPredicate::sge, place, list.count),
              v.compare(arith::CmpIPredicate::ne, entry(place), key));
          keep = arith::AndIOp::create(v.b, keep, differs);
        }
        // Writing a dropped key is harmless: the next one takes its place.
        v.store(v.narrow(key), v.at(to, v.mul(next[0], 4)));
        next[0] = v.add(next[0], arith::ExtUIOp::create(v.b, v.i64(), keep));
        return next;
      });
  return {carried[0], Value(), to};
}
