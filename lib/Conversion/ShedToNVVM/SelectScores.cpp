//===- SelectScores.cpp - Scores of keys ----------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SelectFrame.h"
#include "ThreadScores.h"

#include "bundle/abi/Abi.h"
#include "heddle/Support/ScoreRegion.h"

using namespace mlir;
using namespace mlir::heddle;
namespace abi = ::heddle::abi;

using Values = NVVMBuilder::Values;

Values ScoredKeys::values() const {
  Values all = {tile};
  llvm::append_range(all, fragments);
  return all;
}

KeyLogits KeyLogits::of(ValueRange values) {
  ValueRange floats = values.drop_back(ScoredRows::size);
  return {Values(floats.drop_back()), floats.back(),
          ScoredRows::of(values.take_back(ScoredRows::size))};
}

Values KeyLogits::values() const {
  Values all = elements;
  all.push_back(factor);
  llvm::append_range(all, rows.values());
  return all;
}

Values Mass::values() const {
  Values all = sums;
  all.push_back(row);
  return all;
}

/// K . Q, unscaled: [row square][key square][4 accumulators].
static Values multiply(NVVMBuilder &v, const SelectFrame &f, ValueRange keys,
                       Value row) {
  Values places;
  for (Value place : f.chunkPlaces)
    places.push_back(v.add(v.add(f.shared, v.mul(row, f.rowBytes)), place));
  Values sums(f.rowSquares * f.keySquares * 4, v.real(0.0f));
  for (int64_t step = 0; step < f.channels / 32; ++step)
    for (int64_t r = 0; r < f.rowSquares; ++r) {
      auto [place, offset] = f.chunkAt(places, step);
      Value quad =
          v.loadShared(v.quad(), place,
                       f.layout.getQueries() + offset + r * 8 * f.rowBytes, 16);
      for (int64_t k = 0; k < f.keySquares; ++k) {
        auto *sum = &sums[(r * f.keySquares + k) * 4];
        // Words of rows l / 4 and l / 4 + 8 of the square of keys.
        auto upper = keys.slice((step * f.keySquares + k) * 8, 4);
        auto lower = keys.slice((step * f.keySquares + k) * 8 + 4, 4);
        for (int64_t i = 0; i < 4; i += 2) {
          Values next = v.multiply(
              f.element, {upper[i], lower[i], upper[i + 1], lower[i + 1]},
              {v.extract(quad, i), v.extract(quad, i + 1)},
              ValueRange{sum[0], sum[1], sum[2], sum[3]});
          llvm::copy(next, sum);
        }
      }
    }
  return sums;
}

/// The same for f32, in fp32 and in the order of the channels.
static Values multiplyExact(NVVMBuilder &v, const SelectFrame &f, Value row) {
  Value queryRow = v.add(row, v.mul(v.both(f.lane, 3), 2));
  Value query = v.add(f.shared, v.mul(queryRow, f.rowBytes));
  Value keyRow = v.quotient(f.lane, 4);
  Value key = v.add(f.warpKeys, v.mul(keyRow, f.rowBytes));
  Value flip = v.mul(v.both(keyRow, 1), 64);
  return v.loop(
      v.word(0), hiddenWord(v, f.rowBytes), 16,
      Values(4 * f.keySquares, v.real(0.0f)),
      [&](Value byte, ValueRange carried) {
        Values sums(carried);
        auto floats = VectorType::get(4, v.f32());
        Value queries[2], keyByte = v.flip(byte, flip);
        for (int64_t i = 0; i < 2; ++i)
          queries[i] = v.loadShared(floats, v.add(query, v.flip(byte, 64 * i)),
                                    f.layout.getQueries() + i * f.rowBytes, 16);
        for (int64_t half = 0; half < 2 * f.keySquares; ++half) {
          Value keys = v.loadShared(floats, v.add(key, keyByte),
                                    half * 8 * f.rowBytes, 16);
          for (int64_t i = 0; i < 2; ++i)
            for (int64_t c = 0; c < 4; ++c) {
              Value &sum = sums[2 * half + i];
              sum = v.fma(v.extract(keys, c), v.extract(queries[i], c), sum);
            }
        }
        return sums;
      });
}

