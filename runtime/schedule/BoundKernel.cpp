//===- BoundKernel.cpp - A bundle's kernels in a model's form -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/schedule/BoundKernel.h"

#include <algorithm>
#include <string>

using namespace heddle;
using namespace heddle::rt;
using bundle::Kernel;
using bundle::KernelVariant;
using bundle::Term;

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
    int64_t lists =
        std::count_if(kernel.terms.begin(), kernel.terms.end(),
                      [](const Term &term) { return term.selection >= 0; });
    if (lists > abi::maxIndexLists)
      return Error("kernel '" + kernel.name + "' reads " +
                   std::to_string(lists) +
                   " selections, a kernel can read at most " +
                   std::to_string(abi::maxIndexLists));
    Result<const KernelVariant *> variant =
        findVariant(kernel, bundle::hostTarget(manifest), dtype, headDim);
    if (!variant)
      return variant.takeError();
    bound.variant = *variant;
    if (kernel.kind == Kernel::Kind::Select)
      bound.select = module.select(bound.variant->symbol);
    else
      bound.attention = module.attention(bound.variant->symbol);
  }
  return kernels;
}
