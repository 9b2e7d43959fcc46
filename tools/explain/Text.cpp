//===- Text.cpp - An explanation for people and for programs --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Explain.h"
#include "tools/explain/CostJson.h"
#include "tools/explain/Spelling.h"

#include "bundle/format/ScheduleText.h"
#include "bundle/program/ManifestNames.h"
#include "bundle/program/PairSets.h"
#include "bundle/program/Program.h"

#include "nlohmann/json.hpp"

#include <algorithm>
#include <cstdio>

using namespace heddle;
using namespace heddle::bundle;
using namespace heddle::explain;
using nlohmann::ordered_json;

namespace {

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f%%", 100 * share);
  return text;
}

/// Bytes in powers of 1000, three digits: "3.36 MB".
std::string bytesText(int64_t bytes) {
  const char *units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 999.5 && unit < 6; ++unit)
    value /= 1000;
  char text[32];
  std::snprintf(text, sizeof(text),
                unit == 0 || value >= 99.95 ? "%.0f %s" : "%.3g %s", value,
                units[unit]);
  return text;
}

/// Breaks a list at its commas, so that no line is longer than `width`.
std::string wrapped(const std::string &list, const std::string &indent,
                    size_t width) {
  std::string text, line = indent;
  size_t start = 0;
  while (start < list.size()) {
    size_t end = list.find(',', start);
    end = end == std::string::npos ? list.size() : end + 1;
    if (line.size() + (end - start) > width && line != indent) {
      text += line + "\n";
      line = indent;
    }
    line += list.substr(start, end - start);
    start = end;
  }
  return text + line + "\n";
}

std::string phaseText(const PhaseExplanation &phase, int64_t densePairs) {
  std::string text =
      "  " + counted(static_cast<int64_t>(phase.steps.size()), "step") + ": " +
      phase.pattern + ", " + (phase.pairsExact ? "" : "at most ") +
      percent(static_cast<double>(phase.pairs) /
              static_cast<double>(densePairs)) +
      " of the pairs";
  std::string sometimes;
  for (const PhaseExplanation::Refresh &refresh : phase.refreshes) {
    if (refresh.steps == phase.steps)
      text +=
          (phase.refreshesFirst ? ", after refreshing " : ", then refreshes ") +
          refresh.selection;
    else
      sometimes += "    " +
                   std::string(phase.refreshesFirst ? "first refreshes "
                                                    : "refreshes ") +
                   refresh.selection + " at " + runLengths(refresh.steps) +
                   "\n";
  }
  text += "\n" + wrapped(runLengths(phase.steps), "    ", 78);
  text += sometimes;
  for (const PhaseExplanation::Measure &each : phase.measures)
    text +=
        "    measures " + each.cadence + " in layer " +
        std::to_string(each.layer) +
        (each.kernel.empty() ? "" : ", with " + each.kernel + " once more") +
        "\n";
  if (!phase.unfilled.empty())
    text += "    cannot run: no step so far has filled the lists read at " +
            runLengths(phase.unfilled) + "\n";
  return text;
}

std::string countText(RowCount count) {
  return (count.exact() ? "" : std::to_string(count.least) + " to ") +
         std::to_string(count.most);
}

