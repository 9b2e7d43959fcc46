//===- ReferenceExecutor.h - A step program without code --------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_REFERENCE_REFERENCEEXECUTOR_H
#define HEDDLE_RUNTIME_REFERENCE_REFERENCEEXECUTOR_H

#include "bundle/Result.h"
#include "bundle/program/Manifest.h"
#include "runtime/reference/ReferenceKernels.h"
#include "runtime/schedule/ProgramExecutor.h"

#include <cstdint>
#include <memory>
#include <span>

namespace heddle::rt {

/// Executes a manifest with ReferenceKernels. Needs no compiled kernels: a
/// bundle of any machine will do.
class ReferenceExecutor final : public ProgramExecutor {
public:
  /// An error when the rules do not fit the model's layers.
  static Result<std::unique_ptr<ReferenceExecutor>>
  create(const bundle::Manifest &manifest, const ModelConfig &config,
         DType dtype);

  /// Replaces a selection's lists by `indices` [lists x groups x keep]. Two
  /// implementations may rank almost equal scores differently; a test that
  /// follows another one through a run continues from the other's choice.
  Status adopt(int64_t layer, int64_t sequence, int64_t selection,
               std::span<const int32_t> indices);

  /// The scores behind a selection's lists, [lists x groups x keys or blocks];
  /// empty before the first refresh.
  std::span<const double> scores(int64_t layer, int64_t sequence,
                                 int64_t selection) const;

  /// (query, key) pairs looked at so far, one by one: those of attention, and
  /// of attention run to score a selection.
  int64_t visitedPairs() const { return kernels->visitedPairs(); }

private:
  using ProgramExecutor::ProgramExecutor;

  const ReferenceKernels *kernels = nullptr; ///< the executor's
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_REFERENCE_REFERENCEEXECUTOR_H
