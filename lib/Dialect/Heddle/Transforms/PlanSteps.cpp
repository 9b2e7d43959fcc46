//===- PlanSteps.cpp - Turn schedules into step programs ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The phases of an attend that reads selections S1..Sn on cadences C1..Cm and
// is dense until U:
//
//   on Ck      dense with log-sum-exp; refresh the selections on Ck..Cm
//   before U   dense
//   otherwise  the pairs
//
// and with at_once
//
//   before U   dense
//   otherwise  score with dense; refresh all selections; the pairs
//
// where dense attention is left out if no selection reads its log-sum-exp.
//
// Pairs until U take the place of the dense ones, and with at_once are
// refreshed first, too.
//
// The selections are those that the layers refresh: what they read of other
// layers has no phase.
//
// Each refresh comes behind the attention that its selection is scored by
// besides, and behind all of them what the phase measures.
//
// The first phase that applies runs, and a step may be in several cadences, so
// a phase lists the selections of later cadences too; a refresh is skipped in
// steps that are not in its selection's own cadence.
//
//===----------------------------------------------------------------------===//

#include "FallBackToDense.h"
#include "bundle/format/File.h"
#include "bundle/program/Program.h"
#include "bundle/program/ProgramChecks.h"
#include "heddle/Dialect/Heddle/IR/LayerParts.h"
#include "heddle/Dialect/Heddle/IR/PairSet.h"
#include "heddle/Dialect/Heddle/IR/Program.h"
#include "heddle/Dialect/Heddle/Transforms/Passes.h"
#include "heddle/Support/ScoreRegion.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::heddle {
#define GEN_PASS_DEF_HEDDLEPLANSTEPS
#include "heddle/Dialect/Heddle/Transforms/Passes.h.inc"
} // namespace mlir::heddle

using namespace mlir;
using namespace mlir::heddle;
namespace bundle = ::heddle::bundle;

namespace {

/// Makes one plan.
class Planner {
public:
  explicit Planner(ScheduleOp schedule)
      : schedule(schedule), builder(schedule) {}

  void plan(ArrayRef<Fallen> fallen);

private:
  StringAttr freshName(const Twine &wanted);
  SelectionOp selectionFor(SelectOp select);
  KernelOp attentionFor(PairSet &pairs);
  KernelOp denseAttention();
  KernelOp shadowAttention();
  KernelOp rollout();
  KernelOp kernelFor(Location loc, const Twine &name,
                     const bundle::Kernel &form,
                     ArrayRef<Attribute> terms = {});
  void planProgram();
  void planRule(const LayerPart &part);
  void addFirst(PhaseOp phase, ArrayRef<SelectOp> selections);
  PhaseOp addPhase(Location loc, const bundle::When &when, KernelOp attention);
  void addRefresh(SelectOp select);

  ScheduleOp schedule;
  OpBuilder builder;
  PlanOp result;
  /// Some phase refreshes a selection, attention outside of a set is kept or
  /// attention is added up, so dense attention writes the log-sum-exp.
  bool needsLse = false;
  /// Some commit revokes by a shadow, which each attention has one for.
  bool needsShadow = false;
  /// Some set goes by the attention that positions drew, so each attention has
  /// a kernel that adds it up.
  bool needsRollout = false;
  SmallVector<std::pair<SelectOp, SelectionOp>> selections;
  SmallVector<KernelOp> kernels;
  llvm::StringSet<> names;
  /// Of the attend at hand.
  Region *scores = nullptr;
};

} // namespace

/// "select_128", "select_128_per_kv_head", "select_blocks_128",
/// "select_all_per_layer_pooled3", "select_32_within_blocks128".
static std::string selectName(const bundle::Kernel &form) {
  auto groupName = [](int64_t group) {
    return group == bundle::groupOfAll ? "all" : std::to_string(group);
  };
  std::string within;
  if (form.withinGroup > 0)
    within = (form.withinBlocks ? "_within_blocks" : "_within_columns") +
             groupName(form.withinGroup);
  return (form.blocks ? "select_blocks_" : "select_") + groupName(form.group) +
         (form.perKvHead ? "_per_kv_head" : "") +
         (form.perLayer ? "_per_layer" : "") +
         (form.pooled ? "_pooled" + std::to_string(form.pooled) : "") + within +
         (readsLse(form.scorer) ? "" : "_by_" + spelled(form.scorer).str());
}

