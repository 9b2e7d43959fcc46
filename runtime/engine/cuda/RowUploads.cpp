//===- RowUploads.cpp - Indices of a step on their way -------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/cuda/RowUploads.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>
#include <utility>

namespace heddle::rt::cuda {

/// Arrays begin on multiples of this.
static constexpr int64_t alignment = 64;

Status RowUploads::reset(const Stream &stream) {
  Status status = stream.synchronize();
  // What a failed step gathered may never have been sent.
  if (!gathering && chunks.size() == 1 &&
      2 * chunks[0].used <= chunks[0].host.size())
    return status;
  gathering = false;
  copies.clear();
  if (chunks.size() > 1) {
    chunkBytes = 0;
    for (const Chunk &chunk : chunks)
      chunkBytes += chunk.host.size();
    chunks.clear(); // the next put() takes one of all their sizes
  }
  for (Chunk &chunk : chunks)
    chunk.used = chunk.sent = 0;
  return status;
}

Status RowUploads::grow(int64_t bytes) {
  if (!chunks.empty())
    chunkBytes = std::max(chunkBytes, 2 * chunks.back().host.size());
  chunkBytes = std::max(chunkBytes, bytes);
  Chunk chunk;
  ArenaPlan plan;
  plan.add("rows and arguments of a step", chunkBytes);
  Result<Arena> device = Arena::allocate(
      *context, std::move(plan), {.reserve = 0}); // of what is kept free
  if (!device)
    return device.takeError();
  chunk.device = std::move(*device);
  if (Status s =
          PinnedBuffer::allocate(*context, chunkBytes).moveTo(chunk.host);
      !s)
    return s;
  chunks.push_back(std::move(chunk));
  return Status::success();
}

/// Of the last chunk.
Status RowUploads::copyRest(const Stream &stream) {
  Chunk &chunk = chunks.back();
  const int64_t from = std::exchange(chunk.sent, chunk.used);
  if (from == chunk.used)
    return Status::success();
  return stream.copyToDevice(chunk.device[0] + from, chunk.host.data() + from,
                             chunk.used - from);
}

Status RowUploads::send(const Stream &stream) {
  Status status = chunks.empty() ? Status::success() : copyRest(stream);
  gathering = !status;
  return status;
}

Result<DevicePtr> RowUploads::putBytes(const Stream &stream,
                                       std::span<const std::byte> bytes) {
  if (bytes.empty())
    return DevicePtr(0);
  const size_t hash = std::hash<std::string_view>()(
      {reinterpret_cast<const char *>(bytes.data()), bytes.size()});
  for (auto [at, end] = copies.equal_range(hash); at != end; ++at)
    if (std::ranges::equal(at->second.host, bytes))
      return at->second.device;
  const auto size = static_cast<int64_t>(bytes.size());
  const int64_t room = (size + alignment - 1) / alignment * alignment;
  if (chunks.empty() || chunks.back().used + room > chunks.back().host.size()) {
    if (!chunks.empty())
      if (Status status = copyRest(stream); !status)
        return status.takeError();
    if (Status status = grow(room); !status)
      return status.takeError();
  }
  Chunk &chunk = chunks.back();
  std::byte *host = chunk.host.data() + chunk.used;
  const DevicePtr device = chunk.device[0] + chunk.used;
  std::memcpy(host, bytes.data(), bytes.size());
  chunk.used += room;
  if (!gathering)
    if (Status status = copyRest(stream); !status)
      return status.takeError();
  copies.emplace(hash, Copy{{host, bytes.size()}, device});
  return device;
}

int64_t RowUploads::bytes() const {
  int64_t total = 0;
  for (const Chunk &chunk : chunks)
    total += chunk.device.bytes();
  return total;
}

} // namespace heddle::rt::cuda
