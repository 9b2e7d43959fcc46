//===- BoundKernel.cpp - A bundle's kernels in a model's form -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/schedule/BoundKernel.h"

#include "runtime/schedule/PairCount.h"

#include <algorithm>
#include <string>

using namespace heddle;
using namespace heddle::rt;
using bundle::Kernel;
using bundle::KernelVariant;
using bundle::Term;

bool BoundKernel::pairsDependOnLists() const {
  return rt::pairsDependOnLists(kernel->terms);
}

int64_t BoundKernel::mergedKeys(const bundle::Manifest &manifest,
                                int64_t n) const {
  int64_t keys = 0;
  if (variant && pairsDependOnLists())
    for (int64_t s : columns)
      keys += bundle::keepCount(manifest.selections[s].keep,
                                manifest.selections[s].rule, n);
  return keys;
}

int64_t BoundKernel::scratchBytes(const bundle::Manifest &manifest,
                                  int64_t n) const {
  if (!variant)
    return 0;
  return std::max(variant->scratchBytes + variant->scratchBytesPerKey * n,
                  mergedKeys(manifest, n) *
                      static_cast<int64_t>(sizeof(int32_t)));
}

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
    for (const Term &term : kernel.terms) {
      if (term.kind != Term::Kind::Columns)
        continue;
      bound.columns.push_back(term.selection);
      bound.groups.push_back(manifest.selections[term.selection].group);
    }
    if (!program.uses(k))
      continue;
    if (static_cast<int64_t>(bound.columns.size()) > abi::maxIndexLists)
      return Error("kernel '" + kernel.name + "' reads " +
                   std::to_string(bound.columns.size()) +
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