static StringRef nameOf(SelectOp select) {
  return select.getName().value_or(spelled(select.getRule().kind));
}

static bool needsLogSumExp(SelectOp select) {
  return readsLse(bundle::Selection(select.getRule()).scorer);
}

/// A name that becomes part of a C symbol: letters, digits and underscores. Of
/// a union of many sets the first ones name the kernel: bundles take symbols of
/// up to 255 bytes, types and head dims behind the name included.
StringAttr Planner::freshName(const Twine &wanted) {
  constexpr size_t longest = 160;
  std::string base = wanted.str();
  base.resize(std::min(base.size(), longest));
  for (char &c : base)
    if (!llvm::isAlnum(c))
      c = '_';
  std::string name = base;
  for (int i = 1; !names.insert(name).second; ++i)
    name = base + "_" + std::to_string(i);
  return builder.getStringAttr(name);
}

SelectionOp Planner::selectionFor(SelectOp select) {
  for (auto &[other, selection] : selections)
    if (sameSelection(select, other))
      return selection;
  FlatSymbolRefAttr within;
  if (SelectOp outer = select.getOuter())
    within = FlatSymbolRefAttr::get(selectionFor(outer).getSymNameAttr());
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(result.getBody());
  auto selection = SelectionOp::create(
      builder, select.getLoc(), freshName(nameOf(select)), select.getRuleAttr(),
      select.getRows(), select.getAlways(), within,
      cadenceOf(select.getCadence()));
  selections.push_back({select, selection});
  return selection;
}

/// The kernel of that form, terms and the attend's scores.
KernelOp Planner::kernelFor(Location loc, const Twine &name,
                            const bundle::Kernel &form,
                            ArrayRef<Attribute> terms) {
  auto formAttr = KernelFormAttr::get(builder.getContext(), form);
  ArrayAttr termArray = builder.getArrayAttr(terms);
  // A sum of queries is no row that a function could be asked for.
  const bundle::Scores function =
      readsLse(form.scorer) ? scoresOf(*scores) : bundle::Scores();
  for (KernelOp kernel : kernels)
    if (kernel.getFormAttr() == formAttr && kernel.getTerms() == termArray &&
        scoresOf(kernel.getScores()) == function)
      return kernel;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(result.getBody());
  kernels.push_back(KernelOp::create(
      builder, loc, freshName(function.empty() ? name : name + "_scores"),
      formAttr, termArray));
  if (!function.empty()) {
    IRMapping mapping;
    scores->cloneInto(&kernels.back().getScores(), mapping);
  }
  return kernels.back();
}

KernelOp Planner::denseAttention() {
  bundle::Kernel form;
  form.writesLse = needsLse;
  return kernelFor(schedule.getLoc(),
                   needsLse ? "attention_dense_lse" : "attention_dense", form);
}

/// Of a shadow's rows: each over all keys but one of its sequence.
KernelOp Planner::shadowAttention() {
  const bundle::Term others = {.kind = bundle::Term::Kind::Others};
  return kernelFor(schedule.getLoc(), "attention_others", {},
                   TermAttr::get(builder.getContext(), others,
                                 FlatSymbolRefAttr(), /*group=*/0));
}

/// Of the attention that positions drew in a layer.
KernelOp Planner::rollout() {
  const bundle::Kernel form = bundle::rolloutKernel();
  return kernelFor(schedule.getLoc(), selectName(form), form);
}

static std::string symbolOf(const bundle::Term &term);

/// "_within_window24", nothing where a term is within no other set.
static std::string boundSymbolOf(const bundle::Term &term) {
  std::string name;
  for (const bundle::Term &each : term.within)
    name += "_within_" + symbolOf(each);
  return name;
}

