//===- VerifyPlan.cpp - Check the plan level ------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/ProgramChecks.h"
#include "heddle/Dialect/Heddle/IR/LayerParts.h"
#include "heddle/Dialect/Heddle/IR/Program.h"
#include "heddle/Dialect/Heddle/Transforms/Passes.h"
#include "heddle/Support/ScoreRegion.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"

namespace mlir::heddle {
#define GEN_PASS_DEF_HEDDLEVERIFYPLAN
#include "heddle/Dialect/Heddle/Transforms/Passes.h.inc"
} // namespace mlir::heddle

using namespace mlir;
using namespace mlir::heddle;
namespace bundle = ::heddle::bundle;

namespace {

/// Checks one plan, whose ops verify.
class Checker {
public:
  explicit Checker(PlanOp plan) : plan(plan), symbols(plan) {}

  LogicalResult check();

private:
  KernelOp kernel(FlatSymbolRefAttr name) {
    return symbols.lookup<KernelOp>(name.getAttr());
  }
  LogicalResult checkDistinct();
  LogicalResult checkUsed();
  void findRefreshing();
  LogicalResult checkRule(RuleOp rule, int64_t firstLayer);
  LogicalResult checkRefreshes(PhaseOp phase);
  LogicalResult checkAttention(PhaseOp phase);
  LogicalResult checkPhases(const bundle::Manifest &manifest);
  LogicalResult checkRead(ArrayRef<PhaseOp> phases, size_t reader,
                          FlatSymbolRefAttr name);
  LogicalResult checkReadOfOthers(ArrayRef<PhaseOp> phases, size_t reader,
                                  FlatSymbolRefAttr name, int64_t firstLayer);
  CadenceAttr refreshedFrom(ArrayRef<PhaseOp> phases, FlatSymbolRefAttr name);

  /// The rules that refresh a selection.
  struct Refreshing {
    SmallVector<RuleOp> rules;
    bundle::FirstOf first; ///< of their layers
    /// From when on they do, and one of the rules that do from then.
    llvm::MapVector<CadenceAttr, RuleOp> from;
  };

  PlanOp plan;
  SymbolTable symbols;
  ReuseOp outside; ///< that keeps attention outside of a set, if there is one
  RecomputeOp unseen; ///< of rows that are not visible, if there is one
  std::vector<int64_t> firsts; ///< layers of the rules, in order
  llvm::DenseMap<StringAttr, Refreshing> refreshing;
};

} // namespace

/// An op's attributes but for its name.
static DictionaryAttr withoutName(Operation *op) {
  NamedAttrList attributes(op->getAttrDictionary());
  attributes.erase(SymbolTable::getSymbolAttrName());
  return attributes.getDictionary(op->getContext());
}

// N6: no two kernels are alike, nor two selections of the same layers.
LogicalResult Checker::checkDistinct() {
  llvm::DenseMap<std::pair<OperationName, Attribute>, SmallVector<Operation *>>
      seen;
  auto alike = [this](Operation *one, Operation *other) {
    if (auto kernel = dyn_cast<KernelOp>(one))
      return scoresOf(kernel.getScores()) ==
             scoresOf(cast<KernelOp>(other).getScores());
    auto rulesOf = [&](Operation *op) -> ArrayRef<RuleOp> {
      auto found = refreshing.find(cast<SelectionOp>(op).getSymNameAttr());
      if (found == refreshing.end())
        return {};
      return found->second.rules;
    };
    return rulesOf(one) == rulesOf(other);
  };
  for (Operation &op : *plan.getBody()) {
    if (!isa<SelectionOp, KernelOp>(op))
      continue;
    SmallVector<Operation *> &others =
        seen[{op.getName(), Attribute(withoutName(&op))}];
    for (Operation *other : others)
      if (alike(&op, other))
        return op.emitOpError("is like another one but for its name; one is "
                              "enough")
                   .attachNote(other->getLoc())
               << "the other one is here";
    others.push_back(&op);
  }
  return success();
}

