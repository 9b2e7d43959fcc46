//===- Config.h - config.json of a model ------------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_MODEL_CONFIG_H
#define HEDDLE_RUNTIME_MODEL_CONFIG_H

#include "bundle/Result.h"
#include "runtime/text/ChatFormat.h"

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::rt {

/// How a model's released code goes from logits to committed tokens.
enum class SamplerFamily {
  Blocks,    ///< equal quotas in blocks (LLaDA's generate)
  Timesteps, ///< shares of what is masked, by t (Dream's diffusion_generate)
};

/// What the runtime needs of a model's config.json, under its own names.
/// LLaDA's field names in comments.
struct ModelConfig {
  std::string architecture;      ///< "llada", "dream": names of tensors
  int64_t layers = 0;            ///< n_layers
  int64_t hidden = 0;            ///< d_model
  int64_t queryHeads = 0;        ///< n_heads
  int64_t kvHeads = 0;           ///< n_kv_heads; absent or null: n_heads
  int64_t headDim = 0;           ///< d_model / n_heads
  int64_t mlpHidden = 0;         ///< mlp_hidden_size
  int64_t vocabSize = 0;         ///< embedding_size (rows of wte), else
                                 ///< vocab_size
  int64_t maxSequenceLength = 0; ///< max_sequence_length
  double ropeTheta = 0;          ///< rope_theta
  double rmsNormEps = 0;         ///< rms_norm_eps
  int32_t maskToken = -1;        ///< mask_token_id
  int32_t eosToken = -1;         ///< eos_token_id
  int32_t padToken = -1;         ///< pad_token_id
  bool tiedEmbeddings = false;   ///< weight_tying: LM head = wte

  // The facts in which architectures differ.
  bool qkvBias = false;          ///< query, key and value have biases
  bool fullPrecisionRope = true; ///< rotate in fp32, not in the run's dtype
  bool shiftedLogits = false;    ///< row i predicts position i + 1
  SamplerFamily sampler = SamplerFamily::Blocks;
  ChatFormat chat = ChatFormat::LLaDA;

  /// Elements of a row of queries or attention's output, of keys or values, and
  /// of one with queries, keys and values.
  int64_t attentionWidth() const { return queryHeads * headDim; }
  int64_t kvWidth() const { return kvHeads * headDim; }
  int64_t qkvWidth() const { return attentionWidth() + 2 * kvWidth(); }

  /// The row of its sequence that predicts `position`: the row itself, or, with
  /// shifted logits, the one before (row 0 predicts position 0 as well). A
  /// schedule that computes some rows only must compute this one for every
  /// position that a step may commit.
  int64_t predictingRow(int64_t position) const {
    return shiftedLogits && position > 0 ? position - 1 : position;
  }

  /// The special tokens that it names, ascending, each one once.
  std::vector<int32_t> specialTokens() const;

  /// Reads folder/config.json; model_type names the family. Values that change
  /// the computation in a way that is not implemented (alibi, another
  /// activation or norm, qk-norm, logit scaling...) are errors that name the
  /// field, what was found and what is supported.
  static Result<ModelConfig> load(const std::string &folder);
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_MODEL_CONFIG_H
