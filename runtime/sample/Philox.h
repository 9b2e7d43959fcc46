//===- Philox.h - Counter-based random numbers ------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Philox4x32-10: a keyed bijection of 128-bit counters. A random number is a
// function of its name (seed, step, position, index), so that neither the order
// in which rows are drawn nor the number of threads can change it.
// Source: Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SAMPLE_PHILOX_H
#define HEDDLE_RUNTIME_SAMPLE_PHILOX_H

#include <array>
#include <cstdint>

namespace heddle::rt {

/// Ten rounds of Philox4x32 on `counter` under `key` (least significant word
/// first).
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                   std::array<uint32_t, 2> key);

/// What a number is drawn for; numbers of different streams are unrelated.
enum class RandomStream : uint32_t {
  Gumbel = 0,    ///< noise on a logit
  Remasking = 1, ///< a random confidence
  Transfer = 2,  ///< whether a position becomes a token
  Order = 3,     ///< noise on a confidence
  Commits = 4,   ///< a place in the order of commits
  Noise = 5,     ///< a token in the place of a mask
};

/// A uniform number in (0, 1), a multiple of 2^-53 that is odd, so neither end
/// is ever reached. Counter words: index / 2, position, step, stream (each
/// modulo 2^32); key: seed; an even index takes the first two words of the
/// result, an odd one the last two.
double uniform(uint64_t seed, RandomStream stream, int64_t step,
               int64_t position, int64_t index);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SAMPLE_PHILOX_H