/// "window24", "sinks1of10", "window24_dilation2".
static std::string symbolOf(const bundle::Term &term) {
  std::string name(bundle::setNames()[static_cast<size_t>(term.kind)]);
  for (const bundle::SetNumber &number : numbersOf(term.kind)) {
    if (number.isLeftOut(term))
      continue;
    if (number.named)
      name += "_" + std::string(number.name);
    name += number.orShare && term.share.num > 0
                ? std::to_string(term.share.num) + "of" +
                      std::to_string(term.share.den)
                : std::to_string(term.*number.number);
  }
  return name + boundSymbolOf(term);
}

KernelOp Planner::attentionFor(PairSet &pairs) {
  std::string name = "attention";
  SmallVector<Attribute> terms;
  MLIRContext *context = builder.getContext();
  for (const PairTerm &term : pairs.terms) {
    FlatSymbolRefAttr symbol;
    int64_t group = 0;
    if (term.select) {
      SelectionOp selection = selectionFor(term.select);
      symbol = FlatSymbolRefAttr::get(selection.getSymNameAttr());
      group = selection.getRule().group;
      name += "_" + selection.getSymName().str() + boundSymbolOf(term.set);
    } else {
      name += "_" + symbolOf(term.set);
    }
    terms.push_back(TermAttr::get(context, term.set, symbol, group));
  }
  return kernelFor(schedule.getLoc(), name, {}, terms);
}

PhaseOp Planner::addPhase(Location loc, const bundle::When &when,
                          KernelOp attention) {
  auto phase = PhaseOp::create(builder, loc, when);
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&phase.getBodyRegion());
  FlatSymbolRefAttr shadow, added;
  if (needsShadow)
    shadow = FlatSymbolRefAttr::get(shadowAttention().getSymNameAttr());
  if (needsRollout)
    added = FlatSymbolRefAttr::get(rollout().getSymNameAttr());
  AttendWithOp::create(builder, loc,
                       FlatSymbolRefAttr::get(attention.getSymNameAttr()),
                       shadow, added);
  return phase;
}

/// Where the builder stands.
void Planner::addRefresh(SelectOp select) {
  SelectionOp selection = selectionFor(select);
  for (const bundle::Phase::Scoring &scoring :
       bundle::scoringsOf(select.getRule(), /*scorer=*/0))
    ScoreWithOp::create(builder, select.getLoc(), denseAttention().getSymName(),
                        scoring.scale == Scale::Heads, scoring.ofResponse);
  SelectOp outer = select.getOuter();
  const bundle::Kernel form = refreshKernel(
      select.getRule(), outer ? outer.getRule() : bundle::Selection());
  KernelOp kernel = kernelFor(select.getLoc(), selectName(form), form);
  RefreshOp::create(builder, select.getLoc(), selection.getSymName(),
                    kernel.getSymName());
}

/// In front of a phase's attention, if it refreshes `selections` first.
void Planner::addFirst(PhaseOp phase, ArrayRef<SelectOp> selections) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(phase.getBody());
  if (llvm::any_of(selections, needsLogSumExp))
    ScoreWithOp::create(builder, phase.getLoc(), denseAttention().getSymName());
  for (SelectOp select : selections)
    addRefresh(select);
}

