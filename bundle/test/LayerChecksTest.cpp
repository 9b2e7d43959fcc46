//===- LayerChecksTest.cpp - Tests of LayerChecks -------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/test/Says.h"
#include "bundle/test/TestManifest.h"

#include <gtest/gtest.h>

using namespace heddle::bundle;
using namespace heddle::bundle::test;

namespace {

/// What is wrong with a program once it is changed; "" if nothing is.
template <typename Change>
std::string refusalOf(Manifest manifest, Change change) {
  change(manifest);
  return test::refusalOf(manifest);
}

/// Of rows that are not visible nothing is kept, in no layer.
TEST(LayerChecks, RowsThatAreNotVisibleHaveOnlyWhatTheStepComputes) {
  const Cadence phase = every(4);
  using Kind = Positions::Kind;
  Manifest base;
  base.reuse = {true, Reuse::Attention::Context, true};
  base.positions = {setOf(Kind::Undecoded, 8), madeOf(Kind::Fixed, {0}, phase),
                    setOf(Kind::Undecoded, 4), setOf(Kind::Block),
                    setOf(Kind::All)};
  base.visible = 1;
  Pass whole, rest;
  whole.when = {{When::Kind::On, phase}};
  rest.rows = 2;
  rest.unseen = true;
  base.passes = {whole, rest};
  auto refusal = [&](auto change) { return refusalOf(base, change); };
  EXPECT_EQ(refusal([](Manifest &) {}), "");
  EXPECT_EQ(refusal([&](Manifest &m) {
              m.passes.insert(m.passes.begin() + 1, rest);
              m.passes[1].rows = 0;
              m.passes[1].alone = true;
              m.passes[1].when = {{When::Kind::On, phase}};
            }),
            "");
  EXPECT_PRED2(says, refusal([](Manifest &m) { m.visible = -1; }),
               "every position is; leave `unseen` out");
  EXPECT_PRED2(says, refusal([](Manifest &m) { m.passes[1].rows = -1; }),
               "computes all visible rows, of which none is unseen");
  EXPECT_PRED2(says, refusal([](Manifest &m) { m.passes[0].unseen = true; }),
               "computes all visible rows, of which none is unseen");
  for (auto exact : {Pass::Exact::Salient, Pass::Exact::SalientFfn,
                     Pass::Exact::LeastSimilar})
    EXPECT_PRED2(says, refusal([&](Manifest &m) {
                   m.passes[1].exact = exact;
                   m.passes[1].below = m.passes[1].keep = {1, 2};
                   m.passes[1].among = 3;
                 }),
                 "of which nothing is cached to compare them with");
  EXPECT_PRED2(says, refusal([&](Manifest &m) {
                 m.passes.insert(m.passes.begin() + 1, rest);
                 m.passes[1].unseen = false;
                 m.passes[1].layers = {{0, 1}};
               }),
               "of which layers that leave them out keep nothing");
  EXPECT_PRED2(says, refusal([&](Manifest &m) {
                 m.reuse.attention = Reuse::Attention::Outside;
                 m.reuse.inside = 3;
                 m.reuse.cadence = phase;
               }),
               "of which no attention outside of a set is kept");
}

/// What a layer computes comes out of those before it.
TEST(LayerChecks, RowsOfLaterLayersComeFromEarlierOnes) {
  const Cadence start = inBlock(first(1));
  using Kind = Positions::Kind;
  Manifest base;
  base.reuse.kv = true;
  base.positions = {setOf(Kind::Block), setOf(Kind::Undecoded),
                    madeOf(Kind::Intersect, {0, 1}), setOf(Kind::Undecoded, 1),
                    madeOf(Kind::Hull, {3})};
  Pass whole, early, rest;
  whole.when = {{When::Kind::On, start}};
  early.rows = 0;
  early.layers = {{0, 1}};
  rest.rows = 2;
  base.passes = {whole, early, rest};
  auto refusal = [&](auto change) { return refusalOf(base, change); };
  const Reuse carrying{true, Reuse::Attention::Output, true};
  EXPECT_EQ(refusal([](Manifest &) {}), "");
  // The other way round rows come from nowhere.
  auto grow = [](Manifest &m) {
    std::swap(m.passes[1].rows, m.passes[2].rows);
  };
  EXPECT_PRED2(says, refusal(grow),
               "computes block in layer 2, and layer 0 no more than "
               "intersect(block, undecoded), so");
  EXPECT_EQ(refusal([&](Manifest &m) {
              grow(m);
              m.reuse = carrying;
            }),
            "");
  // It is enough that they are kept where they are left out.
  EXPECT_EQ(refusal([&](Manifest &m) {
              grow(m);
              m.layeredReuses = {{{{0, 1}}, carrying}};
            }),
            "");
  EXPECT_PRED2(says, refusal([&](Manifest &m) {
                 grow(m);
                 m.layeredReuses = {{{{0, 0}}, carrying}};
               }),
               "computes block in layer 2, and layer 1 no more");
  // The last layers stand behind all others, the middle ones in between.
  EXPECT_PRED2(says,
               refusal([](Manifest &m) { m.passes[1].layers = {{-1, -1}}; }),
               "computes block in layer -1, and layer 0 no more");
  EXPECT_PRED2(
      says, refusal([](Manifest &m) { m.passes[1].layers = {{0, 0}, {4, 5}}; }),
      "computes block in layer 4, and layer 1 no more");
  // A set of which nothing is known.
  EXPECT_PRED2(says, refusal([](Manifest &m) { m.passes[2].rows = 1; }),
               "computes undecoded in layer 2, and layer 0 no more");
  EXPECT_PRED2(says, refusal([](Manifest &m) {
                 m.passes[1].alone = true;
                 m.passes[2].rows = 0;
               }),
               "computes block in layer 2");
  // Passes that no step runs together.
  EXPECT_EQ(refusal([](Manifest &m) {
              m.passes[2].rows = 0;
              m.passes[1].rows = 0;
              m.passes[0].when[0].cadence.count = 2;
            }),
            "");
  // What is salient is found by the layer before.
  auto salient = [](Manifest &m) {
    m.passes[2].rows = 0;
    m.passes[2].exact = Pass::Exact::Salient;
    m.passes[2].below = {99, 100};
    m.reuse = {true, Reuse::Attention::Context, true};
  };
  EXPECT_EQ(refusal(salient), "");
  EXPECT_PRED2(says, refusal([&](Manifest &m) {
                 salient(m);
                 m.layeredReuses = {{{{0, 1}}, {true}}};
               }),
               "goes by what changed in layer 0, which keeps no contexts");
  EXPECT_PRED2(says, refusal([&](Manifest &m) {
                 salient(m);
                 m.layeredReuses = {{{{3, 3}}, {true}}};
               }),
               "`reuse kv, context, ffn` in layer 3");
  // Layers.
  EXPECT_PRED2(says,
               refusal([](Manifest &m) { m.passes[1].layers = {{3, 2}}; }),
               "names layers from 3 to 2, which");
  EXPECT_PRED2(says,
               refusal([](Manifest &m) { m.passes[1].layers = {{0, -1}}; }),
               "names layers from 0 to -1, which count from different ends");
  EXPECT_PRED2(
      says, refusal([](Manifest &m) { m.passes[1].layers = {{0, 3}, {3, 3}}; }),
      "names a layer twice");
  EXPECT_PRED2(says, refusal([](Manifest &m) {
                 m.passes.insert(m.passes.begin() + 1, m.passes[1]);
               }),
               "names layers that one in front of it has at every step");
  EXPECT_PRED2(says, refusal([](Manifest &m) {
                 m.passes.back().layers = {{0, 0}};
                 m.passes[1].layers = {{1, 1}};
               }),
               "is the last one and names layers");
  EXPECT_PRED2(says, refusal([](Manifest &m) {
                 m.layeredReuses = {{{{0, 3}}, {true}}, {{{2, 2}}, {true}}};
               }),
               "names layers that another one has");
  EXPECT_PRED2(says,
               refusal([](Manifest &m) { m.layeredReuses = {{{{0, 3}}, {}}}; }),
               "keeps no keys and values, as other layers do");
  EXPECT_PRED2(says,
               refusal([](Manifest &m) { m.layeredReuses = {{{}, {true}}}; }),
               "names no layers");
  EXPECT_PRED2(says, refusal([](Manifest &m) {
                 for (int64_t i = 0; i <= int64_t(maxLayerRanges); ++i)
                   m.passes[1].layers.push_back({2 * i + 2, 2 * i + 2});
               }),
               "one range of layers too many");
}

/// A layer may let rows end by what it finds, but not all that could be
/// committed.
TEST(LayerChecks, RowsThatEndByChoice) {
  const Cadence start = inBlock(first(1));
  using Kind = Positions::Kind;
  Manifest base;
  base.reuse.kv = true;
  base.positions = {setOf(Kind::Block), setOf(Kind::Undecoded, 1),
                    madeOf(Kind::Except, {0, 1}), setOf(Kind::Committed, 1),
                    madeOf(Kind::Except, {0, 3})};
  Pass whole, choosing, rest;
  whole.when = {{When::Kind::On, start}};
  choosing.rows = rest.rows = 0;
  choosing.exact = Pass::Exact::LeastSimilar;
  choosing.keep = {1, 2};
  choosing.among = 2;
  choosing.layers = {{4, 4}};
  base.passes = {whole, choosing, rest};
  auto refusal = [&](auto change) { return refusalOf(base, change); };
  EXPECT_EQ(refusal([](Manifest &) {}), "");
  EXPECT_EQ(
      refusal([](Manifest &m) { m.passes[1].layers = {{2, 5}, {-3, -2}}; }),
      "");
  const std::string ends =
      "lets rows end that it does not choose, and the rows";
  EXPECT_PRED2(says, refusal([](Manifest &m) { m.passes[1].among = 0; }), ends);
  EXPECT_PRED2(says, refusal([](Manifest &m) { m.passes[1].among = 4; }), ends);
  // They go on where they are kept.
  EXPECT_EQ(refusal([](Manifest &m) {
              m.passes[1].among = 0;
              m.layeredReuses = {
                  {{{4, 4}}, {true, Reuse::Attention::Output, true}}};
            }),
            "");
  EXPECT_PRED2(says, refusal([](Manifest &m) {
                 m.layeredReuses = {
                     {{{4, 4}}, {true, Reuse::Attention::Output, false}}};
               }),
               "or `reuse kv`, and the rows that it does not choose end");
  EXPECT_PRED2(says,
               refusal([](Manifest &m) { m.commit.revokeBelow = {1, 2}; }),
               "may let rows end that a commit with `revoke` made masks again");
  // Its rows may go by how confident predictions were.
  EXPECT_EQ(refusal([](Manifest &m) { m.passes[1].confidence = {1, 2}; }), "");
  EXPECT_PRED2(says, refusal([](Manifest &m) {
                 m.positions[1] = setOf(Kind::Next);
                 m.passes[1].confidence = {1, 2};
                 m.commit.kind = CommitRule::Kind::RandomOrder;
               }),
               "weighs the confidence of what earlier steps predicted and left "
               "masked, and with `commit random_order` they predict what they "
               "commit alone");
  EXPECT_PRED2(
      says, refusal([](Manifest &m) { m.commit.editAbove = {1, 2}; }),
      "may let rows end that a commit with `edit` gave another token at");
  // An order in which something else is next.
  EXPECT_PRED2(says, refusal([](Manifest &m) {
                 m.commit.kind = CommitRule::Kind::RandomOrder;
                 m.passes[1].among = 4;
               }),
               ends);
}

/// The surest of a set are positions of it, and need not be the first masked
/// one.
TEST(LayerChecks, TheSurestOfASet) {
  const Cadence start = inBlock(first(1));
  using Kind = Positions::Kind;
  Manifest base;
  base.reuse.kv = true;
  base.positions = {setOf(Kind::Block), setOf(Kind::Undecoded, 1),
                    setOf(Kind::Confident, 2), madeOf(Kind::Union, {1, 2}),
                    madeOf(Kind::Intersect, {0, 3})};
  base.positions[2].of = {0};
  Pass whole, early, rest;
  whole.when = {{When::Kind::On, start}};
  early.rows = 0;
  early.layers = {{0, 1}};
  rest.rows = 4;
  base.passes = {whole, early, rest};
  auto refusal = [&](auto change) { return refusalOf(base, change); };
  EXPECT_EQ(refusal([](Manifest &) {}), "");
  EXPECT_PRED2(says, refusal([](Manifest &m) { m.passes[2].rows = 2; }),
               "computes rows that need not hold the first masked position");
  EXPECT_EQ(refusal([](Manifest &m) {
              m.positions[1] = setOf(Kind::Confident, 1);
              m.positions[1].of = {0};
              m.reuse = {true, Reuse::Attention::Output, true};
              m.passes[2].rows = 0;
            }),
            "");
  EXPECT_PRED2(says, refusal([](Manifest &m) { m.passes[1].rows = 2; }),
               "computes rows that need not hold the first masked position");
  EXPECT_PRED2(says, refusal([](Manifest &m) { m.commit.within = 2; }),
               "commits within positions that need not hold the first masked");
  EXPECT_PRED2(says, refusal([](Manifest &m) { m.visible = 2; }),
               "depends on what is decoded and may change at any step");
  EXPECT_PRED2(says, refusal([](Manifest &m) { m.positions[2].of = {0, 1}; }),
               "is made of exactly one set");
  EXPECT_PRED2(says, refusal([](Manifest &m) {
                 m.commit.kind = CommitRule::Kind::RandomOrder;
               }),
               "goes by the confidence of what earlier steps predicted");
}

TEST(LayerChecks, LayersThatAModelLacks) {
  const Cadence start = first(1);
  Manifest manifest;
  manifest.reuse.kv = true;
  manifest.positions = {setOf(Positions::Kind::Response),
                        setOf(Positions::Kind::Undecoded),
                        madeOf(Positions::Kind::Intersect, {0, 1})};
  Pass whole, early, late, rest;
  whole.when = {{When::Kind::On, start}};
  early.rows = rest.rows = 0;
  early.layers = {{0, 1}};
  late.layers = {{-2, -1}};
  late.rows = 2;
  manifest.passes = {whole, early, late, rest};
  ASSERT_FALSE(checkProgram(manifest));
  auto refusal = [&](int64_t layers) {
    std::optional<ProgramProblem> problem = checkLayers(manifest, layers);
    return problem ? problem->what : "";
  };
  EXPECT_EQ(refusal(5), "");
  EXPECT_EQ(refusal(4), "");
  EXPECT_EQ(refusal(3), "names layers that one in front of it has in a model "
                        "of 3 layers");
  EXPECT_EQ(refusal(1), "names layers(0 to 1), the model has layers 0 to 0");
  // Here the last layers come before those that count from the front.
  manifest.passes[1].layers = {{4, 5}};
  manifest.passes[1].rows = 0;
  ASSERT_FALSE(checkProgram(manifest));
  EXPECT_EQ(refusal(8), "");
  manifest.passes[2].layers = {{-4, -3}};
  ASSERT_TRUE(checkProgram(manifest)) << "the last ones are the rest's";
}

} // namespace
