//===- Transformer.cpp - The forward pass on the host ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// T below is the run's dtype. Shapes: R active rows, padded to whole tiles of
// 64; H hidden; A = queryHeads * headDim; K = kvHeads * headDim; F mlpHidden.
//
//   x    = embedding[tokens]                                     [R x H]
//   each layer:
//     h    = rmsNorm(x)                                          [R x H]
//     qkv  = h Wqkv^T (+ bias), query and key rotated            [R x A + 2K]
//     att  = the executor's attention                              [R x A]
//     x   += att Wo^T
//     h    = rmsNorm(x)
//     act  = silu(h Wgate^T) * (h Wup^T)                         [R x F]
//     x   += act Wdown^T
//   logits = rmsNorm(x) Whead^T, for the rows asked for
//
// The executor names the rows of each product. Those of a part are first copied
// together; what a layer adds to the rows that it does not compute comes from
// the executor's caches. Bias, rotation, residual and SwiGLU run as epilogues
// of the products. Source: released modelling code of LLaDA (Nie et al. 2025)
// and of Dream (Ye et al. 2025), whose rounding points differ in the rotation
// alone.
//
//===----------------------------------------------------------------------===//

#include "runtime/model/Model.h"

#include "bundle/program/Printable.h"
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
        kernels(cpu::rowKernels(type)),
        rope(info.ropeTheta, info.headDim,
             info.fullPrecisionRope ? DType::F32 : type) {}

  const ModelConfig &config() const override { return info; }
  DType dtype() const override { return type; }
  int64_t weightBytes() const override { return weights.bytes(); }
  int64_t activationBytes(int64_t rows) const override;
  std::string description() const override;
  Status forward(const PackedBatch &batch, std::span<const int32_t> tokens,
                 LayerExecutor &executor, const LogitRequest &logits) override;

private:
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
            {qkv, info.qkvWidth()},
            {attended, info.attentionWidth()},
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

  Status reserve(int64_t rows, int64_t waveRows);
  void normRows(const std::vector<float> &weight, const RowSet &rows);
  Status projectHeads(const LayerWeights &layer, int64_t firstPart,
                      int64_t endPart, const RowSet &rows);
  Status runAttention(int64_t index, const PackedBatch &batch,
                      LayerExecutor &executor);
  Status runFfn(const LayerWeights &layer, const LayerExecutor::Cached &output);
  Status addProducts(const cpu::PackedLinear &linear, Activation &from,
                     const LayerExecutor::Cached &output);
  int64_t count(const RowSet &rows) const {
    return rows.all ? active : static_cast<int64_t>(rows.rows.size());
  }
  static int64_t rowAt(const RowSet &rows, int64_t i) {
    return rows.all ? i : rows.rows[i];
  }
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
  std::vector<float> biased;  ///< [workers x headDim]: a head with its bias
  std::vector<float> widened; ///< [workers x H]: a cached row
  int64_t active = 0;         ///< R of the pass at hand
  std::span<const int32_t> positions; ///< [R]: of each row in its sequence
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
  int64_t width = 2 * info.hidden + info.qkvWidth() + info.attentionWidth() +
                  info.mlpHidden;
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
  biased.resize(workers.size() * info.headDim);
  widened.resize(workers.size() * info.hidden);
  for (cpu::GemmWorker &worker : workers)
    for (const cpu::PackedLinear *linear : linearShapes())
      if (Status s = linear->reserve(worker); !s)
        return s;
  return Status::success();
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

/// normed[k] = rmsNorm(hidden[rows[k]]); the rest of the last tile is zero.
void HostTransformer::normRows(const std::vector<float> &weight,
                               const RowSet &rows) {
  int64_t total = count(rows);
  parallelFor(tileCount(total), [&](int64_t tile, int) {
    int64_t end = (tile + 1) * tileRows, last = std::min(total, end);
    for (int64_t k = tile * tileRows; k < last; ++k)
      kernels.rmsNorm(hidden.row(rowAt(rows, k)), weight.data(), normed.row(k),
                      info.hidden, static_cast<float>(info.rmsNormEps));
    std::memset(normed.row(last), 0, (end - last) * normed.rowBytes);
  });
}

