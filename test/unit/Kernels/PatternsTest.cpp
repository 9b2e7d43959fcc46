//===- PatternsTest.cpp - Others' patterns beside those of shed -----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An operation that the lowering to CUDA threads has never heard of, between
// products and softmax, and an operation of shed that another pattern lowers.
// The code is run by an interpreter.
//
//===----------------------------------------------------------------------===//

#include "CudaKernels.h"

#include "heddle/Conversion/ShedToNVVM.h"
#include "heddle/Dialect/Shed/Transforms/Passes.h"
#include "heddle/Target/NVPTX/PtxCodegen.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::test;
using namespace mlir;

namespace {

constexpr const char *kernelText = R"(
shed.kernel @masked attention element(bf16) head_dim(64) writes_lse {
  %q = shed.load_queries : !shed.tile<queries, channels, bf16>
  %s = shed.softmax_init : !shed.softmax
  %r = shed.for_keys over #shed.all init(%s) : !shed.softmax {
  ^bb0(%keys: !shed.keys, %c: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, bf16>
    %v = shed.load_values %keys : !shed.tile<keys, channels, bf16>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, bf16>, !shed.tile<keys, channels, bf16>
    %m = shed.mask %l, %keys within #shed.window<10>
    %n = shed.softmax_update %c, %m, %v : !shed.tile<keys, channels, bf16>
    shed.yield %n : !shed.softmax
  }
  shed.store %r
}
)";

/// Doubles logits: all of a tile's scalars but the last, their factor.
struct LowerTwice : ConversionPattern {
  LowerTwice(const TypeConverter &converter, MLIRContext *context)
      : ConversionPattern(converter, "test.twice", 1, context) {}
  LogicalResult
  matchAndRewrite(Operation *op, ArrayRef<ValueRange> operands,
                  ConversionPatternRewriter &rewriter) const override {
    SmallVector<Value> values;
    for (Value value : operands[0].drop_back())
      values.push_back(
          arith::AddFOp::create(rewriter, op->getLoc(), value, value));
    values.push_back(operands[0].back());
    rewriter.replaceOpWithMultiple(op, ArrayRef<ValueRange>{values});
    return success();
  }
};

/// A mask that keeps all.
struct DropMask : OpConversionPattern<shed::MaskOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(shed::MaskOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithMultiple(op,
                                   ArrayRef<ValueRange>{adaptor.getLogits()});
    return success();
  }
};

class Patterns : public testing::Test {
protected:
  Patterns() : sequence(random, /*bf16=*/true, 75, 2, 1, 64) {
    DialectRegistry registry;
    mlir::heddle::registerBackendDialects(registry);
    context.appendDialectRegistry(registry);
    context.allowUnregisteredDialects();
    context
        .loadDialect<arith::ArithDialect, LLVM::LLVMDialect, NVVM::NVVMDialect,
                     scf::SCFDialect, shed::ShedDialect>();
    module = parseSourceString<ModuleOp>(kernelText, &context);
    PassManager pm(&context);
    pm.addPass(shed::createShedChooseMmaTiles());
    if (!module || failed(pm.run(*module)))
      ADD_FAILURE() << "no kernel";
  }

  shed::KernelOp kernel() { return *module->getOps<shed::KernelOp>().begin(); }

  /// Puts test.twice behind the dot.
  void addTwice() {
    kernel().walk([](shed::DotOp dot) {
      OpBuilder b(dot->getContext());
      b.setInsertionPointAfter(dot);
      OperationState state(dot.getLoc(), "test.twice", dot.getResult(),
                           dot.getResult().getType());
      Operation *twice = b.create(state);
      dot.getResult().replaceAllUsesExcept(twice->getResult(0), twice);
    });
  }

  AttentionResult run(mlir::heddle::MorePatterns more) {
    if (failed(mlir::heddle::pipelineCopies(kernel())) ||
        failed(mlir::heddle::lowerShedToNVVM(*module, more))) {
      ADD_FAILURE() << "is not lowered";
      return {};
    }
    const std::optional<CudaKernel> code = codeOf(*module, "sm_80");
    return code ? runAttention(*code, sequence, pattern, random)
                : AttentionResult();
  }

  void expectSame(const AttentionResult &got) const {
    const AttentionResult want = evaluate(sequence, pattern);
    EXPECT_LT(relativeError(got.output, want.output, 0.1), 1e-2);
    EXPECT_LT(relativeError(got.lse, want.lse, 1), 1e-4);
  }

  std::mt19937 random{testSeed()};
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  Sequence sequence;
  test::Pattern pattern{{{bundle::Term::Kind::Window, 10}}, {}};
};

} // namespace

TEST_F(Patterns, LowerAnOperationOfOthers) {
  addTwice();
  const AttentionResult got =
      run([](const TypeConverter &converter, RewritePatternSet &patterns) {
        patterns.add<LowerTwice>(converter, patterns.getContext());
      });
  sequence.scale *= 2;
  expectSame(got);
}

TEST_F(Patterns, OfGreaterBenefitGoFirst) {
  const AttentionResult got =
      run([](const TypeConverter &converter, RewritePatternSet &patterns) {
        patterns.add<DropMask>(converter, patterns.getContext(), 2);
      });
  pattern.terms.clear();
  expectSame(got);
}

TEST_F(Patterns, WithoutOneAnOperationIsNamed) {
  addTwice();
  std::string said;
  ScopedDiagnosticHandler listen(&context, [&](Diagnostic &diagnostic) {
    said += diagnostic.str();
    return success();
  });
  ASSERT_TRUE(succeeded(mlir::heddle::pipelineCopies(kernel())));
  EXPECT_TRUE(failed(mlir::heddle::lowerShedToNVVM(*module)));
  EXPECT_NE(said.find("'test.twice' op has no form on fragments"),
            std::string::npos)
      << said;
}
