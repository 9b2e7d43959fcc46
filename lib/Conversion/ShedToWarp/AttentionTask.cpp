//===- AttentionTask.cpp - What a kernel of attention knows ---------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionTask.h"

#include "bundle/abi/Abi.h"
#include "heddle/Conversion/ScoreLowering.h"
#include "heddle/Support/ScoreRegion.h"

#include <limits>

using namespace mlir;
using namespace mlir::heddle;
using arith::CmpFPredicate;
using arith::CmpIPredicate;
namespace abi = ::heddle::abi;

using Values = NVVMBuilder::Values;

/// What the function in front of a softmax gives, if there is one.
static std::optional<ScoreBounds> boundsBefore(Value logits) {
  while (auto mask = logits.getDefiningOp<shed::MaskOp>())
    logits = mask.getLogits();
  auto scores = logits.getDefiningOp<shed::ScoresOp>();
  return scores ? boundsOf(scoresOf(scores.getBody())) : std::nullopt;
}

/// Whether functions bound all logits of an attention kernel so far that
/// weights are their powers as they are: nothing is gained where they are
/// relative to a row's maximum. bf16 has the exponents for such weights, f16
/// has not.
static bool boundsLogits(shed::KernelOp kernel) {
  // Sums of 2^31 weights times values up to 2^16 are below 2^127, still.
  constexpr double log2e = 1.4426950408889634, most = 80 / log2e;
  if (!kernel.getElement().isBF16())
    return false;
  return !kernel
              .walk([&](shed::SoftmaxUpdateOp op) {
                std::optional<ScoreBounds> bounds =
                    boundsBefore(op.getLogits());
                return bounds && bounds->low >= -most && bounds->high <= most
                           ? WalkResult::advance()
                           : WalkResult::interrupt();
              })
              .wasInterrupted();
}

//===----------------------------------------------------------------------===//
// What has a form
//===----------------------------------------------------------------------===//

AttentionTask::AttentionTask(shed::KernelOp kernel)
    : WarpTask(kernel),
      taskRows(sharedLists ? shed::sharedTaskRows(kernel.getRowsInStep(),
                                                  tiling.getQueryRows())
                           : tiling.getQueryRows()),
      bounded(boundsLogits(kernel)), writesLse(kernel.getWritesLse()),
      hasLists(kernel.hasLists()), comparesRows(kernel.comparesRows()) {
  queryRows = isPersistent() ? tiling.getQueryRows() : warp::warpgroupRows;
  setTiles(tileKeys, tileParts);
  auto add = [&](Attribute set) {
    if (auto keys = dyn_cast_or_null<shed::KeySet>(set);
        keys && !keys.isUniform())
      rowSets.insert(set);
  };
  kernel.walk([&](Operation *op) {
    if (auto loop = dyn_cast<shed::ForKeysOp>(op)) {
      if (auto some = shed::entriesOf(loop.getOver()))
        entries = some;
      add(loop.getOver());
    } else if (auto mask = dyn_cast<shed::MaskOp>(op)) {
      add(mask.getWithinAttr());
      llvm::for_each(mask.getOutside(), add);
    } else if (auto load = dyn_cast<shed::LoadQueriesOp>(op);
               load && !queries) {
      queries = load;
    }
  });
}

std::unique_ptr<WarpTask>
mlir::heddle::makeAttentionTask(shed::KernelOp kernel) {
  return std::make_unique<AttentionTask>(kernel);
}

LogicalResult AttentionTask::verifyForm() {
  if (kernel.getKind() != shed::KernelKind::Attention)
    return kernel.emitOpError("has no form for warpgroups, which have kernels "
                              "of attention and selection");
  StringRef over = "all";
  if (entries)
    over = entries->blockKeys ? "blocks" : "list";
  if (failed(verifyRule(over)))
    return failure();
  if (kernel.getPerLayer())
    return kernel.emitOpError(
        "has no form for warpgroups: heads that share lists are to share keys, "
        "and a layer's do not");
  if (!taskRows)
    return kernel.emitOpError()
           << "has no form for warpgroups: heads share lists for groups of "
           << kernel.getRowsInStep()
           << " rows; they are to be 16, 32 or a multiple of 64";
  if (tiling.getCheckSums() && !shed::hasSumsToCheck(kernel))
    return kernel.emitOpError(
        "has no form for warpgroups: check_sums is for kernels that write no "
        "log-sum-exps and have no functions of logits; leave it out");
  return failure(kernel
                     .walk([&](shed::ForKeysOp loop) {
                       return failed(verifyForm(loop)) ? WalkResult::interrupt()
                                                       : WalkResult::advance();
                     })
                     .wasInterrupted());
}

