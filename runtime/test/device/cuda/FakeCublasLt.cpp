//===- FakeCublasLt.cpp - A cuBLASLt in host memory -----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/test/device/cuda/FakeCublasLt.h"

#include "runtime/device/cuda/CublasLtApi.h"
#include "runtime/tensor/Convert.h"
#include "runtime/test/device/cuda/FakeDriver.h"

#include <algorithm>
#include <cstring>
#include <vector>

#define HEDDLE_FAKE_ENTRY extern "C" __attribute__((visibility("default")))

namespace heddle::rt::cuda::lt {

struct cublasLtContext {};
struct cublasLtMatmulDescOpaque {
  int32_t transposeA = 0;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void *bias = nullptr;
};
struct cublasLtMatrixLayoutOpaque {
  cudaDataType type;
  uint64_t rows, columns;
  int64_t stride;
};
struct cublasLtMatmulPreferenceOpaque {
  uint64_t workspace = 0;
  uint32_t reductions = ~uint32_t(0);
};

} // namespace heddle::rt::cuda::lt

using namespace heddle::rt;
using namespace heddle::rt::cuda;
using namespace heddle::rt::cuda::lt;
using heddle::rt::cuda::test::FakeCublasLt;

namespace {

FakeCublasLt state;

constexpr uint64_t bigWorkspace = uint64_t(16) << 20;

DType elementType(cudaDataType type) {
  return type == CUDA_R_32F   ? DType::F32
         : type == CUDA_R_16F ? DType::F16
                              : DType::BF16;
}

/// All of a matrix in fp32, column by column.
std::vector<float> widen(const cublasLtMatrixLayoutOpaque &layout,
                         const void *memory) {
  DType type = elementType(layout.type);
  std::vector<float> wide(layout.rows * layout.columns);
  for (uint64_t column = 0; column < layout.columns; ++column)
    convert(type,
            static_cast<const char *>(memory) +
                column * layout.stride * byteSize(type),
            DType::F32, &wide[column * layout.rows],
            static_cast<int64_t>(layout.rows));
  return wide;
}

/// The products of rows of `depth` values with one vector, each summed in
/// order. Eight at once, because each add waits for the one before it; not
/// sanitized, because the tests of the engine spend half of their time here.
__attribute__((no_sanitize("address", "undefined"))) void
sumProducts(const float *rows, const float *vector, uint64_t depth,
            bool backwards, std::vector<float> &sums) {
  constexpr uint64_t lanes = 8;
  const uint64_t count = sums.size();
  float *results = sums.data();
  for (uint64_t first = 0; first < count; first += lanes) {
    const float *row[lanes];
    float sum[lanes] = {};
    for (uint64_t lane = 0; lane < lanes; ++lane) {
      uint64_t last = count - 1;
      row[lane] = rows + (first + lane < last ? first + lane : last) * depth;
    }
    for (uint64_t i = 0; i < depth; ++i) {
      const uint64_t at = backwards ? depth - 1 - i : i;
      const float factor = vector[at];
      for (uint64_t lane = 0; lane < lanes; ++lane)
        sum[lane] += row[lane][at] * factor;
    }
    for (uint64_t lane = 0; lane < lanes && first + lane < count; ++lane)
      results[first + lane] = sum[lane];
  }
}

float load(const cublasLtMatrixLayoutOpaque &layout, const void *memory,
           uint64_t row, uint64_t column) {
  DType type = elementType(layout.type);
  float value;
  convert(type,
          static_cast<const char *>(memory) +
              (column * layout.stride + row) * byteSize(type),
          DType::F32, &value, 1);
  return value;
}

void store(const cublasLtMatrixLayoutOpaque &layout, void *memory, uint64_t row,
           uint64_t column, float value) {
  DType type = elementType(layout.type);
  convert(DType::F32, &value, type,
          static_cast<char *>(memory) +
              (column * layout.stride + row) * byteSize(type),
          1);
}

} // namespace

