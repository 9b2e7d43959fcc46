//===- PlanOps.cpp - The plan level ---------------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Assembly.h"
#include "Verify.h"

#include "bundle/program/Manifest.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::heddle;
namespace bundle = ::heddle::bundle;

bundle::Kernel mlir::heddle::refreshKernel(const bundle::Selection &rule,
                                           const bundle::Selection &outer) {
  bundle::Kernel form;
  form.kind = bundle::Kernel::Kind::Select;
  static_cast<bundle::ListForm &>(form) = bundle::formOf(rule, &outer);
  return form;
}

//===----------------------------------------------------------------------===//
// PlanOp
//===----------------------------------------------------------------------===//

LogicalResult PlanOp::verifyRegions() {
  // N1: a plan holds selections, kernels, rules and a program of rows and keys.
  for (Operation &op : *getBody())
    if (!isa<SelectionOp, FallbackOp, KernelOp, RuleOp>(op) &&
        !(op.getName().getRegisteredInfo() &&
          isOfSchedules(*op.getName().getRegisteredInfo())))
      return op.emitOpError("does not belong in a heddle.plan");
  if (failed(verifyOnlyOne<VisibleOp>(*this)) || failed(verifyReuses(*this)) ||
      failed(verifyCommits(*this)))
    return failure();

  for (auto rule : getOps<RuleOp>())
    for (Operation &op : *rule.getBody())
      if (!isa<PhaseOp>(op))
        return op.emitOpError("does not belong in a heddle.rule");
  return success();
}

//===----------------------------------------------------------------------===//
// FallbackOp
//===----------------------------------------------------------------------===//

// N13: lists that keep no more are as fast.
LogicalResult FallbackOp::verify() {
  const bundle::Selection rule = getRule();
  if (rule.count == 0 &&
      bundle::isMore(rule.keep, getDenseAboveAttr().getValue()))
    return success();
  return emitOpError("is of a selection that keeps no more than the share "
                     "above which dense attention is faster");
}

//===----------------------------------------------------------------------===//
// KernelOp
//===----------------------------------------------------------------------===//

LogicalResult KernelOp::verify() {
  const bundle::Kernel form = getForm();
  return isAttention() ? success()
                       : checkGroup([&] { return emitOpError(); }, form.group,
                                    form.blocks);
}

// F1, F2: scores are a function that bundles can hold.
LogicalResult KernelOp::verifyRegions() {
  return success(succeeded(readScores(getScores())));
}

void KernelOp::getAsmBlockArgumentNames(Region &region,
                                        OpAsmSetValueNameFn setName) {
  nameScoreArguments(region, setName);
}

/// The op of kind `OpTy` that `name` means in the plan around `user`; an error
/// at `user` if it is none.
template <typename OpTy>
static OpTy lookUp(SymbolTableCollection &symbols, Operation *user,
                   FlatSymbolRefAttr name, StringRef what) {
  auto op = symbols.lookupNearestSymbolFrom<OpTy>(user, name);
  if (!op)
    user->emitOpError("names ")
        << name << ", which is no " << what << " of the plan";
  return op;
}

