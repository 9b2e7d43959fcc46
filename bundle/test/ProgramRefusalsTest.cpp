//===- ProgramRefusalsTest.cpp - Programs that no run may have ------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/test/Says.h"
#include "bundle/test/TestManifest.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

using namespace heddle;
using namespace heddle::bundle;
using namespace heddle::bundle::test;

namespace {

TEST(ProgramRefusals, SelectionsGoByRangesOfPositions) {
  using Kind = Positions::Kind;
  auto refusal = [&](auto change) {
    Manifest manifest;
    manifest.positions = {setOf(Kind::Block), setOf(Kind::Undecoded, 4),
                          madeOf(Kind::Hull, {1}),
                          madeOf(Kind::Predicting, {0})};
    Selection &selection = manifest.selections.emplace_back();
    selection.keep = {1, 2};
    selection.group = groupOfAll;
    selection.rows = selection.always = 0;
    selection.pooled = 3;
    selection.perLayer = true;
    selection.cadence = every(4);
    change(selection);
    return refusalOf(manifest);
  };
  EXPECT_EQ(refusal([](Selection &) {}), "");
  EXPECT_EQ(refusal([](Selection &s) { s.rows = s.always = 2; }), "");
  EXPECT_PRED2(says, refusal([](Selection &s) { s.rows = 1; }),
               "is scored by the rows of a set that need not be a range");
  EXPECT_PRED2(says, refusal([](Selection &s) { s.always = 3; }),
               "always lists the keys of a set that need not be a range");
  EXPECT_PRED2(says, refusal([](Selection &s) { s.group = 64; }),
               "write group = all");
  EXPECT_PRED2(says, refusal([](Selection &s) { s.pooled = 4; }),
               "name an odd number");
  EXPECT_PRED2(says, refusal([](Selection &s) { s.perKvHead = true; }),
               "drop per_kv_head or per_layer");
  for (auto change : std::vector<void (*)(Selection &)>{
           [](Selection &s) { s.perLayer = true; },
           [](Selection &s) { s.pooled = 3; },
           [](Selection &s) { s.always = 0; }})
    EXPECT_PRED2(says, refusal([&](Selection &s) {
                   const Cadence cadence = s.cadence;
                   s = {};
                   s.keep = {1, 2};
                   s.cadence = cadence;
                   s.kind = Selection::Kind::Blocks;
                   s.group = 32;
                   change(s);
                 }),
                 "which only columns can");
}

TEST(ProgramRefusals, LogitsHaveNoScaleAndNoProbabilityOfASpan) {
  Selection selection;
  selection.kind = Selection::Kind::Blocks;
  selection.group = 32;
  selection.scorer = Selection::Scorer::MeanLogit;
  selection.isolation = Selection::Isolation::Aligned;
  EXPECT_EQ(checkForm(selection), std::nullopt);
  selection.isolation = Selection::Isolation::Filtered;
  EXPECT_TRUE(says(*checkForm(selection), "isolate aligned or spans"));
  selection.isolation = Selection::Isolation::None;
  selection.scale = Selection::Scale::Heads;
  EXPECT_TRUE(says(*checkForm(selection), "drop scaled_by"));
  EXPECT_EQ(selection.scoringRows(65), 3);
  selection.scorer = Selection::Scorer::MeanProbability;
  EXPECT_EQ(checkForm(selection), std::nullopt);
  EXPECT_EQ(selection.scoringRows(65), 65);
}

TEST(ProgramRefusals, SelectionsAreWithinOneListThatIsThere) {
  auto refusal = [&](auto change) {
    Manifest manifest;
    Selection selection;
    selection.keep = {1, 2};
    selection.group = 128;
    selection.cadence = every(8);
    manifest.selections = {selection, selection};
    manifest.selections[1].group = 32;
    manifest.selections[1].cadence = every(2);
    manifest.selections[1].within = 0;
    change(manifest.selections[0], manifest.selections[1]);
    std::optional<ProgramProblem> problem = checkProgram(manifest);
    EXPECT_TRUE(!problem || problem->index == 1);
    return problem ? problem->what : "";
  };
  using Change = void (*)(Selection &, Selection &);
  EXPECT_EQ(refusal([](Selection &, Selection &) {}), "");
  EXPECT_EQ(refusal([](Selection &outer, Selection &inner) {
              outer.group = groupOfAll;
              outer.perLayer = inner.perKvHead = true;
            }),
            "");
  EXPECT_EQ(refusal([](Selection &outer, Selection &inner) {
              outer.kind = Selection::Kind::Blocks;
              outer.isolation = Selection::Isolation::Spans;
              inner.group = 128;
            }),
            "");
  EXPECT_EQ(refusal([&](Selection &outer, Selection &inner) {
              outer.cadence = inner.cadence = every(3, 2);
            }),
            "");
  const std::pair<Change, const char *> wrong[] = {
      {[](Selection &, Selection &inner) {
         inner.kind = Selection::Kind::Blocks;
       },
       "chooses within another selection, which only columns can"},
      {[](Selection &outer, Selection &) {
         outer.kind = Selection::Kind::Blocks;
         outer.isolation = Selection::Isolation::Filtered;
       },
       "isolate aligned or spans"},
      {[](Selection &outer, Selection &) { outer.group = 16; },
       "write a group that divides the other one"},
      {[](Selection &, Selection &inner) { inner.group = groupOfAll; },
       "has a list for all rows"},
      {[](Selection &, Selection &inner) { inner.perKvHead = true; },
       "has a list for heads that have several"},
      {[](Selection &outer, Selection &inner) {
         outer.perKvHead = inner.perLayer = true;
       },
       "has a list for heads that have several"},
      {[](Selection &outer, Selection &) { outer.cadence.period = 3; },
       "which may lack steps of every(3)"},
      {[](Selection &outer, Selection &) { outer.cadence.from = 3; },
       "let both begin at one step"}};
  for (const auto &[change, part] : wrong)
    EXPECT_TRUE(says(refusal(change), part));
}

TEST(ProgramRefusals, AttentionOutsideIsKeptOfEveryRowOverKeysThatStay) {
  using Kind = Positions::Kind;
  const Cadence often = every(2);
  auto refusal = [&](auto change) {
    Manifest manifest;
    manifest.reuse.kv = true;
    manifest.reuse.attention = Reuse::Attention::Outside;
    manifest.reuse.inside = 0;
    manifest.reuse.cadence = often;
    manifest.positions = {setOf(Kind::Response),
                          madeOf(Kind::Fixed, {0}, often),
                          setOf(Kind::Undecoded, 4), madeOf(Kind::Hull, {2}),
                          madeOf(Kind::Fixed, {3}, often)};
    Pass whole, rest;
    whole.when = {{When::Kind::On, often}};
    rest.rows = 0;
    manifest.passes = {whole, rest};
    change(manifest);
    return refusalOf(manifest);
  };
  EXPECT_EQ(refusal([](Manifest &) {}), "");
  EXPECT_EQ(refusal([](Manifest &m) { m.reuse.inside = 3; }), "");
  EXPECT_EQ(refusal([](Manifest &m) { m.visible = 4; }), "");
  EXPECT_PRED2(says, refusal([](Manifest &m) { m.reuse.kv = false; }),
               "add kv");
  EXPECT_PRED2(says, refusal([&](Manifest &m) { m.reuse.cadence.from = 2; }),
               "which need not include step 1");
  EXPECT_PRED2(says, refusal([&](Manifest &m) { m.reuse.cadence = {}; }),
               "which need not include step 1");
  EXPECT_PRED2(says, refusal([&](Manifest &m) { m.reuse.cadence.period = 1; }),
               "at whose steps all visible rows must be computed; begin with");
  EXPECT_PRED2(says, refusal([](Manifest &m) { m.passes.clear(); }),
               "every step computes all");
  EXPECT_PRED2(says, refusal([](Manifest &m) { m.passes[1].rows = -1; }),
               "every step computes all");
  EXPECT_PRED2(says, refusal([](Manifest &m) { m.reuse.inside = 2; }),
               "need not be a range of positions");
  EXPECT_PRED2(says, refusal([&](Manifest &m) {
                 m.visible = 4;
                 m.reuse.cadence.period = 4;
               }),
               "the visible positions change on every(2); keep it at these");
  EXPECT_PRED2(says, refusal([&](Manifest &m) {
                 m.visible = 1;
                 m.allVisible = first(1);
               }),
               "the visible positions may change at other steps");
  // Any rows may refresh it, but by position.
  EXPECT_EQ(refusal([](Manifest &m) { m.reuse.refreshed = 2; }), "");
  EXPECT_PRED2(says, refusal([](Manifest &m) {
                 m.positions.push_back(madeOf(Kind::Predicting, {0}));
                 m.reuse.refreshed = 5;
               }),
               "refreshes attention of rows by what they predict (predicting)");
  // Rows that are not computed would need attention that is whole.
  EXPECT_PRED2(says, refusal([](Manifest &m) {
                 m.reuse.ffn = true;
                 m.passes[1].exact = Pass::Exact::LeastSimilar;
                 m.passes[1].keep = {1, 2};
                 m.passes[1].among = 0;
               }),
               "it needs `reuse kv, output, ffn`");
  EXPECT_PRED2(says, refusal([](Manifest &m) {
                 m.reuse.ffn = true;
                 m.passes[1].exact = Pass::Exact::SalientFfn;
                 m.passes[1].below = {1, 2};
               }),
               "it needs `reuse kv, context, ffn`");
}

TEST(ProgramRefusals, DriftIsMeasuredFromOneCadenceInALayer) {
  const Cadence one = drift();
  Cadence other = one;
  other.period = 9;
  auto manifestOn = [&](const Cadence &pass, const Cadence &set) {
    Manifest manifest;
    manifest.reuse.kv = true;
    Pass whole, rest;
    whole.when = {{When::Kind::On, pass}};
    rest.rows = 0;
    manifest.passes = {whole, rest};
    manifest.positions = {setOf(Positions::Kind::Undecoded),
                          setOf(Positions::Kind::Committed)};
    manifest.positions.back().cadence = set;
    return manifest;
  };
  EXPECT_FALSE(checkProgram(manifestOn(one, one)));
  Manifest manifest = manifestOn(one, other);
  std::optional<ProgramProblem> problem = checkProgram(manifest);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->at, ProgramProblem::At::Pass);
  EXPECT_TRUE(says(problem->what,
                   "goes by drift(below = 0.9, within = 8) beside "
                   "drift(below = 0.9, within = 9)"));
  other = one;
  other.layer = 2;
  other.fraction = {1, 2};
  EXPECT_FALSE(checkProgram(manifestOn(one, other)));
  other.inBlock = true;
  EXPECT_TRUE(checkProgram(manifestOn(one, other)));
  other.inBlock = false;
  other.attention = true;
  EXPECT_TRUE(checkProgram(manifestOn(one, other))) << "beside one of V";
  EXPECT_FALSE(checkProgram(manifestOn(other, other)));
  manifest = manifestOn(one, one);
  DatedCommit dated;
  dated.when = {{When::Kind::On, one}};
  manifest.datedCommits = {dated};
  problem = checkProgram(manifest);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->at, ProgramProblem::At::Commit);
  EXPECT_TRUE(
      says(problem->what, "what is computed and not what is committed"));
}

