//===- Trunk.h - The forward pass on a device -------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// T is the run's dtype; R packed rows; H hidden; A = queryHeads * headDim;
// K = kvHeads * headDim; F mlpHidden.
//
//   x = embedding[tokens]                                        [R x H]
//   each layer:
//     x += delta (of the layer before); h = rmsNorm(x)           [R x H]
//     qkv = h Wqkv^T; query and key heads rotated in place       [R x A + 2K]
//     att = attention of the schedule's phase; refreshes          [R x A]
//     delta = att Wo^T                                           [R x H]
//     x += delta; h = rmsNorm(x)
//     gu = h Wgu^T                                               [R x 2F]
//     act = silu(gate) * up                                      [R x F]
//     delta = act Wdown^T
//
// The last delta stays apart from x: only the rows that may be committed are
// added up, normed and multiplied by the LM head.
// Source: Nie et al. 2025 (LLaDA), released modelling code.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_ENGINE_CUDA_TRUNK_H
#define HEDDLE_RUNTIME_ENGINE_CUDA_TRUNK_H

#include "runtime/device/cuda/Arena.h"
#include "runtime/device/cuda/Gemm.h"
#include "runtime/engine/cuda/Address.h"
#include "runtime/engine/cuda/Rows.h"
#include "runtime/engine/cuda/Schedule.h"
#include "runtime/engine/cuda/Weights.h"
#include "runtime/model/Model.h"

#include <cstdint>

namespace heddle::rt::cuda {

/// Moments of a step (Arena.h), for memory that is not needed all the time.
namespace moment {
inline constexpr int norm = 1, qkv = 2, attention = 3, output = 4, mlpNorm = 5,
                     gateUp = 6, activation = 7, down = 8, head = 9;
} // namespace moment

/// A linear layer of a model, for people, and its product.
struct LinearLayer {
  const char *name;
  GemmShape shape;
};

/// Those of every transformer layer over `rows` rows, in order.
std::vector<LinearLayer> linearLayers(const ModelConfig &config, DType dtype,
                                      int64_t rows);

/// The layers of a model over the packed rows of a run.
class Trunk {
public:
  /// Adds the activations of `rows` rows and the tables of positions up to
  /// `longest` to the plan.
  static Trunk plan(const ModelConfig &config, DType dtype, int64_t rows,
                    int64_t longest, ArenaPlan &plan);

  /// Fills the tables, and prepares the products of this many rows.
  Status begin(const Stream &stream, const Arena &arena,
               const DeviceWeights &weights, const RowKernels &rows, Gemm &gemm,
               const std::vector<int64_t> &lengths);

  AttentionTensors attentionTensors() const {
    return packedTensors(config, dtype, at<void>(qkv), at<void>(attended));
  }

  /// What a step's layers consist of; the bench times each by itself.
  struct Parts {
    bool rows = true; ///< embedding, norms, rotations, activations
    bool products = true;
    bool attention = true;
  };

  /// Puts all layers of a step into the stream.
  Status run(const Stream &stream, const DeviceSchedule &schedule, int64_t step,
             DevicePtr tokens, const Parts &parts) const;

  /// The residual stream [R x H] and what is to be added to it.
  DevicePtr hidden() const { return x; }
  DevicePtr delta() const { return d; }

private:
  struct Product {
    GemmShape shape;
    GemmOperands operands;
  };
  std::vector<Product> products(int64_t layer) const;
  Status fillTables(const Stream &stream, const std::vector<int64_t> &lengths);

  ModelConfig config;
  DType dtype = DType::BF16;
  int64_t rowCount = 0;
  int64_t longest = 0;
  ArenaPlan::Slot xSlot = 0, deltaSlot = 0, normSlot = 0, qkvSlot = 0,
                  attendedSlot = 0, mlpNormSlot = 0, gateUpSlot = 0,
                  activatedSlot = 0, cosSlot = 0, sinSlot = 0, positionSlot = 0;
  const DeviceWeights *weights = nullptr;
  const RowKernels *rows = nullptr;
  Gemm *gemm = nullptr;
  DevicePtr x = 0, d = 0, normed = 0, qkv = 0, attended = 0, mlpNormed = 0,
            gateUp = 0, activated = 0, cos = 0, sin = 0, positions = 0;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_ENGINE_CUDA_TRUNK_H
