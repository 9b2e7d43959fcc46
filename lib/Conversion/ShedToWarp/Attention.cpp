//===- Attention.cpp - Attention by warpgroups, op by op ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionWriter.h"
#include "MapScores.h"

#include "bundle/abi/Abi.h"
#include "heddle/Support/ScoreRegion.h"

#include "llvm/ADT/TypeSwitch.h"

#include <limits>

using namespace mlir;
using namespace mlir::heddle;
using arith::CmpFPredicate;
using arith::CmpIPredicate;
namespace abi = ::heddle::abi;

using Values = NVVMBuilder::Values;

LogicalResult AttentionWriter::run() {
  if (kernel.getKind() != shed::KernelKind::Attention || element.isF32() ||
      channels % 64)
    return kernel.emitOpError("has no form for warpgroups, which have kernels "
                              "of attention for bf16 and f16 and head dims "
                              "that are multiples of 64");
  if (kernel.getPerLayer())
    return kernel.emitOpError(
        "has no form for warpgroups: heads that share lists are to share keys, "
        "and a layer's do not");
  if (!taskRows)
    return kernel.emitOpError()
           << "has no form for warpgroups: heads share lists for groups of "
           << kernel.getRowsInStep()
           << " rows; they are to be 16, 32 or a multiple of 64";
  if (kernel.getSharedLists() && isPersistent())
    return kernel.emitOpError(
        "has no form for warpgroups: heads share lists, which leaves some "
        "without work, and blocks are to go on to further rows with all");
  EntryFacts facts;
  // So many of a cluster's rows for each of its blocks.
  facts.queryRows = taskRows / tiling.getKeyShares();
  Values arguments = v.openEntry(kernel, kernel.getSymName(),
                                 {v.global(), v.global(), v.i64()}, facts);
  v.describePipeline(tiling);
  args =
      v.at(arguments[0], v.mul(v.widenUnsigned(v.blockId(NVVMBuilder::Axis::Z)),
                               int64_t(sizeof(abi::AttentionArgs))));
  loadArguments();
  if (failed(isPersistent() ? writeTasks() : writeTile(Value(), Value())))
    return failure();
  v.closeEntry();
  return success();
}

/// What all tiles of a sequence have in common.
void AttentionWriter::loadArguments() {
  auto word = [&](size_t offset) { return v.narrow(field(v.i64(), offset)); };
  auto stride = [&](size_t offset) { return v.mul(field(v.i64(), offset), 2); };
  n = word(offsetof(abi::AttentionArgs, n));
  rows = word(offsetof(abi::AttentionArgs, rows));
  if (tiling.getPacked())
    packed = word(offsetof(abi::AttentionArgs, kvGroup));
  if (tiling.getTma()) {
    Value maps = field(v.global(), offsetof(abi::AttentionArgs, tileMaps));
    keyMap = v.at(maps, int64_t(offsetof(abi::TileMaps, key)));
    valueMap = v.at(maps, int64_t(offsetof(abi::TileMaps, value)));
    if (isPersistent())
      queryMap = v.at(maps, int64_t(offsetof(abi::TileMaps, query)));
  }
  queryStride = stride(offsetof(abi::AttentionArgs, queryStride));
  keyStride = stride(offsetof(abi::AttentionArgs, keyStride));
  valueStride = stride(offsetof(abi::AttentionArgs, valueStride));
  outputStride = stride(offsetof(abi::AttentionArgs, outputStride));
  Value scale = field(v.f32(), offsetof(abi::AttentionArgs, scale));
  negative = v.compare(CmpFPredicate::OLT, scale, v.real(0.0f));
  Value magnitude = v.select(negative, v.negf(scale), scale);
  // Not quite zero: zero times a masked logit would be NaN.
  factor = v.maxf(v.mulf(magnitude, v.real(1.44269504088896341f)),
                  v.real(std::numeric_limits<float>::min()));
}

