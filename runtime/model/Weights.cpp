//===- Weights.cpp - A transformer's weights in memory --------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/model/Weights.h"

#include "runtime/base/Machine.h"
#include "runtime/base/Parallel.h"
#include "runtime/tensor/Convert.h"

#include <algorithm>
#include <iterator>
#include <mutex>

namespace heddle::rt {

namespace {

/// Rows [first, first + count) of a matrix.
struct Slice {
  const TensorInfo *matrix;
  int64_t first;
  int64_t count;
};

/// A piece of work of the loader: the rows of some slices, one after the
/// other, converted, and either packed as a chunk of a linear layer or placed
/// in plain memory.
struct LoadItem {
  std::vector<Slice> slices;
  int64_t columns = 0;
  cpu::PackedLinear *layer = nullptr;
  int64_t chunk = 0;
  std::byte *plain = nullptr; ///< when layer is null

  int64_t elements() const {
    int64_t rows = 0;
    for (const Slice &slice : slices)
      rows += slice.count;
    return rows * columns;
  }
  int64_t sourceBytes() const {
    int64_t bytes = 0;
    for (const Slice &slice : slices)
      bytes += slice.count * columns * byteSize(*slice.matrix->dtype);
    return bytes;
  }
};

/// Splits the rows of a matrix into chunks of `width`.
std::vector<std::vector<Slice>> chunkRows(const TensorInfo *matrix,
                                          int64_t width) {
  std::vector<std::vector<Slice>> chunks;
  int64_t rows = matrix->shape[0];
  for (int64_t first = 0; first < rows; first += width)
    chunks.push_back({{matrix, first, std::min(width, rows - first)}});
  return chunks;
}

/// Chunks of `width` rows of the gate followed by the same rows of up.
std::vector<std::vector<Slice>> pairRows(const TensorInfo *gate,
                                         const TensorInfo *up, int64_t width) {
  std::vector<std::vector<Slice>> chunks;
  int64_t rows = gate->shape[0];
  for (int64_t first = 0; first < rows; first += width) {
    int64_t count = std::min(width, rows - first);
    chunks.push_back({{gate, first, count}, {up, first, count}});
  }
  return chunks;
}

/// Plans the weights, then carries out the plan.
class Loader {
public:
  Loader(const Checkpoint &checkpoint, const LoadOptions &options)
      : checkpoint(checkpoint), options(options) {}

  Status planLinear(cpu::Gemm &gemm, cpu::PackedLinear &layer, int64_t inputs,
                    std::vector<std::vector<Slice>> chunks) {
    std::vector<int64_t> outputs;
    for (const std::vector<Slice> &slices : chunks) {
      outputs.push_back(0);
      for (const Slice &slice : slices)
        outputs.back() += slice.count;
    }
    Result<cpu::PackedLinear> planned =
        cpu::PackedLinear::plan(gemm, inputs, outputs);
    if (!planned)
      return planned.takeError();
    layer = std::move(*planned);
    layers.push_back(&layer);
    for (size_t i = 0; i < chunks.size(); ++i)
      items.push_back({std::move(chunks[i]), inputs, &layer,
                       static_cast<int64_t>(i), nullptr});
    return Status::success();
  }

  /// Appends a norm's weights or a bias, which are few: read at once, rounded
  /// to the run's dtype.
  Status readVector(const TensorInfo *tensor, std::vector<float> &values) {
    int64_t n = tensor->elements;
    std::vector<float> raw(n), rounded(n);
    if (Status status = checkpoint.read(*tensor, 0, n, raw.data()); !status)
      return status;
    convert(*tensor->dtype, raw.data(), options.dtype, rounded.data(), n);
    values.resize(values.size() + n);
    convert(options.dtype, rounded.data(), DType::F32,
            values.data() + values.size() - n, n);
    return Status::success();
  }

