//===- Rows.h - The row kernels of a bundle on a device ---------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_ENGINE_CUDA_ROWS_H
#define HEDDLE_RUNTIME_ENGINE_CUDA_ROWS_H

#include "bundle/Manifest.h"
#include "bundle/RowAbi.h"
#include "runtime/device/cuda/Module.h"
#include "runtime/tensor/DType.h"

#include <array>
#include <cstdint>

namespace heddle::rt::cuda {

/// The row kernels for one element type. The module must outlive it.
class RowKernels {
public:
  RowKernels() = default;

  /// Looks up all row operations of the module's target. An error when the
  /// bundle has them not for `dtype`.
  static Result<RowKernels> bind(const bundle::Manifest &manifest,
                                 const Module &module, DType dtype);

  /// Puts a launch of `blocks` blocks into the stream; none for no blocks.
  /// Shapes and meaning: bundle/RowAbi.h.
  Status operator()(const Stream &stream, int64_t blocks,
                    const abi::EmbedArgs &args) const {
    return launch(stream, bundle::RowOp::Embed, blocks, args);
  }
  Status operator()(const Stream &stream, int64_t blocks,
                    const abi::RmsNormArgs &args) const {
    return launch(stream, bundle::RowOp::RmsNorm, blocks, args);
  }
  Status operator()(const Stream &stream, int64_t blocks,
                    const abi::RotateArgs &args) const {
    return launch(stream, bundle::RowOp::Rotate, blocks, args);
  }
  Status operator()(const Stream &stream, int64_t blocks,
                    const abi::SwiGluArgs &args) const {
    return launch(stream, bundle::RowOp::SwiGlu, blocks, args);
  }
  Status operator()(const Stream &stream, int64_t blocks,
                    const abi::MaskedCountArgs &args) const {
    return launch(stream, bundle::RowOp::MaskedCount, blocks, args);
  }
  Status operator()(const Stream &stream, int64_t blocks,
                    const abi::CandidatesArgs &args) const {
    return launch(stream, bundle::RowOp::Candidates, blocks, args);
  }
  Status operator()(const Stream &stream, int64_t blocks,
                    const abi::DrawArgs &args) const {
    return launch(stream, bundle::RowOp::Draw, blocks, args);
  }
  Status operator()(const Stream &stream, int64_t blocks,
                    const abi::CommitArgs &args) const {
    return launch(stream, bundle::RowOp::Commit, blocks, args);
  }

private:
  template <typename Args>
  Status launch(const Stream &stream, bundle::RowOp op, int64_t blocks,
                const Args &args) const {
    return launchFields(stream, op, blocks, &args, Args::fields);
  }
  Status launchFields(const Stream &stream, bundle::RowOp op, int64_t blocks,
                      const void *args,
                      std::span<const abi::RowField> fields) const;

  std::array<const Kernel *, std::size(bundle::allRowOps)> kernels{};
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_ENGINE_CUDA_ROWS_H