void Planner::planRule(const LayerPart &part) {
  AttendOp attend = part.attend;
  Location loc = attend.getLoc();
  scores = &attend.getScores();
  builder.setInsertionPointToEnd(result.getBody());
  auto rule = RuleOp::create(builder, loc, part.layers);
  builder.createBlock(&rule.getBodyRegion());

  const bool first = attend.getAtOnce() && !part.refreshed.empty();
  llvm::SmallSetVector<CadenceAttr, 4> cadences;
  for (SelectOp select : part.refreshed)
    cadences.insert(cadenceOf(select.getCadence()));
  ArrayRef<CadenceAttr> left = cadences.getArrayRef();
  for (; !first && !left.empty(); left = left.drop_front()) {
    PhaseOp phase = addPhase(loc, {WhenKind::On, left.front().getValue()},
                             denseAttention());
    OpBuilder::InsertionGuard guard(builder);
    for (SelectOp select : part.refreshed) {
      if (!llvm::is_contained(left, cadenceOf(select.getCadence())))
        continue;
      builder.setInsertionPointToEnd(phase.getBody());
      addRefresh(select);
    }
  }

  SmallVector<AttendOp::Stage, 2> stages = attend.getStages();
  SmallVector<PairSet> sets = pairsOfStages(attend);
  auto isDense = [&](size_t stage) {
    return !stages[stage].pairs || sets[stage].dense;
  };
  const bool allDense = llvm::all_of(llvm::seq(stages.size()), isDense);
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    CadenceAttr until = cadenceOf(stages[stage].until);
    if (until && (allDense || includesFirst(until.getValue())))
      continue;
    PhaseOp phase =
        addPhase(loc,
                 until ? bundle::When{WhenKind::Before, until.getValue()}
                       : bundle::When(),
                 isDense(stage) ? denseAttention() : attentionFor(sets[stage]));
    if (first && (stage > 0 || !isDense(stage)))
      addFirst(phase, part.refreshed);
  }
}

/// Rows, keys, reuse and commit are the schedule's own ops, without those that
/// say nothing.
void Planner::planProgram() {
  FailureOr<Program> program = Program::of(schedule);
  if (failed(program))
    return; // the schedule's verifier has seen to it that this can't be
  needsShadow =
      bundle::anyCommit(program->manifest, &bundle::CommitRule::hasShadow);
  for (auto [value, set] : program->sets)
    if (Operation *one = program->positions[static_cast<size_t>(set)];
        value != one->getResult(0))
      value.replaceAllUsesWith(one->getResult(0));
  Block *body = result.getBody();
  builder.setInsertionPointToEnd(body);
  auto take = [&](Operation *op) {
    if (op)
      op->moveBefore(body, body->end());
  };
  for (auto cadence : llvm::make_early_inc_range(schedule.getOps<CadenceOp>()))
    take(cadence);
  for (Operation *set : program->positions)
    take(set);
  take(program->visible);
  // All rows at every step is what a plan without passes means; what is kept
  // for nobody is not kept.
  const bool some =
      llvm::any_of(program->manifest.passes, [](const bundle::Pass &pass) {
        return !pass.computesAllRows();
      });
  if (some) {
    for (Operation *op : program->passes)
      if (auto select = dyn_cast<SelectOp>(op))
        RecomputeOp::create(builder, select.getLoc(), Value(), Value(),
                            select.getCadence(), bundle::Pass(), ArrayAttr());
      else
        take(op);
    for (Operation *reuse : program->reuses) {
      take(reuse);
      cast<ReuseOp>(reuse).setBeforeRope(false);
    }
  }
  for (Operation *commit : program->commits)
    take(commit);
}

/// Adds the signals that cadences by drift go by, once all else is there.
static void addMeasures(PlanOp plan) {
  FailureOr<Program> program = Program::of(plan);
  if (failed(program))
    return; // as in planProgram()
  bundle::setMeasures(program->manifest);
  OpBuilder builder(plan.getContext());
  for (auto [op, rule] :
       llvm::zip_equal(plan.getOps<RuleOp>(), program->manifest.rules))
    for (auto [phase, planned] :
         llvm::zip_equal(op.getOps<PhaseOp>(), rule.phases))
      for (const bundle::Phase::Measure &each : planned.measures) {
        builder.setInsertionPointToEnd(phase.getBody());
        MeasureOp::create(builder, phase.getLoc(),
                          CadenceAttr::get(builder.getContext(), each.cadence),
                          each.kernel < 0
                              ? FlatSymbolRefAttr()
                              : phase.getAttention().getKernelAttr());
      }
}

/// A set that no op reads asks for nothing, such as attention that is added up.
static void eraseIdleSets(ScheduleOp schedule) {
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(*schedule.getBody())))
    if (op.getNumResults() == 1 &&
        isa<PositionsType>(op.getResult(0).getType()) && isOpTriviallyDead(&op))
      op.erase();
}

