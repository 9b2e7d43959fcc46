//===- CommandLineTest.cpp - The program's usage errors and exit codes ----===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Program.h"
#include "Report.h"
#include "TinySetup.h"
#include "runtime/base/Machine.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <dlfcn.h>

using namespace heddle::run::test;

namespace {

void expectUsageError(const std::string &arguments,
                      const std::string &message) {
  Outcome outcome = heddleRun(arguments);
  EXPECT_EQ(outcome.code, 2) << arguments;
  if (arguments.find("--json") == std::string::npos)
    EXPECT_EQ(outcome.out, "") << arguments;
  else
    EXPECT_EQ(outcome.out, heddle::run::jsonFailure(message)) << arguments;
  EXPECT_EQ(outcome.err, "heddle-run: error: " + message +
                             "\nTry 'heddle-run --help' for all options.\n");
}

TEST(CommandLine, HelpAndVersion) {
  Outcome help = heddleRun("--help");
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(help.err, "");
  for (const char *text : {"--model",          "--bundle",
                           "--prompt-file",    "--prompts-file",
                           "--prompt-ids",     "--chat",
                           "--system",         "--gen-length",
                           "--steps",          "--block-length",
                           "--temperature",    "--seed",
                           "--cfg-scale",      "--remasking",
                           "--logits-eos-inf", "--confidence-eos-eot-inf",
                           "--eot-id",         "--alg",
                           "--alg-temp",       "--eps",
                           "--top-p",          "--top-k",
                           "--json",           "--steps-json",
                           "--visual",         "--raw",
                           "--compare-dense",  "--info",
                           "--quiet",          "--no-progress",
                           "--dtype",          "--threads",
                           "--device",         "--random-weights",
                           "--version",        "Examples:",
                           "Exit codes:"})
    EXPECT_NE(help.out.find(text), std::string::npos) << text;
  Outcome version = heddleRun("--version");
  EXPECT_EQ(version.code, 0);
  EXPECT_EQ(version.out.find("heddle-run "), 0u);
  EXPECT_NE(version.out.find("kernel ABI "), std::string::npos);
}

TEST(CommandLine, HelpAndVersionThatDoNotArriveAreErrors) {
  for (const char *option : {"--help", "--version"}) {
    Outcome outcome = heddleRun(std::string(option) + " > /dev/full");
    EXPECT_EQ(outcome.code, 1) << option;
    EXPECT_EQ(outcome.err.find("heddle-run: error: cannot write to stdout"), 0u)
        << outcome.err;
  }
}

/// Else the log, the next file that is opened, would be standard output.
TEST(CommandLine, ClosedStreamsAreNoFiles) {
  TinySetup setup;
  std::string log = setup.path() + "/steps.jsonl";
  Outcome outcome = heddleRun(setup.dense() + "abc --gen-length 4 -q " +
                              "--steps-json " + log + " <&- >&-");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find("standard output could not be written"),
            std::string::npos)
      << outcome.err;
  std::istringstream lines(contents(log));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    EXPECT_EQ(line.front() == '{' && line.back() == '}', true) << line;
  EXPECT_EQ(count, 5); // four steps and the last line
  EXPECT_EQ(heddleRun(setup.dense() + "abc --gen-length 4 2>&-").code, 0);
}

/// Below these limits libraries end in a segmentation fault. The environment
/// stands on the stack, so there is none.
TEST(CommandLine, LimitsThatAreTooLow) {
  TinySetup setup;
  auto under = [&](const std::string &limit) {
    std::string base = setup.path() + "/limited";
    int status =
        std::system(("ulimit " + limit + "; env -i '" HEDDLE_RUN_PROGRAM "' " +
                     setup.dense() + "abc --gen-length 4 > " + base +
                     ".out 2> " + base + ".err < /dev/null")
                        .c_str());
    EXPECT_TRUE(WIFEXITED(status)) << limit;
    EXPECT_EQ(WEXITSTATUS(status), 1) << limit;
    return contents(base + ".err");
  };
  auto said = [](const std::string &limit) {
    return "heddle-run: error: the limit on the stack is " + limit +
           " KB, this program needs at least 256 KB: raise it with 'ulimit "
           "-s'\n";
  };
  EXPECT_EQ(under("-s 64"), said("64"));
  // A sanitizer takes terabytes of address space for itself, and stack.
  if (::dlsym(RTLD_DEFAULT, "__asan_init"))
    return;
  EXPECT_EQ(under("-s 16"), said("16"));
  for (const char *limit : {"60500", "61000", "61500", "62000"}) {
    std::string text = under(std::string("-v ") + limit);
    EXPECT_EQ(text.find("heddle-run: error: the limit on address space is "),
              0u)
        << text;
  }
}