/// "above(0.9) within undecoded(first = 16)".
std::string ruleText(const Manifest &manifest, const CommitRule &rule) {
  using Kind = CommitRule::Kind;
  std::string text = rule.kind == Kind::RandomOrder
                         ? "in an order that is drawn before the run"
                         : detail::nameOf(rule.kind);
  if (rule.hasRatio())
    text += "(" + detail::toString(rule.ratio) +
            (rule.lastAlone  ? ", last_alone)"
             : rule.strictly ? ", strictly)"
                             : ")");
  if (rule.kind == Kind::Best)
    text += "(" + std::to_string(rule.count) + ")";
  if (rule.within >= 0)
    text += " within " + toString(manifest, rule.within);
  if (rule.lifts())
    text += ", confidences lifted by what is decoded near (deviation " +
            std::to_string(rule.near) + ")";
  if (rule.isLimited())
    text += ", at most " + detail::toString(rule.limitShare) +
            " of the candidates" +
            (rule.limitLeast > 1
                 ? ", but " + std::to_string(rule.limitLeast) + " at least"
                 : "") +
            (rule.limitMost < maxCount
                 ? ", but " + std::to_string(rule.limitMost) + " at most"
                 : "");
  if (rule.revokes())
    text += ", revokes tokens below " + detail::toString(rule.revokeBelow) +
            (rule.hasShadow() ? " by a shadow of the block" : "") +
            (rule.revokeFewerThan == CommitRule::RevokeFewerThan::StepBefore
                 ? ", fewer than the step before commits"
                 : "");
  if (rule.edits())
    text += ", edits tokens above " + detail::toString(rule.editAbove);
  if (rule.furtherPasses > 0)
    text += ", in at most " + std::to_string(rule.furtherPasses) +
            " further pass" + (rule.furtherPasses > 1 ? "es" : "");
  if (rule.renoises)
    text += ", noise in place of the block's masks";
  // Of several commits some may look for EOS.
  if (rule.stopAtEos && !manifest.datedCommits.empty())
    text += ", looks for EOS";
  return text;
}

/// What rows each step computes, sees and keeps; "" if it is all of them.
std::string rowsText(const Explanation &explanation) {
  const Manifest &manifest = explanation.manifest;
  const ExplainRequest &request = explanation.request;
  if (manifest.computesAll())
    return "";
  std::string text = "\nrows (prompt " + std::to_string(request.run.prompt) +
                     ", response " + std::to_string(request.run.response()) +
                     ", " + counted(request.run.blockSteps(), "step") +
                     " a block, if the run goes as planned)\n";
  for (size_t i = 0; i < manifest.positions.size(); ++i)
    if (const std::string &name = manifest.positions[i].name; !name.empty())
      text += "  %" + name + " = " +
              definitionOf(manifest, static_cast<int64_t>(i)) + "\n";
  if (manifest.showsAll())
    text += "  visible on " + toString(manifest.allVisible) + ": all\n";
  if (manifest.visible >= 0)
    text += "  visible: " + toString(manifest, manifest.visible) + ", " +
            countText(explanation.cost.visible) + "\n";
  for (const PassExplanation &pass : explanation.passes) {
    text +=
        "  " + counted(static_cast<int64_t>(pass.steps.size()), "step") +
        ": computes " + pass.what + ", " + countText(pass.rows) + " of " +
        std::to_string(request.run.length) + " rows" +
        (pass.depends ? "; how many of them in a layer, the run decides" : "") +
        "\n" + wrapped(runLengths(pass.steps), "    ", 78);
  }
  if (manifest.reuse.attention == Reuse::Attention::Outside)
    text += "  attention outside of " +
            toString(manifest, manifest.reuse.inside) + ": kept on " +
            toString(manifest.reuse.cadence) + ", merged at other steps" +
            (manifest.reuse.refreshed < 0
                 ? "\n"
                 : ", refreshed there for " +
                       refreshedText(manifest, manifest.reuse) + "\n");
  if (explanation.cacheBytesPerLayer)
    text += "  kept of rows: at most " +
            bytesText(explanation.cacheBytesPerLayer) + " a layer, " +
            bytesText(static_cast<int64_t>(
                std::min(4.6e18, explanation.cacheBytes))) +
            " in " + counted(request.shape.layers, "layer") + "\n";
  // A quota alone is what all do that say nothing.
  const std::vector<CommitText> commits = commitTexts(manifest);
  for (const CommitText &commit : commits)
    text += commits.size() == 1 && commit.what == "quota" ? ""
            : commit.on.empty()
                ? "  commits " + commit.what + "\n"
                : "  on " + commit.on + ": commits " + commit.what + "\n";
  const CommitRule &commit = manifest.commit;
  if (!takesPlannedSteps(manifest, request.run.blockSteps()))
    text += "  how many steps a block takes, the run decides\n";
  if (commit.verifies())
    text += "  drafts up to " + counted(commit.drafts, "step") +
            " ahead and verifies them in its forward pass\n";
  if (commit.leastPasses > 1)
    text += "  a block takes at least " + counted(commit.leastPasses, "step") +
            "\n";
  if (anyCommit(manifest, &CommitRule::stopAtEos))
    text += "  ends once EOS is found and no mask stands before it\n";
  if (anyCommit(manifest, &CommitRule::narrows))
    text += "  what stands behind that EOS is no longer of the text\n";
  return text;
}

