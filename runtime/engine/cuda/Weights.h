//===- Weights.h - A transformer's weights on a device ----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_ENGINE_CUDA_WEIGHTS_H
#define HEDDLE_RUNTIME_ENGINE_CUDA_WEIGHTS_H

#include "runtime/device/cuda/Arena.h"
#include "runtime/device/cuda/Stream.h"
#include "runtime/model/Config.h"
#include "runtime/model/Model.h"
#include "runtime/tensor/DType.h"

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::rt::cuda {

/// Addresses of one layer's weights; matrices are [outputs x inputs], dense.
struct LayerAddresses {
  DevicePtr attentionNorm = 0; ///< [hidden]
  DevicePtr qkv = 0;           ///< outputs: query, key, then value heads
  DevicePtr qkvBias = 0;       ///< [outputs of qkv]; 0 without biases
  DevicePtr attentionOut = 0;  ///< [hidden x queryHeads * headDim]
  DevicePtr mlpNorm = 0;       ///< [hidden]
  DevicePtr gateUp = 0;        ///< outputs: gate's, then up's
  DevicePtr down = 0;          ///< [hidden x mlpHidden]
};

/// All weights in one type, constant after loading.
class DeviceWeights {
public:
  DeviceWeights() = default;

  /// Bytes on the device for a model of this shape; the largest number when
  /// there are more.
  static int64_t bytesFor(const ModelConfig &config, DType dtype);

  /// Streams folder's checkpoint to the device through pinned buffers. Memory
  /// is checked first; host memory stays within a few buffers.
  static Result<DeviceWeights> load(const Context &context,
                                    const ModelConfig &config,
                                    const std::string &folder,
                                    const LoadOptions &options);

  /// Random weights (normal, deviation 0.02; norms 1), the same for the same
  /// seed: for timing models whose checkpoint is not at hand.
  static Result<DeviceWeights> random(const Context &context,
                                      const ModelConfig &config, DType dtype,
                                      uint64_t seed);

  int64_t bytes() const { return arena.bytes(); }

  DevicePtr embedding = 0; ///< [vocab x hidden]
  std::vector<LayerAddresses> layers;
  DevicePtr finalNorm = 0; ///< [hidden]
  DevicePtr head = 0;      ///< [vocab x hidden]; the embedding when tied

private:
  struct Parts;
  Arena arena;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_ENGINE_CUDA_WEIGHTS_H
