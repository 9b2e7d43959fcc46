//===- Transformer.cpp - The forward pass on the host ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// T below is the run's dtype. Shapes: R packed rows, padded to whole tiles of
// 64; H hidden; A = queryHeads * headDim; K = kvHeads * headDim; F mlpHidden.
//
//   x    = embedding[tokens]                                     [R x H]
//   each layer:
//     h    = rmsNorm(x)                                          [R x H]
//     qkv  = h Wqkv^T, query and key rotated                     [R x A + 2K]
//     att  = attention backend                                   [R x A]
//     x   += att Wo^T
//     h    = rmsNorm(x)
//     act  = silu(h Wgate^T) * (h Wup^T)                         [R x F]
//     x   += act Wdown^T
//   logits = rmsNorm(x) Whead^T, for the rows asked for
//
// Rotation, residual and SwiGLU run as epilogues of the products.
// Source: Nie et al. 2025 (LLaDA), released modelling code.
//
//===----------------------------------------------------------------------===//

#include "runtime/model/Model.h"

#include "runtime/base/Buffer.h"
#include "runtime/base/Machine.h"
#include "runtime/base/Parallel.h"
#include "runtime/device/cpu/Gemm.h"
#include "runtime/device/cpu/RowKernels.h"
#include "runtime/model/Rope.h"
#include "runtime/model/Weights.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace heddle::rt {

namespace {

using cpu::tileCount;
using cpu::tileRows;

class HostTransformer : public Model {
public:
  HostTransformer(ModelConfig config, DType type, TransformerWeights weights)
      : info(std::move(config)), type(type), weights(std::move(weights)),
        kernels(cpu::rowKernels(type)), rope(info.ropeTheta, info.headDim) {}

  const ModelConfig &config() const override { return info; }
  DType dtype() const override { return type; }
  int64_t weightBytes() const override { return weights.bytes(); }
  int64_t activationBytes(int64_t rows) const override;
  std::string description() const override;
  Status forward(const PackedBatch &batch, std::span<const int32_t> tokens,
                 AttentionBackend &attention,
                 const LogitRequest &logits) override;

private:
  int64_t attentionWidth() const { return info.queryHeads * info.headDim; }
  int64_t kvWidth() const { return info.kvHeads * info.headDim; }
  int64_t qkvWidth() const { return attentionWidth() + 2 * kvWidth(); }

  /// A matrix of activations, [rows x width] of T without gaps.
  struct Activation {
    Buffer memory;
    int64_t rowBytes = 0;
    std::byte *row(int64_t i) { return memory.data() + i * rowBytes; }
  };
  /// All of them and their widths in elements, for allocation.
  struct Slot {
    Activation &matrix;
    int64_t width;
  };
  std::vector<Slot> activations() {
    return {{hidden, info.hidden},
            {normed, info.hidden},
            {qkv, qkvWidth()},
            {attended, attentionWidth()},
            {activated, info.mlpHidden}};
  }

  /// One layer of each shape that the model has.
  std::array<const cpu::PackedLinear *, 5> linearShapes() const {
    const LayerWeights &layer = weights.layers.front();
    return {&layer.qkv, &layer.attentionOut, &layer.gateUp, &layer.down,
            &weights.head};
  }

  /// Rows whose logits are in memory at once.
  int64_t logitWaveRows(int64_t rows, int64_t unit) const;
  int64_t logitWaveBytes(int64_t waveRows) const;

  Status check(const PackedBatch &batch, std::span<const int32_t> tokens,
               const LogitRequest &logits) const;
  Status reserve(int64_t rows, int64_t waveRows);
  void normRows(Activation &from, const std::vector<float> &weight,
                Activation &to, int64_t rows);
  Status runLayer(int64_t index, const PackedBatch &batch,
                  AttentionBackend &attention);
  Status runLogits(const LogitRequest &logits, int64_t waveRows);

  ModelConfig info;
  DType type;
  TransformerWeights weights;
  const cpu::RowKernels &kernels;
  RopeTable rope;