/// Parts [firstPart, endPart) of query (0), key (1) and value (2) heads of some
/// rows. Query and key heads are rotated, value heads stored.
Status HostTransformer::projectHeads(const LayerWeights &layer,
                                     int64_t firstPart, int64_t endPart,
                                     const RowSet &rows) {
  if (count(rows) == 0)
    return Status::success();
  const int64_t headDim = info.headDim, size = byteSize(type);
  const auto rotate =
      info.fullPrecisionRope ? kernels.rotateHalves : kernels.rotateHalvesInT;
  normRows(layer.attentionNorm, rows);
  auto storeHeads = [&](int64_t chunk, int64_t firstRow, int64_t rowCount,
                        const float *y, int worker) {
    int64_t first = layer.qkv.firstOutput(chunk);
    int64_t n = layer.qkv.outputs(chunk);
    for (int64_t i = 0; i < rowCount; ++i) {
      int64_t row = rowAt(rows, firstRow + i);
      for (int64_t column = 0; column < n; column += headDim) {
        int64_t target = first + column;
        std::byte *out = qkv.row(row) + target * size;
        const float *in = y + i * n + column;
        if (!layer.qkvBias.empty()) {
          // Before anything is rounded, as products with a bias do on GPUs.
          float *sum = biased.data() + worker * headDim;
          for (int64_t d = 0; d < headDim; ++d)
            sum[d] = in[d] + layer.qkvBias[target + d];
          in = sum;
        }
        if (target < info.attentionWidth() + info.kvWidth())
          rotate(in, rope.cos(positions[row]), rope.sin(positions[row]), out,
                 headDim / 2);
        else
          kernels.store(in, out, headDim);
      }
    }
  };
  return cpu::multiplyTiles(
      layer.qkv, {layer.qkvParts[firstPart], layer.qkvParts[endPart]},
      normed.row(0), count(rows), workers, storeHeads);
}

/// Adds from . linear^T to the hidden states: directly, or through the cache.
/// from [count(output.computed) x inputs], compact.
Status HostTransformer::addProducts(const cpu::PackedLinear &linear,
                                    Activation &from,
                                    const LayerExecutor::Cached &output) {
  const int64_t size = byteSize(type), total = count(output.computed);
  const bool cached = output.cache;
  auto add = [&](int64_t chunk, int64_t firstRow, int64_t rowCount,
                 const float *y, int) {
    int64_t n = linear.outputs(chunk);
    int64_t offset = linear.firstOutput(chunk) * size;
    for (int64_t i = 0; i < rowCount; ++i) {
      int64_t row = rowAt(output.computed, firstRow + i);
      if (cached)
        kernels.store(y + i * n,
                      static_cast<std::byte *>(output.row(row)) + offset, n);
      else
        kernels.addTo(y + i * n, hidden.row(row) + offset, n);
    }
  };
  if (total > 0)
    if (Status s = cpu::multiplyTiles(linear, {0, linear.chunks()}, from.row(0),
                                      total, workers, add);
        !s)
      return s;
  if (cached)
    parallelFor(active, [&](int64_t row, int worker) {
      float *wide = widened.data() + worker * info.hidden;
      kernels.widen(output.row(row), wide, info.hidden);
      kernels.addTo(wide, hidden.row(row), info.hidden);
    });
  return Status::success();
}

