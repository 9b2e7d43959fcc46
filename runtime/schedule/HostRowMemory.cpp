//===- HostRowMemory.cpp - Kept rows in this machine's memory -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Buffer.h"
#include "runtime/base/Machine.h"
#include "runtime/base/Parallel.h"
#include "runtime/schedule/RowMemory.h"
#include "runtime/schedule/Similarity.h"
#include "runtime/tensor/Convert.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

using namespace heddle;
using namespace heddle::rt;

/// body(i) for each of `rows` rows, some at a time to a thread.
static void forRows(size_t rows, const std::function<void(size_t i)> &body) {
  constexpr size_t some = 16;
  parallelFor(static_cast<int64_t>((rows + some - 1) / some),
              [&](int64_t task, int) {
                size_t first = static_cast<size_t>(task) * some;
                for (size_t i = first; i < std::min(rows, first + some); ++i)
                  body(i);
              });
}

/// Memory for a row in fp32, of this thread.
static float *floats(std::vector<float> &memory, int64_t n) {
  memory.resize(static_cast<size_t>(n));
  return memory.data();
}

std::byte *HostRowMemory::row(const RowTable &table, size_t i) const {
  return static_cast<std::byte *>(const_cast<void *>(table.base)) +
         table.index[i] * table.stride * byteSize(dtype);
}

Status HostRowMemory::check(int64_t bytes, const std::string &what,
                            const std::string &advice) const {
  return checkMemory(bytes, what, advice);
}

Result<std::shared_ptr<std::byte>> HostRowMemory::allocate(int64_t bytes) {
  Result<Buffer> buffer = Buffer::allocate(bytes);
  if (!buffer)
    return buffer.takeError();
  auto owner = std::make_shared<Buffer>(std::move(*buffer));
  std::byte *data = owner->data();
  return std::shared_ptr<std::byte>(std::move(owner), data);
}

Status HostRowMemory::reserve(int64_t rows) {
  similarity.resize(static_cast<size_t>(rows));
  return Status::success();
}

Status HostRowMemory::clear(void *memory, int64_t bytes) {
  std::memset(memory, 0, static_cast<size_t>(bytes));
  return Status::success();
}

Status HostRowMemory::clear(const RowTable &rows, int64_t width) {
  forRows(rows.index.size(), [&](size_t i) {
    std::memset(row(rows, i), 0, width * byteSize(dtype));
  });
  return Status::success();
}

Status HostRowMemory::put(void *memory, const void *host, int64_t bytes) {
  std::memcpy(memory, host, static_cast<size_t>(bytes));
  return Status::success();
}

Status HostRowMemory::fetch(const RowTable &rows, int64_t width, void *host) {
  forRows(rows.index.size(), [&](size_t i) {
    std::memcpy(static_cast<std::byte *>(host) +
                    static_cast<int64_t>(i) * width * byteSize(dtype),
                row(rows, i), width * byteSize(dtype));
  });
  return Status::success();
}

Status HostRowMemory::copy(const RowTable &from, const RowTable &to,
                           int64_t width) {
  forRows(to.index.size(), [&](size_t i) {
    std::memcpy(row(to, i), row(from, i), width * byteSize(dtype));
  });
  return Status::success();
}

Status HostRowMemory::replace(const RowTable &from, const RowTable &to,
                              void *change, int64_t width) {
  const RowTable changes{change, to.stride, to.index};
  forRows(to.index.size(), [&](size_t i) {
    thread_local std::vector<float> nowMemory, beforeMemory;
    float *now = floats(nowMemory, width);
    float *before = floats(beforeMemory, width);
    convert(dtype, row(from, i), DType::F32, now, width);
    convert(dtype, row(to, i), DType::F32, before, width);
    for (int64_t e = 0; e < width; ++e)
      now[e] -= before[e];
    convert(DType::F32, now, dtype, row(changes, i), width);
    std::memcpy(row(to, i), row(from, i), width * byteSize(dtype));
  });
  return Status::success();
}

Status HostRowMemory::compare(const RowComparison &rows, int64_t width,
                              int64_t first) {
  const size_t count = rows.kept.index.size();
  assert(static_cast<size_t>(first) + count <= similarity.size());
  forRows(count, [&](size_t i) {
    thread_local std::vector<float> nowMemory, beforeMemory;
    float *now = floats(nowMemory, width);
    float *before = floats(beforeMemory, width);
    convert(dtype, row(rows.now, i), DType::F32, now, width);
    convert(dtype, row(rows.kept, i), DType::F32, before, width);
    if (rows.adds)
      for (int64_t e = 0; e < width; ++e)
        now[e] += before[e];
    similarity[static_cast<size_t>(first) + i] = cosine(now, before, width);
    if (!rows.writes)
      return;
    convert(DType::F32, now, dtype, row(rows.kept, i), width);
    if (rows.output.base)
      std::memcpy(row(rows.output, i), row(rows.kept, i),
                  width * byteSize(dtype));
  });
  return Status::success();
}

Status HostRowMemory::merge(const RowMerge &rows, int64_t heads,
                            int64_t headDim) {
  const int64_t width = heads * headDim;
  constexpr float none = -std::numeric_limits<float>::infinity();
  forRows(rows.kept.index.size(), [&](size_t i) {
    thread_local std::vector<float> nowMemory, keptMemory;
    float *now = floats(nowMemory, width);
    float *kept = floats(keptMemory, width);
    const int64_t first = rows.kept.index[i] * heads;
    convert(dtype, row(rows.now, i), DType::F32, now, width);
    if (rows.keptLse)
      convert(dtype, row(rows.kept, i), DType::F32, kept, width);
    for (int64_t h = 0; h < heads; ++h) {
      const float ofNow = rows.lse[rows.lseAt[i] + h * rows.lseStride[i]];
      const float ofKept = rows.keptLse ? rows.keptLse[first + h] : none;
      const float most = std::max(ofNow, ofKept);
      const float a = ofNow == none ? 0 : std::exp2(ofNow - most);
      const float b = ofKept == none ? 0 : std::exp2(ofKept - most);
      for (int64_t e = h * headDim; e < (h + 1) * headDim && rows.keptLse;
           ++e) {
        // What has no key may be anything.
        const float sum = (a > 0 ? a * now[e] : 0) + (b > 0 ? b * kept[e] : 0);
        now[e] = a + b > 0 ? sum / (a + b) : 0;
      }
      if (rows.newLse)
        rows.newLse[first + h] = a + b > 0 ? most + std::log2(a + b) : none;
    }
    convert(DType::F32, now, dtype,
            rows.output.base ? row(rows.output, i) : row(rows.kept, i), width);
  });
  return Status::success();
}

Result<std::span<const float>> HostRowMemory::similarities(int64_t first,
                                                           int64_t count) {
  return std::span<const float>(similarity)
      .subspan(static_cast<size_t>(first), static_cast<size_t>(count));
}
