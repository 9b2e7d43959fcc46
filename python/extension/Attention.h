//===- Attention.h - A schedule's attention for Python ----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The attention of a bundle's steps and layers on the caller's tensors: what
// the schedule's executor does in a model, without the model.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PYTHON_EXTENSION_ATTENTION_H
#define HEDDLE_PYTHON_EXTENSION_ATTENTION_H

#include "bundle/Bundle.h"
#include "bundle/Result.h"
#include "runtime/schedule/Executor.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace heddle::python {

struct AttentionShape {
  int64_t sequences = 1;
  int64_t length = 0; ///< of each sequence, prompt included
  int64_t prompt = 0; ///< in [0, length]
  int64_t queryHeads = 0;
  int64_t kvHeads = 0;
  int64_t headDim = 0;
  int64_t layers = 1;
  int64_t steps = 1;
  rt::DType dtype = rt::DType::F32;
};

/// Thread-safe: calls come one after the other.
class Attention {
public:
  /// Refused: a schedule whose steps do not compute all rows, which only a
  /// model can run; a shape that the bundle has no code for.
  static Result<std::unique_ptr<Attention>> make(const bundle::Bundle &bundle,
                                                 const AttentionShape &shape);

  /// Attention of `layer` at the step at hand, of all sequences one after the
  /// other; layer 0 begins the next step. With `once` a run of one step begins
  /// before it.
  Status attend(int64_t layer, const rt::AttentionTensors &tensors, bool once);

  /// Begins the run anew.
  Status restart();

  int64_t step() const { return done; }
  const AttentionShape &shape() const { return size; }

private:
  Attention() = default;
  Status begin();

  AttentionShape size;
  std::unique_ptr<rt::ScheduleExecutor> executor;
  const rt::PackedBatch *batch = nullptr;
  std::vector<uint8_t> masked;      ///< [length]
  std::vector<int32_t> committedAt; ///< [length]
  int64_t done = 0;                 ///< steps begun
  int64_t nextLayer = 0;
  std::mutex mutex;
};

} // namespace heddle::python

#endif // HEDDLE_PYTHON_EXTENSION_ATTENTION_H
