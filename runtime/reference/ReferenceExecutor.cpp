//===- ReferenceExecutor.cpp - A step program without code ----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/reference/ReferenceExecutor.h"

#include <algorithm>

using namespace heddle;
using namespace heddle::rt;

Result<std::unique_ptr<ReferenceExecutor>>
ReferenceExecutor::create(const bundle::Manifest &manifest,
                          const ModelConfig &config, DType dtype) {
  std::unique_ptr<ReferenceExecutor> executor(
      new ReferenceExecutor(manifest, config, dtype));
  if (Status status = executor->fit(); !status)
    return status.takeError();
  auto kernels = std::make_unique<ReferenceKernels>(executor->manifest(),
                                                    config.headDim, dtype);
  executor->kernels = kernels.get();
  executor->setRunner(std::move(kernels));
  return executor;
}

Status ReferenceExecutor::adopt(int64_t layer, int64_t sequence,
                                int64_t selection,
                                std::span<const int32_t> indices) {
  Result<std::vector<SelectionView>> views = selections(layer, sequence);
  if (!views)
    return views.takeError();
  for (const SelectionView &view : *views) {
    if (view.selection != selection || !view.indices ||
        static_cast<size_t>(view.lists * view.groups * view.keep) !=
            indices.size())
      continue;
    std::copy(indices.begin(), indices.end(),
              static_cast<int32_t *>(
                  indexLists().list(layer, sequence, selection).indices));
    return Status::success();
  }
  return Error("no selection of that shape is in force there");
}

std::span<const double> ReferenceExecutor::scores(int64_t layer,
                                                  int64_t sequence,
                                                  int64_t selection) const {
  Result<std::vector<SelectionView>> views = selections(layer, sequence);
  if (!views)
    return {};
  for (const SelectionView &view : *views)
    if (view.selection == selection && view.indices)
      return kernels->scores(view.indices);
  return {};
}
