//===- AlienWords.h - What other languages write ----------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_PIPELINES_ALIENWORDS_H
#define HEDDLE_LIB_PIPELINES_ALIENWORDS_H

#include "Tokens.h"

#include <string>

namespace mlir::heddle {

/// What is written where one is missed.
inline constexpr llvm::StringLiteral aNumber =
    "a number, such as 8, 0.2 or 1/5";

/// What is said of a token that other languages have and schedules don't, or
/// "". `tokens` are those of `text`.
std::string alienWords(llvm::StringRef text, llvm::ArrayRef<Token> tokens,
                       size_t at);

} // namespace mlir::heddle

#endif // HEDDLE_LIB_PIPELINES_ALIENWORDS_H
