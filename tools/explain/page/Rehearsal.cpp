//===- Rehearsal.cpp - A run without a model ------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/explain/page/Rehearsal.h"

#include "runtime/denoise/CommitRule.h"
#include "runtime/denoise/SequenceRun.h"
#include "runtime/schedule/SequenceRows.h"

#include <algorithm>
#include <string>
#include <vector>

using namespace heddle;
using bundle::CommitRule;
using bundle::Pass;

namespace {

/// A number in [0, 1) for a position at a step: splitmix64's finaliser (Steele,
/// Lea and Flood 2014) over the three.
double confidenceAt(uint64_t seed, int64_t step, int64_t position) {
  uint64_t z = seed * 0x9E3779B97F4A7C15u +
               static_cast<uint64_t>(step) * 0xD1B54A32D192ED03u +
               static_cast<uint64_t>(position) * 0x8CB92BA72F3D8DD7u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/// The masked positions that the step may commit, ascending; `isLive`: whether
/// the row of a position is.
void findCandidates(const rt::SequenceRun &run, const rt::SequenceRows &rows,
                    std::span<const uint8_t> isLive,
                    std::vector<int32_t> &out) {
  out.clear();
  if (run.stepRule().byQuota() && run.quota() == 0)
    return;
  const bool ordered = run.stepRule().kind == CommitRule::Kind::RandomOrder;
  const auto most = ordered ? static_cast<size_t>(run.quota()) : SIZE_MAX;
  for (int32_t position : run.order()) {
    if (out.size() == most)
      break;
    if (isLive[static_cast<size_t>(position)] && run.isCandidate(position) &&
        rows.inCommitSet(position))
      out.push_back(position);
  }
  if (ordered)
    std::sort(out.begin(), out.end());
}

} // namespace

Status
explain::rehearse(const bundle::Manifest &manifest,
                  const RehearsalRequest &request,
                  const std::function<void(const RehearsedStep &)> &observer) {
  if (request.length > maxRehearsed / std::max<int64_t>(1, request.steps))
    return Error("a rehearsal of " + std::to_string(request.steps) +
                 " steps over " + std::to_string(request.length) +
                 " tokens takes too long, expected at most " +
                 std::to_string(maxRehearsed) + " steps times tokens");
  rt::GenerateOptions options;
  options.genLength = request.length - request.prompt;
  options.steps = request.steps;
  options.blockLength = request.blockLength > 0
                            ? std::min(request.blockLength, options.genLength)
                            : options.genLength;
  options.sampling.seed = request.seed;
  // Token 0 stands for every token: neither mask nor EOS.
  const rt::ModelConfig config;
  const std::vector<int32_t> prompt(static_cast<size_t>(request.prompt), 0);
  rt::SequenceRun run(prompt, options, config, manifest.commit,
                      manifest.datedCommits);
  rt::SequenceRows rows(manifest, /*shifted=*/false);
  rows.beginRun({request.length, request.prompt});

  std::vector<int32_t> live, among, candidates, commits;
  std::vector<uint8_t> isLive;
  std::vector<double> confidence;
  while (!run.done() && run.place().step <= 2 * request.steps) {
    if (Status status = rows.beginStep({.place = run.place(),
                                        .blockBegin = run.blockBegin(),
                                        .blockEnd = run.blockEnd(),
                                        .masked = run.masked(),
                                        .committedAt = run.committedAt(),
                                        .textEnd = run.textEnd(),
                                        .next = run.next()});
        !status)
      return status.takeError().withContext("step " +
                                            std::to_string(run.place().step));
    live.clear();
    isLive.assign(static_cast<size_t>(request.length), 0);
    among.clear();
    for (int32_t place : rows.livePlaces()) {
      live.push_back(rows.positions()[static_cast<size_t>(place)]);
      isLive[static_cast<size_t>(live.back())] = 1;
    }
    if (rows.pass().exact == Pass::Exact::LeastSimilar)
      for (int32_t row : rows.amongRows())
        among.push_back(live[static_cast<size_t>(row)]);
    findCandidates(run, rows, isLive, candidates);
    confidence.clear();
    for (int32_t position : candidates)
      confidence.push_back(
          confidenceAt(request.seed, run.place().step, position));
    int64_t quota =
        std::min(run.quota(), static_cast<int64_t>(candidates.size()));
    commits.clear();
    for (int64_t chosen : rt::chooseCommits(run.stepRule(), confidence, quota))
      commits.push_back(candidates[static_cast<size_t>(chosen)]);
    observer({.place = run.place(),
              .visible = rows.positions(),
              .live = live,
              .among = rows.pass().comparesContexts() ? live : among,
              .masked = run.masked(),
              .logitRows = static_cast<int64_t>(candidates.size()),
              .commits = commits});
    for (int32_t position : commits)
      run.commit(position, /*token=*/0);
    rows.finishStep();
    run.advance();
  }
  return Status::success();
}
