//===- Schedule.cpp - A bundle's step program on a device -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/cuda/Schedule.h"

#include "bundle/abi/Abi.h"
#include "bundle/abi/IndexLayout.h"
#include "runtime/device/cuda/TileMaps.h"
#include "runtime/engine/cuda/Address.h"
#include "runtime/engine/cuda/Drain.h"
#include "runtime/schedule/PairCount.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace heddle::rt::cuda {

using bundle::Phase;

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

Result<std::unique_ptr<DeviceSchedule>>
DeviceSchedule::create(const Context &context, const bundle::Bundle &bundle,
                       const ModelConfig &config, DType dtype) {
  std::unique_ptr<DeviceSchedule> schedule(new DeviceSchedule());
  schedule->context = &context;
  schedule->program = bundle.manifest();
  schedule->config = config;
  schedule->dtype = dtype;
  if (Status s = Module::load(context, bundle).moveTo(schedule->module); !s)
    return s.takeError();
  if (Status s = StepProgram::create(schedule->program, config.layers)
                     .moveTo(schedule->steps);
      !s)
    return s.takeError();
  if (Status s =
          ScheduleKernels::bind(context, *schedule->module, schedule->program,
                                schedule->steps, config, dtype)
              .moveTo(schedule->kernels);
      !s)
    return s.takeError();
  return schedule;
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

Status DeviceSchedule::checkLengths() const {
  if (lengths.empty())
    return Error("a run needs at least one sequence");
  // Grids have at most 65,535 blocks in y and z.
  constexpr size_t mostSequences = 65535;
  if (lengths.size() > mostSequences)
    return Error("a batch of " + std::to_string(lengths.size()) +
                 " sequences; at most " + std::to_string(mostSequences) +
                 " run together on this device");
  __int128 pairs = 0;
  for (size_t s = 0; s < lengths.size(); ++s) {
    if (lengths[s] < 1 || lengths[s] > longestSequence)
      return Error("sequence " + std::to_string(s) + " has " +
                   std::to_string(lengths[s]) + " tokens; 1 to " +
                   std::to_string(longestSequence) + " are possible");
    pairs += static_cast<__int128>(lengths[s]) * lengths[s] *
             config.queryHeads * config.layers;
  }
  if (pairs > std::numeric_limits<int64_t>::max())
    return Error("the sequences have more (query, key) pairs than a 64-bit "
                 "counter holds; split the batch");
  return Status::success();
}

IndexListShape DeviceSchedule::listShape() const {
  return {program.selections, steps.listSources(), lengths, config.queryHeads,
          encoding()};
}

Status DeviceSchedule::planRun(const std::vector<int64_t> &runLengths,
                               int64_t totalSteps, ArenaPlan &plan,
                               int moment) {
  lengths = runLengths;
  if (Status status = checkLengths(); !status)
    return status;
  if (Status status = steps.beginRun(totalSteps); !status)
    return status;
  longest = *std::max_element(lengths.begin(), lengths.end());
  offsets = {0};
  for (int64_t n : lengths)
    offsets.push_back(offsets.back() + n);
  if (Status status = kernels.fit(longest); !status)
    return status;

  int64_t sequences = static_cast<int64_t>(lengths.size());
  int64_t argumentBytes = 0;
  auto mapBytes = [&](const bundle::KernelVariant &variant) {
    return variant.mapRows ? sequences * int64_t(sizeof(abi::TileMaps)) +
                                 int64_t(alignof(abi::TileMaps))
                           : 0;
  };
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    std::set<size_t> selects;
    for (const Phase &phase : steps.phasesOf(layer))
      for (const Phase::Refresh &refresh : phase.refreshes)
        if (selects.insert(argumentsOf(refresh)).second)
          argumentBytes +=
              sequences * int64_t(sizeof(abi::SelectArgs)) +
              mapBytes(*kernels[refresh.kernel].of(bundle::allRows).variant);
  }
  fixedPairs.assign(kernels.size(), 0);
  for (size_t k = 0; k < kernels.size(); ++k) {
    const DeviceKernel &bound = kernels[k];
    const bundle::KernelVariant *variant = bound.of(bundle::allRows).variant;
    if (!variant || bound.kernel->kind == bundle::Kernel::Kind::Select)
      continue;
    argumentBytes +=
        config.layers *
        (sequences * int64_t(sizeof(abi::AttentionArgs)) + mapBytes(*variant));
    if (bound.listed)
      continue;
    for (int64_t n : lengths) {
      int64_t keep = 0;
      if (!bound.selections.empty()) {
        const bundle::Selection &selection =
            program.selections[bound.selections.front()];
        keep = selection.kept(
            keysToChoose(program.selections, selection, n, 0, 0));
      }
      fixedPairs[k] +=
          config.queryHeads * rt::fixedPairs(bound.kernel->terms, n, keep);
    }
  }
  listTotal = IndexLists::bytesFor(listShape());
  listSlot = plan.add("index layouts", listTotal);
  lseSlot =
      plan.add("log-sum-exp", offsets.back() * config.queryHeads * int64_t(4),
               moment, moment);
  scratchSlot =
      plan.add("scores", kernels.scratchBytes(sequences), moment, moment);
  argumentSlot = plan.add("arguments", argumentBytes);
  return Status::success();
}

