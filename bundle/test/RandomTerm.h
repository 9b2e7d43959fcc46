//===- RandomTerm.h - Sets of pairs for random tests ------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_TEST_RANDOMTERM_H
#define HEDDLE_BUNDLE_TEST_RANDOMTERM_H

#include "bundle/program/PairSets.h"

#include <algorithm>
#include <random>
#include <vector>

namespace heddle::test {

/// Any of the sets that go by positions, stated with numbers that sequences of
/// some `most` positions tell apart.
inline bundle::Term randomSet(std::mt19937 &random, int64_t most) {
  auto below = [&](int64_t bound) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(bound));
  };
  std::vector<bundle::Term> sets;
  for (size_t kind = 0; kind < bundle::setNames().size(); ++kind)
    if (bundle::Term set = {.kind = static_cast<bundle::Term::Kind>(kind)};
        !bundle::goesByPlaces(set))
      sets.push_back(set);
  bundle::Term term = sets[static_cast<size_t>(below(std::ssize(sets)))];
  for (const bundle::SetNumber &number : bundle::numbersOf(term.kind)) {
    if (number.otherwise >= 0)
      term.*number.number = number.otherwise;
    if (number.orShare && below(2))
      term.share = {1, 1 + below(12)};
    else if (!number.named)
      term.*number.number = number.least + below(most);
    else if (number.otherwise < 0 || below(2))
      term.*number.number = number.least + below(6);
  }
  return term;
}

/// One that may be within others.
inline bundle::Term randomTerm(std::mt19937 &random, int64_t most) {
  bundle::Term term = randomSet(random, most);
  while (!bundle::isShareOfSinks(term) && random() % 4 == 0)
    if (bundle::Term bound = randomSet(random, most);
        !bundle::isShareOfSinks(bound))
      term.within.push_back(bound);
  return term;
}

/// What the terms of lists in one union may be within.
inline std::vector<bundle::Term> randomBound(std::mt19937 &random,
                                             int64_t most) {
  std::vector<bundle::Term> bound;
  while (bound.empty() || random() % 4 == 0)
    if (bundle::Term set = randomSet(random, most);
        !bundle::isShareOfSinks(set))
      bound.push_back(set);
  return bound;
}

} // namespace heddle::test

#endif // HEDDLE_BUNDLE_TEST_RANDOMTERM_H
