//===- CudaProducts.cpp - Timing a model's products on a GPU -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/bench/CudaProducts.h"

#include "runtime/device/cuda/Arena.h"
#include "runtime/device/cuda/Gemm.h"
#include "runtime/device/cuda/Upload.h"
#include "runtime/engine/cuda/Head.h"
#include "runtime/engine/cuda/Trunk.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

using namespace heddle;
using namespace heddle::bench;
using namespace heddle::rt::cuda;

namespace {

/// One linear layer with random operands for up to `most` rows. Rows of x
/// repeat with a period, so that rows of y must.
class LayerSubject {
public:
  LayerSubject(const Context &context, const Stream &stream,
               const LinearLayer &layer, int64_t most)
      : context(context), stream(stream), layer(layer), most(most),
        size(byteSize(layer.shape.dtype)) {}

  Status prepare();
  Result<ProductRow> measure(int64_t rows, int repetitions);

private:
  static constexpr int64_t period = 256;
  Status fillRows(int64_t rows);
  Result<bool> alike(const GemmShape &shape);
  int64_t yStride() const {
    return layer.shape.yStride ? layer.shape.yStride : layer.shape.outputs;
  }

  const Context &context;
  const Stream &stream;
  const LinearLayer &layer;
  const int64_t most, size;
  Arena memory;
  GemmOperands operands;
  std::unique_ptr<Gemm> gemm;
  std::vector<std::byte> reference; ///< rows of y, up to a period
};

Status LayerSubject::prepare() {
  ArenaPlan plan;
  plan.add("x", most * layer.shape.inputs * size);
  plan.add("weights", layer.shape.outputs * layer.shape.inputs * size);
  plan.add("y", most * yStride() * size);
  plan.add("workspace", Gemm::workspaceBytes);
  if (Status s = Arena::allocate(context, std::move(plan)).moveTo(memory); !s)
    return s;
  operands = {memory[0], memory[1], memory[2]};
  if (Status s = Gemm::create(context, memory[3]).moveTo(gemm); !s)
    return s;
  return fillRandom(stream, operands.weights, layer.shape.dtype,
                    layer.shape.outputs * layer.shape.inputs, 0.02f, 2);
}

Status LayerSubject::fillRows(int64_t rows) {
  const int64_t rowBytes = layer.shape.inputs * size;
  const int64_t first = std::min(rows, period);
  if (Status s = fillRandom(stream, operands.x, layer.shape.dtype,
                            first * layer.shape.inputs, 1, 3);
      !s)
    return s;
  for (int64_t filled = first; filled < rows;) {
    int64_t count = std::min(filled, rows - filled);
    if (Status s = stream.copyOnDevice(operands.x + filled * rowBytes,
                                       operands.x, count * rowBytes);
        !s)
      return s;
    filled += count;
  }
  return Status::success();
}

/// Whether rows of y repeat as those of x, and are those of other row counts.
Result<bool> LayerSubject::alike(const GemmShape &shape) {
  if (Status s = fillRows(shape.rows); !s)
    return s.takeError();
  const int64_t stride = yStride() * size, row = shape.outputs * size;
  const int64_t room = (most - 1) * stride + row;
  if (Status s = stream.fillBytes(operands.y, 0xff, room); !s)
    return s.takeError();
  if (Status s = gemm->multiply(stream, shape, operands); !s)
    return s.takeError();
  std::vector<std::byte> y(std::min(shape.rows, period) * stride);
  for (int64_t first = 0; first < shape.rows; first += period) {
    int64_t count = std::min(period, shape.rows - first);
    int64_t bytes = (count - 1) * stride + row;
    Status copied =
        stream.copyToHost(y.data(), operands.y + first * stride, bytes);
    if (Status s = stream.synchronize(); !s || !copied)
      return s ? copied.takeError() : s.takeError();
    for (int64_t r = 0; r < count; ++r) {
      auto begin = y.begin() + r * stride;
      if (static_cast<int64_t>(reference.size()) <= r * row)
        reference.insert(reference.end(), begin, begin + row);
      else if (std::memcmp(&*begin, reference.data() + r * row, row) != 0)
        return false;
    }
  }
  return true;
}

Result<ProductRow> LayerSubject::measure(int64_t rows, int repetitions) {
  GemmShape shape = layer.shape;
  shape.rows = rows;
  ProductRow result;
  result.name = layer.name;
  result.rows = rows;
  result.outputs = shape.outputs;
  result.inputs = shape.inputs;
  auto start = std::chrono::steady_clock::now();
  if (Status s = gemm->prepare(stream, shape, operands); !s)
    return s.takeError();
  std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  result.prepare = elapsed.count();
  if (Status s = alike(shape).moveTo(result.independent); !s)
    return s.takeError();
  auto timings = gemm->timeAll(stream, shape, operands, 32, repetitions);
  if (!timings)
    return timings.takeError();
  for (const GemmTiming &timing : *timings) {
    ++result.proposals;
    if (result.best == 0) {
      result.best = timing.milliseconds;
      result.bestName = timing.algorithm;
    }
    if (timing.sameBits && result.alike++ == 0)
      result.bestAlike = timing.milliseconds;
    if (timing.chosen) {
      result.chosen = timing.milliseconds;
      result.chosenName = timing.algorithm;
    }
    if (timing.layers)
      result.layers = timing.milliseconds;
    if (timing.first)
      result.first = timing.milliseconds;
  }
  return result;
}

} // namespace

