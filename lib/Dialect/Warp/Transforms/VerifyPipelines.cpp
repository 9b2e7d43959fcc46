//===- VerifyPipelines.cpp - What holds once roles are divided ------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Warp/Transforms/Passes.h"

#include "Loops.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/OperationSupport.h"

namespace mlir::warp {
#define GEN_PASS_DEF_WARPVERIFYPIPELINES
#include "heddle/Dialect/Warp/Transforms/Passes.h.inc"
} // namespace mlir::warp

using namespace mlir;
using namespace mlir::warp;

static LLVM::LLVMFuncOp kernelOf(RolesOp roles) {
  return roles->getParentOfType<LLVM::LLVMFuncOp>();
}

/// Blocks that a multiprocessor is to hold.
static int64_t blocksOf(RolesOp roles) {
  auto blocks = kernelOf(roles)->getAttrOfType<IntegerAttr>("nvvm.minctasm");
  return blocks ? std::max<int64_t>(blocks.getInt(), 1) : 1;
}

/// Checks that `space` comes after everything that needs tiles and lies within
/// the `end` bytes that are taken, and not over barriers.
static LogicalResult verifyOverTiles(SpaceOp space, RolesOp roles,
                                     int64_t end) {
  if (space->getBlock() != &roles.getConsumer().front())
    return space.emitOpError("is over tiles, but not behind all loops");
  for (Operation *op = space; op; op = op->getNextNode())
    if (op->walk([](Operation *each) {
            return isa<AwaitOp, LoadOp, MultiplyOp>(each)
                       ? WalkResult::interrupt()
                       : WalkResult::advance();
          }).wasInterrupted())
      return op->emitOpError("reads tiles, where a space lies over them");
  kernelOf(roles).walk(
      [&](RingOp ring) { end = std::min<int64_t>(end, ring.getBarriers()); });
  const auto last = static_cast<int64_t>(*space.getOffset() + space.getBytes());
  if (last > end)
    return space.emitOpError()
           << "lies until " << last << " in shared memory, tiles until " << end;
  return success();
}

