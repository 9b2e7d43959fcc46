//===- ArenaTest.cpp - Memory by a plan -----------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/Arena.h"
#include "runtime/test/device/cuda/Fixture.h"

#include <algorithm>
#include <limits>
#include <map>
#include <random>

using namespace heddle;
using namespace heddle::rt::cuda;
using namespace heddle::rt::cuda::test;

namespace {

bool overlap(const ArenaPlan::Buffer &a, const ArenaPlan::Buffer &b) {
  return a.bytes > 0 && b.bytes > 0 && a.offset < b.offset + b.bytes &&
         b.offset < a.offset + a.bytes;
}

TEST(ArenaPlan, BuffersOfDifferentMomentsShareTheirPlace) {
  ArenaPlan plan;
  ArenaPlan::Slot weights = plan.add("weights", 1000);
  ArenaPlan::Slot q = plan.add("q", 512, 1, 2);
  ArenaPlan::Slot scores = plan.add("scores", 256, 2, 3);
  ArenaPlan::Slot hidden = plan.add("hidden", 700, 4, 5);
  Result<int64_t> total = plan.layout();
  ASSERT_OK(total);
  // 1000 -> 1024; at moments 2: 512 + 256, at 4: 700 -> 768.
  EXPECT_EQ(*total, 1024 + 768);
  EXPECT_EQ(plan.unsharedBytes(), 1024 + 512 + 256 + 768);
  const auto &buffers = plan.buffers();
  EXPECT_EQ(buffers[weights].offset, 0);
  EXPECT_TRUE(overlap(buffers[q], buffers[hidden]));
  EXPECT_FALSE(overlap(buffers[q], buffers[scores]));
}

TEST(ArenaPlan, RandomPlansNeverOverlapAndStayNearTheLeast) {
  std::mt19937 engine(7);
  auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(engine);
  };
  for (int round = 0; round < 300; ++round) {
    ArenaPlan plan;
    int count = draw(0, 40), moments = draw(1, 12);
    for (int i = 0; i < count; ++i) {
      int64_t bytes = draw(0, 9) ? draw(1, 100000) : 0;
      int first = draw(0, moments - 1);
      if (draw(0, 4))
        plan.add("b", bytes, first, draw(first, moments - 1));
      else
        plan.add("b", bytes);
    }
    Result<int64_t> total = plan.layout();
    ASSERT_OK(total);
    const auto &buffers = plan.buffers();
    std::vector<int64_t> alive(moments);
    for (size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_EQ(buffers[i].offset % arenaAlignment, 0);
      EXPECT_LE(buffers[i].offset + buffers[i].bytes, *total);
      for (int m = 0; m < moments; ++m)
        if (buffers[i].first <= m && m <= buffers[i].last)
          alive[m] += buffers[i].bytes;
      for (size_t j = 0; j < i; ++j)
        if (buffers[i].first <= buffers[j].last &&
            buffers[j].first <= buffers[i].last) {
          ASSERT_FALSE(overlap(buffers[i], buffers[j])) << "round " << round;
        }
    }
    int64_t least = *std::max_element(alive.begin(), alive.end());
    EXPECT_GE(*total, least);
    EXPECT_LE(*total, 2 * least + count * arenaAlignment);
    EXPECT_LE(*total, plan.unsharedBytes());
    Result<int64_t> again = plan.layout();
    ASSERT_OK(again);
    EXPECT_EQ(*again, *total);
  }
}

TEST(ArenaPlan, RefusesImpossibleSizes) {
  ArenaPlan negative;
  negative.add("logits", -1);
  EXPECT_ERROR(negative.layout(), "'logits'");
  ArenaPlan huge;
  huge.add("scores", std::numeric_limits<int64_t>::max());
  EXPECT_ERROR(huge.layout(), "more than any GPU has");
  ArenaPlan many;
  for (int i = 0; i < 3; ++i)
    many.add("part", int64_t(1) << 47);
  EXPECT_ERROR(many.layout(), "more bytes than any GPU");
  ArenaPlan backwards;
  backwards.add("x", 1, 3, 2);
  EXPECT_ERROR(backwards.layout(), "'x'");
}

TEST(ArenaPlan, DescribesTheLargestFirst) {
  ArenaPlan plan;
  plan.add("small", 10);
  plan.add("weights", 16100000000);
  plan.add("rows", 3200000);
  plan.add("tiny", 7);
  EXPECT_EQ(plan.describe(2),
            "  weights  16.1 GB\n  rows  3.2 MB\n  2 smaller  17 bytes\n");
}

class ArenaTest : public DeviceTest {};

