//===- CheckBody.h - What kernels can be lowered for GPUs -------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CONVERSION_SHEDTONVVM_CHECKBODY_H
#define HEDDLE_LIB_CONVERSION_SHEDTONVVM_CHECKBODY_H

#include "heddle/Dialect/Shed/IR/Shed.h"

namespace mlir::heddle {

/// Whether the kernel does what the lowerings emit for kernels of its kind:
/// they look at which operations there are, so each must be there once and take
/// what it takes in the kernels of convert-heddle-to-shed. Else reports an
/// error on the operation at fault.
LogicalResult checkBody(shed::KernelOp kernel);

} // namespace mlir::heddle

#endif // HEDDLE_LIB_CONVERSION_SHEDTONVVM_CHECKBODY_H
