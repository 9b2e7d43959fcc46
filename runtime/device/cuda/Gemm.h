//===- Gemm.h - Linear layers on the device ---------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// y = x W^T through cuBLASLt, fp32 sums, every shape planned before it is used:
// which of cuBLASLt's algorithms computes it is decided once, so that a product
// inside a captured graph asks nobody anything.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICE_CUDA_GEMM_H
#define HEDDLE_RUNTIME_DEVICE_CUDA_GEMM_H

#include "bundle/Result.h"
#include "runtime/device/cuda/Context.h"
#include "runtime/device/cuda/CublasLt.h"
#include "runtime/device/cuda/Stream.h"
#include "runtime/tensor/DType.h"

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace heddle::rt::cuda {

/// How an algorithm is chosen.
enum class GemmChoice {
  /// The fastest of cuBLASLt's proposals, timed on the device. Two processes
  /// may choose differently, and sums then differ in their last bits.
  Fastest,
  /// cuBLASLt's first proposal for each shape: the same in every process.
  First,
  /// One algorithm without split sums for all row counts of a layer: a row's
  /// result does not depend on the rows beside it. Slower for few rows.
  Fixed,
};

/// y [rows x outputs] = x [rows x inputs] * W [outputs x inputs]^T, or y += .
struct GemmShape {
  DType dtype = DType::BF16; ///< of x, W and y
  int64_t rows = 0;
  int64_t inputs = 0;
  int64_t outputs = 0;
  bool accumulate = false; ///< y is added to, in fp32, then rounded
  int64_t xStride = 0;     ///< elements between rows of x; 0: inputs
  int64_t yStride = 0;     ///< elements between rows of y; 0: outputs

  auto operator<=>(const GemmShape &) const = default;
  /// "bf16 4096 x 12288 x 4096" (rows, outputs, inputs).
  std::string describe() const;
};

/// Device addresses, multiples of 16. W is dense.
struct GemmOperands {
  DevicePtr x = 0;
  DevicePtr weights = 0;
  DevicePtr y = 0;
};

struct GemmOptions {
  GemmChoice choice = GemmChoice::Fastest;
  int proposals = 16;           ///< that Fastest times, at most
  double secondsPerShape = 0.3; ///< that Fastest may take, about
};

/// One of cuBLASLt's algorithms for a shape, as the bench reports it.
struct GemmTiming {
  std::string algorithm; ///< "algorithm 66, tile 24, stages 35, split 1"
  double milliseconds = 0;
  bool chosen = false;
};

/// The products of one device. Not thread-safe.
class Gemm {
public:
  /// Memory that the algorithms may use, shared by all shapes.
  static constexpr int64_t workspaceBytes = int64_t(64) << 20;

  /// Opens cuBLASLt. `workspace`: workspaceBytes of device memory (a slot of
  /// the arena) that this object uses on one stream at a time.
  static Result<std::unique_ptr<Gemm>> create(const Context &context,
                                              DevicePtr workspace,
                                              const GemmOptions &options = {});
  static Result<std::unique_ptr<Gemm>>
  create(const Context &context, std::shared_ptr<const CublasLt> library,
         DevicePtr workspace, const GemmOptions &options = {});

  ~Gemm();
  Gemm(const Gemm &) = delete;
  Gemm &operator=(const Gemm &) = delete;

  /// Chooses the algorithm of a shape and runs it once, which loads its code.
  /// x is filled with random values, y is overwritten, the weights are read
  /// only; operands of later products must be as aligned as these (multiples of
  /// 256 are best). At once for a shape that is known. Outside of captures.
  Status prepare(const Stream &stream, const GemmShape &shape,
                 const GemmOperands &operands);

  /// Puts the product of a prepared shape into the stream.
  Status multiply(const Stream &stream, const GemmShape &shape,
                  const GemmOperands &operands) const;

  /// Times every algorithm that cuBLASLt proposes (at most `most`), medians of
  /// `repeats` measurements each, fastest first; marks the one that multiply()
  /// uses. For the bench: operands as for prepare(), of a prepared shape.
  Result<std::vector<GemmTiming>> timeAll(const Stream &stream,
                                          const GemmShape &shape,
                                          const GemmOperands &operands,
                                          int most = 64, int repeats = 9);

  /// The algorithm that multiply() uses for a prepared shape.
  std::string algorithm(const GemmShape &shape) const;

  const CublasLt &library() const { return *blas; }

private:
  using Algorithm = lt::cublasLtMatmulAlgo_t;
  using Proposals = std::vector<lt::cublasLtMatmulHeuristicResult_t>;
  struct Plan;

  Gemm(const Context &context, std::shared_ptr<const CublasLt> library,
       DevicePtr workspace, const GemmOptions &options)
      : owner(&context), blas(std::move(library)), workspace(workspace),
        options(options) {}

  Result<std::unique_ptr<Plan>> makePlan(const GemmShape &shape,
                                         int64_t alignment) const;
  Result<Proposals> propose(const Plan &plan, int most) const;
  Result<Algorithm> chooseFastest(const Stream &stream, const Plan &plan,
                                  const GemmOperands &operands);
  Result<Algorithm> chooseFixed(const Plan &plan);
  Status fillOperands(const Stream &stream, const GemmShape &shape,
                      const GemmOperands &operands) const;
  lt::cublasStatus_t start(const Stream &stream, const Plan &plan,
                           const Algorithm &algorithm,
                           const GemmOperands &operands) const;
  Status run(const Stream &stream, const Plan &plan, const Algorithm &algorithm,
             const GemmOperands &operands) const;
  Result<std::vector<double>> time(const Stream &stream, const Plan &plan,
                                   const Algorithm &algorithm,
                                   const GemmOperands &operands,
                                   int repeats) const;
  int64_t attribute(const Algorithm &algorithm,
                    lt::cublasLtMatmulAlgoConfigAttributes_t name) const;
  std::string describe(const Algorithm &algorithm) const;
  const Plan *find(const GemmShape &shape) const;

  const Context *owner;
  std::shared_ptr<const CublasLt> blas;
  DevicePtr workspace;
  GemmOptions options;
  lt::cublasLtHandle_t handle = nullptr;
  // Shared only so that Plan may stay incomplete here.
  std::map<GemmShape, std::shared_ptr<Plan>> plans;
  std::map<GemmShape, Algorithm> fixedAlgorithms; ///< by layer: rows is 0
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICE_CUDA_GEMM_H