LogicalResult AttentionTask::verifyForm(shed::ForKeysOp loop) {
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
  if (tiling.getTailKeys() && (!entries || entries->blockKeys))
    return refuse("a tail is a list's of keys, and this is none; leave out "
                  "tail_keys");
  if (!entries)
    return success();
  if (entries->blockKeys % tiling.getKeys())
    return refuse("tiles of " + Twine(tiling.getKeys()) +
                  " keys do not divide blocks of " + Twine(entries->blockKeys));
  // A block has one list.
  if (!sharedLists && entries->group % taskRows)
    return refuse("a block has " + Twine(taskRows) +
                  " rows, which do not divide its list's groups of " +
                  Twine(entries->group));
  if (tiling.getKeyShares() > 1)
    return refuse("blocks divide keys among them where there are no lists");
  if (!entries->blockKeys && tiling.getTma())
    return refuse("tensor maps bring consecutive keys, not those of a list");
  if (!entries->blockKeys && encoding == shed::Encoding::Bitmap)
    return refuse("keys of a bitmap are not read one by one");
  return success();
}

//===----------------------------------------------------------------------===//
// The block's rows
//===----------------------------------------------------------------------===//

Operation *AttentionTask::open() {
  WarpBuilder v(kernel.getLoc(), kernel.getContext());
  EntryFacts facts;
  // So many of a cluster's rows for each of its blocks.
  facts.queryRows = taskRows / tiling.getKeyShares();
  Values arguments = v.openEntry(kernel, kernel.getSymName(),
                                 {v.global(), v.global(), v.i64()}, facts);
  Operation *function = v.b.getInsertionBlock()->getParentOp();
  v.describePipeline(tiling);
  args =
      v.at(arguments[0], v.mul(v.widenUnsigned(v.blockId(NVVMBuilder::Axis::Z)),
                               int64_t(sizeof(abi::AttentionArgs))));
  loadArguments(v);
  if (isPersistent())
    openTasks(v);
  else
    openTile(v, Value(), Value());
  v.closeEntry();
  return function;
}

/// What all tiles of a sequence have in common.
void AttentionTask::loadArguments(WarpBuilder &v) {
  auto word = [&](size_t offset) {
    return v.narrow(field(v, v.i64(), offset));
  };
  auto stride = [&](size_t offset) {
    return v.mul(field(v, v.i64(), offset), 2);
  };
  n = word(offsetof(abi::AttentionArgs, n));
  rows = word(offsetof(abi::AttentionArgs, rows));
  if (tiling.getPacked())
    packed = word(offsetof(abi::AttentionArgs, kvGroup));
  if (tiling.getTma()) {
    Value maps = field(v, v.global(), offsetof(abi::AttentionArgs, tileMaps));
    keyMap = v.at(maps, int64_t(offsetof(abi::TileMaps, key)));
    valueMap = v.at(maps, int64_t(offsetof(abi::TileMaps, value)));
    if (isPersistent())
      queryMap = v.at(maps, int64_t(offsetof(abi::TileMaps, query)));
  }
  queryStride = stride(offsetof(abi::AttentionArgs, queryStride));
  keyStride = stride(offsetof(abi::AttentionArgs, keyStride));
  valueStride = stride(offsetof(abi::AttentionArgs, valueStride));
  outputStride = stride(offsetof(abi::AttentionArgs, outputStride));
  Value scale = field(v, v.f32(), offsetof(abi::AttentionArgs, scale));
  negative = v.compare(CmpFPredicate::OLT, scale, v.real(0.0f));
  Value magnitude = v.select(negative, v.negf(scale), scale);
  // Not quite zero: zero times a masked logit would be NaN.
  factor = v.maxf(v.mulf(magnitude, v.real(1.44269504088896341f)),
                  v.real(std::numeric_limits<float>::min()));
}

