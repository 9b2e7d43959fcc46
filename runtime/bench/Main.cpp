//===- Main.cpp - heddle-bench --------------------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/Process.h"
#include "bundle/format/File.h"
#include "bundle/program/Printable.h"
#include "runtime/base/Parallel.h"
#include "runtime/bench/Asked.h"
#include "runtime/bench/CudaBench.h"
#include "runtime/bench/CudaProducts.h"
#include "runtime/bench/CudaTune.h"
#include "runtime/bench/KernelBench.h"
#include "runtime/bench/Report.h"
#include "runtime/engine/Device.h"

#include <CLI/CLI.hpp>
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

using namespace heddle;

namespace {

constexpr int exitFailure = 1, exitUsage = 2;

int fail(const Error &error) {
  std::fprintf(stderr, "error: %s\n", printableLines(error.text()).c_str());
  return exitFailure;
}

int writeJson(const std::string &path, const std::string &text) {
  if (path.empty())
    return 0;
  Status status = bundle::writeFileAtomically(path, text);
  return status ? 0 : fail(status.error());
}

/// `code`, or failure when what was printed did not arrive.
int finish(int code) {
  Status status = bundle::flushStandardOutput();
  if (status)
    return code;
  const int failed = fail(status.error());
  return code == 0 ? failed : code;
}

int refuse(const std::string &message) {
  std::fprintf(stderr,
               "error: %s\nTry 'heddle-bench --help' for all options.\n",
               printableLines(message).c_str());
  return exitUsage;
}

/// The command line.
struct Options {
  std::vector<std::string> bundles;
  std::string device = "cpu", json;
  bench::Request common; ///< what both kinds of devices have, as the host's
  bench::CudaRequest gpu;
  bench::TuneRequest tune;
  bool products = false;
  int threads = 0;
};

constexpr const char *gpuGroup = "On a GPU";
constexpr const char *tuningGroup = "Tuning on a GPU";

void addOptions(CLI::App &app, Options &options) {
  app.add_option("--bundle", options.bundles,
                 "Bundles to time; may be repeated");
  app.add_option("--device", options.device, "cpu, cuda or cuda:N")
      ->capture_default_str();
  app.add_option("--lengths", options.common.lengths, "Sequence lengths")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(int64_t(1), int64_t(1) << 20))
      ->capture_default_str();
  app.add_option("--dtype", options.common.dtypes,
                 "Element types, of f32, bf16 and f16 (default: all of the "
                 "kernels; of a model: bf16)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform([](std::string text) { // the spelling of papers
        return text == "fp32" || text == "fp16" ? "f" + text.substr(2) : text;
      })
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  app.add_option("--head-dim", options.common.headDims,
                 "Head dims (default: all)")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--heads", options.common.heads,
                 "Heads (default: 4, on a GPU 32)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--repetitions", options.common.repetitions,
                 "Repetitions, of which the median counts (default: 5, on a "
                 "GPU 15)")
      ->check(CLI::Range(1, 1000));
  app.add_option("--json", options.json, "Also write the figures to this file");
  app.option_defaults()->group("On the host");
  app.add_option("--threads", options.threads, "Threads (default: one a core)")
      ->check(CLI::Range(0, 4096));
  app.option_defaults()->group(gpuGroup);
  app.add_option("--model", options.gpu.model,
                 "A folder with a config.json: times the steps of such a "
                 "model, with random weights");
  app.add_option("--kernel", options.gpu.kernel,
                 "Only kernels whose names start so, as attention_kept");
  app.add_option("--rows", options.gpu.rows,
                 "Times attention of so many query rows over all of a "
                 "sequence's cached keys, as steps of some rows do, and says "
                 "GB/s")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 20));
  app.add_option(
         "--sequences", options.gpu.sequences,
         "With --rows: sequences of a launch, each with keys of its own")
      ->check(CLI::Range(int64_t(1), int64_t(65535)))
      ->capture_default_str();
  app.add_option("--kv-heads", options.gpu.kvHeads,
                 "Key/value heads, a divisor of --heads (default: as many)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--gen-length", options.gpu.genLength,
                 "Generated tokens of a run")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 20))
      ->capture_default_str();
  app.add_option("--steps", options.gpu.steps, "Steps of a run")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 20))
      ->capture_default_str();
  app.add_flag("--whole-runs", options.gpu.wholeRuns, "Also times whole runs");
  app.add_flag("--products", options.products,
               "Times cuBLASLt's algorithms for the model's products instead, "
               "with --lengths rows, and compares their bits");
  app.option_defaults()->group(tuningGroup);
  app.add_option("--tune", options.tune.table,
                 "Times bundles of several tilings and adds the fastest to "
                 "this table, for heddlec --tuning. Beside each bundle, "
                 "NAME.hdl, stands the table that it was compiled with, "
                 "NAME.json, with one tiling; of one bundle, the baseline, "
                 "with none. All are timed at the first of --lengths, then the "
                 "fastest and the baseline in rounds at all of them");
  app.add_option("--finalists", options.tune.finalists,
                 "Tilings that go on to the rounds")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--rounds", options.tune.rounds,
                 "Rounds, of which the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--seconds", options.tune.seconds,
                 "Of each measurement, back to back")
      ->check(CLI::Range(0.001, 60.0)) // of NaN it asks nothing
      ->check(
          [](const std::string &text) {
            return std::isnan(std::strtod(text.c_str(), nullptr))
                       ? "'" + text + "' is no number of seconds"
                       : std::string();
          },
          "")
      ->capture_default_str();
}

