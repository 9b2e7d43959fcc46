//===- PairSet.cpp - What a value of !heddle.pairs holds
//---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Heddle/IR/PairSet.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::heddle;

CadenceAttr mlir::heddle::cadenceOf(Value cadence) {
  auto op = cadence ? cadence.getDefiningOp<CadenceOp>() : CadenceOp();
  return op ? op.getValue() : CadenceAttr();
}

bool mlir::heddle::sameSelection(SelectOp a, SelectOp b) {
  return a == b ||
         (cadenceOf(a.getCadence()) == cadenceOf(b.getCadence()) &&
          a.getKeep() == b.getKeep() && a.getGroup() == b.getGroup() &&
          a.getRounding() == b.getRounding() && a.getScorer() == b.getScorer());
}

PairSet PairSet::of(Value pairs) {
  PairSet set;
  if (pairs)
    set.add(pairs);
  return set;
}

void PairSet::add(Value value) {
  // A foreign op is reported by the schedule's verifier.
  Operation *source = value.getDefiningOp();
  if (!source)
    return;
  llvm::TypeSwitch<Operation *>(source)
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
        if (!sinks || sinks.getSize() < op.getSize())
          sinks = op;
      })
      .Case([&](UnionOp op) {
        for (Value operand : op.getOperands())
          add(operand);
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
  return values;
}
