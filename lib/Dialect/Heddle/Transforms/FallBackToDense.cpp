//===- FallBackToDense.cpp - Attend to all keys where faster --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A selection falls back wherever it is attended to, or nowhere.
//
//===----------------------------------------------------------------------===//

#include "FallBackToDense.h"

#include "heddle/Dialect/Heddle/IR/PairSet.h"
#include "heddle/Dialect/Heddle/IR/Program.h"
#include "heddle/Support/ScoreRegion.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::heddle;
namespace bundle = ::heddle::bundle;

static bundle::ListReads readsOf(ScheduleOp schedule, SelectOp select) {
  bundle::ListReads found;
  for (auto attend : schedule.getOps<AttendOp>()) {
    bool here = false, others = false;
    for (const PairSet &set : pairsOfStages(attend)) {
      const bool own = isAmong(select, set.selections);
      here |= own;
      others |= !own && !set.selections.empty();
      for (const PairTerm &term : set.terms)
        found.bounded |= term.select && sameSelection(term.select, select) &&
                         !term.set.within.empty();
    }
    found.read |= here;
    found.scored |= here && !scoresOf(attend.getScores()).empty();
    found.staged |= here && others && attend.getAtOnce();
  }
  return found;
}

/// Those that fall back as the schedule is.
static SmallVector<Fallen> choose(ScheduleOp schedule,
                                  ArrayRef<bundle::Crossover> table,
                                  ArrayRef<bundle::Target> targets) {
  SmallVector<Fallen> fallen;
  FailureOr<Program> program = Program::of(schedule);
  if (failed(program))
    return fallen; // the schedule's verifier has seen to it that this can't be
  const bool someRows =
      llvm::any_of(program->manifest.passes, [](const bundle::Pass &pass) {
        return !pass.computesAllRows();
      });
  for (auto [op, selection] :
       llvm::zip_equal(program->selections, program->manifest.selections)) {
    auto select = cast<SelectOp>(op);
    bundle::ListReads found = readsOf(schedule, select);
    found.someRows = someRows;
    if (auto above = bundle::fallsBackAbove(table, targets, selection, found))
      fallen.push_back({select, *above});
  }
  return fallen;
}

static void rewrite(AttendOp attend, ArrayRef<Fallen> fallen) {
  SmallVector<PairSet> sets = pairsOfStages(attend);
  const size_t first = sets.size() - attend.getPairs().size();
  bool readsLists = false;
  for (auto [stage, set] : llvm::enumerate(sets)) {
    if (llvm::none_of(fallen, [&set = set](Fallen each) {
          return isAmong(each.select, set.selections);
        })) {
      readsLists |= !set.selections.empty();
      continue;
    }
    OpBuilder builder(attend);
    attend.getPairsMutable()[stage - first].assign(DenseOp::create(
        builder, attend.getLoc(), PairsType::get(attend.getContext())));
  }
  attend.setAtOnce(attend.getAtOnce() && readsLists);
}

SmallVector<Fallen>
mlir::heddle::fallBackToDense(ScheduleOp schedule,
                              ArrayRef<bundle::Crossover> table,
                              ArrayRef<bundle::Target> targets) {
  SmallVector<Fallen> all;
  // What stayed for the lists of other stages may have none any more.
  for (;;) {
    SmallVector<Fallen> fallen = choose(schedule, table, targets);
    if (fallen.empty())
      return all;
    for (auto attend : schedule.getOps<AttendOp>())
      rewrite(attend, fallen);
    llvm::append_range(all, fallen);
  }
}