/// What a schedule that revokes must not say, beside the same without it.
TEST(ProgramRefusals, RevokedTokensAreMasksForAllThatGoesByThem) {
  const Cadence start = first(1);
  auto refusal = [&](std::vector<Positions> positions, auto change) {
    Manifest manifest;
    manifest.reuse.kv = true;
    manifest.positions = std::move(positions);
    Pass whole, rest;
    whole.when = {{When::Kind::On, start}};
    manifest.passes = {whole, rest};
    manifest.passes[1].rows =
        static_cast<int64_t>(manifest.positions.size()) - 1;
    change(manifest);
    EXPECT_FALSE(checkProgram(manifest)) << "it is fine without `revoke`";
    manifest.commit.revokeBelow = {9, 10};
    return refusalOf(manifest);
  };
  using Kind = Positions::Kind;
  auto none = [](Manifest &) {};
  Positions fixed = madeOf(Kind::Fixed, {0}, start);
  const Positions except = madeOf(Kind::Except, {1, 3}),
                  both = madeOf(Kind::Union, {0, 1});
  // Rows.
  for (Positions whole :
       {setOf(Kind::Undecoded), setOf(Kind::Response), setOf(Kind::Block),
        setOf(Kind::FromBlock), setOf(Kind::All)})
    EXPECT_EQ(refusal({whole}, none), "");
  const std::string stale = "need not hold what a commit with `revoke` made";
  EXPECT_TRUE(says(refusal({setOf(Kind::Undecoded, 4)}, none), stale));
  EXPECT_EQ(
      refusal({setOf(Kind::Undecoded, 4), setOf(Kind::Undecoded), both}, none),
      "");
  // What was masked then need not hold what is masked now.
  EXPECT_TRUE(says(refusal({setOf(Kind::Undecoded), fixed}, none),
                   "need not hold the first masked position"));
  // What was decoded then may hold it.
  fixed.of = {2};
  EXPECT_TRUE(says(refusal({setOf(Kind::All), setOf(Kind::Response),
                            setOf(Kind::Decoded), fixed, except},
                           none),
                   "need not hold the first masked position"));
  fixed.of = {0};
  EXPECT_EQ(refusal({setOf(Kind::Prompt), setOf(Kind::Response),
                     setOf(Kind::Decoded), fixed, except},
                    none),
            "");
  // An order.
  EXPECT_TRUE(says(refusal({setOf(Kind::Response)},
                           [](Manifest &manifest) {
                             manifest.commit.kind =
                                 CommitRule::Kind::RandomOrder;
                           }),
                   "revokes tokens, of which an order"));
}

