//===- Select.cpp - Selection by warpgroups -------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keys are the rows of products and queries their columns, so that a key's
// score is a sum along a row, in a thread and over four lanes, and needs no
// other warp. A warpgroup that computes has 128 queries, of one group or of
// several, which stay in shared memory; their log-sum-exps, one a column, stay
// in registers. All of a block read the same tiles of keys. Scores go to the
// block's scratch, a row a group; then all warpgroups that compute make the
// groups' lists of them, one after the other, while the next keys are brought.
// Blocks share out the groups, turn by turn. A kernel that chooses blocks of
// keys has as many rows again, for scores among the keys of the second span,
// and two for the means that the two spans' lists are made of. Heads that share
// lists are scored one after the other, each adding to the scores before.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "../ShedToNVVM/TopK.h"
#include "bundle/abi/Abi.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <limits>

using namespace mlir;
using namespace mlir::heddle;
using arith::CmpIPredicate;
namespace abi = ::heddle::abi;

using Values = NVVMBuilder::Values;

namespace {
class SelectTask final : public WarpTask {
public:
  explicit SelectTask(shed::KernelOp kernel)
      : WarpTask(kernel), group(*kernel.getGroup()),
        parts(tiling.getConsumers() * std::max<int64_t>(columns / group, 1)),
        blocks(topKOf(kernel).getBlocks()),
        pooled(static_cast<int64_t>(topKOf(kernel).getPooled().value_or(0))),
        within(topKOf(kernel).getEntriesWithin()) {
    queryRows = logitColumns = columns;
    logitParts = tileKeys / warp::warpgroupRows;
    groups = parts / tiling.getConsumers();
  }

  LogicalResult verifyForm() override;
  Operation *open() override;
  void populate(WarpPatterns patterns) const override;

  Value scratchRow(WarpBuilder &v, Value row) const;

  static constexpr int64_t columns = 128; ///< query rows of a warpgroup
  const int64_t group;  ///< rows that share a list, at most `columns`
  const int64_t parts;  ///< groups that a block scores together
  const bool blocks;    ///< chooses blocks of `group` keys
  const int64_t pooled; ///< scores that are pooled, or 0
  const std::optional<shed::KeyEntries> within; ///< see KeyChoice

  // Values of the function: before all turns, then of a turn.
  Value scratch;
  Value n, heads, tiles;        ///< i32
  Value queryStride, keyStride; ///< i64, bytes
  Value kvGroup;                ///< i32
  Value sharers;                ///< i32: heads that share a list
  Value factor;                 ///< scale * log2(e)
  /// i32: turns of a task, after the last of which lists are made
  Value turnsEach;
  Value which; ///< i32: of these turns
  Value list;  ///< i32: of a group, the row of lists
  Value first; ///< i32: the block's first group
  Value head;  ///< i32
  /// i32: 0 or 1. With 1 among the keys of the second span, for which those
  /// before it mean nothing.
  Value span;
  Value added; ///< i1: whether scores are added to those before, or null
  Value own;   ///< i32: the warpgroup's first group of the block's
  Value row;   ///< i32: its first row
  Value keyBase;
  Value keyMap;    ///< of all keys, or null
  Value keyColumn; ///< i32: of the head in it, in elements

private:
  static shed::TopKOp topKOf(shed::KernelOp kernel) {
    return cast<shed::TopKOp>(kernel.getBody().front().back());
  }
  void loadArguments(WarpBuilder &v);
};

} // namespace

std::unique_ptr<WarpTask> mlir::heddle::makeSelectTask(shed::KernelOp kernel) {
  return std::make_unique<SelectTask>(kernel);
}

/// Ops that have no form are refused at their place.
LogicalResult SelectTask::verifyForm() {
  auto refuse = [](Operation *op, const Twine &why) {
    return op->emitOpError() << "has no form for warpgroups: " << why;
  };
  if (failed(verifyRule("scores")))
    return failure();
  if (group < 16 || group > columns || !llvm::isPowerOf2_64(group))
    return refuse(kernel, "they score for groups of 16, 32, 64 or 128 rows, "
                          "not " +
                              Twine(group));
  if (sharedLists && blocks)
    return refuse(kernel, "heads share lists of blocks");
  if (tileKeys % warp::warpgroupRows)
    return refuse(kernel, "keys of a tile, " + Twine(tileKeys) +
                              ", are to be a multiple of 64");
  if (!llvm::isPowerOf2_64(tiling.getConsumers()) || tiling.getCluster() > 1 ||
      tiling.getQueryStages())
    return refuse(kernel,
                  "they select with 1, 2 or 4 consumers that load their "
                  "own queries, without query_stages or clusters");
  LogicalResult good = success();
  kernel.getBody().walk([&](Operation *op) {
    if (isa<shed::ScoresOp>(op))
      good = refuse(op, "logits are replaced");
    return failed(good) ? WalkResult::interrupt() : WalkResult::advance();
  });
  return good;
}

