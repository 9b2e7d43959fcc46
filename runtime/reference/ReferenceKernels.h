//===- ReferenceKernels.h - Kernels by their definitions --------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_REFERENCE_REFERENCEKERNELS_H
#define HEDDLE_RUNTIME_REFERENCE_REFERENCEKERNELS_H

#include "bundle/program/Manifest.h"
#include "runtime/schedule/KernelRunner.h"
#include "runtime/tensor/DType.h"

#include <atomic>
#include <map>
#include <vector>

namespace heddle::rt {

/// Runs a manifest's kernels as Reference.h defines them, outputs rounded to
/// the tensors' element type. Takes minutes where compiled code takes seconds.
class ReferenceKernels final : public KernelRunner {
public:
  /// `manifest` must outlive this.
  ReferenceKernels(const bundle::Manifest &manifest, int64_t headDim,
                   DType dtype)
      : manifest(manifest), headDim(headDim), dtype(dtype) {}

  int64_t bytes(int64_t) const override { return 0; }
  Status reserve(int64_t) override { return Status::success(); }
  Status attend(size_t kernel, std::span<abi::AttentionArgs> blocks) override;
  Status select(size_t kernel,
                std::span<const abi::SelectArgs> blocks) override;

  /// (query, key) pairs that attend() has looked at, one by one.
  int64_t visitedPairs() const { return visited; }

  /// The scores behind the lists at `indices`, by list row and group: of all
  /// keys, or of all blocks. Empty when select() has not written there.
  std::span<const double> scores(const void *indices) const;

private:
  const bundle::Manifest &manifest;
  const int64_t headDim;
  const DType dtype;
  std::atomic<int64_t> visited = 0;
  std::map<const void *, std::vector<double>> scoresOf;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_REFERENCE_REFERENCEKERNELS_H
