//===- PlanMeaningTest.cpp - Plans do what their schedules say ------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Random schedules, written as text next to what docs/Spec says that they mean.
// Those that the verifiers accept are planned and exported, and the step
// program is compared with the meaning at every step of runs of many lengths.
// What the compiler claims of a cadence for every T is compared with its steps.
//
//===----------------------------------------------------------------------===//

#include "bundle/format/Crossovers.h"
#include "bundle/format/ManifestJson.h"
#include "bundle/program/Program.h"
#include "bundle/program/ProgramChecks.h"
#include "heddle/Dialect/Heddle/IR/Heddle.h"
#include "heddle/Pipelines/Pipelines.h"
#include "heddle/Target/Bundle/ExportManifest.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

using namespace mlir;
using namespace mlir::heddle;
namespace bundle = ::heddle::bundle;

namespace {

constexpr int64_t longestRun = 70;

/// A cadence as the user writes it and as the runtime computes it.
struct Cadence {
  std::string text;
  bundle::Cadence meaning;

  std::set<int64_t> steps(int64_t totalSteps) const {
    std::vector<int64_t> list = bundle::refreshSteps(meaning, totalSteps);
    return {list.begin(), list.end()};
  }
};

class Generator {
public:
  explicit Generator(uint32_t seed) : random(seed) {}

  int64_t below(int64_t bound) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(bound));
  }

  Cadence cadence() {
    using Kind = bundle::Cadence::Kind;
    const bundle::Ratio ratios[] = {{1, 4}, {1, 2}, {3, 4}, {1, 1}};
    bundle::Ratio ratio = ratios[below(4)];
    int64_t number = 1 + below(9);
    std::string r = std::to_string(ratio.num) + "/" + std::to_string(ratio.den);
    std::string n = std::to_string(number);
    Cadence c;
    auto is = [&](Kind kind, std::string text) {
      c.meaning.kind = kind;
      c.text = std::move(text);
    };
    std::string spread = "(window = " + r + ", count = " + n;
    int64_t form = below(8);
    if (form >= 5) {
      c.meaning.fraction = ratio;
      c.meaning.count = number;
    }
    switch (form) {
    case 0:
      is(Kind::Never, "never");
      break;
    case 1:
      is(Kind::Every, "every(" + n + ")");
      c.meaning.period = number;
      break;
    case 2:
      is(Kind::First, "first(" + n + ")");
      c.meaning.count = number;
      break;
    case 3:
      is(Kind::At, "at(" + r + ")");
      c.meaning.fraction = ratio;
      break;
    case 4:
      is(Kind::At, "at(step = " + n + ")");
      c.meaning.step = number;
      break;
    case 5:
      is(Kind::Uniform, "uniform" + spread + ")");
      break;
    case 6:
      is(Kind::Random, "random" + spread + ", seed = 3)");
      c.meaning.seed = 3;
      break;
    default:
      is(Kind::Power, "power" + spread + ")");
    }
    return c;
  }

private:
  std::mt19937 random;
};

/// One `attend`.
struct Attend {
  std::vector<Cadence> selections; ///< %sN on its cadence
  int firstSelection = 0;          ///< number of the first
  std::optional<Cadence> until;
  bool dense = false;
};

/// Writes the values that an attend reads, then the attend.
std::string write(const Attend &attend, const std::string &layers) {
  std::string text, parts, id = std::to_string(attend.firstSelection);
  for (size_t i = 0; i < attend.selections.size(); ++i) {
    std::string n = std::to_string(attend.firstSelection + i);
    text += "%c" + n + " = cadence " + attend.selections[i].text + "\n";
    // Different shares, so that no two selections are one.
    text += "%s" + n + " = select columns(keep = 1/" +
            std::to_string(attend.firstSelection + i + 2) +
            ", group = 32) by mean_probability on %c" + n + "\n";
    parts += "%s" + n + ", ";
  }
  text += "%w" + id + " = window(8)\n";
  text += "%p" + id + " = union " + parts + "%w" + id + "\n";
  if (attend.until)
    text += "%u" + id + " = cadence " + attend.until->text + "\n";
  text += attend.dense ? "attend dense"
          : attend.until
              ? "attend dense until(%u" + id + ") then pairs(%p" + id + ")"
              : "attend pairs(%p" + id + ")";
  return text + layers + "\n";
}

