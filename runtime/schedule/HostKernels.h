//===- HostKernels.h - Running a bundle's host code -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SCHEDULE_HOSTKERNELS_H
#define HEDDLE_RUNTIME_SCHEDULE_HOSTKERNELS_H

#include "runtime/base/Buffer.h"
#include "runtime/module/HostModule.h"
#include "runtime/schedule/BoundKernel.h"
#include "runtime/schedule/KernelRunner.h"

#include <functional>
#include <memory>
#include <vector>

namespace heddle::rt {

/// A bundle's compiled kernels over all cores.
class HostKernels final : public KernelRunner {
public:
  HostKernels(std::unique_ptr<HostModule> module,
              std::vector<BoundKernel> kernels)
      : module(std::move(module)), kernels(std::move(kernels)) {}

  /// Polled by the calling thread while kernels run; true: what is left is not
  /// computed, and the call is refused. Empty: nobody is asked.
  void setInterrupted(std::function<bool()> asked) {
    interrupted = std::move(asked);
  }

  int64_t bytes(int64_t longest) const override;
  Status reserve(int64_t longest) override;
  Status attend(size_t kernel, std::span<abi::AttentionArgs> blocks) override;
  Status select(size_t kernel,
                std::span<const abi::SelectArgs> blocks) override;

private:
  int64_t workerBytes(int64_t longest) const;
  Status reserveWorkers();
  Status run(int64_t tasks,
             const std::function<void(int64_t task, int worker)> &body);

  std::unique_ptr<HostModule> module; ///< its code is in `kernels`
  std::vector<BoundKernel> kernels;
  std::function<bool()> interrupted;
  int64_t reserved = 0; ///< longest sequence that there is scratch for
  int workers = 0;
  Buffer scratch;                              ///< workers x workerBytes
  std::vector<std::vector<int32_t>> firstRows; ///< [block][tiles + 1]
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SCHEDULE_HOSTKERNELS_H
