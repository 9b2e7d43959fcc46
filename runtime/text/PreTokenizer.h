//===- PreTokenizer.h - The pre-tokenizer of a tokenizer.json ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEXT_PRETOKENIZER_H
#define HEDDLE_RUNTIME_TEXT_PRETOKENIZER_H

#include "runtime/text/Regex.h"

#include <nlohmann/json.hpp>

#include <deque>
#include <optional>

namespace heddle::rt::text {

/// The words of a text, which merges never cross.
struct Words {
  std::vector<std::string_view> views;
  std::deque<std::string> owned; ///< storage of words that are not in the text
};

/// Split, Digits, ByteLevel and Sequences of them.
class PreTokenizer {
public:
  /// `spec` is the file's "pre_tokenizer". It must hold a ByteLevel.
  static Result<PreTokenizer> create(const nlohmann::json &spec);

  /// Cuts valid UTF-8 into words. The words are bytes: the characters that
  /// stand for bytes are never made unless a later step looks at them. `words`
  /// may point into `text`.
  Status apply(std::string_view text, Regex::Scratch &scratch,
               Words &words) const;

private:
  enum class Behavior {
    Isolated,
    Removed,
    MergedWithPrevious,
    MergedWithNext,
    Contiguous
  };
  struct Step {
    std::optional<Regex> pattern; ///< none: nothing matches
    Behavior behavior = Behavior::Isolated;
    bool invert = false;
    bool splits = true;
    bool prefixSpace = false; ///< put a space in front of each word first
    bool toChars = false;     ///< write bytes as characters afterwards
  };
  Status add(const nlohmann::json &spec, const std::string &path);
  Status addSplit(const nlohmann::json &spec, const std::string &path);
  Status addByteLevel(const nlohmann::json &spec, const std::string &path);
  static Status split(const Step &step, std::string_view word,
                      Regex::Scratch &scratch,
                      std::vector<std::string_view> &words);

  std::vector<Step> steps;
  bool toBytesAtEnd = false;
};

} // namespace heddle::rt::text

#endif // HEDDLE_RUNTIME_TEXT_PRETOKENIZER_H
