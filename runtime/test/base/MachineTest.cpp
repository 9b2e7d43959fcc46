//===- MachineTest.cpp - Limits of control groups, memory checks ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Machine.h"
#include "runtime/base/CpuName.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

using namespace heddle;
using namespace heddle::rt;

namespace {

/// A made-up /sys/fs/cgroup.
class FakeGroups {
public:
  FakeGroups()
      : root(testing::TempDir() + "heddle-cgroup-" + std::to_string(getpid())) {
  }
  ~FakeGroups() { std::filesystem::remove_all(root); }
  void write(const std::string &path, const std::string &text) {
    std::filesystem::path full = root + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  const std::string root;
};

TEST(CpuName, IsTheFirstThatSaysAnything) {
  EXPECT_EQ(cpuNameIn("processor\t: 0\nvendor_id\t: GenuineIntel\n"
                      "model\t\t: 79\n"
                      "model name\t:   Some(R) CPU   v4 @ 2.20GHz  \n"
                      "model name\t: Another\n"),
            "Some(R) CPU v4 @ 2.20GHz");
  EXPECT_EQ(cpuNameIn("model name\t: unknown\nmodel name : B: C\n"), "B: C");
  for (const char *nothing :
       {"", "model name", "model name\t:  \n", "CPU part\t: 0xd40\n"})
    EXPECT_EQ(cpuNameIn(nothing), "a CPU without a name");
  std::ifstream file("/proc/cpuinfo");
  const std::string here((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(cpuName(), cpuNameIn(here));
}

TEST(ControlGroups, VersionTwoTakesTheTightestAncestor) {
  FakeGroups groups;
  groups.write("/a/memory.max", "1000000\n");
  groups.write("/a/memory.current", "700000\n");
  groups.write("/a/memory.stat", "anon 600000\ninactive_file 50000\n");
  groups.write("/a/cpu.max", "150000 100000\n");
  groups.write("/a/b/memory.max", "max\n");
  groups.write("/a/b/memory.current", "100\n");
  groups.write("/a/b/cpu.max", "max 100000\n");
  ControlGroupLimits limits = readControlGroups("0::/a/b\n", groups.root);
  EXPECT_EQ(limits.memoryLeft, 1000000 - 700000 + 50000);
  EXPECT_EQ(limits.cores, 1.5);
}

TEST(ControlGroups, VersionOneReadsItsControllers) {
  FakeGroups groups;
  groups.write("/memory/x/memory.limit_in_bytes", "5000\n");
  groups.write("/memory/x/memory.usage_in_bytes", "6000\n");
  groups.write("/memory/memory.limit_in_bytes", "9223372036854771712\n");
  groups.write("/memory/memory.usage_in_bytes", "6000\n");
  groups.write("/cpu/x/cpu.cfs_quota_us", "200000\n");
  groups.write("/cpu/x/cpu.cfs_period_us", "100000\n");
  groups.write("/cpu/cpu.cfs_quota_us", "-1\n");
  groups.write("/cpu/cpu.cfs_period_us", "100000\n");
  ControlGroupLimits limits = readControlGroups(
      "5:cpu,cpuacct:/x\n4:memory:/x\n1:name=systemd:/x\n", groups.root);
  EXPECT_EQ(limits.memoryLeft, 0);
  EXPECT_EQ(limits.cores, 2);
}

TEST(ControlGroups, NothingReadableLimitsNothing) {
  for (const char *text : {"", "garbage", "0::", "0::/not/there\n", "::\n"}) {
    ControlGroupLimits limits = readControlGroups(text, "/nowhere");
    EXPECT_EQ(limits.memoryLeft, -1) << text;
    EXPECT_EQ(limits.cores, -1) << text;
  }
}

TEST(Machine, HasCoresAndMemory) {
  EXPECT_GE(availableCores(), 1);
  EXPECT_GT(availableMemory(), 0);
}

TEST(Machine, RefusesWhatDoesNotFit) {
  EXPECT_TRUE(checkMemory(1, "a byte", "buy one"));
  Status status = checkMemory(std::numeric_limits<int64_t>::max(), "the model",
                              "free some");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().text().find("the model needs 9.2 EB, "), 0u)
      << status.error().text();
  EXPECT_NE(status.error().text().find(" are available: free some"),
            std::string::npos);
}

TEST(Machine, FormatsBytes) {
  EXPECT_EQ(formatBytes(0), "0 bytes");
  EXPECT_EQ(formatBytes(999), "999 bytes");
  EXPECT_EQ(formatBytes(1000), "1.0 KB");
  EXPECT_EQ(formatBytes(999'949), "999.9 KB");
  EXPECT_EQ(formatBytes(999'950), "1.0 MB");
  EXPECT_EQ(formatBytes(16'031'162'368), "16.0 GB");
}

} // namespace
