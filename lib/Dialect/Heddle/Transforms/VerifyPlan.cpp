//===- VerifyPlan.cpp - Check the plan level ------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/ProgramChecks.h"
#include "heddle/Dialect/Heddle/IR/Program.h"
#include "heddle/Dialect/Heddle/Transforms/Passes.h"
#include "heddle/Support/ScoreRegion.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseSet.h"
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
  LogicalResult checkRule(RuleOp rule);
  LogicalResult checkRefreshes(PhaseOp phase);
  LogicalResult checkRead(ArrayRef<PhaseOp> phases, size_t reader,
                          FlatSymbolRefAttr name);

  PlanOp plan;
  SymbolTable symbols;
};

} // namespace

/// An op's attributes but for its name.
static DictionaryAttr withoutName(Operation *op) {
  NamedAttrList attributes(op->getAttrDictionary());
  attributes.erase(SymbolTable::getSymbolAttrName());
  return attributes.getDictionary(op->getContext());
}

// N6: no two selections and no two kernels are alike.
LogicalResult Checker::checkDistinct() {
  llvm::DenseMap<std::pair<OperationName, Attribute>, SmallVector<Operation *>>
      seen;
  auto alike = [](Operation *one, Operation *other) {
    auto kernel = dyn_cast<KernelOp>(one);
    return !kernel || scoresOf(kernel.getScores()) ==
                          scoresOf(cast<KernelOp>(other).getScores());
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
    if (auto attend = dyn_cast<AttendWithOp>(op))
      used.insert(attend.getKernelAttr().getAttr());
    if (auto score = dyn_cast<ScoreWithOp>(op))
      used.insert(score.getKernelAttr().getAttr());
    if (auto refresh = dyn_cast<RefreshOp>(op))
      used.insert(refresh.getKernelAttr().getAttr());
    if (auto kernel = dyn_cast<KernelOp>(op))
      for (Attribute term : kernel.getTerms())
        if (FlatSymbolRefAttr selection = cast<TermAttr>(term).getSelection())
          used.insert(selection.getAttr());
  });
  for (Operation &op : *plan.getBody())
    if (auto symbol = dyn_cast<SymbolOpInterface>(op))
      if (!used.contains(symbol.getNameAttr()))
        return op.emitOpError("is used by no ")
               << (isa<KernelOp>(op) ? "phase" : "kernel");
  return success();
}

// N8: a refresh follows dense attention that writes the log-sum-exp, and what
// its selection is scored by besides.
LogicalResult Checker::checkRefreshes(PhaseOp phase) {
  ScoreWithOp scoring = phase.getScoring();
  const FlatSymbolRefAttr scorer =
      scoring ? scoring.getKernelAttr() : phase.getAttention().getKernelAttr();
  KernelOp attention = kernel(scorer);
  const bundle::Scores scores = scoresOf(attention.getScores());
  for (auto refresh : phase.getOps<RefreshOp>()) {
    std::string problem;
    std::vector<bundle::Phase::Scoring> scorings;
    for (ScoreWithOp op : refresh.getScorings())
      scorings.push_back(op.asData(op.getKernelAttr() == scorer ? 0 : 1));
    auto selection =
        symbols.lookup<SelectionOp>(refresh.getSelectionAttr().getAttr());
    // F5: by the same function of the logits.
    if (KernelOp select = kernel(refresh.getKernelAttr());
        scoresOf(select.getScores()) != scores)
      problem = "must choose by the scores of the attention whose log-sum-exp "
                "it reads";
    else if (!attention.isDense() || !attention.getWritesLse())
      problem = "must follow dense attention that writes the log-sum-exp";
    else
      problem = bundle::checkScorings(selection.getRule(), 0, scores, scorings)
                    .value_or("");
    if (!problem.empty())
      return refresh.emitOpError(problem).attachNote(attention.getLoc())
             << "the phase's attention is here";
  }
  return success();
}

static bool refreshes(PhaseOp phase, FlatSymbolRefAttr selection) {
  return llvm::any_of(phase.getOps<RefreshOp>(), [&](RefreshOp op) {
    return op.getSelectionAttr() == selection;
  });
}

/// Whether the first step of phase `reader`, which refreshes a selection on
/// `cadence` before it reads it, is one of the cadence: all of the phase's
/// steps are, or its first step is step 1, or one at which the last of the
/// cadences begins that all phases in front of it wait for.
static bool refreshesAtFirst(ArrayRef<PhaseOp> phases, size_t reader,
                             CadenceAttr cadence) {
  PhaseOp own = phases[reader];
  if (own.getWhen() == WhenKind::On)
    return includesAll(cadence.getValue(), *own.getCadence());
  if (reader == 0)
    return includesFirst(cadence.getValue());
  return llvm::all_of(phases.take_front(reader), [&](PhaseOp phase) {
    return phase.getWhen() == WhenKind::Before &&
           includesAll(cadence.getValue(), *phase.getCadence());
  });
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
  if (PhaseOp own = phases[reader]; own.getScoring() && refreshes(own, name) &&
                                    refreshesAtFirst(phases, reader, cadence))
    return success();
  bool isWritten = false, isReady = includesFirst(cadence.getValue());
  for (PhaseOp phase : phases.take_front(reader)) {
    if (!isWritten && !refreshes(phase, name))
      break;
    isWritten |=
        phase.getWhen() == WhenKind::On && phase.getCadenceAttr() == cadence;
    isReady |= phase.getWhen() == WhenKind::Before &&
               startsNoLater(cadence.getValue(), *phase.getCadence());
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

LogicalResult Checker::checkRule(RuleOp rule) {
  SmallVector<PhaseOp> phases(rule.getOps<PhaseOp>());
  // N10: a rule holds phases, of which the last and only the last is
  // `otherwise`.
  for (Operation &op : *rule.getBody())
    if (!isa<PhaseOp>(op))
      return op.emitOpError("does not belong in a heddle.rule");
  if (phases.empty() || phases.back().getWhen() != WhenKind::Otherwise)
    return rule.emitOpError("must end with a phase `otherwise`, so that every "
                            "step has a phase");
  for (auto [index, phase] : llvm::enumerate(phases)) {
    if (phase.getWhen() == WhenKind::Otherwise && phase != phases.back())
      return phase.emitOpError("takes every step, so that the phases after it "
                               "never run");
    if (failed(checkRefreshes(phase)))
      return failure();
    for (Attribute term :
         kernel(phase.getAttention().getKernelAttr()).getTerms())
      if (FlatSymbolRefAttr selection = cast<TermAttr>(term).getSelection())
        if (failed(checkRead(phases, index, selection)))
          return failure();
  }
  return success();
}

LogicalResult Checker::check() {
  if (failed(checkDistinct()))
    return failure();
  for (auto rule : plan.getOps<RuleOp>())
    if (failed(checkRule(rule)))
      return failure();
  // N11: rows, keys, reuse and commit can be executed in every run.
  FailureOr<Program> program = Program::of(plan);
  if (failed(program) || failed(program->check()))
    return failure();
  return checkUsed();
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
      if (failed(Checker(plan).check()))
        return signalPassFailure();
    }
    if (module.getBody()->empty()) {
      module.emitError("expected a heddle.plan, found none");
      signalPassFailure();
    }
  }
};
} // namespace
