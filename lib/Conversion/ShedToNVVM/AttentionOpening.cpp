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

static shed::Encoding encodingOf(shed::KernelOp kernel) {
  return kernel.getEncoding().value_or(shed::Encoding::Int32);
}

static AttentionFrame::SharedLayout layOut(shed::KernelOp kernel) {
  auto tiling = kernel.getTilingAs<shed::MmaTilingAttr>();
  int64_t source = 0;
  bool filters = false;
  kernel.walk([&](shed::ForKeysOp loop) {
    std::optional<shed::KeyEntries> entries = shed::entriesOf(loop.getOver());
    const bool blocks = entries && entries->blockKeys;
    if (entries) // lists of blocks are Int32
      source = std::max(source,
                        IndexSource::sharedBytes(blocks ? shed::Encoding::Int32
                                                        : encodingOf(kernel),
                                                 tiling.getKeys()));
    filters |= llvm::any_of(loop.getSkip(), shed::entriesOf) ||
               (entries && !loop.getSkip().empty()) || blocks;
  });
  int64_t at = 0;
  auto take = [&](int64_t bytes) {
    int64_t offset = at;
    at += llvm::alignTo(bytes, 128);
    return offset;
  };
  AttentionFrame::SharedLayout layout;
  int64_t rowBytes = kernel.getHeadDim() * bytesOf(kernel.getElement());
  layout.stageBytes = tiling.getKeys() * rowBytes;
  layout.queries = take(tiling.getQueryRows() * rowBytes);
  layout.keys = take(tiling.getStages() * layout.stageBytes);
  layout.values = take(tiling.getStages() * layout.stageBytes);
  if (kernel.getElement().isF32())
    layout.weights = take(tiling.getQueryRows() * tiling.getKeys() * 4);
  if (source)
    layout.source = take(source);
  if (filters)
    layout.filter = take(KeyFilter::sharedBytes(tiling.getKeys()));
  if (kernel.comparesRows())
    layout.positions = take(tiling.getQueryRows() * 4);
  layout.bytes = at;
  return layout;
}

AttentionFrame::AttentionFrame(shed::KernelOp kernel)
    : tiling(kernel.getTilingAs<shed::MmaTilingAttr>()),
      element(kernel.getElement()), exact(element.isF32()),
      masks(kernel.comparesRows()), writesLse(kernel.getWritesLse()),
      channels(kernel.getHeadDim()), elementBytes(bytesOf(element)),
      rowSquares(tiling.getRowsPerWarp() / 16), channelSquares(channels / 8),
      keySquares(tiling.getKeys() / 8), encoding(encodingOf(kernel)),
      swizzle{channels * elementBytes}, layout(layOut(kernel)),
      copyLanes(lanesOfRow(swizzle.rowBytes)),
      copyRows(tiling.getThreads() / copyLanes) {}

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

/// Returns from the kernel where the tile has no rows.
static void findRows(NVVMBuilder &v, shed::KernelOp kernel, AttentionFrame &f) {
  auto word = [&](size_t offset) {
    return v.narrow(f.field(v, v.i64(), offset));
  };
  f.n = word(offsetof(abi::AttentionArgs, n));
  Value rows = word(offsetof(abi::AttentionArgs, rows));
  int64_t tileRows = f.tiling.getQueryRows();
  f.tileStart = v.mul(v.blockId(NVVMBuilder::Axis::X), tileRows);
  f.taskRow = f.tileStart;
  if (kernel.hasLists()) {
    // No tile lies behind the last place.
    v.returnIf(v.compare(CmpIPredicate::sge, f.tileStart, f.n));
    Values range = v.rowsOfTask(
        f.field(v, v.global(), offsetof(abi::AttentionArgs, firstRow)),
        v.blockId(NVVMBuilder::Axis::X), f.tileStart, rows);
    f.taskRow = range[0];
    rows = range[1];
  }
  v.returnIf(v.compare(CmpIPredicate::sge, f.taskRow, rows));
  f.taskEnd = v.least(v.add(f.taskRow, tileRows), rows);
}

void AttentionOpening::loadArguments(bool fewRows) {
  Type i64 = v.i64();
  head = v.blockId(NVVMBuilder::Axis::Y);
  kvHead = v.quotient(
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
  if (masks)
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
  split = KeySplit{rowWarps, v.quotient(warp, rowWarps),
                   v.quotient(v.word(warps), rowWarps)};
  warpRow = v.mul(v.both(warp, v.add(rowWarps, -1)), tiling.getRowsPerWarp());
  warpBytes = v.mul(warpRow, swizzle.rowBytes);
  keySquares /= warps;
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
  v.when(
      v.compare(CmpIPredicate::ult, part.thread, tiling.getQueryRows()), [&] {
        Value row = v.add(taskRow, part.thread);
        Value place = placeOf(v.least(row, v.add(taskEnd, -1)));
        v.storeShared(positionsOf(v, place)[0],
                      v.add(shared, v.mul(part.thread, 4)), layout.positions);
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
void AttentionOpening::writeBody() {
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

std::vector<OpenAttention> mlir::heddle::openAttention(shed::KernelOp kernel) {
  AttentionFrame f(kernel);
  shed::MmaTilingAttr tiling = f.tiling;
  NVVMBuilder v(kernel.getLoc(), kernel.getContext());
  EntryFacts facts;
  facts.threads = tiling.getThreads();
  facts.sharedBytes = f.layout.bytes;
  facts.blocks = tiling.getBlocks();
  facts.queryRows = tiling.getQueryRows();
  Values arguments = v.openEntry(kernel, kernel.getSymName(),
                                 {v.global(), v.global(), v.i64()}, facts);
  Value sequence = v.blockId(NVVMBuilder::Axis::Z);
  f.args = v.at(arguments[0], v.mul(v.widenUnsigned(sequence),
                                    int64_t(sizeof(abi::AttentionArgs))));
  findRows(v, kernel, f);
  std::vector<OpenAttention> ways;
  auto open = [&](bool fewRows) {
    Operation *root = v.b.getInsertionBlock()->getParentOp();
    AttentionOpening way(v, kernel, f);
    way.loadArguments(fewRows);
    way.writeBody();
    ways.push_back({root, way});
  };
  if (tiling.getShareKeys()) {
    // Rows that half of the warps hold.
    const int64_t mostFewRows = tiling.getWarps() / 2 * tiling.getRowsPerWarp();
    Value few =
        v.compare(CmpIPredicate::sle, v.sub(f.taskEnd, f.taskRow), mostFewRows);
    v.when(few, [&] { open(true); });
    v.when(v.flip(few, 1), [&] { open(false); });
  } else {
    open(false);
  }
  v.closeEntry();
  return ways;
}
