//===- VerifyPlan.cpp - Check the plan level ------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/ProgramChecks.h"
#include "heddle/Dialect/Heddle/IR/Program.h"
#include "heddle/Dialect/Heddle/Transforms/Passes.h"
#include "heddle/Dialect/Heddle/Transforms/VerifyKernels.h"
#include "heddle/Support/ScoreRegion.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

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
  explicit Checker(PlanOp plan) : plan(plan) {}

  LogicalResult check();
  /// N3 and N4 of the kernels alone.
  LogicalResult checkKernels(const bundle::Manifest &manifest);

private:
  LogicalResult checkDistinct();
  LogicalResult checkUsed();
  LogicalResult report(const std::optional<bundle::PlanProblem> &problem);

  PlanOp plan;
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
  llvm::DenseMap<StringAttr, llvm::SetVector<Operation *>> refreshing;
  plan.walk([&](RefreshOp refresh) {
    refreshing[refresh.getSelectionAttr().getAttr()].insert(
        refresh->getParentOfType<RuleOp>());
  });
  auto alike = [&](Operation *one, Operation *other) {
    if (auto kernel = dyn_cast<KernelOp>(one))
      return scoresOf(kernel.getScores()) ==
             scoresOf(cast<KernelOp>(other).getScores());
    auto rulesOf = [&](Operation *op) {
      return refreshing.lookup(cast<SelectionOp>(op).getSymNameAttr());
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
      if (FlatSymbolRefAttr rollout = attend.getRolloutAttr())
        used.insert(rollout.getAttr());
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

/// Emits an error at the op that breaks a rule.
LogicalResult
Checker::report(const std::optional<bundle::PlanProblem> &problem) {
  if (!problem)
    return success();
  auto nth = [](auto ops, size_t index) {
    return *std::next(ops.begin(), static_cast<ptrdiff_t>(index));
  };
  using At = bundle::PlanProblem::At;
  auto opAtFault = [&]() -> Operation * {
    if (problem->at == At::Kernel)
      return nth(plan.getOps<KernelOp>(), problem->kernel);
    if (problem->at == At::Rules)
      return plan;
    auto rule = nth(plan.getOps<RuleOp>(), problem->rule);
    if (problem->at == At::Layers || problem->at == At::Rule)
      return rule;
    auto phase = nth(rule.getOps<PhaseOp>(), problem->phase);
    switch (problem->at) {
    case At::Attention:
      return phase.getAttention();
    case At::Scoring:
      return phase.getScoring();
    case At::Refresh:
      return nth(phase.getOps<RefreshOp>(), problem->refresh);
    default:
      return phase;
    }
  };
  InFlightDiagnostic error = opAtFault()->emitOpError(problem->what);
  auto note = [&](Operation *op, StringRef what) {
    error.attachNote(op->getLoc()) << "the " << what << " is here";
  };
  if (problem->selection >= 0)
    note(nth(plan.getOps<SelectionOp>(), problem->selection), "selection");
  if (problem->kernel >= 0 && problem->at != At::Kernel)
    note(nth(plan.getOps<KernelOp>(), problem->kernel), "kernel");
  if (problem->other)
    note(nth(plan.getOps<RuleOp>(), *problem->other), "rule");
  return error;
}

LogicalResult Checker::check() {
  FailureOr<Program> program = Program::of(plan);
  // N11: rows, keys, reuse and commit can be executed in every run.
  return failure(failed(program) || failed(checkDistinct()) ||
                 failed(report(bundle::checkPlan(program->manifest))) ||
                 failed(program->check()) ||
                 failed(report(bundle::checkPhases(program->manifest))) ||
                 failed(checkUsed()));
}

LogicalResult Checker::checkKernels(const bundle::Manifest &manifest) {
  // Kernels are asked before all else, so what is said of others is said of
  // good ones.
  std::optional<bundle::PlanProblem> problem = bundle::checkPlan(manifest);
  if (problem && problem->at != bundle::PlanProblem::At::Kernel)
    problem.reset();
  return report(problem);
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

FailureOr<Program> mlir::heddle::verifyKernels(PlanOp plan) {
  if (failed(verifyNames(plan)))
    return failure();
  FailureOr<Program> program = Program::of(plan);
  if (succeeded(program) &&
      failed(Checker(plan).checkKernels(program->manifest)))
    return failure();
  return program;
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
