//===- RunTest.cpp - Runs on the GPU's engine are the host's --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/test/engine/RunFixture.h"

#include <map>
#include <set>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;
using namespace heddle::rt::cuda::test;
using rt::test::TinyShape;

namespace {

bundle::Cadence cadence(bundle::Cadence::Kind kind, int64_t number,
                        bool inBlock = false) {
  bundle::Cadence result;
  result.kind = kind;
  result.period = result.count = number;
  result.inBlock = inBlock;
  return result;
}

/// Every fourth step all rows, else those whose context changed, in the
/// response.
bundle::Manifest
salient(bundle::Manifest manifest, bundle::Reuse::Attention attention,
        bundle::Pass::Exact exact = bundle::Pass::Exact::Salient) {
  manifest.positions = {positions(bundle::Positions::Kind::Response)};
  bundle::Pass some;
  some.rows = 0;
  some.exact = exact;
  some.below = {999, 1000};
  manifest.passes = {passOn(cadence(bundle::Cadence::Kind::Every, 4)), some};
  manifest.reuse = {true, attention, true};
  return manifest;
}

TEST_F(RunTest, DenseOfOneSequence) {
  makeModel(tiny);
  compare(gpuManifest(), promptsOf({5}), lengthsOf(8, 8, 8));
}

TEST_F(RunTest, BatchesOfUnequalLengthsInBlocks) {
  makeModel(tiny);
  compare(gpuManifest(), promptsOf({1, 17, 6}), lengthsOf(24, 8, 9));
}

TEST_F(RunTest, MoreStepsThanTokens) {
  makeModel(tiny);
  compare(gpuManifest(), promptsOf({4, 9}), lengthsOf(4, 2, 10));
}

TEST_F(RunTest, GroupedKeysAndTiedEmbeddings) {
  makeModel({.layers = 3,
             .hidden = 256,
             .queryHeads = 4,
             .kvHeads = 2,
             .mlpHidden = 96,
             .vocab = 123,
             .tied = true});
  compare(gpuManifest(), promptsOf({3, 20}), lengthsOf(12, 6, 4));
}

// One select kernel, two selections: twice its argument blocks.
TEST_F(RunTest, TwoSelectionsByOneKernel) {
  makeModel({.layers = 3, .mlpHidden = 40, .vocab = 61});
  bundle::Manifest manifest = gpuManifest();
  setRule(manifest, "two_columns", {0, 1});
  compare(manifest, promptsOf({7, 30, 2, 11}), lengthsOf(16, 8, 10));
}

TEST_F(RunTest, Guidance) {
  makeModel(tiny);
  bundle::Manifest manifest = gpuManifest();
  setRule(manifest, "columns", {0});
  GenerateOptions options = lengthsOf(16, 8, 8);
  options.sampling.cfgScale = 1.5;
  compare(manifest, promptsOf({7, 20}), options);
}

TEST_F(RunTest, NoiseAndRandomRemasking) {
  makeModel(tiny);
  GenerateOptions options = lengthsOf(16, 8, 8);
  options.sampling.temperature = 0.7;
  options.sampling.remasking = Remasking::Random;
  options.sampling.seed = 123456789012345;
  compare(gpuManifest(), promptsOf({7, 20}), options);
}

TEST_F(RunTest, BarredEndTokens) {
  makeModel({.mlpHidden = 40, .vocab = 9});
  GenerateOptions options = lengthsOf(8, 4, 8);
  options.sampling.logitsEosInf = true;
  options.sampling.confidenceEosEotInf = true;
  options.sampling.eosToken = 0;
  options.sampling.eotToken = 3;
  compare(gpuManifest(), promptsOf({7, 20}), options);
}

// A model that draws the mask token leaves masks behind, which compete in later
// blocks; with few entries it does so often.
TEST_F(RunTest, MasksLeftBehind) {
  for (unsigned seed = 1; seed <= 2; ++seed) {
    SCOPED_TRACE(seed);
    makeModel({.layers = 1, .mlpHidden = 40, .vocab = 4}, seed);
    compare(gpuManifest(), promptsOf({3, 11, 6}), lengthsOf(24, 6, 12));
  }
}

TEST_F(RunTest, AProductsAlgorithmThatIsTimedOverwritesNothingInUse) {
  makeModel(tiny);
  start(gpuManifest());
  Prompts prompts = promptsOf({7, 20});
  Trace first = record(*engine, prompts, lengthsOf(16, 8, 8));
  start(gpuManifest(), DType::F32, {.proposals = 8});
  Trace other = record(*engine, prompts, lengthsOf(16, 8, 8));
  EXPECT_EQ(other.generation.sequences, first.generation.sequences);
}

TEST_F(RunTest, HalfTypesRunToTheEnd) {
  makeModel(tiny);
  for (DType dtype : {DType::BF16, DType::F16}) {
    SCOPED_TRACE(name(dtype));
    bundle::Manifest manifest = gpuManifest();
    setRule(manifest, "columns", {0});
    start(manifest, dtype);
    startHostDriven(salient(denseManifest(), bundle::Reuse::Attention::Context),
                    dtype);
    for (StepEngine *each : {static_cast<StepEngine *>(engine.get()),
                             static_cast<StepEngine *>(hostDriven.get())}) {
      Trace run = record(*each, promptsOf({7, 20}), lengthsOf(16, 8, 8));
      ASSERT_EQ(run.steps.size(), 8u);
      for (const std::vector<int32_t> &sequence : run.generation.sequences)
        for (int32_t token : sequence)
          EXPECT_TRUE(token >= 0 && token < config.vocabSize);
    }
  }
}

// Another run on the same engine starts afresh, also after one that was ended.
TEST_F(RunTest, RunsFollowEachOther) {
  makeModel(tiny);
  bundle::Manifest manifest = gpuManifest();
  setRule(manifest, "columns", {0});
  start(manifest);
  Prompts prompts = promptsOf({7, 20});
  Trace first = record(*engine, prompts, lengthsOf(16, 8, 8));
  Result<Generation> ended =
      generate(*engine, promptsOf({30}), lengthsOf(8, 8, 8),
               [](const StepRecord &step) { return step.step < 3; });
  ASSERT_OK(ended);
  EXPECT_FALSE(ended->complete);
  EXPECT_EQ(ended->stepsDone, 3);
  // What was generated is kept: three tokens.
  const std::vector<int32_t> &kept = ended->sequences.front();
  EXPECT_EQ(std::count(kept.begin(), kept.end(), config.maskToken), 5);
  Trace again = record(*engine, prompts, lengthsOf(16, 8, 8));
  EXPECT_EQ(again.generation.sequences, first.generation.sequences);
}

//===----------------------------------------------------------------------===//
// Steps that are decided as they come
//===----------------------------------------------------------------------===//

TEST_F(RunTest, HostDrivenSalientRows) {
  makeModel({.layers = 3, .mlpHidden = 40, .vocab = 61});
  for (bundle::Reuse::Attention attention :
       {bundle::Reuse::Attention::Propagated,
        bundle::Reuse::Attention::Context})
    compareHostDriven(salient(denseManifest(), attention),
                      promptsOf({5, 20, 9}), lengthsOf(16, 8, 10));
}

TEST_F(RunTest, HostDrivenSalientRowsOfTheFfnAlone) {
  makeModel({.layers = 3, .mlpHidden = 40, .vocab = 61});
  compareHostDriven(salient(denseManifest(), bundle::Reuse::Attention::Context,
                            bundle::Pass::Exact::SalientFfn),
                    promptsOf({5, 20, 9}), lengthsOf(16, 8, 10));
}

TEST_F(RunTest, HostDrivenSalientRowsOverColumns) {
  makeModel({.layers = 3, .mlpHidden = 40, .vocab = 61});
  bundle::Manifest manifest =
      salient(gpuManifest(), bundle::Reuse::Attention::Propagated);
  setRule(manifest, "columns", {0});
  compareHostDriven(manifest, promptsOf({5, 40, 9}), lengthsOf(16, 8, 10));
}

TEST_F(RunTest, HostDrivenSalientRowsOverUnions) {
  makeModel({.layers = 3, .mlpHidden = 40, .vocab = 61});
  bundle::Manifest manifest =
      salient(gpuManifest({.encodings = {bundle::Encoding::Bitmap}}),
              bundle::Reuse::Attention::Propagated);
  setRule(manifest, "union", {2});
  compareHostDriven(manifest, promptsOf({5, 40, 9}), lengthsOf(16, 8, 10));
}

TEST_F(RunTest, HostDrivenLeastSimilarRows) {
  makeModel({.layers = 3, .mlpHidden = 40, .vocab = 61});
  bundle::Manifest manifest = denseManifest();
  manifest.positions = {positions(bundle::Positions::Kind::Response)};
  bundle::Pass some;
  some.rows = some.among = 0;
  some.exact = bundle::Pass::Exact::LeastSimilar;
  some.keep = {1, 4};
  manifest.passes = {passOn(cadence(bundle::Cadence::Kind::Every, 5)), some};
  manifest.reuse = {true, bundle::Reuse::Attention::Output, true};
  compareHostDriven(manifest, promptsOf({5, 20, 9}), lengthsOf(16, 8, 10));
}

/// The response in layers 0 and 1, in later ones what is masked of it: the
/// others end, or go on with what is kept of them and come again in the last
/// layer.
TEST_F(RunTest, HostDrivenRowsOfSomeLayers) {
  makeModel({.layers = 4, .mlpHidden = 40, .vocab = 61});
  using Kind = bundle::Positions::Kind;
  using Attention = bundle::Reuse::Attention;
  bundle::Manifest manifest = denseManifest();
  manifest.positions = {positions(Kind::Response), positions(Kind::Undecoded),
                        positions(Kind::Intersect)};
  manifest.positions[2].of = {0, 1};
  bundle::Pass outer, some;
  outer.rows = 0;
  outer.layers = {{0, 1}};
  some.rows = 2;
  manifest.passes = {passOn(cadence(bundle::Cadence::Kind::Every, 5)), outer,
                     some};
  manifest.reuse.kv = true;
  compareHostDriven(manifest, promptsOf({5, 20, 9}), lengthsOf(16, 8, 10));
  manifest.passes[1].layers.push_back({-1, -1});
  for (Attention attention :
       {Attention::Output, Attention::Context, Attention::Propagated}) {
    manifest.reuse = {true, attention, true};
    compareHostDriven(manifest, promptsOf({5, 20, 9}), lengthsOf(16, 8, 10));
  }
  // Memory for the layer between alone.
  manifest.layeredReuses = {{{{0, 1}, {-1, -1}}, {.kv = true}}};
  compareHostDriven(manifest, promptsOf({5, 20, 9}), lengthsOf(16, 8, 10));
}

/// In layers 1 and 2 those rows end whose V changed least.
TEST_F(RunTest, HostDrivenRowsThatEndByChoice) {
  using Kind = bundle::Positions::Kind;
  bundle::Manifest manifest = denseManifest();
  manifest.positions = {positions(Kind::Response),
                        positions(Kind::Undecoded, 1), positions(Kind::Except)};
  manifest.positions[2].of = {0, 1};
  bundle::Pass some, rest;
  some.rows = rest.rows = 0;
  some.exact = bundle::Pass::Exact::LeastSimilar;
  some.keep = {1, 2};
  some.among = 2;
  some.layers = {{1, 2}};
  manifest.passes = {passOn(cadence(bundle::Cadence::Kind::Every, 5)), some,
                     rest};
  manifest.reuse.kv = true;
  makeModel({.layers = 4, .mlpHidden = 40, .vocab = 61});
  compareHostDriven(manifest, promptsOf({5, 20, 9}), lengthsOf(16, 8, 10));
  GenerateOptions guided = lengthsOf(16, 8, 8);
  guided.sampling.cfgScale = 1.5;
  compareHostDriven(manifest, promptsOf({7, 20}), guided);
  makeDream(4);
  compareHostDriven(manifest, promptsOf({5, 20}), lengthsOf(16, 16, 8));
}

// A block's first step keeps attention over the keys outside of the block, or
// of what is masked in it; at the others the block's rows attend to those
// inside.
TEST_F(RunTest, HostDrivenAttentionOutsideIsKept) {
  for (const rt::test::TinyShape &shape : {tiny, grouped}) {
    makeModel(shape);
    bundle::Manifest manifest = denseManifest();
    manifest.kernels[0].writesLse = true;
    bundle::Positions hull = positions(bundle::Positions::Kind::Hull);
    hull.of = {1};
    manifest.positions = {positions(bundle::Positions::Kind::Block),
                          positions(bundle::Positions::Kind::Undecoded, 3),
                          hull};
    bundle::Pass some;
    some.rows = 0;
    const bundle::Cadence start =
        cadence(bundle::Cadence::Kind::First, 1, true);
    manifest.passes = {passOn(start), some};
    manifest.reuse.kv = true;
    manifest.reuse.attention = bundle::Reuse::Attention::Outside;
    manifest.reuse.cadence = start;
    for (int64_t inside : {0, 2}) {
      manifest.reuse.inside = inside;
      compareHostDriven(manifest, promptsOf({5, 20, 9}), lengthsOf(16, 8, 8));
    }
    // Some of the block's rows refresh it: those of a set, or that changed
    // most.
    manifest.positions.push_back(
        positions(bundle::Positions::Kind::Undecoded, 4));
    for (const auto &[refreshed, keep] :
         std::map<int64_t, bundle::Ratio>{{0, {1, 2}}, {3, {1, 1}}}) {
      manifest.reuse.refreshed = refreshed;
      manifest.reuse.keep = keep;
      compareHostDriven(manifest, promptsOf({5, 20, 9}), lengthsOf(16, 8, 8));
    }
  }
}

/// The block alone after its first step; what is above a confidence becomes
/// tokens.
bundle::Manifest cachedBlocks(bundle::Ratio above) {
  bundle::Manifest manifest = denseManifest();
  manifest.positions = {positions(bundle::Positions::Kind::Block)};
  bundle::Pass some;
  some.rows = 0;
  manifest.passes = {passOn(cadence(bundle::Cadence::Kind::First, 1, true)),
                     some};
  manifest.reuse.kv = true;
  manifest.commit.kind = bundle::CommitRule::Kind::Above;
  manifest.commit.ratio = above;
  return manifest;
}

TEST_F(RunTest, HostDrivenBlocksCommittedByConfidence) {
  makeModel(grouped);
  bundle::Manifest manifest = cachedBlocks({1, 20});
  for (int64_t below : {0, 1}) {
    manifest.commit.revokeBelow = {below, 1};
    compareHostDriven(manifest, promptsOf({5, 20, 9}), lengthsOf(16, 8, 16));
  }
}

TEST_F(RunTest, HostDrivenDraftsAreVerified) {
  for (bool dream : {false, true}) {
    dream ? makeDream(2) : makeModel(grouped);
    // Dense, or by lists that some steps make.
    bundle::Manifest manifest = dream ? denseManifest() : gpuManifest();
    const Prompts prompts = promptsOf({5, 20, 9});
    GenerateOptions options = lengthsOf(16, dream ? 16 : 8, 16);
    if (dream) {
      options.sampling.timesteps.emplace();
      options.sampling.timesteps->rule = TransferRule::MaskgitPlus;
    }
    const Trace expected = onHost(manifest, prompts, options);
    manifest.commit.drafts = 3;
    compareHostDriven(manifest, prompts, options);
    const Trace found = onHost(manifest, prompts, options);
    EXPECT_EQ(found.generation.sequences, expected.generation.sequences);
    EXPECT_LT(found.steps.size(), expected.steps.size());
  }
}

TEST_F(RunTest, HostDrivenBlocksCommittedByEntropy) {
  makeModel(grouped);
  bundle::Manifest manifest = cachedBlocks({6, 1});
  manifest.commit.kind = bundle::CommitRule::Kind::Entropy;
  compareHostDriven(manifest, promptsOf({5, 20, 9}), lengthsOf(16, 8, 16));
}

/// Where nothing is revoked no logits are copied: the draw kernel knows the
/// most probable token and its probability.
TEST_F(RunTest, HostDrivenBlocksWhoseTokensAreEdited) {
  makeModel(grouped);
  bundle::Manifest manifest = cachedBlocks({1, 20});
  for (int64_t further : {0, 4})
    for (int64_t below : {0, 1}) {
      manifest.commit.furtherPasses = further;
      manifest.commit.revokeBelow = {below, 1};
      // What is edited is not revoked.
      manifest.commit.editAbove = {1, below ? 14 : 1000};
      compareHostDriven(manifest, promptsOf({5, 20, 9}), lengthsOf(16, 8, 16));
    }
}

TEST_F(RunTest, HostDrivenSequencesTakeTheFormOfTheirOwnRows) {
  rt::test::TinyShape apart = grouped;
  apart.kvHeads = apart.queryHeads;
  for (const auto &[model, packs] :
       {std::pair(apart, false), {grouped, true}}) {
    makeModel(model);
    // Blocks end by confidence, so that steps have sequences of both kinds.
    bundle::Manifest manifest = cachedBlocks({1, 14});
    startHostDriven(manifest);
    ASSERT_FALSE(HasFatalFailure());
    std::map<bundle::LaunchForm, int64_t> taken;
    for (const bundle::KernelVariant &variant : manifest.kernels[0].variants) {
      auto &code = fakeDriver().kernels[variant.symbol];
      code = [code, &taken, packs, &variant](const FakeDriver::Launch &launch) {
        const auto *blocks =
            launch.parameter<const heddle::abi::AttentionArgs *>(0);
        for (int64_t z = 0; z < launch.grid[2]; ++z)
          if (const auto &args = blocks[z]; args.rows > 0) {
            ++taken[variant.form];
            EXPECT_EQ(args.rows == args.n,
                      variant.form == bundle::LaunchForm::All);
            if (!packs && args.rows < args.n)
              EXPECT_EQ(args.n >= BundleShape().leastKeys,
                        variant.form == bundle::LaunchForm::Long);
          }
        code(launch);
      };
    }
    compare(*hostDriven, manifest, promptsOf({5, 20, 9}), lengthsOf(16, 8, 16));
    EXPECT_GT(taken[bundle::LaunchForm::All], 0);
    EXPECT_EQ(taken[bundle::LaunchForm::Any] > 0, !packs); // tiny ones pack
    EXPECT_EQ(taken[bundle::LaunchForm::Long] > 0, !packs);
    EXPECT_EQ(taken[bundle::LaunchForm::Packed] > 0, packs);
  }
}

TEST_F(RunTest, HostDrivenWindowOfVisiblePositions) {
  makeModel(tiny);
  bundle::Manifest manifest = denseManifest();
  bundle::Cadence phase = cadence(bundle::Cadence::Kind::Every, 3);
  bundle::Positions seen = positions(bundle::Positions::Kind::Union);
  seen.of = {0, 1};
  bundle::Positions fixed = positions(bundle::Positions::Kind::Fixed);
  fixed.of = {2};
  fixed.cadence = phase;
  manifest.positions = {positions(bundle::Positions::Kind::Decoded),
                        positions(bundle::Positions::Kind::Undecoded, 6), seen,
                        fixed,
                        positions(bundle::Positions::Kind::Undecoded, 4)};
  manifest.visible = 3;
  bundle::Pass some;
  some.rows = 4;
  manifest.passes = {passOn(phase), some};
  manifest.reuse.kv = true;
  manifest.commit.within = 4;
  compareHostDriven(manifest, promptsOf({5, 20, 9}), lengthsOf(16, 16, 12));
  // Rows that are no keys: of two visible masks the first four.
  manifest.positions[1].count = 2;
  manifest.passes[1].unseen = true;
  const Trace unseen =
      onHost(manifest, promptsOf({5, 20, 9}), lengthsOf(16, 16, 12));
  EXPECT_EQ(unseen.steps[1].counters.activeRows, 3 * 4);
  compareHostDriven(manifest, promptsOf({5, 20, 9}), lengthsOf(16, 16, 12));
  // More rows than keys.
  manifest.positions[0] = positions(bundle::Positions::Kind::Prompt);
  manifest.positions[4].count = 14;
  compareHostDriven(manifest, promptsOf({5, 20, 9}), lengthsOf(16, 16, 12));
}

/// A union of sets that stand before.
static bundle::Positions unionOf(std::vector<int64_t> of) {
  bundle::Positions set = positions(bundle::Positions::Kind::Union);
  set.of = std::move(of);
  return set;
}

static bundle::Positions fixedOn(int64_t of, int64_t period, int64_t from = 1) {
  bundle::Positions set = positions(bundle::Positions::Kind::Fixed);
  set.of = {of};
  set.cadence = cadence(bundle::Cadence::Kind::Every, period);
  set.cadence.from = from;
  return set;
}

// What stays visible, and kept, moves to other places, in each sequence.
TEST_F(RunTest, HostDrivenRowsThatMove) {
  makeModel(tiny);
  using Kind = bundle::Positions::Kind;
  bundle::Manifest manifest = denseManifest();
  // All every third step; from the next one on decoded and six more.
  manifest.positions = {positions(Kind::Decoded), positions(Kind::Undecoded, 6),
                        unionOf({0, 1}), fixedOn(2, 3, 2),
                        positions(Kind::Undecoded, 4)};
  manifest.visible = 3;
  manifest.allVisible = cadence(bundle::Cadence::Kind::Every, 3);
  bundle::Pass some;
  some.rows = 4;
  manifest.passes = {passOn(manifest.allVisible), some};
  manifest.reuse.kv = true;
  // Sequences are at different steps of their runs: the last ones end early.
  manifest.commit.kind = bundle::CommitRule::Kind::Above;
  manifest.commit.ratio = {1, 20};
  compareHostDriven(manifest, promptsOf({5, 20, 9}), lengthsOf(16, 16, 12));

  // As many first positions as are decoded, and two; and the rows of each step,
  // from the first masked position of the phase to the eighth.
  bundle::Positions hull = positions(Kind::Hull),
                    leading = positions(Kind::Leading);
  hull.of = {8};
  leading.of = {3};
  manifest.positions = {positions(Kind::Decoded),      // 0
                        positions(Kind::Undecoded, 2), // 1
                        positions(Kind::Undecoded, 1), // 2
                        unionOf({0, 1}),               // 3
                        leading,                       // 4
                        fixedOn(4, 3),                 // 5
                        fixedOn(2, 3),                 // 6
                        positions(Kind::Undecoded, 8), // 7
                        unionOf({6, 7}),               // 8
                        hull,                          // 9
                        unionOf({5, 9})};
  manifest.visible = 10;
  manifest.allVisible = {};
  manifest.passes.back().rows = 9;
  compareHostDriven(manifest, promptsOf({5, 20, 9}), lengthsOf(16, 16, 12));
}

TEST_F(RunTest, HostDrivenDrawnOrder) {
  bundle::Manifest manifest = denseManifest();
  bundle::Positions near = positions(bundle::Positions::Kind::Neighbors, 2);
  near.of = {0, 1};
  bundle::Positions rows = positions(bundle::Positions::Kind::Union);
  rows.of = {0, 2, 3};
  manifest.positions = {positions(bundle::Positions::Kind::Next),
                        positions(bundle::Positions::Kind::Undecoded), near,
                        positions(bundle::Positions::Kind::Committed, 1), rows};
  bundle::Pass some;
  some.rows = 4;
  manifest.passes = {passOn(cadence(bundle::Cadence::Kind::Every, 4, true)),
                     some};
  manifest.reuse.kv = true;
  manifest.commit.kind = bundle::CommitRule::Kind::RandomOrder;
  makeModel(tiny);
  GenerateOptions options = lengthsOf(16, 8, 8);
  options.sampling.seed = 5;
  compareHostDriven(manifest, promptsOf({5, 20, 9}), options);
  // Steps that commit nothing may compute no row.
  compareHostDriven(manifest, promptsOf({5, 20}), lengthsOf(4, 4, 12));
  ASSERT_FALSE(CudaEngine::supports(manifest, config));
  // Without passes, too: the captured engine commits by confidence.
  manifest.positions.clear();
  manifest.passes.clear();
  manifest.reuse = {};
  ASSERT_FALSE(CudaEngine::supports(manifest, config));
}

TEST_F(RunTest, HostDrivenShiftedLogitsAndBiases) {
  makeDream(2);
  ASSERT_TRUE(config.shiftedLogits && config.qkvBias);
  compareHostDriven(denseManifest(), promptsOf({5, 20, 9}),
                    lengthsOf(16, 16, 8));
  compareHostDriven(
      salient(denseManifest(), bundle::Reuse::Attention::Propagated),
      promptsOf({5, 20}), lengthsOf(16, 16, 8));
}

// What is not the most probable token alone is drawn on the host.
TEST_F(RunTest, HostDrivenGuidanceAndNoise) {
  makeModel(tiny);
  bundle::Manifest manifest =
      salient(denseManifest(), bundle::Reuse::Attention::Propagated);
  GenerateOptions options = lengthsOf(16, 8, 8);
  options.sampling.cfgScale = 1.5;
  compareHostDriven(manifest, promptsOf({7, 20}), options);
  options.sampling.cfgScale = 0;
  options.sampling.temperature = 0.7;
  options.sampling.seed = 42;
  compareHostDriven(manifest, promptsOf({7, 20}), options);
}

TEST_F(RunTest, HostDrivenWholeRows) {
  makeModel(tiny);
  bundle::Manifest manifest = gpuManifest();
  setRule(manifest, "columns", {0});
  compareHostDriven(manifest, promptsOf({7, 30}), lengthsOf(16, 8, 10));
}

// Queries, keys and lists are brought from the device for them.
TEST_F(RunTest, HostDrivenMapsAreThoseOfTheHost) {
  makeModel(tiny);
  for (bool cached : {false, true}) {
    bundle::Manifest manifest = gpuManifest();
    setRule(manifest, "columns", {0});
    if (cached)
      manifest =
          salient(std::move(manifest), bundle::Reuse::Attention::Context);
    Prompts prompts = promptsOf({20, 7});
    GenerateOptions options = lengthsOf(16, 8, 16);
    options.trace = true;
    options.maps = {.cells = 9, .rowsPerCell = 3};
    options.mapEvery = 2;
    auto mapsOf = [&](StepEngine &on) {
      std::vector<AttentionMap> maps;
      EXPECT_OK(generate(on, prompts, options, [&](const StepRecord &step) {
        EXPECT_EQ(step.maps.empty(), step.step % 2 == 0);
        maps.insert(maps.end(), step.maps.begin(), step.maps.end());
        return true;
      }));
      return maps;
    };
    startHostDriven(manifest);
    std::vector<AttentionMap> there = mapsOf(*hostDriven);
    Result<std::unique_ptr<Model>> model = Model::load(folder->path, {});
    ASSERT_OK(model);
    auto executor = ReferenceExecutor::create(manifest, config, DType::F32);
    ASSERT_OK(executor);
    std::vector<AttentionMap> here =
        mapsOf(*makeModelEngine(**model, **executor));
    ASSERT_EQ(there.size(), here.size());
    ASSERT_FALSE(here.empty());
    bool someLeftOut = false;
    for (size_t i = 0; i < here.size(); ++i) {
      EXPECT_EQ(there[i].layer, here[i].layer);
      EXPECT_EQ(there[i].rows, here[i].rows);
      EXPECT_EQ(there[i].kept, here[i].kept);
      ASSERT_EQ(there[i].mass.size(), here[i].mass.size());
      for (size_t c = 0; c < here[i].mass.size(); ++c)
        ASSERT_NEAR(there[i].mass[c], here[i].mass[c], 1e-4);
      for (size_t h = 0; h < here[i].recall.size(); ++h) {
        EXPECT_NEAR(there[i].recall[h], here[i].recall[h], 1e-4);
        someLeftOut |= here[i].recall[h] < 0.999;
      }
    }
    EXPECT_TRUE(someLeftOut);
  }
}

TEST_F(RunTest, WhatCannotBeCapturedIsRefused) {
  makeModel(tiny);
  auto made = CudaEngine::create(
      device(), weights,
      gpuBundle(salient(denseManifest(), bundle::Reuse::Attention::Context)),
      config, DType::F32);
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().text().find("compute all rows"), std::string::npos);
}

