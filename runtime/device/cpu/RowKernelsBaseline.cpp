//===- RowKernelsBaseline.cpp - For any CPU of this architecture ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#define HEDDLE_ROW_KERNELS(type) rowKernelsBaseline##type
#include "runtime/device/cpu/RowKernelsImpl.inc"
