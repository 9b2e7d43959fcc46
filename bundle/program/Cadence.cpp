//===- Cadence.cpp - Refresh steps and kept counts, in integers -----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiler and runtime both call these, so that --explain and a run can never
// disagree. Every product is taken in 128 bits: no input overflows.
//
//===----------------------------------------------------------------------===//

#include "bundle/program/Manifest.h"
#include "bundle/program/Program.h"

#include <algorithm>
#include <numeric>

using namespace heddle::bundle;

namespace {

__extension__ using Wide = unsigned __int128;

/// floor(ratio * n) for n >= 0, at most `limit`.
int64_t floorOf(Ratio ratio, int64_t n, int64_t limit) {
  if (ratio.num <= 0 || ratio.den <= 0 || n <= 0)
    return 0;
  Wide value = Wide(ratio.num) * Wide(n) / Wide(ratio.den);
  return value < Wide(limit) ? static_cast<int64_t>(value) : limit;
}

/// The window of Uniform, Random and Power: the first max(1, floor(f * T))
/// steps. The clamp to one step answers what the paper leaves open for short
/// runs (floor(f * T) = 0).
int64_t windowOf(const Cadence &cadence, int64_t totalSteps) {
  return std::max<int64_t>(1,
                           floorOf(cadence.fraction, totalSteps, totalSteps));
}

/// The step of At.
int64_t singleStep(const Cadence &cadence, int64_t totalSteps) {
  if (cadence.step > 0)
    return cadence.step;
  int64_t share = floorOf(cadence.fraction, totalSteps, INT64_MAX);
  int64_t plus = std::clamp<int64_t>(cadence.from - 1, 0, maxCount);
  return std::max<int64_t>(1, std::min(share, INT64_MAX - plus) + plus);
}

std::vector<int64_t> firstSteps(int64_t count) {
  std::vector<int64_t> steps(static_cast<size_t>(count));
  std::iota(steps.begin(), steps.end(), int64_t{1});
  return steps;
}

/// Source: PulseCol, equation 8. Steps that fall together are one step.
std::vector<int64_t> uniformSteps(int64_t window, int64_t count) {
  // Neighbours are at most one step apart then, so none is skipped.
  if (count >= window)
    return firstSteps(window);
  if (count == 1)
    return {1};
  std::vector<int64_t> steps;
  steps.reserve(static_cast<size_t>(count));
  for (int64_t r = 0; r < count; ++r)
    steps.push_back(
        1 + static_cast<int64_t>(Wide(r) * Wide(window - 1) / Wide(count - 1)));
  return steps;
}

/// Source: PulseCol, the "power" ablation: steps crowd at the beginning.
std::vector<int64_t> powerSteps(int64_t window, int64_t count) {
  if (count == 1)
    return {1};
  // Between i and i + 1 the exact position grows by less than
  // 2 (window - 1) / (count - 1); at most 1 means that no step is skipped.
  // This also bounds i by 2 * window below.
  if (count - 1 >= window - 1 && count - 1 - (window - 1) >= window - 1)
    return firstSteps(window);
  Wide scale = Wide(count - 1) * Wide(count - 1);
  std::vector<int64_t> steps;
  for (int64_t i = 0; i < count; ++i) {
    int64_t step =
        1 + static_cast<int64_t>(Wide(i) * Wide(i) * Wide(window - 1) / scale);
    if (steps.empty() || steps.back() != step)
      steps.push_back(step);
  }
  return steps;
}

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

/// The first `count` places of a Fisher-Yates shuffle of 1 .. window, sorted:
/// for i = 0, 1, ..., swap place i with place i + below(window - i).
std::vector<int64_t> randomSteps(int64_t window, int64_t count, int64_t seed) {
  std::vector<int64_t> steps = firstSteps(window);
  if (count >= window)
    return steps;
  SplitMix64 random(static_cast<uint64_t>(seed));
  for (int64_t i = 0; i < count; ++i) {
    auto j = i + static_cast<int64_t>(
                     random.below(static_cast<uint64_t>(window - i)));
    std::swap(steps[static_cast<size_t>(i)], steps[static_cast<size_t>(j)]);
  }
  steps.resize(static_cast<size_t>(count));
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string text(Ratio ratio) {
  return std::to_string(ratio.num) + "/" + std::to_string(ratio.den);
}

} // namespace

std::vector<int64_t> heddle::bundle::refreshSteps(const Cadence &cadence,
                                                  int64_t totalSteps) {
  if (totalSteps < 1)
    return {};
  switch (cadence.kind) {
  case Cadence::Kind::Never:
    return {};
  case Cadence::Kind::Every: {
    std::vector<int64_t> steps;
    if (cadence.period < 1 || cadence.from < 1)
      return steps;
    for (int64_t step = cadence.from; step <= totalSteps;
         step += cadence.period) {
      steps.push_back(step);
      if (step > totalSteps - cadence.period)
        break;
    }
    return steps;
  }
  case Cadence::Kind::First:
    return firstSteps(
        std::clamp<int64_t>(cadence.count, int64_t{0}, totalSteps));
  case Cadence::Kind::At: {
    int64_t step = singleStep(cadence, totalSteps);
    if (step > totalSteps)
      return {};
    return {step};
  }
  case Cadence::Kind::Uniform:
  case Cadence::Kind::Random:
  case Cadence::Kind::Power:
    break;
  }
  if (cadence.count < 1)
    return {};
  int64_t window = windowOf(cadence, totalSteps);
  if (cadence.kind == Cadence::Kind::Uniform)
    return uniformSteps(window, cadence.count);
  if (cadence.kind == Cadence::Kind::Power)
    return powerSteps(window, cadence.count);
  return randomSteps(window, cadence.count, cadence.seed);
}

namespace {

/// Whether 1 + floor(i (window - 1) / (count - 1)) is `step` for some i.
bool isUniformStep(int64_t window, int64_t count, int64_t step) {
  if (count >= window)
    return true;
  if (count == 1)
    return step == 1;
  // The least i that reaches the step, 0 <= i <= count - 1, says.
  Wide i =
      (Wide(step - 1) * Wide(count - 1) + Wide(window - 2)) / Wide(window - 1);
  return Wide(step - 1) == i * Wide(window - 1) / Wide(count - 1);
}

/// Whether 1 + floor((i / (count - 1))^2 (window - 1)) is `step` for some i.
bool isPowerStep(int64_t window, int64_t count, int64_t step) {
  if (count == 1)
    return step == 1;
  if (count - 1 >= window - 1 && count - 1 - (window - 1) >= window - 1)
    return true;
  Wide scale = Wide(count - 1) * Wide(count - 1);
  auto stepOf = [&](int64_t i) {
    return 1 +
           static_cast<int64_t>(Wide(i) * Wide(i) * Wide(window - 1) / scale);
  };
  int64_t low = 0, high = count - 1; // stepOf(high) = window >= step
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (stepOf(middle) < step)
      low = middle + 1;
    else
      high = middle;
  }
  return stepOf(low) == step;
}

int64_t stepOf(const Cadence &cadence, const StepPlace &place) {
  return cadence.inBlock ? place.stepInBlock : place.step;
}

int64_t totalOf(const Cadence &cadence, const StepPlace &place) {
  return cadence.inBlock ? place.blockSteps : place.totalSteps;
}

} // namespace

