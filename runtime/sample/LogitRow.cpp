//===- LogitRow.cpp - Passes over one row of logits -----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/sample/LogitRow.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace heddle::rt {

namespace {

constexpr int64_t lanes = 16;

/// e^x for x <= 0; what would be subnormal is about 1e-308 instead of less.
/// x = k ln 2 + r with |r| <= ln 2 / 2; e^r by its Taylor series to r^13
/// (remainder below 1e-17), 2^k through the exponent field. No branches, no
/// library call: the vectoriser handles it.
inline double exponential(double x) {
  constexpr double log2e = 1.4426950408889634;
  // ln 2 in two parts; the first has zeros at its end, so k * part is exact.
  constexpr double ln2High = 0x1.62e42feep-1, ln2Low = 0x1.a39ef35793c76p-33;
  // Adding 1.5 * 2^52 leaves round(x * log2e) in the lowest bits.
  constexpr double shifter = 0x1.8p52;
  x = x < -708.0 ? -708.0 : x;
  double shifted = x * log2e + shifter;
  double k = shifted - shifter;
  double r = (x - k * ln2High) - k * ln2Low;
  double sum = 1.0 / 6227020800.0;
  sum = sum * r + 1.0 / 479001600.0;
  sum = sum * r + 1.0 / 39916800.0;
  sum = sum * r + 1.0 / 3628800.0;
  sum = sum * r + 1.0 / 362880.0;
  sum = sum * r + 1.0 / 40320.0;
  sum = sum * r + 1.0 / 5040.0;
  sum = sum * r + 1.0 / 720.0;
  sum = sum * r + 1.0 / 120.0;
  sum = sum * r + 1.0 / 24.0;
  sum = sum * r + 1.0 / 6.0;
  sum = sum * r + 0.5;
  sum = sum * r + 1.0;
  sum = sum * r + 1.0;
  uint64_t exponent = (std::bit_cast<uint64_t>(shifted) + 1023) << 52;
  return sum * std::bit_cast<double>(exponent);
}

/// ln x for normal x > 0, relative error below 1e-15. x = 2^k m with m between
/// sqrt(1/2) and sqrt(2); ln m = 2 artanh((m - 1) / (m + 1)) by its series
/// (remainder below 1e-18). No branches, no library call.
inline double logarithm(double x) {
  constexpr uint64_t half = 0x3fe6a09e667f3bcd; // sqrt(1/2)
  constexpr double ln2High = 0x1.62e42feep-1, ln2Low = 0x1.a39ef35793c76p-33;
  uint64_t bits = std::bit_cast<uint64_t>(x);
  int64_t k = static_cast<int64_t>(bits - half) >> 52;
  double m = std::bit_cast<double>(bits - (static_cast<uint64_t>(k) << 52));
  double s = (m - 1.0) / (m + 1.0);
  double square = s * s;
  double sum = 1.0 / 23.0;
  sum = sum * square + 1.0 / 21.0;
  sum = sum * square + 1.0 / 19.0;
  sum = sum * square + 1.0 / 17.0;
  sum = sum * square + 1.0 / 15.0;
  sum = sum * square + 1.0 / 13.0;
  sum = sum * square + 1.0 / 11.0;
  sum = sum * square + 1.0 / 9.0;
  sum = sum * square + 1.0 / 7.0;
  sum = sum * square + 1.0 / 5.0;
  sum = sum * square + 1.0 / 3.0;
  double fraction = 2.0 * s + 2.0 * s * square * sum;
  double power = static_cast<double>(static_cast<int32_t>(k));
  return power * ln2High + (fraction + power * ln2Low);
}

float largest(std::span<const float> logits) {
  float best[lanes];
  std::fill(best, best + lanes, logits[0]);
  int64_t size = static_cast<int64_t>(logits.size());
  int64_t whole = size - size % lanes;
  for (int64_t j = 0; j < whole; j += lanes)
    for (int64_t lane = 0; lane < lanes; ++lane)
      best[lane] = std::max(best[lane], logits[j + lane]);
  for (int64_t j = whole; j < size; ++j)
    best[0] = std::max(best[0], logits[j]);
  return *std::max_element(best, best + lanes);
}

} // namespace

void guide(std::span<float> logits, std::span<const float> unconditional,
           double scale) {
  assert(logits.size() == unconditional.size());
  float factor = static_cast<float>(scale + 1);
  for (size_t j = 0; j < logits.size(); ++j)
    logits[j] = unconditional[j] + factor * (logits[j] - unconditional[j]);
}

bool allFinite(std::span<const float> logits) {
  // Exponent bits all set mean NaN or infinity.
  uint32_t worst[lanes] = {};
  int64_t size = static_cast<int64_t>(logits.size());
  int64_t whole = size - size % lanes;
  auto exponent = [](float value) {
    return std::bit_cast<uint32_t>(value) & 0x7f800000u;
  };
  for (int64_t j = 0; j < whole; j += lanes)
    for (int64_t lane = 0; lane < lanes; ++lane)
      worst[lane] = std::max(worst[lane], exponent(logits[j + lane]));
  for (int64_t j = whole; j < size; ++j)
    worst[0] = std::max(worst[0], exponent(logits[j]));
  return *std::max_element(worst, worst + lanes) != 0x7f800000u;
}

int64_t argmax(std::span<const float> logits) {
  return std::find(logits.begin(), logits.end(), largest(logits)) -
         logits.begin();
}

double sumOfExponentials(std::span<const float> logits, float reference) {
  double sums[lanes] = {};
  int64_t size = static_cast<int64_t>(logits.size());
  int64_t whole = size - size % lanes;
  double shift = reference;
  for (int64_t j = 0; j < whole; j += lanes)
    for (int64_t lane = 0; lane < lanes; ++lane)
      sums[lane] += exponential(static_cast<double>(logits[j + lane]) - shift);
  for (int64_t j = whole; j < size; ++j)
    sums[j - whole] += exponential(static_cast<double>(logits[j]) - shift);
  double sum = 0;
  for (double part : sums)
    sum += part;
  return sum;
}

double negativeEntropy(std::span<const float> logits, float reference,
                       double sum) {
  double sums[lanes] = {};
  int64_t size = static_cast<int64_t>(logits.size());
  int64_t whole = size - size % lanes;
  double shift = reference;
  // Where p is 1e-308 instead of less or of 0, the term is about -1e-306.
  auto term = [&](int64_t j) {
    double p = exponential(static_cast<double>(logits[j]) - shift) / sum;
    return p * logarithm(p + 1e-10);
  };
  for (int64_t j = 0; j < whole; j += lanes)
    for (int64_t lane = 0; lane < lanes; ++lane)
      sums[lane] += term(j + lane);
  for (int64_t j = whole; j < size; ++j)
    sums[j - whole] += term(j);
  double total = 0;
  for (double part : sums)
    total += part;
  return total;
}

} // namespace heddle::rt
