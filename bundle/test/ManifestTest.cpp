//===- ManifestTest.cpp - What a manifest may say -------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/abi/Abi.h"
#include "bundle/program/Program.h"
#include "bundle/program/ProgramChecks.h"
#include "bundle/test/Refusal.h"

#include <chrono>

using namespace heddle;
using namespace heddle::bundle;
using namespace heddle::bundle::test;

namespace {

TEST(Manifest, RoundTripsThroughJson) {
  std::string json = toJson(testManifest());
  Result<Manifest> manifest = manifestFromJson(json);
  ASSERT_TRUE(manifest) << manifest.error().text();
  EXPECT_EQ(toJson(*manifest), json);
  EXPECT_EQ(manifest->selections[0].keep, (Ratio{1, 5}));
  EXPECT_EQ(manifest->selections[0].cadence.count, 16);
  EXPECT_EQ(manifest->kernels[2].terms[1].kind, Term::Kind::Sinks);
  EXPECT_EQ(manifest->rules[1].firstLayer, -2);
}

TEST(Manifest, NumbersOfKeysRoundTripThroughJson) {
  Manifest manifest = testManifest();
  Selection &selection = manifest.selections[0];
  selection.keep = {};
  selection.count = 512;
  const Manifest back = readBack(manifest);
  EXPECT_EQ(back.selections[0], selection);
  EXPECT_EQ(keepText(selection), "512");
  EXPECT_EQ(keepText(testManifest().selections[0]), "1/5");

  auto refused = [&](const std::function<void(Json &)> &change) {
    return refusal(manifest, change);
  };
  EXPECT_EQ(refused([](Json &json) { json["selections"][0]["count"] = 0; }),
            "manifest: selections[0].count: 0 is out of range, expected 1 to "
            "2147483647");
  for (auto [other, value] :
       {std::pair("keep", "1/5"), std::pair("rounding", "floor")}) {
    const std::string found =
        refused([&](Json &json) { json["selections"][0][other] = value; });
    EXPECT_TRUE(says(found, other));
  }
}

/// Of the rows' manifest, a selection of one list for all rows.
Manifest evictingManifest() {
  Manifest manifest = testRowsManifest();
  Selection &selection = manifest.selections[0];
  selection.group = groupOfAll;
  selection.perLayer = true;
  selection.pooled = 3;
  manifest.positions.push_back(setOf(Positions::Kind::Block));
  selection.rows = selection.always = std::ssize(manifest.positions) - 1;
  for (Rule &rule : manifest.rules)
    for (Phase &phase : rule.phases)
      for (Phase::Refresh &refresh : phase.refreshes)
        if (refresh.selection == 0) {
          Kernel &kernel = manifest.kernels[size_t(refresh.kernel)];
          kernel.group = groupOfAll;
          kernel.perLayer = true;
          kernel.pooled = 3;
        }
  return manifest;
}

TEST(Manifest, SelectionsThatGoBySetsRoundTripThroughJson) {
  const Manifest manifest = evictingManifest();
  const Manifest back = readBack(manifest);
  EXPECT_EQ(back.selections[0], manifest.selections[0]);
  const auto refused = [&](const std::function<void(Json &)> &change) {
    return refusal(manifest, change);
  };
  const std::string sets = std::to_string(manifest.positions.size());
  EXPECT_EQ(refused([&](Json &json) {
              json["selections"][0]["always"] = manifest.positions.size();
            }),
            "manifest: selections[0].always: index " + sets +
                " is out of range: the manifest has " + sets +
                " position sets");
  EXPECT_TRUE(
      says(refused([](Json &json) { json["selections"][0]["rows"] = 999; }),
           "selections[0].rows: 999 is out of range"));
  EXPECT_TRUE(
      says(refused([](Json &json) { json["selections"][0]["pooled"] = 5; }),
           "per layer by mean_probability pooled(5), found a "));
  EXPECT_TRUE(says(
      refused([](Json &json) { json["selections"][0]["per_layer"] = false; }),
      "group all by mean_probability pooled(3), found a "));
  // A kernel is held to the same, read by a refresh or not.
  EXPECT_TRUE(says(refused([](Json &json) {
                     for (Json &kernel : json["kernels"])
                       if (kernel.contains("pooled"))
                         kernel["pooled"] = 4;
                   }),
                   "]: pools the scores of 4 keys; name an odd number"));
}

/// Columns for 32 rows within columns for 128.
Manifest withinManifest() {
  Manifest manifest = testManifest();
  Selection chunks = manifest.selections[0];
  chunks.name = "chunks";
  chunks.group = 128;
  manifest.selections.insert(manifest.selections.begin(), chunks);
  manifest.selections[1].within = 0;
  manifest.kernels[1].terms[0].selection = 1;
  Kernel select = manifest.kernels[3];
  select.name = "select_chunks";
  select.group = 128;
  for (KernelVariant &variant : select.variants)
    variant.symbol = expectedSymbol(select, variant, manifest.targets[0]);
  manifest.kernels[3].withinGroup = 128;
  manifest.kernels.push_back(select);
  manifest.rules[0].phases[0].refreshes = {{0, 4}, {1, 3}};
  return manifest;
}

TEST(Manifest, SelectionsWithinOthersRoundTripThroughJson) {
  Manifest manifest = withinManifest();
  const Manifest back = readBack(manifest);
  EXPECT_EQ(back.selections, manifest.selections);
  EXPECT_EQ(back.kernels[3].withinGroup, 128);
  auto refused = [&](const std::function<void(Json &)> &change,
                     const std::string &part) {
    const std::string found = refusal(manifest, change);
    EXPECT_TRUE(says(found, part));
  };
  refused([](Json &json) { json["selections"][1]["within"] = 2; },
          "selections[1].within: ");
  refused([](Json &json) { json["selections"][1]["within"] = 1; },
          "selections[1].within: ");
  const std::string needed = "rules[0].phases[0].refreshes[1].kernel: needs a "
                             "select kernel of group 32 "
                             "by mean_probability within columns(group = 128), "
                             "found a select kernel of ";
  refused([](Json &json) { json["kernels"][3]["within_group"] = 64; }, needed);
  refused([](Json &json) { json["kernels"][3]["within_blocks"] = true; },
          needed);
  refused(
      [](Json &json) {
        json["kernels"][3].erase("within_group");
        json["kernels"][3].erase("within_blocks");
      },
      needed);
  refused([](Json &json) { json["kernels"][3]["blocks"] = true; },
          "kernels[3]: chooses within another selection, which only columns "
          "can");
  refused(
      [](Json &json) { json["rules"][0]["phases"][0]["refreshes"].erase(0); },
      "rules[0].phases[0].refreshes[0]: chooses within a selection that its "
      "rule does not refresh");
  refused(
      [](Json &json) {
        Json &refreshes = json["rules"][0]["phases"][0]["refreshes"];
        std::swap(refreshes[0], refreshes[1]);
      },
      "rules[0].phases[0].refreshes[0]: must come behind the refresh of the "
      "selection that it chooses within");
  refused(
      [](Json &json) {
        json["selections"][0]["cadence"] = {
            {"kind", "every"}, {"period", 2}, {"from", 1}, {"in_block", false}};
      },
      "selections[");
}

TEST(Manifest, ListsHaveWhatIsAlwaysListedAndTheBestOfTheOthers) {
  Selection selection;
  selection.keep = {1, 2};
  EXPECT_EQ(selection.listed(10, 0), 5);
  EXPECT_EQ(selection.listed(10, 3), 3 + 3);
  EXPECT_EQ(selection.listed(10, 9), 9 + 1);
  EXPECT_EQ(selection.listed(10, 10), 10);
  selection.count = 4;
  EXPECT_EQ(selection.listed(10, 3), 7);
  EXPECT_EQ(selection.listed(10, 8), 10);
  selection.perLayer = true;
  EXPECT_EQ(selection.headsPerList(28, 4), 28);
  selection.perLayer = false;
  selection.perKvHead = true;
  EXPECT_EQ(selection.headsPerList(28, 4), 7);
}

TEST(Manifest, FallbacksRoundTripThroughJson) {
  Manifest manifest = testManifest();
  EXPECT_EQ(toJson(manifest).find("fallbacks"), std::string::npos);
  manifest.fallbacks = {{"tiles", Selection::Kind::Blocks, 64, {4, 5}, {3, 4}}};
  const Manifest back = readBack(manifest);
  EXPECT_EQ(back.fallbacks, manifest.fallbacks);
  manifest.fallbacks[0].keep = {3, 4};
  EXPECT_EQ(refusal(manifest, [](Json &) {}),
            "manifest: fallbacks[0].keep: is no more than dense_above, so that "
            "nothing fell back (N13)");
}

TEST(Manifest, SharesOfSinksRoundTripThroughJson) {
  Manifest manifest = testManifest();
  const Term share = {Term::Kind::Sinks, 0, -1, {1, 10}};
  manifest.kernels[2].terms.push_back(share);
  const Manifest back = readBack(manifest);
  EXPECT_EQ(back.kernels[2].terms, manifest.kernels[2].terms);
  EXPECT_TRUE(isShareOfSinks(back.kernels[2].terms[2]));
  EXPECT_FALSE(isShareOfSinks(back.kernels[2].terms[1]));
}

TEST(Manifest, SinksAreTheLargestOfNumbersAndShares) {
  const Term four = {Term::Kind::Sinks, 4, -1};
  const Term tenth = {Term::Kind::Sinks, 0, -1, {1, 10}};
  const Term third = {Term::Kind::Sinks, 0, -1, {1, 3}};
  auto bound = [](std::vector<Term> terms, int64_t length) {
    return sinkBound(terms, length);
  };
  EXPECT_EQ(bound({}, 100), 0);
  EXPECT_EQ(bound({{Term::Kind::Window, 64, -1}}, 100), 0);
  EXPECT_EQ(bound({four}, 2), 4);
  // Rounded down, to one at least.
  EXPECT_EQ(bound({tenth}, 1), 1);
  EXPECT_EQ(bound({tenth}, 9), 1);
  EXPECT_EQ(bound({tenth}, 19), 1);
  EXPECT_EQ(bound({tenth}, 20), 2);
  EXPECT_EQ(bound({tenth}, 4096), 409);
  EXPECT_EQ(bound({third}, 300), 100);
  EXPECT_EQ(bound({third}, 299), 99);
  EXPECT_EQ(bound({{Term::Kind::Sinks, 0, -1, {1, 1}}}, 77), 77);
  EXPECT_EQ(bound({four, tenth}, 39), 4);
  EXPECT_EQ(bound({tenth, four}, 50), 5);
  EXPECT_EQ(bound({tenth, third}, 30), 10);
  // Products of 126 bits.
  const int64_t large = 999999999999999989;
  EXPECT_EQ(bound({{Term::Kind::Sinks, 0, -1, {large, 1000000000000000000}}},
                  int64_t(1) << 30),
            (int64_t(1) << 30) - 1);
}

TEST(Manifest, ScoringRoundTripsThroughJson) {
  Manifest manifest = testManifest();
  manifest.rules[0].phases[0].refreshesFirst = true;
  manifest.rules[0].phases[0].scoring = 0;
  const Manifest back = readBack(manifest);
  EXPECT_EQ(back.rules[0].phases[0].scoring, 0);
  EXPECT_EQ(back.rules[0].phases[1].scoring, -1);
  EXPECT_TRUE(says(refusal(manifest,
                           [](Json &json) {
                             json["rules"][0]["phases"][0].erase(
                                 "refreshes_first");
                           }),
                   "rules[0].phases[0].scoring: scores for refreshes before "
                   "the attention, and they come behind it"));
}

TEST(Manifest, RefreshesByLogitsComeFirstOrBehindAnyAttention) {
  Manifest manifest = testManifest();
  Phase &phase = manifest.rules[0].phases[0];
  ASSERT_EQ(phase.refreshes.size(), 1);
  Selection &selection = manifest.selections[phase.refreshes[0].selection];
  Kernel &kernel = manifest.kernels[phase.refreshes[0].kernel];
  selection.scorer = kernel.scorer = Selection::Scorer::MeanLogit;
  for (bool first : {false, true}) {
    phase.refreshesFirst = first;
    EXPECT_EQ(readBack(manifest).rules[0].phases[0].refreshesFirst, first);
  }
  // Attention that writes no log-sum-exps does.
  manifest.kernels[size_t(phase.attention)].writesLse = false;
  EXPECT_TRUE(manifestFromJson(toJson(manifest)));
  auto refused = [&](auto change) {
    return refusal(manifest, [&](Json &json) { change(json); });
  };
  EXPECT_PRED2(
      says, refused([](Json &json) { json["kernels"][3].erase("scorer"); }),
      "needs a select kernel of group 32 by mean_logit, found a select "
      "kernel of group 32 by mean_probability (kernel \"select\")");
  EXPECT_PRED2(says, refused([](Json &json) {
                 json["kernels"][3].erase("scorer");
                 json["selections"][0]["scorer"] = "mean_probability";
               }),
               "rules[0].phases[0].refreshes[0]: must follow dense attention "
               "that writes the log-sum-exp");
  EXPECT_PRED2(says, refused([](Json &json) {
                 json["rules"][0]["phases"][0]["scoring"] = 0;
               }),
               "scores for refreshes of which none reads log-sum-exps");
  EXPECT_PRED2(says, refused([](Json &json) {
                 json["rules"][0]["phases"][1]["refreshes_first"] = true;
               }),
               "phases[1]: refreshes before it attends, and nothing");
}

TEST(Manifest, TargetsRoundTripThroughJson) {
  std::string json = toJson(testCudaManifest());
  Result<Manifest> manifest = manifestFromJson(json);
  ASSERT_TRUE(manifest) << manifest.error().text();
  EXPECT_EQ(toJson(*manifest), json);
  EXPECT_EQ(manifest->targets, testCudaManifest().targets);
  // Dense has a CUDA form for any rows, one for all and two for long sequences,
  // columns one an encoding.
  ASSERT_EQ(manifest->kernels[0].variants.size(), 5u);
  EXPECT_EQ(manifest->kernels[0].variants[1].symbol, "dense_lse_bf16_d64");
  EXPECT_EQ(manifest->kernels[0].variants[1].form, LaunchForm::Any);
  EXPECT_EQ(manifest->kernels[0].variants[2].symbol, "dense_lse_bf16_d64_all");
  EXPECT_EQ(manifest->kernels[0].variants[2].form, LaunchForm::All);
  EXPECT_FALSE(manifest->kernels[0].variants[2].persistent);
  EXPECT_EQ(manifest->kernels[0].variants[3].symbol, "dense_lse_bf16_d64_long");
  EXPECT_EQ(manifest->kernels[0].variants[3].leastKeys, 8192);
  EXPECT_EQ(manifest->kernels[0].variants[3].form, LaunchForm::Long);
  EXPECT_EQ(manifest->kernels[0].variants[4].symbol,
            "dense_lse_bf16_d64_packed");
  EXPECT_EQ(manifest->kernels[0].variants[4].leastKeys, 8192);
  EXPECT_EQ(manifest->kernels[0].variants[4].form, LaunchForm::Packed);
  ASSERT_EQ(manifest->kernels[1].variants.size(), 3u);
  EXPECT_EQ(manifest->kernels[1].variants[1].symbol, "columns_bf16_d64_u16");
  EXPECT_EQ(manifest->kernels[1].variants[1].encoding, Encoding::Uint16);
  EXPECT_EQ(manifest->kernels[1].variants[1].threads, 128);
  EXPECT_EQ(manifest->kernels[1].variants[1].sharedBytes, 65536);
  EXPECT_EQ(manifest->kernels[0].variants[1].mapRows, 128);
  EXPECT_EQ(manifest->kernels[0].variants[1].cluster, 2);
  EXPECT_EQ(manifest->kernels[1].variants[1].mapRows, 0);
  EXPECT_EQ(manifest->kernels[1].variants[1].cluster, 1);
  EXPECT_EQ(manifest->kernels[3].variants[2].symbol, "select_bf16_d64_i32");
  ASSERT_EQ(manifest->rowKernels.size(), std::size(allRowOps));
  EXPECT_EQ(manifest->rowKernels[1].op, RowOp::RmsNorm);
  EXPECT_EQ(manifest->rowKernels[1].variants[0].symbol, "row_rms_norm_bf16");
}

TEST(Manifest, RowsRoundTripThroughJson) {
  Manifest manifest = testRowsManifest();
  const Manifest back = readBack(manifest);
  EXPECT_EQ(back.positions, manifest.positions);
  EXPECT_EQ(back.visible, 3);
  EXPECT_EQ(back.reuse, manifest.reuse);
  ASSERT_EQ(back.passes.size(), 3u);
  EXPECT_EQ(back.passes[1].when, manifest.passes[1].when);
  EXPECT_EQ(back.passes[1].keep, (Ratio{1, 4}));
  EXPECT_EQ(back.passes[1].among, 8);
  EXPECT_EQ(back.passes[2].below, (Ratio{3, 2}));
  EXPECT_EQ(back.passes[2].rows, 7);
  EXPECT_EQ(back.commit.ratio, (Ratio{5, 1}));
  EXPECT_EQ(back.commit.within, 4);
  EXPECT_TRUE(back.commit.stopAtEos);
  EXPECT_EQ(back.selections[1].rule, KeepRule::FloorPlusOne);
  EXPECT_EQ(back.selections[1].isolation, Selection::Isolation::Filtered);
  EXPECT_EQ(back.selections[1].scale, Selection::Scale::Heads);
  EXPECT_EQ(back.kernels[1].terms[1].kind, Term::Kind::Blocks);
  EXPECT_TRUE(back.kernels[3].blocks);
  EXPECT_FALSE(back.computesAll());
}

TEST(Manifest, LayersOfRowsRoundTripThroughJson) {
  Manifest manifest = testRowsManifest();
  EXPECT_EQ(toJson(manifest).find("layered_reuses"), std::string::npos)
      << "older readers take bundles whose layers keep the same";
  manifest.passes[1].layers = {{0, 3}, {-1, -1}};
  manifest.layeredReuses = {
      {{{0, 3}}, {true, Reuse::Attention::Context, true}},
      {{{-2, -1}}, {true, Reuse::Attention::Context, true}}};
  const Manifest back = readBack(manifest);
  EXPECT_EQ(back.passes[1].layers, manifest.passes[1].layers);
  EXPECT_TRUE(back.passes[2].layers.empty());
  ASSERT_EQ(back.layeredReuses.size(), 2u);
  EXPECT_EQ(back.layeredReuses[1].layers, manifest.layeredReuses[1].layers);
  EXPECT_EQ(back.layeredReuses[1].reuse, manifest.layeredReuses[1].reuse);
  auto refused = [&](auto &&change, const std::string &wanted) {
    EXPECT_TRUE(says(refusal(manifest, change), wanted));
  };
  refused([](auto &j) { j["passes"][1]["layers"][0]["first"] = 4; },
          "passes[1]: names layers from 4 to 3");
  refused([](auto &j) { j["passes"][1]["layers"][0]["last"] = 1LL << 40; },
          "passes[1].layers[0].last: ");
  refused([](auto &j) { j["layered_reuses"][0]["layers"] = {}; },
          "layered_reuses[0]");
  refused([](auto &j) { j["layered_reuses"][1]["kv"] = false; },
          "layered_reuses[1]: keeps parts of rows");
  refused([](auto &j) { j["layered_reuses"][1]["ffn"] = false; },
          "passes[1]: goes on with cached attention and FFN outputs: it needs "
          "`reuse kv, output, ffn` (or context, not propagating) in layer -1");
  refused(
      [](auto &j) {
        for (int i = 0; i < 300; ++i)
          j["layered_reuses"].push_back(j["layered_reuses"][0]);
      },
      "layered_reuses: more than 256");
}

/// Attention outside of the response is kept on every fourth step.
static Manifest partsManifest() {
  Manifest manifest = testManifest();
  manifest.selections.clear();
  std::erase_if(manifest.kernels,
                [](const Kernel &kernel) { return kernel.hasLists(); });
  manifest.kernels.resize(1);
  manifest.kernels[0].writesLse = true;
  manifest.kernels[0].terms.clear();
  Phase dense;
  dense.attention = 0;
  manifest.rules.resize(1);
  manifest.rules[0] = {};
  manifest.rules[0].phases = {dense};
  manifest.positions.resize(1);
  manifest.positions[0].kind = Positions::Kind::Response;
  manifest.reuse.kv = true;
  manifest.reuse.attention = Reuse::Attention::Outside;
  manifest.reuse.inside = 0;
  manifest.reuse.cadence = every(4);
  Pass whole, rest;
  whole.when = {{When::Kind::On, manifest.reuse.cadence}};
  rest.rows = 0;
  manifest.passes = {whole, rest};
  return manifest;
}

TEST(Manifest, AttentionOutsideIsOfDenseKernelsThatWriteTheLogSumExp) {
  const Manifest manifest = partsManifest();
  const Manifest back = readBack(manifest);
  EXPECT_EQ(back.reuse, manifest.reuse);
  auto refused = [&](auto change) { return refusalAfter(manifest, change); };
  EXPECT_PRED2(says,
               refused([](Manifest &m) { m.kernels[0].writesLse = false; }),
               "rules[0].phases[0].attention: must write the log-sum-exp where "
               "attention outside of a set is kept (kernel \"" +
                   manifest.kernels[0].name + "\")");
  EXPECT_PRED2(says, refused([](Manifest &m) {
                 m.kernels[0].terms = {{Term::Kind::Sinks, 4, -1}};
               }),
               "must be dense where attention outside of a set is kept");
  EXPECT_PRED2(says, refused([](Manifest &m) { m.reuse.inside = 1; }),
               "reuse.inside: index 1 is out of range");
  EXPECT_PRED2(says, refused([](Manifest &m) { m.reuse.cadence.period = 2; }),
               "reuse: keeps attention outside of a set on every(2)");
  // Rows that refresh it.
  Manifest refreshing = manifest;
  refreshing.reuse.refreshed = 0;
  refreshing.reuse.keep = {1, 4};
  EXPECT_EQ(readBack(refreshing).reuse, refreshing.reuse);
  EXPECT_NE(refreshing.reuse, manifest.reuse);
  EXPECT_PRED2(says, refused([](Manifest &m) { m.reuse.refreshed = 1; }),
               "reuse.refreshed: index 1 is out of range");
  EXPECT_PRED2(says, refused([](Manifest &m) {
                 m.reuse.refreshed = 0;
                 m.reuse.keep = {5, 4};
               }),
               "reuse.keep");
  // What only attention outside of a set has.
  std::string json = toJson(manifest);
  const std::string word = "\"outside\"";
  json.replace(json.find(word), word.size(), "\"context\"");
  Result<Manifest> other = manifestFromJson(json);
  ASSERT_FALSE(other);
  EXPECT_TRUE(says(other.error().text(), "reuse"));
}

TEST(Manifest, ARefreshNamesWhatItIsScoredBy) {
  const Manifest manifest = testRowsManifest();
  auto refused = [&](auto change) {
    return refusalAfter(manifest, [&](Manifest &other) {
      change(other, other.rules[0].phases[0].refreshes[1].scorings);
    });
  };
  using Scorings = std::vector<Phase::Scoring>;
  ASSERT_EQ(refused([](Manifest &, Scorings &) {}), "");
  const std::string needed =
      "rules[0].phases[0].refreshes[1]: needs, to be scored by, of the phase's "
      "kernel: attention scaled_by(heads), attention "
      "scaled_by(heads) of response; found ";
  // A bundle of an earlier build has none.
  EXPECT_PRED2(says, refused([](Manifest &, Scorings &all) { all.clear(); }),
               needed + "none");
  EXPECT_PRED2(says, refused([](Manifest &, Scorings &all) { all.pop_back(); }),
               needed + "attention scaled_by(heads)");
  EXPECT_PRED2(
      says, refused([](Manifest &, Scorings &all) { all[1].kernel = 1; }),
      needed + "attention scaled_by(heads), attention scaled_by(heads) of "
               "response of another kernel");
  EXPECT_PRED2(says, refused([](Manifest &, Scorings &all) {
                 all[0].scale = Selection::Scale::HeadDim;
               }),
               needed + "attention scaled_by(head_dim)");
  EXPECT_PRED2(says,
               refused([](Manifest &, Scorings &all) { all[0].kernel = 9; }),
               "scorings[0].kernel: index 9 is out of range");
  // Among the response's keys alone its lists or windows would be of others.
  EXPECT_PRED2(says, refused([](Manifest &other, Scorings &) {
                 other.kernels[0].terms = {{Term::Kind::Sinks, 4, -1}};
               }),
               "refreshes[0]: must follow dense attention that writes the "
               "log-sum-exp, found attention over sinks(4) (kernel "
               "\"dense_lse\")");
}

TEST(Manifest, AWeightOfConfidenceRoundTripsThroughJson) {
  Manifest manifest = testRowsManifest();
  EXPECT_FALSE(
      nlohmann::json::parse(toJson(manifest))["passes"][1]["exact"].contains(
          "confidence"));
  manifest.passes[1].confidence = {2, 5};
  const std::string json = toJson(manifest);
  EXPECT_EQ(nlohmann::json::parse(json)["passes"][1]["exact"]["confidence"],
            "2/5");
  const Manifest back = readBack(manifest);
  EXPECT_EQ(back.passes[1].confidence, (Ratio{2, 5}));
}

TEST(Manifest, ADrawnOrderRoundTripsThroughJson) {
  Manifest manifest = testRowsManifest();
  manifest.commit = {};
  manifest.commit.kind = CommitRule::Kind::RandomOrder;
  manifest.positions.push_back({Positions::Kind::Next, 0, {}, {}, "taken"});
  manifest.positions.push_back(
      {Positions::Kind::Neighbors, 3, {}, {10, 1}, {}});
  manifest.positions.push_back({Positions::Kind::Nearest, 2, {}, {10, 1}, {}});
  const Manifest back = readBack(manifest);
  EXPECT_EQ(back.positions, manifest.positions);
  EXPECT_EQ(back.commit.kind, CommitRule::Kind::RandomOrder);
  EXPECT_FALSE(back.computesAll());
  Manifest dense = testManifest();
  EXPECT_TRUE(dense.computesAll());
  dense.commit.kind = CommitRule::Kind::RandomOrder;
  EXPECT_FALSE(dense.computesAll());
}

TEST(Manifest, RulesOfSomeStepsRoundTripThroughJson) {
  Manifest manifest = testRowsManifest();
  const Cadence phase = manifest.passes[0].when[0].cadence;
  using Kind = Positions::Kind;
  manifest.selections.clear();
  manifest.kernels.erase(manifest.kernels.begin() + 1, manifest.kernels.end());
  manifest.rules[0].phases = {{{When::Kind::Otherwise, {}}, 0, -1, -1, {}}};
  manifest.positions.push_back({Kind::Hull, 0, {}, {4}, {}});
  manifest.positions.push_back({Kind::Leading, 0, {}, {2}, {}});
  manifest.positions.push_back({Kind::Predicting, 0, {}, {7}, {}});
  manifest.positions.push_back({Kind::Except, 0, {}, {7, 4}, {}});
  manifest.positions.push_back({Kind::Last, 2, {}, {7}, {}});
  manifest.positions.push_back({Kind::Confident, 2, {}, {7}, "sure"});
  manifest.positions.push_back({Kind::Confident, 2, {}, {7}, "", 10});
  manifest.allVisible = phase;
  manifest.passes[1].rows = 12;
  manifest.passes[1].alone = manifest.passes[1].unseen = true;
  manifest.passes[1].exact = Pass::Exact::All;
  manifest.passes[1].when.pop_back();
  manifest.passes[1].when[0] = {When::Kind::On, phase};
  manifest.commit.lastAlone = true;
  manifest.commit.narrows = true;
  manifest.commit.leastPasses = 2;
  DatedCommit dated;
  dated.when = {{When::Kind::On, phase}};
  dated.rule.kind = CommitRule::Kind::Best;
  dated.rule.count = 3;
  dated.rule.within = 10;
  dated.rule.stopAtEos = true;
  manifest.datedCommits = {dated, dated};
  manifest.datedCommits[1].rule = {};
  manifest.datedCommits[1].rule.kind = CommitRule::Kind::Timesteps;
  const std::string json = toJson(manifest);
  const Manifest back = readBack(manifest);
  EXPECT_EQ(back.positions, manifest.positions);
  EXPECT_EQ(back.allVisible, manifest.allVisible);
  EXPECT_TRUE(back.passes[1].alone);
  EXPECT_FALSE(back.passes[0].alone);
  EXPECT_TRUE(back.passes[1].unseen);
  EXPECT_FALSE(back.passes[0].unseen);
  EXPECT_FALSE(nlohmann::json::parse(json)["passes"][0].contains("unseen"));
  EXPECT_EQ(back.commit, manifest.commit);
  ASSERT_EQ(back.datedCommits.size(), 2u);
  EXPECT_EQ(back.datedCommits[0].when, dated.when);
  EXPECT_EQ(back.datedCommits[0].rule, dated.rule);
  EXPECT_EQ(back.datedCommits[1].rule.kind, CommitRule::Kind::Timesteps);

  Manifest dense = testManifest();
  dense.datedCommits = {dated};
  EXPECT_FALSE(dense.computesAll());

  auto refused = [&](auto &&change, const std::string &wanted) {
    EXPECT_TRUE(says(refusal(manifest, change), wanted));
  };
  const nlohmann::json sets = nlohmann::json::parse(json)["positions"];
  EXPECT_FALSE(sets[sets.size() - 2].contains("near"));
  EXPECT_EQ(definitionOf(back, std::ssize(sets) - 1).substr(0, 27),
            "confident(2, near = 10) of ");
  for (int64_t near : {int64_t(0), maxNear + 1})
    refused([&](auto &j) { j["positions"].back()["near"] = near; },
            "].near: " + std::to_string(near) + " is out of range");
  refused([](auto &j) { j["dated_commits"][0]["when"] = {}; },
          "dated_commits[0].when");
  refused([](auto &j) { j["dated_commits"][0]["count"] = 0; },
          "dated_commits[0].count");
  refused([](auto &j) { j["dated_commits"][1]["least_passes"] = 2; },
          "dated_commits[1]: the field");
  refused([](auto &j) { j["dated_commits"][1]["narrows"] = true; },
          "dated_commits[1]: narrows");
  refused([](auto &j) { j["commit"]["least_passes"] = 0; },
          "commit.least_passes");
  refused([](auto &j) { j["commit"]["stop_at_eos"] = false; },
          "commit: narrows");
  refused([](auto &j) { j["all_visible"]["period"] = 16; },
          "visible: shows all positions on");
  refused([](auto &j) { j["passes"][1]["alone"] = false; }, "passes[1]: names");
  refused([](auto &j) { j["passes"][1]["unseen"] = 1; }, "passes[1].unseen");
  refused([](auto &j) { j["passes"][1]["rows"] = -1; },
          "passes[1]: computes all visible rows");
  refused(
      [](auto &j) {
        j["kernels"][0]["terms"].push_back({{"kind", "window"}, {"size", 4}});
      },
      "must be dense where rows that are not visible are computed");
  refused([](auto &j) { j["positions"][12]["of"] = {4, 5}; },
          "positions[12]: is made of exactly one");
}

TEST(Manifest, SaysWhatIsRevokedWhereSomethingIs) {
  Manifest manifest = testManifest();
  EXPECT_EQ(toJson(manifest).find("revoke_below"), std::string::npos)
      << "older readers take bundles that do not revoke";
  manifest.commit.revokeBelow = {9, 10};
  const Manifest back = readBack(manifest);
  EXPECT_EQ(back.commit, manifest.commit);
  EXPECT_FALSE(back.computesAll());
  auto refused = [&](const char *field, const char *value) {
    return refusal(manifest,
                   [&](Json &json) { json["commit"][field] = value; });
  };
  EXPECT_EQ(refused("revoke_below", "1/1"), "");
  EXPECT_TRUE(says(refused("revoke_below", "0/1"), "commit.revoke_below"));
  EXPECT_TRUE(says(refused("revoke_below", "3/2"), "commit.revoke_below"));
  EXPECT_TRUE(says(refused("kind", "random_order"), "commit: revokes tok"));
}

TEST(Manifest, SaysWhatLiftsConfidencesWhereSomethingDoes) {
  Manifest manifest = testManifest();
  EXPECT_FALSE(Json::parse(toJson(manifest))["commit"].contains("near"))
      << "older readers take bundles whose commits lift none";
  manifest.commit.near = 10;
  const Manifest back = readBack(manifest);
  EXPECT_EQ(back.commit, manifest.commit);
  EXPECT_FALSE(back.computesAll());
  auto refused = [&](const char *field, auto value) {
    return refusal(manifest,
                   [&](Json &json) { json["commit"][field] = value; });
  };
  EXPECT_EQ(refused("near", 1024), "");
  EXPECT_TRUE(says(refused("near", 0), "commit.near"));
  EXPECT_TRUE(says(refused("near", 1025), "commit.near"));
  EXPECT_TRUE(says(refused("kind", "random_order"), "commit: goes by an ord"));
}

TEST(Manifest, SaysWhatIsEditedWhereSomethingIs) {
  Manifest manifest = testManifest();
  const std::string without = toJson(manifest);
  EXPECT_EQ(without.find("edit_above"), std::string::npos)
      << "older readers take bundles that do not edit";
  EXPECT_EQ(without.find("further_passes"), std::string::npos);
  manifest.commit.editAbove = {1, 2};
  EXPECT_EQ(toJson(manifest).find("further_passes"), std::string::npos);
  manifest.commit.furtherPasses = 16;
  const Manifest back = readBack(manifest);
  EXPECT_EQ(back.commit, manifest.commit);
  EXPECT_FALSE(back.computesAll());
  auto refused = [&](auto change, const char *expected) {
    const auto edit = [&](Json &json) { change(json["commit"]); };
    EXPECT_TRUE(says(refusal(manifest, edit), expected));
  };
  refused([](auto &j) { j["edit_above"] = "0/1"; }, "commit.edit_above");
  refused([](auto &j) { j["edit_above"] = "3/2"; }, "commit.edit_above");
  refused([](auto &j) { j["further_passes"] = 0; }, "commit.further_passes");
  refused([](auto &j) { j["further_passes"] = 1025; }, "commit.further_passes");
  refused([](auto &j) { j.erase("edit_above"); }, "further_passes");
}

TEST(Manifest, SaysThatMasksAreNoiseWhereTheyAre) {
  Manifest manifest = testManifest();
  EXPECT_EQ(toJson(manifest).find("renoises"), std::string::npos)
      << "older readers take bundles without noise";
  manifest.commit.renoises = true;
  const Manifest back = readBack(manifest);
  EXPECT_EQ(back.commit, manifest.commit);
  EXPECT_FALSE(back.computesAll());
  EXPECT_TRUE(says(
      refusal(manifest, [](Json &json) { json["commit"]["renoises"] = 1; }),
      "commit.renoises"));
}

TEST(Manifest, SaysWhatIsDraftedWhereSomethingIs) {
  Manifest manifest = testManifest();
  EXPECT_EQ(toJson(manifest).find("drafts"), std::string::npos)
      << "older readers take bundles that do not verify";
  manifest.commit.drafts = 3;
  const Manifest back = readBack(manifest);
  EXPECT_EQ(back.commit, manifest.commit);
  EXPECT_FALSE(back.computesAll());
  auto refused = [&](const char *field, const Json &value) {
    return refusal(manifest,
                   [&](Json &json) { json["commit"][field] = value; });
  };
  EXPECT_EQ(refused("drafts", maxDrafts), "");
  for (int64_t bad : {int64_t(0), maxDrafts + 1})
    EXPECT_TRUE(says(refused("drafts", bad), "commit.drafts"));
  EXPECT_TRUE(
      says(refused("kind", "random_order"), "commit: goes by a drawn ord"));
  // No schedule says so, a bundle might.
  for (When::Kind kind : {When::Kind::On, When::Kind::Before}) {
    Phase drifting = manifest.rules[0].phases[0];
    drifting.when.kind = kind;
    drifting.when.cadence.kind = Cadence::Kind::Drift;
    drifting.when.cadence.fraction = {1, 2};
    drifting.when.cadence.period = 4;
    Manifest changed = manifest;
    changed.rules[0].phases[0] = drifting;
    std::optional<ProgramProblem> problem = checkDrafts(changed);
    ASSERT_EQ(problem.has_value(), kind == When::Kind::On);
    if (problem)
      EXPECT_TRUE(says(problem->what,
                       "a phase runs on drift(below = 0.5, within = 4)"));
  }
}

TEST(Manifest, PicksTheEncodingOfARun) {
  Target target = testCudaManifest().targets[1];
  EXPECT_EQ(encodingFor(target, 65536), Encoding::Uint16);
  EXPECT_EQ(encodingFor(target, 65537), Encoding::Int32);
  target.encodings = {Encoding::Uint16};
  EXPECT_EQ(encodingFor(target, 65537), std::nullopt);
  target.encodings = {Encoding::Bitmap, Encoding::Int32};
  EXPECT_EQ(encodingFor(target, 1 << 20), Encoding::Bitmap);
}

TEST(Manifest, FindsTheHost) {
  Manifest manifest = testCudaManifest();
  EXPECT_EQ(hostTarget(manifest), 0);
  std::swap(manifest.targets[0], manifest.targets[1]);
  EXPECT_EQ(hostTarget(manifest), 1);
  EXPECT_EQ(toString(manifest.targets),
            "sm_90a; x86_64-unknown-linux-gnu, x86-64-v3");
  manifest.targets.pop_back();
  EXPECT_EQ(hostTarget(manifest), -1);
}

TEST(Manifest, EveryCadenceRoundTrips) {
  std::vector<Cadence> all(10);
  all[1] = inBlock(every(4, 3));
  all[2] = first(3);
  all[3].kind = Cadence::Kind::At;
  all[3].fraction = {1, 5};
  all[4] = atStep(12);
  all[5].kind = Cadence::Kind::Uniform;
  all[6].kind = Cadence::Kind::Random;
  all[6].seed = -5;
  all[7].kind = Cadence::Kind::Power;
  all[8] = all[7];
  all[8].afterEos = true;
  all[9].kind = Cadence::Kind::Drift;
  all[9].period = 8;
  all[9].inBlock = true;
  all[9].layer = -3;
  all[9].attention = true;
  for (Cadence &cadence : all) {
    if (&cadence >= &all[5]) {
      cadence.fraction = {3, 10};
      cadence.count = cadence.kind == Cadence::Kind::Drift ? 0 : 16;
    }
    Manifest manifest = testManifest();
    manifest.selections[0].cadence = cadence;
    manifest.rules[0].phases[0].when.cadence = cadence;
    if (!includesFirst(cadence))
      manifest.rules[0].phases[1].when.cadence = cadence;
    setMeasures(manifest);
    Result<Manifest> back = manifestFromJson(toJson(manifest));
    ASSERT_TRUE(back) << back.error().text();
    EXPECT_EQ(back->selections[0].cadence, cadence);
    EXPECT_EQ(back->rules[0].phases[0].when.cadence, cadence);
  }
}

TEST(Manifest, RefusesWhatIsNoManifest) {
  for (const char *text :
       {"", "{", "[]", "null", "7", "\"x\"", "{}", "{\"abi\":3}", "\xff\xfe"})
    EXPECT_FALSE(manifestFromJson(text)) << text;
  EXPECT_FALSE(manifestFromJson(std::string(100000, '[')));
  Result<Manifest> twice = manifestFromJson("{\"abi\": 1, \"abi\": 1}");
  ASSERT_FALSE(twice);
  EXPECT_TRUE(says(twice.error().text(), "an object has the key 'abi' twice"));
  // So many keys would be searched one by one.
  std::string keys = "{\"abi\": 1";
  for (int i = 0; i < 100'000; ++i)
    keys += ", \"" + std::to_string(i) + "\": 1";
  Result<Manifest> many = manifestFromJson(keys + "}");
  ASSERT_FALSE(many);
  EXPECT_TRUE(says(many.error().text(), "an object has more than 256 keys"));
  // Nor are all objects of a list gone over for each.
  std::string rules = "{\"abi\": 1, \"rules\": [{}";
  for (int i = 0; i < 200'000; ++i)
    rules += ", {}";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(manifestFromJson(rules + "]}"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

} // namespace
