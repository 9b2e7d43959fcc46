//===- FileTest.cpp - Files, buffers, and what goes wrong with them -------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/File.h"
#include "runtime/base/Buffer.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace heddle;
using namespace heddle::rt;

namespace {

/// A file in the test's temporary folder, removed at the end.
class TemporaryFile {
public:
  explicit TemporaryFile(const std::string &text)
      : path(testing::TempDir() + "heddle-file-" + std::to_string(getpid())) {
    std::ofstream(path, std::ios::binary) << text;
  }
  ~TemporaryFile() { std::filesystem::remove(path); }
  const std::string path;
};

TEST(File, ReadsAnyRange) {
  TemporaryFile temporary("0123456789");
  Result<File> file = File::open(temporary.path);
  ASSERT_TRUE(file) << file.error().text();
  EXPECT_EQ(file->size(), 10);
  std::string text(4, ' ');
  ASSERT_TRUE(file->read(3, 4, text.data()));
  EXPECT_EQ(text, "3456");
  ASSERT_TRUE(file->read(10, 0, text.data()));
}

TEST(File, EmptyFilesAreFiles) {
  TemporaryFile temporary("");
  Result<std::string> text = readTextFile(temporary.path, 10);
  ASSERT_TRUE(text) << text.error().text();
  EXPECT_EQ(*text, "");
}

TEST(File, SaysWhatIsWrong) {
  Result<File> missing = File::open("/nowhere/at-all");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().text(), "/nowhere/at-all: cannot open the file: "
                                    "No such file or directory");
  Result<File> folder = File::open(testing::TempDir());
  ASSERT_FALSE(folder);
  EXPECT_NE(
      folder.error().text().find("expected a regular file, found a folder"),
      std::string::npos);
  TemporaryFile temporary("0123456789");
  Result<std::string> text = readTextFile(temporary.path, 9);
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().text(), temporary.path + ": the file has 10 bytes, at "
                                                  "most 9 bytes are expected "
                                                  "here");
}

TEST(File, ANamedPipeDoesNotHang) {
  std::string path =
      testing::TempDir() + "heddle-pipe-" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  Result<File> pipe = File::open(path);
  std::filesystem::remove(path);
  ASSERT_FALSE(pipe);
  EXPECT_NE(pipe.error().text().find("found a device or pipe"),
            std::string::npos);
}

TEST(File, TruncationMeanwhileIsAnError) {
  TemporaryFile temporary("0123456789");
  Result<File> file = File::open(temporary.path);
  ASSERT_TRUE(file);
  std::filesystem::resize_file(temporary.path, 5);
  char text[8];
  Status status = file->read(2, 8, text);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().text().find("the file ends at byte 5, 10 bytes were "
                                       "there when it was opened"),
            std::string::npos)
      << status.error().text();
}

TEST(Buffer, IsAligned) {
  for (int64_t bytes : {1, 63, 1000, 1 << 20, 5 << 20}) {
    Result<Buffer> buffer = Buffer::allocate(bytes);
    ASSERT_TRUE(buffer);
    EXPECT_EQ(buffer->size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0u);
    buffer->data()[bytes - 1] = std::byte(1);
  }
  Result<Buffer> none = Buffer::allocate(0);
  ASSERT_TRUE(none);
  EXPECT_EQ(none->size(), 0);
}

} // namespace