/// Checks that nothing lies twice in shared memory, all within `limit` bytes.
static LogicalResult verifyMemory(RolesOp roles, int64_t limit) {
  struct Place {
    int64_t from, end;
    Operation *op;
  };
  SmallVector<Place> places;
  SmallVector<SpaceOp> over;
  auto add = [&](int64_t from, int64_t bytes, Operation *op) {
    places.push_back({from, from + bytes, op});
  };
  WalkResult walked = kernelOf(roles).walk([&](Operation *op) {
    if (auto ring = dyn_cast<RingOp>(op)) {
      if (ring.getOffset() % tileAlignment) {
        ring.emitOpError() << "has tiles at " << ring.getOffset()
                           << ", no multiple of " << tileAlignment;
        return WalkResult::interrupt();
      }
      add(ring.getOffset(), ring.getType().getBytes(), op);
      add(ring.getBarriers(), ring.getType().getBarrierBytes(), op);
    } else if (auto space = dyn_cast<SpaceOp>(op)) {
      if (!space.getOffset()) {
        space.emitOpError("has no place in shared memory");
        return WalkResult::interrupt();
      }
      if (space.getOverTiles())
        over.push_back(space);
      else
        add(*space.getOffset(), space.getBytes(), op);
    } else if (isa<MeetOp, MeetClusterOp>(op)) {
      if (roles.getActive()) {
        op->emitOpError("waits for all warpgroups that compute, of which some "
                        "do not");
        return WalkResult::interrupt();
      }
      if (!roles.getConsumer().isAncestor(op->getParentRegion())) {
        op->emitOpError("is not among the warpgroups that compute, which would "
                        "wait for each other without end");
        return WalkResult::interrupt();
      }
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
  for (SpaceOp space : over)
    if (failed(verifyOverTiles(space, roles, end)))
      return failure();
  // Each block of a multiprocessor has a reserve, too.
  constexpr int64_t reserve = 1024;
  const int64_t blocks = blocksOf(roles);
  const int64_t room = (limit + reserve) / blocks - reserve;
  if (end > room)
    return roles.emitOpError()
           << "needs " << end << " bytes of shared memory; there are " << room
           << " (" << kernelOf(roles).getSymName() << ")";
  return success();
}

/// A block is launched with as many registers for each thread, a multiple of 8,
/// and its warpgroups share out those: one that asked for more would wait for
/// ever.
static LogicalResult verifyRegisters(RolesOp roles) {
  const int64_t consumers = roles.getConsumers();
  const int64_t threads = warpgroupThreads * (1 + consumers);
  const int64_t all =
      warpgroupThreads *
      (roles.getProducerRegisters() + consumers * roles.getConsumerRegisters());
  const int64_t there =
      blockRegisters / blocksOf(roles) / threads / 8 * 8 * threads;
  if (all > there)
    return roles.emitOpError()
           << "gives " << all << " registers to its threads; there are "
           << there << " (" << kernelOf(roles).getSymName() << ")";
  return success();
}

/// The turn of its loop in which a ring has tile number `tile`, and which of
/// the tiles of that turn it is; a null turn if the number does not say so.
static std::pair<Value, int64_t> turnOf(RingOp ring, Value tile) {
  const auto loads = static_cast<int64_t>(ring.getLoads());
  if (loads == 1)
    return {tile, 0};
  // A number of the first may have lost its addition of 0.
  auto product = tile.getDefiningOp<arith::MulIOp>();
  APInt each, place(32, 0);
  if (auto sum = tile.getDefiningOp<arith::AddIOp>();
      sum && matchPattern(sum.getRhs(), m_ConstantInt(&place)))
    product = sum.getLhs().getDefiningOp<arith::MulIOp>();
  if (!product || !matchPattern(product.getRhs(), m_ConstantInt(&each)) ||
      each.getSExtValue() != loads || place.getSExtValue() < 0 ||
      place.getSExtValue() >= loads)
    return {Value(), 0};
  return {product.getLhs(), place.getSExtValue()};
}

/// The ring's ops of type `Op` for tile `which` of a turn, one in each loop
/// over its tiles, in order.
template <typename Op>
static FailureOr<SmallVector<Op>> eachPass(RingOp ring, RolesOp roles,
                                           int64_t which) {
  SmallVector<Op> found;
  WalkResult walked = roles->walk([&](Op op) {
    if (op.getRing() != ring.getResult())
      return WalkResult::advance();
    auto [turn, place] = turnOf(ring, op.getTile());
    if (!turn) {
      op.emitOpError("does not say by its number which of the ")
          << ring.getLoads() << " tiles of a turn it has";
      return WalkResult::interrupt();
    }
    if (place != which)
      return WalkResult::advance();
    if (!found.empty() && found.back()->getParentOp() == op->getParentOp()) {
      found.back().emitOpError("is there twice for a ring: stages of a tile "
                               "would count double");
      return WalkResult::interrupt();
    }
    found.push_back(op);
    return WalkResult::advance();
  });
  if (walked.wasInterrupted())
    return failure();
  if (found.empty())
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

/// Whether both sides compute a value alike.
static bool same(Value x, Value y, DenseMap<Value, Value> &known) {
  if (x == y || known.lookup(x) == y)
    return true;
  auto left = dyn_cast<OpResult>(x), right = dyn_cast<OpResult>(y);
  if (!left || !right || left.getResultNumber() != right.getResultNumber())
    return false;
  return OperationEquivalence::isEquivalentTo(
      left.getOwner(), right.getOwner(),
      [&](Value x, Value y) { return success(same(x, y, known)); },
      [&](Value x, Value y) { known[x] = y; },
      OperationEquivalence::IgnoreLocations);
}

/// One side's loops over a ring's tiles, in order.
class TileCount {
public:
  /// Checks that tile `number` of `op` counts on from the loops before its own,
  /// by 1.
  LogicalResult add(Operation *op, Value number) {
    auto loop = dyn_cast<scf::ForOp>(op->getParentOp());
    if (!loop || !countsFromZero(loop))
      return wrong(op);
    auto sum = number.getDefiningOp<arith::AddIOp>();
    Value more =
        sum && sum.getLhs() == loop.getInductionVar() ? sum.getRhs() : Value();
    if (!last) {
      turns = dyn_cast<scf::ForOp>(loop->getParentOp());
      before = more;
      carried = dyn_cast_if_present<BlockArgument>(more);
      const bool good = turns ? carried &&
                                    carried.getOwner() == turns.getBody() &&
                                    carried.getArgNumber() > 0
                              : number == loop.getInductionVar();
      if (!good)
        return wrong(op);
    } else {
      if (!more || last->getBlock() != loop->getBlock() ||
          !last->isBeforeInBlock(loop) || !countsOn(more))
        return wrong(op);
      before = more;
    }
    last = loop;
    return success();
  }

  /// Whether the loop of `op` passes all tiles of the last one or none, and
  /// then counts in its place. `number`: the tile of `op`.
  bool addRest(Operation *op, Value number) {
    auto loop = dyn_cast<scf::ForOp>(op->getParentOp());
    if (!last || !loop || loop.getLowerBound() != last.getUpperBound())
      return false;
    auto own = last.getUpperBound().getDefiningOp<arith::SelectOp>();
    auto sum = number.getDefiningOp<arith::AddIOp>();
    if (!own || own.getFalseValue() != loop.getUpperBound() ||
        !matchPattern(own.getTrueValue(), m_Zero()) ||
        !matchPattern(loop.getStep(), m_One()) ||
        last->getBlock() != loop->getBlock() || !last->isBeforeInBlock(loop) ||
        !sum || sum.getLhs() != loop.getInductionVar() ||
        sum.getRhs() != before)
      return false;
    last = loop;
    return true;
  }

  /// Checks, behind the last loop, that turns go on counting.
  LogicalResult close(Operation *op) {
    if (!turns)
      return success();
    const unsigned which = carried.getArgNumber() - 1;
    if (!countsFromZero(turns) ||
        !matchPattern(turns.getInitArgs()[which], m_Zero()) ||
        !countsOn(turns.getBody()->getTerminator()->getOperand(which)))
      return wrong(op);
    return success();
  }

  /// Whether `number` is that of all tiles, behind all loops.
  bool isAll(Value number) {
    return turns ? number == turns.getResult(carried.getArgNumber() - 1)
                 : countsOn(number);
  }

  scf::ForOp last, turns;
  BlockArgument carried; ///< of the turns: tiles of those before

private:
  /// Whether `number` is that of the tiles before and in the last loop.
  bool countsOn(Value number) {
    if (before) {
      auto sum = number.getDefiningOp<arith::AddIOp>();
      if (!sum || sum.getLhs() != before)
        return false;
      number = sum.getRhs();
    }
    auto most = number.getDefiningOp<arith::MaxSIOp>();
    return most && most.getLhs() == last.getUpperBound() &&
           matchPattern(most.getRhs(), m_Zero());
  }

  static LogicalResult wrong(Operation *op) {
    return op->emitOpError("does not count tiles from 0 by 1, so its "
                           "barriers would be out of phase");
  }

  Value before; ///< tiles before those of the last loop, or null
};

/// Checks that both sides run through the same tile numbers from 0 on, loop by
/// loop: the phases of barriers follow from them.
template <typename Fill>
static LogicalResult verifyPhases(RingOp ring, ArrayRef<Fill> fills,
                                  ArrayRef<AwaitOp> awaits) {
  auto turn = [&](Value tile) { return turnOf(ring, tile).first; };
  AwaitOp last = awaits.back();
  TileCount filled, read;
  DenseMap<Value, Value> known;
  for (Fill fill : fills) {
    if (awaits.empty())
      return fill.emitOpError("is in a loop more than what reads the ring");
    AwaitOp await = awaits.consume_front();
    if constexpr (std::is_same_v<Fill, AcquireOp>)
      if (fill.getResult().getType() != await.getResult().getType())
        return await.emitOpError()
               << "reads " << await.getResult().getType() << " where "
               << fill.getResult().getType() << " is filled";
    if (failed(filled.add(fill, turn(fill.getTile()))) ||
        failed(read.add(await, turn(await.getTile()))))
      return failure();
    if (AwaitOp rest = awaits.empty() ? AwaitOp() : awaits.front();
        rest && read.addRest(rest, turn(rest.getTile())))
      await = awaits.consume_front();
    if (!filled.turns != !read.turns ||
        (filled.turns && !same(filled.turns.getUpperBound(),
                               read.turns.getUpperBound(), known)))
      return await.emitOpError("is in a loop of other turns than that which "
                               "fills the ring");
    if (filled.turns) {
      known[filled.turns.getInductionVar()] = read.turns.getInductionVar();
      known[filled.carried] = read.carried;
    }
    if (!same(filled.last.getUpperBound(), read.last.getUpperBound(), known))
      return await.emitOpError("is in a loop of other length than that which "
                               "fills the ring");
  }
  if (!awaits.empty())
    return awaits.front()->emitOpError(
        "is in a loop more than what fills the ring");
  return success(succeeded(filled.close(fills.back())) &&
                 succeeded(read.close(last)));
}

/// Checks that blocks that share tiles count alike and ask for the same ones:
/// nothing follows from a block's number in x, by which they differ.
static LogicalResult verifySharing(RingOp ring, RolesOp roles,
                                   MutableArrayRef<FetchOp> fetches) {
  if (ring.getType().getCluster() < 2)
    return success();
  TileCount count;
  for (FetchOp fetch : fetches) {
    SetVector<Operation *> slice;
    BackwardSliceOptions options;
    options.inclusive = true;
    options.omitUsesFromAbove = false;
    auto loop = cast<scf::ForOp>(fetch->getParentOp());
    for (Value value : SmallVector<Value>{loop.getUpperBound(), fetch.getMap(),
                                          fetch.getRow(), fetch.getColumn()})
      (void)getBackwardSlice(value, &slice, options);
    if (llvm::any_of(slice,
                     [](Operation *op) { return isa<NVVM::BlockIdXOp>(op); }))
      return fetch.emitOpError("asks for tiles by the block's number in x, but "
                               "blocks of a cluster share them");
    if (failed(count.add(fetch, turnOf(ring, fetch.getTile()).first)))
      return failure();
  }
  FailureOr<SmallVector<DrainOp>> drains =
      eachPass<DrainOp>(ring, roles, /*which=*/0);
  if (failed(drains))
    return failure();
  DrainOp drain = drains->back();
  if (!count.isAll(turnOf(ring, drain.getTile()).first) ||
      failed(verifyOrder(count.turns ? count.turns : count.last, drain)))
    return drain.emitOpError("does not follow the last tile of its ring");
  return success();
}

/// Checks that no product reads `tile` when its stage is released.
static LogicalResult verifyReads(AwaitOp await, ReleaseOp release) {
  if (failed(verifyOrder(await, release)))
    return failure();
  // Where products are waited for, all lanes are.
  if (await->use_empty()) {
    bool met = false;
    for (Operation *op = await; op != release; op = op->getNextNode())
      met |= isa<NVVM::SyncWarpOp>(op);
    if (!met)
      return release.emitOpError(
          "is of one lane for its warp, whose others may "
          "still wait for the stage; they do not meet "
          "in front of it");
  }
  for (Operation *user : await->getUsers()) {
    // A tile of a turn is read in its loops.
    Operation *here = await->getBlock()->findAncestorOpInBlock(*user);
    if (failed(verifyOrder(here, release)))
      return failure();
    if (isa<NegateOp>(user))
      continue;
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

/// What fills the tiles of a load, and what reads them, loop by loop.
struct FillsAndReads {
  SmallVector<Operation *> fills;
  SmallVector<AwaitOp> awaits;
};

/// Checks how a ring's tiles number `which` of a turn are filled and read.
static FailureOr<FillsAndReads> verifyTiles(RingOp ring, RolesOp roles,
                                            int64_t which) {
  auto awaits = eachPass<AwaitOp>(ring, roles, which);
  if (failed(awaits))
    return failure();
  auto releases = eachPass<ReleaseOp>(ring, roles, which);
  if (failed(releases))
    return failure();
  auto differs = [&](size_t closed, size_t opened) {
    if (closed == opened)
      return false;
    ring.emitOpError("is opened and closed in other numbers of loops");
    return true;
  };
  if (differs(releases->size(), awaits->size()))
    return failure();
  for (auto [await, release] : llvm::zip(*awaits, *releases)) {
    if (await.getTile() != release.getTile())
      return ring.emitOpError("has a side that closes another stage than it "
                              "opens");
    if (failed(verifyReads(await, release)))
      return failure();
  }
  if (ring.getType().isFetched()) {
    auto fetches = eachPass<FetchOp>(ring, roles, which);
    if (failed(fetches) ||
        failed(verifyPhases<FetchOp>(ring, *fetches, *awaits)) ||
        failed(verifySharing(ring, roles, *fetches)))
      return failure();
    return FillsAndReads{{fetches->begin(), fetches->end()}, *awaits};
  }
  auto acquires = eachPass<AcquireOp>(ring, roles, which);
  auto publishes = eachPass<PublishOp>(ring, roles, which);
  if (failed(acquires) || failed(publishes) ||
      differs(publishes->size(), acquires->size()))
    return failure();
  for (auto [acquire, publish] : llvm::zip(*acquires, *publishes)) {
    if (acquire.getTile() != publish.getTile())
      return ring.emitOpError("has a side that closes another stage than it "
                              "opens");
    for (Operation *user : acquire->getUsers())
      if (failed(verifyOrder(user, publish)))
        return failure();
    if (acquire->use_empty())
      return publish.emitOpError("publishes a stage that nothing fills");
  }
  if (failed(verifyPhases<AcquireOp>(ring, *acquires, *awaits)))
    return failure();
  return FillsAndReads{{acquires->begin(), acquires->end()}, *awaits};
}

static LogicalResult verifyRing(RingOp ring, RolesOp roles) {
  const auto loads = static_cast<int64_t>(ring.getLoads());
  const int64_t stages = ring.getType().getStages();
  // Those of a turn are held at once.
  if (loads < 1 || loads > stages)
    return ring.emitOpError()
           << "has fewer stages (" << stages << ") than loads (" << loads
           << "), whose tiles are held at once";
  // A block may have rings of its own beside those that its cluster shares.
  const int64_t cluster = ring.getType().getCluster();
  if (const auto all = static_cast<int64_t>(roles.getCluster());
      cluster != all && (cluster != 1 || all == 0))
    return ring.emitOpError("is shared by other blocks than the roles say");
  if (ring.getWriters() !=
          static_cast<uint64_t>(cluster ? 1 : warpgroupThreads) ||
      ring.getReaders() !=
          4 * roles.getConsumers() * std::max<int64_t>(cluster, 1))
    return ring.emitOpError("expects other numbers of writers or readers than "
                            "there are");
  if (ring.getActive() != roles.getActive() ||
      (ring.getActive() && cluster > 1))
    return ring.emitOpError("expects other warpgroups to release its stages "
                            "than those that compute");
  WalkResult drained = roles->walk([&](DrainOp drain) {
    if (drain.getRing() != ring.getResult() ||
        turnOf(ring, drain.getTile()).second == 0)
      return WalkResult::advance();
    drain.emitOpError("does not follow the last tile of its ring");
    return WalkResult::interrupt();
  });
  if (drained.wasInterrupted())
    return failure();
  FillsAndReads before;
  for (int64_t which = 0; which < loads; ++which) {
    FailureOr<FillsAndReads> own = verifyTiles(ring, roles, which);
    if (failed(own))
      return failure();
    if (which > 0) {
      if (own->fills.size() != before.fills.size() ||
          own->awaits.size() != before.awaits.size())
        return ring.emitOpError("has other numbers of loops for one load than "
                                "for another");
      // Whoever fills waits for stages in the order of their numbers, and these
      // are free only where readers release all tiles of a turn within it.
      for (auto [sooner, later] : llvm::zip(before.fills, own->fills))
        if (failed(verifyOrder(sooner, later)))
          return failure();
      for (auto [first, second] : llvm::zip(before.awaits, own->awaits))
        if (first->getBlock() != second->getBlock())
          return second.emitOpError("is in another loop than what reads the "
                                    "turn's tile before it");
    }
    before = std::move(*own);
  }
  return success();
}

/// Whether all warps of a warpgroup do this together: they meet, or PTX asks it
/// (wgmma, the qualifier .aligned).
static bool isOfWarpgroup(Operation *op) {
  auto any = dyn_cast<AnyOp>(op);
  return isa<MultiplyOp, WaitOp, LoadOp, NegateOp, MeetOp, MeetClusterOp,
             SpaceOp>(op) ||
         (any && any.getWarpgroup());
}

/// Checks that what the warps of a warpgroup do together stands in no branch
/// and no loop that goes by what one of them alone has found.
static LogicalResult verifyTogether(RolesOp roles) {
  WalkResult elsewhere = kernelOf(roles).walk([&](AnyOp op) {
    if (!op.getWarpgroup() ||
        roles.getConsumer().isAncestor(op->getParentRegion()))
      return WalkResult::advance();
    op.emitOpError("is not among the warpgroups that compute, whose barriers "
                   "it has");
    return WalkResult::interrupt();
  });
  if (elsewhere.wasInterrupted())
    return failure();
  // What follows from a vote of one warp, through branches and loops, too.
  SetVector<Value> own;
  SetVector<Operation *> parting;
  roles.getConsumer().walk([&](AnyOp op) {
    if (!op.getWarpgroup())
      own.insert(op.getResult());
  });
  for (size_t i = 0; i < own.size(); ++i)
    for (OpOperand &use : own[i].getUses()) {
      Operation *op = use.getOwner();
      const unsigned which = use.getOperandNumber();
      if (isOfWarpgroup(op))
        continue;
      Operation *parent = op->getParentOp();
      if (isa<scf::ConditionOp, scf::YieldOp>(op) &&
          isa<scf::WhileOp>(parent)) {
        // All of it, whichever value it is: no kernel of ours has such loops.
        parting.insert(parent);
        for (Region &region : parent->getRegions())
          own.insert_range(region.getArguments());
        own.insert_range(parent->getResults());
        continue;
      }
      if (isa<scf::YieldOp>(op)) {
        own.insert(parent->getResult(which));
        if (auto loop = dyn_cast<scf::ForOp>(parent))
          own.insert(loop.getRegionIterArg(which));
        continue;
      }
      auto loop = dyn_cast<scf::ForOp>(op);
      if (loop && which >= loop.getNumControlOperands()) {
        own.insert(loop.getTiedLoopRegionIterArg(&use));
        own.insert(loop.getTiedLoopResult(&use));
        continue;
      }
      if (op->getNumRegions())
        parting.insert(op);
      own.insert_range(op->getResults());
    }
  for (Operation *branch : parting)
    if (branch
            ->walk([&](Operation *op) {
              if (op == branch || !isOfWarpgroup(op))
                return WalkResult::advance();
              op->emitOpError("is done by all warps of a warpgroup together, "
                              "but stands in a branch by what one of them has "
                              "found; ask for an element 'of warpgroup'");
              return WalkResult::interrupt();
            })
            .wasInterrupted())
      return failure();
  return success();
}

/// Checks that warpgroups which have an order come as often as each other, each
/// time to wait and then to arrive: in every loop over tiles, in no branch.
static LogicalResult verifyOrdered(RolesOp roles) {
  SmallVector<Operation *> ops;
  SetVector<Block *> bodies;
  WalkResult walked = kernelOf(roles).walk([&](Operation *op) {
    const bool comes = isa<OrderWaitOp, OrderArriveOp>(op);
    if (!comes && !isa<OrderBeginOp, OrderEndOp>(op))
      return WalkResult::advance();
    ops.push_back(op);
    if (comes)
      bodies.insert(op->getBlock());
    Region *region = op->getParentRegion();
    while (comes && isa<scf::ForOp>(region->getParentOp()))
      region = region->getParentRegion();
    if (region == &roles.getConsumer())
      return WalkResult::advance();
    op->emitOpError("is not where all warpgroups that compute come");
    return WalkResult::interrupt();
  });
  if (walked.wasInterrupted())
    return failure();
  if (ops.empty())
    return success();
  if (roles.getActive())
    return ops.front()->emitOpError(
        "waits for all warpgroups that compute, of which some do not");
  if (!isa<OrderBeginOp>(ops.front()) || !isa<OrderEndOp>(ops.back()))
    return roles.emitOpError(
        "has an order that is not begun first and ended last");
  for (Operation *op : ArrayRef(ops).drop_front().drop_back())
    if (isa<OrderBeginOp, OrderEndOp>(op))
      return op->emitOpError("is there twice");
  for (Block *body : bodies) {
    // A loop over a ring's tiles is as long for all: verifyPhases().
    if (body->getOps<AwaitOp>().empty())
      return body->getParentOp()->emitOpError(
          "has warpgroups come in order, but waits for no tile: it may be of "
          "other lengths in some of them");
    bool inside = false;
    for (Operation &op : *body) {
      if (isa<OrderWaitOp, OrderArriveOp>(op)) {
        if (inside == isa<OrderWaitOp>(op))
          return op.emitOpError("does not alternate: warp.order_wait, then "
                                "warp.order_arrive");
        inside = !inside;
      } else if (inside &&
                 isa<AwaitOp, MeetOp, MeetClusterOp, SpaceOp, scf::ForOp>(op)) {
        return op.emitOpError("is between warp.order_wait and "
                              "warp.order_arrive, where others wait");
      }
    }
    if (inside)
      return body->getParentOp()->emitOpError(
          "ends before the next warpgroup may go on");
  }
  // One that passes tiles would leave out its place.
  walked = roles.getConsumer().walk([&](AwaitOp await) {
    auto loop = dyn_cast<scf::ForOp>(await->getParentOp());
    if (!loop || llvm::any_of(bodies, [&](Block *body) {
          return loop->isAncestor(body->getParentOp());
        }))
      return WalkResult::advance();
    await.emitOpError("is of a loop without a place in the order that other "
                      "loops have");
    return WalkResult::interrupt();
  });
  return failure(walked.wasInterrupted());
}

namespace {
struct VerifyPipelines : warp::impl::WarpVerifyPipelinesBase<VerifyPipelines> {
  using WarpVerifyPipelinesBase::WarpVerifyPipelinesBase;

  void runOnOperation() override {
    bool good = true;
    getOperation().walk([&](RolesOp roles) {
      if (!kernelOf(roles)) {
        roles.emitOpError("is in no llvm.func, whose warps it divides");
        good = false;
        return;
      }
      good &= succeeded(verifyMemory(roles, sharedOfBlock)) &&
              succeeded(verifyRegisters(roles)) &&
              succeeded(verifyTogether(roles)) &&
              succeeded(verifyOrdered(roles));
      roles->getParentOfType<LLVM::LLVMFuncOp>().walk(
          [&](RingOp ring) { good &= succeeded(verifyRing(ring, roles)); });
    });
    if (!good)
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
