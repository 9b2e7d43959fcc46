//===- HostEngine.cpp - Steps on the host ---------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/denoise/HostEngine.h"

#include "runtime/base/Machine.h"
#include "runtime/base/Parallel.h"

#include <algorithm>

namespace heddle::rt {

namespace {

class HostEngine final : public StepEngine {
public:
  HostEngine(Model &model, ScheduleExecutor &executor)
      : model(model), executor(executor) {}

  const ModelConfig &config() const override { return model.config(); }
  DType dtype() const override { return model.dtype(); }
  Status beginRun(std::span<const std::vector<int32_t>> prompts,
                  const GenerateOptions &options) override;
  Status step(const StepPlace &place, StepOutcome *outcome) override;
  Result<std::vector<std::vector<int32_t>>> tokens() override {
    return sequences;
  }

private:
  /// A masked position whose row goes through the LM head.
  struct Candidate {
    int64_t sequence;
    int64_t position;
  };

  void packSequences(std::span<const std::vector<int32_t>> prompts);
  void beginBlock(int64_t block);
  void collectCandidates(int64_t block, int64_t stepInBlock);
  Status forward(int64_t step);
  Status checkDraws() const;
  void commit(int64_t stepInBlock);
  void fillPackedTokens();
  Status checkMemory() const;

  int64_t count() const { return static_cast<int64_t>(sequences.size()); }
  bool isMasked(int64_t sequence, int64_t position) const {
    return sequences[sequence][position] == model.config().maskToken;
  }

  Model &model;
  ScheduleExecutor &executor;

  // The run.
  GenerateOptions options;
  int64_t stepsPerBlock = 0;
  bool guided = false; ///< classifier-free guidance
  std::vector<int64_t> promptLengths;
  std::vector<std::vector<int32_t>> sequences; ///< prompt + response

  // The packed batch: conditional sequences, then, if guided, as many
  // unconditional ones.
  PackedBatch batch;
  std::vector<int64_t> lengths; ///< of the packed sequences
  std::vector<int32_t> packed;  ///< [batch.rows()]

