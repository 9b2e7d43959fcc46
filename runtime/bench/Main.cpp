//===- Main.cpp - heddle-bench --------------------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/File.h"
#include "runtime/base/Parallel.h"
#include "runtime/bench/CudaBench.h"
#include "runtime/bench/KernelBench.h"
#include "runtime/bench/Report.h"
#include "runtime/engine/Device.h"

#include <CLI/CLI.hpp>
#include <benchmark/benchmark.h>

#include <cstdio>
#include <fstream>

using namespace heddle;

static int writeJson(const std::string &path, const std::string &text) {
  if (path.empty())
    return 0;
  std::ofstream file(path, std::ios::trunc);
  file << text;
  if (file.flush())
    return 0;
  std::fprintf(stderr, "error: %s could not be written\n", path.c_str());
  return 1;
}

/// `common` holds the options that both kinds of devices have.
static int runOnGpu(const std::string &device,
                    const std::vector<std::string> &bundles,
                    const bench::Request &common, bench::CudaRequest request,
                    const std::string &json, bool hasHeads,
                    bool hasRepetitions) {
  request.bundles = bundles;
  request.ordinal =
      device.size() > 5 ? std::stoi(device.substr(5)) : 0; // "cuda:N"
  request.lengths = common.lengths;
  request.dtypes = common.dtypes;
  request.headDims = common.headDims;
  if (hasHeads)
    request.heads = common.heads;
  if (hasRepetitions)
    request.repetitions = common.repetitions;
  std::string name;
  Result<std::vector<bench::CudaRow>> rows = bench::runCudaBench(request, name);
  if (!rows) {
    std::fprintf(stderr, "error: %s\n", rows.error().text().c_str());
    return 1;
  }
  std::printf("%s, %lld heads, median of %d\n%s", name.c_str(),
              static_cast<long long>(request.heads), request.repetitions,
              bench::toTable(*rows).c_str());
  return writeJson(json, bench::toJson(*rows, name));
}

/// `code`, or failure when what was printed did not arrive.
static int finish(int code) {
  Status status = bundle::flushStandardOutput();
  if (status)
    return code;
  std::fprintf(stderr, "error: %s\n", status.error().text().c_str());
  return code == 0 ? 1 : code;
}

int main(int argc, char **argv) {
  CLI::App app("Times the kernels of bundles next to the machine's peak. Other "
               "options (--benchmark_filter=...) go to Google Benchmark.");
  app.footer("Examples:\n"
             "  heddle-bench --bundle dense.hdl --bundle pulsecol.hdl\n"
             "  heddle-bench --bundle dense.hdl --dtypes=bf16 --lengths=4096 "
             "--json bench.json\n"
             "  heddle-bench --device=cuda --bundle gpu.hdl --lengths=16384\n"
             "  heddle-bench --device=cuda --bundle gpu.hdl --model DIR "
             "--lengths=4096,16384\n");
  app.set_version_flag("--version", "heddle-bench " HEDDLE_VERSION);
  app.allow_extras();
  bench::Request request;
  std::vector<std::string> paths;
  std::string json;
  int threads = 0;
  app.add_option("--bundle", paths, "Bundles to time; may be repeated");
  app.add_option("--lengths", request.lengths, "Sequence lengths")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(int64_t(1), int64_t(1) << 20))
      ->capture_default_str();
  app.add_option("--dtypes", request.dtypes, "Element types (default: all)")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--head-dims", request.headDims, "Head dims (default: all)")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--heads", request.heads, "Heads")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--threads", threads, "Threads (default: one a core)")
      ->check(CLI::Range(0, 4096));
  app.add_option("--repetitions", request.repetitions,
                 "Repetitions, of which the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--json", json, "Also write the figures to this file");
  bench::CudaRequest cuda;
  std::string device = "cpu";
  app.add_option("--device", device, "cpu, cuda or cuda:N")
      ->capture_default_str();
  const char gpu[] = "On a GPU";
  app.add_option("--model", cuda.model,
                 "A folder with a config.json: times the steps of such a "
                 "model, with random weights")
      ->group(gpu);
  app.add_option("--dtype", cuda.dtype, "Of the model: bf16, f16 or f32")
      ->check(CLI::IsMember({"bf16", "f16", "f32"}))
      ->capture_default_str()
      ->group(gpu);
  app.add_option("--gen-length", cuda.genLength, "Generated tokens of a run")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 20))
      ->capture_default_str()
      ->group(gpu);
  app.add_option("--steps", cuda.steps, "Steps of a run")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 20))
      ->capture_default_str()
      ->group(gpu);
  app.add_flag("--whole-runs", cuda.wholeRuns, "Also times whole runs")
      ->group(gpu);
  app.add_flag("--products", cuda.products,
               "Also times all of cuBLASLt's algorithms for a layer's products")
      ->group(gpu);
  app.add_option("--product-choice", cuda.choice,
                 "Which algorithm products take: the fastest of those tried "
                 "out, cuBLASLt's first (heddle-run's choice), or a fixed one "
                 "(heddle-run --batch-invariant)")
      ->check(CLI::IsMember({"fastest", "first", "fixed"}))
      ->capture_default_str()
      ->group(gpu);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return finish(app.exit(error));
  }
  if (Status status = rt::checkDeviceName(device); !status) {
    std::fprintf(stderr, "error: --device: %s\n",
                 status.error().text().c_str());
    return 2;
  }
  if (device != "cpu")
    return runOnGpu(device, paths, request, cuda, json,
                    app.count("--heads") > 0, app.count("--repetitions") > 0);
  rt::setThreadCount(threads);

  std::vector<bench::Subject> subjects;
  for (const std::string &path : paths) {
    Result<bench::Subject> subject = bench::loadSubject(path);
    if (!subject) {
      std::fprintf(stderr, "error: %s\n", subject.error().text().c_str());
      return 1;
    }
    subjects.push_back(std::move(*subject));
  }
  std::vector<bench::Row> rows;
  bench::registerPeaks(request.repetitions, rows);
  for (const bench::Subject &subject : subjects)
    bench::registerKernels(subject, request, rows);

  // Repetitions of all benchmarks in mixed order, so that a clock or a
  // neighbour that changes during the run meets all of them alike.
  std::vector<std::string> options = {
      argv[0], "--benchmark_enable_random_interleaving=true"};
  for (const std::string &extra : app.remaining())
    options.push_back(extra);
  std::vector<char *> pointers;
  for (std::string &option : options)
    pointers.push_back(option.data());
  int count = static_cast<int>(pointers.size());
  benchmark::Initialize(&count, pointers.data());
  if (benchmark::ReportUnrecognizedArguments(count, pointers.data()))
    return 1;
  bench::Collector collector;
  benchmark::RunSpecifiedBenchmarks(&collector);
  collector.medians(rows);
  std::printf("%d threads, %lld heads, median of %d repetitions\n%s",
              rt::threadCount(), static_cast<long long>(request.heads),
              request.repetitions, bench::toTable(rows).c_str());
  if (int failed = writeJson(json, bench::toJson(rows, rt::threadCount())))
    return finish(failed);
  return finish(collector.failed() ? 1 : 0);
}