/// What a schedule that edits must not say, beside the same without it.
TEST(ProgramRefusals, EditedTokensAreComputedAnew) {
  const Cadence start = first(1), block = inBlock(start);
  auto refusal = [&](std::vector<Positions> positions, const Cadence &whole) {
    Manifest manifest;
    manifest.reuse.kv = true;
    manifest.positions = std::move(positions);
    Pass all, rest;
    all.when = {{When::Kind::On, whole}};
    rest.rows = static_cast<int64_t>(manifest.positions.size()) - 1;
    manifest.passes = {all, rest};
    EXPECT_FALSE(checkProgram(manifest)) << "it is fine without `edit`";
    manifest.commit.editAbove = {9, 10};
    std::optional<ProgramProblem> problem = checkProgram(manifest);
    EXPECT_TRUE(!problem || problem->at == ProgramProblem::At::Pass);
    return problem ? problem->what : "";
  };
  using Kind = Positions::Kind;
  const std::string stale = "need not hold what a commit with `edit` gave";
  for (Kind kind : {Kind::All, Kind::Response})
    EXPECT_EQ(refusal({setOf(kind)}, start), "");
  for (Kind kind : {Kind::Block, Kind::FromBlock}) {
    EXPECT_EQ(refusal({setOf(kind)}, block), "");
    EXPECT_TRUE(says(refusal({setOf(kind)}, start), stale))
        << "the last step of a block edits too";
  }
  const Positions both = madeOf(Kind::Union, {0, 1});
  EXPECT_TRUE(says(refusal({setOf(Kind::Undecoded)}, start), stale));
  EXPECT_EQ(
      refusal({setOf(Kind::Undecoded), setOf(Kind::Committed, 1), both}, start),
      "");
  EXPECT_EQ(
      refusal({setOf(Kind::Undecoded), setOf(Kind::Decoded), both}, start), "");
}

