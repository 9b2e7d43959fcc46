//===- ExplainTest.cpp - Timelines and costs ------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/explain/Explain.h"
#include "bundle/program/PairSets.h"
#include "bundle/test/RandomTerm.h"
#include "bundle/test/TestManifest.h"
#include "tools/explain/KeptPairs.h"

#include "nlohmann/json.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

using namespace heddle;
using namespace heddle::bundle;
using namespace heddle::explain;

namespace {

ExplainRequest requestOf(int64_t steps, int64_t length, int64_t layers,
                         int64_t heads) {
  ExplainRequest request;
  request.run.steps = steps;
  request.run.length = length;
  request.shape.layers = layers;
  request.shape.heads = heads;
  return request;
}

TEST(Explain, RunLengths) {
  EXPECT_EQ(runLengths({}), "none");
  EXPECT_EQ(runLengths({4}), "4");
  EXPECT_EQ(runLengths({1, 3, 5, 8, 9, 10}), "1,3,5,8-10");
  EXPECT_EQ(runLengths({1, 2, 5}), "1,2,5");
}

/// Pairs of a sequence whose rows are all computed and visible.
Kept keptOf(const Kernel &kernel, const Manifest &manifest, int64_t length) {
  return keptPairs(kernel, manifest, {.length = length});
}

/// Counts pairs one by one.
int64_t bruteForce(int64_t n, int64_t window, int64_t sinks) {
  int64_t pairs = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      pairs += (window > 0 && std::llabs(i - j) <= window / 2) || j < sinks;
  return pairs;
}

TEST(Explain, PairsOfBandsMatchACount) {
  for (int64_t n : {1, 2, 7, 64, 65})
    for (int64_t window : {0, 1, 2, 5, 64, 1000})
      for (int64_t sinks : {0, 1, 4, 100}) {
        if (window == 0 && sinks == 0)
          continue;
        Kernel kernel;
        if (window)
          kernel.terms.push_back({Term::Kind::Window, window, -1});
        if (sinks)
          kernel.terms.push_back({Term::Kind::Sinks, sinks, -1});
        const Kept kept = keptOf(kernel, Manifest(), n);
        EXPECT_EQ(kept.pairs, bruteForce(n, window, sinks))
            << n << " " << window << " " << sinks;
        EXPECT_TRUE(kept.exact);
      }
}

TEST(Explain, SharesOfSinksMatchACount) {
  for (int64_t n : {1, 9, 10, 65})
    for (int64_t window : {0, 5, 64}) {
      Kernel kernel;
      if (window)
        kernel.terms.push_back({Term::Kind::Window, window, -1});
      kernel.terms.push_back({Term::Kind::Sinks, 2, -1});
      kernel.terms.push_back({Term::Kind::Sinks, 0, -1, {1, 10}});
      const Kept kept = keptOf(kernel, Manifest(), n);
      EXPECT_EQ(kept.pairs, bruteForce(n, window, std::max<int64_t>(2, n / 10)))
          << n << " " << window;
      EXPECT_TRUE(kept.exact);
    }
  Kernel kernel;
  kernel.terms = {{Term::Kind::Window, 64, -1},
                  {Term::Kind::Sinks, 4, -1},
                  {Term::Kind::Sinks, 0, -1, {1, 10}}};
  EXPECT_EQ(bundle::words(kernel.terms, Manifest()),
            "window(64) + sinks(4) + sinks(0.1)");
}

TEST(Explain, PairsOfIntersectionsMatchACount) {
  std::mt19937 random(16);
  for (int trial = 0; trial < 300; ++trial) {
    const int64_t n = 1 + static_cast<int64_t>(random() % 70);
    Kernel kernel;
    for (int i = 0; i < 2; ++i)
      kernel.terms.push_back(heddle::test::randomTerm(random, 40));
    kernel.terms.push_back({Term::Kind::Window, 9, -1});
    kernel.terms.back().within = heddle::test::randomBound(random, 40);
    const auto holds = bundle::pairsOf(kernel.terms, 0, {}, {}, nullptr,
                                       bundle::sinkBound(kernel.terms, n));
    int64_t pairs = 0;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        pairs += holds(i, j);
    const Kept kept = keptOf(kernel, Manifest(), n);
    EXPECT_EQ(kept.pairs, pairs) << bundle::words(kernel.terms, Manifest());
    EXPECT_TRUE(kept.exact);
  }
}

TEST(Explain, PairsOfColumns) {
  Manifest manifest = testManifest();
  const Kernel &columns = manifest.kernels[1];
  EXPECT_EQ(keptOf(columns, manifest, 100).pairs, 100 * 20);
  EXPECT_TRUE(keptOf(columns, manifest, 100).exact);
  Kernel both = columns;
  both.terms.push_back({Term::Kind::Sinks, 4, -1});
  EXPECT_EQ(keptOf(both, manifest, 100).pairs, 100 * 24);
  EXPECT_FALSE(keptOf(both, manifest, 100).exact)
      << "a sink may be among the columns";
  EXPECT_EQ(keptOf(both, manifest, 4).pairs, 16) << "never above dense";
  // At most the 20 keys of a row, and at most those of the window or of the
  // sinks: 9 in the middle, and 4.
  Kernel near = columns;
  near.terms[0].within = {{Term::Kind::Window, 8, -1}};
  EXPECT_EQ(keptOf(near, manifest, 100).pairs, bruteForce(100, 8, 0));
  EXPECT_FALSE(keptOf(near, manifest, 100).exact)
      << "which columns are near decides";
  near.terms.push_back(near.terms[0]);
  near.terms[1].within = {{Term::Kind::Sinks, 4, -1}};
  EXPECT_EQ(keptOf(near, manifest, 100).pairs, bruteForce(100, 8, 4));
}

/// Whole blocks are counted exactly, and those of each span where prompt and
/// response are told apart.
TEST(Explain, PairsOfBlocks) {
  Manifest manifest = testManifest();
  Selection &blocks = manifest.selections[0];
  blocks.kind = Selection::Kind::Blocks;
  blocks.group = 16;
  blocks.keep = {1, 2};
  Kernel kernel;
  kernel.terms = {{Term::Kind::Blocks, 0, 0}};
  auto kept = [&](int64_t length, int64_t prompt) {
    return keptPairs(kernel, manifest, {.length = length, .prompt = prompt});
  };
  EXPECT_EQ(kept(64, 0).pairs, 64 * 32);
  EXPECT_TRUE(kept(64, 0).exact);
  EXPECT_FALSE(kept(60, 0).exact) << "the last block may be chosen or not";
  blocks.isolation = Selection::Isolation::Spans;
  EXPECT_EQ(kept(96, 32).pairs, 96 * (16 + 32));
  EXPECT_TRUE(kept(96, 32).exact);
  EXPECT_FALSE(kept(96, 40).exact);
}

/// Some rows, some of the positions visible.
TEST(Explain, PairsOfSomeRows) {
  Manifest manifest = testManifest();
  Kernel kernel;
  kernel.terms = {{Term::Kind::Window, 4, -1}};
  const std::vector<int32_t> visible = {0, 1, 4, 5, 6, 9}, rows = {1, 5, 9};
  const Kept kept = keptPairs(kernel, manifest,
                              {.length = 10, .visible = visible, .rows = rows});
  EXPECT_EQ(kept.pairs, 2 + 3 + 1);
  EXPECT_TRUE(kept.exact);
  EXPECT_FALSE(kept.even);
  EXPECT_EQ(keptPairs(manifest.kernels[1], manifest,
                      {.length = 10, .visible = visible, .rows = rows})
                .pairs,
            3 * 1)
      << "a fifth of six keys";
}

TEST(Explain, CountsListsInTheEncodingInForce) {
  Manifest manifest = testCudaManifest();
  auto lists = [&](int64_t length) {
    Result<Explanation> result =
        explainRun(manifest, requestOf(128, length, 4, 2));
    EXPECT_TRUE(result) << result.error().text();
    return result->selections[0].lists;
  };
  // 20 of 100 keys: 80 bytes on the host, 40 rounded up to 48 on the GPU.
  EXPECT_EQ(lists(100)[0].bytesPerLayer, 2 * 4 * 80);
  EXPECT_EQ(lists(100)[1].encoding, Encoding::Uint16);
  EXPECT_EQ(lists(100)[1].bytesPerLayer, 2 * 4 * 48);
  EXPECT_EQ(lists(100)[1].bytes, 2 * 2 * 4 * 48);
  EXPECT_EQ(lists(70000)[1].encoding, Encoding::Int32);
  manifest.targets[1].encodings = {Encoding::Bitmap};
  EXPECT_EQ(lists(100)[1].bytesPerLayer, 2 * 4 * 16);
  Result<Explanation> result = explainRun(manifest, requestOf(128, 100, 4, 2));
  std::string text = toText(*result, /*kernels=*/true);
  for (const char *line :
       {"index lists on x86-64-v3 (int32): 640 B a layer, 1.28 kB in 2 layers",
        "index lists on sm_90a (bitmap): 128 B a layer, 256 B in 2 layers",
        "kernels for x86_64-unknown-linux-gnu, x86-64-v3; sm_90a\n",
        "    x86-64-v3 f32 head dim 64: 32 rows a task, scratch",
        "    sm_90a bf16 head dim 64 uint16: 32 rows a block, 128 threads, "
        "shared memory 65.5 kB, scratch",
        "row kernels\n  embed\n    sm_90a bf16: 256 threads, shared memory 0 "
        "B, "
        "row_embed_bf16\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  auto json = nlohmann::json::parse(toJson(*result));
  EXPECT_EQ(json["selections"][0]["lists"][1]["encoding"], "bitmap");
  EXPECT_EQ(json["selections"][0]["lists"][1]["bytes"], 256);

  manifest.targets[1].encodings = {Encoding::Uint16};
  result = explainRun(manifest, requestOf(128, 70000, 4, 2));
  EXPECT_NE(toText(*result).find("index lists on sm_90a: cannot run, no "
                                 "encoding of this bundle holds 70000 keys"),
            std::string::npos);
  json = nlohmann::json::parse(toJson(*result));
  EXPECT_TRUE(json["selections"][0]["lists"][1]["encoding"].is_null());
}

TEST(Explain, AddsUpARun) {
  ExplainRequest request = requestOf(128, 100, 4, 2);
  Result<Explanation> result = explainRun(testManifest(), request);
  ASSERT_TRUE(result) << result.error().text();
  ASSERT_EQ(result->rules.size(), 2u);
  EXPECT_EQ(result->rules[0].layers, (std::vector<int64_t>{0, 1}));
  const std::vector<PhaseExplanation> &phases = result->rules[0].phases;
  EXPECT_EQ(runLengths(phases[0].steps),
            "1,3,5,8,10,13,15,18,20,23,25,28,30,33,35,38");
  EXPECT_TRUE(phases[1].steps.empty());
  EXPECT_EQ(phases[2].steps.size(), 112u);
  EXPECT_TRUE(phases[2].unfilled.empty());
  ASSERT_EQ(phases[0].refreshes.size(), 1u);
  EXPECT_EQ(phases[0].refreshes[0].selection, "cols");
  EXPECT_EQ(phases[0].refreshes[0].steps, phases[0].steps);
  EXPECT_EQ(result->selections[0].keys, 20);
  EXPECT_EQ(result->selections[0].groups, 4);
  EXPECT_EQ(result->selections[0].refreshed, (std::vector<int64_t>{0, 1}));
  EXPECT_TRUE(result->selections[0].readers.empty());
  ASSERT_EQ(result->selections[0].lists.size(), 1u);
  EXPECT_EQ(result->selections[0].lists[0].encoding, Encoding::Int32);
  EXPECT_EQ(result->selections[0].lists[0].bytesPerLayer, 2 * 4 * 20 * 4);
  EXPECT_EQ(result->selections[0].lists[0].bytes, 2 * 2 * 4 * 20 * 4);
  double band = static_cast<double>(bruteForce(100, 64, 4));
  EXPECT_NEAR(result->share,
              (2 * (16 * 1e4 + 112 * 2e3) + 2 * 128 * band) / (4 * 128 * 1e4),
              1e-12);
  EXPECT_NEAR(result->scoreShare, 2. * 16 / (4 * 128), 1e-12);

  std::string text = toText(*result);
  EXPECT_NE(text.find("112 steps: columns(cols), 20.0% of the pairs"),
            std::string::npos)
      << text;
  auto json = nlohmann::json::parse(toJson(*result));
  EXPECT_EQ(json["rules"][0]["phases"][0]["steps"].size(), 16u);
}

/// What an H100 takes longer for is reading weights, where rows are few.
TEST(Explain, MachinesByName) {
  Result<Machine> slow = machineNamed("h100"), fast = machineNamed("h200");
  ASSERT_TRUE(slow && fast);
  auto products = [](const Machine &machine, int64_t rows) {
    LayerStep step;
    step.rows = step.attended = rows;
    step.work.queryRows = step.work.ffnRows = rows;
    return secondsOfLayer(machine, ModelShape(), step).sum();
  };
  EXPECT_GT(products(*slow, 16), 1.2 * products(*fast, 16));
  EXPECT_LT(products(*slow, 16384), 1.1 * products(*fast, 16384));
  Result<Machine> none = machineNamed("abacus");
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().text().find("expected one of h200, h100, cpu"),
            std::string::npos);
}

/// Few rows wait for tiles of keys, one after the other; a block of a list is a
/// tile of its own.
TEST(Explain, FewRowsTakeATimeByTiles) {
  Result<Machine> machine = machineNamed("h200");
  ASSERT_TRUE(machine);
  auto attention = [&](LayerStep::Pattern pattern, int64_t group, int64_t rows,
                       int64_t keys) {
    LayerStep step;
    step.pattern = pattern;
    step.group = group;
    step.rows = step.attended = rows;
    step.visible = keys;
    step.work.pairs = ModelShape().heads * rows * keys;
    return secondsOfLayer(*machine, ModelShape(), step)
        .parts[static_cast<size_t>(Part::Attention)];
  };
  using Pattern = LayerStep::Pattern;
  const double dense = attention(Pattern::Dense, 0, 32, 4096);
  EXPECT_DOUBLE_EQ(dense, 64 * machine->tileSeconds);
  EXPECT_DOUBLE_EQ(attention(Pattern::Blocks, 128, 32, 4096), dense);
  EXPECT_DOUBLE_EQ(attention(Pattern::Blocks, 32, 32, 4096), 2 * dense);
  EXPECT_DOUBLE_EQ(attention(Pattern::Dense, 0, 64, 4096), dense);
  EXPECT_DOUBLE_EQ(attention(Pattern::Dense, 0, 65, 4096), 3 * dense);
}

TEST(Explain, SaysWhenColumnsAreReadBeforeTheyAreFilled) {
  Manifest manifest = testManifest();
  Cadence at;
  at.kind = Cadence::Kind::At;
  at.step = 4;
  // The phase runs at step 4 only, the selection is due at steps 1 and 2.
  manifest.rules[0].phases[0].when.cadence = at;
  Result<Explanation> result = explainRun(manifest, requestOf(8, 100, 4, 2));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->rules[0].phases[0].steps, std::vector<int64_t>{4});
  EXPECT_TRUE(result->rules[0].phases[0].refreshes[0].steps.empty());
  EXPECT_EQ(result->rules[0].phases[2].unfilled,
            (std::vector<int64_t>{1, 2, 3, 5, 6, 7, 8}));
  EXPECT_NE(toText(*result).find("cannot run"), std::string::npos);
}

TEST(Explain, LayersReadWhatOneBeforeHasChosen) {
  Manifest manifest = testManifest();
  Rule &others = manifest.rules[0], &first = manifest.rules[1];
  first.phases = others.phases;
  first.firstLayer = first.lastLayer = 0;
  others.phases = {others.phases.back()};
  Result<Explanation> result = explainRun(manifest, requestOf(128, 100, 4, 2));
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_EQ(result->rules[0].layers, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_TRUE(result->rules[0].phases[0].unfilled.empty());
  EXPECT_EQ(result->selections[0].refreshed, (std::vector<int64_t>{0}));
  EXPECT_EQ(result->selections[0].readers, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(result->selections[0].lists[0].bytes,
            result->selections[0].lists[0].bytesPerLayer);
  EXPECT_NEAR(result->share,
              (16 * 1e4 + (4 * 128 - 16) * 2e3) / (4 * 128 * 1e4), 1e-12);
  EXPECT_NEAR(result->scoreShare, 16. / (4 * 128), 1e-12);

  // Layer 0 first refreshes at step 3.
  Cadence third;
  third.kind = Cadence::Kind::At;
  third.step = 3;
  manifest.selections[0].cadence = first.phases[0].when.cadence = third;
  result = explainRun(manifest, requestOf(8, 100, 4, 2));
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_EQ(result->rules[0].phases[0].unfilled, (std::vector<int64_t>{1, 2}));
}

TEST(Explain, RefusesWhatItCannotCount) {
  Manifest manifest = testManifest();
  EXPECT_FALSE(explainRun(manifest, requestOf(0, 100, 4, 2)));
  EXPECT_FALSE(explainRun(manifest, requestOf(8, int64_t{1} << 31, 4, 2)));
  EXPECT_FALSE(explainRun(manifest, requestOf(8, 100, -1, 2)));
  EXPECT_FALSE(explainRun(manifest, requestOf(8, 100, 4, 1 << 20)));
  EXPECT_FALSE(explainRun(manifest, requestOf(8, 100, 1, 2)));
}

} // namespace