  /// Adds the rows of a matrix that stays as it is.
  void planPlain(const TensorInfo *matrix, std::byte *memory) {
    int64_t columns = matrix->shape[1];
    int64_t rowBytes = columns * byteSize(options.dtype);
    int64_t width = std::max<int64_t>(1, (int64_t(1) << 20) / rowBytes);
    for (std::vector<Slice> &slices : chunkRows(matrix, width)) {
      std::byte *place = memory + slices.front().first * rowBytes;
      items.push_back({std::move(slices), columns, nullptr, 0, place});
    }
  }

  /// Reads, converts and packs all items, a batch of them between two calls of
  /// the observers.
  Status run() {
    for (cpu::PackedLinear *layer : layers)
      if (Status status = layer->allocate(); !status)
        return status;
    int64_t total = 0, done = 0;
    for (const LoadItem &item : items)
      total += item.sourceBytes();
    constexpr int64_t batchBytes = int64_t(64) << 20;
    for (size_t first = 0; first < items.size();) {
      if (options.interrupted && options.interrupted())
        return Error("interrupted");
      size_t last = first;
      for (int64_t bytes = 0; last < items.size() && bytes < batchBytes; ++last)
        bytes += items[last].sourceBytes();
      for (size_t i = first; i < last; ++i)
        for (const Slice &slice : items[i].slices)
          checkpoint.prefetch(*slice.matrix, slice.first * items[i].columns,
                              slice.count * items[i].columns);
      parallelFor(last - first, [&](int64_t task, int) {
        if (Status status = runItem(items[first + task]); !status) {
          std::lock_guard<std::mutex> lock(failureMutex);
          if (failure)
            failure = std::move(status);
        }
      });
      if (!failure)
        return std::move(failure);
      if (Status status = checkpoint.intact(); !status)
        return status;
      for (; first < last; ++first) {
        done += items[first].sourceBytes();
        for (const Slice &slice : items[first].slices)
          checkpoint.release(*slice.matrix, slice.first * items[first].columns,
                             slice.count * items[first].columns);
      }
      if (options.progress)
        options.progress(done, total);
    }
    return Status::success();
  }

private:
  Status runItem(const LoadItem &item) const {
    int64_t targetSize = byteSize(options.dtype);
    if (item.layer && item.slices.size() == 1 &&
        item.slices[0].matrix->dtype == options.dtype) {
      const Slice &slice = item.slices[0];
      if (const std::byte *rows = checkpoint.view(
              *slice.matrix, slice.first * item.columns, item.elements()))
        return item.layer->pack(item.chunk, rows);
    }
    Buffer rows; // what a chunk is packed from
    std::byte *target = item.plain;
    if (!target) {
      Result<Buffer> buffer = Buffer::allocate(item.elements() * targetSize);
      if (!buffer)
        return buffer.takeError();
      rows = std::move(*buffer);
      target = rows.data();
    }
    for (const Slice &slice : item.slices) {
      DType source = *slice.matrix->dtype;
      int64_t count = slice.count * item.columns;
      int64_t first = slice.first * item.columns;
      if (const std::byte *stored =
              checkpoint.view(*slice.matrix, first, count)) {
        convert(source, stored, options.dtype, target, count);
      } else if (source == options.dtype) {
        if (Status s = checkpoint.read(*slice.matrix, first, count, target); !s)
          return s;
      } else {
        Result<Buffer> raw = Buffer::allocate(count * byteSize(source));
        if (!raw)
          return raw.takeError();
        if (Status s =
                checkpoint.read(*slice.matrix, first, count, raw->data());
            !s)
          return s;
        convert(source, raw->data(), options.dtype, target, count);
      }
      target += count * targetSize;
    }
    if (item.layer)
      return item.layer->pack(item.chunk, rows.data());
    return Status::success();
  }

