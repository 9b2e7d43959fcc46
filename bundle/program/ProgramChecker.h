//===- ProgramChecker.h - Checks a program part by part ---------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_PROGRAM_PROGRAMCHECKER_H
#define HEDDLE_BUNDLE_PROGRAM_PROGRAMCHECKER_H

#include "bundle/program/KernelNeeds.h"
#include "bundle/program/LayerChecks.h"
#include "bundle/program/Program.h"
#include "bundle/program/ProgramChecks.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace heddle::bundle::detail {

/// True if step 2 of a run is the cadence's first one, whatever T.
bool beginsAtSecond(const Cadence &cadence);

/// checkProgram(). What it asks of reuse is in ReuseChecks.cpp, of commit
/// rules in CommitChecks.cpp, of layers, forms of selections and cadences in
/// files of their own, of all else in ProgramChecks.cpp.
class Checker {
  using At = ProgramProblem::At;

public:
  explicit Checker(const Manifest &manifest)
      : manifest(manifest), layers(manifest) {}

  /// Of a manifest that was checked.
  SetFacts visible() {
    for (size_t i = 0; i < manifest.positions.size(); ++i)
      checkPositions(i);
    return factsOf(manifest.visible);
  }

  std::optional<ProgramProblem> check() {
    for (size_t i = 0; i < manifest.positions.size() && !problem; ++i)
      checkPositions(i);
    if (!problem)
      checkReuse();
    if (!problem)
      problem = layers.checkRanges();
    if (!problem)
      checkPasses();
    if (!problem)
      checkVisible();
    for (size_t i = 0; i < manifest.selections.size() && !problem; ++i)
      checkSelection(i);
    if (!problem)
      checkCommit();
    if (!problem)
      checkDrift();
    return problem;
  }

  bool wholeOn(const Cadence &cadence) const {
    return computesAllRowsOn(manifest, cadence);
  }

  /// Whether some step may make masks of tokens again.
  bool revokes() const { return anyCommit(manifest, &CommitRule::revokes); }
  /// Whether some step may give tokens' positions other ones.
  bool edits() const { return anyCommit(manifest, &CommitRule::edits); }
  /// Whether masked positions of the block hold other tokens at each step.
  bool renoises() const { return manifest.commit.renoises; }

private:
  void fail(At at, size_t index, std::string what) {
    if (!problem)
      problem = ProgramProblem{at, index, std::move(what)};
  }

  bool inOrder() const {
    return manifest.commit.kind == CommitRule::Kind::RandomOrder;
  }

  /// What is known of a set; of all positions if it is none.
  SetFacts factsOf(int64_t set) const {
    return set < 0 ? SetFacts::all() : facts[size_t(set)];
  }

  /// Whether it holds a position that a step could commit.
  bool canCommit(const SetFacts &set) const {
    return set.first.run != Holding::No ||
           (inOrder() && set.next.run != Holding::No);
  }

  /// The facts of the positions that a pass's rows predict, whatever it lets
  /// end.
  SetFacts predictedBy(const Pass &pass) const {
    bool rows = pass.rows >= 0 && facts[size_t(pass.rows)].ofRows;
    SetFacts all = factsOf(
        rows ? manifest.positions[size_t(pass.rows)].of.front() : pass.rows);
    if (!layers.endsByChoice(size_t(&pass - manifest.passes.data())))
      return all;
    // What it does not choose from, as far as it can be shown, is left.
    const Positions &among = manifest.positions[size_t(pass.among)];
    SetFacts left;
    if (among.kind == Positions::Kind::Except) {
      const SetFacts &without = facts[size_t(among.of.back())];
      left.first = all.first & without.first;
      left.next = all.next & without.next;
    }
    return left;
  }

  void addParts(const Positions &set, SetFacts &own) const;
  void checkPositions(size_t index);
  void checkAttended(size_t index);
  void checkReuse();
  bool isRange(int64_t set) const;
  std::string notARange(int64_t set) const;
  void checkOutside();
  void checkPasses();
  void checkFirstStep();
  std::set<int64_t> partsOf(int64_t set) const;
  bool isComputed(int64_t set) const;
  void checkVisible();
  void checkVisibleChange(const Cadence &cadence);
  void checkSelection(size_t index);
  void checkCommit();
  void checkDrift();
  void checkRule(size_t index, const CommitRule &rule);

  const Manifest &manifest;
  std::vector<SetFacts> facts; ///< of manifest.positions
  LayerChecker layers;
  std::optional<ProgramProblem> problem;
};

} // namespace heddle::bundle::detail

#endif // HEDDLE_BUNDLE_PROGRAM_PROGRAMCHECKER_H
