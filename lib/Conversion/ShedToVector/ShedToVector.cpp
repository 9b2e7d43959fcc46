//===- ShedToVector.cpp - Lower kernels on tiles to vectors ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"

#include "heddle/Conversion/Passes.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mlir::heddle {
#define GEN_PASS_DEF_CONVERTSHEDTOVECTOR
#include "heddle/Conversion/Passes.h.inc"
} // namespace mlir::heddle

using namespace mlir;
using namespace mlir::heddle;

namespace {
struct ConvertShedToVector
    : mlir::heddle::impl::ConvertShedToVectorBase<ConvertShedToVector> {
  void runOnOperation() override {
    SmallVector<shed::KernelOp> kernels;
    getOperation().walk(
        [&](shed::KernelOp kernel) { kernels.push_back(kernel); });
    for (shed::KernelOp kernel : kernels) {
      if (!kernel.getTilingAs<shed::TilingAttr>()) {
        kernel.emitOpError() << "has no tiling for a vector machine; run "
                                "shed-choose-tiles first";
        return signalPassFailure();
      }
      if (kernel.getElement().isF16()) {
        kernel.emitOpError() << "has element f16, which host kernels do not "
                                "come in; use f32 or bf16";
        return signalPassFailure();
      }
      if (kernel.getEncoding().value_or(shed::Encoding::Int32) !=
          shed::Encoding::Int32) {
        kernel.emitOpError() << "has index lists in "
                             << shed::stringifyEncoding(*kernel.getEncoding())
                             << "; host kernels read and write int32 alone";
        return signalPassFailure();
      }
      KernelLowering(kernel).run();
      kernel.erase();
    }
  }
};
} // namespace
