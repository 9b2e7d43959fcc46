//===- SelectOpening.cpp - Opens select kernels ---------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SelectFrame.h"

#include "bundle/abi/Abi.h"
#include "bundle/program/Manifest.h"
#include "heddle/Dialect/Shed/IR/MmaTiling.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

#include <limits>

using namespace mlir;
using namespace mlir::heddle;
namespace abi = ::heddle::abi;

using Values = NVVMBuilder::Values;
using arith::CmpIPredicate;

static constexpr float log2e = 1.44269504088896341f;

/// The op that ends a kernel or task.
template <typename Op> static shed::TopKOp choiceOf(Op op) {
  return cast<shed::TopKOp>(op.getBody().front().back());
}

/// The most 8-row squares that are worked on together.
static int64_t squaresTogether(int64_t partRows, bool exact) {
  if (exact)
    return 1;
  return std::min<int64_t>(4, partRows / 8);
}

Value mlir::heddle::hiddenWord(NVVMBuilder &v, int64_t value) {
  auto text = [&](const Twine &twine) { return v.b.getStringAttr(twine); };
  return LLVM::InlineAsmOp::create(
             v.b, v.i32(), ValueRange(),
             text("mov.u32 $0, " + Twine(value) + ";"), text("=r"),
             /*has_side_effects=*/UnitAttr(), /*is_align_stack=*/UnitAttr(),
             LLVM::TailCallKindAttr::get(v.b.getContext(),
                                         LLVM::TailCallKind::None),
             LLVM::AsmDialectAttr(), /*operand_attrs=*/ArrayAttr())
      .getRes();
}

template <typename Op>
SelectFrame::SelectFrame(Op op, int64_t group)
    : tiling(cast<shed::MmaTilingAttr>(op.getTilingAttr())),
      element(op.getElement()), exact(element.isF32()),
      encoding(op.getEncoding().value_or(shed::Encoding::Int32)),
      channels(op.getHeadDim()), rowBytes(channels * (exact ? 4 : 2)),
      chunks(rowBytes / 16), swizzled(rowBytes % 128 == 0),
      threads(tiling.getThreads()), warps(tiling.getWarps()), group(group),
      rows(tiling.getQueryRows()), partRows(std::min(group, rows)),
      parts(rows / partRows), keySquares(tiling.getKeys() / warps / 16),
      tileKeys(16 * keySquares), rowSquares(squaresTogether(partRows, exact)),
      blocks(choiceOf(op).getBlocks()), sharesLists(op.getSharedLists()),
      ofRange(group == ::heddle::bundle::groupOfAll),
      byLogits(choiceOf(op).isByLogits()),
      pooled(static_cast<int64_t>(choiceOf(op).getPooled().value_or(0))) {
  if (!byLogits)
    return;
  parts = ofRange ? 1 : rows / shed::rowsForMean;
  rows = llvm::alignTo(parts, 8);
  if (!blocks && !exact)
    rowSquares = rows / 4; // of both halves of means
}

SelectFrame::SelectFrame(shed::SelectTaskOp task)
    : SelectFrame(task, task.getGroup()) {
  layout = task.getLayout();
  args = task.getArgs();
  scratch = task.getScratch();
  n = task.getN();
  rowBegin = task.getFirstRow();
  rowEnd = task.getEndRow();
  headsPerList = task.getHeads();
  keyStride = task.getKeyStride();
  factor = task.getFactor();
  shared = task.getShared();
  thread = task.getThread();
  lane = task.getLane();
  warp = task.getWarp();
  warpKeys = task.getWarpKeys();
  chunkPlaces = {task.getEvenChunk(), task.getOddChunk()};
  list = task.getList();
  first = task.getFirstGroup();
}

