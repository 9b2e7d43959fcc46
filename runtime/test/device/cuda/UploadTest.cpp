//===- UploadTest.cpp - Large data in bounded memory ----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/Upload.h"
#include "runtime/base/Parallel.h"
#include "runtime/device/cuda/Arena.h"
#include "runtime/tensor/Convert.h"
#include "runtime/test/device/cuda/Fixture.h"

#include <atomic>
#include <cmath>
#include <cstring>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;
using namespace heddle::rt::cuda::test;

namespace {

class UploadTest : public DeviceTest {
protected:
  Arena take(int64_t bytes) {
    ArenaPlan plan;
    plan.add("test", bytes);
    ArenaOptions options;
    options.poison = true;
    Result<Arena> arena = Arena::allocate(device(), plan, options);
    EXPECT_TRUE(arena) << arena.error().text();
    return arena ? std::move(*arena) : Arena();
  }
  /// What byte `i` of the source is.
  static std::byte byteAt(int64_t i) {
    // No period that a chunk could have.
    return static_cast<std::byte>(
        (static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15u) >> 56);
  }
  static Status write(int64_t offset, int64_t count, std::byte *out) {
    for (int64_t i = 0; i < count; ++i)
      out[i] = byteAt(offset + i);
    return Status::success();
  }
};

TEST_P(UploadTest, BringsEveryByte) {
  constexpr int64_t mib = 1 << 20;
  UploadOptions options;
  options.chunkBytes = 2 * mib;
  options.buffers = 2;
  std::vector<int64_t> progress;
  options.progress = [&](int64_t bytes) {
    progress.push_back(bytes);
    return Status::success();
  };
  Result<Upload> upload = Upload::create(device(), options);
  ASSERT_OK(upload);
  const int64_t sizes[] = {0, 1, mib - 1, 2 * mib, 2 * mib + 1, 11 * mib + 77};
  int64_t total = 0;
  for (int64_t size : sizes) {
    Arena arena = take(size + 1);
    std::atomic<bool> aligned = true;
    ASSERT_OK(upload->copy(arena[0], size,
                           [&](int64_t offset, int64_t count, std::byte *out) {
                             if (offset % Upload::granule != 0)
                               aligned = false;
                             return write(offset, count, out);
                           }));
    ASSERT_OK(upload->finish());
    EXPECT_TRUE(aligned);
    std::vector<std::byte> result = download<std::byte>(arena[0], size + 1);
    for (int64_t i = 0; i < size; ++i)
      ASSERT_EQ(result[i], byteAt(i)) << i << " of " << size;
    EXPECT_EQ(result[size], std::byte(0xFF)); // nothing behind it
    total += size;
  }
  EXPECT_EQ(upload->bytes(), total);
  EXPECT_EQ(progress.back(), total);
  EXPECT_TRUE(std::is_sorted(progress.begin(), progress.end()));
}

TEST_P(UploadTest, TheFirstFailingRangesErrorIsTheOne) {
  Result<Upload> upload = Upload::create(device());
  ASSERT_OK(upload);
  Arena arena = take(20 << 20);
  for (int threads : {1, 4}) {
    setThreadCount(threads);
    Status status = upload->copy(
        arena[0], 20 << 20,
        [](int64_t offset, int64_t count, std::byte *out) -> Status {
          if (offset >= 5 * Upload::granule)
            return Error("unreadable at " +
                         std::to_string(offset / Upload::granule));
          return write(offset, count, out);
        });
    EXPECT_ERROR(status, "unreadable at 5");
  }
  setThreadCount(0);
}

TEST_P(UploadTest, ProgressCanEndIt) {
  UploadOptions options;
  options.chunkBytes = Upload::granule;
  options.progress = [](int64_t bytes) -> Status {
    if (bytes >= 3 * Upload::granule)
      return Error("interrupted");
    return Status::success();
  };
  Result<Upload> upload = Upload::create(device(), options);
  ASSERT_OK(upload);
  Arena arena = take(8 << 20);
  EXPECT_ERROR(upload->copy(arena[0], 8 << 20, write), "interrupted");
  EXPECT_EQ(upload->bytes(), 3 * Upload::granule);
}

TEST_P(UploadTest, RandomValuesHaveTheirMeanAndDeviation) {
  constexpr int64_t n = 2500001;
  for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    Arena arena = take(n * byteSize(dtype) + 1);
    ASSERT_OK(fillRandom(stream, arena[0], dtype, n, 0.02f, 3));
    std::vector<char> bytes = download<char>(arena[0], n * byteSize(dtype) + 1);
    EXPECT_EQ(static_cast<uint8_t>(bytes.back()), 0xFF);
    std::vector<float> values(n);
    convert(dtype, bytes.data(), DType::F32, values.data(), n);
    double sum = 0, squares = 0;
    for (float value : values) {
      ASSERT_TRUE(std::isfinite(value));
      sum += value;
      squares += double(value) * value;
    }
    EXPECT_NEAR(sum / n, 0, 2e-4);
    EXPECT_NEAR(std::sqrt(squares / n), 0.02, 4e-4);
    // Another seed gives others, the same gives the same.
    std::vector<char> again(16);
    Arena other = take(16);
    ASSERT_OK(
        fillRandom(stream, other[0], dtype, 16 / byteSize(dtype), 0.02f, 3));
    EXPECT_EQ(
        std::memcmp(download<char>(other[0], 16).data(), bytes.data(), 16), 0);
    ASSERT_OK(
        fillRandom(stream, other[0], dtype, 16 / byteSize(dtype), 0.02f, 4));
    EXPECT_NE(
        std::memcmp(download<char>(other[0], 16).data(), bytes.data(), 16), 0);
  }
}

TEST_P(UploadTest, RefusesBuffersThatCannotOverlap) {
  UploadOptions one;
  one.buffers = 1;
  EXPECT_ERROR(Upload::create(device(), one), "two buffers or more");
  UploadOptions odd;
  odd.chunkBytes = 1000;
  EXPECT_ERROR(Upload::create(device(), odd), "1048576 bytes");
}

INSTANTIATE_ON_MACHINES(UploadTest);

} // namespace
