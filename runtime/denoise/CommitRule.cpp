//===- CommitRule.cpp - Which predictions become tokens -------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/denoise/CommitRule.h"

#include <algorithm>
#include <functional>

namespace heddle::rt {

using Kind = bundle::CommitRule::Kind;

bool endsWhenFull(const bundle::CommitRule &rule) {
  return !rule.byQuota() || rule.within >= 0 || rule.revokes();
}

bool endsWhenFull(const bundle::CommitRule &rule,
                  std::span<const bundle::DatedCommit> dated) {
  return endsWhenFull(rule) || std::any_of(dated.begin(), dated.end(),
                                           [](const bundle::DatedCommit &each) {
                                             return endsWhenFull(each.rule);
                                           });
}

bool countsByConfidence(const bundle::CommitRule &rule) {
  return !rule.byQuota() || rule.kind == Kind::EvenAbove;
}

/// Nobody waits for more than a few thousand, of which each computes its rows
/// again.
int64_t longestIdle(const bundle::Manifest &manifest, int64_t steps) {
  constexpr int64_t most = 4096;
  int64_t wait = 0; // what is fixed may be fixed again
  for (const bundle::Positions &set : manifest.positions)
    if (set.cadence.kind == bundle::Cadence::Kind::Every)
      wait =
          std::min(most, wait + std::max(set.cadence.period, set.cadence.from));
  return steps + wait;
}

std::vector<int64_t> chooseCommits(const bundle::CommitRule &rule,
                                   std::span<const double> confidence,
                                   int64_t quota) {
  if (confidence.empty())
    return {};
  int64_t count = rule.kind == Kind::Best
                      ? std::min<int64_t>(rule.count, confidence.size())
                      : quota;
  const double bound =
      static_cast<double>(rule.ratio.num) / static_cast<double>(rule.ratio.den);
  if (rule.isAbove()) {
    const int64_t sure = std::max<int64_t>(
        1, std::count_if(confidence.begin(), confidence.end(), [&](double c) {
          return rule.strictly ? c > bound : c >= bound;
        }));
    count = rule.kind == Kind::Above ? sure : std::min(sure, quota);
  } else if (rule.kind == Kind::Factor) {
    std::vector<double> sorted(confidence.begin(), confidence.end());
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    // (m + 1)(1 - c_m) grows with m: the first that fails ends it.
    count = 1;
    for (size_t m = 2; m <= sorted.size(); ++m) {
      if (static_cast<double>(m + 1) * (1 - sorted[m - 1]) >= bound &&
          !(rule.lastAlone && m == sorted.size()))
        break;
      count = static_cast<int64_t>(m);
    }
  } else if (rule.kind == Kind::Entropy) {
    std::vector<double> sorted(confidence.begin(), confidence.end());
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    double before = 0;
    for (count = 1; count < std::ssize(sorted); ++count)
      if ((before -= sorted[static_cast<size_t>(count) - 1]) > bound)
        break;
  }
  if (rule.isLimited())
    count = std::min(count, rule.limitOf(std::ssize(confidence)));
  return largestConfidence(confidence, count);
}

bool isReplaced(const bundle::CommitRule &rule, int32_t token,
                const Draw &draw) {
  const double bound = static_cast<double>(rule.editAbove.num) /
                       static_cast<double>(rule.editAbove.den);
  return rule.edits() && draw.token != token && draw.confidence >= bound;
}

std::vector<int64_t> chooseRevoked(const bundle::CommitRule &rule,
                                   std::span<const double> probability,
                                   int64_t commits, int64_t before) {
  using FewerThan = bundle::CommitRule::RevokeFewerThan;
  if (rule.revokeFewerThan == FewerThan::StepBefore)
    commits = commits > 1 ? before : 0;
  const double bound = static_cast<double>(rule.revokeBelow.num) /
                       static_cast<double>(rule.revokeBelow.den);
  const int64_t below = std::count_if(probability.begin(), probability.end(),
                                      [&](double p) { return p < bound; });
  std::vector<double> doubt(probability.begin(), probability.end());
  for (double &each : doubt)
    each = -each;
  return largestConfidence(doubt, std::clamp<int64_t>(commits - 1, 0, below));
}

} // namespace heddle::rt
