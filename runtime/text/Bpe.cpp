//===- Bpe.cpp - Byte-pair encoding of words ------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/text/Bpe.h"
#include "runtime/text/ByteLevel.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <mutex>

using namespace heddle;
using namespace heddle::rt::text;
using nlohmann::json;

//===----------------------------------------------------------------------===//
// Merge table
//===----------------------------------------------------------------------===//

void MergeTable::reserve(size_t count) {
  slots.assign(std::bit_ceil(count * 2 + 2), Slot());
}

size_t MergeTable::slotOf(int32_t left, int32_t right) const {
  uint64_t key = uint64_t(uint32_t(left)) << 32 | uint32_t(right);
  // Multiplicative hashing: the product's upper bits depend on all of the key.
  uint64_t hash = key * 0x9E3779B97F4A7C15u;
  size_t mask = slots.size() - 1;
  size_t slot = (hash ^ hash >> 32) & mask;
  while (slots[slot].left >= 0 &&
         (slots[slot].left != left || slots[slot].right != right))
    slot = (slot + 1) & mask;
  return slot;
}

void MergeTable::insert(int32_t left, int32_t right, Merge merge) {
  slots[slotOf(left, right)] = {left, right, merge};
}

MergeTable::Merge MergeTable::find(int32_t left, int32_t right) const {
  const Slot &slot = slots[slotOf(left, right)];
  return slot.left < 0 ? Merge{-1, -1} : slot.merge;
}

//===----------------------------------------------------------------------===//
// Cache
//===----------------------------------------------------------------------===//

struct Bpe::Cache {
  static constexpr size_t maxWords = 16384;
  static constexpr size_t maxBytes = 64; ///< of a word

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const {
      return std::hash<std::string_view>()(s);
    }
  };
  std::shared_mutex mutex;
  std::unordered_map<std::string, std::vector<int32_t>, Hash, std::equal_to<>>
      words;
};

//===----------------------------------------------------------------------===//
// Reading the model
//===----------------------------------------------------------------------===//

Result<std::unique_ptr<Bpe>> Bpe::create(TokenizerFile &&file) {
  auto model = file.rest.find("model");
  if (model == file.rest.end() || !model->is_object())
    return Error("model: missing or not an object");
  std::unique_ptr<Bpe> bpe(new Bpe);
  // The type first: of another model, the vocabulary looks different too.
  if (Status status = bpe->readOptions(*model); !status)
    return status.takeError();
  if (!file.hasVocab)
    return Error("model.vocab: missing or not an object of token: id");
  if (!file.hasMerges)
    return Error("model.merges: missing or not an array");
  bpe->strings = std::move(file.strings);
  file.strings.clear();
  if (Status status = bpe->readVocab(file); !status)
    return status.takeError();
  if (Status status = bpe->readMerges(file); !status)
    return status.takeError();
  if (file.mergesAreLines)
    if (Status status = bpe->checkMergesAreWhole(file); !status)
      return status.takeError();
  bpe->cache = std::make_shared<Cache>();
  return bpe;
}

Status Bpe::readOptions(const json &model) {
  if (model.contains("type")) {
    Result<std::string> type = stringMember(model, "model", "type");
    if (!type)
      return type.takeError();
    if (*type != "BPE")
      return Error("model.type: the model " + inQuotes(*type) +
                   " is not supported; expected BPE");
  }
  // With every byte in the vocabulary no character is ever unknown, so
  // unk_token, fuse_unk and byte_fallback cannot act and are not looked at.
  for (const char *name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    auto it = model.find(name);
    if (it != model.end() && !it->is_null() && *it != "")
      return Error(
          "model." + std::string(name) + ": found " +
          inQuotes(it->dump(-1, ' ', false, json::error_handler_t::replace)) +
          "; byte-level models have none");
  }
  auto dropout = model.find("dropout");
  if (dropout != model.end() && !dropout->is_null() && *dropout != 0.0)
    return Error("model.dropout: expected null or 0; with dropout the same "
                 "text has many encodings");
  Result<bool> ignore = boolMember(model, "model", "ignore_merges", false);
  if (!ignore)
    return ignore.takeError();
  ignoreMerges = *ignore;
  return Status::success();
}

