//===- FakeState.h - The insides of the fake driver -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEST_DEVICE_CUDA_FAKESTATE_H
#define HEDDLE_RUNTIME_TEST_DEVICE_CUDA_FAKESTATE_H

#include "runtime/test/device/cuda/FakeDriver.h"

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#define HEDDLE_FAKE_ENTRY extern "C" __attribute__((visibility("default")))

namespace heddle::rt::cuda::api {

struct CUctx_st {};

struct CUfunc_st {
  std::string name;
  std::vector<size_t> parameterBytes;
  bool waits = false; ///< for earlier work, by itself
  int sharedLimit = 49152;
  bool largeClusters = false; ///< are allowed
};

struct CUmod_st {
  std::map<std::string, CUfunc_st> functions;
  std::map<std::string, char> globals;
};

struct CUgraphNode_st {
  std::string kind;
  std::function<void()> work;
};

struct CUgraph_st {
  std::vector<CUgraphNode_st> nodes;
};

struct CUgraphExec_st {
  std::vector<CUgraphNode_st> nodes;
};

struct CUstream_st {
  std::deque<std::function<void()>> pending;
  CUgraph_st *capture = nullptr;
  bool invalid = false;
  unsigned long long id = 0; ///< no other stream ever had it
};

/// Outlives its event as long as a stream has work that names it: events may be
/// destroyed before they come.
struct EventState {
  CUstream stream = nullptr; ///< in which it is to come; null when it came
  bool recorded = false;
  std::chrono::steady_clock::time_point time;
};

struct CUevent_st {
  bool timed = false;
  std::shared_ptr<EventState> state = std::make_shared<EventState>();
};

} // namespace heddle::rt::cuda::api

namespace heddle::rt::cuda::test {

/// What an entry point does first: counts the call, and returns the failure
/// that a test asked for, the sticky fault, or that no context is current.
api::CUresult enter(const char *call, bool needsContext = true);

/// Puts work into a stream or its capture; the legacy stream (null) runs it
/// after all that is pending.
api::CUresult enqueue(api::CUstream stream, const char *kind,
                      std::function<void()> work);

/// Whether memory cannot be allocated now, as a stream is captured and the
/// thread has not said that it knows; the captures are then invalid.
bool disturbsCapture();

/// Runs what is pending in all streams.
void runAll();

} // namespace heddle::rt::cuda::test

#endif // HEDDLE_RUNTIME_TEST_DEVICE_CUDA_FAKESTATE_H
