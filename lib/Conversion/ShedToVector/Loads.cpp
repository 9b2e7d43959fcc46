//===- Loads.cpp - Brings rows of Q, K and V into shape -------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include <limits>

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::vectors;

//===----------------------------------------------------------------------===//
// Query rows
//===----------------------------------------------------------------------===//

/// Transposes the rows at hand to where `queries` is.
static void transposeQueries(KernelBuilder &v, Value queries) {
  const VectorKernel &k = v.k;
  const int64_t lanes = v.lanes, panel = k.panel;
  // Dwords of a row: fp32 elements or pairs of bf16.
  int64_t dwords = k.channels * k.elementBytes / 4;
  Value last = v.add(v.add(v.here.row, v.here.rows), -1);
  Value signs = k.paired ? v.splat(k.querySign) : Value();
  Value scale = k.paired ? Value() : v.splat(k.factor);
  v.forPanels([&](Value p) {
    Value base = v.ofPanel(queries, k.layout.queryPanel, p);
    v.loop(panel, lanes, [&](Value lane) {
      Value first = v.add(v.here.row, v.add(v.mul(p, panel), lane));
      v.loop(dwords, lanes, [&](Value column) {
        Values square;
        for (int64_t r = 0; r < lanes; ++r) {
          Value row = v.least(v.add(first, r), last);
          Value address =
              v.at(v.at(v.here.queryBase, v.mul(row, k.queryStride)),
                   v.mul(column, 4));
          square.push_back(v.load(v.ints(), address, k.elementBytes));
        }
        v.transpose(square);
        int64_t perDword = k.bf16 && !k.paired ? 2 : 1;
        Value to = v.at(
            base, v.add(v.mul(column, perDword * panel * 4), v.mul(lane, 4)));
        for (auto [i, dword] : llvm::enumerate(square)) {
          int64_t at = i * perDword * panel * 4;
          if (k.paired) {
            v.store(v.bitXor(dword, signs), v.at(to, at));
          } else if (k.bf16) {
            v.store(v.mulf(v.lowHalf(dword), scale), v.at(to, at));
            v.store(v.mulf(v.highHalf(dword), scale), v.at(to, at + panel * 4));
          } else {
            v.store(v.mulf(v.bits(v.floats(), dword), scale), v.at(to, at));
          }
        }
      });
    });
  });
}

static Results lowerLoadQueries(Lowering<shed::LoadQueriesOp> &v) {
  Value queries = v.constant(v.k.layout.queries);
  Value positions = v.constant(v.k.layout.positions);
  transposeQueries(v, queries);
  if (v.k.masks) {
    // Rows beyond the last stand where it does.
    Value last = v.add(v.here.rows, -1);
    v.each(v.mul(v.here.panels, v.k.panel), [&](Value r) {
      Value place = v.placeOfRow(v.add(v.here.row, v.least(r, last)));
      v.store(v.narrow(v.positionAt(place)),
              v.at(v.inScratch(positions), v.mul(r, 4)));
    });
  }
  return {pack(QueryTile{queries, positions})};
}

static Results lowerLoadLse(Lowering<shed::LoadLseOp> &v) {
  // Rows beyond the last get +inf, so that their probability is exactly 0.
  auto which = v.op.getSpan() ? &SelectArgs::spanLse : &SelectArgs::lse;
  Value from = v.at(v.field(which),
                    v.mul(v.add(v.mul(v.here.head, v.k.n), v.here.row), 4));
  Value to = v.constant(v.k.layout.lse);
  Value beyond = v.splat(std::numeric_limits<float>::infinity());
  Value end = v.splat(v.narrow(v.here.rows));
  v.loop(v.constant(0), v.mul(v.here.panels, v.k.panel), v.lanes,
         [&](Value lane) {
           Value index = v.add(v.splat(v.narrow(lane)), v.iota());
           Value valid = v.compare(Int::slt, index, end);
           v.store(v.loadMasked(v.at(from, v.mul(lane, 4)), valid, beyond),
                   v.at(v.inScratch(to), v.mul(lane, 4)));
         });
  return {{to}};
}

//===----------------------------------------------------------------------===//
// Keys and values
//===----------------------------------------------------------------------===//

Value vectors::rowAddress(KernelBuilder &v, const KeyTile &tile, Value base,
                          Value j) {
  return v.at(base,
              v.mul(tile.gathers() ? v.placeOf(tile.keys, j) : j, tile.stride));
}

void vectors::fetchAhead(KernelBuilder &v, const KeyTile &tile, Value part,
                         int64_t parts) {
  const VectorKernel &k = v.k;
  const KeySource &source = tile.keys.source;
  int64_t tiles = k.tiling.getFetchAhead(), keys = k.tiling.getKeys();
  if (!tiles || !source.isList())
    return;
  int64_t all = std::max<int64_t>(1, parts * k.tiling.getPanels());
  int64_t share = llvm::divideCeil(keys, all);
  Value first = v.mul(v.add(v.mul(v.here.panel, parts), part), share);
  auto fetch = [&] {
    Value from = v.add(v.add(tile.keys.begin, tiles * keys), first);
    Value last = v.add(source.count, -1);
    for (int64_t key = 0; key < share; ++key) {
      Value at = v.placeOf(source, v.least(v.add(from, key), last));
      for (int64_t c = 0; c < k.channels * k.elementBytes; c += 64)
        v.prefetch(v.at(v.at(tile.memory, v.mul(at, tile.memoryStride)), c),
                   tiles == 1);
    }
  };
  if (share * all <= keys)
    return fetch();
  v.when(v.compare(Int::slt, first, v.constant(keys)), fetch);
}

