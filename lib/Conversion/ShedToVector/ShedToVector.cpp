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
    : heddle::impl::ConvertShedToVectorBase<ConvertShedToVector> {
  void runOnOperation() override {
    SmallVector<shed::KernelOp> kernels;
    getOperation().walk(
        [&](shed::KernelOp kernel) { kernels.push_back(kernel); });
    for (shed::KernelOp kernel : kernels) {
      if (!kernel.getTiling()) {
        kernel.emitOpError() << "has no tiling; run shed-choose-tiles first";
        return signalPassFailure();
      }
      if (failed(KernelLowering(kernel).run()))
        return signalPassFailure();
      kernel.erase();
    }
  }
};
} // namespace
