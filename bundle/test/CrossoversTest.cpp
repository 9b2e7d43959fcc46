//===- CrossoversTest.cpp - Above which share dense attention gains -------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/format/Crossovers.h"

#include "gtest/gtest.h"

using namespace heddle;
using namespace heddle::bundle;

namespace {

std::string tableOf(const std::string &entries) {
  return "{\"dense_above\": [" + entries + "]}";
}

std::string refusal(const std::string &text) {
  auto table = crossoversFromJson(text);
  return table ? "" : table.error().text();
}

constexpr const char *entry =
    R"({"target": "sm_90a", "lists": "columns", "group": 32, "percent": 36})";

TEST(Crossovers, TablesAreRead) {
  auto table = crossoversFromJson(tableOf(entry));
  ASSERT_TRUE(table) << table.error().text();
  ASSERT_EQ(table->size(), 1u);
  EXPECT_EQ(table->front().target, "sm_90a");
  EXPECT_EQ(table->front().lists, Selection::Kind::Columns);
  EXPECT_EQ(table->front().group, 32);
  EXPECT_EQ(table->front().percent, 36);
}

TEST(Crossovers, TablesAreRefused) {
  const std::string head = "a table of crossovers";
  EXPECT_EQ(refusal(""), head + " has 0 bytes, expected 1 to 1048576");
  const std::string syntax = refusal("{\n[");
  EXPECT_TRUE(syntax.starts_with(head + " is no JSON: parse error at line 2, "
                                        "column 1: "))
      << syntax;
  EXPECT_EQ(refusal("{}"), head + ": the field \"dense_above\" is missing");
  EXPECT_EQ(refusal(tableOf(std::string(entry) + "," + entry)),
            head + ": dense_above[1]: an entry before is of the same target, "
                   "lists and group; leave one of them out");
  auto with = [](const std::string &from, const std::string &to) {
    std::string text = entry;
    text.replace(text.find(from), from.size(), to);
    return refusal(tableOf(text));
  };
  EXPECT_EQ(with("36", "0"), head + ": dense_above[0].percent: 0 is out of "
                                    "range, expected 1 to 100");
  EXPECT_EQ(with("36", "101"), head + ": dense_above[0].percent: 101 is out of "
                                      "range, expected 1 to 100");
  EXPECT_EQ(with("32", "48"),
            head + ": dense_above[0].group: 48 is no power of two (P2)");
  const std::string kind = with("columns", "rows");
  EXPECT_TRUE(kind.starts_with(head + ": dense_above[0].lists: \"rows\" is "
                                      "unknown"))
      << kind;
  EXPECT_EQ(with("\"percent\"", "\"share\": 1, \"percent\""),
            head + ": dense_above[0]: the field \"share\" is not known to this "
                   "build");
  EXPECT_EQ(with("percent", "share"),
            head + ": dense_above[0]: the field \"percent\" is missing");
  EXPECT_EQ(with("percent", "percnt"),
            head + ": dense_above[0]: the field \"percnt\" is not known, and "
                   "\"percent\" is missing; did you mean that?");
  EXPECT_EQ(refusal("{\"dens_above\": []}"),
            head + ": the field \"dens_above\" is not known, and "
                   "\"dense_above\" is missing; did you mean that?");
}

/// What was measured has an entry, nothing else (docs/Performance.md), and
/// longer groups gain up to larger shares.
TEST(Crossovers, TheBuiltInTableIsWhatWasMeasured) {
  auto percent = [](const char *target, Selection::Kind kind, int64_t group) {
    const Crossover *found =
        findCrossover(measuredCrossovers(), target, kind, group);
    return found ? found->percent : 0;
  };
  int64_t before = 0;
  for (int64_t group : {32, 64, 128}) {
    const int64_t own = percent("sm_90a", Selection::Kind::Columns, group);
    EXPECT_GT(own, before);
    before = own;
  }
  EXPECT_GT(percent("sm_90a", Selection::Kind::Blocks, 128), 0);
  for (int64_t group : {32, 64})
    EXPECT_EQ(percent("sm_90a", Selection::Kind::Blocks, group), 0);
  for (const char *other : {"sm_80", "znver5"})
    EXPECT_EQ(percent(other, Selection::Kind::Columns, 32), 0);
}

class FallsBack : public testing::Test {
protected:
  FallsBack() {
    targets.front().cpu = "sm_90a";
    keepHalf();
  }
  void keepHalf() {
    selection = {};
    selection.keep = {1, 2};
    selection.group = 32;
    reads = {};
    reads.read = true;
  }
  /// The share, or why there is none.
  std::string share() const {
    auto above = fallsBackAbove(table, targets, selection, reads);
    return above ? std::to_string(above->num) + "/" + std::to_string(above->den)
                 : above.error().text();
  }
  std::vector<Crossover> table = measuredCrossovers();
  std::vector<Target> targets = std::vector<Target>(1);
  Selection selection;
  ListReads reads;
};

TEST_F(FallsBack, AboveTheShareAlone) {
  EXPECT_EQ(share(), "9/25");
  selection.keep = {9, 25};
  EXPECT_EQ(share(), "keeps no more than the 36% above which dense attention "
                     "takes less time on sm_90a");
  selection.keep = {36001, 100000};
  EXPECT_EQ(share(), "9/25");
  selection.group = 64;
  EXPECT_EQ(share(), "keeps no more than the 71% above which dense attention "
                     "takes less time on sm_90a");
  selection.kind = Selection::Kind::Blocks;
  selection.group = 128;
  selection.keep = {9, 10};
  EXPECT_EQ(share(), "83/100");
}

TEST_F(FallsBack, OnAllTargetsOrOnNone) {
  selection.keep = {1, 1};
  targets.emplace_back().cpu = "znver5";
  EXPECT_EQ(share(), "has lists that were not measured on znver5");
  table.push_back({"znver5", Selection::Kind::Columns, 32, 97});
  EXPECT_EQ(share(), "97/100");
  selection.keep = {9, 10};
  EXPECT_EQ(share(), "keeps no more than the 97% above which dense attention "
                     "takes less time on znver5");
  targets.back().cpu = "sapphirerapids";
  EXPECT_EQ(share(), "has lists that were not measured on sapphirerapids");
}

TEST_F(FallsBack, NotWhereThatIsNotKnown) {
  auto says = [&](const char *what) {
    const std::string why = share();
    EXPECT_NE(why.find(what), std::string::npos) << why;
    keepHalf();
  };
  selection.count = 4096;
  says("a number of keys");
  selection.within = 0;
  says("what another one lists");
  selection.isolation = Selection::Isolation::Filtered;
  says("more or fewer of the prompt's blocks");
  selection.perKvHead = true;
  says("lists that heads share");
  selection.perLayer = true;
  says("lists that heads share");
  selection.group = 16;
  says("not measured on sm_90a");
  reads.read = false;
  says("is not attended to");
  reads.bounded = true;
  says("within other sets");
  reads.scored = true;
  says("a function of logits");
  reads.someRows = true;
  says("steps of some rows");
  reads.staged = true;
  says("at once before or after others");
}

} // namespace