//===----------------------------------------------------------------------===//
// The block's rows
//===----------------------------------------------------------------------===//

Operation *SelectTask::open() {
  WarpBuilder v(kernel.getLoc(), kernel.getContext());
  EntryFacts facts;
  facts.queryRows = group;
  const int64_t scratchRows = blocks ? 2 * parts + 2 : parts;
  const int64_t pools = pooled ? 1 : 0;
  facts.scratchBytes = 16 * (scratchRows + pools);
  facts.scratchBytesPerKey = 4 * (scratchRows + pools);
  Values arguments = v.openEntry(kernel, kernel.getSymName(),
                                 {v.global(), v.global(), v.i64()}, facts);
  Operation *function = v.b.getInsertionBlock()->getParentOp();
  v.describePipeline(tiling);
  Value sequence = v.blockId(NVVMBuilder::Axis::Z);
  Value block = v.blockId(NVVMBuilder::Axis::X);
  Value gridBlocks = v.gridSize(NVVMBuilder::Axis::X);
  args = v.at(arguments[0], v.mul(v.widenUnsigned(sequence),
                                  int64_t(sizeof(abi::SelectArgs))));
  Value place = v.widenUnsigned(v.add(v.mul(sequence, gridBlocks), block));
  scratch = v.at(arguments[1], v.mul(place, arguments[2]));
  loadArguments(v);

  const int64_t taskRows = group * parts;
  Value together = v.quotient(v.add(n, taskRows - 1), taskRows);
  Value lists = v.mul(v.quotient(heads, sharers), together);
  Value left = v.greatest(v.sub(lists, block), v.word(0));
  Value tasks = v.quotient(v.add(left, v.add(gridBlocks, -1)), gridBlocks);
  // A task takes a turn for each head that shares its lists, or one more where
  // a span is scored by itself.
  turnsEach = sharers;
  if (blocks)
    turnsEach =
        v.add(arith::ExtUIOp::create(v.b, v.i32(), isScoredBySpan(v, args)), 1);
  v.loop(v.word(0), v.mul(tasks, turnsEach), 1, [&](Value turn) {
    Value number = v.quotient(turn, turnsEach);
    which = v.sub(turn, v.mul(number, turnsEach));
    Value task = v.add(block, v.mul(number, gridBlocks));
    list = v.quotient(task, together);
    first = v.mul(v.sub(task, v.mul(list, together)), parts);
    head = list;
    span = which;
    if (sharedLists) {
      head = v.add(v.mul(list, sharers), which);
      span = v.word(0);
      added = v.compare(CmpIPredicate::ne, which, int64_t(0));
    }
    own = v.mul(warp::WarpgroupOp::create(v.b), groups);
    row = v.mul(v.add(first, own), group);
    Value kvHead = v.quotient(head, kvGroup);
    keyBase = ofHead(v, offsetof(abi::SelectArgs, key), kvHead);
    if (keyMap)
      keyColumn = v.mul(kvHead, channels);
    moveBody(v);
  });
  v.closeEntry();
  return function;
}

void SelectTask::loadArguments(WarpBuilder &v) {
  auto word = [&](size_t offset) {
    return v.narrow(field(v, v.i64(), offset));
  };
  n = word(offsetof(abi::SelectArgs, n));
  heads = field(v, v.i32(), offsetof(abi::SelectArgs, heads));
  kvGroup = word(offsetof(abi::SelectArgs, kvGroup));
  sharers = sharedLists ? word(offsetof(abi::SelectArgs, list) +
                               offsetof(abi::IndexList, headsPerList))
                        : v.word(1);
  if (tiling.getTma())
    keyMap = v.at(field(v, v.global(), offsetof(abi::SelectArgs, tileMaps)),
                  int64_t(offsetof(abi::TileMaps, key)));
  queryStride =
      v.mul(field(v, v.i64(), offsetof(abi::SelectArgs, queryStride)), 2);
  keyStride = v.mul(field(v, v.i64(), offsetof(abi::SelectArgs, keyStride)), 2);
  factor = v.mulf(field(v, v.f32(), offsetof(abi::SelectArgs, scale)),
                  v.real(1.44269504088896341f));
  tiles = v.quotient(v.add(n, tileKeys - 1), tileKeys);
}

