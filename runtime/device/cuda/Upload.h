//===- Upload.h - Large data, in bounded memory -----------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Weights are larger than the host memory that may be spent on them. Each chunk
// is produced (read from a file, converted) into one of a few pinned buffers
// while the device copies the others away. Reading and copying thus overlap,
// and host memory stays at buffers * chunkBytes whatever the model.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICE_CUDA_UPLOAD_H
#define HEDDLE_RUNTIME_DEVICE_CUDA_UPLOAD_H

#include "bundle/Result.h"
#include "runtime/device/cuda/Pinned.h"
#include "runtime/device/cuda/Stream.h"
#include "runtime/tensor/DType.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace heddle::rt::cuda {

struct UploadOptions {
  int64_t chunkBytes = int64_t(32) << 20; ///< a multiple of Upload::granule
  int buffers = 3;                        ///< at least 2
  /// Called on the calling thread after each chunk with all bytes so far; an
  /// error (Ctrl-C) ends the upload.
  std::function<Status(int64_t bytes)> progress;
};

class Upload {
public:
  /// Bytes of the pieces of a chunk that threads produce.
  static constexpr int64_t granule = int64_t(1) << 20;

  /// Writes bytes [offset, offset + count) of what is to arrive into `out`.
  /// Called from several threads at once, for ranges that start at multiples of
  /// `granule`: every element lies in one range.
  using Source =
      std::function<Status(int64_t offset, int64_t count, std::byte *out)>;

  static Result<Upload> create(const Context &context,
                               UploadOptions options = {});

  Upload(Upload &&) = default;
  /// Waits for copies under way.
  ~Upload();

  /// Puts `bytes` bytes of `source` at `to`. They are there after finish().
  Status copy(DevicePtr to, int64_t bytes, const Source &source);

  /// Waits until everything is on the device.
  Status finish();

  /// Bytes handed to the device so far.
  int64_t bytes() const { return done; }

private:
  Upload() = default;

  UploadOptions options;
  Stream stream;
  std::vector<CopyLane> lanes;
  size_t next = 0;
  int64_t done = 0;
};

/// Fills `elements` elements at `to` with values near a normal
/// distribution of mean 0 and deviation `scale`, without a kernel: one
/// pseudo-random block of some 262,000 values, the same for the same seed, is
/// repeated on the device. For models without weights and for timing.
Status fillRandom(const Stream &stream, DevicePtr to, DType dtype,
                  int64_t elements, float scale, uint64_t seed);

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICE_CUDA_UPLOAD_H
