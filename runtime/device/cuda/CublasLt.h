//===- CublasLt.h - cuBLASLt, opened at run time ----------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICE_CUDA_CUBLASLT_H
#define HEDDLE_RUNTIME_DEVICE_CUDA_CUBLASLT_H

#include "bundle/Result.h"
#include "runtime/device/cuda/CublasLtApi.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace heddle::rt::cuda {

/// The files and library names that CublasLt::open tries, in order, for a
/// driver of the given version (cuBLASLt 13 needs a driver of 13.0; cuBLASLt 12
/// runs on every driver that is served):
///   1. HEDDLE_CUBLASLT_PATH, a library or a folder; when set, only that;
///   2. the dynamic loader's own search (LD_LIBRARY_PATH, ldconfig);
///   3. CUDA_HOME, CUDA_PATH, /usr/local/cuda*;
///   4. PyTorch's wheels: site-packages/nvidia/*/lib of the active virtual or
///      conda environment, of the `python3` on PATH, and of the system's
///      Python.
std::vector<std::string> cublasLtCandidates(int driverVersion);

/// libcublasLt in this process. Closed with the last owner.
class CublasLt {
public:
  /// Opens the first candidate that is there. Refused when there is none (with
  /// how to get it) or when it lacks an entry point.
  static Result<std::shared_ptr<const CublasLt>> open(int driverVersion);
  static Result<std::shared_ptr<const CublasLt>>
  openFile(const std::string &path);

  ~CublasLt();
  CublasLt(const CublasLt &) = delete;
  CublasLt &operator=(const CublasLt &) = delete;

  const lt::EntryPoints &entryPoints() const { return entries; }

  /// 130100 for 13.1.0, as the library counts (120304 for 12.3.4).
  size_t version() const { return libraryVersion; }
  /// "cuBLASLt 13.1.0 (/usr/local/cuda/lib64/libcublasLt.so.13)".
  std::string description() const;

  /// Calls an entry point and turns its result into a Status.
  template <typename... P, typename... A>
  Status call(const lt::EntryPoint<lt::cublasStatus_t(P...)> &entry,
              A... arguments) const {
    lt::cublasStatus_t code = entry.function(arguments...);
    if (code == lt::CUBLAS_STATUS_SUCCESS)
      return Status::success();
    return describe(entry.name, code);
  }

  /// "cublasLtMatmul failed: CUBLAS_STATUS_NOT_SUPPORTED (...)".
  Error describe(const char *call, lt::cublasStatus_t code) const;

private:
  CublasLt() = default;

  void *handle = nullptr;
  size_t libraryVersion = 0;
  std::string file;
  lt::EntryPoints entries;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICE_CUDA_CUBLASLT_H
