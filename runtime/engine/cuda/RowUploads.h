//===- RowUploads.h - Indices of a step on their way ------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The host says with small arrays which rows a device's kernels work on. They
// are written one after the other into pinned memory and copied to the same
// place of a device buffer; nothing is overwritten before reset(), so that
// neither the host nor the stream waits for the other in a step. What was put
// already, as layers and steps often work on the same rows, is not copied again
// for as long as it is there: a copy holds up the kernels around it.
//
// Worked example: chunks of 256 bytes, arrays on multiples of 64. 10 indices
// lie at 0 of the first chunk; 60 others (240 bytes) do not fit behind them and
// lie at 0 of a second chunk; the same 10 again are the first copy. After
// reset() one chunk has the room of both, 768 bytes. The 10 lie at its start,
// and after the next reset(), which finds most of it free, still do.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_ENGINE_CUDA_ROWUPLOADS_H
#define HEDDLE_RUNTIME_ENGINE_CUDA_ROWUPLOADS_H

#include "runtime/device/cuda/Arena.h"
#include "runtime/device/cuda/Pinned.h"
#include "runtime/device/cuda/Stream.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace heddle::rt::cuda {

/// Of one stream, whose work must be done before this goes.
class RowUploads {
public:
  /// The first chunk's bytes, on the host as on the device.
  static constexpr int64_t firstBytes = int64_t(1) << 20;

  RowUploads() = default;
  /// Nothing is allocated before the first put().
  explicit RowUploads(const Context &context, int64_t chunkBytes = firstBytes)
      : context(&context), chunkBytes(chunkBytes) {}

  /// At a step's start: waits for the stream and, unless at least half of the
  /// room is left, forgets everything. Addresses of earlier steps must not be
  /// used again: what is still there comes from put().
  Status reset(const Stream &stream);

  /// The array's copy, on a multiple of 64 bytes, for work that is put into the
  /// stream before the next reset(). `values` may go at once. 0 for no values.
  Result<DevicePtr> put(const Stream &stream, std::span<const int32_t> values) {
    return putBytes(stream, std::as_bytes(values));
  }

  /// The same for argument blocks and other things.
  Result<DevicePtr> putBytes(const Stream &stream,
                             std::span<const std::byte> bytes);

  /// From gather() to send() nothing is copied, then all that was put meanwhile
  /// at once. What was put must be used after send() alone, which is to follow
  /// unless the step fails.
  void gather() { gathering = true; }
  Status send(const Stream &stream);

  /// Bytes held on the device.
  int64_t bytes() const;

private:
  struct Chunk {
    PinnedBuffer host;
    Arena device;
    int64_t used = 0;
    int64_t sent = 0; ///< of them, in copies that are made or in the stream
  };
  /// Something that was put, and its copy.
  struct Copy {
    std::span<const std::byte> host;
    DevicePtr device = 0;
  };
  Status grow(int64_t bytes);
  Status copyRest(const Stream &stream);

  const Context *context = nullptr;
  int64_t chunkBytes = firstBytes;
  bool gathering = false;
  std::vector<Chunk> chunks;                    ///< the last one has room
  std::unordered_multimap<size_t, Copy> copies; ///< by hash of the content
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_ENGINE_CUDA_ROWUPLOADS_H
