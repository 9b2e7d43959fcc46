//===- SelectEvaluator.cpp - Selections by definition ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SelectEvaluator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

using namespace heddle;
using namespace heddle::test;

std::vector<float> test::evaluateScores(const Sequence &s,
                                        const std::vector<float> &lse,
                                        int64_t group, int64_t headsPerList,
                                        int64_t firstRow, int64_t endRow) {
  std::vector<float> scores;
  endRow = endRow ? endRow : s.n;
  for (int64_t first = 0; first < s.heads; first += headsPerList)
    for (int64_t begin = firstRow; begin < endRow; begin += group) {
      int64_t end = std::min(begin + group, endRow);
      for (int64_t j = 0; j < s.n; ++j) {
        double sum = 0;
        for (int64_t h = first; h < first + headsPerList; ++h)
          for (int64_t i = begin; i < end; ++i)
            sum += std::exp2(s.logit(i, j, h) - lse[h * s.n + i]);
        scores.push_back(static_cast<float>(
            sum / static_cast<double>((end - begin) * headsPerList)));
      }
    }
  return scores;
}

std::vector<float> test::evaluateLogits(const Sequence &s, int64_t group,
                                        int64_t headsPerList, int64_t firstRow,
                                        int64_t endRow) {
  std::vector<float> scores;
  endRow = endRow ? endRow : s.n;
  for (int64_t first = 0; first < s.heads; first += headsPerList)
    for (int64_t begin = firstRow; begin < endRow; begin += group) {
      int64_t end = std::min(begin + group, endRow);
      std::vector<double> logits;
      for (int64_t j = 0; j < s.n; ++j) {
        double sum = 0;
        for (int64_t h = first; h < first + headsPerList; ++h)
          for (int64_t i = begin; i < end; ++i)
            sum += s.logit(i, j, h) / std::numbers::log2e;
        logits.push_back(sum /
                         static_cast<double>((end - begin) * headsPerList));
      }
      const double least = *std::min_element(logits.begin(), logits.end());
      for (double logit : logits)
        scores.push_back(static_cast<float>(logit - least));
    }
  return scores;
}

std::vector<float> test::pool(const float *scores, int64_t n, int64_t size,
                              int64_t split, bool padded, int64_t from) {
  std::vector<double> sums(blocksOf(n, size, split)), counts(sums.size());
  for (int64_t j = 0; j < n; ++j) {
    sums[blockOf(j, size, split)] += scores[j];
    counts[blockOf(j, size, split)] += 1;
  }
  std::vector<float> means;
  for (size_t block = from; block < sums.size(); ++block)
    means.push_back(static_cast<float>(
        sums[block] / (padded ? static_cast<double>(size) : counts[block])));
  return means;
}

std::vector<float> test::chosenBy(const std::vector<float> &scores, int64_t n,
                                  int64_t begin, int64_t end, int64_t pooled) {
  std::vector<float> result;
  for (size_t row = 0; row < scores.size(); row += n) {
    std::vector<float> others(scores.begin() + row, scores.begin() + row + n);
    others.erase(others.begin() + begin, others.begin() + end);
    std::vector<float> best;
    for (auto at = others.begin(); at != others.end(); ++at)
      best.push_back(*std::max_element(
          at - std::min<int64_t>(pooled / 2, at - others.begin()),
          at + std::min<int64_t>(pooled / 2 + 1, others.end() - at)));
    best.insert(best.begin() + begin, end - begin,
                std::numeric_limits<float>::infinity());
    result.insert(result.end(), best.begin(), best.end());
  }
  return result;
}

std::vector<int32_t> test::bruteForce(const std::vector<float> &scores,
                                      int64_t n, int64_t keep) {
  std::vector<int32_t> result;
  for (size_t row = 0; row < scores.size(); row += n) {
    std::vector<int32_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return scores[row + a] > scores[row + b];
    });
    order.resize(keep);
    std::sort(order.begin(), order.end());
    result.insert(result.end(), order.begin(), order.end());
  }
  return result;
}

std::vector<int32_t> test::chooseBlocks(const std::vector<float> &scores,
                                        const std::vector<float> &spanScores,
                                        const Choice &choice) {
  auto count = static_cast<int64_t>(scores.size());
  if (choice.boundary == 0)
    return bruteForce(scores, count, choice.keep);
  auto boundary = scores.begin() + choice.boundary;
  std::vector<int32_t> result =
      choice.spanLse ? bruteForce(scores, count, choice.spanKeep)
                     : bruteForce({scores.begin(), boundary}, choice.boundary,
                                  choice.spanKeep);
  std::erase_if(result,
                [&](int32_t block) { return block >= choice.boundary; });
  std::vector<float> second =
      choice.spanLse ? spanScores : std::vector<float>(boundary, scores.end());
  for (int32_t block :
       bruteForce(second, count - choice.boundary,
                  second.empty() ? 0 : choice.keep - choice.spanKeep))
    result.push_back(static_cast<int32_t>(choice.boundary) + block);
  result.resize(choice.keep, -1);
  return result;
}
