//===- Session.cpp - One run, from files to reports -----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Session.h"

#include "Bundles.h"
#include "Canvas.h"
#include "Info.h"
#include "Interrupt.h"
#include "Progress.h"
#include "Prompts.h"
#include "Report.h"
#include "RunRecord.h"
#include "Sampling.h"
#include "StepLog.h"
#include "Terminal.h"
#include "Text.h"
#include "TraceLog.h"
#include "bundle/format/File.h"
#include "bundle/program/Printable.h"
#include "runtime/base/Machine.h"
#include "runtime/base/Parallel.h"
#include "runtime/engine/DTypeChoice.h"
#include "runtime/engine/Device.h"
#include "tools/explain/RequestOptions.h"
#include "tools/explain/RunCost.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>

#include <unistd.h>

namespace heddle::run {

namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Why a session ended early.
struct Failure {
  int code = exitFailure;
  Error error;
  bool reported = false; ///< the run's report stands on standard output

  Failure(Error error) : error(std::move(error)) {}
  Failure(int code, Error error) : code(code), error(std::move(error)) {}
};

class Session {
public:
  Session(const RunOptions &options, Clock::time_point start)
      : options(options), start(start),
        progress(options.progress && !options.quiet) {}

  /// The exit code, or what went wrong.
  std::variant<int, Failure> run();

private:
  int usefulThreads() const;
  std::optional<Failure> prepareSampling();
  std::optional<Failure> preparePrompts();
  Status prepareTokenizer(const std::vector<Prompt> &texts);
  std::optional<Failure> prepareLengths();
  Result<bundle::Bundle> readDense(const std::string &path) const;
  std::optional<Failure> prepareComparison();
  Result<std::unique_ptr<rt::StepEngine>>
  makeEngine(const bundle::Bundle &bundle, const std::string &path);
  void countDense(const bundle::Manifest &manifest);
  Status chooseDType(const bundle::Manifest &manifest);
  Status loadModel();
  Status openSinks();
  void openRecord();
  Status generate(rt::StepEngine &engine);
  Status compareWithDense(rt::StepEngine &engine);
  Status report();
  bool observe(const rt::StepRecord &step);

  const RunOptions &options;
  Clock::time_point start;
  Progress progress;
  std::optional<StepLog> stepLog;
  std::optional<TraceLog> traceLog;
  std::optional<RunRecord> record;
  std::vector<bundle::Selection> selections; ///< of the schedule
  std::string source;                        ///< likewise, its text
  std::optional<Canvas> canvas;