Status Bpe::readVocab(const TokenizerFile &file) {
  auto str = [&](FileString s) {
    return std::string_view(strings).substr(s.begin, s.length);
  };
  int32_t largest = -1;
  for (const TokenizerFile::Entry &entry : file.vocab)
    largest = std::max(largest, entry.id);
  // Holes are legal (models derived from tiktoken have some); a table of
  // nothing but holes is not.
  if (static_cast<size_t>(largest) >= 2 * file.vocab.size() + 65536 &&
      largest >= 0)
    return Error(file.vocabName + ": the largest id is " +
                 std::to_string(largest) + " but there are only " +
                 std::to_string(file.vocab.size()) + " tokens");
  tokensById.assign(largest + 1, std::string_view());
  idsByToken.reserve(file.vocab.size());
  for (const TokenizerFile::Entry &entry : file.vocab) {
    std::string_view token = str(entry.token);
    std::string place = file.vocabName + "[";
    if (token.empty())
      return Error(place + "\"\"]: a token cannot be empty");
    if (!idsByToken.emplace(token, entry.id).second)
      return Error(place + inQuotes(token) + "]: the token appears twice");
    std::string_view &slot = tokensById[entry.id];
    if (!slot.empty())
      return Error(place + inQuotes(token) + "]: the id " +
                   std::to_string(entry.id) + " already belongs to " +
                   inQuotes(slot));
    slot = token;
  }
  for (int b = 0; b < 256; ++b) {
    uint8_t byte = static_cast<uint8_t>(b);
    std::string token = bytesToChars(std::string(1, static_cast<char>(byte)));
    byteIds[b] = idOf(token);
    if (byteIds[b] < 0 && !neverInUtf8(byte))
      return Error(file.vocabName + ": has no token " + inQuotes(token) +
                   " for the byte " + std::to_string(b) +
                   "; a byte-level vocabulary holds every byte");
  }
  return Status::success();
}

Status Bpe::readMerges(const TokenizerFile &file) {
  auto str = [&](FileString s) {
    return std::string_view(strings).substr(s.begin, s.length);
  };
  merges.reserve(file.merges.size());
  std::string joined;
  int32_t rank = 0;
  for (const TokenizerFile::Merge &merge : file.merges) {
    std::string_view left = str(merge.left), right = str(merge.right);
    joined.assign(left).append(right);
    int32_t ids[3];
    std::string_view names[3] = {left, right, joined};
    for (int i = 0; i < 3; ++i) {
      ids[i] = idOf(names[i]);
      if (ids[i] < 0)
        return Error(file.place(merge) + ": the token " + inQuotes(names[i]) +
                     " is not in " + file.vocabName);
    }
    merges.insert(ids[0], ids[1], {rank++, ids[2]});
  }
  return Status::success();
}

/// A list of merges that was cut at a line's end is read like any other, and
/// only cuts text into more tokens. But each token of a vocabulary is a byte's,
/// a merge's or an added one.
Status Bpe::checkMergesAreWhole(const TokenizerFile &file) const {
  auto str = [&](FileString s) {
    return std::string_view(strings).substr(s.begin, s.length);
  };
  std::vector<bool> made(tokensById.size());
  for (int32_t id : byteIds)
    if (id >= 0)
      made[id] = true;
  std::string joined;
  for (const TokenizerFile::Merge &merge : file.merges)
    made[idOf(joined.assign(str(merge.left)).append(str(merge.right)))] = true;
  if (auto added = file.rest.find("added_tokens");
      added != file.rest.end() && added->is_array())
    for (const json &token : *added)
      if (auto content = token.find("content");
          content != token.end() && content->is_string())
        if (int32_t id = idOf(content->get_ref<const std::string &>()); id >= 0)
          made[id] = true;
  int64_t missing = 0;
  std::string_view first;
  for (size_t id = 0; id < made.size(); ++id)
    if (!made[id] && !tokensById[id].empty() && missing++ == 0)
      first = tokensById[id];
  if (missing == 0)
    return Status::success();
  return Error("merges.txt: no line of " + std::to_string(file.merges.size()) +
               " makes the token " + inQuotes(first) + " of " + file.vocabName +
               (missing > 1 ? ", nor " + std::to_string(missing - 1) + " others"
                            : std::string()) +
               "; the file is cut off, or of another model: download it again");
}

