//===- BoundKernel.h - A bundle's kernels in a model's form -----*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SCHEDULE_BOUNDKERNEL_H
#define HEDDLE_RUNTIME_SCHEDULE_BOUNDKERNEL_H

#include "bundle/Result.h"
#include "bundle/abi/Abi.h"
#include "bundle/program/Manifest.h"
#include "runtime/module/HostModule.h"
#include "runtime/schedule/StepProgram.h"
#include "runtime/tensor/DType.h"

#include <cstdint>
#include <vector>

namespace heddle::rt {

/// A kernel of the manifest in the form that fits the model. Only kernels that
/// some layer runs have a variant and an entry.
struct BoundKernel {
  const bundle::Kernel *kernel = nullptr;
  const bundle::KernelVariant *variant = nullptr;
  abi::AttentionKernel attention = nullptr;
  abi::SelectKernel select = nullptr;

  /// Bytes of scratch that one thread needs to run it for a sequence of n
  /// tokens.
  int64_t scratchBytes(int64_t n) const {
    return variant ? variant->scratchBytes + variant->scratchBytesPerKey * n
                   : 0;
  }
};

/// One for each kernel of `manifest`. An error when a kernel that some layer
/// runs has no variant for `dtype` and `headDim`. The result points into
/// `manifest` and `module`.
Result<std::vector<BoundKernel>> bindKernels(const bundle::Manifest &manifest,
                                             const StepProgram &program,
                                             const HostModule &module,
                                             DType dtype, int64_t headDim);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SCHEDULE_BOUNDKERNEL_H