/// Refuses what does not apply to what is timed.
Status check(const CLI::App &app, const Options &options) {
  auto refuseAll = [&](std::initializer_list<const char *> names,
                       const std::string &why) -> Status {
    for (const char *name : names)
      if (app.count(name))
        return Error(std::string(name) + why);
    return Status::success();
  };
  if (Status s = rt::checkDeviceName(options.device); !s)
    return s.takeError().withContext("--device");
  for (int64_t dim : options.common.headDims)
    if (dim < 1)
      return Error("--head-dim: " + std::to_string(dim) + " is none");
  if (options.device == "cpu") {
    for (const CLI::Option *option : app.get_options())
      if (option->count() && (option->get_group() == gpuGroup ||
                              option->get_group() == tuningGroup))
        return Error(option->get_name() +
                     " is for GPUs; give --device=cuda too");
    return Status::success();
  }
  if (Status s = refuseAll({"--threads"}, " is for --device=cpu"); !s)
    return s;
  if (std::vector<std::string> rest = app.remaining(); !rest.empty())
    return Error("'" + rest.front() +
                 "' is unknown (only with --device=cpu do other options go to "
                 "Google Benchmark)");
  if (options.gpu.model.empty()) {
    if (Status s =
            refuseAll({"--gen-length", "--steps", "--whole-runs", "--products"},
                      " is for the steps of a model; give --model too");
        !s)
      return s;
  } else {
    if (Status s = refuseAll({"--heads", "--head-dim"},
                             " is said by the model's config.json");
        !s)
      return s;
    if (Status s =
            refuseAll({"--kernel", "--rows", "--sequences", "--kv-heads"},
                      " is for kernels, not for steps");
        !s)
      return s;
    if (options.common.dtypes.size() > 1)
      return Error("--dtype names several types; a model has one");
  }
  if (options.gpu.rows == 0)
    if (Status s =
            refuseAll({"--sequences"}, " is for few rows; give --rows too");
        !s)
      return s;
  if (options.tune.table.empty()) {
    if (Status s = refuseAll({"--finalists", "--rounds", "--seconds"},
                             " is for tilings; give --tune too");
        !s)
      return s;
  } else if (Status s = refuseAll({"--model", "--rows", "--repetitions"},
                                  " has nothing to do with --tune");
             !s) {
    return s;
  }
  for (int64_t n : options.common.lengths)
    if (options.gpu.rows > n)
      return Error("--rows=" + std::to_string(options.gpu.rows) +
                   " is more than the " + std::to_string(n) +
                   " keys of --lengths");
  const int64_t heads =
      app.count("--heads") ? options.common.heads : options.gpu.heads;
  if (options.gpu.kvHeads && heads % options.gpu.kvHeads)
    return Error("--kv-heads=" + std::to_string(options.gpu.kvHeads) +
                 " does not divide the " + std::to_string(heads) + " heads");
  if (options.products)
    return refuseAll({"--bundle", "--gen-length", "--steps", "--whole-runs"},
                     " has nothing to do with --products");
  if (options.bundles.empty())
    return Error("nothing to time: give --bundle with a file that heddlec "
                 "made, as by 'heddlec examples/dense.mlir --target=cuda -o "
                 "dense.hdl'");
  return Status::success();
}

template <typename Row>
int printGpu(const Options &options, const Result<std::vector<Row>> &rows,
             const std::string &title, const std::string &device) {
  if (!rows)
    return fail(rows.error());
  std::printf("%s\n%s", title.c_str(), bench::toTable(*rows).c_str());
  return writeJson(options.json, bench::toJson(*rows, device));
}

int tuneOnGpu(const Options &options, const bench::CudaRequest &request) {
  if (Status s = bench::checkTable(options.tune.table); !s)
    return fail(s.error());
  auto candidates = bench::readCandidates(request.bundles);
  if (!candidates)
    return fail(candidates.error());
  std::string device;
  auto result = bench::runTuning(request, options.tune, *candidates, device);
  if (!result)
    return fail(result.error());
  std::printf("%s, %lld heads, %d rounds of %g s\n%s", device.c_str(),
              static_cast<long long>(request.heads), options.tune.rounds,
              options.tune.seconds,
              bench::toTable(*candidates, *result).c_str());
  if (int failed =
          writeJson(options.json, bench::toJson(*candidates, *result, device)))
    return failed;
  if (!result->best) {
    std::printf("no tiling is faster than the baseline at every length; %s is "
                "as it was\n",
                printablePath(options.tune.table).c_str());
    return 0;
  }
  const bench::Candidate &best = (*candidates)[*result->best];
  if (Status s = bench::addToTable(options.tune.table, best.tiling); !s)
    return fail(s.error());
  std::printf("%s: added to %s, for heddlec --tuning\n", best.name.c_str(),
              printablePath(options.tune.table).c_str());
  return 0;
}

