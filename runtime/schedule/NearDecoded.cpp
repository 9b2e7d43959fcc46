//===- NearDecoded.cpp - How much of what is near is decoded --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/schedule/NearDecoded.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace heddle;
using namespace heddle::rt;

NearDecoded::NearDecoded(int64_t deviation) {
  const auto twice = static_cast<double>(2 * deviation * deviation);
  for (int64_t d = 0;; ++d) {
    const int64_t weight =
        std::llround(0x1p30 * std::exp(static_cast<double>(-d * d) / twice));
    if (weight == 0)
      break;
    weights.push_back(weight);
  }
  beyond.assign(weights.size() + 1, 0);
  for (size_t d = weights.size(); d-- > 0;)
    beyond[d] = beyond[d + 1] + weights[d];
}

double NearDecoded::share(const SequenceState &state, int64_t position) const {
  const auto reach = static_cast<int64_t>(weights.size()) - 1;
  const int64_t end =
      std::min(state.textEnd, static_cast<int64_t>(state.masked.size()));
  auto from = [&](int64_t distance) {
    return beyond[static_cast<size_t>(std::min(distance, reach + 1))];
  };
  int64_t decoded = from(position + 1);
  if (!state.masked[static_cast<size_t>(end - 1)])
    decoded += from(end - position);
  const int64_t last = std::min(end - 1, position + reach);
  for (int64_t i = std::max<int64_t>(0, position - reach); i <= last; ++i)
    if (!state.masked[static_cast<size_t>(i)])
      decoded += weights[static_cast<size_t>(std::abs(i - position))];
  return static_cast<double>(decoded) /
         static_cast<double>(2 * beyond[0] - weights[0]);
}

double NearDecoded::lifted(double confidence, const SequenceState &state,
                           int64_t position) const {
  if (!(confidence > -std::numeric_limits<double>::infinity()))
    return confidence; // nothing was predicted
  const double near = share(state, position);
  // No less than any that was predicted, also where nothing near is decoded.
  return confidence < 0 ? std::max(confidence / near,
                                   std::numeric_limits<double>::lowest())
                        : confidence * near;
}