static shed::SharedLayoutAttr layOut(MLIRContext *context,
                                     const SelectFrame &f) {
  auto means = [&](int64_t count) {
    return shed::meanBytes(f.channels, f.blocks, count);
  };
  const int64_t lse = f.byLogits ? means(f.rows) : f.rows * f.rowBytes;
  const int64_t inverses = lse + std::max(f.rows, f.warps) * 4;
  const int64_t keys = llvm::alignTo(inverses + f.parts * 4, 128);
  const int64_t warpBytes =
      f.scoresBlocks() ? means(shed::blocksTogether) : f.tileKeys * f.rowBytes;
  return shed::SharedLayoutAttr::get(
      context, /*queries=*/0, keys,
      std::max(keys + f.warps * warpBytes, TopK::sharedBytes()), /*values=*/0,
      /*weights=*/0, /*source=*/0, /*filter=*/0, /*positions=*/0, lse,
      inverses);
}

shed::SharedLayoutAttr SelectFrame::layoutTaken(shed::SelectTaskOp task) const {
  return layOut(task.getContext(), *this);
}

EntryFacts SelectFrame::entryFacts() const {
  EntryFacts facts;
  facts.threads = threads;
  facts.sharedBytes = layout.getBytes();
  facts.blocks = tiling.getBlocks();
  facts.queryRows = std::min(group, ::heddle::bundle::maxQueryRows);
  if (scoresBlocks()) {
    facts.scratchBytes = 32 * (parts + 2);
    facts.scratchBytesPerKey = llvm::divideCeil(4 * (parts + 2), group);
  } else {
    const int64_t scratchRows = (blocks ? 2 * parts + 2 : parts) + (pooled > 0);
    facts.scratchBytes = 16 * scratchRows;
    facts.scratchBytesPerKey = 4 * scratchRows;
  }
  return facts;
}

Value SelectFrame::field(NVVMBuilder &v, Type type, size_t offset) const {
  unsigned alignment =
      type.isIntOrFloat() ? type.getIntOrFloatBitWidth() / 8 : 8;
  return v.loadConstant(type, v.at(args, static_cast<int64_t>(offset)),
                        alignment);
}

Value SelectFrame::rowCount(NVVMBuilder &v) const {
  return ofRange ? v.sub(rowEnd, rowBegin) : rowEnd;
}

Value SelectFrame::scratchRow(NVVMBuilder &v, Value row) const {
  // Where blocks start anew there are two short ones.
  Value scores = scoresBlocks() ? v.add(v.quotient(n, group), 2) : n;
  Value rowBytes = v.mul(v.quotient(v.add(scores, 3), 4), 16);
  return v.at(scratch, v.mul(v.widen(row), v.widen(rowBytes)));
}

Value SelectFrame::scoresOf(NVVMBuilder &v, Value part, Value row) const {
  if (parts == 1 && matchPattern(row, m_Zero()))
    return scratch;
  return scratchRow(v, v.add(part, row));
}

void SelectFrame::copyKeys(NVVMBuilder &v, Value base, Value tile) const {
  Value firstKey = v.mul(tile, tileKeys);
  Value count = v.sub(n, firstKey);
  // Any item of the tile, for rows of any number of chunks.
  auto copyItems = [&] {
    v.loop(v.word(0), v.mul(v.least(count, v.word(tileKeys)), chunks),
           hiddenWord(v, 32), [&](Value item) {
             item = v.add(item, lane);
             Value row = v.quotient(item, chunks);
             Value chunk = v.sub(item, v.mul(row, chunks));
             Value key = v.add(firstKey, row);
             Value from = v.at(v.at(base, v.mul(v.widen(key), keyStride)),
                               v.mul(chunk, 16));
             if (swizzled)
               chunk = v.flip(chunk, v.mul(v.both(row, 1), 4));
             Value to =
                 v.add(v.add(warpKeys, v.mul(row, rowBytes)), v.mul(chunk, 16));
             v.when(v.compare(CmpIPredicate::slt, key, n),
                    [&] { v.copyAsync(to, 0, from); });
           });
  };
  if (32 % chunks)
    return copyItems();
  // Whole tiles of rows that lanes share evenly: little more than the copies.
  Value whole = v.compare(CmpIPredicate::sge, count, tileKeys);
  v.when(v.flip(whole, 1), copyItems);
  v.when(whole, [&] {
    Value row = v.quotient(lane, chunks), chunk = v.both(lane, chunks - 1);
    Value from =
        v.at(v.at(base, v.mul(v.widen(v.add(firstKey, row)), keyStride)),
             v.mul(chunk, 16));
    int64_t together = 32 / chunks;
    Value step = v.mul(keyStride, together);
    if (swizzled)
      chunk = v.flip(chunk, v.mul(v.both(row, 1), 4));
    Value to = v.add(v.add(warpKeys, v.mul(row, rowBytes)), v.mul(chunk, 16));
    Value odd = swizzled && together == 1 ? v.flip(to, 64) : to;
    for (int64_t i = 0; i < tileKeys / together; ++i) {
      v.copyAsync(i % 2 ? odd : to, i * 512, from);
      from = v.at(from, step);
    }
  });
}

