//===- Progress.cpp - The progress bar ------------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Progress.h"

#include "Terminal.h"
#include "runtime/base/Machine.h"

#include <algorithm>
#include <cstdio>

#include <unistd.h>

namespace heddle::run {

namespace {

template <typename... Values>
std::string format(const char *pattern, Values... values) {
  char text[160];
  std::snprintf(text, sizeof(text), pattern, values...);
  return text;
}

} // namespace

std::string formatDuration(double seconds) {
  long long whole = static_cast<long long>(seconds + 0.5);
  if (whole < 3600)
    return format("%lld:%02lld", whole / 60, whole % 60);
  return format("%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60,
                whole % 60);
}

std::string progressLine(const Totals &totals, int64_t totalSteps,
                         int columns) {
  double done = static_cast<double>(totals.steps) /
                static_cast<double>(std::max<int64_t>(totalSteps, 1));
  double left = totals.steps == 0
                    ? 0
                    : totals.seconds / static_cast<double>(totals.steps) *
                          static_cast<double>(totalSteps - totals.steps);
  std::string percent = format("%3.0f%%", 100 * done);
  std::string rest =
      format(" step %lld/%lld  %.1f tok/s  attention %.0f%%  %s left",
             static_cast<long long>(totals.steps),
             static_cast<long long>(totalSteps), totals.tokensPerSecond(),
             100 * totals.attentionShare(), formatDuration(left).c_str());
  // One column stays free: a full line would wrap on some terminals.
  int room = columns - 1 - static_cast<int>(percent.size() + rest.size()) - 3;
  std::string bar;
  if (room >= 5) {
    int width = std::min(room, 40);
    int filled = static_cast<int>(done * width);
    bar = " [" + std::string(filled, '#') + std::string(width - filled, ' ') +
          "]";
  }
  std::string line = percent + bar + rest;
  return line.substr(0, std::max(columns - 1, 0));
}

Progress::Progress(bool enabled)
    : enabled(enabled && isatty(STDERR_FILENO) && hasControlCodes()),
      created(std::chrono::steady_clock::now()) {}

bool Progress::due(double interval) {
  auto now = std::chrono::steady_clock::now();
  if (drawn && std::chrono::duration<double>(now - last).count() < interval)
    return false;
  last = now;
  return true;
}

void Progress::draw(const std::string &line) {
  drawn = true;
  std::fprintf(stderr, "\r\x1b[K%s", line.c_str());
  std::fflush(stderr);
}

void Progress::loading(int64_t done, int64_t total) {
  std::chrono::duration<double> lasted =
      std::chrono::steady_clock::now() - created;
  if (!enabled || lasted.count() < 0.5 || !due(0.1))
    return;
  draw("loading the model: " + rt::formatBytes(done) + " of " +
       rt::formatBytes(total));
}

void Progress::step(const Totals &totals, int64_t totalSteps) {
  if (!enabled || (totals.steps != totalSteps && !due(0.05)))
    return;
  draw(progressLine(totals, totalSteps, terminalSize(STDERR_FILENO).columns));
}

void Progress::clear() {
  if (!drawn)
    return;
  drawn = false;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
}

} // namespace heddle::run
