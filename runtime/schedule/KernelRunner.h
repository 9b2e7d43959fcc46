//===- KernelRunner.h - How a manifest's kernels are run --------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SCHEDULE_KERNELRUNNER_H
#define HEDDLE_RUNTIME_SCHEDULE_KERNELRUNNER_H

#include "bundle/Result.h"
#include "bundle/abi/Abi.h"
#include "bundle/program/Manifest.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace heddle::rt {

/// Runs the kernels of a manifest on tensors in the executor's memory: compiled
/// code, or the definitions that it is judged by. Places and positions are in
/// host memory.
class KernelRunner {
public:
  /// Groups [first, first + count) of rows that share lists.
  struct GroupRange {
    int64_t first, count;
  };

  virtual ~KernelRunner() = default;

  /// How lists of keys say positions of sequences of at most `longest` keys.
  virtual bundle::Encoding encoding(int64_t longest) const {
    (void)longest;
    return bundle::Encoding::Int32;
  }

  /// Has `list` be its entries as int32 in host memory: of `lists` query heads
  /// (or key/value heads that share one) over `n` keys, made by `selection`;
  /// those of other groups than `groups` are any. May keep them in `memory`,
  /// which must outlive the list. An error when it is damaged.
  virtual Status read(const bundle::Selection & /*selection*/, int64_t /*n*/,
                      int64_t /*lists*/, GroupRange /*groups*/,
                      abi::IndexList & /*list*/,
                      std::unique_ptr<int32_t[]> & /*memory*/) {
    return Status::success(); // lists on the host are so already
  }

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
