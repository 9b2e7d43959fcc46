//===- Cadences.cpp - Refresh steps and kept counts, in integers ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/Cadences.h"

#include "bundle/program/Program.h"

#include <numeric>

using namespace heddle::bundle;
using namespace heddle::bundle::detail;

int64_t detail::floorOf(Ratio ratio, int64_t n, int64_t limit) {
  if (ratio.num <= 0 || ratio.den <= 0 || n <= 0)
    return 0;
  Wide value = Wide(ratio.num) * Wide(n) / Wide(ratio.den);
  return value < Wide(limit) ? static_cast<int64_t>(value) : limit;
}

namespace {

/// splitmix64 (Steele, Lea and Flood 2014). Fixed for ever: a seed in a
/// schedule names the same steps in every version.
class SplitMix64 {
public:
  explicit SplitMix64(uint64_t seed) : state(seed) {}

  uint64_t next() {
    uint64_t z = (state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  /// Uniform in [0, bound). Draws from the incomplete last interval of 2^64
  /// are thrown away, so that no value is more likely than another.
  uint64_t below(uint64_t bound) {
    uint64_t incomplete = (0 - bound) % bound; // 2^64 mod bound
    uint64_t draw;
    do {
      draw = next();
    } while (draw > ~incomplete);
    return draw % bound;
  }

private:
  uint64_t state;
};

} // namespace

/// The first `count` places of a Fisher-Yates shuffle of 1 .. window, sorted:
/// for i = 0, 1, ..., swap place i with place i + below(window - i).
std::vector<int64_t> RandomCadence::steps(const Cadence &x, int64_t total) {
  const int64_t window = windowOf(x, total);
  if (x.count < 1)
    return {};
  std::vector<int64_t> steps(static_cast<size_t>(window));
  std::iota(steps.begin(), steps.end(), int64_t{1});
  if (x.count >= window)
    return steps;
  SplitMix64 random(static_cast<uint64_t>(x.seed));
  for (int64_t i = 0; i < x.count; ++i) {
    auto j = i + static_cast<int64_t>(
                     random.below(static_cast<uint64_t>(window - i)));
    std::swap(steps[static_cast<size_t>(i)], steps[static_cast<size_t>(j)]);
  }
  steps.resize(static_cast<size_t>(x.count));
  std::sort(steps.begin(), steps.end());
  return steps;
}

int64_t RandomCadence::next(const Cadence &x, int64_t after, int64_t total) {
  if (after >= windowOf(x, total))
    return none;
  const std::vector<int64_t> drawn = steps(x, total);
  auto found = std::upper_bound(drawn.begin(), drawn.end(), after);
  return found == drawn.end() ? none : *found;
}

int64_t PowerCadence::next(const Cadence &x, int64_t after, int64_t total) {
  const int64_t window = windowOf(x, total), last = x.count - 1;
  if (after >= window || last < 0 || (last == 0 && after >= 1))
    return none;
  // Between i and i + 1 the exact position grows by less than
  // 2 (window - 1) / (count - 1); at most 1 means that no step is skipped.
  if (after < 1 || (last >= window - 1 && last - (window - 1) >= window - 1))
    return after + 1;
  auto stepOf = [&](int64_t i) {
    return 1 + static_cast<int64_t>(Wide(i) * Wide(i) * Wide(window - 1) /
                                    (Wide(last) * Wide(last)));
  };
  int64_t low = 0, high = last; // stepOf(high) = window > after
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (stepOf(middle) <= after)
      low = middle + 1;
    else
      high = middle;
  }
  return stepOf(low);
}

/// The first step after one; `none` if there is no more.
static int64_t nextOf(const Cadence &cadence, int64_t after, int64_t total) {
  return withForm(cadence.kind,
                  [&](auto form) { return form.next(cadence, after, total); });
}

std::vector<int64_t> heddle::bundle::refreshSteps(const Cadence &cadence,
                                                  int64_t totalSteps) {
  if (totalSteps < 1)
    return {};
  // Not one by one: each would draw the window again.
  if (cadence.kind == Cadence::Kind::Random)
    return RandomCadence::steps(cadence, totalSteps);
  std::vector<int64_t> steps;
  for (int64_t step = 0; step < totalSteps;) {
    step = nextOf(cadence, step, totalSteps);
    if (step == none || step > totalSteps)
      break;
    steps.push_back(step);
  }
  return steps;
}

static int64_t stepOf(const Cadence &cadence, const StepPlace &place) {
  return cadence.inBlock ? place.stepInBlock : place.step;
}

static int64_t totalOf(const Cadence &cadence, const StepPlace &place) {
  return cadence.inBlock ? place.blockSteps : place.totalSteps;
}

bool heddle::bundle::includes(const Cadence &cadence, const StepPlace &place) {
  if (cadence.afterEos && place.afterEos)
    return true;
  int64_t step = stepOf(cadence, place), total = totalOf(cadence, place);
  if (cadence.kind == Cadence::Kind::Drift && place.drifted)
    return std::find(place.drifted->begin(), place.drifted->end(),
                     cadence.layer) != place.drifted->end();
  return step >= 1 && total >= 1 && nextOf(cadence, step - 1, total) == step;
}

bool heddle::bundle::begun(const Cadence &cadence, const StepPlace &place) {
  if (cadence.afterEos && place.afterEos)
    return true;
  int64_t step = stepOf(cadence, place), total = totalOf(cadence, place);
  if (step < 1 || total < 1)
    return false;
  const int64_t first = nextOf(cadence, 0, total);
  return first != none && first <= step;
}

std::string heddle::bundle::toString(const Cadence &cadence) {
  Speller speller;
  fields(speller, cadence);
  speller.close();
  return speller.text;
}

std::string detail::spell(Ratio ratio) {
  if (ratio.den == 1)
    return std::to_string(ratio.num);
  // Decimals end iff the denominator divides a power of ten.
  int64_t power = 1;
  size_t digits = 0;
  while (digits < maxDecimals && power % ratio.den != 0) {
    power *= 10;
    ++digits;
  }
  if (power % ratio.den != 0)
    return std::to_string(ratio.num) + "/" + std::to_string(ratio.den);
  std::string decimals =
      std::to_string(ratio.num % ratio.den * (power / ratio.den));
  return std::to_string(ratio.num / ratio.den) + "." +
         std::string(digits - decimals.size(), '0') + decimals;
}

int64_t heddle::bundle::keepCount(Ratio ratio, KeepRule rule, int64_t n) {
  if (n < 1)
    return 0;
  if (ratio.num <= 0 || ratio.den <= 0)
    return 1;
  Wide product = Wide(ratio.num) * Wide(n); // below 2^126
  Wide den = Wide(ratio.den);
  Wide count = product / den;
  Wide rest = product % den;
  if (rule == KeepRule::Ceil)
    count += rest != 0;
  else if (rule == KeepRule::Round)
    count += rest >= den - rest; // halves go up
  else if (rule == KeepRule::FloorPlusOne)
    count += 1;
  if (count < 1)
    return 1;
  return count < Wide(n) ? static_cast<int64_t>(count) : n;
}
