//===- TemporaryFilesTest.cpp - Files between programs --------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Support/TemporaryFiles.h"

#include <gtest/gtest.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

using namespace heddle;

namespace {

/// Has the process create files that everybody may write.
class TemporaryFilesTest : public testing::Test {
protected:
  TemporaryFilesTest() : before(umask(0)) {}
  ~TemporaryFilesTest() override { umask(before); }

  static mode_t modeOf(const std::string &path) {
    struct stat status = {};
    EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
    return status.st_mode & 07777;
  }

  mode_t before;
};

TEST_F(TemporaryFilesTest, AreTheOwnersAlone) {
  std::string path;
  {
    TemporaryFiles files;
    auto made = files.add("s", "text");
    ASSERT_TRUE(static_cast<bool>(made));
    path = *made;
    EXPECT_EQ(modeOf(path), 0600u);
    auto read = readFile(path);
    ASSERT_TRUE(static_cast<bool>(read));
    EXPECT_EQ(*read, "text");
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0) << "is gone with the object";
}

/// A linker puts a new file in the place of ours.
TEST_F(TemporaryFilesTest, SoAreThoseOfPrograms) {
  TemporaryFiles files;
  auto made = files.add("so");
  ASSERT_TRUE(static_cast<bool>(made));
  const std::string script = "rm " + *made + " && echo new > " + *made;
  auto result = runProgram("/bin/sh", {"-c", script}, 60);
  ASSERT_TRUE(static_cast<bool>(result));
  EXPECT_EQ(result->status, 0) << result->log;
  EXPECT_EQ(modeOf(*made), 0600u);
  EXPECT_EQ(umask(0), 0u) << "this process's is as before";
}

} // namespace
