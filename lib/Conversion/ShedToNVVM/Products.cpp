//===- Products.cpp - Products of fragments -------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionFrame.h"

using namespace mlir;
using namespace mlir::heddle;

using Values = NVVMBuilder::Values;

/// `bytes` is the same for all lanes, so that it stays out of their registers,
/// as do all but the few flipped places.
Values AttentionFrame::loadFragment(NVVMBuilder &v, Value place, Value bytes,
                                    int64_t region, int64_t row, int64_t byte,
                                    bool transpose) const {
  auto [flipped, offset] = swizzle.move(v, place, row, byte);
  return v.loadMatrices(v.add(flipped, bytes), region + offset, transpose);
}

/// The left fragment of queries [16 * m, 16 * m + 16) of the warp and channels
/// [16 * step, 16 * step + 16).
static Values queryFragment(NVVMBuilder &v, const AttentionFrame &f,
                            const QueryTile &queries, int64_t m, int64_t step) {
  if (!queries.fragments.empty()) {
    auto first = queries.fragments.begin() + (m * f.channels / 16 + step) * 4;
    return Values(first, first + 4);
  }
  return f.loadFragment(v, f.own.rowsFirst,
                        v.mul(queries.row, f.swizzle.rowBytes),
                        f.layout.getQueries(), 16 * m, 32 * step, false);
}

/// queries . keys, not yet scaled.
static Logits scoreProduct(NVVMBuilder &v, const AttentionFrame &f,
                           const QueryTile &queries, const KeyTile &keys) {
  const int64_t rows = f.rowSquares, columns = f.keySquares;
  Logits logits{Values(rows * columns * 4, v.real(0.0f)), f.factor, columns};
  for (int64_t step = 0; step < f.channels / 16; ++step) {
    SmallVector<Values> left;
    for (int64_t m = 0; m < rows; ++m)
      left.push_back(queryFragment(v, f, queries, m, step));
    for (int64_t pair = 0; pair < columns / 2; ++pair) {
      Values right =
          f.loadFragment(v, f.own.channelsFirst, keys.stage, f.layout.getKeys(),
                         16 * pair, 32 * step, false);
      for (int64_t m = 0; m < rows; ++m)
        for (int64_t half = 0; half < 2; ++half) {
          Value *sum = &logits.at(m, 2 * pair + half, 0);
          Values product = v.multiply(f.element, left[m],
                                      ValueRange(right).slice(2 * half, 2),
                                      ValueRange(ArrayRef<Value>(sum, 4)));
          llvm::copy(product, sum);
        }
    }
  }
  return logits;
}

void mlir::heddle::addContext(NVVMBuilder &v, const AttentionFrame &f,
                              Softmax &softmax, Logits &weights,
                              const KeyTile &values) {
  if (f.exact)
    return addContextExact(v, f, softmax, weights, values);
  // A thread's weights of 16 keys, once rounded, are a left fragment.
  const int64_t pairs = f.keySquares / 2;
  SmallVector<Values> left(f.rowSquares * pairs);
  for (int64_t m = 0; m < f.rowSquares; ++m)
    for (int64_t pair = 0; pair < pairs; ++pair)
      for (int64_t n : {2 * pair, 2 * pair + 1})
        for (int64_t i = 0; i < 4; i += 2)
          left[m * pairs + pair].push_back(
              v.pack(f.element, weights.at(m, n, i), weights.at(m, n, i + 1)));
  for (int64_t pair = 0; pair < pairs; ++pair)
    for (int64_t n = 0; n < f.channelSquares; n += 2) {
      Values right =
          f.loadFragment(v, f.own.rowsFirst, values.stage, f.layout.getValues(),
                         16 * pair, 16 * n, true);
      for (int64_t m = 0; m < f.rowSquares; ++m)
        for (int64_t half = 0; half < 2; ++half) {
          Value *sums = &softmax.context[(m * f.channelSquares + n + half) * 4];
          Values product = v.multiply(f.element, left[m * pairs + pair],
                                      ValueRange(right).slice(2 * half, 2),
                                      ValueRange(ArrayRef<Value>(sums, 4)));
          llvm::copy(product, sums);
        }
    }
}

namespace {
struct LowerDot : FramePattern<shed::DotOp, AttentionFrame> {
  using FramePattern::FramePattern;
  SmallVector<Values> rewrite(shed::DotOp, Adaptor adaptor,
                              PatternBuilder &v) const override {
    auto queries = QueryTile::of(adaptor.getQueries());
    auto keys = KeyTile::of(adaptor.getKeys());
    return {(f.exact ? scoreProductExact(v, f, queries, keys)
                     : scoreProduct(v, f, queries, keys))
                .values()};
  }
};
} // namespace

void mlir::heddle::populateAttentionProducts(const TypeConverter &converter,
                                             RewritePatternSet &patterns,
                                             const AttentionFrame &frame) {
  patterns.add<LowerDot>(converter, patterns.getContext(), frame);
}
