//===- Weights.h - A transformer's weights in memory ------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_MODEL_WEIGHTS_H
#define HEDDLE_RUNTIME_MODEL_WEIGHTS_H

#include "bundle/Result.h"
#include "runtime/base/Buffer.h"
#include "runtime/device/cpu/Gemm.h"
#include "runtime/model/Architecture.h"
#include "runtime/model/Config.h"
#include "runtime/model/Model.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace heddle::rt {

/// The weights of one layer. Linear layers that read the same rows are one.
struct LayerWeights {
  std::vector<float> attentionNorm; ///< [hidden], values of the run's dtype
  cpu::PackedLinear qkv; ///< outputs: all query heads, key heads, value heads;
                         ///< a chunk holds whole heads of one of the three
  std::vector<int64_t> qkvParts; ///< [4]: first chunk of each, and their number
  std::vector<float> qkvBias; ///< [outputs of qkv], values of the run's dtype;
                              ///< empty without biases
  cpu::PackedLinear attentionOut;
  std::vector<float> mlpNorm; ///< [hidden]
  cpu::PackedLinear gateUp;   ///< a chunk holds w outputs of gate, then the
                              ///< same w of up
  cpu::PackedLinear down;
};

/// Everything that a forward pass reads. Constant after loading.
struct TransformerWeights {
  std::unique_ptr<cpu::Gemm> gemm;
  Buffer embedding; ///< [vocab x hidden] in the run's dtype
  std::vector<LayerWeights> layers;
  std::vector<float> finalNorm; ///< [hidden]
  cpu::PackedLinear head;       ///< outputs: the vocabulary

  /// Bytes of all of them.
  int64_t bytes() const;

  /// Reads, converts and packs a checkpoint. Layouts are planned first, then
  /// memory is checked, then each weight is read once, chunk by chunk: beside
  /// the result only one chunk a thread is in memory. Interruptible.
  static Result<TransformerWeights> load(const ModelConfig &config,
                                         const ModelTensors &tensors,
                                         const Checkpoint &checkpoint,
                                         const LoadOptions &options);
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_MODEL_WEIGHTS_H
