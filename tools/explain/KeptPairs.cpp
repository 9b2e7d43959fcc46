//===- KeptPairs.cpp - How many pairs attention will keep -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/explain/KeptPairs.h"

#include "bundle/program/KeyCounter.h"
#include "runtime/cache/IndexLists.h"

#include <algorithm>
#include <vector>

using namespace heddle;
using namespace heddle::bundle;
using namespace heddle::explain;

namespace {

/// The list of a selection that a kernel's terms read.
struct ListedKeys {
  int64_t selection;
  int64_t keys;             ///< of a row, at most
  bool whole = false;       ///< rows keep all of them
  std::vector<Term> bounds; ///< else those within one of these
};

void addListed(std::vector<ListedKeys> &lists, const Term &term, int64_t keys) {
  auto list = std::ranges::find(lists, term.selection, &ListedKeys::selection);
  if (list == lists.end())
    list = lists.insert(list, {term.selection, keys, false, {}});
  if (term.within.empty())
    list->whole = true;
  else
    list->bounds.push_back(boundOf(term));
}

/// Keys of one row's list, at most, of n visible ones. `always`: of each
/// selection the visible keys that it always lists; empty: none.
int64_t listedKeys(std::span<const Selection> all, size_t index, int64_t n,
                   int64_t prompt, std::span<const int64_t> always,
                   bool &exact) {
  const Selection &selection = all[index];
  auto alwaysIn = [&](int64_t selection) {
    return always.empty() || selection < 0
               ? 0
               : std::min(n, always[static_cast<size_t>(selection)]);
  };
  if (selection.kind == Selection::Kind::Columns)
    return selection.listed(
        rt::keysToChoose(all, selection, n, prompt, alwaysIn(selection.within)),
        alwaysIn(static_cast<int64_t>(index)));
  const rt::BlockSpans spans = rt::blockSpans(selection, n, prompt);
  // A span's last block may be shorter, and chosen or not.
  exact &= spans.split > 0 ? prompt % selection.group == 0 &&
                                 (n - prompt) % selection.group == 0
                           : n % selection.group == 0;
  exact &= selection.isolation != Selection::Isolation::Filtered;
  return std::min(n, spans.keep * selection.group);
}

} // namespace

Kept heddle::explain::keptPairs(const Kernel &kernel, const Manifest &manifest,
                                const StepPositions &step) {
  const int64_t n =
      step.visible.empty() ? step.length : std::ssize(step.visible);
  const int64_t rows = step.rows.empty() ? step.length : std::ssize(step.rows);
  if (kernel.terms.empty())
    return {rows * n};
  const int64_t prompt =
      step.visible.empty()
          ? step.prompt
          : std::ranges::lower_bound(step.visible, step.prompt) -
                step.visible.begin();
  Kept kept;
  std::vector<ListedKeys> lists;
  for (const Term &term : kernel.terms) {
    kept.even &= readsList(term) && term.within.empty();
    if (!readsList(term))
      continue;
    addListed(lists, term,
              listedKeys(manifest.selections,
                         static_cast<size_t>(term.selection), n, prompt,
                         step.always, kept.exact));
  }
  if (kept.even) {
    int64_t listed = 0;
    for (const ListedKeys &list : lists)
      listed += list.keys;
    kept.pairs = rows * std::min(n, listed);
    kept.exact &= lists.size() == 1;
    return kept;
  }
  // Windows and sinks go by the position; keys of lists may lie among them.
  kept.exact = lists.empty();
  const int64_t sinks = sinkBound(kernel.terms, step.length);
  auto counter = [&](std::span<const Term> terms) {
    return KeyCounter(terms, sinks, step.length,
                      n < step.length ? step.visible
                                      : std::span<const int32_t>());
  };
  KeyCounter own = counter(kernel.terms);
  std::vector<KeyCounter> bounds;
  for (const ListedKeys &list : lists)
    bounds.push_back(counter(list.bounds));
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t row =
        step.rows.empty() ? i : step.rows[static_cast<size_t>(i)];
    int64_t keys = own.keysOf(row);
    for (size_t list = 0; list < lists.size(); ++list)
      keys += lists[list].whole
                  ? lists[list].keys
                  : std::min(lists[list].keys, bounds[list].keysOf(row));
    kept.pairs += std::min(n, keys);
  }
  return kept;
}
