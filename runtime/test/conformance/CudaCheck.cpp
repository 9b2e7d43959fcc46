//===- CudaCheck.cpp - Kernels of a bundle on a GPU ----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/test/conformance/CudaCheck.h"

#include "runtime/test/conformance/CudaCase.h"

using namespace heddle;
using namespace heddle::conformance;

Result<bool> conformance::checkBundleOnCuda(
    const bundle::Bundle &bundle, int ordinal, const Options &options,
    const std::function<void(const std::string &)> &report) {
  auto context = rt::cuda::Context::open(ordinal);
  if (!context)
    return context.takeError();
  auto module = rt::cuda::Module::load(**context, bundle);
  if (!module)
    return module.takeError();
  Result<rt::cuda::Stream> stream = rt::cuda::Stream::create(**context);
  if (!stream)
    return stream.takeError();
  const bundle::Manifest &manifest = bundle.manifest();
  const int64_t target = (*module)->choice().target;
  report("on " + (*context)->device().describe() + ", code for " +
         toString(manifest.targets[target]));
  Result<rt::cuda::MemoryInfo> free = (*context)->memory();
  if (!free)
    return free.takeError();
  CudaUnderTest gpu{**context, **module, *stream,
                    options.wide && free->free > wideBytes, options.poison};
  if (options.wide && !gpu.wide)
    report("no tensors over 4 GiB are tried: that takes " +
           std::to_string(wideBytes >> 30) + " GiB of free memory");
  bool ok = true, any = false;
  for (const bundle::Kernel &kernel : manifest.kernels)
    for (const bundle::KernelVariant &variant : kernel.variants) {
      if (variant.target != target || !options.asksFor(variant))
        continue;
      any = true;
      if (!(**module)[variant.symbol].holdsCluster()) {
        report(variant.symbol +
               ": not tried, this device holds no cluster of " +
               std::to_string(variant.cluster) + " blocks");
        continue;
      }
      Finding finding =
          kernel.kind == bundle::Kernel::Kind::Attention
              ? checkAttentionOnCuda(gpu, manifest, kernel, variant, options)
              : checkSelectOnCuda(gpu, manifest, kernel, variant, options);
      report(lineOf(variant.symbol, finding));
      ok &= finding.ok();
      // After a fault nothing on the device can be trusted.
      if ((*context)->broken())
        return false;
    }
  if (!any)
    return options.nothingFound();
  return ok;
}