/// Blocks share out the tiles of rows of all heads, turn by turn, those of a
/// head one after the other, so that its keys stay in the cache. What a tile's
/// rows get does not depend on how many blocks there are, nor on how many of a
/// tile's warpgroups have rows. Blocks of a cluster take neighbouring tiles of
/// one head.
void AttentionTask::openTasks(WarpBuilder &v) {
  const int64_t cluster = tiling.getCluster();
  Value block = cluster > 1 ? v.clusterId() : v.blockId(NVVMBuilder::Axis::X);
  Value step = cluster > 1 ? v.clusters() : v.gridSize(NVVMBuilder::Axis::X);
  Value heads = field(v, v.i32(), offsetof(abi::AttentionArgs, heads));
  const int64_t together = taskRows * cluster;
  // Groups of lists are of a sequence's places, of which some have rows, if
  // any.
  Value places = rows;
  if (hasLists)
    places =
        v.select(v.compare(CmpIPredicate::sgt, rows, int64_t(0)), n, v.word(0));
  Value ofHead = v.quotient(v.add(places, together - 1), together);
  std::optional<ShortTiles> shorter;
  if (hasShortTiles())
    shorter = findShortTiles(v, heads, step, ofHead);
  Value tasks = shorter ? shorter->tasks : v.mul(heads, ofHead);
  Value left = v.greatest(v.sub(tasks, block), v.word(0));
  Value turns = v.quotient(v.add(left, v.add(step, -1)), step);
  v.loop(v.word(0), turns, 1, [&](Value turn) {
    Value own = v.add(block, v.mul(turn, step));
    auto tileOf = [&](Value number, Value ofHead) {
      head = v.quotient(number, ofHead);
      return v.sub(number, v.mul(head, ofHead));
    };
    tileRows = v.word(taskRows);
    Value first;
    if (!shorter) {
      first = v.mul(tileOf(own, ofHead), together);
    } else {
      // Of a head they come behind the others.
      Value isShort = v.compare(CmpIPredicate::sge, own, shorter->before);
      Value tile =
          tileOf(v.select(isShort, v.sub(own, shorter->before), own),
                 v.select(isShort, shorter->ofHead, shorter->othersOfHead));
      tileRows = v.select(isShort, v.word(shortRows()), tileRows);
      first = v.add(
          v.mul(v.select(isShort, shorter->othersOfHead, tile), together),
          v.select(isShort, v.mul(tile, shortRows() * cluster), v.word(0)));
    }
    listRow = head;
    openTile(v, first,
             cluster > 1 ? v.both(v.blockId(NVVMBuilder::Axis::X), cluster - 1)
                         : Value());
  });
}

/// Which tiles have rows for all warpgroups but one, so that the last turn's
/// blocks do not stand still while others still compute (wave quantization): a
/// tile takes as long as it has warpgroups with rows.
///
/// 4,096 rows of 32 heads are of 64 warpgroups each, 11 tasks of a cluster's 6:
/// 352 for 66 clusters are 6 turns, which could have 36 of a cluster's
/// warpgroups and have 31. So two turns may be short: each head has 8 tasks of
/// 6 and 4 of 4, and the clusters 4 turns of the former and 2 of the latter.
AttentionTask::ShortTiles AttentionTask::findShortTiles(WarpBuilder &v,
                                                        Value heads, Value step,
                                                        Value ofHead) {
  const int64_t cluster = tiling.getCluster(),
                most = cluster * tiling.getConsumers();
  auto inPieces = [&](Value count, Value of) {
    return v.quotient(v.add(count, v.add(of, -1)), of);
  };
  Value warpgroups = inPieces(rows, v.word(warp::warpgroupRows));
  Value turns = inPieces(v.mul(heads, ofHead), step);
  Value unused =
      v.sub(v.mul(v.mul(turns, step), most), v.mul(heads, warpgroups));
  Value shortTurns = v.least(v.quotient(unused, v.mul(step, cluster)), turns);
  // Of each head as many.
  Value some = v.quotient(v.mul(shortTurns, step), heads);
  Value others = inPieces(
      v.greatest(v.sub(warpgroups, v.mul(some, most - cluster)), v.word(0)),
      v.word(most));
  // No more than have rows.
  some = v.least(
      some,
      inPieces(v.greatest(v.sub(warpgroups, v.mul(others, most)), v.word(0)),
               v.word(most - cluster)));
  // In a batch the next sequence's blocks fill what one's last turn leaves.
  Value gains = v.both(v.compare(CmpIPredicate::eq,
                                 v.gridSize(NVVMBuilder::Axis::Z), int64_t(1)),
                       v.compare(CmpIPredicate::sle, v.mul(heads, others),
                                 v.mul(v.sub(turns, shortTurns), step)));
  some = v.select(gains, some, v.word(0));
  others = v.select(gains, others, ofHead);
  ShortTiles result;
  result.before = v.mul(heads, others);
  result.tasks = v.add(result.before, v.mul(heads, some));
  result.othersOfHead = others;
  result.ofHead = some;
  return result;
}

