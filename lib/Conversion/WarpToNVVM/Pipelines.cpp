//===- Pipelines.cpp - Roles, rings and their barriers --------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::heddle;
using arith::CmpIPredicate;
using Values = NVVMBuilder::Values;

namespace {

/// The stage of a tile and whether the ring has gone round an odd number of
/// times before it.
struct Stage {
  Stage(ThreadBuilder &v, warp::RingType type, ValueRange ring, Value tile) {
    Value index = v.remainder(tile, type.getStages());
    address = v.add(ring[0], v.mul(index, type.getTile().getBytes()));
    full = v.add(ring[1], v.mul(index, 8));
    empty = v.add(full, 8 * type.getStages());
    odd = v.both(v.quotient(tile, type.getStages()), 1);
  }

  Value address, full, empty, odd;
};

/// Waits until the barrier has completed its phase of this parity.
void waitFor(ThreadBuilder &v, Value barrier, Value parity) {
  v.assembly("{\n.reg .pred p;\n"
             "AGAIN:\n"
             "mbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1;\n"
             "@p bra DONE;\n"
             "bra AGAIN;\n"
             "DONE:\n}",
             "r,r", {barrier, parity});
}

struct LowerRing : ThreadPattern<warp::RingOp> {
  using ThreadPattern::ThreadPattern;
  SmallVector<Values> rewrite(warp::RingOp op, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    Value tiles = v.tiles();
    Value barriers = v.add(tiles, static_cast<int64_t>(op.getBarriers()));
    const int64_t stages = op.getType().getStages();
    v.when(v.compare(CmpIPredicate::eq, v.threadId(), int64_t(0)), [&] {
      Value readers = v.word(op.getReaders());
      if (op.getActive()) // a warpgroup has four warps
        readers = v.mul(adaptor.getActive().front(), 4);
      for (int64_t i = 0; i < 2 * stages; ++i)
        NVVM::MBarrierInitOp::create(
            v.b, v.sharedAt(barriers, 8 * i),
            i < stages ? v.word(op.getWriters()) : readers, Value());
    });
    return {{v.add(tiles, static_cast<int64_t>(op.getOffset())), barriers}};
  }
};

struct LowerRoles : OpConversionPattern<warp::RolesOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(warp::RolesOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    ThreadBuilder v(op, rewriter);
    const bool shares = op.getCluster() > 1;
    NVVM::FenceMbarrierInitOp::create(v.b);
    // Blocks that share tiles signal each other's barriers once all are made,
    // which the fence before has said.
    if (shares)
      v.assembly("barrier.cluster.arrive.relaxed.aligned;\n"
                 "barrier.cluster.wait.aligned;",
                 "", {});
    else
      v.barrier();
    Value group = v.groupOfBlock();
    Value produces = v.compare(CmpIPredicate::eq, group, int64_t(0));
    Value number = v.add(group, -1);
    rewriter.setInsertionPoint(op);
    auto branch = scf::IfOp::create(rewriter, op.getLoc(), produces,
                                    /*withElseRegion=*/true);
    // A role's registers are set first, by all of its warps.
    auto move = [&](Region &role, Block *to, uint64_t registers,
                    NVVM::SetMaxRegisterAction action, ValueRange arguments) {
      rewriter.inlineBlockBefore(&role.front(), to, to->begin(), arguments);
      rewriter.setInsertionPointToStart(to);
      NVVM::SetMaxRegisterOp::create(rewriter, op.getLoc(), registers, action);
    };
    move(op.getProducer(), branch.thenBlock(), op.getProducerRegisters(),
         NVVM::SetMaxRegisterAction::decrease, {});
    move(op.getConsumer(), branch.elseBlock(), op.getConsumerRegisters(),
         NVVM::SetMaxRegisterAction::increase, number);
    // One thread fetches.
    if (op.getCluster())
      elect(branch.thenBlock(), rewriter, [](ThreadBuilder &v) {
        return v.compare(CmpIPredicate::eq, v.threadId(), int64_t(0));
      });
    if (op.getActive())
      elect(branch.elseBlock(), rewriter, [&](ThreadBuilder &v) {
        return v.compare(CmpIPredicate::slt, number, adaptor.getActive());
      });
    rewriter.eraseOp(op);
    return success();
  }

