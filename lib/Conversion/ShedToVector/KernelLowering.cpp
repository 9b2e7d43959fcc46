//===- KernelLowering.cpp - Lowers one kernel to vectors ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"

#include "bundle/abi/Abi.h"
#include "bundle/program/Manifest.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <limits>

using namespace mlir;
using namespace mlir::heddle;
namespace abi = ::heddle::abi;

KernelLowering::KernelLowering(shed::KernelOp kernel)
    : kernel(kernel), tiling(kernel.getTilingAs<shed::TilingAttr>()),
      v(kernel.getLoc(), kernel.getContext(), tiling.getLanes()),
      channels(kernel.getHeadDim()), panel(tiling.getPanel()),
      vectors(tiling.getVectors()), active(vectors),
      elementBytes(kernel.getElement().isBF16() ? 2 : 4), dot(tiling.getDot()),
      bf16(kernel.getElement().isBF16()),
      selects(kernel.getKind() == shed::KernelKind::Select),
      paired(dot != shed::DotKind::Fma),
      steps(paired ? channels / 2 : channels),
      keyStep(dot == shed::DotKind::Tiles ? 32 : 2) {
  masks = kernel.comparesRows();
}

void KernelLowering::layOut() {
  int64_t at = 0;
  auto take = [&](int64_t bytes) {
    int64_t offset = at;
    at += (bytes + 63) / 64 * 64;
    return offset;
  };
  int64_t panels = tiling.getPanels(), keys = tiling.getKeys();
  layout.queryPanel = steps * panel * 4;
  layout.rowPanel = panel * 4;
  layout.contextPanel = channels * panel * 4;
  layout.logits = take(keys * panel * 4);
  if (paired)
    layout.weights = take(keys / 2 * panel * 4);
  layout.queries = take(panels * layout.queryPanel);
  if (selects) {
    layout.lse = take(panels * layout.rowPanel);
    if (masks)
      layout.positions = take(panels * layout.rowPanel);
  } else {
    layout.maximum = take(panels * layout.rowPanel);
    layout.sum = take(panels * layout.rowPanel);
    layout.context = take(panels * layout.contextPanel);
    layout.spill = take(channels * elementBytes);
    if (masks)
      layout.positions = take(panels * layout.rowPanel);
  }
  int64_t buffers = dot == shed::DotKind::Tiles ? 2 : 1;
  if (tiling.getPackKeys() || dot == shed::DotKind::Tiles)
    layout.keys = take(buffers * keys * channels * (paired ? 2 : 4));
  if (tiling.getPackValues() && !selects)
    layout.values = take(buffers * keys * channels * (paired ? 2 : 4));
  layout.bytes = at;
  bool compacts = false;
  kernel.walk(
      [&](shed::ForKeysOp loop) { compacts |= !loop.getSkip().empty(); });
  if (compacts) {
    layout.list = layout.perKey;
    layout.perKey += 4;
  }
  if (selects) {
    layout.mass = layout.perKey;
    layout.perKey += 4;
    bool spans = false;
    kernel.walk([&](shed::ForQueriesOp loop) { spans |= loop.getSpan(); });
    if (spans) {
      layout.spanMass = layout.perKey;
      layout.perKey += 4;
    }
    if (cast<shed::TopKOp>(kernel.getBody().front().back()).getPooled()) {
      layout.pool = layout.perKey;
      layout.perKey += 4;
    }
  }
  kernel.walk([&](shed::ForKeysOp loop) {
    SmallVector<Attribute> sets(loop.getSkip().getValue());
    sets.push_back(loop.getOver());
    for (Attribute set : sets) {
      std::optional<shed::KeyEntries> entries = shed::entriesOf(set);
      if (!entries || !entries->blockKeys ||
          llvm::is_contained(llvm::make_first_range(layout.blocks), *entries))
        continue;
      layout.blocks.emplace_back(*entries, layout.perKey);
      layout.perKey += 4;
    }
  });
}

Value KernelLowering::field(Type type, size_t offset) {
  return v.load(type, v.at(args, static_cast<int64_t>(offset)),
                type == v.f32() ? 4 : 8);
}

