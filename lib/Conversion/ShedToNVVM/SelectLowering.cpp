//===- SelectLowering.cpp - Lowers selection to warp products ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SelectLowering.h"

#include "ThreadScores.h"
#include "bundle/abi/Abi.h"
#include "bundle/program/Manifest.h"
#include "heddle/Support/ScoreRegion.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <limits>

using namespace mlir;
using namespace mlir::heddle;
namespace abi = ::heddle::abi;
using ::heddle::bundle::Scores;

using Values = NVVMBuilder::Values;
using arith::CmpIPredicate;

/// The op that ends the kernel.
static shed::TopKOp choiceOf(shed::KernelOp kernel) {
  return cast<shed::TopKOp>(kernel.getBody().front().back());
}

static constexpr float log2e = 1.44269504088896341f;
static constexpr float ln2 = 0.693147180559945309f;

/// The most 8-row squares that are worked on together.
static int64_t squaresTogether(int64_t partRows, bool exact) {
  if (exact)
    return 1;
  return std::min<int64_t>(4, partRows / 8);
}

/// A constant that LLVM doesn't know, so that it leaves a loop rolled: unrolled
/// ones would keep an address in registers for each of their steps.
static Value hiddenWord(NVVMBuilder &v, int64_t value) {
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

/// What becomes of the logits of all keys, or of those of the span.
static Scores functionOf(shed::KernelOp kernel, bool span) {
  Scores function;
  kernel.walk([&](shed::ScoresOp op) {
    if (op->getParentOfType<shed::ForQueriesOp>().getSpan() == span)
      function = scoresOf(op.getBody());
  });
  return function;
}

SelectLowering::SelectLowering(shed::KernelOp kernel)
    : kernel(kernel), tiling(kernel.getTilingAs<shed::MmaTilingAttr>()),
      v(kernel.getLoc(), kernel.getContext()), element(kernel.getElement()),
      exact(element.isF32()),
      encoding(kernel.getEncoding().value_or(shed::Encoding::Int32)),
      channels(kernel.getHeadDim()), rowBytes(channels * (exact ? 4 : 2)),
      chunks(rowBytes / 16), swizzled(rowBytes % 128 == 0),
      threads(tiling.getThreads()), warps(tiling.getWarps()),
      group(*kernel.getGroup()), rows(tiling.getQueryRows()),
      partRows(std::min(group, rows)), parts(rows / partRows),
      keySquares(tiling.getKeys() / warps / 16), tileKeys(16 * keySquares),
      rowSquares(squaresTogether(partRows, exact)),
      blocks(choiceOf(kernel).getBlocks()),
      sharesLists(kernel.getSharedLists()),
      ofRange(group == ::heddle::bundle::groupOfAll),
      pooled(static_cast<int64_t>(choiceOf(kernel).getPooled().value_or(0))),
      within(choiceOf(kernel).getEntriesWithin()),
      functions{functionOf(kernel, false), functionOf(kernel, true)},
      layout(layOut()) {}

SelectLowering::SharedLayout SelectLowering::layOut() const {
  SharedLayout at;
  at.lse = rows * rowBytes;
  at.inverses = at.lse + rows * 4;
  at.keys = llvm::alignTo(at.inverses + parts * 4, 128);
  at.bytes =
      std::max(at.keys + warps * tileKeys * rowBytes, TopK::sharedBytes());
  return at;
}

LogicalResult SelectLowering::check() {
  if (group < 16 || !llvm::isPowerOf2_64(group))
    return kernel.emitOpError()
           << "has groups of " << group
           << " rows; CUDA kernels select for a power of two from 16 rows on";
  if (keySquares < 1 || keySquares > 4 || tileKeys * warps != tiling.getKeys())
    return kernel.emitOpError()
           << "has tiles of " << tiling.getKeys() << " keys for " << warps
           << " warps; a select kernel takes 16, 32 or 64 for each warp";
  return success();
}

Value SelectLowering::field(Type type, size_t offset) {
  unsigned alignment =
      type.isIntOrFloat() ? type.getIntOrFloatBitWidth() / 8 : 8;
  return v.loadConstant(type, v.at(args, static_cast<int64_t>(offset)),
                        alignment);
}

/// A stride in bytes, i64.
Value SelectLowering::stride(size_t offset) {
  return v.mul(field(v.i64(), offset), rowBytes / channels);
}

LogicalResult SelectLowering::run() {
  if (failed(check()))
    return failure();
  EntryFacts facts;
  facts.threads = threads;
  facts.sharedBytes = layout.bytes;
  facts.blocks = tiling.getBlocks();
  facts.queryRows = std::min(group, ::heddle::bundle::maxQueryRows);
  const int64_t scratchRows = (blocks ? 2 * parts + 2 : parts) + (pooled > 0);
  facts.scratchBytes = 16 * scratchRows;
  facts.scratchBytesPerKey = 4 * scratchRows;
  Values arguments = v.openEntry(kernel, kernel.getSymName(),
                                 {v.global(), v.global(), v.i64()}, facts);
  Value sequence = v.blockId(NVVMBuilder::Axis::Z);
  Value block = v.blockId(NVVMBuilder::Axis::X);
  Value gridBlocks = v.gridSize(NVVMBuilder::Axis::X);
  args = v.at(arguments[0], v.mul(v.widenUnsigned(sequence),
                                  int64_t(sizeof(abi::SelectArgs))));
  Value row = v.widenUnsigned(v.add(v.mul(sequence, gridBlocks), block));
  scratch = v.at(arguments[1], v.mul(row, arguments[2]));
  loadArguments();

  int64_t taskRows = group * parts;
  Value together = v.quotient(v.add(rowCount(), taskRows - 1), taskRows);
  v.loop(block, v.mul(lists, together), gridBlocks, [&](Value task) {
    Value list = v.quotient(task, together);
    Value first = v.mul(v.sub(task, v.mul(list, together)), parts);
    scoreLists(list, first);
    v.barrier();
    choose(list, first);
  });
  v.closeEntry();
  return success();
}

void SelectLowering::loadArguments() {
  n = v.narrow(field(v.i64(), offsetof(abi::SelectArgs, n)));
  rowEnd = n;
  if (ofRange) {
    rowBegin = v.narrow(field(v.i64(), offsetof(abi::SelectArgs, rowBegin)));
    rowEnd = v.narrow(field(v.i64(), offsetof(abi::SelectArgs, rowEnd)));
  }
  lists = field(v.i32(), offsetof(abi::SelectArgs, heads));
  headsPerList = v.word(1);
  if (sharesLists) {
    headsPerList =
        v.narrow(field(v.i64(), offsetof(abi::SelectArgs, list) +
                                    offsetof(abi::IndexList, headsPerList)));
    lists = v.quotient(lists, headsPerList);
  }
  keyStride = stride(offsetof(abi::SelectArgs, keyStride));
  factor =
      v.mulf(field(v.f32(), offsetof(abi::SelectArgs, scale)), v.real(log2e));

  thread = v.threadId();
  lane = v.both(thread, 31);
  warp = v.quotient(thread, 32);
  shared = v.sharedBase();
  warpKeys =
      v.add(v.add(shared, layout.keys), v.mul(warp, tileKeys * rowBytes));
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

/// Where this lane's 16 bytes of step `step` (32 channels) are in its row: a
/// value and a constant to add.
std::pair<Value, int64_t> SelectLowering::chunkAt(ArrayRef<Value> places,
                                                  int64_t step) {
  return {places[step % 2], step / 2 * 128};
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

/// Scores of groups `first` to `first` + parts - 1 of a row of lists.
void SelectLowering::scoreLists(Value list, Value first) {
  auto scoreHeads = [&](bool span) {
    if (!sharesLists)
      return scoreGroups(list, first, span);
    // All heads add to zeros. The list before has been made of these rows.
    v.barrier();
    Value to = scoresOf(v.word(0), span);
    Value padded = v.both(v.add(n, 3), ~int64_t(3));
    v.loop(thread, v.mul(padded, parts), threads, [&](Value i) {
      v.store(v.real(0.0f), v.at(to, v.mul(v.widen(i), 4)), 4);
    });
    Value head = v.mul(list, headsPerList);
    v.loop(head, v.add(head, headsPerList), 1,
           [&](Value each) { scoreGroups(each, first, span); });
  };
  scoreHeads(false);
  if (blocks)
    v.when(isScoredBySpan(v, args), [&] { scoreHeads(true); });
}

/// Scores of one head; `span`: those among the keys of the second span.
void SelectLowering::scoreGroups(Value head, Value first, bool span) {
  headAtHand = head;
  function = functions[span];
  auto base = [&](size_t offset, Value which) {
    return v.at(field(v.global(), offset), v.mul(v.widen(which), rowBytes));
  };
  Value queries = base(offsetof(abi::SelectArgs, query), head);
  // What is seldom needed is loaded where it is: scoring takes all registers.
  Value kvGroup = v.narrow(field(v.i64(), offsetof(abi::SelectArgs, kvGroup)));
  Value keys = base(offsetof(abi::SelectArgs, key), v.quotient(head, kvGroup));
  Value sums = field(v.global(), span ? offsetof(abi::SelectArgs, spanLse)
                                      : offsetof(abi::SelectArgs, lse));
  Value firstTile = v.word(0);
  if (span) {
    // Blocks do not start anew where spans are scored apart.
    Value boundary =
        v.narrow(field(v.i64(), offsetof(abi::SelectArgs, boundary)));
    firstTile = v.quotient(v.mul(boundary, group), tileKeys);
  }
  Value lse = v.at(sums, v.mul(v.mul(v.widen(head), v.widen(n)), 4));
  Value firstRow = v.mul(first, group);
  if (ofRange)
    firstRow = v.add(firstRow, rowBegin);
  Value end = v.least(v.add(firstRow, parts * group), rowEnd);
  v.loop(firstRow, end, rows, [&](Value row) {
    // Everyone is done with the shared memory of the rows or lists before.
    v.barrier();
    blockRow = row;
    copyQueries(queries, row, end);
    v.loop(thread, v.word(rows), threads, [&](Value i) {
      Value at = v.add(row, i);
      Value negated = v.choose(
          v.compare(CmpIPredicate::slt, at, end), v.f32(),
          [&]() -> Values {
            Value sum =
                v.loadConstant(v.f32(), v.at(lse, v.mul(v.widen(at), 4)), 4);
            Value negated = v.negf(sum);
            if (function.empty())
              return {negated};
            // A row of which all is masked gives nobody any probability.
            Value lowest = v.real(-std::numeric_limits<float>::infinity());
            return {v.select(v.compare(arith::CmpFPredicate::OEQ, sum, lowest),
                             lowest, negated)};
          },
          [&]() -> Values {
            return {v.real(-std::numeric_limits<float>::infinity())};
          })[0];
      v.storeShared(negated, v.add(shared, v.mul(i, 4)), layout.lse);
    });
    v.when(v.compare(CmpIPredicate::ult, thread, parts), [&] {
      // Rows of the group that there are; none behind the last group.
      Value count = v.sub(rowEnd, v.add(firstRow, v.mul(thread, group)));
      count = v.greatest(v.least(count, v.word(group)), v.word(1));
      if (sharesLists)
        count = v.mul(count, headsPerList);
      v.storeShared(
          v.divf(v.real(1.0f), arith::SIToFPOp::create(v.b, v.f32(), count)),
          v.add(shared, v.mul(thread, 4)), layout.inverses);
    });
    copyKeys(keys, v.add(firstTile, warp));
    v.commitCopies();
    v.awaitCopies(0);
    v.barrier();
    scoreKeys(keys, firstTile, span,
              v.compare(CmpIPredicate::eq, row, firstRow));
  });
}

/// Rows from `end` on are zeros.
void SelectLowering::copyQueries(Value base, Value firstRow, Value end) {
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
    v.copyAsync(to, layout.queries, from,
                v.select(v.compare(CmpIPredicate::slt, at, end), v.word(16),
                         v.word(0)));
  });
}

/// The warp's lanes copy its tile `tile` of keys. What lies where keys from n
/// on would be is left as it is: it reaches no other key's score.
void SelectLowering::copyKeys(Value base, Value tile) {
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

/// Adds the probability of the rows at hand to the scores of the keys from tile
/// `firstTile` on; `first` (i1): there is nothing yet to add to.
void SelectLowering::scoreKeys(Value keyBase, Value firstTile, bool span,
                               Value first) {
  Value tiles = v.quotient(v.add(n, tileKeys - 1), tileKeys);
  v.loop(v.add(firstTile, warp), tiles, warps, [&](Value tile) {
    v.awaitCopies(0);
    v.warpBarrier();
    auto copyNext = [&] {
      Value next = v.add(tile, warps);
      v.when(v.compare(CmpIPredicate::slt, next, tiles),
             [&] { copyKeys(keyBase, next); });
      v.commitCopies();
    };
    Values fragments;
    if (!exact) {
      // The tile moves to registers and leaves its place to the next one.
      fragments = loadKeyFragments();
      v.warpBarrier();
      copyNext();
    }
    v.loop(v.word(0), v.word(parts), 1, [&](Value part) {
      Value begin = v.mul(part, partRows);
      Values sums = v.loop(begin, v.add(begin, partRows), 8 * rowSquares,
                           Values(2 * keySquares, v.real(0.0f)),
                           [&](Value square, ValueRange carried) {
                             return scoreRows(fragments, tile, square, carried);
                           });
      Value inverse =
          v.loadShared(v.f32(), v.add(shared, v.mul(part, 4)), layout.inverses);
      storeScores(sums, tile, scoresOf(part, span), inverse, first);
    });
    if (exact) {
      v.warpBarrier();
      copyNext();
    }
  });
}

/// [step][square] quads of rows l / 4 and l / 4 + 8 of the square.
Values SelectLowering::loadKeyFragments() {
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

/// Adds the probabilities of `rowSquares` squares of rows from `row` (in shared
/// memory) on to `sums`: a sum for rows l / 4 and l / 4 + 8 of each square of
/// keys.
Values SelectLowering::scoreRows(ValueRange keys, Value tile, Value row,
                                 ValueRange carried) {
  Values sums(carried);
  Values logits = exact ? multiplyExact(row) : multiply(keys, row);
  logitFactor = factor;
  if (!function.empty())
    logits = scoredLogits(logits, tile, row);
  Value column = v.add(row, v.mul(v.both(lane, 3), 2));
  Value lse = v.add(shared, v.mul(column, 4));
  for (int64_t r = 0; r < rowSquares; ++r) {
    Value pair =
        v.loadShared(VectorType::get(2, v.f32()), lse, layout.lse + r * 32, 8);
    Value negated[] = {v.extract(pair, 0), v.extract(pair, 1)};
    for (int64_t k = 0; k < keySquares; ++k)
      for (int64_t i = 0; i < 4; ++i) {
        Value logit = logits[(r * keySquares + k) * 4 + i];
        Value &sum = sums[2 * k + i / 2];
        sum = v.addf(sum, v.exp2(v.fma(logit, logitFactor, negated[i % 2])));
      }
  }
  return sums;
}

/// Where key or row `place` (i32), if there is one, stands in the sequence.
Value SelectLowering::positionOf(Value place) {
  place = v.least(place, v.add(n, -1));
  Value positions = field(v.global(), offsetof(abi::SelectArgs, position));
  return v.choose(
      v.isNull(positions), v.i32(), [&]() -> Values { return {place}; },
      [&]() -> Values {
        return {v.loadConstant(
            v.i32(), v.at(positions, v.mul(v.widenUnsigned(place), 4)), 4)};
      })[0];
}

/// What the function makes of products of the warp's tile `tile` of keys and
/// the rows from `row` (in shared memory) on.
Values SelectLowering::scoredLogits(Values logits, Value tile, Value row) {
  ThreadScores target(v, exact);
  ScoredPair pair;
  pair.scale = v.mulf(factor, v.real(ln2));
  pair.head = headAtHand;
  Values rows, keys;
  if (function.uses(Scores::Query)) {
    Value first = v.add(v.add(blockRow, row), v.mul(v.both(lane, 3), 2));
    for (int64_t r = 0; r < rowSquares; ++r)
      for (int64_t e = 0; e < 2; ++e)
        rows.push_back(positionOf(v.add(first, 8 * r + e)));
  }
  if (function.uses(Scores::Key)) {
    Value first = v.add(v.mul(tile, tileKeys), v.quotient(lane, 4));
    for (int64_t half = 0; half < 2 * keySquares; ++half)
      keys.push_back(positionOf(v.add(first, 8 * half)));
  }
  float factorLeft = 1;
  for (int64_t r = 0; r < rowSquares; ++r)
    for (int64_t k = 0; k < keySquares; ++k)
      for (int64_t i = 0; i < 4; ++i) {
        Value &logit = logits[(r * keySquares + k) * 4 + i];
        pair.product = logit;
        if (!rows.empty())
          pair.query = rows[2 * r + i % 2];
        if (!keys.empty())
          pair.key = keys[2 * k + i / 2];
        ScoredLogit scored = emitScores(target, function, pair);
        logit = scored.value;
        factorLeft = scored.factor;
      }
  logitFactor = v.real(factorLeft * log2e);
  return logits;
}

/// K . Q, unscaled: [row square][key square][4 accumulators].
Values SelectLowering::multiply(ValueRange keys, Value row) {
  Values places;
  for (Value place : chunkPlaces)
    places.push_back(v.add(v.add(shared, v.mul(row, rowBytes)), place));
  Values sums(rowSquares * keySquares * 4, v.real(0.0f));
  for (int64_t step = 0; step < channels / 32; ++step)
    for (int64_t r = 0; r < rowSquares; ++r) {
      auto [place, offset] = chunkAt(places, step);
      Value quad = v.loadShared(v.quad(), place,
                                layout.queries + offset + r * 8 * rowBytes, 16);
      for (int64_t k = 0; k < keySquares; ++k) {
        auto *sum = &sums[(r * keySquares + k) * 4];
        // Words of rows l / 4 and l / 4 + 8 of the square of keys.
        auto upper = keys.slice((step * keySquares + k) * 8, 4);
        auto lower = keys.slice((step * keySquares + k) * 8 + 4, 4);
        for (int64_t i = 0; i < 4; i += 2) {
          Values next = v.multiply(
              element, {upper[i], lower[i], upper[i + 1], lower[i + 1]},
              {v.extract(quad, i), v.extract(quad, i + 1)},
              ValueRange{sum[0], sum[1], sum[2], sum[3]});
          llvm::copy(next, sum);
        }
      }
    }
  return sums;
}

/// The same for f32, in fp32 and in the order of the channels.
Values SelectLowering::multiplyExact(Value row) {
  Value queryRow = v.add(row, v.mul(v.both(lane, 3), 2));
  Value query = v.add(shared, v.mul(queryRow, rowBytes));
  Value keyRow = v.quotient(lane, 4);
  Value key = v.add(warpKeys, v.mul(keyRow, rowBytes));
  Value flip = v.mul(v.both(keyRow, 1), 64);
  return v.loop(
      v.word(0), hiddenWord(v, rowBytes), 16,
      Values(4 * keySquares, v.real(0.0f)),
      [&](Value byte, ValueRange carried) {
        Values sums(carried);
        auto floats = VectorType::get(4, v.f32());
        Value queries[2], keyByte = v.flip(byte, flip);
        for (int64_t i = 0; i < 2; ++i)
          queries[i] = v.loadShared(floats, v.add(query, v.flip(byte, 64 * i)),
                                    layout.queries + i * rowBytes, 16);
        for (int64_t half = 0; half < 2 * keySquares; ++half) {
          Value keys = v.loadShared(floats, v.add(key, keyByte),
                                    half * 8 * rowBytes, 16);
          for (int64_t i = 0; i < 2; ++i)
            for (int64_t c = 0; c < 4; ++c) {
              Value &sum = sums[2 * half + i];
              sum = v.fma(v.extract(keys, c), v.extract(queries[i], c), sum);
            }
        }
        return sums;
      });
}

/// Writes the scores of tile `tile`, or adds to them if they are not the
/// group's first. A key is always the same lane's.
void SelectLowering::storeScores(ValueRange sums, Value tile, Value to,
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

/// Row `row` (i32) of the block's scratch.
Value SelectLowering::scratchRow(Value row) {
  Value rowBytes = v.mul(v.quotient(v.add(n, 3), 4), 16);
  return v.at(scratch, v.mul(v.widen(row), v.widen(rowBytes)));
}

Value SelectLowering::rowCount() {
  return ofRange ? v.sub(rowEnd, rowBegin) : rowEnd;
}

Value SelectLowering::scoresOf(Value part, bool span) {
  if (parts == 1 && !span)
    return scratch;
  return scratchRow(span ? v.add(part, parts) : part);
}