// Lists and caches of the run before are not held against the next one.
TEST_F(RunTest, HostDrivenRunsFollowEachOther) {
  makeModel({.layers = 3, .mlpHidden = 40, .vocab = 61});
  bundle::Manifest manifest =
      salient(gpuManifest(), bundle::Reuse::Attention::Propagated);
  setRule(manifest, "columns", {0});
  startHostDriven(manifest);
  Prompts prompts = promptsOf({7, 20});
  Trace first = record(*hostDriven, prompts, lengthsOf(16, 8, 8));
  Result<Generation> ended =
      generate(*hostDriven, promptsOf({30}), lengthsOf(8, 8, 8),
               [](const StepRecord &step) { return step.step < 3; });
  ASSERT_OK(ended);
  EXPECT_FALSE(ended->complete);
  Trace again = record(*hostDriven, prompts, lengthsOf(16, 8, 8));
  EXPECT_EQ(again.generation.sequences, first.generation.sequences);
}

/// The schedule of columns 0, with blocks in their place.
static bundle::Manifest blocks(bundle::Selection::Isolation isolation,
                               bundle::Selection::Scale scale) {
  bundle::Manifest manifest = gpuManifest();
  chooseBlocks(manifest);
  manifest.selections.front().isolation = isolation;
  manifest.selections.front().scale = scale;
  setRule(manifest, "columns", {0});
  return manifest;
}