/// Row `row` (i32) of the block's scratch: n scores, zeros up to a multiple of
/// 4.
Value SelectTask::scratchRow(WarpBuilder &v, Value row) const {
  Value rowBytes = v.mul(v.quotient(v.add(n, 3), 4), 16);
  return v.at(scratch, v.mul(v.widen(row), v.widen(rowBytes)));
}

//===----------------------------------------------------------------------===//
// Scores, and the lists of them
//===----------------------------------------------------------------------===//

/// Adds a tile's keys to the scores at `places`, a group's each: mean
/// probabilities over its rows, of which `inverses` are 1 over their number.
static void addMass(RewriteBuilder &v, const SelectTask &t, ValueRange places,
                    ValueRange inverses, const LogitParts &logits, Value lse,
                    const TileKeys &keys) {
  for (auto [i, part] : llvm::enumerate(logits.parts)) {
    v.behind({part, keys.first});
    Value weights =
        v.map(v.fragment(t.columns), {part, lse},
              [&](ValueRange element, Value, Value) -> Value {
                return math::Exp2Op::create(
                    v.b, math::FmaOp::create(v.b, element[0], logits.factor,
                                             element[1]));
              });
    for (int64_t j = 0; j < t.groups; ++j) {
      Value some =
          t.groups > 1 ? v.slice(weights, j * t.group, t.group) : weights;
      Value sum =
          v.combine(warp::Combine::Add, v.reduce(warp::Combine::Add, some));
      Value mean =
          v.map(v.fragment(1), sum, [&](ValueRange element, Value, Value) {
            return v.mulf(element[0], inverses[j]);
          });
      warp::StoreColumnOp::create(
          v.b, mean, places[j], v.add(keys.first, i * warp::warpgroupRows), t.n,
          t.added, Value(), Value(), IntegerAttr(), UnitAttr());
    }
  }
}

/// Makes the lists of the block's groups.
static void makeLists(WarpBuilder &v, const SelectTask &t) {
  Value own = warp::WarpgroupOp::create(v.b);
  const int64_t warpgroups = t.tiling.getConsumers();
  KeyChoice choice;
  choice.encoding = t.encoding;
  choice.group = t.group;
  choice.threads = warpgroups * warp::warpgroupThreads;
  choice.args = t.args;
  choice.n = t.n;
  choice.thread = v.add(v.mul(own, int64_t(warp::warpgroupThreads)),
                        v.both(v.threadId(), warp::warpgroupThreads - 1));
  choice.shared = warp::SpaceOp::create(v.b, v.i32(), TopK::sharedBytes(),
                                        /*over_tiles=*/false, IntegerAttr());
  choice.pooled = t.pooled;
  choice.within = t.within;
  if (t.pooled)
    choice.pool = t.scratchRow(v, v.word(t.parts));
  v.loop(v.word(0), v.word(t.parts), 1, [&](Value part) {
    Value which = v.add(t.first, part);
    v.when(v.compare(CmpIPredicate::slt, v.mul(which, t.group), t.n), [&] {
      Value keys = t.scratchRow(v, part);
      if (!t.blocks)
        return chooseKeys(v, choice, t.list, which, keys);
      chooseBlocks(v, choice, t.list, which,
                   {keys, t.scratchRow(v, v.add(part, t.parts)),
                    t.scratchRow(v, v.word(2 * t.parts)),
                    t.scratchRow(v, v.word(2 * t.parts + 1))});
    });
  });
}

