//===- Gemm.cpp - Linear layers on the device -----------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/GemmPlan.h"

#include <algorithm>
#include <limits>

namespace heddle::rt::cuda {

using namespace lt;

namespace {

cudaDataType dataType(DType dtype) {
  switch (dtype) {
  case DType::F32:
    return CUDA_R_32F;
  case DType::BF16:
    return CUDA_R_16BF;
  case DType::F16:
    return CUDA_R_16F;
  }
  return CUDA_R_32F;
}

/// A pointer's largest power of two, 256 at most: what the library cares about.
int64_t alignmentOf(DevicePtr address) {
  for (int64_t alignment = 256; alignment > 1; alignment /= 2)
    if (address % alignment == 0)
      return alignment;
  return 1;
}

int64_t alignmentOf(const GemmOperands &operands) {
  return std::min({alignmentOf(operands.x), alignmentOf(operands.weights),
                   alignmentOf(operands.y), alignmentOf(operands.bias)});
}

/// Parts of a layer begin anywhere in it, and whole and parts must be alike:
/// what all operands have.
constexpr int64_t leastAlignment = 16;

Status checkShape(const GemmShape &shape) {
  auto fits = [](int64_t value) {
    return value >= 1 && value <= std::numeric_limits<int32_t>::max();
  };
  if (!fits(shape.rows) || !fits(shape.inputs) || !fits(shape.outputs) ||
      (shape.xStride != 0 && shape.xStride < shape.inputs) ||
      (shape.yStride != 0 && shape.yStride < shape.outputs) ||
      (shape.layerOutputs != 0 && !fits(shape.layerOutputs)) ||
      (shape.layerOutputs != 0 && shape.layerOutputs < shape.outputs))
    return Error("a product " + shape.describe() +
                 " is outside of what cuBLASLt takes: 1 to 2^31 - 1 rows and "
                 "columns, rows that do not overlap, no more outputs than the "
                 "layer has");
  return Status::success();
}

Status checkBias(const GemmShape &shape, const GemmOperands &operands) {
  if (shape.bias == (operands.bias != 0))
    return Status::success();
  return Error("the product " + shape.describe() +
               (shape.bias ? " has a bias, but none was given"
                           : " has no bias, but one was given"));
}

constexpr float one = 1, zero = 0;

} // namespace

int64_t plannedRows(int64_t rows) {
  const int64_t unit = rows <= 64 ? 64 : rows <= 1024 ? 128 : 1024;
  return (rows + unit - 1) / unit * unit;
}

std::string GemmShape::describe() const {
  return std::string(name(dtype)) + " " + std::to_string(rows) + " x " +
         std::to_string(outputs) + " x " + std::to_string(inputs);
}

Result<std::unique_ptr<Gemm>> Gemm::create(const Context &context,
                                           DevicePtr workspace,
                                           const GemmOptions &options) {
  Result<std::shared_ptr<const CublasLt>> library =
      CublasLt::open(context.device().driverVersion);
  if (!library)
    return library.takeError();
  return create(context, *library, workspace, options);
}

Result<std::unique_ptr<Gemm>>
Gemm::create(const Context &context, std::shared_ptr<const CublasLt> library,
             DevicePtr workspace, const GemmOptions &options) {
  std::unique_ptr<Gemm> gemm(
      new Gemm(context, std::move(library), workspace, options));
  // The library works in the thread's current context.
  if (Status status = context.enter(); !status)
    return status.takeError();
  if (Status status =
          gemm->blas->call(gemm->blas->entryPoints().create, &gemm->handle);
      !status)
    return status.takeError().withContext(gemm->blas->description() +
                                          " could not be started on " +
                                          context.device().describe());
  return gemm;
}

Gemm::~Gemm() {
  plans.clear();
  if (handle && owner->enter())
    (void)blas->entryPoints().destroy.function(handle);
}

Result<std::unique_ptr<Gemm::Plan>> Gemm::makePlan(const GemmShape &shape,
                                                   int64_t alignment,
                                                   uint32_t reductions) const {
  const EntryPoints &entries = blas->entryPoints();
  auto plan = std::make_unique<Plan>(*blas, shape, alignment);
  cudaDataType type = dataType(shape.dtype);
  auto rows = static_cast<uint64_t>(shape.rows);
  auto inputs = static_cast<uint64_t>(shape.inputs);
  auto outputs = static_cast<uint64_t>(shape.outputs);
  int64_t xStride = shape.xStride ? shape.xStride : shape.inputs;
  int64_t yStride = shape.yStride ? shape.yStride : shape.outputs;

  // CUBLAS_COMPUTE_32F multiplies F32 as F32, never as TF32.
  if (Status status = blas->call(entries.matmulDescCreate, &plan->product,
                                 CUBLAS_COMPUTE_32F, CUDA_R_32F);
      !status)
    return status.takeError();
  const cublasOperation_t transposed = CUBLAS_OP_T;
  if (Status status = blas->call(entries.matmulDescSetAttribute, plan->product,
                                 CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                 sizeof(transposed));
      !status)
    return status.takeError();
  if (shape.bias) {
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    if (Status status = blas->call(entries.matmulDescSetAttribute,
                                   plan->product, CUBLASLT_MATMUL_DESC_EPILOGUE,
                                   &epilogue, sizeof(epilogue));
        !status)
      return status.takeError();
    // Proposals depend on how aligned it is; nothing is read there.
    if (Status status = setBias(*plan, alignment); !status)
      return status.takeError();
  }
  if (Status status = blas->call(entries.matrixLayoutCreate, &plan->weights,
                                 type, inputs, outputs, shape.inputs);
      !status)
    return status.takeError();
  if (Status status = blas->call(entries.matrixLayoutCreate, &plan->x, type,
                                 inputs, rows, xStride);
      !status)
    return status.takeError();
  if (Status status = blas->call(entries.matrixLayoutCreate, &plan->y, type,
                                 outputs, rows, yStride);
      !status)
    return status.takeError();

  if (Status status = blas->call(entries.preferenceCreate, &plan->preference);
      !status)
    return status.takeError();
  auto prefer = [&](cublasLtMatmulPreferenceAttributes_t name,
                    const auto &value) {
    return blas->call(entries.preferenceSetAttribute, plan->preference, name,
                      static_cast<const void *>(&value), sizeof(value));
  };
  uint64_t space = workspaceBytes;
  if (Status status = prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, space);
      !status)
    return status.takeError();
  auto bytes = static_cast<uint32_t>(alignment);
  for (auto name : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    if (Status status = prefer(name, bytes); !status)
      return status.takeError();
  if (Status status =
          prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
      !status)
    return status.takeError();
  return plan;
}

Result<Gemm::Proposals> Gemm::propose(const Plan &plan, int most) const {
  Proposals results(static_cast<size_t>(most));
  int found = 0;
  const auto &entry = blas->entryPoints().algoGetHeuristic;
  cublasStatus_t code =
      entry.function(handle, plan.product, plan.weights, plan.x, plan.y, plan.y,
                     plan.preference, most, results.data(), &found);
  if (code != CUBLAS_STATUS_SUCCESS && code != CUBLAS_STATUS_NOT_SUPPORTED)
    return blas->describe(entry.name, code);
  results.resize(static_cast<size_t>(found));
  std::erase_if(results, [](const cublasLtMatmulHeuristicResult_t &result) {
    return result.state != CUBLAS_STATUS_SUCCESS ||
           result.workspaceSize > static_cast<size_t>(workspaceBytes);
  });
  if (results.empty())
    return Error("cuBLASLt has no algorithm for a product " +
                 plan.shape.describe() + " on " + owner->device().describe());
  return results;
}

Status Gemm::setBias(const Plan &plan, DevicePtr bias) const {
  const auto address =
      reinterpret_cast<const void *>(static_cast<uintptr_t>(bias));
  return blas->call(blas->entryPoints().matmulDescSetAttribute, plan.product,
                    CUBLASLT_MATMUL_DESC_BIAS_POINTER, &address,
                    sizeof(address));
}

cublasStatus_t Gemm::start(const Stream &stream, const Plan &plan,
                           const Algorithm &algorithm,
                           const GemmOperands &operands) const {
  auto pointer = [](DevicePtr address) {
    return reinterpret_cast<void *>(static_cast<uintptr_t>(address));
  };
  return blas->entryPoints().matmul.function(
      handle, plan.product, &one, pointer(operands.weights), plan.weights,
      pointer(operands.x), plan.x, &zero, pointer(operands.y), plan.y,
      pointer(operands.y), plan.y, &algorithm, pointer(workspace),
      workspaceBytes, stream.handle());
}

Status Gemm::run(const Stream &stream, const Plan &plan,
                 const Algorithm &algorithm,
                 const GemmOperands &operands) const {
  if (Status status = owner->enter(); !status)
    return status;
  if (plan.shape.bias)
    if (Status status = setBias(plan, operands.bias); !status)
      return status;
  cublasStatus_t code = start(stream, plan, algorithm, operands);
  if (code == CUBLAS_STATUS_SUCCESS)
    return Status::success();
  return blas->describe(blas->entryPoints().matmul.name, code)
      .withContext("a product " + plan.shape.describe());
}

Status Gemm::prepare(const Stream &stream, const GemmShape &shape,
                     const GemmOperands &operands) {
  if (auto known = plans.find(shape); known != plans.end()) {
    Plan &plan = *known->second;
    if (plan.chosen || ++plan.uses < options.usesBeforeChoice)
      return Status::success();
    plan.chosen = true;
    Result<Algorithm> chosen = choose(stream, plan, operands, /*all=*/true);
    if (chosen)
      plan.algorithm = *chosen;
    else if (owner->broken()) // else what it has works
      return chosen.takeError();
    return Status::success();
  }
  if (Status status = checkShape(shape); !status)
    return status;
  if (Status status = owner->enter(); !status)
    return status;
  if (Status status = checkBias(shape, operands); !status)
    return status;
  Result<std::unique_ptr<Plan>> plan = makePlan(
      shape, shape.layerOutputs ? leastAlignment : alignmentOf(operands));
  if (!plan)
    return plan.takeError();
  (*plan)->chosen = options.usesBeforeChoice == 0;
  if (Status s = choose(stream, **plan, operands, /*all=*/(*plan)->chosen)
                     .moveTo((*plan)->algorithm);
      !s)
    return s;
  plans.emplace(shape, std::move(*plan));
  return Status::success();
}

const Gemm::Plan *Gemm::find(const GemmShape &shape) const {
  auto found = plans.find(shape);
  return found == plans.end() ? nullptr : found->second.get();
}

Status Gemm::multiply(const Stream &stream, const GemmShape &shape,
                      const GemmOperands &operands) const {
  const Plan *plan = find(shape);
  if (!plan)
    return Error("the product " + shape.describe() +
                 " was not prepared before the run");
  if (Status status = checkBias(shape, operands); !status)
    return status;
  if (alignmentOf(operands) < plan->alignment)
    return Error("the product " + shape.describe() +
                 " was prepared for addresses that are multiples of " +
                 std::to_string(plan->alignment) + ", these are of " +
                 std::to_string(alignmentOf(operands)));
  return run(stream, *plan, plan->algorithm, operands);
}

int64_t Gemm::attribute(const Algorithm &algorithm,
                        cublasLtMatmulAlgoConfigAttributes_t name) const {
  // 2 or 4 bytes by attribute; little-endian, so a wide zero takes both.
  int64_t value = 0;
  size_t bytes = name == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID
                     ? sizeof(uint16_t)
                     : sizeof(uint32_t);
  size_t written = 0;
  if (blas->entryPoints().algoConfigGetAttribute.function(
          &algorithm, name, &value, bytes, &written) != CUBLAS_STATUS_SUCCESS)
    return -1;
  return value;
}

std::string Gemm::describe(const Algorithm &algorithm) const {
  const std::pair<const char *, cublasLtMatmulAlgoConfigAttributes_t> parts[] =
      {{"algorithm", CUBLASLT_ALGO_CONFIG_ID},
       {"tile", CUBLASLT_ALGO_CONFIG_TILE_ID},
       {"stages", CUBLASLT_ALGO_CONFIG_STAGES_ID},
       {"cluster", CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID},
       {"split", CUBLASLT_ALGO_CONFIG_SPLITK_NUM},
       {"swizzle", CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING}};
  std::string text;
  for (auto [name, which] : parts)
    text += (text.empty() ? "" : ", ") + std::string(name) + " " +
            std::to_string(attribute(algorithm, which));
  return text;
}

std::string Gemm::algorithm(const GemmShape &shape) const {
  const Plan *plan = find(shape);
  return plan ? describe(plan->algorithm) : "not prepared";
}

} // namespace heddle::rt::cuda
