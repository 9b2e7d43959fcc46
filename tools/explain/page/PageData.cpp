//===- PageData.cpp - What the page is drawn from -------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Numbers that repeat stand once: steps as runs [first, last, stride], series
// over steps as runs [value, steps], phases by rule rather than by layer. So
// the size follows the schedule's changes, not steps times layers.
//
//===----------------------------------------------------------------------===//

#include "bundle/program/ManifestNames.h"
#include "bundle/program/Program.h"
#include "tools/explain/Spelling.h"
#include "tools/explain/page/Page.h"
#include "tools/explain/page/SequencePicture.h"

#include "nlohmann/json.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

using namespace heddle;
using namespace heddle::bundle;
using namespace heddle::explain;
using nlohmann::ordered_json;

namespace {

/// The sequence picture's bins at most; halved while its text is too long.
constexpr int64_t mostBins = 512;
constexpr size_t longestRoles = 600'000;

/// Ascending numbers as runs [first, last, stride].
ordered_json stepRuns(const std::vector<int64_t> &steps) {
  ordered_json runs = ordered_json::array();
  for (size_t i = 0; i < steps.size();) {
    size_t end = i + 1;
    int64_t stride = end < steps.size() ? steps[end] - steps[i] : 1;
    while (end < steps.size() && steps[end] - steps[end - 1] == stride)
      ++end;
    // Two that are far apart are two.
    if (end - i == 2 && stride > 1)
      end = i + 1;
    runs.push_back({steps[i], steps[end - 1], end - i > 1 ? stride : 1});
    i = end;
  }
  return runs;
}

ordered_json toJson(const Series &series) {
  ordered_json runs = ordered_json::array();
  for (auto [value, steps] : series.runs)
    runs.push_back({value, steps});
  return runs;
}

/// What a row in the middle keeps: how far its keys are at most, and which
/// share of those it is.
void addBand(ordered_json &item, const Term &term, int64_t length) {
  const int64_t query = length / 2;
  int64_t kept = 0, half = 0;
  forRuns({&term, 1}, query, 0, length, [&](int64_t begin, int64_t end) {
    kept += end - begin;
    half = std::max({half, query - begin, end - 1 - query});
  });
  item["words"] = words(term);
  item["half"] = half;
  item["share"] = static_cast<double>(kept) / static_cast<double>(2 * half + 1);
}

/// The terms of a kernel as what they keep: positions, lists by number.
ordered_json termsOf(const Kernel &kernel, int64_t length) {
  ordered_json terms = ordered_json::array();
  for (const Term &term : kernel.terms) {
    ordered_json item;
    item["kind"] = detail::nameOf(term.kind);
    if (readsList(term)) {
      item["selection"] = term.selection;
      if (!term.within.empty())
        addBand(item, boundOf(term), length);
    } else if (term.kind == Term::Kind::Sinks && term.within.empty()) {
      item["bound"] = std::min(sinkBound({&term, 1}, length), length);
    } else {
      addBand(item, term, length);
    }
    terms.push_back(std::move(item));
  }
  return terms;
}

ordered_json rulesOf(const Explanation &explanation, const Spelling &spelling) {
  const Manifest &manifest = explanation.manifest;
  ordered_json rules = ordered_json::array();
  for (size_t i = 0; i < explanation.rules.size(); ++i) {
    const RuleExplanation &rule = explanation.rules[i];
    ordered_json item;
    item["layers"] = stepRuns(rule.layers);
    if (const Scores &scores = scoresOf(rule, manifest); !scores.empty())
      item["scores"] = toString(scores);
    item["phases"] = ordered_json::array();
    for (size_t p = 0; p < rule.phases.size(); ++p) {
      const PhaseExplanation &phase = rule.phases[p];
      const Phase &planned = manifest.rules[i].phases[p];
      ordered_json entry;
      entry["pattern"] = phase.pattern;
      entry["terms"] =
          termsOf(manifest.kernels[static_cast<size_t>(planned.attention)],
                  explanation.request.run.length);
      entry["steps"] = stepRuns(phase.steps);
      entry["pairs"] = phase.pairs;
      entry["exact"] = phase.pairsExact;
      entry["refreshes_first"] = phase.refreshesFirst;
      entry["refreshes"] = ordered_json::array();
      for (size_t r = 0; r < phase.refreshes.size(); ++r)
        entry["refreshes"].push_back(
            {{"selection", planned.refreshes[r].selection},
             {"steps", stepRuns(phase.refreshes[r].steps)}});
      entry["measures"] = ordered_json::array();
      for (const PhaseExplanation::Measure &each : phase.measures)
        entry["measures"].push_back({{"cadence", spelling.apply(each.cadence)},
                                     {"layer", each.layer},
                                     {"again", !each.kernel.empty()}});
      entry["unfilled"] = stepRuns(phase.unfilled);
      item["phases"].push_back(std::move(entry));
    }
    rules.push_back(std::move(item));
  }
  return rules;
}

ordered_json selectionsOf(const Explanation &explanation,
                          const Spelling &spelling) {
  const Manifest &manifest = explanation.manifest;
  ordered_json selections = ordered_json::array();
  for (size_t i = 0; i < explanation.selections.size(); ++i) {
    const SelectionExplanation &cost = explanation.selections[i];
    const Selection &selection = manifest.selections[i];
    ordered_json item;
    item["name"] = cost.name;
    item["kind"] = detail::nameOf(selection.kind);
    item["group"] = selection.group;
    item["keep"] = spelling.apply(keepText(selection));
    item["keys"] = cost.keys;
    item["of"] = cost.of;
    item["apart"] = selection.isolation != Selection::Isolation::None;
    item["per_kv_head"] = selection.perKvHead;
    item["per_layer"] = selection.perLayer;
    if (selection.within >= 0)
      item["within"] =
          manifest.selections[static_cast<size_t>(selection.within)].name;
    item["all_rows"] = selection.group == groupOfAll;
    item["scorer"] = bundle::detail::nameOf(selection.scorer);
    item["cadence"] = spelling.apply(toString(selection.cadence));
    item["chosen_in"] = stepRuns(cost.refreshed);
    item["read_in"] = stepRuns(cost.readers);
    item["lists"] = ordered_json::array();
    for (size_t t = 0; t < cost.lists.size(); ++t) {
      const SelectionExplanation::Lists &lists = cost.lists[t];
      item["lists"].push_back(
          {{"target", manifest.targets[t].cpu},
           {"encoding",
            lists.encoding ? ordered_json(nameOf(*lists.encoding)) : nullptr},
           {"bytes", lists.bytes}});
    }
    selections.push_back(std::move(item));
  }
  return selections;
}

ordered_json passesOf(const Explanation &explanation,
                      const Spelling &spelling) {
  ordered_json passes = ordered_json::array();
  for (const PassExplanation &pass : explanation.passes)
    passes.push_back({{"what", spelling.apply(pass.what)},
                      {"steps", stepRuns(pass.steps)},
                      {"rows", {pass.rows.least, pass.rows.most}},
                      {"depends", pass.depends}});
  return passes;
}

ordered_json simulationOf(const Explanation &explanation,
                          std::optional<SequencePicture> &picture) {
  const SimulationRequest &run = explanation.request.run;
  for (int64_t bins = mostBins;; bins /= 2) {
    picture.emplace(run, bins);
    Status status =
        simulate(explanation.manifest, run,
                 [&](const SimulatedStep &step) { picture->add(step); });
    if (!status) {
      picture.reset();
      return {{"error", status.error().text()}};
    }
    picture->finish();
    size_t characters = 0;
    for (const std::string &roles : picture->roles)
      characters += roles.size();
    if (characters <= longestRoles || bins <= 32)
      break;
  }
  ordered_json json;
  json["seed"] = run.seed;
  json["follows"] = run.follow != nullptr;
  json["steps"] = picture->steps;
  json["bin"] = picture->binSize;
  json["bins"] = picture->bins;
  json["roles"] = picture->roles;
  json["roles_of_steps"] = toJson(picture->rolesOfSteps);
  json["decoded"] = picture->decoded;
  json["visible"] = toJson(picture->visible);
  json["recomputed"] = toJson(picture->recomputed);
  json["partly"] = toJson(picture->partly);
  json["cached"] = toJson(picture->cached);
  json["masked"] = toJson(picture->masked);
  json["committed"] = toJson(picture->committed);
  json["logit_rows"] = toJson(picture->logitRows);
  return json;
}

/// The bytes that are kept from step to step in all layers, by part: of each
/// visible row what the schedule reuses, of each selection its lists from the
/// first refresh on.
ordered_json memoryOf(const Explanation &explanation, const Series &visible) {
  const Manifest &manifest = explanation.manifest;
  const SimulationRequest &run = explanation.request.run;
  const ModelShape &shape = explanation.request.shape;
  ordered_json parts = ordered_json::array();
  std::array ofRow = keptOfRow(shape, Reuse());
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    const auto here = keptOfRow(shape, reuseOf(manifest, layer, shape.layers));
    for (size_t part = 0; part < here.size(); ++part)
      ofRow[part].bytes += here[part].bytes;
  }
  for (const auto &[name, width] : ofRow) {
    // Where every step computes all rows, nothing that is kept is read.
    if (width == 0 || manifest.passes.empty())
      continue;
    Series bytes;
    for (auto [rows, steps] : visible.runs)
      bytes.runs.push_back({rows * width, steps});
    parts.push_back({{"name", name}, {"bytes", toJson(bytes)}});
  }
  for (size_t i = 0; i < explanation.selections.size(); ++i) {
    const SelectionExplanation &selection = explanation.selections[i];
    // The step at which each rule fills the lists of its layers.
    std::map<int64_t, int64_t> layersFilledAt;
    for (const RuleExplanation &rule : explanation.rules) {
      int64_t first = run.steps + 1;
      for (const PhaseExplanation &phase : rule.phases)
        for (const PhaseExplanation::Refresh &refresh : phase.refreshes)
          if (refresh.selection == selection.name && !refresh.steps.empty())
            first = std::min(first, refresh.steps.front());
      layersFilledAt[first] += std::ssize(rule.layers);
    }
    Series bytes;
    int64_t layers = 0, before = 1;
    for (auto [step, filled] : layersFilledAt) {
      int64_t last = std::min(step, run.steps + 1);
      if (last > before)
        bytes.runs.push_back(
            {layers * selection.lists.front().bytesPerLayer, last - before});
      before = last;
      layers += filled;
    }
    if (before <= run.steps)
      bytes.runs.push_back({layers * selection.lists.front().bytesPerLayer,
                            run.steps - before + 1});
    parts.push_back(
        {{"name", "lists of " + selection.name}, {"bytes", toJson(bytes)}});
  }
  return parts;
}

