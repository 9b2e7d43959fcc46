//===- MappedFileTest.cpp - Mapped files, and those that shrink -----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TinyModel.h"

#include "runtime/model/MappedFile.h"
#include "runtime/model/Model.h"
#include "runtime/model/Safetensors.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::test;

namespace {

const int64_t page = ::sysconf(_SC_PAGESIZE);

/// A file of `pages` pages of 'x', open and mapped.
struct Mapped {
  explicit Mapped(int64_t pages, int64_t more = 0) {
    path = folder.write(
        "x", std::string(static_cast<size_t>(pages * page + more), 'x'));
    Result<File> opened = File::open(path);
    EXPECT_TRUE(opened);
    file = std::make_unique<File>(std::move(*opened));
    map = MappedFile::map(*file);
  }
  int64_t sum() const {
    return std::count(map->data(), map->data() + file->size(), std::byte{'x'});
  }
  std::string damage() const {
    Status status = map->intact();
    return status ? "none" : status.error().text();
  }

  TemporaryFolder folder;
  std::string path;
  std::unique_ptr<File> file;
  std::unique_ptr<MappedFile> map;
};

TEST(MappedFile, HoldsTheBytes) {
  Mapped mapped(3, 5);
  ASSERT_TRUE(mapped.map);
  mapped.map->prefetch(0, mapped.file->size());
  EXPECT_EQ(mapped.sum(), 3 * page + 5);
  mapped.map->release(1, 2 * page);
  EXPECT_EQ(mapped.sum(), 3 * page + 5);
  EXPECT_EQ(mapped.damage(), "none");
}

TEST(MappedFile, SaysThatAFileShrank) {
  Mapped mapped(64);
  ASSERT_TRUE(mapped.map);
  EXPECT_EQ(mapped.sum(), 64 * page);
  std::filesystem::resize_file(mapped.path, static_cast<size_t>(2 * page));
  EXPECT_EQ(mapped.sum(), 2 * page);
  EXPECT_EQ(mapped.damage(),
            mapped.path + ": the file ends at byte " +
                std::to_string(2 * page) + ", " + std::to_string(64 * page) +
                " bytes were there when it was opened: something truncated it "
                "meanwhile");
}

TEST(MappedFile, SaysThatAFileShrankWithinAPage) {
  // No signal tells of this one: the rest of the page reads as zeros.
  Mapped mapped(0, 100);
  ASSERT_TRUE(mapped.map);
  std::filesystem::resize_file(mapped.path, 40);
  mapped.sum();
  EXPECT_NE(mapped.damage().find("the file ends at byte 40, 100 bytes"),
            std::string::npos);
}

TEST(MappedFile, RemembersAFileThatGrewAgain) {
  Mapped mapped(8);
  ASSERT_TRUE(mapped.map);
  std::filesystem::resize_file(mapped.path, static_cast<size_t>(3 * page));
  EXPECT_EQ(mapped.sum(), 3 * page);
  std::filesystem::resize_file(mapped.path, static_cast<size_t>(8 * page));
  EXPECT_EQ(mapped.damage(),
            mapped.path + ": bytes at offset " + std::to_string(3 * page) +
                " could not be read: the disk or network share failed, or "
                "something truncated the file for a while");
}

TEST(MappedFile, ManyThreadsMeetTheEnd) {
  Mapped mapped(512);
  ASSERT_TRUE(mapped.map);
  std::filesystem::resize_file(mapped.path, static_cast<size_t>(page));
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] { EXPECT_EQ(mapped.sum(), page); });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_NE(mapped.damage(), "none");
}

TEST(MappedFile, SomeFilesAreNotMapped) {
  EXPECT_EQ(Mapped(0).map, nullptr);
  Mapped one(1);
  std::vector<std::unique_ptr<MappedFile>> all;
  for (int i = 0; i < MappedFile::mostMappings; ++i)
    if (auto map = MappedFile::map(*one.file))
      all.push_back(std::move(map));
  EXPECT_EQ(all.size(), MappedFile::mostMappings - 1u);
  EXPECT_EQ(MappedFile::map(*one.file), nullptr);
  all.pop_back();
  EXPECT_NE(MappedFile::map(*one.file), nullptr);
}

