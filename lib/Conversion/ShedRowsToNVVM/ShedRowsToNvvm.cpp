//===- ShedRowsToNvvm.cpp - Lower row kernels to CUDA ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowLowering.h"

#include "heddle/Conversion/Passes.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace mlir::heddle {
#define GEN_PASS_DEF_CONVERTSHEDROWSTONVVM
#include "heddle/Conversion/Passes.h.inc"
} // namespace mlir::heddle

using namespace mlir;
using namespace mlir::heddle;

namespace {
struct ConvertShedRowsToNVVM
    : mlir::heddle::impl::ConvertShedRowsToNVVMBase<ConvertShedRowsToNVVM> {
  void runOnOperation() override {
    for (auto kernel : llvm::make_early_inc_range(
             getOperation().getOps<shed::RowKernelOp>())) {
      if (failed(RowLowering(kernel).run()))
        return signalPassFailure();
      kernel.erase();
    }
  }
};
} // namespace