// N4: names lead to what they must; groups agree.
LogicalResult KernelOp::verifySymbolUses(SymbolTableCollection &symbols) {
  for (auto term : getTerms().getAsRange<TermAttr>()) {
    FlatSymbolRefAttr name = term.getSelection();
    if (!name)
      continue;
    auto selection =
        lookUp<SelectionOp>(symbols, *this, name, "heddle.selection");
    if (!selection)
      return failure();
    const bundle::Selection rule = selection.getRule();
    int64_t group = term.getGroup();
    if (group != rule.group)
      return emitOpError("reads ")
                 .append(name, " in groups of ", group,
                         ", it is made in groups of ", rule.group)
                 .attachNote(selection.getLoc())
             << "the selection is here";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// PhaseOp and what it holds
//===----------------------------------------------------------------------===//

AttendWithOp PhaseOp::getAttention() {
  return *getBody()->getOps<AttendWithOp>().begin();
}

ScoreWithOp PhaseOp::getScoring() {
  return dyn_cast<ScoreWithOp>(getBody()->front());
}

bool PhaseOp::refreshesFirst() {
  return !isa<AttendWithOp>(getBody()->front());
}

// N5: a phase is one attention, then refreshes; or a scoring one, if refreshes
// need it, refreshes and the attention. Each refresh comes behind its own
// scoring ones, and behind all else comes what is measured.
LogicalResult PhaseOp::verifyRegions() {
  Block &body = *getBody();
  if (body.empty() || !isa<AttendWithOp, ScoreWithOp, RefreshOp>(body.front()))
    return emitOpError("must begin with heddle.attend_with, or with what "
                       "refreshes before it");
  Operation *last = &body.back();
  while (isa<MeasureOp>(last))
    last = last->getPrevNode();
  Operation *attention = refreshesFirst() ? last : &body.front();
  for (auto measure : getOps<MeasureOp>())
    if (measure->isBeforeInBlock(last))
      return measure.emitOpError("measures what its phase has computed, so it "
                                 "must stand behind all else of the phase");
  for (Operation &op : body)
    if (!isa<RefreshOp, ScoreWithOp, MeasureOp>(op) &&
        !(isa<AttendWithOp>(op) && &op == attention))
      return op.emitOpError("cannot follow a phase's ")
             << body.front().getName()
             << "; only heddle.refresh and heddle.score_with before it can"
             << (refreshesFirst() ? ", and a last heddle.attend_with" : "");
  if (!isa<AttendWithOp>(attention))
    return emitOpError("refreshes first and must end with heddle.attend_with");
  for (auto score : getOps<ScoreWithOp>()) {
    Operation *next = score->getNextNode();
    if (!next || !isa<RefreshOp, ScoreWithOp>(next))
      return score.emitOpError("scores for no heddle.refresh");
    if (!score.isOfRefresh() &&
        (score.getScaledByHeads() || score.getOfResponse()))
      return score.emitOpError("serves all of the phase's refreshes, by "
                               "attention's own scale and all keys");
  }
  return success();
}

bundle::Phase::Scoring ScoreWithOp::asData(int64_t kernel) {
  return {kernel, getScaledByHeads() ? Scale::Heads : Scale::HeadDim,
          getOfResponse()};
}

SmallVector<ScoreWithOp, 2> RefreshOp::getScorings() {
  SmallVector<ScoreWithOp, 2> scorings;
  for (Operation *op = (*this)->getPrevNode(); op; op = op->getPrevNode()) {
    auto score = dyn_cast<ScoreWithOp>(op);
    if (!score || !score.isOfRefresh())
      break;
    scorings.push_back(score);
  }
  return {scorings.rbegin(), scorings.rend()};
}

static LogicalResult verifyKernel(Operation *op, FlatSymbolRefAttr name,
                                  SymbolTableCollection &symbols) {
  return success(!name || lookUp<KernelOp>(symbols, op, name, "heddle.kernel"));
}

LogicalResult AttendWithOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return failure(failed(verifyKernel(*this, getKernelAttr(), symbols)) ||
                 failed(verifyKernel(*this, getShadowAttr(), symbols)) ||
                 failed(verifyKernel(*this, getRolloutAttr(), symbols)));
}

LogicalResult ScoreWithOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyKernel(*this, getKernelAttr(), symbols);
}

LogicalResult MeasureOp::verify() {
  if (getCadence().kind == CadenceKind::Drift)
    return success();
  return emitOpError("measures ")
         << toString(getCadence())
         << ", which goes by nothing that a step finds; expected a cadence by "
            "drift";
}

LogicalResult MeasureOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyKernel(*this, getKernelAttr(), symbols);
}

// N4: what is chosen within stands before.
LogicalResult SelectionOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FlatSymbolRefAttr name = getWithinAttr();
  if (!name)
    return success();
  auto outer = lookUp<SelectionOp>(symbols, *this, name, "heddle.selection");
  if (!outer)
    return failure();
  if (outer->isBeforeInBlock(*this))
    return success();
  return emitOpError("chooses within ")
             .append(name, ", which does not stand before it")
             .attachNote(outer.getLoc())
         << "the other selection is here";
}

LogicalResult RefreshOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return failure(!lookUp<SelectionOp>(symbols, *this, getSelectionAttr(),
                                      "heddle.selection") ||
                 failed(verifyKernel(*this, getKernelAttr(), symbols)));
}
