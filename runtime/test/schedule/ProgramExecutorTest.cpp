//===- ProgramExecutorTest.cpp - Passes, caches and corrections -----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whole runs of a toy model under dense attention and every kind of pass,
// against ToyTruth. Tokens are committed from a fixed random order.
//
//===----------------------------------------------------------------------===//

#include "bundle/program/Program.h"
#include "runtime/test/schedule/ProgramCases.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::test;

TEST(ProgramExecutor, KeepsKeysAndValuesOfRowsThatAPassLeavesOut) {
  // All rows every fourth step, else those undecoded and just committed.
  bundle::Manifest manifest = denseManifest();
  manifest.reuse.kv = true;
  manifest.positions = {set(Positions::Kind::Undecoded, 3),
                        set(Positions::Kind::Committed, 1),
                        set(Positions::Kind::Union)};
  manifest.positions[2].of = {0, 1};
  manifest.passes = {passOn(every(4)), Pass()};
  manifest.passes[1].rows = 2;
  ToyModel model(3, 4, 2, 1);
  expectTruth(manifest, model, {20, 6}, 14,
              [&](int64_t step, const Decoding &decoding) {
                ToyTruth::Step what;
                what.visible = range(0, 20);
                if (step % 4 == 1) {
                  what.active = what.visible;
                  return what;
                }
                what.active = decoding.committedAt(step - 1);
                for (int32_t i = 0, left = 3; i < 20 && left > 0; ++i)
                  if (decoding.states.masked[0][i]) {
                    what.active.insert(i);
                    --left;
                  }
                return what;
              });
}

TEST(ProgramExecutor, SeesOnlyVisiblePositions) {
  // Decoded positions and the first four others, as every fifth step has them.
  bundle::Manifest manifest = denseManifest();
  manifest.reuse.kv = true;
  manifest.positions = {
      set(Positions::Kind::Decoded), set(Positions::Kind::Undecoded, 4),
      set(Positions::Kind::Union), set(Positions::Kind::Fixed),
      set(Positions::Kind::Undecoded, 2)};
  manifest.positions[2].of = {0, 1};
  manifest.positions[3].of = {2};
  manifest.positions[3].cadence = every(5);
  manifest.visible = 3;
  manifest.passes = {passOn(every(5)), Pass()};
  manifest.passes[1].rows = 4;
  ToyModel model(2, 2, 1, 2);
  ToyTruth::Set visible;
  expectTruth(manifest, model, {18, 5}, 12,
              [&](int64_t step, const Decoding &decoding) {
                auto firstMasked = [&](int64_t most) {
                  ToyTruth::Set result;
                  for (int32_t i = 0; i < 18; ++i)
                    if (decoding.states.masked[0][i] && most-- > 0)
                      result.insert(i);
                  return result;
                };
                ToyTruth::Step what;
                if (step % 5 == 1) {
                  visible = firstMasked(4);
                  for (int32_t i = 0; i < 18; ++i)
                    if (!decoding.states.masked[0][i])
                      visible.insert(i);
                  what.active = visible;
                } else {
                  for (int32_t i : firstMasked(2))
                    if (visible.count(i))
                      what.active.insert(i);
                }
                what.visible = visible;
                return what;
              });
}

/// All is visible and computed every fifth step. From the next one on it is
/// what was then decoded and the first four others: what is kept of these
/// follows them to their new places.
static void executeShrinking(Reuse reuse, Pass::Exact exact) {
  bundle::Manifest manifest = denseManifest();
  manifest.reuse = reuse;
  manifest.positions = {
      set(Positions::Kind::Decoded),      set(Positions::Kind::Undecoded, 4),
      set(Positions::Kind::Union),        set(Positions::Kind::Fixed),
      set(Positions::Kind::Undecoded, 2), set(Positions::Kind::Committed, 1),
      set(Positions::Kind::Union)};
  manifest.positions[2].of = {0, 1};
  manifest.positions[3].of = {2};
  manifest.positions[3].cadence = every(5, 2);
  manifest.positions[6].of = {4, 5};
  manifest.visible = 3;
  manifest.allVisible = every(5);
  manifest.passes = {passOn(every(5)), Pass()};
  manifest.passes[1].rows = exact == Pass::Exact::Salient ? -1 : 6;
  manifest.passes[1].exact = exact;
  manifest.passes[1].below = {99, 100};
  ToyModel model(3, 4, 2, 7);
  ToyTruth::Set visible;
  int64_t moved = 0;
  expectTruth(
      manifest, model, {20, 5}, 14,
      [&](int64_t step, const Decoding &decoding) {
        ToyTruth::Step what;
        if (step % 5 == 1) {
          what.visible = what.active = visible = range(0, 20);
          return what;
        }
        if (step % 5 == 2)
          visible = decodedAndFirst(decoding, 4);
        // Some visible position stands behind one that is not.
        moved += *visible.rbegin() >= static_cast<int32_t>(visible.size());
        what.visible = visible;
        what.exact = exact;
        what.below = 0.99;
        what.committed = decoding.committedAt(step - 1);
        ToyTruth::Set rows = firstMasked(decoding, 2);
        rows.merge(ToyTruth::Set(what.committed));
        if (exact == Pass::Exact::Salient)
          rows = visible;
        for (int32_t i : rows)
          if (visible.count(i))
            what.active.insert(i);
        return what;
      },
      exact == Pass::Exact::Salient && !reuse.ffn);
  EXPECT_GT(moved, 2);
}

