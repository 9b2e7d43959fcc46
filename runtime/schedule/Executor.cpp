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
#include "bundle/Program.h"
#include "runtime/base/Buffer.h"
#include "runtime/base/Machine.h"
#include "runtime/base/Parallel.h"
#include "runtime/cache/IndexLists.h"
#include "runtime/module/HostModule.h"
#include "runtime/schedule/PairCount.h"
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
using bundle::KernelVariant;
using bundle::Manifest;
using bundle::Phase;
using bundle::Term;

namespace {

constexpr int64_t maxSteps = 1 << 20;

/// A kernel of the manifest in the form that fits the model.
struct BoundKernel {
  const Kernel *kernel = nullptr;
  const KernelVariant *variant = nullptr;
  abi::AttentionKernel attention = nullptr;
  abi::SelectKernel select = nullptr;
  std::vector<int64_t> columns; ///< selections read, in the order of the terms
  std::vector<int64_t> groups;  ///< their group sizes
  bool used = false;            ///< by a layer of the model

  int64_t scratchBytes(int64_t n) const {
    return variant->scratchBytes + variant->scratchBytesPerKey * n;
  }
};

/// What beginRun works out.
struct Run {
  std::vector<int64_t> lengths;
  std::vector<int64_t> offsets; ///< first packed row of each sequence
  int64_t totalSteps = 0;
  int64_t longest = 0;
  int64_t densePairs = 0;                     ///< of one layer, all heads
  std::vector<std::vector<size_t>> phases;    ///< [rule][step - 1]
  std::vector<std::vector<bool>> renews;      ///< [selection][step - 1]
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
  Status bind(DType type);
  IndexListShape listShape(const std::vector<int64_t> &lengths) const;
  int64_t workerBytes(int64_t longest) const;
  int64_t mergedKeys(int64_t n) const;
  Status checkLengths(const std::vector<int64_t> &lengths) const;
  Status checkReads(const Run &next) const;
  Status checkCall(int64_t layer, const PackedBatch &batch,
                   const AttentionTensors &tensors) const;
  Status reserveWorkers();
  const Phase &phaseOf(int64_t layer) const;
  void launchAttention(int64_t layer, size_t kernel,
                       const AttentionTensors &tensors);
  void launchSelect(int64_t layer, const Phase::Refresh &refresh,
                    const AttentionTensors &tensors);
  int64_t pairsOf(int64_t layer, size_t kernel);

