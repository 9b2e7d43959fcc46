//===- VerifySchedule.cpp - Check the schedule level ----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/ProgramChecks.h"
#include "heddle/Dialect/Heddle/IR/PairSet.h"
#include "heddle/Dialect/Heddle/Transforms/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

namespace mlir::heddle {
#define GEN_PASS_DEF_HEDDLEVERIFYSCHEDULE
#include "heddle/Dialect/Heddle/Transforms/Passes.h.inc"
} // namespace mlir::heddle

using namespace mlir;
using namespace mlir::heddle;

/// Warns of choices that need no dense attention and have it in each step,
/// whose output is then the layer's.
static void warnOfIdleChoices(AttendOp attend) {
  ::heddle::bundle::Cadence each;
  each.kind = CadenceKind::Every;
  each.period = 1;
  if (attend.getAtOnce())
    return;
  for (SelectOp select : selectionsOf(attend))
    if (CadenceAttr cadence = cadenceOf(select.getCadence());
        cadence && !select.getLayers() && !readsLse(select.getRule().scorer) &&
        includesAll(cadence.getValue(), each))
      attend.emitWarning("is dense in every step, since each refreshes a "
                         "selection; write `at_once` for steps that attend "
                         "over what they have chosen")
              .attachNote(select.getLoc())
          << "the selection is here";
}

/// Warns of a threshold that no confidence reaches. A mask itself is not
/// decoded, so that the share of what stands near it and is, is at most
/// 1 - 1 / (s sqrt(2 pi)): docs/Spec/Commit.md, "What is near".
static void warnOfFarThreshold(CommitOp commit) {
  const ::heddle::bundle::CommitRule rule = commit.getRule();
  if (!rule.near || !rule.isAbove())
    return;
  const double most = 1 - 1 / (static_cast<double>(rule.near) *
                               std::sqrt(2 * llvm::numbers::pi));
  if (static_cast<double>(rule.ratio.num) >
      (most + 1e-6) * static_cast<double>(rule.ratio.den))
    commit.emitWarning() << "no confidence reaches the threshold: with `near("
                         << rule.near << ")` they count at most "
                         << llvm::formatv("{0:F2}", most).str()
                         << " of themselves, so that a step commits the surest "
                            "position alone; write a lower one, or "
                            "`best(1)`";
}

/// Warns of what has no effect: it is likelier a slip than meant.
static void warnOfIdleOps(ScheduleOp schedule) {
  for (Operation &op : *schedule.getBody())
    if (op.getNumResults() == 1 && op.use_empty())
      op.emitWarning("has no effect: no op of the schedule reads it");
  for (auto select : schedule.getOps<SelectOp>()) {
    const ::heddle::bundle::Selection rule = select.getRule();
    const bool columns = rule.kind == SelectionKind::Columns;
    const std::string rows = rule.group == ::heddle::bundle::groupOfAll
                                 ? "all rows"
                                 : std::to_string(rule.group) + " rows";
    if (rule.count == 1)
      select.emitWarning("keeps one ")
          << (columns ? "key" : "block") << " for " << rows
          << "; write 1/1 if all are meant";
    else if (columns && rule.count > 1 && rule.count <= 100 &&
             rule.count < rule.group)
      select.emitWarning("keeps ")
          << rule.count << " keys for " << rows << "; write " << rule.count
          << " percent if a fraction is meant";
  }
  bool looks = false; // for EOS
  for (auto commit : schedule.getOps<CommitOp>()) {
    bool idle = llvm::any_of(commit.getOn(), [](Value on) {
      return cadenceOf(on).getValue().kind == CadenceKind::Never;
    });
    if (idle)
      commit.emitWarning("has no effect: its cadence has no steps");
    looks |= !idle && commit.getRule().stopAtEos;
    warnOfFarThreshold(commit);
    if (commit.getRule().revokes() &&
        commit.getRule().kind == CommitKind::Best &&
        commit.getRule().count == 1)
      commit.emitWarning("`revoke` has no effect: a step makes masks of fewer "
                         "tokens than it commits, and these commit one");
  }
  for (auto cadence : schedule.getOps<CadenceOp>())
    if (cadence.getValue().afterEos && !looks)
      cadence.emitWarning("`or after eos` has no effect: no commit has "
                          "`stop(eos)`");
  ::heddle::bundle::Cadence first;
  first.kind = CadenceKind::First;
  first.count = 1;
  for (auto fix : schedule.getOps<FixOp>())
    if (fix.getPositions().getDefiningOp<AttendedOp>() &&
        includesAll(first, cadenceOf(fix.getCadence()).getValue()))
      fix.emitWarning("is empty at every step: before the first one nothing "
                      "drew attention; write a cadence with later steps")
              .attachNote(fix.getCadence().getLoc())
          << "the cadence is here";
  for (auto attend : schedule.getOps<AttendOp>()) {
    warnOfIdleChoices(attend);
    for (auto [stage, until] : llvm::enumerate(attend.getUntil())) {
      CadenceAttr cadence = cadenceOf(until);
      if (!cadence)
        continue;
      auto endsNoSooner = [&](Value before) {
        CadenceAttr end = cadenceOf(before);
        return end && startsNoLater(cadence.getValue(), end.getValue());
      };
      if (includesFirst(cadence.getValue()))
        attend.emitWarning("`until` has no effect: its cadence includes step 1")
                .attachNote(until.getLoc())
            << "the cadence is here";
      else if (llvm::any_of(attend.getUntil().take_front(stage), endsNoSooner))
        attend.emitWarning("`until` has no effect: a stage in front of it does "
                           "not end before its cadence begins")
                .attachNote(until.getLoc())
            << "the cadence is here";
    }
  }
}

namespace {
struct VerifySchedule
    : mlir::heddle::impl::HeddleVerifyScheduleBase<VerifySchedule> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    markAllAnalysesPreserved();
    for (Operation &op : *module.getBody()) {
      auto schedule = dyn_cast<ScheduleOp>(op);
      if (!schedule) {
        op.emitOpError("does not belong at the schedule level; a file holds "
                       "heddle.schedule ops");
        return signalPassFailure();
      }
      warnOfIdleOps(schedule);
    }
    if (module.getBody()->empty()) {
      module.emitError("expected a heddle.schedule, found none");
      signalPassFailure();
    }
  }
};
} // namespace
