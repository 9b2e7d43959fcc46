//===- ShedEvaluator.cpp - Kernels on tiles in float64 --------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ShedEvaluator.h"

#include "heddle/Support/ScoreRegion.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <limits>

using namespace ::heddle;
using namespace ::heddle::test;
using namespace mlir;

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double log2e = 1.4426950408889634;

/// A softmax over some keys: every weight as it is, to be divided in the end.
struct Softmax {
  std::vector<std::pair<double, std::vector<double>>> terms; ///< logit, values
};

/// One row of one query head.
class RowEvaluator {
public:
  RowEvaluator(shed::KernelOp kernel, const Sequence &s,
               const ::heddle::test::Pattern &pattern, int64_t r, int64_t h)
      : kernel(kernel), s(s), pattern(pattern), r(r), h(h) {}

  Softmax run() {
    for (Operation &op : kernel.getBody().front()) {
      if (isa<shed::SoftmaxInitOp>(op))
        softmaxes[op.getResult(0)] = {};
      else if (auto loop = dyn_cast<shed::ForKeysOp>(op))
        softmaxes[loop.getResult()] = evaluate(loop);
      else if (auto store = dyn_cast<shed::StoreOp>(op))
        return softmaxes[store.getState()];
    }
    return {};
  }

private:
  /// Whether a pass visits key j for the row, or for some row of any tile.
  bool visits(Attribute set, int64_t j) const {
    if (auto sinks = dyn_cast<shed::SinksAttr>(set);
        sinks && ShapedType::isDynamic(sinks.getSize()))
      return s.position[j] < pattern.sinksTold(s);
    if (auto keys = dyn_cast<shed::KeySet>(set);
        keys && keys.isUniform() && keys.getTerm())
      return holds(keys, j);
    if (std::optional<shed::KeyEntries> list = shed::entriesOf(set))
      return pattern.lists[list->index].contains(h, s.place[r], j);
    return true;
  }

  /// Whether a set that goes by positions has the row's pair with key j.
  bool holds(shed::KeySet set, int64_t j) const {
    const bundle::Term term = *set.getTerm();
    return bundle::pairsOf({&term, 1}, h, {}, {}, s.position.data())(s.place[r],
                                                                     j);
  }

  Softmax evaluate(shed::ForKeysOp loop) {
    Softmax carried = softmaxes[loop.getInit()];
    for (int64_t j = 0; j < s.n; ++j) {
      if (!visits(loop.getOver(), j) ||
          llvm::any_of(loop.getSkip(),
                       [&](Attribute set) { return visits(set, j); }))
        continue;
      Block &body = loop.getBody().front();
      softmaxes[body.getArgument(1)] = carried;
      for (Operation &op : body)
        evaluate(op, j);
      carried = softmaxes[cast<shed::YieldOp>(body.getTerminator()).getValue()];
    }
    return carried;
  }

  /// Channel c of a tile of keys, whichever it is.
  double channel(Value tile, int64_t j, int64_t c) const {
    return tile.getDefiningOp<shed::LoadKeysOp>()
               ? s.key[j * s.kvStride + h / (s.heads / s.kvHeads) * s.headDim +
                       c]
               : s.v(j, h, c);
  }

  void evaluate(Operation &op, int64_t j) {
    if (auto dot = dyn_cast<shed::DotOp>(op)) {
      double sum = 0;
      for (int64_t c = 0; c < s.headDim; ++c)
        sum += static_cast<double>(
                   s.query[r * s.queryStride + h * s.headDim + c]) *
               channel(dot.getKeys(), j, c);
      logits[dot.getResult()] = sum * s.scale * log2e;
    } else if (auto scores = dyn_cast<shed::ScoresOp>(op)) {
      logits[scores.getResult()] =
          ::heddle::bundle::evaluate(mlir::heddle::scoresOf(scores.getBody()),
                                     logits[scores.getLogits()] / log2e,
                                     s.position[s.place[r]], s.position[j],
                                     static_cast<int32_t>(h)) *
          log2e;
    } else if (auto mask = dyn_cast<shed::MaskOp>(op)) {
      bool keeps = !mask.getWithin() || holds(*mask.getWithin(), j);
      for (auto set : mask.getOutside().getAsRange<shed::KeySet>())
        keeps &= !holds(set, j);
      logits[mask.getResult()] = keeps ? logits[mask.getLogits()] : -infinity;
    } else if (auto update = dyn_cast<shed::SoftmaxUpdateOp>(op)) {
      Softmax next = softmaxes[update.getState()];
      std::vector<double> values;
      for (int64_t c = 0; c < s.headDim; ++c)
        values.push_back(channel(update.getValues(), j, c));
      next.terms.emplace_back(logits[update.getLogits()], values);
      softmaxes[update.getResult()] = next;
    }
  }

  shed::KernelOp kernel;
  const Sequence &s;
  const ::heddle::test::Pattern &pattern;
  const int64_t r, h;
  DenseMap<Value, Softmax> softmaxes;
  DenseMap<Value, double> logits;
};
} // namespace

AttentionResult test::evaluateShed(shed::KernelOp kernel, const Sequence &s,
                                   const ::heddle::test::Pattern &pattern) {
  AttentionResult result;
  result.output.resize(s.rows() * s.heads * s.headDim);
  result.lse.resize(s.heads * s.rows());
  for (int64_t h = 0; h < s.heads; ++h)
    for (int64_t r = 0; r < s.rows(); ++r) {
      Softmax softmax = RowEvaluator(kernel, s, pattern, r, h).run();
      double top = -infinity, sum = 0;
      for (auto &[logit, values] : softmax.terms)
        top = std::max(top, logit);
      std::vector<double> row(s.headDim);
      for (auto &[logit, values] : softmax.terms) {
        if (std::isinf(logit))
          continue;
        const double weight = std::exp2(logit - top);
        sum += weight;
        for (int64_t c = 0; c < s.headDim; ++c)
          row[c] += weight * values[c];
      }
      for (int64_t c = 0; c < s.headDim; ++c)
        result.output[(r * s.heads + h) * s.headDim + c] =
            static_cast<float>(sum > 0 ? row[c] / sum : 0);
      result.lse[h * s.rows() + r] = static_cast<float>(top + std::log2(sum));
    }
  return result;
}
