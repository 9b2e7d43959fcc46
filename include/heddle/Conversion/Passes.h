//===- Passes.h - Passes from one level to the next -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CONVERSION_PASSES_H
#define HEDDLE_CONVERSION_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <memory>

namespace mlir::heddle {

#define GEN_PASS_DECL
#include "heddle/Conversion/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "heddle/Conversion/Passes.h.inc"

} // namespace mlir::heddle

#endif // HEDDLE_CONVERSION_PASSES_H