TEST_F(RunTest, HostDrivenBlocks) {
  makeModel(tiny);
  using Selection = bundle::Selection;
  for (const auto &[isolation, scale] :
       {std::pair(Selection::Isolation::None, Selection::Scale::HeadDim),
        std::pair(Selection::Isolation::Spans, Selection::Scale::HeadDim),
        std::pair(Selection::Isolation::Filtered, Selection::Scale::Heads)})
    compareHostDriven(blocks(isolation, scale), promptsOf({50, 7, 90}),
                      lengthsOf(32, 32, 10));
}

// Rows far behind a sequence's beginning, of whose lists only their groups' are
// brought to the host to be counted.
TEST_F(RunTest, HostDrivenBlockRowsOverLists) {
  makeModel(tiny);
  bundle::Manifest mixed = gpuManifest();
  setRule(mixed, "union", {2});
  for (bundle::Manifest manifest :
       {mixed, blocks(bundle::Selection::Isolation::Spans,
                      bundle::Selection::Scale::HeadDim)}) {
    manifest.positions = {positions(bundle::Positions::Kind::Block)};
    bundle::Pass some;
    some.rows = 0;
    manifest.passes = {passOn(cadence(bundle::Cadence::Kind::Every, 4)), some};
    manifest.reuse.kv = true;
    compareHostDriven(manifest, promptsOf({50, 7, 90}), lengthsOf(32, 16, 16));
  }
}

