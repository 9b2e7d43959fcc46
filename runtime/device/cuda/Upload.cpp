//===- Upload.cpp - Large data to the device, in bounded host memory ------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/Upload.h"

#include "runtime/base/Parallel.h"
#include "runtime/tensor/Convert.h"

#include <algorithm>
#include <cassert>
#include <mutex>
#include <optional>
#include <utility>

namespace heddle::rt::cuda {

Result<Upload> Upload::create(const Context &context, UploadOptions options) {
  if (options.buffers < 2 || options.chunkBytes < granule ||
      options.chunkBytes % granule != 0)
    return Error("an upload needs two buffers or more of a multiple of " +
                 std::to_string(granule) + " bytes");
  Upload upload;
  upload.options = std::move(options);
  if (Status s = Stream::create(context).moveTo(upload.stream); !s)
    return s.takeError();
  upload.lanes.resize(upload.options.buffers);
  for (CopyLane &lane : upload.lanes)
    if (Status s = lane.reserve(context, upload.options.chunkBytes); !s)
      return s.takeError();
  return upload;
}

Upload::~Upload() {
  // The device may still read the buffers.
  if (!lanes.empty())
    (void)stream.synchronize();
}

namespace {

/// Has `source` produce [first, first + count) in parallel pieces. The error of
/// the first piece that failed.
Status produce(const Upload::Source &source, int64_t first, int64_t count,
               std::byte *out) {
  std::mutex mutex;
  std::optional<std::pair<int64_t, Error>> failure;
  int64_t pieces = (count + Upload::granule - 1) / Upload::granule;
  parallelFor(pieces, [&](int64_t piece, int) {
    int64_t begin = piece * Upload::granule;
    int64_t bytes = std::min(Upload::granule, count - begin);
    Status status = source(first + begin, bytes, out + begin);
    if (status)
      return;
    std::lock_guard<std::mutex> lock(mutex);
    if (!failure || begin < failure->first)
      failure.emplace(begin, status.takeError());
  });
  if (failure)
    return std::move(failure->second);
  return Status::success();
}

} // namespace

Status Upload::copy(DevicePtr to, int64_t bytes, const Source &source) {
  for (int64_t offset = 0; offset < bytes; offset += options.chunkBytes) {
    int64_t count = std::min(options.chunkBytes, bytes - offset);
    CopyLane &lane = lanes[next];
    next = (next + 1) % lanes.size();
    // Until the device has read what was in this buffer.
    if (Status status = lane.copied.synchronize(); !status)
      return status;
    if (Status status = produce(source, offset, count, lane.buffer.data());
        !status)
      return status;
    if (Status status =
            stream.copyToDevice(to + offset, lane.buffer.data(), count);
        !status)
      return status;
    if (Status status = stream.record(lane.copied); !status)
      return status;
    done += count;
    if (options.progress)
      if (Status status = options.progress(done); !status)
        return status;
  }
  return Status::success();
}

Status Upload::finish() { return stream.synchronize(); }

Status fillRandom(const Stream &stream, DevicePtr to, DType dtype,
                  int64_t elements, float scale, uint64_t seed) {
  // A prime, and more than a vocabulary has tokens: no two rows of a matrix are
  // equal.
  constexpr int64_t period = 262139;
  int64_t block = std::min(elements, period);
  std::vector<float> values(static_cast<size_t>(block));
  // SplitMix64; the sum of four uniform numbers is near enough to normal.
  uint64_t state = seed;
  for (float &value : values) {
    uint64_t bits = state += 0x9e3779b97f4a7c15u;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    bits ^= bits >> 31;
    int32_t sum = 0;
    for (int i = 0; i < 4; ++i)
      sum += static_cast<int16_t>(bits >> (16 * i));
    constexpr float deviation = 37837.2f; // sqrt(4 / 12) * 65536
    value = scale * (static_cast<float>(sum) / deviation);
  }
  int64_t size = byteSize(dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(block * size));
  convert(DType::F32, values.data(), dtype, bytes.data(), block);
  if (Status status = stream.copyToDevice(to, bytes.data(), block * size);
      !status)
    return status;
  for (int64_t filled = block; filled < elements;) {
    int64_t count = std::min(filled, elements - filled);
    if (Status status =
            stream.copyOnDevice(to + filled * size, to, count * size);
        !status)
      return status;
    filled += count;
  }
  return stream.synchronize(); // `bytes` goes
}

} // namespace heddle::rt::cuda
