//===- Attention.h - The seam between a model and a schedule ----*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A model's forward pass computes Q, K and V of a packed batch and asks an
// AttentionBackend for the attention output. What the backend does (dense,
// sparse, refresh a selection) is the schedule's business; what a head is, the
// model's. Row layout of a packed batch: the rows of all sequences one after
// the other, no padding.
//
// Worked example: two sequences of 3 and 2 tokens give offsets {0, 3, 5}; row 3
// is position 0 of sequence 1.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_MODEL_ATTENTION_H
#define HEDDLE_RUNTIME_MODEL_ATTENTION_H

#include "bundle/Result.h"
#include "runtime/tensor/DType.h"

#include <cstdint>
#include <vector>

namespace heddle::rt {

/// The sequences of a packed batch.
struct PackedBatch {
  std::vector<int64_t> offsets; ///< [sequences + 1], ascending from 0

  int64_t sequences() const { return static_cast<int64_t>(offsets.size()) - 1; }
  int64_t rows() const { return offsets.back(); }
  int64_t length(int64_t sequence) const {
    return offsets[sequence + 1] - offsets[sequence];
  }
};

/// Q, K (both after RoPE), V and the output of one layer, for all rows of a
/// packed batch. Strides count elements between consecutive rows.
struct AttentionTensors {
  const void *query = nullptr; ///< [rows x queryHeads x headDim]
  const void *key = nullptr;   ///< [rows x kvHeads x headDim]
  const void *value = nullptr; ///< [rows x kvHeads x headDim]
  void *output = nullptr;      ///< [rows x queryHeads x headDim]
  int64_t queryStride = 0;
  int64_t keyStride = 0;
  int64_t valueStride = 0;
  int64_t outputStride = 0;
  int64_t queryHeads = 0;
  int64_t kvHeads = 0;
  int64_t headDim = 0;
  DType dtype = DType::F32;
};

/// Computes attention layer by layer within one denoising step.
class AttentionBackend {
public:
  virtual ~AttentionBackend() = default;

  /// Writes tensors.output for every row of the batch. Called once a layer, in
  /// layer order, by one thread (which may use parallelFor inside).
  virtual Status attend(int64_t layer, const PackedBatch &batch,
                        const AttentionTensors &tensors) = 0;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_MODEL_ATTENTION_H
