//===- Schedule.h - A bundle's step program on a device ---------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Everything that a step's attention needs is put on the device when a run
// begins: the index layouts, the log-sum-exp, and an argument block for every
// layer, kernel and sequence. A step then only launches.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_ENGINE_CUDA_SCHEDULE_H
#define HEDDLE_RUNTIME_ENGINE_CUDA_SCHEDULE_H

#include "bundle/format/Bundle.h"
#include "runtime/cache/IndexLists.h"
#include "runtime/device/cuda/Arena.h"
#include "runtime/device/cuda/Module.h"
#include "runtime/engine/cuda/Kernels.h"
#include "runtime/engine/cuda/ListCount.h"
#include "runtime/model/Config.h"
#include "runtime/schedule/Executor.h"
#include "runtime/schedule/StepProgram.h"
#include "runtime/tensor/DType.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace heddle::rt::cuda {

/// What distinguishes the steps of a run from each other: the phase of every
/// rule and which selections are refreshed. Steps of equal kind launch the same
/// kernels with the same arguments.
using StepKind = std::vector<int32_t>;

class DeviceSchedule {
public:
  /// Loads the bundle's code for the device and binds its kernels. The bundle
  /// is copied as far as needed.
  static Result<std::unique_ptr<DeviceSchedule>>
  create(const Context &context, const bundle::Bundle &bundle,
         const ModelConfig &config, DType dtype);

  const bundle::Manifest &manifest() const { return program; }
  const Module &code() const { return *module; }

  /// Fits a run's lengths and steps, and adds what it needs to `plan`: memory
  /// for the whole run, and some that is used at `moment` only.
  Status planRun(const std::vector<int64_t> &lengths, int64_t totalSteps,
                 ArenaPlan &plan, int moment);

  /// Starts the planned run in an arena of that plan. `tensors` are the same
  /// for all layers.
  Status beginRun(const Stream &stream, const Arena &arena,
                  const AttentionTensors &tensors);

  /// Steps of one kind can share a recording.
  StepKind kindOf(int64_t step) const;

  /// For people: the kernel of most layers ("dense" for dense attention) and,
  /// if any, the selections refreshed: "dense, refreshes cols".
  std::string describe(int64_t step) const;

  /// Puts a layer's attention and the refreshes of its selections into the
  /// stream.
  Status attend(const Stream &stream, int64_t layer, int64_t step) const;

  /// Counts what a step computed, after its work is done; asked for every step
  /// of a run in order, or for none. The pairs of unions of columns with other
  /// sets are in their lists, which are counted on the host after each refresh.
  Result<StepCounters> count(const Stream &stream, int64_t step);

  /// Bytes of the run's index layouts.
  int64_t listBytes() const { return listTotal; }

  /// Shared form of the lists in this run.
  bundle::Encoding encoding() const { return kernels.encoding(); }

private:
  DeviceSchedule() = default;
  Status checkLengths() const;
  IndexListShape listShape() const;
  Result<int64_t> listedPairsOf(const Stream &stream, int64_t layer,
                                size_t kernel);

  const Context *context = nullptr;
  bundle::Manifest program;
  std::unique_ptr<Module> module;
  StepProgram steps;
  ModelConfig config;
  size_t argumentsOf(const bundle::Phase::Refresh &refresh) const {
    return static_cast<size_t>(refresh.selection) * kernels.size() +
           static_cast<size_t>(refresh.kernel);
  }

  DType dtype = DType::BF16;
  ScheduleKernels kernels;

  // The run.
  std::vector<int64_t> lengths;
  std::vector<int64_t> offsets; ///< first packed row of each sequence
  int64_t longest = 0;
  int64_t listTotal = 0;
  ArenaPlan::Slot listSlot = 0, lseSlot = 0, argumentSlot = 0, scratchSlot = 0;
  DevicePtr scratch = 0;
  IndexLists lists;
  /// [layer][kernel]: argument blocks of all sequences, 0 when not launched.
  std::vector<std::vector<DevicePtr>> attentionArguments;
  /// [layer][argumentsOf(refresh)]: likewise for selections and the kernels
  /// that refresh them, of which one may serve several, or several one.
  std::vector<std::vector<DevicePtr>> selectArguments;
  std::vector<int64_t> fixedPairs; ///< [kernel]: of all heads and sequences,
                                   ///< where no list is counted
  std::vector<std::vector<int64_t>> listed; ///< [layer][kernel]: pairs
  std::vector<std::vector<bool>> filled;    ///< [layer][selection]: by a step
  ListCounter counter;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_ENGINE_CUDA_SCHEDULE_H
