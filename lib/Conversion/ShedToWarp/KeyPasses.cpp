//===- KeyPasses.cpp - Which keys a pass over them has --------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionWriter.h"

#include "bundle/abi/Abi.h"

#include "llvm/ADT/SetVector.h"

#include <limits>

using namespace mlir;
using namespace mlir::heddle;
using arith::CmpIPredicate;
namespace abi = ::heddle::abi;

using Values = NVVMBuilder::Values;

static constexpr float infinity = std::numeric_limits<float>::infinity();

/// No sequence is as long as a window of 2^30 keys.
static int64_t halfOf(shed::WindowAttr window) {
  return std::min<int64_t>(window.getSize() / 2, 1 << 29);
}

//===----------------------------------------------------------------------===//
// Passes and their tiles
//===----------------------------------------------------------------------===//

KeyList AttentionWriter::keyList(Attribute over) {
  shed::IndexedSet which = *shed::indexedSet(over);
  size_t entry = offsetof(abi::AttentionArgs, lists) +
                 which.index * sizeof(abi::IndexList);
  Value row = head;
  if (kernel.getSharedLists())
    row = v.quotient(
        head, v.narrow(field(v.i64(),
                             entry + offsetof(abi::IndexList, headsPerList))));
  auto blocks = dyn_cast<shed::BlocksAttr>(over);
  return loadKeyList(v, kernel.getEncoding().value_or(shed::Encoding::Int32),
                     blocks ? blocks.getSize() : 0,
                     v.at(args, static_cast<int64_t>(entry)), row,
                     v.quotient(tileStart, which.group));
}

KeyPass AttentionWriter::keyPass(shed::ForKeysOp loop) {
  const int64_t keys = tiling.getKeys();
  KeyPass pass;
  pass.over = loop.getOver();
  pass.end = n;
  SmallVector<shed::SinksAttr> skip;
  for (Attribute set : loop.getSkip())
    skip.push_back(cast<shed::SinksAttr>(set));
  if (!skip.empty())
    pass.skipped = sinksEnd(v, skip, args, positions(), n);
  if (shed::indexedSet(pass.over)) {
    pass.list = keyList(pass.over);
    pass.count = pass.list->keep;
    if (pass.list->blockKeys) {
      pass.tiles = v.mul(pass.count, pass.list->blockKeys / keys);
      return pass;
    }
  } else if (isa<shed::AllAttr>(pass.over) && !pass.skipped) {
    pass.count = n;
  } else {
    pass.first = v.word(0);
    if (auto window = dyn_cast<shed::WindowAttr>(pass.over)) {
      const KeyRange &some = windows.at(window).some;
      pass.first = some.first;
      pass.end = some.end;
    } else if (auto sinks = dyn_cast<shed::SinksAttr>(pass.over)) {
      pass.end = sinksEnd(v, sinks, args, positions(), n);
    }
    if (pass.skipped)
      pass.first = v.greatest(pass.first, pass.skipped);
    pass.skipped = {};
    pass.count = v.greatest(v.sub(pass.end, pass.first), v.word(0));
  }
  pass.tiles = v.quotient(v.add(pass.count, keys - 1), keys);
  return pass;
}

/// A tile has the next keys in order, the next ones of a list of keys, or a
/// part of a block. Source of the last: bundle/abi/Abi.h, IndexList.
TileKeys AttentionWriter::keysOf(const KeyPass &pass, Value tile) {
  const int64_t keys = tiling.getKeys();
  if (!pass.list || !pass.list->blockKeys) {
    Value rank = v.mul(tile, keys), left = v.sub(pass.count, rank);
    if (!pass.list)
      return {
          pass.first ? v.add(pass.first, rank) : rank, left, pass.end, {}, {}};
    Type number =
        pass.list->encoding == shed::Encoding::Uint16 ? v.i16() : v.i32();
    Value rows = warp::ReadRowsOp::create(
        v.b, warp::RowsType::get(kernel.getContext(), keys), pass.list->base,
        rank, pass.count, number);
    return {v.word(0), left, n, rows, rank};
  }
  const int64_t parts = pass.list->blockKeys / keys;
  Value block = v.loadConstant(
      v.i32(), v.at(pass.list->base, v.mul(v.quotient(tile, parts), 4)), 4);
  Value gone = v.compare(CmpIPredicate::slt, block, int64_t(0));
  KeyRange range = keysOfBlock(v, v.greatest(block, v.word(0)), n,
                               pass.list->split, pass.list->blockKeys);
  Value first = v.add(range.first, v.mul(v.remainder(tile, parts), keys));
  Value end = v.select(gone, v.word(0), range.end);
  return {first, v.sub(end, first), end, {}, {}};
}