int32_t Bpe::idOf(std::string_view token) const {
  auto it = idsByToken.find(token);
  return it == idsByToken.end() ? -1 : it->second;
}

//===----------------------------------------------------------------------===//
// Encoding
//===----------------------------------------------------------------------===//

void Bpe::encode(std::string_view bytes, Scratch &scratch,
                 std::vector<int32_t> &ids) const {
  if (bytes.size() == 1) {
    ids.push_back(byteIds[static_cast<uint8_t>(bytes[0])]);
    return;
  }
  bool cacheable = bytes.size() <= Cache::maxBytes;
  if (cacheable) {
    std::shared_lock lock(cache->mutex, std::try_to_lock);
    if (lock) {
      auto it = cache->words.find(bytes);
      if (it != cache->words.end()) {
        ids.insert(ids.end(), it->second.begin(), it->second.end());
        return;
      }
    }
  }
  size_t first = ids.size();
  int32_t whole = ignoreMerges ? idOf(bytesToChars(bytes)) : -1;
  if (whole >= 0)
    ids.push_back(whole);
  else
    merge(bytes, scratch, ids);
  if (cacheable) {
    std::unique_lock lock(cache->mutex, std::try_to_lock);
    if (lock && cache->words.size() < Cache::maxWords)
      cache->words.try_emplace(
          std::string(bytes),
          std::vector<int32_t>(ids.begin() + first, ids.end()));
  }
}

void Bpe::merge(std::string_view bytes, Scratch &scratch,
                std::vector<int32_t> &ids) const {
  using Candidate = Scratch::Candidate;
  auto &symbols = scratch.symbols;
  auto &heap = scratch.heap;
  int32_t count = static_cast<int32_t>(bytes.size());
  symbols.resize(count);
  for (int32_t i = 0; i < count; ++i) {
    symbols[i] = {byteIds[static_cast<uint8_t>(bytes[i])], i - 1,
                  i + 1 < count ? i + 1 : -1};
    assert(symbols[i].id >= 0 && "a byte that no UTF-8 text contains");
  }

  // The heap's top is the smallest rank, and the leftmost among equals.
  auto later = [](const Candidate &a, const Candidate &b) {
    return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
  };
  auto candidate = [&](int32_t position) -> Candidate {
    int32_t next = symbols[position].next;
    if (next < 0)
      return {-1, position, -1};
    MergeTable::Merge found =
        merges.find(symbols[position].id, symbols[next].id);
    return {found.rank, position, found.id};
  };
  auto push = [&](int32_t position) {
    Candidate c = candidate(position);
    if (c.rank < 0)
      return;
    heap.push_back(c);
    std::push_heap(heap.begin(), heap.end(), later);
  };

  heap.clear();
  for (int32_t i = 0; i + 1 < count; ++i)
    if (Candidate c = candidate(i); c.rank >= 0)
      heap.push_back(c);
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    Candidate top = heap.back();
    heap.pop_back();
    Scratch::Symbol &left = symbols[top.position];
    // Since it was pushed, either side may have merged with its other
    // neighbour; the pair that stands there now has an entry of its own.
    if (left.id < 0 || candidate(top.position).rank != top.rank)
      continue;
    Scratch::Symbol &right = symbols[left.next];
    left.id = top.id;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0)
      symbols[left.next].previous = top.position;
    if (left.previous >= 0)
      push(left.previous);
    push(top.position);
  }
  for (int32_t i = 0; i >= 0; i = symbols[i].next)
    ids.push_back(symbols[i].id);
}
