//===- Cadences.h - What each set of steps means ----------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The steps at which something is refreshed. Each form says once
//
//   name    how schedules and manifests spell it
//   fields  the fields that it has (Fields.h)
//   next    the definition: the first step after `after`, `none` if there is no
//           more, in a run of `total` steps, at least 1. Runs may go on longer:
//           forms with a window have no step then, others what they say.
//   start   where its first step may lie, whatever `total`
//
// The last two are pure functions in integers: every product is taken in 128
// bits. Compiler and runtime both call them, so that --explain and a run can
// never disagree.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_PROGRAM_CADENCES_H
#define HEDDLE_BUNDLE_PROGRAM_CADENCES_H

#include "bundle/program/Fields.h"

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <vector>

namespace heddle::bundle {

/// The steps at which something is refreshed, as a function of T: the steps of
/// the run, or of each block of semi-autoregressive decoding by itself.
struct Cadence {
  enum class Kind {
    Never,
    Every,
    First,
    At,
    Uniform,
    Random,
    Power,
    Geometric,
    Drift
  };
  Kind kind = Kind::Never;
  Ratio fraction = {}; ///< Uniform, Random, Power: window; At: where; Drift:
                       ///< the similarity below which it has a step
  int64_t count = 0;   ///< Uniform, Random, Power, First
  int64_t period = 0;  ///< Every; Geometric: its factor; Drift:
                       ///< the most steps from one to the next
  int64_t step = 0;    ///< At with an absolute step; 0 when fraction is used
  int64_t seed = 0;    ///< Random
  int64_t from = 1;    ///< Every: its first step; At with a fraction: 1 + plus
  int64_t layer = -1;  ///< Drift: where it is measured, negative from the end
  bool attention = false; ///< Drift: by attention's weights, else by V
  /// Steps are counted from 1 in each block, and T is the block's number of
  /// steps (StepPlace).
  bool inBlock = false;
  bool afterEos = false; ///< and every step once EOS was found
  bool operator==(const Cadence &) const = default;
};

/// The refresh steps in [1, T], ascending, without repeats.
std::vector<int64_t> refreshSteps(const Cadence &cadence, int64_t totalSteps);

/// A cadence in the schedule's own words.
std::string toString(const Cadence &cadence);

namespace detail {

/// No step: they count from 1.
inline constexpr int64_t none = 0;
/// Later than all steps.
inline constexpr int64_t never = INT64_MAX;
struct Start {
  int64_t earliest, latest;
};
__extension__ using Wide = unsigned __int128;

/// floor(ratio * n) for n >= 0, at most `limit`.
int64_t floorOf(Ratio ratio, int64_t n, int64_t limit);

struct NeverCadence {
  static constexpr Name name = "never";
  template <typename V> static void fields(V &, In<V, Cadence> &) {}
  static int64_t next(const Cadence &, int64_t, int64_t) { return none; }
  static Start start(const Cadence &) { return {never, never}; }
};

/// from, from + period, from + 2 * period, ...
struct EveryCadence {
  static constexpr Name name = "every";
  template <typename V> static void fields(V &v, In<V, Cadence> &x) {
    v("period", x.period, Lone{counted});
    v("from", x.from, Or{counted, 1});
  }
  static int64_t next(const Cadence &x, int64_t after, int64_t) {
    if (x.period < 1 || x.from < 1)
      return none;
    if (after < x.from)
      return x.from;
    const int64_t rest = x.period - (after - x.from) % x.period;
    return after > INT64_MAX - rest ? none : after + rest;
  }
  static Start start(const Cadence &x) { return {x.from, x.from}; }
};

/// 1 .. count
struct FirstCadence {
  static constexpr Name name = "first";
  template <typename V> static void fields(V &v, In<V, Cadence> &x) {
    v("count", x.count, Lone{counted});
  }
  static int64_t next(const Cadence &x, int64_t after, int64_t) {
    return after < x.count ? after + 1 : none;
  }
  static Start start(const Cadence &) { return {1, 1}; }
};

/// The one step max(1, floor(fraction * T) + plus), or `step`.
struct AtCadence {
  static constexpr Name name = "at";
  template <typename V> static void fields(V &v, In<V, Cadence> &x) {
    if (v.has("step", x.step > 0)) {
      v("step", x.step, counted);
    } else {
      v("fraction", x.fraction, Lone{UpTo{}});
      v("plus", x.from, Or{Range{0, maxCount - 1, 1}, 1});
    }
  }
  static int64_t next(const Cadence &x, int64_t after, int64_t total) {
    const int64_t share = floorOf(x.fraction, total, INT64_MAX - maxCount);
    const int64_t plus = std::clamp<int64_t>(x.from - 1, 0, maxCount);
    const int64_t step =
        x.step > 0 ? x.step : std::max<int64_t>(1, share + plus);
    return step > after ? step : none;
  }
  static Start start(const Cadence &x) {
    if (x.step > 0)
      return {x.step, x.step};
    return {std::max<int64_t>(1, x.from - 1), never};
  }
};

/// 1, period, period^2, ...: ever fewer, in runs of any length.
struct GeometricCadence {
  static constexpr Name name = "geometric";
  template <typename V> static void fields(V &v, In<V, Cadence> &x) {
    v("factor", x.period, Lone{Range{2, maxCount}});
  }
  static int64_t next(const Cadence &x, int64_t after, int64_t) {
    int64_t step = 1;
    while (step != none && step <= after)
      step =
          x.period < 2 || step > INT64_MAX / x.period ? none : step * x.period;
    return step;
  }
  static Start start(const Cadence &) { return {1, 1}; }
};

/// 1; and each step after one at which what is measured in its layer was found
/// to have drifted since the latest of these steps (DriftWatch), those of the
/// cadences of layers before, and the `period`-th after the latest one at the
/// latest. What `next` knows of is a run in which nothing drifts, which has the
/// fewest.
struct DriftCadence {
  static constexpr Name name = "drift";
  template <typename V> static void fields(V &v, In<V, Cadence> &x) {
    v("attention", x.attention, Flag{});
    v("below", x.fraction, UpTo{});
    v("within", x.period, counted);
    v("layer", x.layer, Or{Range{-maxCount, maxCount}, -1});
  }
  static int64_t next(const Cadence &x, int64_t after, int64_t total) {
    return EveryCadence::next(x, after, total);
  }
  static Start start(const Cadence &) { return {1, 1}; }
};

/// Of the first max(1, floor(fraction * T)) steps some. The clamp to one step
/// answers what the paper leaves open for short runs.
struct WindowedCadence {
  template <typename V> static void fields(V &v, In<V, Cadence> &x) {
    v("window", x.fraction, UpTo{});
    v("count", x.count, counted);
  }
  static int64_t windowOf(const Cadence &x, int64_t total) {
    return std::max<int64_t>(1, floorOf(x.fraction, total, total));
  }
  static Start start(const Cadence &) { return {1, 1}; }
};

/// 1 + floor(i (window - 1) / (count - 1)), i = 0 .. count - 1; those that fall
/// together are one. Source: PulseCol, equation 8.
struct UniformCadence : WindowedCadence {
  static constexpr Name name = "uniform";
  static int64_t next(const Cadence &x, int64_t after, int64_t total) {
    const int64_t window = windowOf(x, total);
    if (after >= window || x.count < 1 || (x.count == 1 && after >= 1))
      return none;
    // Neighbours are at most one step apart then, so none is skipped.
    if (x.count >= window || after < 1)
      return after + 1;
    // Of the least i that reaches the step behind.
    Wide i =
        (Wide(after) * Wide(x.count - 1) + Wide(window - 2)) / Wide(window - 1);
    return 1 + static_cast<int64_t>(i * Wide(window - 1) / Wide(x.count - 1));
  }
};

/// `count` distinct steps of the window, drawn with `seed`.
struct RandomCadence : WindowedCadence {
  static constexpr Name name = "random";
  template <typename V> static void fields(V &v, In<V, Cadence> &x) {
    WindowedCadence::fields(v, x);
    v("seed", x.seed, Range{INT64_MIN, INT64_MAX});
  }
  static std::vector<int64_t> steps(const Cadence &x, int64_t total);
  static int64_t next(const Cadence &x, int64_t after, int64_t total);
  static Start start(const Cadence &) { return {1, never}; }
};

/// 1 + floor((i / (count - 1))^2 (window - 1)), i = 0 .. count - 1: steps crowd
/// at the beginning. Source: PulseCol, its ablation.
struct PowerCadence : WindowedCadence {
  static constexpr Name name = "power";
  static int64_t next(const Cadence &x, int64_t after, int64_t total);
};

using CadenceForms = std::tuple<NeverCadence, EveryCadence, FirstCadence,
                                AtCadence, UniformCadence, RandomCadence,
                                PowerCadence, GeometricCadence, DriftCadence>;

/// Calls `use` with the form of a cadence: the only place that goes by kinds.
template <typename Use> auto withForm(Cadence::Kind kind, Use use) {
  return withElement(CadenceForms(), kind, use);
}

} // namespace detail

constexpr auto namesOf(Cadence::Kind) {
  return std::apply([](auto... form) { return std::array{form.name...}; },
                    detail::CadenceForms());
}

namespace detail {

template <typename V> void fields(V &v, In<V, Cadence> &x) {
  v("kind", x.kind, Kind{});
  withForm(x.kind, [&](auto form) { return form.fields(v, x), true; });
  if (x.kind == Cadence::Kind::Never) // of which there is nothing to count
    return;
  v("in_block", x.inBlock, Clause{"in block"});
  v("after_eos", x.afterEos, Clause{"or after eos"});
}

} // namespace detail
} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_PROGRAM_CADENCES_H
