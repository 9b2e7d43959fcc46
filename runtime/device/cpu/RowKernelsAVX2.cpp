//===- RowKernelsAVX2.cpp - For CPUs with AVX2 ----------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#define HEDDLE_ROW_KERNELS(type) rowKernelsAVX2##type
#include "runtime/device/cpu/RowKernelsImpl.inc"