/// Blocks share out the tiles of rows of all heads, turn by turn, those of a
/// head one after the other, so that its keys stay in the cache. What a tile's
/// rows get does not depend on how many blocks there are. Blocks of a cluster
/// take neighbouring tiles of one head.
LogicalResult AttentionWriter::writeTasks() {
  const bool clustered = tiling.getCluster() > 1;
  const int64_t together = taskRows * tiling.getCluster();
  Value block = clustered ? v.clusterId() : v.blockId(NVVMBuilder::Axis::X);
  Value step = clustered ? v.clusters() : v.gridSize(NVVMBuilder::Axis::X);
  Value heads = field(v.i32(), offsetof(abi::AttentionArgs, heads));
  Value ofHead =
      v.quotient(v.add(kernel.hasLists() ? n : rows, together - 1), together);
  Value left = v.greatest(v.sub(v.mul(heads, ofHead), block), v.word(0));
  Value turns = v.quotient(v.add(left, v.add(step, -1)), step);
  LogicalResult good = success();
  v.loop(v.word(0), turns, 1, [&](Value turn) {
    Value own = v.add(block, v.mul(turn, step));
    listRow = head = v.quotient(own, ofHead);
    Value first = v.mul(v.sub(own, v.mul(head, ofHead)), tiling.getCluster());
    good = writeTile(first, clustered ? v.both(v.blockId(NVVMBuilder::Axis::X),
                                               tiling.getCluster() - 1)
                                      : Value());
  });
  return good;
}

/// Of the rows of this block's tile. A persistent one's is number `which`, if
/// not 0, of its cluster's, which begin at tile `first`.
LogicalResult AttentionWriter::writeTile(Value first, Value which) {
  task = which ? v.add(first, which) : first;
  if (!isPersistent()) {
    task = v.blockId(NVVMBuilder::Axis::X);
    listRow = head = v.blockId(NVVMBuilder::Axis::Y);
    if (kernel.getSharedLists())
      findTask();
    if (tiling.getKeyShares() > 1) {
      share = v.remainder(task, tiling.getKeyShares());
      task = v.quotient(task, tiling.getKeyShares());
    }
  }
  findRows();
  clusterRows = {taskRow, taskEnd};
  if (which) {
    Value row = v.mul(first, taskRows);
    clusterRows = {row,
                   v.least(v.add(row, taskRows * tiling.getCluster()), rows)};
  }
  findHead();
  for (Operation &op : kernel.getBody().front()) {
    v.b.setLoc(op.getLoc());
    if (failed(lower(op)))
      return failure();
  }
  return success();
}

/// Gives the blocks of a row of heads that share lists their tasks, one after
/// the other, and the warpgroups of a task to as many blocks as it needs. No
/// more than there are: `taskRows` rows of a head are one block's at most.
void AttentionWriter::findTask() {
  shed::KeyEntries list;
  kernel.walk([&](shed::ForKeysOp loop) {
    if (auto entries = cast<shed::KeySet>(loop.getOver()).getEntries())
      list = *entries;
  });
  sharers =
      v.narrow(field(v.i64(), offsetof(abi::AttentionArgs, lists) +
                                  list.index * sizeof(abi::IndexList) +
                                  offsetof(abi::IndexList, headsPerList)));
  listRow = v.quotient(head, sharers);
  Value block = v.add(task, v.mul(v.sub(head, v.mul(listRow, sharers)),
                                  v.gridSize(NVVMBuilder::Axis::X)));
  Value warpgroups =
      v.quotient(v.add(v.mul(sharers, taskRows), warp::warpgroupRows - 1),
                 warp::warpgroupRows);
  Value blocks = v.quotient(v.add(warpgroups, tiling.getConsumers() - 1),
                            tiling.getConsumers());
  task = v.quotient(block, blocks);
  Value part = v.sub(block, v.mul(task, blocks));
  auto bound = [&](Value number) {
    return v.quotient(v.mul(warpgroups, number), blocks);
  };
  firstTile = bound(part);
  active = v.sub(bound(v.add(part, 1)), firstTile);
}

