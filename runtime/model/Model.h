//===- Model.h - A loaded model and its forward pass ------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_MODEL_MODEL_H
#define HEDDLE_RUNTIME_MODEL_MODEL_H

#include "bundle/Result.h"
#include "runtime/model/Attention.h"
#include "runtime/model/Config.h"
#include "runtime/tensor/DType.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace heddle::rt {

struct LoadOptions {
  /// Type of weights in memory and of activations. F32 or BF16.
  DType dtype = DType::F32;
  /// Called from the loading thread with bytes done and in all; may be null.
  std::function<void(int64_t done, int64_t total)> progress;
  /// Polled while loading; true ends the load with the error "interrupted".
  std::function<bool()> interrupted;
};

/// What a row of logits says first of all.
struct Best {
  int32_t token = -1;     ///< of the largest logit, the lowest of equals; -1:
                          ///< the logits were not all finite
  double probability = 0; ///< softmax(logits)[token]
};

/// Which rows' logits a forward pass computes, and who takes them.
struct LogitRequest {
  /// Active rows, any order, repeats allowed: the model's own rows. Which row
  /// predicts a position says ModelConfig::predictingRow.
  std::vector<int64_t> rows;
  /// rows.size() is a multiple of `unit`; the rows of one unit are always
  /// delivered in the same call (2 for a conditional and unconditional pair).
  int64_t unit = 1;
  /// Called with rows[first .. first + count) as `logits` [count x vocab]
  /// (fp32; in BF16 mode rounded to bf16 as the released models do), from
  /// several threads at once, each row once. The memory is gone on return.
  std::function<void(int64_t first, int64_t count, const float *logits)>
      consume;
  /// Called in place of `consume`, if set, by models that givesBest(), so that
  /// no logits are brought to the host; by one thread. `unit` must be 1.
  std::function<void(int64_t first, int64_t count, const Best *rows)> best =
      nullptr;
  /// A token that is never the best, as if its logit were -infinity; -1: none.
  int32_t barred = -1;
};

/// A transformer: RMSNorm, rotate-half RoPE, bidirectional
/// attention with grouped key heads, SwiGLU, and what ModelConfig says beside
/// (biases, the rotation's precision). Sources: Nie et al. 2025 (LLaDA), Ye et
/// al. 2025 (Dream). Weights are constant after loading. One forward at a time
/// per Model.
class Model {
public:
  virtual ~Model() = default;

  /// Loads a Hugging Face folder: config.json and model.safetensors or
  /// model.safetensors.index.json with its shards. Checks that memory suffices
  /// before allocating.
  static Result<std::unique_ptr<Model>> load(const std::string &folder,
                                             const LoadOptions &options);

  virtual const ModelConfig &config() const = 0;
  virtual DType dtype() const = 0;

  /// How products are computed, for people: library, instruction set, and
  /// whether bf16 had to be widened.
  virtual std::string description() const { return {}; }

  /// Bytes of weights held.
  virtual int64_t weightBytes() const = 0;

  /// Bytes of activations that a forward over `rows` packed rows allocates
  /// (kept and reused between calls), with the logit tiles.
  virtual int64_t activationBytes(int64_t rows) const = 0;

  /// Refuses a need that the memory of a pass's tensors, the host's or a
  /// device's, does not cover: "`what` needs 16.1 GB, 7.9 GB are available:
  /// `advice`".
  virtual Status checkMemory(int64_t bytes, const std::string &what,
                             const std::string &advice) const;

  /// Whether LogitRequest::best is called, and logits stay where they are.
  virtual bool givesBest() const { return false; }

  /// One pass of the active rows through the layers. `tokens` [batch.rows()],
  /// each in [0, config().vocabSize). Every row's result is bit for bit
  /// independent of the other sequences in the batch and of the thread count.
  virtual Status forward(const PackedBatch &batch,
                         std::span<const int32_t> tokens,
                         LayerExecutor &executor,
                         const LogitRequest &logits) = 0;
};

/// What every forward pass refuses: batches that do not fit together, tokens
/// and positions that the model does not have, logits of rows that are not
/// active.
Status checkForward(const ModelConfig &config, const PackedBatch &batch,
                    std::span<const int32_t> tokens,
                    const LogitRequest &logits);

/// Q, K and V one behind the other in the rows at `qkv`, and the output at
/// `output`.
AttentionTensors packedTensors(const ModelConfig &config, DType dtype,
                               const void *qkv, void *output);

/// A layer's projections and attention, in the order of an executor's calls.
/// `project` computes parts [firstPart, endPart) of query (0), key (1) and
/// value (2) heads of some rows, into `tensors`.
Status executeAttention(
    LayerExecutor &executor, int64_t layer, const PackedBatch &batch,
    const AttentionTensors &tensors,
    const std::function<Status(int firstPart, int endPart, const RowSet &rows)>
        &project);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_MODEL_MODEL_H
