//===- Asked.cpp - Which kernels of a bundle are timed --------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/bench/Asked.h"

#include <set>

using namespace heddle;

static std::string join(const std::set<std::string> &words) {
  std::string text;
  for (const std::string &word : words)
    text += (text.empty() ? "" : ", ") + word;
  return text;
}

Status bench::checkAsked(const bundle::Manifest &manifest, int64_t target,
                         const std::vector<std::string> &dtypes,
                         const std::vector<int64_t> &headDims) {
  std::set<std::string> types;
  std::set<int64_t> dims;
  for (const bundle::Kernel &kernel : manifest.kernels)
    for (const bundle::KernelVariant &variant : kernel.variants)
      if (variant.target == target) {
        types.insert(variant.dtype);
        dims.insert(variant.headDim);
      }
  for (const std::string &type : dtypes)
    if (!types.count(type))
      return Error(
          "the schedule has no kernels in " + type + " for " +
          toString(manifest.targets[target]) + ", it has " + join(types) +
          (type == "f16" &&
                   manifest.targets[target].kind == bundle::Target::Kind::Host
               ? "; f16 is for GPUs, give one of these"
               : "; give one of these, or compile it with --dtype=" + type));
  std::set<std::string> names;
  for (int64_t dim : dims)
    names.insert(std::to_string(dim));
  for (int64_t dim : headDims)
    if (!dims.count(dim))
      return Error(
          "the schedule has no kernels for head dim " + std::to_string(dim) +
          " and " + toString(manifest.targets[target]) + ", it has " +
          join(names) +
          "; give one of these, or compile it with heddlec --head-dim, which "
          "says what there can be");
  return Status::success();
}