/// docs/Spec: at a step of a selection's cadence the layer is dense and
/// refreshes it; before `until` it is dense; else it computes the pairs.
void expectMeaning(const Attend &attend, const bundle::Manifest &manifest,
                   int64_t layer, int64_t totalSteps) {
  auto rules = bundle::rulesOfLayers(manifest, 3);
  ASSERT_TRUE(rules);
  const bundle::Rule &rule =
      manifest.rules[(*rules)[static_cast<size_t>(layer)]];
  std::vector<size_t> phases = bundle::phasesOfSteps(rule, totalSteps);
  std::set<int64_t> until;
  if (attend.until)
    until = attend.until->steps(totalSteps);
  std::set<std::string> filled;
  for (int64_t t = 1; t <= totalSteps; ++t) {
    SCOPED_TRACE("step " + std::to_string(t));
    std::set<std::string> due, refreshed;
    if (!attend.dense)
      for (size_t i = 0; i < attend.selections.size(); ++i)
        if (attend.selections[i].steps(totalSteps).count(t))
          due.insert("s" + std::to_string(attend.firstSelection + i));
    bool waits = attend.until && (until.empty() || t < *until.begin());

    const bundle::Phase &phase = rule.phases[phases[t - 1]];
    const bundle::Kernel &kernel = manifest.kernels[phase.attention];
    EXPECT_EQ(kernel.terms.empty(), attend.dense || waits || !due.empty());
    for (const bundle::Term &term : kernel.terms)
      if (term.kind == bundle::Term::Kind::Columns)
        EXPECT_TRUE(filled.count(manifest.selections[term.selection].name))
            << "read before it is written";
    for (const bundle::Phase::Refresh &refresh : phase.refreshes) {
      const bundle::Selection &selection =
          manifest.selections[refresh.selection];
      std::vector<int64_t> steps =
          bundle::refreshSteps(selection.cadence, totalSteps);
      if (std::find(steps.begin(), steps.end(), t) != steps.end())
        refreshed.insert(selection.name);
    }
    EXPECT_EQ(refreshed, due);
    filled.insert(refreshed.begin(), refreshed.end());
  }
}

struct PlanMeaning : testing::Test {
  PlanMeaning() { context.loadDialect<HeddleDialect>(); }

  /// The step program of a schedule, or nothing if it is refused. Selections
  /// that keep more than `percent` for groups of 32 fall back, if that is
  /// given.
  std::optional<bundle::Manifest> plan(const std::string &text,
                                       std::optional<int64_t> percent = {}) {
    ScopedDiagnosticHandler quiet(&context,
                                  [](Diagnostic &) { return success(); });
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    if (!module)
      return std::nullopt;
    PassManager pm(&context);
    populateSchedulePipeline(pm);
    std::vector<bundle::Crossover> table;
    if (percent)
      table.push_back({"here", SelectionKind::Columns, 32, *percent});
    std::vector<bundle::Target> targets(1);
    targets[0].cpu = "here";
    populatePlanPipeline(pm, table, targets);
    EXPECT_TRUE(succeeded(pm.run(*module))) << text;
    for (PlanOp op : module->getOps<PlanOp>())
      return exportManifest(op);
    return std::nullopt;
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
};

TEST_F(PlanMeaning, IsTheSchedules) {
  int accepted = 0;
  for (uint32_t seed = 1; seed <= 2000 && !HasFailure(); ++seed) {
    Generator generator(seed);
    Attend byDefault, layerZero;
    for (int64_t i = generator.below(4); i >= 0; --i)
      byDefault.selections.push_back(generator.cadence());
    if (generator.below(2))
      byDefault.until = generator.cadence();
    layerZero.firstSelection = 4;
    layerZero.dense = generator.below(2);
    for (int64_t i = generator.below(2); i >= 0; --i)
      layerZero.selections.push_back(generator.cadence());
    std::string text = "heddle.schedule @s {\n" +
                       write(layerZero, " in layers(0 to 0)") +
                       write(byDefault, "") + "}\n";
    SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + text);
    std::optional<bundle::Manifest> manifest = plan(text);
    if (!manifest)
      continue;
    ++accepted;
    for (int64_t totalSteps = 1; totalSteps <= longestRun && !HasFailure();
         totalSteps += 1 + totalSteps / 8) {
      SCOPED_TRACE("T = " + std::to_string(totalSteps));
      expectMeaning(byDefault, *manifest, 2, totalSteps);
      expectMeaning(layerZero, *manifest, 0, totalSteps);
    }
  }
  EXPECT_GT(accepted, 200);
}

