//===- FallBackToDense.cpp - Attend to all keys where that is faster ------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A selection falls back wherever it is attended to, or nowhere. Then nothing
// reads it but selections that choose within it, which the same rules refresh.
// What was attended to beside it alone is read by nobody either.
//
//===----------------------------------------------------------------------===//

#include "Measures.h"
#include "bundle/program/Program.h"
#include "heddle/Dialect/Heddle/IR/Program.h"
#include "heddle/Dialect/Heddle/Transforms/Passes.h"
#include "heddle/Support/ScoreRegion.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MemoryBuffer.h"

namespace mlir::heddle {
#define GEN_PASS_DEF_HEDDLEFALLBACKTODENSE
#include "heddle/Dialect/Heddle/Transforms/Passes.h.inc"
} // namespace mlir::heddle

using namespace mlir;
using namespace mlir::heddle;
namespace bundle = ::heddle::bundle;

namespace {

/// Changes one plan.
class FallBack {
public:
  FallBack(PlanOp plan, ArrayRef<bundle::Crossover> table,
           ArrayRef<bundle::Target> targets)
      : plan(plan), table(table), targets(targets), symbols(plan) {}

  void run();

private:
  KernelOp kernel(FlatSymbolRefAttr name) {
    return symbols.lookup<KernelOp>(name.getAttr());
  }
  bool readsLse(RefreshOp refresh) {
    return bundle::readsLse(*kernel(refresh.getKernelAttr()).getScorer());
  }
  void choose();
  FlatSymbolRefAttr denseKernel();
  void attendToAll();
  llvm::SetVector<StringAttr> attendedIn(RuleOp rule);
  void findBorrowed();
  void dropRefreshes(RuleOp rule);
  bool dropRefreshes(RuleOp rule, PhaseOp phase);
  void dropLse();
  void dropUnused();

  PlanOp plan;
  ArrayRef<bundle::Crossover> table;
  ArrayRef<bundle::Target> targets;
  SymbolTable symbols;
  llvm::DenseSet<StringAttr> fallen;    ///< names of selections
  llvm::SetVector<StringAttr> borrowed; ///< that other layers refresh
  llvm::DenseSet<StringAttr> needed;    ///< of the rule at hand
};

} // namespace

static bool isScored(KernelOp kernel) {
  return !scoresOf(kernel.getScores()).empty();
}

/// Finds those that fall back, and says so of each.
void FallBack::choose() {
  FailureOr<Program> program = Program::of(plan);
  if (failed(program))
    return; // as the verifier reports
  const bool someRows =
      llvm::any_of(program->manifest.passes, [](const bundle::Pass &pass) {
        return !pass.computesAllRows();
      });
  for (auto [operation, selection] :
       llvm::zip_equal(program->selections, program->manifest.selections)) {
    auto op = cast<SelectionOp>(operation);
    bundle::ListReads reads{.someRows = someRows};
    for (auto kernel : plan.getOps<KernelOp>())
      for (auto term : kernel.getTerms().getAsRange<TermAttr>()) {
        FlatSymbolRefAttr name = term.getSelection();
        if (!name || name.getAttr() != op.getSymNameAttr())
          continue;
        reads.read = true;
        reads.bounded |= !term.getSet().within.empty();
        reads.scored |= isScored(kernel);
      }
    auto above = bundle::fallsBackAbove(table, targets, selection, reads);
    if (!above)
      continue;
    fallen.insert(op.getSymNameAttr());
    OpBuilder builder(op);
    FallbackOp::create(
        builder, op.getLoc(), op.getSymNameAttr(), op.getRuleAttr(),
        RatioAttr::get(plan.getContext(), above->num, above->den));
  }
}

/// A kernel over all pairs of logits as they are.
FlatSymbolRefAttr FallBack::denseKernel() {
  for (auto kernel : plan.getOps<KernelOp>())
    if (kernel.isDense() && !isScored(kernel))
      return FlatSymbolRefAttr::get(kernel.getSymNameAttr());
  OpBuilder builder(*plan.getOps<KernelOp>().begin());
  const IntegerAttr none = builder.getI64IntegerAttr(0);
  auto kernel = KernelOp::create(
      builder, plan.getLoc(), builder.getStringAttr("attention_dense"),
      KernelKindAttr::get(plan.getContext(), KernelKind::Attention),
      builder.getArrayAttr({}), /*writes_lse=*/UnitAttr(),
      /*group=*/IntegerAttr(), /*blocks=*/UnitAttr(),
      /*per_kv_head=*/UnitAttr(), /*per_layer=*/UnitAttr(),
      /*scorer=*/ScorerAttr(), /*pooled=*/none, /*within_group=*/none,
      /*within_blocks=*/UnitAttr());
  return FlatSymbolRefAttr::get(symbols.insert(kernel));
}

