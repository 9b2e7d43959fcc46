//===- Scores.cpp - Functions of logits -----------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionLowering.h"
#include "ThreadScores.h"

#include "heddle/Support/ScoreRegion.h"

using namespace mlir;
using namespace mlir::heddle;
using ::heddle::bundle::Scores;

using Values = NVVMBuilder::Values;

static constexpr float log2e = 1.44269504088896341f;
static constexpr float ln2 = 0.693147180559945309f;

/// The tile's logits, products so far, become what the function makes of them.
void AttentionLowering::score(shed::ScoresOp op, KeyPass &pass,
                              const KeyTile &tile) {
  const Scores scores = scoresOf(op.getBody());
  ThreadScores target(v, exact);
  ScoredPair pair;
  pair.scale = v.mulf(factor, v.real(ln2));
  pair.head = head;
  Values rows, keys;
  if (scores.uses(Scores::Query))
    rows = rowPositions();
  if (scores.uses(Scores::Key))
    keys = keyPositions(pass, tile);
  float factorLeft = 1;
  for (int64_t n = 0; n < keySquares; ++n)
    for (int64_t e = 0; e < 2; ++e)
      for (int64_t m = 0; m < rowSquares; ++m)
        for (int64_t i = e; i < 4; i += 2) {
          pair.product = logit(m, n, i);
          if (!rows.empty())
            pair.query = rows[2 * m + i / 2];
          if (!keys.empty())
            pair.key = keys[2 * n + e];
          ScoredLogit scored = emitScores(target, scores, pair);
          logit(m, n, i) = scored.value;
          factorLeft = scored.factor;
        }
  logitFactor = v.real(factorLeft * log2e);
}