TEST(CommandLine, ThreadsBeyondTheCores) {
  TinySetup setup;
  Outcome outcome =
      heddleRun(setup.dense() + "abc --gen-length 4 --threads 4000");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  int cores = heddle::rt::availableCores();
  std::string warning =
      "heddle-run: --threads 4000, but this process may use " +
      std::to_string(cores) + " core" + (cores == 1 ? "" : "s") +
      ": that is slower than --threads " + std::to_string(cores);
  if (4 * cores < 4000)
    warning += "; going on with " + std::to_string(4 * cores);
  EXPECT_EQ(outcome.err.find(warning + "\n"), 0u) << outcome.err;
  EXPECT_NE(outcome.err.find(", " + std::to_string(4 * cores) + " threads"),
            std::string::npos)
      << outcome.err;
  EXPECT_EQ(
      heddleRun(setup.dense() + "abc --gen-length 4 -q --threads 4000").err,
      "");
}

TEST(CommandLine, GuidanceThatOverflows) {
  for (const char *scale : {"1e+38", "1e+300", "10001"})
    expectUsageError("-m x -b y hello --cfg-scale " + std::string(scale),
                     "--cfg-scale: " + std::string(scale) +
                         " makes the logits overflow, whose differences it "
                         "multiplies; expected 0 to 10000");
}

TEST(CommandLine, WhatIsMissing) {
  expectUsageError("hello", "no model: give --model with a folder that holds "
                            "config.json and safetensors");
  expectUsageError("-m x hello",
                   "no schedule: give --bundle with a file that heddlec made, "
                   "as by 'heddlec examples/dense.mlir -o dense.hdl'");
  expectUsageError("--info", "--info needs --model, --bundle or --device=cuda");
}

TEST(CommandLine, WhatIsNoValue) {
  expectUsageError("-m x -b y hello --steps-json ''",
                   "--steps-json is empty, expected a file or '-'");
  expectUsageError("-m x -b y hello --temperature 1e400",
                   "--temperature: 1e400 is too large");
  expectUsageError("-m x -b y hello --eot-id -2",
                   "--eot-id: -2 is no token id; expected one, or -1 for none");
}

TEST(CommandLine, WhatIsGivenTwice) {
  expectUsageError("-m x -b y hello --gen-length 16 --gen-length 32",
                   "--gen-length is given 2 times, '16' and '32'; give it "
                   "once");
  expectUsageError("-m x -b y hello --dtype=f32 --dtype bf16 --dtype=f32",
                   "--dtype is given 3 times, 'f32', 'bf16' and 'f32'; give "
                   "it once");
}

TEST(CommandLine, AnEmptyValueTakesNoArgument) {
  for (const char *option : {"--steps-json", "--model", "--cfg-scale"})
    expectUsageError(option + std::string("= kept.txt"),
                     option +
                         std::string(": expected a value behind '=', found "
                                     "none"));
  EXPECT_FALSE(std::filesystem::exists("kept.txt"));
  // Behind -- stands a prompt.
  EXPECT_EQ(heddleRun("-- --steps-json=").err.find("expected a value"),
            std::string::npos);
}

TEST(CommandLine, TheLogDoesNotReplaceAnInput) {
  std::string bundle = ::testing::TempDir() + "input.hdl";
  std::ofstream(bundle) << "a bundle";
  expectUsageError("-m x -b '" + bundle + "' hello --steps-json '" +
                       ::testing::TempDir() + "./input.hdl'",
                   "--steps-json: " + ::testing::TempDir() +
                       "./input.hdl is a file that this run reads; give "
                       "another name");
  std::ifstream file(bundle);
  std::string text;
  std::getline(file, text);
  EXPECT_EQ(text, "a bundle");
}

// Files are compared, not the ways in which they are named.
TEST(CommandLine, EachLogHasAFileOfItsOwn) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(::testing::TempDir()) / "logs";
  fs::remove_all(folder);
  fs::create_directory(folder);
  const std::string in = folder.string() + "/";
  std::ofstream(in + "a.log").close();
  std::ofstream(in + "order.txt") << "0";
  fs::create_hard_link(in + "a.log", in + "hard.log");
  fs::create_symlink("not-yet.log", in + "link.log");
  const std::string traceAndSteps = "--trace and --steps-json would both write "
                                    "to ",
                    own = "; give each its own file",
                    read = " is a file that this run reads; give another name";
  const std::pair<std::string, std::string> refused[] = {
      // Of neither there is anything yet, so that only the names say it.
      {"hello --steps-json no.log --trace ./no.log",
       traceAndSteps + "no.log" + own},
      {"hello --steps-json no.log --record ./no.log",
       "--steps-json and --record would both write to ./no.log" + own},
      {"hello --steps-json " + in + "link.log --trace " + in + "not-yet.log",
       traceAndSteps + in + "link.log" + own},
      {"hello --steps-json " + in + "a.log --trace " + in + "hard.log",
       traceAndSteps + in + "a.log" + own},
      {"hello --steps-json - --trace " + in + "a.log >> " + in + "hard.log",
       traceAndSteps + "standard output" + own},
      {"hello --steps-json " + in + "a.log >> " + in + "hard.log",
       "--steps-json and standard output would both write to " + in + "a.log" +
           own},
      {"hello --commit-order " + in + "order.txt --trace " + in + "./order.txt",
       "--trace: " + in + "./order.txt" + read},
      {"--trace " + in + "order.txt < " + in + "order.txt",
       "--trace: " + in + "order.txt" + read}};
  for (const auto &[arguments, message] : refused) {
    Outcome outcome = heddleRun("-m x -b y " + arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_EQ(outcome.err, "heddle-run: error: " + message +
                               "\nTry 'heddle-run --help' for all options.\n");
  }
  EXPECT_EQ(contents(in + "order.txt"), "0");
  EXPECT_EQ(contents(in + "a.log"), "");
  // Nothing is lost of what goes nowhere.
  EXPECT_EQ(heddleRun("-m x -b y --trace /dev/null > /dev/null").code, 1);
  fs::remove_all(folder);
}