/// Where key or row `place` (i32), if there is one, stands in the sequence.
static Value positionOf(NVVMBuilder &v, const SelectFrame &f, Value place) {
  place = v.least(place, v.add(f.n, -1));
  Value positions = f.field(v, v.global(), offsetof(abi::SelectArgs, position));
  return v.choose(
      v.isNull(positions), v.i32(), [&]() -> Values { return {place}; },
      [&]() -> Values {
        return {v.loadConstant(
            v.i32(), v.at(positions, v.mul(v.widenUnsigned(place), 4)), 4)};
      })[0];
}

Values mlir::heddle::multiplyKeys(NVVMBuilder &v, const SelectFrame &f,
                                  ValueRange fragments, Value row) {
  return f.exact ? multiplyExact(v, f, row) : multiply(v, f, fragments, row);
}

namespace {
struct LowerDot : FramePattern<shed::DotOp, SelectFrame> {
  using FramePattern::FramePattern;
  SmallVector<Values> rewrite(shed::DotOp, Adaptor adaptor,
                              PatternBuilder &v) const override {
    auto rows = ScoredRows::of(adaptor.getQueries());
    auto keys = ScoredKeys::of(adaptor.getKeys());
    KeyLogits logits{multiplyKeys(v, f, keys.fragments, rows.row), f.factor,
                     rows};
    return {logits.values()};
  }
};

/// Logits, products so far, become what the function makes of them.
struct LowerScores : FramePattern<shed::ScoresOp, SelectFrame> {
  using FramePattern::FramePattern;
  SmallVector<Values> rewrite(shed::ScoresOp op, Adaptor adaptor,
                              PatternBuilder &v) const override {
    auto logits = KeyLogits::of(adaptor.getLogits());
    LogitFunction function(v, f.exact, scoresOf(op.getBody()), logits.factor,
                           logits.rows.head);
    Values rows(2 * f.rowSquares), keys(2 * f.keySquares);
    if (function.asksQuery()) {
      Value first = v.add(logits.rows.place, v.mul(v.both(f.lane, 3), 2));
      for (int64_t r = 0; r < 2 * f.rowSquares; ++r)
        rows[r] = positionOf(v, f, v.add(first, 8 * (r / 2) + r % 2));
    }
    if (function.asksKey()) {
      Value tile = ScoredKeys::of(adaptor.getKeys()).tile;
      Value first = v.add(v.mul(tile, f.tileKeys), v.quotient(f.lane, 4));
      for (int64_t half = 0; half < 2 * f.keySquares; ++half)
        keys[half] = positionOf(v, f, v.add(first, 8 * half));
    }
    for (int64_t r = 0; r < f.rowSquares; ++r)
      for (int64_t k = 0; k < f.keySquares; ++k)
        for (int64_t i = 0; i < 4; ++i)
          function.apply(logits.elements[(r * f.keySquares + k) * 4 + i],
                         rows[2 * r + i % 2], keys[2 * k + i / 2]);
    logits.factor = function.factor();
    return {logits.values()};
  }
};

/// Adds the probabilities of squares of rows: a sum for rows l / 4 and l / 4 +
/// 8 of each square of keys.
struct LowerColumnMass : FramePattern<shed::ColumnMassOp, SelectFrame> {
  using FramePattern::FramePattern;
  SmallVector<Values> rewrite(shed::ColumnMassOp, Adaptor adaptor,
                              PatternBuilder &v) const override {
    auto mass = Mass::of(adaptor.getMass());
    auto logits = KeyLogits::of(adaptor.getLogits());
    Value row = adaptor.getLse().front();
    Value column = v.add(row, v.mul(v.both(f.lane, 3), 2));
    Value lse = v.add(f.shared, v.mul(column, 4));
    for (int64_t r = 0; r < f.rowSquares; ++r) {
      Value pair = v.loadShared(VectorType::get(2, v.f32()), lse,
                                f.layout.getLse() + r * 32, 8);
      Value negated[] = {v.extract(pair, 0), v.extract(pair, 1)};
      for (int64_t k = 0; k < f.keySquares; ++k)
        for (int64_t i = 0; i < 4; ++i) {
          Value logit = logits.elements[(r * f.keySquares + k) * 4 + i];
          Value &sum = mass.sums[2 * k + i / 2];
          sum =
              v.addf(sum, v.exp2(v.fma(logit, logits.factor, negated[i % 2])));
        }
    }
    return {mass.values()};
  }
};
} // namespace

void mlir::heddle::populateSelectScores(const TypeConverter &converter,
                                        RewritePatternSet &patterns,
                                        const SelectFrame &frame) {
  patterns.add<LowerDot, LowerScores, LowerColumnMass>(
      converter, patterns.getContext(), frame);
}
