//===- PipelineCopies.cpp - Kernels as multi-stage pipelines --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Conversion/ShedToNVVM.h"

#include "AttentionFrame.h"
#include "SelectFrame.h"

#include "heddle/Conversion/Passes.h"
#include "heddle/Dialect/Shed/IR/MmaTiling.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::heddle {
#define GEN_PASS_DEF_SHEDPIPELINECOPIES
#include "heddle/Conversion/Passes.h.inc"
} // namespace mlir::heddle

using namespace mlir;
using namespace mlir::heddle;

LogicalResult mlir::heddle::pipelineCopies(shed::KernelOp kernel) {
  if (!kernel.getTilingAs<shed::MmaTilingAttr>())
    return kernel.emitOpError() << "has no tiling for a GPU; run "
                                   "shed-choose-mma-tiles first";
  if (failed(shed::verifyMmaTiling(kernel)))
    return failure();
  if (kernel.getKind() == shed::KernelKind::Attention)
    openAttention(kernel);
  else if (failed(openSelection(kernel)))
    return failure();
  kernel.erase();
  return success();
}

namespace {
struct ShedPipelineCopies
    : mlir::heddle::impl::ShedPipelineCopiesBase<ShedPipelineCopies> {
  void runOnOperation() override {
    SmallVector<shed::KernelOp> kernels;
    getOperation().walk(
        [&](shed::KernelOp kernel) { kernels.push_back(kernel); });
    for (shed::KernelOp kernel : kernels)
      if (failed(pipelineCopies(kernel)))
        return signalPassFailure();
  }
};
} // namespace
