//===- SequenceRows.cpp - What a step sees and computes -------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/schedule/SequenceRows.h"

#include "bundle/program/Program.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>

using namespace heddle;
using namespace heddle::rt;
using bundle::Pass;

/// Calls `use` with each number of an ascending list and its index in another
/// one; -1: it is not there.
template <typename Use>
static void forIndices(std::span<const int32_t> of, std::span<const int32_t> in,
                       Use use) {
  size_t index = 0;
  for (int32_t number : of) {
    while (index < in.size() && in[index] < number)
      ++index;
    const bool found = index < in.size() && in[index] == number;
    use(number, found ? static_cast<int32_t>(index) : -1);
  }
}

/// The indices, in one ascending list, of those numbers of another that it has.
static std::vector<int32_t> indicesOf(std::span<const int32_t> of,
                                      std::span<const int32_t> in) {
  std::vector<int32_t> indices;
  forIndices(of, in, [&](int32_t, int32_t index) {
    if (index >= 0)
      indices.push_back(index);
  });
  return indices;
}

/// That of a manifest without passes.
static const Pass &everything() {
  static const Pass pass;
  return pass;
}

SequenceRows::SequenceRows(const bundle::Manifest &manifest, bool shifted,
                           int64_t layers, const SequenceShape &shape)
    : manifest(manifest), shifted(shifted), layers(layers),
      positionSets(manifest, shifted), ofRun(shape),
      parts{{&everything(), {}, {}}} {
  for (int64_t layer = 0; layer < layers; ++layer)
    carries.push_back(bundle::reuseOf(manifest, layer, layers).carries());
  positionSets.beginRun(shape);
}

Status SequenceRows::beginStep(const SequenceState &state) {
  stepping = !state.done;
  changed = false;
  unseen.clear();
  activeRows.clear();
  committed.clear();
  if (state.done)
    return Status::success();
  at = state.place;
  if (ofRun.isShadow()) {
    beginShadow(state);
    return Status::success();
  }
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
  if (Status status = pickRows(); !status)
    return status;
  if (Status status = followRows(); !status)
    return status;
  move();
  for (size_t row = 0; row < activeRows.size(); ++row) {
    int32_t position = positionOf(activeRows[row]);
    if (state.committedAt[position] >= 1 &&
        state.committedAt[position] >= at.step - 1)
      committed.push_back(static_cast<int32_t>(row));
  }
  findConfidences(state);
  if (Status status = checkWritten(); !status)
    return status;
  return manifest.reuse.attention == bundle::Reuse::Attention::Outside
             ? findInside()
             : Status::success();
}

/// Its rows have the places of the block. Nothing is kept of them.
void SequenceRows::beginShadow(const SequenceState &state) {
  changed = visible.empty();
  visible.resize(static_cast<size_t>(ofRun.length));
  std::iota(visible.begin(), visible.end(), 0);
  activeRows.resize(static_cast<size_t>(state.blockEnd - state.blockBegin));
  std::iota(activeRows.begin(), activeRows.end(),
            static_cast<int32_t>(state.blockBegin));
}

/// A model predicts in a row that position, or the one behind it.
void SequenceRows::findConfidences(const SequenceState &state) {
  confidences.clear();
  if (std::none_of(parts.begin(), parts.end(), [](const Part &part) {
        return part.pass->confidence.num > 0;
      }))
    return;
  const auto length = static_cast<int64_t>(state.confidence.size());
  for (int32_t place : activeRows) {
    const int64_t position = positionOf(place) + (shifted ? 1 : 0);
    const bool predicted =
        position < length && state.masked[static_cast<size_t>(position)] &&
        std::isfinite(state.confidence[static_cast<size_t>(position)]);
    confidences.push_back(
        predicted ? state.confidence[static_cast<size_t>(position)] : 0);
  }
}

/// Which keys attention is kept without, at a step that keeps it, and of which
/// rows others may keep it anew.
Status SequenceRows::findInside() {
  refreshableRows.clear();
  keysInside.fresh = bundle::includes(manifest.reuse.cadence, at);
  if (!keysInside.fresh) {
    if (!keepsOutside || changed)
      return Error(
          std::string("attention over the keys outside of a set is not kept ") +
          (keepsOutside ? "of the visible positions, which have changed"
                        : "at any step before") +
          "; let the cadence that it is kept on have this step");
    if (manifest.reuse.refreshed < 0)
      return Status::success();
    Result<std::span<const int32_t>> set =
        positionSets.at(manifest.reuse.refreshed);
    if (!set)
      return set.takeError().withContext("the rows to refresh");
    refreshableRows = activeRowsAt(*set);
    return Status::success();
  }
  keepsOutside = whole();
  if (!keepsOutside)
    return Error("attention over the keys outside of a set is to be kept of "
                 "all " +
                 std::to_string(n()) + " visible rows, but the pass computes " +
                 std::to_string(rows()) +
                 " of them, or not exactly; recompute all on its cadence");
  Result<Range> range = rangeOf(manifest.reuse.inside);
  if (!range)
    return range.takeError().withContext("the keys inside");
  keysInside.begin = range->begin;
  keysInside.end = range->end;
  return Status::success();
}

