//===- PositionSetsTest.cpp - Sets of positions at a step -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/schedule/PositionSets.h"

#include "runtime/test/schedule/Tensors.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::rt;
using bundle::Positions;
using List = std::vector<int32_t>;

namespace {

Positions make(Positions::Kind kind, int64_t count = 0,
               std::vector<int64_t> of = {}) {
  Positions positions;
  positions.kind = kind;
  positions.count = count;
  positions.of = std::move(of);
  return positions;
}

bundle::Cadence every(int64_t period, int64_t from = 1) {
  bundle::Cadence cadence;
  cadence.kind = bundle::Cadence::Kind::Every;
  cadence.period = period;
  cadence.from = from;
  return cadence;
}

List at(const PositionSets &sets, int64_t set) {
  auto found = sets.at(set);
  EXPECT_TRUE(found) << found.error().text();
  return found ? List(found->begin(), found->end()) : List{-1};
}

using Kind = Positions::Kind;

/// Sets of a manifest over 12 positions, the first two the prompt, of which 3,
/// 6 and 9 are decoded. Masked: 2 4 5 7 8 10 11. The sets 2, 3 and 4 take one,
/// two and three of these near set 0, what is next.
struct AroundNext {
  explicit AroundNext(std::vector<Positions> positions)
      : manifest(holding(std::move(positions))) {
    sets.beginRun(states.shapes[0]);
    for (int64_t position : {3, 6, 9})
      states.commit(0, position, 1);
  }
  static bundle::Manifest holding(std::vector<Positions> positions) {
    bundle::Manifest manifest;
    manifest.positions = std::move(positions);
    return manifest;
  }
  void check(List next, const List &one, const List &two, const List &three) {
    states.next[0] = next;
    ASSERT_TRUE(sets.beginStep(states.at(0, bundle::plannedPlace(2, 8, 0))));
    EXPECT_EQ(at(sets, 2), one);
    EXPECT_EQ(at(sets, 3), two);
    EXPECT_EQ(at(sets, 4), three);
    std::sort(next.begin(), next.end());
    EXPECT_EQ(at(sets, 0), next);
  }

  bundle::Manifest manifest;
  PositionSets sets{manifest};
  test::States states{{{12, 2}}};
};

} // namespace

