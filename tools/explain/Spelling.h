//===- Spelling.h - Fractions as the user wrote them ------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A manifest holds exact fractions in lowest terms, 1/5; its schedule may say
// 0.2, 20 percent or 20/100. Worked example: of the source "keep = 0.2" the
// text "keeps 1/5 of the keys" becomes "keeps 0.2 of the keys".
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_EXPLAIN_SPELLING_H
#define HEDDLE_TOOLS_EXPLAIN_SPELLING_H

#include <map>
#include <string>
#include <string_view>

namespace heddle::explain {

class Spelling {
public:
  /// Of a schedule's text. A fraction that is written in several ways keeps the
  /// first.
  explicit Spelling(std::string_view source);

  /// `text` with the fractions that the source spells otherwise.
  std::string apply(std::string_view text) const;

private:
  std::map<std::string, std::string, std::less<>> written; ///< "1/5" -> "0.2"
};

} // namespace heddle::explain

#endif // HEDDLE_TOOLS_EXPLAIN_SPELLING_H
