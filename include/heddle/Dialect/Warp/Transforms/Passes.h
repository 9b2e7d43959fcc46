//===- Passes.h - Passes on the warp level ---------------------*- C++ -*--===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_WARP_TRANSFORMS_PASSES_H
#define HEDDLE_DIALECT_WARP_TRANSFORMS_PASSES_H

#include "heddle/Dialect/Warp/IR/Warp.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <memory>

namespace mlir::warp {

#define GEN_PASS_DECL
#include "heddle/Dialect/Warp/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "heddle/Dialect/Warp/Transforms/Passes.h.inc"

} // namespace mlir::warp

#endif // HEDDLE_DIALECT_WARP_TRANSFORMS_PASSES_H
