//===- AddedTokens.cpp - Tokens that are found before the model runs ------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/text/AddedTokens.h"
#include "runtime/text/Utf8.h"

#include <algorithm>

using namespace heddle;
using namespace heddle::rt::text;
using nlohmann::json;

//===----------------------------------------------------------------------===//
// Trie
//===----------------------------------------------------------------------===//

TokenTrie::TokenTrie() : nodes(1) { roots.fill(-1); }

int32_t TokenTrie::child(int32_t node, uint8_t byte) const {
  if (node == 0)
    return roots[byte];
  const auto &children = nodes[node].children;
  auto it = std::lower_bound(
      children.begin(), children.end(), byte,
      [](const auto &entry, uint8_t key) { return entry.first < key; });
  return it != children.end() && it->first == byte ? it->second : -1;
}

void TokenTrie::insert(std::string_view text, int32_t value) {
  int32_t node = 0;
  for (char c : text) {
    uint8_t byte = static_cast<uint8_t>(c);
    int32_t next = child(node, byte);
    if (next < 0) {
      next = static_cast<int32_t>(nodes.size());
      nodes.emplace_back();
      if (node == 0) {
        roots[byte] = next;
      } else {
        auto &children = nodes[node].children;
        children.insert(std::upper_bound(children.begin(), children.end(),
                                         std::pair(byte, next)),
                        {byte, next});
      }
    }
    node = next;
  }
  // Of two equal texts the first holds.
  if (nodes[node].value < 0)
    nodes[node].value = value;
}

TokenTrie::Match TokenTrie::find(std::string_view text, size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    Match match{begin, begin, -1};
    int32_t node = 0;
    for (size_t at = begin; at < text.size(); ++at) {
      node = child(node, static_cast<uint8_t>(text[at]));
      if (node < 0)
        break;
      if (nodes[node].value >= 0)
        match = {begin, at + 1, nodes[node].value};
    }
    if (match.value >= 0)
      return match;
  }
  return {text.size(), text.size(), -1};
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

Result<AddedTokens> AddedTokens::create(const json &spec,
                                        const std::string &name, const Bpe &bpe,
                                        const Normalizer &normalizer) {
  AddedTokens added;
  if (spec.is_null())
    return added;
  if (!spec.is_array())
    return Error("added_tokens: found " + std::string(spec.type_name()) +
                 "; expected an array");
  // The characters of a word in Rust's regex crate, which tokenizers uses here.
  Result<Regex> word = Regex::compile("[\\w\\x{200C}\\x{200D}]");
  if (!word)
    return word.takeError();
  added.wordCharacter = std::move(*word);
  Regex::Scratch scratch(0);
  for (size_t i = 0; i < spec.size(); ++i) {
    std::string place = name.empty()
                            ? "added_tokens[" + std::to_string(i) + "]"
                            : name + "[\"" + spec[i]["id"].dump() + "\"]";
    if (Status status = added.add(spec[i], place, bpe, normalizer, scratch);
        !status)
      return status.takeError();
  }
  return added;
}

/// Hugging Face tokenizers does not use the id in the file: a token that the
/// model has keeps the model's id, any other gets the next free one. A file
/// whose ids say something else would mean different tokens to the two readers.
int32_t AddedTokens::expectedId(const std::string &content,
                                const Bpe &bpe) const {
  int32_t id = bpe.idOf(content);
  if (id >= 0)
    return id;
  int32_t size = static_cast<int32_t>(bpe.size());
  return largestId >= size ? largestId + 1 : size;
}

