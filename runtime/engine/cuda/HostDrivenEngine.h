//===- HostDrivenEngine.h - Steps that are decided as they come -*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_ENGINE_CUDA_HOSTDRIVENENGINE_H
#define HEDDLE_RUNTIME_ENGINE_CUDA_HOSTDRIVENENGINE_H

#include "bundle/format/Bundle.h"
#include "runtime/denoise/StepEngine.h"
#include "runtime/engine/cuda/Weights.h"
#include "runtime/tensor/DType.h"

#include <memory>
#include <vector>

namespace heddle::rt::cuda {

/// Executes any schedule with a model on one GPU: the host decides which rows a
/// step and a layer compute, by the same executor and loop as on the host, and
/// puts the work into a stream. What is found out on the way (which rows have
/// changed, the candidates' logits) is copied to the host, so steps are not
/// recorded as graphs; CudaEngine executes what is known beforehand.
class HostDrivenEngine : public StepEngine {
public:
  /// Everything passed by reference must outlive the engine; the weights may be
  /// loaded later, before the first run.
  static Result<std::unique_ptr<HostDrivenEngine>>
  create(const Context &context, const DeviceWeights &weights,
         const bundle::Bundle &bundle, const ModelConfig &config, DType dtype);

  /// Device bytes of a run beside the weights, at their peak.
  virtual int64_t runBytes(const std::vector<int64_t> &promptLengths,
                           const GenerateOptions &options) const = 0;

  /// Of these, the index layouts'.
  virtual int64_t listBytes(const std::vector<int64_t> &promptLengths,
                            const GenerateOptions &options) const = 0;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_ENGINE_CUDA_HOSTDRIVENENGINE_H
