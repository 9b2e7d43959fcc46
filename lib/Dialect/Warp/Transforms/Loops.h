//===- Loops.h - Loops over tiles -------------------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_DIALECT_WARP_TRANSFORMS_LOOPS_H
#define HEDDLE_LIB_DIALECT_WARP_TRANSFORMS_LOOPS_H

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

namespace mlir::warp {

/// Whether a loop goes from 0 by 1.
inline bool countsFromZero(scf::ForOp loop) {
  return matchPattern(loop.getLowerBound(), m_Zero()) &&
         matchPattern(loop.getStep(), m_One());
}

} // namespace mlir::warp

#endif // HEDDLE_LIB_DIALECT_WARP_TRANSFORMS_LOOPS_H