  rt::ModelConfig config;
  std::unique_ptr<rt::Tokenizer> tokenizer;
  std::vector<std::vector<int32_t>> prompts;
  std::unique_ptr<rt::Device> device;
  std::optional<bundle::Bundle> dense; ///< that of --compare-dense
  std::unique_ptr<rt::StepEngine> denseEngine;
  RunResult result;
};

std::variant<int, Failure> Session::run() {
  rt::setThreadCount(usefulThreads());
  result.options = &options;
  result.threads = rt::threadCount();

  Result<rt::ModelConfig> loaded = rt::ModelConfig::load(options.model);
  if (!loaded)
    return Failure(loaded.takeError());
  config = std::move(*loaded);
  if (std::optional<Failure> failure = prepareSampling())
    return std::move(*failure);
  if (std::optional<Failure> failure = preparePrompts())
    return std::move(*failure);
  if (std::optional<Failure> failure = prepareLengths())
    return std::move(*failure);

  // Before the device, which may take a while and may not be there.
  Result<bundle::Bundle> schedule =
      readBundle(options.bundle, options.digests, options.rebuild);
  if (!schedule)
    return Failure(interrupted() ? exitInterrupted : exitFailure,
                   schedule.takeError());
  if (Status status = rt::checkSchedule(schedule->manifest(), result.lengths);
      !status)
    return Failure(exitUsage, status.takeError());
  result.schedule = schedule->manifest().schedule;
  selections = schedule->manifest().selections;
  source = schedule->section(bundle::scheduleSection);
  result.onHost = options.device == "cpu";
  if (Status status = chooseDType(schedule->manifest()); !status)
    return Failure(status.takeError());
  countDense(schedule->manifest());
  Result<std::unique_ptr<rt::Device>> opened =
      rt::Device::open({.name = options.device,
                        .dtype = result.dtype,
                        .observed = !options.record.empty()},
                       config);
  if (!opened)
    return Failure(opened.takeError());
  device = std::move(*opened);
  result.device = device->description();
  auto engine = makeEngine(*schedule, options.bundle);
  if (!engine)
    return Failure(engine.takeError());
  Result<rt::MemoryUse> memory =
      device->checkRun(**engine, result.promptLengths, result.lengths);
  if (!memory)
    return Failure(memory.takeError());
  result.memory = std::move(*memory);
  if (std::optional<Failure> failure = prepareComparison())
    return std::move(*failure);
  if (Status status = openSinks(); !status)
    return Failure(status.takeError());
  if (Status status = loadModel(); !status)
    return Failure(interrupted() ? exitInterrupted : exitFailure,
                   status.takeError());
  result.memory.weights = device->weightBytes();
  result.device = device->description(); // with what multiplies
  result.loadSeconds = secondsSince(start);

  if (Status status = generate(**engine); !status)
    return Failure(status.takeError());
  engine->reset();
  // The run is done: it is reported whatever becomes of the comparison.
  Status compared = Status::success();
  if (denseEngine && result.generation.complete)
    compared = compareWithDense(*denseEngine);
  if (!compared)
    result.comparisonError = compared.error().text();
  if (Status status = report(); !status)
    return Failure(status.takeError());
  if (!compared) {
    Failure failure(compared.takeError());
    failure.reported = true;
    return failure;
  }
  bool complete = result.generation.complete &&
                  (options.compareDense.empty() || result.comparison);
  return complete ? 0 : exitInterrupted;
}

/// --threads, as far as they are of use. Threads of a loop wait for each other:
/// 1,024 on two cores take a hundred times as long as two.
int Session::usefulThreads() const {
  constexpr int mostPerCore = 4;
  const int cores = rt::availableCores(), most = mostPerCore * cores;
  if (options.threads <= cores)
    return options.threads;
  const int used = std::min(options.threads, most);
  if (!options.quiet)
    std::fprintf(
        stderr,
        "heddle-run: --threads %d, but this process may use %d core%s: "
        "that is slower than --threads %d%s\n",
        options.threads, cores, cores == 1 ? "" : "s", cores,
        used < options.threads
            ? ("; going on with " + std::to_string(used)).c_str()
            : "");
  return used;
}

/// The sampler of the model's family.
std::optional<Failure> Session::prepareSampling() {
  rt::GenerationConfig defaults;
  if (config.sampler == rt::SamplerFamily::Timesteps) {
    Result<rt::GenerationConfig> read =
        rt::GenerationConfig::load(options.model);
    if (!read)
      return Failure(read.takeError());
    defaults = std::move(*read);
  }
  Result<rt::SampleOptions> sampling =
      resolveSampling(options, config, defaults);
  if (!sampling)
    return Failure(exitUsage, sampling.takeError());
  result.lengths.sampling = *sampling;
  return std::nullopt;
}

/// Reads and encodes the prompts.
std::optional<Failure> Session::preparePrompts() {
  Result<std::vector<Prompt>> texts = readPrompts(options, config.chat);
  if (!texts)
    return Failure(interrupted() ? exitInterrupted : exitFailure,
                   texts.takeError());
  if (Status status = prepareTokenizer(*texts); !status)
    return Failure(status.takeError());
  auto encoded = encodePrompts(*texts, tokenizer.get());
  if (!encoded)
    return Failure(encoded.takeError());
  prompts = std::move(*encoded);
  for (const std::vector<int32_t> &prompt : prompts)
    result.promptLengths.push_back(static_cast<int64_t>(prompt.size()));
  return std::nullopt;
}

/// Loads the tokenizer unless nothing in this run is text. Ids alone work
/// without one: a folder that has none then is no error.
Status Session::prepareTokenizer(const std::vector<Prompt> &texts) {
  bool anyText =
      std::any_of(texts.begin(), texts.end(),
                  [](const Prompt &prompt) { return prompt.isText; });
  bool needsEot =
      options.sampling.confidenceEosEotInf && !options.eotToken.has_value();
  bool writesText = options.stepsJson != "-" && options.trace != "-";
  if (rt::Tokenizer::exists(options.model) &&
      (anyText || needsEot || writesText)) {
    Result<std::unique_ptr<rt::Tokenizer>> loaded =
        rt::Tokenizer::load(options.model);
    if (!loaded)
      return loaded.takeError();
    tokenizer = std::move(*loaded);
  }

  int32_t endOfTurn = options.eotToken.value_or(-1);
  if (endOfTurn >= config.vocabSize)
    return Error("--eot-id: " + std::to_string(endOfTurn) +
                 " is no token of the model; its ids are 0 to " +
                 std::to_string(config.vocabSize - 1));
  if (tokenizer && !options.eotToken)
    endOfTurn = tokenizer->tokenId(rt::endOfTurnToken(config.chat));
  if (needsEot && endOfTurn < 0)
    return Error("--confidence-eos-eot-inf needs the end-of-turn token, and "
                 "the tokenizer has no " +
                 std::string(rt::endOfTurnToken(config.chat)) +
                 "; give --eot-id (-1: the model has none)");
  result.lengths.sampling.eosToken = config.eosToken;
  result.lengths.sampling.eotToken = endOfTurn;
  result.rules = {.tokenizer = tokenizer.get(),
                  .maskToken = config.maskToken,
                  .eosToken = config.eosToken,
                  .endOfTurn = endOfTurn,
                  .raw = options.raw};
  return Status::success();
}

std::optional<Failure> Session::prepareLengths() {
  int64_t longest = *std::max_element(result.promptLengths.begin(),
                                      result.promptLengths.end());
  resolveLengths(options, config.maxSequenceLength - longest, result.lengths);
  if (!options.commitOrderFile.empty()) {
    Result<std::vector<int32_t>> order =
        readCommitOrder(options.commitOrderFile);
    if (!order)
      return Failure(order.takeError().withContext("--commit-order"));
    result.lengths.commitOrder = std::move(*order);
  }
  if (Status status = rt::checkOptions(result.lengths); !status)
    return Failure(exitUsage, status.takeError());
  if (Status status = rt::checkPrompts(config, prompts, result.lengths);
      !status)
    return Failure(status.takeError());
  return std::nullopt;
}

/// A bundle whose steps compute all pairs of all rows; commits as it may.
Result<bundle::Bundle> Session::readDense(const std::string &path) const {
  Result<bundle::Bundle> read =
      readBundle(path, options.digests, options.rebuild);
  if (!read)
    return read;
  for (const bundle::Kernel &kernel : read->manifest().kernels)
    if (kernel.kind == bundle::Kernel::Kind::Attention && !kernel.terms.empty())
      return Error(path + ": --compare-dense takes a dense schedule, but '" +
                   read->manifest().schedule + "' has the sparse kernel '" +
                   kernel.name + "'");
  if (read->manifest().visible >= 0 || !read->manifest().passes.empty())
    return Error(path + ": --compare-dense takes a dense schedule, but '" +
                 read->manifest().schedule + "' does not compute all rows");
  return read;
}

/// Opens what --compare-dense names and looks that it can run, before the
/// weights are loaded and the run that it is compared with is made.
std::optional<Failure> Session::prepareComparison() {
  if (options.compareDense.empty())
    return std::nullopt;
  Result<bundle::Bundle> read = readDense(options.compareDense);
  if (!read)
    return Failure(interrupted() ? exitInterrupted : exitFailure,
                   read.takeError());
  dense = std::move(*read);
  if (Status status = rt::checkSchedule(dense->manifest(), result.lengths);
      !status)
    return Failure(exitUsage, status.takeError().withContext(
                                  printablePath(options.compareDense)));
  auto engine = makeEngine(*dense, options.compareDense);
  if (!engine)
    return Failure(engine.takeError());
  denseEngine = std::move(*engine);
  Result<rt::MemoryUse> memory =
      device->checkRun(*denseEngine, result.promptLengths, result.lengths);
  if (!memory)
    return Failure(
        memory.takeError().withContext(printablePath(options.compareDense)));
  return std::nullopt;
}

Result<std::unique_ptr<rt::StepEngine>>
Session::makeEngine(const bundle::Bundle &bundle, const std::string &path) {
  auto engine = device->engine(bundle);
  if (!engine)
    return engine.takeError().withContext(path);
  return std::move(*engine);
}

/// What a dense run of these prompts would cost; warns of what is in vain.
void Session::countDense(const bundle::Manifest &manifest) {
  const rt::GenerateOptions &lengths = result.lengths;
  result.selects = !manifest.selections.empty();
  result.isDense = manifest.computesAll() &&
                   std::all_of(manifest.kernels.begin(), manifest.kernels.end(),
                               [](const bundle::Kernel &kernel) {
                                 return kernel.terms.empty();
                               });
  if (std::string idle = explain::idleStepsText(manifest, lengths.blockLength);
      !idle.empty() && !options.quiet)
    std::fprintf(stderr, "heddle-run: warning: %s\n", idle.c_str());
  result.shape = explain::shapeOf(config);
  result.shape.elementBytes = rt::byteSize(result.dtype);
  // Guidance runs each sequence twice.
  std::vector<int64_t> rows;
  for (int half = 0; half < (lengths.sampling.cfgScale > 0 ? 2 : 1); ++half)
    for (int64_t prompt : result.promptLengths)
      rows.push_back(prompt + lengths.genLength);
  explain::RunCostRequest request{
      .run = {.steps = lengths.steps,
              .length = rows.front(),
              .prompt = result.promptLengths.front(),
              .blockLength = lengths.blockLength,
              .tokensPerStep = 1,
              .shifted = config.shiftedLogits},
      .shape = result.shape,
      .machine = explain::machineOf(manifest)};
  if (lengths.sampling.timesteps)
    request.run.eps = lengths.sampling.timesteps->eps;
  const explain::RunCost cost = explain::costOfDense(request, rows);
  result.dense = cost.run;
}

/// --dtype, or what the bundle has that is nearest to the weights.
Status Session::chooseDType(const bundle::Manifest &manifest) {
  if (!options.randomWeights) {
    Result<std::optional<rt::DType>> stored = rt::storedDType(options.model);
    if (!stored)
      return stored.takeError();
    result.weights = *stored;
  }
  if (options.dtype) {
    result.dtype = *options.dtype;
    return Status::success();
  }
  // Random weights are of the type that released models have.
  rt::DType wanted = result.weights.value_or(rt::DType::BF16);
  result.dtype = rt::nearestDType(
      wanted, rt::offeredDTypes(manifest,
                                result.onHost ? bundle::Target::Kind::Host
                                              : bundle::Target::Kind::Cuda,
                                config.headDim));
  if (result.dtype != wanted && !options.quiet)
    std::fprintf(stderr,
                 "heddle-run: the weights are %s, which the bundle has no code "
                 "for; computing in %s, the nearest that it has\n",
                 rt::name(wanted).data(), rt::name(result.dtype).data());
  return Status::success();
}

Status Session::loadModel() {
  if (options.randomWeights)
    return device->loadRandom(options.sampling.seed);
  rt::LoadOptions load;
  load.dtype = result.dtype;
  load.progress = [&](int64_t done, int64_t total) {
    progress.loading(done, total);
  };
  load.interrupted = interrupted;
  Status loaded = device->load(options.model, load);
  progress.clear();
  return loaded;
}

Status Session::openSinks() {
  if (!options.stepsJson.empty()) {
    Result<LineFile> file = LineFile::open(options.stepsJson);
    if (!file)
      return file.takeError();
    stepLog.emplace(std::move(*file));
  }
  if (!options.trace.empty()) {
    Result<LineFile> file = LineFile::open(options.trace);
    if (!file)
      return file.takeError();
    traceLog.emplace(std::move(*file), selections, result.promptLengths,
                     config);
    result.lengths.trace = true;
  }
  if (!options.record.empty()) {
    // It is written after the run: what cannot be written is said before.
    if (Status status = bundle::checkWritable(options.record); !status)
      return status.takeError().withContext("--record");
    openRecord();
  }
  if (!options.visual)
    return Status::success();
  if (!isatty(STDOUT_FILENO)) {
    if (!options.quiet)
      std::fputs("heddle-run: --visual needs a terminal on standard output; "
                 "going on without it\n",
                 stderr);
    return Status::success();
  }
  if (!hasControlCodes()) {
    const char *kind = std::getenv("TERM");
    if (!options.quiet)
      std::fprintf(stderr,
                   "heddle-run: --visual needs a terminal that can move its "
                   "cursor, and TERM says '%s'; going on without it\n",
                   kind ? kind : "");
    return Status::success();
  }
  canvas.emplace(result.rules, result.promptLengths,
                 result.lengths.blockLength);
  return Status::success();
}

void Session::openRecord() {
  rt::GenerateOptions &lengths = result.lengths;
  lengths.trace = true;
  lengths.maps.cells = options.recordCells ? options.recordCells
                       : config.layers * config.queryHeads > 256 ? 32
                                                                 : 64;
  lengths.mapEvery = options.recordEvery
                         ? options.recordEvery
                         : std::max<int64_t>(1, (lengths.steps + 15) / 16);
  const std::time_t now = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof(date), "%Y-%m-%d", std::localtime(&now));
  const std::filesystem::path folder =
      std::filesystem::absolute(options.model).lexically_normal();
  record.emplace(
      RunRecord::About{
          .schedule = result.schedule,
          .source = source,
          .model = (folder.has_filename() ? folder : folder.parent_path())
                       .filename()
                       .string(),
          .device = device->description(),
          .dtype = std::string(rt::name(result.dtype)),
          .date = date,
          .promptLength = result.promptLengths.front(),
          .selections = selections,
          .lengths = lengths,
          .text =
              [this](int32_t token) {
                return tokenizer ? tokenizer->decode({&token, 1}, false)
                                 : std::to_string(token);
              }},
      config);
}

