//===- KeyPasses.cpp - Passes over keys, and their tiles ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionTask.h"

#include "bundle/abi/Abi.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::heddle;
using arith::CmpIPredicate;
namespace abi = ::heddle::abi;

using Values = NVVMBuilder::Values;

//===----------------------------------------------------------------------===//
// Keys of a tile
//===----------------------------------------------------------------------===//

TileKeys::TileKeys(ValueRange operand, int64_t columns) : columns(columns) {
  operand = operand.take_back(values);
  first = operand[0];
  left = operand[1];
  end = operand[2];
  skipped = operand[3];
  list = operand[4];
  count = operand[5];
}

bool TileKeys::isListed() const { return !list.getDefiningOp<LLVM::ZeroOp>(); }

bool TileKeys::skips() const { return !matchPattern(skipped, m_Zero()); }

TileKeys TileKeys::part(WarpBuilder &v, int64_t begin, int64_t width) const {
  TileKeys some = *this;
  some.first = v.add(first, begin);
  some.left = v.add(left, -begin);
  some.columns = width;
  some.from = from + begin;
  return some;
}

/// How an entry of the kernel's lists of keys is written.
static Type entryType(WarpBuilder &v, const AttentionTask &t) {
  return t.encoding == shed::Encoding::Uint16 ? v.i16() : v.i32();
}

KeyRange mlir::heddle::rangeOf(WarpBuilder &v, const AttentionTask &t,
                               const TileKeys &keys) {
  if (!keys.isListed())
    return {keys.first, v.add(keys.first, keys.columns)};
  // Lists ascend. Of a part there may be none of them left.
  KeyList list;
  list.encoding = t.encoding;
  list.base = keys.list;
  Value end = v.add(keys.count, -1);
  Value last = v.least(v.add(keys.first, keys.columns - 1), end);
  return {entryOf(v, list, keys.from ? v.least(keys.first, end) : keys.first),
          v.add(entryOf(v, list, last), 1)};
}

Value mlir::heddle::eachKey(WarpBuilder &v, const AttentionTask &t,
                            const TileKeys &keys) {
  auto type = v.fragment(keys.columns, v.i32());
  Value last = v.add(keys.count, -1);
  Value each = v.map(type, {}, [&](ValueRange, Value, Value column) {
    return v.least(v.add(column, keys.first), last);
  });
  if (!keys.isListed())
    return each;
  return warp::ReadOp::create(v.b, type, keys.list, each, entryType(v, t));
}

//===----------------------------------------------------------------------===//
// Passes
//===----------------------------------------------------------------------===//

namespace {
/// A pass over keys, tile by tile.
struct KeyPass {
  Value tiles;                 ///< i32
  Value count;                 ///< i32: keys, or of a list all of its entries
  Value first;                 ///< i32: of a range that need not begin at 0
  Value end;                   ///< i32: behind all of its keys
  std::optional<KeyList> list; ///< of keys or of blocks
  Value skipped;               ///< i32: keys of a list before it do not count
  Value before;                ///< i32: of a tail, the list's keys before it
};

} // namespace

