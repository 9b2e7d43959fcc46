//===- VerifyMmaKernels.cpp - What holds after the tile level, on a GPU ---===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MmaTiles.h"

#include "heddle/Dialect/Shed/IR/MmaTiling.h"
#include "heddle/Dialect/Shed/Transforms/Passes.h"

namespace mlir::shed {
#define GEN_PASS_DEF_SHEDVERIFYMMAKERNELS
#include "heddle/Dialect/Shed/Transforms/Passes.h.inc"
} // namespace mlir::shed

using namespace mlir;
using namespace mlir::shed;

static LogicalResult verifyKernel(KernelOp kernel, int64_t sharedBytes,
                                  int64_t registers) {
  // Memory and registers of warpgroups are laid out, and checked, a level
  // below.
  if (kernel.getTilingAs<WgmmaTilingAttr>())
    return success();
  auto tiling = kernel.getTilingAs<MmaTilingAttr>();
  if (!tiling)
    return kernel.emitOpError()
           << "has no tiling for a GPU, so its tiles have no static shape; run "
              "shed-choose-mma-tiles first";
  if (failed(verifyMmaTiling(kernel)))
    return failure();
  if (int64_t shared = mmaSharedBytes(kernel, tiling); shared > sharedBytes)
    return kernel.emitOpError() << "needs " << shared
                                << " bytes of shared memory for a block; there "
                                << "are " << sharedBytes;
  if (kernel.getKind() == KernelKind::Select)
    return success();
  if (int64_t held = mmaTileRegisters(kernel, tiling); held >= registers)
    return kernel.emitOpError()
           << "holds tiles in " << held << " registers of each thread; there "
           << "are " << registers;
  return success();
}

namespace {
struct VerifyMmaKernels
    : shed::impl::ShedVerifyMmaKernelsBase<VerifyMmaKernels> {
  using ShedVerifyMmaKernelsBase::ShedVerifyMmaKernelsBase;

  void runOnOperation() override {
    if (failed(
            checkLimits(getOperation(),
                        {{sharedOfBlock.getArgStr(), sharedOfBlock},
                         {registersOfThread.getArgStr(), registersOfThread}})))
      return signalPassFailure();
    bool good = true;
    getOperation()->walk([&](KernelOp kernel) {
      good &= succeeded(verifyKernel(kernel, sharedOfBlock, registersOfThread));
    });
    if (!good)
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace

std::unique_ptr<Pass>
mlir::shed::createShedVerifyMmaKernels(const ::heddle::CudaTargetInfo &target) {
  ShedVerifyMmaKernelsOptions options;
  options.sharedOfBlock = target.sharedBytesPerBlock();
  options.registersOfThread = target.registersPerThread();
  return createShedVerifyMmaKernels(options);
}
