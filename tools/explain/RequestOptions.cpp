//===- RequestOptions.cpp - The run to explain, as users name it ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/explain/RequestOptions.h"

#include "bundle/format/File.h"
#include "bundle/program/Printable.h"
#include "runtime/model/Config.h"
#include "runtime/model/GenerationConfig.h"
#include "runtime/sample/Timesteps.h"

#include <algorithm>

using namespace heddle;
using namespace heddle::explain;

namespace {

/// Each number for itself: sums of those in range do not overflow.
Status checkTokens(const RequestOptions &options) {
  struct {
    const char *what;
    std::optional<int64_t> value;
    int64_t least;
  } given[] = {{"the length", options.length, 1},
               {"the prompt's length", options.prompt, 0},
               {"the gen-length", options.genLength, 1},
               {"the block length", options.blockLength, 1}};
  for (const auto &[what, value, least] : given)
    if (value && (*value < least || *value > maxTokens))
      return Error(std::string(what) + " is " + std::to_string(*value) +
                   ", expected " + std::to_string(least) + " to " +
                   std::to_string(maxTokens));
  return Status::success();
}

/// Length, prompt and gen-length: two of them give the third.
Status resolveTokens(const RequestOptions &options, ExplainRequest &request,
                     int64_t &genLength) {
  if (Status status = checkTokens(options); !status)
    return status;
  if (options.length && options.prompt) {
    genLength = *options.length - *options.prompt;
    if (options.genLength && *options.genLength != genLength)
      return Error("length " + std::to_string(*options.length) +
                   " less prompt " + std::to_string(*options.prompt) +
                   " is not gen-length " + std::to_string(*options.genLength) +
                   "; leave one of the three out");
  } else if (options.prompt) {
    genLength = options.genLength.value_or(defaultGenLength);
  } else {
    int64_t length = options.length.value_or(request.run.length);
    genLength = options.genLength.value_or(std::min(defaultGenLength, length));
    if (genLength > length && !options.length)
      length = genLength;
    request.run.length = length;
    request.run.prompt = length - genLength;
    return Status::success();
  }
  request.run.prompt = *options.prompt;
  request.run.length = options.length.value_or(*options.prompt + genLength);
  return Status::success();
}

/// Whether a run of the log may have been the model's.
Status checkModel(const RunLog &log, const rt::ModelConfig &config,
                  const std::string &folder) {
  auto unlike = [&](const std::string &what, int64_t most) {
    return Error(log.name + ": line " + std::to_string(log.lastLine) +
                 " of the log, the last, has " + what + ", expected at most " +
                 std::to_string(most) + " with the model in " +
                 printablePath(folder) + "; give the run's own --model");
  };
  const int64_t length = log.lengths.prompt + log.lengths.genLength;
  if (length > config.maxSequenceLength)
    return unlike(std::to_string(log.lengths.prompt) +
                      " tokens of the prompt and a gen_length of " +
                      std::to_string(log.lengths.genLength) + ", " +
                      std::to_string(length) + " together",
                  config.maxSequenceLength);
  if (const int32_t token = *std::ranges::max_element(log.tokens);
      token >= config.vocabSize)
    return unlike("token " + std::to_string(token), config.vocabSize - 1);
  return Status::success();
}

Status readModel(const std::string &folder, ExplainRequest &request,
                 bool &oneBlock) {
  Result<rt::ModelConfig> config = rt::ModelConfig::load(folder);
  if (!config)
    return config.takeError();
  if (request.run.follow)
    if (Status status = checkModel(*request.run.follow, *config, folder);
        !status)
      return status;
  request.shape = shapeOf(*config);
  request.run.shifted = config->shiftedLogits;
  request.run.maskToken = config->maskToken;
  request.run.eosToken = config->eosToken;
  request.run.length = std::min(request.run.length, config->maxSequenceLength);
  oneBlock = config->sampler == rt::SamplerFamily::Timesteps;
  if (oneBlock) {
    Result<rt::GenerationConfig> defaults = rt::GenerationConfig::load(folder);
    if (!defaults)
      return defaults.takeError();
    request.run.eps = defaults->eps.value_or(rt::TimestepOptions().eps);
    request.run.drawn = defaults->alg.value_or("origin") == "origin";
  }
  return Status::success();
}

} // namespace

