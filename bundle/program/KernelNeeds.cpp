//===- KernelNeeds.cpp - What a program needs of its kernels --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/KernelNeeds.h"

#include "bundle/program/Program.h"
#include "bundle/program/ProgramChecks.h"

#include <algorithm>

using namespace heddle::bundle;

using Attention = Reuse::Attention;

static bool needs(const Manifest &manifest, RowOp op) {
  auto keeps = [&](Attention attention) {
    return anyReuse(manifest, [&](const Reuse &reuse) {
      return reuse.attention == attention;
    });
  };
  switch (op) {
  case RowOp::Change:
    return keeps(Attention::Propagated);
  case RowOp::Compare:
    // What rows add to kept ones is a comparison, too.
    return keeps(Attention::Propagated) || !driftsOf(manifest).empty() ||
           anyReuse(manifest, &Reuse::refreshesByValues) ||
           std::ranges::any_of(manifest.passes, [](const Pass &pass) {
             return pass.comparesContexts() || pass.comparesValues();
           });
  case RowOp::Merge:
    return keeps(Attention::Outside);
  default:
    return true;
  }
}

std::vector<RowOp> heddle::bundle::rowOpsOf(const Manifest &manifest) {
  std::vector<RowOp> needed;
  std::ranges::copy_if(allRowOps, std::back_inserter(needed),
                       [&](RowOp op) { return needs(manifest, op); });
  return needed;
}

std::vector<Encoding>
heddle::bundle::encodingsOf(const Kernel &kernel,
                            const std::vector<Encoding> &ofKeys) {
  const bool writesKeys = kernel.kind == Kernel::Kind::Select && !kernel.blocks;
  const bool readsKeys =
      (kernel.withinGroup > 0 && !kernel.withinBlocks) ||
      std::ranges::any_of(kernel.terms, [](const Term &term) {
        return readsList(term) && term.kind != Term::Kind::Blocks;
      });
  if (writesKeys || readsKeys)
    return ofKeys;
  return {Encoding::Int32};
}

bool heddle::bundle::computesAllRowsOn(const Manifest &manifest,
                                       const Cadence &cadence) {
  for (const Pass &pass : manifest.passes) {
    if (!pass.computesAllRows())
      return false;
    if (pass.layers.empty() &&
        std::ranges::all_of(pass.when, [&](const When &when) {
          return when.kind == When::Kind::On &&
                 includesAll(when.cadence, cadence);
        }))
      return true;
  }
  return true;
}

bool heddle::bundle::computesSomeRows(const Manifest &manifest,
                                      int64_t kernel) {
  // What a refresh is scored by is of all rows, whatever the phase (S6).
  auto runsBySome = [&](const Phase &phase) {
    const bool runs =
        phase.attention == kernel ||
        std::ranges::count(phase.measures, kernel, &Phase::Measure::kernel) > 0;
    return runs && (phase.when.kind != When::Kind::On ||
                    !computesAllRowsOn(manifest, phase.when.cadence));
  };
  return !std::ranges::all_of(manifest.passes, &Pass::computesAllRows) &&
         std::ranges::any_of(manifest.rules, [&](const Rule &rule) {
           return std::ranges::any_of(rule.phases, runsBySome);
         });
}
