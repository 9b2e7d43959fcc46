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
      for (int64_t i = 0; i < 2 * stages; ++i)
        NVVM::MBarrierInitOp::create(
            v.b, v.sharedAt(barriers, 8 * i),
            v.word(i < stages ? op.getWriters() : op.getReaders()), Value());
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
    NVVM::FenceMbarrierInitOp::create(v.b);
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
    rewriter.eraseOp(op);
    return success();
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
  // Copies write as threads do, products read as bulk copies do.
  SmallVector<Values> rewrite(warp::AwaitOp op, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    Stage stage(v, op.getRing().getType(), adaptor.getRing(),
                adaptor.getTile().front());
    waitFor(v, stage.full, stage.odd);
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
    v.assembly("{\n.reg .pred p;\n"
               "setp.eq.u32 p, $1, 0;\n"
               "@p mbarrier.arrive.shared::cta.b64 _, [$0];\n}",
               "r,r", {stage.empty, v.lane()});
    return {};
  }
};

} // namespace

void mlir::heddle::populatePipelinePatterns(const TypeConverter &converter,
                                            Patterns &patterns) {
  patterns.add<LowerRing, LowerRoles, LowerAcquire, LowerPublish, LowerAwait,
               LowerRelease>(converter, patterns.getContext());
}
