//===- Tensors.h - Random Q, K, V of a packed batch -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEST_SCHEDULE_TENSORS_H
#define HEDDLE_RUNTIME_TEST_SCHEDULE_TENSORS_H

#include "runtime/model/Attention.h"
#include "runtime/model/Config.h"
#include "runtime/reference/Reference.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace heddle::test {

inline rt::PackedBatch packed(const std::vector<int64_t> &lengths) {
  rt::PackedBatch batch;
  batch.offsets.push_back(0);
  for (int64_t n : lengths)
    batch.offsets.push_back(batch.offsets.back() + n);
  return batch;
}

/// Q, K, V with normally distributed elements and room for an output, all rows
/// `padding` elements longer than they need be.
class Tensors {
public:
  Tensors(const rt::ModelConfig &config, int64_t rows, int64_t padding,
          rt::DType dtype, std::mt19937 &random) {
    view.queryStride = config.queryHeads * config.headDim + padding;
    view.keyStride = config.kvHeads * config.headDim + padding + 1;
    view.valueStride = config.kvHeads * config.headDim + padding + 2;
    view.outputStride = view.queryStride + 3;
    view.queryHeads = config.queryHeads;
    view.kvHeads = config.kvHeads;
    view.headDim = config.headDim;
    view.dtype = dtype;
    view.query = fill(query, rows * view.queryStride, random);
    view.key = fill(key, rows * view.keyStride, random);
    view.value = fill(value, rows * view.valueStride, random);
    bytes = rows * view.outputStride * rt::byteSize(dtype);
    this->rows = rows;
  }

  /// The view with `memory` as output, all bytes 0xff (NaN) before.
  rt::AttentionTensors into(std::vector<std::byte> &memory) const {
    memory.assign(static_cast<size_t>(bytes), std::byte{0xff});
    rt::AttentionTensors result = view;
    result.output = memory.data();
    return result;
  }

  /// The largest over rows and heads of |a - b| / |b| (Euclidean).
  double distance(const std::vector<std::byte> &a,
                  const std::vector<std::byte> &b) const {
    double worst = 0;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t h = 0; h < view.queryHeads; ++h) {
        double difference = 0, norm = 0;
        for (int64_t e = 0; e < view.headDim; ++e) {
          int64_t at = row * view.outputStride + h * view.headDim + e;
          double x = rt::reference::load(a.data(), at, view.dtype);
          double y = rt::reference::load(b.data(), at, view.dtype);
          difference += (x - y) * (x - y);
          norm += y * y;
        }
        double relative = std::sqrt(difference / norm);
        worst = relative <= worst ? worst : relative; // NaN counts
      }
    return worst;
  }

private:
  const void *fill(std::vector<std::byte> &memory, int64_t elements,
                   std::mt19937 &random) {
    std::normal_distribution<double> normal;
    memory.resize(static_cast<size_t>(elements * rt::byteSize(view.dtype)));
    for (int64_t i = 0; i < elements; ++i)
      rt::reference::store(memory.data(), i, view.dtype, normal(random));
    return memory.data();
  }

  rt::AttentionTensors view;
  std::vector<std::byte> query, key, value;
  int64_t rows = 0;
  int64_t bytes = 0;
};

} // namespace heddle::test

#endif // HEDDLE_RUNTIME_TEST_SCHEDULE_TENSORS_H
