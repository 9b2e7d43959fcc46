//===- NearestWord.h - What a word was meant to be --------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SUPPORT_NEARESTWORD_H
#define HEDDLE_SUPPORT_NEARESTWORD_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <algorithm>

namespace mlir::heddle {

/// Of `words` the one that `word` was probably meant to be, or "".
inline llvm::StringRef nearestOf(llvm::StringRef word,
                                 llvm::ArrayRef<llvm::StringRef> words) {
  llvm::StringRef nearest;
  unsigned least = std::max<size_t>(1, (word.size() + 1) / 3) + 1;
  for (llvm::StringRef candidate : words) {
    unsigned distance = word.edit_distance(candidate);
    // All of a word that is no longer than the difference would be replaced.
    if (distance < least && distance < candidate.size()) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

} // namespace mlir::heddle

#endif // HEDDLE_SUPPORT_NEARESTWORD_H
