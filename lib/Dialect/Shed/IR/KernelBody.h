//===- KernelBody.h - What makes a kernel's body well formed ----*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_DIALECT_SHED_IR_KERNELBODY_H
#define HEDDLE_LIB_DIALECT_SHED_IR_KERNELBODY_H

#include "heddle/Dialect/Shed/IR/Shed.h"

namespace mlir::shed {

/// Whether the body, which ends as its kind must, means the same on every
/// target. Reports errors at the operation that is at fault.
LogicalResult verifyBody(KernelOp kernel);

/// The operand comes from an operation of type `Maker`.
template <typename Maker>
LogicalResult verifyMaker(Operation *op, Value operand, StringRef what) {
  if (operand.getDefiningOp<Maker>())
    return success();
  return op->emitOpError() << "takes " << what << " that do not come from "
                           << Maker::getOperationName();
}

} // namespace mlir::shed

#endif // HEDDLE_LIB_DIALECT_SHED_IR_KERNELBODY_H
