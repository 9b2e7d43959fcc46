//===- Reference.h - What the kernels must compute --------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The definitions of attention, log-sum-exp, scores and selections, written as
// the formulas read: float64, one loop a sum, no blocking. Every kernel and
// fast path is compared with these, never only with another fast path.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_REFERENCE_REFERENCE_H
#define HEDDLE_RUNTIME_REFERENCE_REFERENCE_H

#include "bundle/abi/Abi.h"
#include "bundle/abi/IndexLayout.h"
#include "bundle/program/Manifest.h"
#include "bundle/program/PairSets.h"
#include "bundle/program/Scores.h"
#include "runtime/tensor/DType.h"

#include <cstdint>
#include <span>
#include <vector>

namespace heddle::rt::reference {

/// Element `index` of an array of `dtype`, exactly.
double load(const void *array, int64_t index, DType dtype);

/// Rounds `value` to `dtype` (nearest even, by way of fp32) and stores it.
void store(void *array, int64_t index, DType dtype, double value);

/// Logits that stay as they are.
const bundle::Scores &noScores();

/// One query head of one sequence with its key/value head. Rows as the ABI
/// lays them out: element e of row i is at [i * stride + e].
struct Head {
  const void *query = nullptr; ///< [rows x headDim]
  const void *key = nullptr;   ///< [n x headDim]
  const void *value = nullptr; ///< [n x headDim]
  int64_t queryStride = 0;
  int64_t keyStride = 0;
  int64_t valueStride = 0;
  int64_t n = 0;
  int64_t headDim = 0;
  double scale = 1;
  DType dtype = DType::F32;
  const int32_t *place = nullptr;    ///< of each row; null: row r is at place r
  const int32_t *position = nullptr; ///< of each key; null: key j is at j
  int64_t index = 0;                 ///< which query head it is
  const bundle::Scores *scores = nullptr; ///< what becomes of logits, or null

  int64_t placeOf(int64_t row) const { return place ? place[row] : row; }
  int32_t positionOf(int64_t at) const {
    return position ? position[at] : static_cast<int32_t>(at);
  }
};

/// Head `head` of the sequence that `args` describes, whose logits become what
/// `scores` says. That is referred to, not copied.
Head headOf(const abi::AttentionArgs &args, int64_t head, int64_t headDim,
            DType dtype, const bundle::Scores &scores = noScores());

/// The same for scoring, without values.
Head headOf(const abi::SelectArgs &args, int64_t head, int64_t headDim,
            DType dtype, const bundle::Scores &scores = noScores());

using bundle::blockOf;
using bundle::PairPredicate;
using bundle::pairsOf;

struct RowResult {
  std::vector<double> output; ///< [headDim]
  double lse = 0;             ///< log2(sum_j exp2(s_j)), see abi::AttentionArgs
  int64_t pairs = 0;          ///< keys attended to
};

/// Attention of one row over the keys that `keeps` admits. A row without keys
/// has output 0 and log-sum-exp minus infinity.
RowResult attendRow(const Head &head, int64_t row, const PairPredicate &keeps);

/// score_j = mean over rows i in [begin, end) of exp2(s_ij - lse_i), for all n
/// keys. `lse` [n] of the head.
/// Source: PulseCol, equation 5.
std::vector<double> meanProbability(const Head &head, int64_t begin,
                                    int64_t end, std::span<const float> lse);

/// score_j = mean over rows i in [begin, end) of scale * q_i . k_j, for all n
/// keys: what pooled queries make of them.
std::vector<double> meanLogit(const Head &head, int64_t begin, int64_t end);

/// The scores of one list of a select kernel: the mean over the query heads
/// that share it of meanProbability with `lse` [query_heads x n], which is
/// args.lse or args.spanLse.
std::vector<double> listScores(const abi::SelectArgs &args, int64_t list,
                               int64_t begin, int64_t end, const float *lse,
                               int64_t headDim, DType dtype,
                               const bundle::Scores &scores = noScores());

/// The same by the scorer of `kernel`, of its keys or blocks (`padded` as
/// blockMeans() has it), without negative ones: of mean logits the least one is
/// taken away.
std::vector<double> scoresOfList(const abi::SelectArgs &args,
                                 const bundle::Kernel &kernel, int64_t list,
                                 int64_t begin, int64_t end, const float *lse,
                                 int64_t headDim, DType dtype,
                                 bool padded = false);

/// The scores that keys are chosen by, see abi::SelectArgs: of those that are
/// always listed infinity, of the others the largest of `pooled` neighbors' (0:
/// their own).
/// Source: Sparse-dLLM, released code.
std::vector<double> chosenBy(const abi::SelectArgs &args,
                             std::span<const double> scores, int64_t pooled);

/// Of one list of a kernel that chooses within another selection, whose lists
/// of keys are in `encoding`: what is left of the scores `by` that keys are
/// chosen by.
std::vector<double>
chosenWithin(const abi::SelectArgs &args, const bundle::Kernel &kernel,
             int64_t list, int64_t group, std::vector<double> by,
             bundle::Encoding encoding = bundle::Encoding::Int32);

/// The mean score of each block's keys, scores.size() of them. `padded`: a
/// short block counts as one of `size` keys, of which the missing score 0.
/// Source: SparseD, released code, which pads.
std::vector<double> blockMeans(std::span<const double> scores, int64_t size,
                               int64_t split, bool padded);

/// The `count` largest scores' indices, ascending; among equal scores the
/// lowest index wins. `count` in [0, scores.size()]; no NaN.
/// Source: PulseCol, equation 6; the tie rule is Heddle's.
std::vector<int32_t> largest(std::span<const double> scores, int64_t count);
std::vector<int32_t> largest(std::span<const float> scores, int64_t count);

/// The blocks of one list as abi::SelectArgs defines them, from the scores of
/// all blocks and, where there is a spanLse, those by it of the blocks from
/// `boundary` on (else none): ascending, then -1 up to list.keep entries.
std::vector<int32_t> chosenBlocks(const abi::SelectArgs &args,
                                  std::span<const double> scores,
                                  std::span<const double> spanScores);
std::vector<int32_t> chosenBlocks(const abi::SelectArgs &args,
                                  std::span<const float> scores,
                                  std::span<const float> spanScores);

} // namespace heddle::rt::reference

#endif // HEDDLE_RUNTIME_REFERENCE_REFERENCE_H
