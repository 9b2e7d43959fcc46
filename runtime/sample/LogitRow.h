//===- LogitRow.h - Passes over one row of logits ---------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each pass reads a whole vocabulary (126,464 entries in LLaDA), so the loops
// are written for the vectoriser: a fixed number of lanes, no branches. The
// lane of an entry depends on its index only, so results do too.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SAMPLE_LOGITROW_H
#define HEDDLE_RUNTIME_SAMPLE_LOGITROW_H

#include <cstdint>
#include <span>

namespace heddle::rt {

/// logits = u + (scale + 1) * (logits - u) in fp32, each operation rounded.
/// Both [vocab]. Source: LLaDA's generate, classifier-free guidance.
void guide(std::span<float> logits, std::span<const float> unconditional,
           double scale);

/// True when no entry is NaN or infinite.
bool allFinite(std::span<const float> logits);

/// The index of the largest entry, the lowest of equal ones. No NaN; not
/// empty.
int64_t argmax(std::span<const float> logits);

/// sum_j e^(logits[j] - reference) in fp64, for a finite reference that is the
/// largest entry; relative error below 1e-14 whatever the length.
double sumOfExponentials(std::span<const float> logits, float reference);

/// sum_j p_j ln(p_j + 1e-10) in fp64 with p_j = e^(logits[j] - reference) /
/// sum, for `reference` and `sum` as above; entries may be -infinity.
double negativeEntropy(std::span<const float> logits, float reference,
                       double sum);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SAMPLE_LOGITROW_H
