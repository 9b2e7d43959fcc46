//===- ProgramChecksTest.cpp - What must hold in every run ----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is claimed for every run is held against runs, step by step. The
// messages are tested where they are read: test/Dialect/Heddle, ManifestTest.
//
//===----------------------------------------------------------------------===//

#include "bundle/ProgramChecks.h"
#include "bundle/Program.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

using namespace heddle;
using namespace heddle::bundle;

namespace {

std::vector<Cadence> someCadences() {
  std::vector<Cadence> all(1); // never
  auto add = [&](Cadence::Kind kind, auto &&set) {
    for (bool inBlock : {false, true}) {
      Cadence &cadence = all.emplace_back();
      cadence.kind = kind;
      cadence.inBlock = inBlock;
      set(cadence);
    }
  };
  for (int64_t period : {1, 2, 3, 6})
    for (int64_t from : {1, 2, 4})
      add(Cadence::Kind::Every, [&](Cadence &c) {
        c.period = period;
        c.from = from;
      });
  for (int64_t count : {1, 2, 7})
    add(Cadence::Kind::First, [&](Cadence &c) { c.count = count; });
  for (int64_t step : {1, 2, 7})
    add(Cadence::Kind::At, [&](Cadence &c) { c.step = step; });
  for (Ratio fraction : {Ratio{1, 5}, Ratio{1, 2}, Ratio{1, 1}}) {
    for (int64_t plus : {0, 1, 2})
      add(Cadence::Kind::At, [&](Cadence &c) {
        c.fraction = fraction;
        c.from = 1 + plus;
      });
    for (auto kind :
         {Cadence::Kind::Uniform, Cadence::Kind::Random, Cadence::Kind::Power})
      add(kind, [&](Cadence &c) {
        c.fraction = fraction;
        c.count = 3;
        c.seed = 5;
      });
  }
  return all;
}

constexpr int64_t runs[][2] = {{1, 1}, {2, 1},   {5, 5},  {12, 4},
                               {7, 3}, {30, 10}, {24, 6}, {40, 40}};

TEST(ProgramChecks, CadencesKeepWhatIsClaimedOfThem) {
  int proven = 0, refuted = 0;
  std::vector<Cadence> all = someCadences();
  for (const Cadence &a : all) {
    for (auto [total, blockSteps] : runs) {
      std::vector<int64_t> steps = plannedSteps(a, total, blockSteps);
      bool first = !steps.empty() && steps.front() == 1;
      EXPECT_TRUE(first || !includesFirst(a)) << toString(a);
      EXPECT_FALSE(first && excludesFirst(a)) << toString(a);
    }
    for (const Cadence &b : all) {
      bool noLater = startsNoLater(a, b), all = includesAll(a, b);
      proven += noLater + all;
      bool seenLater = false;
      for (auto [total, blockSteps] : runs)
        for (int64_t step = 1; step <= total; ++step) {
          StepPlace place = plannedPlace(step, total, blockSteps);
          bool later = begun(b, place) && !begun(a, place);
          seenLater |= later;
          EXPECT_FALSE(noLater && later && a.inBlock == b.inBlock)
              << toString(a) << " and " << toString(b) << ", step " << step
              << " of " << total;
          EXPECT_FALSE(all && includes(b, place) && !includes(a, place))
              << toString(a) << " and " << toString(b) << ", step " << step
              << " of " << total;
        }
      refuted += seenLater;
    }
  }
  // Not because nothing is ever claimed, or nothing could be wrong.
  EXPECT_GT(proven, 500);
  EXPECT_GT(refuted, 500);
}

Positions setOf(Positions::Kind kind, int64_t count = 0) {
  Positions set;
  set.kind = kind;
  set.count = count;
  return set;
}

/// A run over 24 positions, of which 8 are the prompt, in blocks of 4, whose
/// steps commit the first position that is visible, computed and allowed:
/// from the left, or in the drawn order.
/// Returns the steps it takes; -1 if it gets stuck for longer than any cadence.
class Simulation {
public:
  explicit Simulation(const Manifest &manifest)
      : manifest(manifest), fixed(manifest.positions.size()),
        order(masked.begin(), masked.end()) {
    if (manifest.commit.kind == CommitRule::Kind::RandomOrder)
      std::shuffle(order.begin(), order.end(), std::mt19937(7));
  }