Status AddedTokens::add(const json &spec, const std::string &path,
                        const Bpe &bpe, const Normalizer &normalizer,
                        Regex::Scratch &scratch) {
  if (!spec.is_object())
    return Error(path + ": found " + spec.type_name() +
                 "; expected an object with \"id\" and \"content\"");
  Token token;
  Result<std::string> content = stringMember(spec, path, "content");
  if (!content)
    return content.takeError();
  token.content = std::move(*content);
  // The longest published one has some 60 bytes; the bound keeps the search
  // for tokens linear in the text.
  constexpr size_t longest = 1024;
  if (token.content.empty() || token.content.size() > longest)
    return Error(path + ".content: has " +
                 std::to_string(token.content.size()) +
                 " bytes; expected 1 to " + std::to_string(longest));

  auto id = spec.find("id");
  if (id == spec.end() || !id->is_number_integer())
    return Error(path + ".id: missing or not an integer");
  int32_t expected = expectedId(token.content, bpe);
  if (!byContent.emplace(token.content, static_cast<int32_t>(list.size()))
           .second)
    return Error(path + ": the token " + inQuotes(token.content) +
                 " appears twice");
  if (*id != expected)
    return Error(path + ".id: found " + id->dump() + " for " +
                 inQuotes(token.content) + "; expected " +
                 std::to_string(expected) +
                 (bpe.idOf(token.content) >= 0
                      ? ", its id in model.vocab"
                      : ", the next free id (without gaps, in order)"));
  token.id = expected;
  largestId = std::max(largestId, expected);

  std::pair<const char *, bool *> flags[] = {
      {"special", &token.special},
      {"normalized", &token.normalized},
      {"lstrip", &token.lstrip},
      {"rstrip", &token.rstrip},
      {"single_word", &token.singleWord}};
  for (auto [name, flag] : flags) {
    Result<bool> value = boolMember(spec, path, name, false);
    if (!value)
      return value.takeError();
    *flag = *value;
  }

  int32_t index = static_cast<int32_t>(list.size());
  std::string searched = token.content;
  if (token.normalized) {
    if (Status status = normalizer.apply(searched, scratch); !status)
      return status.takeError().withContext(path);
    // Normalized to nothing, it can be found nowhere.
    if (searched.empty() || searched.size() > longest)
      return Error(path + ".content: has " + std::to_string(searched.size()) +
                   " bytes once normalized; expected 1 to " +
                   std::to_string(longest));
  }
  (token.normalized ? normal : raw).insert(searched, index);
  list.push_back(std::move(token));
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Searching
//===----------------------------------------------------------------------===//

/// Where the code point that ends at `end` begins.
static size_t codePointBefore(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && (text[begin] & 0xC0) == 0x80)
    --begin;
  return begin;
}

/// Whether a character of a word stands on either side of [begin, end).
Result<bool> AddedTokens::insideWord(std::string_view text, size_t begin,
                                     size_t end,
                                     Regex::Scratch &scratch) const {
  std::vector<Span> matches;
  std::string sides;
  if (begin > 0) {
    size_t before = codePointBefore(text, begin);
    sides.append(text, before, begin - before);
  }
  if (end < text.size())
    sides.append(text, end, utf8Step(text, end).length);
  if (Status status = wordCharacter->findAll(sides, scratch, matches); !status)
    return status.takeError();
  return !matches.empty();
}

Status AddedTokens::split(
    std::string_view text, bool normalized, Regex::Scratch &scratch,
    const std::function<void(int32_t id)> &onToken,
    const std::function<Status(std::string_view)> &onText) const {
  const TokenTrie &trie = normalized ? normal : raw;
  size_t done = 0;
  for (size_t from = 0; !trie.empty();) {
    TokenTrie::Match match = trie.find(text, from);
    if (match.value < 0)
      break;
    // The search goes on behind the match itself, not behind the spaces that
    // belong to it: tokens made of spaces are found there again.
    from = match.end;
    const Token &token = list[match.value];
    if (token.singleWord) {
      Result<bool> inside = insideWord(text, match.begin, match.end, scratch);
      if (!inside)
        return inside.takeError();
      if (*inside)
        continue;
    }
    size_t begin = match.begin, end = match.end;
    while (token.lstrip && begin > done) {
      size_t before = codePointBefore(text, begin);
      if (!isWhiteSpace(utf8Step(text, before).codepoint))
        break;
      begin = before;
    }
    while (token.rstrip && end < text.size()) {
      Utf8Step step = utf8Step(text, end);
      if (!isWhiteSpace(step.codepoint))
        break;
      end += step.length;
    }
    if (done < begin)
      if (Status status = onText(text.substr(done, begin - done)); !status)
        return status;
    onToken(token.id);
    done = end;
  }
  if (done < text.size())
    return onText(text.substr(done));
  return Status::success();
}
