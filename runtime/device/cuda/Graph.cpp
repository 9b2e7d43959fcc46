//===- Graph.cpp - Work recorded once and launched many times -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/Graph.h"

namespace heddle::rt::cuda {

using namespace api;

template <>
void Owned<CUgraph>::destroy(const Context &context, CUgraph graph) {
  context.release(context.api().graphDestroy, graph);
}

template <>
void Owned<CUgraphExec>::destroy(const Context &context, CUgraphExec exec) {
  context.release(context.api().graphExecDestroy, exec);
}

namespace {

/// A stream in capture, until finish() or, when something goes wrong between,
/// the destructor.
class Capture {
public:
  explicit Capture(const Stream &stream) : stream(stream) {}
  Capture(const Capture &) = delete;
  Capture &operator=(const Capture &) = delete;
  ~Capture() {
    if (active)
      (void)finish();
  }

  Status begin() {
    const Context &context = stream.context();
    // Thread-local: other threads (an upload, another library) may allocate and
    // wait as they like meanwhile.
    Status status =
        context.call(context.api().streamBeginCapture, stream.handle(),
                     CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    active = bool(status);
    return status;
  }

  Result<Owned<CUgraph>> finish() {
    active = false;
    const Context &context = stream.context();
    CUgraph graph = nullptr;
    Status status =
        context.call(context.api().streamEndCapture, stream.handle(), &graph);
    Owned<CUgraph> owned(context, graph);
    if (!status)
      return status.takeError();
    return owned;
  }

private:
  const Stream &stream;
  bool active = false;
};

Result<Owned<CUgraph>> recordWork(const Stream &stream,
                                  const Graph::Recorder &record) {
  Capture capture(stream);
  if (Status status = capture.begin(); !status)
    return status.takeError();
  if (Status status = record(stream); !status)
    return status.takeError();
  return capture.finish();
}

Result<Owned<CUgraphExec>> instantiate(const Context &context, CUgraph graph) {
  CUgraphExec exec = nullptr;
  if (Status status =
          context.call(context.api().graphInstantiate, &exec, graph, 0ull);
      !status)
    return status.takeError();
  return Owned<CUgraphExec>(context, exec);
}

Result<int64_t> countNodes(const Context &context, CUgraph graph) {
  size_t count = 0;
  if (Status status = context.call(context.api().graphGetNodes, graph,
                                   static_cast<CUgraphNode *>(nullptr), &count);
      !status)
    return status.takeError();
  return static_cast<int64_t>(count);
}

} // namespace

Result<Graph> Graph::capture(const Stream &stream, const Recorder &record) {
  const Context &context = stream.context();
  Result<Owned<CUgraph>> graph = recordWork(stream, record);
  if (!graph)
    return graph.takeError();
  Result<int64_t> nodes = countNodes(context, graph->get());
  if (!nodes)
    return nodes.takeError();
  Result<Owned<CUgraphExec>> exec = instantiate(context, graph->get());
  if (!exec)
    return exec.takeError();
  Graph result;
  result.exec = std::move(*exec);
  result.nodeCount = *nodes;
  return result;
}

Status Graph::launch(const Stream &stream) const {
  const Context &context = stream.context();
  return context.call(context.api().graphLaunch, exec.get(), stream.handle());
}

} // namespace heddle::rt::cuda
