//===- RowKernels.cpp - Picks the row kernels for this CPU ----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cpu/RowKernels.h"

#include <cassert>

namespace heddle::rt::cpu {

extern const RowKernels rowKernelsBaselineF32, rowKernelsBaselineBF16;
#ifdef HEDDLE_X86_ROW_KERNELS
extern const RowKernels rowKernelsAVX2F32, rowKernelsAVX2BF16;
extern const RowKernels rowKernelsAVX512F32, rowKernelsAVX512BF16;
#endif

int listRowKernels(DType dtype, NamedRowKernels *list, int most) {
  assert(dtype != DType::F16 && "nothing computes in F16");
  bool bf16 = dtype == DType::BF16;
  int count = 0;
  auto add = [&](const char *name, const RowKernels &f32,
                 const RowKernels &bf16Kernels) {
    if (count < most)
      list[count++] = {name, bf16 ? &bf16Kernels : &f32};
  };
#ifdef HEDDLE_X86_ROW_KERNELS
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    add("avx512", rowKernelsAVX512F32, rowKernelsAVX512BF16);
  if (__builtin_cpu_supports("avx2"))
    add("avx2", rowKernelsAVX2F32, rowKernelsAVX2BF16);
#endif
  add("baseline", rowKernelsBaselineF32, rowKernelsBaselineBF16);
  return count;
}

const RowKernels &rowKernels(DType dtype) {
  NamedRowKernels best;
  listRowKernels(dtype, &best, 1);
  return *best.kernels;
}

} // namespace heddle::rt::cpu
