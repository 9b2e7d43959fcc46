//===- StreamTest.cpp - Copies, fills, marks and times --------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/Arena.h"
#include "runtime/device/cuda/Pinned.h"
#include "runtime/test/device/cuda/Fixture.h"

#include <numeric>

using namespace heddle;
using namespace heddle::rt::cuda;
using namespace heddle::rt::cuda::test;

namespace {

class StreamTest : public DeviceTest {
protected:
  /// `bytes` poisoned bytes on the device.
  Arena take(int64_t bytes) {
    ArenaPlan plan;
    plan.add("test", bytes);
    ArenaOptions options;
    options.poison = true;
    Result<Arena> arena = Arena::allocate(device(), plan, options);
    EXPECT_TRUE(arena) << arena.error().text();
    return arena ? std::move(*arena) : Arena();
  }
};

TEST_P(StreamTest, CopiesAndFills) {
  Arena arena = take(4096);
  DevicePtr base = arena[0];
  std::vector<int> values(256);
  std::iota(values.begin(), values.end(), 0);
  upload(base, values);
  ASSERT_OK(stream.copyOnDevice(base + 1024, base, 1024));
  ASSERT_OK(stream.fillBytes(base + 2048, 0xfe, 20));
  ASSERT_OK(stream.fillBytes(base + 2064, 7, 3));
  EXPECT_EQ(download<int>(base + 1024, 256), values);
  EXPECT_EQ(download<uint32_t>(base + 2048, 5),
            (std::vector<uint32_t>{0xfefefefe, 0xfefefefe, 0xfefefefe,
                                   0xfefefefe, 0xfe070707}));
}

TEST_P(StreamTest, EmptyWorkIsNone) {
  EXPECT_OK(stream.copyToDevice(0, nullptr, 0));
  EXPECT_OK(stream.copyToHost(nullptr, 0, 0));
  EXPECT_OK(stream.copyOnDevice(0, 0, 0));
  EXPECT_OK(stream.fillBytes(0, 0, 0));
  EXPECT_OK(stream.synchronize());
}

TEST_P(StreamTest, MarksAreWaitedForAndGiveTimes) {
  Arena arena = take(int64_t(64) << 20);
  Result<Stream> other = Stream::create(device());
  Result<Event> begin = Event::create(device(), /*timed=*/true);
  Result<Event> end = Event::create(device(), /*timed=*/true);
  Result<Event> filled = Event::create(device());
  ASSERT_OK(other);
  ASSERT_OK(begin);
  ASSERT_OK(end);
  ASSERT_OK(filled);
  ASSERT_OK(stream.record(*begin));
  for (int i = 0; i < 20; ++i)
    ASSERT_OK(stream.fillBytes(arena[0], i, arena.bytes(0)));
  ASSERT_OK(stream.record(*filled));
  ASSERT_OK(filled->synchronize());
  std::vector<uint8_t> last(1);
  ASSERT_OK(other->copyToHost(last.data(), arena[0] + arena.bytes(0) - 1, 1));
  ASSERT_OK(other->synchronize());
  EXPECT_EQ(last[0], 19);
  ASSERT_OK(stream.record(*end));
  ASSERT_OK(end->synchronize());
  Result<double> milliseconds = Event::elapsed(*begin, *end);
  ASSERT_OK(milliseconds);
  EXPECT_GT(*milliseconds, 0.05);
  EXPECT_LT(*milliseconds, 60000);
  // An unfilled mark has no time, and says so.
  Result<Event> never = Event::create(device(), /*timed=*/true);
  ASSERT_OK(never);
  EXPECT_ERROR(Event::elapsed(*begin, *never), "cuEventElapsedTime failed");
}

TEST_P(StreamTest, PinnedMemoryComesAndGoes) {
  Arena arena = take(1 << 20);
  Result<PinnedBuffer> buffer = PinnedBuffer::allocate(device(), 1 << 20);
  ASSERT_OK(buffer);
  for (int i = 0; i < 1 << 18; ++i)
    buffer->as<int>()[i] = 3 * i;
  ASSERT_OK(stream.copyToDevice(arena[0], buffer->data(), buffer->size()));
  EXPECT_EQ(download<int>(arena[0] + (1 << 20) - 4, 1)[0], 3 * ((1 << 18) - 1));
  PinnedBuffer moved = std::move(*buffer);
  EXPECT_EQ(buffer->data(), nullptr);
  EXPECT_EQ(moved.size(), 1 << 20);
  EXPECT_OK(PinnedBuffer::allocate(device(), 0));
  // More than any host has is refused before the driver is asked.
  EXPECT_ERROR(PinnedBuffer::allocate(device(), int64_t(1) << 60),
               "page-locked memory for copies to the GPU needs");
}

INSTANTIATE_ON_MACHINES(StreamTest);

class StreamFailureTest : public FakeTest {};

TEST_F(StreamFailureTest, PinnedMemoryRefused) {
  fakeDriver().failures["cuMemHostAlloc"] = {api::CUDA_ERROR_OUT_OF_MEMORY, 0};
  EXPECT_ERROR(PinnedBuffer::allocate(device(), 4096),
               "the system gives no 4.1 KB of page-locked memory");
}

} // namespace