bool heddle::bundle::includes(const Cadence &cadence, const StepPlace &place) {
  if (cadence.afterEos && place.afterEos)
    return true;
  int64_t step = stepOf(cadence, place), total = totalOf(cadence, place);
  if (step < 1 || total < 1)
    return false;
  switch (cadence.kind) {
  case Cadence::Kind::Never:
    return false;
  case Cadence::Kind::Every:
    return cadence.period >= 1 && cadence.from >= 1 && step >= cadence.from &&
           (step - cadence.from) % cadence.period == 0;
  case Cadence::Kind::First:
    return step <= cadence.count;
  case Cadence::Kind::At:
    return step == singleStep(cadence, total);
  case Cadence::Kind::Uniform:
  case Cadence::Kind::Random:
  case Cadence::Kind::Power:
    break;
  }
  int64_t window = windowOf(cadence, total);
  if (cadence.count < 1 || step > window)
    return false;
  if (cadence.kind == Cadence::Kind::Uniform)
    return isUniformStep(window, cadence.count, step);
  if (cadence.kind == Cadence::Kind::Power)
    return isPowerStep(window, cadence.count, step);
  std::vector<int64_t> steps = randomSteps(window, cadence.count, cadence.seed);
  return std::binary_search(steps.begin(), steps.end(), step);
}

bool heddle::bundle::begun(const Cadence &cadence, const StepPlace &place) {
  if (cadence.afterEos && place.afterEos)
    return true;
  int64_t step = stepOf(cadence, place), total = totalOf(cadence, place);
  if (step < 1 || total < 1)
    return false;
  switch (cadence.kind) {
  case Cadence::Kind::Never:
    return false;
  case Cadence::Kind::Every:
    return cadence.period >= 1 && cadence.from >= 1 && step >= cadence.from;
  case Cadence::Kind::At:
    return step >= singleStep(cadence, total);
  case Cadence::Kind::First:
  case Cadence::Kind::Uniform:
  case Cadence::Kind::Power: // step 1 is theirs
    return cadence.count >= 1;
  case Cadence::Kind::Random:
    break;
  }
  if (cadence.count < 1)
    return false;
  return step >=
         randomSteps(windowOf(cadence, total), cadence.count, cadence.seed)
             .front();
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

static std::string textOf(const Cadence &cadence) {
  std::string count = std::to_string(cadence.count);
  switch (cadence.kind) {
  case Cadence::Kind::Never:
    return "never";
  case Cadence::Kind::Every:
    return "every(" + std::to_string(cadence.period) +
           (cadence.from > 1 ? ", from = " + std::to_string(cadence.from)
                             : "") +
           ")";
  case Cadence::Kind::First:
    return "first(" + count + ")";
  case Cadence::Kind::At:
    return cadence.step > 0
               ? "at(step = " + std::to_string(cadence.step) + ")"
               : "at(" + text(cadence.fraction) +
                     (cadence.from > 1
                          ? ", plus = " + std::to_string(cadence.from - 1)
                          : "") +
                     ")";
  case Cadence::Kind::Uniform:
    return "uniform(" + text(cadence.fraction) + ", " + count + ")";
  case Cadence::Kind::Random:
    return "random(" + text(cadence.fraction) + ", " + count +
           ", seed = " + std::to_string(cadence.seed) + ")";
  case Cadence::Kind::Power:
    return "power(" + text(cadence.fraction) + ", " + count + ")";
  }
  return "never";
}

std::string heddle::bundle::toString(const Cadence &cadence) {
  return textOf(cadence) + (cadence.inBlock ? " in block" : "") +
         (cadence.afterEos ? " or after eos" : "");
}