// N7: every kernel runs in some phase, every selection is read by a kernel.
LogicalResult Checker::checkUsed() {
  llvm::DenseSet<StringAttr> used;
  plan.walk([&](Operation *op) {
    if (auto attend = dyn_cast<AttendWithOp>(op)) {
      used.insert(attend.getKernelAttr().getAttr());
      if (FlatSymbolRefAttr shadow = attend.getShadowAttr())
        used.insert(shadow.getAttr());
    }
    if (auto score = dyn_cast<ScoreWithOp>(op))
      used.insert(score.getKernelAttr().getAttr());
    if (auto refresh = dyn_cast<RefreshOp>(op))
      used.insert(refresh.getKernelAttr().getAttr());
    if (auto kernel = dyn_cast<KernelOp>(op))
      for (Attribute term : kernel.getTerms())
        if (FlatSymbolRefAttr selection = cast<TermAttr>(term).getSelection())
          used.insert(selection.getAttr());
    if (auto selection = dyn_cast<SelectionOp>(op))
      if (FlatSymbolRefAttr outer = selection.getWithinAttr())
        used.insert(outer.getAttr());
  });
  for (Operation &op : *plan.getBody())
    if (auto symbol = dyn_cast<SymbolOpInterface>(op))
      if (!used.contains(symbol.getNameAttr()))
        return op.emitOpError("is used by no ")
               << (isa<KernelOp>(op) ? "phase" : "kernel");
  return success();
}

// N8: a refresh that reads the log-sum-exp follows dense attention that writes
// it, and each one what its selection is scored by besides, and no more.
LogicalResult Checker::checkRefreshes(PhaseOp phase) {
  ScoreWithOp scoring = phase.getScoring();
  const FlatSymbolRefAttr scorer =
      scoring ? scoring.getKernelAttr() : phase.getAttention().getKernelAttr();
  KernelOp attention = kernel(scorer);
  const bundle::Scores scores = scoresOf(attention.getScores());
  bool anyReads = false;
  for (auto refresh : phase.getOps<RefreshOp>()) {
    std::string problem;
    std::vector<bundle::Phase::Scoring> scorings;
    for (ScoreWithOp op : refresh.getScorings())
      scorings.push_back(op.asData(op.getKernelAttr() == scorer ? 0 : 1));
    auto selection =
        symbols.lookup<SelectionOp>(refresh.getSelectionAttr().getAttr());
    const bool reads = readsLse(selection.getRule().scorer);
    anyReads |= reads;
    // F5: by the same function of the logits.
    if (KernelOp select = kernel(refresh.getKernelAttr());
        reads && scoresOf(select.getScores()) != scores)
      problem = "must choose by the scores of the attention whose log-sum-exp "
                "it reads";
    else if (reads && (!attention.isDense() || !attention.getForm().writesLse ||
                       (phase.refreshesFirst() && !scoring)))
      problem = "must follow dense attention that writes the log-sum-exp";
    else
      problem = bundle::checkScorings(selection.getRule(), 0, scores, scorings)
                    .value_or("");
    if (!problem.empty())
      return refresh.emitOpError(problem).attachNote(attention.getLoc())
             << "the phase's attention is here";
  }
  if (scoring && !anyReads)
    return scoring.emitOpError(bundle::idleScoring);
  return success();
}

/// N8, R20: what is kept of attention outside of a set is merged by
/// log-sum-exp, and rows that are not visible have no place among those that
/// kernels count.
LogicalResult Checker::checkAttention(PhaseOp phase) {
  KernelOp attention = kernel(phase.getAttention().getKernelAttr());
  const bundle::Scores scores = scoresOf(attention.getScores());
  std::optional<std::string> problem;
  Operation *why = outside;
  if (outside)
    problem = bundle::checkOutside(attention.isDense(), scores);
  if (outside && !problem && !attention.getForm().writesLse)
    problem = "must write the log-sum-exp where attention outside of a set is "
              "kept";
  if (unseen && !problem) {
    problem = bundle::checkUnseen(attention.isDense(), scores);
    why = unseen;
  }
  if (!problem)
    return success();
  return attention.emitOpError(*problem).attachNote(why->getLoc())
         << "the " << why->getName().stripDialect() << " is here";
}

