//===- ShedEvaluator.h - Kernels on tiles in float64 ------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Evaluates attention kernels of the shed dialect by what their operands say,
// one row and one key at a time, without tiles and in float64.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_KERNELS_SHEDEVALUATOR_H
#define HEDDLE_TEST_UNIT_KERNELS_SHEDEVALUATOR_H

#include "KernelHarness.h"

#include "heddle/Dialect/Shed/IR/Shed.h"

namespace heddle::test {

/// What an attention kernel stores for every row of `sequence`. Lists are those
/// of `pattern`, by their index.
AttentionResult evaluateShed(mlir::shed::KernelOp kernel,
                             const Sequence &sequence, const Pattern &pattern);

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_KERNELS_SHEDEVALUATOR_H