TEST(ProgramExecutor, KeptRowsFollowTheirPositions) {
  executeShrinking({.kv = true}, Pass::Exact::All);
  executeShrinking({true, Reuse::Attention::Context, true},
                   Pass::Exact::Salient);
  executeShrinking({true, Reuse::Attention::Propagated, true},
                   Pass::Exact::Salient);
}

/// Decoded positions and the first two others, as every fifth step has them;
/// the first three others now, and what became a token in the last step, of
/// which some come to stand behind these.
static bundle::Manifest unseenManifest(Reuse reuse) {
  bundle::Manifest manifest = denseManifest();
  manifest.reuse = reuse;
  manifest.positions = {
      set(Positions::Kind::Decoded),      set(Positions::Kind::Undecoded, 2),
      set(Positions::Kind::Union),        set(Positions::Kind::Fixed),
      set(Positions::Kind::Undecoded, 3), set(Positions::Kind::Committed, 1),
      set(Positions::Kind::Union)};
  manifest.positions[2].of = {0, 1};
  manifest.positions[3].of = {2};
  manifest.positions[3].cadence = every(5);
  manifest.positions[6].of = {4, 5};
  manifest.visible = 3;
  manifest.passes = {passOn(every(5)), Pass()};
  manifest.passes[1].rows = 6;
  manifest.passes[1].unseen = true;
  return manifest;
}

TEST(ProgramExecutor, RowsThatAreNotVisibleAttendAndAreNoKeys) {
  for (bool shifted : {false, true})
    for (Reuse reuse :
         {Reuse{.kv = true}, Reuse{true, Reuse::Attention::Context, true},
          Reuse{true, Reuse::Attention::Output, true}}) {
      ToyModel model(3, 4, 2, 4);
      model.config.shiftedLogits = shifted;
      ToyTruth::Set visible;
      int64_t masks = 0, tokens = 0, asMany = 0;
      expectTruth(unseenManifest(reuse), model, {24, 2}, 20,
                  [&](int64_t step, const Decoding &decoding) {
                    ToyTruth::Step what;
                    if (step % 5 == 1) {
                      what.active = visible = decodedAndFirst(decoding, 2);
                    } else {
                      what.active = firstMasked(decoding, 3);
                      what.active.merge(decoding.committedAt(step - 1));
                      for (int32_t i : ToyTruth::Set(what.active))
                        if (shifted && i > 0)
                          what.active.insert(i - 1);
                      for (int32_t i : what.active)
                        if (!visible.count(i))
                          ++(decoding.states.masked[0][i] ? masks : tokens);
                      // Not all visible rows, though as many.
                      asMany += what.active.size() >= visible.size();
                    }
                    what.visible = visible;
                    return what;
                  });
      EXPECT_GT(masks, 10);
      EXPECT_GT(tokens, 5);
      EXPECT_GT(asMany, 0);
    }
}

TEST(ProgramExecutor, CountsRowsThatAreNotVisible) {
  bundle::Manifest manifest = unseenManifest({.kv = true});
  manifest.positions[6].of = {4};
  ToyModel model(2, 4, 2, 3);
  auto executor = compiled(manifest, model.config);
  ASSERT_TRUE(executor && executor->beginRun({{10, 4}}, 3, 3));
  executor->setTracing(true);
  Decoding decoding({10, 4}, 1);
  constexpr int64_t layers = 2, heads = 4, kv = 2 * 8 * 4;
  for (int64_t step : {1, 2}) {
    // 4 and 5 are visible; 6 is computed, too, in the second step.
    const int64_t rows = step == 1 ? 6 : 3, seen = step == 1 ? 6 : 2;
    auto batch = executor->beginStep(decoding.states.all(step, 3));
    ASSERT_TRUE(batch);
    ASSERT_TRUE(
        model.forward(*executor, **batch, tokensOf(**batch, decoding.tokens)));
    EXPECT_EQ((*batch)->rows(), rows);
    const StepCounters counted = executor->counters();
    EXPECT_EQ(counted.pairs, layers * heads * rows * 6);
    EXPECT_EQ(counted.keyRows, layers * rows);
    EXPECT_EQ(counted.cacheBytesWritten, layers * 2 * seen * kv);
    EXPECT_EQ(counted.cacheBytesRead, layers * 2 * (6 - seen) * kv);
    for (const LayerTrace &layer : executor->trace())
      EXPECT_EQ(layer.unreadKeys, 0);
  }
}