static KeyPass passOf(WarpBuilder &v, const AttentionTask &t,
                      shed::ForKeysOp op) {
  const int64_t keys = t.tileKeys;
  auto over = cast<shed::KeySet>(op.getOver());
  KeyPass pass;
  pass.end = t.n;
  auto skip = llvm::to_vector(op.getSkip().getAsRange<shed::KeySet>());
  if (!skip.empty())
    pass.skipped = endOf(v, skip, t.args, t.positions(v), t.n);
  if (std::optional<shed::KeyEntries> entries = over.getEntries()) {
    size_t entry = offsetof(abi::AttentionArgs, lists) +
                   entries->index * sizeof(abi::IndexList);
    pass.list = loadKeyList(v, t.encoding, entries->blockKeys,
                            v.at(t.args, static_cast<int64_t>(entry)),
                            t.listRow, v.quotient(t.tileStart, entries->group));
    pass.count = pass.list->keep;
    if (pass.list->blockKeys) {
      pass.tiles = v.mul(pass.count, pass.list->blockKeys / keys);
      return pass;
    }
  } else if (isa<shed::AllAttr>(over) && !pass.skipped) {
    pass.count = t.n;
  } else {
    pass.first = v.word(0);
    if (!over.isUniform()) {
      const KeyRange &some = t.rowKeys.at(over).some;
      pass.first = some.first;
      pass.end = some.end;
    } else if (!isa<shed::AllAttr>(over)) {
      pass.end = endOf(v, over, t.args, t.positions(v), t.n);
    }
    if (pass.skipped)
      pass.first = v.greatest(pass.first, pass.skipped);
    if (!over.isUniform() && t.hasShortTiles()) {
      // Where tiles of keys begin is not to follow from which rows share a
      // tile.
      Value from = pass.skipped ? pass.skipped : v.word(0);
      pass.first =
          v.add(from, v.mul(v.quotient(v.sub(pass.first, from), keys), keys));
    }
    pass.skipped = {};
    pass.count = v.greatest(v.sub(pass.end, pass.first), v.word(0));
  }
  Value left = pass.count;
  if (t.hasWholeTiles()) {
    pass.tiles = v.quotient(left, keys);
    return pass;
  }
  if (t.isTail) {
    const int64_t whole = t.tiling.getKeys();
    pass.before = v.mul(v.quotient(left, whole), whole);
    left = v.sub(left, pass.before);
  }
  pass.tiles = v.quotient(v.add(left, keys - 1), keys);
  return pass;
}

/// A tile has the next keys in order, the next ones of a list of keys, or a
/// part of a block. Source of the last: bundle/abi/Abi.h, IndexList.
static TileKeys keysOf(WarpBuilder &v, const AttentionTask &t,
                       const KeyPass &pass, Value tile) {
  const int64_t keys = t.tileKeys;
  Value skipped = pass.skipped ? pass.skipped : v.word(0);
  if (!pass.list || !pass.list->blockKeys) {
    Value rank = v.mul(tile, keys);
    if (pass.before)
      rank = v.add(rank, pass.before);
    Value left = v.sub(pass.count, rank);
    if (pass.list)
      return {rank, left, pass.end, skipped, pass.list->base, pass.count, keys};
    Value first = pass.first ? v.add(pass.first, rank) : rank;
    return {first, left, pass.end, skipped, v.null(), t.n, keys};
  }
  const int64_t parts = pass.list->blockKeys / keys;
  Value block = entryOf(v, *pass.list, v.quotient(tile, parts));
  Value gone = v.compare(CmpIPredicate::slt, block, int64_t(0));
  KeyRange range = keysOfBlock(v, v.greatest(block, v.word(0)), t.n,
                               pass.list->split, pass.list->blockKeys);
  Value first = v.add(range.first, v.mul(v.remainder(tile, parts), keys));
  Value end = v.select(gone, v.word(0), range.end);
  return {first, v.sub(end, first), end, skipped, v.null(), t.n, keys};
}