Result<SequenceRows::Range> SequenceRows::rangeOf(int64_t set) const {
  Result<std::span<const int32_t>> positions = positionSets.at(set);
  if (!positions)
    return positions.takeError();
  const std::vector<int32_t> places = indicesOf(*positions, visible);
  if (places.empty())
    return Range{};
  const Range range = {places.front(), places.back() + 1};
  if (range.end - range.begin != std::ssize(places))
    return Error("the positions do not follow each other");
  return range;
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

/// The places of all positions of an ascending set; those that are not visible
/// are added to `unseen`.
std::vector<int32_t> SequenceRows::withUnseen(std::span<const int32_t> of) {
  std::vector<int32_t> places;
  forIndices(of, visible, [&](int32_t position, int32_t place) {
    if (place < 0) {
      place = static_cast<int32_t>(n() + std::ssize(unseen));
      unseen.push_back(position);
    }
    places.push_back(place);
  });
  return places;
}

/// The indices of the active rows that stand at positions of an ascending set.
std::vector<int32_t>
SequenceRows::activeRowsAt(std::span<const int32_t> of) const {
  return indicesOf(indicesOf(of, visible), activeRows);
}

/// The places that a pass's rows have.
Status SequenceRows::pickPlaces(const Pass &pass,
                                std::vector<int32_t> &places) {
  if (pass.rows < 0) {
    places.resize(visible.size());
    std::iota(places.begin(), places.end(), 0);
    return Status::success();
  }
  Result<std::span<const int32_t>> set = positionSets.at(pass.rows);
  if (!set)
    return set.takeError().withContext("the rows to recompute");
  std::vector<int32_t> before, both;
  std::span<const int32_t> rows = *set;
  if (shifted && !pass.alone) {
    for (int32_t position : *set)
      if (position > 0)
        before.push_back(position - 1);
    std::set_union(set->begin(), set->end(), before.begin(), before.end(),
                   std::back_inserter(both));
    rows = both;
  }
  places = pass.unseen ? withUnseen(rows) : indicesOf(rows, visible);
  return Status::success();
}

/// Fills in `parts`, `partOfLayer` and `activeRows`.
Status SequenceRows::pickRows() {
  const std::vector<size_t> passes = bundle::passesAt(manifest, at);
  parts.clear();
  partOfLayer.clear();
  if (passes.size() <= 1) {
    parts.push_back(
        {passes.empty() ? &everything() : &manifest.passes[passes[0]], {}, {}});
    if (Status status = pickPlaces(*parts[0].pass, activeRows); !status)
      return status;
  } else {
    std::vector<size_t> partOfPass(passes.size(), passes.size());
    for (int64_t layer = 0; layer < layers; ++layer) {
      size_t i = 0;
      while (
          !bundle::hasLayer(manifest.passes[passes[i]].layers, layer, layers))
        ++i; // the last one has all
      if (partOfPass[i] == passes.size()) {
        partOfPass[i] = parts.size();
        parts.push_back({&manifest.passes[passes[i]], {false, {}}, {}});
      }
      partOfLayer.push_back(partOfPass[i]);
    }
    std::vector<std::vector<int32_t>> places(parts.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      if (Status status = pickPlaces(*parts[i].pass, places[i]); !status)
        return status;
      std::vector<int32_t> both;
      std::set_union(activeRows.begin(), activeRows.end(), places[i].begin(),
                     places[i].end(), std::back_inserter(both));
      activeRows = std::move(both);
    }
    for (size_t i = 0; i < parts.size(); ++i)
      if (places[i].size() == activeRows.size())
        parts[i].rows = {};
      else
        parts[i].rows.rows = indicesOf(places[i], activeRows);
  }
  for (Part &part : parts) {
    if (part.pass->exact != Pass::Exact::LeastSimilar)
      continue;
    Result<std::span<const int32_t>> set = positionSets.at(part.pass->among);
    if (!set)
      return set.takeError().withContext("the rows to compare");
    std::vector<int32_t> among = activeRowsAt(*set);
    if (Status status = leaveOutPredicting(part, *set, among); !status)
      return status;
    if (part.rows.all)
      part.among = std::move(among);
    else
      std::set_intersection(among.begin(), among.end(), part.rows.rows.begin(),
                            part.rows.rows.end(),
                            std::back_inserter(part.among));
  }
  return Status::success();
}

/// Takes out of `among` the rows that predict a position of the pass that `set`
/// lacks, in a model that predicts it in the row before.
Status SequenceRows::leaveOutPredicting(const Part &part,
                                        std::span<const int32_t> set,
                                        std::vector<int32_t> &among) {
  if (!shifted)
    return Status::success();
  std::vector<int32_t> rows;
  std::span<const int32_t> all = visible;
  if (part.pass->rows >= 0) {
    Result<std::span<const int32_t>> own = positionSets.at(part.pass->rows);
    if (!own)
      return own.takeError().withContext("the rows to recompute");
    rows.assign(own->begin(), own->end());
    all = rows;
  }
  std::erase_if(among, [&](int32_t row) {
    const int32_t next = positionOf(activeRows[row]) + 1;
    return std::binary_search(all.begin(), all.end(), next) &&
           !std::binary_search(set.begin(), set.end(), next);
  });
  return Status::success();
}

/// Follows the active rows through the layers: what one computes must have come
/// out of the one before. Fills in `lastRows`.
Status SequenceRows::followRows() {
  lastRows = {};
  if (partOfLayer.empty())
    return Status::success();
  for (int64_t layer = 0; layer < layers; ++layer) {
    const bool same = layer > 0 &&
                      partOfLayer[layer] == partOfLayer[layer - 1] &&
                      carries[layer] == carries[layer - 1];
    if (same)
      continue;
    const Picked &rows = partOf(layer).rows;
    const bool held =
        lastRows.all ||
        (!rows.all && std::ranges::includes(lastRows.rows, rows.rows));
    if (!held)
      return Error("layer " + std::to_string(layer) +
                   " computes rows that a layer before neither computes nor "
                   "carries on; let later layers compute rows of the earlier "
                   "ones', or reuse kv, output, ffn");
    if (!carries[layer])
      lastRows = rows;
  }
  return Status::success();
}

bool SequenceRows::whole() const {
  return rows() == n() && unseen.empty() &&
         std::all_of(parts.begin(), parts.end(), [](const Part &part) {
           return part.rows.all && part.pass->exact == Pass::Exact::All;
         });
}

/// [active rows]: whether every layer computes the row exactly.
std::vector<uint8_t> SequenceRows::inAllLayers() const {
  std::vector<uint8_t> result(activeRows.size(), 1);
  for (const Part &part : parts) {
    if (part.pass->exact != Pass::Exact::All) {
      std::fill(result.begin(), result.end(), uint8_t(0));
    } else if (!part.rows.all) {
      std::vector<uint8_t> own(activeRows.size(), 0);
      for (int32_t row : part.rows.rows)
        own[row] = result[row];
      result = std::move(own);
    }
  }
  return result;
}

/// What a step does not compute, it reads.
Status SequenceRows::checkWritten() const {
  if (whole() || activeRows.empty())
    return Status::success();
  std::string computes = "the pass computes " + std::to_string(visibleRows()) +
                         " of " + std::to_string(n()) + " visible positions";
  if (!manifest.reuse.kv)
    return Error(computes + ", but the schedule keeps no keys and values of "
                            "the others; let it reuse kv");
  const std::vector<uint8_t> exact = inAllLayers();
  std::vector<uint8_t> there = written;
  for (size_t row = 0; row < exact.size(); ++row)
    if (exact[row] && isVisible(activeRows[row]))
      there[activeRows[row]] = 1;
  for (size_t place = 0; place < there.size(); ++place)
    if (!there[place])
      return Error(computes + ", and position " +
                   std::to_string(visible[place]) +
                   " has not been computed at any step since it became "
                   "visible; let the schedule recompute all rows at the first "
                   "step and wherever the visible positions change");
  return Status::success();
}

void SequenceRows::finishStep() {
  if (!stepping || ofRun.isShadow())
    return;
  const std::vector<uint8_t> exact = inAllLayers();
  for (size_t row = 0; row < exact.size(); ++row)
    if (exact[row] && isVisible(activeRows[row]))
      written[activeRows[row]] = 1;
}

int64_t SequenceRows::mostPlaces(const bundle::Manifest &manifest,
                                 const SequenceShape &shape) {
  if (shape.isShadow())
    return shape.length;
  // Visible or not, a position has one place.
  const bool anyUnseen =
      std::any_of(manifest.passes.begin(), manifest.passes.end(),
                  [](const Pass &pass) { return pass.unseen; });
  return manifest.visible < 0 || manifest.showsAll() || anyUnseen
             ? shape.length
             : PositionSets(manifest).bound(manifest.visible, shape);
}
