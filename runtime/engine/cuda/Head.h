//===- Head.h - LM head, draws and commits on a device ----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tokens, candidates, draws and commits stay on the device. The host knows how
// many rows can be candidates: at a block's start it reads the number of masked
// positions, and from then on it only shrinks.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_ENGINE_CUDA_HEAD_H
#define HEDDLE_RUNTIME_ENGINE_CUDA_HEAD_H

#include "runtime/denoise/StepEngine.h"
#include "runtime/device/cuda/Arena.h"
#include "runtime/device/cuda/Gemm.h"
#include "runtime/device/cuda/Pinned.h"
#include "runtime/engine/cuda/Rows.h"
#include "runtime/engine/cuda/Weights.h"

#include <cstdint>
#include <span>
#include <vector>

namespace heddle::rt::cuda {

/// The sequences of a run as they lie in the packed batch.
struct PackedRun {
  std::vector<int64_t> promptLengths;
  GenerateOptions options;
  std::vector<int64_t> offsets; ///< [sequences + 1] of the conditional half
  bool guided = false;          ///< as many unconditional sequences lie behind

  int64_t sequences() const {
    return static_cast<int64_t>(promptLengths.size());
  }
  /// Packed rows of the conditional half.
  int64_t conditionalRows() const { return offsets.back(); }
  int64_t rows() const { return conditionalRows() * (guided ? 2 : 1); }
  /// Of all packed sequences, unconditional ones included.
  std::vector<int64_t> lengths() const {
    std::vector<int64_t> result;
    for (int half = 0; half < (guided ? 2 : 1); ++half)
      for (int64_t s = 0; s < sequences(); ++s)
        result.push_back(offsets[s + 1] - offsets[s]);
    return result;
  }
  int64_t stepsPerBlock() const {
    return options.steps / (options.genLength / options.blockLength);
  }
};

/// The LM head's product of `rows` candidates; rows of logits start on 16-byte
/// boundaries.
GemmShape headProduct(const ModelConfig &config, DType dtype, int64_t rows);

class Head {
public:
  /// Logits in memory at once.
  static constexpr int64_t logitBytes = int64_t(1) << 30;

  /// Adds tokens, candidates, logits and results to the plan.
  static Head plan(const ModelConfig &config, DType dtype, const PackedRun &run,
                   ArenaPlan &plan);

  /// Puts the planned run's prompts and masks on the device.
  Status begin(const Context &context, const Stream &stream, const Arena &arena,
               const DeviceWeights &weights, const RowKernels &rows, Gemm &gemm,
               std::span<const std::vector<int32_t>> prompts);

  /// The tokens of all packed rows, [rows] int32.
  DevicePtr tokens() const { return token; }

  /// Before the first step of a block: counts masked positions, for quotas and
  /// for the number of candidates. Waits for the device.
  Status beginBlock(const Stream &stream, int64_t block);

  /// Puts the step's draws and commits into the stream, none when no sequence
  /// has a quota. `hidden` and `delta` [rows x H]: what the trunk left.
  Status run(const Stream &stream, const StepPlace &place, DevicePtr hidden,
             DevicePtr delta);

  /// Waits for the step; appends its commits. An error when logits were not
  /// finite.
  Status collect(const Stream &stream, std::vector<Commit> &commits);

  /// Rows that went through the LM head in the last step, CFG's included.
  int64_t logitRows() const;

  /// Waits; the whole sequences. An error when any step's logits were not
  /// finite.
  Result<std::vector<std::vector<int32_t>>> finish(const Stream &stream);

private:
  /// Where a step's results lie; one piece, so that one copy brings them.
  struct Results {
    DevicePtr base = 0;
    int64_t confidence = 0, rows = 0, sequence = 0, token = 0, committed = 0;
    int64_t bytes = 0; ///< all of it, from base
    static Results layOut(DevicePtr base, int64_t capacity);
  };

  bool anyQuota(int64_t stepInBlock) const;
  int64_t productRows(int64_t count) const;
  Status project(const Stream &stream, DevicePtr hidden, DevicePtr delta,
                 int64_t first, int64_t count, int64_t shift, DevicePtr to);
  Status draw(const Stream &stream, int64_t first, int64_t count);
  Status notFinite(int64_t candidate, const int32_t *rows,
                   int64_t capacity) const;

  ModelConfig config;
  DType dtype = DType::BF16;
  PackedRun batch;
  int64_t mostCandidates = 0;
  int64_t waveRows = 0;    ///< candidates whose logits are in memory at once
  int64_t vocabStride = 0; ///< elements between rows of logits

  ArenaPlan::Slot tokenSlot = 0, resultSlot = 0, rangeSlot = 0, countSlot = 0,
                  clockSlot = 0, clocksSlot = 0, offsetSlot = 0,
                  gatheredSlot = 0, logitSlot = 0, unconditionalSlot = 0;
  const DeviceWeights *weights = nullptr;
  const RowKernels *rows = nullptr;
  Gemm *gemm = nullptr;
  DevicePtr token = 0, result = 0, ranges = 0, counts = 0, clock = 0,
            clocks = 0, offsets = 0, gathered = 0, logits = 0,
            unconditional = 0;
  PinnedBuffer host; ///< ranges, counts and results on their way

  // The block and the step.
  std::vector<int64_t> masked; ///< [sequences]: when the block started
  int64_t candidates = 0;      ///< rows that can still be masked
  bool drew = false;           ///< whether the last step drew anything
  int64_t capacity = 0;        ///< candidates of the last step, at most
  Results results;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_ENGINE_CUDA_HEAD_H
