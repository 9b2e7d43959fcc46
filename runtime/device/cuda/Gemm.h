//===- Gemm.h - Linear layers on the device ---------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// y = x W^T (+ bias) through cuBLASLt, fp32 sums, every shape planned before it
// is used: which of cuBLASLt's algorithms computes it is decided once, so that
// a product inside a captured graph asks nobody anything.
//
// Algorithms differ in the order of their sums, and with it in the last bits.
// Each layer (inputs, outputs, type) has one algorithm without split sums that
// serves all numbers of rows: its bits are the layer's. A shape is computed by
// the fastest of cuBLASLt's proposals that gives these bits, so that neither
// the rows beside a row nor what timing says in a process changes a result. A
// layer that is also computed in parts (some of its outputs) says so in the
// shapes of whole and parts, `layerOutputs`: they have one algorithm together.
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
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace heddle::rt::cuda {

/// y [rows x outputs] = x [rows x inputs] * W [outputs x inputs]^T, plus
/// bias [outputs] in each row, before y is rounded, if there is one.
///
/// Worked example: query, key and value heads are 4096, 512 and 512 outputs of
/// one layer, W's rows 0, 4096 and 4608. All three at once have the shape
/// {.outputs = 5120, .layerOutputs = 5120}, keys alone {.outputs = 512,
/// .layerOutputs = 5120} with weights and bias from row 4096 on, and a key has
/// the same bits from both.
struct GemmShape {
  DType dtype = DType::BF16; ///< of x, W and y
  int64_t rows = 0;
  int64_t inputs = 0;
  int64_t outputs = 0;
  int64_t xStride = 0; ///< elements between rows of x; 0: inputs
  int64_t yStride = 0; ///< elements between rows of y; 0: outputs
  bool bias = false;
  int64_t layerOutputs = 0; ///< of the layer, where some are computed by
                            ///< themselves at times; 0: never

  auto operator<=>(const GemmShape &) const = default;
  /// "bf16 4096 x 12288 x 4096" (rows, outputs, inputs).
  std::string describe() const;
};

/// Rows of a product of `rows` rows, where their number changes from step to
/// step: 64, or the next multiple of 128, above 1024 of 1024, so that few
/// shapes are planned. What lies in the rows beyond is nobody's business.
int64_t plannedRows(int64_t rows);

/// Device addresses, multiples of 16. W is dense.
struct GemmOperands {
  DevicePtr x = 0;
  DevicePtr weights = 0;
  DevicePtr y = 0;
  DevicePtr bias = 0; ///< [outputs], of the shape's type; 0: none
};

struct GemmOptions {
  int proposals = 8;            ///< of cuBLASLt's, timed for a shape
  double secondsPerShape = 0.4; ///< to time them, about and at most
  /// Times that prepare() must have seen a shape before all proposals are tried
  /// out for it; before, the better of the first ones serves. 0: at once.
  int64_t usesBeforeChoice = 0;
};

/// One of cuBLASLt's algorithms for a shape, as the bench reports it.
struct GemmTiming {
  std::string algorithm; ///< "algorithm 66, tile 24, stages 35, split 1"
  double milliseconds = 0;
  bool sameBits = false; ///< as the layer's own algorithm gives
  bool layers = false;   ///< it is that one
  bool first = false;    ///< cuBLASLt's first proposal, split sums allowed
  bool chosen = false;   ///< multiply() uses it
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

  /// Chooses the algorithm of a shape and loads its code. x is filled with
  /// random values, y is overwritten, weights and bias are read only; operands
  /// of later products must be as aligned as these (multiples of 256 are best),
  /// those of a layer with parts multiples of 16. At once for a shape whose
  /// choice has been made; where that waits for `usesBeforeChoice`, before each
  /// use. Outside of captures.
  Status prepare(const Stream &stream, const GemmShape &shape,
                 const GemmOperands &operands);

  /// Puts the product of a prepared shape into the stream.
  Status multiply(const Stream &stream, const GemmShape &shape,
                  const GemmOperands &operands) const;

  /// Times every algorithm that cuBLASLt proposes (at most `most` with and
  /// without split sums each), medians of `repeats` measurements, fastest
  /// first. For the bench: operands as for prepare(), of a prepared shape.
  Result<std::vector<GemmTiming>> timeAll(const Stream &stream,
                                          const GemmShape &shape,
                                          const GemmOperands &operands,
                                          int most = 32, int repeats = 9);

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

  Result<std::unique_ptr<Plan>>
  makePlan(const GemmShape &shape, int64_t alignment,
           uint32_t reductions = lt::CUBLASLT_REDUCTION_SCHEME_NONE) const;
  Status setBias(const Plan &plan, DevicePtr bias) const;
  Result<Proposals> propose(const Plan &plan, int most) const;
  Result<Algorithm> layerAlgorithm(const Plan &plan);
  Result<Proposals> proposeWhole(const Plan &plan, size_t most) const;
  Result<Algorithm> choose(const Stream &stream, const Plan &plan,
                           const GemmOperands &operands, bool all);
  Result<std::vector<std::byte>> bitsOf(const Stream &stream, const Plan &plan,
                                        const Algorithm &algorithm,
                                        const GemmOperands &operands,
                                        int64_t pieceBytes) const;
  Result<std::vector<double>> timeInTurns(const Stream &stream,
                                          const Plan &plan,
                                          std::span<const Algorithm> algorithms,
                                          const GemmOperands &operands,
                                          int rounds, double seconds) const;
  Status fillOperands(const Stream &stream, const GemmShape &shape,
                      const GemmOperands &operands) const;
  lt::cublasStatus_t start(const Stream &stream, const Plan &plan,
                           const Algorithm &algorithm,
                           const GemmOperands &operands) const;
  Status run(const Stream &stream, const Plan &plan, const Algorithm &algorithm,
             const GemmOperands &operands) const;
  Result<double> time(const Stream &stream, const Plan &plan,
                      const Algorithm &algorithm, const GemmOperands &operands,
                      const Event &begin, const Event &end, int launches) const;
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
  std::map<GemmShape, Algorithm> layerAlgorithms; ///< rows is 0, outputs are
                                                  ///< the layer's
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICE_CUDA_GEMM_H
