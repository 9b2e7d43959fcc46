//===- RandomScheduleTest.cpp - The algebra's laws, and what is compiled --===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Over random schedules of all axes: the laws of unions hold for the step
// programs that they become, and what is compiled for this machine executes
// like the reference executor. HEDDLE_SEED repeats one schedule,
// HEDDLE_SCHEDULES is the last seed that is compiled, HEDDLE_BUNDLES writes
// them for another machine.
//
//===----------------------------------------------------------------------===//

#include "RandomSchedule.h"
#include "Words.h"

#include "bundle/format/Bundle.h"
#include "bundle/format/ManifestJson.h"
#include "bundle/program/Program.h"
#include "heddle/Pipelines/Compiler.h"
#include "runtime/test/conformance/Conformance.h"
#include "tools/explain/Explain.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/SourceMgr.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <optional>
#include <regex>
#include <set>

using namespace heddle;
using heddle::test::RandomSchedule;

namespace {

constexpr int64_t layers = 4;
constexpr int64_t blockSteps = 5; ///< of a block of decoding

/// What a layer does in a step, whatever the kernels and selections are called.
struct Action {
  std::multiset<std::string> pattern; ///< terms; none: dense
  std::set<std::string> refreshed;
  bool atOnce = false; ///< refreshes before it attends
  bool operator==(const Action &) const = default;
};

/// The selection, and what it chooses within, whatever their names and places.
std::string describe(const bundle::Manifest &manifest, int64_t index) {
  bundle::Manifest alone;
  bundle::Selection &own =
      alone.selections.emplace_back(manifest.selections[index]);
  const int64_t outer = own.within;
  own.name = "s";
  own.within = -1;
  return bundle::toJson(alone) +
         (outer < 0 ? "" : "within " + describe(manifest, outer));
}

/// The actions of each layer at each of `totalSteps` steps.
std::vector<Action> actions(const bundle::Manifest &manifest,
                            int64_t totalSteps) {
  std::vector<Action> all;
  auto rules = bundle::rulesOfLayers(manifest, layers);
  EXPECT_TRUE(rules);
  if (!rules)
    return all;
  for (size_t rule : *rules) {
    std::vector<size_t> phases =
        bundle::phasesOfSteps(manifest.rules[rule], totalSteps, blockSteps);
    for (int64_t t = 1; t <= totalSteps; ++t) {
      const bundle::Phase &phase = manifest.rules[rule].phases[phases[t - 1]];
      Action &action = all.emplace_back();
      for (const bundle::Term &term : manifest.kernels[phase.attention].terms)
        action.pattern.insert(bundle::words(
            term,
            bundle::readsList(term) ? describe(manifest, term.selection) : ""));
      for (const bundle::Phase::Refresh &refresh : phase.refreshes) {
        const bundle::Selection &selection =
            manifest.selections[refresh.selection];
        if (bundle::includes(selection.cadence,
                             bundle::plannedPlace(t, totalSteps, blockSteps)))
          action.refreshed.insert(describe(manifest, refresh.selection));
      }
      action.atOnce = phase.refreshesFirst && !action.refreshed.empty();
    }
  }
  return all;
}

/// What a step program says of rows, keys, reuse and commit at each of
/// `totalSteps` steps, whatever condition made a pass run.
std::string rowsOf(const bundle::Manifest &manifest, int64_t totalSteps) {
  bundle::Manifest rows;
  rows.positions = manifest.positions;
  rows.visible = manifest.visible;
  rows.reuse = manifest.reuse;
  rows.layeredReuses = manifest.layeredReuses;
  rows.commit = manifest.commit;
  if (!manifest.passes.empty())
    for (const std::vector<size_t> &passes :
         bundle::passesOfSteps(manifest, totalSteps, blockSteps))
      for (size_t pass : passes)
        rows.passes.emplace_back(manifest.passes[pass]).when.clear();
  return bundle::toJson(rows);
}

/// Fails unless two step programs do the same in runs of several lengths.
void expectSame(const bundle::Manifest &a, const bundle::Manifest &b) {
  for (int64_t steps : {1, 2, 7, 12, 40}) {
    EXPECT_EQ(actions(a, steps), actions(b, steps));
    EXPECT_EQ(rowsOf(a, steps), rowsOf(b, steps));
  }
}

/// The kernels that compute all pairs or select.
std::set<std::string> otherKernels(const bundle::Manifest &manifest) {
  std::set<std::string> names;
  for (const bundle::Kernel &kernel : manifest.kernels)
    if (kernel.kind == bundle::Kernel::Kind::Select || kernel.terms.empty())
      names.insert(kernel.name);
  return names;
}

explain::Explanation explained(const bundle::Manifest &manifest,
                               explain::ExplainRequest request = {}) {
  request.run.steps = 12;
  request.run.length = 100;
  request.run.prompt = 30;
  request.shape.layers = layers;
  request.shape.heads = 2;
  auto explanation = explain::explainRun(manifest, request);
  EXPECT_TRUE(explanation) << explanation.error().text();
  return explanation ? std::move(*explanation) : explain::Explanation();
}

/// The share of all pairs of its steps that a run computes.
double shareOf(const bundle::Manifest &manifest) {
  const explain::Explanation explanation = explained(manifest);
  return explanation.share *
         static_cast<double>(explanation.request.run.steps) /
         static_cast<double>(std::max<int64_t>(explanation.cost.steps, 1));
}

class RandomSchedules : public testing::Test {
protected:
  RandomSchedules() {
    mlir::DialectRegistry registry;
    mlir::heddle::registerCompilerDialects(registry);
    context.appendDialectRegistry(registry);
    if (const char *seed = std::getenv("HEDDLE_SEED"))
      first = last = static_cast<uint32_t>(std::strtoul(seed, nullptr, 10));
  }

