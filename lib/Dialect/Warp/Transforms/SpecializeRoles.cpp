//===- SpecializeRoles.cpp - Divide a kernel's warps by what they do ------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Warp/Transforms/Passes.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

namespace mlir::warp {
#define GEN_PASS_DEF_WARPSPECIALIZEROLES
#include "heddle/Dialect/Warp/Transforms/Passes.h.inc"
} // namespace mlir::warp

using namespace mlir;
using namespace mlir::warp;

namespace {

/// A loop over tiles, with its loads in order. Those in the same place of all
/// loops have their tiles in one ring.
struct Pass {
  scf::ForOp loop;
  SmallVector<LoadOp> loads;
};

/// The tiles of the loops before the one at hand: tile numbers go on counting.
class TilesBefore {
public:
  /// The number of the tile at hand.
  Value number(OpBuilder &b, Location loc, Value induction) const {
    return count ? arith::AddIOp::create(b, loc, induction, count).getResult()
                 : induction;
  }
  /// Those of the turns before the one at hand, at its beginning.
  void addTurns(OpBuilder &b, scf::ForOp turns, Value tiles) {
    Location loc = turns.getLoc();
    Value zero = arith::ConstantIntOp::create(b, loc, 0, 32);
    Value each = arith::MaxSIOp::create(b, loc, tiles, zero);
    count = arith::MulIOp::create(b, loc, turns.getInductionVar(), each);
  }
  /// Adds those of a loop, behind it.
  void add(OpBuilder &b, scf::ForOp loop) {
    Value tiles = arith::MaxSIOp::create(b, loop.getLoc(), loop.getUpperBound(),
                                         loop.getLowerBound());
    count =
        count
            ? arith::AddIOp::create(b, loop.getLoc(), count, tiles).getResult()
            : tiles;
  }

private:
  Value count;
};

class Specializer {
public:
  Specializer(LLVM::LLVMFuncOp function, PipelineAttr pipeline)
      : function(function), pipeline(pipeline), b(function.getContext()) {}