KeyRange AttentionWriter::rangeOf(const KeyPass &pass, const TileKeys &keys) {
  const int64_t size = tiling.getKeys();
  if (!keys.rows)
    return {keys.first, v.add(keys.first, size)};
  // Lists ascend.
  auto entry = [&](Value rank) -> Value {
    const bool wide = pass.list->encoding != shed::Encoding::Uint16;
    Value at = v.at(pass.list->base, v.mul(rank, wide ? 4 : 2));
    if (wide)
      return v.loadConstant(v.i32(), at, 4);
    return arith::ExtUIOp::create(v.b, v.i32(), v.loadConstant(v.i16(), at, 2));
  };
  Value last = v.least(v.add(keys.rank, size - 1), v.add(pass.count, -1));
  return {entry(keys.rank), v.add(entry(last), 1)};
}

Value AttentionWriter::eachKey(const KeyPass &pass, const TileKeys &keys) {
  auto type = v.fragment(tiling.getKeys(), v.i32());
  Value from = keys.rows ? keys.rank : keys.first;
  Value last = v.add(keys.rows ? pass.count : n, -1);
  Value each = v.map(type, {}, [&](ValueRange, Value, Value column) {
    return v.least(v.add(column, from), last);
  });
  if (!keys.rows)
    return each;
  return warp::ReadOp::create(
      v.b, type, pass.list->base, each,
      pass.list->encoding == shed::Encoding::Uint16 ? v.i16() : v.i32());
}

//===----------------------------------------------------------------------===//
// Positions and windows
//===----------------------------------------------------------------------===//

/// Of each key, or null where key j stands at j.
Value AttentionWriter::positions() {
  return field(v.global(), offsetof(abi::AttentionArgs, position));
}

/// Where row `row` (i32) of queries stands in the sequence.
Value AttentionWriter::positionOf(Value row) {
  for (size_t offset : {offsetof(abi::AttentionArgs, place),
                        offsetof(abi::AttentionArgs, position)}) {
    Value list = field(v.global(), offset);
    row = v.choose(
        v.isNull(list), v.i32(), [&]() -> Values { return {row}; },
        [&]() -> Values {
          return {v.loadConstant(v.i32(), v.at(list, v.mul(row, 4)), 4)};
        })[0];
  }
  return row;
}

/// What passes and masks ask of rows, before the first of them.
void AttentionWriter::findWindows() {
  llvm::SetVector<shed::WindowAttr> all;
  kernel.walk([&](Operation *op) {
    if (auto loop = dyn_cast<shed::ForKeysOp>(op))
      if (auto window = dyn_cast<shed::WindowAttr>(loop.getOver()))
        all.insert(window);
    auto mask = dyn_cast<shed::MaskOp>(op);
    if (!mask)
      return;
    if (mask.getWithin())
      all.insert(*mask.getWithin());
    for (auto window : mask.getOutside().getAsRange<shed::WindowAttr>())
      all.insert(window);
  });
  if (!all.empty() || kernel.comparesRows())
    findRowPositions();
  for (shed::WindowAttr window : all)
    findWindow(window);
}

/// Where the warpgroup's rows stand, those behind the last one like it.
void AttentionWriter::findRowPositions() {
  auto type = v.fragment(1, v.i32());
  Value last = v.add(taskEnd, -1);
  rowPositions = v.map(type, {}, [&](ValueRange, Value row, Value) {
    return v.least(v.add(row, firstRow), last);
  });
  for (size_t offset : {offsetof(abi::AttentionArgs, place),
                        offsetof(abi::AttentionArgs, position)}) {
    Value list = field(v.global(), offset);
    rowPositions = v.choose(
        v.isNull(list), Type(type), [&]() -> Values { return {rowPositions}; },
        [&]() -> Values {
          return {warp::ReadOp::create(v.b, type, list, rowPositions, v.i32())};
        })[0];
  }
}

/// How many keys stand below each row's bound.
Value AttentionWriter::countBelow(Value bounds) {
  auto type = bounds.getType();
  Value list = positions();
  bounds = v.map(type, bounds, [&](ValueRange element, Value, Value) {
    return v.greatest(element[0], v.word(0));
  });
  return v.choose(
      v.isNull(list), type,
      [&]() -> Values {
        return {v.map(type, bounds, [&](ValueRange element, Value, Value) {
          return v.least(element[0], n);
        })};
      },
      [&]() -> Values {
        return {warp::CountBelowOp::create(v.b, type, list, n, bounds)};
      })[0];
}