/// Returns from the kernel where the tile has no rows, unless its block goes on
/// to others.
void AttentionWriter::findRows() {
  tileStart = v.mul(task, taskRows);
  taskRow = tileStart;
  Value end = packed ? v.mul(rows, packed) : rows;
  if (kernel.hasLists()) {
    // No tile lies behind the last place.
    if (!isPersistent())
      v.returnIf(v.compare(CmpIPredicate::sge, tileStart, n));
    Values range =
        v.rowsOfTask(field(v.global(), offsetof(abi::AttentionArgs, firstRow)),
                     task, tileStart, rows);
    taskRow = range[0];
    end = range[1];
  }
  if (isPersistent()) {
    // Blocks of a cluster, which has no lists, bring each other's tiles.
    if (kernel.hasLists())
      hasRows = v.compare(CmpIPredicate::slt, taskRow, end);
  } else {
    // Blocks of a cluster bring each other's tiles, so all of them stay if one
    // has rows.
    Value firstOfCluster =
        tiling.getCluster() > 1
            ? v.mul(v.both(task, -tiling.getCluster()), taskRows)
            : taskRow;
    v.returnIf(v.compare(CmpIPredicate::sge, firstOfCluster, end));
  }
  taskEnd = v.least(v.add(taskRow, taskRows), end);
  if (active)
    warp::ActiveOp::create(v.b, active);
}

/// The keys' head, the rows of this warpgroup, and of which heads they are.
void AttentionWriter::findHead() {
  Value kvHead = head;
  if (packed) {
    head = v.mul(kvHead, packed);
    batch = packed;
  } else {
    kvHead = v.quotient(
        sharers ? v.mul(listRow, sharers) : head,
        v.narrow(field(v.i64(), offsetof(abi::AttentionArgs, kvGroup))));
  }
  keyBase = ofHead(offsetof(abi::AttentionArgs, key), kvHead);
  valueBase = ofHead(offsetof(abi::AttentionArgs, value), kvHead);
  if (tiling.getTma())
    kvColumn = v.mul(kvHead, channels);
  Value own = warp::WarpgroupOp::create(v.b);
  Value before = v.mul(own, warp::warpgroupRows);
  firstRow = v.add(taskRow, before);
  if (isPersistent())
    queryFrom = before;
  if (sharers) {
    Value row = v.mul(v.add(firstTile, own), warp::warpgroupRows);
    Value which = v.quotient(row, taskRows);
    firstRow = v.add(taskRow, v.remainder(row, taskRows));
    head = v.add(v.mul(listRow, sharers), which);
    if (hasBatch())
      batch = v.sub(sharers, which);
  }
  queryBase = ofHead(offsetof(abi::AttentionArgs, query), head);
  outputBase = ofHead(offsetof(abi::AttentionArgs, output), head);
  if (kernel.getWritesLse())
    lseBase = v.at(field(v.global(), offsetof(abi::AttentionArgs, lse)),
                   v.mul(v.mul(v.widen(head), v.widen(rows)), 4));
}

/// Where the matrix of head `which` (i32) begins.
Value AttentionWriter::ofHead(size_t offset, Value which) {
  return v.at(field(v.global(), offset),
              v.mul(v.widenUnsigned(which), channels * 2));
}

/// A warpgroup loads its own, or the producer brings those of all.
Value AttentionWriter::loadQueries() {
  const int64_t held =
      isPersistent() ? tiling.getQueryRows() : warp::warpgroupRows;
  Value tile = warp::LoadOp::create(
      v.b, warp::TileType::get(kernel.getContext(), held, channels, element),
      queryBase, isPersistent() ? taskRow : firstRow, queryStride, taskEnd,
      Value(), queryMap, queryMap ? v.mul(head, channels) : Value(),
      IntegerAttr(), batch, batchStride(v.constant(channels * 2)), batchRows(),
      inTurns());
  warp::NegateOp::create(v.b, tile, queryFrom, negative);
  return tile;
}

Value AttentionWriter::loadKeys(Value base, Value stride, Value map,
                                const TileKeys &keys) {
  if (keys.rows)
    map = {};
  return warp::LoadOp::create(v.b,
                              warp::TileType::get(kernel.getContext(),
                                                  tiling.getKeys(), channels,
                                                  element),
                              base, keys.first, stride, keys.end, keys.rows,
                              map, map ? kvColumn : Value(), IntegerAttr(),
                              Value(), Value(), IntegerAttr(), UnitAttr());
}