Status DeviceSchedule::beginRun(const Stream &stream, const Arena &arena,
                                const AttentionTensors &tensors) {
  scratch = arena[scratchSlot];
  lists = IndexLists::at(listShape(), at<void>(arena[listSlot]));
  listed.assign(config.layers, std::vector<int64_t>(kernels.size(), 0));
  filled.assign(config.layers, std::vector<bool>(program.selections.size()));
  // Bits beyond the last key stay zero.
  if (listTotal)
    if (Status s = stream.fillBytes(arena[listSlot], 0, listTotal); !s)
      return s;

  const int64_t sequences = static_cast<int64_t>(lengths.size());
  const int64_t size = byteSize(dtype);
  const float scale =
      static_cast<float>(1 / std::sqrt(static_cast<double>(config.headDim)));
  auto rowOf = [&](const void *base, int64_t stride, int64_t s) {
    return at<void>(addressOf(base) + offsets[s] * stride * size);
  };
  auto attentionOf = [&](int64_t s) {
    abi::AttentionArgs args = {};
    args.query = rowOf(tensors.query, tensors.queryStride, s);
    args.key = rowOf(tensors.key, tensors.keyStride, s);
    args.value = rowOf(tensors.value, tensors.valueStride, s);
    args.output = rowOf(tensors.output, tensors.outputStride, s);
    args.lse = at<float>(arena[lseSlot]) + offsets[s] * config.queryHeads;
    args.n = lengths[s];
    args.queryStride = tensors.queryStride;
    args.keyStride = tensors.keyStride;
    args.valueStride = tensors.valueStride;
    args.outputStride = tensors.outputStride;
    args.kvGroup = config.queryHeads / config.kvHeads;
    args.scale = scale;
    args.heads = static_cast<uint32_t>(config.queryHeads);
    args.rows = lengths[s]; // all, so neither places nor tiles
    return args;
  };

  std::vector<std::byte> blocks;
  auto append = [&](const auto &args) {
    const auto *bytes = reinterpret_cast<const std::byte *>(&args);
    blocks.insert(blocks.end(), bytes, bytes + sizeof(args));
  };
  // Tensor maps of all sequences, for a kernel that has such; else null.
  auto appendMaps = [&](const bundle::KernelVariant &variant,
                        auto &&argumentsOf) -> Result<const abi::TileMaps *> {
    if (!variant.mapRows)
      return nullptr;
    blocks.resize((blocks.size() + alignof(abi::TileMaps) - 1) /
                  alignof(abi::TileMaps) * alignof(abi::TileMaps));
    const DevicePtr maps = arena[argumentSlot] + blocks.size();
    for (int64_t s = 0; s < sequences; ++s) {
      Result<abi::TileMaps> own =
          encodeTileMaps(*context, variant, argumentsOf(s));
      if (!own)
        return own.takeError();
      append(*own);
    }
    return at<const abi::TileMaps>(maps);
  };
  auto selectionOf = [&](int64_t s) {
    return abi::selectArgsOf(attentionOf(s));
  };
  attentionArguments.assign(config.layers,
                            std::vector<DevicePtr>(kernels.size(), 0));
  selectArguments.assign(
      config.layers,
      std::vector<DevicePtr>(program.selections.size() * kernels.size(), 0));
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    for (const Phase &phase : steps.phasesOf(layer)) {
      DevicePtr &attention = attentionArguments[layer][phase.attention];
      if (!attention) {
        const DeviceKernel &bound = kernels[phase.attention];
        auto maps = appendMaps(*bound.of(bundle::allRows).variant, attentionOf);
        if (!maps)
          return maps.takeError();
        attention = arena[argumentSlot] + blocks.size();
        for (int64_t s = 0; s < sequences; ++s) {
          abi::AttentionArgs args = attentionOf(s);
          if (*maps)
            args.tileMaps = *maps + s;
          args.sinks = bundle::sinkBound(bound.kernel->terms, lengths[s]);
          for (size_t c = 0; c < bound.selections.size(); ++c)
            args.lists[c] = lists.list(layer, s, bound.selections[c]);
          append(args);
        }
      }
      for (const Phase::Refresh &refresh : phase.refreshes) {
        DevicePtr &select = selectArguments[layer][argumentsOf(refresh)];
        if (select)
          continue;
        auto maps = appendMaps(
            *kernels[refresh.kernel].of(bundle::allRows).variant, selectionOf);
        if (!maps)
          return maps.takeError();
        select = arena[argumentSlot] + blocks.size();
        for (int64_t s = 0; s < sequences; ++s) {
          abi::SelectArgs args = selectionOf(s);
          if (*maps)
            args.tileMaps = *maps + s;
          args.list = lists.list(layer, s, refresh.selection);
          if (int64_t outer = program.selections[refresh.selection].within;
              outer >= 0)
            args.within = lists.list(layer, s, outer);
          append(args);
        }
      }
    }
  }
  assert(static_cast<int64_t>(blocks.size()) <= arena.bytes(argumentSlot));
  const Drain drain(stream);
  if (Status s = stream.copyToDevice(arena[argumentSlot], blocks.data(),
                                     static_cast<int64_t>(blocks.size()));
      !s)
    return s;
  return stream.synchronize();
}

