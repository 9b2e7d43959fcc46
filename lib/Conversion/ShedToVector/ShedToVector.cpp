//===- ShedToVector.cpp - Lower kernels on tiles to vectors ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "heddle/Conversion/CheckForms.h"
#include "heddle/Conversion/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mlir::heddle {
#define GEN_PASS_DEF_CONVERTSHEDTOVECTOR
#include "heddle/Conversion/Passes.h.inc"
} // namespace mlir::heddle

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::vectors;

void mlir::heddle::populateShedToVectorPatterns(const TypeConverter &converter,
                                                RewritePatternSet &patterns,
                                                VectorKernel &kernel) {
  const VectorPatterns all{converter, patterns, kernel};
  populateKernelPatterns(all);
  populateKeyPatterns(all);
  populateLoadPatterns(all);
  populateProductPatterns(all);
  populateScorePatterns(all);
  populateSoftmaxPatterns(all);
  populateSelectPatterns(all);
  populateLogitPatterns(all);
}

/// Whether a kernel is one that CPUs have a form of.
static LogicalResult checkKernel(shed::KernelOp kernel) {
  if (!kernel.getTilingAs<shed::TilingAttr>())
    return kernel.emitOpError() << "has no tiling for a vector machine; run "
                                   "shed-choose-tiles first";
  if (kernel.getElement().isF16())
    return kernel.emitOpError() << "has element f16, which host kernels do not "
                                   "come in; use f32 or bf16";
  if (kernel.getEncoding().value_or(shed::Encoding::Int32) !=
      shed::Encoding::Int32)
    return kernel.emitOpError()
           << "has index lists in "
           << ::heddle::bundle::nameOf(*kernel.getEncoding())
           << "; host kernels read and write int32 alone";
  return success();
}

LogicalResult mlir::heddle::lowerShedToVector(
    shed::KernelOp kernel, function_ref<void(const VectorPatterns &)> more) {
  if (failed(checkKernel(kernel)))
    return failure();
  MLIRContext *context = kernel.getContext();
  VectorKernel facts(kernel);
  ShedToVectorTypeConverter converter(context);
  RewritePatternSet set(context);
  populateShedToVectorPatterns(converter, set, facts);
  if (more)
    more({converter, set, facts});
  ConversionTarget target(*context);
  target.addIllegalDialect<shed::ShedDialect>();
  target.markUnknownOpDynamicallyLegal(
      [&](Operation *op) { return converter.isLegal(op); });
  FrozenRewritePatternSet patterns(std::move(set));
  if (failed(checkForms(kernel->getRegions(), target, patterns, "on vectors")))
    return failure();
  return applyPartialConversion(kernel, target, patterns);
}

namespace {
struct ConvertShedToVector
    : mlir::heddle::impl::ConvertShedToVectorBase<ConvertShedToVector> {
  void runOnOperation() override {
    SmallVector<shed::KernelOp> kernels;
    getOperation().walk(
        [&](shed::KernelOp kernel) { kernels.push_back(kernel); });
    for (shed::KernelOp kernel : kernels)
      if (failed(lowerShedToVector(kernel)))
        return signalPassFailure();
  }
};
} // namespace