int runOnGpu(const CLI::App &app, const Options &options) {
  bench::CudaRequest request = options.gpu;
  request.bundles = options.bundles;
  request.ordinal =
      options.device == "cuda" ? 0 : std::stoi(options.device.substr(5));
  request.lengths = options.common.lengths;
  request.dtypes = options.common.dtypes;
  request.headDims = options.common.headDims;
  if (app.count("--heads"))
    request.heads = options.common.heads;
  if (app.count("--repetitions"))
    request.repetitions = options.common.repetitions;
  if (!options.tune.table.empty())
    return tuneOnGpu(options, request);
  const std::string median = "median of " + std::to_string(request.repetitions);
  std::string device;
  if (options.products) {
    auto rows = bench::runProductBench(request, device);
    return printGpu(options, rows,
                    device + ", " + std::string(rt::name(request.modelType())) +
                        ", " + median,
                    device);
  }
  auto rows = bench::runCudaBench(request, device);
  return printGpu(options, rows,
                  device + ", " +
                      (request.model.empty()
                           ? std::to_string(request.heads) + " heads, "
                           : request.model + ", ") +
                      median,
                  device);
}

int runOnHost(const CLI::App &app, const Options &options, char *program) {
  rt::setThreadCount(options.threads);
  std::vector<bench::Subject> subjects;
  for (const std::string &path : options.bundles) {
    Result<bench::Subject> subject = bench::loadSubject(path);
    if (!subject)
      return fail(subject.error());
    const bundle::Manifest &manifest = subject->bundle->manifest();
    if (Status s =
            bench::checkAsked(manifest, bundle::hostTarget(manifest),
                              options.common.dtypes, options.common.headDims);
        !s)
      return fail(s.takeError().withContext(printablePath(path)));
    subjects.push_back(std::move(*subject));
  }
  std::vector<bench::Row> rows;
  bench::registerPeaks(options.common.repetitions, rows);
  for (const bench::Subject &subject : subjects)
    bench::registerKernels(subject, options.common, rows);

  // Repetitions of all benchmarks in mixed order, so that a clock or a
  // neighbour that changes during the run meets all of them alike.
  std::vector<std::string> arguments = {
      program, "--benchmark_enable_random_interleaving=true"};
  for (const std::string &extra : app.remaining())
    arguments.push_back(extra);
  std::vector<char *> pointers;
  for (std::string &argument : arguments)
    pointers.push_back(argument.data());
  int count = static_cast<int>(pointers.size());
  benchmark::Initialize(&count, pointers.data());
  if (benchmark::ReportUnrecognizedArguments(count, pointers.data()))
    return exitUsage;
  bench::Collector collector;
  benchmark::RunSpecifiedBenchmarks(&collector);
  collector.medians(rows);
  std::printf("%d threads, %lld heads, median of %d repetitions\n%s",
              rt::threadCount(), static_cast<long long>(options.common.heads),
              options.common.repetitions, bench::toTable(rows).c_str());
  if (int failed =
          writeJson(options.json, bench::toJson(rows, rt::threadCount())))
    return failed;
  return collector.failed() ? exitFailure : 0;
}

} // namespace

int main(int argc, char **argv) {
  bundle::startProgram("heddle-bench");
  CLI::App app("Times the kernels of bundles next to the machine's peak. On "
               "the host, other options (--benchmark_filter=...) go to Google "
               "Benchmark.");
  app.footer("Examples:\n"
             "  heddle-bench --bundle dense.hdl --bundle pulsecol.hdl\n"
             "  heddle-bench --bundle dense.hdl --dtype=bf16 --lengths=4096 "
             "--json bench.json\n"
             "  heddle-bench --device=cuda --bundle gpu.hdl --lengths=16384\n"
             "  heddle-bench --device=cuda --bundle dual.hdl --rows=32 "
             "--sequences=16 --lengths=65536\n"
             "  heddle-bench --device=cuda --bundle gpu.hdl --model DIR "
             "--lengths=4096,16384\n"
             "  heddle-bench --device=cuda --products --model DIR "
             "--lengths=1,4096\n"
             "  heddle-bench --device=cuda --tune=table.json --bundle "
             "portable.hdl --bundle 3x128.hdl\n"
             "Exit codes: 0 success, 1 a bundle, model or device cannot be "
             "used, 2 bad command line.");
  app.set_version_flag("--version", "heddle-bench " HEDDLE_VERSION);
  app.allow_extras();
  Options options;
  addOptions(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &success) { // --help, --version
    return finish(app.exit(success));
  } catch (const CLI::Error &error) {
    return refuse(error.what());
  }
  if (Status status = check(app, options); !status)
    return refuse(status.error().text());
  return finish(options.device == "cpu" ? runOnHost(app, options, argv[0])
                                        : runOnGpu(app, options));
}
