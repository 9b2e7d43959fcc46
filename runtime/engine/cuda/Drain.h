//===- Drain.h - Host memory outlives its copies ----------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_ENGINE_CUDA_DRAIN_H
#define HEDDLE_RUNTIME_ENGINE_CUDA_DRAIN_H

#include "runtime/device/cuda/Stream.h"

namespace heddle::rt::cuda {

/// Declared after host memory that a stream copies from or to, it waits for the
/// stream before that memory goes, on every way out of the scope. Where all
/// went well the stream has been waited for, and this costs nothing.
class Drain {
public:
  explicit Drain(const Stream &stream) : stream(stream) {}
  ~Drain() { (void)stream.synchronize(); }
  Drain(const Drain &) = delete;
  Drain &operator=(const Drain &) = delete;

private:
  const Stream &stream;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_ENGINE_CUDA_DRAIN_H