LogicalResult AttentionWriter::lower(Operation &op) {
  return TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](shed::LoadQueriesOp load) {
        tiles[load.getResult()] = loadQueries();
        findRowKeys();
        return success();
      })
      .Case([&](shed::SoftmaxInitOp init) {
        // Not -inf, so that a row that has met no key yet has differences, too:
        // its masked logits, -inf, still give no weight.
        const float first =
            bounded ? 0.0f : std::numeric_limits<float>::lowest();
        states[init.getResult()] = {v.splat(channels, 0.0f), v.splat(1, first),
                                    v.splat(1, 0.0f)};
        return success();
      })
      .Case([&](shed::ForKeysOp loop) { return lowerKeys(loop); })
      .Case([&](shed::StoreOp op) {
        store(states.at(op.getState()));
        return success();
      })
      .Default([](Operation *op) {
        return op->emitOpError("has no form for warpgroups");
      });
}

LogicalResult AttentionWriter::verifyForm(shed::ForKeysOp loop) {
  auto refuse = [&](const Twine &why) {
    return loop.emitOpError() << "has no form for warpgroups: " << why;
  };
  if (!isa<shed::KeySet>(loop.getOver()))
    return refuse("kernels of attention have no second span");
  if (cast<shed::KeySet>(loop.getOver()).isSparse())
    return refuse("it would leave out most tiles");
  if (llvm::any_of(loop.getSkip(), shed::entriesOf))
    return refuse("it skips the keys of a list");
  std::optional<shed::KeyEntries> entries = shed::entriesOf(loop.getOver());
  if (tiling.getCluster() > 1 && !isa<shed::AllAttr>(loop.getOver()) &&
      (entries || !isPersistent()))
    return refuse("blocks of a cluster share tiles of all keys alone, or of "
                  "ranges where they are persistent");
  if (!entries)
    return success();
  if (entries->blockKeys % tiling.getKeys())
    return refuse("tiles of " + Twine(tiling.getKeys()) +
                  " keys do not divide blocks of " + Twine(entries->blockKeys));
  if (tiling.getKeyShares() > 1)
    return refuse("blocks divide keys among them where there are no lists");
  if (!entries->blockKeys && tiling.getTma())
    return refuse("tensor maps bring consecutive keys, not those of a list");
  if (!entries->blockKeys && kernel.getEncoding() == shed::Encoding::Bitmap)
    return refuse("keys of a bitmap are not read one by one");
  return success();
}

LogicalResult AttentionWriter::lowerKeys(shed::ForKeysOp loop) {
  if (failed(verifyForm(loop)))
    return failure();
  RunningSoftmax init = states.at(loop.getInit());
  bool good = true;
  KeyPass pass = keyPass(loop);
  if (hasRows)
    pass.tiles = v.select(hasRows, pass.tiles, v.word(0));
  Value first;
  if (share) {
    // Shares differ by a tile at most.
    auto bound = [&](Value number) {
      return v.quotient(v.mul(pass.tiles, number), tiling.getKeyShares());
    };
    first = bound(share);
    pass.tiles = v.sub(bound(v.add(share, 1)), first);
  }
  Values result = v.loop(
      v.word(0), pass.tiles, 1, {init.context, init.maximum, init.sum},
      [&](Value tile, ValueRange carried) -> Values {
        Block &body = loop.getBody().front();
        states[body.getArgument(1)] = {carried[0], carried[1], carried[2]};
        TileKeys keys = keysOf(pass, first ? v.add(tile, first) : tile);
        auto lower = [&](bool loads) {
          for (Operation &op : body.without_terminator())
            if (isa<shed::LoadKeysOp, shed::LoadValuesOp>(op) == loads)
              good &= succeeded(lowerInTile(op, pass, keys));
        };
        auto compute = [&]() -> Values {
          lower(/*loads=*/false);
          if (!good)
            return Values(carried);
          RunningSoftmax next =
              states.at(cast<shed::YieldOp>(body.getTerminator()).getValue());
          return {next.context, next.maximum, next.sum};
        };
        lower(/*loads=*/true);
        if (pass.over.isUniform() || taskRows == rowsTogether())
          return compute();
        // The block's tiles are those of all of its warpgroups' rows.
        const KeyRange &own = rowKeys.at(pass.over).own;
        Value end = v.add(keys.first, int64_t(tiling.getKeys()));
        return v.choose(
            v.both(v.compare(CmpIPredicate::slt, keys.first, own.end),
                   v.compare(CmpIPredicate::sgt, end, own.first)),
            carried.getTypes(), compute, [&] { return Values(carried); });
      });
  states[loop.getResult()] = {result[0], result[1], result[2]};
  return success(good);
}

