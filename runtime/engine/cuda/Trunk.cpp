//===- Trunk.cpp - The forward pass on a device --------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/cuda/Trunk.h"

#include "runtime/engine/cuda/Address.h"
#include "runtime/engine/cuda/Drain.h"
#include "runtime/model/Rope.h"

#include <numeric>

namespace heddle::rt::cuda {

std::vector<LinearLayer> linearLayers(const ModelConfig &config, DType dtype,
                                      int64_t rows) {
  const int64_t attention = config.attentionWidth();
  auto shape = [&](int64_t inputs, int64_t outputs) {
    return GemmShape{
        .dtype = dtype, .rows = rows, .inputs = inputs, .outputs = outputs};
  };
  return {{"qkv", shape(config.hidden, config.qkvWidth())},
          {"attention out", shape(attention, config.hidden)},
          {"gate and up", shape(config.hidden, 2 * config.mlpHidden)},
          {"down", shape(config.mlpHidden, config.hidden)}};
}

Trunk Trunk::plan(const ModelConfig &config, DType dtype, int64_t rows,
                  int64_t longest, ArenaPlan &plan) {
  Trunk trunk;
  trunk.config = config;
  trunk.dtype = dtype;
  trunk.rowCount = rows;
  trunk.longest = longest;
  const int64_t size = byteSize(dtype), hidden = config.hidden;
  const int64_t half = config.headDim / 2;
  trunk.xSlot = plan.add("residual stream", rows * hidden * size);
  trunk.deltaSlot = plan.add("residual update", rows * hidden * size);
  trunk.normSlot =
      plan.add("normed rows", rows * hidden * size, moment::norm, moment::qkv);
  trunk.qkvSlot =
      plan.add("queries, keys and values", rows * config.qkvWidth() * size,
               moment::qkv, moment::attention);
  trunk.attendedSlot =
      plan.add("attention output", rows * config.attentionWidth() * size,
               moment::attention, moment::output);
  trunk.mlpNormSlot = plan.add("normed rows of the MLP", rows * hidden * size,
                               moment::mlpNorm, moment::gateUp);
  trunk.gateUpSlot =
      plan.add("gate and up projection", rows * 2 * config.mlpHidden * size,
               moment::gateUp, moment::activation);
  trunk.activatedSlot =
      plan.add("MLP activation", rows * config.mlpHidden * size,
               moment::activation, moment::down);
  trunk.cosSlot = plan.add("rotation tables", longest * half * 4);
  trunk.sinSlot = plan.add("rotation tables", longest * half * 4);
  trunk.positionSlot = plan.add("positions", rows * 4);
  return trunk;
}

Status Trunk::begin(const Stream &stream, const Arena &arena,
                    const DeviceWeights &modelWeights,
                    const RowKernels &rowKernels, Gemm &products,
                    const std::vector<int64_t> &lengths) {
  weights = &modelWeights;
  rows = &rowKernels;
  gemm = &products;
  x = arena[xSlot];
  d = arena[deltaSlot];
  normed = arena[normSlot];
  qkv = arena[qkvSlot];
  attended = arena[attendedSlot];
  mlpNormed = arena[mlpNormSlot];
  gateUp = arena[gateUpSlot];
  activated = arena[activatedSlot];
  cos = arena[cosSlot];
  sin = arena[sinSlot];
  positions = arena[positionSlot];
  if (Status s = fillTables(stream, lengths); !s)
    return s;
  for (const Product &product : this->products(0))
    if (Status s = gemm->prepare(stream, product.shape, product.operands); !s)
      return s;
  return Status::success();
}

Status Trunk::fillTables(const Stream &stream,
                         const std::vector<int64_t> &lengths) {
  RopeTable table(config.ropeTheta, config.headDim);
  table.grow(longest);
  const int64_t bytes = longest * config.headDim / 2 * int64_t(4);
  std::vector<int32_t> places;
  for (int64_t n : lengths) {
    places.resize(places.size() + n);
    std::iota(places.end() - n, places.end(), 0);
  }
  const Drain drain(stream);
  if (Status s = stream.copyToDevice(cos, table.cos(0), bytes); !s)
    return s;
  if (Status s = stream.copyToDevice(sin, table.sin(0), bytes); !s)
    return s;
  if (Status s =
          stream.copyToDevice(positions, places.data(), rowCount * int64_t(4));
      !s)
    return s;
  return stream.synchronize();
}

std::vector<Trunk::Product> Trunk::products(int64_t layer) const {
  const LayerAddresses &w = weights->layers[layer];
  const GemmOperands operands[] = {{normed, w.qkv, qkv},
                                   {attended, w.attentionOut, d},
                                   {mlpNormed, w.gateUp, gateUp},
                                   {activated, w.down, d}};
  std::vector<Product> result;
  for (const LinearLayer &linear : linearLayers(config, dtype, rowCount))
    result.push_back({linear.shape, operands[result.size()]});
  return result;
}

Status Trunk::run(const Stream &stream, const DeviceSchedule &schedule,
                  int64_t step, DevicePtr tokens, const Parts &parts) const {
  auto onRows = [&](const auto &args) {
    return parts.rows ? (*rows)(stream, rowCount, args) : Status::success();
  };
  auto norm = [&](DevicePtr add, DevicePtr weight, DevicePtr y) {
    return onRows(abi::RmsNormArgs{.x = at<void>(x),
                                   .delta = at<void>(add),
                                   .weight = at<void>(weight),
                                   .y = at<void>(y),
                                   .index = nullptr,
                                   .shift = 0,
                                   .width = config.hidden,
                                   .eps = config.rmsNormEps});
  };
  if (Status s = onRows(abi::EmbedArgs{.tokens = at<int32_t>(tokens),
                                       .table = at<void>(weights->embedding),
                                       .y = at<void>(x),
                                       .width = config.hidden});
      !s)
    return s;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const LayerAddresses &w = weights->layers[layer];
    const std::vector<Product> p = products(layer);
    auto multiply = [&](const Product &product) {
      return parts.products
                 ? gemm->multiply(stream, product.shape, product.operands)
                 : Status::success();
    };
    if (Status s = norm(layer == 0 ? 0 : d, w.attentionNorm, normed); !s)
      return s;
    if (Status s = multiply(p[0]); !s)
      return s;
    if (Status s =
            onRows(abi::RotateArgs{.x = at<void>(qkv),
                                   .cos = at<float>(cos),
                                   .sin = at<float>(sin),
                                   .position = at<int32_t>(positions),
                                   .heads = config.queryHeads + config.kvHeads,
                                   .half = config.headDim / 2,
                                   .stride = config.qkvWidth(),
                                   .inElements = !config.fullPrecisionRope});
        !s)
      return s;
    if (parts.attention)
      if (Status s = schedule.attend(stream, layer, step); !s)
        return s;
    if (Status s = multiply(p[1]); !s)
      return s;
    if (Status s = norm(d, w.mlpNorm, mlpNormed); !s)
      return s;
    if (Status s = multiply(p[2]); !s)
      return s;
    if (Status s = onRows(abi::SwiGluArgs{.x = at<void>(gateUp),
                                          .y = at<void>(activated),
                                          .width = config.mlpHidden});
        !s)
      return s;
    if (Status s = multiply(p[3]); !s)
      return s;
  }
  return Status::success();
}

} // namespace heddle::rt::cuda