static bool refreshes(PhaseOp phase, FlatSymbolRefAttr selection) {
  return llvm::any_of(phase.getOps<RefreshOp>(), [&](RefreshOp op) {
    return op.getSelectionAttr() == selection;
  });
}

/// Whether a phase refreshes a selection before it attends.
static bool refreshesBefore(PhaseOp phase, FlatSymbolRefAttr selection) {
  return phase.refreshesFirst() && refreshes(phase, selection);
}

static bool isOn(PhaseOp phase, CadenceAttr cadence) {
  return phase.getWhen() == bundle::When{WhenKind::On, cadence.getValue()};
}

/// Whether step 1 is the cadence's, or one of the phases is `before` a cadence
/// that begins no earlier.
static bool beginsBefore(CadenceAttr cadence, ArrayRef<PhaseOp> phases) {
  return includesFirst(cadence.getValue()) ||
         llvm::any_of(phases, [&](PhaseOp phase) {
           const bundle::When when = phase.getWhen();
           return when.kind == WhenKind::Before &&
                  startsNoLater(cadence.getValue(), when.cadence);
         });
}

/// Whether phase `reader`, which refreshes a selection on `cadence` before it
/// reads it, finds it refreshed at its first step. All of its steps may be the
/// cadence's. Else all phases behind it refresh it first as well, and with any
/// number of those right in front that do they are as one: their first step is
/// step 1, or one at which the last of the cadences begins that all phases in
/// front of them wait for. Or they are all of the rule's, and one in front ends
/// no earlier than the cadence begins.
static bool refreshesAtFirst(ArrayRef<PhaseOp> phases, size_t reader,
                             FlatSymbolRefAttr name, CadenceAttr cadence) {
  PhaseOp own = phases[reader];
  if (own.getWhen().kind == WhenKind::On)
    return includesAll(cadence.getValue(), own.getWhen().cadence);
  if (!llvm::all_of(phases.drop_front(reader), [&](PhaseOp phase) {
        return refreshesBefore(phase, name);
      }))
    return false;
  auto allOfItsSteps = [&](PhaseOp phase) {
    return phase.getWhen().kind == WhenKind::Before &&
           includesAll(cadence.getValue(), phase.getWhen().cadence);
  };
  for (size_t first = reader;; --first) {
    ArrayRef<PhaseOp> before = phases.take_front(first);
    if (first == 0)
      return beginsBefore(cadence, phases.take_front(reader));
    if (llvm::all_of(before, allOfItsSteps))
      return true;
    if (!refreshesBefore(phases[first - 1], name))
      return false;
  }
}

/// N9: what phase `reader` reads was written at an earlier step, or in the same
/// one by the phase itself. Say C is the
/// selection's cadence. If some phase is `on` C, and it and all phases before
/// it refresh the selection, then the selection is refreshed at exactly the
/// steps of C. The reader comes after that phase, so it runs at steps outside
/// of C only; it remains that the first step of C is not after the reader's
/// first. That holds if C includes step 1, or if an earlier phase takes all
/// steps `before` a cadence that begins no earlier than C.
LogicalResult Checker::checkRead(ArrayRef<PhaseOp> phases, size_t reader,
                                 FlatSymbolRefAttr name) {
  auto selection = symbols.lookup<SelectionOp>(name.getAttr());
  CadenceAttr cadence = selection.getCadenceAttr();
  if (refreshesBefore(phases[reader], name) &&
      refreshesAtFirst(phases, reader, name, cadence))
    return success();
  bool isWritten = false, isReady = false;
  for (PhaseOp phase : phases.take_front(reader)) {
    if (!isWritten && !refreshes(phase, name))
      break;
    isWritten |= isOn(phase, cadence);
    isReady |= beginsBefore(cadence, phase);
  }
  if (isWritten && isReady)
    return success();
  PhaseOp phase = phases[reader];
  return phase
             .emitOpError(
                 isWritten ? "may read a selection before it is first "
                             "written; it must come after a phase that is "
                             "`before` the selection's cadence"
                           : "reads a selection that the phases before it "
                             "do not refresh in every step of the selection's "
                             "cadence")
             .attachNote(selection.getLoc())
         << "the selection is here";
}