  /// What `text` becomes, or nothing if it is refused.
  std::optional<mlir::heddle::Compiled>
  compile(const std::string &text, mlir::heddle::CompilerOptions options) {
    refusal.clear();
    mlir::ScopedDiagnosticHandler quiet(&context, [&](mlir::Diagnostic &d) {
      if (d.getSeverity() == mlir::DiagnosticSeverity::Error)
        refusal += d.str() + "\n";
      return mlir::success();
    });
    llvm::SourceMgr sources;
    sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(text, "s"),
                               llvm::SMLoc());
    auto module = mlir::heddle::parseSchedule(sources, "", &context);
    if (!module)
      return std::nullopt;
    test::countWords(*module, words);
    mlir::DefaultTimingManager manager;
    mlir::TimingScope timing = manager.getRootScope();
    auto compiled = mlir::heddle::compile(*module, text, options, timing);
    if (mlir::failed(compiled))
      return std::nullopt;
    return *compiled;
  }

  /// The step program alone, or nothing if `text` is refused.
  std::optional<bundle::Manifest> plan(const std::string &text,
                                       const std::string &crossovers = "") {
    mlir::heddle::CompilerOptions options;
    options.targets = {"x86-64-v3"};
    options.crossovers = crossovers;
    options.level = mlir::heddle::Level::Plan;
    auto compiled = compile(text, options);
    return compiled ? std::optional(compiled->manifest) : std::nullopt;
  }

  /// Checks what `rewrite` makes of each schedule that verifies, until one
  /// fails; gives the number of these. `rewrite` may change the schedule's
  /// lines; no terms: there is nothing to rewrite. `check` gets both programs.
  int forEach(
      std::function<std::vector<std::string>(RandomSchedule &, std::mt19937 &)>
          rewrite,
      std::function<void(const RandomSchedule &, const bundle::Manifest &,
                         const bundle::Manifest &)>
          check) {
    int count = 0;
    for (uint32_t seed = first; seed <= last && !HasFailure(); ++seed) {
      std::mt19937 random(seed);
      RandomSchedule schedule = test::drawSchedule(random);
      auto before = plan(schedule.text());
      if (!before) {
        countRefusal();
        continue;
      }
      std::vector<std::string> parts = rewrite(schedule, random);
      if (parts.empty())
        continue;
      ++count;
      SCOPED_TRACE("seed " + std::to_string(seed) + "\n" +
                   schedule.text(parts));
      auto after = plan(schedule.text(parts));
      EXPECT_TRUE(after) << refusal;
      if (after)
        check(schedule, *before, *after);
    }
    expectFewRefusals(last - first + 1);
    return first == last ? std::numeric_limits<int>::max() : count;
  }