ModelShape heddle::explain::shapeOf(const rt::ModelConfig &config) {
  return {.layers = config.layers,
          .hidden = config.hidden,
          .heads = config.queryHeads,
          .kvHeads = config.kvHeads,
          .headDim = config.headDim,
          .ffnWidth = config.mlpHidden,
          .vocabulary = config.vocabSize};
}

static Result<std::shared_ptr<const RunLog>> readLog(const std::string &path) {
  Result<std::string> text = bundle::readRegularFile(
      path, 0, [](std::string_view, uint64_t) { return Status::success(); });
  if (!text)
    return text.takeError();
  Result<RunLog> log = readRunLog(*text, printablePath(path));
  if (!log)
    return log.takeError();
  return std::make_shared<const RunLog>(std::move(*log));
}

/// The lengths of the run that is followed where none were given.
static Status takeLengths(const RunLog &log, RequestOptions &options) {
  const RunLog::Lengths &own = log.lengths;
  struct {
    const char *name;
    std::optional<int64_t> &given;
    int64_t own;
  } lengths[] = {{"length", options.length, own.prompt + own.genLength},
                 {"prompt", options.prompt, own.prompt},
                 {"gen-length", options.genLength, own.genLength},
                 {"steps", options.steps, own.steps},
                 {"block-length", options.blockLength, own.blockLength}};
  for (auto &[name, given, recorded] : lengths) {
    if (given && *given != recorded)
      return Error("--" + std::string(name) + " is " + std::to_string(*given) +
                   ", but " + std::to_string(recorded) + " in the run that " +
                   log.name + " is of; give --" + name + "=" +
                   std::to_string(recorded) + ", or leave it out");
    given = recorded;
  }
  return Status::success();
}

Result<ExplainRequest>
heddle::explain::resolveRequest(const RequestOptions &given, bool *badFile) {
  ExplainRequest request;
  RequestOptions options = given;
  bool oneBlock = false;
  auto readFiles = [&]() -> Status {
    if (options.follow)
      if (Status status = readLog(*options.follow).moveTo(request.run.follow);
          !status)
        return status;
    return options.model ? readModel(*options.model, request, oneBlock)
                         : Status::success();
  };
  if (Status status = readFiles(); !status) {
    if (badFile)
      *badFile = true;
    return status.takeError();
  }
  if (request.run.follow)
    if (Status status = takeLengths(*request.run.follow, options); !status)
      return status.takeError();
  ModelShape &shape = request.shape;
  // What a step did it did in the layers of the run's model.
  if (options.follow && options.model && options.layers &&
      *options.layers != shape.layers)
    return Error("--layers is " + std::to_string(*options.layers) + ", but " +
                 std::to_string(shape.layers) + " in the model " +
                 printablePath(*options.model) + " of the run that " +
                 request.run.follow->name + " is of; give --layers=" +
                 std::to_string(shape.layers) + ", or leave it out");
  shape.layers = options.layers.value_or(shape.layers);
  shape.headDim = options.headDim.value_or(shape.headDim);
  if (options.heads) { // another width than the model's
    shape.heads = *options.heads;
    shape.kvHeads = shape.hidden = shape.ffnWidth = 0;
  }
  shape.kvHeads = options.kvHeads.value_or(shape.kvHeads);
  shape.ffnWidth = options.ffnWidth.value_or(shape.ffnWidth);
  shape.vocabulary = options.vocabulary.value_or(shape.vocabulary);
  if (options.machine)
    if (Result<Machine> machine = machineNamed(*options.machine); !machine)
      return machine.takeError();
  request.machine = options.machine.value_or("");
  request.salientShare = options.salientShare.value_or(request.salientShare);
  // 0 is what a request has that names none.
  if (options.tokensPerStep == 0.0)
    return Error("the tokens per step are 0, expected 1 to " +
                 std::to_string(maxTokens));
  request.run.tokensPerStep =
      options.tokensPerStep.value_or(request.run.tokensPerStep);
  request.run.seed = options.seed.value_or(request.run.seed);
  int64_t genLength = 0;
  if (Status status = resolveTokens(options, request, genLength); !status)
    return status.takeError();
  RunLengths lengths = resolveLengths(genLength, options.steps,
                                      options.blockLength, genLength, oneBlock);
  request.run.steps = lengths.steps;
  request.run.blockLength = lengths.blockLength;
  if (Status status = check(request); !status)
    return request.run.follow ? status.takeError().withContext(
                                    request.run.follow->nameOfEnd() +
                                    ", which says the run's lengths")
                              : status.takeError();
  return request;
}
