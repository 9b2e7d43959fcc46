//===- SequenceRows.h - What a step sees and computes -----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A *place* is the index of a position among the visible ones; kernels, lists
// and caches count places. Worked example: of a sequence of 8 {0,1,2,4,6} are
// visible and a pass computes {1,4,5,6}: 5 is not visible, so the active places
// are {1,3,4}, which stand at positions 1, 4 and 6. Computed though it is not
// visible (Pass::unseen), 5 has the first place behind the visible ones: they
// are {1,3,5,4}. No kernel reads what is kept at such a place.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SCHEDULE_SEQUENCEROWS_H
#define HEDDLE_RUNTIME_SCHEDULE_SEQUENCEROWS_H

#include "bundle/Result.h"
#include "bundle/program/Manifest.h"
#include "runtime/schedule/PositionSets.h"
#include "runtime/schedule/Sequence.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace heddle::rt {

/// Some of a sequence's active rows: indices into them, ascending.
struct Picked {
  bool all = true;
  std::vector<int32_t> rows; ///< empty if all

  int64_t count(int64_t active) const {
    return all ? active : static_cast<int64_t>(rows.size());
  }
};

/// Executes a manifest's passes for one sequence, and knows which visible rows
/// have been computed, so that nothing is read that no step has written.
class SequenceRows {
public:
  /// `shifted`: the model predicts position i in row i - 1. `manifest`, which
  /// fits a model of `layers`, must outlive this.
  SequenceRows(const bundle::Manifest &manifest, bool shifted, int64_t layers,
               const SequenceShape &shape);

  /// Decides the pass, the visible positions and the active rows of a step. An
  /// error when the step would use rows that no step has computed.
  Status beginStep(const SequenceState &state);

  /// The step's rows have gone through all layers.
  void finishStep();

  const SequenceShape &shape() const { return ofRun; }

  /// Where the row at a place stands in the sequence: a shadow's has the place
  /// of the position that it predicts.
  int32_t rowPosition(int32_t place) const {
    return positionOf(place) - (ofRun.isShadow() && shifted ? 1 : 0);
  }

  /// Whether the sequence takes part in this step.
  bool inStep() const { return stepping; }

  const bundle::StepPlace &place() const { return at; }

  /// What one pass of the step computes.
  struct Part {
    const bundle::Pass *pass = nullptr;
    Picked rows;
    /// Of these the rows in LeastSimilar's set, but for those that predict a
    /// position outside of it.
    std::vector<int32_t> among;
  };
  /// What a layer computes: which of partsOfStep().
  size_t partIndex(int64_t layer) const {
    return partOfLayer.empty() ? 0 : partOfLayer[static_cast<size_t>(layer)];
  }
  const Part &partOf(int64_t layer) const { return parts[partIndex(layer)]; }
  /// What some layer of the step does.
  const std::vector<Part> &partsOfStep() const { return parts; }

  /// Whether a position whose predicting row is not active is predicted by its
  /// own: so says the last layer's pass (Pass::alone).
  bool alone() const { return partOf(layers - 1).pass->alone; }

  /// The active rows that come out of the last layer, but for those that
  /// LeastSimilar lets end: those that predict.
  const Picked &last() const { return lastRows; }

  /// Whether rows go on through a layer that does not compute them.
  bool carriesOn(int64_t layer) const {
    return carries[static_cast<size_t>(layer)];
  }

  /// The visible positions, ascending: [n], of each place.
  const std::vector<int32_t> &positions() const { return visible; }
  int64_t n() const { return static_cast<int64_t>(visible.size()); }

  /// Whether the visible positions are others than at the step before; what was
  /// kept by place then stands at other places.
  bool visibleChanged() const { return changed; }

  /// What is kept and read at this step but has another place than before,
  /// ascending: row movedFrom()[i] of the step before is now row movedTo()[i].
  /// Empty if the step computes all rows anyway.
  const std::vector<int32_t> &movedFrom() const { return from; }
  const std::vector<int32_t> &movedTo() const { return to; }

