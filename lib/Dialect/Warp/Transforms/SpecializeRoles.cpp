//===- SpecializeRoles.cpp - Divide a kernel's warps by what they do ------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Warp/Transforms/Passes.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Analysis/TopologicalSortUtils.h"
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

/// A load in a loop and the ring that replaces it.
struct Stream {
  LoadOp load;
  RingOp ring;
};

class Specializer {
public:
  Specializer(LLVM::LLVMFuncOp function, PipelineAttr pipeline)
      : function(function), pipeline(pipeline), b(function.getContext()) {}

  LogicalResult run() {
    if (failed(findLoop()))
      return failure();
    makeRings();
    if (failed(divide()))
      return failure();
    fillRings();
    readRings();
    placeTiles();
    function->removeAttr(pipelineName);
    return success();
  }

private:
  LogicalResult findLoop();
  void makeRings();
  LogicalResult divide();
  void fillRings();
  void readRings();
  Operation *lastWait(Value tile);
  void placeTiles();

  /// Whether tiles are fetched by tensor maps, and how many blocks share them.
  int64_t cluster() {
    return streams.front().load.getMap() ? pipeline.getCluster() : 0;
  }
  int64_t threads() const {
    return warpgroupThreads * (1 + pipeline.getConsumers());
  }

  LLVM::LLVMFuncOp function;
  PipelineAttr pipeline;
  OpBuilder b;
  scf::ForOp loop;
  RolesOp roles;
  SmallVector<Stream> streams;
  int64_t bytes = 0; ///< of shared memory, taken so far
};

} // namespace

