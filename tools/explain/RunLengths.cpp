//===- RunLengths.cpp - The lengths of a run that were not given ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/explain/RunLengths.h"

#include <algorithm>

using namespace heddle::explain;

RunLengths heddle::explain::resolveLengths(std::optional<int64_t> genLength,
                                           std::optional<int64_t> steps,
                                           std::optional<int64_t> blockLength,
                                           int64_t room, bool oneBlock) {
  RunLengths lengths;
  lengths.genLength =
      genLength.value_or(std::clamp<int64_t>(room, 1, defaultGenLength));
  lengths.steps = steps.value_or(lengths.genLength);
  lengths.blockLength = blockLength.value_or(lengths.genLength);
  if (blockLength || oneBlock)
    return lengths;
  // Longer ones are refused by every run; none is searched for here.
  constexpr int64_t longest = int64_t(1) << 20;
  int64_t best = 0;
  for (int64_t block = 1; block <= std::min(lengths.genLength, longest);
       ++block) {
    if (block > defaultBlockLength && best > 0)
      break;
    if (lengths.genLength % block == 0 &&
        lengths.steps % (lengths.genLength / block) == 0)
      best = block;
  }
  // A single block takes any number of steps, so only senseless lengths leave
  // none.
  if (best > 0)
    lengths.blockLength = best;
  return lengths;
}
