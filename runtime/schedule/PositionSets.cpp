//===- PositionSets.cpp - A manifest's position sets at a step ------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/schedule/PositionSets.h"

#include "bundle/program/Program.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>

using namespace heddle;
using namespace heddle::rt;
using bundle::Positions;
using bundle::detail::withForm;

/// The most positions of a set, given those of the sets before it.
static int64_t boundOf(const Positions &what, const SequenceShape &of,
                       const std::vector<int64_t> &bounds) {
  if (!what.isMadeOfSets())
    return withForm(what.kind, [&](auto form) {
      return form.bound(what, of.length, of.promptLength);
    });
  switch (what.kind) {
  case Positions::Kind::Fixed:
  case Positions::Kind::Attended:
  case Positions::Kind::Leading:
  case Positions::Kind::Predicting:
  case Positions::Kind::Except:
    return bounds[what.of.front()];
  case Positions::Kind::Last:
    return std::min(what.count, bounds[what.of.front()]);
  case Positions::Kind::Confident: // the prompt is never masked
    return std::min(
        {what.count, bounds[what.of.front()], of.length - of.promptLength});
  case Positions::Kind::Neighbors:
  case Positions::Kind::Nearest:
    return std::min(std::min(what.count, of.length) * bounds[what.of[0]],
                    bounds[what.of[1]]);
  case Positions::Kind::Union: {
    int64_t sum = 0;
    for (int64_t part : what.of)
      sum = std::min(sum + bounds[part], of.length);
    return sum;
  }
  case Positions::Kind::Intersect: {
    int64_t least = of.length;
    for (int64_t part : what.of)
      least = std::min(least, bounds[part]);
    return least;
  }
  default:
    return of.length;
  }
}

/// The positions of `among` that are neighbors of one of `of`, ascending as
/// these are: of each `count`, left and right in turn.
static void findNeighbors(std::span<const int32_t> of,
                          std::span<const int32_t> among, int64_t count,
                          std::vector<int32_t> &out) {
  // By how many more positions than the one before each is covered.
  std::vector<int32_t> more(among.size() + 1);
  auto cover = [&](int64_t first, int64_t end) {
    ++more[first];
    --more[end];
  };
  for (int32_t position : of) {
    auto [self, after] = std::equal_range(among.begin(), among.end(), position);
    int64_t left = self - among.begin(), right = among.end() - after;
    int64_t fromRight = std::min(right, count / 2);
    int64_t fromLeft = std::min(left, count - fromRight);
    fromRight = std::min(right, count - fromLeft);
    cover(left - fromLeft, left);
    cover(after - among.begin(), after - among.begin() + fromRight);
  }
  int32_t covered = 0;
  for (size_t i = 0; i < among.size(); ++i)
    if ((covered += more[i]) > 0)
      out.push_back(among[i]);
}

/// For each position of `of` in turn the `count` positions of `among` that are
/// nearest, are not taken yet and are not of `of` themselves; ascending. As
/// they are taken they are cut out of chains that lead to the nearest free one.
static void takeNearest(std::span<const int32_t> of,
                        std::span<const int32_t> among, int64_t count,
                        std::vector<int32_t> &out) {
  // Of among[i] at i + 1; at both ends stands what is always free.
  const auto end = static_cast<int32_t>(among.size()) + 1;
  std::vector<int32_t> before(static_cast<size_t>(end) + 1);
  std::iota(before.begin(), before.end(), 0);
  std::vector<int32_t> after = before;
  auto follow = [](std::vector<int32_t> &chain, int32_t at) {
    while (chain[at] != at)
      at = chain[at] = chain[chain[at]];
    return at;
  };
  auto take = [&](int32_t at) {
    before[at] = at - 1;
    after[at] = at + 1;
  };
  auto placeOf = [&](int32_t position) {
    return static_cast<int32_t>(
        std::lower_bound(among.begin(), among.end(), position) - among.begin());
  };
  for (int32_t position : of)
    if (int32_t place = placeOf(position);
        place + 1 < end && among[place] == position)
      take(place + 1);
  for (int32_t position : of) {
    const int32_t place = placeOf(position);
    for (int64_t left = count; left > 0; --left) {
      const int32_t lower = follow(before, place);
      const int32_t upper = follow(after, place + 1);
      if (lower == 0 && upper == end)
        break;
      const bool takesLower =
          upper == end || (lower > 0 && position - among[lower - 1] <=
                                            among[upper - 1] - position);
      out.push_back(among[(takesLower ? lower : upper) - 1]);
      take(takesLower ? lower : upper);
    }
  }
  std::sort(out.begin(), out.end());
}

