//===- Select.cpp - Selection by warpgroups -------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SelectWriter.h"

#include "../ShedToNVVM/TopK.h"
#include "bundle/abi/Abi.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <limits>

using namespace mlir;
using namespace mlir::heddle;
using arith::CmpIPredicate;
namespace abi = ::heddle::abi;

using Values = NVVMBuilder::Values;

/// Ops that have no form are refused at their place.
LogicalResult SelectWriter::verifyForm() {
  auto refuse = [](Operation *op, const Twine &why) {
    return op->emitOpError() << "has no form for warpgroups: " << why;
  };
  if (element.isF32() || channels % 64)
    return refuse(kernel, "they select for bf16 and f16 and head dims that are "
                          "multiples of 64");
  if (group < 16 || group > columns || !llvm::isPowerOf2_64(group))
    return refuse(kernel, "they score for groups of 16, 32, 64 or 128 rows, "
                          "not " +
                              Twine(group));
  if (kernel.getSharedLists() && blocks)
    return refuse(kernel, "heads share lists of blocks");
  if (tiling.getKeys() % warp::warpgroupRows)
    return refuse(kernel, "keys of a tile, " + Twine(tiling.getKeys()) +
                              ", are to be a multiple of 64");
  if (!llvm::isPowerOf2_64(tiling.getConsumers()) || tiling.getCluster() > 1 ||
      tiling.getTma() || tiling.getQueryStages())
    return refuse(kernel,
                  "they select with 1, 2 or 4 consumers that load their "
                  "own queries and copy a block's own keys");
  LogicalResult good = success();
  kernel.getBody().walk([&](Operation *op) {
    if (isa<shed::ScoresOp>(op))
      good = refuse(op, "logits are replaced");
    return failed(good) ? WalkResult::interrupt() : WalkResult::advance();
  });
  return good;
}

Value SelectWriter::field(Type type, size_t offset) {
  return v.loadConstant(type, v.at(args, static_cast<int64_t>(offset)),
                        type.isF32() || type.isInteger(32) ? 4 : 8);
}

LogicalResult SelectWriter::run() {
  if (failed(verifyForm()))
    return failure();
  EntryFacts facts;
  facts.queryRows = group;
  const int64_t scratchRows = blocks ? 2 * parts + 2 : parts;
  const int64_t pools = pooled ? 1 : 0;
  facts.scratchBytes = 16 * (scratchRows + pools);
  facts.scratchBytesPerKey = 4 * (scratchRows + pools);
  Values arguments = v.openEntry(kernel, kernel.getSymName(),
                                 {v.global(), v.global(), v.i64()}, facts);
  v.describePipeline(tiling);
  Value sequence = v.blockId(NVVMBuilder::Axis::Z);
  Value block = v.blockId(NVVMBuilder::Axis::X);
  Value gridBlocks = v.gridSize(NVVMBuilder::Axis::X);
  args = v.at(arguments[0], v.mul(v.widenUnsigned(sequence),
                                  int64_t(sizeof(abi::SelectArgs))));
  Value row = v.widenUnsigned(v.add(v.mul(sequence, gridBlocks), block));
  scratch = v.at(arguments[1], v.mul(row, arguments[2]));
  loadArguments();

  const int64_t taskRows = group * parts;
  Value together = v.quotient(v.add(n, taskRows - 1), taskRows);
  Value lists = v.mul(v.quotient(heads, sharers), together);
  Value left = v.greatest(v.sub(lists, block), v.word(0));
  Value tasks = v.quotient(v.add(left, v.add(gridBlocks, -1)), gridBlocks);
  // A task takes a turn for each head that shares its lists, or one more where
  // a span is scored by itself.
  Value turnsEach = sharers;
  if (blocks)
    turnsEach =
        v.add(arith::ExtUIOp::create(v.b, v.i32(), isScoredBySpan(v, args)), 1);
  v.loop(v.word(0), v.mul(tasks, turnsEach), 1, [&](Value turn) {
    Value number = v.quotient(turn, turnsEach);
    Value which = v.sub(turn, v.mul(number, turnsEach));
    Value task = v.add(block, v.mul(number, gridBlocks));
    Value list = v.quotient(task, together);
    Value first = v.mul(v.sub(task, v.mul(list, together)), parts);
    if (kernel.getSharedLists())
      score(v.add(v.mul(list, sharers), which), first, v.word(0),
            v.compare(CmpIPredicate::ne, which, int64_t(0)));
    else
      score(list, first, which, Value());
    v.barrier(); // all scores are there, no query is read any more
    auto makeLists = [&] {
      choose(list, first);
      v.barrier(); // before the next scores take their place
    };
    if (!blocks && !kernel.getSharedLists())
      return makeLists();
    v.when(v.compare(CmpIPredicate::eq, which, v.add(turnsEach, -1)),
           makeLists);
  });
  v.closeEntry();
  return success();
}

