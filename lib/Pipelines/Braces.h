//===- Braces.h - Braces that a schedule's text lacks -----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_PIPELINES_BRACES_H
#define HEDDLE_LIB_PIPELINES_BRACES_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace mlir::heddle {

/// A brace that is missing, or has none that it belongs to.
struct BraceProblem {
  size_t at = 0;    ///< where it is to stand, or stands
  char missing = 0; ///< '{', '}', or 0: the one at `at` is too many
  std::string message;
  std::optional<size_t> noteAt{};
  std::string note{};
};

/// So many are found at most: a text that has more is no schedule's.
inline constexpr size_t mostBraceProblems = 32;

/// What is wrong with the braces of a text of schedules that cannot be read: of
/// each schedule and of each function of scores. In the order of the text.
llvm::SmallVector<BraceProblem> braceProblems(llvm::StringRef text);

} // namespace mlir::heddle

#endif // HEDDLE_LIB_PIPELINES_BRACES_H
