//===- ShedToNVVM.cpp - Lower kernels on tiles to CUDA kernels ------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionLowering.h"
#include "SelectLowering.h"

#include "heddle/Conversion/Passes.h"
#include "heddle/Dialect/Shed/IR/MmaTiling.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::heddle {
#define GEN_PASS_DEF_CONVERTSHEDTONVVM
#include "heddle/Conversion/Passes.h.inc"
} // namespace mlir::heddle

using namespace mlir;
using namespace mlir::heddle;

namespace {
struct ConvertShedToNVVM
    : mlir::heddle::impl::ConvertShedToNVVMBase<ConvertShedToNVVM> {
  void runOnOperation() override {
    SmallVector<shed::KernelOp> kernels;
    getOperation().walk(
        [&](shed::KernelOp kernel) { kernels.push_back(kernel); });
    for (shed::KernelOp kernel : kernels) {
      if (!kernel.getTilingAs<shed::MmaTilingAttr>()) {
        kernel.emitOpError() << "has no tiling for a GPU; run "
                                "shed-choose-mma-tiles first";
        return signalPassFailure();
      }
      bool attends = kernel.getKind() == shed::KernelKind::Attention;
      if (failed(shed::verifyMmaTiling(kernel)) ||
          (!attends && failed(SelectLowering(kernel).run())))
        return signalPassFailure();
      if (attends)
        AttentionLowering(kernel).run();
      kernel.erase();
    }
  }
};
} // namespace
