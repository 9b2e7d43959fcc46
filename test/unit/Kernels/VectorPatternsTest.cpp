//===- VectorPatternsTest.cpp - Kernels by patterns of one's own ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The patterns to vectors are a set that others add to: an operation that shed
// does not have, another way for one that it has. What comes of it runs, beside
// float64.
//
//===----------------------------------------------------------------------===//

#include "KernelHarness.h"

#include "heddle/Conversion/ShedToVector.h"
#include "heddle/Dialect/Shed/Transforms/Passes.h"
#include "heddle/Target/Host/HostCodegen.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include "llvm/Support/Error.h"

#include <gtest/gtest.h>
#include <limits>

using namespace heddle;
using namespace heddle::test;
using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::vectors;

namespace {

/// Dense attention, with a mask that leaves little of it.
constexpr const char *text = R"(
shed.kernel @k attention element(TYPE) head_dim(64) writes_lse {
  %q = shed.load_queries : !shed.tile<queries, channels, TYPE>
  %s0 = shed.softmax_init : !shed.softmax
  %s1 = shed.for_keys over #shed.all init(%s0) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %s: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, TYPE>
    %v = shed.load_values %keys : !shed.tile<keys, channels, TYPE>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, TYPE>, !shed.tile<keys, channels, TYPE>
    %m = shed.mask %l, %keys within #shed.window<3>
    %n = shed.softmax_update %s, %m, %v : !shed.tile<keys, channels, TYPE>
    shed.yield %n : !shed.softmax
  }
  shed.store %s1
}
)";

/// `test.keep_even %logits, %keys`: only keys at even positions count.
constexpr const char *keepEven = "test.keep_even";

struct LowerKeepEven : ConversionPattern {
  explicit LowerKeepEven(const VectorPatterns &to)
      : ConversionPattern(to.converter, keepEven, 1, to.patterns.getContext()),
        kernel(to.kernel) {}

  LogicalResult
  matchAndRewrite(Operation *op, ArrayRef<ValueRange> operands,
                  ConversionPatternRewriter &rewriter) const override {
    KernelBuilder v(op, rewriter, kernel);
    const auto logits = unpack<LogitTile>(operands[0]);
    const auto keys = unpack<Keys>(operands[1]);
    Value lowest = v.splat(-std::numeric_limits<float>::infinity());
    v.loop(v.constant(0), logits.count, 1, [&](Value j) {
      Value position = v.narrow(v.positionAt(v.placeOf(keys, j)));
      Value bit = arith::AndIOp::create(v.b, position, v.integer(v.i32(), 1));
      Value odd = arith::TruncIOp::create(v.b, v.b.getI1Type(), bit);
      v.when(odd, [&] {
        for (int64_t i = 0; i < v.here.active; ++i)
          v.storeLane(lowest, v.logitsRow(logits.base, j), i);
      });
    });
    rewriter.replaceOpWithMultiple(op, ArrayRef<ValueRange>{operands[0]});
    return success();
  }

  VectorKernel &kernel;
};

/// The kernel above, for a target.
class VectorPatternsTest : public testing::TestWithParam<const char *> {
protected:
  VectorPatternsTest() {
    DialectRegistry registry;
    registry.insert<shed::ShedDialect>();
    registerBackendDialects(registry);
    context.appendDialectRegistry(registry);
    context.allowUnregisteredDialects();
    context.loadAllAvailableDialects();
    context
        .loadDialect<arith::ArithDialect, func::FuncDialect, LLVM::LLVMDialect,
                     scf::SCFDialect, vector::VectorDialect>();
  }

  /// The kernel, tiled for a target.
  shed::KernelOp parse(StringRef target) {
    std::string source = text;
    for (size_t at; (at = source.find("TYPE")) != std::string::npos;)
      source.replace(at, 4, GetParam());
    module = parseSourceString<ModuleOp>(source, &context);
    PassManager pm(&context);
    pm.addPass(shed::createShedChooseTiles(
        llvm::cantFail(::heddle::HostTarget::get(target.str()))));
    EXPECT_TRUE(module && succeeded(pm.run(*module)));
    return *module->getOps<shed::KernelOp>().begin();
  }

  static Operation *maskToOwn(shed::KernelOp kernel) {
    shed::MaskOp mask;
    kernel.walk([&](shed::MaskOp op) { mask = op; });
    OpBuilder b(mask);
    OperationState state(FileLineColLoc::get(b.getContext(), "own", 7, 3),
                         keepEven);
    state.addOperands(mask.getOperands());
    state.addTypes(mask.getType());
    Operation *own = b.create(state);
    mask->replaceAllUsesWith(own);
    mask.erase();
    return own;
  }

  /// Runs what the kernel has become beside what `scores` makes of all pairs.
  void expect(const std::string &target, const LogitFunction &scores) {
    KernelSet set(target, *module);
    std::mt19937 random(testSeed());
    const bool bf16 = StringRef(GetParam()) == "bf16";
    for (int64_t n : {1, 75, 200}) {
      Sequence sequence(random, bf16, n, 2, 1, 64);
      if (n > 1)
        sequence.thinOut(random);
      test::Pattern pattern;
      pattern.scores = scores;
      const AttentionResult want = evaluate(sequence, pattern);
      const AttentionResult got =
          runAttention(set["k"], sequence, pattern, random);
      EXPECT_LT(relativeError(got.output, want.output, bf16 ? 0.1 : 1e-3),
                bf16 ? 1e-2 : 1e-4)
          << target << ", " << n;
      EXPECT_LT(relativeError(got.lse, want.lse, 1), 1e-4)
          << target << ", " << n;
    }
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

TEST_P(VectorPatternsTest, LowerAnOperationOfOnesOwn) {
  for (const std::string &target : runnableTargets()) {
    shed::KernelOp kernel = parse(target);
    maskToOwn(kernel);
    ASSERT_TRUE(
        succeeded(lowerShedToVector(kernel, [](const VectorPatterns &to) {
          to.patterns.add<LowerKeepEven>(to);
        })));
    expect(target, [](double logit, int32_t, int32_t key, int32_t) {
      return key % 2 ? -std::numeric_limits<double>::infinity() : logit;
    });
  }
}

Results keepAll(Lowering<shed::MaskOp> &v) {
  return {SmallVector<Value>(v.in.getLogits())};
}

TEST_P(VectorPatternsTest, TakeAnothersPlaceByBenefit) {
  for (const std::string &target : runnableTargets()) {
    ASSERT_TRUE(succeeded(
        lowerShedToVector(parse(target), [](const VectorPatterns &to) {
          to.add(keepAll, /*benefit=*/2);
        })));
    expect(target, {});
  }
}

TEST_P(VectorPatternsTest, RefuseWhatNoneIsForAtItsPlace) {
  Operation *own = maskToOwn(parse("x86-64-v3"));
  const Location place = own->getLoc();
  std::vector<std::string> errors;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    EXPECT_EQ(diagnostic.getLocation(), place);
    errors.push_back(diagnostic.str());
    return success();
  });
  EXPECT_TRUE(
      failed(lowerShedToVector(own->getParentOfType<shed::KernelOp>())));
  EXPECT_EQ(errors,
            std::vector<std::string>{
                "'test.keep_even' op has no form on vectors; compile for a "
                "target that has one, or add a pattern for it"});
}

INSTANTIATE_TEST_SUITE_P(, VectorPatternsTest, testing::Values("f32", "bf16"),
                         [](const auto &info) { return info.param; });

} // namespace
