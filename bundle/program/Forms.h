//===- Forms.h - Which form of a kernel computes a sequence -----*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Forms of a kernel give a row other bits: they add up in other orders. So what
// decides is a sequence's own and nothing of those beside it, and its rows have
// the same bits alone and in every batch.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_PROGRAM_FORMS_H
#define HEDDLE_BUNDLE_PROGRAM_FORMS_H

#include "bundle/program/Manifest.h"

#include <functional>

namespace heddle::bundle {

/// What of a sequence decides which form computes its attention.
struct LaunchShape {
  int64_t rows = 0;    ///< of which attention is computed
  int64_t keys = 0;    ///< as many as rows: all of them are computed
  int64_t kvGroup = 1; ///< query heads that share a key head
};
/// All rows, of however many.
inline constexpr LaunchShape allRows = {1, 1, 1};

/// Tiles of `rows` rows of a sequence, for each head that has tiles of its own:
/// each query head, or each key head where rows are packed.
int64_t tilesOf(const KernelVariant &form, int64_t rows, int64_t kvGroup);

/// The forms that a kernel has for a target, element type, head dim and
/// encoding of lists.
class LaunchForms {
public:
  LaunchForms() = default;

  /// Those for what `like` is for that the device `runs`.
  LaunchForms(const Kernel &kernel, const KernelVariant &like,
              const std::function<bool(const KernelVariant &)> &runs);

  /// Null where there is none.
  const KernelVariant *operator[](LaunchForm form) const {
    return variants[static_cast<size_t>(form)];
  }

  /// The form that computes a sequence. Packed rows are taken where they leave
  /// at most 9 of 10 tiles, of sequences with `leastKeys` keys times the square
  /// of the share of tiles that is left: tiles fewer by half pay from a quarter
  /// of the keys on.
  LaunchForm of(const LaunchShape &shape) const;

private:
  std::array<const KernelVariant *, launchForms.size()> variants = {};
};

} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_PROGRAM_FORMS_H
