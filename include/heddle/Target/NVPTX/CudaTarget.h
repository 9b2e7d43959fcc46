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

/// An NVIDIA GPU by its architecture. PTX for it needs at least the PTX version
/// of `description()`, the oldest that knows the GPU. PTX for sm_80 runs on
/// every later GPU, that for sm_90a on no other.
class CudaTarget final : public CudaTargetInfo {
public:
  /// `name` is one of names(). Fails with a sentence that lists them.
  static llvm::Expected<CudaTarget> get(llvm::StringRef name);

  /// "sm_80, sm_86, ...", for messages.
  static std::string names();

  int64_t sharedBytesPerBlock() const override { return blockKiB * 1024; }
  int64_t sharedBytesPerMultiprocessor() const override {
    return multiprocessorKiB * 1024;
  }
  int64_t registersPerMultiprocessor() const override { return 65536; }
  int64_t registersPerThread() const override { return 255; }
  bool hasWgmma() const override { return wgmma; }

  /// Whether it can start a kernel before the one before is done, which then
  /// waits for it itself.
  bool startsEarly() const { return early; }

  /// For the bundle's manifest.
  const bundle::Target &description() const { return target; }

private:
  bundle::Target target;
  int64_t blockKiB = 0, multiprocessorKiB = 0;
  bool wgmma = false, early = false;
};

} // namespace heddle

#endif // HEDDLE_TARGET_NVPTX_CUDATARGET_H
