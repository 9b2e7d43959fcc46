//===- Main.cpp - heddle-bench --------------------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/File.h"
#include "runtime/base/Parallel.h"
#include "runtime/bench/KernelBench.h"
#include "runtime/bench/Report.h"

#include <CLI/CLI.hpp>
#include <benchmark/benchmark.h>

#include <cstdio>
#include <fstream>

using namespace heddle;

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
             "--json bench.json\n");
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
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return finish(app.exit(error));
  }
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
  if (!json.empty()) {
    std::ofstream file(json, std::ios::trunc);
    file << bench::toJson(rows, rt::threadCount());
    if (!file.flush()) {
      std::fprintf(stderr, "error: %s could not be written\n", json.c_str());
      return 1;
    }
  }
  return finish(collector.failed() ? 1 : 0);
}