  std::vector<std::vector<int64_t>> quotas; ///< [sequences x stepsPerBlock]
  std::vector<Candidate> candidates;        ///< by sequence, then by position
  std::vector<Draw> draws;                  ///< [candidates]
  std::vector<Commit> commits;
};

void HostEngine::packSequences(std::span<const std::vector<int32_t>> prompts) {
  promptLengths.clear();
  lengths.clear();
  for (const std::vector<int32_t> &prompt : prompts) {
    promptLengths.push_back(static_cast<int64_t>(prompt.size()));
    lengths.push_back(promptLengths.back() + options.genLength);
  }
  if (guided)
    lengths.insert(lengths.end(), lengths.begin(),
                   lengths.begin() + promptLengths.size());
  batch.offsets = {0};
  for (int64_t length : lengths)
    batch.offsets.push_back(batch.rows() + length);
  sequences.assign(prompts.begin(), prompts.end());
}

Status HostEngine::checkMemory() const {
  int64_t samplerRows =
      model.config().vocabSize * int64_t(sizeof(float)) * threadCount();
  return rt::checkMemory(
      model.activationBytes(batch.rows()) + executor.runBytes(lengths) +
          samplerRows,
      "generating " + std::to_string(count()) + " sequences of " +
          std::to_string(batch.rows()) + " positions in all",
      "use a shorter gen-length or prompt, or fewer prompts at a time");
}

Status HostEngine::beginRun(std::span<const std::vector<int32_t>> prompts,
                            const GenerateOptions &runOptions) {
  options = runOptions;
  stepsPerBlock = options.steps / (options.genLength / options.blockLength);
  guided = options.sampling.cfgScale > 0;
  packSequences(prompts);
  if (Status status = checkMemory(); !status)
    return status;
  for (std::vector<int32_t> &sequence : sequences)
    sequence.resize(sequence.size() + options.genLength,
                    model.config().maskToken);
  packed.resize(batch.rows());
  quotas.resize(count());
  return executor.beginRun(lengths, options.steps);
}

void HostEngine::beginBlock(int64_t block) {
  for (int64_t s = 0; s < count(); ++s) {
    int64_t first = promptLengths[s] + block * options.blockLength;
    int64_t masked = 0;
    for (int64_t i = first; i < first + options.blockLength; ++i)
      masked += isMasked(s, i);
    quotas[s] = commitQuotas(masked, stepsPerBlock);
  }
}

Status HostEngine::step(const StepPlace &place, StepOutcome *outcome) {
  if (place.stepInBlock == 0)
    beginBlock(place.block);
  collectCandidates(place.block, place.stepInBlock);
  if (Status status = forward(place.step); !status)
    return status;
  if (Status status = checkDraws(); !status)
    return status;
  commit(place.stepInBlock);
  if (outcome) {
    outcome->rowsComputed = batch.rows();
    outcome->logitRows =
        static_cast<int64_t>(candidates.size()) * (guided ? 2 : 1);
    outcome->commits = commits;
    outcome->counters = executor.counters();
  }
  return Status::success();
}

/// Draws of rows whose logits were not finite have no token.
Status HostEngine::checkDraws() const {
  for (size_t c = 0; c < candidates.size(); ++c)
    if (draws[c].token < 0)
      return Error(
          "the logits of sequence " + std::to_string(candidates[c].sequence) +
          ", position " + std::to_string(candidates[c].position) +
          " are not all finite numbers; the model's weights are damaged, or "
          "its activations exceed the range of " +
          std::string(name(model.dtype())));
  return Status::success();
}

void HostEngine::collectCandidates(int64_t block, int64_t stepInBlock) {
  candidates.clear();
  for (int64_t s = 0; s < count(); ++s) {
    if (quotas[s][stepInBlock] == 0)
      continue;
    int64_t first = promptLengths[s];
    int64_t end = first + (block + 1) * options.blockLength;
    for (int64_t i = first; i < end; ++i)
      if (isMasked(s, i))
        candidates.push_back({s, i});
  }
  draws.assign(candidates.size(), Draw{.token = -1, .confidence = 0});
}

void HostEngine::fillPackedTokens() {
  for (int64_t s = 0; s < count(); ++s)
    std::copy(sequences[s].begin(), sequences[s].end(),
              packed.begin() + batch.offsets[s]);
  for (int64_t s = count(); s < batch.sequences(); ++s) {
    int64_t conditional = s - count();
    int64_t promptLength = promptLengths[conditional];
    auto response = std::fill_n(packed.begin() + batch.offsets[s], promptLength,
                                model.config().maskToken);
    std::copy(sequences[conditional].begin() + promptLength,
              sequences[conditional].end(), response);
  }
}

Status HostEngine::forward(int64_t step) {
  fillPackedTokens();
  LogitRequest request;
  request.unit = guided ? 2 : 1;
  for (const Candidate &candidate : candidates) {
    request.rows.push_back(batch.offsets[candidate.sequence] +
                           candidate.position);
    if (guided)
      request.rows.push_back(batch.offsets[count() + candidate.sequence] +
                             candidate.position);
  }
  const int64_t vocab = model.config().vocabSize;
  request.consume = [&](int64_t first, int64_t count, const float *logits) {
    // The sampler edits its row; the model's memory is not ours to edit.
    thread_local std::vector<float> row;
    for (int64_t i = 0; i < count; i += request.unit) {
      const float *source = logits + i * vocab;
      row.assign(source, source + vocab);
      std::span<const float> unconditional;
      if (guided)
        unconditional = std::span(source + vocab, vocab);
      int64_t c = (first + i) / request.unit;
      draws[c] = drawToken(row, unconditional, options.sampling, step,
                           candidates[c].position);
    }
  };
  executor.beginStep(step);
  return model.forward(batch, packed, executor, request);
}

void HostEngine::commit(int64_t stepInBlock) {
  commits.clear();
  std::vector<double> confidence;
  for (size_t first = 0, end; first < candidates.size(); first = end) {
    int64_t s = candidates[first].sequence;
    confidence.clear();
    for (end = first; end < candidates.size() && candidates[end].sequence == s;
         ++end)
      confidence.push_back(draws[end].confidence);
    for (int64_t chosen :
         largestConfidence(confidence, quotas[s][stepInBlock])) {
      const Draw &draw = draws[first + chosen];
      int64_t position = candidates[first + chosen].position;
      sequences[s][position] = draw.token;
      commits.push_back({s, position, draw.token, draw.confidence});
    }
  }
}

} // namespace

std::unique_ptr<StepEngine> makeHostEngine(Model &model,
                                           ScheduleExecutor &executor) {
  return std::make_unique<HostEngine>(model, executor);
}

} // namespace heddle::rt
