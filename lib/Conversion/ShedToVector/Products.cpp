//===- Products.cpp - The two matrix products of attention ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Register blocks: `block_keys` (or `block_channels`) rows times `vectors`
// vectors of sums stay in registers over the whole inner loop.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::vectors;

static Value multiply(KernelBuilder &v, Value broadcast, Value lanes,
                      Value sum) {
  if (!v.k.paired)
    return v.fma(broadcast, lanes, sum);
  auto halves = VectorType::get(2 * v.lanes, v.b.getBF16Type());
  auto asHalves = [&](Value x) {
    return vector::BitCastOp::create(v.b, halves, x).getResult();
  };
  return v.call(v.lanes == 16 ? "llvm.x86.avx512bf16.dpbf16ps.512"
                              : "llvm.x86.avx512bf16.dpbf16ps.256",
                v.floats(), {sum, asHalves(broadcast), asHalves(lanes)});
}

/// logits[j][i] = sum_k K[j][k] * queries[k][i] for the keys of the tile.
static void scoreProduct(KernelBuilder &v, const QueryTile &rows,
                         const KeyTile &tile, Value logits) {
  const VectorKernel &k = v.k;
  int64_t block = k.tiling.getBlockKeys();
  Value queries = v.ofPanel(rows.queries, k.layout.queryPanel);
  Type scalar = k.paired ? v.i32() : v.f32();
  Type lanes = k.paired ? v.ints() : v.floats();
  unsigned alignment = k.paired ? 2 : 4;
  Value last = v.add(tile.keys.count, -1);
  v.loop(v.constant(0), tile.keys.count, block, [&](Value j) {
    fetchAhead(v, tile, v.quotient(j, block), k.tiling.getKeys() / block);
    Values keyRows;
    for (int64_t r = 0; r < block; ++r)
      keyRows.push_back(
          rowAddress(v, tile, tile.base, v.least(v.add(j, r), last)));
    Values zero(block * v.here.active, v.splat(0.0f));
    constexpr int64_t unroll = 4;
    Values sums =
        v.loop(v.constant(0), v.constant(k.steps), unroll, zero,
               [&](Value step, ValueRange carried) {
                 Values next(carried);
                 Value column = v.mul(step, 4);
                 Value queryRow = v.at(queries, v.mul(step, k.panel * 4));
                 Values from;
                 for (Value row : keyRows)
                   from.push_back(v.at(row, column));
                 for (int64_t u = 0; u < unroll; ++u) {
                   Values query;
                   for (int64_t i = 0; i < v.here.active; ++i)
                     query.push_back(
                         v.loadLane(v.at(queryRow, u * k.panel * 4), i, lanes));
                   for (int64_t r = 0; r < block; ++r) {
                     Value key = v.splat(
                         v.load(scalar, v.at(from[r], u * 4), alignment));
                     for (int64_t i = 0; i < v.here.active; ++i) {
                       Value &sum = next[r * v.here.active + i];
                       sum = multiply(v, key, query[i], sum);
                     }
                   }
                 }
                 return next;
               });
    Value to = v.logitsRow(logits, j);
    for (int64_t r = 0; r < block; ++r)
      for (int64_t i = 0; i < v.here.active; ++i)
        v.storeLane(sums[r * v.here.active + i], v.at(to, r * k.panel * 4), i);
  });
}

