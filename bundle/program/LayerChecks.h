//===- LayerChecks.h - What layers compute comes from those before --------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Passes and reuses of some layers, as checkProgram() and checkLayers() look at
// them (ProgramChecks.h).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_PROGRAM_LAYERCHECKS_H
#define HEDDLE_BUNDLE_PROGRAM_LAYERCHECKS_H

#include "bundle/program/Program.h"
#include "bundle/program/ProgramChecks.h"

namespace heddle::bundle {

class LayerChecker {
public:
  explicit LayerChecker(const Manifest &manifest)
      : manifest(manifest), letsEnd(manifest.passes.size()) {}

  /// L1, L2, S9: ranges are in order, and clauses that are all there is for
  /// their layers share none. To be called before the others.
  std::optional<ProgramProblem> checkRanges();

  /// R3, R4, R5: what rows that a pass does not compute contribute is kept in
  /// its layers. R23: and there are confidences to weigh.
  std::optional<ProgramProblem> checkKept(size_t pass);

  /// R19: of rows that are not visible there is nothing but what the step
  /// computes.
  std::optional<ProgramProblem> checkUnseen(size_t pass);

  /// Whether some layer of a pass of LeastSimilar rows may let the others end.
  bool endsByChoice(size_t pass) const { return letsEnd[pass]; }

  /// R16, R17: what a layer computes comes from the layers before.
  std::optional<ProgramProblem> checkPlaces();

  /// All of these in a model, of a manifest for which they hold in deep ones.
  std::optional<ProgramProblem> checkIn(int64_t layers);

private:
  void fail(ProgramProblem::At at, size_t index, std::string what,
            std::optional<size_t> other = std::nullopt) {
    if (!problem)
      problem = ProgramProblem{at, index, std::move(what), other};
  }
  void findPlaces();
  void findPasses();
  bool hasPlace(const std::vector<LayerRange> &ranges, int64_t place) const {
    return hasLayer(ranges, place, modelLayers);
  }
  const Reuse &reuseAt(int64_t place) const {
    return reuseOf(manifest, place, modelLayers);
  }
  bool mayMeet(size_t pass, int64_t place, size_t other,
               int64_t otherPlace) const;
  bool holdsAll(int64_t set, int64_t other);
  bool holdsRows(const Pass &pass, const Pass &other);

  const Manifest &manifest;
  /// A layer of each run of layers that the same passes and reuses name, in
  /// their order, in any model that is deep enough to have them all; or each of
  /// `modelLayers`, if that is not 0.
  std::vector<int64_t> places;
  int64_t modelLayers = 0;
  std::vector<std::vector<size_t>> passesOf; ///< [places]: that may run there
  std::vector<bool> letsEnd;                 ///< [passes]: endsByChoice()
  std::vector<signed char> heldBy; ///< [sets x sets]: holdsAll(); -1: not known
  std::optional<ProgramProblem> problem;
};

} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_PROGRAM_LAYERCHECKS_H