/// The rows where they lie.
static KeyTile inMemory(KernelBuilder &v, const Keys &keys, Value memory,
                        Value stride) {
  KeyTile tile;
  tile.keys = keys;
  tile.memory = memory;
  tile.memoryStride = tile.stride = stride;
  tile.base = keys.source.isList()
                  ? memory
                  : v.at(memory, v.mul(v.placeOf(keys, v.constant(0)), stride));
  return tile;
}

/// Where a key's row lies; that of the tile's last behind its end.
static Value rowInMemory(KernelBuilder &v, const KeyTile &tile, Value j) {
  Value place = v.placeOf(tile.keys, v.least(j, v.add(tile.keys.count, -1)));
  return v.at(tile.memory, v.mul(place, tile.memoryStride));
}

/// Copies the rows of a tile to scratch, as fp32.
static void packRows(KernelBuilder &v, KeyTile &tile, int64_t offset) {
  const int64_t channels = v.k.channels;
  Value packed = v.inScratch(offset);
  v.each(tile.keys.count, [&](Value j) {
    Value from = rowInMemory(v, tile, j);
    Value to = v.at(packed, v.mul(j, channels * 4));
    auto words = VectorType::get(v.lanes, v.b.getI16Type());
    for (int64_t c = 0; c < channels; c += v.lanes) {
      Value row;
      if (v.k.bf16)
        row = v.lowHalf(arith::ExtUIOp::create(
            v.b, v.ints(), v.load(words, v.at(from, c * 2), 2)));
      else
        row = v.load(v.floats(), v.at(from, c * 4));
      v.store(row, v.at(to, c * 4));
    }
  });
  tile.base = packed;
  tile.stride = v.constant(channels * 4);
}

/// Copies rows to scratch as a dword of two keys' bf16 for each channel:
/// [keys / 2][channels].
static void packPairs(KernelBuilder &v, KeyTile &tile, int64_t offset) {
  const int64_t channels = v.k.channels;
  auto words = VectorType::get(v.lanes, v.b.getI16Type());
  auto widened = [&](Value row, int64_t c) {
    Value word = v.load(words, v.at(row, c * 2), 2);
    return arith::ExtUIOp::create(v.b, v.ints(), word).getResult();
  };
  Value packed = v.inScratch(offset);
  v.loop(v.constant(0), tile.keys.padded, 2, [&](Value j) {
    Value low = rowInMemory(v, tile, j);
    Value high = rowInMemory(v, tile, v.add(j, 1));
    Value to = v.at(packed, v.mul(j, channels * 2));
    for (int64_t c = 0; c < channels; c += v.lanes) {
      Value pair = v.bitOr(
          widened(low, c),
          v.shiftLeft(widened(high, c), v.splat(v.integer(v.i32(), 16))));
      v.store(pair, v.at(to, c * 4));
    }
  });
  tile.base = packed;
  tile.stride = v.constant(channels * 4);
}

static Results lowerLoadKeys(Lowering<shed::LoadKeysOp> &v) {
  const VectorKernel &k = v.k;
  const auto keys = unpack<Keys>(v.in.getKeys());
  KeyTile tile;
  if (!k.tiles) {
    tile = inMemory(v, keys, v.here.keyBase, k.keyStride);
    if (k.tiling.getPackKeys() && !k.paired)
      packRows(v, tile, k.layout.keys);
    return {pack(tile)};
  }
  tile.keys = keys;
  tile.memory = v.here.keyBase;
  tile.memoryStride = k.keyStride;
  tile.base = keys.packedKeys;
  tile.stride = v.constant(k.channels * 2);
  if (!k.selects) // The pass has packed them.
    return {pack(tile)};
  // Scoring alone reads a row of K once a panel: where it lies, unless the
  // tile is short.
  Value isShort = v.compare(Int::ne, keys.count, keys.padded);
  v.when(isShort, [&] { packRest(v, keys, v.constant(0)); });
  Value direct =
      v.at(v.here.keyBase, v.mul(v.placeOf(keys, v.constant(0)), k.keyStride));
  tile.base = v.select(isShort, tile.base, direct);
  tile.stride = v.select(isShort, tile.stride, k.keyStride);
  return {pack(tile)};
}

static Results lowerLoadValues(Lowering<shed::LoadValuesOp> &v) {
  const VectorKernel &k = v.k;
  KeyTile tile = inMemory(v, unpack<Keys>(v.in.getKeys()), v.here.valueBase,
                          k.valueStride);
  switch (k.dot) {
  case shed::DotKind::Fma:
    if (k.tiling.getPackValues())
      packRows(v, tile, k.layout.values);
    break;
  case shed::DotKind::Pairs:
    packPairs(v, tile, k.layout.values);
    break;
  case shed::DotKind::Tiles: // The pass has packed them.
    tile.base = tile.keys.packedValues;
    break;
  }
  return {pack(tile)};
}

void vectors::populateLoadPatterns(const VectorPatterns &patterns) {
  patterns.add(lowerLoadQueries);
  patterns.add(lowerLoadLse);
  patterns.add(lowerLoadKeys);
  patterns.add(lowerLoadValues);
}
