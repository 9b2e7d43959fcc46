//===- Arena.cpp - The device memory of a run, planned before it ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/Arena.h"

#include "runtime/base/Machine.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace heddle::rt::cuda {

namespace {

/// More than any machine has, and few enough to add up many of.
constexpr int64_t mostBytes = int64_t(1) << 48;

int64_t roundUp(int64_t bytes) {
  return (bytes + arenaAlignment - 1) / arenaAlignment * arenaAlignment;
}

bool aliveTogether(const ArenaPlan::Buffer &a, const ArenaPlan::Buffer &b) {
  return a.first <= b.last && b.first <= a.last;
}

/// Indices of the buffers, the largest first, equal ones in order.
std::vector<int> bySize(const std::vector<ArenaPlan::Buffer> &buffers) {
  std::vector<int> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    if (buffers[a].bytes != buffers[b].bytes)
      return buffers[a].bytes > buffers[b].bytes;
    return a < b;
  });
  return order;
}

} // namespace

ArenaPlan::Slot ArenaPlan::add(std::string name, int64_t bytes) {
  return add(std::move(name), bytes, std::numeric_limits<int>::min(),
             std::numeric_limits<int>::max());
}

ArenaPlan::Slot ArenaPlan::add(std::string name, int64_t bytes, int first,
                               int last) {
  table.push_back({std::move(name), bytes, first, last});
  return static_cast<Slot>(table.size()) - 1;
}

Result<int64_t> ArenaPlan::layout() {
  for (const Buffer &buffer : table) {
    if (buffer.bytes < 0 || buffer.bytes > mostBytes)
      return Error("the buffer '" + buffer.name + "' would have " +
                   std::to_string(buffer.bytes) +
                   " bytes, more than any GPU has; use fewer tokens");
    if (buffer.first > buffer.last)
      return Error("the buffer '" + buffer.name +
                   "' is given up before it is used");
  }
  // The largest first, each at the lowest place that is free in all of its
  // moments. Not always the least in total, but near it, and the same for the
  // same plan.
  int64_t total = 0;
  std::vector<const Buffer *> placed;
  for (int index : bySize(table)) {
    Buffer &buffer = table[index];
    int64_t offset = 0;
    // `placed` is ordered by offset.
    for (const Buffer *other : placed) {
      if (!aliveTogether(buffer, *other) || other->bytes == 0)
        continue;
      if (offset + buffer.bytes <= other->offset)
        break;
      offset = std::max(offset, roundUp(other->offset + other->bytes));
    }
    buffer.offset = offset;
    int64_t end = roundUp(offset + buffer.bytes);
    if (end > mostBytes)
      return Error("the buffers up to '" + buffer.name +
                   "' would have more bytes than any GPU; use fewer tokens");
    total = std::max(total, end);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), &buffer,
                                   [](const Buffer *a, const Buffer *b) {
                                     return a->offset < b->offset;
                                   }),
                  &buffer);
  }
  return total;
}

int64_t ArenaPlan::unsharedBytes() const {
  int64_t sum = 0;
  for (const Buffer &buffer : table)
    sum += roundUp(buffer.bytes);
  return sum;
}

std::string ArenaPlan::describe(int most) const {
  std::string text;
  int64_t rest = 0;
  int shown = 0, hidden = 0;
  for (int index : bySize(table)) {
    const Buffer &buffer = table[index];
    if (shown < most) {
      text += "  " + buffer.name + "  " + formatBytes(buffer.bytes) + "\n";
      ++shown;
    } else {
      rest += buffer.bytes;
      ++hidden;
    }
  }
  if (hidden > 0)
    text +=
        "  " + std::to_string(hidden) + " smaller  " + formatBytes(rest) + "\n";
  return text;
}

