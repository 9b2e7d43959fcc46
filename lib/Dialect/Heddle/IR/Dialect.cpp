//===- Dialect.cpp - The heddle dialect -----------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Assembly.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::heddle;

#include "heddle/Dialect/Heddle/IR/HeddleDialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "heddle/Dialect/Heddle/IR/HeddleAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "heddle/Dialect/Heddle/IR/HeddleTypes.cpp.inc"

#define GET_OP_CLASSES
#include "heddle/Dialect/Heddle/IR/HeddleOps.cpp.inc"

void HeddleDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "heddle/Dialect/Heddle/IR/HeddleAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "heddle/Dialect/Heddle/IR/HeddleTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "heddle/Dialect/Heddle/IR/HeddleOps.cpp.inc"
      >();
}