/// Layers 0 and 2 of 4 refresh the selection, and 1 and 3 read what these have
/// chosen. Layer 0 may attend to all pairs.
TEST_F(PlanMeaning, LayersReadWhatOthersRefresh) {
  int accepted = 0, atOnces = 0, waiting = 0;
  for (uint32_t seed = 1; seed <= 2000 && !HasFailure(); ++seed) {
    Generator generator(seed);
    const Cadence refresh = generator.cadence(), until = generator.cadence();
    const bool late = generator.below(2), atOnce = generator.below(2),
               layerZeroDense = generator.below(2);
    const std::string text =
        "heddle.schedule @s {\n%c = cadence " + refresh.text +
        "\n%u = cadence " + until.text +
        "\n%s = select columns(keep = 1/2, group = 32) by mean_probability on "
        "%c in layers(0, 2)\n" +
        (layerZeroDense ? "attend dense in layers(0)\n" : "") +
        (late ? "attend dense until(%u) then pairs(%s)" : "attend pairs(%s)") +
        (atOnce ? " at_once" : "") + "\n}\n";
    SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + text);
    std::optional<bundle::Manifest> manifest = plan(text);
    if (!manifest)
      continue;
    ++accepted;
    atOnces += atOnce;
    waiting += late && !includesFirst(until.meaning);
    // Where the selection falls back.
    std::optional<bundle::Manifest> fallen = plan(text, 49);
    ASSERT_TRUE(fallen);
    fallen->fallbacks.clear();
    if (!manifest->selections.empty())
      EXPECT_EQ(
          toJson(*fallen),
          toJson(*plan(std::string("heddle.schedule @s {\n") +
                       (layerZeroDense ? "attend dense in layers(0)\n" : "") +
                       "attend dense\n}")));
    auto rules = bundle::rulesOfLayers(*manifest, 4);
    ASSERT_TRUE(rules);
    auto sources = bundle::listSources(*manifest, *rules);
    ASSERT_TRUE(sources);
    for (int64_t totalSteps = 1; totalSteps <= longestRun && !HasFailure();
         totalSteps += 1 + totalSteps / 8) {
      const std::set<int64_t> due = refresh.steps(totalSteps);
      const std::set<int64_t> begins = until.steps(totalSteps);
      bool filled[4] = {};
      for (int64_t t = 1; t <= totalSteps; ++t)
        for (int64_t layer = 0; layer < 4; ++layer) {
          SCOPED_TRACE("step " + std::to_string(t) + " of " +
                       std::to_string(totalSteps) + ", layer " +
                       std::to_string(layer));
          const bool dense = layer == 0 && layerZeroDense;
          const bool waits =
              late && !dense && (begins.empty() || t < *begins.begin());
          const bool first = atOnce && !dense;
          const bool refreshes =
              layer % 2 == 0 && due.count(t) && !(first && waits);
          const bundle::Rule &rule = manifest->rules[(*rules)[layer]];
          const bundle::Phase &phase =
              rule.phases[bundle::phasesOfSteps(rule, totalSteps)[t - 1]];
          bool found = false;
          for (const bundle::Phase::Refresh &each : phase.refreshes)
            found |= each.selection == 0 && due.count(t);
          EXPECT_EQ(found, refreshes);
          if (refreshes)
            EXPECT_EQ(phase.refreshesFirst, first);
          const bool reads = !dense && !waits && (first || !refreshes);
          EXPECT_EQ(!manifest->kernels[phase.attention].terms.empty(), reads);
          filled[layer] |= refreshes;
          EXPECT_EQ((*sources)[layer][0], layer / 2 * 2);
          EXPECT_TRUE(!reads || filled[layer / 2 * 2]);
        }
    }
  }
  EXPECT_GT(accepted, 300);
  EXPECT_GT(atOnces, 100);
  EXPECT_GT(waiting, 50);
}