LogicalResult AttentionWriter::lowerInTile(Operation &op, const KeyPass &pass,
                                           const TileKeys &keys) {
  v.b.setLoc(op.getLoc());
  return TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](shed::LoadKeysOp load) {
        tiles[load.getResult()] = loadKeys(keyBase, keyStride, keyMap, keys);
        return success();
      })
      .Case([&](shed::LoadValuesOp load) {
        tiles[load.getResult()] =
            loadKeys(valueBase, valueStride, valueMap, keys);
        return success();
      })
      .Case([&](shed::DotOp dot) {
        Value product =
            v.multiply(tiles.at(dot.getQueries()), tiles.at(dot.getKeys()), {},
                       true, 0, queryFrom);
        products[dot.getResult()] = v.wait(product);
        return success();
      })
      .Case<shed::ScoresOp, shed::MaskOp>([](auto) { return success(); })
      .Case([&](shed::SoftmaxUpdateOp op) {
        states[op.getResult()] =
            update(states.at(op.getState()), op.getLogits(),
                   tiles.at(op.getValues()), pass, keys);
        return success();
      })
      .Default([](Operation *op) {
        return op->emitOpError("has no form for warpgroups");
      });
}

Logits AttentionWriter::logitsOf(Value value, const KeyPass &pass,
                                 const TileKeys &keys) {
  const Location asked = v.b.getLoc();
  v.b.setLoc(value.getLoc());
  Logits result;
  if (auto op = value.getDefiningOp<shed::ScoresOp>())
    result = score(logitsOf(op.getLogits(), pass, keys), scoresOf(op.getBody()),
                   pass, keys);
  else if (auto op = value.getDefiningOp<shed::MaskOp>())
    result = mask(op, logitsOf(op.getLogits(), pass, keys), pass, keys);
  else
    result = {v.slice(products.at(value), keys.from, keys.columns), factor};
  v.b.setLoc(asked);
  return result;
}

/// What a function makes of logits.
Logits AttentionWriter::score(const Logits &from,
                              const ::heddle::bundle::Scores &scores,
                              const KeyPass &pass, const TileKeys &keys) {
  using Input = ::heddle::bundle::Scores;
  constexpr float log2e = 1.44269504088896341f, ln2 = 0.693147180559945309f;
  const bool asksRow = scores.uses(Input::Query),
             asksKey = scores.uses(Input::Key);
  Value scale = v.mulf(from.factor, v.real(ln2));
  float factorLeft = 1;
  auto type = from.fragment.getType();
  Values inputs = {from.fragment};
  if (asksRow)
    inputs.push_back(rowPositions);
  // A warpgroup that has rows of several heads has a head for each row.
  const bool asksHead = batch && scores.uses(Input::Head);
  if (asksHead)
    inputs.push_back(
        v.map(v.fragment(1, v.i32()), {}, [&](ValueRange, Value row, Value) {
          return v.add(head, packed ? v.remainder(v.add(row, firstRow), packed)
                                    : v.quotient(row, rowsTogether()));
        }));
  auto scored = [&](ValueRange element, Value key) {
    MapScores target(v.b);
    ScoredPair pair;
    pair.product = element[0];
    pair.scale = scale;
    pair.head = asksHead ? element[asksRow ? 2 : 1] : head;
    if (asksRow)
      pair.query = element[1];
    pair.key = key;
    ScoredLogit result = emitScores(target, scores, pair);
    factorLeft = result.factor;
    return result.value;
  };
  Value result;
  if (asksKey)
    result = mapKeys(type, inputs, pass, keys, scored);
  else
    result = v.map(type, inputs, [&](ValueRange element, Value, Value) {
      return scored(element, {});
    });
  return {result, v.real(factorLeft * log2e)};
}