namespace {

Error tooLarge(const Context &context, const ArenaPlan &plan, int64_t needed,
               int64_t reserve, const MemoryInfo &memory) {
  return Error(
      "this run needs " + formatBytes(needed) + " (" + std::to_string(needed) +
      " bytes) of GPU memory and " + formatBytes(reserve) +
      " beside it for code; of the " + formatBytes(memory.total) + " of " +
      context.device().describe() + " " + formatBytes(memory.free) + " (" +
      std::to_string(memory.free) +
      " bytes) are free. Use fewer tokens or sequences, or end other programs "
      "on this GPU (see `nvidia-smi`). The largest parts are:\n" +
      plan.describe(6));
}

} // namespace

Status checkDeviceMemory(const Context &context, int64_t bytes,
                         const std::string &what, const std::string &advice,
                         int64_t held) {
  Result<MemoryInfo> memory = context.memory();
  if (!memory)
    return memory.takeError();
  const int64_t available =
      std::max<int64_t>(memory->free + held - ArenaOptions().reserve, 0);
  if (bytes <= available)
    return Status::success();
  return Error(what + " needs " + formatBytes(bytes) + " of GPU memory, " +
               formatBytes(available) + " of the " +
               formatBytes(memory->total) + " of " +
               context.device().describe() + " are available: " + advice +
               ", or end other programs on this GPU (see `nvidia-smi`)");
}

Result<Arena> Arena::allocate(const Context &context, ArenaPlan plan,
                              const ArenaOptions &options) {
  Result<int64_t> needed = plan.layout();
  if (!needed)
    return needed.takeError();
  int64_t total = options.separate ? plan.unsharedBytes() : *needed;
  Result<MemoryInfo> memory = context.memory();
  if (!memory)
    return memory.takeError();
  if (total > memory->free - options.reserve)
    return tooLarge(context, plan, total, options.reserve, *memory);

  Arena arena;
  arena.owner = &context;
  arena.total = total;
  arena.layout = std::move(plan);
  const std::vector<ArenaPlan::Buffer> &buffers = arena.layout.buffers();
  arena.addresses.resize(buffers.size(), 0);

  const api::EntryPoints &entries = context.api();
  auto take = [&](int64_t bytes) -> Result<DevicePtr> {
    DevicePtr address = 0;
    if (Status status = context.enter(); !status)
      return status.takeError();
    api::CUresult code = entries.memAlloc.function(&address, bytes);
    // Another process can have been faster, or the free memory be in pieces.
    if (code == api::CUDA_ERROR_OUT_OF_MEMORY)
      return tooLarge(context, arena.layout, total, options.reserve, *memory);
    if (Status status = context.check(code, entries.memAlloc.name); !status)
      return status.takeError();
    arena.blocks.push_back(address);
    if (options.poison)
      if (Status status = context.call(
              entries.memsetD8Async, address, static_cast<unsigned char>(0xFF),
              static_cast<size_t>(bytes), api::CUstream(nullptr));
          !status)
        return status.takeError();
    return address;
  };

  if (!options.separate && total > 0) {
    Result<DevicePtr> base = take(total);
    if (!base)
      return base.takeError();
    for (size_t i = 0; i < buffers.size(); ++i)
      if (buffers[i].bytes > 0)
        arena.addresses[i] = *base + buffers[i].offset;
  }
  for (size_t i = 0; options.separate && i < buffers.size(); ++i) {
    if (buffers[i].bytes == 0)
      continue;
    if (Status s = take(buffers[i].bytes).moveTo(arena.addresses[i]); !s)
      return s.takeError();
  }
  if (options.poison)
    if (Status status = context.synchronize(); !status)
      return status.takeError();
  return arena;
}

Arena::Arena(Arena &&other) noexcept { *this = std::move(other); }

Arena &Arena::operator=(Arena &&other) noexcept {
  std::swap(owner, other.owner);
  std::swap(layout, other.layout);
  std::swap(total, other.total);
  std::swap(blocks, other.blocks);
  std::swap(addresses, other.addresses);
  return *this;
}

Arena::~Arena() {
  for (DevicePtr block : blocks)
    owner->release(owner->api().memFree, block);
}

} // namespace heddle::rt::cuda
