//===- KernelRunner.h - How a manifest's kernels are run --------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SCHEDULE_KERNELRUNNER_H
#define HEDDLE_RUNTIME_SCHEDULE_KERNELRUNNER_H

#include "bundle/Abi.h"
#include "bundle/Result.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace heddle::rt {

/// Runs the kernels of a manifest on arguments in host memory: compiled code,
/// or the definitions that it is judged by.
class KernelRunner {
public:
  virtual ~KernelRunner() = default;

  /// Bytes that reserve() takes.
  virtual int64_t bytes(int64_t longest) const = 0;

  /// Makes ready for sequences of at most `longest` keys.
  virtual Status reserve(int64_t longest) = 0;

  /// Runs attention kernel `kernel` (index into Manifest::kernels) on all heads
  /// and rows of some sequences, one argument block each; a sequence may come
  /// twice, with different rows. The blocks' firstRow is the runner's to fill
  /// in; all else is set.
  virtual Status attend(size_t kernel,
                        std::span<abi::AttentionArgs> blocks) = 0;

  /// Runs a select kernel: all lists of some sequences.
  virtual Status select(size_t kernel,
                        std::span<const abi::SelectArgs> blocks) = 0;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SCHEDULE_KERNELRUNNER_H