/// What each step attends to: all, or lists and when they were made.
std::vector<std::string> attended(const bundle::Manifest &manifest,
                                  int64_t totalSteps) {
  const bundle::Rule &rule = manifest.rules.front();
  const std::vector<size_t> phases = bundle::phasesOfSteps(rule, totalSteps);
  std::map<std::string, int64_t> made;
  std::vector<std::string> steps;
  for (int64_t t = 1; t <= totalSteps; ++t) {
    const bundle::Phase &phase = rule.phases[phases[t - 1]];
    auto refresh = [&] {
      for (const bundle::Phase::Refresh &each : phase.refreshes) {
        const bundle::Selection &selection =
            manifest.selections[each.selection];
        const std::vector<int64_t> due =
            bundle::refreshSteps(selection.cadence, totalSteps);
        if (std::find(due.begin(), due.end(), t) != due.end())
          made[selection.name] = t;
      }
    };
    if (phase.scoring >= 0)
      refresh();
    std::string text = "dense";
    for (const bundle::Term &term : manifest.kernels[phase.attention].terms) {
      const std::string &name = manifest.selections[term.selection].name;
      text = name + " of step " + std::to_string(made[name]);
    }
    steps.push_back(text);
    if (phase.scoring < 0)
      refresh();
  }
  return steps;
}

/// %a until %u, then %b, of which %a falls back: dense until %u.
TEST_F(PlanMeaning, WhatFallsBackIsDense) {
  int accepted = 0, atOnces = 0, unlike = 0;
  for (uint32_t seed = 1; seed <= 3000 && !HasFailure(); ++seed) {
    Generator generator(seed);
    const Cadence ofA = generator.cadence(), ofB = generator.cadence(),
                  until = generator.cadence();
    const bool atOnce = generator.below(2);
    auto text = [&](const std::string &first) {
      return "heddle.schedule @s {\n%c = cadence " + ofA.text +
             "\n%e = cadence " + ofB.text + "\n%u = cadence " + until.text +
             "\n%a = select columns(keep = 1/2, group = 32) by "
             "mean_probability on %c\n%b = select columns(keep = 9, group = "
             "32) by mean_probability on %e\nattend " +
             first + " until(%u) then pairs(%b)" + (atOnce ? " at_once" : "") +
             "\n}\n";
    };
    SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + text("pairs(%a)"));
    std::optional<bundle::Manifest> lists = plan(text("pairs(%a)")),
                                    fallen = plan(text("pairs(%a)"), 49),
                                    kept = plan(text("pairs(%a)"), 50),
                                    byHand = plan(text("dense"));
    ASSERT_EQ(lists.has_value(), fallen.has_value());
    if (!fallen || !byHand)
      continue;
    EXPECT_EQ(toJson(*kept), toJson(*lists));
    ++accepted;
    // With at_once, steps before %u refresh what later ones read.
    if (atOnce) {
      EXPECT_EQ(toJson(*fallen), toJson(*lists));
      ++atOnces;
      continue;
    }
    // Where no step comes before %u, there is nothing to fall back.
    const bool read = !includesFirst(until.meaning);
    EXPECT_EQ(fallen->fallbacks.size(), read ? 1u : 0u);
    fallen->fallbacks.clear();
    EXPECT_EQ(toJson(*fallen), toJson(*byHand));
    for (int64_t totalSteps = 1; totalSteps <= longestRun && !HasFailure();
         totalSteps += 1 + totalSteps / 8) {
      EXPECT_EQ(attended(*fallen, totalSteps), attended(*byHand, totalSteps));
      unlike += attended(*lists, totalSteps) != attended(*byHand, totalSteps);
    }
  }
  EXPECT_GT(accepted, 200);
  EXPECT_GT(atOnces, 50);
  EXPECT_GT(unlike, 100);
}

