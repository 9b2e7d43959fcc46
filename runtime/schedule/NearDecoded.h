//===- NearDecoded.h - How much of what is near is decoded ------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SCHEDULE_NEARDECODED_H
#define HEDDLE_RUNTIME_SCHEDULE_NEARDECODED_H

#include "runtime/schedule/Sequence.h"

#include <cstdint>
#include <vector>

namespace heddle::rt {

/// By how much decoded positions lift the confidence of a mask near them
/// (bundle::Positions::near). Source: d2Cache's certainty density.
///
/// A position at distance d counts w(d) = 2^30 exp(-d^2 / (2 s^2)), rounded to
/// the nearest integer, so that sums are exact, whatever their order, and the
/// last bit of exp says nothing. With s = 1 that is 651257337 at distance
/// 1, 16 at distance 6, and farther off nothing.
class NearDecoded {
public:
  /// `deviation`: s, from 1 to bundle::maxNear.
  explicit NearDecoded(int64_t deviation);

  /// The weight of decoded positions by that of all, from 0 to 1. What stands
  /// before the sequence is decoded; behind the text all is what its last
  /// position is.
  double share(const SequenceState &state, int64_t position) const;

  /// The confidence of a prediction, lifted: times the share, a negative one
  /// by it.
  double lifted(double confidence, const SequenceState &state,
                int64_t position) const;

private:
  std::vector<int64_t> weights; ///< w(0), w(1), ...: those that are not 0
  std::vector<int64_t> beyond;  ///< of the sum of w from a distance on
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SCHEDULE_NEARDECODED_H
