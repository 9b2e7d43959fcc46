//===- SpecializeRoles.cpp - Divide a kernel's warps by what they do ------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Warp/Transforms/Passes.h"

#include "Loops.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::warp {
#define GEN_PASS_DEF_WARPSPECIALIZEROLES
#include "heddle/Dialect/Warp/Transforms/Passes.h.inc"
} // namespace mlir::warp

using namespace mlir;
using namespace mlir::warp;

namespace {

/// A loop over tiles, with its loads in order. Those in the same place of all
/// loops have their tiles in one ring, or all of them have.
struct Pass {
  scf::ForOp loop;
  SmallVector<LoadOp> loads;
};

/// The tiles of the loops before the one at hand: tile numbers go on counting.
class TilesBefore {
public:
  /// `count`: those of the turns before, or null.
  explicit TilesBefore(Value count) : count(count) {}

  /// The number of the tile at hand.
  Value number(OpBuilder &b, Location loc, Value induction) const {
    return count ? arith::AddIOp::create(b, loc, induction, count).getResult()
                 : induction;
  }
  /// Adds the `end` ones of a loop, behind it.
  void add(OpBuilder &b, scf::ForOp loop, Value end) {
    Value tiles =
        arith::MaxSIOp::create(b, loop.getLoc(), end, loop.getLowerBound());
    count =
        count
            ? arith::AddIOp::create(b, loop.getLoc(), count, tiles).getResult()
            : tiles;
  }
  Value all() const { return count; }

private:
  Value count;
};

class Specializer {
public:
  Specializer(LLVM::LLVMFuncOp function, PipelineAttr pipeline)
      : function(function), pipeline(pipeline), b(function.getContext()) {}

  LogicalResult run() {
    if (failed(findPasses()) || failed(findActive()) || failed(findIdle()))
      return failure();
    makeRings();
    divide();
    if (turns)
      countTiles();
    fillRings();
    readRings();
    placeTiles();
    function->removeAttr(pipelineName);
    return success();
  }

private:
  LogicalResult findPasses();
  LogicalResult findActive();
  LogicalResult findIdle();
  LogicalResult verifyTurns();
  void makeRings();
  void divide();
  void countTiles();
  void fillRings();
  void need(Value value);
  void acquireMaps();
  void produce(Block &block, Value tile, TilesBefore &before);
  void produceTurns(TilesBefore &before);
  void producePass(Pass &pass, TilesBefore &before);
  void fillRing(LoadOp load, RingOp ring, Value tile);
  void readRings();
  void readRing(LoadOp load, RingOp ring, Value tile);
  void passTiles(scf::ForOp loop, TilesBefore &before);
  void meetWarp(Location loc);
  Operation *lastWait(Value tile);
  void placeTiles();

  RingOp ringOf(LoadOp load);
  /// The number in its ring of the tile that a load, in this place of its loop,
  /// has in turn `turn` (i32).
  Value numberIn(Location loc, size_t place, Value turn) {
    if (ringsOfTiles().size() == rings.size())
      return turn;
    auto word = [&](size_t value) {
      return arith::ConstantIntOp::create(b, loc, static_cast<int64_t>(value),
                                          32);
    };
    return arith::AddIOp::create(
        b, loc, arith::MulIOp::create(b, loc, turn, word(rings.size())),
        word(place));
  }
  /// The same of a load, which may be one of a turn of the outer loop.
  Value numberOf(LoadOp load, Value turn) {
    for (Pass &pass : passes)
      if (auto at = llvm::find(pass.loads, load); at != pass.loads.end())
        return numberIn(load.getLoc(),
                        static_cast<size_t>(at - pass.loads.begin()), turn);
    return turn;
  }
  /// The rings of loads of loops over tiles, each once.
  ArrayRef<RingOp> ringsOfTiles() {
    return ArrayRef(rings).take_front(pipeline.getOneRing() ? 1 : rings.size());
  }
  /// All rings.
  SmallVector<RingOp> all() {
    SmallVector<RingOp> list = turnRings;
    llvm::append_range(list, ringsOfTiles());
    return list;
  }

  /// The op in the function's block that is, or has, the loops over tiles.
  Operation *outermost() {
    return turns ? turns.getOperation() : passes.front().loop.getOperation();
  }

