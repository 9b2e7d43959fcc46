//===- Crossovers.cpp - Above which share dense attention gains -----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/format/Crossovers.h"

#include "bundle/format/Tables.h"

#include <algorithm>
#include <cassert>
#include <numeric>

using namespace heddle;
using namespace heddle::bundle;
using namespace heddle::bundle::detail;

namespace heddle::bundle::detail {
template <typename V> void fields(V &v, Crossover &x) {
  v("target", x.target, symbolName);
  v("lists", x.lists);
  v("group", x.group, Group{});
  v("percent", x.percent, Range{1, 100});
}
} // namespace heddle::bundle::detail

std::string_view heddle::bundle::builtInCrossovers() {
  return
#include "BuiltInCrossovers.inc"
      ;
}

const std::vector<Crossover> &heddle::bundle::measuredCrossovers() {
  static const std::vector<Crossover> table = [] {
    auto read = crossoversFromJson(builtInCrossovers());
    assert(read && "the built-in table is one");
    return std::move(*read);
  }();
  return table;
}

Status heddle::bundle::checkCrossoversSize(uint64_t bytes) {
  constexpr uint64_t most = uint64_t(1) << 20;
  if (bytes > 0 && bytes <= most)
    return Status::success();
  return Error("a table of crossovers has " + std::to_string(bytes) +
               " bytes, expected 1 to " + std::to_string(most));
}

Result<std::vector<Crossover>>
heddle::bundle::crossoversFromJson(std::string_view text) {
  if (Status status = checkCrossoversSize(text.size()); !status)
    return status.takeError();
  constexpr const char *what = "a table of crossovers", *list = "dense_above";
  auto table = readTable<Crossover>(text, what, list);
  for (size_t i = 0; table && i < table->size(); ++i)
    if (const Crossover &own = (*table)[i];
        findCrossover(*table, own.target, own.lists, own.group) != &own)
      return entryError(what, list, i,
                        "an entry before is of the same target, lists and "
                        "group; leave one of them out");
  return table;
}

const Crossover *heddle::bundle::findCrossover(std::span<const Crossover> table,
                                               std::string_view target,
                                               Selection::Kind lists,
                                               int64_t group) {
  auto found = std::ranges::find_if(table, [&](const Crossover &each) {
    return each.target == target && each.lists == lists && each.group == group;
  });
  return found == table.end() ? nullptr : &*found;
}

Result<Ratio> heddle::bundle::fallsBackAbove(std::span<const Crossover> table,
                                             std::span<const Target> targets,
                                             const Selection &selection,
                                             const ListReads &reads) {
  if (!reads.read)
    return Error("is not attended to: another one chooses within it");
  if (selection.count > 0)
    return Error("keeps a number of keys, whose share is known in a run alone");
  if (selection.within >= 0)
    return Error("keeps a share of what another one lists");
  if (selection.isolation == Selection::Isolation::Filtered)
    return Error("keeps more or fewer of the prompt's blocks, which is known "
                 "in a run alone");
  if (reads.bounded)
    return Error("is attended to within other sets of pairs, which dense "
                 "attention would leave");
  // What lists cost here was not measured.
  if (selection.perKvHead || selection.perLayer)
    return Error("has lists that heads share, of which nothing is known");
  if (reads.scored)
    return Error("is attended to by a function of logits, of which nothing is "
                 "known");
  if (reads.staged)
    return Error("is attended to at once before or after others, of which "
                 "nothing is known");
  if (reads.someRows)
    return Error("is attended to in steps of some rows, of which nothing is "
                 "known");
  int64_t percent = 0;
  std::string where;
  for (const Target &target : targets) {
    const Crossover *entry =
        findCrossover(table, target.cpu, selection.kind, selection.group);
    if (!entry)
      return Error("has lists that were not measured on " + target.cpu);
    if (entry->percent <= percent)
      continue;
    percent = entry->percent;
    where = target.cpu;
  }
  if (targets.empty() || !isMore(selection.keep, {percent, 100}))
    return Error("keeps no more than the " + std::to_string(percent) +
                 "% above which dense attention takes less time on " + where);
  const int64_t common = std::gcd(percent, int64_t(100));
  return Ratio{percent / common, 100 / common};
}
