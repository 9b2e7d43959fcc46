//===- Timesteps.cpp - The sampler that goes by t -------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/sample/Timesteps.h"

#include "runtime/sample/LogitRow.h"
#include "runtime/sample/Philox.h"
#include "runtime/sample/Sampler.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace heddle::rt {

namespace {

constexpr float removed = -std::numeric_limits<float>::infinity();

/// Entry `index` of a ramp of steps + 1 numbers in fp32, made from its nearer
/// end as PyTorch's linspace is.
float timeAt(int64_t index, int64_t steps, double eps) {
  const float first = 1, last = static_cast<float>(eps);
  const float stride = (last - first) / static_cast<float>(steps);
  return index < (steps + 1) / 2
             ? first + stride * static_cast<float>(index)
             : last - stride * static_cast<float>(steps - index);
}

/// Keeps the most probable tokens, those before which less than or exactly
/// `topP` of the probability stands; the first one always.
void cutToNucleus(std::span<float> logits, double topP) {
  const float reference = logits[argmax(logits)];
  const double sum = sumOfExponentials(logits, reference);
  // All tokens that are less likely than the first by this factor have less
  // than 1 - topP together: the nucleus ends before them.
  const double factor =
      2 * static_cast<double>(logits.size()) / std::max(1 - topP, 1e-300);
  const float least = static_cast<float>(double(reference) - std::log(factor));
  thread_local std::vector<int32_t> heap;
  heap.clear();
  for (size_t j = 0; j < logits.size(); ++j)
    if (logits[j] >= least)
      heap.push_back(static_cast<int32_t>(j));
    else
      logits[j] = removed;
  auto lower = [&](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] < logits[b] : a > b;
  };
  std::make_heap(heap.begin(), heap.end(), lower);
  double before = 0;
  auto end = heap.end();
  for (; end != heap.begin() && before <= topP; --end) {
    std::pop_heap(heap.begin(), end, lower);
    before += std::exp(double(logits[*(end - 1)]) - reference) / sum;
  }
  for (auto it = heap.begin(); it != end; ++it)
    logits[*it] = removed;
}

/// Keeps the `topK` largest entries and what equals the last of them.
void cutToLargest(std::span<float> logits, int64_t topK) {
  if (topK >= static_cast<int64_t>(logits.size()))
    return;
  thread_local std::vector<float> sorted;
  sorted.assign(logits.begin(), logits.end());
  std::nth_element(sorted.begin(), sorted.begin() + (topK - 1), sorted.end(),
                   std::greater<>());
  const float least = sorted[topK - 1];
  for (float &logit : logits)
    if (logit < least)
      logit = removed;
}

/// The largest entry but for that of `token`, if there is such a token.
int64_t bestButFor(std::span<const float> logits, int32_t token) {
  if (token < 0 || logits.size() == 1)
    return argmax(logits);
  const auto before = logits.first(token), after = logits.subspan(token + 1);
  if (before.empty() || after.empty())
    return before.empty() ? 1 + argmax(after) : argmax(before);
  const int64_t left = argmax(before), right = token + 1 + argmax(after);
  return logits[right] > logits[left] ? right : left;
}

/// The largest probability less the second largest.
double margin(std::span<const float> logits, int64_t best, double sum) {
  float second = removed;
  for (std::span<const float> side :
       {logits.first(best), logits.subspan(best + 1)})
    if (!side.empty())
      second = std::max(second, side[argmax(side)]);
  // e^0 is the largest one's.
  return (1 - std::exp(double(second) - logits[best])) / sum;
}

/// Divides by the temperature; false if that leaves no finite numbers.
bool temper(std::span<float> logits, const SampleOptions &options) {
  assert(!logits.empty() && options.timesteps);
  if (!allFinite(logits))
    return false;
  if (options.temperature > 0)
    for (float &logit : logits)
      logit /= static_cast<float>(options.temperature);
  // A temperature near 0 may divide beyond fp32: no more a distribution.
  return allFinite(logits);
}

void cut(std::span<float> logits, const TimestepOptions &timesteps) {
  if (timesteps.topP < 1)
    cutToNucleus(logits, timesteps.topP);
  if (timesteps.topK > 0)
    cutToLargest(logits, timesteps.topK);
}

} // namespace

float transferShare(int64_t step, int64_t steps, double eps) {
  assert(step >= 1 && step <= steps);
  if (step == steps)
    return 1;
  return 1 - timeAt(step, steps, eps) / timeAt(step - 1, steps, eps);
}

int64_t transferQuota(int64_t masked, int64_t step, int64_t steps, double eps) {
  return static_cast<int64_t>(static_cast<float>(masked) *
                              transferShare(step, steps, eps));
}

bool isTransferred(const SampleOptions &options, int64_t step, int64_t steps,
                   int64_t position) {
  const float share = transferShare(step, steps, options.timesteps->eps);
  return uniform(options.seed, RandomStream::Transfer, step, position, 0) <
         share;
}

Draw drawByTimesteps(std::span<float> logits, const SampleOptions &options,
                     int64_t step, int64_t position) {
  if (!temper(logits, options))
    return {.token = -1, .confidence = 0};
  const TimestepOptions &timesteps = *options.timesteps;
  // What is drawn if the cuts leave the forbidden token alone.
  const int64_t other = bestButFor(logits, options.forbiddenToken);
  cut(logits, timesteps);

  const int64_t best = argmax(logits);
  const double sum = sumOfExponentials(logits, logits[best]);
  Draw draw;
  switch (timesteps.rule) {
  case TransferRule::Origin:
  case TransferRule::MaskgitPlus:
    break; // the drawn token's, below
  case TransferRule::TopkMargin:
    draw.confidence = margin(logits, best, sum);
    break;
  case TransferRule::Entropy:
    draw.confidence = negativeEntropy(logits, logits[best], sum);
    break;
  }
  const float reference = logits[best];
  const float forbidden =
      options.forbiddenToken < 0 ? 0 : logits[options.forbiddenToken];
  if (options.forbiddenToken >= 0)
    logits[options.forbiddenToken] = removed;
  int64_t token = argmax(logits);
  if (logits[token] == removed)
    token = other;
  else if (options.temperature > 0)
    token = gumbelArgmax(logits, 1, options.seed, step, position);
  if (options.forbiddenToken >= 0)
    logits[options.forbiddenToken] = forbidden;
  draw.token = static_cast<int32_t>(token);
  if (timesteps.rule == TransferRule::Origin ||
      timesteps.rule == TransferRule::MaskgitPlus)
    draw.confidence = std::exp(double(logits[token]) - reference) / sum;
  return draw;
}

Draw lookAgainByTimesteps(std::span<float> logits, const SampleOptions &options,
                          int32_t given) {
  if (!temper(logits, options))
    return {.token = -1, .confidence = 0};
  cut(logits, *options.timesteps);
  const float reference = logits[argmax(logits)];
  return {.token = given,
          .confidence = std::exp(double(logits[given]) - reference) /
                        sumOfExponentials(logits, reference)};
}

double transferKey(const SampleOptions &options, double confidence,
                   int64_t step, int64_t position) {
  const double temperature = options.timesteps->ruleTemperature;
  if (temperature == 0)
    return confidence;
  double u = uniform(options.seed, RandomStream::Order, step, position, 0);
  return confidence / temperature - std::log(-std::log(u));
}

} // namespace heddle::rt
