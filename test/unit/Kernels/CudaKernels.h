//===- CudaKernels.h - Kernels of GPUs, without one -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiles kernels to PTX and has an interpreter run it on what the host's
// kernels run on.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_KERNELS_CUDAKERNELS_H
#define HEDDLE_TEST_UNIT_KERNELS_CUDAKERNELS_H

#include "KernelHarness.h"

#include "heddle/Dialect/Shed/IR/Shed.h"
#include "heddle/Target/Backend.h"

#include <optional>

namespace heddle::test {

struct CudaKernel {
  std::string ptx;
  mlir::heddle::KernelRecord record;
};

/// The only kernel of a module of machine code. Fails the test where there is
/// none.
std::optional<CudaKernel> codeOf(mlir::ModuleOp module, const char *target);

/// By products of warps, for sm_80. Fails the test where there is no code.
std::optional<CudaKernel> compilePortable(mlir::shed::KernelOp kernel);

/// By products of warpgroups, for sm_90a, with some tiling. None, and nothing
/// is wrong, where the kernel has no such form.
std::optional<CudaKernel> compileForWarpgroups(mlir::shed::KernelOp kernel,
                                               std::mt19937 &random);

/// Runs all blocks of a kernel with poisoned outputs. What one does that it
/// must not fails the test.
AttentionResult runAttention(const CudaKernel &kernel, const Sequence &sequence,
                             const Pattern &pattern, std::mt19937 &random);
SelectResult runSelect(const CudaKernel &kernel, const Sequence &sequence,
                       const std::vector<float> &lse, const Choice &choice,
                       std::mt19937 &random);

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_KERNELS_CUDAKERNELS_H
