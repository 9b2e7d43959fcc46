//===- SequenceRun.h - One sequence through its run -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DENOISE_SEQUENCERUN_H
#define HEDDLE_RUNTIME_DENOISE_SEQUENCERUN_H

#include "bundle/program/Manifest.h"
#include "bundle/program/Program.h"
#include "runtime/denoise/StepEngine.h"
#include "runtime/model/Config.h"
#include "runtime/sample/Sampler.h"
#include "runtime/schedule/NearDecoded.h"
#include "runtime/schedule/Sequence.h"

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace heddle::rt {

/// The tokens of one sequence and where it stands: which step, which block,
/// what is masked. Sequences of a batch know nothing of each other.
///
/// Blocks share the planned steps equally. A block lasts its planned steps and
/// as many more as what had no candidates needs, or with a rule that
/// endsWhenFull() until none of its positions is masked; at least
/// CommitRule::leastPasses, and with CommitRule::furtherPasses some more while
/// they change something.
class SequenceRun {
public:
  /// `dated`: the rules of some of the steps, before `rule`, which is that of
  /// the others and says how many passes a block takes at least.
  SequenceRun(std::span<const int32_t> prompt, const GenerateOptions &options,
              const ModelConfig &config, const bundle::CommitRule &rule,
              std::vector<bundle::DatedCommit> dated = {});

  const std::vector<int32_t> &tokens() const { return sequence; }
  std::span<const uint8_t> masked() const { return mask; }
  /// The step at which each position became the token that it is, or a mask
  /// again; 0 for the prompt's and for those that have always been masked. With
  /// a rule that renoises() of the block's masks the step before the next one,
  /// which reads other noise there.
  std::span<const int32_t> committedAt() const { return committed; }
  /// How confident the last prediction of each position was; -infinity where
  /// none has been made since it was masked.
  std::span<const double> confidence() const { return sureness; }
  int64_t promptLength() const { return prompt; }

  /// What the model reads at a position at the next step: its token, or with a
  /// rule that renoises() at a masked position of the block the step's noise.
  int32_t input(int64_t position) const {
    return rule.renoises && mask[position] && isOfBlock(position)
               ? drawNoise(vocab, special, sampling.seed, at.step, position)
               : sequence[position];
  }

  /// Where the next step stands. Not to be asked for when done.
  const bundle::StepPlace &place() const { return at; }
  int64_t blockBegin() const { return prompt + at.block * blockLength; }
  int64_t blockEnd() const { return blockBegin() + blockLength; }

  /// Whether no further step is needed.
  bool done() const { return finished; }

  /// What a schedule is told before the next step.
  SequenceState state() const {
    return {.place = at,
            .blockBegin = blockBegin(),
            .blockEnd = blockEnd(),
            .masked = mask,
            .committedAt = committed,
            .textEnd = end,
            .next = upcoming,
            .confidence = sureness};
  }

  /// The rule that the next step commits by.
  const bundle::CommitRule &stepRule() const {
    return ruleNow < dated.size() ? dated[ruleNow].rule : rule;
  }

  /// Where the text ends: behind the EOS that was found, if the rule that found
  /// it narrows.
  int64_t textEnd() const { return end; }

  /// Whether nothing of the block is left to decode where the next step begins:
  /// it is one of the fewest passes that a block takes all the same, or one
  /// that only edits.
  bool isExtraPass() const { return extra; }

  /// Tokens that the model's own rule wants to commit at the next step: with
  /// blocks, the step's share of the block's and what earlier steps of the
  /// block had no candidates for; with timesteps, the step's share of what is
  /// masked.
  int64_t quota() const;

  /// The positions of the response as rules that go by an order take them:
  /// drawn or given with RandomOrder, else ascending. [response]
  std::span<const int32_t> order() const { return commitOrder; }

  /// What the next step commits if it computes it, in the order that is drawn;
  /// empty unless the rule goes by one.
  std::span<const int32_t> next() const { return upcoming; }

  /// Whether the next step may commit the position: it is masked, no later than
  /// the block and, with TransferRule::Origin, drawn.
  bool isCandidate(int64_t position) const;

  /// Whether the next step may make a mask of the position again: its rule
  /// revokes, an earlier step committed it in the block that is being decoded,
  /// and it is neither behind the text nor the EOS that ends it.
  bool isRevocable(int64_t position) const {
    return stepRule().revokes() && mayChange(position);
  }

  /// Tokens that the step before in the block committed.
  int64_t commitsBefore() const { return committedBefore; }

  /// Whether the next step needs a shadow: its rule revokes by one, it may
  /// commit two tokens, and something is revocable.
  bool needsShadow() const { return needsShadow(committedBefore); }
  /// The same if the step before had committed `before` tokens.
  bool needsShadow(int64_t before) const;

  /// The same of a rule that edits: whether it may become another token.
  bool isEditable(int64_t position) const {
    return stepRule().edits() && mayChange(position);
  }

  /// What the step's rule takes for the confidence of a candidate: that of its
  /// prediction, lifted by what is decoded near it if the rule says so.
  double lifted(int64_t position, double confidence) const;

  /// Remembers how confident the present step predicts a masked position.
  void predict(int64_t position, double confidence);

  /// Makes a masked position a token at the present step.
  void commit(int64_t position, int32_t token);

  /// Makes a position that isRevocable() a mask at the present step.
  void revoke(int64_t position);

  /// Makes a position that isEditable() another token at the present step.
  void edit(int64_t position, int32_t token);

  /// Ends the step: moves to the next one, the next block or the end.
  void advance();

private:
  void beginBlock();
  void enterStep();
  void findNext();
  void lookForEos();
  void stopAtEos();

  bool isOfBlock(int64_t position) const {
    return position >= blockBegin() && position < blockEnd();
  }
  bool mayChange(int64_t position) const;
  int64_t maskedInBlock() const;
  int64_t maskedInResponse() const;
  int64_t timestep() const;

  const bundle::CommitRule rule;
  const std::vector<bundle::DatedCommit> dated;
  std::map<int64_t, NearDecoded> lifts; ///< by CommitRule::near
  const bool untilFull;                 ///< blocks last until they are full
  SampleOptions sampling;
  int32_t maskToken = 0;
  int32_t eosToken = -1;
  int64_t vocab = 0;
  std::vector<int32_t> special; ///< ModelConfig::specialTokens()
  int64_t prompt = 0;
  int64_t blockLength = 0;
  int64_t blocks = 0;
  std::vector<int32_t> sequence;
  std::vector<uint8_t> mask;
  std::vector<int32_t> committed;
  std::vector<double> sureness;
  std::vector<int32_t> commitOrder;
  std::vector<int32_t> upcoming;
  bundle::StepPlace at;
  int64_t maskedAtStart = 0; ///< of the block
  int64_t committedInBlock = 0;
  int64_t committedNow = 0;    ///< at the present step
  int64_t committedBefore = 0; ///< commitsBefore()
  int64_t extraPasses = 0;     ///< of the block so far
  bool extra = false;          ///< isExtraPass()
  bool changed = false; ///< whether the step has made a token of something
  int64_t eos = 0;      ///< the EOS that was found; the length if none was
  int64_t end = 0;      ///< textEnd()
  size_t ruleNow = 0;   ///< of `dated`, or behind them: stepRule()
  bool finished = false;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DENOISE_SEQUENCERUN_H
