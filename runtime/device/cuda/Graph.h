//===- Graph.h - Work recorded once and launched many times -----*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICE_CUDA_GRAPH_H
#define HEDDLE_RUNTIME_DEVICE_CUDA_GRAPH_H

#include "bundle/Result.h"
#include "runtime/device/cuda/Stream.h"

#include <cstdint>
#include <functional>

namespace heddle::rt::cuda {

/// A CUDA graph, ready to launch. Parameters of its kernels, addresses
/// included, are those of the recording: memory that it names must stay where
/// it is (Arena.h), values that change from launch to launch are read by
/// kernels from device memory.
class Graph {
public:
  /// Puts work into the stream it is given.
  using Recorder = std::function<Status(const Stream &)>;

  /// Runs `record` with the stream in capture: nothing executes, all is
  /// recorded. `record` must not wait for the stream, allocate, or load
  /// modules. An error of `record` is returned, with the stream usable again.
  static Result<Graph> capture(const Stream &stream, const Recorder &record);

  /// Puts the whole of it into a stream.
  Status launch(const Stream &stream) const;

  /// Kernels, copies and fills in it.
  int64_t nodes() const { return nodeCount; }

private:
  Owned<api::CUgraphExec> exec;
  int64_t nodeCount = 0;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICE_CUDA_GRAPH_H
