//===- ForKeys.cpp - Passes over keys -------------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::vectors;

/// Whether some row at hand has some key of the tile.
static Value keepsSome(KernelBuilder &v, shed::KeySet set, const Keys &keys) {
  auto at = [&](Value place) { return v.narrow(v.positionAt(place)); };
  Value lastRow = v.add(v.add(v.here.row, v.here.rows), -1);
  shed::PairArithmetic a(v.b, v.i32());
  return set.keepsSome(
      a, {at(v.placeOfRow(v.here.row)), a.add(at(v.placeOfRow(lastRow)), 1)},
      {at(v.placeOf(keys, v.constant(0))),
       a.add(at(v.placeOf(keys, v.add(keys.count, -1))), 1)});
}

/// Whether a value has a part for each panel of rows.
static bool isOfRows(Type type) {
  auto tile = dyn_cast<shed::TileType>(type);
  return isa<shed::SoftmaxType, shed::MassType, shed::LseType>(type) ||
         (tile && tile.getRows() == shed::Axis::Queries);
}

/// Writes `body` for each panel of the rows at hand. With few rows, all of them
/// in the first vector, the others are left alone.
static void forPanels(KernelBuilder &v, function_ref<void()> body) {
  const Scope around = v.here;
  auto with = [&](int64_t active) {
    v.here.active = active;
    v.enter();
    body();
  };
  v.forPanels([&](Value panel) {
    v.here.panel = panel;
    if (v.k.vectors == 1)
      return with(1);
    Value left = v.sub(v.here.rows, v.mul(panel, v.k.panel));
    Value few = v.compare(Int::sle, left, v.constant(v.lanes));
    v.either(few, [&] { with(1); }, [&] { with(v.k.vectors); });
  });
  v.here = around;
}

/// The body for a tile of keys. What depends on keys alone is done once for
/// all panels.
static void writeTurn(shed::ForKeysOp loop, const Keys &keys,
                      KernelBuilder &v) {
  Block &body = loop.getBody().front();
  // Stands for the tile until the operations that take it are rewritten.
  const Values values = pack(keys);
  auto tile = UnrealizedConversionCastOp::create(
      v.b, body.getArgument(0).getType(), values);
  IRMapping once;
  once.map(body.getArgument(0), tile.getResult(0));
  once.map(body.getArgument(1), loop.getInit());
  SmallVector<Operation *> ofRows;
  for (Operation &op : body.without_terminator()) {
    if (llvm::any_of(op.getOperandTypes(), isOfRows) ||
        llvm::any_of(op.getResultTypes(), isOfRows))
      ofRows.push_back(&op);
    else
      v.b.clone(op, once);
  }
  forPanels(v, [&] {
    IRMapping mapping = once;
    for (Operation *op : ofRows)
      v.b.clone(*op, mapping);
  });
  v.rewriter.replaceOpWithMultiple(tile, ArrayRef<ValueRange>{values});
}

static Results lowerForKeys(Lowering<shed::ForKeysOp> &v) {
  KeySource source = keySource(v, v.op);
  const bool packs = v.k.tiles && !v.k.selects;
  auto set = dyn_cast<shed::KeySet>(v.op.getOver());
  const bool sparse = set && set.isSparse();
  auto packWhole = [&](const Keys &keys) {
    if (packs)
      packRest(v, keys, v.constant(0));
  };
  if (!sparse)
    packWhole(tileAt(v, source, v.constant(0)));
  v.loop(v.constant(0), source.count, v.k.tiling.getKeys(), [&](Value begin) {
    Keys keys = tileAt(v, source, begin);
    auto turn = [&] {
      // No tile before may have packed one of a sparse set.
      if (sparse)
        packWhole(keys);
      writeTurn(v.op, keys, v);
      if (packs)
        packAheadRest(v, keys);
    };
    if (sparse)
      v.when(keepsSome(v, set, keys), turn);
    else
      turn();
  });
  return {Values(v.in.getInit())};
}

void vectors::populateKeyPatterns(const VectorPatterns &patterns) {
  patterns.add(lowerForKeys);
}
