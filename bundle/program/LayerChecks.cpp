//===- LayerChecks.cpp - What layers compute comes from those before ------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/LayerChecks.h"

#include <algorithm>
#include <set>

using namespace heddle::bundle;

using At = ProgramProblem::At;

namespace {

/// Ranges of layers of several clauses, each with the clause's index.
using OwnedRanges = std::vector<std::pair<LayerRange, size_t>>;

/// Two clauses that name the same layer, if there are any: the second in order,
/// and the first.
std::optional<std::pair<size_t, size_t>> findShared(OwnedRanges ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const auto &a, const auto &b) {
    return a.first.first < b.first.first;
  });
  // Layers that count from the end are negative, and lie apart.
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first.first <= ranges[i - 1].first.last)
      return std::pair(std::max(ranges[i].second, ranges[i - 1].second),
                       std::min(ranges[i].second, ranges[i - 1].second));
  return std::nullopt;
}

std::string textOf(int64_t layer) { return "layer " + std::to_string(layer); }

} // namespace

std::optional<ProgramProblem> LayerChecker::checkRanges() {
  const bool anyModel = modelLayers == 0;
  const std::string inModel =
      anyModel ? ""
               : " in a model of " + std::to_string(modelLayers) + " layers";
  size_t count = 0;
  auto check = [&](At at, size_t index, const std::vector<LayerRange> &ranges,
                   OwnedRanges *all) {
    OwnedRanges own;
    for (const LayerRange &each : ranges) {
      // In a model layers that count from either end meet.
      const LayerRange here = {each.first + (each.first < 0 ? modelLayers : 0),
                               each.last + (each.last < 0 ? modelLayers : 0)};
      if (anyModel &&
          ((here.first < 0) != (here.last < 0) || here.first > here.last))
        return fail(
            at, index,
            "names layers from " + std::to_string(each.first) + " to " +
                std::to_string(each.last) +
                ", which count from different ends or are not in order");
      if (!anyModel && (here.first < 0 || here.last >= modelLayers ||
                        here.first > here.last))
        return fail(at, index,
                    "names " + toString(std::vector{each}) +
                        ", the model has layers 0 to " +
                        std::to_string(modelLayers - 1));
      own.emplace_back(here, index);
    }
    count += ranges.size();
    if (count > maxLayerRanges)
      return fail(at, index,
                  "has one range of layers too many: recomputes and reuses "
                  "name at most " +
                      std::to_string(maxLayerRanges) + " in all");
    if (findShared(own))
      fail(at, index, "names a layer twice" + inModel);
    if (all)
      all->insert(all->end(), own.begin(), own.end());
  };
  OwnedRanges always, kept;
  for (size_t i = 0; i < manifest.passes.size(); ++i)
    check(At::Pass, i, manifest.passes[i].layers,
          manifest.passes[i].when.empty() ? &always : nullptr);
  for (size_t i = 0; i < manifest.layeredReuses.size(); ++i)
    check(At::Reuse, i, manifest.layeredReuses[i].layers, &kept);
  const std::string ofModel =
      "names layers that one in front of it has" + inModel;
  if (auto shared = findShared(always))
    fail(At::Pass, shared->first,
         anyModel ? ofModel + " at every step; give each layer one recompute "
                              "without a cadence"
                  : ofModel,
         shared->second);
  if (auto shared = findShared(kept))
    fail(At::Reuse, shared->first,
         anyModel
             ? "names layers that another one has; give each layer one reuse"
             : ofModel,
         shared->second);
  if (!problem)
    findPlaces();
  return problem;
}

std::optional<ProgramProblem> LayerChecker::checkIn(int64_t layers) {
  modelLayers = layers;
  checkRanges();
  for (size_t i = 0; i < manifest.passes.size() && !problem; ++i)
    if (!manifest.passes[i].computesAllRows())
      checkKept(i);
  return problem ? problem : checkPlaces();
}

void LayerChecker::findPlaces() {
  for (int64_t layer = 0; layer < modelLayers; ++layer)
    places.push_back(layer);
  if (modelLayers > 0)
    return findPasses();
  std::set<int64_t> fromFront = {0}, fromEnd;
  auto add = [&](const std::vector<LayerRange> &ranges) {
    for (const LayerRange &each : ranges) {
      std::set<int64_t> &side = each.first < 0 ? fromEnd : fromFront;
      side.insert(each.first);
      if (each.first >= 0 || each.last < -1)
        side.insert(each.last + 1);
    }
  };
  for (const Pass &pass : manifest.passes)
    add(pass.layers);
  for (const LayeredReuse &each : manifest.layeredReuses)
    add(each.layers);
  places.assign(fromFront.begin(), fromFront.end());
  places.insert(places.end(), fromEnd.begin(), fromEnd.end());
  findPasses();
}