TEST_F(RunTest, HostDrivenSharedLists) {
  makeModel(grouped);
  for (bundle::Encoding encoding :
       {bundle::Encoding::Uint16, bundle::Encoding::Bitmap}) {
    bundle::Manifest manifest = gpuManifest({.encodings = {encoding}});
    manifest.selections.front().perKvHead = true;
    for (bundle::Kernel &kernel : manifest.kernels)
      if (kernel.name == "select_16")
        kernel.perKvHead = true;
    setRule(manifest, "columns", {0});
    compareHostDriven(manifest, promptsOf({50, 7}), lengthsOf(16, 16, 10));
  }
}

/// One list for all rows and heads: by the block's rows and the best of
/// neighbors, beside the block's own keys. Its length is the block's that is
/// decoded.
TEST_F(RunTest, HostDrivenListsOfALayerByABlock) {
  makeModel(grouped);
  for (bundle::Encoding encoding :
       {bundle::Encoding::Uint16, bundle::Encoding::Bitmap}) {
    bundle::Manifest manifest = gpuManifest({.encodings = {encoding}});
    manifest.positions = {positions(bundle::Positions::Kind::Block)};
    bundle::Selection &selection = manifest.selections.front();
    selection.cadence = cadence(bundle::Cadence::Kind::Every, 4);
    setRule(manifest, "columns", {0}); // by the group that it has
    selection.group = bundle::groupOfAll;
    selection.perLayer = true;
    selection.pooled = 3;
    selection.rows = selection.always = 0;
    for (bundle::Kernel &kernel : manifest.kernels)
      if (kernel.name == "select_16") {
        kernel.group = bundle::groupOfAll;
        kernel.perLayer = true;
        kernel.pooled = 3;
      }
    bundle::Pass some;
    some.rows = 0;
    manifest.passes = {passOn(selection.cadence), some};
    manifest.reuse.kv = true;
    compareHostDriven(manifest, promptsOf({50, 7}), lengthsOf(16, 16, 8));
  }
}