/// Leaves out the refreshes of what nothing needs. False if the phase was there
/// for their sake.
bool FallBack::dropRefreshes(RuleOp rule, PhaseOp phase) {
  auto selectionOf = [&](RefreshOp refresh) {
    return symbols.lookup<SelectionOp>(refresh.getSelectionAttr().getAttr());
  };
  bool dropped = false;
  for (RefreshOp refresh : llvm::to_vector(phase.getOps<RefreshOp>())) {
    if (needed.contains(refresh.getSelectionAttr().getAttr()))
      continue;
    for (ScoreWithOp scoring : refresh.getScorings())
      scoring.erase();
    refresh.erase();
    dropped = true;
  }
  if (!dropped)
    return true;
  if (ScoreWithOp scoring = phase.getScoring();
      scoring &&
      llvm::none_of(phase.getOps<RefreshOp>(),
                    [&](RefreshOp refresh) { return readsLse(refresh); }))
    scoring.erase();
  // Those of other cadences have phases of their own.
  return phase.getWhen() != WhenKind::On ||
         !kernel(phase.getAttention().getKernelAttr()).isDense() ||
         llvm::any_of(phase.getOps<RefreshOp>(), [&](RefreshOp refresh) {
           return selectionOf(refresh).getCadenceAttr() ==
                  phase.getCadenceAttr();
         });
}

static bool doTheSame(Operation *one, Operation *other) {
  return OperationEquivalence::isRegionEquivalentTo(
      &one->getRegion(0), &other->getRegion(0),
      OperationEquivalence::IgnoreLocations);
}

void FallBack::attendToAll() {
  plan.walk([&](AttendWithOp attend) {
    if (llvm::any_of(
            kernel(attend.getKernelAttr()).getTerms().getAsRange<TermAttr>(),
            [&](TermAttr term) {
              FlatSymbolRefAttr name = term.getSelection();
              return name && fallen.contains(name.getAttr());
            }))
      attend.setKernelAttr(denseKernel());
  });
}

/// The selections that a rule's layers attend to.
llvm::SetVector<StringAttr> FallBack::attendedIn(RuleOp rule) {
  llvm::SetVector<StringAttr> names;
  rule.walk([&](AttendWithOp attend) {
    for (auto term :
         kernel(attend.getKernelAttr()).getTerms().getAsRange<TermAttr>())
      if (FlatSymbolRefAttr name = term.getSelection())
        names.insert(name.getAttr());
  });
  return names;
}

/// Finds the selections that layers attend to which do not refresh them.
void FallBack::findBorrowed() {
  for (auto rule : plan.getOps<RuleOp>()) {
    llvm::DenseSet<StringAttr> own;
    rule.walk([&](RefreshOp refresh) {
      own.insert(refresh.getSelectionAttr().getAttr());
    });
    for (StringAttr name : attendedIn(rule))
      if (!own.contains(name))
        borrowed.insert(name);
  }
}

void FallBack::dropRefreshes(RuleOp rule) {
  needed.clear();
  llvm::SetVector<StringAttr> read = attendedIn(rule);
  read.insert(borrowed.begin(), borrowed.end());
  for (StringAttr each : read)
    for (FlatSymbolRefAttr name = FlatSymbolRefAttr::get(each); name;
         name = symbols.lookup<SelectionOp>(name.getAttr()).getWithinAttr())
      needed.insert(name.getAttr());
  for (PhaseOp phase : llvm::to_vector(rule.getOps<PhaseOp>()))
    if (!dropRefreshes(rule, phase))
      phase.erase();
  // What all later steps do is no phase of its own.
  SmallVector<PhaseOp> phases(rule.getOps<PhaseOp>());
  while (phases.size() > 1 &&
         doTheSame(phases[phases.size() - 2], phases.back())) {
    phases[phases.size() - 2].erase();
    phases.erase(phases.end() - 2);
  }
}

