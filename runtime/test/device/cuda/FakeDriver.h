//===- FakeDriver.h - What tests set and see of the fake driver -*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The fake is a shared library with the driver's entry points, on host memory.
// Work that is put into a stream runs as late as it may: when somebody waits
// for it. So a caller that reuses memory too early is found out. Its "device
// memory" is malloc's, so that the address sanitizer watches it. It follows the
// driver's rules where a caller can break them: a context must be current, a
// stream in capture cannot be waited for, faults are sticky. And it refuses
// what the driver would not: to launch a kernel early that does not wait by
// itself.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEST_DEVICE_CUDA_FAKEDRIVER_H
#define HEDDLE_RUNTIME_TEST_DEVICE_CUDA_FAKEDRIVER_H

#include "runtime/device/cuda/DriverApi.h"

#include <cassert>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace heddle::rt::cuda::test {

/// The 128 bytes of a tensor map, as the fake encodes it.
struct FakeTensorMap {
  uint64_t type, address, columns, rows, strideBytes, boxColumns, boxRows;
  uint64_t unused[9];
};

struct FakeDriver {
  // What the machine is.
  int devices = 1;
  int version = 13000;
  int major = 9;
  int minor = 0;
  int multiprocessors = 132;
  int sharedPerBlock = 232448;
  int largeClusters = 8; ///< that it holds at once
  int64_t totalBytes = int64_t(4) << 30;
  int64_t freeBytes = int64_t(4) << 30;

  /// Calls that fail, by entry point, and with what. `after`: calls that
  /// succeed before.
  struct Failure {
    api::CUresult code = api::CUDA_SUCCESS;
    int after = 0;
  };
  std::map<std::string, Failure> failures;
  /// Microseconds that events record instead of the time, if there are any:
  /// work that adds to them takes what it says on any machine.
  std::optional<int64_t> clock;
  /// What the compiler of PTX says; a failure when not empty.
  std::string jitLog;
  /// Refuses machine code, as a driver that is older than it does.
  bool refuseCubins = false;

  /// A launch, as its kernel sees it: values of the parameters by their sizes
  /// in the PTX.
  struct Launch {
    int64_t grid[3];
    int64_t threads;
    int64_t sharedBytes;
    std::vector<std::vector<char>> parameters;

    template <typename T> T parameter(size_t index) const {
      T value;
      assert(parameters.at(index).size() == sizeof(T));
      std::memcpy(&value, parameters[index].data(), sizeof(T));
      return value;
    }
  };
  /// Host code of kernels, by symbol. A kernel without it does nothing.
  std::map<std::string, std::function<void(const Launch &)>> kernels;

  // What was done.
  std::map<std::string, int> calls;
  int contexts = 0; ///< alive, as all down to `allocated`
  int blocks = 0;
  int pinned = 0;
  int modules = 0;
  int streams = 0;
  int events = 0;
  int graphs = 0;
  int execs = 0;
  int64_t allocated = 0;
  int64_t peak = 0;
  std::string loadedCode;
  std::map<std::string, int64_t> launches; ///< blocks run, by kernel
  /// Launches that need not wait for earlier work, by kernel.
  std::map<std::string, int> early;

  /// A fault, returned by every call from then on.
  api::CUresult sticky = api::CUDA_SUCCESS;

  int alive() const {
    return contexts + blocks + pinned + modules + streams + events + graphs +
           execs;
  }
};

} // namespace heddle::rt::cuda::test

/// The state of the fake, exported by it.
extern "C" heddle::rt::cuda::test::FakeDriver *heddleFakeDriver();

/// Puts work into a stream or the graph that it is recorded into: for the fake
/// cuBLASLt.
extern "C" heddle::rt::cuda::api::CUresult
heddleFakeEnqueue(heddle::rt::cuda::api::CUstream stream, const char *kind,
                  std::function<void()> work);

#endif // HEDDLE_RUNTIME_TEST_DEVICE_CUDA_FAKEDRIVER_H
