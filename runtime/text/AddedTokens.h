//===- AddedTokens.h - Tokens that are found before the model runs --------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEXT_ADDEDTOKENS_H
#define HEDDLE_RUNTIME_TEXT_ADDEDTOKENS_H

#include "runtime/text/Bpe.h"
#include "runtime/text/Normalizer.h"

#include <functional>

namespace heddle::rt::text {

/// A set of texts, searched for the leftmost match, of those the longest.
class TokenTrie {
public:
  TokenTrie();
  /// `text` is not empty; `value` is not negative.
  void insert(std::string_view text, int32_t value);

  struct Match {
    size_t begin, end;
    int32_t value; ///< -1: no match
  };
  /// The first match at or after `from`.
  Match find(std::string_view text, size_t from) const;
  bool empty() const { return nodes.size() == 1; }

private:
  struct Node {
    int32_t value = -1;
    std::vector<std::pair<uint8_t, int32_t>> children; ///< sorted by byte
  };
  int32_t child(int32_t node, uint8_t byte) const;
  std::vector<Node> nodes;
  std::array<int32_t, 256> roots; ///< children of the root, -1: none
};

/// The "added_tokens" of a tokenizer.json.
class AddedTokens {
public:
  struct Token {
    int32_t id;
    std::string content;
    bool special, normalized, lstrip, rstrip, singleWord;
  };

  static Result<AddedTokens> create(const nlohmann::json &spec,
                                    const std::string &name, const Bpe &bpe,
                                    const Normalizer &normalizer);

  const std::vector<Token> &tokens() const { return list; }

  /// Cuts the text at the added tokens with the given `normalized` flag and
  /// calls `onToken` and `onText` from left to right.
  Status split(std::string_view text, bool normalized, Regex::Scratch &scratch,
               const std::function<void(int32_t id)> &onToken,
               const std::function<Status(std::string_view)> &onText) const;

private:
  Status add(const nlohmann::json &spec, const std::string &path,
             const Bpe &bpe, const Normalizer &normalizer,
             Regex::Scratch &scratch);
  int32_t expectedId(const std::string &content, const Bpe &bpe) const;
  Result<bool> insideWord(std::string_view text, size_t begin, size_t end,
                          Regex::Scratch &scratch) const;

  std::vector<Token> list;
  std::unordered_map<std::string, int32_t> byContent;
  int32_t largestId = -1;
  TokenTrie raw, normal; ///< values are indices of `list`
  std::optional<Regex> wordCharacter;
};

} // namespace heddle::rt::text

#endif // HEDDLE_RUNTIME_TEXT_ADDEDTOKENS_H