  Manifest manifest;
  std::unique_ptr<HostModule> module;
  std::vector<BoundKernel> kernels;
  std::vector<size_t> ruleOfLayer;
  std::vector<std::vector<bool>> keeps; ///< [layer][selection]
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
  if (Status status = executor->bind(dtype); !status)
    return status.takeError();
  return std::unique_ptr<ScheduleExecutor>(std::move(executor));
}

/// The variant for an element type and head dim, or null.
const KernelVariant *findVariant(const Kernel &kernel, DType dtype,
                                 int64_t headDim) {
  for (const KernelVariant &variant : kernel.variants)
    if (variant.dtype == name(dtype) && variant.headDim == headDim)
      return &variant;
  return nullptr;
}

Status Executor::bind(DType type) {
  dtype = type;
  Result<std::vector<size_t>> rules = bundle::rulesOfLayers(manifest, layers);
  if (!rules)
    return rules.takeError();
  ruleOfLayer = std::move(*rules);

  keeps.assign(static_cast<size_t>(layers),
               std::vector<bool>(manifest.selections.size()));
  kernels.resize(manifest.kernels.size());
  for (size_t layer = 0; layer < ruleOfLayer.size(); ++layer) {
    for (const Phase &phase : manifest.rules[ruleOfLayer[layer]].phases) {
      kernels[phase.attention].used = true;
      for (const Phase::Refresh &refresh : phase.refreshes) {
        kernels[refresh.kernel].used = true;
        keeps[layer][refresh.selection] = true;
      }
    }
  }
  for (size_t k = 0; k < kernels.size(); ++k) {
    const Kernel &kernel = manifest.kernels[k];
    BoundKernel &bound = kernels[k];
    bound.kernel = &kernel;
    for (const Term &term : kernel.terms) {
      if (term.kind != Term::Kind::Columns)
        continue;
      bound.columns.push_back(term.selection);
      bound.groups.push_back(manifest.selections[term.selection].group);
    }
    if (!bound.used)
      continue;
    if (static_cast<int64_t>(bound.columns.size()) > abi::maxIndexLists)
      return Error("kernel '" + kernel.name + "' reads " +
                   std::to_string(bound.columns.size()) +
                   " selections, a kernel can read at most " +
                   std::to_string(abi::maxIndexLists));
    bound.variant = findVariant(kernel, dtype, headDim);
    if (!bound.variant) {
      std::string have;
      for (const KernelVariant &variant : kernel.variants)
        have += (have.empty() ? "" : ", ") + variant.dtype + " with " +
                std::to_string(variant.headDim);
      return Error("the bundle has no kernels for " + std::string(name(dtype)) +
                   " and a head dim of " + std::to_string(headDim) +
                   ", only for " + have +
                   "; compile the schedule for this model, or choose another "
                   "element type");
    }
    if (kernel.kind == Kernel::Kind::Select)
      bound.select = module->select(bound.variant->symbol);
    else
      bound.attention = module->attention(bound.variant->symbol);
    needsLse |= kernel.writesLse;
  }
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

IndexListShape Executor::listShape(const std::vector<int64_t> &lengths) const {
  return {manifest.selections, keeps, lengths, queryHeads};
}

/// Keys that listedPairs may have to merge at once for a sequence of n tokens.
int64_t Executor::mergedKeys(int64_t n) const {
  int64_t most = 0;
  for (const BoundKernel &bound : kernels) {
    int64_t keys = 0;
    if (bound.used && pairsDependOnLists(bound.kernel->terms))
      for (int64_t s : bound.columns)
        keys += bundle::keepCount(manifest.selections[s].keep,
                                  manifest.selections[s].rule, n);
    most = std::max(most, keys);
  }
  return most;
}

/// Scratch of one worker; counting pairs and kernels use the same memory.
int64_t Executor::workerBytes(int64_t longest) const {
  int64_t bytes = mergedKeys(longest) * static_cast<int64_t>(sizeof(int32_t));
  for (const BoundKernel &bound : kernels)
    if (bound.used)
      bytes = std::max(bytes, bound.scratchBytes(longest));
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

/// Every list that a phase reads has been renewed at an earlier step.
Status Executor::checkReads(const Run &next) const {
  for (int64_t layer = 0; layer < layers; ++layer) {
    size_t rule = ruleOfLayer[layer];
    std::vector<bool> filled(manifest.selections.size());
    for (int64_t t = 1; t <= next.totalSteps; ++t) {
      const Phase &phase =
          manifest.rules[rule].phases[next.phases[rule][t - 1]];
      for (int64_t s : kernels[phase.attention].columns)
        if (!filled[s])
          return Error(
              "with " + std::to_string(next.totalSteps) + " steps, step " +
              std::to_string(t) + " reads selection '" +
              manifest.selections[s].name + "' in layer " +
              std::to_string(layer) +
              ", which no earlier step has filled; its cadence " +
              bundle::toString(manifest.selections[s].cadence) +
              " must name a step before, or the schedule must attend to "
              "something else until then");
      for (const Phase::Refresh &refresh : phase.refreshes)
        if (next.renews[refresh.selection][t - 1])
          filled[refresh.selection] = true;
    }
  }
  return Status::success();
}

Status Executor::beginRun(std::vector<int64_t> lengths, int64_t totalSteps) {
  run.reset();
  scratch = Buffer();
  workers = 0;
  step = 0;
  counted = {};
  if (Status status = checkLengths(lengths); !status)
    return status;
  if (totalSteps < 1 || totalSteps > maxSteps)
    return Error("a run of " + std::to_string(totalSteps) +
                 " steps is not possible, 1 to " + std::to_string(maxSteps) +
                 " are");

  Run next;
  next.totalSteps = totalSteps;
  for (const bundle::Rule &rule : manifest.rules)
    next.phases.push_back(bundle::phasesOfSteps(rule, totalSteps));
  for (const bundle::Selection &selection : manifest.selections) {
    std::vector<bool> &renews = next.renews.emplace_back(totalSteps);
    for (int64_t t : bundle::refreshSteps(selection.cadence, totalSteps))
      renews[t - 1] = true;
  }
  if (Status status = checkReads(next); !status)
    return status;
  if (Status status = checkMemory(
          runBytes(lengths), "the index lists and scratch memory of this run",
          "use shorter or fewer sequences, keep fewer columns or take larger "
          "groups");
      !status)
    return status;

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
    if (!bound.used)
      continue;
    bool select = bound.kernel->kind == Kernel::Kind::Select;
    grid.emplace(lengths, queryHeads,
                 select ? bound.kernel->group : bound.variant->queryRows);
    if (select || pairsDependOnLists(bound.kernel->terms))
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
    if (!keeps[layer][s])
      continue;
    const abi::IndexList &list = run->lists.list(layer, sequence, s);
    views.push_back(
        {static_cast<int64_t>(s), manifest.selections[s].group, list.groups,
         list.keep,
         run->lists.filled(layer, sequence, s) ? list.indices : nullptr});
  }
  return views;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

const Phase &Executor::phaseOf(int64_t layer) const {
  size_t rule = ruleOfLayer[layer];
  return manifest.rules[rule].phases[run->phases[rule][step - 1]];
}

Status Executor::checkCall(int64_t layer, const PackedBatch &batch,
                           const AttentionTensors &tensors) const {
  if (!run)
    return Error("attention was asked for outside of a run: call beginRun");
  if (step < 1 || step > run->totalSteps)
    return Error("attention was asked for at step " + std::to_string(step) +
                 " of a run of " + std::to_string(run->totalSteps) +
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
  for (int64_t s : kernels[phaseOf(layer).attention].columns)
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
  if (!pairsDependOnLists(bound.kernel->terms))
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
        std::span(merged, static_cast<size_t>(mergedKeys(run->longest))));
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
  const Phase &phase = phaseOf(layer);
  size_t attention = static_cast<size_t>(phase.attention);
  launchAttention(layer, attention, tensors);
  counted.pairs += pairsOf(layer, attention);
  counted.densePairs += run->densePairs;

  for (const Phase::Refresh &refresh : phase.refreshes) {
    if (!run->renews[refresh.selection][step - 1])
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
