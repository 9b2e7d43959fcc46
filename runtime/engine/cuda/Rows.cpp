//===- Rows.cpp - The row kernels of a bundle on a device ----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/cuda/Rows.h"

#include "bundle/program/KernelNeeds.h"

#include <cassert>

namespace heddle::rt::cuda {

Status RowKernels::checkWidths(const ModelConfig &config) {
  constexpr int64_t widest = int64_t(1) << 24;
  for (int64_t width : {config.hidden, config.mlpHidden, config.headDim,
                        config.attentionWidth()}) {
    if (width > widest)
      return Error("the model has rows of " + std::to_string(width) +
                   " elements; at most " + std::to_string(widest) +
                   " are possible on a GPU");
    if (width % 8 != 0)
      return Error("the model has rows of " + std::to_string(width) +
                   " elements; on a GPU all sizes must be multiples of 8");
  }
  return Status::success();
}

Result<RowKernels> RowKernels::bind(const bundle::Manifest &manifest,
                                    const Module &module, DType dtype) {
  RowKernels result;
  for (const bundle::RowKernel &kernel : manifest.rowKernels)
    for (const bundle::RowVariant &variant : kernel.variants)
      if (variant.target == module.choice().target &&
          variant.dtype == name(dtype))
        result.kernels[static_cast<size_t>(kernel.op)] =
            module.find(variant.symbol);
  for (bundle::RowOp op : bundle::rowOpsOf(manifest))
    if (!result.kernels[static_cast<size_t>(op)])
      return Error("the bundle has no row kernels in " +
                   std::string(name(dtype)) + " for " +
                   toString(manifest.targets[module.choice().target]) +
                   "; compile it with --dtype=" + std::string(name(dtype)));
  return result;
}

Status RowKernels::launch(const Stream &stream, bundle::RowOp op,
                          int64_t blocks, const void *args,
                          std::span<const abi::RowField> fields) const {
  constexpr size_t most = 24;
  assert(fields.size() <= most);
  const void *values[most];
  int64_t sizes[most];
  size_t at = 0;
  for (size_t i = 0; i < fields.size(); ++i) {
    size_t size = fields[i] == abi::RowField::Int32 ? 4 : 8;
    at = (at + size - 1) / size * size;
    values[i] = static_cast<const std::byte *>(args) + at;
    sizes[i] = static_cast<int64_t>(size);
    at += size;
  }
  return kernels[static_cast<size_t>(op)]->launchWith(
      stream, Grid{.x = blocks}, values, sizes, fields.size());
}

} // namespace heddle::rt::cuda
