//===- AttentionOpening.cpp - Opens kernels of attention ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionOpening.h"

#include "bundle/abi/Abi.h"

#include <limits>

using namespace mlir;
using namespace mlir::heddle;
using arith::CmpIPredicate;
namespace abi = ::heddle::abi;

using Values = NVVMBuilder::Values;

static int64_t bytesOf(Type element) { return element.isF32() ? 4 : 2; }

/// Lanes that copy a row of `rowBytes` together: as many as divide its chunks,
/// but no more than write all banks twice.
static int64_t lanesOfRow(int64_t rowBytes) {
  int64_t chunks = rowBytes / 16;
  return std::min<int64_t>(chunks & -chunks, 16);
}

template <typename Op> static shed::Encoding encodingOf(Op op) {
  return op.getEncoding().value_or(shed::Encoding::Int32);
}

namespace {
/// What passes over keys have beside their tiles.
struct PassNeeds {
  bool lists = false; ///< of keys
  bool blockLists = false;
  bool filter = false;
};
} // namespace

static PassNeeds needsOf(shed::KernelOp kernel) {
  PassNeeds needs;
  kernel.walk([&](shed::ForKeysOp loop) {
    std::optional<shed::KeyEntries> entries = shed::entriesOf(loop.getOver());
    const bool blocks = entries && entries->blockKeys;
    needs.lists |= entries && !blocks;
    needs.blockLists |= blocks;
    needs.filter |= llvm::any_of(loop.getSkip(), shed::entriesOf) ||
                    (entries && !loop.getSkip().empty()) || blocks;
  });
  return needs;
}

static PassNeeds needsOf(shed::AttentionTaskOp task) {
  PassNeeds needs;
  task.walk([&](shed::KeysAtOp keys) {
    needs.lists |= keys.isListed() && !keys.getBlocks();
    needs.blockLists |= keys.getBlocks();
    needs.filter |= keys.isMarked();
  });
  return needs;
}

template <typename Op> static shed::SharedLayoutAttr layOut(Op op) {
  auto tiling = cast<shed::MmaTilingAttr>(op.getTilingAttr());
  const PassNeeds needs = needsOf(op);
  int64_t source = 0, at = 0;
  if (needs.lists)
    source = IndexSource::sharedBytes(encodingOf(op), tiling.getKeys());
  if (needs.blockLists)
    source = std::max(source, IndexSource::sharedBytes(shed::Encoding::Int32,
                                                       tiling.getKeys()));
  auto take = [&](int64_t bytes) {
    int64_t offset = at;
    at += llvm::alignTo(bytes, 128);
    return offset;
  };
  const int64_t rows = tiling.getQueryRows();
  const int64_t rowBytes = op.getHeadDim() * bytesOf(op.getElement());
  const int64_t stages = tiling.getStages() * tiling.getKeys() * rowBytes;
  const int64_t queries = take(rows * rowBytes);
  const int64_t keys = take(stages), values = take(stages);
  const int64_t weights =
      op.getElement().isF32() ? take(rows * tiling.getKeys() * 4) : 0;
  if (source)
    source = take(source);
  const int64_t filter =
      needs.filter ? take(KeyFilter::sharedBytes(tiling.getKeys())) : 0;
  const int64_t positions = op.comparesRows() ? take(rows * 4) : 0;
  return shed::SharedLayoutAttr::get(op.getContext(), queries, keys, at, values,
                                     weights, source, filter, positions,
                                     /*lse=*/0, /*inverses=*/0);
}

shed::SharedLayoutAttr
AttentionFrame::layoutTaken(shed::AttentionTaskOp task) const {
  return layOut(task);
}

template <typename Op>
AttentionFrame::AttentionFrame(Op op, shed::SharedLayoutAttr layout)
    : tiling(cast<shed::MmaTilingAttr>(op.getTilingAttr())),
      element(op.getElement()), exact(element.isF32()),
      writesLse(op.getWritesLse()), channels(op.getHeadDim()),
      elementBytes(bytesOf(element)), rowSquares(tiling.getRowsPerWarp() / 16),
      channelSquares(channels / 8), keySquares(tiling.getKeys() / 8),
      encoding(encodingOf(op)), swizzle{channels * elementBytes},
      stageBytes(tiling.getKeys() * swizzle.rowBytes), layout(layout),
      copyLanes(lanesOfRow(swizzle.rowBytes)),
      copyRows(tiling.getThreads() / copyLanes) {}

AttentionFrame::AttentionFrame(shed::AttentionTaskOp task)
    : AttentionFrame(task, task.getLayout()) {
  args = task.getArgs();
  n = task.getN();
  head = task.getHead();
  taskRow = task.getFirstRow();
  taskEnd = task.getEndRow();
  factor = task.getFactor();
  shared = task.getShared();
  warp = task.getWarp();
  warpRow = task.getWarpRow();
  warpBytes = task.getWarpBytes();
  own = {task.getLane(), task.getColumn(), task.getRowsFirst(),
         task.getChannelsFirst()};
  if (OperandRange values = task.getSplit(); !values.empty())
    shareKeys({values[0], values[1], values[2]});
}