  /// Counts why a schedule was refused: the message without its numbers and
  /// names, which tells rules apart.
  void countRefusal() {
    std::string reason;
    const std::string line = refusal.substr(0, refusal.find('\n'));
    for (char c : line)
      if (!std::isdigit(static_cast<unsigned char>(c)))
        reason += c;
    ++refusals[reason];
  }

  /// Fails if more than a tenth of `drawn` were refused, or a twentieth for one
  /// reason; of few some more by chance.
  void expectFewRefusals(uint32_t drawn) {
    uint32_t all = 0;
    std::string table;
    for (const auto &[reason, count] : refusals) {
      all += count;
      table += std::to_string(count) + " times: " + reason + "\n";
      EXPECT_LE(count, 2 + drawn / 20) << reason;
    }
    EXPECT_LE(all, 3 + drawn / 10) << table;
    std::cout << all << " of " << drawn << " refused\n" << table;
  }

  mlir::MLIRContext context;
  std::string refusal;
  std::map<std::string, uint32_t> refusals; ///< by reason
  std::map<std::string, int> words;         ///< of what was parsed
  uint32_t first = 1, last = 600;
};

} // namespace

TEST_F(RandomSchedules, FewAreRefused) {
  for (uint32_t seed = first; seed <= last; ++seed) {
    std::mt19937 random(seed);
    const std::string text = test::drawSchedule(random).text();
    if (!plan(text)) {
      countRefusal();
      if (first == last)
        ADD_FAILURE() << text << refusal;
    }
  }
  expectFewRefusals(last - first + 1);
}

/// Of schedules that become plans: what is refused counts for nothing.
TEST_F(RandomSchedules, EveryWordIsDrawn) {
  if (first == last)
    GTEST_SKIP() << "one schedule holds few words";
  std::map<std::string, int> drawn;
  // What is said of edits beside: in an order, in windows, with layers' rows.
  // Of noise beside: with drafts, what is kept of attention, rows by choice.
  std::map<std::string, int> noisy = {{"verify\\(", 0},
                                      {"attention\\(outside", 0},
                                      {"recompute salient\\(", 0},
                                      {"recompute least_similar", 0},
                                      {" edit\\(", 0},
                                      {" revoke\\(", 0}};
  std::map<std::string, int> beside = {{"commit random_order", 0},
                                       {"visible %", 0},
                                       {"visible all", 0},
                                       {"recompute .* in layers", 0}};
  // Some words are rare beside each other.
  const uint32_t end = last + 2 * (last - first);
  for (uint32_t seed = first; seed <= end; ++seed) {
    std::mt19937 random(seed);
    words.clear();
    const std::string text = test::drawSchedule(random).text();
    if (!plan(text))
      continue;
    for (const auto &[word, count] : words)
      drawn[word] += count;
    if (text.find(" edit(") != std::string::npos)
      for (auto &[shape, count] : beside)
        count += std::regex_search(text, std::regex(shape));
    if (text.find(" renoise") != std::string::npos)
      for (auto &[shape, count] : noisy)
        count += std::regex_search(text, std::regex(shape));
  }
  for (const auto &[shape, count] : noisy)
    EXPECT_GT(count, 0) << "no noise is drawn beside " << shape;
  for (const auto &[shape, count] : beside)
    EXPECT_GT(count, 0) << "no edit is drawn beside " << shape;
  const std::set<std::string> language = test::wordsOfLanguage(&context);
  EXPECT_GT(language.size(), 90u);
  for (const std::string &word : language)
    EXPECT_GT(drawn[word], 0) << "never drawn: " << word;
  for (const auto &[word, count] : drawn)
    EXPECT_FALSE(word.starts_with("?"))
        << "Words.cpp does not know the attribute " << word.substr(2);
}

TEST_F(RandomSchedules, UnionsCommuteAndTakeNoTermTwice) {
  int united = forEach(
      [](RandomSchedule &schedule, std::mt19937 &random) {
        std::vector<std::string> parts = schedule.terms;
        if (!parts.empty())
          parts.push_back(parts[random() % parts.size()]);
        std::shuffle(parts.begin(), parts.end(), random);
        return parts;
      },
      [](const RandomSchedule &, const bundle::Manifest &before,
         const bundle::Manifest &after) {
        expectSame(before, after);
        EXPECT_EQ(before.kernels.size(), after.kernels.size());
      });
  EXPECT_GT(united, 150);
}