/// The cadence at whose first step a rule first refreshes a selection, and from
/// then on at every step of the selection's cadence; null if that cannot be
/// shown. See checkRead.
CadenceAttr Checker::refreshedFrom(ArrayRef<PhaseOp> phases,
                                   FlatSymbolRefAttr name) {
  CadenceAttr cadence =
      symbols.lookup<SelectionOp>(name.getAttr()).getCadenceAttr();
  // Those at the end that refresh first.
  size_t last = phases.size();
  while (last > 0 && refreshesBefore(phases[last - 1], name))
    --last;
  if (last == 0)
    return cadence;
  if (last == 1 && last < phases.size())
    if (PhaseOp before = phases.front();
        before.getWhen().kind == WhenKind::Before &&
        includesAll(cadence.getValue(), before.getWhen().cadence))
      return CadenceAttr::get(plan.getContext(), before.getWhen().cadence);
  for (PhaseOp phase : phases) {
    if (!refreshes(phase, name))
      continue;
    if (isOn(phase, cadence) &&
        llvm::all_of(phases.take_until([&](PhaseOp p) { return p == phase; }),
                     [&](PhaseOp p) { return refreshes(p, name); }))
      return cadence;
  }
  return {};
}

/// N9 for what other rules refresh: their layers come before, and begin no
/// later than phase `reader` reads.
LogicalResult Checker::checkReadOfOthers(ArrayRef<PhaseOp> phases,
                                         size_t reader, FlatSymbolRefAttr name,
                                         int64_t firstLayer) {
  PhaseOp phase = phases[reader];
  auto selection = symbols.lookup<SelectionOp>(name.getAttr());
  const Refreshing &others = refreshing[name.getAttr()];
  if (!others.first.comesBefore(firstLayer))
    return phase
               .emitOpError("reads a selection that neither its rule refreshes "
                            "nor one whose layers come before")
               .attachNote(selection.getLoc())
           << "the selection is here";
  for (auto [begin, rule] : others.from) {
    CadenceAttr from = begin;
    if (from && beginsBefore(from, phases.take_front(reader)))
      continue;
    InFlightDiagnostic error = phase.emitOpError(
        from ? "may read a selection before the rule that refreshes it first "
               "does; it must come after a phase that is `before` that"
             : "reads a selection of a rule that does not refresh it in every "
               "step of its cadence");
    error.attachNote(selection.getLoc()) << "the selection is here";
    error.attachNote(rule.getLoc()) << "the rule is here";
    return error;
  }
  return success();
}

/// Which rules refresh what, and the layers at which rules begin.
void Checker::findRefreshing() {
  std::vector<bundle::LayerSpan> spans;
  for (auto rule : plan.getOps<RuleOp>())
    spans.push_back(spanOf(rule.getLayersAttr()));
  firsts = bundle::firstLayers(spans);
  for (auto [op, layer] : llvm::zip_equal(plan.getOps<RuleOp>(), firsts)) {
    RuleOp rule = op;
    const SmallVector<PhaseOp> phases(rule.getOps<PhaseOp>());
    rule.walk([&, first = layer](RefreshOp refresh) {
      Refreshing &of = refreshing[refresh.getSelectionAttr().getAttr()];
      if (!of.rules.empty() && of.rules.back() == rule)
        return;
      of.rules.push_back(rule);
      of.first.add(first);
      of.from.insert({refreshedFrom(phases, refresh.getSelectionAttr()), rule});
    });
  }
}