void SelectWriter::loadArguments() {
  auto word = [&](size_t offset) { return v.narrow(field(v.i64(), offset)); };
  n = word(offsetof(abi::SelectArgs, n));
  heads = field(v.i32(), offsetof(abi::SelectArgs, heads));
  kvGroup = word(offsetof(abi::SelectArgs, kvGroup));
  sharers = kernel.getSharedLists()
                ? word(offsetof(abi::SelectArgs, list) +
                       offsetof(abi::IndexList, headsPerList))
                : v.word(1);
  queryStride =
      v.mul(field(v.i64(), offsetof(abi::SelectArgs, queryStride)), 2);
  keyStride = v.mul(field(v.i64(), offsetof(abi::SelectArgs, keyStride)), 2);
  factor = v.mulf(field(v.f32(), offsetof(abi::SelectArgs, scale)),
                  v.real(1.44269504088896341f));
  tiles = v.quotient(v.add(n, tiling.getKeys() - 1), tiling.getKeys());
}

/// Row `row` (i32) of the block's scratch: n scores, zeros up to a multiple of
/// 4.
Value SelectWriter::scratchRow(Value row) {
  Value rowBytes = v.mul(v.quotient(v.add(n, 3), 4), 16);
  return v.at(scratch, v.mul(v.widen(row), v.widen(rowBytes)));
}

Value SelectWriter::load(Value base, Value first, Value stride, int64_t rows) {
  auto type = warp::TileType::get(kernel.getContext(), rows, channels, element);
  return warp::LoadOp::create(v.b, type, base, first, stride, n, Value(),
                              Value(), Value(), IntegerAttr(), Value(), Value(),
                              IntegerAttr(), UnitAttr());
}