HEDDLE_FAKE_ENTRY FakeCublasLt *heddleFakeCublasLt() { return &state; }

HEDDLE_FAKE_ENTRY cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  if (state.createStatus)
    return state.createStatus;
  ++state.objects;
  *handle = new cublasLtContext();
  return CUBLAS_STATUS_SUCCESS;
}

HEDDLE_FAKE_ENTRY cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  --state.objects;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

HEDDLE_FAKE_ENTRY size_t cublasLtGetVersion() { return 130100; }

HEDDLE_FAKE_ENTRY const char *cublasLtGetStatusName(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_INITIALIZED
             ? "CUBLAS_STATUS_NOT_INITIALIZED"
             : "CUBLAS_STATUS_NOT_SUPPORTED";
}

HEDDLE_FAKE_ENTRY const char *cublasLtGetStatusString(cublasStatus_t status) {
  return "the fake says so";
}

HEDDLE_FAKE_ENTRY cublasStatus_t cublasLtMatmulDescCreate(
    cublasLtMatmulDesc_t *description, cublasComputeType_t computeType,
    cudaDataType scaleType) {
  if (computeType != CUBLAS_COMPUTE_32F || scaleType != CUDA_R_32F)
    return CUBLAS_STATUS_INVALID_VALUE;
  ++state.objects;
  *description = new cublasLtMatmulDescOpaque();
  return CUBLAS_STATUS_SUCCESS;
}

HEDDLE_FAKE_ENTRY cublasStatus_t
cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  --state.objects;
  delete description;
  return CUBLAS_STATUS_SUCCESS;
}

HEDDLE_FAKE_ENTRY cublasStatus_t cublasLtMatmulDescSetAttribute(
    cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute,
    const void *value, size_t bytes) {
  auto set = [&](auto &field) {
    if (bytes != sizeof(field))
      return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
  case CUBLASLT_MATMUL_DESC_TRANSA:
    return set(description->transposeA);
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    return set(description->epilogue);
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    return set(description->bias);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

HEDDLE_FAKE_ENTRY cublasStatus_t
cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
                           uint64_t rows, uint64_t columns, int64_t stride) {
  if (stride < static_cast<int64_t>(rows))
    return CUBLAS_STATUS_INVALID_VALUE;
  ++state.objects;
  *layout = new cublasLtMatrixLayoutOpaque{type, rows, columns, stride};
  return CUBLAS_STATUS_SUCCESS;
}

HEDDLE_FAKE_ENTRY cublasStatus_t
cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  --state.objects;
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

HEDDLE_FAKE_ENTRY cublasStatus_t
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  ++state.objects;
  *preference = new cublasLtMatmulPreferenceOpaque();
  return CUBLAS_STATUS_SUCCESS;
}

HEDDLE_FAKE_ENTRY cublasStatus_t
cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  --state.objects;
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

HEDDLE_FAKE_ENTRY cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference,
    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
    size_t bytes) {
  switch (attribute) {
  case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
    std::memcpy(&preference->workspace, value, bytes);
    return bytes == 8 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
  case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
    std::memcpy(&preference->reductions, value, bytes);
    break;
  default:
    std::memcpy(&state.alignment, value, bytes);
  }
  return bytes == 4 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

HEDDLE_FAKE_ENTRY cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
    cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference, int requested,
    cublasLtMatmulHeuristicResult_t *results, int *returned) {
  *returned = 0;
  if (state.noProposals)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (preference->workspace < bigWorkspace)
    return CUBLAS_STATUS_INVALID_VALUE;
  // One that could not be had at all must not be taken.
  using Ids = std::vector<uint64_t>;
  Ids ids = d->rows < state.fewOutputs ? Ids{9, 1, 4, 2, 3, 5}
                                       : Ids{9, 1, 2, 3, 4, 5};
  if (d->columns >= state.manyRows && d->columns < 4096)
    ids.insert(ids.begin(), 6);
  for (uint64_t id : ids) {
    if (*returned == requested)
      break;
    if (id == 1 && preference->reductions == CUBLASLT_REDUCTION_SCHEME_NONE)
      continue;
    results[*returned] = {{{id}},
                          id == 1 ? bigWorkspace : 0,
                          id == 9 ? CUBLAS_STATUS_NOT_SUPPORTED
                                  : CUBLAS_STATUS_SUCCESS,
                          1,
                          {}};
    ++*returned;
  }
  return CUBLAS_STATUS_SUCCESS;
}