  int64_t play() {
    int64_t idle = 0;
    for (int64_t step = 1; idle < 100; ++step, ++idle) {
      if (masked.empty())
        return step - 1;
      int64_t block = (*masked.begin() - prompt) / 4;
      if (block != place.block || step == 1)
        place = {step, 16, block, 1, 4};
      else
        ++place.step, ++place.stepInBlock;
      evaluate();
      std::optional<size_t> pass = passAt(manifest, place);
      keep(pass ? manifest.passes[*pass].rows : -1);
      for (int64_t position : order) {
        if (inReach(position) && has(manifest.visible, position) &&
            has(pass ? manifest.passes[*pass].rows : -1, position) &&
            has(manifest.commit.within, position)) {
          masked.erase(position);
          idle = -1;
          break;
        }
      }
    }
    return -1;
  }

  /// Whether a step read something of a position that no step has written since
  /// the position became visible.
  bool readsUnwritten() const { return unwritten; }

private:
  using Set = std::set<int64_t>;

  /// What a step with these rows reads and writes.
  void keep(int64_t rows) {
    for (int64_t p = 0; p < length; ++p) {
      if (!has(manifest.visible, p))
        kept.erase(p);
      else if (has(rows, p))
        kept.insert(p);
      else
        unwritten |= !kept.count(p);
    }
  }

  /// Whether it is masked, and not behind the block.
  bool inReach(int64_t position) const {
    return masked.count(position) && position < prompt + 4 * (place.block + 1);
  }

  /// Whether p is one of the `count` positions of `among` nearest to q, counted
  /// to the left and to the right in turn.
  static bool isNeighbor(int64_t p, int64_t q, const Set &among,
                         int64_t count) {
    Set left(among.begin(), among.lower_bound(q));
    Set right(among.upper_bound(q), among.end());
    for (bool fromLeft = true; count > 0 && !(left.empty() && right.empty());
         fromLeft = !fromLeft) {
      Set &side = fromLeft ? left : right;
      if (side.empty())
        continue;
      int64_t nearest = fromLeft ? *side.rbegin() : *side.begin();
      if (nearest == p)
        return true;
      side.erase(nearest);
      --count;
    }
    return false;
  }

  bool has(int64_t set, int64_t position) const {
    return set < 0 || values[static_cast<size_t>(set)].count(position);
  }

  void evaluate() {
    values.clear();
    for (size_t i = 0; i < manifest.positions.size(); ++i) {
      const Positions &set = manifest.positions[i];
      Set value;
      for (int64_t p = 0; p < length; ++p)
        if (holds(set, p))
          value.insert(p);
      if (set.kind == Positions::Kind::Fixed) {
        if (includes(set.cadence, place))
          fixed[i] = values[static_cast<size_t>(set.of[0])];
        value = fixed[i];
      }
      values.push_back(std::move(value));
    }
  }

  bool holds(const Positions &set, int64_t p) const {
    using Kind = Positions::Kind;
    int64_t begin = prompt + 4 * place.block;
    auto in = [&](int64_t part) { return has(part, p); };
    switch (set.kind) {
    case Kind::All:
      return true;
    case Kind::Prompt:
      return p < prompt;
    case Kind::Response:
      return p >= prompt;
    case Kind::Block:
      return p >= begin && p < begin + 4;
    case Kind::BeforeBlock:
      return p < begin;
    case Kind::FromBlock:
      return p >= begin;
    case Kind::Decoded:
      return !masked.count(p);
    case Kind::Undecoded:
      return masked.count(p) &&
             (!set.count ||
              std::distance(masked.begin(), masked.find(p)) < set.count);
    case Kind::Union:
      return std::any_of(set.of.begin(), set.of.end(), in);
    case Kind::Intersect:
      return std::all_of(set.of.begin(), set.of.end(), in);
    case Kind::Next: // one a step
      return p == *std::find_if(order.begin(), order.end(),
                                [&](int64_t q) { return inReach(q); });
    case Kind::Neighbors: {
      auto at = [&](size_t part) -> const Set & {
        return values[static_cast<size_t>(set.of[part])];
      };
      return std::any_of(at(0).begin(), at(0).end(), [&](int64_t q) {
        return isNeighbor(p, q, at(1), set.count);
      });
    }
    case Kind::Committed:
    case Kind::Fixed:
      return false;
    }
    return false;
  }