// The only place that knows the argument blocks, beside Lists.cpp for lists.
#define HEDDLE_FIELD(type, name)                                               \
  (selects ? field(type, offsetof(abi::SelectArgs, name))                      \
           : field(type, offsetof(abi::AttentionArgs, name)))

/// Takes up a query head.
void KernelLowering::setHead(Value which) {
  head = which;
  Type ptr = v.ptr(), i64 = v.i64();
  Value kvHead = arith::DivSIOp::create(v.b, head, HEDDLE_FIELD(i64, kvGroup));
  int64_t headBytes = channels * elementBytes;
  auto base = [&](Value pointer, Value which) {
    return v.at(pointer, v.mul(which, headBytes));
  };
  queryBase = base(HEDDLE_FIELD(ptr, query), head);
  keyBase = base(HEDDLE_FIELD(ptr, key), kvHead);
  if (!selects)
    valueBase = base(field(ptr, offsetof(abi::AttentionArgs, value)), kvHead);
}

void KernelLowering::loadArguments() {
  Type ptr = v.ptr(), i64 = v.i64();
  n = HEDDLE_FIELD(i64, n);
  queryStride = v.mul(HEDDLE_FIELD(i64, queryStride), elementBytes);
  keyStride = v.mul(HEDDLE_FIELD(i64, keyStride), elementBytes);
  if (selects) {
    size_t list = offsetof(abi::SelectArgs, list);
    headsPerList =
        kernel.getSharedLists()
            ? field(i64, list + offsetof(abi::IndexList, headsPerList))
            : v.constant(1);
    if (kernel.scoresPositions())
      positions = field(ptr, offsetof(abi::SelectArgs, position));
  } else {
    valueStride = v.mul(field(i64, offsetof(abi::AttentionArgs, valueStride)),
                        elementBytes);
    allRows = field(i64, offsetof(abi::AttentionArgs, rows));
    places = field(ptr, offsetof(abi::AttentionArgs, place));
    positions = field(ptr, offsetof(abi::AttentionArgs, position));
  }
  factor = v.mulf(HEDDLE_FIELD(v.f32(), scale), v.real(1.44269504088896341f));
  if (paired) {
    // bf16 queries stay exact: logits are scaled afterwards. A negative scale
    // moves its sign into Q, so that the largest product is the largest logit.
    Value word = v.bits(v.i32(), factor);
    Value sign = arith::ShRSIOp::create(v.b, word, v.integer(v.i32(), 31));
    querySign =
        arith::AndIOp::create(v.b, sign, v.integer(v.i32(), 0x80008000));
    Value magnitude =
        v.bits(v.f32(), arith::AndIOp::create(v.b, word,
                                              v.integer(v.i32(), 0x7fffffff)));
    // Not quite zero: zero times a masked logit would be NaN.
    factor = v.maxf(magnitude, v.real(std::numeric_limits<float>::min()));
  }
  if (selects) {
    taskRow = v.mul(task, *kernel.getGroup());
    taskEnd = v.least(v.add(taskRow, *kernel.getGroup()), n);
    // One group for all rows may be of some of them.
    if (*kernel.getGroup() == ::heddle::bundle::groupOfAll) {
      taskRow = field(i64, offsetof(abi::SelectArgs, rowBegin));
      taskEnd = field(i64, offsetof(abi::SelectArgs, rowEnd));
    }
  } else {
    Value first = v.at(field(ptr, offsetof(abi::AttentionArgs, firstRow)),
                       v.mul(task, 4));
    taskRow = v.widen(v.load(v.i32(), first));
    // Tiles have room for no more rows.
    taskEnd = v.least(v.widen(v.load(v.i32(), v.at(first, 4))),
                      v.add(taskRow, tiling.getQueryRows()));
  }
  setRows(taskRow, taskEnd);
}

void KernelLowering::setRows(Value row, Value end) {
  rows.row = row;
  rows.rows = v.sub(end, row);
  rows.panels = v.quotient(v.add(rows.rows, panel - 1), panel);
}

