//===- Runner.h - An executor's kernels on a device -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_ENGINE_CUDA_RUNNER_H
#define HEDDLE_RUNTIME_ENGINE_CUDA_RUNNER_H

#include "runtime/device/cuda/Arena.h"
#include "runtime/device/cuda/Stream.h"
#include "runtime/engine/cuda/Kernels.h"
#include "runtime/engine/cuda/RowUploads.h"
#include "runtime/schedule/KernelRunner.h"

#include <vector>

namespace heddle::rt::cuda {

/// Puts an executor's attention and selections into a stream. Everything passed
/// by reference must outlive it.
class DeviceRunner final : public KernelRunner {
public:
  DeviceRunner(const Context &context, const Stream &stream,
               RowUploads &uploads, const bundle::Target &target,
               ScheduleKernels kernels)
      : context(context), stream(stream), uploads(uploads), target(target),
        kernels(std::move(kernels)) {}

  bundle::Encoding encoding(int64_t longest) const override;
  int64_t bytes(int64_t longest) const override;
  Status reserve(int64_t longest) override;
  Status read(const bundle::Selection &selection, int64_t n, int64_t lists,
              GroupRange groups, abi::IndexList &list,
              std::unique_ptr<int32_t[]> &memory) override;
  Status attend(size_t kernel, std::span<abi::AttentionArgs> blocks) override;
  Status select(size_t kernel,
                std::span<const abi::SelectArgs> blocks) override;

private:
  Status upload(const int32_t *&values, int64_t count);
  Status attendBy(const DeviceKernel &bound, const KernelForm &form,
                  std::span<abi::AttentionArgs> blocks);
  template <typename Args>
  Status uploadMaps(const bundle::KernelVariant &variant,
                    std::span<Args> blocks);
  template <typename Args>
  Status uploadPositions(const DeviceKernel &bound, Args &args);

  const Context &context;
  const Stream &stream;
  RowUploads &uploads;
  const bundle::Target &target;
  ScheduleKernels kernels;
  Arena scratch;
  std::vector<int32_t> firstRow;
  std::vector<abi::TileMaps> maps;
  /// With the device's addresses.
  std::vector<abi::AttentionArgs> launched;
  std::vector<abi::SelectArgs> selected;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_ENGINE_CUDA_RUNNER_H