TEST_F(RandomSchedules, DenseAbsorbs) {
  int absorbed = forEach(
      [](RandomSchedule &schedule, std::mt19937 &random) {
        schedule.lines.push_back("%everything = dense");
        schedule.earlier.clear();
        std::vector<std::string> parts = schedule.terms;
        auto at = static_cast<long>(random() % (parts.size() + 1));
        parts.insert(parts.begin() + at, "%everything");
        return parts;
      },
      [&](const RandomSchedule &schedule, const bundle::Manifest &,
          const bundle::Manifest &after) {
        auto dense = plan(schedule.text({}));
        ASSERT_TRUE(dense) << refusal;
        expectSame(*dense, after);
      });
  EXPECT_GT(absorbed, 300);
}

/// More pairs change nothing but the kernels that compute pairs, and never make
/// a run cheaper.
TEST_F(RandomSchedules, ATermMoreAddsPairsAlone) {
  int widened = forEach(
      [](RandomSchedule &schedule, std::mt19937 &) {
        std::vector<std::string> parts = schedule.terms;
        if ((schedule.window && schedule.sinks) || schedule.intersects)
          parts.clear();
        // Dense, both kinds of term there already, or what one more may
        // contain.
        if (parts.empty())
          return parts;
        schedule.lines.push_back(schedule.window ? "%more = sinks(7)"
                                                 : "%more = window(20)");
        parts.push_back("%more");
        return parts;
      },
      [](const RandomSchedule &, const bundle::Manifest &before,
         const bundle::Manifest &after) {
        for (int64_t steps : {1, 7, 40}) {
          EXPECT_EQ(rowsOf(before, steps), rowsOf(after, steps));
          std::vector<Action> few = actions(before, steps);
          std::vector<Action> more = actions(after, steps);
          ASSERT_EQ(few.size(), more.size());
          for (size_t i = 0; i < few.size(); ++i) {
            EXPECT_EQ(few[i].refreshed, more[i].refreshed);
            EXPECT_TRUE(
                std::includes(more[i].pattern.begin(), more[i].pattern.end(),
                              few[i].pattern.begin(), few[i].pattern.end()));
            EXPECT_EQ(few[i].pattern.empty(), more[i].pattern.empty());
          }
        }
        EXPECT_EQ(otherKernels(before), otherKernels(after));
        EXPECT_LE(shareOf(before), shareOf(after));
        EXPECT_LE(shareOf(after), 1.0);
      });
  EXPECT_GT(widened, 100);
}

/// Plans that fall back are those of the schedules that say `dense` in place of
/// the selections, and whoever explains them finds that none is left that would
/// fall back.
TEST_F(RandomSchedules, FallBackToDense) {
  std::string table;
  for (const char *lists : {"columns", "blocks"})
    for (const char *group : {"16", "32", "64", "128"})
      table += std::string(table.empty() ? "" : ", ") +
               R"({"target": "x86-64-v3", "lists": ")" + lists +
               R"(", "group": )" + group + R"(, "percent": 15})";
  table = R"({"dense_above": [)" + table + "]}";
  int fallen = 0;
  const uint32_t end = first == last ? last : 2000; // plans alone, few of which
  for (uint32_t seed = first; seed <= end && !HasFailure(); ++seed) {
    std::mt19937 random(seed);
    const std::string text = test::drawSchedule(random).text();
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    const auto before = plan(text);
    const auto after = plan(text, table);
    ASSERT_EQ(before.has_value(), after.has_value()) << refusal;
    if (!before)
      continue;
    fallen += !after->fallbacks.empty();
    std::string byHand = text;
    bool isWithin = false; // and chosen still
    for (const bundle::Fallback &each : after->fallbacks) {
      isWithin |= text.find("within %" + each.selection + " ") != text.npos;
      byHand = std::regex_replace(
          byHand, std::regex("(%" + each.selection + " = )select.*"),
          "$1dense");
    }
    if (!isWithin) {
      auto same = plan(byHand);
      if (!same) // where nothing is left to do at once
        same = plan(std::regex_replace(byHand, std::regex(" at_once"), ""));
      ASSERT_TRUE(same) << byHand << refusal;
      bundle::Manifest unsaid = *after;
      unsaid.fallbacks.clear();
      EXPECT_EQ(bundle::toJson(*same), bundle::toJson(unsaid)) << byHand;
    }
    explain::ExplainRequest request;
    auto crossovers = bundle::crossoversFromJson(table);
    ASSERT_TRUE(crossovers) << crossovers.error().text();
    request.crossovers = std::move(*crossovers);
    for (const auto &selection : explained(*after, request).selections)
      EXPECT_FALSE(selection.fallsBackAbove) << selection.name;
  }
  std::cout << fallen << " fell back\n";
  if (first != last)
    EXPECT_GT(fallen, 10);
}