/// Columns for 16 rows within columns for 32, which are chosen less often; by a
/// captured run, and beside keys that are always listed by one that is not.
TEST_F(RunTest, ColumnsWithinOthers) {
  makeModel(tiny);
  for (bundle::Encoding encoding :
       {bundle::Encoding::Int32, bundle::Encoding::Uint16,
        bundle::Encoding::Bitmap}) {
    bundle::Manifest manifest = gpuManifest({.encodings = {encoding}});
    manifest.selections[0].group = 32;
    manifest.selections[1].within = 0;
    manifest.selections[1].cadence = cadence(bundle::Cadence::Kind::Every, 2);
    for (bundle::Kernel &kernel : manifest.kernels)
      if (kernel.name == "select_16")
        kernel.withinGroup = 32;
    setRule(manifest, "two_columns", {0, 1});
    // What is chosen within is not read besides.
    for (bundle::Kernel &kernel : manifest.kernels)
      if (kernel.name == "two_columns")
        kernel.terms.erase(kernel.terms.begin());
    manifest.rules.front().phases.front().when.cadence =
        manifest.selections[1].cadence;
    compare(manifest, promptsOf({50, 7}), lengthsOf(16, 16, 8));
    manifest.positions = {positions(bundle::Positions::Kind::Response)};
    manifest.selections[1].always = 0;
    compareHostDriven(manifest, promptsOf({50, 7}), lengthsOf(16, 16, 8));
  }
}

