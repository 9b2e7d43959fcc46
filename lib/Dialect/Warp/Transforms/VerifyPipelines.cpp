//===- VerifyPipelines.cpp - What holds once roles are divided ------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Warp/Transforms/Passes.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

namespace mlir::warp {
#define GEN_PASS_DEF_WARPVERIFYPIPELINES
#include "heddle/Dialect/Warp/Transforms/Passes.h.inc"
} // namespace mlir::warp

using namespace mlir;
using namespace mlir::warp;

/// Blocks that a multiprocessor is to hold.
static int64_t blocksOf(RolesOp roles) {
  auto function = roles->getParentOfType<LLVM::LLVMFuncOp>();
  auto blocks = function->getAttrOfType<IntegerAttr>("nvvm.minctasm");
  return blocks ? std::max<int64_t>(blocks.getInt(), 1) : 1;
}

/// Checks that nothing lies twice in shared memory, all within `limit` bytes.
static LogicalResult verifyMemory(RolesOp roles, int64_t limit) {
  struct Place {
    int64_t from, end;
    Operation *op;
  };
  SmallVector<Place> places;
  auto add = [&](int64_t from, int64_t bytes, Operation *op) {
    places.push_back({from, from + bytes, op});
  };
  auto function = roles->getParentOfType<LLVM::LLVMFuncOp>();
  WalkResult walked = function.walk([&](Operation *op) {
    if (auto ring = dyn_cast<RingOp>(op)) {
      if (ring.getOffset() % tileAlignment) {
        ring.emitOpError() << "has tiles at " << ring.getOffset()
                           << ", no multiple of " << tileAlignment;
        return WalkResult::interrupt();
      }
      add(ring.getOffset(), ring.getType().getBytes(), op);
      add(ring.getBarriers(), ring.getType().getBarrierBytes(), op);
    } else if (auto load = dyn_cast<LoadOp>(op)) {
      if (!load.getOffset()) {
        load.emitOpError("has no place in shared memory");
        return WalkResult::interrupt();
      }
      add(*load.getOffset(),
          roles.getConsumers() * load.getResult().getType().getBytes(), op);
    }
    return WalkResult::advance();
  });
  if (walked.wasInterrupted())
    return failure();
  llvm::sort(places,
             [](const Place &x, const Place &y) { return x.from < y.from; });
  int64_t end = 0;
  for (const Place &place : places) {
    if (place.from < end)
      return place.op->emitOpError()
             << "lies from " << place.from
             << " in shared memory, where something else lies until " << end;
    end = place.end;
  }
  // Each block of a multiprocessor has a reserve, too.
  constexpr int64_t reserve = 1024;
  const int64_t blocks = blocksOf(roles);
  const int64_t room = (limit + reserve) / blocks - reserve;
  if (end + tileAlignment > room)
    return roles.emitOpError() << "needs " << end + tileAlignment
                               << " bytes of shared memory; there are " << room;
  return success();
}

static LogicalResult verifyRegisters(RolesOp roles) {
  int64_t all =
      warpgroupThreads * (roles.getProducerRegisters() +
                          roles.getConsumers() * roles.getConsumerRegisters());
  if (all > blockRegisters / blocksOf(roles))
    return roles.emitOpError()
           << "gives " << all << " registers to its threads; there are "
           << blockRegisters / blocksOf(roles);
  return success();
}

/// Finds the op of type `Op` among the ring's users, which is to be there once.
template <typename Op> static FailureOr<Op> single(RingOp ring) {
  Op found;
  for (Operation *user : ring->getUsers()) {
    auto op = dyn_cast<Op>(user);
    if (!op)
      continue;
    if (found)
      return op.emitOpError("is there twice for a ring: stages of a tile would "
                            "count double");
    found = op;
  }
  if (!found)
    return ring.emitOpError() << "has no " << Op::getOperationName();
  return found;
}

/// Checks that `later` comes after `sooner` in one block.
static LogicalResult verifyOrder(Operation *sooner, Operation *later) {
  if (sooner->getBlock() != later->getBlock() ||
      !sooner->isBeforeInBlock(later))
    return later->emitOpError()
           << "does not come after " << sooner->getName() << " in its block";
  return success();
}

/// Whether `value` is computed alike by both sides.
static bool same(Value x, Value y) {
  if (x == y)
    return true;
  Operation *left = x.getDefiningOp(), *right = y.getDefiningOp();
  if (!left || !right || left->getName() != right->getName() ||
      left->getAttrDictionary() != right->getAttrDictionary() ||
      left->getNumOperands() != right->getNumOperands())
    return false;
  return llvm::all_of(
      llvm::zip(left->getOperands(), right->getOperands()),
      [](auto pair) { return same(std::get<0>(pair), std::get<1>(pair)); });
}