TEST(ProgramExecutor, AStepWithNothingLeftToShowComputesNothing) {
  bundle::Manifest manifest = denseManifest();
  manifest.positions = {set(Positions::Kind::Undecoded),
                        set(Positions::Kind::Fixed)};
  manifest.positions[1].of = {0};
  manifest.positions[1].cadence = every(1);
  manifest.visible = 1;
  ToyModel model(1, 2, 1, 3);
  auto executor = compiled(manifest, model.config);
  ASSERT_TRUE(executor);
  ASSERT_TRUE(static_cast<bool>(executor->beginRun({{6, 3}, {5, 4}}, 8, 8)));
  test::States states({{6, 3}, {5, 4}});
  states.commit(1, 4, 1);
  auto batch = executor->beginStep(states.all(2, 8));
  ASSERT_TRUE(batch) << batch.error().text();
  EXPECT_EQ((*batch)->offsets, (std::vector<int64_t>{0, 3, 3}));
  for (int64_t position : {3, 4, 5})
    states.commit(0, position, 2);
  // That something is masked and nothing visible is another matter.
  states.masked[1][4] = 1;
  EXPECT_TRUE(executor->beginStep(states.all(3, 8)));
}

TEST(ProgramExecutor, VisiblePositionsMayComeWithTheRowsOfAStep) {
  // Every fifth step as many first positions as are decoded, and four; then
  // besides all from the first masked one of that step to the sixth one now.
  bundle::Manifest manifest = denseManifest();
  manifest.reuse.kv = true;
  using Kind = Positions::Kind;
  manifest.positions = {
      set(Kind::Decoded), set(Kind::Undecoded, 4), set(Kind::Union),
      set(Kind::Leading), set(Kind::Fixed),        set(Kind::Undecoded, 1),
      set(Kind::Fixed),   set(Kind::Undecoded, 6), set(Kind::Union),
      set(Kind::Hull),    set(Kind::Union)};
  manifest.positions[2].of = {0, 1};
  manifest.positions[3].of = {2};
  manifest.positions[4].of = {3};
  manifest.positions[6].of = {5};
  manifest.positions[4].cadence = manifest.positions[6].cadence = every(5);
  manifest.positions[8].of = {6, 7};
  manifest.positions[9].of = {8};
  manifest.positions[10].of = {4, 9};
  manifest.visible = 10;
  manifest.passes = {passOn(every(5)), Pass()};
  manifest.passes[1].rows = 9;
  ToyModel model(2, 2, 1, 9);
  int32_t prefix = 0, begin = 0;
  expectTruth(manifest, model, {24, 4}, 14,
              [&](int64_t step, const Decoding &decoding) {
                ToyTruth::Step what;
                if (step % 5 == 1) {
                  prefix =
                      static_cast<int32_t>(decodedAndFirst(decoding, 4).size());
                  begin = *firstMasked(decoding, 1).begin();
                }
                ToyTruth::Set rows =
                    range(begin, *firstMasked(decoding, 6).rbegin() + 1);
                what.visible = range(0, prefix);
                what.visible.insert(rows.begin(), rows.end());
                what.active = step % 5 == 1 ? what.visible : rows;
                return what;
              });
}

/// Two full steps, then salient rows: of all positions every third step, else
/// of the response.
static void executeSalient(Reuse reuse, bundle::Ratio below, double limit,
                           Pass::Exact exact = Pass::Exact::Salient) {
  bundle::Manifest manifest = denseManifest();
  manifest.reuse = reuse;
  manifest.positions = {set(Positions::Kind::Response)};
  manifest.passes = {passOn(first(2)), passOn(every(3)), Pass()};
  for (int64_t pass : {1, 2}) {
    manifest.passes[pass].exact = exact;
    manifest.passes[pass].below = below;
  }
  manifest.passes[2].rows = 0;
  ToyModel model(3, 4, 2, 5);
  expectTruth(
      manifest, model, {22, 8}, 12,
      [&](int64_t step, const Decoding &decoding) {
        ToyTruth::Step what;
        what.visible = what.active = range(0, 22);
        if (step <= 2)
          return what;
        if (step % 3 != 1)
          what.active = range(8, 22);
        what.exact = exact;
        what.committed = decoding.committedAt(step - 1);
        what.below = limit;
        return what;
      },
      !reuse.ffn);
}

