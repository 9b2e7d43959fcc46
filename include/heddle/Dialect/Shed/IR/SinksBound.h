//===- SinksBound.h - Where the sinks of several sets end -------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_SHED_IR_SINKSBOUND_H
#define HEDDLE_DIALECT_SHED_IR_SINKSBOUND_H

#include "heddle/Dialect/Shed/IR/Shed.h"

#include <algorithm>

namespace mlir::shed {

/// Sinks are the keys below the larger of `size` and, if `told`, what the
/// kernel is told when it runs (AttentionArgs::sinks).
struct SinksBound {
  explicit SinksBound(ArrayRef<SinksAttr> sets) {
    for (SinksAttr set : sets)
      if (set.isDynamic())
        told = true;
      else
        size = std::max(size, set.getSize());
  }

  int64_t size = 0; ///< 0: no number
  bool told = false;
};

} // namespace mlir::shed

#endif // HEDDLE_DIALECT_SHED_IR_SINKSBOUND_H