func::FuncOp KernelLowering::run() {
  layOut();
  v.b.setInsertionPoint(kernel);
  auto type = v.b.getFunctionType({v.ptr(), v.i64(), v.i64(), v.ptr()}, {});
  function = func::FuncOp::create(v.b, kernel.getSymName(), type);
  function->setAttr("heddle.query_rows",
                    v.b.getI64IntegerAttr(
                        selects
                            ? std::min<int64_t>(*kernel.getGroup(),
                                                ::heddle::bundle::maxQueryRows)
                            : tiling.getQueryRows()));
  function->setAttr("heddle.scratch_bytes",
                    v.b.getI64IntegerAttr(layout.bytes));
  function->setAttr("heddle.scratch_bytes_per_key",
                    v.b.getI64IntegerAttr(layout.perKey));
  Block *entry = function.addEntryBlock();
  v.b.setInsertionPointToStart(entry);
  args = entry->getArgument(0);
  listRow = entry->getArgument(1);
  task = entry->getArgument(2);
  scratch = entry->getArgument(3);
  loadArguments();
  setHead(selects ? v.mul(listRow, headsPerList) : listRow);
  // A tile none of whose rows is to be computed has nothing to do.
  v.when(v.compare(arith::CmpIPredicate::sgt, rows.rows, v.constant(0)), [&] {
    for (const auto &[entries, offset] : layout.blocks)
      expanded[entries.index] = expandBlocks(entries, offset);
    lowerBody(kernel.getBody().front());
  });
  func::ReturnOp::create(v.b);
  return function;
}

void KernelLowering::lowerBody(Block &body) {
  for (Operation &op : body) {
    v.b.setLoc(op.getLoc());
    if (isa<shed::LoadQueriesOp>(op)) {
      loadQueries();
      if (masks)
        loadRowPositions();
    } else if (isa<shed::LoadLseOp>(op)) {
      loadLse();
    } else if (isa<shed::SoftmaxInitOp>(op)) {
      initSoftmax();
    } else if (auto init = dyn_cast<shed::MassInitOp>(op)) {
      // Each loop adds to a mass of its own.
      for (bool span : {false, true})
        if (llvm::any_of(init->getUsers(), [&](Operation *user) {
              auto loop = dyn_cast<shed::ForQueriesOp>(user);
              return (loop && loop.getSpan()) == span;
            }))
          initMass(span);
    } else if (auto loop = dyn_cast<shed::ForKeysOp>(op)) {
      lowerKeys(loop);
    } else if (auto loop = dyn_cast<shed::ForQueriesOp>(op)) {
      lowerQueries(loop);
    } else if (isa<shed::StoreOp>(op)) {
      storeContext();
      if (kernel.getWritesLse())
        storeLse();
    } else if (auto choice = dyn_cast<shed::TopKOp>(op)) {
      topK(choice);
    }
  }
}

/// Mass over the rows of the task and the query heads of its list.
void KernelLowering::lowerQueries(shed::ForQueriesOp loop) {
  RowRange whole = rows;
  auto allRows = [&] {
    v.loop(taskRow, taskEnd, tiling.getQueryRows(), [&](Value row) {
      setRows(row, v.least(v.add(row, tiling.getQueryRows()), taskEnd));
      lowerBody(loop.getBody().front());
    });
  };
  auto allHeads = [&] {
    if (!kernel.getSharedLists())
      return allRows();
    Value first = v.mul(listRow, headsPerList);
    v.loop(first, v.add(first, headsPerList), 1, [&](Value which) {
      setHead(which);
      allRows();
    });
  };
  inSpan = loop.getSpan();
  if (inSpan)
    v.when(v.isSet(field(v.ptr(), offsetof(abi::SelectArgs, spanLse))),
           allHeads);
  else
    allHeads();
  inSpan = false;
  rows = whole;
}

void KernelLowering::lowerKeys(shed::ForKeysOp loop) {
  KeySource source = keySource(loop);
  const bool packs = dot == shed::DotKind::Tiles && !selects;
  auto set = dyn_cast<shed::KeySet>(loop.getOver());
  const bool sparse = set && set.isSparse();
  if (packs && !sparse)
    packRest(packedTile(source, v.constant(0)), v.constant(0));
  v.loop(v.constant(0), source.count, tiling.getKeys(), [&](Value begin) {
    KeyTile tile = packedTile(source, begin);
    if (!sparse)
      return lowerTile(loop, tile);
    v.when(keepsSome(set, tile), [&] {
      // No tile before may have packed it.
      if (packs)
        packRest(tile, v.constant(0));
      lowerTile(loop, tile);
    });
  });
}

