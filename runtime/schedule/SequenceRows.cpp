//===- SequenceRows.cpp - What a step sees and computes -------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/schedule/SequenceRows.h"

#include "bundle/program/Program.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>

using namespace heddle;
using namespace heddle::rt;
using bundle::Pass;

/// That of a manifest without passes.
static const Pass &everything() {
  static const Pass pass;
  return pass;
}

SequenceRows::SequenceRows(const bundle::Manifest &manifest, bool shifted)
    : manifest(manifest), shifted(shifted), positionSets(manifest, shifted) {}

void SequenceRows::beginRun(const SequenceShape &shape) {
  ofRun = shape;
  positionSets.beginRun(shape);
  stepping = changed = false;
  running = &everything();
  visible.clear();
  activeRows.clear();
  committed.clear();
  among.clear();
  keepsOutside = false;
  from.clear();
  to.clear();
  written.clear();
}

Status SequenceRows::beginStep(const SequenceState &state) {
  stepping = !state.done;
  changed = false;
  activeRows.clear();
  committed.clear();
  among.clear();
  if (state.done)
    return Status::success();
  at = state.place;
  if (Status status = positionSets.beginStep(state); !status)
    return status;
  if (Status status = see(); !status)
    return status;
  // An extra pass has nothing left to show where only masked positions are
  // visible.
  if (visible.empty() && std::find(state.masked.begin(), state.masked.end(),
                                   1) == state.masked.end()) {
    stepping = false;
    return Status::success();
  }
  within = bundle::commitAt(manifest, at).within;
  std::optional<size_t> pass = bundle::passAt(manifest, at);
  running = pass ? &manifest.passes[*pass] : &everything();
  if (Status status = pickRows(); !status)
    return status;
  move();
  for (size_t row = 0; row < activeRows.size(); ++row) {
    int32_t position = visible[activeRows[row]];
    if (state.committedAt[position] >= 1 &&
        state.committedAt[position] >= at.step - 1)
      committed.push_back(static_cast<int32_t>(row));
  }
  if (Status status = checkWritten(); !status)
    return status;
  return manifest.reuse.attention == bundle::Reuse::Attention::Outside
             ? findInside()
             : Status::success();
}

/// Which keys attention is kept without, at a step that keeps it.
Status SequenceRows::findInside() {
  keysInside.fresh = bundle::includes(manifest.reuse.cadence, at);
  if (!keysInside.fresh) {
    if (keepsOutside && !changed)
      return Status::success();
    return Error(
        std::string("attention over the keys outside of a set is not kept ") +
        (keepsOutside ? "of the visible positions, which have changed"
                      : "at any step before") +
        "; let the cadence that it is kept on have this step");
  }
  keepsOutside = whole();
  if (!keepsOutside)
    return Error("attention over the keys outside of a set is to be kept of "
                 "all " +
                 std::to_string(n()) + " visible rows, but the pass computes " +
                 std::to_string(rows()) +
                 " of them, or not exactly; recompute all on its cadence");
  Result<std::span<const int32_t>> set = positionSets.at(manifest.reuse.inside);
  if (!set)
    return set.takeError().withContext("the keys inside");
  const std::vector<int32_t> places = placesOf(*set);
  keysInside.begin = places.empty() ? 0 : places.front();
  keysInside.end = places.empty() ? 0 : places.back() + 1;
  if (keysInside.end - keysInside.begin != std::ssize(places))
    return Error("the keys inside do not follow each other");
  return Status::success();
}

/// Fills in `visible`.
Status SequenceRows::see() {
  std::vector<int32_t> next;
  if (int64_t seen = bundle::visibleAt(manifest, at); seen >= 0) {
    Result<std::span<const int32_t>> set = positionSets.at(seen);
    if (!set)
      return set.takeError().withContext("the visible positions");
    next.assign(set->begin(), set->end());
    changed = next != visible;
  } else if (visible.size() != static_cast<size_t>(ofRun.length)) {
    next.resize(static_cast<size_t>(ofRun.length));
    std::iota(next.begin(), next.end(), 0);
    changed = true;
  }
  if (changed) {
    before = std::move(visible);
    visible = std::move(next);
  }
  return Status::success();
}