/// The loop over a pass's tiles. What loads keys and values goes before all
/// else of a tile, which warpgroups without rows for it leave out.
static Results lowerForKeys(RewriteBuilder &v, const AttentionTask &t,
                            shed::ForKeysOp op, ValueRange init) {
  auto over = cast<shed::KeySet>(op.getOver());
  KeyPass pass = passOf(v, t, op);
  if (t.hasRows)
    pass.tiles = v.select(t.hasRows, pass.tiles, v.word(0));
  Value first;
  if (t.share) {
    // Shares differ by a tile at most.
    auto bound = [&](Value number) {
      return v.quotient(v.mul(pass.tiles, number), t.tiling.getKeyShares());
    };
    first = bound(t.share);
    pass.tiles = v.sub(bound(v.add(t.share, 1)), first);
  }
  auto loop = scf::ForOp::create(v.b, v.word(0), pass.tiles, v.word(1), init);
  v.b.setInsertionPointToEnd(loop.getBody());
  Value tile = loop.getInductionVar();
  TileKeys keys = keysOf(v, t, pass, first ? v.add(tile, first) : tile);
  Block &body = op.getBody().front();
  ValueRange carried = loop.getRegionIterArgs();
  v.rewriter.replaceAllUsesWith(body.getArgument(0), keys.get());
  v.rewriter.replaceAllUsesWith(body.getArgument(1), carried);
  v.take(body, [](Operation &each) {
    return isa<shed::LoadKeysOp, shed::LoadValuesOp>(each);
  });
  if (!over.isUniform() && t.taskRows != t.rowsTogether()) {
    // The block's tiles are those of all of its warpgroups' rows.
    const KeyRange &own = t.rowKeys.at(over).own;
    Value end = v.add(keys.first, keys.columns);
    Value some = v.both(v.compare(CmpIPredicate::slt, keys.first, own.end),
                        v.compare(CmpIPredicate::sgt, end, own.first));
    auto branch = scf::IfOp::create(v.b, carried.getTypes(), some,
                                    /*withElseRegion=*/true);
    scf::YieldOp::create(v.b, branch.getResults());
    v.b.setInsertionPointToEnd(branch.elseBlock());
    scf::YieldOp::create(v.b, carried);
    v.b.setInsertionPointToEnd(branch.thenBlock());
  }
  v.take(body);
  return {loop.getResults()};
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// A tile of keys or values, and which keys these are.
static Results loadKeys(RewriteBuilder &v, const AttentionTask &t,
                        ValueRange operand, Value base, Value stride,
                        Value map) {
  const TileKeys keys(operand, t.tileKeys);
  Value rows, first = keys.first;
  if (keys.isListed()) {
    // A list is read once for a tile's keys and its values.
    for (Operation *user : keys.first.getUsers())
      if (auto read = dyn_cast<warp::ReadRowsOp>(user))
        rows = read;
    if (!rows)
      rows = warp::ReadRowsOp::create(
          v.b, warp::RowsType::get(v.b.getContext(), keys.columns), keys.list,
          keys.first, keys.count, entryType(v, t));
    first = v.word(0);
    map = {};
  }
  Values result = {v.load(t.tile(keys.columns), base, first, stride, keys.end,
                          rows, map, map ? t.kvColumn : Value())};
  result.append(keys.get());
  return {result};
}

void mlir::heddle::populateKeyPatterns(WarpPatterns patterns,
                                       const AttentionTask &t) {
  // A warpgroup loads its own, or the producer brings those of all.
  patterns.add<shed::LoadQueriesOp>([&](RewriteBuilder &v, auto, auto) {
    Value tile = warp::LoadOp::create(
        v.b, t.tile(t.queryRows), t.queryBase,
        t.isPersistent() ? t.taskRow : t.firstRow, t.queryStride, t.taskEnd,
        Value(), t.queryMap, t.queryMap ? v.mul(t.head, t.channels) : Value(),
        IntegerAttr(), t.batch, t.batchStride(v.constant(t.channels * 2)),
        t.batchRows(v), t.inTurns(v));
    warp::NegateOp::create(v.b, tile, t.queryFrom, t.negative);
    return Results{{tile}};
  });
  patterns.add<shed::ForKeysOp>([&](RewriteBuilder &v, auto op, auto in) {
    return lowerForKeys(v, t, op, in.getInit());
  });
  patterns.add<shed::YieldOp>([&](RewriteBuilder &v, auto, auto in) {
    scf::YieldOp::create(v.b, in.getValue());
    return Results();
  });
  patterns.add<shed::LoadKeysOp>([&](RewriteBuilder &v, auto, auto in) {
    return loadKeys(v, t, in.getKeys(), t.keyBase, t.keyStride, t.keyMap);
  });
  patterns.add<shed::LoadValuesOp>([&](RewriteBuilder &v, auto, auto in) {
    return loadKeys(v, t, in.getKeys(), t.valueBase, t.valueStride, t.valueMap);
  });
}
