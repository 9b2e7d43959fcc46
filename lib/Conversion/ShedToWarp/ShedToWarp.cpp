//===- ShedToWarp.cpp - Lower kernels on tiles to warpgroups --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionWriter.h"
#include "SelectWriter.h"

#include "heddle/Conversion/Passes.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::heddle {
#define GEN_PASS_DEF_CONVERTSHEDTOWARP
#include "heddle/Conversion/Passes.h.inc"
} // namespace mlir::heddle

using namespace mlir;
using namespace mlir::heddle;

namespace {
struct ConvertShedToWarp
    : mlir::heddle::impl::ConvertShedToWarpBase<ConvertShedToWarp> {
  void runOnOperation() override {
    SmallVector<shed::KernelOp> kernels;
    getOperation().walk([&](shed::KernelOp kernel) {
      if (kernel.getTilingAs<shed::WgmmaTilingAttr>())
        kernels.push_back(kernel);
    });
    for (shed::KernelOp kernel : kernels) {
      const bool selects = kernel.getKind() == shed::KernelKind::Select;
      if (failed(selects ? SelectWriter(kernel).run()
                         : AttentionWriter(kernel).run()))
        return signalPassFailure();
      kernel.erase();
    }
  }
};
} // namespace
