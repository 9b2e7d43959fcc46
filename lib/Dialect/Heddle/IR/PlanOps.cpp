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

  // N2: one default rule; the others name disjoint layers.
  RuleOp fallback;
  NamedLayers<RuleOp> ranges;
  for (auto rule : getOps<RuleOp>()) {
    if (rule.isDefault()) {
      if (fallback)
        return rule.emitOpError("is the plan's second default rule")
                   .attachNote(fallback.getLoc())
               << "the first one is here";
      fallback = rule;
      continue;
    }
    if (failed(ranges.add(rule, rule.getLayersAttr(),
                          "names layers that another rule has")))
      return failure();
  }
  if (!fallback)
    return emitOpError("needs a default rule");
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
  if (isAttention()) {
    SmallVector<FlatSymbolRefAttr> selections;
    SmallVector<bundle::Term> terms;
    for (auto term : getTerms().getAsRange<TermAttr>()) {
      selections.push_back(term.getSelection());
      terms.push_back(term.getSet());
      terms.back().selection =
          llvm::find(selections, selections.back()) - selections.begin();
    }
    if (auto different = differentBounds(terms))
      return emitOpError("reads ")
             << selections[different->first] << " and "
             << selections[different->second]
             << " within different sets, and of what one has kept of a row the "
                "other can't know";
    return success();
  }
  // N3: what a kernel that selects has.
  if (!getTerms().empty())
    return emitOpError("selects, which has no terms and writes no "
                       "log-sum-exp");
  if (!readsLse(form.scorer) && !scoresOf(getScores()).empty())
    return emitOpError("selects by ")
           << spelled(form.scorer)
           << ", which takes no function of logits: a sum of queries is no "
              "row and stands nowhere";
  if (form.perKvHead && form.perLayer)
    return emitOpError("selects for each key/value head and for the layer");
  if (failed(
          checkGroup([&] { return emitOpError(); }, form.group, form.blocks)))
    return failure();
  if (form.withinGroup % form.group)
    return emitOpError("selects for groups that are no parts of those that it "
                       "chooses within");
  return success();
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
    StringRef readAs =
        bundle::setNames()[static_cast<size_t>(term.getSet().kind)];
    if (readAs != spelled(rule.kind))
      return emitOpError("reads ")
                 .append(name, " as ", readAs, ", it is of ",
                         spelled(rule.kind))
                 .attachNote(selection.getLoc())
             << "the selection is here";
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

template <typename Op>
static LogicalResult verifyAttention(Op op, FlatSymbolRefAttr name,
                                     SymbolTableCollection &symbols) {
  auto kernel = lookUp<KernelOp>(symbols, op, name, "heddle.kernel");
  if (!kernel)
    return failure();
  if (!kernel.isAttention())
    return op.emitOpError("needs an attention kernel, found ")
               .append(name)
               .attachNote(kernel.getLoc())
           << "the kernel is here";
  return success();
}

LogicalResult AttendWithOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (failed(verifyAttention(*this, getKernelAttr(), symbols)))
    return failure();
  return getShadowAttr() ? verifyAttention(*this, getShadowAttr(), symbols)
                         : success();
}

LogicalResult ScoreWithOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyAttention(*this, getKernelAttr(), symbols);
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
  return getKernelAttr() ? verifyAttention(*this, getKernelAttr(), symbols)
                         : success();
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
  auto selection = lookUp<SelectionOp>(symbols, *this, getSelectionAttr(),
                                       "heddle.selection");
  auto kernel =
      lookUp<KernelOp>(symbols, *this, getKernelAttr(), "heddle.kernel");
  if (!selection || !kernel)
    return failure();
  bundle::Selection outer;
  if (FlatSymbolRefAttr name = selection.getWithinAttr())
    if (auto other = symbols.lookupNearestSymbolFrom<SelectionOp>(*this, name))
      outer = other.getRule();
  const bundle::Kernel form = refreshKernel(selection.getRule(), outer);
  if (kernel.getForm() == form)
    return success();
  InFlightDiagnostic error = emitOpError("needs a select kernel of ");
  error << (form.blocks ? "blocks of " : "group ") << groupText(form.group)
        << (form.perKvHead  ? " per key/value head"
            : form.perLayer ? " per layer"
                            : "")
        << " by " << spelled(form.scorer);
  if (form.pooled)
    error << " pooled(" << form.pooled << ')';
  if (form.withinGroup)
    error << " within " << withinText(form);
  error.attachNote(kernel.getLoc()) << "the kernel is here";
  return error;
}
