//===- Model.h - A transformer on a device, layer by layer ------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The pass of runtime/model/Transformer.cpp over memory of a device: a
// LayerExecutor says which rows to compute and does the attention. T is the
// run's dtype; R active rows; H hidden; A = queryHeads * headDim; K = kvHeads *
// headDim; F mlpHidden; n(s) the rows of a set.
//
//   x = embedding[tokens]                                        [R x H]
//   each layer:
//     x += d (of the layer before); h = rmsNorm(x)               [R x H]
//     qkv = h Wqkv^T (+ bias), query and key heads rotated       [R x A + 2K]
//     att = the executor's attention                               [R x A]
//     d   = att Wo^T, or kept                                    [R x H]
//     x += d; h = rmsNorm(x)
//     gu  = h Wgu^T; act = silu(gate) * up              [n x 2F], [n x F]
//     d   = act Wdown^T, or kept                                 [R x H]
//   logits = rmsNorm(x + d) Whead^T, for the rows asked for
//
// Rows of a set that are not all active ones are copied together before a
// product and its results to their places after it. Where query, key and value
// rows are one set there is one product, else one for each of the three; a
// row's bits are the same either way (Gemm.h, layerOutputs).
//
// Worked example: active rows 0 to 4, keys of rows {1, 4} alone: h[1] and h[4]
// are copied to rows 0 and 1 of `qkvIn`, the product of its first 64 rows (as
// plannedRows says; the other 62 hold anything) makes `qkvOut`, of which two
// rows are rotated by the positions of 1 and 4 and copied to columns A to A + K
// of rows 1 and 4 of qkv.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_ENGINE_CUDA_MODEL_H
#define HEDDLE_RUNTIME_ENGINE_CUDA_MODEL_H

#include "runtime/device/cuda/Arena.h"
#include "runtime/device/cuda/Gemm.h"
#include "runtime/device/cuda/Pinned.h"
#include "runtime/engine/cuda/RowUploads.h"
#include "runtime/engine/cuda/Rows.h"
#include "runtime/engine/cuda/Weights.h"
#include "runtime/model/Model.h"

#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace heddle::rt::cuda {

struct CudaModelOptions {
  /// Many numbers of rows come once or twice in a run; trying out what computes
  /// them takes as long as thousands of products.
  GemmOptions products = {.usesBeforeChoice = 8192};
  ArenaOptions memory = {};
  int64_t logitBytes = int64_t(1) << 30;  ///< on the device at once, about
  int64_t pieceBytes = int64_t(32) << 20; ///< of them on their way to the host
};

/// A model on a device. AttentionTensors and Cached hold device addresses; the
/// executor's work goes into the same stream, and what it reads on the host it
/// waits for itself. Logits are brought to the host.
class CudaModel final : public Model {
public:
  /// Everything passed by reference must outlive the model; the weights may be
  /// loaded later, before the first pass. All widths of `config` are multiples
  /// of 8. Each pass resets `uploads`. Nothing is allocated before reserve() or
  /// forward().
  CudaModel(const Context &context, const Stream &stream,
            const DeviceWeights &weights, const RowKernels &rows,
            RowUploads &uploads, ModelConfig config, DType dtype,
            const CudaModelOptions &options = {});
  ~CudaModel() override;

  const ModelConfig &config() const override { return info; }
  DType dtype() const override { return type; }
  std::string description() const override;
  int64_t weightBytes() const override { return weights->bytes(); }

  /// Bytes on the device, with logits of as many rows.
  int64_t activationBytes(int64_t rows) const override;

  /// Of the device's memory; what the model holds for passes counts as
  /// available.
  Status checkMemory(int64_t bytes, const std::string &what,
                     const std::string &advice) const override;

  /// Takes the memory of passes over at most `rows` active rows of positions up
  /// to `rows`, which forward() otherwise does when they come.
  Status reserve(int64_t rows);

  bool givesBest() const override { return true; }

  /// Returns when the last logits were consumed, or without waiting when none
  /// were asked for.
  Status forward(const PackedBatch &batch, std::span<const int32_t> tokens,
                 LayerExecutor &executor, const LogitRequest &logits) override;

private:
  /// What passes have memory for.
  struct Capacity {
    int64_t rows = 0;      ///< active ones, as many as products are planned for
    int64_t logitRows = 0; ///< of one wave, likewise
    int64_t positions = 0; ///< of the rotation's tables
  };
  /// Names of the tensors in the arena.
  struct Slots {
    ArenaPlan::Slot x, delta, normed, qkvIn, qkvOut, qkv, attended, outputIn,
        outputOut, mlpNormed, mlpIn, gateUp, activated, downOut, headIn, logits,
        cos, sin;
  };
  /// Rows of a tensor: the i-th begins at base + index[i] * stride elements, or
  /// without indices at base + i * stride.
  struct Table {
    DevicePtr base = 0;
    DevicePtr index = 0;
    int64_t stride = 0;
  };
  /// Some active rows, on the host and on the device.
  struct Rows {
    int64_t count = 0;
    bool all = true;
    std::span<const int32_t> rows = {}; ///< [count], unless all
    DevicePtr index = 0;                ///< likewise, int32
  };

  int64_t bytesOf(int64_t elements) const { return elements * byteSize(type); }
  DevicePtr operator[](ArenaPlan::Slot Slots::*slot) const {
    return arena[slots.*slot];
  }

  int64_t mostLogitRows() const;
  Capacity capacityFor(int64_t rows, int64_t logitRows, int64_t unit,
                       int64_t positions) const;
  std::pair<ArenaPlan, Slots> plan(const Capacity &capacity) const;
  Status reserve(const Capacity &needed);
  Status fillTables();
  int64_t heldBytes() const;

  Result<Rows> rowsOf(const RowSet &set);
  Status norm(bool addDelta, DevicePtr weight, DevicePtr y);
  Status copy(const Table &from, const Table &to, int64_t width, int64_t rows);
  GemmShape shapeOf(int64_t rows, int64_t inputs, int64_t outputs) const;
  Status projectHeads(const LayerAddresses &layer, int firstPart, int endPart,
                      const RowSet &set);
  Status runAttention(int64_t index, const PackedBatch &batch,
                      LayerExecutor &executor);
  Status runFfn(const LayerAddresses &layer,
                const LayerExecutor::Cached &output);
  Status takeProducts(const GemmShape &shape, DevicePtr x, DevicePtr weight,
                      DevicePtr y, const Rows &rows,
                      const LayerExecutor::Cached &output);
  Status runLogits(const LogitRequest &logits);
  Status bringLogits(const LogitRequest &logits, int64_t first, int64_t rows);
  Status bringBest(const LogitRequest &logits, int64_t first, int64_t rows);

  const Context *context;
  const Stream *stream;
  const DeviceWeights *weights;
  const RowKernels *kernels;
  RowUploads *uploads;
  ModelConfig info;
  DType type;
  CudaModelOptions options;

  // Kept between passes, grown when needed.
  Arena workspace;
  std::unique_ptr<Gemm> gemm;
  Capacity capacity;
  Arena arena;
  Slots slots = {};
  /// Of logits on their way to the host: one is read while the other comes.
  std::array<CopyLane, 2> pieces;
  std::vector<float> widened; ///< [workers x unit x vocab]

  // The pass.
  int64_t active = 0;                     ///< R
  bool hasDelta = false;                  ///< d is to be added to x
  DevicePtr positions = 0;                ///< [R] int32
  std::span<const int32_t> hostPositions; ///< [R]
  std::vector<int32_t> scratch;           ///< an index array in the making
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_ENGINE_CUDA_MODEL_H
