//===- ProgramExecutorPartsTest.cpp - Attention of which a part is kept ---===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/schedule/RowMemory.h"
#include "runtime/test/schedule/ProgramCases.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::test;

static void
executeParts(const ToyModel &model, SequenceShape shape,
             std::vector<Positions> sets,
             const std::function<ToyTruth::Set(const Decoding &)> &insideNow) {
  ToyTruth::Set inside;
  for (bool byDefinition : {false, true})
    expectTruth(
        partsManifest(sets), model, shape, 14,
        [&](int64_t step, const Decoding &decoding) {
          ToyTruth::Step what;
          what.visible = range(0, shape.length);
          what.active = firstMasked(decoding, 2);
          what.fresh = step % 4 == 1;
          if (what.fresh) {
            inside = insideNow(decoding);
            what.active = what.visible;
          }
          what.inside = inside;
          return what;
        },
        byDefinition);
}

TEST(ProgramExecutor, MergesWhatIsKeptOfAttention) {
  // Keys outside stand on both sides, on either, or nowhere; or all do.
  for (int64_t kvHeads : {1, 2, 4}) {
    const ToyModel model(3, 4, kvHeads, 5);
    executeParts(model, {21, 4}, hullOfMasked(5), [](const Decoding &decoding) {
      const ToyTruth::Set masked = firstMasked(decoding, 5);
      return masked.empty() ? masked
                            : range(*masked.begin(), *masked.rbegin() + 1);
    });
    executeParts(model, {21, 6}, {set(Positions::Kind::Prompt)},
                 [](const Decoding &) { return range(0, 6); });
    executeParts(model, {21, 0}, {set(Positions::Kind::Prompt)},
                 [](const Decoding &) { return ToyTruth::Set(); });
    executeParts(model, {21, 6}, {set(Positions::Kind::Response)},
                 [](const Decoding &) { return range(6, 21); });
    executeParts(model, {21, 6}, {set(Positions::Kind::All)},
                 [](const Decoding &) { return range(0, 21); });
  }
}

TEST(ProgramExecutor, CountsWhatIsKeptOfAttention) {
  ToyModel model(2, 4, 2, 3);
  auto executor = compiled(partsManifest(hullOfMasked(3)), model.config);
  ASSERT_TRUE(executor && executor->beginRun({{10, 4}}, 3, 3));
  executor->setTracing(true);
  Decoding decoding({10, 4}, 1);
  constexpr int64_t layers = 2, heads = 4, kv = 2 * 8 * 4;
  constexpr int64_t part = 4 * 8 * 4 + 4 * 4; // a row, and its log-sum-exps
  for (int64_t step : {1, 2}) {
    auto batch = executor->beginStep(decoding.states.all(step, 3));
    ASSERT_TRUE(batch);
    ASSERT_TRUE(
        model.forward(*executor, **batch, tokensOf(**batch, decoding.tokens)));
    const int64_t rows = step == 1 ? 10 : 2, keys = step == 1 ? 10 : 3;
    StepCounters counted = executor->counters();
    EXPECT_EQ(counted.pairs, layers * heads * rows * keys);
    EXPECT_EQ(counted.attendedKeys, layers * keys);
    EXPECT_EQ(counted.mergedRows, layers * rows);
    EXPECT_EQ(counted.cacheBytesWritten,
              layers * rows * (2 * kv + (step == 1 ? part : 0)));
    EXPECT_EQ(counted.cacheBytesRead,
              step == 1 ? 0 : layers * (2 * kv + rows * part));
    for (const LayerTrace &layer : executor->trace())
      EXPECT_EQ(layer.unreadKeys, 10 - rows - (step == 1 ? 0 : 1));
  }
  int64_t kept = layers * 10 * (2 * kv + part);
  EXPECT_GE(executor->runBytes({{10, 4}}), kept);
  EXPECT_LT(executor->runBytes({{10, 4}}), kept + 4096);
}

/// What has no key (minus infinity) may be anything, NaN here.
TEST(HostRowMemory, MergesByLogSumExp) {
  constexpr float none = -std::numeric_limits<float>::infinity();
  const float nan = std::nanf("");
  constexpr int64_t heads = 2, headDim = 3, width = heads * headDim;
  HostRowMemory memory(DType::F32);
  // Rows 1 and 0 of the output are kept as rows 0 and 2.
  const std::vector<float> now = {1, 2,   3,   4,   5, 6, //
                                  7, nan, nan, nan, 8, 9};
  const std::vector<float> before = {2,   2,   2,   nan, nan, nan, //
                                     0,   0,   0,   0,   0,   0,   //
                                     nan, nan, nan, 8,   8,   8};
  const std::vector<float> lse = {3, none, 1, none}; // [heads x 2 rows]
  const std::vector<float> keptLse = {4, none, 0, 0, none, 1};
  const std::vector<int32_t> from = {1, 0}, kept = {0, 2}, stride = {2, 2};
  const std::vector<int64_t> at = {1, 0};
  std::vector<float> output(2 * width, 5), fresh(6, 5), cache = before;
  RowMerge merge{.now = {now.data(), width, from},
                 .lse = lse.data(),
                 .lseAt = at,
                 .lseStride = stride,
                 .kept = {cache.data(), width, kept},
                 .keptLse = keptLse.data(),
                 .newLse = fresh.data(),
                 .output = {output.data(), width, from}};
  ASSERT_TRUE(memory.merge(merge, heads, headDim));
  // Row 1: nothing is new in head 0, nothing at all in head 1. Row 0: nothing
  // was kept in head 0; both parts weigh as much in head 1.
  EXPECT_EQ(output, (std::vector<float>{1, 2, 3, 6, 6.5f, 7, //
                                        2, 2, 2, 0, 0, 0}));
  EXPECT_EQ(fresh, (std::vector<float>{4, none, 5, 5, 3, 2}));
  // Nothing is kept yet: what is new is.
  merge.keptLse = nullptr;
  merge.now.index = std::span(from).last(1);
  merge.kept.index = std::span(kept).last(1);
  merge.lseAt = std::span(at).last(1);
  merge.output = {};
  ASSERT_TRUE(memory.merge(merge, heads, headDim));
  EXPECT_TRUE(
      std::equal(now.begin(), now.begin() + width, cache.begin() + 2 * width));
  EXPECT_EQ(fresh, (std::vector<float>{4, none, 5, 5, 3, 1}));
}
