//===- PairSet.cpp - What a value of !heddle.pairs holds ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Heddle/IR/PairSet.h"

#include "bundle/program/ProgramChecks.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::heddle;
using ::heddle::bundle::Term;

CadenceAttr mlir::heddle::cadenceOf(Value cadence) {
  auto op = cadence ? cadence.getDefiningOp<CadenceOp>() : CadenceOp();
  return op ? op.getValueAttr() : CadenceAttr();
}

bool mlir::heddle::sameSelection(SelectOp a, SelectOp b) {
  return a == b ||
         (cadenceOf(a.getCadence()) == cadenceOf(b.getCadence()) &&
          a.getRule() == b.getRule() && a.getLayersAttr() == b.getLayersAttr());
}

// Unions that share operands can be exponentially many paths, and long chains:
// each op is visited once, without recursion.
PairSet PairSet::of(Value pairs) {
  PairSet set;
  SmallPtrSet<Operation *, 8> seen;
  SmallVector<Value> left;
  if (pairs)
    left.push_back(pairs);
  while (!left.empty()) {
    Operation *op = left.pop_back_val().getDefiningOp();
    if (!op || !seen.insert(op).second)
      continue;
    if (auto both = dyn_cast<UnionOp>(op))
      llvm::append_range(left, llvm::reverse(both.getOperands()));
    else
      set.addPart(op);
  }
  return set;
}

SmallVector<PairSet> mlir::heddle::pairsOfStages(AttendOp attend) {
  SmallVector<PairSet> sets;
  for (AttendOp::Stage stage : attend.getStages()) {
    PairSet &set = sets.emplace_back(PairSet::of(stage.pairs));
    CadenceAttr until = cadenceOf(stage.until);
    if (set.dense || (until && includesFirst(until.getValue())))
      set.selections.clear();
  }
  return sets;
}

SmallVector<SelectOp> mlir::heddle::selectionsOf(AttendOp attend) {
  SmallVector<SelectOp> all;
  for (const PairSet &set : pairsOfStages(attend))
    for (SelectOp select : set.selections)
      if (llvm::none_of(all, [&](SelectOp other) {
            return sameSelection(select, other);
          }))
        all.push_back(select);
  return all;
}

TermAttr mlir::heddle::termOf(Operation *op) {
  return op->getAttrOfType<TermAttr>("term");
}

/// Kinds in the order of bundle::Sets, numbers before shares, small before
/// large.
static bool comesBefore(const Term &a, const Term &b) {
  auto shares = [](const Term &term) { return term.share.num > 0; };
  if (a.kind != b.kind || shares(a) != shares(b))
    return std::pair(a.kind, shares(a)) < std::pair(b.kind, shares(b));
  for (const ::heddle::bundle::SetNumber &number : numbersOf(a.kind))
    if (a.*number.number != b.*number.number)
      return a.*number.number < b.*number.number;
  return false;
}

void PairSet::addSet(Operation *op) {
  const Term term = termOf(op).getSet();
  auto holds = [](const Term &set, const Term &other) {
    return ::heddle::bundle::contains(set, other);
  };
  if (llvm::any_of(sets, [&](Operation *other) {
        return holds(termOf(other).getSet(), term);
      }))
    return;
  llvm::erase_if(sets, [&](Operation *other) {
    return holds(term, termOf(other).getSet());
  });
  sets.insert(llvm::upper_bound(sets, op,
                                [](Operation *a, Operation *b) {
                                  return comesBefore(termOf(a).getSet(),
                                                     termOf(b).getSet());
                                }),
              op);
}

// A foreign op adds nothing: the schedule's verifier reports it.
void PairSet::addPart(Operation *part) {
  llvm::TypeSwitch<Operation *>(part)
      .Case([&](DenseOp op) {
        if (!dense)
          dense = op;
      })
      .Case([&](SelectOp op) {
        if (llvm::none_of(selections, [&](SelectOp other) {
              return sameSelection(op, other);
            }))
          selections.push_back(op);
      })
      .Default([&](Operation *op) {
        if (termOf(op))
          addSet(op);
      });
}

SmallVector<Value> PairSet::parts() {
  if (dense)
    return {dense};
  SmallVector<Value> values(selections.begin(), selections.end());
  for (Operation *op : sets)
    values.push_back(op->getResult(0));
  return values;
}