void Planner::plan(ArrayRef<Fallen> fallen) {
  eraseIdleSets(schedule);
  result =
      PlanOp::create(builder, schedule.getLoc(), schedule.getSymNameAttr());
  builder.createBlock(&result.getBodyRegion());

  const SmallVector<LayerPart> parts = layerParts(schedule);
  for (const LayerPart &part : parts)
    needsLse |= llvm::any_of(part.refreshed, needsLogSumExp);
  for (auto reuse : schedule.getOps<ReuseOp>())
    needsLse |= reuse.getRule().attention == ReusedAttention::Outside;
  needsRollout = !schedule.getOps<AttendedOp>().empty();
  needsLse |= needsRollout;
  planProgram();
  for (const LayerPart &part : parts)
    planRule(part);

  // Rules were made where they stand; what they name goes before them.
  Operation *firstRule = *result.getOps<RuleOp>().begin();
  Operation *first = &result.getBody()->front();
  // Those that name sets of positions stand behind these, and those that
  // choose within others behind them.
  for (auto &[select, selection] : selections)
    selection->moveBefore(
        selection->getNumOperands() || selection.getWithinAttr() ? firstRule
                                                                 : first);
  for (KernelOp kernel : kernels)
    kernel->moveBefore(firstRule);
  builder.setInsertionPointToStart(result.getBody());
  for (auto [select, above] : fallen)
    FallbackOp::create(
        builder, select.getLoc(), builder.getStringAttr(nameOf(select)),
        select.getRuleAttr(),
        RatioAttr::get(builder.getContext(), above.num, above.den));
  schedule.erase();
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(*result.getBody())))
    if (isOpTriviallyDead(&op))
      op.erase();
  addMeasures(result);
}

namespace {
struct PlanSteps : mlir::heddle::impl::HeddlePlanStepsBase<PlanSteps> {
  using HeddlePlanStepsBase::HeddlePlanStepsBase;
  PlanSteps(ArrayRef<bundle::Crossover> table, ArrayRef<bundle::Target> targets)
      : table(table), targets(targets) {}

  LogicalResult initialize(MLIRContext *context) override;

  void runOnOperation() override {
    SmallVector<ScheduleOp> schedules(getOperation().getOps<ScheduleOp>());
    for (ScheduleOp schedule : schedules) {
      // Constants may have folded to what no constant may be.
      for (AttendOp attend : schedule.getOps<AttendOp>())
        if (failed(readScores(attend.getScores())))
          return signalPassFailure();
      Planner(schedule).plan(fallBackToDense(schedule, table, targets));
    }
  }

  std::vector<bundle::Crossover> table;
  std::vector<bundle::Target> targets;
};
} // namespace

/// Options are those of a command line: a pipeline gives what they stand for.
LogicalResult PlanSteps::initialize(MLIRContext *context) {
  auto fail = [&](const Twine &problem) {
    return emitError(UnknownLoc::get(context))
           << "heddle-plan-steps: " << problem;
  };
  if (targetNames.empty())
    return crossovers.empty()
               ? success()
               : fail("a table of crossovers is for machines; name them, as "
                      "targets=sm_90a");
  targets.clear();
  for (const std::string &name : targetNames)
    targets.emplace_back().cpu = name;
  table = bundle::measuredCrossovers();
  if (crossovers.empty())
    return success();
  auto text = bundle::readRegularFile(
      crossovers, 0, [](std::string_view, uint64_t size) {
        return bundle::checkCrossoversSize(size);
      });
  if (!text)
    return fail(text.error().text());
  auto read = bundle::crossoversFromJson(*text);
  if (!read)
    return fail(crossovers + ": " + read.error().text());
  table = std::move(*read);
  return success();
}

std::unique_ptr<Pass>
mlir::heddle::createHeddlePlanSteps(ArrayRef<bundle::Crossover> table,
                                    ArrayRef<bundle::Target> targets) {
  return std::make_unique<PlanSteps>(table, targets);
}
