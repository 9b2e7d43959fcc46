//===- Passes.h - Passes on shed kernels ------------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_SHED_TRANSFORMS_PASSES_H
#define HEDDLE_DIALECT_SHED_TRANSFORMS_PASSES_H

#include "bundle/abi/RowOps.h"
#include "heddle/Dialect/Shed/IR/Shed.h"
#include "heddle/Dialect/Shed/Transforms/Tuning.h"
#include "heddle/Support/TargetInfo.h"

#include "mlir/Pass/Pass.h"

#include <memory>

namespace mlir::shed {

#define GEN_PASS_DECL
#include "heddle/Dialect/Shed/Transforms/Passes.h.inc"

/// `shed-choose-tiles` for the machine `target`.
std::unique_ptr<Pass>
createShedChooseTiles(const ::heddle::HostTargetInfo &target);

/// `shed-verify-kernels` against the registers of `target`.
std::unique_ptr<Pass>
createShedVerifyKernels(const ::heddle::HostTargetInfo &target);

/// `shed-choose-mma-tiles` for the GPU `target`.
std::unique_ptr<Pass>
createShedChooseMmaTiles(const ::heddle::CudaTargetInfo &target);

/// `shed-choose-wgmma-tiles` with the entries of a table. Where that is a file,
/// errors of what is made of a kernel by an entry are reported there.
std::unique_ptr<Pass> createShedChooseWgmmaTiles(ArrayRef<WgmmaRule> rules,
                                                 StringRef file = {});

/// `shed-verify-mma-kernels` against the memory and registers of `target`.
std::unique_ptr<Pass>
createShedVerifyMmaKernels(const ::heddle::CudaTargetInfo &target);

/// `shed-add-row-kernels` for these element types and operations, all if there
/// are none.
std::unique_ptr<Pass>
createShedAddRowKernels(ArrayRef<std::string> dtypes,
                        ArrayRef<::heddle::bundle::RowOp> operations = {});

#define GEN_PASS_REGISTRATION
#include "heddle/Dialect/Shed/Transforms/Passes.h.inc"

} // namespace mlir::shed

#endif // HEDDLE_DIALECT_SHED_TRANSFORMS_PASSES_H