/// "row" and the like, of a group.
std::string rowsText(int64_t group) {
  return group == groupOfAll ? "all rows" : counted(group, "row");
}

std::string selectionText(const Selection &selection,
                          const SelectionExplanation &cost,
                          const Explanation &explanation) {
  const Manifest &manifest = explanation.manifest;
  const int64_t length = explanation.request.run.length;
  std::string text =
      "selection " + selection.name + ": keeps " + keepText(selection) +
      (selection.kind == Selection::Kind::Blocks
           ? " of the blocks of " + std::to_string(selection.group) + " keys ("
           : " of the keys" +
                 (selection.within >= 0
                      ? " that " +
                            manifest
                                .selections[static_cast<size_t>(
                                    selection.within)]
                                .name +
                            " lists"
                      : "") +
                 (selection.always >= 0
                      ? " outside of " + toString(manifest, selection.always) +
                            ", and those inside ("
                      : " (")) +
      (cost.keysExact ? "" : "at most ") + std::to_string(cost.keys) + " of " +
      std::to_string(cost.of) +
      (selection.group == groupOfAll ? ") for " : ") for each ") +
      rowsText(selection.group) + (selection.perLayer ? " and heads" : "") +
      ", scored by " + bundle::detail::nameOf(selection.scorer) +
      (selection.pooled ? " pooled(" + std::to_string(selection.pooled) + ")"
                        : "") +
      (selection.rows >= 0 ? " of " + toString(manifest, selection.rows) : "") +
      ", refreshed " + toString(selection.cadence) + "\n";
  if (!cost.readers.empty())
    text += "  in layers " + runLengths(cost.refreshed) + "; layers " +
            runLengths(cost.readers) +
            " read the lists of the nearest one before\n";
  if (!cost.faster()) {
    const bool longer = selection.group < 128;
    char share[32];
    std::snprintf(share, sizeof(share), "%.0f%%", 100 * cost.fasterBelow);
    text +=
        "  dense attention takes less time: on " +
        std::string(explanation.machine.label) + ", lists for " +
        rowsText(selection.group) + " gain below " + share +
        (longer ? ", lists for more rows below a larger share\n" : "\n") +
        (cost.fallsBackAbove
             ? "  they are kept as --crossovers asks; by heddlec's own "
               "table all keys are attended to\n"
             : "  they are kept: " + selection.name + " " + cost.stays + "\n");
  }
  for (size_t i = 0; i < cost.lists.size(); ++i) {
    const SelectionExplanation::Lists &lists = cost.lists[i];
    text += "  index lists";
    if (cost.lists.size() > 1)
      text += " on " + manifest.targets[i].cpu;
    if (lists.encoding)
      text += " (" + std::string(nameOf(*lists.encoding)) +
              "): " + bytesText(lists.bytesPerLayer) + " a layer, " +
              bytesText(lists.bytes) + " in " +
              counted(std::ssize(cost.refreshed), "layer");
    else
      text += ": cannot run, no encoding of this bundle holds " +
              std::to_string(length) + " keys";
    text += "\n";
  }
  return text;
}

double valueOf(Ratio ratio) {
  return static_cast<double>(ratio.num) / static_cast<double>(ratio.den);
}

/// What only GPU kernels have: "128 threads, shared memory 65.5 kB".
template <typename V> std::string launchText(const V &variant) {
  return std::to_string(variant.threads) + " threads, shared memory " +
         bytesText(variant.sharedBytes);
}

