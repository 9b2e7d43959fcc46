//===- Text.h - Generated tokens as text ------------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_RUN_TEXT_H
#define HEDDLE_TOOLS_HEDDLE_RUN_TEXT_H

#include "runtime/text/Tokenizer.h"

#include <cstdint>
#include <span>
#include <string>

namespace heddle::run {

/// How a response becomes text.
struct TextRules {
  const rt::Tokenizer *tokenizer = nullptr; ///< null: ids, with blanks between
  int32_t maskToken = -1;
  int32_t eosToken = -1;
  int32_t endOfTurn = -1; ///< ends the text as well, unless -1
  bool raw = false;       ///< no cut, special tokens shown
};

/// Shown for a position that is still masked.
inline constexpr const char *maskSign = "\u2591";

/// The tokens of a response that its text is made of: up to, without, the first
/// end-of-sequence or end-of-turn; all with `raw`.
std::span<const int32_t> cutAtEnd(std::span<const int32_t> response,
                                  const TextRules &rules);

/// The text of a response, cut at its end; a masked position, which only an
/// interrupted run leaves, shows as maskSign.
std::string responseText(std::span<const int32_t> response,
                         const TextRules &rules);

/// The text of ids without masks among them.
std::string idsText(std::span<const int32_t> ids, const TextRules &rules);

} // namespace heddle::run

#endif // HEDDLE_TOOLS_HEDDLE_RUN_TEXT_H