TEST(ProgramExecutor, FindsSalientRowsAndPropagatesWhatChanged) {
  executeSalient({true, Reuse::Attention::Propagated, true}, {999, 1000},
                 0.999);
  executeSalient({true, Reuse::Attention::Propagated, true}, {99999, 100000},
                 0.99999);
  executeSalient({true, Reuse::Attention::Propagated, false}, {99, 100}, 0.99);
}

TEST(ProgramExecutor, FindsSalientRowsWithoutPropagation) {
  executeSalient({true, Reuse::Attention::Context, true}, {9999, 10000},
                 0.9999);
}

TEST(ProgramExecutor, FindsRowsWhoseFfnAloneIsComputed) {
  for (Reuse::Attention attention :
       {Reuse::Attention::Context, Reuse::Attention::Propagated})
    executeSalient({true, attention, true}, {9999, 10000}, 0.9999,
                   Pass::Exact::SalientFfn);
}

/// dLLM-Cache with a share of the response, of which past confidence counts
/// by `weight`.
static void executeLeastSimilar(bundle::Ratio keep, bundle::Ratio weight = {}) {
  for (Reuse::Attention attention :
       {Reuse::Attention::Output, Reuse::Attention::Context}) {
    bundle::Manifest manifest = denseManifest();
    manifest.reuse = {true, attention, true};
    manifest.positions = {set(Positions::Kind::Response)};
    // Prompt and response; the prompt and some; the response; some.
    manifest.passes = {passOn(every(6)), passOn(every(3)), passOn(every(4), 0),
                       Pass()};
    manifest.passes[0].when.push_back({When::Kind::On, every(2)});
    for (int64_t pass : {1, 3}) {
      manifest.passes[pass].exact = Pass::Exact::LeastSimilar;
      manifest.passes[pass].keep = keep;
      manifest.passes[pass].among = 0;
      manifest.passes[pass].confidence = weight;
    }
    manifest.passes[0].when.pop_back();
    manifest.passes[3].rows = 0;
    ToyModel model(3, 2, 2, 3);
    expectTruth(manifest, model, {19, 6}, 13,
                [&](int64_t step, const Decoding &decoding) {
                  ToyTruth::Step what;
                  what.visible = what.active = range(0, 19);
                  what.among = range(6, 19);
                  what.weight = static_cast<double>(weight.num) /
                                static_cast<double>(weight.den);
                  for (int32_t i = 6; i < 19; ++i)
                    if (double sure = decoding.states.confidence[0][i];
                        decoding.states.masked[0][i] && std::isfinite(sure))
                      what.sure[i] = sure;
                  what.keep = static_cast<double>(keep.num) /
                              static_cast<double>(keep.den);
                  if (step % 6 == 1)
                    return what;
                  if (step % 3 != 1)
                    what.active = range(6, 19);
                  if (step % 3 == 1 || step % 4 != 1)
                    what.exact = Pass::Exact::LeastSimilar;
                  return what;
                });
  }
}

TEST(ProgramExecutor, RecomputesTheRowsWhoseValuesChangedMost) {
  executeLeastSimilar({3, 10});
}

TEST(ProgramExecutor, RecomputesTheRowsThatChangedMostAndWereSurest) {
  executeLeastSimilar({3, 10}, {1, 2});
  executeLeastSimilar({1, 2}, {1, 100});
  executeLeastSimilar({1, 2}, {1, 1});
}

// Nor V of any: the prompt's rows read the response's old ones.
TEST(ProgramExecutor, RecomputesNoRowsWithoutAShare) {
  executeLeastSimilar({0, 1});
}