  LogicalResult run() {
    if (failed(findPasses()) || failed(findActive()))
      return failure();
    makeRings();
    divide();
    fillRings();
    readRings();
    placeTiles();
    function->removeAttr(pipelineName);
    return success();
  }

private:
  LogicalResult findPasses();
  LogicalResult findActive();
  LogicalResult verifyTurns();
  void makeRings();
  void divide();
  void fillRings();
  void fillRings(Pass &pass, Value tile, IRMapping &mapping,
                 const SetVector<Operation *> &needed);
  void readRings();
  Operation *lastWait(Value tile);
  void placeTiles();

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
  scf::ForOp turns; ///< a loop around the loop over tiles, or null
  Value active;     ///< how many warpgroups compute, or null: all
  SmallVector<RingOp> rings;
  int64_t bytes = 0; ///< of shared memory, taken so far
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

LogicalResult Specializer::findPasses() {
  WalkResult walked = function.walk([&](LoadOp load) {
    auto loop = dyn_cast<scf::ForOp>(load->getParentOp());
    if (!loop || isAround(loop))
      return WalkResult::advance();
    if (passes.empty() || passes.back().loop != loop)
      passes.push_back({loop, {}});
    passes.back().loads.push_back(load);
    Pass &first = passes.front();
    const size_t place = passes.back().loads.size() - 1;
    if (place >= first.loads.size() ||
        first.loads[place].getType() != load.getType()) {
      load.emitOpError("has no load of such a tile in its place of the first "
                       "loop; the loops of a kernel share rings");
      return WalkResult::interrupt();
    }
    if (!load.getMap() != !first.loads.front().getMap()) {
      load.emitOpError("differs from the loads before it in whether a tensor "
                       "map is there; one thread fetches, or all copy");
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  if (walked.wasInterrupted())
    return failure();
  if (passes.empty())
    return function.emitOpError("has no loop with loads to be made a pipeline");
  if (pipeline.getCluster() > 1 && (!cluster() || passes.size() > 1))
    return function.emitOpError(
        "has blocks that are to share tiles, which need "
        "tensor maps and one loop");
  for (Pass &pass : passes) {
    scf::ForOp loop = pass.loop;
    if (!loop.getInductionVar().getType().isInteger(32) ||
        !matchPattern(loop.getLowerBound(), m_Zero()) ||
        !matchPattern(loop.getStep(), m_One()))
      return loop.emitOpError(
          "does not count tiles: it does not go from 0 by 1 in i32");
    if (loop->getBlock() != passes.front().loop->getBlock() ||
        pass.loads.size() != passes.front().loads.size())
      return loop.emitOpError("differs from the first loop with loads in its "
                              "block, or in how many loads it has");
  }
  return verifyTurns();
}

/// A loop around that over tiles is known by its count and that of tiles, which
/// is the same in each turn.
LogicalResult Specializer::verifyTurns() {
  scf::ForOp loop = passes.front().loop;
  turns = dyn_cast<scf::ForOp>(loop->getParentOp());
  if (!turns)
    return success();
  if (passes.size() > 1 || pipeline.getCluster() > 1)
    return turns.emitOpError(
        "is around several loops over tiles, or tiles that "
        "blocks share; turns have one loop of a block's "
        "own");
  if (!turns.getInductionVar().getType().isInteger(32) ||
      !matchPattern(turns.getLowerBound(), m_Zero()) ||
      !matchPattern(turns.getStep(), m_One()) || turns.getNumResults() ||
      isa<scf::ForOp>(turns->getParentOp()))
    return turns.emitOpError("does not count turns: it does not go from 0 by 1 "
                             "in i32, carries values or is in another loop");
  if (!turns.isDefinedOutsideOfLoop(loop.getUpperBound()))
    return loop.emitOpError("has another number of tiles in each turn");
  return success();
}

/// Makes the rings before everything that computes.
void Specializer::makeRings() {
  Pass &pass = passes.front();
  b.setInsertionPoint(firstOp());
  for (LoadOp load : pass.loads) {
    auto type = RingType::get(b.getContext(), pipeline.getStages(),
                              load.getResult().getType(), cluster());
    rings.push_back(RingOp::create(
        b, load.getLoc(), type, active, /*offset=*/0, /*barriers=*/0,
        /*writers=*/type.isFetched() ? 1 : warpgroupThreads,
        /*readers=*/4 * pipeline.getConsumers() * pipeline.getCluster()));
  }
  roles = RolesOp::create(b, function.getLoc(), active, pipeline.getConsumers(),
                          pipeline.getProducerRegisters(),
                          pipeline.getConsumerRegisters(), cluster());
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

/// What `op` needs of `block`, with what is in its regions, and itself.
static void collect(Operation *op, Block *block,
                    SetVector<Operation *> &needed) {
  if (!needed.insert(op))
    return;
  op->walk([&](Operation *each) {
    for (Value operand : each->getOperands())
      if (Operation *source = operand.getDefiningOp())
        if (Operation *before = block->findAncestorOpInBlock(*source))
          collect(before, block, needed);
  });
}

/// Writes the producer: the loops with what the loads' places follow from.
void Specializer::fillRings() {
  Block *consumer = &roles.getConsumer().front();
  b.setInsertionPointToStart(&roles.getProducer().front());
  IRMapping mapping;
  SmallVector<SetVector<Operation *>> inLoops(passes.size());
  SetVector<Operation *> cloned;
  llvm::SmallDenseSet<Value> maps;
  TilesBefore before;
  for (auto [pass, inLoop] : llvm::zip(passes, inLoops)) {
    // What is outside the loop but among the consumers is computed again, so is
    // what is in the turn before it.
    SetVector<Operation *> outside, inTurn;
    auto addOutside = [&](Value value) {
      Operation *op = value.getDefiningOp();
      if (op && op->getBlock() == consumer)
        collect(op, consumer, outside);
      if (!op || !turns || op->getBlock() != turns.getBody())
        return;
      SetVector<Operation *> more;
      collect(op, turns.getBody(), more);
      for (Operation *each : more)
        each->walk([&](Operation *inner) {
          for (Value operand : inner->getOperands())
            if (Operation *source = operand.getDefiningOp();
                source && source->getBlock() == consumer)
              collect(source, consumer, outside);
        });
      inTurn.insert_range(more);
    };
    for (LoadOp load : pass.loads)
      collect(load, pass.loop.getBody(), inLoop);
    for (Value bound : {pass.loop.getLowerBound(), pass.loop.getUpperBound(),
                        pass.loop.getStep()})
      addOutside(bound);
    for (Operation *op : inLoop)
      op->walk([&](Operation *each) {
        for (Value operand : each->getOperands())
          addOutside(operand);
      });
    if (turns)
      addOutside(turns.getUpperBound());
    for (Operation *op : topologicalSort(outside))
      if (cloned.insert(op))
        b.clone(*op, mapping);
    for (LoadOp load : pass.loads)
      if (Value map = load.getMap(); map && maps.insert(map).second)
        AcquireMapOp::create(b, load.getLoc(), mapping.lookupOrDefault(map));
    if (turns) {
      auto around = scf::ForOp::create(
          b, turns.getLoc(), mapping.lookupOrDefault(turns.getLowerBound()),
          mapping.lookupOrDefault(turns.getUpperBound()),
          mapping.lookupOrDefault(turns.getStep()));
      mapping.map(turns.getInductionVar(), around.getInductionVar());
      b.setInsertionPointToStart(around.getBody());
      before.addTurns(b, around,
                      mapping.lookupOrDefault(pass.loop.getUpperBound()));
      for (Operation *op : topologicalSort(inTurn))
        b.clone(*op, mapping);
    }
    auto copies =
        scf::ForOp::create(b, pass.loop.getLoc(),
                           mapping.lookupOrDefault(pass.loop.getLowerBound()),
                           mapping.lookupOrDefault(pass.loop.getUpperBound()),
                           mapping.lookupOrDefault(pass.loop.getStep()));
    mapping.map(pass.loop.getInductionVar(), copies.getInductionVar());
    b.setInsertionPointToStart(copies.getBody());
    fillRings(pass, before.number(b, copies.getLoc(), copies.getInductionVar()),
              mapping, inLoop);
    b.setInsertionPointAfter(copies);
    if (&pass != &passes.back())
      before.add(b, copies);
    else if (cluster() > 1)
      for (RingOp ring : rings)
        DrainOp::create(b, copies.getLoc(), ring, copies.getUpperBound());
  }
}

void Specializer::fillRings(Pass &pass, Value tile, IRMapping &mapping,
                            const SetVector<Operation *> &needed) {
  for (Operation &op : *pass.loop.getBody()) {
    if (!needed.contains(&op))
      continue;
    auto load = dyn_cast<LoadOp>(op);
    if (!load) {
      b.clone(op, mapping);
      continue;
    }
    RingOp ring = rings[llvm::find(pass.loads, load) - pass.loads.begin()];
    Location loc = load.getLoc();
    auto at = [&](Value value) { return mapping.lookupOrDefault(value); };
    if (load.getMap()) {
      FetchOp::create(b, loc, ring, tile, at(load.getMap()),
                      at(load.getFirst()), at(load.getColumn()));
      continue;
    }
    Value into =
        AcquireOp::create(b, loc, load.getResult().getType(), ring, tile);
    CopyOp::create(b, loc, at(load.getBase()), at(load.getFirst()),
                   at(load.getStride()), at(load.getLimit()),
                   load.getRows() ? at(load.getRows()) : Value(), into);
    PublishOp::create(b, loc, ring, tile);
  }
}

/// Lets the consumers read the rings: each tile from right before its first use
/// until right after the wait for the last product that reads it.
void Specializer::readRings() {
  TilesBefore before;
  if (turns) {
    b.setInsertionPointToStart(turns.getBody());
    before.addTurns(b, turns, passes.front().loop.getUpperBound());
  }
  for (Pass &pass : passes) {
    b.setInsertionPointToStart(pass.loop.getBody());
    Value number =
        before.number(b, pass.loop.getLoc(), pass.loop.getInductionVar());
    for (auto [load, ring] : llvm::zip(pass.loads, rings)) {
      Operation *first = nullptr;
      for (Operation *user : load->getUsers())
        if (!first || user->isBeforeInBlock(first))
          first = user;
      b.setInsertionPoint(first);
      Value tile = AwaitOp::create(b, load.getLoc(), load.getResult().getType(),
                                   ring, number);
      load.replaceAllUsesWith(tile);
      b.setInsertionPointAfter(lastWait(tile));
      ReleaseOp::create(b, load.getLoc(), ring, number);
      load.erase();
    }
    b.setInsertionPointAfter(pass.loop);
    if (&pass != &passes.back())
      before.add(b, pass.loop);
  }
}

/// The op after which no product reads `tile`; without one, the last use.
Operation *Specializer::lastWait(Value tile) {
  Operation *last = tile.getDefiningOp();
  auto meet = [&](Operation *op) {
    if (last->isBeforeInBlock(op))
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
  for (RingOp ring : rings)
    ring.setOffset(take(ring.getType().getBytes()));
  bytes = std::max(bytes, int64_t(llvm::alignTo(overTiles, tileAlignment)));
  for (RingOp ring : rings) {
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
