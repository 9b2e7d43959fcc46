//===- PtxCodegen.h - From kernels in LLVM's terms to PTX -------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TARGET_NVPTX_PTXCODEGEN_H
#define HEDDLE_TARGET_NVPTX_PTXCODEGEN_H

#include "heddle/Target/Codegen/CompileApart.h"
#include "heddle/Target/NVPTX/CudaTarget.h"

namespace mlir::heddle {

/// Compiles every kernel of `module`, an `llvm.func` with `nvvm.kernel`, to one
/// PTX module: its `.entry` points are the kernels in their order, each with
/// the functions and constants that it uses; globals without a body
/// (`external`) are shared by all. Kernels compile on all cores, and the text
/// depends on nothing but the module and the target. Errors are reported on the
/// module: no kernel, or an op that has no translation.
FailureOr<std::string> emitPtx(ModuleOp module,
                               const ::heddle::CudaTarget &target,
                               const KernelCache &kept = {});

} // namespace mlir::heddle

#endif // HEDDLE_TARGET_NVPTX_PTXCODEGEN_H
