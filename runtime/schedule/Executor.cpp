//===- Executor.cpp - Plays a bundle's step program -----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All that depends on lengths and steps is computed in beginRun: attend only
// looks up its phase, fills in argument blocks and runs tasks. A selection is
// renewed at the steps of its own cadence, in the phase that lists it.
//
//===----------------------------------------------------------------------===//

#include "runtime/schedule/Executor.h"

#include "bundle/Abi.h"
#include "runtime/base/Buffer.h"
#include "runtime/base/Machine.h"
#include "runtime/base/Parallel.h"
#include "runtime/cache/IndexLists.h"
#include "runtime/module/HostModule.h"
#include "runtime/schedule/BoundKernel.h"
#include "runtime/schedule/PairCount.h"
#include "runtime/schedule/StepProgram.h"
#include "runtime/schedule/TaskGrid.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

using namespace heddle;
using namespace heddle::rt;
using bundle::Kernel;
using bundle::Manifest;
using bundle::Phase;

namespace {

/// What beginRun works out.
struct Run {
  std::vector<int64_t> lengths;
  std::vector<int64_t> offsets; ///< first packed row of each sequence
  int64_t longest = 0;
  int64_t densePairs = 0;                     ///< of one layer, all heads
  std::vector<std::optional<TaskGrid>> grids; ///< [kernel]
  std::vector<int64_t> fixedPairs;            ///< [kernel], all heads
  std::vector<std::vector<int64_t>> listed;   ///< [layer][kernel], -1: unknown
  IndexLists lists;
  Buffer lse; ///< [rows x queryHeads] floats, a sequence's block as the ABI
  std::vector<abi::AttentionArgs> attention; ///< [sequence]
  std::vector<abi::SelectArgs> select;       ///< [sequence]
  std::vector<int64_t> headPairs;            ///< [sequence x queryHeads]
};

int64_t roundUp(int64_t bytes) { return (bytes + 63) / 64 * 64; }

class Executor final : public ScheduleExecutor {
public:
  static Result<std::unique_ptr<ScheduleExecutor>>
  create(const bundle::Bundle &bundle, const ModelConfig &config, DType dtype);

  Status beginRun(std::vector<int64_t> lengths, int64_t totalSteps) override;
  int64_t runBytes(const std::vector<int64_t> &lengths) const override;
  void beginStep(int64_t step) override;
  StepCounters counters() const override { return counted; }
  std::vector<SelectionView> selections(int64_t layer,
                                        int64_t sequence) const override;
  Status attend(int64_t layer, const PackedBatch &batch,
                const AttentionTensors &tensors) override;

private:
  Executor() = default;
  IndexListShape listShape(const std::vector<int64_t> &lengths) const;
  int64_t workerBytes(int64_t longest) const;
  Status checkLengths(const std::vector<int64_t> &lengths) const;
  Status checkCall(int64_t layer, const PackedBatch &batch,
                   const AttentionTensors &tensors) const;
  Status reserveWorkers();
  void launchAttention(int64_t layer, size_t kernel,
                       const AttentionTensors &tensors);
  void launchSelect(int64_t layer, const Phase::Refresh &refresh,
                    const AttentionTensors &tensors);
  int64_t pairsOf(int64_t layer, size_t kernel);

  Manifest manifest;
  std::unique_ptr<HostModule> module;
  StepProgram program;
  std::vector<BoundKernel> kernels;
  int64_t layers = 0;
  int64_t queryHeads = 0;
  int64_t kvHeads = 0;
  int64_t headDim = 0;
  DType dtype = DType::F32;
  bool needsLse = false;

