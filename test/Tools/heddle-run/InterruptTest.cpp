//===- InterruptTest.cpp - Signals, and the program on a terminal ---------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OnTerminal.h"
#include "Program.h"
#include "TinySetup.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <csignal>
#include <thread>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace heddle::run::test;
using nlohmann::json;

namespace {

/// Starts the program through a shell that it replaces; standard output and
/// error go to files.
pid_t start(const std::string &arguments, const std::string &base) {
  pid_t child = fork();
  if (child != 0)
    return child;
  std::string command = "exec '" HEDDLE_RUN_PROGRAM "' " + arguments + " > " +
                        base + ".out 2> " + base + ".err";
  execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
  _exit(127);
}

/// Waits until a file holds a whole line.
bool waitForLine(const std::string &path) {
  for (int i = 0; i < 2000; ++i) {
    if (contents(path).find('\n') != std::string::npos)
      return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// Many steps commit nothing: long enough to be interrupted anywhere.
const char longRun[] = "--prompt-ids 97,98 --gen-length 4 --block-length 2 "
                       "--steps 1000000 --steps-json ";

TEST(Interrupt, TheFirstSignalEndsTheRunInOrder) {
  TinySetup setup;
  std::string log = setup.path() + "/steps.jsonl", base = setup.path() + "/run";
  pid_t child = start(setup.dense() + longRun + log, base);
  ASSERT_TRUE(waitForLine(log));
  kill(child, SIGINT);
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  // Two tokens of the first block, two masked positions.
  std::string out = contents(base + ".out");
  EXPECT_NE(out.find("\u2591\u2591\n"), std::string::npos) << out;
  EXPECT_EQ(contents(base + ".err").find("heddle-run: interrupted after step "),
            0u);
  std::string lines = contents(log);
  size_t last = lines.rfind('\n', lines.size() - 2);
  json done = json::parse(lines.substr(last + 1));
  EXPECT_EQ(done["done"], true);
  EXPECT_EQ(done["complete"], false);
}

TEST(Interrupt, JsonSaysIncomplete) {
  TinySetup setup;
  std::string log = setup.path() + "/steps.jsonl", base = setup.path() + "/run";
  pid_t child = start(setup.dense() + longRun + log + " --json", base);
  ASSERT_TRUE(waitForLine(log));
  kill(child, SIGTERM);
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  json report = json::parse(contents(base + ".out"));
  EXPECT_EQ(report["complete"], false);
  EXPECT_GT(report["steps_done"], 0);
}

TEST(Interrupt, TheSecondSignalEndsTheProgram) {
  TinySetup setup;
  std::string log = setup.path() + "/steps.jsonl", base = setup.path() + "/run";
  pid_t child = start(setup.dense() + longRun + log, base);
  ASSERT_TRUE(waitForLine(log));
  // Both are pending when it goes on, so both arrive before the step ends.
  kill(child, SIGSTOP);
  int status = 0;
  waitpid(child, &status, WUNTRACED);
  kill(child, SIGINT);
  kill(child, SIGTERM);
  kill(child, SIGCONT);
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  int signal = WTERMSIG(status);
  EXPECT_TRUE(signal == SIGINT || signal == SIGTERM) << signal;
}

TEST(Terminal, VisualDrawsAndLeavesTheText) {
  TinySetup setup;
  Outcome outcome = heddleRunOnTerminal(
      70, 12, "xterm",
      setup.dense() + "'sort: cab' --visual --gen-length 8 --steps 8");
  const std::string &output = outcome.out;
  EXPECT_EQ(outcome.code, 0) << output;
  EXPECT_NE(output.find("\u2591"), std::string::npos) << output;
  EXPECT_NE(output.find("sort: cab"), std::string::npos);
  EXPECT_NE(output.find("step 8/8"), std::string::npos);
  // The drawing is erased, the cursor is back, and then comes the text.
  size_t erased = output.rfind("\x1b[J"), shown = output.rfind("\x1b[?25h");
  size_t summary = output.find("heddle-run: 8 tokens in ");
  ASSERT_NE(summary, std::string::npos) << output;
  EXPECT_LT(erased, shown);
  EXPECT_LT(shown, summary);
  std::string text = output.substr(shown + 6, summary - shown - 6);
  EXPECT_EQ(text.size(), 8u + 2) << text; // a terminal ends lines with \r\n
}

TEST(Terminal, ADumbOneGetsNoControlCodes) {
  TinySetup setup;
  Outcome outcome = heddleRunOnTerminal(
      70, 12, "dumb",
      setup.dense() + "'sort: cab' --visual --gen-length 8 --steps 8");
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("heddle-run: --visual needs a terminal that can "
                             "move its cursor, and TERM says 'dumb'; going on "
                             "without it"),
            std::string::npos)
      << outcome.out;
  EXPECT_NE(outcome.out.find("heddle-run: 8 tokens in "), std::string::npos);
}

} // namespace