/// What the run computes of each part, as a share of a dense run.
ordered_json partsOfCost(const Explanation &explanation) {
  const RunCost &cost = explanation.cost;
  ordered_json parts = ordered_json::array();
  auto add = [&](const std::string &name, double share) {
    parts.push_back({{"name", name}, {"share", share}});
  };
  const ModelShape &shape = explanation.request.shape;
  add("Operations", operationsOf(shape, cost.run.work) /
                        operationsOf(shape, cost.dense.work));
  for (Part part : allParts) {
    double amount = amountOf(cost.run.work, part);
    if (part == Part::Scoring && amount == 0)
      continue;
    double dense = amountOf(cost.dense.work,
                            part == Part::Scoring ? Part::Attention : part);
    std::string name = nameOf(part);
    name.front() =
        static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
    add(name + (isOfPairs(part) ? ", pairs" : ", rows"),
        dense > 0 ? amount / dense : 0);
  }
  return parts;
}

} // namespace

std::string explain::pageData(const Explanation &explanation) {
  const ExplainRequest &request = explanation.request;
  const Manifest &manifest = explanation.manifest;
  ordered_json json;
  json["schedule"] = manifest.schedule;
  const Spelling spelling(request.source);
  json["source"] = request.source;
  json["producer"] = manifest.producer;
  json["run"] = {{"steps", request.run.steps},
                 {"length", request.run.length},
                 {"prompt", request.run.prompt},
                 {"block_length", request.run.blockLength},
                 {"block_steps", request.run.blockSteps()},
                 {"layers", request.shape.layers},
                 {"heads", request.shape.heads},
                 {"kv_heads", request.shape.kvHeads},
                 {"head_dim", request.shape.headDim}};
  json["planned"] = explanation.planned;
  json["dense_pairs"] = explanation.densePairs;
  json["rules"] = rulesOf(explanation, spelling);
  json["selections"] = selectionsOf(explanation, spelling);
  json["passes"] = passesOf(explanation, spelling);
  json["commits"] = ordered_json::array();
  for (const CommitText &commit : commitTexts(manifest))
    json["commits"].push_back(spelling.apply(
        commit.on.empty() ? commit.what
                          : "on " + commit.on + ": " + commit.what));
  json["visible"] = spelling.apply(toString(manifest, manifest.visible));
  const RunCost &cost = explanation.cost;
  json["cost"] = {
      {"bound", boundText(cost.certainty)},
      {"parts", partsOfCost(explanation)},
      {"machine", explanation.machine.label},
      {"speed_bound", speedBoundText(cost.certainty)},
      {"drift", spelling.apply(decidedText(explanation))},
      {"fallbacks", fallbackTexts(manifest)},
      {"times_as_fast", cost.denseSeconds.sum() / cost.seconds.sum()}};
  std::optional<SequencePicture> picture;
  json["simulation"] = simulationOf(explanation, picture);
  json["memory"] = memoryOf(explanation, picture ? picture->visible : Series());
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}
