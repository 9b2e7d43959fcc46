//===- Tokenizer.h - Text to token ids and back -----------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEXT_TOKENIZER_H
#define HEDDLE_RUNTIME_TEXT_TOKENIZER_H

#include "bundle/Result.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::rt {

/// A byte-level BPE tokenizer as Hugging Face writes it: tokenizer.json, or the
/// older vocab.json and merges.txt with tokenizer_config.json. Thread-safe
/// after loading.
class Tokenizer {
public:
  virtual ~Tokenizer() = default;

  /// Whether the folder has the files of a tokenizer.
  static bool exists(const std::string &folder);

  /// Reads folder/tokenizer.json or, without one, the separate files
  /// (SeparateFiles.h). Parts that are not implemented (a model
  /// other than BPE, an unknown normalizer...) are errors that name them.
  static Result<std::unique_ptr<Tokenizer>> load(const std::string &folder);

  /// Same ids as tokenizers' `encode(text, add_special_tokens=False)`: added
  /// and special tokens in the text become their ids. The text must be UTF-8.
  virtual Result<std::vector<int32_t>> encode(std::string_view text) const = 0;

  /// Bytes of the ids (invalid UTF-8 becomes U+FFFD, as in tokenizers);
  /// `skipSpecial` drops special tokens.
  virtual std::string decode(std::span<const int32_t> ids,
                             bool skipSpecial) const = 0;

  /// Number of ids, added tokens included (largest id + 1).
  virtual int64_t vocabSize() const = 0;

  /// The id of an exact token ("<|eot_id|>"), or -1.
  virtual int32_t tokenId(std::string_view token) const = 0;

  virtual bool isSpecial(int32_t id) const = 0;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_TEXT_TOKENIZER_H
