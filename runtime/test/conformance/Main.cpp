//===- Main.cpp - heddle-conformance --------------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/Process.h"
#include "bundle/format/Bundle.h"
#include "bundle/format/File.h"
#include "runtime/test/conformance/Conformance.h"
#include "runtime/test/conformance/CudaCheck.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <random>

using namespace heddle;

/// -1 for "cpu", N for "cuda:N", 0 for "cuda", -2 for what is no device.
static int gpuOf(const std::string &name) {
  if (name == "cpu")
    return -1;
  if (name == "cuda")
    return 0;
  int ordinal = 0, used = 0;
  if (std::sscanf(name.c_str(), "cuda:%d%n", &ordinal, &used) != 1 ||
      used != static_cast<int>(name.size()) || ordinal < 0)
    return -2;
  return ordinal;
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
  bundle::startProgram("heddle-conformance");
  CLI::App app("Compares every kernel of bundles with float64 definitions, on "
               "this machine or one of its GPUs.");
  app.footer("Example:\n"
             "  heddle-conformance dense.hdl pulsecol.hdl --lengths=1,65,500\n"
             "  heddle-conformance gpu.hdl --device=cuda\n"
             "  heddle-conformance dense.hdl --rounds=10 --longest=300\n"
             "Exit codes: 0 all kernels conform, 1 some do not or a bundle "
             "cannot be run.");
  app.set_version_flag("--version", "heddle-conformance " HEDDLE_VERSION);
  conformance::Options options;
  std::vector<std::string> paths;
  app.add_option("bundles", paths, "Bundles to check")->required();
  app.add_option("--seed", options.seed, "Seed of the random inputs")
      ->envname("HEDDLE_SEED")
      ->capture_default_str();
  int64_t rounds = 1, longest = 1000;
  app.add_option("--rounds", rounds,
                 "Checks everything so often, from the second time on with the "
                 "next seed and, of what is not given, random lengths and "
                 "ratios up to 8")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 20))
      ->capture_default_str();
  CLI::Option *bound =
      app.add_option("--longest", longest,
                     "The most that random lengths are; if given, those of the "
                     "first time are random, too")
          ->check(CLI::Range(int64_t(1), int64_t(1) << 20))
          ->capture_default_str();
  app.add_option("--kernel", options.kernel,
                 "Only kernels with this in their names, and no step program");
  bool notWide = false, notPoisoned = false;
  app.add_flag("--not-wide", notWide,
               "On a GPU, no tensors of more than 4 GiB: for several processes "
               "at once, or under compute-sanitizer");
  app.add_flag("--not-poisoned", notPoisoned,
               "On a GPU, memory that nothing wrote is as it was allocated: "
               "compute-sanitizer's initcheck takes poison for written");
  CLI::Option *lengths =
      app.add_option("--lengths", options.lengths, "Sequence lengths, n")
          ->delimiter(',')
          ->allow_extra_args(false)
          ->check(CLI::Range(int64_t(1), int64_t(1) << 20));
  CLI::Option *ratios = app.add_option("--ratios", options.ratios,
                                       "Query heads per key/value head (1,7)")
                            ->delimiter(',')
                            ->allow_extra_args(false)
                            ->check(CLI::Range(int64_t(1), int64_t(1) << 10));
  std::string device = "cpu";
  app.add_option("--device", device,
                 "cpu, or cuda or cuda:N: the kernels for that GPU")
      ->check([](const std::string &name) -> std::string {
        return gpuOf(name) >= -1 ? "" : "expected cpu, cuda or cuda:N";
      });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return finish(app.exit(error) == 0 ? 0 : 2);
  }

  options.wide = !notWide;
  options.poison = !notPoisoned;
  conformance::describeFaults();
  std::vector<bundle::Bundle> bundles;
  for (const std::string &path : paths) {
    Result<bundle::Bundle> bundle = bundle::Bundle::read(path);
    if (!bundle) {
      std::fprintf(stderr, "error: %s\n", bundle.error().text().c_str());
      return 1;
    }
    bundles.push_back(std::move(*bundle));
  }
  const int gpu = gpuOf(device);
  auto report = [](const std::string &line) {
    std::printf("  %s\n", line.c_str());
    std::fflush(stdout);
  };
  bool ok = true;
  for (int64_t round = 0; round < rounds; ++round) {
    if (round > 0)
      ++options.seed;
    if (round > 0 || !bound->empty()) {
      std::mt19937_64 random(options.seed);
      auto draw = [&](std::vector<int64_t> &values, int64_t most) {
        for (int64_t &value : values)
          value = std::uniform_int_distribution<int64_t>(1, most)(random);
      };
      if (lengths->empty())
        draw(options.lengths, longest);
      if (ratios->empty())
        draw(options.ratios, 8);
    }
    std::printf("seed %llu\n", static_cast<unsigned long long>(options.seed));
    for (size_t i = 0; i < bundles.size(); ++i) {
      std::printf("%s\n", paths[i].c_str());
      Result<bool> conforms =
          gpu < 0 ? conformance::checkBundle(bundles[i], options, report)
                  : conformance::checkBundleOnCuda(bundles[i], gpu, options,
                                                   report);
      if (!conforms) {
        std::fprintf(stderr, "error: %s: %s\n", paths[i].c_str(),
                     conforms.error().text().c_str());
        return 1;
      }
      ok &= *conforms;
    }
  }
  return finish(ok ? 0 : 1);
}