/// Attention by `kernel` over what was committed lately and the next masks.
static bundle::Manifest overVisiblePositions(const char *kernel) {
  bundle::Manifest manifest = gpuManifest();
  setRule(manifest, kernel, {2});
  bundle::Positions seen = positions(bundle::Positions::Kind::Union);
  seen.of = {0, 1};
  bundle::Positions fixed = positions(bundle::Positions::Kind::Fixed);
  fixed.of = {2};
  fixed.cadence = manifest.selections[2].cadence;
  // No prompt, so that places and positions differ.
  manifest.positions = {positions(bundle::Positions::Kind::Committed, 3),
                        positions(bundle::Positions::Kind::Undecoded, 12), seen,
                        fixed};
  manifest.visible = 3;
  return manifest;
}

// A union of columns, a window and sinks over some of the positions.
TEST_F(RunTest, HostDrivenUnionsOverVisiblePositions) {
  makeModel(tiny);
  for (const char *kernel : {"union", "share_union"})
    compareHostDriven(overVisiblePositions(kernel), promptsOf({20, 9}),
                      lengthsOf(32, 32, 12));
}

/// The schedule's one rule as `at_once` has it: each step refreshes what is due
/// and attends over it.
static bundle::Manifest atOnce(bundle::Manifest manifest) {
  std::vector<bundle::Phase> &phases = manifest.rules.front().phases;
  bundle::Phase fresh = phases.back();
  fresh.refreshesFirst = true;
  fresh.scoring = phases.front().attention;
  fresh.refreshes = phases.front().refreshes;
  phases = {fresh};
  return manifest;
}