StepKind DeviceSchedule::kindOf(int64_t step) const {
  StepKind kind;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const Phase &phase = steps.phase(layer, step);
    kind.push_back(static_cast<int32_t>(phase.attention));
    for (const Phase::Refresh &refresh : steps.due(phase, step))
      kind.push_back(-1 - static_cast<int32_t>(refresh.selection));
  }
  return kind;
}

std::string DeviceSchedule::describe(int64_t step) const {
  std::map<std::string, int64_t> layersOf;
  std::set<std::string> refreshed;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const Phase &phase = steps.phase(layer, step);
    const bundle::Kernel &kernel = program.kernels[phase.attention];
    ++layersOf[kernel.terms.empty() ? "dense" : kernel.name];
    for (const Phase::Refresh &refresh : steps.due(phase, step))
      refreshed.insert(program.selections[refresh.selection].name);
  }
  auto most = std::max_element(
      layersOf.begin(), layersOf.end(),
      [](const auto &a, const auto &b) { return a.second < b.second; });
  std::string text = most->first;
  for (const std::string &name : refreshed)
    text += ", refreshes " + name;
  return text;
}

Status DeviceSchedule::attend(const Stream &stream, int64_t layer,
                              int64_t step) const {
  const Phase &phase = steps.phase(layer, step);
  const int64_t sequences = static_cast<int64_t>(lengths.size());
  const DeviceKernel &bound = kernels[phase.attention];
  const KernelForm &form = bound.of(bundle::allRows);
  if (Status s = kernels.attend(
          stream, bound, form, attentionArguments[layer][phase.attention],
          sequences, bundle::tilesOf(*form.variant, longest, 1));
      !s)
    return s;
  for (const Phase::Refresh &refresh : steps.due(phase, step))
    if (Status s = kernels.select(stream, refresh.kernel,
                                  selectArguments[layer][argumentsOf(refresh)],
                                  sequences, scratch);
        !s)
      return s;
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Counting
//===----------------------------------------------------------------------===//

/// Pairs of a union with columns in one layer, from the lists themselves.
Result<int64_t> DeviceSchedule::listedPairsOf(const Stream &stream,
                                              int64_t layer, size_t kernel) {
  const DeviceKernel &bound = kernels[kernel];
  int64_t pairs = 0;
  for (size_t s = 0; s < lengths.size(); ++s) {
    std::vector<abi::IndexList> read;
    for (int64_t selection : bound.selections)
      read.push_back(lists.list(layer, static_cast<int64_t>(s), selection));
    Result<int64_t> counted =
        counter.count(stream, bound.kernel->terms, encoding(), lengths[s],
                      config.queryHeads, read, bound.groups);
    if (!counted)
      return counted.takeError().withContext("layer " + std::to_string(layer) +
                                             ", sequence " + std::to_string(s));
    pairs += *counted;
  }
  return pairs;
}

Result<StepCounters> DeviceSchedule::count(const Stream &stream, int64_t step) {
  StepCounters counters;
  int64_t dense = 0;
  std::vector<int64_t> scored(program.selections.size());
  for (int64_t n : lengths) {
    dense += n * n * config.queryHeads;
    for (size_t i = 0; i < scored.size(); ++i)
      scored[i] += program.selections[i].scoringRows(n) * n * config.queryHeads;
    counters.activeRows += n;
  }
  counters.queryRows = counters.keyRows = counters.valueRows =
      counters.projectedRows = counters.ffnRows =
          counters.activeRows * config.layers;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const Phase &phase = steps.phase(layer, step);
    const DeviceKernel &bound = kernels[phase.attention];
    counters.densePairs += dense;
    counters.attendedKeys += counters.activeRows;
    counters.pairs += bound.listed ? listed[layer][phase.attention]
                                   : fixedPairs[phase.attention];
    std::vector<int64_t> refreshed;
    for (const Phase::Refresh &refresh : steps.due(phase, step)) {
      refreshed.push_back(refresh.selection);
      filled[layer][refresh.selection] = true;
      counters.scorePairs += scored[refresh.selection];
      counters.refreshes += static_cast<int64_t>(lengths.size());
    }
    if (!refreshed.empty())
      counters.scoredKeys += counters.activeRows;
    // Now, as the layer's own attention read the lists of before. Layers after
    // it read the new ones in this very step.
    auto reads = [&](int64_t reader, int64_t selection) {
      return steps.source(reader, selection) == layer;
    };
    for (int64_t reader = layer; reader < config.layers; ++reader) {
      if (std::none_of(refreshed.begin(), refreshed.end(),
                       [&](int64_t each) { return reads(reader, each); }))
        break;
      for (const Phase &each : steps.phasesOf(reader)) {
        const DeviceKernel &kernel = kernels[each.attention];
        // A stage to come may read lists that no step has filled yet.
        if (!kernel.listed ||
            !std::ranges::all_of(kernel.selections, [&](int64_t selection) {
              const int64_t from = steps.source(reader, selection);
              return from >= 0 && filled[from][selection];
            }))
          continue;
        if (Status s = listedPairsOf(stream, reader, each.attention)
                           .moveTo(listed[reader][each.attention]);
            !s)
          return s.takeError();
      }
    }
  }
  return counters;
}

} // namespace heddle::rt::cuda
