//===- RunLengths.h - The lengths of a run that were not given --*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// heddle-run and those who explain a run before it is made ask here, so that
// both speak of the same run.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_EXPLAIN_RUNLENGTHS_H
#define HEDDLE_TOOLS_EXPLAIN_RUNLENGTHS_H

#include <cstdint>
#include <optional>

namespace heddle::explain {

inline constexpr int64_t defaultGenLength = 128;
inline constexpr int64_t defaultBlockLength = 32;

struct RunLengths {
  int64_t genLength = defaultGenLength;
  int64_t steps = defaultGenLength;
  int64_t blockLength = defaultBlockLength;
};

/// What was not given, of a model with `room` positions behind its prompt:
///   gen-length    defaultGenLength, or the room if that is less;
///   steps         gen-length (one token a step);
///   block-length  gen-length if the model knows `oneBlock` only; else the
///                 largest divisor of gen-length up to defaultBlockLength whose
///                 number of blocks divides steps, else the smallest such
///                 divisor.
RunLengths resolveLengths(std::optional<int64_t> genLength,
                          std::optional<int64_t> steps,
                          std::optional<int64_t> blockLength, int64_t room,
                          bool oneBlock);

} // namespace heddle::explain

#endif // HEDDLE_TOOLS_EXPLAIN_RUNLENGTHS_H
