//===- Tokenizer.cpp - Text to token ids and back -------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/text/Tokenizer.h"
#include "bundle/program/Printable.h"
#include "runtime/base/File.h"
#include "runtime/text/AddedTokens.h"
#include "runtime/text/ByteLevel.h"
#include "runtime/text/PreTokenizer.h"
#include "runtime/text/SeparateFiles.h"
#include "runtime/text/Utf8.h"

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::text;
using nlohmann::json;

namespace {
class ByteLevelTokenizer final : public Tokenizer {
public:
  static Result<std::unique_ptr<Tokenizer>> create(TokenizerFile file);

  Result<std::vector<int32_t>> encode(std::string_view text) const override;
  std::string decode(std::span<const int32_t> ids,
                     bool skipSpecial) const override;
  int64_t vocabSize() const override {
    return static_cast<int64_t>(pieces.size());
  }
  int32_t tokenId(std::string_view token) const override;
  bool isSpecial(int32_t id) const override {
    return inRange(id) && pieces[id].special;
  }

private:
  /// What an id decodes to.
  struct Piece {
    uint32_t begin = 0, length = 0; ///< range of `bytes`
    bool special = false;
  };
  bool inRange(int32_t id) const {
    return id >= 0 && static_cast<size_t>(id) < pieces.size();
  }
  void addPiece(int32_t id, std::string_view token, bool special);

  Normalizer normalizer;
  PreTokenizer preTokenizer;
  std::unique_ptr<Bpe> bpe;
  AddedTokens added;
  std::unordered_map<std::string_view, int32_t> addedIds;
  std::vector<Piece> pieces;
  std::string bytes;
};
} // namespace

/// A decoder that turns characters back into bytes. Fuse, which joins strings,
/// changes nothing after it.
static Status checkDecoder(const json &spec, const std::string &path,
                           int &byteLevels) {
  Result<std::string> type = componentType(spec, path);
  if (!type)
    return type.takeError();
  if (*type == "ByteLevel") {
    ++byteLevels;
    return Status::success();
  }
  if (*type == "Fuse" && byteLevels > 0)
    return Status::success();
  if (*type == "Sequence") {
    auto list = spec.find("decoders");
    if (list == spec.end() || !list->is_array())
      return Error(path + ".decoders: expected an array");
    for (size_t i = 0; i < list->size(); ++i)
      if (Status status = checkDecoder(
              (*list)[i], path + ".decoders[" + std::to_string(i) + "]",
              byteLevels);
          !status)
        return status;
    return Status::success();
  }
  return Error(path + ".type: the decoder " + inQuotes(*type) +
               " is not supported here; expected ByteLevel, or a Sequence of "
               "ByteLevel and then Fuse");
}

/// The member of the document, null if it is missing.
static const json &member(const json &document, const char *name) {
  static const json null;
  auto it = document.find(name);
  return it == document.end() ? null : *it;
}

void ByteLevelTokenizer::addPiece(int32_t id, std::string_view token,
                                  bool special) {
  if (static_cast<size_t>(id) >= pieces.size())
    pieces.resize(id + 1);
  std::optional<std::string> decoded = charsToBytes(token);
  // A token with a character that stands for no byte decodes to itself.
  std::string_view piece = decoded ? std::string_view(*decoded) : token;
  pieces[id] = {static_cast<uint32_t>(bytes.size()),
                static_cast<uint32_t>(piece.size()), special};
  bytes += piece;
}

Result<std::unique_ptr<Tokenizer>>
ByteLevelTokenizer::create(TokenizerFile file) {
  auto result = std::make_unique<ByteLevelTokenizer>();
  json document = std::move(file.rest);
  file.rest = json{{"model", member(document, "model")},
                   {"added_tokens", member(document, "added_tokens")}};

  Result<std::unique_ptr<Bpe>> bpe = Bpe::create(std::move(file));
  if (!bpe)
    return bpe.takeError();
  Result<Normalizer> normalizer =
      Normalizer::create(member(document, "normalizer"));
  if (!normalizer)
    return normalizer.takeError();
  Result<PreTokenizer> preTokenizer =
      PreTokenizer::create(member(document, "pre_tokenizer"));
  if (!preTokenizer)
    return preTokenizer.takeError();
  // Only adds special tokens, which encode() never asks for.
  const json &post = member(document, "post_processor");
  if (!post.is_null())
    if (Result<std::string> type = componentType(post, "post_processor"); !type)
      return type.takeError();
  int byteLevels = 0;
  if (Status status =
          checkDecoder(member(document, "decoder"), "decoder", byteLevels);
      !status)
    return status.takeError();
  if (byteLevels != 1)
    return Error("decoder: expected one ByteLevel, found " +
                 std::to_string(byteLevels));
  Result<AddedTokens> added = AddedTokens::create(
      member(document, "added_tokens"), file.addedName, **bpe, *normalizer);
  if (!added)
    return added.takeError();

  result->normalizer = std::move(*normalizer);
  result->preTokenizer = std::move(*preTokenizer);
  result->bpe = std::move(*bpe);
  result->added = std::move(*added);
  const std::vector<std::string_view> &tokens = result->bpe->tokens();
  result->pieces.resize(tokens.size());
  for (size_t id = 0; id < tokens.size(); ++id)
    result->addPiece(static_cast<int32_t>(id), tokens[id], false);
  for (const AddedTokens::Token &token : result->added.tokens()) {
    result->addPiece(token.id, token.content, token.special);
    result->addedIds.emplace(token.content, token.id);
  }
  return std::unique_ptr<Tokenizer>(std::move(result));
}

