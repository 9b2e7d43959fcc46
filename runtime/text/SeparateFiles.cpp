//===- SeparateFiles.cpp - vocab.json and merges.txt ----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/text/SeparateFiles.h"

#include "bundle/program/Printable.h"
#include "runtime/base/File.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::text;
using nlohmann::json;

/// Classes whose tokenizers are Qwen2's.
static constexpr const char *knownClasses[] = {
    "Qwen2Tokenizer", "Qwen2TokenizerFast", "DreamTokenizer"};

/// Qwen2's way to split text.
/// Source: the tokenizer_config.json and tokenization code of Qwen2 and Dream.
static constexpr const char *splitPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// The object in a small JSON file; null if there is no such file.
static Result<json> readObject(const std::string &folder, const char *name) {
  const std::string path = folder + "/" + name;
  if (!isThere(path))
    return json();
  Result<std::string> content = readTextFile(path, largestFile);
  if (!content)
    return content.takeError();
  // Through the reader of tokenizer.json, which bounds nesting.
  Result<TokenizerFile> file = parseTokenizerFile(*content);
  if (!file)
    return file.takeError().withContext(name);
  return std::move(file->rest);
}

static FileString store(TokenizerFile &file, std::string_view text) {
  FileString stored{static_cast<uint32_t>(file.strings.size()),
                    static_cast<uint32_t>(text.size())};
  file.strings += text;
  return stored;
}

/// Merges by rank, two tokens a line; empty lines and the "#version" in front
/// are no merges.
static Status parseMerges(std::string_view text, TokenizerFile &file) {
  uint32_t number = 0;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.ends_with('\r'))
      line.remove_suffix(1);
    if (line.empty() || (number == 1 && line.starts_with("#version")))
      continue;
    size_t space = line.find(' ');
    if (space == 0 || space == line.npos || space + 1 == line.size() ||
        line.find(' ', space + 1) != line.npos)
      return Error("merges.txt:" + std::to_string(number) + ": found " +
                   inQuotes(line) +
                   "; expected two tokens with one space between them");
    FileString left = store(file, line.substr(0, space));
    file.merges.push_back({left, store(file, line.substr(space + 1)), number});
  }
  return Status::success();
}

/// The texts of special tokens that a configuration names: "eos_token" and the
/// like are a text or an object with "content", or a list of such.
static void collectSpecial(const json &value, std::set<std::string> &special) {
  if (value.is_string())
    special.insert(value.get<std::string>());
  else if (value.is_object() && value.contains("content"))
    collectSpecial(value["content"], special);
  else if (value.is_array())
    for (const json &item : value)
      collectSpecial(item, special);
}

static std::set<std::string> specialTokens(const json &config) {
  std::set<std::string> special;
  if (config.is_object())
    for (const auto &[name, value] : config.items())
      if (name.ends_with("_token") || name == "additional_special_tokens")
        collectSpecial(value, special);
  return special;
}

/// Added tokens in the order of their ids, as tokenizer.json lists them, from
/// "added_tokens_decoder" of tokenizer_config.json.
static Result<json> newerTokens(const json &decoder) {
  const std::string path = "tokenizer_config.json: added_tokens_decoder";
  if (!decoder.is_object())
    return Error(path + ": found " + decoder.type_name() +
                 "; expected an object of id: token");
  std::map<int64_t, json> byId;
  for (const auto &[key, token] : decoder.items()) {
    const std::string place = path + "[" + inQuotes(key) + "]";
    int64_t id = -1;
    auto [end, code] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (code != std::errc() || end != key.data() + key.size() || id < 0)
      return Error(place + ": the key is no token id");
    if (!token.is_object())
      return Error(place + ": found " + token.type_name() +
                   "; expected an object with \"content\"");
    json listed = token;
    listed["id"] = id;
    byId[id] = std::move(listed);
  }
  json list = json::array();
  for (auto &[id, token] : byId)
    list.push_back(std::move(token));
  return list;
}

