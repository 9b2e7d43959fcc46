//===- Similarity.cpp - How much a row has changed ------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/schedule/Similarity.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace heddle;

float heddle::rt::cosine(const float *a, const float *b, int64_t n) {
  // Partial sums, which the compiler may keep in a vector.
  constexpr int64_t lanes = 16;
  float dot[lanes] = {}, squareA[lanes] = {}, squareB[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int64_t l = 0; l < lanes; ++l) {
      dot[l] += a[i + l] * b[i + l];
      squareA[l] += a[i + l] * a[i + l];
      squareB[l] += b[i + l] * b[i + l];
    }
  for (int64_t l = 0; i < n; ++i, ++l) {
    dot[l] += a[i] * b[i];
    squareA[l] += a[i] * a[i];
    squareB[l] += b[i] * b[i];
  }
  float ab = std::accumulate(dot, dot + lanes, 0.0f);
  float aa = std::accumulate(squareA, squareA + lanes, 0.0f);
  float bb = std::accumulate(squareB, squareB + lanes, 0.0f);
  constexpr float least = 1e-8f;
  // A product of two floats and its root are exact enough in double that equal
  // rows have a cosine of exactly 1, and rank by position.
  return static_cast<float>(
      ab / std::sqrt(static_cast<double>(std::max(aa, least)) *
                     static_cast<double>(std::max(bb, least))));
}

std::vector<int32_t> heddle::rt::lowest(std::span<const double> values,
                                        int64_t count) {
  auto key = [&](int32_t i) {
    return std::isnan(values[i]) ? -std::numeric_limits<double>::infinity()
                                 : values[i];
  };
  std::vector<int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::nth_element(order.begin(), order.begin() + count, order.end(),
                   [&](int32_t a, int32_t b) {
                     return key(a) != key(b) ? key(a) < key(b) : a < b;
                   });
  order.resize(static_cast<size_t>(count));
  std::sort(order.begin(), order.end());
  return order;
}

double heddle::rt::rankOf(float cosine, double confidence,
                          bundle::Ratio weight) {
  return static_cast<double>(weight.den - weight.num) * cosine -
         static_cast<double>(weight.num) * confidence;
}