std::string variantText(const KernelVariant &variant, const Kernel &kernel,
                        const Manifest &manifest) {
  const Target &target = manifest.targets[static_cast<size_t>(variant.target)];
  bool cuda = target.kind == Target::Kind::Cuda;
  std::string text = "    ";
  if (manifest.targets.size() > 1)
    text += target.cpu + " ";
  text += variant.dtype + " head dim " + std::to_string(variant.headDim);
  if (cuda && kernel.hasLists())
    text += " " + std::string(nameOf(variant.encoding));
  if (variant.leastKeys)
    text += " from " + counted(variant.leastKeys, "key");
  if (variant.form == LaunchForm::Packed)
    text += " times the square of the share of tiles that packing leaves";
  text +=
      (variant.form == LaunchForm::All ? " for all rows: " : ": ") +
      counted(variant.queryRows, "row") +
      (cuda ? " a block, " + launchText(variant) + ", " : " a task, ") +
      (variant.mapRows
           ? "tensor maps of " + counted(variant.mapRows, "row") + ", "
           : "") +
      (variant.cluster > 1
           ? "clusters of " + std::to_string(variant.cluster) + ", "
           : "") +
      (variant.persistent ? "persistent, " : "") +
      (variant.form == LaunchForm::Packed ? "rows of all heads of a key head, "
                                          : "") +
      "scratch " + bytesText(variant.scratchBytes);
  if (variant.scratchBytesPerKey)
    text += " and " + bytesText(variant.scratchBytesPerKey) + " a key";
  return text + ", " + variant.symbol + "\n";
}

std::string kernelText(const Kernel &kernel, const Manifest &manifest) {
  std::string text = "  " + kernel.name + ": ";
  if (kernel.kind == Kernel::Kind::Select)
    text += kernel.group == groupOfAll ? "scores and selects for all rows"
                                       : "scores and selects for groups of " +
                                             counted(kernel.group, "row");
  else
    text += words(kernel.terms, manifest) + " attention" +
            (kernel.writesLse ? ", writes the log-sum-exp" : "");
  text += "\n";
  for (const KernelVariant &variant : kernel.variants)
    text += variantText(variant, kernel, manifest);
  return text;
}

std::string rowKernelText(const RowKernel &kernel, const Manifest &manifest) {
  std::string text = "  " + std::string(nameOf(kernel.op)) + "\n";
  for (const RowVariant &variant : kernel.variants)
    text +=
        "    " +
        (manifest.targets.size() > 1
             ? manifest.targets[static_cast<size_t>(variant.target)].cpu + " "
             : "") +
        variant.dtype + ": " + launchText(variant) + ", " + variant.symbol +
        "\n";
  return text;
}

} // namespace

/// In powers of 1000, three digits: "3.36 T".
static std::string scaled(double value) {
  const char *units[] = {"", " k", " M", " G", " T", " P", " E", " Z"};
  size_t unit = 0;
  for (; value >= 999.5 && unit < 7; ++unit)
    value /= 1000;
  char text[32];
  std::snprintf(text, sizeof(text),
                unit == 0 || value >= 99.95 ? "%.0f%s"
                : value >= 9.995            ? "%.1f%s"
                                            : "%.2f%s",
                value, units[unit]);
  return text;
}

/// "6.9 ms", "0.52 s", "75.3 s".
static std::string secondsText(double value) {
  char text[32];
  if (value < 1e-3)
    std::snprintf(text, sizeof(text), "%.3g us", 1e6 * value);
  else if (value < 0.1)
    std::snprintf(text, sizeof(text), "%.3g ms", 1e3 * value);
  else
    std::snprintf(text, sizeof(text), value < 9.995 ? "%.2f s" : "%.1f s",
                  value);
  return text;
}