LogicalResult Checker::checkRule(RuleOp rule, int64_t firstLayer) {
  SmallVector<PhaseOp> phases(rule.getOps<PhaseOp>());
  // N10: a rule holds phases, of which the last and only the last is
  // `otherwise`.
  for (Operation &op : *rule.getBody())
    if (!isa<PhaseOp>(op))
      return op.emitOpError("does not belong in a heddle.rule");
  if (phases.empty() || phases.back().getWhen().kind != WhenKind::Otherwise)
    return rule.emitOpError("must end with a phase `otherwise`, so that every "
                            "step has a phase");
  for (auto [index, phase] : llvm::enumerate(phases)) {
    if (phase.getWhen().kind == WhenKind::Otherwise && phase != phases.back())
      return phase.emitOpError("takes every step, so that the phases after it "
                               "never run");
    if (failed(checkRefreshes(phase)) || failed(checkAttention(phase)))
      return failure();
    for (Attribute term :
         kernel(phase.getAttention().getKernelAttr()).getTerms())
      if (FlatSymbolRefAttr selection = cast<TermAttr>(term).getSelection()) {
        const bool own = llvm::any_of(
            phases, [&](PhaseOp each) { return refreshes(each, selection); });
        if (failed(
                own ? checkRead(phases, index, selection)
                    : checkReadOfOthers(phases, index, selection, firstLayer)))
          return failure();
      }
  }
  return success();
}

/// P20, N12, N14: as the bundle has them.
LogicalResult Checker::checkPhases(const bundle::Manifest &manifest) {
  const std::optional<bundle::PhaseProblem> problem =
      bundle::checkPhases(manifest);
  if (!problem)
    return success();
  auto rule = *std::next(plan.getOps<RuleOp>().begin(),
                         static_cast<ptrdiff_t>(problem->rule));
  auto phase = *std::next(rule.getOps<PhaseOp>().begin(),
                          static_cast<ptrdiff_t>(problem->phase));
  if (!problem->refresh)
    return phase.emitOpError(problem->what);
  auto refresh = *std::next(phase.getOps<RefreshOp>().begin(),
                            static_cast<ptrdiff_t>(*problem->refresh));
  auto selection =
      symbols.lookup<SelectionOp>(refresh.getSelectionAttr().getAttr());
  return refresh.emitOpError(problem->what)
             .attachNote(
                 symbols.lookup(selection.getWithinAttr().getAttr())->getLoc())
         << "the other selection is here";
}

LogicalResult Checker::check() {
  findRefreshing();
  for (auto reuse : plan.getOps<ReuseOp>())
    if (reuse.getRule().attention == ReusedAttention::Outside)
      outside = reuse;
  for (auto recompute : plan.getOps<RecomputeOp>())
    if (recompute.getRule().unseen)
      unseen = recompute;
  if (failed(checkDistinct()))
    return failure();
  for (auto [rule, first] : llvm::zip_equal(plan.getOps<RuleOp>(), firsts))
    if (failed(checkRule(rule, first)))
      return failure();
  // N11: rows, keys, reuse and commit can be executed in every run.
  FailureOr<Program> program = Program::of(plan);
  if (failed(program) || failed(program->check()) ||
      failed(checkPhases(program->manifest)))
    return failure();
  return checkUsed();
}

/// Checks that ops name what is there, which passes before may have erased.
static LogicalResult verifyNames(PlanOp plan) {
  SymbolTableCollection symbols;
  WalkResult walked = plan.walk([&](SymbolUserOpInterface user) {
    return failed(user.verifySymbolUses(symbols)) ? WalkResult::interrupt()
                                                  : WalkResult::advance();
  });
  return failure(walked.wasInterrupted());
}

namespace {
struct VerifyPlan : mlir::heddle::impl::HeddleVerifyPlanBase<VerifyPlan> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    markAllAnalysesPreserved();
    for (Operation &op : *module.getBody()) {
      auto plan = dyn_cast<PlanOp>(op);
      if (!plan) {
        op.emitOpError("does not belong at the plan level; a module holds "
                       "heddle.plan ops");
        return signalPassFailure();
      }
      if (failed(verifyNames(plan)) || failed(Checker(plan).check()))
        return signalPassFailure();
    }
    if (module.getBody()->empty()) {
      module.emitError("expected a heddle.plan, found none");
      signalPassFailure();
    }
  }
};
} // namespace