EntryFacts AttentionFrame::entryFacts() const {
  EntryFacts facts;
  facts.threads = tiling.getThreads();
  facts.sharedBytes = layout.getBytes();
  facts.blocks = tiling.getBlocks();
  facts.queryRows = tiling.getQueryRows();
  return facts;
}

void AttentionFrame::shareKeys(KeySplit among) {
  split = among;
  keySquares /= tiling.getWarps();
}

Value AttentionFrame::field(NVVMBuilder &v, Type type, size_t offset) const {
  return v.loadConstant(type, v.at(args, static_cast<int64_t>(offset)),
                        type.isF32() || type.isInteger(32) ? 4 : 8);
}

Values AttentionFrame::positionsOf(NVVMBuilder &v, ValueRange places) const {
  Value positions =
      field(v, v.global(), offsetof(abi::AttentionArgs, position));
  return v.choose(
      v.isNull(positions), SmallVector<Type>(places.size(), v.i32()),
      [&] { return Values(places); },
      [&] {
        Values read;
        for (Value place : places)
          read.push_back(
              v.loadConstant(v.i32(), v.at(positions, v.mul(place, 4)), 4));
        return read;
      });
}

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

AttentionOpening::AttentionOpening(NVVMBuilder &v, shed::KernelOp kernel)
    : AttentionFrame(kernel, layOut(kernel)), v(v), kernel(kernel) {}

void AttentionOpening::findRows() {
  auto word = [&](size_t offset) {
    return v.narrow(field(v, v.i64(), offset));
  };
  n = word(offsetof(abi::AttentionArgs, n));
  Value rows = word(offsetof(abi::AttentionArgs, rows));
  int64_t tileRows = tiling.getQueryRows();
  tileStart = v.mul(v.blockId(NVVMBuilder::Axis::X), tileRows);
  taskRow = tileStart;
  if (kernel.hasLists()) {
    // No tile lies behind the last place.
    v.returnIf(v.compare(CmpIPredicate::sge, tileStart, n));
    Values range = v.rowsOfTask(
        field(v, v.global(), offsetof(abi::AttentionArgs, firstRow)),
        v.blockId(NVVMBuilder::Axis::X), tileStart, rows);
    taskRow = range[0];
    rows = range[1];
  }
  v.returnIf(v.compare(CmpIPredicate::sge, taskRow, rows));
  taskEnd = v.least(v.add(taskRow, tileRows), rows);
}

void AttentionOpening::loadArguments(bool fewRows) {
  Type i64 = v.i64();
  head = v.blockId(NVVMBuilder::Axis::Y);
  Value kvHead = v.quotient(
      head, v.narrow(field(v, i64, offsetof(abi::AttentionArgs, kvGroup))));
  auto base = [&](size_t offset, Value which) {
    return v.at(field(v, v.global(), offset),
                v.mul(v.widenUnsigned(which), swizzle.rowBytes));
  };
  auto stride = [&](size_t offset) {
    return v.mul(field(v, i64, offset), elementBytes);
  };
  queryBase = base(offsetof(abi::AttentionArgs, query), head);
  keyBase = base(offsetof(abi::AttentionArgs, key), kvHead);
  valueBase = base(offsetof(abi::AttentionArgs, value), kvHead);
  queryStride = stride(offsetof(abi::AttentionArgs, queryStride));
  keyStride = stride(offsetof(abi::AttentionArgs, keyStride));
  valueStride = stride(offsetof(abi::AttentionArgs, valueStride));

  Value scale = field(v, v.f32(), offsetof(abi::AttentionArgs, scale));
  negative = v.compare(arith::CmpFPredicate::OLT, scale, v.real(0.0f));
  Value magnitude = v.select(negative, v.negf(scale), scale);
  // Not quite zero: zero times a masked logit would be NaN.
  factor = v.maxf(v.mulf(magnitude, v.real(1.44269504088896341f)),
                  v.real(std::numeric_limits<float>::min()));

  Value thread = v.threadId();
  shared = v.sharedBase();
  part = copyPart(thread);
  own = lanePart(thread);
  // From lane 0, so that it is seen to be the same in all lanes.
  warp = v.shuffle(v.quotient(thread, 32), v.word(0));
  warpRow = v.mul(warp, tiling.getRowsPerWarp());
  warpBytes = v.mul(warpRow, swizzle.rowBytes);
  if (layout.getPositions())
    storePositions();
  if (fewRows)
    shareRows();
}

