//===- Attention.cpp - A schedule's attention for Python ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Attention.h"

#include "Runner.h"

#include <algorithm>

namespace heddle::python {

Result<std::unique_ptr<Attention>>
Attention::make(const bundle::Bundle &bundle, const AttentionShape &shape) {
  if (Status status = checkProcess(); !status)
    return status.takeError();
  if (!bundle.manifest().computesAll())
    return Error("the schedule '" + bundle.manifest().schedule +
                 "' says which rows are computed, visible or committed, which "
                 "needs a model (heddle.load); attention alone takes schedules "
                 "of heddle.attend");
  rt::ModelConfig config;
  config.layers = shape.layers;
  config.queryHeads = shape.queryHeads;
  config.kvHeads = shape.kvHeads;
  config.headDim = shape.headDim;
  config.hidden = shape.queryHeads * shape.headDim;
  config.mlpHidden = config.hidden;
  auto executor = rt::ScheduleExecutor::create(bundle, config, shape.dtype);
  if (!executor)
    return executor.takeError();
  std::unique_ptr<Attention> made(new Attention);
  made->size = shape;
  made->executor = std::move(*executor);
  made->masked.assign(shape.length, 1);
  std::fill_n(made->masked.begin(), shape.prompt, 0);
  made->committedAt.assign(shape.length, 0);
  if (Status status = made->restart(); !status)
    return status.takeError();
  return made;
}

Status Attention::restart() {
  std::lock_guard<std::mutex> lock(mutex);
  return begin();
}

Status Attention::begin() {
  std::vector<rt::SequenceShape> shapes(
      size.sequences, {.length = size.length, .promptLength = size.prompt});
  done = 0;
  nextLayer = 0;
  return executor->beginRun(std::move(shapes), size.steps, size.steps);
}

Status Attention::attend(int64_t layer, const rt::AttentionTensors &tensors,
                         bool once) {
  if (Status status = checkProcess(); !status)
    return status;
  std::lock_guard<std::mutex> lock(mutex);
  std::lock_guard<std::mutex> turn(hostSteps());
  if (once)
    if (Status status = begin(); !status)
      return status;
  if (layer != nextLayer)
    return Error("layer " + std::to_string(layer) + " was asked for; layer " +
                 std::to_string(nextLayer) + " of " +
                 std::to_string(size.layers) + " is next");
  if (layer == 0) {
    if (done == size.steps)
      return Error("all " + std::to_string(size.steps) +
                   " steps are done; restart() begins anew");
    ++done;
    rt::SequenceState state;
    state.place = {.step = done,
                   .totalSteps = size.steps,
                   .block = 0,
                   .stepInBlock = done,
                   .blockSteps = size.steps};
    state.blockBegin = size.prompt;
    state.blockEnd = size.length;
    state.masked = masked;
    state.committedAt = committedAt;
    std::vector<rt::SequenceState> states(size.sequences, state);
    auto live = executor->beginStep(states);
    if (!live)
      return live.takeError();
    batch = *live;
  }
  if (auto rows = executor->values(layer); !rows)
    return rows.takeError();
  if (auto rows = executor->queriesAndKeys(layer, *batch, tensors); !rows)
    return rows.takeError();
  if (Status status = executor->attend(layer, *batch, tensors); !status)
    return status;
  if (auto rows = executor->projected(layer); !rows)
    return rows.takeError();
  if (auto rows = executor->ffn(layer); !rows)
    return rows.takeError();
  nextLayer = (layer + 1) % size.layers;
  return Status::success();
}

} // namespace heddle::python