/// Dense until %d, if that is there, then %a until %u, then %b.
TEST_F(PlanMeaning, StagesFollowEachOther) {
  int accepted = 0, atOnces = 0, lates = 0;
  for (uint32_t seed = 1; seed <= 3000 && !HasFailure(); ++seed) {
    Generator generator(seed);
    const Cadence ofA = generator.cadence(), ofB = generator.cadence(),
                  until = generator.cadence(), dense = generator.cadence();
    const bool late = generator.below(2), atOnce = generator.below(2);
    const std::string text =
        "heddle.schedule @s {\n%c = cadence " + ofA.text + "\n%e = cadence " +
        ofB.text + "\n%u = cadence " + until.text + "\n%d = cadence " +
        dense.text +
        "\n%a = select columns(keep = 1/2, group = 32) by mean_probability on "
        "%c\n%b = select columns(keep = 9, group = 32) by mean_probability on "
        "%e\nattend " +
        (late ? "dense until(%d) then " : "") +
        "pairs(%a) until(%u) then pairs(%b)" + (atOnce ? " at_once" : "") +
        "\n}\n";
    SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + text);
    std::optional<bundle::Manifest> manifest = plan(text);
    if (!manifest)
      continue;
    ++accepted;
    atOnces += atOnce;
    lates += late && !includesFirst(dense.meaning);
    const bundle::Rule &rule = manifest->rules.front();
    for (int64_t totalSteps = 1; totalSteps <= longestRun && !HasFailure();
         totalSteps += 1 + totalSteps / 8) {
      auto comes = [&](const Cadence &cadence, int64_t t) {
        const std::set<int64_t> steps = cadence.steps(totalSteps);
        return !steps.empty() && *steps.begin() <= t;
      };
      std::set<std::string> filled;
      for (int64_t t = 1; t <= totalSteps; ++t) {
        SCOPED_TRACE("step " + std::to_string(t) + " of " +
                     std::to_string(totalSteps));
        const bool waits = late && !comes(dense, t);
        std::set<std::string> due, refreshed, read;
        if (!waits || !atOnce)
          for (auto [name, cadence] : {std::pair("a", &ofA), {"b", &ofB}})
            // A stage that never comes asks for nothing.
            if ((*name == 'b' || !includesFirst(until.meaning)) &&
                cadence->steps(totalSteps).count(t))
              due.insert(name);
        const bundle::Phase &phase =
            rule.phases[bundle::phasesOfSteps(rule, totalSteps)[t - 1]];
        for (const bundle::Phase::Refresh &refresh : phase.refreshes) {
          const bundle::Selection &selection =
              manifest->selections[refresh.selection];
          if ((selection.name == "a" ? ofA : ofB).steps(totalSteps).count(t))
            refreshed.insert(selection.name);
        }
        EXPECT_EQ(refreshed, due);
        for (const bundle::Term &term :
             manifest->kernels[phase.attention].terms)
          read.insert(manifest->selections[term.selection].name);
        std::set<std::string> expected;
        if (!waits && (atOnce || due.empty()))
          expected.insert(comes(until, t) ? "b" : "a");
        EXPECT_EQ(read, expected);
        if (atOnce)
          filled.insert(due.begin(), due.end());
        for (const std::string &name : read)
          EXPECT_TRUE(filled.count(name)) << name;
        filled.insert(due.begin(), due.end());
      }
    }
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(atOnces, 30);
  EXPECT_GT(lates, 20);
}

TEST_F(PlanMeaning, ClaimsOnCadencesHoldForEveryT) {
  int ordered = 0;
  auto attribute = [&](const Cadence &cadence) {
    return cast<CadenceAttr>(
               parseAttribute("#heddle.cadence<" + cadence.text + ">",
                              &context))
        .getValue();
  };
  for (uint32_t seed = 1; seed <= 2000; ++seed) {
    Generator generator(seed);
    Cadence a = generator.cadence(), b = generator.cadence();
    SCOPED_TRACE(a.text + " and " + b.text);
    bool atOne = includesFirst(attribute(a));
    bool earlier = startsNoLater(attribute(a), attribute(b));
    ordered += earlier && !atOne;
    for (int64_t totalSteps = 1; totalSteps <= longestRun; ++totalSteps) {
      std::set<int64_t> mine = a.steps(totalSteps), other = b.steps(totalSteps);
      if (atOne)
        ASSERT_TRUE(mine.count(1)) << "T = " << totalSteps;
      if (earlier && !other.empty())
        ASSERT_TRUE(!mine.empty() && *mine.begin() <= *other.begin())
            << "T = " << totalSteps;
    }
  }
  EXPECT_GT(ordered, 50);
}

} // namespace
