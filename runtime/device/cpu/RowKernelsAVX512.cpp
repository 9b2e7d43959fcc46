//===- RowKernelsAVX512.cpp - For CPUs with AVX-512 F, BW, DQ and VL ------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#define HEDDLE_ROW_KERNELS(type) rowKernelsAVX512##type
#include "runtime/device/cpu/RowKernelsImpl.inc"