  /// Leaves what follows the setting of registers to the threads for which
  /// `elected` holds.
  static void elect(Block *role, ConversionPatternRewriter &rewriter,
                    function_ref<Value(ThreadBuilder &)> elected) {
    Operation *registers = &role->front();
    ThreadBuilder v(registers->getNextNode(), rewriter);
    auto branch = scf::IfOp::create(v.b, elected(v), /*withElseRegion=*/false);
    SmallVector<Operation *> rest;
    for (Operation *op = branch->getNextNode();
         op && !op->hasTrait<OpTrait::IsTerminator>(); op = op->getNextNode())
      rest.push_back(op);
    for (Operation *op : rest)
      rewriter.moveOpBefore(op, branch.thenBlock()->getTerminator());
  }
};

struct LowerAcquire : ThreadPattern<warp::AcquireOp> {
  using ThreadPattern::ThreadPattern;
  // Stages are empty at first: the phase before the first one counts as done.
  SmallVector<Values> rewrite(warp::AcquireOp op, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    Stage stage(v, op.getRing().getType(), adaptor.getRing(),
                adaptor.getTile().front());
    waitFor(v, stage.empty, v.flip(stage.odd, 1));
    return {{stage.address}};
  }
};

struct LowerPublish : ThreadPattern<warp::PublishOp> {
  using ThreadPattern::ThreadPattern;
  SmallVector<Values> rewrite(warp::PublishOp op, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    Stage stage(v, op.getRing().getType(), adaptor.getRing(),
                adaptor.getTile().front());
    v.assembly("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [$0];", "r",
               stage.full);
    return {};
  }
};

struct LowerAwait : ThreadPattern<warp::AwaitOp> {
  using ThreadPattern::ThreadPattern;
  // Copies of threads write as threads do, products read as fetches write.
  SmallVector<Values> rewrite(warp::AwaitOp op, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    Stage stage(v, op.getRing().getType(), adaptor.getRing(),
                adaptor.getTile().front());
    waitFor(v, stage.full, stage.odd);
    if (!op.getRing().getType().isFetched())
      v.fenceForProducts();
    return {{stage.address}};
  }
};

struct LowerRelease : ThreadPattern<warp::ReleaseOp> {
  using ThreadPattern::ThreadPattern;
  SmallVector<Values> rewrite(warp::ReleaseOp op, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    Stage stage(v, op.getRing().getType(), adaptor.getRing(),
                adaptor.getTile().front());
    const int64_t cluster = op.getRing().getType().getCluster();
    if (cluster < 2)
      v.assembly("{\n.reg .pred p;\n"
                 "setp.eq.u32 p, $1, 0;\n"
                 "@p mbarrier.arrive.shared::cta.b64 _, [$0];\n}",
                 "r,r", {stage.empty, v.lane()});
    else // a lane for each block
      v.assembly("{\n.reg .pred p;\n.reg .b32 there;\n"
                 "setp.lt.u32 p, $1, " +
                     std::to_string(cluster) +
                     ";\n"
                     "@p mapa.shared::cluster.u32 there, $0, $1;\n"
                     "@p mbarrier.arrive.shared::cluster.b64 _, [there];\n}",
                 "r,r", {stage.empty, v.lane()});
    return {};
  }
};

struct LowerAcquireMap : ThreadPattern<warp::AcquireMapOp> {
  using ThreadPattern::ThreadPattern;
  // The host's copies are in no scope of the device's.
  SmallVector<Values> rewrite(warp::AcquireMapOp, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    v.assembly("fence.proxy.tensormap::generic.acquire.sys [$0], 128;\n"
               "prefetch.tensormap [$0];",
               "l", adaptor.getMap().front());
    return {};
  }
};

struct LowerDrain : ThreadPattern<warp::DrainOp> {
  using ThreadPattern::ThreadPattern;
  SmallVector<Values> rewrite(warp::DrainOp op, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    warp::RingType type = op.getRing().getType();
    for (int64_t i = 0; i < type.getStages(); ++i) {
      Stage stage(v, type, adaptor.getRing(),
                  v.add(adaptor.getTile().front(), i));
      waitFor(v, stage.empty, v.flip(stage.odd, 1));
    }
    return {};
  }
};