void LayerChecker::findPasses() {
  passesOf.clear();
  for (int64_t place : places) {
    std::vector<size_t> &here = passesOf.emplace_back();
    for (size_t i = 0; i < manifest.passes.size(); ++i) {
      if (!hasPlace(manifest.passes[i].layers, place))
        continue;
      here.push_back(i);
      if (manifest.passes[i].when.empty())
        break;
    }
  }
  // Once, as it is asked of each pass for each rule.
  letsEnd.assign(manifest.passes.size(), false);
  for (size_t i = 0; i < places.size(); ++i)
    if (!reuseAt(places[i]).carries())
      for (size_t pass : passesOf[i])
        letsEnd[pass] =
            manifest.passes[pass].exact == Pass::Exact::LeastSimilar;
}

/// Whether, as far as it can be shown, a step may run one pass at a place and
/// the other at another one: not if the one in front has both places, since its
/// conditions hold at the step.
bool LayerChecker::mayMeet(size_t pass, int64_t place, size_t other,
                           int64_t otherPlace) const {
  if (pass == other)
    return true;
  return !hasPlace(manifest.passes[std::min(pass, other)].layers,
                   pass < other ? otherPlace : place);
}

/// Whether a set holds all positions of the other one at every step; -1 is all
/// positions. False when that cannot be shown.
bool LayerChecker::holdsAll(int64_t set, int64_t other) {
  using Kind = Positions::Kind;
  if (set < 0 || set == other)
    return true;
  if (other < 0)
    return manifest.positions[size_t(set)].kind == Kind::All;
  const size_t sets = manifest.positions.size();
  if (heldBy.empty())
    heldBy.assign(sets * sets, -1);
  signed char &known = heldBy[size_t(set) * sets + size_t(other)];
  if (known >= 0)
    return known;
  const Positions &a = manifest.positions[size_t(set)];
  const Positions &b = manifest.positions[size_t(other)];
  auto holds = [&](int64_t part) { return holdsAll(part, other); };
  auto held = [&](int64_t part) { return holdsAll(set, part); };
  bool result = a.kind == Kind::All;
  switch (b.kind) { // what the other one is made of
  case Kind::Union:
    result |= std::ranges::all_of(b.of, held);
    break;
  case Kind::Intersect:
    result |= std::ranges::any_of(b.of, held);
    break;
  case Kind::Except:
  case Kind::Last:
  case Kind::Confident:
  case Kind::Attended:
    result |= held(b.of.front());
    break;
  case Kind::Neighbors:
  case Kind::Nearest:
    result |= held(b.of.back());
    break;
  case Kind::Undecoded:
    result |= a.kind == Kind::Undecoded &&
              (a.count == 0 || (b.count > 0 && b.count <= a.count));
    break;
  case Kind::Committed:
    result |= a.kind == Kind::Committed && b.count > 0 && b.count <= a.count;
    break;
  case Kind::Block:
    result |= a.kind == Kind::FromBlock || a.kind == Kind::Response;
    break;
  case Kind::FromBlock:
    result |= a.kind == Kind::Response;
    break;
  case Kind::Prompt:
    result |= a.kind == Kind::BeforeBlock;
    break;
  default:
    break;
  }
  switch (a.kind) { // what the set is made of
  case Kind::Union:
    result = result || std::ranges::any_of(a.of, holds);
    break;
  case Kind::Intersect:
    result = result || std::ranges::all_of(a.of, holds);
    break;
  case Kind::Hull:
    result = result || holds(a.of.front()) ||
             (b.kind == Kind::Hull && holdsAll(a.of.front(), b.of.front()));
    break;
  case Kind::Fixed:
    result = result || (b.kind == Kind::Fixed && a.cadence == b.cadence &&
                        holdsAll(a.of.front(), b.of.front()));
    break;
  default:
    break;
  }
  known = result;
  return result;
}

/// The same of the rows of two passes, whatever the model predicts in which.
bool LayerChecker::holdsRows(const Pass &pass, const Pass &other) {
  if (pass.rows < 0)
    return true;
  if (other.rows >= 0 && !pass.alone) {
    const Positions &rows = manifest.positions[size_t(other.rows)];
    if (rows.kind == Positions::Kind::Predicting)
      return holdsAll(pass.rows, rows.of.front());
  }
  return (!pass.alone || other.alone) && holdsAll(pass.rows, other.rows);
}

