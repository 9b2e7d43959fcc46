//===- GemmPlan.h - A product as cuBLASLt describes it ----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICE_CUDA_GEMMPLAN_H
#define HEDDLE_RUNTIME_DEVICE_CUDA_GEMMPLAN_H

#include "runtime/device/cuda/Gemm.h"

namespace heddle::rt::cuda {

/// A shape as cuBLASLt knows it, and the algorithm that computes it. The
/// library counts in columns: y^T [outputs x rows] = (W^T)^T x^T, where W^T is
/// what W's memory is read as.
struct Gemm::Plan {
  Plan(const CublasLt &blas, const GemmShape &shape, int64_t alignment)
      : blas(blas), shape(shape), alignment(alignment) {}
  ~Plan() {
    const lt::EntryPoints &entries = blas.entryPoints();
    if (preference)
      (void)entries.preferenceDestroy.function(preference);
    for (lt::cublasLtMatrixLayout_t layout : {weights, x, y})
      if (layout)
        (void)entries.matrixLayoutDestroy.function(layout);
    if (product)
      (void)entries.matmulDescDestroy.function(product);
  }
  Plan(const Plan &) = delete;
  Plan &operator=(const Plan &) = delete;

  const CublasLt &blas;
  GemmShape shape;
  int64_t alignment;
  lt::cublasLtMatmulDesc_t product = nullptr;
  lt::cublasLtMatrixLayout_t weights = nullptr, x = nullptr, y = nullptr;
  lt::cublasLtMatmulPreference_t preference = nullptr;
  Algorithm algorithm = {};
  bool chosen = false; ///< among all proposals
  int64_t uses = 0;    ///< until then
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICE_CUDA_GEMMPLAN_H