struct LowerFetch : ThreadPattern<warp::FetchOp> {
  using ThreadPattern::ThreadPattern;
  // A box is a panel. Of blocks that share the tile, each brings the panels
  // whose numbers are its own modulo their number, to the same place of all.
  SmallVector<Values> rewrite(warp::FetchOp op, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    warp::RingType ring = op.getRing().getType();
    warp::TileType tile = ring.getTile();
    const int64_t cluster = ring.getCluster();
    Stage stage(v, ring, adaptor.getRing(), adaptor.getTile().front());
    waitFor(v, stage.empty, v.flip(stage.odd, 1));
    v.assembly("mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], " +
                   std::to_string(tile.getBytes()) + ";",
               "r", stage.full);
    Value to = stage.address, column = adaptor.getColumn().front();
    if (cluster > 1) {
      Value own = v.both(v.blockId(NVVMBuilder::Axis::X), cluster - 1);
      to = v.add(to, v.mul(own, tile.getPanelBytes()));
      column = v.add(column, v.mul(own, 64));
    }
    std::string text =
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::"
        "complete_tx::bytes";
    text += cluster > 1 ? ".multicast::cluster [$0], [$1, {$2, $3}], [$4], " +
                              std::string("$5;")
                        : std::string(" [$0], [$1, {$2, $3}], [$4];");
    for (int64_t panel = 0; panel < tile.getColumns() / 64; panel += cluster) {
      Values operands = {v.add(to, panel * tile.getPanelBytes()),
                         adaptor.getMap().front(), v.add(column, panel * 64),
                         adaptor.getRow().front(), stage.full};
      if (cluster > 1)
        operands.push_back(v.integer(v.i16(), (int64_t(1) << cluster) - 1));
      v.assembly(text, cluster > 1 ? "r,l,r,r,r,h" : "r,l,r,r,r", operands);
    }
    return {};
  }
};

/// In an order each warpgroup has a barrier, behind those of `meet`, at which
/// it waits for the one before it: as many threads arrive as wait. The last one
/// lets the first one go on at the beginning; the first one takes that back at
/// the end.
template <typename Op> struct LowerOrder : ThreadPattern<Op> {
  using ThreadPattern<Op>::ThreadPattern;
  SmallVector<Values> rewrite(Op op, typename ThreadPattern<Op>::Adaptor,
                              ThreadBuilder &v) const override {
    constexpr bool begins = std::is_same_v<Op, warp::OrderBeginOp>,
                   ends = std::is_same_v<Op, warp::OrderEndOp>,
                   arrives = std::is_same_v<Op, warp::OrderArriveOp>;
    const int64_t consumers = consumersOf(op), first = consumers + 2;
    Value own = v.add(v.groupOfBlock(), -1);
    auto isNumber = [&](int64_t number) {
      return v.compare(CmpIPredicate::eq, own, number);
    };
    auto meetAt = [&](Value barrier) {
      v.assembly(std::string(begins || arrives ? "bar.arrive" : "bar.sync") +
                     " $0, " + std::to_string(2 * warp::warpgroupThreads) + ";",
                 "r", barrier);
    };
    if (begins || ends)
      v.when(isNumber(ends ? 0 : consumers - 1),
             [&] { meetAt(v.word(first)); });
    else if (arrives)
      meetAt(v.select(isNumber(consumers - 1), v.word(first),
                      v.add(own, first + 1)));
    else
      meetAt(v.add(own, first));
    return {};
  }
};

} // namespace

void mlir::heddle::populatePipelinePatterns(const TypeConverter &converter,
                                            Patterns &patterns) {
  patterns.add<LowerRing, LowerRoles, LowerAcquire, LowerPublish, LowerAwait,
               LowerRelease, LowerAcquireMap, LowerFetch, LowerDrain,
               LowerOrder<warp::OrderBeginOp>, LowerOrder<warp::OrderWaitOp>,
               LowerOrder<warp::OrderArriveOp>, LowerOrder<warp::OrderEndOp>>(
      converter, patterns.getContext());
}