  /// The first op of the level in the function's block, or the loop.
  Operation *firstOp() {
    for (Operation &op : *outermost()->getBlock())
      if (isa<WarpDialect>(op.getDialect()) || &op == outermost())
        return &op;
    return nullptr;
  }

  /// Whether tiles are fetched by tensor maps, and how many blocks share them.
  int64_t cluster() {
    return passes.front().loads.front().getMap() ? pipeline.getCluster() : 0;
  }
  int64_t threads() const {
    return warpgroupThreads * (1 + pipeline.getConsumers());
  }

  LLVM::LLVMFuncOp function;
  PipelineAttr pipeline;
  OpBuilder b;
  RolesOp roles;
  SmallVector<Pass> passes;
  scf::ForOp turns;              ///< a loop around those over tiles, or null
  SmallVector<LoadOp> turnLoads; ///< that are brought once a turn
  Value active;                  ///< how many warpgroups compute, or null: all
  Value idle;                    ///< which leave out a turn's tiles, or null
  SmallVector<RingOp> rings, turnRings;
  SetVector<Operation *> needed; ///< by the producer, of the consumers' ops
  IRMapping mapping;             ///< to what the producer has
  int64_t bytes = 0;             ///< of shared memory, taken so far
};

} // namespace

/// Whether the loop is around another one that loads.
static bool isAround(scf::ForOp loop) {
  return loop.getBody()
      ->walk([&](LoadOp load) {
        auto inner = load->getParentOfType<scf::ForOp>();
        return inner == loop ? WalkResult::advance() : WalkResult::interrupt();
      })
      .wasInterrupted();
}