  static constexpr int64_t prompt = 8, length = 24;
  const Manifest &manifest;
  Set masked = {8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23};
  StepPlace place;
  std::vector<Set> values, fixed;
  std::vector<int64_t> order; ///< of commits
  Set kept;
  bool unwritten = false;
};

/// docs/Spec/Plan.md, "Why a run ends" and "Why every cached value was
/// written": no program that is accepted gets stuck, or reads what nobody
/// wrote.
TEST(ProgramChecks, AcceptedProgramsEndAndReadWhatWasWritten) {
  std::mt19937 random(1);
  auto below = [&](size_t bound) {
    return static_cast<int64_t>(random() % bound);
  };
  std::vector<Cadence> cadences = someCadences();
  int accepted = 0, refused = 0, stuck = 0, unwritten = 0, byNext = 0;
  for (int round = 0; round < 20000; ++round) {
    Manifest manifest;
    manifest.reuse.kv = true;
    int64_t count = 1 + below(5);
    for (int64_t i = 0; i < count; ++i) {
      auto kind = static_cast<Positions::Kind>(below(14));
      Positions set = setOf(kind);
      if (kind == Positions::Kind::Undecoded)
        set.count = below(4);
      if (kind == Positions::Kind::Committed)
        set.count = 1;
      if (kind == Positions::Kind::Fixed)
        set.cadence = cadences[static_cast<size_t>(below(cadences.size()))];
      bool made = kind >= Positions::Kind::Union;
      int64_t parts = kind == Positions::Kind::Fixed       ? 1
                      : kind == Positions::Kind::Neighbors ? 2
                                                           : 1 + below(2);
      if (kind == Positions::Kind::Neighbors)
        set.count = 1 + below(3);
      if (made && i == 0)
        set = setOf(Positions::Kind::Undecoded, 1);
      else if (made)
        for (; parts; --parts)
          set.of.push_back(below(static_cast<size_t>(i)));
      manifest.positions.push_back(std::move(set));
    }
    auto some = [&] { return below(static_cast<size_t>(count) + 1) - 1; };
    manifest.visible = some();
    manifest.commit.within = some();
    if (below(2))
      manifest.commit.kind = CommitRule::Kind::RandomOrder;
    Pass whole, rest;
    whole.when = {{When::Kind::On,
                   cadences[static_cast<size_t>(below(cadences.size()))]}};
    rest.rows = some();
    manifest.passes = {whole, rest};
    bool good = !checkProgram(manifest);
    Simulation run(manifest);
    bool ends = run.play() >= 0;
    EXPECT_TRUE(ends || !good) << "round " << round;
    EXPECT_FALSE(good && run.readsUnwritten()) << "round " << round;
    unwritten += run.readsUnwritten();
    accepted += good;
    // Programs whose rows need only hold what comes next.
    CommitRule::Kind kind = CommitRule::Kind::Quota;
    std::swap(kind, manifest.commit.kind);
    byNext += good && checkProgram(manifest);
    std::swap(kind, manifest.commit.kind);
    refused += !good;
    stuck += !ends;
  }
  EXPECT_GT(accepted, 500);
  EXPECT_GT(refused, 500);
  EXPECT_GT(stuck, 500);
  EXPECT_GT(unwritten, 500);
  EXPECT_GT(byNext, 50);
}

} // namespace