Result<std::vector<ProductRow>>
heddle::bench::runProductBench(const CudaRequest &request,
                               std::string &device) {
  Result<rt::ModelConfig> config = rt::ModelConfig::load(request.model);
  if (!config)
    return config.takeError();
  auto context = Context::open(request.ordinal);
  if (!context)
    return context.takeError();
  device = (*context)->device().describe();
  Result<Stream> stream = Stream::create(**context);
  if (!stream)
    return stream.takeError();
  std::vector<LinearLayer> layers =
      linearLayers(*config, request.modelType(), 1);
  layers.push_back({"LM head", headProduct(*config, request.modelType(), 1)});
  std::vector<ProductRow> rows;
  for (const LinearLayer &layer : layers) {
    std::vector<int64_t> counts = request.lengths;
    // Logits are made in waves; no other rows have a stride of their own.
    if (layer.shape.yStride)
      std::erase_if(counts, [&](int64_t count) {
        return count * layer.shape.yStride * byteSize(layer.shape.dtype) >
               Head::logitBytes;
      });
    if (counts.empty())
      continue;
    LayerSubject subject(**context, *stream, layer,
                         *std::max_element(counts.begin(), counts.end()));
    if (Status s = subject.prepare(); !s)
      return s.takeError().withContext(layer.name);
    for (int64_t count : counts) {
      std::fprintf(stderr, "heddle-bench: %s, %lld rows\n", layer.name,
                   static_cast<long long>(count));
      Result<ProductRow> row = subject.measure(count, request.repetitions);
      if (!row)
        return row.takeError().withContext(layer.name);
      rows.push_back(std::move(*row));
    }
  }
  return rows;
}

std::string heddle::bench::toTable(const std::vector<ProductRow> &rows) {
  char text[256];
  std::snprintf(text, sizeof(text), "%-14s%8s%9s%8s%9s%9s%9s%9s%9s%8s%10s%8s\n",
                "", "rows", "outputs", "inputs", "ms", "TFLOP/s", "/ best",
                "/ first", "/ layer", "alike", "choose ms", "rows");
  std::string table = text;
  for (const ProductRow &row : rows) {
    double operations =
        2.0 * double(row.rows) * double(row.inputs) * double(row.outputs);
    std::string alike =
        std::to_string(row.alike) + "/" + std::to_string(row.proposals);
    std::snprintf(
        text, sizeof(text),
        "%-14s%8lld%9lld%8lld%9.4f%9.1f%9.3f%9.3f%9.3f%8s%10.1f%8s\n",
        row.name.c_str(), static_cast<long long>(row.rows),
        static_cast<long long>(row.outputs), static_cast<long long>(row.inputs),
        row.chosen, operations / row.chosen * 1e-9, row.chosen / row.best,
        row.first > 0 ? row.chosen / row.first : 0, row.chosen / row.layers,
        alike.c_str(), row.prepare, row.independent ? "alike" : "DIFFER");
    table += text;
  }
  return table +
         "/ best, / first, / layer: time relative to the fastest proposal, the "
         "first, the layer's own algorithm; alike: proposals with its bits.\n";
}

std::string heddle::bench::toJson(const std::vector<ProductRow> &rows,
                                  const std::string &device) {
  nlohmann::ordered_json result;
  result["device"] = device;
  result["products"] = nlohmann::ordered_json::array();
  for (const ProductRow &row : rows)
    result["products"].push_back({{"name", row.name},
                                  {"rows", row.rows},
                                  {"outputs", row.outputs},
                                  {"inputs", row.inputs},
                                  {"chosen_ms", row.chosen},
                                  {"layer_ms", row.layers},
                                  {"first_ms", row.first},
                                  {"best_ms", row.best},
                                  {"best_alike_ms", row.bestAlike},
                                  {"proposals", row.proposals},
                                  {"alike", row.alike},
                                  {"choose_ms", row.prepare},
                                  {"rows_alike", row.independent},
                                  {"chosen", row.chosenName},
                                  {"best", row.bestName}});
  return result.dump(2) + "\n";
}
