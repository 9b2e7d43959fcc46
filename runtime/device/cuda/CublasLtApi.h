//===- CublasLtApi.h - The part of cuBLASLt that is used --------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Declared here for the reason that DriverApi.h gives; checked against
// cublasLt.h in the same test. The same in cuBLAS 12 and 13.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICE_CUDA_CUBLASLTAPI_H
#define HEDDLE_RUNTIME_DEVICE_CUDA_CUBLASLTAPI_H

#include "runtime/device/cuda/DriverApi.h"

#include <cstddef>
#include <cstdint>

namespace heddle::rt::cuda::lt {

using cublasStatus_t = int;
using cublasLtHandle_t = struct cublasLtContext *;
using cublasLtMatmulDesc_t = struct cublasLtMatmulDescOpaque *;
using cublasLtMatrixLayout_t = struct cublasLtMatrixLayoutOpaque *;
using cublasLtMatmulPreference_t = struct cublasLtMatmulPreferenceOpaque *;

enum : cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_ARCH_MISMATCH = 8,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_INTERNAL_ERROR = 14,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
};

enum cublasComputeType_t : int { CUBLAS_COMPUTE_32F = 68 };
enum cudaDataType : int { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_16BF = 14 };
enum cublasOperation_t : int32_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };

enum cublasLtMatmulDescAttributes_t : int {
  CUBLASLT_MATMUL_DESC_TRANSA = 3,       ///< int32_t
  CUBLASLT_MATMUL_DESC_EPILOGUE = 7,     ///< uint32_t
  CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8, ///< const void *, of D's type
};

enum cublasLtEpilogue_t : uint32_t {
  CUBLASLT_EPILOGUE_DEFAULT = 1,
  CUBLASLT_EPILOGUE_BIAS = 4, ///< D's columns plus the bias, before rounding
};

enum cublasLtMatmulPreferenceAttributes_t : int {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,   ///< uint64_t
  CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3, ///< uint32_t
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5, ///< uint32_t
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6, ///< uint32_t
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7, ///< uint32_t
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8, ///< uint32_t
};

enum : uint32_t {
  CUBLASLT_REDUCTION_SCHEME_NONE = 0,
  CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2,
};

enum cublasLtMatmulAlgoConfigAttributes_t : int {
  CUBLASLT_ALGO_CONFIG_ID = 0,               ///< int32_t
  CUBLASLT_ALGO_CONFIG_TILE_ID = 1,          ///< uint32_t
  CUBLASLT_ALGO_CONFIG_SPLITK_NUM = 2,       ///< int32_t
  CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING = 4,    ///< uint32_t
  CUBLASLT_ALGO_CONFIG_STAGES_ID = 6,        ///< uint32_t
  CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID = 8, ///< uint16_t
};

struct cublasLtMatmulAlgo_t {
  uint64_t data[8];
};

struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
};

} // namespace heddle::rt::cuda::lt

/// X(member, "symbol", result, parameters).
#define HEDDLE_CUBLASLT_ENTRY_POINTS(X)                                        \
  X(create, "cublasLtCreate", cublasStatus_t, (cublasLtHandle_t * handle))     \
  X(destroy, "cublasLtDestroy", cublasStatus_t, (cublasLtHandle_t handle))     \
  X(getVersion, "cublasLtGetVersion", size_t, ())                              \
  X(getStatusName, "cublasLtGetStatusName", const char *,                      \
    (cublasStatus_t status))                                                   \
  X(getStatusString, "cublasLtGetStatusString", const char *,                  \
    (cublasStatus_t status))                                                   \
  X(matmulDescCreate, "cublasLtMatmulDescCreate", cublasStatus_t,              \
    (cublasLtMatmulDesc_t * description, cublasComputeType_t computeType,      \
     cudaDataType scaleType))                                                  \
  X(matmulDescDestroy, "cublasLtMatmulDescDestroy", cublasStatus_t,            \
    (cublasLtMatmulDesc_t description))                                        \
  X(matmulDescSetAttribute, "cublasLtMatmulDescSetAttribute", cublasStatus_t,  \
    (cublasLtMatmulDesc_t description,                                         \
     cublasLtMatmulDescAttributes_t attribute, const void *value,              \
     size_t bytes))                                                            \
  X(matrixLayoutCreate, "cublasLtMatrixLayoutCreate", cublasStatus_t,          \
    (cublasLtMatrixLayout_t * layout, cudaDataType type, uint64_t rows,        \
     uint64_t columns, int64_t stride))                                        \
  X(matrixLayoutDestroy, "cublasLtMatrixLayoutDestroy", cublasStatus_t,        \
    (cublasLtMatrixLayout_t layout))                                           \
  X(preferenceCreate, "cublasLtMatmulPreferenceCreate", cublasStatus_t,        \
    (cublasLtMatmulPreference_t * preference))                                 \
  X(preferenceDestroy, "cublasLtMatmulPreferenceDestroy", cublasStatus_t,      \
    (cublasLtMatmulPreference_t preference))                                   \
  X(preferenceSetAttribute, "cublasLtMatmulPreferenceSetAttribute",            \
    cublasStatus_t,                                                            \
    (cublasLtMatmulPreference_t preference,                                    \
     cublasLtMatmulPreferenceAttributes_t attribute, const void *value,        \
     size_t bytes))                                                            \
  X(algoGetHeuristic, "cublasLtMatmulAlgoGetHeuristic", cublasStatus_t,        \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t description,                \
     cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,                       \
     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,                       \
     cublasLtMatmulPreference_t preference, int requested,                     \
     cublasLtMatmulHeuristicResult_t *results, int *returned))                 \
  X(algoCheck, "cublasLtMatmulAlgoCheck", cublasStatus_t,                      \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t description,                \
     cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,                       \
     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,                       \
     const cublasLtMatmulAlgo_t *algo,                                         \
     cublasLtMatmulHeuristicResult_t *result))                                 \
  X(algoConfigGetAttribute, "cublasLtMatmulAlgoConfigGetAttribute",            \
    cublasStatus_t,                                                            \
    (const cublasLtMatmulAlgo_t *algo,                                         \
     cublasLtMatmulAlgoConfigAttributes_t attribute, void *value,              \
     size_t bytes, size_t *written))                                           \
  X(matmul, "cublasLtMatmul", cublasStatus_t,                                  \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t description,                \
     const void *alpha, const void *a, cublasLtMatrixLayout_t layoutA,         \
     const void *b, cublasLtMatrixLayout_t layoutB, const void *beta,          \
     const void *c, cublasLtMatrixLayout_t layoutC, void *d,                   \
     cublasLtMatrixLayout_t layoutD, const cublasLtMatmulAlgo_t *algo,         \
     void *workspace, size_t workspaceBytes, api::CUstream stream))

namespace heddle::rt::cuda::lt {

template <typename Signature> struct EntryPoint {
  const char *name;
  Signature *function = nullptr;
};

struct EntryPoints {
#define HEDDLE_DECLARE(member, symbol, result, parameters)                     \
  EntryPoint<result parameters> member{symbol};
  HEDDLE_CUBLASLT_ENTRY_POINTS(HEDDLE_DECLARE)
#undef HEDDLE_DECLARE
};

} // namespace heddle::rt::cuda::lt

#endif // HEDDLE_RUNTIME_DEVICE_CUDA_CUBLASLTAPI_H
