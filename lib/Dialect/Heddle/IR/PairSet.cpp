//===- PairSet.cpp - What a value of !heddle.pairs holds ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Heddle/IR/PairSet.h"

#include "llvm/ADT/APInt.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::heddle;

CadenceAttr mlir::heddle::cadenceOf(Value cadence) {
  auto op = cadence ? cadence.getDefiningOp<CadenceOp>() : CadenceOp();
  return op ? op.getValueAttr() : CadenceAttr();
}

bool mlir::heddle::sameSelection(SelectOp a, SelectOp b) {
  return a == b || (cadenceOf(a.getCadence()) == cadenceOf(b.getCadence()) &&
                    a.getRule() == b.getRule());
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

static bool isLess(RatioAttr a, RatioAttr b) {
  auto product = [](int64_t num, int64_t den) {
    return llvm::APInt(128, static_cast<uint64_t>(num)) *
           llvm::APInt(128, static_cast<uint64_t>(den));
  };
  return product(a.getNum(), b.getDen()).ult(product(b.getNum(), a.getDen()));
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
      .Case([&](WindowOp op) {
        if (!window || window.getSize() < op.getSize())
          window = op;
      })
      .Case([&](SinksOp op) {
        if (RatioAttr share = op.getShareAttr()) {
          if (!shareOfSinks || isLess(shareOfSinks.getShareAttr(), share))
            shareOfSinks = op;
        } else if (!sinks || *sinks.getSize() < *op.getSize()) {
          sinks = op;
        }
      });
}

SmallVector<Value> PairSet::parts() {
  if (dense)
    return {dense};
  SmallVector<Value> values(selections.begin(), selections.end());
  if (window)
    values.push_back(window);
  if (sinks)
    values.push_back(sinks);
  if (shareOfSinks)
    values.push_back(shareOfSinks);
  return values;
}