Values SelectFrame::loadKeyFragments(NVVMBuilder &v) const {
  Values places, quads;
  for (Value place : chunkPlaces)
    places.push_back(v.add(warpKeys, place));
  for (int64_t step = 0; step < channels / 32; ++step)
    for (int64_t half = 0; half < 2 * keySquares; ++half) {
      auto [place, offset] = chunkAt(places, step);
      quads.push_back(
          v.loadShared(v.quad(), place, offset + half * 8 * rowBytes, 16));
    }
  // Words, so that they are scalars in registers.
  Values words;
  for (Value quad : quads)
    for (int64_t i = 0; i < 4; ++i)
      words.push_back(v.extract(quad, i));
  return words;
}

namespace {
/// A pass over the queries of a head for the groups of the task.
struct QueryPass {
  Value head;               ///< i32
  Value queries, keys, lse; ///< of the head, as global pointers
  Value firstRow, end;      ///< i32: rows of the groups
  Value firstTile;          ///< i32: of a warp's keys
  bool span;                ///< scores among the keys of the second span
  bool scored;              ///< logits go through a function
};

/// Writes loads of arguments into the frame, copies and loops, and between them
/// the ops on tiles, which stay what they are.
class SelectOpening : public SelectFrame {
public:
  SelectOpening(NVVMBuilder &v, shed::KernelOp kernel)
      : SelectFrame(kernel, *kernel.getGroup()), v(v), kernel(kernel) {
    layout = layOut(kernel.getContext(), *this);
  }

  void write();

private:
  void loadArguments();
  void writeTask();
  Value stride(size_t offset);
  Value emptyMass(shed::MassInitOp init);
  Value writeHeads(shed::ForQueriesOp loop);
  void writeQueries(shed::ForQueriesOp loop, Value head, Value mass);
  void writeKeys(shed::ForKeysOp loop, const QueryPass &pass, Value row,
                 Value mass);
  Value writeTile(shed::ForKeysOp loop, const ScoredKeys &keys,
                  const ScoredRows &rows, Value mass);
  void copyQueries(Value base, Value firstRow, Value end);
  void loadLse(const QueryPass &pass, Value row);
  void countRows(const QueryPass &pass);
  void storeScores(ValueRange sums, Value tile, Value to, Value inverse,
                   Value first);

  NVVMBuilder &v;
  shed::KernelOp kernel;
  Value lists;     ///< i32: rows of lists
  IRMapping tiles; ///< from the kernel's values to those at hand
};
} // namespace

/// A stride in bytes, i64.
Value SelectOpening::stride(size_t offset) {
  return v.mul(field(v, v.i64(), offset), rowBytes / channels);
}

