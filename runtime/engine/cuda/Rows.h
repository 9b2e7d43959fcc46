//===- Rows.h - The row kernels of a bundle on a device ---------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_ENGINE_CUDA_ROWS_H
#define HEDDLE_RUNTIME_ENGINE_CUDA_ROWS_H

#include "bundle/abi/RowAbi.h"
#include "bundle/program/Manifest.h"
#include "runtime/device/cuda/Module.h"
#include "runtime/model/Config.h"
#include "runtime/tensor/DType.h"

#include <array>
#include <cstdint>

namespace heddle::rt::cuda {

/// The row kernels for one element type. The module must outlive it.
class RowKernels {
public:
  RowKernels() = default;

  /// Refuses a model whose rows don't start on 16-byte boundaries, or are so
  /// long that byte counts could leave 64 bits.
  static Status checkWidths(const ModelConfig &config);

  /// Looks up the row operations of the manifest's program for the module's
  /// target. An error when the bundle has them not for `dtype`.
  static Result<RowKernels> bind(const bundle::Manifest &manifest,
                                 const Module &module, DType dtype);

  /// Puts a launch of `blocks` blocks into the stream; none for no blocks.
  /// `Args` is one of the structs of bundle/abi/RowAbi.h, which says shapes and
  /// meaning.
  template <typename Args>
  Status operator()(const Stream &stream, int64_t blocks,
                    const Args &args) const {
    return launch(stream, Args::op, blocks, &args, Args::fields);
  }

private:
  Status launch(const Stream &stream, bundle::RowOp op, int64_t blocks,
                const void *args, std::span<const abi::RowField> fields) const;

  std::array<const Kernel *, std::size(bundle::allRowOps)> kernels{};
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_ENGINE_CUDA_ROWS_H
