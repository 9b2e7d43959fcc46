//===- Kernels.cpp - Kernels and their loops over rows --------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "bundle/program/Manifest.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <limits>

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::vectors;

// A field that both argument blocks have.
#define HEDDLE_FIELD(name)                                                     \
  (k.selects ? v.field(&SelectArgs::name) : v.field(&AttentionArgs::name))

void vectors::setHead(KernelBuilder &v, Value which) {
  const VectorKernel &k = v.k;
  v.here.head = which;
  Value kvHead = arith::DivSIOp::create(v.b, which, HEDDLE_FIELD(kvGroup));
  auto base = [&](Value pointer, Value which) {
    return v.at(pointer, v.mul(which, k.channels * k.elementBytes));
  };
  v.here.queryBase = base(HEDDLE_FIELD(query), which);
  v.here.keyBase = base(HEDDLE_FIELD(key), kvHead);
  if (!k.selects)
    v.here.valueBase = base(v.field(&AttentionArgs::value), kvHead);
}

static void setRows(KernelBuilder &v, Value row, Value end) {
  v.here.row = row;
  v.here.rows = v.sub(end, row);
  v.here.panels = v.quotient(v.add(v.here.rows, v.k.panel - 1), v.k.panel);
}

/// Loads what the whole function goes by.
static void loadArguments(KernelBuilder &v, shed::KernelOp op) {
  VectorKernel &k = v.k;
  k.n = HEDDLE_FIELD(n);
  k.queryStride = v.mul(HEDDLE_FIELD(queryStride), k.elementBytes);
  k.keyStride = v.mul(HEDDLE_FIELD(keyStride), k.elementBytes);
  if (k.selects) {
    size_t list = offsetof(SelectArgs, list);
    k.headsPerList = op.getSharedLists()
                         ? v.field(&IndexList::headsPerList, list)
                         : v.constant(1);
    if (op.scoresPositions())
      k.positions = v.field(&SelectArgs::position);
  } else {
    k.valueStride = v.mul(v.field(&AttentionArgs::valueStride), k.elementBytes);
    k.allRows = v.field(&AttentionArgs::rows);
    k.places = v.field(&AttentionArgs::place);
    k.positions = v.field(&AttentionArgs::position);
  }
  k.factor = v.mulf(HEDDLE_FIELD(scale), v.real(1.44269504088896341f));
  if (k.paired) {
    // bf16 queries stay exact: logits are scaled afterwards. A negative scale
    // moves its sign into Q, so that the largest product is the largest logit.
    Value word = v.bits(v.i32(), k.factor);
    Value sign = arith::ShRSIOp::create(v.b, word, v.integer(v.i32(), 31));
    k.querySign = v.bitAnd(sign, v.integer(v.i32(), 0x80008000));
    Value magnitude =
        v.bits(v.f32(), v.bitAnd(word, v.integer(v.i32(), 0x7fffffff)));
    // Not quite zero: zero times a masked logit would be NaN.
    k.factor = v.maxf(magnitude, v.real(std::numeric_limits<float>::min()));
  }
  if (k.selects) {
    k.taskRow = v.mul(k.task, k.group);
    k.taskEnd = v.least(v.add(k.taskRow, k.group), k.n);
    // One group for all rows may be of some of them.
    if (k.group == ::heddle::bundle::groupOfAll) {
      k.taskRow = v.field(&SelectArgs::rowBegin);
      k.taskEnd = v.field(&SelectArgs::rowEnd);
    }
  } else {
    Value first = v.at(v.field(&AttentionArgs::firstRow), v.mul(k.task, 4));
    k.taskRow = v.widen(v.load(v.i32(), first));
    // Tiles have room for no more rows.
    k.taskEnd = v.least(v.widen(v.load(v.i32(), v.at(first, 4))),
                        v.add(k.taskRow, k.tiling.getQueryRows()));
  }
}

/// Moves what is in a region's block to where `v` stands.
static void moveHere(KernelBuilder &v, Region &region, ValueRange arguments) {
  v.enter();
  v.rewriter.inlineBlockBefore(&region.front(), v.b.getInsertionBlock(),
                               v.b.getInsertionPoint(), arguments);
}

/// A function of the kernel ABI, before the kernel.
static Results lowerKernel(Lowering<shed::KernelOp> &v) {
  VectorKernel &k = v.k;
  auto function = func::FuncOp::create(
      v.b, v.op.getSymName(),
      v.b.getFunctionType({v.ptr(), v.i64(), v.i64(), v.ptr()}, {}));
  auto say = [&](StringRef name, int64_t value) {
    function->setAttr(name, v.b.getI64IntegerAttr(value));
  };
  say("heddle.query_rows",
      k.selects ? std::min<int64_t>(k.group, ::heddle::bundle::maxQueryRows)
                : k.tiling.getQueryRows());
  say("heddle.scratch_bytes", k.layout.bytes);
  say("heddle.scratch_bytes_per_key", k.layout.perKey);
  Block *entry = function.addEntryBlock();
  v.b.setInsertionPointToStart(entry);
  k.args = entry->getArgument(0);
  k.listRow = entry->getArgument(1);
  k.task = entry->getArgument(2);
  k.scratch = entry->getArgument(3);
  loadArguments(v, v.op);
  setRows(v, k.taskRow, k.taskEnd);
  setHead(v, k.selects ? v.mul(k.listRow, k.headsPerList) : k.listRow);
  // A tile none of whose rows is to be computed has nothing to do.
  v.when(v.compare(Int::sgt, v.here.rows, v.constant(0)), [&] {
    for (const auto &[entries, offset] : k.layout.blocks)
      k.expanded[entries.index] = expandBlocks(v, entries, offset);
    moveHere(v, v.op.getBody(), {});
  });
  func::ReturnOp::create(v.b);
  return {};
}

/// Mass over the rows of the task and the query heads of its list.
static Results lowerForQueries(Lowering<shed::ForQueriesOp> &v) {
  const VectorKernel &k = v.k;
  const int64_t step = k.tiling.getQueryRows();
  auto allRows = [&] {
    v.loop(k.taskRow, k.taskEnd, step, [&](Value row) {
      setRows(v, row, v.least(v.add(row, step), k.taskEnd));
      moveHere(v, v.op.getBody(), v.in.getInit());
    });
  };
  auto heads = [&] {
    if (!k.sharedLists)
      return allRows();
    Value first = v.mul(k.listRow, k.headsPerList);
    v.loop(first, v.add(first, k.headsPerList), 1, [&](Value which) {
      setHead(v, which);
      allRows();
    });
  };
  if (v.op.getSpan())
    v.when(v.isSet(v.field(&SelectArgs::spanLse)), heads);
  else
    heads();
  return {Values(v.in.getInit())};
}

/// What a loop carries is changed in its place.
static Results lowerYield(Lowering<shed::YieldOp> &) { return {}; }

void vectors::populateKernelPatterns(const VectorPatterns &patterns) {
  patterns.add(lowerKernel);
  patterns.add(lowerForQueries);
  patterns.add(lowerYield);
}