  const Checkpoint &checkpoint;
  const LoadOptions &options;
  std::vector<cpu::PackedLinear *> layers;
  std::vector<LoadItem> items;
  std::mutex failureMutex;
  Status failure;
};

Status planLayer(Loader &loader, cpu::Gemm &gemm, const ModelConfig &config,
                 const LayerTensors &tensors, LayerWeights &weights) {
  const int64_t hidden = config.hidden, headDim = config.headDim;
  const int64_t attention = config.attentionWidth();
  const int64_t width = cpu::chunkOutputs(hidden);
  // Whole heads, so that the epilogue can rotate them.
  const int64_t headsWidth = std::max(headDim, width / headDim * headDim);
  if (Status s =
          loader.readVector(tensors.attentionNorm, weights.attentionNorm);
      !s)
    return s;
  if (Status s = loader.readVector(tensors.mlpNorm, weights.mlpNorm); !s)
    return s;
  if (config.qkvBias)
    for (const TensorInfo *bias :
         {tensors.queryBias, tensors.keyBias, tensors.valueBias})
      if (Status s = loader.readVector(bias, weights.qkvBias); !s)
        return s;
  // Each part in chunks of its own, so that it can be computed alone.
  std::vector<std::vector<Slice>> heads;
  weights.qkvParts = {0};
  for (const TensorInfo *part : {tensors.query, tensors.key, tensors.value}) {
    std::vector<std::vector<Slice>> chunks = chunkRows(part, headsWidth);
    std::move(chunks.begin(), chunks.end(), std::back_inserter(heads));
    weights.qkvParts.push_back(static_cast<int64_t>(heads.size()));
  }
  if (Status s = loader.planLinear(gemm, weights.qkv, hidden, std::move(heads));
      !s)
    return s;
  if (Status s = loader.planLinear(
          gemm, weights.attentionOut, attention,
          chunkRows(tensors.attentionOut, cpu::chunkOutputs(attention)));
      !s)
    return s;
  if (Status s =
          loader.planLinear(gemm, weights.gateUp, hidden,
                            pairRows(tensors.gate, tensors.up, width / 2));
      !s)
    return s;
  return loader.planLinear(
      gemm, weights.down, config.mlpHidden,
      chunkRows(tensors.down, cpu::chunkOutputs(config.mlpHidden)));
}

} // namespace

int64_t TransformerWeights::bytes() const {
  int64_t total = embedding.size() + head.bytes();
  total += static_cast<int64_t>(finalNorm.size() * sizeof(float));
  for (const LayerWeights &layer : layers) {
    total += layer.qkv.bytes() + layer.attentionOut.bytes() +
             layer.gateUp.bytes() + layer.down.bytes();
    total +=
        static_cast<int64_t>((layer.attentionNorm.size() +
                              layer.mlpNorm.size() + layer.qkvBias.size()) *
                             sizeof(float));
  }
  return total;
}

Result<TransformerWeights>
TransformerWeights::load(const ModelConfig &config, const ModelTensors &tensors,
                         const Checkpoint &checkpoint,
                         const LoadOptions &options) {
  TransformerWeights weights;
  weights.gemm = std::make_unique<cpu::Gemm>(options.dtype);
  Loader loader(checkpoint, options);
  weights.layers.resize(config.layers);
  for (int64_t i = 0; i < config.layers; ++i)
    if (Status s = planLayer(loader, *weights.gemm, config, tensors.layers[i],
                             weights.layers[i]);
        !s)
      return s.takeError();
  if (Status s = loader.readVector(tensors.finalNorm, weights.finalNorm); !s)
    return s.takeError();
  if (Status s = loader.planLinear(
          *weights.gemm, weights.head, config.hidden,
          chunkRows(tensors.head, cpu::chunkOutputs(config.hidden)));
      !s)
    return s.takeError();

  int64_t embeddingBytes =
      tensors.embedding->elements * byteSize(options.dtype);
  Status enough = checkMemory(
      weights.bytes() + embeddingBytes,
      "loading the model in " + std::string(name(options.dtype)),
      options.dtype == DType::F32
          ? "load the model in bf16, which needs half, or free memory"
          : "free memory, or run on a larger machine");
  if (!enough)
    return enough.takeError();
  Result<Buffer> embedding = Buffer::allocate(embeddingBytes);
  if (!embedding)
    return embedding.takeError();
  weights.embedding = std::move(*embedding);
  loader.planPlain(tensors.embedding, weights.embedding.data());
  if (Status s = loader.run(); !s)
    return s.takeError();
  return weights;
}

} // namespace heddle::rt
