//===- HeddleOps.td - All ops of the heddle dialect ----------*- tablegen -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_IR_HEDDLEOPS_TD
#define HEDDLE_DIALECT_HEDDLE_IR_HEDDLEOPS_TD

include "heddle/Dialect/Heddle/IR/HeddlePlanOps.td"
include "heddle/Dialect/Heddle/IR/HeddleScheduleOps.td"

#endif // HEDDLE_DIALECT_HEDDLE_IR_HEDDLEOPS_TD