/// What the run costs by part and by kind of step.
static std::string costText(const Explanation &explanation) {
  const RunCost &cost = explanation.cost;
  const ModelShape &shape = explanation.request.shape;
  std::string text = "\n";
  auto add = [&](const std::string &part, const std::string &amount,
                 const std::string &share, const std::string &operations,
                 const std::string &bytes, const std::string &time) {
    char line[160];
    std::snprintf(line, sizeof(line), "%-17s %15s %9s %12s %9s %10s\n",
                  part.c_str(), amount.c_str(), share.c_str(),
                  operations.c_str(), bytes.c_str(), time.c_str());
    text += line;
  };
  add("part", "rows or pairs", "of dense", "operations", "bytes", "time");
  for (Part part : allParts) {
    double amount = amountOf(cost.run.work, part);
    if (part == Part::Scoring && amount == 0)
      continue;
    auto index = static_cast<size_t>(part);
    double dense = amountOf(cost.dense.work,
                            part == Part::Scoring ? Part::Attention : part);
    add(nameOf(part), scaled(amount) + (isOfPairs(part) ? " pairs" : " rows"),
        percent(dense > 0 ? amount / dense : 0),
        scaled(operationsOf(shape, cost.run.work, part)) + "FLOP",
        bytesText(
            static_cast<int64_t>(std::min(4.6e18, cost.run.bytes[index]))),
        secondsText(cost.seconds.parts[index]));
  }
  add("norms, launches", "", "", "", "", secondsText(cost.seconds.between));
  text += "\nkinds of steps\n";
  for (const StepKind &kind : cost.kinds) {
    auto count = static_cast<int64_t>(kind.steps.size());
    text += "  " + counted(count, "step") + ": " + kind.what + "; " +
            scaled(operationsOf(shape, kind.cost.work) /
                   static_cast<double>(count)) +
            "FLOP and " +
            secondsText(kind.seconds.sum() / static_cast<double>(count)) +
            (count > 1 ? " each\n" : "\n");
  }
  return text;
}

/// What is counted of a run with cadences by drift; "" of others.
static std::string driftText(const Explanation &explanation) {
  const SimulationRequest &run = explanation.request.run;
  const RunCost &cost = explanation.cost;
  const std::vector<Cadence> drifts = driftsOf(explanation.manifest);
  if (drifts.empty() || run.follow)
    return "";
  std::string text;
  for (const Cadence &drift : drifts)
    text += (text.empty() ? "" : "; ") + toString(drift);
  const auto [fewest, most] = stepsByDrift(explanation);
  const std::string share =
      percentOf(cost.mostOperations,
                operationsOf(explanation.request.shape, cost.dense.work));
  return text + ": which steps are " + (drifts.size() == 1 ? "its" : "theirs") +
         ", the run decides; counted are the fewest, " +
         std::to_string(fewest) +
         (most == fewest
              ? ""
              : ", and with the most, " + std::to_string(most) +
                    ", operations are " + share + " of a dense run's");
}

/// What is counted of a run that verifies drafts; "" of others.
static std::string draftsText(const Explanation &explanation) {
  const int64_t drafts = explanation.manifest.commit.drafts;
  const SimulationRequest &run = explanation.request.run;
  if (drafts == 0 || run.follow)
    return "";
  const RunCost &cost = explanation.cost;
  const std::string share =
      percentOf(cost.mostOperations,
                operationsOf(explanation.request.shape, cost.dense.work));
  return "verifies up to " + counted(drafts, "draft") +
         " in a forward pass: how many hold, the run decides; counted is each "
         "step once, in a pass of its own, and where none holds operations are "
         "at most " +
         share + " of a dense run's";
}

std::vector<std::string>
heddle::explain::fallbackTexts(const Manifest &manifest) {
  std::vector<std::string> texts;
  for (const Fallback &fallback : manifest.fallbacks)
    texts.push_back(toString(manifest, fallback));
  return texts;
}

std::string heddle::explain::decidedText(const Explanation &explanation) {
  const std::string drift = driftText(explanation);
  return drift.empty() ? draftsText(explanation) : drift;
}

