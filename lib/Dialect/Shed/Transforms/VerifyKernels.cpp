//===- VerifyKernels.cpp - What holds after the tile level ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Shed/Transforms/Passes.h"

namespace mlir::shed {
#define GEN_PASS_DEF_SHEDVERIFYKERNELS
#include "heddle/Dialect/Shed/Transforms/Passes.h.inc"
} // namespace mlir::shed

using namespace mlir;
using namespace mlir::shed;

static LogicalResult verifyKernel(KernelOp kernel, int64_t registers) {
  auto tiling = kernel.getTilingAs<TilingAttr>();
  if (!tiling)
    return kernel.emitOpError() << "has no tiling for a vector machine, so its "
                                   "tiles have no static shape; run "
                                   "shed-choose-tiles first";
  if (int64_t step = kernel.getRowsInStep(); step % tiling.getQueryRows())
    return kernel.emitOpError()
           << "has tasks of " << tiling.getQueryRows()
           << " rows that do not divide its groups (common divisor " << step
           << ")";
  if (kernel.getHeadDim() % tiling.getBlockChannels())
    return kernel.emitOpError()
           << "has blocks of " << tiling.getBlockChannels()
           << " channels that do not divide head_dim " << kernel.getHeadDim();
  if (tiling.getDot() != DotKind::Fma && !kernel.getElement().isBF16())
    return kernel.emitOpError()
           << "multiplies " << kernel.getElement() << " with a bf16 product";
  if (tiling.getDot() == DotKind::Fma && kernel.getElement().isBF16() &&
      !(tiling.getPackKeys() && tiling.getPackValues()))
    return kernel.emitOpError()
           << "multiplies bf16 with fma without widening it: set pack_keys and "
              "pack_values";
  int64_t block = std::max(tiling.getBlockKeys(), tiling.getBlockChannels());
  int64_t needed = (block + 1) * tiling.getVectors() + 1;
  if (tiling.getDot() != DotKind::Tiles && needed > registers)
    return kernel.emitOpError()
           << "needs " << needed << " vector registers for a block; there are "
           << registers;
  return success();
}

namespace {
struct VerifyKernels : shed::impl::ShedVerifyKernelsBase<VerifyKernels> {
  using ShedVerifyKernelsBase::ShedVerifyKernelsBase;

  void runOnOperation() override {
    bool good = true;
    getOperation()->walk([&](KernelOp kernel) {
      good &= succeeded(verifyKernel(kernel, vectorRegisters));
    });
    if (!good)
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace

std::unique_ptr<Pass>
mlir::shed::createShedVerifyKernels(const ::heddle::HostTargetInfo &target) {
  ShedVerifyKernelsOptions options;
  options.vectorRegisters = target.vectorRegisters();
  return createShedVerifyKernels(options);
}
