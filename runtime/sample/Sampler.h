//===- Sampler.h - Which tokens a step commits ------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// LLaDA's sampler (reference: its released generate.py), with one rule added
// where the reference leaves it open: ties go to the lowest index, among
// vocabulary entries and among positions.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_SAMPLE_SAMPLER_H
#define HEDDLE_RUNTIME_SAMPLE_SAMPLER_H

#include "runtime/sample/Timesteps.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace heddle::rt {

enum class Remasking {
  LowConfidence, ///< confidence = softmax(logits)[x0]
  Random,        ///< confidence uniform in (0, 1)
};

struct SampleOptions {
  double temperature = 0; ///< 0: argmax; else Gumbel noise in fp64
  Remasking remasking = Remasking::LowConfidence;
  double cfgScale = 0;       ///< > 0: a second, prompt-masked row per row
  bool logitsEosInf = false; ///< logits[eos] = -inf before drawing
  /// Confidence 0 for end-of-turn and, at temperature 0 only, end-of-sequence,
  /// the softmax taken over the rest: what the reference's option of that name
  /// does (its noisy logits are the logits themselves at temperature 0).
  bool confidenceEosEotInf = false;
  uint64_t seed = 0;
  int32_t eosToken = -1;
  int32_t eotToken = -1;       ///< end-of-turn, "<|eot_id|>"
  int32_t forbiddenToken = -1; ///< never drawn, but the softmax of confidences
                               ///< has it; -1: none

  /// Set for models that sample by timesteps; remasking, guidance and the
  /// options of end tokens are not theirs.
  std::optional<TimestepOptions> timesteps = std::nullopt;
};

struct Draw {
  int32_t token = 0;
  double confidence = 0;
};

/// Draws one row. `logits` [vocab], changed in place (EOS options, CFG result);
/// `unconditional` [vocab] or empty without CFG:
/// logits = u + (cfgScale + 1) * (l - u). Random numbers come from a
/// counter-based generator keyed by (seed, step, position, vocabulary index),
/// so a draw depends on nothing else. The softmax of the confidence is fp64
/// for every type of logits: the reference's own type (bf16) rounds many
/// confidences to the same value and leaves open which of them is committed.
/// Logits that are not finite (a broken model) give token -1.
Draw drawToken(std::span<float> logits, std::span<const float> unconditional,
               const SampleOptions &options, int64_t step, int64_t position);

/// The token `given` with the probability that drawToken() gives as the
/// confidence where it draws it, whatever `options.remasking` is. `logits` is
/// changed alike; not finite ones give token -1.
Draw lookAgain(std::span<float> logits, std::span<const float> unconditional,
               const SampleOptions &options, int32_t given);

/// argmax_j logits[j] + temperature * G_j, G_j standard Gumbel noise, in fp64:
/// a draw from the softmax at temperature 1. Entries may be -infinity, not all.
int64_t gumbelArgmax(std::span<const float> logits, double temperature,
                     uint64_t seed, int64_t step, int64_t position);

/// Tokens to commit at each of `steps` steps of a block with `masked` masked
/// positions: floor division, the first (masked % steps) steps one more.
std::vector<int64_t> commitQuotas(int64_t masked, int64_t steps);

/// The sum of the first `done` of them.
int64_t commitsDue(int64_t masked, int64_t steps, int64_t done);

/// A random order of 0 .. count - 1: i has the number uniform(seed, Commits,
/// step 0, position i, index 0), the least comes first, of equals the lower i.
std::vector<int32_t> drawOrder(int64_t count, uint64_t seed);

/// What is read in the place of a mask: of the m tokens from 0 to vocab - 1
/// that are not `without` the floor(u m)-th, u = uniform(seed, Noise, step,
/// position, index 0). `without` ascends, each one once; m is at least 1.
int32_t drawNoise(int64_t vocab, std::span<const int32_t> without,
                  uint64_t seed, int64_t step, int64_t position);

/// The `count` positions of largest confidence (ties to the lowest index),
/// ascending. `confidence` [positions].
std::vector<int64_t> largestConfidence(std::span<const double> confidence,
                                       int64_t count);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_SAMPLE_SAMPLER_H