/// Of the rows of this block's tile. A persistent one's is number `which`, if
/// not 0, of its cluster's, whose rows begin at `first`.
void AttentionTask::openTile(WarpBuilder &v, Value first, Value which) {
  if (isPersistent()) {
    tileStart = which ? v.add(first, v.mul(which, tileRows)) : first;
    task = v.quotient(tileStart, taskRows);
  } else {
    task = v.blockId(NVVMBuilder::Axis::X);
    listRow = head = v.blockId(NVVMBuilder::Axis::Y);
    if (sharedLists)
      findTask(v);
    if (tiling.getKeyShares() > 1) {
      share = v.remainder(task, tiling.getKeyShares());
      task = v.quotient(task, tiling.getKeyShares());
    }
    tileStart = v.mul(task, taskRows);
    tileRows = v.word(taskRows);
  }
  findRows(v);
  clusterRows = {taskRow, taskEnd};
  if (which)
    clusterRows = {
        first,
        v.least(v.add(first, v.mul(tileRows, tiling.getCluster())), rows)};
  findHead(v);
  if (hasShortTiles())
    warp::IdleOp::create(v.b, v.compare(CmpIPredicate::sge, firstRow, taskEnd));
  moveBody(v);
  if (!queries)
    return;
  // While the queries are on their way.
  OpBuilder::InsertionGuard guard(v.b);
  v.b.setInsertionPointAfter(queries);
  findRowKeys(v);
}