Result<std::vector<int32_t>>
ByteLevelTokenizer::encode(std::string_view text) const {
  // Positions inside a word are 32-bit numbers.
  constexpr size_t longest = size_t(1) << 30;
  if (text.size() > longest)
    return Error("the text has " + std::to_string(text.size()) +
                 " bytes; at most " + std::to_string(longest) +
                 " are tokenized at once");
  if (std::optional<size_t> bad = findInvalidUtf8(text))
    return Error("the text is not UTF-8 at byte " + std::to_string(*bad));

  std::vector<int32_t> ids;
  Regex::Scratch regexScratch(text.size());
  Bpe::Scratch bpeScratch;
  Words words;
  auto onToken = [&](int32_t id) { ids.push_back(id); };
  auto onPlain = [&](std::string_view plain) -> Status {
    if (Status status = preTokenizer.apply(plain, regexScratch, words); !status)
      return status;
    for (std::string_view word : words.views)
      bpe->encode(word, bpeScratch, ids);
    return Status::success();
  };
  std::string normalized;
  auto onRaw = [&](std::string_view raw) -> Status {
    normalized.assign(raw);
    if (Status status = normalizer.apply(normalized, regexScratch); !status)
      return status;
    return added.split(normalized, /*normalized=*/true, regexScratch, onToken,
                       onPlain);
  };
  if (Status status =
          added.split(text, /*normalized=*/false, regexScratch, onToken, onRaw);
      !status)
    return status.takeError();
  return ids;
}

std::string ByteLevelTokenizer::decode(std::span<const int32_t> ids,
                                       bool skipSpecial) const {
  std::string out;
  for (int32_t id : ids) {
    // As in tokenizers, an id without a token is nothing.
    if (!inRange(id) || (skipSpecial && pieces[id].special))
      continue;
    out.append(bytes, pieces[id].begin, pieces[id].length);
  }
  return utf8Lossy(out);
}

int32_t ByteLevelTokenizer::tokenId(std::string_view token) const {
  auto it = addedIds.find(token);
  return it != addedIds.end() ? it->second : bpe->idOf(token);
}

bool Tokenizer::exists(const std::string &folder) {
  return isThere(folder + "/tokenizer.json") || isThere(folder + "/vocab.json");
}

/// folder/tokenizer.json, or the separate files, which have no document.
static Result<TokenizerFile> readFiles(const std::string &folder) {
  const std::string whole = folder + "/tokenizer.json";
  if (isThere(whole)) {
    Result<std::string> content = readTextFile(whole, largestFile);
    if (!content)
      return content.takeError();
    Result<TokenizerFile> file = parseTokenizerFile(*content);
    if (!file)
      return file.takeError().withContext("tokenizer.json");
    return file;
  }
  if (isThere(folder + "/vocab.json"))
    return readSeparateFiles(folder);
  return Error(printablePath(whole) +
               ": there is no such file, and no vocab.json beside it; the "
               "folder of a model holds one of them");
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::load(const std::string &folder) {
  Result<TokenizerFile> file = readFiles(folder);
  if (!file)
    return file.takeError();
  const bool separate = file->mergesAreLines;
  Result<std::unique_ptr<Tokenizer>> tokenizer =
      ByteLevelTokenizer::create(std::move(*file));
  // Places in separate files begin with the file's name.
  if (!tokenizer && !separate)
    return tokenizer.takeError().withContext("tokenizer.json");
  return tokenizer;
}
