//===- Executor.h - Plays a bundle's step program ---------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SCHEDULE_EXECUTOR_H
#define HEDDLE_RUNTIME_SCHEDULE_EXECUTOR_H

#include "bundle/Bundle.h"
#include "bundle/Result.h"
#include "runtime/model/Attention.h"
#include "runtime/model/Config.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace heddle::rt {

/// What attention cost in one step, summed over layers, heads and sequences.
struct StepCounters {
  int64_t pairs = 0;      ///< (query, key) pairs computed by attention
  int64_t densePairs = 0; ///< pairs that dense attention would compute
  int64_t scorePairs = 0; ///< pairs visited again to score a selection
  int64_t refreshes = 0;  ///< index lists (layer x sequence) renewed
};

/// The column sets in force in one layer, for observers.
struct SelectionView {
  int64_t selection = 0; ///< index into Manifest::selections
  int64_t group = 0;
  int64_t groups = 0;
  int64_t keep = 0;
  const int32_t *indices = nullptr; ///< [queryHeads x groups x keep], or null
                                    ///< before the first refresh
};

/// Plays a bundle's step program over a fixed set of sequences: for each step
/// and layer picks the phase, runs its attention kernel and renews its
/// selections. Owns the loaded code, the index lists and the kernels' scratch.
class ScheduleExecutor : public AttentionBackend {
public:
  /// Loads the bundle's host code. Refused when the bundle was built for a CPU
  /// with features that this one lacks, or has no kernel variant for the
  /// model's head dim and `dtype`, or a rule names a layer that the model
  /// lacks.
  static Result<std::unique_ptr<ScheduleExecutor>>
  create(const bundle::Bundle &bundle, const ModelConfig &config, DType dtype);

  /// Starts a run of `totalSteps` steps over sequences of the given lengths
  /// (fixed for the run); forgets all selections, allocates the index lists.
  virtual Status beginRun(std::vector<int64_t> lengths, int64_t totalSteps) = 0;

  /// Bytes that beginRun would allocate.
  virtual int64_t runBytes(const std::vector<int64_t> &lengths) const = 0;

  /// Starts step `step` (1-based); attend() then runs for layers 0, 1, ...
  virtual void beginStep(int64_t step) = 0;

  /// Counters since beginStep.
  virtual StepCounters counters() const = 0;

  virtual std::vector<SelectionView> selections(int64_t layer,
                                                int64_t sequence) const = 0;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SCHEDULE_EXECUTOR_H
