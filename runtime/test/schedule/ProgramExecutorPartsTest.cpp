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

using SetNow = std::function<ToyTruth::Set(const Decoding &)>;

static void executeParts(const ToyModel &model, SequenceShape shape,
                         const bundle::Manifest &manifest,
                         const SetNow &insideNow,
                         const SetNow &refreshable = {}, int64_t rows = 2) {
  ToyTruth::Set inside;
  for (bool byDefinition : {false, true})
    expectTruth(
        manifest, model, shape, 14,
        [&](int64_t step, const Decoding &decoding) {
          ToyTruth::Step what;
          what.visible = range(0, shape.length);
          what.active = firstMasked(decoding, rows);
          if (refreshable)
            what.active.merge(decoding.committedAt(step - 1));
          what.fresh = step % 4 == 1;
          if (what.fresh) {
            inside = insideNow(decoding);
            what.active = what.visible;
          }
          what.inside = inside;
          if (refreshable && !what.fresh)
            what.refreshable = refreshable(decoding);
          return what;
        },
        byDefinition);
}

/// Bounds of the first five masked positions.
static ToyTruth::Set hullNow(const Decoding &decoding) {
  const ToyTruth::Set masked = firstMasked(decoding, 5);
  return masked.empty() ? masked : range(*masked.begin(), *masked.rbegin() + 1);
}

TEST(ProgramExecutor, MergesWhatIsKeptOfAttention) {
  // Keys outside stand on both sides, on either, or nowhere; or all do.
  for (int64_t kvHeads : {1, 2, 4}) {
    const ToyModel model(3, 4, kvHeads, 5);
    auto insideOf = [](Positions::Kind kind) {
      return partsManifest({set(kind)});
    };
    executeParts(model, {21, 4}, partsManifest(hullOfMasked(5)), hullNow);
    executeParts(model, {21, 6}, insideOf(Positions::Kind::Prompt),
                 [](const Decoding &) { return range(0, 6); });
    executeParts(model, {21, 0}, insideOf(Positions::Kind::Prompt),
                 [](const Decoding &) { return ToyTruth::Set(); });
    executeParts(model, {21, 6}, insideOf(Positions::Kind::Response),
                 [](const Decoding &) { return range(6, 21); });
    executeParts(model, {21, 6}, insideOf(Positions::Kind::All),
                 [](const Decoding &) { return range(0, 21); });
  }
}

/// The same of the first `most` masked rows and of what has become a token,
/// which changes all others; some of them refresh what is kept.
static bundle::Manifest refreshing(std::vector<Positions> inside, int64_t most,
                                   Positions::Kind of, bundle::Ratio keep) {
  bundle::Manifest manifest = partsManifest(std::move(inside));
  std::vector<Positions> &sets = manifest.positions;
  const int64_t masked = manifest.passes[1].rows;
  sets[static_cast<size_t>(masked)].count = most;
  sets.push_back(set(Positions::Kind::Committed, 1));
  sets.push_back(set(Positions::Kind::Union));
  sets.back().of = {masked, masked + 1};
  sets.push_back(set(of, of == Positions::Kind::Undecoded ? 4 : 0));
  manifest.passes[1].rows = masked + 2;
  manifest.reuse.refreshed = masked + 3;
  manifest.reuse.keep = keep;
  return manifest;
}

TEST(ProgramExecutor, RefreshesWhatIsKeptOfAttention) {
  using Kind = Positions::Kind;
  const ToyModel model(3, 4, 2, 9);
  auto most = [](int64_t rows) {
    return [rows](const Decoding &decoding) {
      return firstMasked(decoding, rows);
    };
  };
  auto all = [](const Decoding &) { return range(0, 21); };
  auto prompt = [](const Decoding &) { return range(0, 6); };
  auto response = [](const Decoding &) { return range(6, 21); };
  auto none = [](const Decoding &) { return ToyTruth::Set(); };
  for (bundle::Ratio keep : {bundle::Ratio{1, 1}, {1, 2}, {2, 3}, {0, 1}}) {
    SCOPED_TRACE(std::to_string(keep.num) + "/" + std::to_string(keep.den));
    // Keys outside on both sides and on either; of some of the active rows, of
    // all and of none; rows in the set that are not active.
    executeParts(model, {21, 4},
                 refreshing(hullOfMasked(5), 7, Kind::Undecoded, keep), hullNow,
                 most(4), 7);
    executeParts(model, {21, 6},
                 refreshing({set(Kind::Prompt)}, 7, Kind::Undecoded, keep),
                 prompt, most(4), 7);
    executeParts(model, {21, 6},
                 refreshing({set(Kind::Response)}, 7, Kind::All, keep),
                 response, all, 7);
    executeParts(model, {21, 6},
                 refreshing({set(Kind::Response)}, 7, Kind::Prompt, keep),
                 response, prompt, 7);
    // None inside, all inside.
    executeParts(model, {21, 0},
                 refreshing({set(Kind::Prompt)}, 7, Kind::Undecoded, keep),
                 none, most(4), 7);
    executeParts(model, {21, 6},
                 refreshing({set(Kind::All)}, 7, Kind::Undecoded, keep), all,
                 most(4), 7);
  }
}

