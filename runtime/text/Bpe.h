//===- Bpe.h - Byte-pair encoding of words ----------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Source: Sennrich et al. 2016, "Neural Machine Translation of Rare Words with
// Subword Units", section 3.2, on bytes: a word starts as its bytes; as long as
// some neighbours are in the list of merges, the pair that is first in the list
// is merged, the leftmost of equals first.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEXT_BPE_H
#define HEDDLE_RUNTIME_TEXT_BPE_H

#include "runtime/text/TokenizerFile.h"

#include <array>
#include <shared_mutex>
#include <unordered_map>

namespace heddle::rt::text {

/// An immutable hash table from a pair of token ids to the pair's merge.
class MergeTable {
public:
  struct Merge {
    int32_t rank; ///< -1: the pair is never merged
    int32_t id;   ///< of the merged token
  };

  void reserve(size_t count);
  /// The last of several merges of the same pair holds.
  void insert(int32_t left, int32_t right, Merge merge);
  Merge find(int32_t left, int32_t right) const;

private:
  struct Slot {
    int32_t left = -1, right = -1;
    Merge merge;
  };
  size_t slotOf(int32_t left, int32_t right) const;
  std::vector<Slot> slots;
};

/// The model of a tokenizer.json: vocabulary and merges.
class Bpe {
public:
  /// Buffers of one thread's encoding.
  struct Scratch {
    struct Symbol {
      int32_t id; ///< -1: merged into its left neighbour
      int32_t previous, next;
    };
    struct Candidate {
      int32_t rank, position, id;
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };

  /// Takes the file's "model", vocabulary and merges.
  static Result<std::unique_ptr<Bpe>> create(TokenizerFile &&file);

  /// Appends the ids of a word: O(n log n). `bytes` comes from valid UTF-8.
  void encode(std::string_view bytes, Scratch &scratch,
              std::vector<int32_t> &ids) const;

  /// The id of a token written as in the file, or -1.
  int32_t idOf(std::string_view token) const;
  /// Number of tokens; at most the largest id + 1.
  size_t size() const { return idsByToken.size(); }
  /// Token of each id, as in the file; empty where an id has none.
  const std::vector<std::string_view> &tokens() const { return tokensById; }

private:
  Bpe() = default;
  Status readOptions(const nlohmann::json &model);
  Status readVocab(const TokenizerFile &file);
  Status readMerges(const TokenizerFile &file);
  Status checkMergesAreWhole(const TokenizerFile &file) const;
  void merge(std::string_view bytes, Scratch &scratch,
             std::vector<int32_t> &ids) const;

  std::string strings; ///< what the views below point into
  std::vector<std::string_view> tokensById;
  std::unordered_map<std::string_view, int32_t> idsByToken;
  std::array<int32_t, 256> byteIds;
  MergeTable merges;
  bool ignoreMerges = false;

  /// Words already encoded. A busy lock is a miss, never a wait.
  struct Cache;
  std::shared_ptr<Cache> cache;
};

} // namespace heddle::rt::text

#endif // HEDDLE_RUNTIME_TEXT_BPE_H
