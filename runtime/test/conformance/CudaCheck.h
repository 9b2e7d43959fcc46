//===- CudaCheck.h - Kernels of a bundle on a GPU ---------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEST_CONFORMANCE_CUDACHECK_H
#define HEDDLE_RUNTIME_TEST_CONFORMANCE_CUDACHECK_H

#include "runtime/device/cuda/Context.h"
#include "runtime/device/cuda/Module.h"
#include "runtime/device/cuda/Stream.h"
#include "runtime/test/conformance/Conformance.h"

#include <functional>
#include <string>

namespace heddle::conformance {

/// A bundle's kernels on one GPU.
struct CudaUnderTest {
  const rt::cuda::Context &context;
  const rt::cuda::Module &module;
  const rt::cuda::Stream &stream;
  bool wide = true;   ///< whether tensors over 4 GiB are tried
  bool poison = true; ///< see Options
};

/// The same as checkAttention for a variant of the GPU's target: outputs are
/// poisoned first, every element must be written and nothing between the rows.
/// Also several sequences in one launch, and one whose tensors have more than
/// 4 GiB. Of long sequences some rows are compared with the definition.
Finding checkAttentionOnCuda(const CudaUnderTest &gpu,
                             const bundle::Manifest &manifest,
                             const bundle::Kernel &kernel,
                             const bundle::KernelVariant &variant,
                             const Options &options);

/// The same as checkSelect; of long sequences some groups are compared.
Finding checkSelectOnCuda(const CudaUnderTest &gpu,
                          const bundle::Manifest &manifest,
                          const bundle::Kernel &kernel,
                          const bundle::KernelVariant &variant,
                          const Options &options);

/// All attention and select kernels of a bundle that GPU `ordinal` would run.
Result<bool>
checkBundleOnCuda(const bundle::Bundle &bundle, int ordinal,
                  const Options &options,
                  const std::function<void(const std::string &)> &report);

} // namespace heddle::conformance

#endif // HEDDLE_RUNTIME_TEST_CONFORMANCE_CUDACHECK_H
