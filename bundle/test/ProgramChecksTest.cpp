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

#include "bundle/program/ProgramChecks.h"
#include "bundle/program/Program.h"
#include "bundle/test/TestManifest.h"

#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <optional>
#include <random>

using namespace heddle;
using namespace heddle::bundle;

namespace {

std::vector<Cadence> someCadences() {
  std::vector<Cadence> all(1); // never
  auto add = [&](Cadence::Kind kind, auto &&set) {
    for (bool inBlock : {false, true})
      for (bool afterEos : {false, true}) {
        Cadence &cadence = all.emplace_back();
        cadence.kind = kind;
        cadence.inBlock = inBlock;
        cadence.afterEos = afterEos;
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
  add(Cadence::Kind::Drift, [&](Cadence &c) {
    c.fraction = {1, 2};
    c.period = 3;
  });
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
  // Of an earlier layer than the one by drift that is among them.
  Cadence early;
  early.kind = Cadence::Kind::Drift;
  early.fraction = {9, 10};
  early.period = 3;
  early.layer = -2;
  all.insert(all.begin(), early);
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
        for (int64_t i = 0; i < 3 * total; ++i) {
          int64_t step = i % total + 1;
          StepPlace place = plannedPlace(step, total, blockSteps);
          // Never, after the first step, after the fourth.
          place.afterEos =
              (i >= total && step > 1) && (i < 2 * total || step > 4);
          // Measured at some steps, in layer -1 alone or in -2 as well.
          if (place.stepInBlock > 1) {
            place.drifted.emplace();
            if (i % 3 > 0)
              place.drifted->push_back(-1);
            if (i % 3 > 1)
              place.drifted->push_back(-2);
          }
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
  Cadence drawn = all.back();
  drawn.kind = Cadence::Kind::Random;
  Cadence after = drawn;
  drawn.afterEos = false;
  after.afterEos = true;
  EXPECT_TRUE(startsNoLater(after, drawn) && includesAll(after, drawn));
  EXPECT_FALSE(startsNoLater(drawn, after) || includesAll(drawn, after));
  Cadence last = early;
  last.layer = -1;
  last.fraction = {1, 2};
  EXPECT_TRUE(includesAll(last, early) && !includesAll(early, last));
  last.layer = 7; // before it in some models
  EXPECT_FALSE(includesAll(last, early) || includesAll(early, last));
  // Not because nothing is ever claimed, or nothing could be wrong.
  EXPECT_GT(proven, 500);
  EXPECT_GT(refuted, 500);
}

/// Positions below 64, in order. Simulations spend their time in these.
class Set {
public:
  class Iterator {
  public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = int64_t;
    using difference_type = int64_t;
    using pointer = const int64_t *;
    using reference = int64_t;

    explicit Iterator(uint64_t rest = 0) : rest(rest) {}
    int64_t operator*() const { return std::countr_zero(rest); }
    Iterator &operator++() {
      rest &= rest - 1;
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator &) const = default;

  private:
    uint64_t rest; ///< of the set, from here on
  };

  Set() = default;
  Set(std::initializer_list<int64_t> positions) {
    for (int64_t position : positions)
      insert(position);
  }

  Iterator begin() const { return Iterator(bits); }
  Iterator end() const { return Iterator(); }
  bool empty() const { return bits == 0; }
  int64_t size() const { return std::popcount(bits); }
  int64_t first() const { return std::countr_zero(bits); }
  int64_t last() const { return 63 - std::countl_zero(bits); }
  bool count(int64_t position) const {
    return position >= 0 && position < 64 && (bits >> position & 1);
  }
  void insert(int64_t position) { bits |= uint64_t{1} << position; }
  void erase(int64_t position) { bits &= ~(uint64_t{1} << position); }
  Set before(int64_t position) const {
    Set set;
    set.bits = bits & ((uint64_t{1} << position) - 1);
    return set;
  }
  Set except(const Set &other) const {
    Set set;
    set.bits = bits & ~other.bits;
    return set;
  }

private:
  uint64_t bits = 0;
};

/// A run over 24 positions, of which 8 are the prompt, in blocks of 4 or one of
/// 16, whose steps commit one position that is visible, computed and allowed:
/// the first in the drawn order, else any; the token of position 17 is EOS.
/// Steps that revoke commit up to three and make masks of fewer of the block's
/// tokens; steps that edit and commit give some of them others. The model has
/// five layers.
/// `shifted`: row p - 1 predicts position p. Returns the steps it takes; -1 if
/// it gets stuck for longer than any cadence.
class Simulation {
public:
  static constexpr int64_t layers = 5;

  Simulation(const Manifest &manifest, bool shifted, unsigned seed)
      : manifest(manifest), shifted(shifted), random(seed), confidences(seed),
        blockLength(random() % 2 ? 4 : 16), fixed(manifest.positions.size()),
        order(masked.begin(), masked.end()) {
    std::shuffle(order.begin(), order.end(), random);
  }

  int64_t execute() {
    int64_t idle = 0;
    for (int64_t step = 1; idle < 100; ++step, ++idle) {
      if (masked.empty() || (found && masked.first() > eos))
        return step - 1;
      int64_t block = (masked.first() - prompt) / blockLength;
      if (block != place.block || step == 1)
        place = {step, 16, block, 1, blockLength};
      else
        ++place.step, ++place.stepInBlock;
      place.afterEos = found;
      stepsAfterEos += found;
      if (manifest.commit.kind != CommitRule::Kind::RandomOrder)
        std::shuffle(order.begin(), order.end(), random);
      evaluate();
      bool alone = false;
      Set active = keep(alone);
      if (manifest.reuse.attention == Reuse::Attention::Outside)
        keepOutside(active);
      const CommitRule &rule = commitAt(manifest, place);
      int64_t commits = 0, most = rule.revokes() ? 1 + random() % 3 : 1;
      Set before = masked;
      revoked = edited = {};
      for (int64_t position : order) {
        bool predicted = active.count(position - shifted) ||
                         (alone && active.count(position));
        bool token = !before.count(position) && position >= first() &&
                     position < std::min(end(), first() + blockLength) &&
                     !(found && position == eos);
        if (!predicted || !has(rule.within, position))
          continue;
        if (inReach(position) && commits < most) {
          behindWindow += !has(visibleAt(manifest, place), position);
          masked.erase(position);
          committedAt[position] = step;
          ++commits;
          idle = -1;
        } else if (rule.revokes() && token && revoked.size() + 1 < commits) {
          revoked.insert(position);
          ++revocations;
        } else if (rule.edits() && token && commits > 0 && random() % 2) {
          edited.insert(position);
          committedAt[position] = step;
          ++edits;
        }
      }
      for (int64_t position : revoked) {
        masked.insert(position);
        committedAt.erase(position);
      }
      if (rule.stopAtEos && !masked.count(eos)) {
        found = true;
        cut |= rule.narrows;
      }
    }
    return -1;
  }

  /// Whether a step read something of a position that no step has written since
  /// the position became visible.
  bool readsUnwritten() const { return unwritten; }

  /// Whether a layer computed a row that had ended in a layer before.
  bool computesEnded() const { return headless; }

  /// Whether a step left a row as it was of which the step before had made a
  /// mask, or another token, or that had been noise, though it was visible.
  bool leavesChanged() const { return stale; }

  int64_t revokedInAll() const { return revocations; }
  int64_t editedInAll() const { return edits; }

  /// Tokens of positions that were not visible.
  int64_t committedUnseen() const { return behindWindow; }

  bool goesOnAfterEos() const { return stepsAfterEos > 0; }

  /// Whether a decoded position came to stand behind the text.
  bool cutsDecoded() const { return behind; }

  /// Whether a step asked for a set that goes back to a step which had not
  /// come.
  bool asksTooEarly() const { return early; }

  /// Whether a step merged attention over keys outside of a set that was not
  /// kept of all rows, over the keys that are visible; or the keys inside had a
  /// gap.
  bool mergesOthers() const { return torn; }

private:
  /// What a step that computes `active` does of attention outside of a set.
  void keepOutside(const Set &active) {
    Set visible;
    for (int64_t p = 0; p < length; ++p)
      if (has(visibleAt(manifest, place), p))
        visible.insert(p);
    auto same = [](const Set &a, const Set &b) {
      return a.except(b).empty() && b.except(a).empty();
    };
    if (!includes(manifest.reuse.cadence, place)) {
      torn |= !keptOver || !same(*keptOver, visible);
      (void)has(manifest.reuse.refreshed, 0);
      return;
    }
    torn |= !same(active, visible);
    keptOver = visible;
    const Set inside =
        visible.except(visible.except(at(manifest.reuse.inside)));
    if (!inside.empty())
      torn |= visible.before(inside.last() + 1)
                  .except(visible.before(inside.first()))
                  .size() != inside.size();
  }

  /// What the layers of a step read and write. Returns what comes out of the
  /// last one; `alone` becomes its pass's.
  Set keep(bool &alone) {
    const std::vector<size_t> passes = passesAt(manifest, place);
    const Pass everything;
    // Where no pass names layers they are all alike.
    const int64_t deep = manifest.passes.size() > 2 ? layers : 1;
    std::vector<Set> rows(layers);
    Set alive;
    for (int64_t layer = 0; layer < deep; ++layer) {
      const Pass *pass = &everything;
      for (auto i = passes.rbegin(); i != passes.rend(); ++i)
        if (hasLayer(manifest.passes[*i].layers, layer, layers))
          pass = &manifest.passes[*i];
      alone = pass->alone;
      Set &kept = keptOf[static_cast<size_t>(layer)];
      for (int64_t p = 0; p < length; ++p) {
        bool before =
            shifted && !pass->alone && p + 1 < length && has(pass->rows, p + 1);
        const bool seen = has(visibleAt(manifest, place), p);
        const bool computed =
            (seen || pass->unseen) && (has(pass->rows, p) || before);
        if (computed)
          rows[static_cast<size_t>(layer)].insert(p), alive.insert(p);
        if (!seen) {
          kept.erase(p);
        } else if (computed) {
          kept.insert(p);
        } else {
          unwritten |= !kept.count(p);
          stale |= (revoked.count(p) || edited.count(p) || isOfNoise(p)) &&
                   p < end();
        }
      }
    }
    for (int64_t layer = 0; layer < deep; ++layer) {
      const Set &own = rows[static_cast<size_t>(layer)];
      headless |= !own.except(alive).empty();
      if (!reuseOf(manifest, layer, layers).carries())
        alive = own;
    }
    return alive;
  }

  /// Where the block begins.
  int64_t first() const { return prompt + blockLength * place.block; }

  /// Whether what the step before read there was noise that is gone.
  bool isOfNoise(int64_t position) const {
    const auto made = committedAt.find(position);
    const bool open = masked.count(position) && position >= first() &&
                      position < first() + blockLength;
    return manifest.commit.renoises &&
           (open ||
            (made != committedAt.end() && made->second == place.step - 1));
  }

  /// Where the text ends.
  int64_t end() const { return cut ? eos + 1 : length; }

  /// Whether it is masked, and not behind the block or the end.
  bool inReach(int64_t position) const {
    return masked.count(position) &&
           position < std::min(end(), first() + blockLength);
  }

  /// Whether p is one of the `count` positions of `among` nearest to q, counted
  /// to the left and to the right in turn.
  static bool isNeighbor(int64_t p, int64_t q, const Set &among,
                         int64_t count) {
    Set left = among.before(q), right = among.except(among.before(q + 1));
    for (bool fromLeft = true; count > 0 && !(left.empty() && right.empty());
         fromLeft = !fromLeft) {
      Set &side = fromLeft ? left : right;
      if (side.empty())
        continue;
      int64_t nearest = fromLeft ? side.last() : side.first();
      if (nearest == p)
        return true;
      side.erase(nearest);
      --count;
    }
    return false;
  }

  bool has(int64_t set, int64_t position) const {
    if (set < 0)
      return true;
    early |= !known[static_cast<size_t>(set)];
    return values[static_cast<size_t>(set)].count(position);
  }

  const Set &at(int64_t set) const { return values[static_cast<size_t>(set)]; }

  void evaluate() {
    values.clear();
    known.clear();
    for (size_t i = 0; i < manifest.positions.size(); ++i) {
      const Positions &set = manifest.positions[i];
      Set value;
      known.push_back(
          std::all_of(set.of.begin(), set.of.end(), [&](int64_t of) {
            return known[static_cast<size_t>(of)];
          }));
      std::vector<int64_t> surest(masked.begin(), masked.end());
      std::shuffle(surest.begin(), surest.end(), confidences);
      if (set.kind == Positions::Kind::Confident) {
        std::erase_if(surest, [&](int64_t p) {
          return p >= end() || !has(set.of[0], p);
        });
        for (int64_t p : surest)
          if (value.size() < set.count)
            value.insert(p);
      }
      const bool asked = early; // this asks for all sets
      for (int64_t p = 0; p < length; ++p)
        if (holds(set, p))
          value.insert(p);
      early = asked;
      if (set.kind == Positions::Kind::Committed) {
        if (set.count == 0 && includes(set.cadence, place))
          since[i] = place.step;
        const int64_t from = set.count ? place.step - set.count : since[i];
        for (auto [position, step] : committedAt)
          if (from > 0 && step >= from && position < end())
            value.insert(position);
      }
      if (set.kind == Positions::Kind::Fixed) {
        if (includes(set.cadence, place)) {
          early |= !known.back();
          fixed[i] = at(set.of[0]);
        }
        known.back() = fixed[i].has_value();
        value = fixed[i].value_or(Set());
      }
      values.push_back(std::move(value));
    }
  }

  bool holds(const Positions &set, int64_t p) const {
    using Kind = Positions::Kind;
    int64_t begin = first();
    auto in = [&](int64_t part) { return has(part, p); };
    switch (set.kind) {
    case Kind::All:
      return true;
    case Kind::Prompt:
      return p < prompt;
    case Kind::Response:
      return p >= prompt;
    case Kind::Block:
      return p >= begin && p < begin + blockLength;
    case Kind::BeforeBlock:
      return p < begin;
    case Kind::FromBlock:
      return p >= begin;
    case Kind::Decoded:
      behind |= !masked.count(p) && p >= end();
      return !masked.count(p) && p < end();
    case Kind::Undecoded:
      return masked.count(p) && p < end() &&
             (!set.count || masked.before(p).size() < set.count);
    case Kind::Union:
      return std::any_of(set.of.begin(), set.of.end(), in);
    case Kind::Intersect:
      return std::all_of(set.of.begin(), set.of.end(), in);
    case Kind::Next: // one a step
      return p == *std::find_if(order.begin(), order.end(),
                                [&](int64_t q) { return inReach(q); });
    case Kind::Neighbors: {
      return std::any_of(at(set.of[0]).begin(), at(set.of[0]).end(),
                         [&](int64_t q) {
                           return isNeighbor(p, q, at(set.of[1]), set.count);
                         });
    }
    case Kind::Nearest: {
      Set free = at(set.of[1]).except(at(set.of[0]));
      for (int64_t q : at(set.of[0]))
        for (int64_t left = set.count; left > 0 && !free.empty(); --left) {
          int64_t taken = *std::min_element(
              free.begin(), free.end(), [&](int64_t x, int64_t y) {
                return std::pair(std::abs(x - q), x) <
                       std::pair(std::abs(y - q), y);
              });
          if (taken == p)
            return true;
          free.erase(taken);
        }
      return false;
    }
    case Kind::Hull: {
      const Set &of = at(set.of[0]);
      return !of.empty() && p >= of.first() && p <= of.last();
    }
    case Kind::Leading:
      return p < at(set.of[0]).size();
    case Kind::Predicting:
      return at(set.of[0]).count(p + shifted);
    case Kind::Except:
      return has(set.of[0], p) && !has(set.of[1], p);
    case Kind::Last: {
      const Set &of = at(set.of[0]);
      return of.count(p) && of.size() - of.before(p).size() <= set.count;
    }
    case Kind::Single:
      return p == set.count + (set.count < 0 ? length : 0);
    case Kind::Committed: // by evaluate()
    case Kind::Fixed:
    case Kind::Confident:
    case Kind::Attended: // not drawn
      return false;
    }
    return false;
  }

  static constexpr int64_t prompt = 8, length = 24, eos = 17;
  const Manifest &manifest;
  const int64_t shifted; ///< 0 or 1
  std::mt19937 random, confidences;
  const int64_t blockLength;
  int64_t stepsAfterEos = 0, revocations = 0, edits = 0, behindWindow = 0;
  Set revoked, edited; ///< by the last step
  Set masked = {8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23};
  StepPlace place;
  std::vector<Set> values;
  std::vector<bool> known; ///< whether there is a value
  std::vector<std::optional<Set>> fixed;
  std::vector<int64_t> order; ///< of commits
  std::map<int64_t, int64_t> committedAt, since;
  std::vector<Set> keptOf = std::vector<Set>(layers);
  bool headless = false;
  bool found = false, cut = false; ///< EOS; so that the text ends there
  bool unwritten = false, stale = false, torn = false;
  std::optional<Set> keptOver;
  mutable bool early = false, behind = false;
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
  int early = 0, late = 0, moving = 0, alone = 0, growing = 0, narrowing = 0;
  int ending = 0, cut = 0, blind = 0, revoking = 0, stale = 0;
  int editing = 0, staleEdits = 0, renoising = 0, staleNoise = 0;
  int layered = 0, headless = 0, narrower = 0;
  int kept = 0, torn = 0, unseen = 0;
  std::mt19937 ofParts(2), ofEdits(3);
  for (int round = 0; round < 54000; ++round) {
    Manifest manifest;
    manifest.reuse.kv = true;
    // Often the same cadence and the one a step later; or all is visible on the
    // one, and sets are fixed on the other.
    const bool paired = below(6) == 0;
    Cadence phase, after;
    phase.kind = after.kind = Cadence::Kind::Every;
    phase.period = after.period = 2 + below(5);
    after.from = 2;
    phase.afterEos = below(3) == 0;
    after.afterEos = below(6) == 0;
    auto someCadence = [&]() -> Cadence {
      switch (below(4)) {
      case 0:
        return phase;
      case 1:
        return after;
      default:
        return cadences[static_cast<size_t>(below(cadences.size()))];
      }
    };
    int64_t count = 1 + below(5);
    for (int64_t i = 0; i < count; ++i) {
      // All but Single, which holds no position that others ask for.
      int64_t drawn = below(21);
      drawn += drawn >= static_cast<int64_t>(Positions::Kind::Single);
      auto kind = static_cast<Positions::Kind>(drawn);
      Positions set = setOf(kind);
      if (kind == Positions::Kind::Undecoded)
        set.count = below(4);
      if (kind == Positions::Kind::Committed)
        set.count = below(3);
      if (kind == Positions::Kind::Fixed ||
          (kind == Positions::Kind::Committed && set.count == 0))
        set.cadence = paired ? after : someCadence();
      bool made = kind >= Positions::Kind::Union;
      int64_t parts =
          kind == Positions::Kind::Neighbors ||
                  kind == Positions::Kind::Nearest ||
                  kind == Positions::Kind::Except
              ? 2
          : kind == Positions::Kind::Union || kind == Positions::Kind::Intersect
              ? 1 + below(2)
              : 1;
      if (kind == Positions::Kind::Neighbors ||
          kind == Positions::Kind::Nearest || kind == Positions::Kind::Last ||
          kind == Positions::Kind::Confident)
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
    if (manifest.visible >= 0 && (paired || below(3) == 0))
      manifest.allVisible = paired ? phase : someCadence();
    manifest.commit.within = some();
    if (below(4) == 0)
      manifest.commit.revokeBelow = {1, 2};
    else if (below(2))
      manifest.commit.kind = CommitRule::Kind::RandomOrder;
    else if (below(2))
      manifest.datedCommits.push_back({{{When::Kind::On, someCadence()}}, {}});
    if (ofEdits() % 6 == 0)
      manifest.commit.editAbove = {1, 2};
    auto endSomehow = [&](CommitRule &rule) {
      rule.stopAtEos = below(3) == 0;
      rule.narrows = rule.stopAtEos && below(3);
    };
    endSomehow(manifest.commit);
    if (!manifest.datedCommits.empty()) {
      manifest.datedCommits[0].rule.within = some();
      endSomehow(manifest.datedCommits[0].rule);
    }
    Pass whole, rest;
    whole.when = {{When::Kind::On, paired ? phase : someCadence()}};
    rest.rows = some();
    // Some of them are visible because the steps compute them.
    const bool withRows = below(6) == 0;
    if (withRows) {
      manifest.allVisible = {};
      whole.when.front().cadence = phase;
      Positions fixed = setOf(Positions::Kind::Fixed),
                rows = setOf(Positions::Kind::Union),
                seen = setOf(Positions::Kind::Union);
      fixed.of = {below(static_cast<size_t>(count))};
      fixed.cadence = phase;
      rows.of = {below(static_cast<size_t>(count)),
                 below(static_cast<size_t>(count))};
      seen.of = {count, below(2) ? count + 1 : rows.of.front()};
      manifest.positions.insert(manifest.positions.end(), {fixed, rows, seen});
      rest.rows = count + 1;
      manifest.visible = count + 2;
    }
    rest.alone = below(2);
    manifest.passes = {whole, rest};
    // Layers of their own.
    if (below(3) == 0) {
      const std::vector<std::vector<LayerRange>> ranges = {
          {{0, 1}}, {{2, 2}}, {{-2, -1}}, {{0, 0}, {-1, -1}}, {{1, 2}}};
      auto someLayers = [&] {
        return ranges[static_cast<size_t>(below(ranges.size()))];
      };
      Pass &own = *manifest.passes.insert(manifest.passes.end() - 1, rest);
      own.rows = some();
      own.alone = below(2);
      own.layers = someLayers();
      if (below(2))
        own.when = {{When::Kind::On, someCadence()}};
      const Reuse carrying{true, Reuse::Attention::Output, true};
      if (below(2))
        manifest.reuse = carrying;
      if (below(2))
        manifest.layeredReuses = {
            {someLayers(), below(2) ? carrying : Reuse{true}}};
    }
    const bool byLayer = manifest.passes.size() > 2;
    bool good = !checkProgram(manifest);
    if (good) {
      EXPECT_FALSE(checkLayers(manifest, Simulation::layers));
    }
    // Visible sets that lack what predicts are for models that predict in
    // place.
    bool shifted = manifest.visible < 0 && below(2);
    const auto seed = static_cast<unsigned>(round);
    Simulation run(manifest, shifted, seed);
    bool ends = run.execute() >= 0;
    EXPECT_TRUE(ends || !good) << "round " << round;
    EXPECT_FALSE(good && run.readsUnwritten()) << "round " << round;
    EXPECT_FALSE(good && run.asksTooEarly()) << "round " << round;
    EXPECT_FALSE(good && run.computesEnded()) << "round " << round;
    headless += run.computesEnded();
    layered += good && byLayer;
    narrower += good && byLayer && !manifest.reuse.carries() &&
                manifest.passes[1].rows != manifest.passes[2].rows;
    EXPECT_FALSE(good && run.leavesChanged()) << "round " << round;
    const bool anyAlone =
        std::any_of(manifest.passes.begin(), manifest.passes.end(),
                    [](const Pass &pass) { return pass.alone; });
    if (good && !seesPrompt(manifest) && !anyAlone) {
      ++blind;
      EXPECT_EQ(Simulation(manifest, true, seed).execute(), -1)
          << "round " << round;
    }
    if (good) {
      Manifest parts = manifest;
      parts.reuse.attention = Reuse::Attention::Outside;
      parts.reuse.inside = static_cast<int64_t>(
          ofParts() % static_cast<size_t>(manifest.positions.size()));
      parts.reuse.cadence = ofParts() % 2
                                ? whole.when.front().cadence
                                : cadences[ofParts() % cadences.size()];
      parts.reuse.refreshed = static_cast<int64_t>(
          ofParts() % static_cast<size_t>(manifest.positions.size()));
      const bool keeps = !checkProgram(parts);
      Simulation ofPart(parts, shifted, seed);
      ofPart.execute();
      EXPECT_FALSE(keeps && ofPart.mergesOthers()) << "round " << round;
      EXPECT_FALSE(keeps && ofPart.asksTooEarly()) << "round " << round;
      kept += keeps;
      torn += ofPart.mergesOthers();
    }
    if (good) {
      Manifest more = manifest;
      for (Pass &pass : more.passes)
        pass.unseen = pass.rows >= 0;
      if (!checkProgram(more)) {
        Simulation ofMore(more, shifted, seed);
        EXPECT_GE(ofMore.execute(), 0) << "round " << round;
        EXPECT_FALSE(ofMore.readsUnwritten()) << "round " << round;
        unseen += ofMore.committedUnseen() > 0;
      }
      EXPECT_EQ(run.committedUnseen(), 0) << "round " << round;
    }
    if (good) {
      Manifest noisy = manifest;
      noisy.commit.renoises = true;
      const bool fresh = !checkProgram(noisy);
      Simulation ofNoise(noisy, shifted, seed);
      ofNoise.execute();
      EXPECT_FALSE(fresh && ofNoise.leavesChanged()) << "round " << round;
      renoising += fresh && rest.rows >= 0;
      staleNoise += ofNoise.leavesChanged();
    }
    unwritten += run.readsUnwritten();
    early += run.asksTooEarly();
    revoking += good && rest.rows >= 0 && run.revokedInAll() > 0;
    editing += good && rest.rows >= 0 && run.editedInAll() > 0;
    stale += run.leavesChanged();
    staleEdits += run.leavesChanged() && run.revokedInAll() == 0;
    accepted += good;
    alone += good && shifted && rest.alone && rest.rows >= 0;
    moving += good && manifest.showsAll() && visibleMoves(manifest);
    growing += good && !manifest.showsAll() && visibleMoves(manifest);
    narrowing += good && anyCommit(manifest, &CommitRule::narrows);
    ending += good && whole.when.front().cadence.afterEos && rest.rows >= 0 &&
              run.goesOnAfterEos();
    cut += good && run.cutsDecoded();
    late += good && manifest.visible >= 0 && manifest.showsAll() &&
            manifest.positions[static_cast<size_t>(manifest.visible)].cadence ==
                after;
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
  EXPECT_GT(early, 500);
  EXPECT_GT(late, 20);
  EXPECT_GT(moving, 50);
  EXPECT_GT(growing, 50);
  EXPECT_GT(narrowing, 50);
  EXPECT_GT(ending, 50);
  EXPECT_GT(cut, 20);
  EXPECT_GT(blind, 50);
  EXPECT_GT(alone, 50);
  EXPECT_GT(revoking, 50);
  EXPECT_GT(stale, 50);
  EXPECT_GT(editing, 50);
  EXPECT_GT(staleEdits, 50);
  EXPECT_GT(renoising, 50);
  EXPECT_GT(staleNoise, 500);
  EXPECT_GT(layered, 100);
  EXPECT_GT(headless, 500);
  EXPECT_GT(narrower, 20);
  EXPECT_GT(kept, 200);
  EXPECT_GT(torn, 200);
  EXPECT_GT(unseen, 50);
}

} // namespace