void SelectOpening::loadArguments() {
  n = v.narrow(field(v, v.i64(), offsetof(abi::SelectArgs, n)));
  rowEnd = n;
  if (ofRange) {
    rowBegin = v.narrow(field(v, v.i64(), offsetof(abi::SelectArgs, rowBegin)));
    rowEnd = v.narrow(field(v, v.i64(), offsetof(abi::SelectArgs, rowEnd)));
  }
  lists = field(v, v.i32(), offsetof(abi::SelectArgs, heads));
  if (sharesLists) {
    headsPerList = v.narrow(field(v, v.i64(),
                                  offsetof(abi::SelectArgs, list) +
                                      offsetof(abi::IndexList, headsPerList)));
    lists = v.quotient(lists, headsPerList);
  }
  keyStride = stride(offsetof(abi::SelectArgs, keyStride));
  factor = v.mulf(field(v, v.f32(), offsetof(abi::SelectArgs, scale)),
                  v.real(log2e));

  thread = v.threadId();
  lane = v.both(thread, 31);
  warp = v.quotient(thread, 32);
  shared = v.sharedBase();
  warpKeys =
      v.add(v.add(shared, layout.getKeys()), v.mul(warp, tileKeys * rowBytes));
  Value row = v.quotient(lane, 4), chunk = v.both(lane, 3);
  Value place = v.mul(row, rowBytes);
  Value even = chunk, odd = v.add(chunk, 4);
  if (swizzled) {
    Value flip = v.mul(v.both(row, 1), 4);
    even = v.flip(even, flip);
    odd = v.flip(odd, flip);
  }
  for (Value each : {even, odd})
    chunkPlaces.push_back(v.add(place, v.mul(each, 16)));
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

/// What is worked on in place is in scratch: a mass begins and ends in its
/// rows.
void SelectOpening::writeTask() {
  auto task = shed::SelectTaskOp::create(
      v.b, kernel.getElementAttr(), kernel.getHeadDimAttr(),
      kernel.getEncodingAttr(), tiling, layout, kernel.getGroupAttr(), args,
      scratch, n, rowBegin, rowEnd, byLogits ? headsPerList : Value(),
      keyStride, factor, shared, thread, lane, warp, warpKeys, chunkPlaces[0],
      chunkPlaces[1], list, first);
  OpBuilder::InsertionGuard guard(v.b);
  v.b.createBlock(&task.getBody());
  for (Operation &op : kernel.getBody().front()) {
    v.b.setLoc(op.getLoc());
    if (auto init = dyn_cast<shed::MassInitOp>(op))
      tiles.map(init.getResult(), emptyMass(init));
    else if (auto loop = dyn_cast<shed::ForQueriesOp>(op))
      tiles.map(loop.getResult(), writeHeads(loop));
    else
      v.b.clone(op, tiles);
  }
}

/// What is scored by the second span is behind what is by all keys.
static bool isOfSpan(shed::MassInitOp init) {
  return llvm::any_of(init->getUsers(), [](Operation *user) {
    auto loop = dyn_cast<shed::ForQueriesOp>(user);
    return loop && loop.getSpan();
  });
}

Value SelectOpening::emptyMass(shed::MassInitOp init) {
  Mass none{Values(2 * keySquares, v.real(0.0f)),
            v.word(isOfSpan(init) ? parts : 0)};
  return asTile(v, init.getType(), none.values());
}

/// The mass of all heads that share a list.
Value SelectOpening::writeHeads(shed::ForQueriesOp loop) {
  const bool span = loop.getSpan();
  Value mass = tiles.lookup(loop.getInit());
  auto write = [&] {
    if (!sharesLists)
      return writeQueries(loop, list, mass);
    // All heads add to zeros. The list before has been made of these rows.
    v.barrier();
    Value to = scoresOf(v, v.word(0), v.word(span ? parts : 0));
    Value padded = v.both(v.add(n, 3), ~int64_t(3));
    v.loop(thread, v.mul(padded, parts), threads, [&](Value i) {
      v.store(v.real(0.0f), v.at(to, v.mul(v.widen(i), 4)), 4);
    });
    Value head = v.mul(list, headsPerList);
    v.loop(head, v.add(head, headsPerList), 1,
           [&](Value each) { writeQueries(loop, each, mass); });
  };
  if (span)
    v.when(isScoredBySpan(v, args), write);
  else
    write();
  return mass;
}

void SelectOpening::writeQueries(shed::ForQueriesOp loop, Value head,
                                 Value mass) {
  QueryPass pass;
  pass.head = head;
  pass.span = loop.getSpan();
  pass.scored =
      loop.getBody()
          .walk([](shed::ScoresOp) { return WalkResult::interrupt(); })
          .wasInterrupted();
  auto base = [&](size_t offset, Value which) {
    return v.at(field(v, v.global(), offset), v.mul(v.widen(which), rowBytes));
  };
  pass.queries = base(offsetof(abi::SelectArgs, query), head);
  // What is seldom needed is loaded where it is: scoring takes all registers.
  Value kvGroup =
      v.narrow(field(v, v.i64(), offsetof(abi::SelectArgs, kvGroup)));
  pass.keys = base(offsetof(abi::SelectArgs, key), v.quotient(head, kvGroup));
  Value sums = field(v, v.global(),
                     pass.span ? offsetof(abi::SelectArgs, spanLse)
                               : offsetof(abi::SelectArgs, lse));
  pass.firstTile = v.word(0);
  if (pass.span) {
    // Blocks do not start anew where spans are scored apart.
    Value boundary =
        v.narrow(field(v, v.i64(), offsetof(abi::SelectArgs, boundary)));
    pass.firstTile = v.quotient(v.mul(boundary, group), tileKeys);
  }
  pass.lse = v.at(sums, v.mul(v.mul(v.widen(head), v.widen(n)), 4));
  pass.firstRow = v.mul(first, group);
  if (ofRange)
    pass.firstRow = v.add(pass.firstRow, rowBegin);
  pass.end = v.least(v.add(pass.firstRow, parts * group), rowEnd);
  v.loop(pass.firstRow, pass.end, rows, [&](Value row) {
    // Everyone is done with the shared memory of the rows or lists before.
    v.barrier();
    for (Operation &op : loop.getBody().front()) {
      if (isa<shed::LoadQueriesOp>(op))
        copyQueries(pass.queries, row, pass.end);
      else if (isa<shed::LoadLseOp>(op))
        loadLse(pass, row);
      else if (auto keys = dyn_cast<shed::ForKeysOp>(op))
        writeKeys(keys, pass, row, mass);
    }
  });
}

/// Adds the probability of the rows from `row` on, which have been copied, to
/// the scores of the keys.
void SelectOpening::writeKeys(shed::ForKeysOp loop, const QueryPass &pass,
                              Value row, Value mass) {
  countRows(pass);
  copyKeys(v, pass.keys, v.add(pass.firstTile, warp));
  v.commitCopies();
  v.awaitCopies(0);
  v.barrier();
  Value first = v.compare(CmpIPredicate::eq, row, pass.firstRow);
  Value tiles = v.quotient(v.add(n, tileKeys - 1), tileKeys);
  v.loop(v.add(pass.firstTile, warp), tiles, warps, [&](Value tile) {
    v.awaitCopies(0);
    v.warpBarrier();
    auto copyNext = [&] {
      Value next = v.add(tile, warps);
      v.when(v.compare(CmpIPredicate::slt, next, tiles),
             [&] { copyKeys(v, pass.keys, next); });
      v.commitCopies();
    };
    ScoredKeys keys{tile, {}};
    if (!exact) {
      // The tile moves to registers and leaves its place to the next one.
      keys.fragments = loadKeyFragments(v);
      v.warpBarrier();
      copyNext();
    }
    v.loop(v.word(0), v.word(parts), 1, [&](Value part) {
      Value begin = v.mul(part, partRows);
      Value added =
          v.loop(begin, v.add(begin, partRows), 8 * rowSquares, mass,
                 [&](Value square, ValueRange carried) -> Values {
                   ScoredRows rows{square, v.add(row, square), pass.head};
                   return {writeTile(loop, keys, rows, carried[0])};
                 })[0];
      Value inverse = v.loadShared(v.f32(), v.add(shared, v.mul(part, 4)),
                                   layout.getInverses());
      SmallVector<Type> types(2 * keySquares, v.f32());
      types.push_back(v.i32());
      Mass sums = Mass::of(asValues(v, types, added));
      storeScores(sums.sums, tile,
                  scoresOf(v, part, v.word(pass.span ? parts : 0)), inverse,
                  first);
    });
    if (exact) {
      v.warpBarrier();
      copyNext();
    }
  });
}

/// The ops on a warp's keys and some rows.
Value SelectOpening::writeTile(shed::ForKeysOp loop, const ScoredKeys &keys,
                               const ScoredRows &rows, Value mass) {
  IRMapping values = tiles;
  for (Operation &op : *loop->getBlock()) {
    if (auto load = dyn_cast<shed::LoadQueriesOp>(op))
      values.map(load.getResult(),
                 asTile(v, load.getResult().getType(), rows.values()));
    else if (auto load = dyn_cast<shed::LoadLseOp>(op))
      values.map(load.getResult(),
                 asTile(v, load.getResult().getType(), rows.row));
  }
  Block &body = loop.getBody().front();
  Value all = body.getArgument(0);
  values.map(all, asTile(v, all.getType(), keys.values()));
  values.map(body.getArgument(1), mass);
  for (Operation &op : body.without_terminator())
    v.b.clone(op, values);
  return values.lookup(cast<shed::YieldOp>(body.back()).getValue());
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// Leaves minus the log-sum-exps of the rows from `row` on in shared memory.
void SelectOpening::loadLse(const QueryPass &pass, Value row) {
  Value lowest = v.real(-std::numeric_limits<float>::infinity());
  v.loop(thread, v.word(rows), threads, [&](Value i) {
    Value at = v.add(row, i);
    Value negated = v.choose(
        v.compare(CmpIPredicate::slt, at, pass.end), v.f32(),
        [&]() -> Values {
          Value sum =
              v.loadConstant(v.f32(), v.at(pass.lse, v.mul(v.widen(at), 4)), 4);
          Value negated = v.negf(sum);
          if (!pass.scored)
            return {negated};
          // A row of which all is masked gives nobody any probability.
          return {v.select(v.compare(arith::CmpFPredicate::OEQ, sum, lowest),
                           lowest, negated)};
        },
        [&]() -> Values { return {lowest}; })[0];
    v.storeShared(negated, v.add(shared, v.mul(i, 4)), layout.getLse());
  });
}

/// Leaves one part in as many as the rows of each group in shared memory.
void SelectOpening::countRows(const QueryPass &pass) {
  v.when(v.compare(CmpIPredicate::ult, thread, parts), [&] {
    // Rows of the group that there are; none behind the last group.
    Value count = v.sub(rowEnd, v.add(pass.firstRow, v.mul(thread, group)));
    count = v.greatest(v.least(count, v.word(group)), v.word(1));
    if (sharesLists)
      count = v.mul(count, headsPerList);
    v.storeShared(
        v.divf(v.real(1.0f), arith::SIToFPOp::create(v.b, v.f32(), count)),
        v.add(shared, v.mul(thread, 4)), layout.getInverses());
  });
}

/// Rows from `end` on are zeros.
void SelectOpening::copyQueries(Value base, Value firstRow, Value end) {
  Value queryStride = stride(offsetof(abi::SelectArgs, queryStride));
  v.loop(thread, v.word(rows * chunks), threads, [&](Value item) {
    Value row = v.quotient(item, chunks);
    Value chunk = v.sub(item, v.mul(row, chunks));
    Value at = v.add(firstRow, row);
    Value from =
        v.at(v.at(base, v.mul(v.widen(at), queryStride)), v.mul(chunk, 16));
    if (swizzled)
      chunk = v.flip(chunk, v.mul(v.both(row, 1), 4));
    Value to = v.add(v.add(shared, v.mul(row, rowBytes)), v.mul(chunk, 16));
    v.copyAsync(to, layout.getQueries(), from,
                v.select(v.compare(CmpIPredicate::slt, at, end), v.word(16),
                         v.word(0)));
  });
}

/// Writes the scores of tile `tile`, or adds to them if they are not the
/// group's first. A key is always the same lane's.
void SelectOpening::storeScores(ValueRange sums, Value tile, Value to,
                                Value inverse, Value first) {
  Values totals;
  for (Value sum : sums)
    totals.push_back(
        v.reduceLanes(sum, 4, [&](Value x, Value y) { return v.addf(x, y); }));
  Value quarter = v.both(lane, 3);
  Value padded = v.both(v.add(n, 3), ~int64_t(3));
  int64_t count = totals.size();
  for (int64_t at = 0; at < count; at += 4) {
    // Lane l stores sum l % 4 of these: square l % 4 / 2, its upper or lower
    // half.
    Value mine = totals[at];
    for (int64_t i = 1; i < 4 && at + i < count; ++i)
      mine = v.select(v.compare(CmpIPredicate::eq, quarter, i), totals[at + i],
                      mine);
    Value key = v.add(v.add(v.mul(tile, tileKeys), 8 * at),
                      v.add(v.mul(quarter, 8), v.quotient(lane, 4)));
    Value mineToStore = v.compare(CmpIPredicate::slt, key, padded);
    if (count < 4)
      mineToStore =
          v.both(mineToStore, v.compare(CmpIPredicate::ult, quarter, count));
    v.when(mineToStore, [&] {
      Value score = v.select(v.compare(CmpIPredicate::slt, key, n),
                             v.mulf(mine, inverse), v.real(0.0f));
      Value address = v.at(to, v.mul(key, 4));
      if (sharesLists)
        score = v.addf(v.load(v.f32(), address, 4), score);
      else if (group > rows)
        score = v.choose(
            first, v.f32(), [&]() -> Values { return {score}; },
            [&]() -> Values {
              return {v.addf(v.load(v.f32(), address, 4), score)};
            })[0];
      v.store(score, address, 4);
    });
  }
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

void SelectOpening::write() {
  Values arguments =
      v.openEntry(kernel, kernel.getSymName(),
                  {v.global(), v.global(), v.i64()}, entryFacts());
  Value sequence = v.blockId(NVVMBuilder::Axis::Z);
  Value block = v.blockId(NVVMBuilder::Axis::X);
  Value gridBlocks = v.gridSize(NVVMBuilder::Axis::X);
  args = v.at(arguments[0], v.mul(v.widenUnsigned(sequence),
                                  int64_t(sizeof(abi::SelectArgs))));
  Value row = v.widenUnsigned(v.add(v.mul(sequence, gridBlocks), block));
  scratch = v.at(arguments[1], v.mul(row, arguments[2]));
  loadArguments();

  int64_t taskRows = group * parts;
  Value together = v.quotient(v.add(rowCount(v), taskRows - 1), taskRows);
  v.loop(block, v.mul(lists, together), gridBlocks, [&](Value task) {
    list = v.quotient(task, together);
    first = v.mul(v.sub(task, v.mul(list, together)), parts);
    writeTask();
  });
  v.closeEntry();
}

LogicalResult mlir::heddle::openSelection(shed::KernelOp kernel) {
  if (failed(
          shed::verifySelectTiling(kernel, *kernel.getGroup(),
                                   kernel.getTilingAs<shed::MmaTilingAttr>())))
    return failure();
  NVVMBuilder v(kernel.getLoc(), kernel.getContext());
  SelectOpening(v, kernel).write();
  return success();
}