/// Warps share the keys of the rows, of which there are few.
void AttentionOpening::shareRows() {
  const int64_t warps = tiling.getWarps();
  Value rows = v.sub(taskEnd, taskRow);
  Value rowWarps = v.word(1);
  for (int64_t some = 1; some < warps / 2; some *= 2)
    rowWarps = v.select(
        v.compare(CmpIPredicate::sgt, rows, some * tiling.getRowsPerWarp()),
        v.word(2 * some), rowWarps);
  Value first = v.quotient(warp, rowWarps);
  shareKeys({rowWarps, first, v.quotient(v.word(warps), rowWarps)});
  warpRow = v.mul(v.both(warp, v.add(rowWarps, -1)), tiling.getRowsPerWarp());
  warpBytes = v.mul(warpRow, swizzle.rowBytes);
}

/// Where row `row` of queries stands among the keys.
Value AttentionOpening::placeOf(Value row) {
  Value places = field(v, v.global(), offsetof(abi::AttentionArgs, place));
  return v.choose(
      v.isNull(places), v.i32(), [&]() -> Values { return {row}; },
      [&]() -> Values {
        return {v.loadConstant(v.i32(), v.at(places, v.mul(row, 4)), 4)};
      })[0];
}

/// Leaves the positions of the tile's rows, which masks compare with keys', in
/// shared memory: a thread's few would be in its registers throughout.
void AttentionOpening::storePositions() {
  v.when(v.compare(CmpIPredicate::ult, part.thread, tiling.getQueryRows()),
         [&] {
           Value row = v.add(taskRow, part.thread);
           Value place = placeOf(v.least(row, v.add(taskEnd, -1)));
           v.storeShared(positionsOf(v, place)[0],
                         v.add(shared, v.mul(part.thread, 4)),
                         layout.getPositions());
         });
}

AttentionFrame::LanePart AttentionOpening::lanePart(Value thread) {
  Value lane = v.both(thread, 31);
  // Lane l points at row l % 8 of matrix l / 8.
  Value row = v.both(lane, 7);
  Value low = v.both(v.quotient(lane, 8), 1), high = v.quotient(lane, 16);
  auto place = [&](Value next, Value channels) {
    return v.add(shared,
                 swizzle.place(v, v.add(row, v.mul(next, 8)), channels));
  };
  return {lane, v.mul(v.both(lane, 3), 2), place(low, high), place(high, low)};
}

/// The ops on tiles are cloned, but what loads queries or passes over keys is
/// written as copies and loops.
void AttentionOpening::writeTask() {
  Values shares;
  if (split)
    shares = {split->rowWarps, split->first, split->sharers};
  auto ofWay = shed::MmaTilingAttr::get(
      v.b.getContext(), tiling.getQueryRows(), tiling.getWarps(),
      tiling.getKeys(), tiling.getStages(), tiling.getBlocks(),
      tiling.getKeepQueries(), /*share_keys=*/split.has_value());
  auto task = shed::AttentionTaskOp::create(
      v.b, kernel.getElementAttr(), kernel.getHeadDimAttr(),
      needsOf(kernel).lists ? kernel.getEncodingAttr() : StringAttr(), ofWay,
      layout, kernel.getWritesLseAttr(), args, n, head, taskRow, taskEnd,
      factor, shared, warp, warpRow, warpBytes, own.lane, own.column,
      own.rowsFirst, own.channelsFirst, shares);
  OpBuilder::InsertionGuard guard(v.b);
  v.b.createBlock(&task.getBody());
  for (Operation &op : kernel.getBody().front()) {
    v.b.setLoc(op.getLoc());
    if (auto load = dyn_cast<shed::LoadQueriesOp>(op)) {
      copyQueries();
      coming = load;
    } else if (auto loop = dyn_cast<shed::ForKeysOp>(op)) {
      tiles.map(loop.getResult(),
                writePass(loop, tiles.lookup(loop.getInit())));
    } else {
      if (isa<shed::StoreOp>(op))
        finishQueries(0); // which takes their place
      v.b.clone(op, tiles);
    }
  }
}

void mlir::heddle::openAttention(shed::KernelOp kernel) {
  NVVMBuilder v(kernel.getLoc(), kernel.getContext());
  AttentionOpening opening(v, kernel);
  shed::MmaTilingAttr tiling = opening.tiling;
  Values arguments =
      v.openEntry(kernel, kernel.getSymName(),
                  {v.global(), v.global(), v.i64()}, opening.entryFacts());
  Value sequence = v.blockId(NVVMBuilder::Axis::Z);
  opening.args = v.at(arguments[0], v.mul(v.widenUnsigned(sequence),
                                          int64_t(sizeof(abi::AttentionArgs))));
  opening.findRows();
  auto open = [&](bool fewRows) {
    AttentionOpening way = opening;
    way.loadArguments(fewRows);
    way.writeTask();
  };
  if (tiling.getShareKeys()) {
    // Rows that half of the warps hold.
    const int64_t mostFewRows = tiling.getWarps() / 2 * tiling.getRowsPerWarp();
    Value few = v.compare(CmpIPredicate::sle,
                          v.sub(opening.taskEnd, opening.taskRow), mostFewRows);
    v.when(few, [&] { open(true); });
    v.when(v.flip(few, 1), [&] { open(false); });
  } else {
    open(false);
  }
  v.closeEntry();
}
