//===- Attention.h - Between a model and a schedule -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A model's forward pass asks a LayerExecutor, layer by layer, which rows to
// compute and what attention gives. Which rows, which pairs, what is cached and
// when it is refreshed is the schedule's business; what a head is, the model's.
//
// The *active* rows of a step carry a hidden state through all layers: those of
// all sequences one after the other, no padding. In a layer, an active row is
// *exact* (its Q, K, V, attention are computed) or reused (the executor
// provides its attention output); its FFN is computed or taken from the
// executor's cache.
//
// Worked example: two sequences; of the first positions 1, 4 and 6 are active,
// of the second 0 and 2: offsets {0, 3, 5}, positions {1, 4, 6, 0, 2}; row 3 is
// position 0 of sequence 1.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_MODEL_ATTENTION_H
#define HEDDLE_RUNTIME_MODEL_ATTENTION_H

#include "bundle/Result.h"
#include "runtime/tensor/DType.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace heddle::rt {

/// The active rows of a step.
struct PackedBatch {
  std::vector<int64_t> offsets;   ///< [sequences + 1], ascending from 0; a
                                  ///< sequence may have no rows
  std::vector<int32_t> positions; ///< [rows]: of each row in its sequence

  /// Every row of sequences of these lengths.
  static PackedBatch whole(std::span<const int64_t> lengths) {
    PackedBatch batch;
    batch.offsets = {0};
    for (int64_t length : lengths) {
      for (int64_t i = 0; i < length; ++i)
        batch.positions.push_back(static_cast<int32_t>(i));
      batch.offsets.push_back(static_cast<int64_t>(batch.positions.size()));
    }
    return batch;
  }

  int64_t sequences() const { return static_cast<int64_t>(offsets.size()) - 1; }
  int64_t rows() const { return offsets.back(); }
  /// Active rows of a sequence.
  int64_t length(int64_t sequence) const {
    return offsets[sequence + 1] - offsets[sequence];
  }
};

/// Some of the active rows, ascending.
struct RowSet {
  bool all = true;               ///< every active row; `rows` is then empty
  std::span<const int32_t> rows; ///< indices of active rows; the memory is the
                                 ///< executor's and stays until the next layer
};

/// Q, K (both after RoPE), V and the output of one layer for the active rows.
/// Strides count elements between consecutive rows. Rows that the executor did
/// not ask for hold anything. The memory is the executor's kind: the host's, or
/// a device's.
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

/// Executes a schedule through the layers of one step. Called by one thread
/// (which may use parallelFor inside), for each layer in order: values,
/// queriesAndKeys, attend, projected, ffn. As it stands it computes every
/// active row.
class LayerExecutor {
public:
  virtual ~LayerExecutor() = default;

  /// The rows whose V this layer computes.
  virtual Result<RowSet> values(int64_t layer) {
    (void)layer;
    return RowSet();
  }

  /// Whether queriesAndKeys() looks at V: if not, it is asked before V is
  /// computed, so that Q, K and V are one product.
  virtual bool choosesByValues(int64_t layer) const {
    (void)layer;
    return false;
  }

  struct Exact {
    RowSet queries; ///< rows whose Q is computed
    RowSet keys;    ///< rows whose K is computed
  };
  /// The rows whose Q and K this layer computes. If choosesByValues(),
  /// tensors.value holds the rows that values() named.
  virtual Result<Exact> queriesAndKeys(int64_t layer, const PackedBatch &batch,
                                       const AttentionTensors &tensors) {
    (void)layer, (void)batch, (void)tensors;
    return Exact();
  }

  /// Writes tensors.output for the rows of projected(), and refreshes what the
  /// step refreshes.
  virtual Status attend(int64_t layer, const PackedBatch &batch,
                        const AttentionTensors &tensors) = 0;

  /// Outputs [hidden] of which some are computed and the others kept from
  /// earlier steps.
  struct Cached {
    RowSet computed;
    /// Null: all active rows are computed and nothing is kept. Else the output
    /// of active row r, of the run's dtype, is kept at cache + index[r] *
    /// rowBytes: the model writes those that it computes and then takes every
    /// active row's from there.
    void *cache = nullptr;
    int64_t rowBytes = 0;
    std::span<const int32_t> index; ///< [rows]

    void *row(int64_t active) const {
      return static_cast<std::byte *>(cache) + index[active] * rowBytes;
    }
  };
  /// The rows whose attention output is projected, and the projections.
  virtual Result<Cached> projected(int64_t layer) {
    (void)layer;
    return Cached();
  }

  /// The rows whose FFN is computed, and its outputs.
  virtual Result<Cached> ffn(int64_t layer) {
    (void)layer;
    return Cached();
  }
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_MODEL_ATTENTION_H