TEST(PositionSets, WorkedExample) {
  bundle::Manifest manifest;
  manifest.positions = {make(Kind::All),
                        make(Kind::Prompt),
                        make(Kind::Response),
                        make(Kind::Decoded),
                        make(Kind::Undecoded),
                        make(Kind::Undecoded, 2),
                        make(Kind::Committed, 1),
                        make(Kind::Committed, 2),
                        make(Kind::Union, 0, {1, 5}),
                        make(Kind::Intersect, 0, {2, 3}),
                        make(Kind::Except, 0, {4, 5}),
                        make(Kind::Except, 0, {5, 4}),
                        make(Kind::Last, 2, {4}),
                        make(Kind::Last, 9, {5}),
                        make(Kind::Last, 1, {11})};
  PositionSets sets(manifest);
  test::States states({{8, 3}});
  sets.beginRun(states.shapes[0]);
  states.commit(0, 4, 1);
  states.commit(0, 6, 2);
  ASSERT_TRUE(sets.beginStep(states.at(0, bundle::plannedPlace(3, 8, 0))));
  EXPECT_EQ(at(sets, 0), (List{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(at(sets, 1), (List{0, 1, 2}));
  EXPECT_EQ(at(sets, 2), (List{3, 4, 5, 6, 7}));
  EXPECT_EQ(at(sets, 3), (List{0, 1, 2, 4, 6}));
  EXPECT_EQ(at(sets, 4), (List{3, 5, 7}));
  EXPECT_EQ(at(sets, 5), (List{3, 5}));
  EXPECT_EQ(at(sets, 6), (List{6}));
  EXPECT_EQ(at(sets, 7), (List{4, 6}));
  EXPECT_EQ(at(sets, 8), (List{0, 1, 2, 3, 5}));
  EXPECT_EQ(at(sets, 9), (List{4, 6}));
  EXPECT_EQ(at(sets, 10), (List{7}));
  EXPECT_EQ(at(sets, 11), List{});
  EXPECT_EQ(at(sets, 12), (List{5, 7}));
  EXPECT_EQ(at(sets, 13), (List{3, 5}));
  EXPECT_EQ(at(sets, 14), List{});
  EXPECT_EQ(sets.bound(11, {100, 20}), 2);
  EXPECT_EQ(sets.bound(12, {100, 20}), 2);
  EXPECT_EQ(sets.bound(13, {100, 20}), 2);
  EXPECT_TRUE(sets.holds(9, 6));
  EXPECT_FALSE(sets.holds(9, 5));
}

TEST(PositionSets, SetsOfOneSet) {
  bundle::Manifest manifest;
  manifest.positions = {make(Kind::Undecoded, 2),
                        make(Kind::Undecoded),
                        make(Kind::Hull, 0, {0}),
                        make(Kind::Leading, 0, {1}),
                        make(Kind::Predicting, 0, {0}),
                        make(Kind::Committed, 1),
                        make(Kind::Hull, 0, {5}),
                        make(Kind::Leading, 0, {5}),
                        make(Kind::All),
                        make(Kind::Predicting, 0, {8})};
  for (bool shifted : {false, true}) {
    PositionSets sets(manifest, shifted);
    test::States states({{8, 3}});
    sets.beginRun(states.shapes[0]);
    states.commit(0, 4, 1);
    states.commit(0, 6, 1);
    ASSERT_TRUE(sets.beginStep(states.at(0, bundle::plannedPlace(3, 8, 0))));
    EXPECT_EQ(at(sets, 2), (List{3, 4, 5}));
    EXPECT_EQ(at(sets, 3), (List{0, 1, 2}));
    EXPECT_EQ(at(sets, 4), shifted ? (List{2, 4}) : (List{3, 5}));
    EXPECT_EQ(at(sets, 6), List{});
    EXPECT_EQ(at(sets, 7), List{});
    EXPECT_EQ(at(sets, 9), shifted ? (List{0, 1, 2, 3, 4, 5, 6})
                                   : (List{0, 1, 2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(sets.bound(2, {100, 20}), 100);
    EXPECT_EQ(sets.bound(3, {100, 20}), 80);
    EXPECT_EQ(sets.bound(4, {100, 20}), 2);
  }
}

TEST(PositionSets, WhatStandsBehindTheTextIsNeitherDecodedNorToBe) {
  bundle::Manifest manifest;
  manifest.positions = {make(Kind::Undecoded), make(Kind::Undecoded, 2),
                        make(Kind::Decoded), make(Kind::Response),
                        make(Kind::Committed, 3)};
  PositionSets sets(manifest);
  test::States states({{8, 3}});
  sets.beginRun(states.shapes[0]);
  states.commit(0, 4, 1);
  states.commit(0, 6, 1);
  SequenceState state = states.at(0, bundle::plannedPlace(2, 8, 0));
  for (auto [end, undecoded, first, decoded, committed] :
       {std::tuple(8, List{3, 5, 7}, List{3, 5}, List{0, 1, 2, 4, 6},
                   List{4, 6}),
        std::tuple(7, List{3, 5}, List{3, 5}, List{0, 1, 2, 4, 6}, List{4, 6}),
        std::tuple(5, List{3}, List{3}, List{0, 1, 2, 4}, List{4}),
        std::tuple(3, List{}, List{}, List{0, 1, 2}, List{})}) {
    state.textEnd = end;
    ASSERT_TRUE(sets.beginStep(state));
    EXPECT_EQ(at(sets, 0), undecoded);
    EXPECT_EQ(at(sets, 1), first);
    EXPECT_EQ(at(sets, 2), decoded);
    EXPECT_EQ(at(sets, 3), (List{3, 4, 5, 6, 7}));
    EXPECT_EQ(at(sets, 4), committed);
  }
}

TEST(PositionSets, ThePromptWasNeverCommitted) {
  bundle::Manifest manifest;
  manifest.positions = {make(Kind::Committed, 5), make(Kind::Committed)};
  manifest.positions[1].cadence = every(3);
  PositionSets sets(manifest);
  test::States states({{4, 2}});
  sets.beginRun(states.shapes[0]);
  for (int64_t step : {1, 2}) {
    ASSERT_TRUE(sets.beginStep(states.at(0, bundle::plannedPlace(step, 4, 0))));
    EXPECT_EQ(at(sets, 0), List{});
    EXPECT_EQ(at(sets, 1), List{});
  }
}

TEST(PositionSets, RememberACadencesLatestStep) {
  // decoded, fixed on steps 2, 5; committed since then.
  bundle::Manifest manifest;
  manifest.positions = {make(Kind::Decoded), make(Kind::Fixed, 0, {0}),
                        make(Kind::Committed), make(Kind::Union, 0, {2, 1})};
  manifest.positions[1].cadence = manifest.positions[2].cadence = every(3, 2);
  PositionSets sets(manifest);
  test::States states({{8, 1}});
  sets.beginRun(states.shapes[0]);
  const std::vector<List> fixed = {{}, {0, 1}, {0, 1}, {0, 1}, {0, 1, 2, 3, 4}};
  const std::vector<List> since = {{}, {}, {2}, {2, 3}, {}};
  for (int64_t step = 1; step <= 5; ++step) {
    SCOPED_TRACE(step);
    ASSERT_TRUE(sets.beginStep(states.at(0, bundle::plannedPlace(step, 8, 0))));
    EXPECT_EQ(at(sets, 2), since[step - 1]);
    if (step == 1) {
      for (int64_t set : {1, 3}) {
        auto unknown = sets.at(set);
        ASSERT_FALSE(unknown);
        EXPECT_NE(unknown.error().text().find("every(3, from = 2)"),
                  std::string::npos)
            << unknown.error().text();
      }
    } else {
      EXPECT_EQ(at(sets, 1), fixed[step - 1]);
    }
    states.commit(0, step, step);
  }
  sets.beginRun(states.shapes[0]);
  ASSERT_TRUE(sets.beginStep(states.at(0, bundle::plannedPlace(1, 8, 0))));
  EXPECT_FALSE(sets.at(1)) << "a run remembers nothing of the one before";
}

TEST(PositionSets, FollowTheBlock) {
  bundle::Manifest manifest;
  manifest.positions = {make(Kind::Block), make(Kind::BeforeBlock),
                        make(Kind::FromBlock)};
  PositionSets sets(manifest);
  test::States states({{7, 1}});
  sets.beginRun(states.shapes[0]);
  SequenceState state = states.at(0, {});
  state.blockBegin = 3;
  state.blockEnd = 5;
  ASSERT_TRUE(sets.beginStep(state));
  EXPECT_EQ(at(sets, 0), (List{3, 4}));
  EXPECT_EQ(at(sets, 1), (List{0, 1, 2}));
  EXPECT_EQ(at(sets, 2), (List{3, 4, 5, 6}));
}

TEST(PositionSets, NeighborsAreTakenLeftAndRightInTurn) {
  AroundNext around({
      make(Kind::Next),
      make(Kind::Undecoded),
      make(Kind::Neighbors, 1, {0, 1}),
      make(Kind::Neighbors, 2, {0, 1}),
      make(Kind::Neighbors, 3, {0, 1}),
      make(Kind::Neighbors, 9, {0, 1}),
      make(Kind::Neighbors, 2, {1, 1}),
      make(Kind::Prompt),
      make(Kind::Neighbors, 1, {7, 1}), // they are not of the set themselves
      make(Kind::Neighbors, 1, {0, 7}),
  });
  around.check({7}, {5}, {5, 8}, {4, 5, 8});
  EXPECT_EQ(at(around.sets, 5), (List{2, 4, 5, 8, 10, 11}));
  EXPECT_EQ(at(around.sets, 6), (List{2, 4, 5, 7, 8, 10, 11}));
  EXPECT_EQ(at(around.sets, 8), (List{2}));
  EXPECT_EQ(at(around.sets, 9), (List{1}));
  around.check({2}, {4}, {4, 5}, {4, 5, 7});
  around.check({11}, {10}, {8, 10}, {7, 8, 10});
  around.check({5, 7}, {4, 5}, {4, 5, 7, 8}, {2, 4, 5, 7, 8});
  around.check({}, {}, {}, {});
  EXPECT_EQ(around.sets.bound(0, {100, 20}), 80);
  EXPECT_EQ(around.sets.bound(3, {100, 20}), 80);
  EXPECT_EQ(around.sets.bound(8, {100, 20}), 20);
}

TEST(PositionSets, TheNearestAreTakenOnceInTurn) {
  AroundNext around({
      make(Kind::Next),
      make(Kind::Undecoded),
      make(Kind::Nearest, 1, {0, 1}),
      make(Kind::Nearest, 2, {0, 1}),
      make(Kind::Nearest, 3, {0, 1}),
      make(Kind::Nearest, 2, {1, 1}),
      make(Kind::Prompt),
      make(Kind::Nearest, 1, {6, 1}), // they are not of the set themselves
      make(Kind::Union, 0, {0, 0}),
      make(Kind::Nearest, 2, {8, 1}), // from the left, whatever is drawn
  });
  around.check({7}, {8}, {5, 8}, {4, 5, 8});
  EXPECT_EQ(at(around.sets, 5), List{});
  EXPECT_EQ(at(around.sets, 7), (List{2, 4}));
  around.check({2}, {4}, {4, 5}, {4, 5, 7});
  around.check({11}, {10}, {8, 10}, {7, 8, 10});
  around.check({5, 7}, {4, 8}, {2, 4, 8, 10}, {2, 4, 8, 10, 11});
  around.check({5, 8}, {4, 7}, {4, 7, 10, 11}, {2, 4, 7, 10, 11});
  around.check({8, 5}, {4, 7}, {2, 4, 7, 10}, {2, 4, 7, 10, 11});
  EXPECT_EQ(at(around.sets, 9), (List{4, 7, 10, 11}));
  around.check({}, {}, {}, {});
  EXPECT_EQ(around.sets.bound(3, {100, 20}), 80);
  EXPECT_EQ(around.sets.bound(7, {100, 20}), 20);
}

TEST(PositionSets, TheSurestOfASet) {
  bundle::Manifest manifest;
  manifest.positions = {make(Kind::All),
                        make(Kind::Single, 5),
                        make(Kind::Except, 0, {0, 1}),
                        make(Kind::Confident, 1, {0}),
                        make(Kind::Confident, 2, {0}),
                        make(Kind::Confident, 4, {0}),
                        make(Kind::Confident, 9, {0}),
                        make(Kind::Confident, 2, {2}),
                        make(Kind::Prompt),
                        make(Kind::Confident, 2, {8})};
  PositionSets sets(manifest);
  test::States states({{10, 2}});
  sets.beginRun(states.shapes[0]);
  auto begin = [&](int64_t step) {
    return sets.beginStep(states.at(0, bundle::plannedPlace(step, 8, 0)));
  };
  // Nothing is predicted yet: the first ones.
  ASSERT_TRUE(begin(1));
  EXPECT_EQ(at(sets, 3), (List{2}));
  EXPECT_EQ(at(sets, 4), (List{2, 3}));
  EXPECT_EQ(at(sets, 5), (List{2, 3, 4, 5}));
  EXPECT_EQ(at(sets, 6), (List{2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(at(sets, 9), List{});
  // Of equals the lower one; negative ones (entropies) before none.
  std::vector<double> &sure = states.confidence[0];
  sure[5] = 0.75;
  sure[7] = 0.5;
  sure[4] = 0.5;
  sure[9] = -3;
  ASSERT_TRUE(begin(2));
  EXPECT_EQ(at(sets, 3), (List{5}));
  EXPECT_EQ(at(sets, 4), (List{4, 5}));
  EXPECT_EQ(at(sets, 5), (List{4, 5, 7, 9}));
  EXPECT_EQ(at(sets, 7), (List{4, 7}));
  // What became a token is none of them, nor what stands behind the text.
  states.commit(0, 5, 2);
  ASSERT_TRUE(begin(3));
  EXPECT_EQ(at(sets, 4), (List{4, 7}));
  EXPECT_EQ(at(sets, 5), (List{2, 4, 7, 9}));
  SequenceState state = states.at(0, bundle::plannedPlace(4, 8, 0));
  state.textEnd = 7;
  ASSERT_TRUE(sets.beginStep(state));
  EXPECT_EQ(at(sets, 4), (List{2, 4}));
  // Nobody says what was predicted.
  state.confidence = {};
  ASSERT_TRUE(sets.beginStep(state));
  EXPECT_EQ(at(sets, 4), (List{2, 3}));
  EXPECT_EQ(sets.bound(4, {100, 20}), 2);
  EXPECT_EQ(sets.bound(9, {100, 1}), 1);
  EXPECT_EQ(sets.bound(6, {6, 2}), 4);
}

TEST(PositionSets, TheSurestByWhatIsDecodedNear) {
  bundle::Manifest manifest;
  manifest.positions = {make(Kind::All), make(Kind::Confident, 1, {0}),
                        make(Kind::Confident, 1, {0}),
                        make(Kind::Confident, 2, {0}),
                        make(Kind::Confident, 1, {0})};
  manifest.positions[2].near = manifest.positions[3].near = 1;
  manifest.positions[4].near = 20;
  PositionSets sets(manifest);
  test::States states({{20, 2}});
  sets.beginRun(states.shapes[0]);
  auto begin = [&](int64_t step) {
    return sets.beginStep(states.at(0, bundle::plannedPlace(step, 8, 0)));
  };
  // Nothing is predicted: from left to right.
  ASSERT_TRUE(begin(1));
  EXPECT_EQ(at(sets, 3), (List{2, 3}));
  std::vector<double> &sure = states.confidence[0];
  sure[2] = 0.25;
  sure[14] = 0.75;
  sure[16] = 1;
  ASSERT_TRUE(begin(2));
  EXPECT_EQ(at(sets, 1), (List{16}));
  EXPECT_EQ(at(sets, 2), (List{2}));
  EXPECT_EQ(at(sets, 3), (List{2, 14})) << "of two near nothing the lower one";
  EXPECT_EQ(at(sets, 4), (List{16})) << "by far all are near the prompt";
  states.commit(0, 17, 2);
  ASSERT_TRUE(begin(3));
  EXPECT_EQ(at(sets, 2), (List{16}));
  EXPECT_EQ(at(sets, 3), (List{2, 16}));
}

TEST(PositionSets, OnePositionFromEitherEnd) {
  bundle::Manifest manifest;
  manifest.positions = {make(Kind::Single, 0),  make(Kind::Single, 7),
                        make(Kind::Single, 8),  make(Kind::Single, -1),
                        make(Kind::Single, -8), make(Kind::Single, -9)};
  PositionSets sets(manifest);
  test::States states({{8, 3}});
  sets.beginRun(states.shapes[0]);
  ASSERT_TRUE(sets.beginStep(states.at(0, bundle::plannedPlace(1, 8, 0))));
  EXPECT_EQ(at(sets, 0), (List{0}));
  EXPECT_EQ(at(sets, 1), (List{7}));
  EXPECT_EQ(at(sets, 2), List{});
  EXPECT_EQ(at(sets, 3), (List{7}));
  EXPECT_EQ(at(sets, 4), (List{0}));
  EXPECT_EQ(at(sets, 5), List{});
  EXPECT_EQ(sets.bound(3, {100, 20}), 1);
}

TEST(PositionSets, RefuseStatesOfOtherSequences) {
  bundle::Manifest manifest;
  PositionSets sets(manifest);
  test::States states({{7, 1}, {5, 1}});
  sets.beginRun(states.shapes[0]);
  EXPECT_FALSE(sets.beginStep(states.at(1, {})));
  SequenceState state = states.at(0, {});
  state.blockEnd = 8;
  EXPECT_FALSE(sets.beginStep(state));
  state = states.at(0, {});
  state.confidence = state.confidence.first(6);
  EXPECT_FALSE(sets.beginStep(state));
}

TEST(PositionSets, BoundWhatTheyCanHold) {
  bundle::Manifest manifest;
  manifest.positions = {
      make(Kind::Prompt),           make(Kind::Undecoded, 4),
      make(Kind::Union, 0, {0, 1}), make(Kind::Fixed, 0, {2}),
      make(Kind::Decoded),          make(Kind::Intersect, 0, {3, 4}),
      make(Kind::Union, 0, {4, 3})};
  PositionSets sets(manifest);
  EXPECT_EQ(sets.bound(3, {100, 20}), 24);
  EXPECT_EQ(sets.bound(5, {100, 20}), 24);
  EXPECT_EQ(sets.bound(6, {100, 20}), 100);
  EXPECT_EQ(sets.bound(3, {22, 20}), 22);
}

TEST(PositionSets, WhatDrewMostAttention) {
  bundle::Manifest manifest;
  manifest.positions = {make(Kind::All), make(Kind::Single, 3),
                        make(Kind::Except, 0, {0, 1}),
                        make(Kind::Intersect, 0, {1, 2})};
  auto add = [&](bundle::Ratio share, int64_t of) {
    manifest.positions.push_back(make(Kind::Attended, 0, {of}));
    manifest.positions.back().share = share;
  };
  add({1, 2}, 0);
  add({1, 2}, 2);
  add({1, 100}, 0);
  add({1, 1}, 0);
  add({1, 2}, 3); // of none
  PositionSets sets(manifest);
  test::States states({{6, 2}});
  sets.beginRun(states.shapes[0]);
  std::vector<double> drew;
  auto begin = [&](int64_t step) {
    SequenceState state = states.at(0, bundle::plannedPlace(step, 8, 0));
    state.attention = drew;
    return sets.beginStep(state);
  };
  // There was no step.
  ASSERT_TRUE(begin(1));
  for (int64_t set = 4; set < 9; ++set)
    EXPECT_EQ(at(sets, set), List{});
  // Of 20, less than 10 together: the next one would make it 13.
  drew = {2, 1, 2, 7, 6, 2};
  ASSERT_TRUE(begin(2));
  EXPECT_EQ(at(sets, 4), (List{3}));
  EXPECT_EQ(at(sets, 5), (List{4})) << "less than 6.5 of 13";
  EXPECT_EQ(at(sets, 6), (List{3})) << "one at least";
  EXPECT_EQ(at(sets, 7), (List{0, 2, 3, 4, 5})) << "less than all";
  EXPECT_EQ(at(sets, 8), List{});
  drew = {2, 1, 2, 4, 2, 2};
  ASSERT_TRUE(begin(3));
  EXPECT_EQ(at(sets, 4), (List{0, 3})) << "less than 6.5: of equals the lower";
  drew = {3, 1, 0, 4, 0, 0};
  ASSERT_TRUE(begin(4));
  EXPECT_EQ(at(sets, 4), (List{3})) << "4 of 8 are not less than half";
  // In tenths the sum goes by the order, to the last bit.
  for (double first : {0.1, 0.7, 1.3}) {
    drew = {first, 0.2, 0.3, 0.1, 0.6, 0.7};
    ASSERT_TRUE(begin(4));
    EXPECT_EQ(at(sets, 7).size(), 5U) << "less than all, " << first;
  }
  drew.pop_back();
  const Status refused = begin(5);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text().find("the attention of 5 positions"),
            std::string::npos);
}
