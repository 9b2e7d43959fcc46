//===- Logits.cpp - What becomes of logits before the softmax -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionFrame.h"
#include "IndexSource.h"
#include "ThreadScores.h"

#include "heddle/Support/ScoreRegion.h"

#include <limits>

using namespace mlir;
using namespace mlir::heddle;
using arith::CmpIPredicate;

using Values = NVVMBuilder::Values;

static constexpr float infinity = std::numeric_limits<float>::infinity();

/// Logits of the padding behind a pass's last key give no weight.
static void maskEnd(NVVMBuilder &v, const AttentionFrame &f, Logits &logits,
                    const KeyTile &tile) {
  Value lowest = v.real(-infinity);
  Value left = v.sub(v.sub(tile.count, tile.rank), f.own.column);
  for (int64_t n = 0; n < f.keySquares; ++n)
    for (int64_t e = 0; e < 2; ++e) {
      Value inside = v.compare(CmpIPredicate::sgt, left, 8 * n + e);
      for (int64_t m = 0; m < f.rowSquares; ++m)
        for (int64_t i = e; i < 4; i += 2)
          logits.at(m, n, i) = v.select(inside, logits.at(m, n, i), lowest);
    }
}

/// Likewise logits of the keys that the filter leaves out.
static void maskFiltered(NVVMBuilder &v, const AttentionFrame &f,
                         Logits &logits, const KeyTile &tile) {
  assert(!f.split && "the filter counts keys from the tile's first on");
  Value lowest = v.real(-infinity),
        filter = v.add(f.shared, f.layout.getFilter());
  KeyFilter marks(v, {}, {}, f.tiling.getKeys());
  for (int64_t n = 0; n < f.keySquares; ++n) {
    Value word =
        v.shiftRight(marks.leftOut(tile.index, n / 4, filter), f.own.column);
    for (int64_t e = 0; e < 2; ++e) {
      Value bit = v.both(word, int64_t(1) << (n % 4 * 8 + e));
      Value inside = v.compare(CmpIPredicate::eq, bit, int64_t(0));
      for (int64_t m = 0; m < f.rowSquares; ++m)
        for (int64_t i = e; i < 4; i += 2)
          logits.at(m, n, i) = v.select(inside, logits.at(m, n, i), lowest);
    }
  }
}

void mlir::heddle::maskMissing(NVVMBuilder &v, const AttentionFrame &f,
                               Logits &logits, const KeyTile &tile) {
  if (tile.is(KeyTile::Marked))
    maskFiltered(v, f, logits, tile);
  else if (tile.is(KeyTile::Partial))
    maskEnd(v, f, logits, tile);
}

Value AttentionFrame::rowInTile(NVVMBuilder &v, int64_t row) const {
  return v.add(v.add(warpRow, v.quotient(own.lane, 4)), 8 * row);
}

Values AttentionFrame::rowPositions(NVVMBuilder &v) const {
  Values positions;
  Value ownPositions = v.add(shared, v.mul(rowInTile(v, 0), 4));
  for (int64_t r = 0; r < 2 * rowSquares; ++r)
    positions.push_back(
        v.loadShared(v.i32(), ownPositions, layout.getPositions() + 8 * r * 4));
  return positions;
}

Values AttentionFrame::keyPositions(NVVMBuilder &v, const KeyTile &tile) const {
  const bool blocks = tile.is(KeyTile::Blocks);
  IndexSource source(v, blocks ? shed::Encoding::Int32 : encoding,
                     tiling.getKeys());
  if (tile.is(KeyTile::Listed))
    source.resume(tile.count, blocks, v.add(shared, layout.getSource()));
  Value rank = v.add(tile.rank, own.column);
  Values keys;
  for (int64_t k = 0; k < keySquares; ++k)
    for (int64_t e = 0; e < 2; ++e) {
      Value key = v.add(rank, 8 * k + e);
      // Ranks behind the pass's last are masked, whatever they compare with.
      keys.push_back(tile.is(KeyTile::Listed)
                         ? source.key(key)
                         : v.least(v.add(tile.first, key), v.add(n, -1)));
    }
  return positionsOf(v, keys);
}

namespace {
/// Leaves of each row the pairs that the masked sets say.
struct LowerMask : FramePattern<shed::MaskOp, AttentionFrame> {
  using FramePattern::FramePattern;
  SmallVector<Values> rewrite(shed::MaskOp op, Adaptor adaptor,
                              PatternBuilder &v) const override {
    auto logits = Logits::of(adaptor.getLogits(), f.keySquares);
    Value lowest = v.real(-infinity);
    Values queries = f.rowPositions(v);
    Values keys = f.keyPositions(v, KeyTile::of(adaptor.getKeys()));
    shed::PairArithmetic a(v.b, v.i32());
    for (int64_t n = 0; n < f.keySquares; ++n)
      for (int64_t e = 0; e < 2; ++e) {
        Value key = keys[2 * n + e];
        for (int64_t m = 0; m < f.rowSquares; ++m)
          for (int64_t i = e; i < 4; i += 2) {
            Value query = queries[2 * m + i / 2];
            Value &result = logits.at(m, n, i);
            if (std::optional<shed::KeySet> within = op.getWithin())
              result = v.select(within->keeps(a, query, key), result, lowest);
            for (auto set : op.getOutside().getAsRange<shed::KeySet>())
              result = v.select(set.keeps(a, query, key), lowest, result);
          }
      }
    return {logits.values()};
  }
};

/// Logits, products so far, become what the function makes of them.
struct LowerScores : FramePattern<shed::ScoresOp, AttentionFrame> {
  using FramePattern::FramePattern;
  SmallVector<Values> rewrite(shed::ScoresOp op, Adaptor adaptor,
                              PatternBuilder &v) const override {
    auto logits = Logits::of(adaptor.getLogits(), f.keySquares);
    LogitFunction function(v, f.exact, scoresOf(op.getBody()), logits.factor,
                           f.head);
    Values rows(2 * f.rowSquares), keys(2 * f.keySquares);
    if (function.asksQuery())
      rows = f.rowPositions(v);
    if (function.asksKey())
      keys = f.keyPositions(v, KeyTile::of(adaptor.getKeys()));
    for (int64_t n = 0; n < f.keySquares; ++n)
      for (int64_t e = 0; e < 2; ++e)
        for (int64_t m = 0; m < f.rowSquares; ++m)
          for (int64_t i = e; i < 4; i += 2)
            function.apply(logits.at(m, n, i), rows[2 * m + i / 2],
                           keys[2 * n + e]);
    logits.factor = function.factor();
    return {logits.values()};
  }
};
} // namespace

void mlir::heddle::populateAttentionLogits(const TypeConverter &converter,
                                           RewritePatternSet &patterns,
                                           const AttentionFrame &frame) {
  patterns.add<LowerMask, LowerScores>(converter, patterns.getContext(), frame);
}
