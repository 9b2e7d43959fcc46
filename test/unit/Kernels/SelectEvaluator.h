//===- SelectEvaluator.h - Selections by definition -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_KERNELS_SELECTEVALUATOR_H
#define HEDDLE_TEST_UNIT_KERNELS_SELECTEVALUATOR_H

#include "KernelHarness.h"

namespace heddle::test {

/// Mean probability of each key over the rows of each group and the query heads
/// of each list.
std::vector<float> evaluateScores(const Sequence &s,
                                  const std::vector<float> &lse, int64_t group,
                                  int64_t headsPerList = 1,
                                  int64_t firstRow = 0, int64_t endRow = 0);

/// Mean logit of each key over the same rows and heads, less the least key's.
std::vector<float> evaluateLogits(const Sequence &s, int64_t group,
                                  int64_t headsPerList = 1,
                                  int64_t firstRow = 0, int64_t endRow = 0);

/// Means over the keys of each block from block `from` on; `padded`: over
/// `size` keys, also where a block has fewer.
std::vector<float> pool(const float *scores, int64_t n, int64_t size,
                        int64_t split, bool padded, int64_t from = 0);

/// What each list's keys are chosen by: infinity from `begin` to `end`, of the
/// others the largest of `pooled` that follow each other.
std::vector<float> chosenBy(const std::vector<float> &scores, int64_t n,
                            int64_t begin, int64_t end, int64_t pooled);

/// The `keep` best of each group, lowest index first among equals.
std::vector<int32_t> bruteForce(const std::vector<float> &scores, int64_t n,
                                int64_t keep);

/// The blocks of one list by their scores, as abi::SelectArgs says.
std::vector<int32_t> chooseBlocks(const std::vector<float> &scores,
                                  const std::vector<float> &spanScores,
                                  const Choice &choice);

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_KERNELS_SELECTEVALUATOR_H