/// Whether some row at hand has some key of the tile.
Value KernelLowering::keepsSome(shed::KeySet set, const KeyTile &tile) {
  auto at = [&](Value place) { return v.narrow(positionAt(place)); };
  Value lastRow = v.add(v.add(rows.row, rows.rows), -1);
  shed::PairArithmetic a(v.b, v.i32());
  return set.keepsSome(
      a, {at(placeOfRow(rows.row)), a.add(at(placeOfRow(lastRow)), 1)},
      {at(placeOf(tile, v.constant(0))),
       a.add(at(placeOf(tile, v.add(tile.count, -1))), 1)});
}

void KernelLowering::lowerTile(shed::ForKeysOp loop, KeyTile &tile) {
  const bool tiles = dot == shed::DotKind::Tiles;
  if (tiles && selects)
    packShortKeys(tile);
  // What depends on keys alone is done once for all panels.
  SmallVector<Operation *> panelOps;
  for (Operation &op : loop.getBody().front()) {
    v.b.setLoc(op.getLoc());
    if (!isa<shed::LoadKeysOp, shed::LoadValuesOp>(op))
      panelOps.push_back(&op);
    else if (tiles)
      continue; // Packed by now.
    else if (isa<shed::LoadKeysOp>(op))
      loadKeys(tile);
    else
      loadValues(tile);
  }
  lowerPanelOps(panelOps, tile);
  if (tiles && !selects)
    packAheadRest(tile);
}

void KernelLowering::lowerPanelOps(ArrayRef<Operation *> ops, KeyTile &tile) {
  auto lowerOps = [&](Value panel) {
    for (Operation *op : ops) {
      v.b.setLoc(op->getLoc());
      if (isa<shed::DotOp>(op)) {
        scoreFactor.reset();
        scoreProduct(tile, panel);
      } else if (auto scores = dyn_cast<shed::ScoresOp>(op)) {
        score(scores, tile, panel);
      } else if (auto maskOp = dyn_cast<shed::MaskOp>(op)) {
        mask(maskOp, tile, panel);
      } else if (isa<shed::SoftmaxUpdateOp>(op)) {
        updateSoftmax(tile, panel);
        contextProduct(tile, panel);
      } else if (isa<shed::ColumnMassOp>(op)) {
        columnMass(tile, panel);
      }
    }
  };
  // With few rows, all of them in the first vector, the others are left alone.
  forPanels([&](Value p) {
    if (vectors == 1)
      return lowerOps(p);
    Value left = v.sub(rows.rows, v.mul(p, panel));
    Value few = v.compare(arith::CmpIPredicate::sle, left, v.constant(v.lanes));
    v.either(
        few,
        [&] {
          active = 1;
          lowerOps(p);
        },
        [&] {
          active = vectors;
          lowerOps(p);
        });
  });
}

void KernelLowering::forPanels(function_ref<void(Value)> body) {
  if (tiling.getPanels() == 1)
    return body(v.constant(0));
  v.loop(v.constant(0), rows.panels, 1, body);
}

Value KernelLowering::placeOf(const KeySource &source, Value j) {
  if (source.first)
    return v.add(source.first, j);
  return v.widen(v.load(v.i32(), v.at(source.list, v.mul(j, 4))));
}

Value KernelLowering::placeOf(const KeyTile &tile, Value j) {
  return placeOf(tile.source, v.add(tile.begin, j));
}

/// The place of a row of queries among the visible positions.
Value KernelLowering::placeOfRow(Value row) {
  if (selects) // all rows
    return row;
  return v.widen(v.load(v.i32(), v.at(places, v.mul(row, 4))));
}

/// Where in the sequence a visible position stands.
Value KernelLowering::positionAt(Value place) {
  return v.widen(v.load(v.i32(), v.at(positions, v.mul(place, 4))));
}
