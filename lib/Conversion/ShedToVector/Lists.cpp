//===- Lists.cpp - Sets of keys -------------------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::vectors;

/// How many of `count` ascending numbers are below `bound`.
static Value countBelow(KernelBuilder &v, Value count,
                        function_ref<Value(Value)> at, Value bound) {
  // Those before the first are below; from the second on, none is.
  Values range = v.repeat(
      {v.constant(0), count},
      [&](ValueRange range) { return v.compare(Int::slt, range[0], range[1]); },
      [&](ValueRange range) {
        Value middle = v.quotient(v.add(range[0], range[1]), 2);
        Value below = v.compare(Int::slt, at(middle), bound);
        return Values{v.select(below, v.add(middle, 1), range[0]),
                      v.select(below, range[1], middle)};
      });
  return range[0];
}

/// How many visible positions stand before `bound`: positions ascend.
static Value placesBelow(KernelBuilder &v, Value bound) {
  return countBelow(
      v, v.k.n, [&](Value place) { return v.positionAt(place); }, bound);
}

/// In the type of positions.
static shed::PairArithmetic positionArithmetic(KernelBuilder &v) {
  return {v.b, v.i64(), [&v] { return v.field(&AttentionArgs::sinks); }};
}

/// The places of the keys that some row at hand has of a set.
static KeyRange keysOfRows(KernelBuilder &v, shed::KeySet set) {
  Value firstRow, lastRow;
  if (!set.isUniform()) {
    Value last = v.add(v.add(v.here.row, v.here.rows), -1);
    firstRow = v.positionAt(v.placeOfRow(v.here.row));
    lastRow = v.positionAt(v.placeOfRow(last));
  }
  shed::PairArithmetic a = positionArithmetic(v);
  shed::PositionRange keys = set.getKeys(a, firstRow, lastRow);
  return {keys.begin ? placesBelow(v, keys.begin) : v.constant(0),
          keys.end ? placesBelow(v, keys.end) : v.k.n};
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

static KeySource listOf(KernelBuilder &v, Value count, Value list) {
  return {count, v.constant(0), list};
}

/// The keys of a list that some row at hand has of a set besides.
static KeySource cut(KernelBuilder &v, const KeySource &list,
                     shed::KeySet set) {
  KeyRange range = keysOfRows(v, set);
  auto below = [&](Value bound) {
    return countBelow(
        v, list.count, [&](Value t) { return v.placeOf(list, t); }, bound);
  };
  Value from = below(range.first);
  return listOf(v, v.greatest(v.sub(below(range.end), from), v.constant(0)),
                v.at(list.list, v.mul(from, 4)));
}

/// The keys that a list has for the group of the rows at hand.
static KeySource listSource(KernelBuilder &v, const shed::KeyEntries &entries) {
  auto known = v.k.expanded.find(entries.index);
  if (known != v.k.expanded.end())
    return known->second;
  size_t entry =
      offsetof(AttentionArgs, lists) + entries.index * sizeof(IndexList);
  Value indices = v.field(&IndexList::indices, entry);
  Value groups = v.field(&IndexList::groups, entry);
  Value keep = v.field(&IndexList::keep, entry);
  Value heads = v.field(&IndexList::headsPerList, entry);
  Value row = arith::DivUIOp::create(v.b, v.here.head, heads);
  Value group = v.add(v.mul(row, groups),
                      v.quotient(v.placeOfRow(v.here.row), entries.group));
  return listOf(v, keep, v.at(indices, v.mul(v.mul(group, keep), 4)));
}

KeySource vectors::expandBlocks(KernelBuilder &v,
                                const shed::KeyEntries &entries,
                                int64_t offset) {
  size_t entry =
      offsetof(AttentionArgs, lists) + entries.index * sizeof(IndexList);
  Value split = v.field(&IndexList::split, entry);
  Value to = v.ofAllKeys(offset);
  KeySource list = listSource(v, entries);
  Value count =
      v.loop(v.constant(0), list.count, 1, v.constant(0),
             [&](Value t, ValueRange carried) {
               Value block = v.placeOf(list, t);
               KeyRange keys = blockKeys(v, block, split, entries.blockKeys);
               // Entries of -1 are missing.
               Value end = v.select(v.compare(Int::slt, block, v.constant(0)),
                                    keys.first, keys.end);
               Value from = v.sub(carried[0], keys.first);
               v.loop(keys.first, end, 1, [&](Value key) {
                 v.store(v.narrow(key), v.at(to, v.mul(v.add(from, key), 4)));
               });
               return Values{v.add(from, end)};
             })[0];
  return listOf(v, count, to);
}

KeyRange vectors::blockKeys(KernelBuilder &v, Value block, Value split,
                            int64_t size) {
  Value firsts = v.quotient(v.add(split, size - 1), size);
  Value second = v.compare(Int::sge, block, firsts);
  Value first =
      v.select(second, v.add(split, v.mul(v.sub(block, firsts), size)),
               v.mul(block, size));
  Value end = v.least(v.add(first, size), v.select(second, v.k.n, split));
  return {first, end};
}

/// How many visible positions are in any of these sets, which begin at 0.
static Value endOf(KernelBuilder &v, ArrayRef<shed::KeySet> sets) {
  shed::PairArithmetic a = positionArithmetic(v);
  Value bound;
  for (shed::KeySet set : sets) {
    Value end = set.getKeys(a, {}, {}).end;
    bound = bound ? v.greatest(bound, end) : end;
  }
  return placesBelow(v, bound);
}

/// Writes the keys of `source` behind the sets `before` and in none of the
/// lists `skip` to scratch: one merge of ascending lists.
static KeySource compact(KernelBuilder &v, KeySource source,
                         ArrayRef<shed::KeyEntries> skip,
                         ArrayRef<shed::KeySet> before) {
  Value to = v.ofAllKeys(v.k.layout.list);
  Value firstKey = before.empty() ? v.constant(0) : endOf(v, before);
  SmallVector<KeySource> lists;
  for (const shed::KeyEntries &entries : skip)
    lists.push_back(listSource(v, entries));
  // Carried: keys written, then the entry in each list.
  Values carried(1 + lists.size(), v.constant(0));
  carried = v.loop(
      v.constant(0), source.count, 1, carried, [&](Value t, ValueRange at) {
        Values next(at);
        Value key = v.placeOf(source, t);
        Value keep = v.compare(Int::sge, key, firstKey);
        for (auto [i, list] : llvm::enumerate(lists)) {
          auto inside = [&](Value place) {
            return v.compare(Int::slt, place, list.count);
          };
          // The entry at `place`, or the last one behind the end.
          auto entry = [&](Value place) {
            return v.placeOf(list, v.least(place, v.add(list.count, -1)));
          };
          Value place = v.repeat(
              at[i + 1],
              [&](ValueRange place) {
                return v.bitAnd(inside(place[0]),
                                v.compare(Int::slt, entry(place[0]), key));
              },
              [&](ValueRange place) { return Values{v.add(place[0], 1)}; })[0];
          next[i + 1] = place;
          Value differs = v.bitOr(v.compare(Int::sge, place, list.count),
                                  v.compare(Int::ne, entry(place), key));
          keep = v.bitAnd(keep, differs);
        }
        // Writing a dropped key is harmless: the next one takes its place.
        v.store(v.narrow(key), v.at(to, v.mul(next[0], 4)));
        next[0] = v.add(next[0], arith::ExtUIOp::create(v.b, v.i64(), keep));
        return next;
      });
  return listOf(v, carried[0], to);
}

KeySource vectors::keySource(KernelBuilder &v, shed::ForKeysOp loop) {
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
    source = listSource(v, *entries);
    if (shed::KeySet bound = boundOf(loop))
      source = cut(v, source, bound);
    if (!before.empty() || !lists.empty())
      source = compact(v, source, lists, before);
    return source;
  }
  // A range [first, end), which the sets before it shorten.
  Value first = v.constant(0), end = v.k.n;
  if (isa<shed::SpanAttr>(loop.getOver())) {
    size_t list = offsetof(SelectArgs, list);
    Value split = v.field(&IndexList::split, list);
    Value boundary = v.field(&SelectArgs::boundary);
    first = blockKeys(v, boundary, split, v.k.group).first;
  } else {
    KeyRange keys = keysOfRows(v, cast<shed::KeySet>(loop.getOver()));
    first = keys.first;
    end = keys.end;
  }
  if (!before.empty())
    first = v.greatest(first, endOf(v, before));
  source = {v.greatest(v.sub(end, first), v.constant(0)), first, v.null()};
  return lists.empty() ? source : compact(v, source, lists, {});
}
