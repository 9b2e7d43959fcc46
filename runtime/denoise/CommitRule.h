//===- CommitRule.h - Which predictions become tokens -----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DENOISE_COMMITRULE_H
#define HEDDLE_RUNTIME_DENOISE_COMMITRULE_H

#include "bundle/program/Manifest.h"
#include "runtime/sample/Sampler.h"

#include <cstdint>
#include <span>
#include <vector>

namespace heddle::rt {

/// Whether blocks whose steps commit by the rule last until no position of
/// theirs is masked, rather than for their planned number of steps.
bool endsWhenFull(const bundle::CommitRule &rule);

/// Whether those of a run do, whose steps commit by these rules.
bool endsWhenFull(const bundle::CommitRule &rule,
                  std::span<const bundle::DatedCommit> dated);

/// Whether the run's confidences decide how many tokens a step takes.
bool countsByConfidence(const bundle::CommitRule &rule);

/// Steps in a row without a candidate after which a run of so many planned
/// steps will have none: a set of positions may stay as it is while what it
/// fixes is used up, and the next step of an `every` refreshes it, also after
/// the planned ones (docs/Spec/Plan.md, "Why a run ends").
int64_t longestIdle(const bundle::Manifest &manifest, int64_t steps);

/// Which candidates of one sequence become tokens at a step: indices into
/// `confidence` [candidates], ascending. Of equal confidences the lower index
/// is larger. `quota`, which only rules byQuota() ask for, is at most the
/// number of candidates; RandomOrder's candidates are as many. Other kinds
/// choose at least one, if there is one.
///
/// Sources: Fast-dLLM, algorithm 1 (threshold) and its factor rule; EB-Sampler
/// (Ben-Hamu et al. 2025): confidences are negative entropies.
std::vector<int64_t> chooseCommits(const bundle::CommitRule &rule,
                                   std::span<const double> confidence,
                                   int64_t quota);

/// Whether a rule that edits replaces a token by what its row draws.
///
/// Source: LLaDA2.1 (Bie et al. 2026); docs/Spec/Commit.md says where its
/// samplers differ.
bool isReplaced(const bundle::CommitRule &rule, int32_t token,
                const Draw &draw);

/// Which of one sequence's tokens become masks again at a step that commits
/// `commits` others, and the one before it in the block `before`: indices into
/// `probability` [tokens], ascending. Always fewer than one of both, so that a
/// block takes no more steps that commit than it has positions
/// (docs/Spec/Plan.md, "Why a run ends").
///
/// Source: WINO (Hong et al. 2025); docs/Spec/Commit.md says where it differs.
std::vector<int64_t> chooseRevoked(const bundle::CommitRule &rule,
                                   std::span<const double> probability,
                                   int64_t commits, int64_t before);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DENOISE_COMMITRULE_H
