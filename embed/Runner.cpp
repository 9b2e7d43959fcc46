//===- Runner.cpp - A model that stays loaded -----------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Runner.h"

#include "bundle/program/Printable.h"
#include "runtime/base/Parallel.h"
#include "runtime/engine/DTypeChoice.h"
#include "runtime/model/GenerationConfig.h"
#include "tools/heddle-run/Sampling.h"
#include "tools/heddle-run/Text.h"

#include <algorithm>

#include <unistd.h>

namespace heddle::embed {

namespace {

/// Gives way to other models' steps between its own.
class TurnTaking final : public rt::StepEngine {
public:
  TurnTaking(rt::StepEngine &inner, const Interrupted &interrupted)
      : inner(inner), interrupted(interrupted) {}

  const rt::ModelConfig &config() const override { return inner.config(); }
  rt::DType dtype() const override { return inner.dtype(); }
  Status beginRun(std::span<const std::vector<int32_t>> prompts,
                  const rt::GenerateOptions &options) override {
    std::unique_lock turn(hostSteps(), std::defer_lock);
    if (Status status = take(turn, interrupted); !status)
      return status;
    return inner.beginRun(prompts, options);
  }
  Status step(const rt::StepPlace &place, rt::StepOutcome *outcome) override {
    std::unique_lock turn(hostSteps(), std::defer_lock);
    if (Status status = take(turn, interrupted); !status)
      return status;
    return inner.step(place, outcome);
  }
  bool finished() const override { return inner.finished(); }
  Result<std::vector<std::vector<int32_t>>> tokens() override {
    return inner.tokens();
  }

private:
  rt::StepEngine &inner;
  const Interrupted &interrupted;
};

/// Says which thread holds a lock, for as long as it does.
class Holder {
public:
  Holder(std::timed_mutex &mutex, std::atomic<std::thread::id> &who)
      : lock(mutex, std::defer_lock), who(who) {}
  Status take(const Interrupted &interrupted) {
    Status status = embed::take(lock, interrupted);
    if (status)
      who = std::this_thread::get_id();
    return status;
  }
  ~Holder() {
    if (lock)
      who = std::thread::id();
  }
  Holder(const Holder &) = delete;
  Holder &operator=(const Holder &) = delete;

private:
  std::unique_lock<std::timed_mutex> lock;
  std::atomic<std::thread::id> &who;
};

} // namespace

Result<std::unique_ptr<Runner>>
Runner::load(const std::string &folder, const std::string &device,
             std::optional<rt::DType> dtype,
             std::function<bool()> interrupted) {
  if (Status status = rt::checkDeviceName(device); !status)
    return status.takeError();
  if (Status status = checkProcess(); !status)
    return status.takeError();
  std::unique_ptr<Runner> runner(new Runner);
  runner->folder = folder;
  Result<rt::ModelConfig> config = rt::ModelConfig::load(folder);
  if (!config)
    return config.takeError();
  runner->shape = std::move(*config);
  runner->onHost = device == "cpu";
  if (!dtype) {
    Result<std::optional<rt::DType>> stored = rt::storedDType(folder);
    if (!stored)
      return stored.takeError();
    std::vector<rt::DType> offered = {rt::DType::F32, rt::DType::BF16};
    if (!runner->onHost)
      offered.push_back(rt::DType::F16);
    dtype = rt::nearestDType(stored->value_or(rt::DType::BF16), offered);
  }
  runner->type = *dtype;
  if (rt::Tokenizer::exists(folder)) {
    auto tokenizer = rt::Tokenizer::load(folder);
    if (!tokenizer)
      return tokenizer.takeError();
    runner->tokenizer = std::move(*tokenizer);
    runner->endOfTurn =
        runner->tokenizer->tokenId(rt::endOfTurnToken(runner->shape.chat));
  }
  auto opened =
      rt::Device::open({.name = device, .dtype = *dtype}, runner->shape);
  if (!opened)
    return opened.takeError();
  runner->device = std::move(*opened);
  rt::LoadOptions options;
  options.dtype = *dtype;
  options.interrupted = std::move(interrupted);
  if (Status status = runner->device->load(folder, options); !status)
    return status.takeError();
  runner->about = runner->device->description();
  runner->bytes = runner->device->weightBytes();
  return runner;
}

Status Runner::enter() {
  if (Status status = checkProcess(); !status)
    return status;
  if (runner.load() == std::this_thread::get_id())
    return Error(
        "the model is in the middle of a step: its own callback cannot "
        "run or close it");
  return Status::success();
}

Result<rt::GenerateOptions>
Runner::resolve(const run::RunOptions &options,
                const std::vector<std::vector<int32_t>> &prompts) const {
  rt::GenerationConfig defaults;
  if (shape.sampler == rt::SamplerFamily::Timesteps) {
    Result<rt::GenerationConfig> read = rt::GenerationConfig::load(folder);
    if (!read)
      return read.takeError();
    defaults = std::move(*read);
  }
  Result<rt::SampleOptions> sampling =
      run::resolveSampling(options, shape, defaults);
  if (!sampling)
    return sampling.takeError();
  rt::GenerateOptions lengths;
  lengths.sampling = *sampling;
  lengths.sampling.eosToken = shape.eosToken;
  lengths.sampling.eotToken = options.eotToken.value_or(endOfTurn);
  if (lengths.sampling.eotToken >= shape.vocabSize)
    return Error("--eot-id: " + std::to_string(lengths.sampling.eotToken) +
                 " is no token of the model; its ids are 0 to " +
                 std::to_string(shape.vocabSize - 1));
  if (lengths.sampling.confidenceEosEotInf && !options.eotToken &&
      endOfTurn < 0)
    return Error("--confidence-eos-eot-inf needs the end-of-turn token, which "
                 "the tokenizer does not have; give --eot-id (-1: the model "
                 "has none)");
  int64_t longest = 0;
  for (const std::vector<int32_t> &prompt : prompts)
    longest = std::max(longest, static_cast<int64_t>(prompt.size()));
  run::resolveLengths(options, shape.maxSequenceLength - longest, lengths);
  if (Status status = rt::checkOptions(lengths); !status)
    return status.takeError();
  if (prompts.empty())
    return Error("there is no prompt; give at least one");
  for (size_t i = 0; i < prompts.size(); ++i)
    if (Status status =
            rt::checkPrompts(shape, std::span(&prompts[i], 1), lengths);
        !status)
      return status.takeError().withContext("prompt " + std::to_string(i));
  return lengths;
}

Result<Response> Runner::generate(const bundle::Bundle &bundle,
                                  std::vector<run::Prompt> prompts,
                                  run::RunOptions options,
                                  const rt::StepObserver &observer,
                                  const Interrupted &interrupted) {
  if (Status status = enter(); !status)
    return status.takeError();
  Holder holder(running, runner);
  if (Status status = holder.take(interrupted); !status)
    return status.takeError();
  if (isClosed)
    return Error("the model is closed; load it again");
  for (size_t i = 0; i < prompts.size(); ++i)
    if (prompts[i].isText) {
      if (!tokenizer)
        return Error(printablePath(folder) +
                     ": the model has no tokenizer; give token ids as prompts");
      auto read = run::textPrompt(prompts[i].text, options, shape.chat);
      if (!read)
        return read.takeError().withContext("prompt " + std::to_string(i));
      prompts[i] = std::move(*read);
    }
  auto ids = run::encodePrompts(prompts, tokenizer.get());
  if (!ids)
    return ids.takeError();
  Result<rt::GenerateOptions> lengths = resolve(options, *ids);
  if (!lengths)
    return lengths.takeError();
  if (Status status = rt::checkSchedule(bundle.manifest(), *lengths); !status)
    return status.takeError();

  Response response;
  response.lengths = *lengths;
  for (const std::vector<int32_t> &prompt : *ids)
    response.promptLengths.push_back(static_cast<int64_t>(prompt.size()));
  auto engine = device->engine(bundle);
  if (!engine)
    return engine.takeError();
  Result<rt::MemoryUse> memory =
      device->checkRun(**engine, response.promptLengths, *lengths);
  if (!memory)
    return memory.takeError();
  TurnTaking turns(**engine, interrupted);
  rt::StepEngine &steps = onHost ? turns : **engine;
  Result<rt::Generation> generation =
      rt::generate(steps, *ids, *lengths, observer);
  if (!generation)
    return generation.takeError();
  response.generation = std::move(*generation);

  run::TextRules rules{.tokenizer = tokenizer.get(),
                       .maskToken = shape.maskToken,
                       .eosToken = shape.eosToken,
                       .endOfTurn = lengths->sampling.eotToken,
                       .raw = options.raw};
  for (size_t i = 0; i < response.promptLengths.size(); ++i) {
    std::span<const int32_t> all(response.generation.sequences[i]);
    response.texts.push_back(
        run::responseText(all.subspan(response.promptLengths[i]), rules));
  }
  return response;
}

Result<std::vector<int32_t>> Runner::encode(const std::string &text) const {
  if (!tokenizer)
    return Error(printablePath(folder) + ": the model has no tokenizer");
  return tokenizer->encode(text);
}

Result<std::string> Runner::decode(const std::vector<int32_t> &ids,
                                   bool skipSpecial) const {
  if (!tokenizer)
    return Error(printablePath(folder) + ": the model has no tokenizer");
  for (int32_t id : ids)
    if (id < 0 || id >= tokenizer->vocabSize())
      return Error(std::to_string(id) + " is no token; ids are 0 to " +
                   std::to_string(tokenizer->vocabSize() - 1));
  return tokenizer->decode(ids, skipSpecial);
}

Status Runner::close(const Interrupted &interrupted) {
  if (Status status = enter(); !status)
    return status;
  Holder holder(running, runner);
  if (Status status = holder.take(interrupted); !status)
    return status;
  isClosed = true;
  device.reset();
  return Status::success();
}

} // namespace heddle::embed