bool Session::observe(const rt::StepRecord &step) {
  if (result.totals.steps == 0)
    result.firstStepSeconds = secondsSince(start);
  result.totals.add(step);
  result.cost += costOf(result.shape, step);
  if (stepLog)
    stepLog->step(step);
  if (traceLog)
    traceLog->step(step);
  if (record)
    record->step(step);
  if (canvas)
    canvas->step(step, progressLine(result.totals, step.totalSteps,
                                    terminalSize(STDOUT_FILENO).columns));
  else
    progress.step(result.totals, step.totalSteps);
  return !interrupted();
}

Status Session::generate(rt::StepEngine &engine) {
  Result<rt::Generation> generation = rt::generate(
      engine, prompts, result.lengths,
      [&](const rt::StepRecord &record) { return observe(record); });
  progress.clear();
  canvas.reset();
  if (!generation)
    return generation.takeError();
  result.generation = std::move(*generation);
  if (stepLog)
    if (Status status = stepLog->finish(result.generation, result.promptLengths,
                                        result.lengths);
        !status)
      return status;
  if (record)
    if (Status status = record->finish(options.record, result.generation);
        !status)
      return status;
  return traceLog ? traceLog->finish() : Status::success();
}

Status Session::compareWithDense(rt::StepEngine &engine) {
  Totals totals;
  Result<rt::Generation> dense = rt::generate(
      engine, prompts, result.lengths, [&](const rt::StepRecord &record) {
        totals.add(record);
        progress.step(totals, record.totalSteps);
        return !interrupted();
      });
  progress.clear();
  if (!dense)
    return dense.takeError().withContext(printablePath(options.compareDense));
  if (!dense->complete) {
    if (!options.quiet)
      std::fputs("heddle-run: the comparison was interrupted\n", stderr);
    return Status::success();
  }
  result.comparison =
      compareResponses(result.generation, *dense, result.promptLengths);
  result.comparison->bundle = options.compareDense;
  result.comparison->seconds = totals.seconds;
  return Status::success();
}

Status Session::report() {
  std::string text = options.json ? jsonReport(result)
                     : options.stepsJson != "-" && options.trace != "-"
                         ? textReport(result)
                         : std::string();
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    return Error(std::string("standard output could not be written: ") +
                 std::strerror(errno));
  if (!options.quiet)
    std::fprintf(stderr, "heddle-run: %s", summary(result).c_str());
  return Status::success();
}

} // namespace

int runSession(const RunOptions &options, Clock::time_point start) {
  installInterruptHandler();
  std::variant<int, Failure> outcome =
      options.info ? [&]() -> std::variant<int, Failure> {
    if (Status status = printInfo(options); !status)
      return Failure(status.takeError());
    return 0;
  }()
      : Session(options, start).run();
  if (const int *code = std::get_if<int>(&outcome))
    return *code;
  const Failure &failure = std::get<Failure>(outcome);
  if (options.json && !failure.reported) {
    std::fputs(jsonFailure(failure.error.text()).c_str(), stdout);
    std::fflush(stdout);
  }
  std::fprintf(stderr, "heddle-run: error: %s\n",
               printableLines(failure.error.text()).c_str());
  return failure.code;
}

} // namespace heddle::run
