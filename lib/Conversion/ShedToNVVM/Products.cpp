//===- Products.cpp - Products of fragments -------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionLowering.h"

using namespace mlir;
using namespace mlir::heddle;

using Values = NVVMBuilder::Values;

/// Four matrices of a square of 16 x 16 elements at (row, byte) of the tile at
/// `region` + `bytes`, in the order of `place`. `bytes` is the same for all
/// lanes, so that it stays out of their registers, as do all but the few
/// flipped places.
Values AttentionLowering::loadFragment(Value place, Value bytes, int64_t region,
                                       int64_t row, int64_t byte,
                                       bool transpose) {
  auto [flipped, offset] = swizzle.move(v, place, row, byte);
  return v.loadMatrices(v.add(flipped, bytes), region + offset, transpose);
}

/// The left fragment of queries [16 * m, 16 * m + 16) of the warp and channels
/// [16 * step, 16 * step + 16).
Values AttentionLowering::queryFragment(int64_t m, int64_t step) {
  if (tiling.getKeepQueries()) {
    auto first = queries.begin() + (m * channels / 16 + step) * 4;
    return Values(first, first + 4);
  }
  return loadFragment(own.rowsFirst, warpBytes, layout.queries, 16 * m,
                      32 * step, false);
}

/// logits = queries . keys, not yet scaled.
void AttentionLowering::scoreProduct(const KeyTile &tile) {
  logits.assign(rowSquares * keySquares * 4, v.real(0.0f));
  if (exact)
    return scoreProductExact(tile);
  for (int64_t step = 0; step < channels / 16; ++step) {
    SmallVector<Values> left;
    for (int64_t m = 0; m < rowSquares; ++m)
      left.push_back(queryFragment(m, step));
    for (int64_t pair = 0; pair < keySquares / 2; ++pair) {
      Values right = loadFragment(own.channelsFirst, tile.stage, layout.keys,
                                  16 * pair, 32 * step, false);
      for (int64_t m = 0; m < rowSquares; ++m)
        for (int64_t half = 0; half < 2; ++half) {
          Value *sum = &logit(m, 2 * pair + half, 0);
          Values product =
              v.multiply(element, left[m], ValueRange(right).slice(2 * half, 2),
                         ValueRange(ArrayRef<Value>(sum, 4)));
          llvm::copy(product, sum);
        }
    }
  }
}

/// context += weights . values; the weights are in `logits`.
void AttentionLowering::contextProduct(const KeyTile &tile) {
  if (exact)
    return contextProductExact(tile);
  // A thread's weights of 16 keys, once rounded, are a left fragment.
  SmallVector<Values> left(rowSquares * keySquares / 2);
  for (int64_t m = 0; m < rowSquares; ++m)
    for (int64_t pair = 0; pair < keySquares / 2; ++pair)
      for (int64_t n : {2 * pair, 2 * pair + 1})
        for (int64_t i = 0; i < 4; i += 2)
          left[m * keySquares / 2 + pair].push_back(
              v.pack(element, logit(m, n, i), logit(m, n, i + 1)));
  for (int64_t pair = 0; pair < keySquares / 2; ++pair)
    for (int64_t n = 0; n < channelSquares; n += 2) {
      Values right = loadFragment(own.rowsFirst, tile.stage, layout.values,
                                  16 * pair, 16 * n, true);
      for (int64_t m = 0; m < rowSquares; ++m)
        for (int64_t half = 0; half < 2; ++half) {
          Value *sums = &out(m, n + half, 0);
          Values product = v.multiply(element, left[m * keySquares / 2 + pair],
                                      ValueRange(right).slice(2 * half, 2),
                                      ValueRange(ArrayRef<Value>(sums, 4)));
          llvm::copy(product, sums);
        }
    }
}
