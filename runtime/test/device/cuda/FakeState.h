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
#include <functional>
#include <map>
#include <string>
#include <vector>

#define HEDDLE_FAKE_ENTRY extern "C" __attribute__((visibility("default")))

namespace heddle::rt::cuda::api {

struct CUctx_st {};

struct CUfunc_st {
  std::string name;
  std::vector<size_t> parameterBytes;
  int sharedLimit = 49152;
};

struct CUmod_st {
  std::map<std::string, CUfunc_st> functions;
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
  CUgraph_st *capture = nullptr;
  bool invalid = false;
};

struct CUevent_st {
  bool timed = false;
  bool recorded = false;
  std::chrono::steady_clock::time_point time;
};

} // namespace heddle::rt::cuda::api

namespace heddle::rt::cuda::test {

/// What an entry point does first: counts the call, and returns the failure
/// that a test asked for, the sticky fault, or that no context is current.
api::CUresult enter(const char *call, bool needsContext = true);

api::CUresult enqueue(api::CUstream stream, const char *kind,
                      std::function<void()> work);

/// Runs a test's kernel on the host.
void runKernel(const std::string &name, int64_t blocks,
               const std::vector<std::vector<char>> &parameters);

} // namespace heddle::rt::cuda::test

#endif // HEDDLE_RUNTIME_TEST_DEVICE_CUDA_FAKESTATE_H
