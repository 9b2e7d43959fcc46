//===- NearestWord.h - What a word was meant to be --------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_NEARESTWORD_H
#define HEDDLE_BUNDLE_NEARESTWORD_H

#include <algorithm>
#include <numeric>
#include <string_view>
#include <vector>

namespace heddle::bundle {

/// How many characters must be put in, left out or replaced to make `a` of `b`.
inline size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1); // [j]: of a's start and b's first j
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

/// Of `words`, a range of strings, the one that `word` was probably meant to
/// be, or "". What is returned points into `words`.
template <typename Words>
std::string_view nearestOf(std::string_view word, const Words &words) {
  std::string_view nearest;
  size_t least = std::max<size_t>(1, (word.size() + 1) / 3) + 1;
  for (const auto &each : words) {
    const std::string_view candidate = each;
    const size_t distance = editDistance(word, candidate);
    // All of a word that is no longer than the difference would be replaced.
    if (distance < least && distance < candidate.size()) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_NEARESTWORD_H
