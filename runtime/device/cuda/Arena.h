//===- Arena.h - The device memory of a run, planned before it --*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A run's memory is known before it starts. Each buffer is named and sized in
// an ArenaPlan; the plan says the bytes; an Arena takes them from the device in
// one piece. One cuMemAlloc instead of a stream-ordered pool: there is nothing
// to give back during a run, graphs record addresses, which must not move, and
// what is refused is refused before anything ran. Stream order is used by the
// plan instead: buffers that are not needed at the same moments of a step lie
// at the same place.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICE_CUDA_ARENA_H
#define HEDDLE_RUNTIME_DEVICE_CUDA_ARENA_H

#include "bundle/Result.h"
#include "runtime/device/cuda/Context.h"
#include "runtime/device/cuda/DriverApi.h"

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::rt::cuda {

/// Every buffer starts at a multiple of this: what tensor copies and cuBLASLt's
/// fastest kernels ask for.
inline constexpr int64_t arenaAlignment = 256;

/// Named sizes.
class ArenaPlan {
public:
  using Slot = int;

  /// A buffer that is there for the whole run. `bytes` may be 0.
  Slot add(std::string name, int64_t bytes);

  /// A buffer that holds something only in the moments `first` to `last`, both
  /// included, of every step. Moments are the caller's numbers, in the order of
  /// the work in the one stream that uses the arena. Example: q at moments 1-2,
  /// scores at 2-3, and the MLP's hidden rows at 4-5 share the place of q.
  Slot add(std::string name, int64_t bytes, int first, int last);

  struct Buffer {
    std::string name;
    int64_t bytes = 0;
    int first = 0;
    int last = 0;
    int64_t offset = 0; ///< set by layout()
  };
  const std::vector<Buffer> &buffers() const { return table; }

  /// Gives every buffer its place, so that two that are alive at one moment
  /// do not overlap, and returns the bytes in total: the peak of the run. An
  /// error when a size is negative or the sum beyond any machine.
  Result<int64_t> layout();

  /// The sum over the buffers, as if none shared its place.
  int64_t unsharedBytes() const;

  /// "  weights  16.1 GB\n  rows  3.2 GB\n": the buffers by size, the largest
  /// `most` of them and a line for the rest.
  std::string describe(int most = 12) const;

private:
  std::vector<Buffer> table;
};

struct ArenaOptions {
  /// Fills the memory with 0xFF (NaN in every float type, -1 in every index),
  /// so that tests see what was read before it was written.
  bool poison = false;
  /// One allocation a buffer and no sharing, so that compute-sanitizer knows
  /// where each ends. For tests.
  bool separate = false;
  /// Must stay free beside the arena: code, local memory of kernels, graphs.
  int64_t reserve = int64_t(256) << 20;
};

/// Refuses a need that the device's free memory, without what must stay free
/// for code, and `held`, which would be given back before, do not cover:
/// "`what` needs 16.1 GB of GPU memory, 7.9 GB of the 80.0 GB of NVIDIA ... are
/// available: `advice`".
Status checkDeviceMemory(const Context &context, int64_t bytes,
                         const std::string &what, const std::string &advice,
                         int64_t held = 0);

/// Device memory by a plan. Freed on destruction.
class Arena {
public:
  /// Refused before anything is allocated when the device has less free than
  /// the plan needs: says the bytes needed and free, the largest buffers, and
  /// what to do.
  static Result<Arena> allocate(const Context &context, ArenaPlan plan,
                                const ArenaOptions &options = {});

  Arena() = default;
  Arena(Arena &&other) noexcept;
  Arena &operator=(Arena &&other) noexcept;
  ~Arena();

  DevicePtr operator[](ArenaPlan::Slot slot) const { return addresses[slot]; }
  int64_t bytes(ArenaPlan::Slot slot) const {
    return layout.buffers()[slot].bytes;
  }

  /// Bytes taken from the device.
  int64_t bytes() const { return total; }
  const ArenaPlan &plan() const { return layout; }

private:
  const Context *owner = nullptr;
  ArenaPlan layout;
  int64_t total = 0;
  std::vector<DevicePtr> blocks;
  std::vector<DevicePtr> addresses;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICE_CUDA_ARENA_H
