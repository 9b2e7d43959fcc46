//===- VerifyKernels.h - What the code of kernels relies on -----*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_TRANSFORMS_VERIFYKERNELS_H
#define HEDDLE_DIALECT_HEDDLE_TRANSFORMS_VERIFYKERNELS_H

#include "heddle/Dialect/Heddle/IR/Program.h"

namespace mlir::heddle {

/// The program of a plan whose kernels are as `heddle-verify-plan` asks (N3 and
/// N4); of its steps nothing is asked. Of other kernels no code may be written:
/// failure, with an error at the op that breaks a rule, or without a word where
/// Program::of() has none.
FailureOr<Program> verifyKernels(PlanOp plan);

} // namespace mlir::heddle

#endif // HEDDLE_DIALECT_HEDDLE_TRANSFORMS_VERIFYKERNELS_H
