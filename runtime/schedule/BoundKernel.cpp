//===- BoundKernel.cpp - A bundle's kernels in a model's form -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/schedule/BoundKernel.h"

#include <string>

using namespace heddle;
using namespace heddle::rt;
using bundle::Kernel;
using bundle::KernelVariant;

/// The host's variant for an element type and head dim, or an error with those
/// that there are.
static Result<const KernelVariant *>
findVariant(const Kernel &kernel, int64_t host, DType dtype, int64_t headDim) {
  std::string have;
  for (const KernelVariant &variant : kernel.variants) {
    if (variant.target != host)
      continue;
    if (variant.dtype == name(dtype) && variant.headDim == headDim)
      return &variant;
    have += (have.empty() ? "" : ", ") + variant.dtype + " with " +
            std::to_string(variant.headDim);
  }
  return Error("the bundle has no host kernels for " +
               std::string(name(dtype)) + " and a head dim of " +
               std::to_string(headDim) + ", only for " + have +
               "; compile the schedule for this model, or choose another "
               "element type");
}

Result<std::vector<BoundKernel>>
heddle::rt::bindKernels(const bundle::Manifest &manifest,
                        const StepProgram &program, const HostModule &module,
                        DType dtype, int64_t headDim) {
  std::vector<BoundKernel> kernels(manifest.kernels.size());
  for (size_t k = 0; k < kernels.size(); ++k) {
    const Kernel &kernel = manifest.kernels[k];
    BoundKernel &bound = kernels[k];
    bound.kernel = &kernel;
    if (!program.uses(k))
      continue;
    if (Status status =
            findVariant(kernel, bundle::hostTarget(manifest), dtype, headDim)
                .moveTo(bound.variant);
        !status)
      return status.takeError();
    if (kernel.kind == Kernel::Kind::Select)
      bound.select = module.select(bound.variant->symbol);
    else
      bound.attention = module.attention(bound.variant->symbol);
  }
  return kernels;
}
