//===- Similarity.h - How much a row has changed ----------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SCHEDULE_SIMILARITY_H
#define HEDDLE_RUNTIME_SCHEDULE_SIMILARITY_H

#include "bundle/program/Fields.h"

#include <cstdint>
#include <span>
#include <vector>

namespace heddle::rt {

/// a . b / (|a| |b|) of two rows of `n` elements, in fp32; squared norms below
/// 1e-8 count as 1e-8. The order of summation is fixed. Source: DyLLM, released
/// code.
float cosine(const float *a, const float *b, int64_t n);

/// The indices of the `count` lowest values, ascending; among equals the lower
/// index, and NaN is lowest of all. `count` in [0, values.size()].
std::vector<int32_t> lowest(std::span<const double> values, int64_t count);

/// What rows are chosen by, the lowest first: the cosine, or with a weight w of
/// the confidence (bundle::Pass::confidence) (1 - w) cosine - w confidence,
/// which orders as -(w confidence + (1 - w) (1 - cosine)) does. In double,
/// times w's denominator. NaN if the cosine is.
double rankOf(float cosine, double confidence, bundle::Ratio weight);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SCHEDULE_SIMILARITY_H
