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
#include <utility>
#include <vector>

namespace heddle::bundle {

/// How many characters must be put in, left out, replaced or swapped with the
/// next one to make `a` of `b`.
inline size_t editDistance(std::string_view a, std::string_view b) {
  // [j]: of a's start and b's first j; that of one character of a less, of two.
  std::vector<size_t> row(b.size() + 1), last, older;
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 0; i < a.size(); ++i) {
    older = std::exchange(last, row);
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      row[j + 1] =
          std::min({last[j] + (a[i] != b[j]), last[j + 1] + 1, row[j] + 1});
      if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j])
        row[j + 1] = std::min(row[j + 1], older[j - 1] + 1);
    }
  }
  return row.back();
}

/// Of `words`, a range of strings, the one that `word` was probably meant to
/// be, or "": the nearest, of several one with its first letter. What is
/// returned points into `words`.
template <typename Words>
std::string_view nearestOf(std::string_view word, const Words &words) {
  std::string_view nearest;
  size_t least = std::max<size_t>(1, (word.size() + 1) / 3) + 1;
  for (const auto &each : words) {
    const std::string_view candidate = each;
    const size_t distance = editDistance(word, candidate);
    // All of a word that is no longer than the difference would be replaced.
    if (distance >= candidate.size())
      continue;
    const bool begins = word.substr(0, 1) == candidate.substr(0, 1);
    if (distance < least ||
        (distance == least && begins &&
         word.substr(0, 1) != nearest.substr(0, 1) && !nearest.empty())) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_NEARESTWORD_H
