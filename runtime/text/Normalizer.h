//===- Normalizer.h - The normalizer of a tokenizer.json --------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEXT_NORMALIZER_H
#define HEDDLE_RUNTIME_TEXT_NORMALIZER_H

#include "runtime/text/Regex.h"

#include <nlohmann/json.hpp>

#include <optional>

namespace heddle::rt::text {

/// NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace and Sequences of them.
class Normalizer {
public:
  /// `spec` is the file's "normalizer"; null changes nothing.
  static Result<Normalizer> create(const nlohmann::json &spec);

  /// Normalizes valid UTF-8 in place.
  Status apply(std::string &text, Regex::Scratch &scratch) const;

private:
  enum class Kind { NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace };
  struct Step {
    Kind kind;
    std::string content;
    std::optional<Regex> pattern; ///< of Replace; none matches nothing
  };
  Status add(const nlohmann::json &spec, const std::string &path);
  static Status normalize(std::string &text, Kind kind);

  std::vector<Step> steps;
};

/// The "pattern" of a component: {"String": text} or {"Regex": pattern}.
/// Nothing for an empty string, which matches nowhere.
Result<std::optional<Regex>> readPattern(const nlohmann::json &component,
                                         const std::string &path);

} // namespace heddle::rt::text

#endif // HEDDLE_RUNTIME_TEXT_NORMALIZER_H