/// What a schedule with noise must not say, beside the same without it.
TEST(ProgramRefusals, NoiseIsComputedAnewAndKeptOfNothing) {
  const Cadence start = first(1), block = inBlock(start);
  using Kind = Positions::Kind;
  Manifest base;
  base.reuse.kv = true;
  base.positions = {setOf(Kind::Block),        setOf(Kind::Undecoded),
                    setOf(Kind::Undecoded, 4), setOf(Kind::Committed, 1),
                    setOf(Kind::Response),     madeOf(Kind::Union, {1, 3})};
  Pass all, rest;
  all.when = {{When::Kind::On, block}};
  base.passes = {all, rest};
  auto refusal = [&](auto change) {
    Manifest manifest = base;
    change(manifest);
    EXPECT_FALSE(checkProgram(manifest)) << "it is fine without noise";
    manifest.commit.renoises = true;
    return refusalOf(manifest);
  };
  auto rows = [](int64_t set) {
    return [=](Manifest &manifest) { manifest.passes[1].rows = set; };
  };
  for (int64_t set : {0, 4, 5})
    EXPECT_EQ(refusal(rows(set)), "");
  EXPECT_TRUE(says(refusal(rows(1)), "what became a token at the step before"));
  EXPECT_TRUE(says(refusal(rows(2)), "every masked position of the block"));
  // What attention over other keys gave noise says nothing of other noise.
  for (int64_t refreshed = -1; refreshed < 6; ++refreshed)
    for (Ratio keep : {Ratio{1, 1}, Ratio{1, 2}}) {
      if (refreshed < 0 && keep.den > 1)
        continue;
      const std::string found = refusal([&](Manifest &manifest) {
        manifest.passes[1].rows = 0;
        manifest.reuse.attention = Reuse::Attention::Outside;
        manifest.reuse.inside = 0;
        manifest.reuse.cadence = block;
        manifest.reuse.refreshed = refreshed;
        manifest.reuse.keep = keep;
      });
      const bool anew = refreshed == 0 || refreshed > 3;
      EXPECT_EQ(found.find("keeps attention of masked positions") ==
                    std::string::npos,
                anew && keep.den == 1)
          << refreshed << " " << found;
    }
  Manifest dated = base;
  dated.passes[1].rows = 0;
  dated.datedCommits.push_back({{{When::Kind::On, start}}, {}});
  EXPECT_FALSE(checkProgram(dated));
  dated.datedCommits[0].rule.renoises = true;
  std::optional<ProgramProblem> problem = checkProgram(dated);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->at, ProgramProblem::At::Commit);
  EXPECT_TRUE(says(problem->what, "write `renoise` there"));
}

} // namespace