std::optional<ProgramProblem> LayerChecker::checkKept(size_t index) {
  const Pass &pass = manifest.passes[index];
  for (size_t i = 0; i < places.size() && !problem; ++i) {
    if (!std::ranges::count(passesOf[i], index))
      continue;
    const Reuse &reuse = reuseAt(places[i]);
    const std::string where =
        manifest.layeredReuses.empty() ? "" : " in " + textOf(places[i]);
    if (!reuse.kv)
      fail(At::Pass, index,
           "computes some rows, which attend to the others' keys and values: "
           "these must be kept, by `reuse kv`");
    else if (pass.comparesContexts() && !(reuse.keepsContext() && reuse.ffn))
      fail(At::Pass, index,
           "compares attention contexts with cached ones and goes on with "
           "cached FFN outputs: it needs `reuse kv, context, ffn`" +
               where);
    else if (pass.exact == Pass::Exact::LeastSimilar &&
             (reuse.carries()
                  ? reuse.attention == Reuse::Attention::Propagated
                  : reuse.ffn || reuse.attention != Reuse::Attention::None))
      fail(At::Pass, index,
           "goes on with cached attention and FFN outputs: it needs "
           "`reuse kv, output, ffn` (or context, not propagating)" +
               where +
               "; or `reuse kv`, and the rows that it does not choose "
               "end");
  }
  // R23: what an order takes is predicted and committed at once.
  if (pass.confidence.num > 0 &&
      manifest.commit.kind == CommitRule::Kind::RandomOrder)
    fail(At::Pass, index,
         "weighs the confidence of what earlier steps predicted and left "
         "masked, and with `commit random_order` they predict what they commit "
         "alone; commit by confidence, or drop `confidence`");
  return problem;
}

std::optional<ProgramProblem> LayerChecker::checkUnseen(size_t index) {
  const Pass &pass = manifest.passes[index];
  if (!pass.unseen)
    return problem;
  const std::string rows = "computes rows that are not visible (`unseen`), ";
  if (pass.rows < 0)
    fail(At::Pass, index,
         "computes all visible rows, of which none is unseen; name positions, "
         "or leave `unseen` out");
  else if (manifest.visible < 0)
    fail(At::Pass, index,
         rows + "and every position is; leave `unseen` out, or say by "
                "`visible` which positions are keys");
  else if (pass.exact != Pass::Exact::All)
    fail(At::Pass, index,
         rows + "of which nothing is cached to compare them with; write "
                "`recompute %rows unseen`, or leave `unseen` out");
  else if (std::ranges::any_of(manifest.passes, [](const Pass &each) {
             return !each.layers.empty();
           }))
    fail(At::Pass, index,
         rows + "of which layers that leave them out keep nothing, and a "
                "recompute names layers; let none name layers, or leave "
                "`unseen` out");
  else if (manifest.reuse.attention == Reuse::Attention::Outside)
    fail(At::Pass, index,
         rows + "of which no attention outside of a set is kept; leave "
                "`unseen` out, or reuse kv without attention");
  return problem;
}

std::optional<ProgramProblem> LayerChecker::checkPlaces() {
  auto rowsText = [&](const Pass &pass) {
    return toString(manifest, pass.rows) + (pass.alone ? " alone" : "");
  };
  std::optional<size_t> ends; // the last place so far where rows end
  for (size_t i = 0; i < places.size() && !problem; ++i) {
    for (size_t index : passesOf[i]) {
      const Pass &pass = manifest.passes[index];
      if (ends)
        for (size_t before : passesOf[*ends]) {
          if (!mayMeet(before, places[*ends], index, places[i]) ||
              holdsRows(manifest.passes[before], pass))
            continue;
          fail(At::Pass, index,
               "computes " + rowsText(pass) + " in " + textOf(places[i]) +
                   ", and " + textOf(places[*ends]) + " no more than " +
                   rowsText(manifest.passes[before]) +
                   ", so that others have no hidden state: let later layers "
                   "name positions of the earlier ones' (such as an intersect "
                   "with these), or let " +
                   textOf(places[*ends]) + " `reuse kv, output, ffn`");
        }
      if (i > 0 && pass.exact == Pass::Exact::Salient &&
          !reuseAt(places[i - 1]).keepsContext())
        for (size_t before : passesOf[i - 1])
          if (before != index &&
              mayMeet(before, places[i - 1], index, places[i]))
            fail(At::Pass, index,
                 "goes by what changed in " + textOf(places[i - 1]) +
                     ", which keeps no contexts to compare; let it "
                     "`reuse kv, context, ffn`");
    }
    if (!reuseAt(places[i]).carries())
      ends = i;
  }
  return problem;
}

std::vector<int64_t>
heddle::bundle::firstLayers(const std::vector<LayerSpan> &spans) {
  std::vector<std::pair<int64_t, int64_t>> named;
  for (const LayerSpan &span : spans)
    if (!span.isDefault && span.first >= 0)
      named.emplace_back(span.first, span.last);
  std::sort(named.begin(), named.end());
  int64_t unnamed = 0;
  for (const auto &[first, last] : named)
    if (first <= unnamed)
      unnamed = std::max(unnamed, last + 1);
  std::vector<int64_t> layers;
  for (const LayerSpan &span : spans)
    layers.push_back(span.isDefault ? unnamed : span.first);
  return layers;
}

void FirstOf::add(int64_t layer) {
  std::optional<int64_t> &first = layer < 0 ? fromEnd : fromFront;
  first = std::min(first.value_or(layer), layer);
}

bool FirstOf::comesBefore(int64_t layer) const {
  if (fromFront && (layer < 0 || *fromFront < layer))
    return true;
  return layer < 0 && fromEnd && *fromEnd < layer;
}