/// Some of the warpgroups that compute may be all that have work. The others
/// end at once, so nothing may wait for them.
LogicalResult Specializer::findActive() {
  auto op = dyn_cast<ActiveOp>(firstOp());
  if (op) {
    active = op.getCount();
    op.erase();
  }
  WalkResult walked = function.walk([&](Operation *op) {
    if (isa<ActiveOp>(op)) {
      op->emitOpError("does not come before all other ops of its level");
      return WalkResult::interrupt();
    }
    if (active && isa<MeetOp, MeetClusterOp, SpaceOp>(op)) {
      op->emitOpError("waits for all warpgroups, of which only some have work");
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  if (walked.wasInterrupted())
    return failure();
  if (active && pipeline.getCluster() > 1)
    return function.emitOpError("has blocks that are to share tiles, and "
                                "warpgroups without work");
  return success();
}

LogicalResult Specializer::findIdle() {
  SmallVector<IdleOp> found;
  function.walk([&](IdleOp op) { found.push_back(op); });
  for (IdleOp op : found) {
    if (idle)
      return op.emitOpError("is there twice; state it once");
    if (!turns || op->getBlock() != turns.getBody() ||
        !op->isBeforeInBlock(passes.front().loop))
      return op.emitOpError("is not in a loop of turns, in front of its loops "
                            "over tiles");
    idle = op.getWhether();
    op.erase();
  }
  for (Pass &pass : passes)
    if (idle && pass.loop
                    .walk([](Operation *op) {
                      return isa<MeetOp, MeetClusterOp>(op)
                                 ? WalkResult::interrupt()
                                 : WalkResult::advance();
                    })
                    .wasInterrupted())
      return pass.loop.emitOpError("has warpgroups meet in it, of which some "
                                   "are idle");
  return success();
}

/// Whether the tiles of `load` have room in the ring of `first`. A fetch brings
/// whole ones.
static bool canFollow(LoadOp load, LoadOp first) {
  TileType tile = load.getResult().getType(),
           room = first.getResult().getType();
  return load.getMap() ? tile == room : room.hasRoomFor(tile);
}

LogicalResult Specializer::findPasses() {
  WalkResult walked = function.walk([&](LoadOp load) {
    auto loop = dyn_cast<scf::ForOp>(load->getParentOp());
    if (!loop)
      return WalkResult::advance();
    if (load->use_empty()) {
      load.emitOpError("brings a tile that nothing reads");
      return WalkResult::interrupt();
    }
    if (isAround(loop)) {
      if (pipeline.getTurnStages())
        turnLoads.push_back(load);
      return WalkResult::advance();
    }
    if (passes.empty() || passes.back().loop != loop)
      passes.push_back({loop, {}});
    passes.back().loads.push_back(load);
    Pass &first = passes.front();
    const size_t place = passes.back().loads.size() - 1;
    if (place >= first.loads.size() ||
        !canFollow(load, first.loads[pipeline.getOneRing() ? 0 : place])) {
      load.emitOpError("has no load of such a tile, or of one of more rows "
                       "that threads copy, in its place of the first loop; the "
                       "loops of a kernel share rings");
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  if (walked.wasInterrupted())
    return failure();
  if (passes.empty())
    return function.emitOpError("has no loop with loads to be made a pipeline");
  SmallVector<LoadOp> loads = turnLoads;
  for (Pass &pass : passes)
    loads.append(pass.loads);
  for (LoadOp load : loads)
    if (!load.getMap() != !passes.front().loads.front().getMap())
      return load.emitOpError(
          "differs from the loads of other rings in whether a tensor map is "
          "there; one thread fetches, or all copy");
  if (pipeline.getCluster() > 1 && !cluster())
    return function.emitOpError(
        "has blocks that are to share tiles, which need tensor maps");
  for (Pass &pass : passes) {
    scf::ForOp loop = pass.loop;
    if (!loop.getInductionVar().getType().isInteger(32) ||
        !countsFromZero(loop))
      return loop.emitOpError(
          "does not count tiles: it does not go from 0 by 1 in i32");
    if (loop->getBlock() != passes.front().loop->getBlock() ||
        pass.loads.size() != passes.front().loads.size())
      return loop.emitOpError("differs from the first loop with loads in its "
                              "block, or in how many loads it has");
  }
  return verifyTurns();
}

/// A loop around those over tiles is known by its count.
LogicalResult Specializer::verifyTurns() {
  scf::ForOp loop = passes.front().loop;
  turns = dyn_cast<scf::ForOp>(loop->getParentOp());
  if (!turns) {
    if (pipeline.getTurnStages())
      return loop.emitOpError("is in no loop of turns, for which the pipeline "
                              "has stages");
    return success();
  }
  if (!turns.getInductionVar().getType().isInteger(32) ||
      !countsFromZero(turns) || turns.getNumResults() ||
      isa<scf::ForOp>(turns->getParentOp()))
    return turns.emitOpError("does not count turns: it does not go from 0 by 1 "
                             "in i32, carries values or is in another loop");
  for (LoadOp load : turnLoads)
    if (load->getParentOp() != turns)
      return load.emitOpError("is in another loop than that of turns");
  return success();
}

/// Makes the rings before everything that computes.
void Specializer::makeRings() {
  Pass &pass = passes.front();
  b.setInsertionPoint(firstOp());
  auto make = [&](LoadOp load, int64_t stages, int64_t blocks) {
    auto type = RingType::get(b.getContext(), stages,
                              load.getResult().getType(), blocks);
    return RingOp::create(b, load.getLoc(), type, active, /*offset=*/0,
                          /*barriers=*/0,
                          /*writers=*/type.isFetched() ? 1 : warpgroupThreads,
                          /*readers=*/4 * pipeline.getConsumers() *
                              std::max<int64_t>(blocks, 1));
  };
  // What is loaded once a turn is a block's own.
  for (LoadOp load : turnLoads)
    turnRings.push_back(
        make(load, pipeline.getTurnStages(), std::min<int64_t>(cluster(), 1)));
  for (LoadOp load : pass.loads)
    rings.push_back(pipeline.getOneRing() && !rings.empty()
                        ? rings.front()
                        : make(load, pipeline.getStages(), cluster()));
  if (pipeline.getOneRing())
    rings.front().setLoads(static_cast<int64_t>(rings.size()));
  roles = RolesOp::create(b, function.getLoc(), active, pipeline.getConsumers(),
                          pipeline.getProducerRegisters(),
                          pipeline.getConsumerRegisters(), cluster(),
                          pipeline.getPingPong());
  roles.getProducer().emplaceBlock();
  roles.getConsumer().emplaceBlock().addArgument(b.getI32Type(),
                                                 function.getLoc());
}

/// Moves what computes to the consumers. What both sides need is before it.
void Specializer::divide() {
  Block *consumer = &roles.getConsumer().front();
  Block *block = roles->getBlock();
  consumer->getOperations().splice(consumer->end(), block->getOperations(),
                                   std::next(roles->getIterator()),
                                   std::prev(block->end()));
  SmallVector<WarpgroupOp> numbers;
  consumer->walk([&](WarpgroupOp op) { numbers.push_back(op); });
  for (WarpgroupOp op : numbers) {
    op.replaceAllUsesWith(consumer->getArgument(0));
    op.erase();
  }
}

/// Has the loop of turns carry how many tiles there were.
void Specializer::countTiles() {
  b.setInsertionPoint(turns);
  Value zero = arith::ConstantIntOp::create(b, turns.getLoc(), 0, 32);
  IRRewriter rewriter(b);
  auto counting = cast<scf::ForOp>(*turns.replaceWithAdditionalYields(
      rewriter, zero, /*replaceInitOperandUsesInLoop=*/false,
      [](OpBuilder &, Location, ArrayRef<BlockArgument> carried) {
        return SmallVector<Value>(carried.begin(), carried.end());
      }));
  turns = counting;
}

RingOp Specializer::ringOf(LoadOp load) {
  if (auto at = llvm::find(turnLoads, load); at != turnLoads.end())
    return turnRings[at - turnLoads.begin()];
  for (Pass &pass : passes)
    if (auto at = llvm::find(pass.loads, load); at != pass.loads.end())
      return rings[at - pass.loads.begin()];
  return {};
}

/// Notes the op that gives `value`, and what that needs, of those that the
/// producer computes again: outside of loops, in a turn or in a loop over
/// tiles.
void Specializer::need(Value value) {
  Operation *op = value.getDefiningOp();
  auto isProduced = [&](Block *block) {
    return block == &roles.getConsumer().front() ||
           (turns && block == turns.getBody()) ||
           llvm::any_of(passes, [&](Pass &pass) {
             return block == pass.loop.getBody();
           });
  };
  while (op && !isProduced(op->getBlock()))
    op = op->getParentOp();
  if (!op || !needed.insert(op))
    return;
  op->walk([&](Operation *each) {
    for (Value operand : each->getOperands())
      need(operand);
  });
}

/// Writes the producer: the loops with what the loads' places follow from.
void Specializer::fillRings() {
  SmallVector<LoadOp> loads = turnLoads;
  for (Pass &pass : passes) {
    loads.append(pass.loads);
    for (Value bound : {pass.loop.getLowerBound(), pass.loop.getUpperBound(),
                        pass.loop.getStep()})
      need(bound);
  }
  if (turns)
    for (Value bound : {turns.getLowerBound(), turns.getUpperBound(),
                        turns.getStep(), turns.getInitArgs().front()})
      need(bound);
  for (LoadOp load : loads)
    for (Value operand : load->getOperands())
      need(operand);
  b.setInsertionPointToStart(&roles.getProducer().front());
  TilesBefore before{Value()};
  produce(roles.getConsumer().front(), Value(), before);
  if (cluster() < 2)
    return;
  b.setInsertionPointToEnd(&roles.getProducer().front());
  for (RingOp ring : ringsOfTiles())
    DrainOp::create(b, ring.getLoc(), ring,
                    numberIn(ring.getLoc(), 0, before.all()));
}

/// Writes what the producer does of a block of the consumers, whose tile is
/// number `tile`.
void Specializer::produce(Block &block, Value tile, TilesBefore &before) {
  for (Operation &op : block) {
    if (&op == outermost())
      acquireMaps();
    auto pass =
        llvm::find_if(passes, [&](Pass &pass) { return pass.loop == &op; });
    auto load = dyn_cast<LoadOp>(op);
    if (turns && &op == turns)
      produceTurns(before);
    else if (pass != passes.end())
      producePass(*pass, before);
    else if (load && ringOf(load))
      fillRing(load, ringOf(load), numberOf(load, tile));
    else if (needed.contains(&op))
      b.clone(op, mapping);
  }
}

void Specializer::acquireMaps() {
  SetVector<Value> maps;
  for (LoadOp load : turnLoads)
    maps.insert(load.getMap());
  for (Pass &pass : passes)
    for (LoadOp load : pass.loads)
      maps.insert(load.getMap());
  for (Value map : maps)
    if (map)
      AcquireMapOp::create(b, map.getLoc(), mapping.lookupOrDefault(map));
}

void Specializer::produceTurns(TilesBefore &before) {
  auto at = [&](Value value) { return mapping.lookupOrDefault(value); };
  auto loop = scf::ForOp::create(b, turns.getLoc(), at(turns.getLowerBound()),
                                 at(turns.getUpperBound()), at(turns.getStep()),
                                 at(turns.getInitArgs().front()));
  mapping.map(turns.getInductionVar(), loop.getInductionVar());
  b.setInsertionPointToStart(loop.getBody());
  TilesBefore inTurn(loop.getRegionIterArg(0));
  produce(*turns.getBody(), loop.getInductionVar(), inTurn);
  b.setInsertionPointToEnd(loop.getBody());
  scf::YieldOp::create(b, loop.getLoc(), inTurn.all());
  b.setInsertionPointAfter(loop);
  before = TilesBefore(loop.getResult(0));
}

void Specializer::producePass(Pass &pass, TilesBefore &before) {
  auto at = [&](Value value) { return mapping.lookupOrDefault(value); };
  auto loop = scf::ForOp::create(
      b, pass.loop.getLoc(), at(pass.loop.getLowerBound()),
      at(pass.loop.getUpperBound()), at(pass.loop.getStep()));
  mapping.map(pass.loop.getInductionVar(), loop.getInductionVar());
  b.setInsertionPointToStart(loop.getBody());
  Value tile = before.number(b, loop.getLoc(), loop.getInductionVar());
  produce(*pass.loop.getBody(), tile, before);
  b.setInsertionPointAfter(loop);
  if (turns || cluster() > 1 || &pass != &passes.back())
    before.add(b, loop, loop.getUpperBound());
}

void Specializer::fillRing(LoadOp load, RingOp ring, Value tile) {
  Location loc = load.getLoc();
  auto at = [&](Value value) { return mapping.lookupOrDefault(value); };
  if (load.getMap()) {
    FetchOp::create(b, loc, ring, tile, at(load.getMap()), at(load.getFirst()),
                    at(load.getColumn()));
    return;
  }
  Value into =
      AcquireOp::create(b, loc, load.getResult().getType(), ring, tile);
  CopyOp::create(b, loc, at(load.getBase()), at(load.getFirst()),
                 at(load.getStride()), at(load.getLimit()),
                 load.getRows() ? at(load.getRows()) : Value(), into);
  PublishOp::create(b, loc, ring, tile);
}

/// Lets the consumers read the rings.
void Specializer::readRings() {
  TilesBefore before(turns ? turns.getRegionIterArg(0) : Value());
  for (Pass &pass : passes) {
    b.setInsertionPointToStart(pass.loop.getBody());
    Value number =
        before.number(b, pass.loop.getLoc(), pass.loop.getInductionVar());
    SmallVector<Value> numbers;
    for (LoadOp load : pass.loads)
      numbers.push_back(numberOf(load, number));
    for (auto [load, ring, own] : llvm::zip(pass.loads, rings, numbers))
      readRing(load, ring, own);
    Value tiles = pass.loop.getUpperBound();
    b.setInsertionPointAfter(pass.loop);
    if (idle)
      passTiles(pass.loop, before);
    if (turns || &pass != &passes.back())
      before.add(b, pass.loop, tiles);
  }
  for (auto [load, ring] : llvm::zip(turnLoads, turnRings))
    readRing(load, ring, turns.getInductionVar());
  if (turns)
    turns.getBody()->getTerminator()->setOperand(0, before.all());
}

/// Has warpgroups that are idle compute no tile of the loop: they wait for all
/// of them and release them behind it, so that it has no branch.
void Specializer::passTiles(scf::ForOp loop, TilesBefore &before) {
  Location loc = loop.getLoc();
  b.setInsertionPoint(loop);
  Value all = loop.getUpperBound();
  Value own = arith::SelectOp::create(b, loc, idle, loop.getLowerBound(), all);
  loop.setUpperBound(own);
  b.setInsertionPointAfter(loop);
  auto passing = scf::ForOp::create(b, loc, own, all, loop.getStep());
  b.setInsertionPointToStart(passing.getBody());
  Value number = before.number(b, loc, passing.getInductionVar());
  SmallVector<Value> numbers;
  for (auto [place, ring] : llvm::enumerate(rings)) {
    numbers.push_back(numberIn(loc, place, number));
    AwaitOp::create(b, loc, ring.getType().getTile(), ring, numbers.back());
  }
  meetWarp(loc);
  for (auto [ring, own] : llvm::zip(rings, numbers))
    ReleaseOp::create(b, loc, ring, own);
  b.setInsertionPointAfter(passing);
}

/// One lane releases a stage for its warp, whose others may be behind: still at
/// the barrier of a tile whose phase would then be over. A wait for products
/// brings them together, too.
void Specializer::meetWarp(Location loc) {
  Value all = arith::ConstantIntOp::create(b, loc, -1, 32);
  NVVM::SyncWarpOp::create(b, loc, all);
}

/// A tile is there from right before its first use until right after the wait
/// for the last product that reads it.
void Specializer::readRing(LoadOp load, RingOp ring, Value number) {
  Operation *first = nullptr;
  for (Operation *user : load->getUsers()) {
    Operation *here = load->getBlock()->findAncestorOpInBlock(*user);
    if (!first || here->isBeforeInBlock(first))
      first = here;
  }
  b.setInsertionPoint(first);
  Value tile = AwaitOp::create(b, load.getLoc(), load.getResult().getType(),
                               ring, number);
  load.replaceAllUsesWith(tile);
  Operation *last = lastWait(tile);
  b.setInsertionPointAfter(last);
  if (!isa<WaitOp>(last))
    meetWarp(load.getLoc());
  ReleaseOp::create(b, load.getLoc(), ring, number);
  load.erase();
}

/// The op after which no product reads `tile`; without one, the last use.
Operation *Specializer::lastWait(Value tile) {
  Operation *last = tile.getDefiningOp();
  Block *block = last->getBlock();
  auto meet = [&](Operation *op) {
    op = block->findAncestorOpInBlock(*op);
    if (op && last->isBeforeInBlock(op))
      last = op;
  };
  for (Operation *user : tile.getUsers()) {
    meet(user);
    SmallVector<Operation *> next = {user};
    while (!next.empty())
      for (Operation *reader : next.pop_back_val()->getUsers()) {
        meet(reader);
        if (!isa<WaitOp>(reader))
          next.push_back(reader);
      }
  }
  return last;
}

void Specializer::placeTiles() {
  auto take = [&](int64_t size) {
    int64_t at = bytes;
    bytes += llvm::alignTo(size, tileAlignment);
    return at;
  };
  roles.getConsumer().walk([&](LoadOp load) {
    load.setOffset(
        take(pipeline.getConsumers() * load.getResult().getType().getBytes()));
  });
  int64_t overTiles = 0;
  roles.getConsumer().walk([&](SpaceOp space) {
    const auto size = static_cast<int64_t>(space.getBytes());
    if (space.getOverTiles())
      overTiles = std::max(overTiles, size);
    space.setOffset(space.getOverTiles() ? 0 : take(size));
  });
  for (RingOp ring : all())
    ring.setOffset(take(ring.getType().getBytes()));
  bytes = std::max(bytes, int64_t(llvm::alignTo(overTiles, tileAlignment)));
  for (RingOp ring : all()) {
    ring.setBarriers(bytes);
    bytes += ring.getType().getBarrierBytes();
  }
  function->setAttr("heddle.shared_bytes", b.getI64IntegerAttr(bytes));
  function->setAttr("heddle.threads", b.getI64IntegerAttr(threads()));
  function->setAttr("nvvm.maxntid",
                    b.getDenseI32ArrayAttr({static_cast<int32_t>(threads())}));
  if (pipeline.getCluster() > 1) {
    function->setAttr("heddle.cluster",
                      b.getI64IntegerAttr(pipeline.getCluster()));
    function->setAttr("nvvm.cluster_dim",
                      b.getDenseI32ArrayAttr(
                          {static_cast<int32_t>(pipeline.getCluster()), 1, 1}));
  }
  function->setAttr("nvvm.minctasm", b.getI32IntegerAttr(static_cast<int32_t>(
                                         pipeline.getBlocks())));
}

namespace {
struct SpecializeRoles : warp::impl::WarpSpecializeRolesBase<SpecializeRoles> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<LLVM::LLVMFuncOp>()) {
      auto pipeline = function->getAttrOfType<PipelineAttr>(pipelineName);
      if (pipeline && failed(Specializer(function, pipeline).run()))
        return signalPassFailure();
    }
  }
};
} // namespace