Status HostTransformer::runAttention(int64_t index, const PackedBatch &batch,
                                     LayerExecutor &executor) {
  const LayerWeights &layer = weights.layers[index];
  const AttentionTensors tensors =
      packedTensors(info, type, qkv.row(0), attended.row(0));
  if (Status s = executeAttention(
          executor, index, batch, tensors,
          [&](int firstPart, int endPart, const RowSet &rows) {
            return projectHeads(layer, firstPart, endPart, rows);
          });
      !s)
    return s;
  auto output = executor.projected(index);
  if (!output)
    return output.takeError();
  // Ascending rows move to lower places.
  int64_t total = count(output->computed);
  if (!output->computed.all) {
    for (int64_t k = 0; k < total; ++k)
      std::memmove(attended.row(k), attended.row(output->computed.rows[k]),
                   attended.rowBytes);
    std::memset(attended.row(total), 0,
                (cpu::paddedRows(total) - total) * attended.rowBytes);
  }
  return addProducts(layer.attentionOut, attended, *output);
}

Status HostTransformer::runFfn(const LayerWeights &layer,
                               const LayerExecutor::Cached &output) {
  int64_t total = count(output.computed);
  if (total > 0) {
    normRows(layer.mlpNorm, output.computed);
    auto storeActivated = [&](int64_t chunk, int64_t firstRow, int64_t rowCount,
                              const float *y, int) {
      int64_t n = layer.gateUp.outputs(chunk) / 2;
      int64_t offset = layer.gateUp.firstOutput(chunk) / 2 * byteSize(type);
      for (int64_t i = 0; i < rowCount; ++i) {
        const float *gate = y + i * 2 * n;
        kernels.swiGlu(gate, gate + n, activated.row(firstRow + i) + offset, n);
      }
    };
    if (Status s =
            cpu::multiplyTiles(layer.gateUp, {0, layer.gateUp.chunks()},
                               normed.row(0), total, workers, storeActivated);
        !s)
      return s;
    std::memset(activated.row(total), 0,
                (cpu::paddedRows(total) - total) * activated.rowBytes);
  }
  return addProducts(layer.down, activated, output);
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
    auto storeLogits = [&](int64_t chunk, int64_t firstRow, int64_t rowCount,
                           const float *y, int) {
      int64_t n = weights.head.outputs(chunk);
      float *out = wave + weights.head.firstOutput(chunk);
      for (int64_t i = 0; i < rowCount; ++i)
        kernels.round(y + i * n, out + (firstRow + i) * vocab, n);
    };
    if (Status s =
            cpu::multiplyTiles(weights.head, {0, weights.head.chunks()},
                               gathered.row(0), rows, workers, storeLogits);
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
                                LayerExecutor &executor,
                                const LogitRequest &logits) {
  if (Status s = checkForward(info, batch, tokens, logits); !s)
    return s;
  active = batch.rows();
  if (active == 0)
    return Status::success();
  positions = batch.positions;
  int64_t waveRows = logitWaveRows(logits.rows.size(), logits.unit);
  if (Status s = reserve(active, waveRows); !s)
    return s;
  rope.grow(*std::max_element(positions.begin(), positions.end()) + 1);

  for (int64_t row = 0; row < active; ++row)
    std::memcpy(hidden.row(row),
                weights.embedding.data() + tokens[row] * hidden.rowBytes,
                hidden.rowBytes);
  for (int64_t i = 0; i < info.layers; ++i) {
    auto run = [&]() -> Status {
      if (Status s = runAttention(i, batch, executor); !s)
        return s;
      auto output = executor.ffn(i);
      if (!output)
        return output.takeError();
      return runFfn(weights.layers[i], *output);
    };
    if (Status s = run(); !s)
      return s.takeError().withContext("layer " + std::to_string(i));
  }
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
    return tensors.takeError().withContext(printablePath(folder));
  Result<TransformerWeights> weights =
      TransformerWeights::load(*config, *tensors, *checkpoint, options);
  if (!weights)
    return weights.takeError().withContext(printablePath(folder));
  return std::unique_ptr<Model>(std::make_unique<HostTransformer>(
      std::move(*config), options.dtype, std::move(*weights)));
}

} // namespace heddle::rt
