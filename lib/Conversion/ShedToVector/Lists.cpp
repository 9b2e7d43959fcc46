//===- Lists.cpp - Sets of keys -------------------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"

#include "bundle/abi/Abi.h"
#include "heddle/Dialect/Shed/IR/SinksBound.h"

using namespace mlir;
using namespace mlir::heddle;
namespace abi = ::heddle::abi;

/// How many visible positions stand before `bound`: positions ascend.
Value KernelLowering::placesBelow(Value bound) {
  // Those before the first are below; from the second on, none is.
  Values range = v.repeat(
      {v.constant(0), n},
      [&](ValueRange range) {
        return v.compare(arith::CmpIPredicate::slt, range[0], range[1]);
      },
      [&](ValueRange range) {
        Value middle = v.quotient(v.add(range[0], range[1]), 2);
        Value below =
            v.compare(arith::CmpIPredicate::slt, positionAt(middle), bound);
        return Values{v.select(below, v.add(middle, 1), range[0]),
                      v.select(below, range[1], middle)};
      });
  return range[0];
}

/// The keys that a list has for the group of the rows at hand.
KeySource KernelLowering::listSource(Attribute set) {
  shed::IndexedSet which = *shed::indexedSet(set);
  auto known = expanded.find(which.index);
  if (known != expanded.end())
    return known->second;
  size_t entry = offsetof(abi::AttentionArgs, lists) +
                 which.index * sizeof(abi::IndexList);
  Value indices = field(v.ptr(), entry + offsetof(abi::IndexList, indices));
  Value groups = field(v.i64(), entry + offsetof(abi::IndexList, groups));
  Value keep = field(v.i64(), entry + offsetof(abi::IndexList, keep));
  Value heads = field(v.i64(), entry + offsetof(abi::IndexList, headsPerList));
  Value row = arith::DivUIOp::create(v.b, head, heads);
  Value group =
      v.add(v.mul(row, groups), v.quotient(placeOfRow(rows.row), which.group));
  return {keep, Value(), v.at(indices, v.mul(v.mul(group, keep), 4))};
}

/// Writes the keys of a list of blocks to scratch, for all passes of the task.
KeySource KernelLowering::expandBlocks(shed::BlocksAttr blocks,
                                       int64_t offset) {
  size_t entry = offsetof(abi::AttentionArgs, lists) +
                 blocks.getIndex() * sizeof(abi::IndexList);
  Value split = field(v.i64(), entry + offsetof(abi::IndexList, split));
  Value to = v.at(v.at(scratch, layout.bytes), v.mul(n, offset));
  KeySource list = listSource(blocks);
  Value count =
      v.loop(v.constant(0), list.count, 1, v.constant(0),
             [&](Value t, ValueRange carried) {
               Value block = placeOf(list, t);
               KeyRange keys = blockKeys(block, split, blocks.getSize());
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

/// How many visible positions are sinks of any of these sets.
Value KernelLowering::sinksEnd(ArrayRef<shed::SinksAttr> sinks) {
  auto [size, told] = shed::SinksBound(sinks);
  if (!told)
    return placesBelow(v.constant(size));
  Value bound = field(v.i64(), offsetof(abi::AttentionArgs, sinks));
  return placesBelow(size ? v.greatest(bound, v.constant(size)) : bound);
}

KeySource KernelLowering::keySource(shed::ForKeysOp loop) {
  SmallVector<shed::SinksAttr> sinks;
  SmallVector<Attribute> lists;
  for (Attribute set : loop.getSkip()) {
    if (auto attr = dyn_cast<shed::SinksAttr>(set))
      sinks.push_back(attr);
    else
      lists.push_back(set);
  }
  KeySource source;
  Attribute over = loop.getOver();
  if (shed::indexedSet(over)) {
    source = listSource(over);
    if (!sinks.empty() || !lists.empty())
      source = compact(source, lists, sinks);
    return source;
  }
  // A range [first, end), which the sinks shorten.
  Value first = v.constant(0), end = n;
  if (auto window = dyn_cast<shed::WindowAttr>(over)) {
    int64_t half = window.getSize() / 2;
    Value last = v.add(v.add(rows.row, rows.rows), -1);
    first = placesBelow(v.add(positionAt(placeOfRow(rows.row)), -half));
    end = placesBelow(v.add(positionAt(placeOfRow(last)), half + 1));
  } else if (auto attr = dyn_cast<shed::SinksAttr>(over)) {
    end = sinksEnd(attr);
  } else if (isa<shed::SpanAttr>(over)) {
    size_t list = offsetof(abi::SelectArgs, list);
    Value split = field(v.i64(), list + offsetof(abi::IndexList, split));
    Value boundary = field(v.i64(), offsetof(abi::SelectArgs, boundary));
    first = blockKeys(boundary, split, *kernel.getGroup()).first;
  }
  if (!sinks.empty())
    first = v.greatest(first, sinksEnd(sinks));
  source = {v.greatest(v.sub(end, first), v.constant(0)), first, Value()};
  return lists.empty() ? source : compact(source, lists, {});
}

/// Writes the keys of `source` that are no sinks and in none of the lists
/// `skip` to scratch: one merge of ascending lists.
KeySource KernelLowering::compact(KeySource source, ArrayRef<Attribute> skip,
                                  ArrayRef<shed::SinksAttr> sinks) {
  Value to = v.at(v.at(scratch, layout.bytes), v.mul(n, layout.list));
  Value firstKey = sinks.empty() ? v.constant(0) : sinksEnd(sinks);
  SmallVector<KeySource> lists;
  for (Attribute list : skip)
    lists.push_back(listSource(list));
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
