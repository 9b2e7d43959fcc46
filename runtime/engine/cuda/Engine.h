//===- Engine.h - Steps on a GPU --------------------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_ENGINE_CUDA_ENGINE_H
#define HEDDLE_RUNTIME_ENGINE_CUDA_ENGINE_H

#include "runtime/denoise/StepEngine.h"
#include "runtime/device/cuda/Graph.h"
#include "runtime/engine/cuda/Head.h"
#include "runtime/engine/cuda/Rows.h"
#include "runtime/engine/cuda/Schedule.h"
#include "runtime/engine/cuda/Trunk.h"
#include "runtime/engine/cuda/Weights.h"

#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace heddle::rt::cuda {

/// Executes a bundle's schedule with a model on one GPU. The layers of a step
/// are recorded as a CUDA graph the first time that a step of its kind comes,
/// and replayed from then on; the LM head and the sampler, a handful of
/// launches whose number of rows shrinks, follow directly. Nothing is copied to
/// the host inside a step; its results are, in one small piece, if somebody
/// looks.
class CudaEngine final : public StepEngine {
public:
  /// Whether it executes a schedule with a model: all rows of whole sequences,
  /// at steps that are known before the run. HostDrivenEngine has the others.
  static bool supports(const bundle::Manifest &manifest,
                       const ModelConfig &config);

  /// Everything passed by reference must outlive the engine; the weights may be
  /// loaded later, before the first run.
  static Result<std::unique_ptr<CudaEngine>>
  create(const Context &context, const DeviceWeights &weights,
         const bundle::Bundle &bundle, const ModelConfig &config, DType dtype,
         const GemmOptions &products = {});

  ~CudaEngine() override { endRun(); }

  const ModelConfig &config() const override { return info; }
  DType dtype() const override { return type; }
  Status beginRun(std::span<const std::vector<int32_t>> prompts,
                  const GenerateOptions &options) override;
  Status step(const StepPlace &place, StepOutcome *outcome) override;
  bool finished() const override { return stepsDone >= stepsPlanned; }
  Result<std::vector<std::vector<int32_t>>> tokens() override;

  /// What a run would take, laid out: nothing is allocated. Ends the run at
  /// hand.
  Result<ArenaPlan> planRun(const std::vector<int64_t> &promptLengths,
                            const GenerateOptions &options);

  /// Bytes of index layouts of the run planned last.
  int64_t listBytes() const { return schedule->listBytes(); }

  /// Recordings made in this run: kinds of steps.
  int64_t recordings() const { return static_cast<int64_t>(graphs.size()); }

  // For the bench: what a step is made of, put into the stream.
  const Stream &queue() const { return stream; }
  const DeviceSchedule &steps() const { return *schedule; }
  /// The layers, by the graph of the step's kind.
  Status runTrunk(int64_t step);
  /// Some of what the layers do, launch by launch.
  Status runParts(int64_t step, const Trunk::Parts &parts) const;
  /// LM head, draws and commits of the step after the trunk's.
  Status runHead(const StepPlace &place);

private:
  CudaEngine(const Context &context, const DeviceWeights &weights,
             const ModelConfig &config, DType dtype,
             const GemmOptions &products)
      : context(&context), weights(&weights), info(config), type(dtype),
        gemmOptions(products) {}

  void endRun();
  Result<ArenaPlan> plan(const PackedRun &run);

  const Context *context;
  const DeviceWeights *weights;
  ModelConfig info;
  DType type;
  GemmOptions gemmOptions;
  Stream stream;
  std::unique_ptr<DeviceSchedule> schedule;
  RowKernels rows;

  // The run. Graphs name addresses of the arena and go before it.
  int64_t stepsPlanned = 0, stepsDone = 0;
  PackedRun batch;
  Arena arena;
  ArenaPlan::Slot workspaceSlot = 0;
  std::unique_ptr<Gemm> gemm;
  std::optional<Trunk> trunk;
  std::optional<Head> head;
  std::map<StepKind, Graph> graphs;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_ENGINE_CUDA_ENGINE_H
