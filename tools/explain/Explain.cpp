//===- Explain.cpp - What a schedule does when, and costs -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Explain.h"
#include "bundle/program/ManifestNames.h"
#include "bundle/program/Program.h"
#include "runtime/cache/IndexLists.h"
#include "tools/explain/KeptPairs.h"

#include <algorithm>
#include <charconv>
#include <set>

using namespace heddle;
using namespace heddle::bundle;
using namespace heddle::explain;

std::string heddle::explain::runLengths(const std::vector<int64_t> &numbers) {
  if (numbers.empty())
    return "none";
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1)
      ++end;
    text += (i ? "," : "") + std::to_string(numbers[i]);
    if (end - i > 1) // two neighbours read better as "1,2"
      text += (end - i > 2 ? "-" : ",") + std::to_string(numbers[end - 1]);
    i = end;
  }
  return text;
}

namespace {

/// As few digits as say the number.
std::string shortest(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

Status checkRange(const char *what, int64_t value, int64_t most) {
  if (value >= 1 && value <= most)
    return Status::success();
  return Error(std::string(what) + " is " + std::to_string(value) +
               ", expected 1 to " + std::to_string(most));
}

/// [selection][step - 1]: whether the step is one of the selection's cadence.
using Due = std::vector<std::vector<bool>>;

/// The first step at which a rule refreshes each selection.
std::vector<int64_t> firstRefreshes(const Manifest &manifest, const Rule &rule,
                                    const ExplainRequest &request,
                                    const Due &due) {
  const SimulationRequest &run = request.run;
  std::vector<int64_t> first(manifest.selections.size(), run.steps + 1);
  std::vector<size_t> timeline =
      phasesOfSteps(rule, run.steps, run.blockSteps());
  for (int64_t step = run.steps; step >= 1; --step)
    for (const Phase::Refresh &refresh :
         rule.phases[timeline[static_cast<size_t>(step - 1)]].refreshes)
      if (auto of = static_cast<size_t>(refresh.selection);
          due[of][static_cast<size_t>(step - 1)])
        first[of] = step;
  return first;
}

/// Of each selection the keys that are always listed.
struct AlwaysListed {
  std::vector<int64_t> keys; ///< of sets that change as many as there can be
  std::vector<bool> exact;   ///< whether lists always have as many keys
};

AlwaysListed alwaysListed(const Manifest &manifest,
                          const SimulationRequest &run) {
  AlwaysListed always;
  for (const Selection &selection : manifest.selections) {
    if (selection.always < 0) {
      always.keys.push_back(0);
      always.exact.push_back(true);
      continue;
    }
    const Positions *set =
        &manifest.positions[static_cast<size_t>(selection.always)];
    while (set->kind == Positions::Kind::Fixed)
      set = &manifest.positions[static_cast<size_t>(set->of.front())];
    using Kind = Positions::Kind;
    always.keys.push_back(set->kind == Kind::Block      ? run.ofBlock()
                          : set->kind == Kind::Prompt   ? run.prompt
                          : set->kind == Kind::Response ? run.response()
                                                        : run.length);
    always.exact.push_back(
        manifest.visible < 0 &&
        (set->kind == Kind::Block || set->kind == Kind::Prompt ||
         set->kind == Kind::Response || set->kind == Kind::All));
  }
  for (size_t i = 0; i < manifest.selections.size(); ++i)
    if (int64_t outer = manifest.selections[i].within; outer >= 0)
      always.exact[i] =
          always.exact[i] && always.exact[static_cast<size_t>(outer)];
  return always;
}

/// The phases of one rule over the steps of the run. `elsewhere`: the first
/// step at which its layers can read each selection as others have chosen it.
std::vector<PhaseExplanation>
explainRule(const Manifest &manifest, const Rule &rule,
            const ExplainRequest &request, const Due &due,
            const std::vector<int64_t> &elsewhere) {
  const SimulationRequest &run = request.run;
  const AlwaysListed always = alwaysListed(manifest, run);
  std::vector<PhaseExplanation> phases(rule.phases.size());
  for (size_t i = 0; i < phases.size(); ++i) {
    const Phase &phase = rule.phases[i];
    const Kernel &kernel =
        manifest.kernels[static_cast<size_t>(phase.attention)];
    PhaseExplanation &here = phases[i];
    here.kernel = kernel.name;
    here.pattern = words(kernel.terms, manifest);
    const Kept kept = keptPairs(
        kernel, manifest,
        {.length = run.length, .prompt = run.prompt, .always = always.keys});
    here.pairs = kept.pairs;
    here.pairsExact =
        kept.exact && std::ranges::all_of(kernel.terms, [&](const Term &term) {
          return term.selection < 0 ||
                 always.exact[static_cast<size_t>(term.selection)];
        });
    here.refreshesFirst = phase.refreshesFirst;
    for (const Phase::Refresh &refresh : phase.refreshes)
      here.refreshes.push_back(
          {manifest.selections[static_cast<size_t>(refresh.selection)].name,
           {}});
  }
  std::set<int64_t> filled;
  std::vector<size_t> timeline =
      phasesOfSteps(rule, run.steps, run.blockSteps());
  for (int64_t step = 1; step <= run.steps; ++step) {
    size_t index = timeline[static_cast<size_t>(step - 1)];
    const Phase &phase = rule.phases[index];
    phases[index].steps.push_back(step);
    const Kernel &kernel =
        manifest.kernels[static_cast<size_t>(phase.attention)];
    auto refresh = [&] {
      for (size_t i = 0; i < phase.refreshes.size(); ++i) {
        int64_t selection = phase.refreshes[i].selection;
        if (!due[static_cast<size_t>(selection)][static_cast<size_t>(step - 1)])
          continue;
        phases[index].refreshes[i].steps.push_back(step);
        filled.insert(selection);
      }
    };
    if (phase.refreshesFirst)
      refresh();
    bool ready = std::ranges::all_of(kernel.terms, [&](const Term &term) {
      return !readsList(term) || filled.count(term.selection) ||
             elsewhere[static_cast<size_t>(term.selection)] <= step;
    });
    if (!ready)
      phases[index].unfilled.push_back(step);
    if (!phase.refreshesFirst)
      refresh();
  }
  return phases;
}

/// [layer][selection], as listSources() has them.
using Sources = std::vector<std::vector<int64_t>>;

/// All rules, `rules` being those of the layers.
std::vector<RuleExplanation> explainRules(const Manifest &manifest,
                                          const std::vector<size_t> &rules,
                                          const Sources &sources,
                                          const ExplainRequest &request) {
  Due due;
  for (const Selection &selection : manifest.selections)
    due.push_back(includesSteps(selection.cadence, request.run.steps,
                                request.run.blockSteps()));
  std::vector<std::vector<int64_t>> first, elsewhere;
  for (const Rule &rule : manifest.rules)
    first.push_back(firstRefreshes(manifest, rule, request, due));
  // A rule's layers may read those of several others.
  elsewhere.assign(manifest.rules.size(),
                   std::vector<int64_t>(manifest.selections.size(), 0));
  for (size_t layer = 0; layer < rules.size(); ++layer)
    for (size_t s = 0; s < manifest.selections.size(); ++s) {
      const int64_t source = sources[layer][s];
      const bool other = source >= 0 && static_cast<size_t>(source) != layer;
      int64_t &step = elsewhere[rules[layer]][s];
      step = std::max(step, other ? first[rules[static_cast<size_t>(source)]][s]
                                  : request.run.steps + 1);
    }
  std::vector<RuleExplanation> result;
  for (size_t i = 0; i < manifest.rules.size(); ++i)
    result.push_back(
        {{},
         explainRule(manifest, manifest.rules[i], request, due, elsewhere[i])});
  for (size_t layer = 0; layer < rules.size(); ++layer)
    result[rules[layer]].layers.push_back(static_cast<int64_t>(layer));
  for (size_t i = 0; i < result.size(); ++i)
    for (size_t p = 0; p < result[i].phases.size(); ++p)
      for (const Phase::Measure &each : manifest.rules[i].phases[p].measures) {
        const int64_t layer = each.cadence.layer +
                              (each.cadence.layer < 0 ? std::ssize(rules) : 0);
        if (rules[static_cast<size_t>(layer)] == i)
          result[i].phases[p].measures.push_back(
              {toString(each.cadence), layer,
               each.kernel < 0
                   ? ""
                   : manifest.kernels[static_cast<size_t>(each.kernel)].name});
      }
  return result;
}

const Kernel &attentionOf(const Manifest &manifest, const Phase &phase) {
  return manifest.kernels[static_cast<size_t>(phase.attention)];
}

bool reads(const Kernel &kernel, size_t selection) {
  return std::ranges::any_of(kernel.terms, [&](const Term &term) {
    return readsList(term) && static_cast<size_t>(term.selection) == selection;
  });
}

/// Whether one of the rule's phases reads the selection.
bool reads(const Manifest &manifest, const Rule &rule, size_t selection) {
  return std::ranges::any_of(rule.phases, [&](const Phase &phase) {
    return reads(attentionOf(manifest, phase), selection);
  });
}

/// ListReads::staged of a rule's layers.
bool isStaged(const Manifest &manifest, const Rule &rule, size_t selection) {
  bool atOnce = false, own = false, others = false;
  for (const Phase &phase : rule.phases) {
    const Kernel &attention = attentionOf(manifest, phase);
    const bool here = reads(attention, selection);
    atOnce |= phase.refreshesFirst;
    own |= here;
    others |= !here && attention.hasLists();
  }
  return atOnce && own && others;
}

ListReads readsOf(const Manifest &manifest, size_t selection) {
  ListReads reads{.someRows = !std::ranges::all_of(manifest.passes,
                                                   &Pass::computesAllRows)};
  for (const Kernel &kernel : manifest.kernels)
    for (const Term &term : kernel.terms)
      if (readsList(term) && static_cast<size_t>(term.selection) == selection) {
        reads.read = true;
        reads.bounded |= !term.within.empty();
        reads.scored |= !kernel.scores.empty();
      }
  for (const Rule &rule : manifest.rules)
    reads.staged |= isStaged(manifest, rule, selection);
  return reads;
}

SelectionExplanation explainSelection(const Manifest &manifest, size_t index,
                                      const std::vector<size_t> &rules,
                                      const Sources &sources,
                                      const ExplainRequest &request,
                                      const Machine &machine) {
  const SimulationRequest &run = request.run;
  const Selection &selection = manifest.selections[index];
  SelectionExplanation result;
  result.name = selection.name;
  // What is listed: keys, or blocks of each span.
  bool blocks = selection.kind == Selection::Kind::Blocks;
  auto blocksOf = [&](int64_t keys) {
    return (keys + selection.group - 1) / selection.group;
  };
  auto kept = [&](int64_t of) { return of > 0 ? selection.kept(of) : 0; };
  result.of = blocks ? blocksOf(run.length) : run.length;
  const AlwaysListed always = alwaysListed(manifest, run);
  result.keys = selection.listed(
      rt::keysToChoose(
          manifest.selections, selection, result.of, run.prompt,
          selection.within < 0
              ? 0
              : always.keys[static_cast<size_t>(selection.within)]),
      always.keys[index]);
  result.keysExact = always.exact[index];
  if (selection.isolation != Selection::Isolation::None) {
    int64_t prompt = std::min(blocksOf(run.prompt), result.of - 1);
    if (selection.isolation == Selection::Isolation::Spans) {
      prompt = blocksOf(run.prompt);
      result.of = prompt + blocksOf(run.response());
    }
    int64_t first = selection.isolation == Selection::Isolation::Filtered
                        ? std::min(prompt, kept(result.of))
                        : kept(prompt);
    result.keys = first + kept(result.of - prompt);
  }
  result.fasterBelow = fasterBelow(machine, blocks, selection.group);
  result.read = std::ranges::any_of(manifest.rules, [&](const Rule &rule) {
    return reads(manifest, rule, index);
  });
  if (auto above = fallsBackAbove(request.crossovers, manifest.targets,
                                  selection, readsOf(manifest, index)))
    result.fallsBackAbove = *above;
  else
    result.stays = above.error().text();
  const int64_t lists =
      request.shape.heads /
      selection.headsPerList(request.shape.heads, request.shape.kvHeads);
  result.groups = (run.length - 1) / selection.group + 1;
  for (size_t layer = 0; layer < rules.size(); ++layer) {
    const auto number = static_cast<int64_t>(layer);
    if (sources[layer][index] == number)
      result.refreshed.push_back(number);
    else if (reads(manifest, manifest.rules[rules[layer]], index))
      result.readers.push_back(number);
  }
  for (const Target &target : manifest.targets) {
    SelectionExplanation::Lists &cost = result.lists.emplace_back();
    cost.encoding = encodingFor(target, result.of);
    if (!cost.encoding)
      continue;
    cost.encoding = listEncoding(selection, *cost.encoding);
    auto bytes = static_cast<double>(lists) *
                 static_cast<double>(result.groups) *
                 static_cast<double>(
                     listRowBytes(*cost.encoding, result.of, result.keys));
    // At the far end of the accepted range the product leaves 64 bits.
    constexpr double most = 4.6e18;
    cost.bytesPerLayer = static_cast<int64_t>(std::min(bytes, most));
    cost.bytes = static_cast<int64_t>(
        std::min(bytes * static_cast<double>(result.refreshed.size()), most));
  }
  return result;
}

} // namespace

void heddle::explain::takeFrom(ExplainRequest &request, const Bundle &bundle) {
  request.source = bundle.section(scheduleSection);
  if (auto table = crossoversFromJson(bundle.section(crossoversSection)))
    request.crossovers = std::move(*table);
}

Status heddle::explain::check(const ExplainRequest &request) {
  const SimulationRequest &run = request.run;
  const ModelShape &shape = request.shape;
  const std::pair<const char *, std::pair<int64_t, int64_t>> ranges[] = {
      {"the length", {run.length, maxTokens}},
      {"the number of layers", {shape.layers, 1 << 16}},
      {"the number of heads", {shape.heads, 1 << 16}},
      {"the head dim", {shape.headDim, 1 << 16}},
      {"the vocabulary", {shape.vocabulary, 1 << 30}},
  };
  for (const auto &[what, range] : ranges)
    if (Status status = checkRange(what, range.first, range.second); !status)
      return status;
  if (run.prompt < 0 || run.prompt >= run.length)
    return Error("the prompt has " + std::to_string(run.prompt) +
                 " tokens, expected 0 to one less than the length, " +
                 std::to_string(run.length));
  if (Status status = checkRange("the number of steps", run.steps, maxSteps);
      !status)
    return status;
  auto product = [](auto... factors) {
    return (static_cast<double>(factors) * ...);
  };
  if (product(run.length, run.length, run.steps, shape.layers, shape.heads) >
      0x1p60)
    return Error("the run has more (query, key) pairs than a 64-bit counter "
                 "holds; explain a shorter one");
  if (!(request.salientShare >= 0 && request.salientShare <= 1))
    return Error("the salient share is " + shortest(request.salientShare) +
                 ", expected 0 to 1");
  if (run.tokensPerStep != 0 &&
      !(run.tokensPerStep >= 1 && run.tokensPerStep <= maxTokens))
    return Error("the tokens per step are " + shortest(run.tokensPerStep) +
                 ", expected 1 to " + std::to_string(maxTokens));
  if (!request.machine.empty())
    if (Result<Machine> machine = machineNamed(request.machine); !machine)
      return machine.takeError();
  constexpr int64_t widest = 1 << 27;
  if (shape.ffnWidth < 0 || shape.ffnWidth > widest)
    return Error("the FFN's width is " + std::to_string(shape.ffnWidth) +
                 ", expected 1 to " + std::to_string(widest) +
                 ", or 0 for three times the hidden width");
  if (shape.kvHeads < 0 ||
      (shape.kvHeads > 0 && shape.heads % shape.kvHeads != 0))
    return Error("there are " + std::to_string(shape.kvHeads) +
                 " key/value heads, expected a divisor of the " +
                 std::to_string(shape.heads) + " heads, or 0 for as many");
  if (run.ofBlock() == run.response())
    return Status::success();
  const int64_t blocks = run.blocks();
  if (run.response() % run.blockLength != 0)
    return Error("blocks of " + std::to_string(run.blockLength) +
                 " tokens do not divide the response of " +
                 std::to_string(run.response()) + " (length without prompt)");
  if (blocks <= run.steps && run.steps % blocks != 0)
    return Error(std::to_string(run.steps) +
                 " steps cannot be shared equally by the " +
                 std::to_string(blocks) + " blocks of " +
                 std::to_string(run.blockLength) + " tokens");
  if (blocks > run.steps)
    return Error("the response has " + std::to_string(blocks) +
                 " blocks, which take a step each, but there are " +
                 std::to_string(run.steps) + " steps");
  return Status::success();
}

std::pair<int64_t, int64_t>
heddle::explain::stepsByDrift(const Explanation &explanation) {
  const SimulationRequest &run = explanation.request.run;
  auto count = [&](std::optional<double> similarity) {
    int64_t steps = 0;
    DriftWatch drift(explanation.manifest, explanation.request.shape.layers);
    const std::vector<std::optional<double>> similarities(drift.layers().size(),
                                                          similarity);
    for (int64_t step = 1; step <= run.steps; ++step) {
      const StepPlace place =
          drift.at(plannedPlace(step, run.steps, run.blockSteps()));
      steps += drift.renews(similarities.size() - 1, place);
      drift.finish(place, similarities);
    }
    return steps;
  };
  return {count(std::nullopt), count(-1)};
}

Result<Explanation> heddle::explain::explainRun(const Manifest &manifest,
                                                const ExplainRequest &given) {
  if (Status status = check(given); !status)
    return status.takeError();
  ExplainRequest request = given;
  SimulationRequest &run = request.run;
  ModelShape &shape = request.shape;
  run.layers = shape.layers;
  if (shape.kvHeads == 0)
    shape.kvHeads = shape.heads;
  if (shape.hidden == 0)
    shape.hidden = shape.attentionWidth();
  if (shape.ffnWidth == 0)
    shape.ffnWidth = 3 * shape.hidden;
  // How often a step revokes what it planned to keep, the run decides; one
  // token more than before it always leaves (docs/Spec/Commit.md, "Revoking").
  if (run.tokensPerStep == 0)
    run.tokensPerStep =
        anyCommit(manifest, &CommitRule::revokes)
            ? 1
            : std::max(1.0, static_cast<double>(run.response()) /
                                static_cast<double>(run.steps));
  Result<std::vector<size_t>> rules = rulesOfLayers(manifest, shape.layers);
  if (!rules)
    return rules.takeError();
  Result<Sources> sources = listSources(manifest, *rules);
  if (!sources)
    return sources.takeError();

  Explanation result;
  result.request = request;
  result.manifest = manifest;
  result.machine = request.machine.empty() ? machineOf(manifest)
                                           : *machineNamed(request.machine);
  result.densePairs = run.length * run.length;
  result.rules = explainRules(manifest, *rules, *sources, request);
  for (size_t i = 0; i < manifest.selections.size(); ++i)
    result.selections.push_back(explainSelection(manifest, i, *rules, *sources,
                                                 request, result.machine));

  Result<RunCost> counted =
      costOf(manifest, {.run = run,
                        .shape = shape,
                        .machine = result.machine,
                        .salientShare = request.salientShare});
  if (!counted)
    return counted.takeError();
  result.cost = std::move(*counted);
  explainRows(result);
  result.planned = takesPlannedSteps(manifest, run.blockSteps()) &&
                   !anyCommit(manifest, &CommitRule::stopAtEos);
  const RunCost &cost = result.cost;
  const double dense = amountOf(cost.dense.work, Part::Attention);
  result.share = amountOf(cost.run.work, Part::Attention) / dense;
  result.scoreShare = amountOf(cost.run.work, Part::Scoring) / dense;
  return result;
}
