//===- Weights.cpp - A transformer's weights on a device -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/cuda/Weights.h"

#include "runtime/device/cuda/Upload.h"
#include "runtime/engine/cuda/Drain.h"
#include "runtime/model/Architecture.h"
#include "runtime/tensor/Convert.h"

#include <algorithm>
#include <vector>

namespace heddle::rt::cuda {

/// Where everything goes: slots of the arena and the tensors that follow each
/// other in them.
struct DeviceWeights::Parts {
  struct Part {
    ArenaPlan::Slot slot = 0;
    int64_t elements = 0;
    std::vector<const TensorInfo *> tensors; ///< empty without a checkpoint
    DevicePtr DeviceWeights::*single = nullptr;
    DevicePtr LayerAddresses::*ofLayer = nullptr;
    int64_t layer = 0;
    bool isNorm = false;
  };

  ArenaPlan plan;
  std::vector<Part> parts;

  Parts(const ModelConfig &config, DType dtype, const ModelTensors *tensors);
  void place(DeviceWeights &weights) const;
};

DeviceWeights::Parts::Parts(const ModelConfig &config, DType dtype,
                            const ModelTensors *tensors) {
  const int64_t hidden = config.hidden;
  const int64_t attention = config.attentionWidth(), keys = config.kvWidth();
  auto add = [&](const char *name, int64_t elements,
                 std::vector<const TensorInfo *> sources) -> Part & {
    Part &part = parts.emplace_back();
    part.slot = plan.add(name, elements * byteSize(dtype));
    part.elements = elements;
    part.tensors = std::move(sources);
    return part;
  };
  using Sources = std::vector<const TensorInfo *>;
  add("embedding", config.vocabSize * hidden,
      tensors ? Sources{tensors->embedding} : Sources{})
      .single = &DeviceWeights::embedding;
  for (int64_t i = 0; i < config.layers; ++i) {
    const LayerTensors *layer = tensors ? &tensors->layers[i] : nullptr;
    auto addLayer = [&](const char *name, int64_t elements, Sources sources,
                        DevicePtr LayerAddresses::*field) -> Part & {
      Part &part = add(name, elements, layer ? std::move(sources) : Sources{});
      part.ofLayer = field;
      part.layer = i;
      return part;
    };
    addLayer("norms", hidden, {layer ? layer->attentionNorm : nullptr},
             &LayerAddresses::attentionNorm)
        .isNorm = true;
    addLayer("attention weights", (attention + 2 * keys) * hidden,
             layer ? Sources{layer->query, layer->key, layer->value}
                   : Sources{},
             &LayerAddresses::qkv);
    if (config.qkvBias)
      addLayer("attention biases", attention + 2 * keys,
               layer
                   ? Sources{layer->queryBias, layer->keyBias, layer->valueBias}
                   : Sources{},
               &LayerAddresses::qkvBias);
    addLayer("attention weights", hidden * attention,
             {layer ? layer->attentionOut : nullptr},
             &LayerAddresses::attentionOut);
    addLayer("norms", hidden, {layer ? layer->mlpNorm : nullptr},
             &LayerAddresses::mlpNorm)
        .isNorm = true;
    addLayer("MLP weights", 2 * config.mlpHidden * hidden,
             layer ? Sources{layer->gate, layer->up} : Sources{},
             &LayerAddresses::gateUp);
    addLayer("MLP weights", hidden * config.mlpHidden,
             {layer ? layer->down : nullptr}, &LayerAddresses::down);
  }
  Part &norm =
      add("norms", hidden, tensors ? Sources{tensors->finalNorm} : Sources{});
  norm.single = &DeviceWeights::finalNorm;
  norm.isNorm = true;
  if (!config.tiedEmbeddings)
    add("LM head", config.vocabSize * hidden,
        tensors ? Sources{tensors->head} : Sources{})
        .single = &DeviceWeights::head;
}

void DeviceWeights::Parts::place(DeviceWeights &weights) const {
  for (const Part &part : parts) {
    DevicePtr address = weights.arena[part.slot];
    if (part.single) {
      weights.*part.single = address;
    } else {
      if (static_cast<size_t>(part.layer) >= weights.layers.size())
        weights.layers.resize(part.layer + 1);
      weights.layers[part.layer].*part.ofLayer = address;
    }
  }
  if (!weights.head)
    weights.head = weights.embedding;
}

int64_t DeviceWeights::bytesFor(const ModelConfig &config, DType dtype) {
  // Of a config.json that may say anything: one layer stands for all.
  auto bytesOf = [&](int64_t layers) {
    ModelConfig some = config;
    some.layers = layers;
    return Parts(some, dtype, nullptr).plan.unsharedBytes();
  };
  const __int128 rest = bytesOf(0);
  const __int128 total = rest + (bytesOf(1) - rest) * config.layers;
  return total > INT64_MAX ? INT64_MAX : static_cast<int64_t>(total);
}

/// Elements [first, first + count) of tensors that follow each other, in
/// `dtype`.
static Status readElements(const Checkpoint &checkpoint,
                           const std::vector<const TensorInfo *> &tensors,
                           int64_t first, int64_t count, DType dtype,
                           std::byte *out) {
  for (const TensorInfo *tensor : tensors) {
    if (first >= tensor->elements) {
      first -= tensor->elements;
      continue;
    }
    int64_t here = std::min(count, tensor->elements - first);
    DType source = *tensor->dtype;
    if (source == dtype) {
      if (Status s = checkpoint.read(*tensor, first, here, out); !s)
        return s;
    } else {
      std::vector<std::byte> raw(here * byteSize(source));
      if (Status s = checkpoint.read(*tensor, first, here, raw.data()); !s)
        return s;
      convert(source, raw.data(), dtype, out, here);
    }
    out += here * byteSize(dtype);
    count -= here;
    first = 0;
    if (count == 0)
      break;
  }
  return Status::success();
}

Result<DeviceWeights> DeviceWeights::load(const Context &context,
                                          const ModelConfig &config,
                                          const std::string &folder,
                                          const LoadOptions &options) {
  Result<Checkpoint> checkpoint = Checkpoint::open(folder);
  if (!checkpoint)
    return checkpoint.takeError();
  Result<ModelTensors> tensors = bindTensors(config, *checkpoint);
  if (!tensors)
    return tensors.takeError();
  Parts parts(config, options.dtype, &*tensors);
  Result<Arena> arena = Arena::allocate(context, parts.plan);
  if (!arena)
    return arena.takeError().withContext("the model's weights");
  DeviceWeights weights;
  weights.arena = std::move(*arena);
  parts.place(weights);

  const int64_t size = byteSize(options.dtype);
  int64_t total = 0;
  for (const Parts::Part &part : parts.parts)
    total += part.elements * size;
  UploadOptions upload;
  upload.progress = [&](int64_t done) -> Status {
    if (options.interrupted && options.interrupted())
      return Error("interrupted");
    if (options.progress)
      options.progress(done, total);
    return Status::success();
  };
  Result<Upload> stream = Upload::create(context, std::move(upload));
  if (!stream)
    return stream.takeError();
  for (const Parts::Part &part : parts.parts)
    if (Status s = stream->copy(
            weights.arena[part.slot], part.elements * size,
            [&](int64_t offset, int64_t count, std::byte *out) {
              return readElements(*checkpoint, part.tensors, offset / size,
                                  count / size, options.dtype, out);
            });
        !s)
      return s.takeError();
  if (Status s = stream->finish(); !s)
    return s.takeError();
  if (Status s = checkpoint->intact(); !s)
    return s.takeError();
  return weights;
}

Result<DeviceWeights> DeviceWeights::random(const Context &context,
                                            const ModelConfig &config,
                                            DType dtype, uint64_t seed) {
  Parts parts(config, dtype, nullptr);
  Result<Arena> arena = Arena::allocate(context, parts.plan);
  if (!arena)
    return arena.takeError().withContext("random weights");
  DeviceWeights weights;
  weights.arena = std::move(*arena);
  parts.place(weights);
  Result<Stream> stream = Stream::create(context);
  if (!stream)
    return stream.takeError();
  std::vector<float> ones(config.hidden, 1.0f);
  std::vector<std::byte> norm(config.hidden * byteSize(dtype));
  convert(DType::F32, ones.data(), dtype, norm.data(), config.hidden);
  const Drain drain(*stream);
  for (const Parts::Part &part : parts.parts) {
    DevicePtr to = weights.arena[part.slot];
    Status status =
        part.isNorm
            ? stream->copyToDevice(to, norm.data(),
                                   static_cast<int64_t>(norm.size()))
            : fillRandom(*stream, to, dtype, part.elements, 0.02f, seed++);
    if (!status)
      return status.takeError();
  }
  if (Status s = stream->synchronize(); !s)
    return s.takeError();
  return weights;
}

} // namespace heddle::rt::cuda