/// Of a batch, whose sequences keep at steps of their own, each has what it has
/// alone.
TEST(ProgramExecutor, RefreshesRowsOfABatch) {
  const ToyModel model(3, 4, 2, 9);
  const bundle::Manifest manifest =
      refreshing(hullOfMasked(5), 7, Positions::Kind::Undecoded, {1, 2});
  const std::vector<SequenceShape> shapes = {{21, 4}, {17, 3}, {9, 9}, {24, 0}};
  auto together = compiled(manifest, model.config);
  ASSERT_TRUE(together && together->beginRun(shapes, 20, 20));
  std::vector<Decoding> decodings;
  std::vector<std::unique_ptr<ScheduleExecutor>> alone;
  for (const SequenceShape &shape : shapes) {
    decodings.emplace_back(shape, 11 + static_cast<uint32_t>(alone.size()));
    alone.push_back(compiled(manifest, model.config));
    ASSERT_TRUE(alone.back() && alone.back()->beginRun({shape}, 20, 20));
  }
  for (int64_t step = 1; step <= 14; ++step) {
    // Each begins a step after the one before it, and has nine.
    std::vector<SequenceState> states;
    auto stepOf = [&](size_t s) { return step - static_cast<int64_t>(s); };
    for (size_t s = 0; s < shapes.size(); ++s) {
      states.push_back(decodings[s].states.all(stepOf(s), 20).front());
      states.back().done = stepOf(s) < 1 || stepOf(s) > 9;
    }
    auto batch = together->beginStep(states);
    ASSERT_TRUE(batch) << batch.error().text();
    std::vector<int32_t> tokens;
    std::vector<float> expected;
    for (size_t s = 0; s < shapes.size(); ++s) {
      for (int64_t row = (*batch)->offsets[s]; row < (*batch)->offsets[s + 1];
           ++row)
        tokens.push_back(decodings[s].tokens[(*batch)->positions[row]]);
      if (states[s].done)
        continue;
      auto own = alone[s]->beginStep(std::span(&states[s], 1));
      ASSERT_TRUE(own) << own.error().text();
      auto found =
          model.forward(*alone[s], **own, tokensOf(**own, decodings[s].tokens));
      ASSERT_TRUE(found) << found.error().text();
      expected.insert(expected.end(), found->begin(), found->end());
    }
    auto found = model.forward(*together, **batch, tokens);
    ASSERT_TRUE(found) << found.error().text();
    EXPECT_EQ(*found, expected) << "step " << step;
    for (size_t s = 0; s < shapes.size(); ++s)
      if (!states[s].done)
        decodings[s].commitOne(stepOf(s));
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

TEST(ProgramExecutor, CountsWhatIsRefreshedOfAttention) {
  ToyModel model(2, 4, 2, 3);
  auto executor = compiled(
      refreshing(hullOfMasked(3), 5, Positions::Kind::Undecoded, {1, 2}),
      model.config);
  ASSERT_TRUE(executor && executor->beginRun({{10, 4}}, 3, 3));
  executor->setTracing(true);
  Decoding decoding({10, 4}, 1);
  constexpr int64_t heads = 4, kv = 2 * 8 * 4;
  constexpr int64_t part = 4 * 8 * 4 + 4 * 4;
  for (int64_t step : {1, 2}) {
    auto batch = executor->beginStep(decoding.states.all(step, 3));
    ASSERT_TRUE(batch);
    ASSERT_TRUE(
        model.forward(*executor, **batch, tokensOf(**batch, decoding.tokens)));
  }
  // Of 5 rows 4 may be refreshed: in the first layer all are, in the second
  // half.
  const StepCounters counted = executor->counters();
  EXPECT_EQ(counted.pairs, heads * (2 * 5 * 3 + (4 + 2) * 7));
  EXPECT_EQ(counted.attendedKeys, 2 * 10);
  EXPECT_EQ(counted.mergedRows, 2 * 5);
  EXPECT_EQ(counted.cacheBytesWritten, 2 * 5 * 2 * kv + (4 + 2) * part);
  EXPECT_EQ(counted.cacheBytesRead, 2 * 5 * 2 * kv + (1 + 3) * part);
  for (const LayerTrace &layer : executor->trace())
    EXPECT_EQ(layer.unreadKeys, 0);
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