LogicalResult Specializer::findLoop() {
  WalkResult walked = function.walk([&](LoadOp load) {
    auto inner = dyn_cast<scf::ForOp>(load->getParentOp());
    if (!inner)
      return WalkResult::advance();
    if (loop && loop != inner) {
      load.emitOpError("is in another loop than the loads before it; a kernel "
                       "has one loop with loads to be made a pipeline");
      return WalkResult::interrupt();
    }
    loop = inner;
    streams.push_back({load, {}});
    if (!load.getMap() != !streams.front().load.getMap()) {
      load.emitOpError("differs from the loads before it in whether a tensor "
                       "map is there; one thread fetches, or all copy");
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  if (walked.wasInterrupted())
    return failure();
  if (!loop)
    return function.emitOpError("has no loop with loads to be made a pipeline");
  if (pipeline.getCluster() > 1 && !cluster())
    return function.emitOpError(
        "has blocks that are to share tiles, which need "
        "tensor maps");
  if (!loop.getInductionVar().getType().isInteger(32) ||
      !matchPattern(loop.getLowerBound(), m_Zero()) ||
      !matchPattern(loop.getStep(), m_One()))
    return loop.emitOpError("does not count tiles: it does not go from 0 by 1 "
                            "in i32");
  return success();
}

/// Makes the rings before everything that computes.
void Specializer::makeRings() {
  Operation *first = nullptr;
  for (Operation &op : *loop->getBlock())
    if (isa<WarpDialect>(op.getDialect()) || &op == loop) {
      first = &op;
      break;
    }
  b.setInsertionPoint(first);
  for (Stream &stream : streams) {
    auto type = RingType::get(b.getContext(), pipeline.getStages(),
                              stream.load.getResult().getType(), cluster());
    stream.ring = RingOp::create(
        b, stream.load.getLoc(), type, /*offset=*/0, /*barriers=*/0,
        /*writers=*/type.isFetched() ? 1 : warpgroupThreads,
        /*readers=*/4 * pipeline.getConsumers() * pipeline.getCluster());
  }
  roles = RolesOp::create(b, function.getLoc(), pipeline.getConsumers(),
                          pipeline.getProducerRegisters(),
                          pipeline.getConsumerRegisters(), cluster());
  roles.getProducer().emplaceBlock();
  roles.getConsumer().emplaceBlock().addArgument(b.getI32Type(),
                                                 function.getLoc());
}

/// Moves what computes to the consumers. What both sides need is before it.
LogicalResult Specializer::divide() {
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
  return success();
}

/// Writes the producer: the loop with what the loads' places follow from.
void Specializer::fillRings() {
  auto inLoop = [&](Operation *op) { return op->getBlock() == loop.getBody(); };
  BackwardSliceOptions options;
  options.filter = inLoop;
  SetVector<Operation *> slice;
  for (Stream &stream : streams) {
    (void)getBackwardSlice(stream.load.getOperation(), &slice, options);
    slice.insert(stream.load);
  }
  // What is outside the loop but among the consumers is computed again.
  SetVector<Operation *> outside;
  auto addOutside = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || op->getBlock() != &roles.getConsumer().front())
      return;
    BackwardSliceOptions before;
    before.filter = [&](Operation *each) {
      return each->getBlock() == op->getBlock();
    };
    (void)getBackwardSlice(op, &outside, before);
    outside.insert(op);
  };
  for (Value bound :
       {loop.getLowerBound(), loop.getUpperBound(), loop.getStep()})
    addOutside(bound);
  for (Operation *op : slice)
    for (Value operand : op->getOperands())
      addOutside(operand);

  IRMapping mapping;
  b.setInsertionPointToStart(&roles.getProducer().front());
  for (Operation *op : topologicalSort(outside))
    b.clone(*op, mapping);
  llvm::SmallDenseSet<Value> maps;
  for (Stream &stream : streams)
    if (Value map = stream.load.getMap(); map && maps.insert(map).second)
      AcquireMapOp::create(b, stream.load.getLoc(),
                           mapping.lookupOrDefault(map));
  auto copies = scf::ForOp::create(
      b, loop.getLoc(), mapping.lookupOrDefault(loop.getLowerBound()),
      mapping.lookupOrDefault(loop.getUpperBound()),
      mapping.lookupOrDefault(loop.getStep()));
  Value tile = copies.getInductionVar();
  mapping.map(loop.getInductionVar(), tile);
  b.setInsertionPointToStart(copies.getBody());
  for (Operation &op : *loop.getBody()) {
    if (!slice.contains(&op))
      continue;
    auto load = dyn_cast<LoadOp>(op);
    if (!load) {
      b.clone(op, mapping);
      continue;
    }
    Stream &stream = *llvm::find_if(
        streams, [&](Stream &each) { return each.load == load; });
    Location loc = load.getLoc();
    auto at = [&](Value value) { return mapping.lookupOrDefault(value); };
    if (load.getMap()) {
      FetchOp::create(b, loc, stream.ring, tile, at(load.getMap()),
                      at(load.getFirst()), at(load.getColumn()));
      continue;
    }
    Value into = AcquireOp::create(b, loc, load.getResult().getType(),
                                   stream.ring, tile);
    CopyOp::create(b, loc, at(load.getBase()), at(load.getFirst()),
                   at(load.getStride()), at(load.getLimit()),
                   load.getRows() ? at(load.getRows()) : Value(), into);
    PublishOp::create(b, loc, stream.ring, tile);
  }
  b.setInsertionPointAfter(copies);
  if (cluster() > 1)
    for (Stream &stream : streams)
      DrainOp::create(b, loop.getLoc(), stream.ring, copies.getUpperBound());
}

/// Lets the consumers read the rings: each tile from right before its first use
/// until right after the wait for the last product that reads it.
void Specializer::readRings() {
  for (Stream &stream : streams) {
    LoadOp load = stream.load;
    Operation *first = nullptr;
    for (Operation *user : load->getUsers())
      if (!first || user->isBeforeInBlock(first))
        first = user;
    b.setInsertionPoint(first);
    Value tile = AwaitOp::create(b, load.getLoc(), load.getResult().getType(),
                                 stream.ring, loop.getInductionVar());
    load.replaceAllUsesWith(tile);
    b.setInsertionPointAfter(lastWait(tile));
    ReleaseOp::create(b, load.getLoc(), stream.ring, loop.getInductionVar());
    load.erase();
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
  for (Stream &stream : streams)
    stream.ring.setOffset(take(stream.ring.getType().getBytes()));
  for (Stream &stream : streams) {
    stream.ring.setBarriers(bytes);
    bytes += stream.ring.getType().getBarrierBytes();
  }
  // Shared memory begins anywhere, tiles do not.
  function->setAttr("heddle.shared_bytes",
                    b.getI64IntegerAttr(bytes + tileAlignment));
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