/// What stays visible keeps what was computed of it, unless all is computed
/// anew.
void SequenceRows::move() {
  from.clear();
  to.clear();
  if (!changed)
    return;
  std::vector<uint8_t> kept(visible.size(), 0);
  if (!whole())
    for (size_t old = 0, place = 0;
         old < before.size() && place < visible.size();) {
      if (before[old] != visible[place]) {
        ++(before[old] < visible[place] ? old : place);
        continue;
      }
      kept[place] = written[old];
      if (written[old] && old != place) {
        from.push_back(static_cast<int32_t>(old));
        to.push_back(static_cast<int32_t>(place));
      }
      ++old;
      ++place;
    }
  written = std::move(kept);
}

/// The places of those positions of an ascending set that are visible.
std::vector<int32_t> SequenceRows::placesOf(std::span<const int32_t> of) const {
  std::vector<int32_t> places;
  size_t place = 0;
  for (int32_t position : of) {
    while (place < visible.size() && visible[place] < position)
      ++place;
    if (place == visible.size())
      break;
    if (visible[place] == position)
      places.push_back(static_cast<int32_t>(place));
  }
  return places;
}

/// The indices of the active rows that stand at positions of an ascending set.
std::vector<int32_t>
SequenceRows::activeRowsAt(std::span<const int32_t> of) const {
  std::vector<int32_t> rows;
  size_t row = 0;
  for (int32_t place : placesOf(of)) {
    while (row < activeRows.size() && activeRows[row] < place)
      ++row;
    if (row < activeRows.size() && activeRows[row] == place)
      rows.push_back(static_cast<int32_t>(row));
  }
  return rows;
}

Status SequenceRows::pickRows() {
  if (running->rows < 0) {
    activeRows.resize(visible.size());
    std::iota(activeRows.begin(), activeRows.end(), 0);
  } else {
    Result<std::span<const int32_t>> set = positionSets.at(running->rows);
    if (!set)
      return set.takeError().withContext("the rows to recompute");
    if (shifted && !running->alone) {
      std::vector<int32_t> before, both;
      for (int32_t position : *set)
        if (position > 0)
          before.push_back(position - 1);
      std::set_union(set->begin(), set->end(), before.begin(), before.end(),
                     std::back_inserter(both));
      activeRows = placesOf(both);
    } else {
      activeRows = placesOf(*set);
    }
  }
  if (running->exact == Pass::Exact::LeastSimilar) {
    Result<std::span<const int32_t>> set = positionSets.at(running->among);
    if (!set)
      return set.takeError().withContext("the rows to compare");
    among = activeRowsAt(*set);
  }
  return Status::success();
}

/// What a step does not compute, it reads.
Status SequenceRows::checkWritten() const {
  if (whole() || activeRows.empty())
    return Status::success();
  std::string computes = "the pass computes " + std::to_string(rows()) +
                         " of " + std::to_string(n()) + " visible positions";
  if (!manifest.reuse.kv)
    return Error(computes + ", but the schedule keeps no keys and values of "
                            "the others; let it reuse kv");
  size_t row = 0;
  for (size_t place = 0; place < written.size(); ++place) {
    bool computed = running->exact == Pass::Exact::All &&
                    row < activeRows.size() &&
                    activeRows[row] == static_cast<int32_t>(place);
    row += row < activeRows.size() &&
           activeRows[row] == static_cast<int32_t>(place);
    if (!computed && !written[place])
      return Error(computes + ", and position " +
                   std::to_string(visible[place]) +
                   " has not been computed at any step since it became "
                   "visible; let the schedule recompute all rows at the first "
                   "step and wherever the visible positions change");
  }
  return Status::success();
}

void SequenceRows::finishStep() {
  if (!stepping || running->exact != Pass::Exact::All)
    return;
  for (int32_t place : activeRows)
    written[place] = 1;
}

int64_t SequenceRows::mostVisible(const SequenceShape &shape) const {
  return manifest.visible < 0 || manifest.showsAll()
             ? shape.length
             : positionSets.bound(manifest.visible, shape);
}
