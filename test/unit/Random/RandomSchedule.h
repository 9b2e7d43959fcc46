//===- RandomSchedule.h - Schedules drawn from the whole algebra -*- C++
//-*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_RANDOM_RANDOMSCHEDULE_H
#define HEDDLE_TEST_UNIT_RANDOM_RANDOMSCHEDULE_H

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace heddle::test {

/// A schedule in parts, so that a test can write it in other ways. Nearly all
/// that are drawn verify.
struct RandomSchedule {
  /// The ops before the default attend, a line each: values, visible, reuse,
  /// recompute, commit, attends of single layers.
  std::vector<std::string> lines;
  /// Values of pairs that the default attend unites, "%cols", in any order;
  /// none means dense.
  std::vector<std::string> terms;
  /// Whether `terms` has a window and sinks.
  bool window = false, sinks = false;
  /// Whether some of them are intersections, which others may contain.
  bool intersects = false;
  /// "" or a cadence's value, before whose steps attention is dense.
  std::string until;
  /// "" or "pairs(%a) until(%c) then ", which the default attend has in front.
  std::string earlier;
  /// Steps that refresh a selection attend over it.
  bool atOnce = false;
  /// What the default attend makes of its logits: "" or " scores(...) {...}".
  std::string scores;

  /// The schedule @s that unites `parts` in the default attend.
  std::string text(const std::vector<std::string> &parts) const;
  std::string text() const { return text(terms); }
};

/// Draws every word of the language (RandomScheduleTest.cpp counts them):
/// pairs, scores, rows, visible positions, reuse, cadences, commits and ranges
/// of layers, of sizes that runs of some ten steps and a hundred positions tell
/// apart.
RandomSchedule drawSchedule(std::mt19937 &random);

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_RANDOM_RANDOMSCHEDULE_H
