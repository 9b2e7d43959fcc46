//===- Progress.h - The progress bar ----------------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_RUN_PROGRESS_H
#define HEDDLE_TOOLS_HEDDLE_RUN_PROGRESS_H

#include "Totals.h"

#include <chrono>
#include <cstdint>
#include <string>

namespace heddle::run {

/// "0:07", "12:40", "3:05:00".
std::string formatDuration(double seconds);

/// The line that the bar shows after a step, at most `columns` wide:
/// " 45% [#########           ] step 58/128  12.3 tok/s  attention 34%  0:12
/// left". The bar gives way on narrow terminals.
std::string progressLine(const Totals &totals, int64_t totalSteps, int columns);

/// A line on standard error that is drawn over and over; nothing when that is
/// no terminal or progress is not wanted.
class Progress {
public:
  explicit Progress(bool enabled);
  ~Progress() { clear(); }

  /// Loading, in bytes; shown once it has lasted half a second.
  void loading(int64_t done, int64_t total);
  void step(const Totals &totals, int64_t totalSteps);
  void clear();

private:
  bool due(double interval);
  void draw(const std::string &line);

  bool enabled;
  bool drawn = false;
  std::chrono::steady_clock::time_point created, last;
};

} // namespace heddle::run

#endif // HEDDLE_TOOLS_HEDDLE_RUN_PROGRESS_H