/// Every fifth step all rows; else in `layers` of five those of the response,
/// in the others what is masked or new of it, or what `between` chooses.
static void executeByLayer(Reuse reuse, Reuse outer, Pass between,
                           std::vector<bundle::LayerRange> layers) {
  bundle::Manifest manifest = denseManifest();
  manifest.reuse = reuse;
  if (!(outer == reuse))
    manifest.layeredReuses = {{layers, outer}};
  manifest.positions = {
      set(Positions::Kind::Response),     set(Positions::Kind::Undecoded),
      set(Positions::Kind::Committed, 1), set(Positions::Kind::Union),
      set(Positions::Kind::Intersect),    set(Positions::Kind::Undecoded, 1),
      set(Positions::Kind::Except)};
  manifest.positions[3].of = {1, 2};
  manifest.positions[4].of = {0, 3};
  manifest.positions[6].of = {0, 5};
  manifest.passes = {passOn(every(5)), Pass(), between};
  manifest.passes[1].rows = 0;
  manifest.passes[1].layers = layers;
  ToyModel model(5, 4, 2, 9);
  expectTruth(
      manifest, model, {18, 5}, 13,
      [&](int64_t step, const Decoding &decoding) {
        ToyTruth::Step what;
        what.visible = range(0, 18);
        what.active = range(step % 5 == 1 ? 0 : 5, 18);
        if (step % 5 == 1)
          return what;
        what.committed = decoding.committedAt(step - 1);
        what.among = range(5, 18);
        ToyTruth::Set live = firstMasked(decoding, 18);
        if (between.among == 6)
          what.among.erase(*live.begin());
        live.merge(ToyTruth::Set(what.committed));
        for (int64_t l = 0; l < 5; ++l)
          what.layers.push_back(
              bundle::hasLayer(layers, l, 5)
                  ? ToyTruth::Step::Layer{range(5, 18)}
                  : ToyTruth::Step::Layer{
                        between.rows == 0 ? range(5, 18) : live, between.exact,
                        double(between.below.num) / double(between.below.den),
                        double(between.keep.num) / double(between.keep.den)});
        return what;
      });
}

TEST(ProgramExecutor, RowsDifferFromLayerToLayer) {
  const Reuse kv{.kv = true}, output{true, Reuse::Attention::Output, true},
      context{true, Reuse::Attention::Context, true},
      propagated{true, Reuse::Attention::Propagated, true};
  Pass live, salient, least;
  live.rows = 4;
  salient.rows = least.rows = 0;
  salient.exact = Pass::Exact::Salient;
  salient.below = {9999, 10000};
  least.exact = Pass::Exact::LeastSimilar;
  least.keep = {1, 3};
  least.among = 0;
  const std::vector<bundle::LayerRange> early = {{0, 1}},
                                        outer = {{0, 1}, {-1, -1}};
  // Rows end; and go on where they are kept, so that a later layer has them.
  executeByLayer(kv, kv, live, early);
  executeByLayer(output, output, live, outer);
  executeByLayer(context, context, live, outer);
  executeByLayer(propagated, propagated, live, outer);
  executeByLayer(output, kv, live, outer);
  executeByLayer(kv, propagated, live, early);
  // Chosen in later layers alone, by what the layer before found or by V.
  executeByLayer(context, context, salient, early);
  executeByLayer(propagated, context, salient, outer);
  executeByLayer(output, kv, least, early);
  // What is not chosen ends, in layer 2 and again in layer 3.
  least.among = 6;
  executeByLayer(kv, kv, least, outer);
}

TEST(ProgramExecutor, AddsTheRowBeforeInShiftedModels) {
  bundle::Manifest manifest = denseManifest();
  manifest.reuse.kv = true;
  manifest.positions = {set(Positions::Kind::Undecoded, 2)};
  manifest.passes = {passOn(first(1)), Pass()};
  manifest.passes[1].rows = 0;
  ToyModel model(1, 2, 1, 3);
  model.config.shiftedLogits = true;
  auto executor = compiled(manifest, model.config);
  ASSERT_TRUE(executor);
  ASSERT_TRUE(executor->beginRun({{6, 2}}, 4, 4));
  Decoding decoding({6, 2}, 1);
  for (int64_t step = 1; step <= 2; ++step) {
    auto batch = executor->beginStep(decoding.states.all(step, 4));
    ASSERT_TRUE(batch) << batch.error().text();
    EXPECT_EQ((*batch)->positions,
              step == 1 ? (std::vector<int32_t>{0, 1, 2, 3, 4, 5})
                        : (std::vector<int32_t>{1, 2, 3}));
    ASSERT_TRUE(
        model.forward(*executor, **batch, tokensOf(**batch, decoding.tokens)));
  }
}

