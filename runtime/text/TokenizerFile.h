//===- TokenizerFile.h - tokenizer.json as data -----------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The vocabulary and the merges, which are nearly all of the file, are read
// straight from the parser's events; the rest becomes a small JSON document.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEXT_TOKENIZERFILE_H
#define HEDDLE_RUNTIME_TEXT_TOKENIZERFILE_H

#include "bundle/Result.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::rt::text {

/// A string of the file, as a range of TokenizerFile::strings.
struct FileString {
  uint32_t begin;
  uint32_t length;
};

struct TokenizerFile {
  /// One entry of model.vocab.
  struct Entry {
    FileString token;
    int32_t id;
  };
  /// One entry of model.merges.
  struct Merge {
    FileString left, right;
    uint32_t index; ///< in model.merges
  };

  /// Everything but model.vocab and model.merges.
  nlohmann::json rest;
  std::vector<Entry> vocab;
  std::vector<Merge> merges;
  bool hasVocab = false;
  bool hasMerges = false;
  std::string strings;

  /// What messages call the two.
  std::string vocabName = "model.vocab";
  std::string addedName;       ///< of added_tokens, if from another file: its
                               ///< tokens are told apart by their ids
  bool mergesAreLines = false; ///< of merges.txt; Merge::index is the line

  /// "model.merges[7]" or "merges.txt:7".
  std::string place(const Merge &merge) const {
    std::string index = std::to_string(merge.index);
    return mergesAreLines ? "merges.txt:" + index
                          : "model.merges[" + index + "]";
  }

  std::string_view str(FileString s) const {
    return std::string_view(strings).substr(s.begin, s.length);
  }
};

/// Bytes of a file that are read.
inline constexpr int64_t largestFile = int64_t(1) << 30;

/// Parses the text of a tokenizer.json. Errors name the place in the document.
Result<TokenizerFile> parseTokenizerFile(std::string_view json);

/// Adds the text of a vocab.json, one object of token: id. Errors name the
/// place in it.
Status parseVocabFile(std::string_view json, TokenizerFile &file);

/// A string in quotes, shortened and with escapes, for messages.
std::string inQuotes(std::string_view text);

/// Reads of members with located errors; `path` names the object.
Result<std::string> stringMember(const nlohmann::json &object,
                                 const std::string &path, const char *name);
/// `fallback` where the member is missing.
Result<bool> boolMember(const nlohmann::json &object, const std::string &path,
                        const char *name, bool fallback);
/// The "type" of a component such as {"type": "NFC"}.
Result<std::string> componentType(const nlohmann::json &component,
                                  const std::string &path);

} // namespace heddle::rt::text

#endif // HEDDLE_RUNTIME_TEXT_TOKENIZERFILE_H