  /// The places of the active rows, whose positions ascend.
  const std::vector<int32_t> &activePlaces() const { return activeRows; }
  int64_t rows() const { return static_cast<int64_t>(activeRows.size()); }

  /// Whether the row at a place is a key.
  bool isVisible(int32_t place) const { return place < n(); }
  int32_t positionOf(int32_t place) const {
    return isVisible(place) ? visible[place] : unseen[place - n()];
  }
  /// Active rows that are keys.
  int64_t visibleRows() const { return rows() - std::ssize(unseen); }

  /// Whether the step computes every visible row exactly.
  bool whole() const;

  /// Indices of the active rows that became tokens, or masks again, at the step
  /// before: where Salient begins.
  const std::vector<int32_t> &justCommitted() const { return committed; }

  /// How confident the last prediction was of what an active row predicts; 0
  /// where that is not masked, or none was made. Of a step with a pass that
  /// weighs it (bundle::Pass::confidence).
  double confidenceOf(int32_t row) const {
    return confidences[static_cast<size_t>(row)];
  }

  /// Reuse::Attention::Outside: the places [begin, end) of the keys inside, as
  /// of the latest step that keeps attention over the others.
  struct Inside {
    int64_t begin = 0, end = 0;
    bool fresh = false; ///< this is such a step
  };
  const Inside &inside() const { return keysInside; }

  /// Indices of the active rows in Reuse::refreshed, at a step that is none.
  const std::vector<int32_t> &refreshable() const { return refreshableRows; }
  /// The places [begin, end) that a selection's set has before this step; the
  /// same twice where none of them is visible.
  struct Range {
    int64_t begin = 0, end = 0;
  };
  Result<Range> rangeOf(int64_t set) const;

  /// Whether the step's commit rule admits a position (CommitRule::within).
  bool inCommitSet(int64_t position) const {
    return within < 0 || positionSets.holds(within, position);
  }

  /// The most places that a sequence can ever have.
  static int64_t mostPlaces(const bundle::Manifest &manifest,
                            const SequenceShape &shape);

  /// How many of the places are prompt.
  int64_t promptPlaces() const {
    return std::lower_bound(visible.begin(), visible.end(),
                            ofRun.promptLength) -
           visible.begin();
  }

private:
  void beginShadow(const SequenceState &state);
  Status see();
  void move();
  std::vector<int32_t> withUnseen(std::span<const int32_t> of);
  Status pickPlaces(const bundle::Pass &pass, std::vector<int32_t> &places);
  Status pickRows();
  Status leaveOutPredicting(const Part &part, std::span<const int32_t> set,
                            std::vector<int32_t> &among);
  Status followRows();
  std::vector<uint8_t> inAllLayers() const;
  Status findInside();
  void findConfidences(const SequenceState &state);
  Status checkWritten() const;
  std::vector<int32_t> activeRowsAt(std::span<const int32_t> of) const;

  const bundle::Manifest &manifest;
  const bool shifted;
  const int64_t layers;
  std::vector<bool> carries; ///< [layers]: Reuse::carries()
  PositionSets positionSets;

  const SequenceShape ofRun;
  bundle::StepPlace at;
  bool stepping = false;
  bool changed = false;
  std::vector<Part> parts;
  std::vector<size_t> partOfLayer; ///< [layers], empty: there is one part
  Picked lastRows;
  int64_t within = -1; ///< the step's commit rule's
  std::vector<int32_t> visible;
  std::vector<int32_t> unseen; ///< positions of the active rows that are not
                               ///< visible, ascending
  std::vector<int32_t> activeRows;
  std::vector<int32_t> committed;
  std::vector<double> confidences; ///< [rows], or empty
  Inside keysInside;
  bool keepsOutside = false; ///< attention of every visible row
  std::vector<int32_t> refreshableRows;
  std::vector<int32_t> before; ///< what was visible at the step before
  std::vector<int32_t> from, to;
  std::vector<uint8_t> written; ///< [n]: computed since it became visible, and
                                ///< kept
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SCHEDULE_SEQUENCEROWS_H
