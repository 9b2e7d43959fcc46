//===- Sequence.h - A sequence as a schedule sees it ------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SCHEDULE_SEQUENCE_H
#define HEDDLE_RUNTIME_SCHEDULE_SEQUENCE_H

#include "bundle/program/Manifest.h"

#include <cstdint>
#include <span>

namespace heddle::rt {

/// What stays the same of a sequence during a run.
struct SequenceShape {
  int64_t length = 0;       ///< positions, prompt and response
  int64_t promptLength = 0; ///< in [0, length]
  /// A sequence before this one, by whose drift and attention this one goes:
  /// the other half of a guided one. Both then compute the same rows. -1: by
  /// its own.
  int64_t driftsAs = -1;
  /// A sequence before this one, whose lists this one reads and never
  /// refreshes: the one that it is a draft of. -1: it has its own.
  int64_t readsAs = -1;
  /// Rows of a shadow: a second view of the block of the sequence right before
  /// this one, each position of which has one, the row that predicts it. Its
  /// keys are those of that sequence, and behind them its own: `length` counts
  /// both. 0: it is none.
  int64_t shadowRows = 0;

  bool isShadow() const { return shadowRows > 0; }
  /// The most rows that a step computes.
  int64_t mostRows() const { return isShadow() ? shadowRows : length; }
};

/// What is known of a sequence before the forward pass of a step. The memory is
/// the caller's and need last only for the call that it is given to.
struct SequenceState {
  bundle::StepPlace place;
  int64_t blockBegin = 0;          ///< the block being decoded: positions
  int64_t blockEnd = 0;            ///< [blockBegin, blockEnd)
  std::span<const uint8_t> masked; ///< [length]: not 0 where there is no token
  /// [length]: the step at which a position became a token, or a mask again; 0
  /// for the prompt and what has always been masked.
  std::span<const int32_t> committedAt;
  /// Positions from here on are not of the text: neither decoded nor to be.
  int64_t textEnd = INT64_MAX;
  /// What the step commits if it computes it and nothing else is in the way
  /// (`within`), in the order that is drawn; if that is known.
  std::span<const int32_t> next;
  /// [length]: how confident the last prediction of a position was, -infinity
  /// where none has been made; empty: nowhere.
  std::span<const double> confidence;
  /// [length]: the attention that a position drew in the last step that
  /// computed rows; empty: there was none. Executors know it themselves.
  std::span<const double> attention;
  bool done = false; ///< no more steps for it; all else is then ignored
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SCHEDULE_SEQUENCE_H