TEST(ProgramExecutor, NothingLeftOutIsDenseBitForBit) {
  // Rows of all positions, visible positions that are all, salient below 2 when
  // every row has just been committed, the least similar whole.
  ToyModel model(3, 4, 2, 7);
  const SequenceShape shape{21, 4};
  auto execute = [&](const bundle::Manifest &manifest, bool commitAll) {
    std::vector<std::vector<float>> states;
    auto executor = compiled(manifest, model.config);
    if (!executor || !executor->beginRun({shape}, 5, 5))
      return states;
    Decoding decoding(shape, 2);
    for (int64_t step = 1; step <= 5; ++step) {
      if (commitAll && step > 1)
        for (int64_t i = 0; i < shape.length; ++i)
          decoding.states.commit(0, i, step - 1);
      auto batch = executor->beginStep(decoding.states.all(step, 5));
      EXPECT_TRUE(batch) << batch.error().text();
      if (!batch)
        return states;
      auto found =
          model.forward(*executor, **batch, tokensOf(**batch, decoding.tokens));
      EXPECT_TRUE(found) << found.error().text();
      if (found)
        states.push_back(*found);
      for (int32_t &token : decoding.tokens)
        token = (token + 3) % 50;
    }
    return states;
  };
  std::vector<std::vector<float>> dense = execute(denseManifest(), false);
  ASSERT_EQ(dense.size(), 5u);

  bundle::Manifest allRows = denseManifest();
  allRows.reuse = {true, Reuse::Attention::Context, true};
  allRows.positions = {set(Positions::Kind::All), set(Positions::Kind::Fixed)};
  allRows.positions[1].of = {0};
  allRows.positions[1].cadence = every(2);
  allRows.visible = 1;
  allRows.passes = {passOn(every(2)), Pass()};
  allRows.passes[1].rows = 0;
  EXPECT_EQ(execute(allRows, false), dense);

  bundle::Manifest output = allRows;
  output.reuse.attention = Reuse::Attention::Output;
  EXPECT_EQ(execute(output, false), dense);

  bundle::Manifest salient = denseManifest();
  salient.reuse = {true, Reuse::Attention::Propagated, true};
  salient.passes = {passOn(first(1)), Pass()};
  salient.passes[1].exact = Pass::Exact::Salient;
  salient.passes[1].below = {2, 1};
  EXPECT_EQ(execute(salient, true), dense);

  bundle::Manifest least = salient;
  least.reuse.attention = Reuse::Attention::Output;
  least.positions = {set(Positions::Kind::All)};
  least.passes[1] = Pass();
  least.passes[1].exact = Pass::Exact::LeastSimilar;
  least.passes[1].keep = {1, 1};
  least.passes[1].among = 0;
  EXPECT_EQ(execute(least, false), dense);
}

static void executeTogether(const bundle::Manifest &manifest);

TEST(ProgramExecutor, SequencesKnowNothingOfEachOther) {
  bundle::Manifest manifest = denseManifest();
  manifest.reuse = {true, Reuse::Attention::Propagated, true};
  manifest.positions = {set(Positions::Kind::Response),
                        set(Positions::Kind::Undecoded, 3)};
  manifest.passes = {passOn(every(5)), passOn(every(2)), passOn(every(3), 1),
                     Pass()};
  manifest.passes[1].exact = Pass::Exact::Salient;
  manifest.passes[1].below = {9999, 10000};
  manifest.passes[3].exact = Pass::Exact::Salient;
  manifest.passes[3].below = {999, 1000};
  manifest.passes[3].rows = 0;
  bundle::Phase window;
  window.when = {When::Kind::On, every(4, 2)};
  window.attention = test::kernelNamed(manifest, "window5_sinks2");
  manifest.rules[0].phases.insert(manifest.rules[0].phases.begin(), window);
  executeTogether(manifest);
  executeTogether(partsManifest(hullOfMasked(4)));
  executeTogether(unseenManifest({true, Reuse::Attention::Context, true}));
  executeTogether(partsManifest({set(Positions::Kind::Prompt)}));
}