/// For machines without a compiler: HEDDLE_BUNDLES names a folder that gets the
/// seeds' bundles with code for HEDDLE_TARGETS (host, if that is not set).
TEST_F(RandomSchedules, AreWrittenAsBundles) {
  const char *folder = std::getenv("HEDDLE_BUNDLES");
  if (!folder)
    GTEST_SKIP() << "HEDDLE_BUNDLES names no folder";
  mlir::heddle::CompilerOptions options;
  options.crossovers.clear(); // what is drawn is what runs
  if (const char *targets = std::getenv("HEDDLE_TARGETS")) {
    llvm::SmallVector<llvm::StringRef> names;
    llvm::StringRef(targets).split(names, ',');
    options.targets.assign(names.begin(), names.end());
  }
  if (const char *count = std::getenv("HEDDLE_SCHEDULES"))
    last = static_cast<uint32_t>(std::strtoul(count, nullptr, 10));
  options.elementTypes = {"f32"};
  options.headDims = {64};
  for (uint32_t seed = first; seed <= last; ++seed) {
    std::mt19937 random(seed);
    const std::string text = test::drawSchedule(random).text();
    auto compiled = compile(text, options);
    if (!compiled) {
      const std::string why = refusal;
      EXPECT_FALSE(plan(text)) << "seed " << seed << ": " << why;
      continue;
    }
    std::string path =
        std::string(folder) + "/random-" + std::to_string(seed) + ".hdl";
    std::ofstream file(path, std::ios::binary);
    file << compiled->output;
    file.close();
    ASSERT_TRUE(file) << "cannot write " << path;
  }
}

/// A quarter of the seeds, so that ctest runs quarters side by side.
class Compiled : public RandomSchedules,
                 public testing::WithParamInterface<uint32_t> {};

TEST_P(Compiled, RunsLikeTheReference) {
  constexpr uint32_t quarters = 4;
  if (const char *count = std::getenv("HEDDLE_SCHEDULES"))
    last = static_cast<uint32_t>(std::strtoul(count, nullptr, 10));
  else if (first != last)
    last = 100;
  int64_t drawn = 0, executed = 0, cases = 0;
  for (uint32_t seed = first; seed <= last && !HasFailure(); ++seed) {
    if (seed % quarters != GetParam())
      continue;
    ++drawn;
    std::mt19937 random(seed);
    RandomSchedule schedule = test::drawSchedule(random);
    bool bf16 = random() % 4 == 0;
    mlir::heddle::CompilerOptions options;
    options.crossovers.clear(); // as above
    options.elementTypes = {bf16 ? "bf16" : "f32"};
    options.headDims = {64};
    auto compiled = compile(schedule.text(), options);
    if (!compiled) {
      countRefusal();
      const std::string why = refusal;
      EXPECT_FALSE(plan(schedule.text()))
          << "seed " << seed << " has a plan but no code: " << why;
      continue;
    }
    ++executed;
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + schedule.text());
    auto bundle = bundle::Bundle::parse(compiled->output, "compiled");
    ASSERT_TRUE(bundle) << bundle.error().text();
    conformance::Options how;
    how.seed = seed;
    conformance::Finding finding = conformance::checkProgram(
        *bundle, bf16 ? rt::DType::BF16 : rt::DType::F32, 64, how);
    EXPECT_TRUE(finding.ok()) << conformance::lineOf("program", finding);
    cases += finding.cases;
  }
  expectFewRefusals(static_cast<uint32_t>(drawn));
  EXPECT_GT(cases + 1, 5 * executed);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Compiled, testing::Range(0u, 4u));
