//===- Attention.cpp - A bundle's attention on tensors --------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Attention.h"

#include "bundle/program/Printable.h"
#include "bundle/program/Program.h"
#include "runtime/base/Parallel.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>

namespace heddle::embed {

using bundle::Phase;
using bundle::Selection;

/// Buffers in the workspace begin at multiples of it, whatever that begins at.
static constexpr int64_t alignment = 256;
/// Lists do not, as they may be copied: they have to begin at one of these.
static constexpr int64_t listAlignment = 64;

static int64_t padded(int64_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

static std::byte *aligned(void *memory) {
  auto address = reinterpret_cast<uintptr_t>(memory);
  return reinterpret_cast<std::byte *>((address + alignment - 1) / alignment *
                                       alignment);
}

Result<std::unique_ptr<Attention>> Attention::make(const bundle::Bundle &bundle,
                                                   int64_t layers, int device) {
  if (!bundle.manifest().computesAll())
    return Error(
        "the schedule '" + bundle.manifest().schedule +
        "' says which rows are computed, visible or committed, which "
        "needs a model; attention alone takes schedules of nothing but "
        "attend statements");
  if (const std::vector<bundle::Cadence> drifts =
          bundle::driftsOf(bundle.manifest());
      !drifts.empty())
    return Error(
        "the schedule '" + printable(bundle.manifest().schedule) +
        "' refreshes on " + bundle::toString(drifts.front()) +
        ", by what is measured in its runs, which needs a model; "
        "attention alone takes schedules whose steps are known before");
  for (const Selection &each : bundle.manifest().selections)
    if (each.rows >= 0 || each.always >= 0)
      return Error("the selection '" + printable(each.name) +
                   "' of the schedule '" +
                   printable(bundle.manifest().schedule) +
                   "' goes by a set of positions, which needs a model; "
                   "attention alone takes selections without `of` and "
                   "`always`");
  std::unique_ptr<Attention> made(new Attention(bundle));
  Result<rt::StepProgram> fitted =
      rt::StepProgram::create(made->manifest, layers);
  if (!fitted)
    return fitted.takeError();
  made->fitted = std::move(*fitted);
  if (Status status = made->findLists(); !status)
    return status.takeError();
  for (size_t k = 0; k < made->manifest.kernels.size(); ++k)
    made->needsLse |=
        made->fitted.uses(k) && made->manifest.kernels[k].writesLse;
  Result<std::unique_ptr<Machine>> machine =
      device < 0 ? makeHost(bundle, made->manifest, made->fitted)
                 : makeDevice(bundle, made->manifest, made->fitted, device);
  if (!machine)
    return machine.takeError();
  made->machine = std::move(*machine);
  return made;
}

/// Which layer's memory each layer takes.
Status Attention::findLists() {
  for (int64_t layer = 0; layer < fitted.layers(); ++layer) {
    int64_t &of = listLayers.emplace_back(-1);
    auto take = [&](int64_t selection) {
      const int64_t source = fitted.source(layer, selection);
      const bool one = of < 0 || of == source;
      of = source;
      return one;
    };
    for (const Phase &phase : fitted.phasesOf(layer)) {
      bool one = true;
      for (const Phase::Refresh &refresh : phase.refreshes)
        one &= take(refresh.selection);
      for (const bundle::Term &term : manifest.kernels[phase.attention].terms)
        one &= !bundle::readsList(term) || take(term.selection);
      if (!one)
        return Error("layer " + std::to_string(layer) + " of the schedule '" +
                     printable(manifest.schedule) +
                     "' takes selections of several layers, which needs a "
                     "model; in attention alone each layer takes those of one");
    }
  }
  return Status::success();
}

Result<const rt::StepProgram *> Attention::program(int64_t steps,
                                                   int64_t blockSteps) {
  std::lock_guard<std::mutex> lock(mutex);
  auto known = programs.find({steps, blockSteps});
  if (known != programs.end())
    return &known->second;
  rt::StepProgram program = fitted;
  if (Status status = program.beginRun(steps, blockSteps); !status)
    return status.takeError();
  return &programs.emplace(std::pair(steps, blockSteps), std::move(program))
              .first->second;
}

Result<std::unique_ptr<Call>> Attention::prepare(const CallShape &shape) {
  Result<std::shared_ptr<Launcher>> launcher = machine->fit(shape);
  if (!launcher)
    return launcher.takeError();
  std::unique_ptr<Call> call(new Call(*this, shape));
  call->launcher = std::move(*launcher);

  rt::IndexListShape lists{
      manifest.selections,
      {std::vector<int64_t>(manifest.selections.size(), 0)}, // one layer
      std::vector<int64_t>(shape.sequences, shape.length),
      shape.queryHeads,
      call->launcher->encoding(),
      shape.kvHeads};
  call->listTotal = rt::IndexLists::bytesFor(lists);
  call->lists = rt::IndexLists::at(lists, reinterpret_cast<void *>(alignment));
  for (int64_t s = 0; s < shape.sequences; ++s)
    call->lists.see(s, shape.length, shape.prompt);

  const int64_t rows = shape.sequences * shape.length;
  const int64_t lse = padded(rows * shape.queryHeads * int64_t(sizeof(float)));
  call->lseAt = padded(call->launcher->workspaceBytes());
  call->outputAt = call->lseAt + (needsLse ? lse : 0);
  const bool selects = !manifest.selections.empty();
  call->scoringLseAt =
      call->outputAt + (selects
                            ? padded(rows * shape.queryHeads * shape.headDim *
                                     rt::byteSize(shape.dtype))
                            : 0);
  const int64_t end = call->scoringLseAt + (fitted.scores() ? 2 * lse : 0);
  call->bytes = end ? end + alignment : 0;
  return call;
}

int64_t Call::listLayer(int64_t layer) const {
  return attention.listLayers[layer];
}

int64_t Call::listBytes(int64_t layer) const {
  return listLayer(layer) < 0 ? 0 : listTotal;
}

/// One call: its memory and the blocks of all sequences.
struct Call::Run {
  const Call &call;
  const Place &place;
  const rt::StepProgram &program;
  Part part;
  CallMemory memory;
  std::byte *lists, *workspace;
  std::vector<abi::AttentionArgs> blocks;

  const bundle::Manifest &manifest() const { return call.attention.manifest; }
  Launcher &launcher() const { return *call.launcher; }

  abi::IndexList listOf(int64_t s, int64_t selection) const {
    abi::IndexList list = call.lists.list(0, s, selection);
    list.indices =
        lists + (reinterpret_cast<uintptr_t>(list.indices) - alignment);
    return list;
  }

  void fillBlocks() {
    const CallShape &shape = call.shape;
    const int64_t size = rt::byteSize(shape.dtype);
    auto in = [&](const void *base, const CallShape::Strides &strides,
                  int64_t s) {
      return static_cast<const std::byte *>(base) + s * strides.sequence * size;
    };
    auto *lse =
        workspace ? reinterpret_cast<float *>(workspace + call.lseAt) : nullptr;
    blocks.reserve(static_cast<size_t>(shape.sequences));
    for (int64_t s = 0; s < shape.sequences; ++s) {
      abi::AttentionArgs &args = blocks.emplace_back(abi::AttentionArgs{});
      args.query = in(memory.query, shape.query, s);
      args.key = in(memory.key, shape.key, s);
      args.value = in(memory.value, shape.value, s);
      args.output = const_cast<std::byte *>(in(memory.output, shape.output, s));
      args.lse = lse ? lse + s * shape.length * shape.queryHeads : nullptr;
      args.n = args.rows = shape.length;
      args.queryStride = shape.query.row;
      args.keyStride = shape.key.row;
      args.valueStride = shape.value.row;
      args.outputStride = shape.output.row;
      args.kvGroup = shape.queryHeads / shape.kvHeads;
      args.scale = scaleOf(Selection::Scale::HeadDim);
      args.heads = static_cast<uint32_t>(shape.queryHeads);
    }
  }

  /// The output of attention that runs for its log-sum-exps alone.
  void discardOutput() {
    const CallShape &shape = call.shape;
    const int64_t row = shape.queryHeads * shape.headDim;
    for (size_t s = 0; s < blocks.size(); ++s) {
      blocks[s].output = workspace + call.outputAt +
                         static_cast<int64_t>(s) * shape.length * row *
                             rt::byteSize(shape.dtype);
      blocks[s].outputStride = row;
    }
  }

  /// Refuses entries of lists, written as Int32, that are none of a selection.
  Status checkLists(int64_t selection) const {
    const Selection &what = manifest().selections[selection];
    const bool ofBlocks = what.kind == Selection::Kind::Blocks;
    const int64_t n = call.shape.length;
    const int64_t end =
        ofBlocks ? rt::blockSpans(what, n, call.shape.prompt).blocks : n;
    const abi::IndexList first = listOf(0, selection);
    const int64_t rows =
        call.shape.queryHeads / first.headsPerList * first.groups;
    const int64_t tasks = call.shape.sequences * first.groups;
    std::atomic<bool> wrong = false;
    // A task has all heads' lists of a group, or as many.
    const int64_t share = rows / first.groups;
    rt::parallelFor(tasks, [&](int64_t task, int) {
      const abi::IndexList list = listOf(task / first.groups, selection);
      for (int64_t i = 0; i < share; ++i) {
        const auto *keys = reinterpret_cast<const int32_t *>(
            static_cast<const std::byte *>(list.indices) +
            (task % first.groups * share + i) * list.rowBytes);
        int64_t count = list.keep;
        while (ofBlocks && count > 0 && keys[count - 1] == -1)
          --count;
        // A selection keeps one block at least.
        bool fits =
            count > 0 ? keys[0] >= 0 && keys[count - 1] < end : list.keep == 0;
        for (int64_t k = 1; k < count; ++k)
          fits &= keys[k - 1] < keys[k];
        if (!fits)
          wrong = true;
      }
    });
    if (!wrong)
      return Status::success();
    return Error("the memory of a selection holds other numbers than a "
                 "selection of such tensors: expected lists of " +
                 std::to_string(first.keep) + " of " + std::to_string(end) +
                 (ofBlocks ? " blocks" : " keys") +
                 ", ascending; pass what a call that selects has written");
  }

  /// Whether this call writes the selection's lists itself.
  bool makes(int64_t selection) const {
    const Phase &phase = program.phase(place.layer, place.step);
    return part != Part::Attend && program.refreshes(selection, place.step) &&
           std::any_of(phase.refreshes.begin(), phase.refreshes.end(),
                       [&](const Phase::Refresh &each) {
                         return each.selection == selection;
                       });
  }

  Status attend(size_t kernel) {
    const bundle::Kernel &what = manifest().kernels[kernel];
    if (launcher().isHost())
      for (const bundle::Term &term : what.terms)
        if (bundle::readsList(term) && !makes(term.selection))
          if (Status status = checkLists(term.selection); !status)
            return status;
    for (size_t s = 0; s < blocks.size(); ++s) {
      size_t at = 0;
      for (const bundle::Term &term : what.terms)
        if (bundle::readsList(term))
          blocks[s].lists[at++] =
              listOf(static_cast<int64_t>(s), term.selection);
      blocks[s].sinks = bundle::sinkBound(what.terms, call.shape.length);
    }
    return launcher().attend(kernel, blocks);
  }

  /// What logits are multiplied by.
  float scaleOf(Selection::Scale scale) const {
    const int64_t of = scale == Selection::Scale::Heads ? call.shape.queryHeads
                                                        : call.shape.headDim;
    return static_cast<float>(1 / std::sqrt(static_cast<double>(of)));
  }

  /// Runs the attention that a refresh is scored by besides that of its phase.
  Status score(const Phase::Scoring &scoring, int64_t group, size_t s,
               abi::SelectArgs &select) {
    const CallShape &shape = call.shape;
    const int64_t start = static_cast<int64_t>(s) * shape.length;
    const int64_t row = shape.queryHeads * shape.headDim;
    const int64_t size = rt::byteSize(shape.dtype);
    abi::AttentionArgs args = blocks[s];
    args.output = workspace + call.outputAt + start * row * size;
    args.outputStride = row;
    args.scale = scaleOf(scoring.scale);
    args.lse = reinterpret_cast<float *>(workspace + call.scoringLseAt) +
               2 * start * shape.queryHeads;
    if (scoring.ofResponse) {
      if (select.boundary == 0)
        return Status::success();
      const int64_t firstKey = select.boundary * group;
      auto from = [&](const void *base, int64_t stride) {
        return static_cast<const std::byte *>(base) + firstKey * stride * size;
      };
      args.key = from(args.key, args.keyStride);
      args.value = from(args.value, args.valueStride);
      args.n -= firstKey;
      args.lse += args.rows * shape.queryHeads;
    }
    (scoring.ofResponse ? select.spanLse : select.lse) = args.lse;
    return launcher().attend(static_cast<size_t>(scoring.kernel),
                             std::span(&args, 1));
  }

  /// Refreshes the selections of a phase that are due.
  Status refresh(const Phase &phase) {
    for (const Phase::Refresh &due : phase.refreshes) {
      if (!program.refreshes(due.selection, place.step))
        continue;
      const Selection &what = manifest().selections[due.selection];
      if (what.within >= 0 && launcher().isHost() && !makes(what.within))
        if (Status status = checkLists(what.within); !status)
          return status;
      std::vector<abi::SelectArgs> selects;
      for (size_t s = 0; s < blocks.size(); ++s) {
        abi::SelectArgs &args =
            selects.emplace_back(abi::selectArgsOf(blocks[s]));
        args.scale = scaleOf(what.scale);
        args.list = listOf(static_cast<int64_t>(s), due.selection);
        if (what.within >= 0)
          args.within = listOf(static_cast<int64_t>(s), what.within);
        if (what.kind == Selection::Kind::Blocks) {
          rt::BlockSpans spans =
              rt::blockSpans(what, args.n, call.shape.prompt);
          args.boundary = spans.boundary;
          args.spanKeep = spans.spanKeep;
        }
        for (const Phase::Scoring &scoring : due.scorings)
          if (Status status = score(scoring, what.group, s, args); !status)
            return status;
      }
      if (Status status =
              launcher().select(static_cast<size_t>(due.kernel), selects);
          !status)
        return status;
    }
    return Status::success();
  }

  Status run() {
    const Phase &phase = program.phase(place.layer, place.step);
    const bool due = call.selects(program, place, part);
    const auto attention = static_cast<size_t>(phase.attention);
    const bool first = phase.refreshesFirst;
    const bool scored = due && program.readsLse(phase, place.step);
    fillBlocks();
    if (part == Part::Select)
      discardOutput();
    if (due && first) {
      Status status = scored ? attend(static_cast<size_t>(phase.scoring))
                             : Status::success();
      if (status)
        status = refresh(phase);
      if (!status)
        return status;
    }
    if (part != Part::Select || (scored && !first))
      if (Status status = attend(attention); !status)
        return status;
    return due && !first ? refresh(phase) : Status::success();
  }
};

/// Whether selections of the layer are due at the step.
bool Call::selects(const rt::StepProgram &program, const Place &place,
                   Part part) const {
  const Phase &phase = program.phase(place.layer, place.step);
  return part != Part::Attend &&
         std::any_of(phase.refreshes.begin(), phase.refreshes.end(),
                     [&](const Phase::Refresh &each) {
                       return program.refreshes(each.selection, place.step);
                     });
}

/// Whether kernels write into the workspace.
bool Call::writesWorkspace(const rt::StepProgram &program, const Place &place,
                           Part part) const {
  const Phase &phase = program.phase(place.layer, place.step);
  return part == Part::Select || selects(program, place, part) ||
         attention.manifest.kernels[static_cast<size_t>(phase.attention)]
             .writesLse;
}

Status Call::run(const Place &place, Part part, const CallMemory &memory,
                 const Interrupted &interrupted) {
  Result<bool> done = tryRun(place, part, memory, interrupted);
  if (!done)
    return done.takeError();
  return *done ? Status::success() : Error("this call takes a workspace");
}

Result<bool> Call::tryRun(const Place &place, Part part,
                          const CallMemory &memory,
                          const Interrupted &interrupted) {
  Result<const rt::StepProgram *> program =
      attention.program(place.steps, place.blockSteps);
  if (!program)
    return program.takeError();
  if (reinterpret_cast<uintptr_t>(memory.lists) % listAlignment)
    return Error("the memory of a selection begins at no multiple of " +
                 std::to_string(listAlignment) + " bytes: clone() it");
  if (!memory.workspace && bytes > 0 && writesWorkspace(**program, place, part))
    return false;
  std::unique_lock lock(mutex, std::defer_lock);
  if (Status status = take(lock, interrupted); !status)
    return status.takeError();
  Run now{*this,
          place,
          **program,
          part,
          memory,
          static_cast<std::byte *>(memory.lists),
          aligned(memory.workspace),
          {}};
  Result<bool> begun =
      launcher->begin(now.workspace, memory.stream, interrupted);
  if (!begun || !*begun)
    return begun;
  if (Status status = launcher->end(now.run()); !status)
    return status.takeError();
  return true;
}

} // namespace heddle::embed