void AttentionWriter::findWindow(shed::WindowAttr window) {
  const int64_t half = halfOf(window);
  auto below = [&](Value position, int64_t distance) {
    return placesBelow(v, positions(), n, v.add(position, distance));
  };
  RowWindow result;
  Value last = v.add(taskEnd, -1);
  result.some = {below(positionOf(v.least(taskRow, last)), -half),
                 below(positionOf(last), half + 1)};
  Value end = v.least(v.add(firstRow, warp::warpgroupRows - 1), last);
  result.all = {below(positionOf(end), -half),
                below(positionOf(v.least(firstRow, last)), half + 1)};
  auto bounds = [&](int64_t distance) {
    return countBelow(v.map(rowPositions.getType(), rowPositions,
                            [&](ValueRange element, Value, Value) {
                              return v.add(element[0], distance);
                            }));
  };
  result.first = bounds(-half);
  result.length =
      v.map(rowPositions.getType(), {bounds(half + 1), result.first},
            [&](ValueRange element, Value, Value) {
              return v.sub(element[0], element[1]);
            });
  windows[window] = result;
}

//===----------------------------------------------------------------------===//
// Masks: only tiles at an edge pay
//===----------------------------------------------------------------------===//

Logits AttentionWriter::mask(shed::MaskOp op, const Logits &logits,
                             const KeyPass &pass, const TileKeys &keys) {
  KeyRange range = rangeOf(pass, keys);
  struct Band {
    RowWindow window;
    bool inside;
  };
  SmallVector<Band> bands;
  Value whole;
  auto add = [&](shed::WindowAttr attr, bool inside) {
    const RowWindow &window = windows.at(attr);
    // All rows have all of these keys, or none has any.
    Value same =
        inside
            ? v.both(
                  v.compare(CmpIPredicate::sge, range.first, window.all.first),
                  v.compare(CmpIPredicate::sle, range.end, window.all.end))
            : v.either(
                  v.compare(CmpIPredicate::sle, range.end, window.some.first),
                  v.compare(CmpIPredicate::sge, range.first, window.some.end));
    whole = whole ? v.both(whole, same) : same;
    bands.push_back({window, inside});
  };
  if (op.getWithin())
    add(*op.getWithin(), true);
  for (auto window : op.getOutside().getAsRange<shed::WindowAttr>())
    add(window, false);
  if (!whole)
    return logits;

  Type type = logits.fragment.getType();
  Value masked = v.choose(
      whole, type, [&]() -> Values { return {logits.fragment}; },
      [&]() -> Values {
        Values inputs = {logits.fragment};
        for (const Band &band : bands)
          inputs.append({band.window.first, band.window.length});
        if (keys.rows)
          inputs.push_back(eachKey(pass, keys));
        Value lowest = v.real(-infinity);
        return {
            v.map(type, inputs, [&](ValueRange element, Value, Value column) {
              Value result = element[0];
              for (auto [i, band] : llvm::enumerate(bands)) {
                // One unsigned comparison: keys before are far behind.
                Value first = element[1 + 2 * i];
                Value at = keys.rows ? v.sub(element.back(), first)
                                     : v.add(column, v.sub(keys.first, first));
                Value keep = v.compare(band.inside ? CmpIPredicate::ult
                                                   : CmpIPredicate::uge,
                                       at, element[2 + 2 * i]);
                result = v.select(keep, result, lowest);
              }
              return result;
            })};
      })[0];
  // The window of a row ends where that of the block does, or sooner.
  return {masked, logits.factor,
          op.getWithin() && *op.getWithin() == pass.over};
}

/// What lies behind the last key, or is skipped, gives no weight.
Value AttentionWriter::maskEnd(Value logits, const KeyPass &pass,
                               const TileKeys &keys) {
  Type type = logits.getType();
  Value partial =
      v.compare(CmpIPredicate::slt, keys.left, int64_t(tiling.getKeys()));
  if (pass.skipped)
    partial =
        v.either(partial, v.compare(CmpIPredicate::slt,
                                    rangeOf(pass, keys).first, pass.skipped));
  return v.choose(
      partial, type,
      [&]() -> Values {
        Values inputs = {logits};
        if (pass.skipped && keys.rows)
          inputs.push_back(eachKey(pass, keys));
        Value lowest = v.real(-infinity);
        return {
            v.map(type, inputs, [&](ValueRange element, Value, Value column) {
              Value keep = v.compare(CmpIPredicate::slt, column, keys.left);
              if (pass.skipped) {
                Value key = keys.rows ? element[1] : v.add(column, keys.first);
                keep = v.both(keep,
                              v.compare(CmpIPredicate::sge, key, pass.skipped));
              }
              return v.select(keep, element[0], lowest);
            })};
      },
      [&]() -> Values { return {logits}; })[0];
}
