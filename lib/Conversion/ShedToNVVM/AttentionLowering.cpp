//===- AttentionLowering.cpp - Lowers attention to warp products ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionLowering.h"

#include "bundle/abi/Abi.h"

#include "llvm/ADT/TypeSwitch.h"

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

AttentionLowering::AttentionLowering(shed::KernelOp kernel)
    : kernel(kernel), tiling(kernel.getTilingAs<shed::MmaTilingAttr>()),
      v(kernel.getLoc(), kernel.getContext()), element(kernel.getElement()),
      exact(element.isF32()), masks(kernel.comparesRows()),
      channels(kernel.getHeadDim()), elementBytes(bytesOf(element)),
      rowSquares(tiling.getRowsPerWarp() / 16), channelSquares(channels / 8),
      keySquares(tiling.getKeys() / 8), encoding(encodingOf(kernel)),
      swizzle{channels * elementBytes}, layout(layOut(kernel)),
      copyLanes(lanesOfRow(swizzle.rowBytes)),
      copyRows(tiling.getThreads() / copyLanes) {}

AttentionLowering::SharedLayout
AttentionLowering::layOut(shed::KernelOp kernel) {
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
  SharedLayout layout;
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

void AttentionLowering::run() {
  EntryFacts facts;
  facts.threads = tiling.getThreads();
  facts.sharedBytes = layout.bytes;
  facts.blocks = tiling.getBlocks();
  facts.queryRows = tiling.getQueryRows();
  Values arguments = v.openEntry(kernel, kernel.getSymName(),
                                 {v.global(), v.global(), v.i64()}, facts);
  Value sequence = v.blockId(NVVMBuilder::Axis::Z);
  args = v.at(arguments[0], v.mul(v.widenUnsigned(sequence),
                                  int64_t(sizeof(abi::AttentionArgs))));
  findRows();
  auto lowerAll = [&] {
    loadArguments();
    lowerBody();
  };
  if (tiling.getShareKeys()) {
    Value few =
        v.compare(CmpIPredicate::sle, v.sub(taskEnd, taskRow), mostFewRows());
    v.when(few, [&] { lowerFewRows(); });
    v.when(v.flip(few, 1), lowerAll);
  } else {
    lowerAll();
  }
  v.closeEntry();
}

/// Rows that half of the warps hold.
int64_t AttentionLowering::mostFewRows() const {
  return tiling.getWarps() / 2 * tiling.getRowsPerWarp();
}

/// The body once more, for a block whose warps share rows.
void AttentionLowering::lowerFewRows() {
  loadArguments();
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
  lowerBody();
  keySquares *= warps;
  split.reset();
}

Value AttentionLowering::field(Type type, size_t offset) {
  return v.loadConstant(type, v.at(args, static_cast<int64_t>(offset)),
                        type.isF32() || type.isInteger(32) ? 4 : 8);
}

/// Returns from the kernel where the tile has no rows.
void AttentionLowering::findRows() {
  auto word = [&](size_t offset) { return v.narrow(field(v.i64(), offset)); };
  n = word(offsetof(abi::AttentionArgs, n));
  Value rows = word(offsetof(abi::AttentionArgs, rows));
  int64_t tileRows = tiling.getQueryRows();
  tileStart = v.mul(v.blockId(NVVMBuilder::Axis::X), tileRows);
  taskRow = tileStart;
  if (kernel.hasLists()) {
    // No tile lies behind the last place.
    v.returnIf(v.compare(CmpIPredicate::sge, tileStart, n));
    Values range =
        v.rowsOfTask(field(v.global(), offsetof(abi::AttentionArgs, firstRow)),
                     v.blockId(NVVMBuilder::Axis::X), tileStart, rows);
    taskRow = range[0];
    rows = range[1];
  }
  v.returnIf(v.compare(CmpIPredicate::sge, taskRow, rows));
  taskEnd = v.least(v.add(taskRow, tileRows), rows);
}

void AttentionLowering::loadArguments() {
  Type i64 = v.i64();
  head = v.blockId(NVVMBuilder::Axis::Y);
  kvHead = v.quotient(
      head, v.narrow(field(i64, offsetof(abi::AttentionArgs, kvGroup))));
  auto base = [&](size_t offset, Value which) {
    return v.at(field(v.global(), offset),
                v.mul(v.widenUnsigned(which), swizzle.rowBytes));
  };
  auto stride = [&](size_t offset) {
    return v.mul(field(i64, offset), elementBytes);
  };
  queryBase = base(offsetof(abi::AttentionArgs, query), head);
  keyBase = base(offsetof(abi::AttentionArgs, key), kvHead);
  valueBase = base(offsetof(abi::AttentionArgs, value), kvHead);
  queryStride = stride(offsetof(abi::AttentionArgs, queryStride));
  keyStride = stride(offsetof(abi::AttentionArgs, keyStride));
  valueStride = stride(offsetof(abi::AttentionArgs, valueStride));

  Value scale = field(v.f32(), offsetof(abi::AttentionArgs, scale));
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
}

/// Where row `row` of queries stands among the keys.
Value AttentionLowering::placeOf(Value row) {
  Value places = field(v.global(), offsetof(abi::AttentionArgs, place));
  return v.choose(
      v.isNull(places), v.i32(), [&]() -> Values { return {row}; },
      [&]() -> Values {
        return {v.loadConstant(v.i32(), v.at(places, v.mul(row, 4)), 4)};
      })[0];
}

/// The positions of the keys at `places`, each in [0, n).
Values AttentionLowering::positionsOf(ValueRange places) {
  Value positions = field(v.global(), offsetof(abi::AttentionArgs, position));
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

/// How many keys have positions below `bound`.
Value AttentionLowering::placesBelow(Value bound) {
  Value positions = field(v.global(), offsetof(abi::AttentionArgs, position));
  return mlir::heddle::placesBelow(v, positions, n, bound);
}

/// Leaves the positions of the tile's rows, which masks compare with keys', in
/// shared memory: a thread's few would be in its registers throughout.
void AttentionLowering::storePositions() {
  v.when(
      v.compare(CmpIPredicate::ult, part.thread, tiling.getQueryRows()), [&] {
        Value row = v.add(taskRow, part.thread);
        Value place = placeOf(v.least(row, v.add(taskEnd, -1)));
        v.storeShared(positionsOf(place)[0],
                      v.add(shared, v.mul(part.thread, 4)), layout.positions);
      });
}

AttentionLowering::LanePart AttentionLowering::lanePart(Value thread) {
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

void AttentionLowering::lowerBody() {
  queriesReady = false;
  queries.clear();
  for (Operation &op : kernel.getBody().front()) {
    v.b.setLoc(op.getLoc());
    TypeSwitch<Operation *>(&op)
        .Case([&](shed::LoadQueriesOp) { copyQueries(); })
        .Case([&](shed::SoftmaxInitOp) { initSoftmax(); })
        .Case([&](shed::ForKeysOp loop) { lowerKeys(loop); })
        .Case([&](shed::StoreOp) {
          if (!queriesReady) { // no pass has waited for the place it takes
            v.awaitCopies(0);
            v.barrier();
          }
          if (!split)
            return storeContext();
          mergeSplit();
          v.when(v.compare(CmpIPredicate::slt, warp, split->rowWarps),
                 [&] { storeContext(); });
        });
  }
}

KeyList AttentionLowering::list(const shed::KeyEntries &entries) {
  size_t entry = offsetof(abi::AttentionArgs, lists) +
                 entries.index * sizeof(abi::IndexList);
  Value row = head;
  if (kernel.getSharedLists())
    row = v.quotient(
        head, v.narrow(field(v.i64(),
                             entry + offsetof(abi::IndexList, headsPerList))));
  return loadKeyList(v, encoding, entries.blockKeys,
                     v.at(args, static_cast<int64_t>(entry)), row,
                     v.quotient(tileStart, entries.group));
}

KeyPass AttentionLowering::keyPass(shed::ForKeysOp loop) {
  SmallVector<shed::KeySet> before;
  SmallVector<KeyList> lists;
  for (auto set : loop.getSkip().getAsRange<shed::KeySet>()) {
    if (std::optional<shed::KeyEntries> entries = set.getEntries())
      lists.push_back(list(*entries));
    else
      before.push_back(set);
  }
  Value skipped;
  if (!before.empty())
    skipped =
        endOf(v, before, args,
              field(v.global(), offsetof(abi::AttentionArgs, position)), n);
  KeyPass pass;
  auto over = cast<shed::KeySet>(loop.getOver());
  int64_t keys = tiling.getKeys();
  if (std::optional<shed::KeyEntries> entries = over.getEntries()) {
    KeyList keyList = list(*entries);
    pass.source.emplace(v, keyList.encoding, keys);
    pass.source->open(keyList, n, part.thread, v.add(shared, layout.source));
    pass.count = pass.source->count();
  } else {
    // A range [first, end), which the sets before it shorten.
    Value first = v.word(0), end = n;
    Values ends(2);
    if (!over.isUniform())
      ends = positionsOf({placeOf(taskRow), placeOf(v.add(taskEnd, -1))});
    shed::PairArithmetic a = positionArithmetic(v, args);
    shed::PositionRange range = over.getKeys(a, ends[0], ends[1]);
    if (over.isSparse()) {
      pass.sparse = over;
      pass.rows = {ends[0], v.add(ends[1], 1)};
    }
    if (range.begin)
      first = placesBelow(range.begin);
    if (range.end)
      end = placesBelow(range.end);
    if (skipped)
      first = v.greatest(first, skipped);
    pass.first = first;
    pass.count = v.greatest(v.sub(end, first), v.word(0));
    skipped = {};
  }
  if (skipped || !lists.empty() || (pass.source && pass.source->hasGaps()))
    pass.filter.emplace(v, lists, skipped, keys);
  pass.tiles = v.quotient(v.add(pass.count, keys - 1), keys);
  return pass;
}

/// Begins to bring what belongs to a tile: its keys and values, what the filter
/// says of them, and the positions of the tile behind it.
void AttentionLowering::bringTile(KeyPass &pass, Value tile, Value stage,
                                  Cursor cursor) {
  auto bring = [&] {
    copyTile(pass, tile, stage, cursor);
    auto isGap = [&](Value rank) { return pass.source->isGap(rank); };
    const bool gaps = pass.source && pass.source->hasGaps();
    if (pass.filter)
      pass.filter->mark(
          tile, pass.count, part.thread, v.add(shared, layout.filter),
          [&](Value rank) {
            return pass.source ? pass.source->key(rank)
                               : v.add(pass.first, rank);
          },
          gaps ? function_ref<Value(Value)>(isGap)
               : function_ref<Value(Value)>());
    if (pass.source)
      pass.source->fill(v.add(tile, 1));
  };
  // Plain ranges bring zeros behind their end, which is cheaper than a branch.
  if (pass.sparse)
    v.when(keepsSome(pass, tile), bring);
  else if (pass.source || pass.filter)
    v.when(v.compare(CmpIPredicate::slt, tile, pass.tiles), bring);
  else
    bring();
  v.commitCopies();
}

/// Whether some row of the block has some key of a tile; none behind the last.
Value AttentionLowering::keepsSome(const KeyPass &pass, Value tile) {
  Value from = v.mul(tile, tiling.getKeys());
  Value last = v.add(v.least(v.add(from, tiling.getKeys()), pass.count), -1);
  Value none = v.compare(CmpIPredicate::sge, tile, pass.tiles);
  auto place = [&](Value rank) {
    return v.add(pass.first, v.select(none, v.word(0), rank));
  };
  // Of a pass without keys the first place need not be one.
  Value lastPlace = v.add(n, -1);
  Values ends = positionsOf(
      {v.least(place(from), lastPlace), v.least(place(last), lastPlace)});
  shed::PairArithmetic a = positionArithmetic(v, args);
  Value some =
      pass.sparse.keepsSome(a, pass.rows, {ends[0], v.add(ends[1], 1)});
  return v.both(some, v.flip(none, 1));
}

void AttentionLowering::lowerKeys(shed::ForKeysOp loop) {
  int64_t stages = tiling.getStages();
  if (queriesReady) {
    // Nobody still reads what an earlier pass brought.
    v.awaitCopies(0);
    v.barrier();
  }
  KeyPass pass = keyPass(loop);
  Cursor cursor = beginCopies(pass);
  if (pass.source) {
    pass.source->fill(v.word(0));
    v.commitCopies();
    v.awaitCopies(0);
    v.barrier();
  }
  for (int64_t t = 0; t < stages - 1; ++t) {
    if (t && pass.source) {
      v.awaitCopies(0);
      v.barrier();
    }
    bringTile(pass, v.word(t), v.word(t * layout.stageBytes), cursor);
    cursor = advance(pass, cursor);
  }
  finishQueries();

  // Carried: the stages of the tile at hand and of the one being brought, where
  // the latter comes from, then the softmax.
  auto nextStage = [&](Value stage) {
    Value last =
        v.compare(CmpIPredicate::eq, stage, (stages - 1) * layout.stageBytes);
    return v.select(last, v.word(0), v.add(stage, layout.stageBytes));
  };
  size_t heads = pass.source ? 2 : 4;
  auto carry = [&](Value stage, Value next, Cursor from) {
    Values values = {stage, next};
    if (!pass.source)
      values.append({from.key, from.value});
    llvm::append_range(values, state());
    return values;
  };
  // `last`: the tile is the pass's last one, so nothing is brought behind it.
  auto runTiles = [&](Value from, Value to, bool partial, bool last,
                      Values carried) {
    return v.loop(from, to, 1, carried, [&](Value t, ValueRange values) {
      Values now(values);
      setState(ArrayRef<Value>(now).drop_front(heads));
      // A list's positions travel with the tile before theirs.
      v.awaitCopies(pass.source || last ? 0 : stages - 2);
      v.barrier();
      Cursor next;
      if (!pass.source)
        next = {now[2], now[3]};
      if (!last) {
        bringTile(pass, v.add(t, stages - 1), now[1], next);
        next = advance(pass, next);
      }
      const KeyTile tile = {t, v.mul(t, tiling.getKeys()), now[0], partial};
      if (!pass.sparse) {
        lowerTile(loop, pass, tile);
      } else {
        Values before = state();
        setState(v.choose(
            keepsSome(pass, t), TypeRange(ValueRange(before)),
            [&] {
              lowerTile(loop, pass, tile);
              return state();
            },
            [&] { return before; }));
      }
      return carry(nextStage(now[0]), nextStage(now[1]), next);
    });
  };
  Values carried =
      carry(v.word(0), v.word((stages - 1) * layout.stageBytes), cursor);
  // A filter marks what lies behind the end, too.
  if (pass.filter || cast<shed::KeySet>(loop.getOver()).isShort()) {
    carried = runTiles(v.word(0), pass.tiles, true, false, carried);
  } else {
    Value whole = v.quotient(pass.count, tiling.getKeys());
    carried = runTiles(v.word(0), whole, false, false, carried);
    carried = runTiles(whole, pass.tiles, true, true, carried);
  }
  setState(ArrayRef<Value>(carried).drop_front(heads));
}

void AttentionLowering::lowerTile(shed::ForKeysOp loop, KeyPass &pass,
                                  const KeyTile &tile) {
  if (!split)
    return lowerKeysOfTile(loop, pass, tile);
  const int64_t keys = tiling.getKeys() / tiling.getWarps();
  setState(v.loop(split->first, v.word(tiling.getWarps()), split->sharers,
                  state(), [&](Value which, ValueRange values) {
                    setState(Values(values));
                    Value first = v.mul(which, keys);
                    lowerKeysOfTile(
                        loop, pass,
                        {tile.index, v.add(tile.rank, first),
                         v.add(tile.stage, v.mul(first, swizzle.rowBytes)),
                         tile.partial});
                    return state();
                  }));
}

/// Loads are left out: copies run ahead of the tile.
void AttentionLowering::lowerKeysOfTile(shed::ForKeysOp loop, KeyPass &pass,
                                        const KeyTile &tile) {
  for (Operation &op : loop.getBody().front()) {
    v.b.setLoc(op.getLoc());
    TypeSwitch<Operation *>(&op)
        .Case([&](shed::DotOp) {
          scoreProduct(tile);
          logitFactor = factor;
        })
        .Case([&](shed::ScoresOp scores) { score(scores, pass, tile); })
        .Case([&](shed::MaskOp mask) { this->mask(mask, pass, tile); })
        .Case([&](shed::SoftmaxUpdateOp) {
          if (pass.filter)
            maskFiltered(pass, tile);
          else if (tile.partial)
            maskEnd(pass, tile);
          updateSoftmax();
          contextProduct(tile);
        });
  }
}
