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

//===----------------------------------------------------------------------===//
// Passes and their tiles
//===----------------------------------------------------------------------===//

KeyList AttentionWriter::keyList(const shed::KeyEntries &entries) {
  size_t entry = offsetof(abi::AttentionArgs, lists) +
                 entries.index * sizeof(abi::IndexList);
  return loadKeyList(v, kernel.getEncoding().value_or(shed::Encoding::Int32),
                     entries.blockKeys, v.at(args, static_cast<int64_t>(entry)),
                     listRow, v.quotient(tileStart, entries.group));
}

KeyPass AttentionWriter::keyPass(shed::ForKeysOp loop) {
  const int64_t keys = tiling.getKeys();
  KeyPass pass;
  pass.over = cast<shed::KeySet>(loop.getOver());
  pass.end = n;
  auto skip = llvm::to_vector(loop.getSkip().getAsRange<shed::KeySet>());
  if (!skip.empty())
    pass.skipped = endOf(v, skip, args, positions(), n);
  if (std::optional<shed::KeyEntries> entries = pass.over.getEntries()) {
    pass.list = keyList(*entries);
    pass.count = pass.list->keep;
    if (pass.list->blockKeys) {
      pass.tiles = v.mul(pass.count, pass.list->blockKeys / keys);
      return pass;
    }
  } else if (isa<shed::AllAttr>(pass.over) && !pass.skipped) {
    pass.count = n;
  } else {
    pass.first = v.word(0);
    if (!pass.over.isUniform()) {
      const KeyRange &some = rowKeys.at(pass.over).some;
      pass.first = some.first;
      pass.end = some.end;
    } else if (!isa<shed::AllAttr>(pass.over)) {
      pass.end = endOf(v, pass.over, args, positions(), n);
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
      return {pass.first ? v.add(pass.first, rank) : rank,
              left,
              pass.end,
              {},
              {},
              keys};
    Type number =
        pass.list->encoding == shed::Encoding::Uint16 ? v.i16() : v.i32();
    Value rows = warp::ReadRowsOp::create(
        v.b, warp::RowsType::get(kernel.getContext(), keys), pass.list->base,
        rank, pass.count, number);
    return {v.word(0), left, n, rows, rank, keys};
  }
  const int64_t parts = pass.list->blockKeys / keys;
  Value block = entryOf(v, *pass.list, v.quotient(tile, parts));
  Value gone = v.compare(CmpIPredicate::slt, block, int64_t(0));
  KeyRange range = keysOfBlock(v, v.greatest(block, v.word(0)), n,
                               pass.list->split, pass.list->blockKeys);
  Value first = v.add(range.first, v.mul(v.remainder(tile, parts), keys));
  Value end = v.select(gone, v.word(0), range.end);
  return {first, v.sub(end, first), end, {}, {}, keys};
}

TileKeys AttentionWriter::partOf(const TileKeys &tile, int64_t from,
                                 int64_t columns) {
  TileKeys part = tile;
  Value &start = tile.rows ? part.rank : part.first;
  start = v.add(start, from);
  part.left = v.add(tile.left, -from);
  part.columns = columns;
  part.from = tile.from + from;
  return part;
}

KeyRange AttentionWriter::rangeOf(const KeyPass &pass, const TileKeys &keys) {
  if (!keys.rows)
    return {keys.first, v.add(keys.first, keys.columns)};
  // Lists ascend. Of a part there may be none of them left.
  Value end = v.add(pass.count, -1);
  Value last = v.least(v.add(keys.rank, keys.columns - 1), end);
  return {
      entryOf(v, *pass.list, keys.from ? v.least(keys.rank, end) : keys.rank),
      v.add(entryOf(v, *pass.list, last), 1)};
}

Value AttentionWriter::eachKey(const KeyPass &pass, const TileKeys &keys) {
  auto type = v.fragment(keys.columns, v.i32());
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
// Positions, and what rows have of sets that differ by row
//===----------------------------------------------------------------------===//

/// Of each key, or null where key j stands at j.
Value AttentionWriter::positions() {
  return field(v.global(), offsetof(abi::AttentionArgs, position));
}

/// Where row `row` (i32) of tiles stands in the sequence.
Value AttentionWriter::positionOf(Value row) {
  row = sequenceRow(row);
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
void AttentionWriter::findRowKeys() {
  llvm::SetVector<Attribute> sets;
  auto add = [&](Attribute set) {
    if (auto keys = dyn_cast_or_null<shed::KeySet>(set);
        keys && !keys.isUniform())
      sets.insert(set);
  };
  kernel.walk([&](Operation *op) {
    if (auto loop = dyn_cast<shed::ForKeysOp>(op))
      add(loop.getOver());
    auto mask = dyn_cast<shed::MaskOp>(op);
    if (!mask)
      return;
    add(mask.getWithinAttr());
    llvm::for_each(mask.getOutside(), add);
  });
  if (!sets.empty() || kernel.comparesRows())
    findRowPositions();
  for (Attribute set : sets)
    rowKeys[set] = rowKeysOf(cast<shed::KeySet>(set));
}

/// Where the warpgroup's rows stand, those behind the last one like it.
void AttentionWriter::findRowPositions() {
  auto type = v.fragment(1, v.i32());
  Value last = lastBefore(taskEnd);
  rowPositions = v.map(type, {}, [&](ValueRange, Value row, Value) {
    Value own = hasBatch() ? v.remainder(row, rowsTogether()) : row;
    return sequenceRow(v.least(v.add(own, firstRow), last));
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

RowKeys AttentionWriter::rowKeysOf(shed::KeySet set) {
  shed::PairArithmetic a = positionArithmetic(v, args);
  auto below = [&](const shed::PositionRange &range) -> KeyRange {
    return {range.begin ? placesBelow(v, positions(), n, range.begin)
                        : v.word(0),
            range.end ? placesBelow(v, positions(), n, range.end) : n};
  };
  RowKeys result;
  Value last = lastBefore(clusterRows.end);
  result.some = below(set.getKeys(
      a, positionOf(v.least(clusterRows.first, last)), positionOf(last)));
  last = lastBefore(taskEnd);
  Value first = positionOf(v.least(firstRow, last)),
        end = positionOf(v.least(v.add(firstRow, rowsTogether() - 1), last));
  result.own = below(set.getKeys(a, first, end));
  if (set.hasGaps())
    return result;
  result.all = below(set.getCommonKeys(a, first, end));
  Type column = rowPositions.getType();
  auto bounds = [&](Value shed::PositionRange::*bound) {
    return countBelow(
        v.map(column, rowPositions, [&](ValueRange element, Value, Value) {
          Value at = set.getKeys(a, element[0], element[0]).*bound;
          return at ? at : v.word(0); // begins at the first key
        }));
  };
  result.first = bounds(&shed::PositionRange::begin);
  result.length =
      v.map(column, {bounds(&shed::PositionRange::end), result.first},
            [&](ValueRange element, Value, Value) {
              return v.sub(element[0], element[1]);
            });
  return result;
}

Value AttentionWriter::mapKeys(
    Type type, ValueRange inputs, const KeyPass &pass, const TileKeys &keys,
    function_ref<Value(ValueRange elements, Value key)> body) {
  // `each`: the key's position; null where the tile has consecutive keys, each
  // at the position of its number.
  auto mapped = [&](Value each) -> Values {
    Values all(inputs);
    if (each)
      all.push_back(each);
    return {v.map(type, all, [&](ValueRange element, Value, Value column) {
      return body(element.take_front(inputs.size()),
                  each ? element.back() : v.add(column, keys.first));
    })};
  };
  return v.choose(
      v.isNull(positions()), type,
      [&] { return mapped(keys.rows ? eachKey(pass, keys) : Value()); },
      [&] {
        Value each = eachKey(pass, keys);
        return mapped(warp::ReadOp::create(v.b, each.getType(), positions(),
                                           each, v.i32()));
      })[0];
}

//===----------------------------------------------------------------------===//
// Masks: only tiles at an edge pay
//===----------------------------------------------------------------------===//

Logits AttentionWriter::mask(shed::MaskOp op, const Logits &logits,
                             const KeyPass &pass, const TileKeys &keys) {
  KeyRange range = rangeOf(pass, keys);
  struct Part {
    shed::KeySet set;
    const RowKeys &rows;
    bool inside;
  };
  SmallVector<Part> parts;
  Value whole;        // all rows have all of these keys, or none has any
  bool never = false; // that can't be told
  auto add = [&](shed::KeySet set, bool inside) {
    const RowKeys &rows = rowKeys.at(set);
    parts.push_back({set, rows, inside});
    if (inside && !rows.all) {
      never = true;
      return;
    }
    Value same =
        inside ? v.both(v.compare(CmpIPredicate::sge, range.first,
                                  rows.all->first),
                        v.compare(CmpIPredicate::sle, range.end, rows.all->end))
               : v.either(
                     v.compare(CmpIPredicate::sle, range.end, rows.some.first),
                     v.compare(CmpIPredicate::sge, range.first, rows.some.end));
    whole = whole ? v.both(whole, same) : same;
  };
  if (std::optional<shed::KeySet> within = op.getWithin())
    add(*within, true);
  for (auto set : op.getOutside().getAsRange<shed::KeySet>())
    add(set, false);

  Type type = logits.fragment.getType();
  Value lowest = v.real(-infinity);
  auto choose = [&](const Part &part, Value keep, Value logit) -> Value {
    return part.inside ? v.select(keep, logit, lowest)
                       : v.select(keep, lowest, logit);
  };
  // Where each row's keys are a range, a key's number says whether it is there.
  auto byRange = [&]() -> Values {
    Values inputs = {logits.fragment};
    for (const Part &part : parts)
      inputs.append({part.rows.first, part.rows.length});
    if (keys.rows)
      inputs.push_back(eachKey(pass, keys));
    return {v.map(type, inputs, [&](ValueRange element, Value, Value column) {
      Value result = element[0];
      for (auto [i, part] : llvm::enumerate(parts)) {
        // One unsigned comparison: keys before are far behind.
        Value first = element[1 + 2 * i];
        Value at = keys.rows ? v.sub(element.back(), first)
                             : v.add(column, v.sub(keys.first, first));
        result =
            choose(part, v.compare(CmpIPredicate::ult, at, element[2 + 2 * i]),
                   result);
      }
      return result;
    })};
  };
  auto byPosition = [&]() -> Values {
    shed::PairArithmetic a = positionArithmetic(v, args);
    return {mapKeys(type, {logits.fragment, rowPositions}, pass, keys,
                    [&](ValueRange element, Value key) {
                      Value result = element[0];
                      for (const Part &part : parts)
                        result = choose(
                            part, part.set.keeps(a, element[1], key), result);
                      return result;
                    })};
  };
  const bool ranges =
      llvm::all_of(parts, [](const Part &part) { return part.rows.all; });
  auto masked = [&] { return ranges ? byRange() : byPosition(); };
  Value result =
      never ? masked()[0]
            : v.choose(
                  whole, type, [&]() -> Values { return {logits.fragment}; },
                  masked)[0];
  // Where its keys are a range, it ends where the block's do, or sooner.
  return {result, logits.factor,
          ranges && op.getWithin() && *op.getWithin() == pass.over};
}

/// Puts `none` where a key lies behind the last one, or is skipped.
Value AttentionWriter::maskEnd(Value all, float none, const KeyPass &pass,
                               const TileKeys &keys) {
  Type type = all.getType();
  Value partial = v.compare(CmpIPredicate::slt, keys.left, keys.columns);
  if (pass.skipped)
    partial =
        v.either(partial, v.compare(CmpIPredicate::slt,
                                    rangeOf(pass, keys).first, pass.skipped));
  return v.choose(
      partial, type,
      [&]() -> Values {
        Values inputs = {all};
        if (pass.skipped && keys.rows)
          inputs.push_back(eachKey(pass, keys));
        Value other = v.real(none);
        return {
            v.map(type, inputs, [&](ValueRange element, Value, Value column) {
              Value keep = v.compare(CmpIPredicate::slt, column, keys.left);
              if (pass.skipped) {
                Value key = keys.rows ? element[1] : v.add(column, keys.first);
                keep = v.both(keep,
                              v.compare(CmpIPredicate::sge, key, pass.skipped));
              }
              return v.select(keep, element[0], other);
            })};
      },
      [&]() -> Values { return {all}; })[0];
}