/// The same from an added_tokens.json, token: id, which counts in folders whose
/// tokenizer_config.json has no "added_tokens_decoder". Special are those that
/// configurations name.
static Result<json> olderTokens(const json &added,
                                const std::set<std::string> &special) {
  std::map<int64_t, json> byId;
  for (const auto &[content, id] : added.items()) {
    const std::string place = "added_tokens.json[" + inQuotes(content) + "]";
    if (!id.is_number_integer() || id < 0)
      return Error(place + ": found " + id.dump() + "; expected a token id");
    const bool isSpecial = special.contains(content);
    auto [known, fresh] =
        byId.emplace(id.get<int64_t>(), json{{"id", id},
                                             {"content", content},
                                             {"special", isSpecial},
                                             {"normalized", !isSpecial}});
    if (!fresh)
      return Error(place + ": the id " + id.dump() + " already belongs to " +
                   printable(known->second["content"].dump()));
  }
  json list = json::array();
  for (auto &[id, token] : byId)
    list.push_back(std::move(token));
  return list;
}

/// That the class is one whose way with text is known.
static Status checkClass(const json &config) {
  auto found = config.find("tokenizer_class");
  for (const char *known : knownClasses)
    if (found != config.end() && *found == known)
      return Status::success();
  return Error(
      "tokenizer_config.json: tokenizer_class: found " +
      (found == config.end() ? std::string("nothing")
                             : printable(found->dump())) +
      "; how vocab.json and merges.txt are used is known for Qwen2Tokenizer "
      "and DreamTokenizer. Other tokenizers need a tokenizer.json");
}

Result<TokenizerFile>
heddle::rt::text::readSeparateFiles(const std::string &folder) {
  Result<json> config = readObject(folder, "tokenizer_config.json");
  if (!config)
    return config.takeError();
  if (config->is_null())
    return Error(printablePath(folder + "/tokenizer_config.json") +
                 ": there is no such file; beside vocab.json it says how text "
                 "is split");
  if (Status status = checkClass(*config); !status)
    return status.takeError();
  for (const char *name : {"add_prefix_space", "split_special_tokens"}) {
    Result<bool> value =
        boolMember(*config, "tokenizer_config.json", name, false);
    if (!value)
      return value.takeError();
    if (*value)
      return Error("tokenizer_config.json: " + std::string(name) +
                   ": found true, only false is supported");
  }
  Result<json> added = json::array();
  TokenizerFile file;
  if (config->contains("added_tokens_decoder")) {
    file.addedName = "tokenizer_config.json: added_tokens_decoder";
    added = newerTokens((*config)["added_tokens_decoder"]);
  } else {
    Result<json> older = readObject(folder, "added_tokens.json");
    if (!older)
      return older.takeError();
    Result<json> map = readObject(folder, "special_tokens_map.json");
    if (!map)
      return map.takeError();
    file.addedName = "added_tokens.json";
    std::set<std::string> special = specialTokens(*config);
    special.merge(specialTokens(*map));
    added = olderTokens(older->is_null() ? json::object() : *older, special);
  }
  if (!added)
    return added.takeError();

  file.vocabName = "vocab.json";
  file.mergesAreLines = true;
  Result<std::string> vocab = readTextFile(folder + "/vocab.json", largestFile);
  if (!vocab)
    return vocab.takeError();
  if (Status status = parseVocabFile(*vocab, file); !status)
    return status.takeError();
  Result<std::string> merges =
      readTextFile(folder + "/merges.txt", largestFile);
  if (!merges)
    return merges.takeError();
  if (Status status = parseMerges(*merges, file); !status)
    return status.takeError();
  file.hasMerges = true;
  json split = {{"type", "Split"},
                {"pattern", {{"Regex", splitPattern}}},
                {"behavior", "Isolated"},
                {"invert", false}};
  json bytes = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  file.rest = {
      {"model", {{"type", "BPE"}}},
      {"normalizer", {{"type", "NFC"}}},
      {"pre_tokenizer",
       {{"type", "Sequence"}, {"pretokenizers", json::array({split, bytes})}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"added_tokens", std::move(*added)}};
  return file;
}
