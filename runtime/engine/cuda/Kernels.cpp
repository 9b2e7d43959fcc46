//===- Kernels.cpp - A schedule's kernels on a device ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/cuda/Kernels.h"

#include "bundle/abi/Abi.h"
#include "bundle/abi/IndexLayout.h"
#include "bundle/program/KernelNeeds.h"
#include "runtime/device/cuda/AttentionGrid.h"
#include "runtime/schedule/PairCount.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>

namespace heddle::rt::cuda {

Result<ScheduleKernels> ScheduleKernels::bind(const Context &context,
                                              const Module &module,
                                              const bundle::Manifest &manifest,
                                              const StepProgram &steps,
                                              const ModelConfig &config,
                                              DType dtype) {
  ScheduleKernels result;
  result.context = &context;
  result.module = &module;
  result.program = &manifest;
  result.steps = &steps;
  result.dtype = dtype;
  result.headDim = config.headDim;
  result.queryHeads = config.queryHeads;
  result.kvGroup = config.queryHeads / config.kvHeads;
  int64_t target = module.choice().target;
  for (size_t k = 0; k < manifest.kernels.size(); ++k) {
    DeviceKernel &bound = result.bound.emplace_back();
    bound.kernel = &manifest.kernels[k];
    if (!steps.uses(k))
      continue;
    bound.selections = bound.kernel->selections();
    bound.groups = manifest.groupsOf(*bound.kernel);
    bound.comparesPositions = bound.kernel->comparesPositions();
    bound.listed = pairsDependOnLists(bound.kernel->terms);
    bool found = false;
    std::set<std::string> forms;
    for (const bundle::KernelVariant &variant : bound.kernel->variants)
      if (variant.target == target) {
        found |=
            variant.dtype == name(dtype) && variant.headDim == config.headDim;
        forms.insert(variant.dtype + " with head dim " +
                     std::to_string(variant.headDim));
      }
    if (found)
      continue;
    std::string all;
    for (const std::string &form : forms)
      all += (all.empty() ? "" : ", ") + form;
    return Error("kernel " + bound.kernel->name + " has no form for " +
                 std::string(name(dtype)) + " and head dim " +
                 std::to_string(config.headDim) + " on " +
                 toString(manifest.targets[target]) + ", it has " + all +
                 "; run with a --dtype that it has, or compile the schedule "
                 "with --dtype=" +
                 std::string(name(dtype)) +
                 " --head-dim=" + std::to_string(config.headDim));
  }
  return result;
}

Status ScheduleKernels::fit(int64_t longestKeys) {
  longest = longestKeys;
  const bundle::Target &target = program->targets[module->choice().target];
  std::optional<bundle::Encoding> fits = encodingFor(target, longest);
  if (!fits)
    return Error("the bundle's index lists do not hold positions up to " +
                 std::to_string(longest) +
                 "; compile the schedule with --index-encoding=auto");
  form = *fits;
  for (size_t k = 0; k < bound.size(); ++k) {
    DeviceKernel &each = bound[k];
    each.forms = {};
    each.compiled = {};
    if (!steps->uses(k))
      continue;
    bundle::KernelVariant like;
    like.target = module->choice().target;
    like.dtype = name(dtype);
    like.headDim = headDim;
    like.encoding = bundle::encodingsOf(*each.kernel, {form}).front();
    each.forms = {*each.kernel, like,
                  [&](const bundle::KernelVariant &variant) {
                    return module->find(variant.symbol)->holdsCluster();
                  }};
    if (!each.forms[bundle::LaunchForm::Any])
      return Error("kernel " + each.kernel->name + " has no form for " +
                   std::string(nameOf(form)) + " index lists");
    for (bundle::LaunchForm which : bundle::launchForms) {
      const bundle::KernelVariant *variant = each.forms[which];
      if (!variant)
        continue;
      each.compiled[static_cast<size_t>(which)] = {
          variant, module->find(variant->symbol)};
      if (each.kernel->kind == bundle::Kernel::Kind::Attention &&
          variant->scratchBytes + variant->scratchBytesPerKey > 0)
        return Error("kernel " + variant->symbol +
                     " asks for scratch memory, which attention has none of; "
                     "compile the schedule with this version of heddlec");
    }
  }
  return Status::success();
}

/// Blocks of a launch for each sequence: as many as the device holds at once,
/// since each does its share of the tasks and has scratch memory of its own.
int64_t ScheduleKernels::selectBlocks(const DeviceKernel &select,
                                      int64_t sequences) const {
  int64_t resident = int64_t(context->device().multiprocessors) *
                     select.any().code->residentBlocks();
  return std::max<int64_t>(1, resident / sequences);
}

int64_t ScheduleKernels::scratchBytes(int64_t sequences) const {
  int64_t bytes = 0;
  for (const DeviceKernel &each : bound)
    if (each.any().variant && each.kernel->kind == bundle::Kernel::Kind::Select)
      bytes = std::max(bytes,
                       bundle::scratchRowBytes(*each.any().variant, longest) *
                           selectBlocks(each, sequences) * sequences);
  return bytes;
}

Status ScheduleKernels::attend(const Stream &stream, const DeviceKernel &kernel,
                               const KernelForm &form, DevicePtr arguments,
                               int64_t sequences, int64_t tiles) const {
  const Grid grid = gridOf(*kernel.kernel, *form.variant,
                           {tiles, queryHeads, kvGroup, sequences, longest},
                           context->device());
  return form.code->launch(stream, grid, arguments, DevicePtr(0), int64_t(0));
}

Status ScheduleKernels::select(const Stream &stream, size_t kernel,
                               DevicePtr arguments, int64_t sequences,
                               DevicePtr scratch) const {
  const DeviceKernel &select = bound[kernel];
  return select.any().code->launch(
      stream, Grid{.x = selectBlocks(select, sequences), .z = sequences},
      arguments, scratch,
      bundle::scratchRowBytes(*select.any().variant, longest));
}

} // namespace heddle::rt::cuda