TEST_F(RunTest, HostDrivenAtOnce) {
  makeModel(tiny);
  bundle::Manifest manifest = gpuManifest();
  setRule(manifest, "columns", {0});
  const bundle::Manifest fresh = atOnce(manifest);
  ASSERT_FALSE(CudaEngine::supports(fresh, config));
  compareHostDriven(fresh, promptsOf({40, 9}), lengthsOf(16, 16, 10));
  compareHostDriven(atOnce(blocks(bundle::Selection::Isolation::Filtered,
                                  bundle::Selection::Scale::Heads)),
                    promptsOf({50, 7}), lengthsOf(32, 32, 10));

  // A step that refreshes computes half of the pairs, and visits all of them
  // for their log-sum-exps and once more to score them; the others read its
  // lists.
  const Prompts prompts = promptsOf({40});
  const Trace first = onHost(fresh, prompts, lengthsOf(16, 16, 10));
  const Trace later = onHost(manifest, prompts, lengthsOf(16, 16, 10));
  const StepCounters &refreshing = first.steps.front().counters;
  EXPECT_EQ(2 * refreshing.pairs, refreshing.densePairs);
  EXPECT_EQ(refreshing.scorePairs, refreshing.densePairs);
  EXPECT_EQ(refreshing.lsePairs, refreshing.densePairs);
  EXPECT_EQ(later.steps.front().counters.pairs, refreshing.densePairs);
  EXPECT_EQ(first.steps[1].counters.pairs, later.steps[1].counters.pairs);
  EXPECT_EQ(first.steps[1].counters.scorePairs, 0);
  // The first step's tokens are those of another attention.
  EXPECT_NE(first.steps.front().commits.front().confidence,
            later.steps.front().commits.front().confidence);

  // With all columns kept, attention is dense at every step.
  bundle::Manifest whole = manifest;
  whole.selections.front().keep = {1, 1};
  const Trace kept = onHost(atOnce(whole), prompts, lengthsOf(16, 16, 10));
  const Trace dense = onHost(denseManifest(), prompts, lengthsOf(16, 16, 10));
  EXPECT_EQ(kept.generation.sequences, dense.generation.sequences);
}

