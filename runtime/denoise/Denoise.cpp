//===- Denoise.cpp - The denoising loop -----------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/denoise/Denoise.h"

#include "runtime/base/Machine.h"
#include "runtime/base/Parallel.h"

#include <algorithm>
#include <chrono>

namespace heddle::rt {

namespace {

/// The state of one run.
class Loop {
public:
  Loop(Model &model, ScheduleExecutor &executor,
       std::span<const std::vector<int32_t>> prompts,
       const GenerateOptions &options);

  Status begin();
  Result<Generation> run(const StepObserver &observer);

private:
  /// A masked position whose row goes through the LM head.
  struct Candidate {
    int64_t sequence;
    int64_t position;
  };

  void beginBlock(int64_t block);
  Status runStep(int64_t step, int64_t block, int64_t stepInBlock);
  void collectCandidates(int64_t block, int64_t stepInBlock);
  Status forward(int64_t step);
  void commit(int64_t stepInBlock);
  void fillPackedTokens();
  Status checkMemory() const;

  int64_t sequences() const { return static_cast<int64_t>(tokens.size()); }
  bool isMasked(int64_t sequence, int64_t position) const {
    return tokens[sequence][position] == model.config().maskToken;
  }

  Model &model;
  ScheduleExecutor &executor;
  const GenerateOptions &options;
  const int64_t blocks;
  const int64_t stepsPerBlock;
  const bool guided; ///< classifier-free guidance

  std::vector<int64_t> promptLengths;
  std::vector<std::vector<int32_t>> tokens; ///< prompt + response, [sequences]

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

Loop::Loop(Model &model, ScheduleExecutor &executor,
           std::span<const std::vector<int32_t>> prompts,
           const GenerateOptions &options)
    : model(model), executor(executor), options(options),
      blocks(options.genLength / options.blockLength),
      stepsPerBlock(options.steps / blocks),
      guided(options.sampling.cfgScale > 0) {
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
  tokens.assign(prompts.begin(), prompts.end());
}

Status Loop::checkMemory() const {
  int64_t samplerRows =
      model.config().vocabSize * int64_t(sizeof(float)) * threadCount();
  return rt::checkMemory(
      model.activationBytes(batch.rows()) + executor.runBytes(lengths) +
          samplerRows,
      "generating " + std::to_string(sequences()) + " sequences of " +
          std::to_string(batch.rows()) + " positions in all",
      "use a shorter gen-length or prompt, or fewer prompts at a time");
}

Status Loop::begin() {
  if (Status status = checkMemory(); !status)
    return status;
  for (std::vector<int32_t> &sequence : tokens)
    sequence.resize(sequence.size() + options.genLength,
                    model.config().maskToken);
  packed.resize(batch.rows());
  quotas.resize(sequences());
  return executor.beginRun(lengths, options.steps);
}

Result<Generation> Loop::run(const StepObserver &observer) {
  Generation generation;
  for (int64_t step = 1; step <= options.steps; ++step) {
    auto start = std::chrono::steady_clock::now();
    int64_t block = (step - 1) / stepsPerBlock;
    int64_t stepInBlock = (step - 1) % stepsPerBlock;
    if (stepInBlock == 0)
      beginBlock(block);
    if (Status status = runStep(step, block, stepInBlock); !status)
      return status.takeError().withContext("step " + std::to_string(step) +
                                            " of " +
                                            std::to_string(options.steps));
    generation.stepsDone = step;
    if (!observer)
      continue;
    std::chrono::duration<double> elapsed =
        std::chrono::steady_clock::now() - start;
    StepRecord record;
    record.step = step;
    record.totalSteps = options.steps;
    record.block = block;
    record.rowsComputed = batch.rows();
    record.logitRows =
        static_cast<int64_t>(candidates.size()) * (guided ? 2 : 1);
    record.commits = commits;
    record.tokens = tokens;
    record.counters = executor.counters();
    record.seconds = elapsed.count();
    if (!observer(record))
      break;
  }
  generation.complete = generation.stepsDone == options.steps;
  generation.sequences = std::move(tokens);
  return generation;
}

void Loop::beginBlock(int64_t block) {
  for (int64_t s = 0; s < sequences(); ++s) {
    int64_t first = promptLengths[s] + block * options.blockLength;
    int64_t masked = 0;
    for (int64_t i = first; i < first + options.blockLength; ++i)
      masked += isMasked(s, i);
    quotas[s] = commitQuotas(masked, stepsPerBlock);
  }
}

Status Loop::runStep(int64_t step, int64_t block, int64_t stepInBlock) {
  collectCandidates(block, stepInBlock);
  if (Status status = forward(step); !status)
    return status;
  for (size_t c = 0; c < candidates.size(); ++c)
    if (draws[c].token < 0)
      return Error(
          "the logits of sequence " + std::to_string(candidates[c].sequence) +
          ", position " + std::to_string(candidates[c].position) +
          " are not all finite numbers; the model's weights are damaged, or "
          "its activations exceed the range of " +
          std::string(name(model.dtype())));
  commit(stepInBlock);
  return Status::success();
}

void Loop::collectCandidates(int64_t block, int64_t stepInBlock) {
  candidates.clear();
  for (int64_t s = 0; s < sequences(); ++s) {
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

void Loop::fillPackedTokens() {
  for (int64_t s = 0; s < sequences(); ++s)
    std::copy(tokens[s].begin(), tokens[s].end(),
              packed.begin() + batch.offsets[s]);
  for (int64_t s = sequences(); s < batch.sequences(); ++s) {
    int64_t conditional = s - sequences();
    int64_t promptLength = promptLengths[conditional];
    auto response = std::fill_n(packed.begin() + batch.offsets[s], promptLength,
                                model.config().maskToken);
    std::copy(tokens[conditional].begin() + promptLength,
              tokens[conditional].end(), response);
  }
}

Status Loop::forward(int64_t step) {
  fillPackedTokens();
  LogitRequest request;
  request.unit = guided ? 2 : 1;
  for (const Candidate &candidate : candidates) {
    request.rows.push_back(batch.offsets[candidate.sequence] +
                           candidate.position);
    if (guided)
      request.rows.push_back(batch.offsets[sequences() + candidate.sequence] +
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

void Loop::commit(int64_t stepInBlock) {
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
      tokens[s][position] = draw.token;
      commits.push_back({s, position, draw.token, draw.confidence});
    }
  }
}

} // namespace

Result<Generation> generate(Model &model, ScheduleExecutor &executor,
                            std::span<const std::vector<int32_t>> prompts,
                            const GenerateOptions &options,
                            const StepObserver &observer) {
  if (Status status = checkOptions(options); !status)
    return status.takeError();
  if (Status status = checkPrompts(model.config(), prompts, options); !status)
    return status.takeError();
  Loop loop(model, executor, prompts, options);
  if (Status status = loop.begin(); !status)
    return status.takeError();
  return loop.run(observer);
}

} // namespace heddle::rt