TEST(MappedFile, LeavesSignalsAsTheyWere) {
  struct sigaction before, after;
  ASSERT_EQ(::sigaction(SIGBUS, nullptr, &before), 0);
  {
    Mapped mapped(1);
  }
  ASSERT_EQ(::sigaction(SIGBUS, nullptr, &after), 0);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

/// Reads behind the end of a mapping that no MappedFile knows.
[[noreturn]] void meetAnotherBusError() {
  std::signal(SIGBUS, SIG_DFL);
  Mapped ours(1), other(2);
  void *memory = ::mmap(nullptr, static_cast<size_t>(2 * page), PROT_READ,
                        MAP_PRIVATE, other.file->handle(), 0);
  std::filesystem::resize_file(other.path, 0);
  for (Mapped *each : {&ours, &other})
    std::filesystem::remove_all(each->folder.path);
  volatile char byte = static_cast<const char *>(memory)[page];
  ::_exit(byte);
}

TEST(MappedFileDeathTest, OtherBusErrorsEndTheProgram) {
  EXPECT_EXIT(meetAnotherBusError(), testing::KilledBySignal(SIGBUS), "");
}

TEST(MappedFile, AModelWhoseFileShrinksWhileItLoadsIsRefused) {
  for (DType dtype : {DType::BF16, DType::F32}) {
    TemporaryFolder folder;
    makeTinyModel({}, DType::BF16, 1).write(folder);
    std::string path = folder.path + "/model.safetensors";
    auto size = std::filesystem::file_size(path);
    LoadOptions options;
    options.dtype = dtype;
    options.interrupted = [&] { // asked when the weights are about to be read
      std::filesystem::resize_file(path, size / 2);
      return false;
    };
    Result<std::unique_ptr<Model>> model = Model::load(folder.path, options);
    ASSERT_FALSE(model);
    EXPECT_NE(model.error().text().find("something truncated it meanwhile"),
              std::string::npos)
        << model.error().text();
  }
}

/// Half of the tokens of a mixture look right, so nobody would notice.
TEST(MappedFile, AModelWhoseFileChangesWhileItLoadsIsRefused) {
  for (bool replaced : {false, true}) {
    TemporaryFolder folder;
    makeTinyModel({}, DType::BF16, 1).write(folder);
    std::string path = folder.path + "/model.safetensors";
    auto size = static_cast<std::streamoff>(std::filesystem::file_size(path));
    LoadOptions options;
    options.dtype = DType::BF16;
    options.interrupted = [&] {
      if (replaced) {
        std::filesystem::copy_file(path, path + ".new");
        std::filesystem::rename(path + ".new", path);
      } else {
        std::fstream file(path,
                          std::ios::binary | std::ios::in | std::ios::out);
        file.seekp(size / 2);
        file.write("other", 5);
      }
      return false;
    };
    Result<std::unique_ptr<Model>> model = Model::load(folder.path, options);
    ASSERT_FALSE(model);
    EXPECT_NE(model.error().text().find(
                  replaced ? "replaced or removed while it was read"
                           : "changed while it was read"),
              std::string::npos)
        << model.error().text();
  }
}

TEST(MappedFile, TensorsThatAreNotAlignedAreRead) {
  TemporaryFolder folder;
  for (const char *padding : {"", " "}) {
    std::string path = folder.write(
        "x.safetensors",
        safetensorsBytes(
            R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})" +
                std::string(padding),
            std::string("\0\0\x80\x3f\0\0\0\x40", 8)));
    Result<Checkpoint> checkpoint = Checkpoint::openFile(path);
    ASSERT_TRUE(checkpoint) << checkpoint.error().text();
    const TensorInfo &a = checkpoint->tensors().at("a");
    EXPECT_EQ(checkpoint->view(a, 0, 2) != nullptr, a.offset % 4 == 0);
    float values[2];
    ASSERT_TRUE(checkpoint->read(a, 0, 2, values));
    EXPECT_EQ(values[0], 1);
    EXPECT_EQ(values[1], 2);
    if (const std::byte *view = checkpoint->view(a, 1, 1)) {
      EXPECT_EQ(*reinterpret_cast<const float *>(view), 2);
    }
  }
}

} // namespace