/// Each key's mean probability over the rows of this warpgroup's groups, of
/// those from group `first` on; with `span` (i32: 0 or 1) among the keys of the
/// second span, for which those before it mean nothing. Where heads share
/// lists, the mean over their rows, to which each head adds its part: to those
/// before where `added` (i1) holds.
void SelectWriter::score(Value head, Value first, Value span, Value added) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  Value own = v.mul(warp::WarpgroupOp::create(v.b), groups);
  Value row = v.mul(v.add(first, own), group);
  auto base = [&](size_t offset, Value which) {
    return v.at(field(v.global(), offset),
                v.mul(v.widenUnsigned(which), channels * 2));
  };
  Value keys = base(offsetof(abi::SelectArgs, key), v.quotient(head, kvGroup));
  Value queries = load(base(offsetof(abi::SelectArgs, query), head), row,
                       queryStride, columns);
  // Rows that are not there give no key any probability.
  Value sums = field(v.global(), offsetof(abi::SelectArgs, lse));
  if (blocks)
    sums = v.select(v.compare(CmpIPredicate::eq, span, int64_t(0)), sums,
                    field(v.global(), offsetof(abi::SelectArgs, spanLse)));
  Value lse = v.at(sums, v.mul(v.mul(v.widen(head), v.widen(n)), 4));
  Value negated = v.map(
      v.fragment(columns),
      warp::ReadColumnsOp::create(v.b, v.fragment(columns), lse, row, n,
                                  v.real(infinity))
          .getResult(),
      [&](ValueRange element, Value, Value) { return v.negf(element[0]); });
  Value pad = v.add(n, v.both(v.threadId(), warp::warpgroupThreads - 1));
  Value pads =
      v.compare(CmpIPredicate::slt, pad, v.both(v.add(n, 3), ~int64_t(3)));
  Values inverses, places;
  for (int64_t i = 0; i < groups; ++i) {
    Value left = v.sub(n, v.add(row, i * group));
    Value rows = v.greatest(v.least(left, v.word(group)), v.word(1));
    if (kernel.getSharedLists())
      rows = v.mul(rows, sharers);
    inverses.push_back(
        v.divf(v.real(1.0f), arith::SIToFPOp::create(v.b, v.f32(), rows)));
    Value to = scratchRow(
        v.add(v.add(own, i), blocks ? v.mul(span, parts) : v.word(0)));
    places.push_back(to);
    v.when(pads, [&] { v.store(v.real(0.0f), v.at(to, v.mul(pad, 4)), 4); });
  }

  v.loop(v.word(0), tiles, 1, [&](Value tile) {
    Value firstKey = v.mul(tile, tiling.getKeys());
    Value some = load(keys, firstKey, keyStride, tiling.getKeys());
    for (int64_t from = 0; from < static_cast<int64_t>(tiling.getKeys());
         from += warp::warpgroupRows) {
      Value logits = v.wait(v.multiply(some, queries, {}, /*transposed=*/true,
                                       0, from ? v.word(from) : Value()));
      Value weights = v.map(
          v.fragment(columns), {logits, negated},
          [&](ValueRange element, Value, Value) -> Value {
            return math::Exp2Op::create(
                v.b, math::FmaOp::create(v.b, element[0], factor, element[1]));
          });
      for (int64_t i = 0; i < groups; ++i) {
        Value some = weights;
        if (groups > 1)
          some =
              warp::SliceOp::create(v.b, v.fragment(group), weights, i * group);
        Value sum =
            v.combine(warp::Combine::Add, v.reduce(warp::Combine::Add, some));
        Value mean =
            v.map(v.fragment(1), sum, [&](ValueRange element, Value, Value) {
              return v.mulf(element[0], inverses[i]);
            });
        warp::StoreColumnOp::create(v.b, mean, places[i], v.add(firstKey, from),
                                    n, added, Value(), Value(), IntegerAttr(),
                                    UnitAttr());
      }
    }
  });
}

/// Makes the lists of row `row` for the groups from `first` on.
void SelectWriter::choose(Value row, Value first) {
  Value own = warp::WarpgroupOp::create(v.b);
  const int64_t warpgroups = tiling.getConsumers();
  KeyChoice choice;
  choice.encoding = kernel.getEncoding().value_or(shed::Encoding::Int32);
  choice.group = group;
  choice.threads = warpgroups * warp::warpgroupThreads;
  choice.args = args;
  choice.n = n;
  choice.thread = v.add(v.mul(own, int64_t(warp::warpgroupThreads)),
                        v.both(v.threadId(), warp::warpgroupThreads - 1));
  choice.shared = warp::SpaceOp::create(v.b, v.i32(), TopK::sharedBytes(),
                                        /*over_tiles=*/false, IntegerAttr());
  choice.pooled = pooled;
  choice.within = within;
  if (pooled)
    choice.pool = scratchRow(v.word(parts));
  v.loop(v.word(0), v.word(parts), 1, [&](Value part) {
    Value which = v.add(first, part);
    v.when(v.compare(CmpIPredicate::slt, v.mul(which, group), n), [&] {
      Value keys = scratchRow(part);
      if (!blocks)
        return chooseKeys(v, choice, row, which, keys);
      chooseBlocks(v, choice, row, which,
                   {keys, scratchRow(v.add(part, parts)),
                    scratchRow(v.word(2 * parts)),
                    scratchRow(v.word(2 * parts + 1))});
    });
  });
}
