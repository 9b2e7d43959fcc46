//===- Conformance.cpp - Kernels of a bundle against float64 --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/test/conformance/Conformance.h"

#include <cstdio>

using namespace heddle;
using namespace heddle::conformance;

std::string conformance::lineOf(const std::string &name,
                                const Finding &finding) {
  char figures[128];
  std::snprintf(
      figures, sizeof(figures),
      "%4lld cases, worst error %.1e, at most %.0f%% of what is allowed",
      static_cast<long long>(finding.cases), finding.worst,
      finding.share * 100);
  std::string line =
      (finding.ok() ? "ok    " : "FAIL  ") + name + ": " + figures;
  if (!finding.ok())
    line += "\n      " + finding.failure;
  return line;
}

Result<bool> conformance::checkBundle(
    const bundle::Bundle &bundle, const Options &options,
    const std::function<void(const std::string &)> &report) {
  Result<std::unique_ptr<rt::HostModule>> module = rt::HostModule::load(bundle);
  if (!module)
    return module.takeError();
  const bundle::Manifest &manifest = bundle.manifest();
  int64_t host = bundle::hostTarget(manifest);
  bool ok = true, any = false;
  auto add = [&](const std::string &name, const Finding &finding) {
    report(lineOf(name, finding));
    ok &= finding.ok();
  };
  for (const bundle::Kernel &kernel : manifest.kernels) {
    for (const bundle::KernelVariant &variant : kernel.variants) {
      if (variant.target != host || !options.asksFor(variant))
        continue;
      any = true;
      std::string name = kernel.name + " " + variant.dtype +
                         " d=" + std::to_string(variant.headDim);
      add(name,
          kernel.kind == bundle::Kernel::Kind::Attention
              ? checkAttention(manifest, kernel, variant,
                               (*module)->attention(variant.symbol), options)
              : checkSelect(kernel, variant, (*module)->select(variant.symbol),
                            options));
    }
  }
  if (!any)
    return options.nothingFound();
  if (!options.kernel.empty())
    return ok;
  if (!ok) // the program would fail for the same reason, less clearly
    return false;
  for (const bundle::KernelVariant &variant :
       manifest.kernels.front().variants) {
    if (variant.target != host)
      continue;
    rt::DType dtype = rt::DType::F32;
    if (parseDType(variant.dtype, dtype))
      add("step program " + variant.dtype +
              " d=" + std::to_string(variant.headDim),
          checkProgram(bundle, dtype, variant.headDim, options));
  }
  return ok;
}