/// The run's lengths, and what it costs in three lines.
static std::string headText(const Explanation &explanation) {
  const ExplainRequest &request = explanation.request;
  const RunCost &cost = explanation.cost;
  std::string text = "schedule " + explanation.manifest.schedule + ": " +
                     counted(request.run.steps, "step") + ", " +
                     counted(request.run.length, "token") + " (prompt " +
                     std::to_string(request.run.prompt) + ", response " +
                     std::to_string(request.run.response()) + " in " +
                     counted(request.run.blocks(), "block") + "), " +
                     counted(request.shape.layers, "layer") + ", " +
                     counted(request.shape.heads, "head") + "\n";
  std::string set;
  for (const TextParameter &parameter :
       parametersOf(request.source, explanation.manifest.schedule))
    set += (set.empty() ? "parameters: " : ", ") + parameter.name + " = " +
           parameter.value;
  text += set + (set.empty() ? "" : "\n");
  if (cost.sequences > 1)
    text += "with classifier-free guidance: each step computes " +
            counted(cost.sequences, "sequence") + ", of the dense run, too\n";
  text += shareText(request.shape, cost.run, cost.dense, cost.certainty) + "\n";
  double seconds = cost.seconds.sum(), dense = cost.denseSeconds.sum();
  char ratio[32];
  std::snprintf(ratio, sizeof(ratio), "%.2f", dense / seconds);
  text += "estimate for " + std::string(explanation.machine.label) + ": " +
          boundText(cost.certainty) + secondsText(seconds) + ", a dense run " +
          secondsText(dense) + ": " + speedBoundText(cost.certainty) + ratio +
          " times as fast\n";
  if (cost.steps != request.run.steps)
    text += "the run takes " + std::string(boundText(cost.ofSteps)) +
            counted(cost.steps, "step") +
            "; what is said of rows and layers is of the " +
            std::to_string(request.run.steps) + " planned\n";
  if (std::string decided = decidedText(explanation); !decided.empty())
    text += decided + "\n";
  if (std::string idle =
          idleStepsText(explanation.manifest, request.run.ofBlock());
      !idle.empty())
    text += "warning: " + idle + "\n";
  return text;
}

const Scores &heddle::explain::scoresOf(const RuleExplanation &rule,
                                        const Manifest &manifest) {
  static const Scores none;
  for (const Kernel &kernel : manifest.kernels)
    if (!rule.phases.empty() && kernel.name == rule.phases.front().kernel)
      return kernel.scores;
  return none;
}

/// Rules of several ranges of layers that do the same, as one.
static std::vector<RuleExplanation>
likeOnesTogether(const std::vector<RuleExplanation> &rules) {
  std::vector<RuleExplanation> result;
  for (const RuleExplanation &rule : rules) {
    auto like =
        std::ranges::find(result, rule.phases, &RuleExplanation::phases);
    if (like == result.end()) {
      result.push_back(rule);
      continue;
    }
    like->layers.insert(like->layers.end(), rule.layers.begin(),
                        rule.layers.end());
    std::sort(like->layers.begin(), like->layers.end());
  }
  return result;
}

std::vector<CommitText> heddle::explain::commitTexts(const Manifest &manifest) {
  std::vector<CommitText> texts;
  for (const DatedCommit &dated : manifest.datedCommits) {
    std::string on;
    for (const When &when : dated.when)
      on += (on.empty() ? "" : " and ") + toString(when.cadence);
    texts.push_back({on, ruleText(manifest, dated.rule)});
  }
  texts.push_back({"", ruleText(manifest, manifest.commit)});
  return texts;
}

std::string heddle::explain::toText(const Explanation &explanation,
                                    bool kernels) {
  const ExplainRequest &request = explanation.request;
  const Manifest &manifest = explanation.manifest;
  std::string text =
      headText(explanation) + costText(explanation) + rowsText(explanation);
  for (const RuleExplanation &rule : likeOnesTogether(explanation.rules)) {
    text += "\nlayers " + runLengths(rule.layers) + "\n";
    if (const Scores &scores = scoresOf(rule, manifest); !scores.empty())
      text += "  a pair's logit becomes " + toString(scores) + "\n";
    for (const PhaseExplanation &phase : rule.phases)
      text += phaseText(phase, explanation.densePairs);
  }
  text +=
      explanation.selections.empty() && manifest.fallbacks.empty() ? "" : "\n";
  for (const std::string &each : fallbackTexts(manifest))
    text += each + "\n";
  for (size_t i = 0; i < explanation.selections.size(); ++i)
    text += selectionText(manifest.selections[i], explanation.selections[i],
                          explanation);
  text = Spelling(request.source).apply(text);
  if (!kernels)
    return text;
  text += "\nkernels";
  if (!manifest.targets.empty())
    text += " for " + toString(manifest.targets);
  text += "\n";
  for (const Kernel &kernel : manifest.kernels)
    text += kernelText(kernel, manifest);
  text += manifest.rowKernels.empty() ? "" : "row kernels\n";
  for (const RowKernel &kernel : manifest.rowKernels)
    text += rowKernelText(kernel, manifest);
  return text;
}

