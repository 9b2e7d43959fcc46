//===- RowKernels.h - Elementwise work on rows, on the host -----*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a transformer does beside matrix products and attention. T is the type
// of activations, float or bfloat16; all arithmetic is fp32. "T(...)" rounds to
// T: the kernels round where the released PyTorch code of LLaDA and Dream does
// when it runs in that type. Every kernel works on one row with a fixed order
// of operations, so that a row's result depends on nothing else; it has the
// same bits on every CPU.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICE_CPU_ROWKERNELS_H
#define HEDDLE_RUNTIME_DEVICE_CPU_ROWKERNELS_H

#include "runtime/tensor/DType.h"

#include <cstdint>

namespace heddle::rt::cpu {

/// The kernels for one T. Pointers need no alignment; in and out may be the
/// same array, but not overlap otherwise.
struct RowKernels {
  /// y[i] = T(T(x[i] / sqrt(mean(x^2) + eps)) * weight[i]).
  /// x, y: T [n]; weight [n] holds values of T.
  void (*rmsNorm)(const void *x, const float *weight, void *y, int64_t n,
                  float eps);

  /// Rotates the pairs (t[i], t[i + half]), t = T(x):
  ///   y[i]        = T(t[i] * cos[i] - t[i + half] * sin[i])
  ///   y[i + half] = T(t[i + half] * cos[i] + t[i] * sin[i]).
  /// x [2 * half] fp32; cos, sin [half]; y: T [2 * half].
  void (*rotateHalves)(const float *x, const float *cos, const float *sin,
                       void *y, int64_t half);

  /// The same with every operation rounded to T:
  ///   y[i]        = T(T(t[i] * cos[i]) - T(t[i + half] * sin[i]))
  ///   y[i + half] = T(T(t[i + half] * cos[i]) + T(t[i] * sin[i])).
  /// cos, sin: values of T.
  void (*rotateHalvesInT)(const float *x, const float *cos, const float *sin,
                          void *y, int64_t half);

  /// y[i] = T(x[i]). x [n] fp32; y: T [n].
  void (*store)(const float *x, void *y, int64_t n);

  /// y[i] = T(x[i]), kept in fp32. x, y [n] fp32.
  void (*round)(const float *x, float *y, int64_t n);

  /// y[i] = T(y[i] + T(x[i])). x [n] fp32; y: T [n].
  void (*addTo)(const float *x, void *y, int64_t n);

  /// y[i] = T(T(silu(T(gate[i]))) * T(up[i])), silu(z) = z / (1 + exp(-z)).
  /// gate, up [n] fp32; y: T [n].
  void (*swiGlu)(const float *gate, const float *up, void *y, int64_t n);

  /// y[i] = x[i]. x: T [n]; y [n] fp32.
  void (*widen)(const void *x, float *y, int64_t n);
};

/// The fastest kernels for T = `dtype` (F32 or BF16) on this CPU.
const RowKernels &rowKernels(DType dtype);

/// All the compiled versions that this CPU can run, for tests: name of the
/// instruction set and kernels.
struct NamedRowKernels {
  const char *name;
  const RowKernels *kernels;
};
/// Writes at most `most` entries, fastest first; returns how many.
int listRowKernels(DType dtype, NamedRowKernels *list, int most);

} // namespace heddle::rt::cpu

#endif // HEDDLE_RUNTIME_DEVICE_CPU_ROWKERNELS_H
