//===- Warp.td - Everything of the warp dialect -----------*- tablegen -*--===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

include "heddle/Dialect/Warp/IR/WarpOps.td"
