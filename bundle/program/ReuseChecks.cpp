//===- ReuseChecks.cpp - What of rows may be kept -------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/ManifestNames.h"
#include "bundle/program/ProgramChecker.h"

#include <algorithm>

using namespace heddle::bundle;
using namespace heddle::bundle::detail;

void Checker::checkReuse() {
  const std::vector<LayeredReuse> &layered = manifest.layeredReuses;
  for (size_t i = 0; i <= layered.size(); ++i) {
    const Reuse &reuse = i < layered.size() ? layered[i].reuse : manifest.reuse;
    // U2: other values of a row are of no use without its keys and values.
    if (!reuse.kv && (reuse.ffn || reuse.attention != Reuse::Attention::None))
      fail(At::Reuse, i,
           "keeps parts of rows but not their keys and values, which other "
           "rows attend to; add kv");
    else if (reuse.kv != manifest.reuse.kv)
      fail(At::Reuse, i,
           "keeps no keys and values, as other layers do, or they as it does; "
           "let every reuse keep kv");
    if (i < layered.size() && layered[i].layers.empty())
      fail(At::Reuse, i,
           "names no layers, so that those after it never come; write it last");
  }
  // U9: what is kept of attention is of all layers.
  const bool outside = anyReuse(manifest, [](const Reuse &reuse) {
    return reuse.attention == Reuse::Attention::Outside;
  });
  const bool byLayer =
      !layered.empty() ||
      std::ranges::any_of(manifest.passes, [](const Pass &pass) {
        return !pass.layers.empty();
      });
  if (outside && byLayer)
    fail(At::Reuse, layered.size(),
         "keeps attention outside of a set, which is of all layers, while a "
         "recompute or reuse names some; let none name layers");
  if (!problem && outside)
    checkOutside();
}

/// Why kernels can't be told where a set begins and ends, from step 1 on; "" if
/// they can.
std::string Checker::notARange(int64_t set) const {
  if (facts[size_t(set)].ofRows || !isRange(set))
    return "a set that need not be a range of positions; name all, prompt, "
           "response, a block, hull or leading of a set, or a fix of one of "
           "these";
  if (facts[size_t(set)].late)
    return "a set that goes back to a cadence which begins at step 2, so that "
           "there is none at step 1";
  return "";
}

/// Whether a set's positions follow each other, without a gap.
bool Checker::isRange(int64_t set) const {
  using Kind = Positions::Kind;
  const Positions &positions = manifest.positions[size_t(set)];
  switch (positions.kind) {
  case Kind::All:
  case Kind::Prompt:
  case Kind::Response:
  case Kind::Block:
  case Kind::BeforeBlock:
  case Kind::FromBlock:
  case Kind::Hull:
  case Kind::Leading:
    return true;
  case Kind::Fixed:
    return isRange(positions.of.front());
  default:
    return false;
  }
}

/// What is kept of attention is that of keys that are not attended to besides,
/// and it is kept of every row.
void Checker::checkOutside() {
  const Cadence &cadence = manifest.reuse.cadence;
  const std::string on = toString(cadence);
  // C6: a row's weights are of all the keys that it attends to.
  for (const Cadence &drift : driftsOf(manifest))
    if (drift.attention)
      return fail(At::Reuse, 0,
                  "keeps attention outside of a set, so that no step has the "
                  "weights that " +
                      toString(drift) + " compares; leave `attention` out");
  // U5: there is something to merge with, of every row.
  if (!includesFirst(cadence))
    return fail(At::Reuse, 0,
                "keeps attention outside of a set on " + on +
                    ", which need not include step 1, so that there may be "
                    "none to merge with");
  if (!wholeOn(cadence))
    return fail(At::Reuse, 0,
                "keeps attention outside of a set on " + on +
                    ", at whose steps all visible rows must be computed; begin "
                    "with `recompute all` on the same cadence");
  if (std::ranges::all_of(manifest.passes, &Pass::computesAllRows))
    return fail(At::Reuse, 0,
                "keeps attention outside of a set for steps that compute some "
                "rows, and every step computes all; add `recompute %rows`");
  // U6: keys that come meanwhile would be in neither part.
  const SetFacts visible = factsOf(manifest.visible);
  if (visible.varies || manifest.showsAll())
    return fail(At::Reuse, 0,
                "keeps attention outside of a set on " + on +
                    ", and the visible positions may change at other steps; "
                    "fix them on the same cadence");
  for (const Cadence &change : visible.changes)
    if (!includesAll(cadence, change))
      return fail(At::Reuse, 0,
                  "keeps attention outside of a set on " + on +
                      ", and the visible positions change on " +
                      toString(change) +
                      "; keep it at these steps too, for instance on the same "
                      "cadence");
  // U7: the keys inside are one run of visible ones.
  if (std::string wrong = notARange(manifest.reuse.inside); !wrong.empty())
    fail(At::Reuse, 0, "keeps attention outside of " + wrong);
  // U10: it is rows that are refreshed, whatever they predict.
  if (manifest.reuse.refreshed >= 0 &&
      facts[size_t(manifest.reuse.refreshed)].ofRows)
    fail(At::Reuse, 0,
         "refreshes attention of rows by what they predict (predicting); name "
         "the "
         "positions");
  // U11: what noise attends to is not what other noise does.
  const Reuse &reuse = manifest.reuse;
  const bool refreshesAll = reuse.refreshed >= 0 && reuse.keep == Ratio{1, 1};
  if (renoises() && !(refreshesAll && factsOf(reuse.refreshed).revoked &&
                      factsOf(reuse.refreshed).recent))
    fail(At::Reuse, 0,
         "keeps attention of masked positions, in whose place `renoise` puts "
         "other noise at each step, and of what became a token at the step "
         "before; let `refresh` name both: a union of positions undecoded and "
         "committed(last = 1)");
}

std::optional<std::string> heddle::bundle::checkOutside(bool dense,
                                                        const Scores &scores) {
  // U8: what is kept is of all keys outside, and a part numbers its keys anew.
  if (!dense)
    return "must be dense where attention outside of a set is kept; write "
           "`attend dense`, or reuse context or output";
  if (scores.usesPositions())
    return "has scores that ask for positions, which attention outside of a "
           "set can't be kept by; reuse context or output";
  return std::nullopt;
}