/// The `count` of `of` that are masked and of the text, ascending, of the
/// highest confidence, which `near` lifts unless it is null.
static void takeConfident(std::span<const int32_t> of, int64_t count,
                          const NearDecoded *near, const SequenceState &state,
                          std::vector<int32_t> &out) {
  std::copy_if(of.begin(), of.end(), std::back_inserter(out),
               [&](int32_t position) {
                 return position < state.textEnd &&
                        state.masked[static_cast<size_t>(position)];
               });
  if (count >= std::ssize(out))
    return;
  if (!state.confidence.empty()) {
    std::vector<std::pair<double, int32_t>> order; // the lowest first
    for (int32_t position : out) {
      double confidence = state.confidence[static_cast<size_t>(position)];
      if (near)
        confidence = near->lifted(confidence, state, position);
      order.emplace_back(-confidence, position);
    }
    std::nth_element(order.begin(), order.begin() + count, order.end());
    for (int64_t i = 0; i < count; ++i)
      out[static_cast<size_t>(i)] = order[static_cast<size_t>(i)].second;
  }
  out.resize(static_cast<size_t>(count));
  std::sort(out.begin(), out.end());
}

/// The first of `of`, by the attention that they drew, that together drew less
/// than `share` of what all of them did, at least one; ascending.
static void takeAttended(std::span<const int32_t> of, bundle::Ratio share,
                         std::span<const double> attention,
                         std::vector<int32_t> &out) {
  if (attention.empty() || of.empty())
    return;
  std::vector<std::pair<double, int32_t>> order; // the most first
  for (int32_t position : of)
    order.emplace_back(-attention[static_cast<size_t>(position)], position);
  std::sort(order.begin(), order.end());
  // In the order in which they are taken: all of them together are not less,
  // to the last bit.
  double all = 0;
  for (auto [drew, position] : order)
    all -= drew;
  const double limit =
      all * static_cast<double>(share.num) / static_cast<double>(share.den);
  double taken = 0;
  for (auto [drew, position] : order) {
    taken -= drew;
    if (!out.empty() && !(taken < limit))
      break;
    out.push_back(position);
  }
  std::sort(out.begin(), out.end());
}

PositionSets::PositionSets(const bundle::Manifest &manifest, bool shifted)
    : manifest(manifest), shifted(shifted), values(manifest.positions.size()) {
  for (const Positions &set : manifest.positions)
    if (set.near > 0)
      lifts.try_emplace(set.near, set.near);
}

void PositionSets::beginRun(const SequenceShape &next) {
  shape = next;
  values.assign(manifest.positions.size(), {});
}

Status PositionSets::beginStep(const SequenceState &state) {
  size_t length = static_cast<size_t>(shape.length);
  if (state.masked.size() != length || state.committedAt.size() != length)
    return Error("the state has " + std::to_string(state.masked.size()) +
                 " masks and " + std::to_string(state.committedAt.size()) +
                 " steps of commitment, the sequence has " +
                 std::to_string(length) + " positions");
  if (!state.confidence.empty() && state.confidence.size() != length)
    return Error("the state has " + std::to_string(state.confidence.size()) +
                 " confidences, the sequence has " + std::to_string(length) +
                 " positions");
  if (!state.attention.empty() && state.attention.size() != length)
    return Error("the state has the attention of " +
                 std::to_string(state.attention.size()) +
                 " positions, the sequence has " + std::to_string(length));
  if (state.blockBegin < 0 || state.blockBegin > state.blockEnd ||
      state.blockEnd > shape.length)
    return Error("the block [" + std::to_string(state.blockBegin) + ", " +
                 std::to_string(state.blockEnd) +
                 ") does not lie in the sequence of " + std::to_string(length) +
                 " positions");
  for (size_t set = 0; set < values.size(); ++set)
    evaluate(set, state);
  return Status::success();
}