/// Three sequences, each at its own place: what each computes in the batch is
/// what it computes alone, bit for bit.
static void executeTogether(const bundle::Manifest &manifest) {
  ToyModel model(2, 4, 2, 9);
  const std::vector<SequenceShape> shapes = {{17, 3}, {9, 0}, {24, 11}};
  constexpr int64_t steps = 14;
  // Sequence s takes part from round 2 s on and is done after its step 9 - s:
  // the first and the middle one end in steps with salient rows, of which
  // nothing may be left in the steps that the others go on with.
  auto placeOf = [&](size_t s, int64_t round) {
    return round - 2 * static_cast<int64_t>(s);
  };
  std::vector<std::vector<std::vector<float>>> alone(shapes.size());
  for (size_t s = 0; s < shapes.size(); ++s) {
    auto executor = compiled(manifest, model.config);
    ASSERT_TRUE(executor && executor->beginRun({shapes[s]}, steps, steps));
    Decoding decoding(shapes[s], static_cast<uint32_t>(s));
    for (int64_t step = 1; step <= 9 - static_cast<int64_t>(s); ++step) {
      auto batch = executor->beginStep(decoding.states.all(step, steps));
      ASSERT_TRUE(batch) << batch.error().text();
      auto found =
          model.forward(*executor, **batch, tokensOf(**batch, decoding.tokens));
      ASSERT_TRUE(found) << found.error().text();
      alone[s].push_back(*found);
      decoding.commitOne(step);
    }
  }
  auto executor = compiled(manifest, model.config);
  ASSERT_TRUE(executor && executor->beginRun(shapes, steps, steps));
  std::vector<Decoding> decodings;
  for (size_t s = 0; s < shapes.size(); ++s)
    decodings.emplace_back(shapes[s], static_cast<uint32_t>(s));
  for (int64_t round = 1; round <= steps; ++round) {
    std::vector<SequenceState> states;
    for (size_t s = 0; s < shapes.size(); ++s) {
      int64_t step = placeOf(s, round);
      SequenceState state = decodings[s].states.at(
          0, bundle::plannedPlace(std::max<int64_t>(step, 1), steps, 0));
      state.done = step < 1 || step > 9 - static_cast<int64_t>(s);
      states.push_back(state);
    }
    auto batch = executor->beginStep(states);
    ASSERT_TRUE(batch) << batch.error().text();
    std::vector<int32_t> tokens;
    for (int64_t s = 0; s < (*batch)->sequences(); ++s)
      for (int64_t row = (*batch)->offsets[s]; row < (*batch)->offsets[s + 1];
           ++row)
        tokens.push_back(decodings[s].tokens[(*batch)->positions[row]]);
    auto found = model.forward(*executor, **batch, tokens);
    ASSERT_TRUE(found) << found.error().text();
    for (size_t s = 0; s < shapes.size(); ++s) {
      if (states[s].done)
        continue;
      int64_t step = placeOf(s, round), hidden = model.config.hidden;
      std::vector<float> part(found->begin() + (*batch)->offsets[s] * hidden,
                              found->begin() +
                                  (*batch)->offsets[s + 1] * hidden);
      EXPECT_EQ(part, alone[s][step - 1])
          << "sequence " << s << " step " << step;
      decodings[s].commitOne(step);
    }
  }
}

