//===- DTypeChoice.cpp - The type that a run computes in ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/DTypeChoice.h"

#include "runtime/model/Safetensors.h"

#include <algorithm>
#include <map>

namespace heddle::rt {

std::optional<DType> dtypeNamed(std::string_view text) {
  for (DType dtype : {DType::F32, DType::BF16, DType::F16})
    if (text == name(dtype))
      return dtype;
  return std::nullopt;
}

Result<std::optional<DType>> storedDType(const std::string &folder) {
  Result<Checkpoint> checkpoint = Checkpoint::open(folder);
  if (!checkpoint)
    return checkpoint.takeError();
  std::map<DType, int64_t> bytes;
  for (const auto &[name, tensor] : checkpoint->tensors())
    if (tensor.dtype)
      bytes[*tensor.dtype] += tensor.elements * byteSize(*tensor.dtype);
  auto most = std::max_element(
      bytes.begin(), bytes.end(),
      [](const auto &a, const auto &b) { return a.second < b.second; });
  return most == bytes.end() ? std::nullopt : std::optional(most->first);
}

/// Whether every kernel has a form of this type on the target.
static bool offers(const bundle::Manifest &manifest, int64_t target,
                   DType dtype, int64_t headDim) {
  return std::ranges::all_of(
      manifest.kernels, [&](const bundle::Kernel &kernel) {
        return std::ranges::any_of(
            kernel.variants, [&](const bundle::KernelVariant &variant) {
              return variant.target == target && variant.dtype == name(dtype) &&
                     variant.headDim == headDim;
            });
      });
}

std::vector<DType> offeredDTypes(const bundle::Manifest &manifest,
                                 bundle::Target::Kind kind, int64_t headDim) {
  std::vector<DType> offered;
  for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    int64_t targets = 0, having = 0;
    for (size_t i = 0; i < manifest.targets.size(); ++i)
      if (manifest.targets[i].kind == kind) {
        ++targets;
        having += offers(manifest, static_cast<int64_t>(i), dtype, headDim);
      }
    if (targets > 0 && having == targets)
      offered.push_back(dtype);
  }
  return offered;
}

DType nearestDType(DType weights, const std::vector<DType> &offered) {
  for (DType dtype : {weights, DType::F32, DType::BF16, DType::F16})
    if (std::ranges::find(offered, dtype) != offered.end())
      return dtype;
  return weights;
}

} // namespace heddle::rt
