//===- KeyCounter.cpp - How many keys sets pair with a row ----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/KeyCounter.h"

#include <limits>

using namespace heddle;
using namespace heddle::bundle;

namespace {

// Up to which query the keys are those of `query`, by set.
int64_t sameUntil(WindowSet, const Term &, int64_t query) { return query + 1; }
int64_t sameUntil(SinksSet, const Term &, int64_t) {
  return std::numeric_limits<int64_t>::max();
}
int64_t sameUntil(RandomBlocksSet, const Term &term, int64_t query) {
  return (query / term.size + 1) * term.size;
}
int64_t sameUntil(OthersSet, const Term &, int64_t query) { return query + 1; }

int64_t sameUntil(const Term &term, int64_t query) {
  int64_t until = withSet(term, [&](auto set) {
    if constexpr (byEntries<decltype(set)>)
      return query + 1;
    else
      return sameUntil(set, term, query);
  });
  for (const Term &each : term.within)
    until = std::min(until, sameUntil(each, query));
  return until;
}

} // namespace

KeyCounter::KeyCounter(std::span<const Term> terms, int64_t sinks,
                       int64_t limit, std::span<const int32_t> visible)
    : sinks(sinks), limit(limit), visible(visible) {
  for (const Term &term : terms)
    if (!goesByPlaces(term))
      (sameUntil(term, 0) > 1 ? steady : moving).push_back(term);
}

int64_t KeyCounter::keysOf(int64_t query) {
  if (query < from || query >= until)
    share(query);
  int64_t keys = shared;
  forRuns(moving, query, sinks, limit, [&](int64_t begin, int64_t end) {
    begin = placesBelow(begin);
    end = placesBelow(end);
    keys += end - begin - (sharedBelow(end) - sharedBelow(begin));
  });
  return keys;
}

void KeyCounter::share(int64_t query) {
  from = query;
  until = std::numeric_limits<int64_t>::max();
  for (const Term &term : steady)
    until = std::min(until, sameUntil(term, query));
  runs.clear();
  before.clear();
  shared = 0;
  forRuns(steady, query, sinks, limit, [&](int64_t begin, int64_t end) {
    runs.push_back({placesBelow(begin), placesBelow(end)});
    before.push_back(shared);
    shared += runs.back().end - runs.back().begin;
  });
}

/// How many visible positions are below.
int64_t KeyCounter::placesBelow(int64_t position) const {
  if (visible.empty())
    return std::clamp<int64_t>(position, 0, limit);
  return std::lower_bound(visible.begin(), visible.end(), position) -
         visible.begin();
}

/// How many of the shared keys are at places below.
int64_t KeyCounter::sharedBelow(int64_t place) const {
  auto next = std::lower_bound(
      runs.begin(), runs.end(), place,
      [](const KeyRun &run, int64_t at) { return run.begin < at; });
  if (next == runs.begin())
    return 0;
  const KeyRun &run = *--next;
  return before[static_cast<size_t>(next - runs.begin())] +
         std::min(place, run.end) - run.begin;
}