TEST(ProgramExecutor, RefusesToReadWhatNoStepHasComputed) {
  ToyModel model(1, 2, 1, 3);
  auto refusal = [&](bundle::Manifest manifest, int64_t step) -> std::string {
    auto executor =
        ReferenceExecutor::create(manifest, model.config, DType::F32);
    if (!executor)
      return executor.error().text();
    EXPECT_TRUE((*executor)->beginRun({{6, 2}}, 4, 4));
    Decoding decoding({6, 2}, 1);
    for (int64_t now = 1; now <= step; ++now) {
      auto batch = (*executor)->beginStep(decoding.states.all(now, 4));
      if (!batch)
        return batch.error().text();
      auto found = model.forward(**executor, **batch,
                                 tokensOf(**batch, decoding.tokens));
      if (!found)
        return found.error().text();
      decoding.commitOne(now);
    }
    return "";
  };
  bundle::Manifest rows = denseManifest();
  rows.reuse.kv = true;
  rows.positions = {set(Positions::Kind::Response)};
  rows.passes.emplace_back().rows = 0;
  EXPECT_NE(
      refusal(rows, 1).find("step 1 of sequence 0: the pass computes 4 of "
                            "6 visible positions, and position 0 has not "
                            "been computed"),
      std::string::npos)
      << refusal(rows, 1);
  rows.passes.insert(rows.passes.begin(), passOn(first(1)));
  EXPECT_EQ(refusal(rows, 2), "");
  rows.reuse.kv = false;
  EXPECT_NE(refusal(rows, 2).find("let it reuse kv"), std::string::npos);

  bundle::Manifest salient = denseManifest();
  salient.reuse.kv = true;
  salient.passes.emplace_back().exact = Pass::Exact::Salient;
  salient.passes.back().below = {1, 1};
  EXPECT_NE(refusal(salient, 1).find("must reuse kv and context"),
            std::string::npos);
  salient.reuse.attention = Reuse::Attention::Output;
  EXPECT_NE(refusal(salient, 1).find("reuse context, not output"),
            std::string::npos);
  salient.reuse.attention = Reuse::Attention::Context;
  EXPECT_NE(refusal(salient, 1).find("position 0 has not been computed"),
            std::string::npos);

  // A list of keys that are no longer those.
  bundle::Manifest lists = test::handManifest();
  lists.reuse.kv = true;
  lists.positions = {set(Positions::Kind::Decoded),
                     set(Positions::Kind::Fixed)};
  lists.positions[1].of = {0};
  lists.positions[1].cadence = every(2);
  lists.visible = 1;
  lists.selections[0].cadence = first(1);
  bundle::Phase refreshing;
  refreshing.when = {When::Kind::On, first(1)};
  refreshing.attention = test::kernelNamed(lists, "dense_lse");
  refreshing.refreshes = {{0, test::kernelNamed(lists, "select16")}};
  lists.rules[0].phases[0].attention = test::kernelNamed(lists, "columns16");
  lists.rules[0].phases.insert(lists.rules[0].phases.begin(), refreshing);
  EXPECT_EQ(refusal(lists, 2), "");
  EXPECT_NE(refusal(lists, 3).find("step 3 of sequence 0 reads selection "
                                   "'groups16' in layer 0, which has not been "
                                   "refreshed"),
            std::string::npos)
      << refusal(lists, 3);

  // A selection that is due where not all rows are computed.
  bundle::Manifest due = test::handManifest();
  due.reuse.kv = true;
  due.positions = rows.positions;
  due.passes = rows.passes;
  due.selections[0].cadence = every(1);
  refreshing.when = {};
  due.rules[0].phases = {refreshing};
  EXPECT_NE(refusal(due, 2).find("recompute all on its cadence"),
            std::string::npos)
      << refusal(due, 2);

  // Attention over keys outside that is kept of some rows, or of none.
  bundle::Manifest parts = partsManifest({set(Positions::Kind::Prompt)});
  EXPECT_EQ(refusal(parts, 4), "");
  parts.reuse.cadence = every(2);
  EXPECT_NE(refusal(parts, 3).find("to be kept of all 6 visible rows, but the "
                                   "pass computes 2 of them"),
            std::string::npos)
      << refusal(parts, 3);
  parts.reuse.cadence = every(4, 2);
  EXPECT_NE(refusal(parts, 1).find("is not kept at any step before"),
            std::string::npos)
      << refusal(parts, 1);

  // A set that nothing has fixed yet.
  bundle::Manifest late = lists;
  late.positions[1].cadence = every(2, 2);
  EXPECT_NE(refusal(late, 1).find("of which no step has come yet"),
            std::string::npos)
      << refusal(late, 1);
}

TEST(ProgramExecutor, CountsRowsAndBytes) {
  bundle::Manifest manifest = denseManifest();
  manifest.reuse = {true, Reuse::Attention::Output, true};
  manifest.positions = {set(Positions::Kind::Response)};
  manifest.passes = {passOn(first(1)), Pass()};
  manifest.passes[1].rows = 0;
  ToyModel model(2, 4, 2, 3);
  auto executor = compiled(manifest, model.config);
  ASSERT_TRUE(executor && executor->beginRun({{10, 4}}, 2, 2));
  Decoding decoding({10, 4}, 1);
  constexpr int64_t layers = 2, heads = 4, kv = 2 * 8 * 4, hidden = 4 * 8 * 4;
  for (int64_t step : {1, 2}) {
    auto batch = executor->beginStep(decoding.states.all(step, 2));
    ASSERT_TRUE(batch);
    ASSERT_TRUE(
        model.forward(*executor, **batch, tokensOf(**batch, decoding.tokens)));
    int64_t rows = step == 1 ? 10 : 6;
    StepCounters counted = executor->counters();
    EXPECT_EQ(counted.activeRows, rows);
    EXPECT_EQ(counted.queryRows, layers * rows);
    EXPECT_EQ(counted.keyRows, layers * rows);
    EXPECT_EQ(counted.valueRows, layers * rows);
    EXPECT_EQ(counted.ffnRows, layers * rows);
    EXPECT_EQ(counted.pairs, layers * heads * rows * 10);
    EXPECT_EQ(counted.densePairs, layers * heads * 10 * 10);
    EXPECT_EQ(counted.cacheBytesWritten, layers * rows * (2 * kv + 2 * hidden));
    EXPECT_EQ(counted.cacheBytesRead, layers * (10 - rows) * 2 * kv);
  }
  // K, V of 10 positions, outputs and FFN outputs, in two layers; scratch.
  int64_t kept = 2 * (2 * 640 + 2 * 1280);
  EXPECT_GE(executor->runBytes({{10, 4}}), kept);
  EXPECT_LT(executor->runBytes({{10, 4}}), kept + 4096);
}