TEST_P(ArenaTest, GivesWhatWasPlanned) {
  ArenaPlan plan;
  ArenaPlan::Slot a = plan.add("a", 1000);
  ArenaPlan::Slot none = plan.add("none", 0);
  ArenaPlan::Slot b = plan.add("b", 300, 0, 1);
  ArenaPlan::Slot c = plan.add("c", 200, 2, 3);
  for (bool separate : {false, true}) {
    ArenaOptions options;
    options.poison = true;
    options.separate = separate;
    Result<Arena> arena = Arena::allocate(device(), plan, options);
    ASSERT_OK(arena);
    EXPECT_EQ((*arena)[none], 0u);
    EXPECT_EQ((*arena)[a] % arenaAlignment, 0u);
    EXPECT_EQ(arena->bytes(b), 300);
    EXPECT_EQ((*arena)[b] == (*arena)[c], !separate);
    EXPECT_EQ(arena->bytes(), separate ? 1024 + 512 + 256 : 1024 + 512);
    for (ArenaPlan::Slot slot : {a, b, c}) {
      auto bytes = download<uint8_t>((*arena)[slot], arena->bytes(slot));
      EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(),
                              [](uint8_t byte) { return byte == 0xFF; }));
    }
    upload((*arena)[b], std::vector<uint8_t>(300, 1));
    EXPECT_EQ(download<uint8_t>((*arena)[c], 1)[0], separate ? 0xFF : 1);
    Arena moved = std::move(*arena);
    EXPECT_EQ(download<uint8_t>(moved[b], 1)[0], 1);
  }
}

TEST_P(ArenaTest, AnEmptyPlanTakesNothing) {
  Result<Arena> arena = Arena::allocate(device(), ArenaPlan());
  ASSERT_OK(arena);
  EXPECT_EQ(arena->bytes(), 0);
}

TEST_P(ArenaTest, TooLargeIsSaidBeforeAnythingIsAllocated) {
  Result<MemoryInfo> memory = device().memory();
  ASSERT_OK(memory);
  ArenaPlan plan;
  plan.add("weights", memory->total);
  plan.add("rows", 1000);
  Result<Arena> arena = Arena::allocate(device(), plan);
  EXPECT_ERROR(arena, "this run needs ");
  EXPECT_ERROR(arena, "(" + std::to_string(memory->total + 1024) + " bytes)");
  EXPECT_ERROR(arena, "are free. Use fewer tokens");
  EXPECT_ERROR(arena, "  weights  ");
  if (!real()) {
    EXPECT_EQ(fakeDriver().calls["cuMemAlloc_v2"], 0);
    EXPECT_ERROR(arena, "4.3 GB of Fake GPU (device 0, compute capability 9.0) "
                        "4.3 GB (4294967296 bytes)");
  }
}

INSTANTIATE_ON_MACHINES(ArenaTest);

class ArenaFailureTest : public FakeTest {};

TEST_F(ArenaFailureTest, TheReserveStaysFree) {
  fakeDriver().freeBytes = int64_t(1) << 30;
  ArenaPlan plan;
  plan.add("all", int64_t(1) << 30);
  EXPECT_ERROR(Arena::allocate(device(), plan), "268.4 MB beside it");
  ArenaOptions options;
  options.reserve = 0;
  EXPECT_OK(Arena::allocate(device(), plan, options));
}

TEST_F(ArenaFailureTest, AnotherProcessWasFaster) {
  fakeDriver().failures["cuMemAlloc_v2"] = {api::CUDA_ERROR_OUT_OF_MEMORY, 1};
  ArenaPlan plan;
  plan.add("a", 1000);
  plan.add("b", 1000);
  ArenaOptions options;
  options.separate = true;
  EXPECT_ERROR(Arena::allocate(device(), plan, options), "this run needs");
  EXPECT_EQ(fakeDriver().blocks, 0); // the first went back
}

TEST_F(ArenaFailureTest, OtherErrorsKeepTheirWords) {
  fakeDriver().failures["cuMemGetInfo_v2"] = {api::CUDA_ERROR_UNKNOWN, 0};
  ArenaPlan plan;
  plan.add("a", 1000);
  EXPECT_ERROR(Arena::allocate(device(), plan), "cuMemGetInfo_v2 failed");
  fakeDriver().failures.clear();
  fakeDriver().failures["cuMemsetD8Async"] = {api::CUDA_ERROR_UNKNOWN, 0};
  ArenaOptions options;
  options.poison = true;
  EXPECT_ERROR(Arena::allocate(device(), plan, options),
               "cuMemsetD8Async failed");
}

} // namespace
