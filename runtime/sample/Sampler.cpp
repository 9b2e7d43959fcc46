//===- Sampler.cpp - Which tokens a step commits --------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/sample/Sampler.h"

#include "runtime/sample/LogitRow.h"
#include "runtime/sample/Philox.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

namespace heddle::rt {

namespace {

void forbid(std::span<float> logits, int32_t token) {
  if (token >= 0 && static_cast<size_t>(token) < logits.size())
    logits[token] = -std::numeric_limits<float>::infinity();
}

/// softmax(logits)[token] in fp64; 0 for a forbidden token.
double probability(std::span<const float> logits, int64_t token) {
  if (std::isinf(logits[token]))
    return 0;
  float reference = logits[argmax(logits)];
  return std::exp(static_cast<double>(logits[token]) - reference) /
         sumOfExponentials(logits, reference);
}

/// What tokens are drawn from, but for the forbidden one; false if it is no
/// finite numbers.
bool prepare(std::span<float> logits, std::span<const float> unconditional,
             const SampleOptions &options) {
  assert(!logits.empty());
  if (!unconditional.empty())
    guide(logits, unconditional, options.cfgScale);
  if (!allFinite(logits))
    return false;
  if (options.logitsEosInf)
    forbid(logits, options.eosToken);
  return true;
}

/// The probability of a token, as confidences have it.
double confidenceOf(std::span<float> logits, const SampleOptions &options,
                    int64_t token) {
  if (options.confidenceEosEotInf) {
    forbid(logits, options.eotToken);
    // The reference forbids EOS in the noisy logits, which at temperature 0
    // are the logits themselves; otherwise its confidence never reads them.
    if (options.temperature == 0)
      forbid(logits, options.eosToken);
  }
  return probability(logits, token);
}

} // namespace

// The reference takes argmax_j e^logits[j] / (-ln U_j)^temperature, whose
// logarithm this is; the logarithm cannot overflow.
int64_t gumbelArgmax(std::span<const float> logits, double temperature,
                     uint64_t seed, int64_t step, int64_t position) {
  // U is at most 1 - 2^-53, so G = -ln(-ln U) is at most 36.74: entries that
  // even the largest noise cannot lift over the best need none drawn.
  constexpr double largestNoise = 36.75;
  auto noisy = [&](int64_t j) {
    double u = uniform(seed, RandomStream::Gumbel, step, position, j);
    return logits[j] - temperature * std::log(-std::log(u));
  };
  int64_t bestIndex = argmax(logits);
  double best = noisy(bestIndex);
  int64_t size = static_cast<int64_t>(logits.size());
  for (int64_t j = 0; j < size; ++j) {
    if (logits[j] + temperature * largestNoise < best)
      continue;
    double value = noisy(j);
    if (value > best || (value == best && j < bestIndex)) {
      best = value;
      bestIndex = j;
    }
  }
  return bestIndex;
}

Draw drawToken(std::span<float> logits, std::span<const float> unconditional,
               const SampleOptions &options, int64_t step, int64_t position) {
  if (!prepare(logits, unconditional, options))
    return {.token = -1, .confidence = 0};

  Draw draw;
  const float forbidden =
      options.forbiddenToken < 0 ? 0 : logits[options.forbiddenToken];
  forbid(logits, options.forbiddenToken);
  draw.token = static_cast<int32_t>(
      options.temperature == 0 ? argmax(logits)
                               : gumbelArgmax(logits, options.temperature,
                                              options.seed, step, position));
  if (options.forbiddenToken >= 0)
    logits[options.forbiddenToken] = forbidden;
  if (options.remasking == Remasking::Random) {
    draw.confidence =
        uniform(options.seed, RandomStream::Remasking, step, position, 0);
    return draw;
  }
  draw.confidence = confidenceOf(logits, options, draw.token);
  return draw;
}

Draw lookAgain(std::span<float> logits, std::span<const float> unconditional,
               const SampleOptions &options, int32_t given) {
  if (!prepare(logits, unconditional, options))
    return {.token = -1, .confidence = 0};
  return {.token = given, .confidence = confidenceOf(logits, options, given)};
}

std::vector<int64_t> commitQuotas(int64_t masked, int64_t steps) {
  assert(masked >= 0 && steps > 0);
  std::vector<int64_t> quotas(steps, masked / steps);
  std::for_each_n(quotas.begin(), masked % steps, [](int64_t &q) { ++q; });
  return quotas;
}

int64_t commitsDue(int64_t masked, int64_t steps, int64_t done) {
  assert(done >= 0 && done <= steps);
  return masked / steps * done + std::min(done, masked % steps);
}

std::vector<int32_t> drawOrder(int64_t count, uint64_t seed) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < count; ++i)
    numbers.push_back(uniform(seed, RandomStream::Commits, 0, i, 0));
  std::vector<int32_t> order(numbers.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return numbers[a] != numbers[b] ? numbers[a] < numbers[b] : a < b;
  });
  return order;
}

int32_t drawNoise(int64_t vocab, std::span<const int32_t> without,
                  uint64_t seed, int64_t step, int64_t position) {
  const int64_t count = vocab - static_cast<int64_t>(without.size());
  assert(count > 0 && "there is no token to draw");
  const double u = uniform(seed, RandomStream::Noise, step, position, 0);
  auto token = static_cast<int32_t>(u * static_cast<double>(count));
  for (int32_t each : without)
    token += each <= token;
  return token;
}

std::vector<int64_t> largestConfidence(std::span<const double> confidence,
                                       int64_t count) {
  std::vector<int64_t> order(confidence.size());
  std::iota(order.begin(), order.end(), 0);
  auto end = order.begin() +
             std::clamp<int64_t>(count, 0, static_cast<int64_t>(order.size()));
  std::partial_sort(order.begin(), end, order.end(), [&](int64_t a, int64_t b) {
    return confidence[a] != confidence[b] ? confidence[a] > confidence[b]
                                          : a < b;
  });
  order.erase(end, order.end());
  std::sort(order.begin(), order.end());
  return order;
}

} // namespace heddle::rt