  // Kept between calls, grown when needed.
  int64_t capacity = 0; ///< rows, whole tiles
  Activation hidden, normed, qkv, attended, activated;
  Activation gathered; ///< [wave rows x H]: normed rows of a logit wave
  Buffer logitWave;    ///< [wave rows x vocab] fp32
  std::vector<cpu::GemmWorker> workers;
  std::vector<int32_t> positions; ///< [R]: of each row in its sequence
};

std::string HostTransformer::description() const {
  return weights.gemm->description();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

int64_t HostTransformer::logitWaveRows(int64_t rows, int64_t unit) const {
  // Tasks enough for every thread, and each weight read for several tiles.
  int64_t tiles = std::max<int64_t>(
      4, 4 * threadCount() / std::max<int64_t>(weights.head.chunks(), 1));
  int64_t most = std::max(tiles * tileRows / unit * unit, unit);
  return std::min(most, rows);
}

int64_t HostTransformer::logitWaveBytes(int64_t waveRows) const {
  return cpu::paddedRows(waveRows) *
         (info.hidden * byteSize(type) + info.vocabSize * 4);
}

int64_t HostTransformer::activationBytes(int64_t rows) const {
  int64_t width =
      2 * info.hidden + qkvWidth() + attentionWidth() + info.mlpHidden;
  int64_t workerBytes = 0;
  for (const cpu::PackedLinear *linear : linearShapes())
    workerBytes = std::max(workerBytes, linear->workerBytes());
  return cpu::paddedRows(rows) * width * byteSize(type) +
         logitWaveBytes(logitWaveRows(rows, 1)) + workerBytes * threadCount();
}

/// Makes room for `rows` rows and logit waves, and clears the padding below
/// the last row: it takes part in products and must stay finite.
Status HostTransformer::reserve(int64_t rows, int64_t waveRows) {
  int64_t padded = cpu::paddedRows(rows);
  auto grow = [&](Buffer &buffer, int64_t bytes) -> Status {
    if (buffer.size() >= bytes)
      return Status::success();
    buffer = Buffer(); // before the new one is allocated
    Result<Buffer> larger = Buffer::allocate(bytes);
    if (!larger)
      return larger.takeError();
    buffer = std::move(*larger);
    return Status::success();
  };
  if (padded > capacity ||
      logitWave.size() < cpu::paddedRows(waveRows) * info.vocabSize * 4) {
    capacity = 0;
    for (Slot slot : activations())
      slot.matrix.memory = Buffer();
    gathered.memory = Buffer();
    logitWave = Buffer();
    if (Status s = checkMemory(
            activationBytes(rows),
            "a forward pass over " + std::to_string(rows) + " rows",
            "run fewer or shorter sequences at a time, or free memory");
        !s)
      return s;
  }
  for (Slot slot : activations()) {
    Activation &matrix = slot.matrix;
    matrix.rowBytes = slot.width * byteSize(type);
    if (Status s = grow(matrix.memory, padded * matrix.rowBytes); !s)
      return s;
    std::memset(matrix.row(rows), 0, (padded - rows) * matrix.rowBytes);
  }
  capacity = std::max(capacity, padded);
  gathered.rowBytes = info.hidden * byteSize(type);
  if (Status s =
          grow(gathered.memory, cpu::paddedRows(waveRows) * gathered.rowBytes);
      !s)
    return s;
  if (Status s =
          grow(logitWave, cpu::paddedRows(waveRows) * info.vocabSize * 4);
      !s)
    return s;
  if (static_cast<int>(workers.size()) < threadCount())
    workers.resize(threadCount());
  for (cpu::GemmWorker &worker : workers)
    for (const cpu::PackedLinear *linear : linearShapes())
      if (Status s = linear->reserve(worker); !s)
        return s;
  return Status::success();
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

Status HostTransformer::check(const PackedBatch &batch,
                              std::span<const int32_t> tokens,
                              const LogitRequest &logits) const {
  if (batch.offsets.size() < 2 || batch.offsets.front() != 0)
    return Error("a packed batch needs offsets that start at 0 and at least "
                 "one sequence");
  for (int64_t i = 0; i < batch.sequences(); ++i) {
    int64_t length = batch.length(i);
    if (length < 1 || length > info.maxSequenceLength)
      return Error("sequence " + std::to_string(i) + " has " +
                   std::to_string(length) + " tokens, expected 1 to " +
                   std::to_string(info.maxSequenceLength) +
                   " (the model's max_sequence_length)");
  }
  if (static_cast<int64_t>(tokens.size()) != batch.rows())
    return Error("the batch has " + std::to_string(batch.rows()) +
                 " rows but " + std::to_string(tokens.size()) + " tokens");
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || tokens[i] >= info.vocabSize)
      return Error("row " + std::to_string(i) + ": token id " +
                   std::to_string(tokens[i]) +
                   " is not in the vocabulary, 0 "
                   "to " +
                   std::to_string(info.vocabSize - 1));
  if (logits.unit < 1 ||
      static_cast<int64_t>(logits.rows.size()) % logits.unit != 0)
    return Error("logits of " + std::to_string(logits.rows.size()) +
                 " rows were asked for in units of " +
                 std::to_string(logits.unit));
  for (int64_t row : logits.rows)
    if (row < 0 || row >= batch.rows())
      return Error("logits of row " + std::to_string(row) +
                   " were asked for, the batch has " +
                   std::to_string(batch.rows()) + " rows");
  return Status::success();
}

void HostTransformer::normRows(Activation &from,
                               const std::vector<float> &weight, Activation &to,
                               int64_t rows) {
  parallelFor(tileCount(rows), [&](int64_t tile, int) {
    int64_t last = std::min(rows, (tile + 1) * tileRows);
    for (int64_t row = tile * tileRows; row < last; ++row)
      kernels.rmsNorm(from.row(row), weight.data(), to.row(row), info.hidden,
                      static_cast<float>(info.rmsNormEps));
  });
}

Status HostTransformer::runLayer(int64_t index, const PackedBatch &batch,
                                 AttentionBackend &attention) {
  const LayerWeights &layer = weights.layers[index];
  const int64_t rows = batch.rows(), headDim = info.headDim;
  const int64_t size = byteSize(type);
  /// Adds the products of a chunk to x.
  auto addResidual = [&](const cpu::PackedLinear &linear) {
    return [&, width = linear.outputs(0)](int64_t chunk, int64_t firstRow,
                                          int64_t count, const float *y, int) {
      int64_t n = linear.outputs(chunk);
      for (int64_t i = 0; i < count; ++i)
        kernels.addTo(y + i * n,
                      hidden.row(firstRow + i) + chunk * width * size, n);
    };
  };

  normRows(hidden, layer.attentionNorm, normed, rows);
  // Query and key heads are rotated, value heads stored.
  auto storeHeads =
      [&, width = layer.qkv.outputs(0)](int64_t chunk, int64_t firstRow,
                                        int64_t count, const float *y, int) {
        int64_t n = layer.qkv.outputs(chunk);
        for (int64_t i = 0; i < count; ++i) {
          int64_t row = firstRow + i;
          for (int64_t column = 0; column < n; column += headDim) {
            int64_t target = chunk * width + column;
            std::byte *out = qkv.row(row) + target * size;
            const float *in = y + i * n + column;
            if (target < attentionWidth() + kvWidth())
              kernels.rotateHalves(in, rope.cos(positions[row]),
                                   rope.sin(positions[row]), out, headDim / 2);
            else
              kernels.store(in, out, headDim);
          }
        }
      };
  if (Status s = cpu::multiplyTiles(layer.qkv, normed.row(0), rows, workers,
                                    storeHeads);
      !s)
    return s;

  AttentionTensors tensors;
  tensors.query = qkv.row(0);
  tensors.key = qkv.row(0) + attentionWidth() * size;
  tensors.value = qkv.row(0) + (attentionWidth() + kvWidth()) * size;
  tensors.output = attended.row(0);
  tensors.queryStride = tensors.keyStride = tensors.valueStride = qkvWidth();
  tensors.outputStride = attentionWidth();
  tensors.queryHeads = info.queryHeads;
  tensors.kvHeads = info.kvHeads;
  tensors.headDim = headDim;
  tensors.dtype = type;
  if (Status s = attention.attend(index, batch, tensors); !s)
    return s;
  if (Status s = cpu::multiplyTiles(layer.attentionOut, attended.row(0), rows,
                                    workers, addResidual(layer.attentionOut));
      !s)
    return s;

  normRows(hidden, layer.mlpNorm, normed, rows);
  auto storeActivated = [&, width = layer.gateUp.outputs(0) /
                                    2](int64_t chunk, int64_t firstRow,
                                       int64_t count, const float *y, int) {
    int64_t n = layer.gateUp.outputs(chunk) / 2;
    for (int64_t i = 0; i < count; ++i) {
      const float *gate = y + i * 2 * n;
      kernels.swiGlu(gate, gate + n,
                     activated.row(firstRow + i) + chunk * width * size, n);
    }
  };
  if (Status s = cpu::multiplyTiles(layer.gateUp, normed.row(0), rows, workers,
                                    storeActivated);
      !s)
    return s;
  return cpu::multiplyTiles(layer.down, activated.row(0), rows, workers,
                            addResidual(layer.down));
}

Status HostTransformer::runLogits(const LogitRequest &logits,
                                  int64_t waveRows) {
  const int64_t total = static_cast<int64_t>(logits.rows.size());
  const int64_t vocab = info.vocabSize, unit = logits.unit;
  float *wave = logitWave.as<float>();
  for (int64_t first = 0; first < total; first += waveRows) {
    int64_t rows = std::min(waveRows, total - first);
    parallelFor(rows, [&](int64_t i, int) {
      kernels.rmsNorm(hidden.row(logits.rows[first + i]),
                      weights.finalNorm.data(), gathered.row(i), info.hidden,
                      static_cast<float>(info.rmsNormEps));
    });
    std::memset(gathered.row(rows), 0,
                (cpu::paddedRows(rows) - rows) * gathered.rowBytes);
    auto storeLogits = [&, width = weights.head.outputs(0)](
                           int64_t chunk, int64_t firstRow, int64_t count,
                           const float *y, int) {
      int64_t n = weights.head.outputs(chunk);
      for (int64_t i = 0; i < count; ++i)
        kernels.round(y + i * n, wave + (firstRow + i) * vocab + chunk * width,
                      n);
    };
    if (Status s = cpu::multiplyTiles(weights.head, gathered.row(0), rows,
                                      workers, storeLogits);
        !s)
      return s;
    parallelFor(rows / unit, [&](int64_t task, int) {
      logits.consume(first + task * unit, unit, wave + task * unit * vocab);
    });
  }
  return Status::success();
}

Status HostTransformer::forward(const PackedBatch &batch,
                                std::span<const int32_t> tokens,
                                AttentionBackend &attention,
                                const LogitRequest &logits) {
  if (Status s = check(batch, tokens, logits); !s)
    return s;
  const int64_t rows = batch.rows();
  int64_t waveRows = logitWaveRows(logits.rows.size(), logits.unit);
  if (Status s = reserve(rows, waveRows); !s)
    return s;

  int64_t longest = 0;
  positions.resize(rows);
  for (int64_t i = 0; i < batch.sequences(); ++i) {
    longest = std::max(longest, batch.length(i));
    for (int64_t j = 0; j < batch.length(i); ++j)
      positions[batch.offsets[i] + j] = static_cast<int32_t>(j);
  }
  rope.grow(longest);

  for (int64_t row = 0; row < rows; ++row)
    std::memcpy(hidden.row(row),
                weights.embedding.data() + tokens[row] * hidden.rowBytes,
                hidden.rowBytes);
  for (int64_t i = 0; i < info.layers; ++i)
    if (Status s = runLayer(i, batch, attention); !s)
      return s.takeError().withContext("layer " + std::to_string(i));
  if (logits.rows.empty())
    return Status::success();
  return runLogits(logits, waveRows);
}

} // namespace

Result<std::unique_ptr<Model>> Model::load(const std::string &folder,
                                           const LoadOptions &options) {
  if (options.dtype == DType::F16)
    return Error("models run in f32 or bf16, not in f16");
  Result<ModelConfig> config = ModelConfig::load(folder);
  if (!config)
    return config.takeError();
  Result<Checkpoint> checkpoint = Checkpoint::open(folder);
  if (!checkpoint)
    return checkpoint.takeError();
  Result<ModelTensors> tensors = bindTensors(*config, *checkpoint);
  if (!tensors)
    return tensors.takeError().withContext(folder);
  Result<TransformerWeights> weights =
      TransformerWeights::load(*config, *tensors, *checkpoint, options);
  if (!weights)
    return weights.takeError().withContext(folder);
  return std::unique_ptr<Model>(std::make_unique<HostTransformer>(
      std::move(*config), options.dtype, std::move(*weights)));
}

} // namespace heddle::rt