void PositionSets::evaluate(size_t set, const SequenceState &state) {
  const Positions &what = manifest.positions[set];
  Value &value = values[set];
  std::vector<int32_t> &out = value.positions;
  if (what.kind == Positions::Kind::Fixed) {
    const Value &source = values[what.of.front()];
    if (bundle::includes(what.cadence, state.place))
      value = {source.positions, source.known, 0};
    return;
  }
  value.known = true;
  out.clear();
  auto addRange = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      out.push_back(static_cast<int32_t>(i));
  };
  switch (what.kind) {
  default: {
    bundle::SequenceView view = {
        shape.length, shape.promptLength, state.blockBegin, state.blockEnd,
        state.textEnd, state.masked, state.committedAt,
        // The prompt counts as committed at step 0, before any cadence.
        std::max<int64_t>(1, state.place.step - what.count)};
    if (what.kind == Positions::Kind::Committed && what.count == 0) {
      if (bundle::includes(what.cadence, state.place))
        value.latest = state.place.step;
      if (value.latest == 0)
        return;
      view.since = value.latest;
    }
    const bool few = what.kind == Positions::Kind::Undecoded && what.count > 0;
    withForm(what.kind, [&](auto form) {
      auto [begin, end] = form.span(what, view);
      int64_t left = few ? what.count : end - begin;
      for (int64_t i = begin; i < end && left > 0; ++i)
        if (form.holds(view, static_cast<size_t>(i))) {
          out.push_back(static_cast<int32_t>(i));
          --left;
        }
      return true;
    });
    return;
  }
  case Positions::Kind::Next:
    out.assign(state.next.begin(), state.next.end());
    std::sort(out.begin(), out.end());
    return;
  case Positions::Kind::Neighbors: {
    const Value &self = values[what.of[0]], &among = values[what.of[1]];
    value.known = self.known && among.known;
    findNeighbors(self.positions, among.positions, what.count, out);
    return;
  }
  case Positions::Kind::Nearest: {
    const Value &self = values[what.of[0]], &among = values[what.of[1]];
    value.known = self.known && among.known;
    const bool drawn =
        manifest.positions[what.of[0]].kind == Positions::Kind::Next;
    takeNearest(drawn ? state.next : std::span(self.positions), among.positions,
                what.count, out);
    return;
  }
  case Positions::Kind::Except: {
    const Value &of = values[what.of[0]], &without = values[what.of[1]];
    value.known = of.known && without.known;
    std::set_difference(of.positions.begin(), of.positions.end(),
                        without.positions.begin(), without.positions.end(),
                        std::back_inserter(out));
    return;
  }
  case Positions::Kind::Last: {
    const Value &of = values[what.of.front()];
    value.known = of.known;
    auto size = static_cast<int64_t>(of.positions.size());
    out.assign(of.positions.end() - std::min(what.count, size),
               of.positions.end());
    return;
  }
  case Positions::Kind::Confident: {
    const Value &of = values[what.of.front()];
    value.known = of.known;
    takeConfident(of.positions, what.count,
                  what.near > 0 ? &lifts.at(what.near) : nullptr, state, out);
    return;
  }
  case Positions::Kind::Attended: {
    const Value &of = values[what.of.front()];
    value.known = of.known;
    takeAttended(of.positions, what.share, state.attention, out);
    return;
  }
  case Positions::Kind::Hull:
  case Positions::Kind::Leading:
  case Positions::Kind::Predicting: {
    const Value &of = values[what.of.front()];
    value.known = of.known;
    if (of.positions.empty())
      return;
    if (what.kind == Positions::Kind::Hull)
      return addRange(of.positions.front(), of.positions.back() + 1);
    if (what.kind == Positions::Kind::Leading)
      return addRange(0, static_cast<int64_t>(of.positions.size()));
    for (int32_t position : of.positions) {
      int32_t row = shifted ? std::max(position - 1, 0) : position;
      if (out.empty() || out.back() != row)
        out.push_back(row);
    }
    return;
  }
  case Positions::Kind::Union:
  case Positions::Kind::Intersect: {
    bool first = true;
    for (int64_t of : what.of) {
      const Value &part = values[of];
      value.known &= part.known;
      std::vector<int32_t> both;
      if (first)
        both = part.positions;
      else if (what.kind == Positions::Kind::Union)
        std::set_union(out.begin(), out.end(), part.positions.begin(),
                       part.positions.end(), std::back_inserter(both));
      else
        std::set_intersection(out.begin(), out.end(), part.positions.begin(),
                              part.positions.end(), std::back_inserter(both));
      out = std::move(both);
      first = false;
    }
    return;
  }
  case Positions::Kind::Fixed:
    return; // above
  }
}

Result<std::span<const int32_t>> PositionSets::at(int64_t set) const {
  assert(set >= 0 && set < static_cast<int64_t>(values.size()));
  const Value &value = values[set];
  if (value.known)
    return std::span<const int32_t>(value.positions);
  const bundle::Positions *unfixed = &manifest.positions[set];
  while (unfixed->kind != Positions::Kind::Fixed)
    for (int64_t of : unfixed->of)
      if (!values[of].known) {
        unfixed = &manifest.positions[of];
        break;
      }
  return Error("a set of positions is fixed on the cadence " +
               bundle::toString(unfixed->cadence) +
               ", of which no step has come yet; let it name the first step");
}

bool PositionSets::holds(int64_t set, int64_t position) const {
  const Value &value = values[set];
  return std::binary_search(value.positions.begin(), value.positions.end(),
                            position);
}

int64_t PositionSets::bound(int64_t set, const SequenceShape &of) const {
  // One after the other: a set may be used by many.
  std::vector<int64_t> bounds;
  for (int64_t i = 0; i <= set; ++i)
    bounds.push_back(boundOf(manifest.positions[i], of, bounds));
  return bounds.back();
}
