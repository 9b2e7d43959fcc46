//===- Architecture.h - The tensors of an architecture ----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which tensors a checkpoint must have, under which names and in which shapes.
// One table a family; the forward pass knows only the roles.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_MODEL_ARCHITECTURE_H
#define HEDDLE_RUNTIME_MODEL_ARCHITECTURE_H

#include "bundle/Result.h"
#include "runtime/model/Config.h"
#include "runtime/model/Safetensors.h"

#include <vector>

namespace heddle::rt {

/// The tensors of one layer. Matrices are [outputs x inputs].
struct LayerTensors {
  const TensorInfo *attentionNorm; ///< [hidden]
  const TensorInfo *query;         ///< [queryHeads * headDim x hidden]
  const TensorInfo *key;           ///< [kvHeads * headDim x hidden]
  const TensorInfo *value;         ///< [kvHeads * headDim x hidden]
  /// [outputs of the matrix] each; null when the config says no bias.
  const TensorInfo *queryBias = nullptr, *keyBias = nullptr,
                   *valueBias = nullptr;
  const TensorInfo *attentionOut; ///< [hidden x queryHeads * headDim]
  const TensorInfo *mlpNorm;      ///< [hidden]
  const TensorInfo *gate;         ///< [mlpHidden x hidden]
  const TensorInfo *up;           ///< [mlpHidden x hidden]
  const TensorInfo *down;         ///< [hidden x mlpHidden]
};

/// The tensors of a model.
struct ModelTensors {
  const TensorInfo *embedding; ///< [vocab x hidden]
  std::vector<LayerTensors> layers;
  const TensorInfo *finalNorm; ///< [hidden]
  const TensorInfo *head;      ///< [vocab x hidden]; the embedding when tied
};

/// Finds every tensor that `config` asks for. Tensors that are missing, of
/// another shape, of a type that weights cannot have, or that the model does
/// not have, are one error that lists them. The result points into
/// `checkpoint`.
Result<ModelTensors> bindTensors(const ModelConfig &config,
                                 const Checkpoint &checkpoint);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_MODEL_ARCHITECTURE_H