/// The schedule's one rule for the first layer alone; the others read its
/// lists.
static bundle::Manifest chosenInLayerZero(bundle::Manifest manifest) {
  bundle::Rule first = manifest.rules.front();
  first.isDefault = false;
  first.firstLayer = first.lastLayer = 0;
  std::vector<bundle::Phase> &others = manifest.rules.front().phases;
  others = {others.back()};
  others.front().refreshes.clear();
  others.front().refreshesFirst = false;
  others.front().scoring = -1;
  manifest.rules.push_back(first);
  return manifest;
}

// Captured, of fixed numbers of pairs and of such as the lists give, and driven
// by the host.
TEST_F(RunTest, LayersReadTheListsOfOneBefore) {
  makeModel(tiny);
  ASSERT_GT(config.layers, 1);
  const Prompts prompts = promptsOf({40, 9});
  const GenerateOptions lengths = lengthsOf(16, 16, 10);
  for (const char *kernel : {"columns", "two_columns", "union"}) {
    SCOPED_TRACE(kernel);
    bundle::Manifest own = gpuManifest();
    setRule(own, kernel,
            kernel == std::string("columns")       ? std::vector<int64_t>{0}
            : kernel == std::string("two_columns") ? std::vector<int64_t>{0, 1}
                                                   : std::vector<int64_t>{2});
    const bundle::Manifest shared = chosenInLayerZero(own);
    ASSERT_TRUE(CudaEngine::supports(shared, config));
    compare(shared, prompts, lengths);
    compareHostDriven(shared, prompts, lengths);
    compareHostDriven(chosenInLayerZero(atOnce(own)), prompts, lengths);
    // One layer scores, and the others are sparse at once.
    const StepCounters each = onHost(own, prompts, lengths).steps[0].counters;
    const StepCounters one = onHost(shared, prompts, lengths).steps[0].counters;
    EXPECT_EQ(config.layers * one.scorePairs, each.scorePairs);
    EXPECT_EQ(config.layers * one.refreshes, each.refreshes);
    EXPECT_LT(one.pairs, each.pairs);
  }
}

// Sequences whose blocks end by confidence are at different steps: some refresh
// and attend, others attend alone.
TEST_F(RunTest, HostDrivenAtOnceAtDifferentSteps) {
  makeModel(tiny);
  bundle::Manifest manifest = gpuManifest();
  manifest.selections.front().cadence =
      cadence(bundle::Cadence::Kind::First, 1, true);
  setRule(manifest, "columns", {0});
  manifest = atOnce(manifest);
  manifest.commit.kind = bundle::CommitRule::Kind::Above;
  manifest.commit.ratio = {1, 20};
  compareHostDriven(manifest, promptsOf({40, 9, 21}), lengthsOf(16, 4, 16));
}

} // namespace
