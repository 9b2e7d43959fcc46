//===- ReferenceExecutor.h - A step program without code --------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_REFERENCE_REFERENCEEXECUTOR_H
#define HEDDLE_RUNTIME_REFERENCE_REFERENCEEXECUTOR_H

#include "bundle/Manifest.h"
#include "bundle/Result.h"
#include "runtime/schedule/Executor.h"

#include <cstdint>
#include <memory>
#include <span>

namespace heddle::rt {

/// Plays a manifest with the float64 definitions of Reference.h, outputs
/// rounded to the tensors' element type. Needs no compiled kernels: a bundle of
/// any machine will do. Takes minutes where kernels take seconds.
class ReferenceExecutor : public ScheduleExecutor {
public:
  /// An error when the rules do not fit the model's layers.
  static Result<std::unique_ptr<ReferenceExecutor>>
  create(const bundle::Manifest &manifest, const ModelConfig &config,
         DType dtype);

  /// Replaces a selection's lists by `indices` [queryHeads x groups x keep].
  /// Two implementations may rank almost equal scores differently; a test that
  /// follows another one through a run continues from the other's choice.
  virtual Status adopt(int64_t layer, int64_t sequence, int64_t selection,
                       std::span<const int32_t> indices) = 0;

  /// The scores behind a selection's lists, [queryHeads x groups x n]; empty
  /// before the first refresh.
  virtual std::span<const double> scores(int64_t layer, int64_t sequence,
                                         int64_t selection) const = 0;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_REFERENCE_REFERENCEEXECUTOR_H
