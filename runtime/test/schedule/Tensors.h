//===- Tensors.h - Random Q, K, V of a packed batch -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEST_SCHEDULE_TENSORS_H
#define HEDDLE_RUNTIME_TEST_SCHEDULE_TENSORS_H

#include "bundle/program/Program.h"
#include "runtime/model/Attention.h"
#include "runtime/model/Config.h"
#include "runtime/reference/Reference.h"
#include "runtime/schedule/Sequence.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace heddle::test {

inline rt::PackedBatch packed(const std::vector<int64_t> &lengths) {
  return rt::PackedBatch::whole(lengths);
}

/// What an engine tells of sequences that are decoded as one block.
class States {
public:
  explicit States(std::vector<rt::SequenceShape> of) : shapes(std::move(of)) {
    for (const rt::SequenceShape &shape : shapes) {
      masked.emplace_back(shape.length, uint8_t(1));
      std::fill_n(masked.back().begin(), shape.promptLength, uint8_t(0));
      committedAt.emplace_back(shape.length, 0);
      next.emplace_back();
      confidence.emplace_back(shape.length,
                              -std::numeric_limits<double>::infinity());
    }
    done.assign(shapes.size(), 0);
  }

  /// Makes a position a token at `step`.
  void commit(size_t sequence, int64_t position, int64_t step) {
    masked[sequence][position] = 0;
    committedAt[sequence][position] = static_cast<int32_t>(step);
  }

  rt::SequenceState at(size_t sequence, const bundle::StepPlace &place) const {
    rt::SequenceState state;
    state.place = place;
    state.blockBegin = shapes[sequence].promptLength;
    state.blockEnd = shapes[sequence].length;
    state.masked = masked[sequence];
    state.committedAt = committedAt[sequence];
    state.next = next[sequence];
    state.confidence = confidence[sequence];
    state.done = done[sequence] != 0;
    return state;
  }

  /// All of them at the same step of a run of `steps`.
  std::vector<rt::SequenceState> all(int64_t step, int64_t steps) const {
    std::vector<rt::SequenceState> states;
    for (size_t s = 0; s < shapes.size(); ++s)
      states.push_back(at(s, bundle::plannedPlace(step, steps, 0)));
    return states;
  }

  std::vector<rt::SequenceShape> shapes;
  std::vector<std::vector<uint8_t>> masked;
  std::vector<std::vector<int32_t>> committedAt;
  std::vector<std::vector<int32_t>> next;      ///< nothing, unless it is set
  std::vector<std::vector<double>> confidence; ///< of no prediction, likewise
  std::vector<uint8_t> done;
};

/// Sequences without a prompt.
inline std::vector<rt::SequenceShape>
shapesOf(const std::vector<int64_t> &lengths) {
  std::vector<rt::SequenceShape> shapes;
  for (int64_t length : lengths)
    shapes.push_back({length, 0});
  return shapes;
}

/// A layer whose projection and FFN nobody looks at.
inline Status executeLayer(rt::LayerExecutor &executor, int64_t layer,
                           const rt::PackedBatch &batch,
                           const rt::AttentionTensors &tensors) {
  if (auto rows = executor.values(layer); !rows)
    return rows.takeError();
  if (auto rows = executor.queriesAndKeys(layer, batch, tensors); !rows)
    return rows.takeError();
  if (Status status = executor.attend(layer, batch, tensors); !status)
    return status;
  if (auto rows = executor.projected(layer); !rows)
    return rows.takeError();
  if (auto rows = executor.ffn(layer); !rows)
    return rows.takeError();
  return Status::success();
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

  /// The largest over rows and heads of |a - b| / |b| (Euclidean). Rows that
  /// both have left as into() made them do not count; NaN if another has one.
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
        int64_t first = (row * view.outputStride + h * view.headDim) *
                        rt::byteSize(view.dtype);
        if (std::isnan(norm) &&
            std::equal(a.begin() + first,
                       a.begin() + first +
                           view.headDim * rt::byteSize(view.dtype),
                       b.begin() + first))
          continue;
        // A row of which all pairs are masked is zero.
        double relative = difference == 0 ? 0 : std::sqrt(difference / norm);
        if (std::isnan(relative))
          return relative;
        worst = std::max(worst, relative);
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
