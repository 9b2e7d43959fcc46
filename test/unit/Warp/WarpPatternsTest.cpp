//===- WarpPatternsTest.cpp - Patterns beside those for warpgroups --------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Somebody else's patterns lower an op that nobody here knows, and one that has
// a pattern already. Both cap logits, in kernels that run.
//
//===----------------------------------------------------------------------===//

#include "WarpKernels.h"

#include "heddle/Conversion/ShedToWarp.h"
#include "heddle/Dialect/Warp/IR/Warp.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace ::heddle::test;

namespace {

constexpr double cap = 2;

/// What a tile of logits becomes: each part capped, and what parts are to be
/// multiplied by, which is log2(e) now.
SmallVector<Value> capped(ValueRange logits, Location at, OpBuilder &builder) {
  ImplicitLocOpBuilder b(at, builder);
  auto real = [&](double value) -> Value {
    return arith::ConstantOp::create(
        b, b.getF32FloatAttr(static_cast<float>(value)));
  };
  constexpr double log2e = 1.4426950408889634;
  Value factor = logits.drop_back().back();
  SmallVector<Value> result;
  for (Value part : logits.drop_back(2)) {
    auto map = warp::MapOp::create(b, part.getType(), part);
    Block &block = map.getBody().emplaceBlock();
    for (Type type :
         {Type(b.getF32Type()), Type(b.getI32Type()), Type(b.getI32Type())})
      block.addArgument(type, at);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&block);
    Value share = arith::MulFOp::create(
        b, block.getArgument(0),
        arith::MulFOp::create(b, factor, real(1 / (log2e * cap))));
    Value bound = math::TanhOp::create(b, share);
    warp::YieldOp::create(b, Value(arith::MulFOp::create(b, bound, real(cap))));
    result.push_back(map.getResult(0));
  }
  result.append({real(log2e), logits.back()});
  return result;
}

/// An op of no dialect that is registered: one tile of logits in, one out.
struct CapOp : ConversionPattern {
  explicit CapOp(const TypeConverter &converter, MLIRContext *context)
      : ConversionPattern(converter, "test.cap", 1, context) {}
  LogicalResult
  matchAndRewrite(Operation *op, ArrayRef<ValueRange> operands,
                  ConversionPatternRewriter &rewriter) const override {
    SmallVector<Value> result = capped(operands[0], op->getLoc(), rewriter);
    rewriter.replaceOpWithMultiple(op,
                                   ArrayRef<ValueRange>(ValueRange(result)));
    return success();
  }
};

/// In place of the pattern that asks what the function is.
struct CapScores : OpConversionPattern<shed::ScoresOp> {
  explicit CapScores(const TypeConverter &converter, MLIRContext *context)
      : OpConversionPattern(converter, context, /*benefit=*/2) {}
  LogicalResult
  matchAndRewrite(shed::ScoresOp op, OneToNOpAdaptor operands,
                  ConversionPatternRewriter &rewriter) const override {
    SmallVector<Value> result =
        capped(operands.getLogits(), op.getLoc(), rewriter);
    rewriter.replaceOpWithMultiple(op,
                                   ArrayRef<ValueRange>(ValueRange(result)));
    return success();
  }
};

/// A kernel whose function caps at 30, in two parts a tile.
std::string kernel() {
  return R"(shed.kernel @dense attention element(bf16) head_dim(64) writes_lse tiling(#shed.wgmma_tiling<consumers = 2, keys = 64, stages = 2, parts = 2, producer_registers = 40, consumer_registers = 232>) {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s0 = shed.softmax_init : !shed.softmax
  %s1 = shed.for_keys over #shed.all init(%s0) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %s: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %f = shed.scores %l at %keys (%logit) {
      %c = arith.constant 30.0 : f32
      %share = arith.divf %logit, %c : f32
      %bound = math.tanh %share : f32
      %capped = arith.mulf %bound, %c : f32
      shed.yield %capped : f32
    }
    %n = shed.softmax_update %s, %f, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %s1
})";
}

Problem problem() {
  Problem problem{150, 140, 2, 1, 0.25f};
  problem.cap = cap;
  return problem;
}

} // namespace

TEST_F(WarpKernels, PatternForAnOpOfOnesOwn) {
  // Functions of logits that nobody here knows have no bounds.
  auto replaceScores = [](shed::KernelOp kernel) {
    kernel.walk([](shed::ScoresOp op) {
      OpBuilder b(op);
      Operation *own = b.create(op.getLoc(), b.getStringAttr("test.cap"),
                                op.getLogits(), op.getType());
      op.getResult().replaceAllUsesWith(own->getResult(0));
      op.erase();
    });
  };
  Compiled code = compileText(
      kernel(), replaceScores,
      [](const TypeConverter &converter, RewritePatternSet &patterns) {
        patterns.add<CapOp>(converter, patterns.getContext());
      });
  ASSERT_FALSE(code.ptx.empty());
  check(code, true, 64, problem(), 1);
  // An op without a pattern is refused.
  EXPECT_TRUE(compileText(kernel(), replaceScores,
                          [](const TypeConverter &, RewritePatternSet &) {})
                  .ptx.empty());
}

TEST_F(WarpKernels, PatternInPlaceOfAnother) {
  Compiled code = compileText(
      kernel(), {},
      [](const TypeConverter &converter, RewritePatternSet &patterns) {
        patterns.add<CapScores>(converter, patterns.getContext());
      });
  ASSERT_FALSE(code.ptx.empty());
  check(code, true, 64, problem(), 1);
}
