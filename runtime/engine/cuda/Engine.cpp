//===- Engine.cpp - Steps on a GPU ----------------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/cuda/Engine.h"

#include "bundle/program/Program.h"

#include <algorithm>

namespace heddle::rt::cuda {

bool CudaEngine::supports(const bundle::Manifest &manifest,
                          const ModelConfig &config) {
  // What drifts decides which steps refresh.
  if (config.shiftedLogits || config.qkvBias || !manifest.computesAll() ||
      !bundle::driftsOf(manifest).empty())
    return false;
  for (const bundle::Selection &each : manifest.selections)
    if (each.kind != bundle::Selection::Kind::Columns || each.perKvHead ||
        each.perLayer || each.rows >= 0 || each.always >= 0 ||
        each.cadence.inBlock)
      return false;
  for (const bundle::Rule &rule : manifest.rules)
    for (const bundle::Phase &phase : rule.phases)
      if (phase.when.cadence.inBlock || phase.refreshesFirst)
        return false;
  return true;
}

Result<std::unique_ptr<CudaEngine>>
CudaEngine::create(const Context &context, const DeviceWeights &weights,
                   const bundle::Bundle &bundle, const ModelConfig &config,
                   DType dtype, const GemmOptions &products) {
  if (!supports(bundle.manifest(), config))
    return Error("the schedule '" + bundle.manifest().schedule +
                 "' with a model of the architecture '" + config.architecture +
                 "' is not one of steps that compute all rows and are known "
                 "before the run; only these are captured and timed in parts");
  if (Status s = RowKernels::checkWidths(config); !s)
    return s.takeError();
  std::unique_ptr<CudaEngine> engine(
      new CudaEngine(context, weights, config, dtype, products));
  if (Status s = Stream::create(context).moveTo(engine->stream); !s)
    return s.takeError();
  if (Status s = DeviceSchedule::create(context, bundle, config, dtype)
                     .moveTo(engine->schedule);
      !s)
    return s.takeError();
  if (Status s = RowKernels::bind(engine->schedule->manifest(),
                                  engine->schedule->code(), dtype)
                     .moveTo(engine->rows);
      !s)
    return s.takeError();
  return engine;
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

static PackedRun packedRun(const std::vector<int64_t> &promptLengths,
                           const GenerateOptions &options) {
  PackedRun run;
  run.options = options;
  run.guided = options.sampling.cfgScale > 0;
  run.offsets = {0};
  run.promptLengths = promptLengths;
  for (int64_t length : promptLengths)
    run.offsets.push_back(run.offsets.back() + length + options.genLength);
  return run;
}

/// What names the memory goes before the memory, and all after the work in the
/// stream: a run that failed may have left copies from pinned memory there.
void CudaEngine::endRun() {
  if (arena.bytes())
    (void)stream.synchronize();
  graphs.clear();
  head.reset();
  trunk.reset();
  gemm.reset();
  arena = Arena();
}

Result<ArenaPlan> CudaEngine::plan(const PackedRun &run) {
  endRun();
  if (run.rows() > INT32_MAX)
    return Error("the batch has " + std::to_string(run.rows()) +
                 " positions in all; at most " + std::to_string(INT32_MAX) +
                 " run together");
  const std::vector<int64_t> lengths = run.lengths();
  ArenaPlan plan;
  if (Status s = schedule->planRun(lengths, run.options.steps, plan,
                                   moment::attention);
      !s)
    return s.takeError();
  trunk = Trunk::plan(info, type, run.rows(),
                      *std::max_element(lengths.begin(), lengths.end()), plan);
  head = Head::plan(info, type, run, plan);
  workspaceSlot = plan.add("workspace of products", Gemm::workspaceBytes);
  return plan;
}

Result<ArenaPlan> CudaEngine::planRun(const std::vector<int64_t> &promptLengths,
                                      const GenerateOptions &options) {
  Result<ArenaPlan> result = plan(packedRun(promptLengths, options));
  if (result)
    if (Result<int64_t> bytes = result->layout(); !bytes)
      return bytes.takeError();
  return result;
}

Status CudaEngine::beginRun(std::span<const std::vector<int32_t>> prompts,
                            const GenerateOptions &options) {
  if (!weights->embedding)
    return Error("a run was begun before its model was loaded");
  std::vector<int64_t> promptLengths;
  for (const std::vector<int32_t> &prompt : prompts)
    promptLengths.push_back(static_cast<int64_t>(prompt.size()));
  batch = packedRun(promptLengths, options);
  stepsPlanned = options.steps;
  stepsDone = 0;
  Result<ArenaPlan> planned = plan(batch);
  if (!planned)
    return planned.takeError();
  if (Status s = Arena::allocate(*context, std::move(*planned)).moveTo(arena);
      !s)
    return s.takeError().withContext(
        "generating " + std::to_string(prompts.size()) + " sequences of " +
        std::to_string(batch.rows()) + " positions in all");
  if (Status s = Gemm::create(*context, arena[workspaceSlot], gemmOptions)
                     .moveTo(gemm);
      !s)
    return s;
  if (Status s =
          trunk->begin(stream, arena, *weights, rows, *gemm, batch.lengths());
      !s)
    return s;
  if (Status s = schedule->beginRun(stream, arena, trunk->attentionTensors());
      !s)
    return s;
  return head->begin(*context, stream, arena, *weights, rows, *gemm, prompts);
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

Status CudaEngine::runTrunk(int64_t step) {
  StepKind kind = schedule->kindOf(step);
  auto known = graphs.find(kind);
  if (known == graphs.end()) {
    Result<Graph> graph = Graph::capture(stream, [&](const Stream &queue) {
      return trunk->run(queue, *schedule, step, head->tokens(), {});
    });
    if (!graph)
      return graph.takeError();
    known = graphs.emplace(std::move(kind), std::move(*graph)).first;
  }
  return known->second.launch(stream);
}

Status CudaEngine::runParts(int64_t step, const Trunk::Parts &parts) const {
  return trunk->run(stream, *schedule, step, head->tokens(), parts);
}

Status CudaEngine::runHead(const StepPlace &place) {
  if (place.stepInBlock == 0)
    if (Status s = head->beginBlock(stream, place.block); !s)
      return s;
  return head->run(stream, place, trunk->hidden(), trunk->delta());
}

Status CudaEngine::step(const StepPlace &place, StepOutcome *outcome) {
  if (Status s = runTrunk(place.step); !s)
    return s;
  if (Status s = runHead(place); !s)
    return s;
  stepsDone = place.step;
  if (!outcome)
    return Status::success();
  outcome->rowsComputed = batch.rows();
  outcome->logitRows = head->logitRows();
  if (Status s = head->collect(stream, outcome->commits); !s)
    return s;
  if (Status s = schedule->count(stream, place.step).moveTo(outcome->counters);
      !s)
    return s;
  return Status::success();
}

Result<std::vector<std::vector<int32_t>>> CudaEngine::tokens() {
  if (!head)
    return Error("there is no run whose tokens could be read");
  return head->finish(stream);
}

} // namespace heddle::rt::cuda
