//===- Cases.h - The problems that kernels are given ------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEST_CONFORMANCE_CASES_H
#define HEDDLE_RUNTIME_TEST_CONFORMANCE_CASES_H

#include "runtime/test/conformance/Conformance.h"
#include "runtime/test/conformance/Problem.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace heddle::conformance {

/// What machines differ in.
struct CaseRules {
  int64_t paddingUnit = 7; ///< elements between rows are multiples of it
  /// Longer sequences have one key/value head and one length of lists.
  int64_t longest = std::numeric_limits<int64_t>::max();
  /// Scores of a select case in all, beyond which it is left out.
  int64_t mostScores = std::numeric_limits<int64_t>::max();
};

/// Inputs of one case, with its name for messages.
struct Inputs {
  Inputs(const Shape &shape, std::mt19937_64 &random)
      : problem(shape, random) {}
  Problem problem;
  std::string name;
  /// Attention: lists of the terms that have some, their group sizes and
  /// encodings, in order.
  std::vector<std::shared_ptr<RandomLists>> lists;
  std::vector<int64_t> groups;
  std::vector<bundle::Encoding> encodings;
  int64_t keep = 0; ///< select: keys to be kept
};

/// Judges a case; `random` for what it draws itself.
using Judge = std::function<void(std::shared_ptr<Inputs> inputs,
                                 Finding &finding, std::mt19937_64 &random)>;

/// All cases of an attention or select kernel's variant: every ratio of heads,
/// every length that its lists hold, all kinds of values in turn, and where
/// there are lists one key, some and all. Stops at the first failure.
Finding forEachCase(const bundle::Manifest &manifest,
                    const bundle::Kernel &kernel,
                    const bundle::KernelVariant &variant,
                    const Options &options, const CaseRules &rules,
                    const Judge &judge);

/// What a select kernel is asked for.
struct Choice {
  int64_t keep = 1;
  int64_t split = 0, boundary = 0, spanKeep = 0;
  bool bySpan = false; ///< the second span is scored by itself
  /// Of a group of all rows those that score, and keys that are always listed.
  int64_t rowBegin = 0, rowEnd = 0, alwaysBegin = 0, alwaysEnd = 0;
  int64_t from = 0; ///< of keys, how many there surely are to choose from
  /// The lists that are chosen within, as Int32, if there are any.
  std::shared_ptr<RandomLists> outer = nullptr;

  /// The rows of group `which` of a kernel.
  std::pair<int64_t, int64_t> rowsOf(const bundle::Kernel &kernel,
                                     int64_t which, int64_t n) const;
  /// What a kernel is asked for.
  void fill(abi::SelectArgs &args) const;
};

/// Query heads that share a list of a select kernel.
int64_t headsPerList(const bundle::Kernel &kernel, const Shape &shape);

/// "keep=3 boundary=2 split=40 by span"
std::string toString(const Choice &choice);

/// Choices on a shape's keys: one, some and all that there are to choose from,
/// some beside others that are always listed, and of blocks in each of the ways
/// to tell spans apart.
std::vector<Choice> choicesFor(const bundle::Kernel &kernel, const Shape &shape,
                               std::mt19937_64 &random);

/// Inputs of a shape, with lists of `keep` keys where the kernel has lists.
std::shared_ptr<Inputs> makeInputs(const bundle::Manifest &manifest,
                                   const bundle::Kernel &kernel,
                                   const bundle::KernelVariant &variant,
                                   const Shape &shape, int64_t keep,
                                   std::mt19937_64 &random);

} // namespace heddle::conformance

#endif // HEDDLE_RUNTIME_TEST_CONFORMANCE_CASES_H
