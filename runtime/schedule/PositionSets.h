//===- PositionSets.h - A manifest's position sets at a step ----*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Worked example: a sequence of 8, prompt 3, one block; positions 4 and 6
// became tokens at steps 1 and 2; the place is step 3.
//
//   prompt {0,1,2}   undecoded {3,5,7}   undecoded(first = 2) {3,5}
//   decoded {0,1,2,4,6}   committed(last = 1) {6}
//   decoded fixed on every(2): as before step 3, {0,1,2,4,6}; the same at step
//   4, whatever step 3 commits
//   neighbors(2) of prompt in undecoded: of 0, 1 and 2 they are 3 and 5
//   nearest(1) of {3,5} in undecoded: 7, which is 5's
//   except of undecoded and undecoded(first = 2): {7}
//   last(2) of {3,5,7}: {5,7}
//   confident(2) of response, of confidences 0.4 at 5 and 0.9 at 7: {5,7}; 3
//   has no prediction yet
//   confident(2, near = 1) of response, of 0.39 at 3, 0.4 at 5 and 0.6 at 7:
//   {3,5}, since more of what is near them is decoded
//   attended(share = 1/2) of {3,4,5}, which drew 1, 3 and 3: {4}, since two of
//   them have more than the half
//   hull of {3,5}: {3,4,5}   leading of {3,5,7}: {0,1,2}
//   predicting of {3,5}: {3,5}, or {2,4} in a model that predicts in the row
//   before
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SCHEDULE_POSITIONSETS_H
#define HEDDLE_RUNTIME_SCHEDULE_POSITIONSETS_H

#include "bundle/Result.h"
#include "bundle/program/Manifest.h"
#include "runtime/schedule/NearDecoded.h"
#include "runtime/schedule/Sequence.h"

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace heddle::rt {

/// The sets of Manifest::positions for one sequence, with what Fixed and
/// Committed remember of earlier steps.
class PositionSets {
public:
  /// `manifest` must outlive this; its sets refer to earlier ones only.
  /// `shifted`: the model predicts position i in row i - 1.
  explicit PositionSets(const bundle::Manifest &manifest, bool shifted = false);

  /// Forgets what earlier steps left.
  void beginRun(const SequenceShape &shape);

  /// Evaluates all sets before a step. Called for every step of the sequence,
  /// in order: a cadence is looked at step by step. An error when the state's
  /// arrays or block do not fit the sequence.
  Status beginStep(const SequenceState &state);

  /// A set's positions at this step, ascending. An error when it is, or is made
  /// of, a set that is fixed on a cadence of which no step has come yet.
  Result<std::span<const int32_t>> at(int64_t set) const;

  /// Whether a set, known at this step, holds a position.
  bool holds(int64_t set, int64_t position) const;

  /// The most positions that a set of a sequence of this shape can ever hold.
  int64_t bound(int64_t set, const SequenceShape &shape) const;

private:
  struct Value {
    std::vector<int32_t> positions;
    bool known = false;
    int64_t latest = 0; ///< Committed: the latest step of the cadence, 0: none
  };
  void evaluate(size_t set, const SequenceState &state);

  const bundle::Manifest &manifest;
  const bool shifted;
  SequenceShape shape;
  std::vector<Value> values;
  std::map<int64_t, NearDecoded> lifts; ///< by Positions::near
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SCHEDULE_POSITIONSETS_H
