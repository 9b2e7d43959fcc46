//===- CudaTarget.h - The GPU that code is made for -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TARGET_NVPTX_CUDATARGET_H
#define HEDDLE_TARGET_NVPTX_CUDATARGET_H

#include "bundle/program/Manifest.h"
#include "heddle/Support/TargetInfo.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace heddle {

/// What CUDA's documentation says of a GPU.
struct Chip {
  llvm::StringLiteral name;
  llvm::StringLiteral ptx;   ///< the PTX version that its kernels need
  int64_t blockKiB;          ///< shared memory of a block
  int64_t multiprocessorKiB; ///< shared memory of a multiprocessor
  bool wgmma;
  bool startsEarly; ///< whether it has `griddepcontrol`, as from 9.0 on
};

/// An NVIDIA GPU by its architecture. PTX for it needs at least the PTX version
/// of `description()`, the oldest that knows the GPU. PTX for sm_80 runs on
/// every later GPU, that for sm_90a on no other.
class CudaTarget final : public CudaTargetInfo {
public:
  /// `name` is one of names(). Fails with a sentence that lists them.
  static llvm::Expected<CudaTarget> get(llvm::StringRef name);

  /// "sm_80, sm_86, ...", for messages.
  static std::string names();

  int64_t sharedBytesPerBlock() const override { return chip.blockKiB * 1024; }
  int64_t sharedBytesPerMultiprocessor() const override {
    return chip.multiprocessorKiB * 1024;
  }
  int64_t registersPerMultiprocessor() const override { return 65536; }
  int64_t registersPerThread() const override { return 255; }
  bool hasWgmma() const override { return chip.wgmma; }

  /// Whether it can start a kernel before the one before is done, which then
  /// waits for it itself.
  bool startsEarly() const { return chip.startsEarly; }

  /// For the bundle's manifest.
  const bundle::Target &description() const { return target; }

private:
  explicit CudaTarget(const Chip &chip);

  Chip chip;
  bundle::Target target;
};

} // namespace heddle

#endif // HEDDLE_TARGET_NVPTX_CUDATARGET_H