/// context[c][i] += sum_j V[j][c] * P[j][i].
static void contextProduct(KernelBuilder &v, Value context,
                           const LogitTile &logits, const KeyTile &tile) {
  const VectorKernel &k = v.k;
  int64_t block = k.tiling.getBlockChannels();
  Value weights = k.paired ? v.inScratch(k.layout.weights) : logits.base;
  Value count = k.paired ? v.quotient(logits.padded, 2) : logits.count;
  Type scalar = k.paired ? v.i32() : v.f32();
  Type lanes = k.paired ? v.ints() : v.floats();
  v.loop(k.channels, block, [&](Value channel) {
    fetchAhead(v, tile, v.quotient(channel, block), k.channels / block);
    Value to = v.at(context, v.mul(channel, k.panel * 4));
    Value values = v.at(tile.base, v.mul(channel, 4));
    Values sums;
    for (int64_t r = 0; r < block; ++r)
      for (int64_t i = 0; i < v.here.active; ++i)
        sums.push_back(v.loadLane(v.at(to, r * k.panel * 4), i));
    sums =
        v.loop(v.constant(0), count, 1, sums, [&](Value j, ValueRange carried) {
          Values next(carried);
          Value from = rowAddress(v, tile, values, j);
          Value weightRow = v.at(weights, v.mul(j, k.panel * 4));
          Values weight;
          for (int64_t i = 0; i < v.here.active; ++i)
            weight.push_back(v.loadLane(weightRow, i, lanes));
          for (int64_t r = 0; r < block; ++r) {
            Value value = v.splat(v.load(scalar, v.at(from, r * 4)));
            for (int64_t i = 0; i < v.here.active; ++i) {
              Value &sum = next[r * v.here.active + i];
              sum = multiply(v, value, weight[i], sum);
            }
          }
          return next;
        });
    for (int64_t r = 0; r < block; ++r)
      for (int64_t i = 0; i < v.here.active; ++i)
        v.storeLane(sums[r * v.here.active + i], v.at(to, r * k.panel * 4), i);
  });
}

//===----------------------------------------------------------------------===//
// Matrix tiles
//===----------------------------------------------------------------------===//

// A tile is 16 rows of 64 bytes: left operands 16 x 32 bf16, right operands 32
// x 16 as 16 rows of pairs, sums 16 x 16 fp32. Blocks of 2 x 2 sums use all
// eight tile registers.

namespace {
struct MatrixTiles {
  VectorBuilder &v;

  Value i16(int64_t value) { return v.integer(v.b.getI16Type(), value); }
  Type type() { return LLVM::LLVMX86AMXType::get(v.b.getContext()); }
  Value zero() {
    return v.call("llvm.x86.tilezero.internal", type(), {i16(16), i16(64)});
  }
  Value load(Value from, Value stride) {
    return v.call("llvm.x86.tileloadd64.internal", type(),
                  {i16(16), i16(64), from, stride});
  }
  void store(Value tile, Value to, Value stride) {
    v.callVoid("llvm.x86.tilestored64.internal",
               {i16(16), i16(64), to, stride, tile});
  }
  Value multiply(Value sum, Value left, Value right) {
    return v.call("llvm.x86.tdpbf16ps.internal", type(),
                  {i16(16), i16(64), i16(64), sum, left, right});
  }
  /// sums[rows][columns] += left rows x right columns.
  void step(SmallVectorImpl<Value> &sums, int64_t columns,
            function_ref<Value(int64_t)> left,
            function_ref<Value(int64_t)> right) {
    SmallVector<Value> rights(columns);
    for (int64_t r = 0, rows = sums.size() / columns; r < rows; ++r) {
      Value a = left(r);
      for (int64_t c = 0; c < columns; ++c) {
        if (!rights[c])
          rights[c] = right(c);
        Value &sum = sums[r * columns + c];
        sum = multiply(sum, a, rights[c]);
      }
    }
  }
};
} // namespace

static void scoreProductTiles(KernelBuilder &v, const QueryTile &rows,
                              const KeyTile &tile, Value logits) {
  const VectorKernel &k = v.k;
  MatrixTiles tiles{v};
  int64_t columns = v.here.active;
  Value queries = v.ofPanel(rows.queries, k.layout.queryPanel);
  Value rowStride = v.constant(k.panel * 4);
  v.loop(v.constant(0), tile.keys.padded, 32, [&](Value j) {
    fetchAhead(v, tile, v.quotient(j, 32), k.tiling.getKeys() / 32);
    Value keys = v.at(tile.base, v.mul(j, tile.stride));
    Values left = {keys, v.at(keys, v.mul(tile.stride, 16))};
    for (int64_t first = 0; first < columns; first += 2) {
      int64_t width = std::min<int64_t>(2, columns - first);
      Values sums;
      for (int64_t i = 0; i < 2 * width; ++i)
        sums.push_back(tiles.zero());
      for (int64_t step = 0; step < k.channels / 32; ++step)
        tiles.step(
            sums, width,
            [&](int64_t r) {
              return tiles.load(v.at(left[r], step * 64), tile.stride);
            },
            [&](int64_t c) {
              return tiles.load(
                  v.at(queries, step * 16 * k.panel * 4 + (first + c) * 64),
                  rowStride);
            });
      Value to = v.logitsRow(logits, j);
      for (int64_t r = 0; r < 2; ++r)
        for (int64_t c = 0; c < width; ++c)
          tiles.store(sums[r * width + c],
                      v.at(to, r * 16 * k.panel * 4 + (first + c) * 64),
                      rowStride);
    }
  });
}

