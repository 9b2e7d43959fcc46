//===- RowMemory.cpp - Kept rows in a device's memory ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/cuda/RowMemory.h"

#include "runtime/engine/cuda/Address.h"

#include <utility>

namespace heddle::rt::cuda {

static void *base(const RowTable &table) {
  return const_cast<void *>(table.base);
}

static int64_t count(std::span<const int32_t> index) {
  return static_cast<int64_t>(index.size());
}

Status DeviceRowMemory::check(int64_t bytes, const std::string &what,
                              const std::string &advice) const {
  return checkDeviceMemory(context, bytes, what, advice);
}

Result<std::shared_ptr<std::byte>> DeviceRowMemory::allocate(int64_t bytes) {
  if (bytes == 0)
    return std::shared_ptr<std::byte>();
  ArenaPlan plan;
  ArenaPlan::Slot slot = plan.add("rows", bytes);
  // check() has left room for code.
  Result<Arena> arena =
      Arena::allocate(context, std::move(plan), {.reserve = 0});
  if (!arena)
    return arena.takeError();
  auto owner = std::make_shared<Arena>(std::move(*arena));
  auto *data = at<std::byte>((*owner)[slot]);
  return std::shared_ptr<std::byte>(std::move(owner), data);
}

Status DeviceRowMemory::reserve(int64_t rows) {
  const int64_t bytes = rows * int64_t(sizeof(float));
  if (pinned.size() >= bytes)
    return Status::success();
  // Copies to the old memory may be on their way.
  if (Status s = stream.synchronize(); !s)
    return s;
  if (Status s = allocate(bytes).moveTo(similarity); !s)
    return s;
  if (Status s = PinnedBuffer::allocate(context, bytes).moveTo(pinned); !s)
    return s;
  return Status::success();
}

/// Null for no rows, as of a table that is not there.
Result<const int32_t *>
DeviceRowMemory::upload(std::span<const int32_t> index) {
  Result<DevicePtr> address = uploads.put(stream, index);
  if (!address)
    return address.takeError();
  return at<const int32_t>(*address);
}

Result<DeviceRowMemory::Moved> DeviceRowMemory::upload(const RowTable &from,
                                                       const RowTable &to) {
  uploads.gather();
  Moved moved;
  if (Status s = upload(from.index).moveTo(moved.from); !s)
    return s.takeError();
  if (Status s = upload(to.index).moveTo(moved.to); !s)
    return s.takeError();
  if (Status s = uploads.send(stream); !s)
    return s.takeError();
  return moved;
}

Status DeviceRowMemory::clear(void *memory, int64_t bytes) {
  return stream.fillBytes(addressOf(memory), 0, bytes);
}

Status DeviceRowMemory::clear(const RowTable &rows, int64_t width) {
  // A row of number -1 is one of zeros.
  const std::vector<int32_t> none(rows.index.size(), -1);
  return copy({rows.base, rows.stride, none}, rows, width);
}

Status DeviceRowMemory::copy(const RowTable &from, const RowTable &to,
                             int64_t width) {
  if (to.index.empty())
    return Status::success();
  Result<Moved> moved = upload(from, to);
  if (!moved)
    return moved.takeError();
  return kernels(stream, count(to.index),
                 abi::CopyArgs{.x = from.base,
                               .from = moved->from,
                               .xStride = from.stride,
                               .y = base(to),
                               .to = moved->to,
                               .yStride = to.stride,
                               .width = width});
}

Status DeviceRowMemory::replace(const RowTable &from, const RowTable &to,
                                void *change, int64_t width) {
  if (to.index.empty())
    return Status::success();
  Result<Moved> moved = upload(from, to);
  if (!moved)
    return moved.takeError();
  return kernels(stream, count(to.index),
                 abi::ChangeArgs{.x = from.base,
                                 .from = moved->from,
                                 .xStride = from.stride,
                                 .y = base(to),
                                 .change = change,
                                 .to = moved->to,
                                 .width = width});
}

Status DeviceRowMemory::put(void *memory, const void *host, int64_t bytes) {
  if (Status s = stream.copyToDevice(addressOf(memory), host, bytes); !s)
    return s;
  return stream.synchronize();
}

Status DeviceRowMemory::fetch(const RowTable &rows, int64_t width, void *host) {
  const int64_t size = byteSize(dtype);
  auto *to = static_cast<std::byte *>(host);
  for (size_t i = 0; i < rows.index.size();) {
    // Rows that lie one behind the other in both are one copy.
    size_t end = i + 1;
    while (rows.stride == width && end < rows.index.size() &&
           rows.index[end] == rows.index[end - 1] + 1)
      ++end;
    const int64_t bytes = static_cast<int64_t>(end - i) * width * size;
    const auto *from = static_cast<const std::byte *>(rows.base) +
                       rows.index[i] * rows.stride * size;
    if (Status s = stream.copyToHost(to, addressOf(from), bytes); !s)
      return s;
    to += bytes;
    i = end;
  }
  return stream.synchronize();
}

Status DeviceRowMemory::compare(const RowComparison &rows, int64_t width,
                                int64_t first) {
  if (rows.kept.index.empty())
    return Status::success();
  Result<Moved> compared = upload(rows.now, rows.kept);
  if (!compared)
    return compared.takeError();
  Result<const int32_t *> output = upload(rows.output.index);
  if (!output)
    return output.takeError();
  return kernels(
      stream, count(rows.kept.index),
      abi::CompareArgs{.x = rows.now.base,
                       .from = compared->from,
                       .xStride = rows.now.stride,
                       .cache = base(rows.kept),
                       .at = compared->to,
                       .y = base(rows.output),
                       .to = *output,
                       .yStride = rows.output.stride,
                       .similarity =
                           reinterpret_cast<float *>(similarity.get()) + first,
                       .width = width,
                       .flags = (rows.adds ? abi::compareAdds : 0) |
                                (rows.writes ? abi::compareStores : 0)});
}

Status DeviceRowMemory::merge(const RowMerge &rows, int64_t heads,
                              int64_t headDim) {
  if (rows.kept.index.empty())
    return Status::success();
  abi::MergeArgs args{.x = rows.now.base,
                      .from = nullptr,
                      .xStride = rows.now.stride,
                      .lse = rows.lse,
                      .lseAt = nullptr,
                      .lseStride = nullptr,
                      .cache = base(rows.kept),
                      .at = nullptr,
                      .keptLse = rows.keptLse,
                      .newLse = rows.newLse,
                      .y = base(rows.output),
                      .to = nullptr,
                      .yStride = rows.output.stride,
                      .heads = heads,
                      .headDim = headDim};
  uploads.gather();
  if (Status s = upload(rows.now.index).moveTo(args.from); !s)
    return s;
  if (Status s = upload(rows.kept.index).moveTo(args.at); !s)
    return s;
  Result<DevicePtr> lseAt = uploads.putBytes(stream, std::as_bytes(rows.lseAt));
  if (!lseAt)
    return lseAt.takeError();
  args.lseAt = at<const int64_t>(*lseAt);
  if (Status s = upload(rows.lseStride).moveTo(args.lseStride); !s)
    return s;
  if (Status s = upload(rows.output.index).moveTo(args.to); !s)
    return s;
  if (Status s = uploads.send(stream); !s)
    return s;
  return kernels(stream, count(rows.kept.index), args);
}

Result<std::span<const float>> DeviceRowMemory::similarities(int64_t first,
                                                             int64_t rows) {
  if (rows > 0)
    if (Status s = stream.copyToHost(
            pinned.data(),
            addressOf(reinterpret_cast<float *>(similarity.get()) + first),
            rows * int64_t(sizeof(float)));
        !s)
      return s.takeError();
  if (Status s = stream.synchronize(); !s)
    return s.takeError();
  return std::span<const float>(pinned.as<float>(), static_cast<size_t>(rows));
}

} // namespace heddle::rt::cuda