TEST(CommandLine, WhatContradicts) {
  expectUsageError("-m x -b y hello --prompt-ids 1,2",
                   "PROMPT and --prompt-ids are given; prompts come from one "
                   "of them");
  expectUsageError("-m x -b y --prompt-file a --prompts-file b",
                   "--prompt-file and --prompts-file are given; prompts come "
                   "from one of them");
  expectUsageError("-m x -b y hello --json --visual",
                   "--visual draws on standard output, where --json writes; "
                   "leave one out");
  expectUsageError("-m x -b y hello --json --steps-json -",
                   "--steps-json - writes to standard output, where --json "
                   "writes; give it a file");
  const std::string one = ::testing::TempDir() + "one.out";
  expectUsageError("-m x -b y hello --trace '" + one + "' --record '" + one +
                       "'",
                   "--trace and --record would both write to " + one +
                       "; give each its own file");
  expectUsageError("-m x -b y hello --steps-json '" + one + "' --record '" +
                       ::testing::TempDir() + "./one.out'",
                   "--steps-json and --record would both write to " +
                       ::testing::TempDir() +
                       "./one.out; give each its own file");
  expectUsageError("-m x -b y --chat --prompt-ids 1",
                   "--chat puts text into the chat template; --prompt-ids are "
                   "taken as they are: leave one out");
  expectUsageError("-m x -b y hello --device=cuda:x",
                   "--device: there is no device 'cuda:x'; expected cpu, cuda "
                   "or cuda:N with N from 0");
}

TEST(CommandLine, WhatIsNoNumberOrName) {
  for (const char *arguments :
       {"--gen-length abc", "--gen-length 1.5", "--steps ''",
        "--temperature ''", "--seed -1", "--seed 18446744073709551616",
        "--eot-id 3000000000", "--threads -1", "--threads 99999",
        "--temperature warm", "--dtype fp8", "--remasking sometimes",
        "--no-such-option", "--system hi", "--model"}) {
    Outcome outcome =
        heddleRun(std::string("-b y hello ") + arguments +
                  (std::string(arguments) == "--model" ? "" : " -m x"));
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_EQ(outcome.err.find("heddle-run: error: "), 0u) << outcome.err;
  }
}

TEST(CommandLine, NamesWhatWouldDo) {
  expectUsageError("-m x -b y hello --dtype fp8",
                   "--dtype: 'fp8' is none of f32, bf16, f16");
  expectUsageError("-m x -b y hello --remasking best",
                   "--remasking: 'best' is none of low_confidence, random");
  expectUsageError("-m x -b y hello --seed -1",
                   "--seed: -1 is out of range, expected 0 to "
                   "18446744073709551615");
  expectUsageError("-m x -b y hello --steps 9223372036854775808",
                   "--steps: 9223372036854775808 is out of range, expected "
                   "-9223372036854775808 to 9223372036854775807");
  expectUsageError("-m x -b y hello --steps 0x10",
                   "--steps: '0x10' is not a whole number");
  expectUsageError("-m x -b y hello --temperature 0x2",
                   "--temperature: '0x2' is not a number");
  expectUsageError("-m x -b y hello --record-cells 0x10",
                   "--record-cells: '0x10' is not a whole number");
}

TEST(CommandLine, AModelThatIsNotThere) {
  Outcome outcome = heddleRun("-m /nonexistent -b y hello");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err.find("heddle-run: error: "), 0u);
  EXPECT_NE(outcome.err.find("/nonexistent"), std::string::npos);

  outcome = heddleRun("-m /nonexistent -b y hello --json");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.out.find("\"complete\": false"), std::string::npos);
  EXPECT_NE(outcome.out.find("/nonexistent"), std::string::npos);
}

} // namespace