/// context[i][c] += sum_j P[i][j] * V[j][c]: the weights are the left operand,
/// so that V needs no transposition.
static void contextProductTiles(KernelBuilder &v, Value context,
                                const LogitTile &logits, const KeyTile &tile) {
  const VectorKernel &k = v.k;
  MatrixTiles tiles{v};
  Value weights = v.inScratch(k.layout.weights);
  Value rowStride = v.constant(k.channels * 4), tileStride = v.constant(64);
  int64_t blocks = k.tiling.getKeys() / 32;
  v.loop(k.channels, 32, [&](Value channel) {
    Value values = v.at(tile.base, v.mul(channel, 64));
    Value to = v.at(context, v.mul(channel, 4));
    for (int64_t first = 0; first < v.here.active; first += 2) {
      int64_t height = std::min<int64_t>(2, v.here.active - first);
      auto place = [&](int64_t r, int64_t c) {
        return v.at(to, (first + r) * 16 * k.channels * 4 + c * 64);
      };
      Values sums;
      for (int64_t r = 0; r < height; ++r)
        for (int64_t c = 0; c < 2; ++c)
          sums.push_back(tiles.load(place(r, c), rowStride));
      sums = v.loop(
          v.constant(0), logits.padded, 32, sums,
          [&](Value j, ValueRange carried) {
            Values next(carried);
            Value part = v.add(v.mul(v.quotient(channel, 32), blocks),
                               v.quotient(j, 32));
            fetchAhead(v, tile, part, k.channels / 32 * blocks);
            Value left = v.at(weights, v.mul(j, k.panel * 2));
            Value right = v.at(values, v.mul(j, k.channels * 2));
            tiles.step(
                next, 2,
                [&](int64_t r) {
                  return tiles.load(v.at(left, (first + r) * 1024), tileStride);
                },
                [&](int64_t c) {
                  return tiles.load(v.at(right, c * 1024), tileStride);
                });
            return next;
          });
      for (int64_t r = 0; r < height; ++r)
        for (int64_t c = 0; c < 2; ++c)
          tiles.store(sums[r * 2 + c], place(r, c), rowStride);
    }
  });
}

void vectors::addToContext(KernelBuilder &v, Value context,
                           const LogitTile &logits, const KeyTile &tile) {
  Value part = v.ofPanel(context, v.k.layout.contextPanel);
  (v.k.tiles ? contextProductTiles : contextProduct)(v, part, logits, tile);
}

static Results lowerDot(Lowering<shed::DotOp> &v) {
  const auto queries = unpack<QueryTile>(v.in.getQueries());
  const auto keys = unpack<KeyTile>(v.in.getKeys());
  LogitTile logits;
  logits.base = v.inScratch(v.k.layout.logits);
  logits.positions = queries.positions;
  logits.count = keys.keys.count;
  logits.padded = keys.keys.padded;
  logits.scale = v.k.paired ? v.k.factor : v.real(1.0f);
  logits.infinite = v.integer(v.b.getI1Type(), 0);
  (v.k.tiles ? scoreProductTiles : scoreProduct)(v, queries, keys, logits.base);
  return {pack(logits)};
}

void vectors::populateProductPatterns(const VectorPatterns &patterns) {
  patterns.add(lowerDot);
}
