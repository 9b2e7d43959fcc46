//===- ShedToWarp.h - Patterns from shed to warpgroups ----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What values of `shed` become in kernels for warpgroups:
//
//   tile of queries   a !warp.tile
//   keys              where the first one stands, how many there are from it
//                     on, the end of the rows, before which key they are
//                     skipped (i32 each), the list that names them or null, and
//                     how many there are of it, or else of rows (i32)
//   tile of keys      a !warp.tile, then the keys
//   tile of logits    a fragment for each part of a tile, what all are to be
//                     multiplied by (f32), and whether what lies behind the
//                     last key is -inf already (a constant i1)
//   softmax           fragments: contexts, maxima, sums (a part of it a lane);
//                     where sums are checked, whether no tile was added (i1)
//   lse               a fragment: a value a column, negated
//   mass              for each group of a warpgroup where its scores lie, and 1
//                     over its rows
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CONVERSION_SHEDTOWARP_H
#define HEDDLE_CONVERSION_SHEDTOWARP_H

#include "heddle/Conversion/MorePatterns.h"
#include "heddle/Dialect/Shed/IR/Shed.h"

namespace mlir::heddle {

/// Replaces a kernel that has a `wgmma_tiling` by a function, of dialects that
/// are loaded.
LogicalResult lowerShedToWarp(shed::KernelOp kernel, MorePatterns more = {});

} // namespace mlir::heddle

#endif // HEDDLE_CONVERSION_SHEDTOWARP_H