/// Where nothing reads log-sum-exps any more, none are written.
void FallBack::dropLse() {
  bool isRead = false;
  plan.walk([&](Operation *op) {
    auto reuse = dyn_cast<ReuseOp>(op);
    auto refresh = dyn_cast<RefreshOp>(op);
    isRead |= (refresh && readsLse(refresh)) || isa<ScoreWithOp>(op) ||
              (reuse && reuse.getAttention() == ReusedAttention::Outside);
  });
  if (isRead)
    return;
  for (auto kernel : plan.getOps<KernelOp>()) {
    if (!kernel.getWritesLse())
      continue;
    kernel.setWritesLse(false);
    // PlanSteps' name for it, then.
    StringRef name = kernel.getSymName();
    if (name.consume_back("_lse"))
      (void)symbols.rename(kernel, name);
  }
}

void FallBack::dropUnused() {
  llvm::DenseSet<StringAttr> used;
  plan.walk([&](Operation *op) {
    if (auto attend = dyn_cast<AttendWithOp>(op))
      used.insert(attend.getKernelAttr().getAttr());
    if (auto score = dyn_cast<ScoreWithOp>(op))
      used.insert(score.getKernelAttr().getAttr());
    if (auto refresh = dyn_cast<RefreshOp>(op)) {
      used.insert(refresh.getKernelAttr().getAttr());
      used.insert(refresh.getSelectionAttr().getAttr());
    }
  });
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(*plan.getBody()))) {
    auto symbol = dyn_cast<SymbolOpInterface>(op);
    if (symbol ? !used.contains(symbol.getNameAttr()) : isOpTriviallyDead(&op))
      op.erase();
  }
}

void FallBack::run() {
  choose();
  if (fallen.empty())
    return;
  // They name kernels, and follow from all else.
  plan.walk([](MeasureOp measure) { measure.erase(); });
  attendToAll();
  findBorrowed();
  RuleOp otherwise;
  for (auto rule : plan.getOps<RuleOp>()) {
    dropRefreshes(rule);
    if (rule.isDefault())
      otherwise = rule;
  }
  // Layers that were named for their refreshes alone.
  for (RuleOp rule : llvm::to_vector(plan.getOps<RuleOp>()))
    if (rule != otherwise && doTheSame(rule, otherwise))
      rule.erase();
  dropLse();
  dropUnused();
  addMeasures(plan);
}

namespace {
struct FallBackToDense
    : mlir::heddle::impl::HeddleFallBackToDenseBase<FallBackToDense> {
  using HeddleFallBackToDenseBase::HeddleFallBackToDenseBase;
  FallBackToDense(ArrayRef<bundle::Crossover> crossovers,
                  ArrayRef<bundle::Target> targets)
      : crossovers(crossovers), targets(targets) {}

  LogicalResult initialize(MLIRContext *context) override {
    if (targetNames.empty())
      return success(); // this one was made with all that it needs
    targets.clear();
    for (const std::string &name : targetNames)
      targets.emplace_back().cpu = name;
    crossovers = bundle::measuredCrossovers();
    if (table.empty())
      return success();
    auto file = llvm::MemoryBuffer::getFile(table);
    if (!file)
      return emitError(UnknownLoc::get(context))
             << "cannot read '" << table << "': " << file.getError().message();
    auto parsed = bundle::crossoversFromJson((*file)->getBuffer());
    if (!parsed)
      return emitError(UnknownLoc::get(context))
             << table << ": " << parsed.error().text();
    crossovers = std::move(*parsed);
    return success();
  }

  void runOnOperation() override {
    for (auto plan : getOperation().getOps<PlanOp>())
      FallBack(plan, crossovers, targets).run();
  }

  std::vector<bundle::Crossover> crossovers;
  std::vector<bundle::Target> targets;
};
} // namespace

std::unique_ptr<Pass>
mlir::heddle::createHeddleFallBackToDense(ArrayRef<bundle::Crossover> table,
                                          ArrayRef<bundle::Target> targets) {
  return std::make_unique<FallBackToDense>(table, targets);
}
