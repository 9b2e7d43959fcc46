//===- Regex.h - tokenizer.json's regular expressions on PCRE2 --*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// tokenizer.json's patterns are written for Oniguruma. They are translated
// (RegexDialect.cpp) and run by PCRE2, with a bound on the work so that no
// pattern from a file can hang the caller.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEXT_REGEX_H
#define HEDDLE_RUNTIME_TEXT_REGEX_H

#include "bundle/Result.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::rt::text {

/// A half-open byte range of a text.
struct Span {
  size_t begin;
  size_t end;
};

/// An Oniguruma pattern as a PCRE2 pattern with the same matches (PCRE2_UTF,
/// PCRE2_UCP, PCRE2_MULTILINE, newline LF). A construct that the two engines
/// read differently and that has no translation is an error with its offset.
Result<std::string> translateOniguruma(std::string_view pattern);

/// A compiled pattern. Immutable: threads may share it.
class Regex {
public:
  /// What one thread needs to match, reused between matches. Holds the budget
  /// of backtracking steps of one encode() call.
  class Scratch {
  public:
    /// `textBytes` is the size of the text to be matched.
    explicit Scratch(size_t textBytes);
    ~Scratch();
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;

  private:
    friend class Regex;
    struct Impl;
    std::unique_ptr<Impl> impl;
  };

  /// An Oniguruma pattern.
  static Result<Regex> compile(std::string_view pattern);
  /// The text itself, no character special. Must not be empty.
  static Result<Regex> compileLiteral(std::string_view literal);

  /// Appends the matches from left to right. They do not overlap, and no empty
  /// match touches the match before it. `text` is valid UTF-8.
  Status findAll(std::string_view text, Scratch &scratch,
                 std::vector<Span> &matches) const;

private:
  struct Code;
  Regex(std::shared_ptr<const Code> code) : code(std::move(code)) {}
  static Result<Regex> compileOptions(std::string_view pattern,
                                      uint32_t options);
  std::shared_ptr<const Code> code;
};

} // namespace heddle::rt::text

#endif // HEDDLE_RUNTIME_TEXT_REGEX_H