  std::optional<Run> run;
  int64_t step = 0;
  StepCounters counted;
  int workers = 0;
  Buffer scratch; ///< workers x workerBytes
};

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

Result<std::unique_ptr<ScheduleExecutor>>
Executor::create(const bundle::Bundle &bundle, const ModelConfig &config,
                 DType dtype) {
  std::unique_ptr<Executor> executor(new Executor());
  executor->manifest = bundle.manifest();
  executor->layers = config.layers;
  executor->queryHeads = config.queryHeads;
  executor->kvHeads = config.kvHeads;
  executor->headDim = config.headDim;
  executor->dtype = dtype;
  if (config.layers < 1 || config.kvHeads < 1 || config.headDim < 1 ||
      config.queryHeads < 1 || config.queryHeads % config.kvHeads != 0)
    return Error("a model with " + std::to_string(config.layers) + " layers, " +
                 std::to_string(config.queryHeads) + " query heads, " +
                 std::to_string(config.kvHeads) + " key/value heads of " +
                 std::to_string(config.headDim) +
                 " elements cannot be scheduled: all must be positive and the "
                 "query heads a multiple of the key/value heads");
  Result<std::unique_ptr<HostModule>> module = HostModule::load(bundle);
  if (!module)
    return module.takeError();
  executor->module = std::move(*module);
  Result<StepProgram> program =
      StepProgram::create(executor->manifest, config.layers);
  if (!program)
    return program.takeError();
  executor->program = std::move(*program);
  Result<std::vector<BoundKernel>> kernels =
      bindKernels(executor->manifest, executor->program, *executor->module,
                  dtype, config.headDim);
  if (!kernels)
    return kernels.takeError();
  executor->kernels = std::move(*kernels);
  for (const BoundKernel &bound : executor->kernels)
    executor->needsLse |= bound.variant && bound.kernel->writesLse;
  return std::unique_ptr<ScheduleExecutor>(std::move(executor));
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

IndexListShape Executor::listShape(const std::vector<int64_t> &lengths) const {
  return {manifest.selections, program.keeps(), lengths, queryHeads,
          bundle::Encoding::Int32};
}

/// Scratch of one worker; counting pairs and kernels use the same memory.
int64_t Executor::workerBytes(int64_t longest) const {
  int64_t bytes = 0;
  for (const BoundKernel &bound : kernels)
    bytes = std::max(bytes, bound.scratchBytes(manifest, longest));
  return roundUp(bytes);
}

Status Executor::checkLengths(const std::vector<int64_t> &lengths) const {
  if (lengths.empty())
    return Error("a run needs at least one sequence");
  __int128 pairs = 0;
  for (size_t s = 0; s < lengths.size(); ++s) {
    int64_t n = lengths[s];
    if (n < 1 || n > std::numeric_limits<int32_t>::max())
      return Error("sequence " + std::to_string(s) + " has " +
                   std::to_string(n) + " tokens; 1 to " +
                   std::to_string(std::numeric_limits<int32_t>::max()) +
                   " are possible, since index lists hold 32-bit positions");
    pairs += static_cast<__int128>(n) * n * queryHeads * layers;
  }
  if (pairs > std::numeric_limits<int64_t>::max())
    return Error("the sequences have more (query, key) pairs than a 64-bit "
                 "counter holds; split the batch");
  return Status::success();
}

int64_t Executor::runBytes(const std::vector<int64_t> &lengths) const {
  if (!checkLengths(lengths))
    return 0; // beginRun refuses them before it allocates
  int64_t rows = 0;
  for (int64_t n : lengths)
    rows += n;
  int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  int64_t bytes = IndexLists::bytesFor(listShape(lengths));
  int64_t rest = threadCount() * workerBytes(longest);
  if (needsLse)
    rest += rows * queryHeads * static_cast<int64_t>(sizeof(float));
  return bytes > std::numeric_limits<int64_t>::max() - rest
             ? std::numeric_limits<int64_t>::max()
             : bytes + rest;
}

Status Executor::beginRun(std::vector<int64_t> lengths, int64_t totalSteps) {
  run.reset();
  scratch = Buffer();
  workers = 0;
  step = 0;
  counted = {};
  if (Status status = checkLengths(lengths); !status)
    return status;
  if (Status status = program.beginRun(totalSteps); !status)
    return status;
  if (Status status = checkMemory(
          runBytes(lengths), "the index lists and scratch memory of this run",
          "use shorter or fewer sequences, keep fewer columns or take larger "
          "groups");
      !status)
    return status;

  Run next;
  next.offsets.push_back(0);
  for (int64_t n : lengths) {
    next.offsets.push_back(next.offsets.back() + n);
    next.longest = std::max(next.longest, n);
    next.densePairs += n * n * queryHeads;
  }
  Result<IndexLists> lists = IndexLists::allocate(listShape(lengths));
  if (!lists)
    return lists.takeError();
  next.lists = std::move(*lists);
  if (needsLse) {
    Result<Buffer> lse = Buffer::allocate(next.offsets.back() * queryHeads *
                                          static_cast<int64_t>(sizeof(float)));
    if (!lse)
      return lse.takeError();
    next.lse = std::move(*lse);
  }
  for (const BoundKernel &bound : kernels) {
    std::optional<TaskGrid> &grid = next.grids.emplace_back();
    int64_t &pairs = next.fixedPairs.emplace_back(0);
    if (!bound.variant)
      continue;
    bool select = bound.kernel->kind == Kernel::Kind::Select;
    grid.emplace(lengths, queryHeads,
                 select ? bound.kernel->group : bound.variant->queryRows);
    if (select || bound.pairsDependOnLists())
      continue;
    for (size_t s = 0; s < lengths.size(); ++s) {
      int64_t keep = bound.columns.empty()
                         ? 0
                         : next.lists.list(0, s, bound.columns.front()).keep;
      pairs += queryHeads * fixedPairs(bound.kernel->terms, lengths[s], keep);
    }
  }
  next.listed.assign(layers, std::vector<int64_t>(kernels.size(), -1));
  next.attention.resize(lengths.size());
  next.select.resize(lengths.size());
  next.headPairs.resize(lengths.size() * queryHeads);
  next.lengths = std::move(lengths);
  run.emplace(std::move(next));
  return reserveWorkers();
}

/// Scratch for as many threads as parallelFor uses now.
Status Executor::reserveWorkers() {
  if (threadCount() <= workers)
    return Status::success();
  int64_t bytes = threadCount() * workerBytes(run->longest);
  workers = threadCount();
  scratch = Buffer();
  if (bytes == 0)
    return Status::success();
  Result<Buffer> memory = Buffer::allocate(bytes);
  if (!memory) {
    workers = 0;
    return memory.takeError().withContext("scratch memory of the kernels");
  }
  scratch = std::move(*memory);
  return Status::success();
}

void Executor::beginStep(int64_t next) {
  step = next;
  counted = {};
}

std::vector<SelectionView> Executor::selections(int64_t layer,
                                                int64_t sequence) const {
  std::vector<SelectionView> views;
  if (!run || layer < 0 || layer >= layers || sequence < 0 ||
      sequence >= static_cast<int64_t>(run->lengths.size()))
    return views;
  for (size_t s = 0; s < manifest.selections.size(); ++s) {
    if (!program.keeps()[layer][s])
      continue;
    const abi::IndexList &list = run->lists.list(layer, sequence, s);
    views.push_back({static_cast<int64_t>(s), manifest.selections[s].group,
                     list.groups, list.keep,
                     run->lists.filled(layer, sequence, s)
                         ? static_cast<const int32_t *>(list.indices)
                         : nullptr});
  }
  return views;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

Status Executor::checkCall(int64_t layer, const PackedBatch &batch,
                           const AttentionTensors &tensors) const {
  if (!run)
    return Error("attention was asked for outside of a run: call beginRun");
  if (step < 1 || step > program.totalSteps())
    return Error("attention was asked for at step " + std::to_string(step) +
                 " of a run of " + std::to_string(program.totalSteps()) +
                 " steps: call beginStep with one of them");
  if (layer < 0 || layer >= layers)
    return Error("attention was asked for in layer " + std::to_string(layer) +
                 " of a model of " + std::to_string(layers));
  if (batch.offsets != run->offsets)
    return Error("the batch does not hold the sequences that the run was begun "
                 "with");
  if (tensors.dtype != dtype || tensors.headDim != headDim ||
      tensors.queryHeads != queryHeads || tensors.kvHeads != kvHeads)
    return Error("the tensors' element type, heads or head dim are not those "
                 "that the executor was made for");
  if (tensors.queryStride < queryHeads * headDim ||
      tensors.outputStride < queryHeads * headDim ||
      tensors.keyStride < kvHeads * headDim ||
      tensors.valueStride < kvHeads * headDim)
    return Error("a row stride is smaller than a row");
  for (int64_t s : kernels[program.phase(layer, step).attention].columns)
    if (!run->lists.filled(layer, 0, s))
      return Error("step " + std::to_string(step) + " reads selection '" +
                   manifest.selections[s].name + "' in layer " +
                   std::to_string(layer) +
                   ", which has not been filled: the steps before did not all "
                   "run");
  return Status::success();
}

/// Row `row` of a tensor of element type `dtype`.
const void *rowOf(const void *tensor, int64_t row, int64_t stride,
                  DType dtype) {
  return static_cast<const std::byte *>(tensor) +
         row * stride * byteSize(dtype);
}
void *rowOf(void *tensor, int64_t row, int64_t stride, DType dtype) {
  return static_cast<std::byte *>(tensor) + row * stride * byteSize(dtype);
}

void Executor::launchAttention(int64_t layer, size_t kernel,
                               const AttentionTensors &tensors) {
  const BoundKernel &bound = kernels[kernel];
  for (size_t s = 0; s < run->lengths.size(); ++s) {
    int64_t row = run->offsets[s];
    abi::AttentionArgs &args = run->attention[s];
    args = {};
    args.query = rowOf(tensors.query, row, tensors.queryStride, dtype);
    args.key = rowOf(tensors.key, row, tensors.keyStride, dtype);
    args.value = rowOf(tensors.value, row, tensors.valueStride, dtype);
    args.output = rowOf(tensors.output, row, tensors.outputStride, dtype);
    args.lse = needsLse ? run->lse.as<float>() + row * queryHeads : nullptr;
    args.n = run->lengths[s];
    args.queryStride = tensors.queryStride;
    args.keyStride = tensors.keyStride;
    args.valueStride = tensors.valueStride;
    args.outputStride = tensors.outputStride;
    args.kvGroup = queryHeads / kvHeads;
    args.scale =
        static_cast<float>(1 / std::sqrt(static_cast<double>(headDim)));
    args.heads = static_cast<uint32_t>(queryHeads);
    for (size_t c = 0; c < bound.columns.size(); ++c)
      args.lists[c] = run->lists.list(layer, s, bound.columns[c]);
  }
  const TaskGrid &grid = *run->grids[kernel];
  int64_t stride = workerBytes(run->longest);
  // A reference, as a std::function of the whole closure would allocate.
  auto body = [&, entry = bound.attention](int64_t task, int worker) {
    TaskGrid::Task at = grid[task];
    entry(&run->attention[at.sequence], at.head, at.tile,
          scratch.data() + worker * stride);
  };
  parallelFor(grid.size(), std::ref(body));
}

void Executor::launchSelect(int64_t layer, const Phase::Refresh &refresh,
                            const AttentionTensors &tensors) {
  const BoundKernel &bound = kernels[refresh.kernel];
  for (size_t s = 0; s < run->lengths.size(); ++s) {
    const abi::AttentionArgs &attention = run->attention[s];
    abi::SelectArgs &args = run->select[s];
    args = {};
    args.query = attention.query;
    args.key = attention.key;
    args.lse = attention.lse;
    args.n = attention.n;
    args.queryStride = attention.queryStride;
    args.keyStride = attention.keyStride;
    args.kvGroup = attention.kvGroup;
    args.scale = attention.scale;
    args.heads = attention.heads;
    args.list = run->lists.list(layer, s, refresh.selection);
  }
  const TaskGrid &grid = *run->grids[refresh.kernel];
  int64_t stride = workerBytes(run->longest);
  auto body = [&, entry = bound.select](int64_t task, int worker) {
    TaskGrid::Task at = grid[task];
    entry(&run->select[at.sequence], at.head, at.tile,
          scratch.data() + worker * stride);
  };
  parallelFor(grid.size(), std::ref(body));
}

/// Pairs that an attention kernel computes in a layer, over all heads and
/// sequences.
int64_t Executor::pairsOf(int64_t layer, size_t kernel) {
  const BoundKernel &bound = kernels[kernel];
  if (!bound.pairsDependOnLists())
    return run->fixedPairs[kernel];
  int64_t &known = run->listed[layer][kernel];
  if (known >= 0)
    return known;
  int64_t stride = workerBytes(run->longest);
  auto body = [&](int64_t task, int worker) {
    int64_t sequence = task / queryHeads, head = task % queryHeads;
    auto *merged =
        reinterpret_cast<int32_t *>(scratch.data() + worker * stride);
    run->headPairs[task] = listedPairs(
        bound.kernel->terms, run->lengths[sequence], head,
        std::span(run->attention[sequence].lists, bound.columns.size()),
        bound.groups,
        std::span(merged, static_cast<size_t>(
                              bound.mergedKeys(manifest, run->longest))));
  };
  parallelFor(static_cast<int64_t>(run->headPairs.size()), std::ref(body));
  known = 0;
  for (int64_t pairs : run->headPairs)
    known += pairs;
  return known;
}

Status Executor::attend(int64_t layer, const PackedBatch &batch,
                        const AttentionTensors &tensors) {
  if (Status status = checkCall(layer, batch, tensors); !status)
    return status;
  if (Status status = reserveWorkers(); !status)
    return status;
  const Phase &phase = program.phase(layer, step);
  size_t attention = static_cast<size_t>(phase.attention);
  launchAttention(layer, attention, tensors);
  counted.pairs += pairsOf(layer, attention);
  counted.densePairs += run->densePairs;

  for (const Phase::Refresh &refresh : phase.refreshes) {
    if (!program.renews(refresh.selection, step))
      continue;
    launchSelect(layer, refresh, tensors);
    for (size_t s = 0; s < run->lengths.size(); ++s)
      run->lists.markFilled(layer, s, refresh.selection);
    std::fill(run->listed[layer].begin(), run->listed[layer].end(), -1);
    counted.scorePairs += run->densePairs;
    counted.refreshes += static_cast<int64_t>(run->lengths.size());
  }
  return Status::success();
}

} // namespace

Result<std::unique_ptr<ScheduleExecutor>>
ScheduleExecutor::create(const bundle::Bundle &bundle,
                         const ModelConfig &config, DType dtype) {
  return Executor::create(bundle, config, dtype);
}