HEDDLE_FAKE_ENTRY cublasStatus_t cublasLtMatmulAlgoCheck(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
    cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *result) {
  *result = {*algo, 0, CUBLAS_STATUS_SUCCESS, 1, {}};
  return CUBLAS_STATUS_SUCCESS;
}

HEDDLE_FAKE_ENTRY cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(
    const cublasLtMatmulAlgo_t *algo,
    cublasLtMatmulAlgoConfigAttributes_t attribute, void *value, size_t bytes,
    size_t *written) {
  uint32_t number = 0;
  if (attribute == CUBLASLT_ALGO_CONFIG_ID)
    number = static_cast<uint32_t>(algo->data[0]);
  else if (attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM)
    number = algo->data[0] == 1 ? 2 : 1;
  size_t expected = attribute == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID ? 2 : 4;
  if (bytes != expected)
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(value, &number, bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

HEDDLE_FAKE_ENTRY cublasStatus_t
cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
               const void *alpha, const void *a, cublasLtMatrixLayout_t layoutA,
               const void *b, cublasLtMatrixLayout_t layoutB, const void *beta,
               const void *c, cublasLtMatrixLayout_t layoutC, void *d,
               cublasLtMatrixLayout_t layoutD, const cublasLtMatmulAlgo_t *algo,
               void *workspace, size_t workspaceBytes, api::CUstream stream) {
  int id = static_cast<int>(algo->data[0]);
  if (id == 3)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (description->transposeA != CUBLAS_OP_T ||
      layoutA->rows != layoutB->rows || layoutA->columns != layoutD->rows ||
      layoutB->columns != layoutD->columns)
    return CUBLAS_STATUS_INVALID_VALUE;
  const void *bias = nullptr;
  if (description->epilogue == CUBLASLT_EPILOGUE_BIAS)
    bias = description->bias;
  else if (description->epilogue != CUBLASLT_EPILOGUE_DEFAULT)
    return CUBLAS_STATUS_INVALID_VALUE;
  float scale, keep;
  std::memcpy(&scale, alpha, sizeof(scale));
  std::memcpy(&keep, beta, sizeof(keep));
  heddleFakeEnqueue(
      stream, "kernel",
      [=, la = *layoutA, lb = *layoutB, lc = *layoutC, ld = *layoutD] {
        ++state.products[id];
        if (state.slow)
          heddleFakeDriver()->clock =
              heddleFakeDriver()->clock.value_or(0) + (id == 2   ? 1000
                                                       : id == 6 ? 1
                                                                 : 10);
        if (id == 1) // what a split sum does: partial results outside of y
          std::memset(workspace, 0, std::min<size_t>(workspaceBytes, 1024));
        const std::vector<float> wideA = widen(la, a), wideB = widen(lb, b);
        const uint64_t depth = la.rows;
        std::vector<float> sums(ld.rows);
        for (uint64_t column = 0; column < ld.columns; ++column) {
          sumProducts(wideA.data(), wideB.data() + column * depth, depth,
                      id == 4, sums);
          for (uint64_t row = 0; row < ld.rows; ++row) {
            float sum = sums[row];
            sum *= scale;
            if (keep != 0)
              sum += keep * load(lc, c, row, column);
            if (bias)
              sum += load(ld, bias, row, 0);
            store(ld, d, row, column, sum);
          }
        }
      });
  return CUBLAS_STATUS_SUCCESS;
}