/// Gives the blocks of a row of heads that share lists their tasks, one after
/// the other, and the warpgroups of a task to as many blocks as it needs. No
/// more than there are: `taskRows` rows of a head are one block's at most.
void AttentionTask::findTask(WarpBuilder &v) {
  sharers = v.narrow(field(v, v.i64(),
                           offsetof(abi::AttentionArgs, lists) +
                               entries->index * sizeof(abi::IndexList) +
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
void AttentionTask::findRows(WarpBuilder &v) {
  taskRow = tileStart;
  Value end = packed ? v.mul(rows, packed) : rows;
  if (hasLists) {
    // No tile lies behind the last place.
    if (!isPersistent())
      v.returnIf(v.compare(CmpIPredicate::sge, tileStart, n));
    Values range = v.rowsOfTask(
        field(v, v.global(), offsetof(abi::AttentionArgs, firstRow)), task,
        tileStart, rows);
    taskRow = range[0];
    end = range[1];
  }
  if (isPersistent()) {
    // Blocks of a cluster, which has no lists, bring each other's tiles.
    if (hasLists)
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
  taskEnd = v.least(v.add(taskRow, tileRows), end);
  if (active)
    warp::ActiveOp::create(v.b, active);
}

/// The keys' head, the rows of this warpgroup, and of which heads they are.
void AttentionTask::findHead(WarpBuilder &v) {
  Value kvHead = head;
  if (packed) {
    head = v.mul(kvHead, packed);
    batch = packed;
  } else {
    kvHead = v.quotient(
        sharers ? v.mul(listRow, sharers) : head,
        v.narrow(field(v, v.i64(), offsetof(abi::AttentionArgs, kvGroup))));
  }
  keyBase = ofHead(v, offsetof(abi::AttentionArgs, key), kvHead);
  valueBase = ofHead(v, offsetof(abi::AttentionArgs, value), kvHead);
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
  queryBase = ofHead(v, offsetof(abi::AttentionArgs, query), head);
  outputBase = ofHead(v, offsetof(abi::AttentionArgs, output), head);
  if (writesLse)
    lseBase = v.at(field(v, v.global(), offsetof(abi::AttentionArgs, lse)),
                   v.mul(v.mul(v.widen(head), v.widen(rows)), 4));
}

//===----------------------------------------------------------------------===//
// Positions, and what rows have of sets that differ by row
//===----------------------------------------------------------------------===//

/// Of each key, or null where key j stands at j.
Value AttentionTask::positions(WarpBuilder &v) const {
  return field(v, v.global(), offsetof(abi::AttentionArgs, position));
}

/// Where row `row` (i32) of tiles stands in the sequence.
Value AttentionTask::positionOf(WarpBuilder &v, Value row) const {
  row = sequenceRow(v, row);
  for (size_t offset : {offsetof(abi::AttentionArgs, place),
                        offsetof(abi::AttentionArgs, position)}) {
    Value list = field(v, v.global(), offset);
    row = v.choose(
        v.isNull(list), v.i32(), [&]() -> Values { return {row}; },
        [&]() -> Values {
          return {v.loadConstant(v.i32(), v.at(list, v.mul(row, 4)), 4)};
        })[0];
  }
  return row;
}

/// What passes and masks ask of rows, before the first of them.
void AttentionTask::findRowKeys(WarpBuilder &v) {
  if (!rowSets.empty() || comparesRows)
    findRowPositions(v);
  for (Attribute set : rowSets)
    rowKeys[set] = rowKeysOf(v, cast<shed::KeySet>(set));
}

/// Where the warpgroup's rows stand, those behind the last one like it.
void AttentionTask::findRowPositions(WarpBuilder &v) {
  auto type = v.fragment(1, v.i32());
  Value last = lastBefore(v, taskEnd);
  rowPositions = v.map(type, {}, [&](ValueRange, Value row, Value) {
    Value own = hasBatch() ? v.remainder(row, rowsTogether()) : row;
    return sequenceRow(v, v.least(v.add(own, firstRow), last));
  });
  for (size_t offset : {offsetof(abi::AttentionArgs, place),
                        offsetof(abi::AttentionArgs, position)}) {
    Value list = field(v, v.global(), offset);
    rowPositions = v.choose(
        v.isNull(list), Type(type), [&]() -> Values { return {rowPositions}; },
        [&]() -> Values {
          return {warp::ReadOp::create(v.b, type, list, rowPositions, v.i32())};
        })[0];
  }
}

/// How many keys stand below each row's bound.
Value AttentionTask::countBelow(WarpBuilder &v, Value bounds) const {
  auto type = bounds.getType();
  Value list = positions(v);
  bounds = v.map(type, bounds, [&](ValueRange element, Value, Value) {
    return v.greatest(element[0], v.word(0));
  });
  return v.choose(
      v.isNull(list), type,
      [&]() -> Values {
        return {v.map(type, bounds, [&](ValueRange element, Value, Value) {
          return v.least(element[0], n);
        })};
      },
      [&]() -> Values {
        return {warp::CountBelowOp::create(v.b, type, list, n, bounds)};
      })[0];
}

RowKeys AttentionTask::rowKeysOf(WarpBuilder &v, shed::KeySet set) const {
  shed::PairArithmetic a = positionArithmetic(v, args);
  auto below = [&](const shed::PositionRange &range) -> KeyRange {
    return {range.begin ? placesBelow(v, positions(v), n, range.begin)
                        : v.word(0),
            range.end ? placesBelow(v, positions(v), n, range.end) : n};
  };
  RowKeys result;
  Value last = lastBefore(v, clusterRows.end);
  result.some = below(set.getKeys(
      a, positionOf(v, v.least(clusterRows.first, last)), positionOf(v, last)));
  last = lastBefore(v, taskEnd);
  Value first = positionOf(v, v.least(firstRow, last)),
        end = positionOf(v, v.least(v.add(firstRow, rowsTogether() - 1), last));
  result.own = below(set.getKeys(a, first, end));
  if (set.hasGaps())
    return result;
  result.all = below(set.getCommonKeys(a, first, end));
  Type column = rowPositions.getType();
  auto bounds = [&](Value shed::PositionRange::*bound) {
    return countBelow(
        v, v.map(column, rowPositions, [&](ValueRange element, Value, Value) {
          Value at = set.getKeys(a, element[0], element[0]).*bound;
          return at ? at : v.word(0); // begins at the first key
        }));
  };
  result.first = bounds(&shed::PositionRange::begin);
  result.length =
      v.map(column, {bounds(&shed::PositionRange::end), result.first},
            [&](ValueRange element, Value, Value) {
              return v.sub(element[0], element[1]);
            });
  return result;
}

void AttentionTask::setTiles(int64_t keys, int64_t parts) {
  tileKeys = keys;
  tileParts = parts;
  // Where no maximum asks for all of a tile's logits before.
  logitParts = bounded ? parts : 1;
  logitColumns = keys / logitParts;
}

std::unique_ptr<WarpTask>
AttentionTask::splitTail(Operation *function,
                         SmallVectorImpl<Operation *> &loops) const {
  if (!tiling.getTailKeys())
    return nullptr;
  function->walk([&](shed::ForKeysOp loop) {
    OpBuilder b(loop->getContext());
    b.setInsertionPointAfter(loop);
    auto clone = cast<shed::ForKeysOp>(b.clone(*loop));
    loop.getResult().replaceAllUsesWith(clone.getResult());
    clone.getInitMutable().assign(loop.getResult());
    loops.push_back(clone);
  });
  auto tail = std::make_unique<AttentionTask>(*this);
  tail->isTail = true;
  tail->setTiles(tiling.getTailKeys(), /*parts=*/1);
  return tail;
}

void AttentionTask::populate(WarpPatterns patterns) const {
  populateKeyPatterns(patterns, *this);
  populateLogitPatterns(patterns, *this);
  populateSoftmaxPatterns(patterns, *this);
}