/// With the estimated time of each part.
static ordered_json partsJson(const ModelShape &shape, const Cost &cost,
                              const Seconds &seconds) {
  ordered_json json = partsJson(shape, cost);
  for (Part part : allParts)
    json[keyOf(part)]["seconds"] = seconds.parts[static_cast<size_t>(part)];
  return json;
}

static ordered_json costJson(const Explanation &explanation) {
  const RunCost &cost = explanation.cost;
  const ModelShape &shape = explanation.request.shape;
  const Spelling spelling(explanation.request.source);
  constexpr const char *certainties[] = {"exact", "at_most", "about"};
  ordered_json json;
  json["certainty"] = certainties[static_cast<size_t>(cost.certainty)];
  json["steps"] = cost.steps;
  json["dense_steps"] = explanation.request.run.steps;
  if (const std::vector<Cadence> drifts = driftsOf(explanation.manifest);
      !drifts.empty() && !explanation.request.run.follow) {
    const auto [fewest, most] = stepsByDrift(explanation);
    ordered_json cadences = ordered_json::array();
    for (const Cadence &drift : drifts)
      cadences.push_back(spelling.apply(toString(drift)));
    json["drift"] = {{"cadences", std::move(cadences)},
                     {"fewest", fewest},
                     {"most", most},
                     {"most_operations", cost.mostOperations}};
  }
  if (const int64_t drafts = explanation.manifest.commit.drafts;
      drafts > 0 && !explanation.request.run.follow)
    json["drafts"] = {{"most", drafts},
                      {"most_operations", cost.mostOperations}};
  json["sequences"] = cost.sequences;
  json["work"] = workJson(shape, cost.run.work);
  json["dense_work"] = workJson(shape, cost.dense.work);
  json["bytes"] = sumOf(cost.run.bytes);
  json["dense_bytes"] = sumOf(cost.dense.bytes);
  json["parts"] = partsJson(shape, cost.run, cost.seconds);
  json["dense_parts"] = partsJson(shape, cost.dense, cost.denseSeconds);
  json["estimate"] = {
      {"machine", explanation.machine.label},
      {"seconds", cost.seconds.sum()},
      {"dense_seconds", cost.denseSeconds.sum()},
      {"times_as_fast", cost.denseSeconds.sum() / cost.seconds.sum()}};
  json["kinds"] = ordered_json::array();
  for (const StepKind &kind : cost.kinds)
    json["kinds"].push_back({{"what", spelling.apply(kind.what)},
                             {"steps", kind.steps},
                             {"work", workJson(shape, kind.cost.work)},
                             {"seconds", kind.seconds.sum()}});
  return json;
}

static ordered_json rowsJson(RowCount rows) {
  return {{"least", rows.least}, {"most", rows.most}};
}

