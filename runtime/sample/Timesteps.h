//===- Timesteps.h - The sampler that goes by t -----------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Dream's sampler (reference: diffusion_generate of its released code; Ye et
// al. 2025). A run has times t_0 = 1 > t_1 > ... > t_T = eps; step i, from 1,
// goes from t_(i-1) to t_i and makes tokens of a share 1 - t_i / t_(i-1) of
// what is masked in the whole response; the last step of all. As everywhere,
// ties go to the lowest index, and softmax and sums are fp64 for every type of
// logits.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SAMPLE_TIMESTEPS_H
#define HEDDLE_RUNTIME_SAMPLE_TIMESTEPS_H

#include <cstdint>
#include <span>
#include <vector>

namespace heddle::rt {

struct Draw;
struct SampleOptions;

/// Which of the masked positions become tokens.
enum class TransferRule {
  Origin,      ///< each with the step's probability, whatever the model says
  MaskgitPlus, ///< the largest probability of the drawn token
  TopkMargin,  ///< the largest gap between the two largest probabilities
  Entropy,     ///< the least entropy
};

struct TimestepOptions {
  TransferRule rule = TransferRule::Origin;
  double eps = 1e-3; ///< the last time; in (0, 1)
  double topP = 1;   ///< in (0, 1]: nucleus of that probability; 1: all
  int64_t topK = 0;  ///< at least 1: so many tokens, and equals of the last; 0:
                     ///< all
  /// Above 0, positions are drawn from softmax(confidence / this) without
  /// replacement; 0 takes the most confident ones. Not for Origin.
  double ruleTemperature = 0;
};

/// The share of masked positions that `step` (from 1) of `steps` makes tokens:
/// 1 - t_step / t_(step-1) in fp32, with the times of a linear ramp from 1 to
/// eps in fp32; 1 at the last step.
float transferShare(int64_t step, int64_t steps, double eps);

/// Tokens that a step commits in a sequence of `masked` masked positions, with
/// rules other than Origin: the share of them, rounded down, in fp32. With as
/// many steps as positions, the first ones commit nothing.
int64_t transferQuota(int64_t masked, int64_t step, int64_t steps, double eps);

/// Origin: whether the step makes a token of a masked position.
bool isTransferred(const SampleOptions &options, int64_t step, int64_t steps,
                   int64_t position);

/// Draws one row. `logits` [vocab] is changed in place: divided by the
/// temperature (if that is above 0), then cut to the nucleus of top-p, then to
/// top-k. The token is drawn from the softmax of what is left, or at
/// temperature 0 is its largest entry. The confidence is that of the rule:
/// probability of the token (Origin, MaskgitPlus), gap between the two largest
/// probabilities, or sum_j p_j ln(p_j + 1e-10). Logits that are not finite give
/// token -1. `options.timesteps` is set.
Draw drawByTimesteps(std::span<float> logits, const SampleOptions &options,
                     int64_t step, int64_t position);

/// The token `given` with the probability that drawByTimesteps() gives as the
/// confidence where it draws it by MaskgitPlus: 0 of one that is cut away.
/// `logits` is changed alike; not finite ones give token -1.
Draw lookAgainByTimesteps(std::span<float> logits, const SampleOptions &options,
                          int32_t given);

/// What positions of a step are ordered by, surest first: the confidence, or,
/// with a rule temperature, confidence / temperature plus Gumbel noise, which
/// orders them as draws without replacement from the softmax do.
double transferKey(const SampleOptions &options, double confidence,
                   int64_t step, int64_t position);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SAMPLE_TIMESTEPS_H