/// Checks that both sides run through the same tile numbers from 0 on: the
/// phases of barriers follow from them.
static LogicalResult verifyPhases(Operation *filler, Value number,
                                  AwaitOp await) {
  auto loopOf = [](Operation *op, Value tile) -> FailureOr<scf::ForOp> {
    auto loop = dyn_cast<scf::ForOp>(op->getParentOp());
    if (!loop || tile != loop.getInductionVar() ||
        !matchPattern(loop.getLowerBound(), m_Zero()) ||
        !matchPattern(loop.getStep(), m_One()))
      return op->emitOpError("does not count tiles from 0 by 1, so its "
                             "barriers would be out of phase");
    return loop;
  };
  FailureOr<scf::ForOp> fills = loopOf(filler, number);
  FailureOr<scf::ForOp> reads = loopOf(await, await.getTile());
  if (failed(fills) || failed(reads))
    return failure();
  if (!same(fills->getUpperBound(), reads->getUpperBound()))
    return await.emitOpError("is in a loop of other length than that which "
                             "fills the ring");
  return success();
}

/// Checks that blocks that share tiles count alike and ask for the same ones:
/// nothing follows from a block's number in x, by which they differ.
static LogicalResult verifySharing(FetchOp fetch) {
  if (fetch.getRing().getType().getCluster() < 2)
    return success();
  SetVector<Operation *> slice;
  BackwardSliceOptions options;
  options.inclusive = true;
  auto loop = cast<scf::ForOp>(fetch->getParentOp());
  for (Value value : SmallVector<Value>{loop.getUpperBound(), fetch.getMap(),
                                        fetch.getRow(), fetch.getColumn()})
    (void)getBackwardSlice(value, &slice, options);
  if (llvm::any_of(slice,
                   [](Operation *op) { return isa<NVVM::BlockIdXOp>(op); }))
    return fetch.emitOpError("asks for tiles by the block's number in x, but "
                             "blocks of a cluster share them");
  FailureOr<DrainOp> drain =
      single<DrainOp>(cast<RingOp>(fetch.getRing().getDefiningOp()));
  if (failed(drain))
    return failure();
  if (drain->getTile() != loop.getUpperBound() ||
      failed(verifyOrder(loop, *drain)))
    return drain->emitOpError("does not follow the last tile of its ring");
  return success();
}

/// Checks that no product reads `tile` when its stage is released.
static LogicalResult verifyReads(AwaitOp await, ReleaseOp release) {
  for (Operation *user : await->getUsers()) {
    if (failed(verifyOrder(user, release)))
      return failure();
    auto product = dyn_cast<MultiplyOp>(user);
    if (!product)
      return user->emitOpError("reads a stage of a ring; only products do");
    // Any wait after it in the block covers it.
    bool covered = false;
    for (Operation *op = product->getNextNode(); op && op != release;
         op = op->getNextNode())
      covered |= isa<WaitOp>(op);
    if (!covered)
      return release.emitOpError("comes before the wait for a product that "
                                 "reads the stage");
  }
  return success();
}

static LogicalResult verifyRing(RingOp ring, RolesOp roles) {
  const int64_t cluster = ring.getType().getCluster();
  FailureOr<AwaitOp> await = single<AwaitOp>(ring);
  FailureOr<ReleaseOp> release = single<ReleaseOp>(ring);
  if (failed(await) || failed(release))
    return failure();
  if (await->getTile() != release->getTile())
    return ring.emitOpError("has a side that closes another stage than it "
                            "opens");
  if (cluster != static_cast<int64_t>(roles.getCluster()))
    return ring.emitOpError("is shared by other blocks than the roles say");
  if (ring.getWriters() !=
          static_cast<uint64_t>(cluster ? 1 : warpgroupThreads) ||
      ring.getReaders() !=
          4 * roles.getConsumers() * std::max<int64_t>(cluster, 1))
    return ring.emitOpError("expects other numbers of writers or readers than "
                            "there are");
  if (cluster) {
    FailureOr<FetchOp> fetch = single<FetchOp>(ring);
    return success(succeeded(fetch) &&
                   succeeded(verifyReads(*await, *release)) &&
                   succeeded(verifyPhases(*fetch, fetch->getTile(), *await)) &&
                   succeeded(verifySharing(*fetch)));
  }
  FailureOr<AcquireOp> acquire = single<AcquireOp>(ring);
  FailureOr<PublishOp> publish = single<PublishOp>(ring);
  if (failed(acquire) || failed(publish))
    return failure();
  if (acquire->getTile() != publish->getTile())
    return ring.emitOpError("has a side that closes another stage than it "
                            "opens");
  for (Operation *user : (*acquire)->getUsers())
    if (failed(verifyOrder(user, *publish)))
      return failure();
  if ((*acquire)->use_empty())
    return publish->emitOpError("publishes a stage that nothing fills");
  return success(succeeded(verifyReads(*await, *release)) &&
                 succeeded(verifyPhases(*acquire, acquire->getTile(), *await)));
}

namespace {
struct VerifyPipelines : warp::impl::WarpVerifyPipelinesBase<VerifyPipelines> {
  using WarpVerifyPipelinesBase::WarpVerifyPipelinesBase;

  void runOnOperation() override {
    bool good = true;
    getOperation().walk([&](RolesOp roles) {
      good &= succeeded(verifyMemory(roles, sharedOfBlock)) &&
              succeeded(verifyRegisters(roles));
      roles->getParentOfType<LLVM::LLVMFuncOp>().walk(
          [&](RingOp ring) { good &= succeeded(verifyRing(ring, roles)); });
    });
    if (!good)
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
