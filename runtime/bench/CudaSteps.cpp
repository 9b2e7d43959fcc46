//===- CudaSteps.cpp - Timing the steps of a model on a GPU ---------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/bench/CudaSubjects.h"

#include "runtime/bench/CudaTimer.h"
#include "runtime/engine/cuda/Engine.h"

#include <chrono>
#include <random>
#include <set>

using namespace heddle;
using namespace heddle::bench;
using namespace heddle::rt::cuda;

namespace {

/// Steps of one bundle at one length.
class StepSubject {
public:
  StepSubject(const CudaSubject &subject, CudaEngine &engine,
              const rt::ModelConfig &config, const CudaRequest &request,
              int64_t length, std::vector<CudaRow> &rows)
      : subject(subject), engine(engine), config(config), request(request),
        length(length), rows(rows) {}

  Status begin();
  Status timeKinds(const CudaTimer &timer);
  Status timeRun();

private:
  CudaRow row(std::string kind, std::string name) const {
    CudaRow result;
    result.bundle = subject.name;
    result.kind = std::move(kind);
    result.name = std::move(name);
    result.dtype = rt::name(request.modelType());
    result.headDim = config.headDim;
    result.length = length;
    return result;
  }
  Result<double> timePart(const CudaTimer &timer, int64_t step,
                          const Trunk::Parts &part) const;

  const CudaSubject &subject;
  CudaEngine &engine;
  const rt::ModelConfig &config;
  const CudaRequest &request;
  const int64_t length;
  std::vector<CudaRow> &rows;
  rt::GenerateOptions options;
  std::vector<std::vector<int32_t>> prompts;
};

Status StepSubject::begin() {
  options.genLength = request.genLength;
  options.blockLength = request.genLength;
  options.steps = request.steps;
  if (length <= options.genLength)
    return Error("sequences of " + std::to_string(length) +
                 " tokens have no prompt before " +
                 std::to_string(options.genLength) +
                 " generated ones; take longer ones or a smaller "
                 "--gen-length");
  std::mt19937_64 random(1);
  std::vector<int32_t> prompt(length - options.genLength);
  for (int32_t &token : prompt)
    do
      token = static_cast<int32_t>(random() % uint64_t(config.vocabSize));
    while (token == config.maskToken);
  prompts = {std::move(prompt)};
  return engine.beginRun(prompts, options);
}

Result<double> StepSubject::timePart(const CudaTimer &timer, int64_t step,
                                     const Trunk::Parts &part) const {
  Result<Times> times =
      timer.time(engine.queue(), request.repetitions, false,
                 [&](const Stream &) { return engine.runParts(step, part); });
  if (!times)
    return times.takeError();
  return times->median;
}

Status StepSubject::timeKinds(const CudaTimer &timer) {
  // Every candidate is masked and remains one: the run's largest head. Its
  // number of rows is counted before, which waits for the device.
  if (Status s = engine.runHead({.step = 1}); !s)
    return s;
  Result<Times> head = timer.time(
      engine.queue(), request.repetitions, false, [&](const Stream &) {
        return engine.runHead({.step = 1, .stepInBlock = 1});
      });
  if (!head)
    return head.takeError();
  std::set<StepKind> seen;
  // In order, so that lists are refreshed before they are read.
  for (int64_t step = 1; step <= options.steps; ++step) {
    if (!seen.insert(engine.steps().kindOf(step)).second)
      continue;
    CudaRow result = row("step", engine.steps().describe(step));
    Result<Times> layers =
        timer.time(engine.queue(), request.repetitions, false,
                   [&](const Stream &) { return engine.runTrunk(step); });
    if (!layers)
      return layers.takeError();
    result.warm = *layers;
    result.head = head->median;
    const std::pair<double &, Trunk::Parts> parts[] = {
        {result.attention, {.rows = false, .products = false}},
        {result.products, {.rows = false, .attention = false}},
        {result.rows, {.products = false, .attention = false}}};
    for (auto &[time, part] : parts) {
      if (Status s = timePart(timer, step, part).moveTo(time); !s)
        return s;
    }
    rows.push_back(std::move(result));
  }
  return Status::success();
}

Status StepSubject::timeRun() {
  if (Status s = engine.beginRun(prompts, options); !s)
    return s;
  auto start = std::chrono::steady_clock::now();
  for (int64_t step = 1; step <= options.steps; ++step)
    if (Status s =
            engine.step({.step = step, .stepInBlock = step - 1}, nullptr);
        !s)
      return s;
  Result<std::vector<std::vector<int32_t>>> tokens = engine.tokens();
  if (!tokens)
    return tokens.takeError();
  std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  CudaRow result =
      row("run", std::to_string(options.steps) + " steps, " +
                     std::to_string(engine.recordings()) + " recordings");
  result.warm = {elapsed.count(), elapsed.count(), elapsed.count()};
  rows.push_back(std::move(result));
  return Status::success();
}

} // namespace

Status heddle::bench::timeSteps(const CudaSubject &subject,
                                const rt::ModelConfig &config,
                                const DeviceWeights &weights, rt::DType dtype,
                                const CudaRequest &request,
                                std::vector<CudaRow> &rows) {
  auto engine = CudaEngine::create(*subject.context, weights, *subject.bundle,
                                   config, dtype);
  if (!engine)
    return engine.takeError().withContext(subject.name);
  Result<CudaTimer> timer = CudaTimer::create(*subject.context, 0);
  if (!timer)
    return timer.takeError();
  for (int64_t length : request.lengths) {
    std::fprintf(stderr, "heddle-bench: steps of %s, n = %lld\n",
                 subject.name.c_str(), static_cast<long long>(length));
    StepSubject one(subject, **engine, config, request, length, rows);
    if (Status s = one.begin(); !s)
      return s;
    if (Status s = one.timeKinds(*timer); !s)
      return s;
    if (request.wholeRuns)
      if (Status s = one.timeRun(); !s)
        return s;
  }
  return Status::success();
}