std::string heddle::explain::toJson(const Explanation &explanation) {
  const ExplainRequest &request = explanation.request;
  ordered_json json;
  const Spelling spelling(request.source);
  json["schedule"] = explanation.manifest.schedule;
  json["parameters"] = ordered_json::object();
  for (const TextParameter &parameter :
       parametersOf(request.source, explanation.manifest.schedule))
    json["parameters"][parameter.name] = parameter.value;
  json["steps"] = request.run.steps;
  json["length"] = request.run.length;
  json["layers"] = request.shape.layers;
  json["heads"] = request.shape.heads;
  json["prompt"] = request.run.prompt;
  json["block_length"] = request.run.blockLength;
  json["cost"] = costJson(explanation);
  json["share_of_dense"] = explanation.share;
  json["share_scored"] = explanation.scoreShare;
  json["exact"] = explanation.cost.certainty == Certainty::Exact;
  json["dense_pairs"] = explanation.densePairs;
  json["visible_rows"] = rowsJson(explanation.cost.visible);
  json["cache_bytes_per_layer"] = explanation.cacheBytesPerLayer;
  json["positions"] = ordered_json::array();
  for (size_t i = 0; i < explanation.manifest.positions.size(); ++i)
    if (const std::string &name = explanation.manifest.positions[i].name;
        !name.empty())
      json["positions"].push_back(
          {{"name", name},
           {"is", spelling.apply(definitionOf(explanation.manifest,
                                              static_cast<int64_t>(i)))}});
  json["commits"] = ordered_json::array();
  for (const CommitText &commit : commitTexts(explanation.manifest))
    json["commits"].push_back({{"on", spelling.apply(commit.on)},
                               {"is", spelling.apply(commit.what)}});
  json["passes"] = ordered_json::array();
  for (const PassExplanation &pass : explanation.passes)
    json["passes"].push_back({{"steps", pass.steps},
                              {"computes", spelling.apply(pass.what)},
                              {"rows", rowsJson(pass.rows)},
                              {"depends_on_run", pass.depends}});
  json["rules"] = ordered_json::array();
  for (const RuleExplanation &rule : explanation.rules) {
    ordered_json item;
    item["layers"] = rule.layers;
    if (const Scores &scores = scoresOf(rule, explanation.manifest);
        !scores.empty())
      item["scores"] = toString(scores);
    item["phases"] = ordered_json::array();
    for (const PhaseExplanation &phase : rule.phases) {
      ordered_json entry;
      entry["steps"] = phase.steps;
      entry["kernel"] = phase.kernel;
      entry["pattern"] = phase.pattern;
      entry["pairs"] = phase.pairs;
      entry["pairs_exact"] = phase.pairsExact;
      entry["refreshes_first"] = phase.refreshesFirst;
      entry["refreshes"] = ordered_json::array();
      for (const PhaseExplanation::Refresh &refresh : phase.refreshes)
        entry["refreshes"].push_back(
            {{"selection", refresh.selection}, {"steps", refresh.steps}});
      if (!phase.measures.empty())
        entry["measures"] = ordered_json::array();
      for (const PhaseExplanation::Measure &each : phase.measures) {
        entry["measures"].push_back(
            {{"cadence", spelling.apply(each.cadence)}, {"layer", each.layer}});
        if (!each.kernel.empty())
          entry["measures"].back()["kernel"] = each.kernel;
      }
      entry["unfilled"] = phase.unfilled;
      item["phases"].push_back(std::move(entry));
    }
    json["rules"].push_back(std::move(item));
  }
  json["selections"] = ordered_json::array();
  for (const SelectionExplanation &selection : explanation.selections) {
    ordered_json item;
    item["name"] = selection.name;
    item["keys"] = selection.keys;
    item["groups"] = selection.groups;
    item["layers"] = selection.refreshed.size();
    if (!selection.readers.empty())
      item["read_in"] = selection.readers;
    item["faster_below"] = selection.fasterBelow;
    item["falls_back_above"] =
        selection.fallsBackAbove
            ? ordered_json(valueOf(*selection.fallsBackAbove))
            : ordered_json();
    item["lists"] = ordered_json::array();
    for (size_t i = 0; i < selection.lists.size(); ++i) {
      const SelectionExplanation::Lists &lists = selection.lists[i];
      item["lists"].push_back(
          {{"target", explanation.manifest.targets[i].cpu},
           {"encoding",
            lists.encoding ? ordered_json(nameOf(*lists.encoding)) : nullptr},
           {"bytes_per_layer", lists.bytesPerLayer},
           {"bytes", lists.bytes}});
    }
    json["selections"].push_back(std::move(item));
  }
  json["fallbacks"] = ordered_json::array();
  for (const Fallback &fallback : explanation.manifest.fallbacks)
    json["fallbacks"].push_back(
        {{"selection", fallback.selection},
         {"kind", bundle::detail::nameOf(fallback.kind)},
         {"group", fallback.group},
         {"keep", valueOf(fallback.keep)},
         {"dense_above", valueOf(fallback.denseAbove)}});
  json["kernels"] = ordered_json::array();
  for (const Kernel &kernel : explanation.manifest.kernels) {
    ordered_json item;
    item["name"] = kernel.name;
    item["kind"] = kernel.kind == Kernel::Kind::Select ? "select" : "attention";
    if (kernel.kind == Kernel::Kind::Attention)
      item["pattern"] = words(kernel.terms, explanation.manifest);
    item["variants"] = ordered_json::array();
    for (const KernelVariant &variant : kernel.variants)
      item["variants"].push_back(variant.symbol);
    json["kernels"].push_back(std::move(item));
  }
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) +
         "\n";
}
