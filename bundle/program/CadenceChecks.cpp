//===- CadenceChecks.cpp - When the steps of cadences begin ---------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/ManifestNames.h"
#include "bundle/program/ProgramChecker.h"

using namespace heddle::bundle;

/// Where the first step of a cadence may lie, whatever T.
static detail::Start startOf(const Cadence &cadence) {
  return detail::withForm(cadence.kind,
                          [&](auto form) { return form.start(cadence); });
}

bool heddle::bundle::includesFirst(const Cadence &cadence) {
  return startOf(cadence).latest == 1;
}

bool heddle::bundle::excludesFirst(const Cadence &cadence) {
  return startOf(cadence).earliest > 1;
}

bool heddle::bundle::startsNoLater(const Cadence &a, Cadence b) {
  using Kind = Cadence::Kind;
  if (includesFirst(a) || b.kind == Kind::Never)
    return true;
  if (b.afterEos && !a.afterEos)
    return false;
  b.afterEos = a.afterEos; // what only a has comes on top
  if (a == b)
    return true;
  if (a.inBlock != b.inBlock)
    return false;
  if (startOf(a).latest <= startOf(b).earliest)
    return true;
  // max(1, floor(r T)) grows with r. A random cadence starts within its window,
  // so no later than a step at the window's end.
  bool share = a.kind == Kind::Random ||
               (a.kind == Kind::At && a.step == 0 && a.from <= b.from);
  return share && b.kind == Kind::At && b.step == 0 &&
         static_cast<__int128>(a.fraction.num) * b.fraction.den <=
             static_cast<__int128>(b.fraction.num) * a.fraction.den;
}

bool heddle::bundle::includesAll(const Cadence &a, Cadence b) {
  using Kind = Cadence::Kind;
  if (b.kind == Kind::Never)
    return true;
  if (a.kind == Kind::Every && a.from == 1 && a.period == 1)
    return true;
  if (b.afterEos && !a.afterEos)
    return false;
  b.afterEos = a.afterEos; // what only a has comes on top
  if (a == b)
    return true;
  if (a.inBlock != b.inBlock)
    return false;
  if (a.kind == Kind::Drift && b.kind == Kind::Drift)
    return a.period == b.period && (a.layer < 0) == (b.layer < 0) &&
           a.layer > b.layer;
  if (a.kind == Kind::Every && b.kind == Kind::Every)
    return b.from >= a.from && (b.from - a.from) % a.period == 0 &&
           b.period % a.period == 0;
  int64_t last = b.kind == Kind::First ? b.count : b.step;
  return a.kind == Kind::First &&
         (b.kind == Kind::First || b.kind == Kind::At) && last >= 1 &&
         last <= a.count;
}

bool heddle::bundle::follows(const Cadence &a, const Cadence &b) {
  using Kind = Cadence::Kind;
  return a.kind == Kind::Every && b.kind == Kind::Every && !a.afterEos &&
         a.inBlock == b.inBlock && a.period == b.period && a.from == b.from + 1;
}

bool heddle::bundle::detail::beginsAtSecond(const Cadence &cadence) {
  const detail::Start start = startOf(cadence);
  return !cadence.inBlock && start.earliest == 2 && start.latest == 2;
}
