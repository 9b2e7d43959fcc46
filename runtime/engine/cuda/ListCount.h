//===- ListCount.h - Pairs that lists on a device keep ----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_ENGINE_CUDA_LISTCOUNT_H
#define HEDDLE_RUNTIME_ENGINE_CUDA_LISTCOUNT_H

#include "bundle/abi/Abi.h"
#include "bundle/abi/IndexLayout.h"
#include "bundle/program/Manifest.h"
#include "runtime/device/cuda/Pinned.h"
#include "runtime/device/cuda/Stream.h"

#include <cstdint>
#include <span>

namespace heddle::rt::cuda {

/// Counts what unions with columns keep: rt::pairsOfRows for lists that lie on
/// a device in any encoding. They pass through two pinned buffers piece by
/// piece, so that host memory stays at some 32 MiB whatever their size, and are
/// counted by all threads while the next piece arrives.
class ListCounter {
public:
  /// Pairs of all query heads of one sequence of n tokens. `lists[c]` belongs
  /// to the c-th column term, `groups[c]` is its group size. Waits for the
  /// work in the stream. An error when a list is damaged.
  Result<int64_t> count(const Stream &stream,
                        std::span<const bundle::Term> terms,
                        bundle::Encoding encoding, int64_t n, int64_t heads,
                        std::span<const abi::IndexList> lists,
                        std::span<const int64_t> groups);

private:
  CopyLane lanes[2];
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_ENGINE_CUDA_LISTCOUNT_H
