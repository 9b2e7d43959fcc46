//===- CudaTimer.h - Times of work on a GPU ---------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_BENCH_CUDATIMER_H
#define HEDDLE_RUNTIME_BENCH_CUDATIMER_H

#include "runtime/bench/CudaBench.h"
#include "runtime/device/cuda/Arena.h"
#include "runtime/device/cuda/Context.h"
#include "runtime/device/cuda/Stream.h"

#include <functional>
#include <optional>

namespace heddle::bench {

class CudaTimer {
public:
  using Work = std::function<Status(const rt::cuda::Stream &)>;

  /// `flushBytes`: memory that is overwritten to empty L2; 0 when nothing is
  /// ever measured cold.
  static Result<CudaTimer> create(const rt::cuda::Context &context,
                                  int64_t flushBytes);

  /// Times `work`, which puts something into the stream, `repetitions` times
  /// after one that does not count.
  Result<Times> time(const rt::cuda::Stream &stream, int repetitions, bool cold,
                     const Work &work) const;

private:
  const rt::cuda::Context *context = nullptr;
  rt::cuda::Arena memory;
  int64_t flushBytes = 0;
};

} // namespace heddle::bench

#endif // HEDDLE_RUNTIME_BENCH_CUDATIMER_H