void SelectTask::populate(WarpPatterns patterns) const {
  const SelectTask &t = *this;
  // A mass has its place from the first pass over keys on.
  patterns.add<shed::MassInitOp>([&](RewriteBuilder &v, auto, auto) {
    Values mass(t.groups, v.null());
    mass.append(t.groups, v.real(0.0f));
    return Results{mass};
  });
  // A warpgroup has all rows of its groups at once. The second span's keys are
  // scored by the same ops as all keys, in a turn of its own.
  patterns.add<shed::ForQueriesOp>([&](RewriteBuilder &v, auto op, auto in) {
    if (op.getSpan())
      return Results{Values(in.getInit())};
    Block &body = op.getBody().front();
    v.rewriter.replaceAllUsesWith(body.getArgument(0), in.getInit());
    v.take(body.without_terminator());
    return Results{{cast<shed::YieldOp>(body.getTerminator()).getValue()}};
  });
  patterns.add<shed::LoadQueriesOp>([&](RewriteBuilder &v, auto, auto) {
    Value base = t.ofHead(v, offsetof(abi::SelectArgs, query), t.head);
    return Results{
        {v.load(t.tile(t.queryRows), base, t.row, t.queryStride, t.n)}};
  });
  patterns.add<shed::LoadLseOp>([&](RewriteBuilder &v, auto, auto) {
    // Rows that are not there give no key any probability.
    constexpr float infinity = std::numeric_limits<float>::infinity();
    Value sums = t.field(v, v.global(), offsetof(abi::SelectArgs, lse));
    if (t.blocks)
      sums =
          v.select(v.compare(CmpIPredicate::eq, t.span, int64_t(0)), sums,
                   t.field(v, v.global(), offsetof(abi::SelectArgs, spanLse)));
    Value lse = v.at(sums, v.mul(v.mul(v.widen(t.head), v.widen(t.n)), 4));
    auto type = v.fragment(t.columns);
    Value read = warp::ReadColumnsOp::create(v.b, type, lse, t.row, t.n,
                                             v.real(infinity));
    auto negate = [&](ValueRange element, Value, Value) {
      return v.negf(element[0]);
    };
    return Results{{v.map(type, read, negate)}};
  });
  patterns.add<shed::ForKeysOp>([&](RewriteBuilder &v, auto op, auto) {
    Value pad = v.add(t.n, v.both(v.threadId(), warp::warpgroupThreads - 1));
    Value pads =
        v.compare(CmpIPredicate::slt, pad, v.both(v.add(t.n, 3), ~int64_t(3)));
    Values mass, inverses;
    for (int64_t i = 0; i < t.groups; ++i) {
      Value left = v.sub(t.n, v.add(t.row, i * t.group));
      Value rows = v.greatest(v.least(left, v.word(t.group)), v.word(1));
      // Of all heads that share a list; each adds its part.
      if (t.sharedLists)
        rows = v.mul(rows, t.sharers);
      inverses.push_back(
          v.divf(v.real(1.0f), arith::SIToFPOp::create(v.b, v.f32(), rows)));
      mass.push_back(t.scratchRow(
          v, v.add(v.add(t.own, i),
                   t.blocks ? v.mul(t.span, t.parts) : v.word(0))));
      v.when(pads, [&] {
        v.store(v.real(0.0f), v.at(mass.back(), v.mul(pad, 4)), 4);
      });
    }
    mass.append(inverses);
    Block &body = op.getBody().front();
    v.loop(v.word(0), t.tiles, 1, [&](Value tile) {
      Value first = v.mul(tile, t.tileKeys);
      TileKeys keys(first, v.sub(t.n, first), t.n, v.word(0), v.null(), t.n,
                    t.tileKeys);
      v.rewriter.replaceAllUsesWith(body.getArgument(0), keys.get());
      v.rewriter.replaceAllUsesWith(body.getArgument(1), mass);
      v.take(body.without_terminator());
    });
    return Results{mass};
  });
  patterns.add<shed::LoadKeysOp>([&](RewriteBuilder &v, auto, auto in) {
    const TileKeys keys(in.getKeys(), t.tileKeys);
    Values result = {v.load(t.tile(keys.columns), t.keyBase, keys.first,
                            t.keyStride, t.n, Value(), t.keyMap, t.keyColumn)};
    result.append(keys.get());
    return Results{result};
  });
  patterns.add<shed::DotOp>([&](RewriteBuilder &v, auto, auto in) {
    LogitParts logits(t.factor, v.bit(false));
    for (int64_t i = 0; i < t.logitParts; ++i)
      logits.parts.push_back(v.wait(v.multiply(
          in.getKeys()[0], in.getQueries()[0], {}, /*transposed=*/true, 0,
          i ? v.word(i * warp::warpgroupRows) : Value())));
    return Results{logits.get()};
  });
  patterns.add<shed::ColumnMassOp>([&](RewriteBuilder &v, auto, auto in) {
    ValueRange mass = in.getMass();
    addMass(v, t, mass.take_front(t.groups), mass.take_back(t.groups),
            LogitParts(in.getLogits()), in.getLse()[0],
            TileKeys(in.getKeys(), t.tileKeys));
    return Results{Values(mass)};
  });
  patterns.add<shed::TopKOp>([&](RewriteBuilder &v, auto, auto) {
    v.barrier(); // all scores are there, no query is read any more
    auto choose = [&] {
      makeLists(v, t);
      v.barrier(); // before the next scores take their place
    };
    if (!t.blocks && !t.sharedLists)
      choose();
    else
      v.when(v.compare(CmpIPredicate::eq, t.which, v.add(t.turnsEach, -1)),
             choose);
    return Results();
  });
}
