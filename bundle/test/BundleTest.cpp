//===- BundleTest.cpp - Only whole, unchanged bundles are read ------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/format/Bundle.h"
#include "bundle/abi/Abi.h"
#include "bundle/format/ManifestJson.h"
#include "bundle/test/Says.h"
#include "bundle/test/TestManifest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <gtest/gtest.h>

#include <cstring>
#include <dirent.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/stat.h>
#include <unistd.h>

using namespace heddle;
using namespace heddle::bundle;
using heddle::bundle::test::says;

namespace {

using Sections = std::vector<std::pair<std::string, std::string>>;

std::string smallBundle() {
  Result<std::string> bytes = Bundle::serialize(
      testManifest(), {{"schedule", "heddle.schedule @test {}\n"},
                       {"code.host", std::string("\x7f"
                                                 "ELF",
                                                 4)},
                       {"later.addition", ""}});
  EXPECT_TRUE(bytes) << bytes.error().text();
  return *bytes;
}

std::string refusal(std::string bytes) {
  Result<Bundle> bundle = Bundle::parse(std::move(bytes), "x.hdl");
  return bundle ? "" : bundle.error().text();
}

#define EXPECT_REFUSED(bytes, text) EXPECT_TRUE(says(refusal(bytes), text))

/// Bundles as an attacker would make them: with right checksums.
struct Forger {
  struct Entry {
    std::string name;
    uint64_t offset;
    uint64_t size;
    uint64_t checksum;
  };
  std::string bytes;
  std::vector<Entry> table;

  explicit Forger(std::string start) : bytes(std::move(start)) {
    for (uint32_t i = 0; i < get<uint32_t>(12); ++i) {
      uint64_t at = 32 + i * 48;
      table.push_back({bytes.substr(at, 24), get<uint64_t>(at + 24),
                       get<uint64_t>(at + 32), get<uint64_t>(at + 40)});
    }
  }
  template <typename T> T get(uint64_t at) const {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    return value;
  }
  template <typename T> void put(uint64_t at, T value) {
    std::memcpy(bytes.data() + at, &value, sizeof(T));
  }
  std::string sealed() {
    for (size_t i = 0; i < table.size(); ++i) {
      uint64_t at = 32 + i * 48;
      table[i].name.resize(24);
      bytes.replace(at, 24, table[i].name);
      put(at + 24, table[i].offset);
      put(at + 32, table[i].size);
      put(at + 40, table[i].checksum);
    }
    return withHeaderChecksum();
  }
  std::string withHeaderChecksum() {
    std::string covered = bytes.substr(0, 24) +
                          bytes.substr(32, 48 * uint64_t{get<uint32_t>(12)});
    put(24, XXH3_64bits(covered.data(), covered.size()));
    return bytes;
  }
  void rechecksum(size_t i) {
    table[i].checksum =
        XXH3_64bits(bytes.data() + table[i].offset, table[i].size);
  }
};

/// A folder that is removed, with its files, at the end of a test.
struct Folder {
  std::string path;
  Folder() {
    char name[] = "/tmp/heddle-bundle-test-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Folder() {
    for (const std::string &file : files())
      ::unlink((path + "/" + file).c_str());
    ::rmdir(path.c_str());
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    DIR *dir = ::opendir(path.c_str());
    while (dirent *entry = ::readdir(dir))
      if (entry->d_name[0] != '.')
        names.push_back(entry->d_name);
    ::closedir(dir);
    return names;
  }
};

TEST(Bundle, RoundTrip) {
  Folder folder;
  std::string path = folder.path + "/a.hdl";
  Sections sections = {{"schedule", "text"},
                       {"code.host", std::string("\0\1\2", 3)}};
  Status status = Bundle::write(path, testManifest(), sections);
  ASSERT_TRUE(status) << status.error().text();
  EXPECT_EQ(folder.files(), std::vector<std::string>{"a.hdl"});
  Result<Bundle> bundle = Bundle::read(path);
  ASSERT_TRUE(bundle) << bundle.error().text();
  EXPECT_EQ(toJson(bundle->manifest()), toJson(testManifest()));
  EXPECT_EQ(bundle->section("schedule"), "text");
  EXPECT_EQ(bundle->section("code.host"), std::string_view("\0\1\2", 3));
  EXPECT_EQ(bundle->section("plan"), "");
  ASSERT_EQ(bundle->sections().size(), 3u);
  EXPECT_EQ(bundle->sections()[0].name, "manifest");
  for (const Bundle::SectionInfo &info : bundle->sections())
    EXPECT_EQ(info.offset % 64, 0u);
}

/// Those of another ABI reach one line of the readers. test/fuzz/seeds.py makes
/// them anew.
TEST(Bundle, FuzzersStartFromWhatIsRead) {
  auto read = [](const std::string &kind, auto parse) {
    int64_t count = 0;
    for (const auto &entry : std::filesystem::directory_iterator(
             std::string(HEDDLE_FUZZ_CORPUS "/") + kind)) {
      std::ifstream file(entry.path(), std::ios::binary);
      count += static_cast<bool>(
          parse(std::string(std::istreambuf_iterator<char>(file),
                            std::istreambuf_iterator<char>())));
    }
    return count;
  };
  EXPECT_GE(read("manifest", manifestFromJson), 4);
  EXPECT_GE(read("bundle",
                 [](std::string bytes) {
                   return Bundle::parse(std::move(bytes), "corpus");
                 }),
            2);
}

TEST(Bundle, UnknownSectionsAreKept) {
  Result<Bundle> bundle = Bundle::parse(smallBundle(), "x.hdl");
  ASSERT_TRUE(bundle) << bundle.error().text();
  EXPECT_EQ(bundle->sections()[3].name, "later.addition");
}

TEST(Bundle, EveryTruncationIsRefused) {
  std::string bytes = smallBundle();
  for (size_t size = 0; size < bytes.size(); ++size)
    ASSERT_NE(refusal(bytes.substr(0, size)), "") << size << " bytes";
  EXPECT_REFUSED("", "the file is empty");
  EXPECT_REFUSED(bytes.substr(0, 3), "truncated: the file has 3 bytes");
  EXPECT_REFUSED(bytes.substr(0, 20), "truncated: the file has 20 bytes");
  EXPECT_REFUSED(bytes.substr(0, bytes.size() - 1), "truncated");
  EXPECT_REFUSED(bytes + '\0', "something was appended");
}

TEST(Bundle, EveryBitFlipIsRefused) {
  std::string bytes = smallBundle();
  ASSERT_EQ(refusal(bytes), "");
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_NE(refusal(bytes), "") << "byte " << bit / 8 << " bit " << bit % 8;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
  }
}

TEST(Bundle, OtherFilesAreRefused) {
  EXPECT_REFUSED("#!/bin/sh\n", "not a bundle: the file does not start");
  EXPECT_REFUSED("heddle.schedule @s { attend dense }\n",
                 "not a bundle: this is a schedule's text; compile it");
  EXPECT_REFUSED(std::string("\x10\0\0\0\0\0\0\0{\"a\": {}}", 17),
                 "not a bundle: these are a model's weights (safetensors)");
  EXPECT_REFUSED(std::string(4096, '\0'), "not a bundle");
  std::string bytes = smallBundle();
  bytes.erase(6, 1); // what a text-mode copy does to \r\n
  EXPECT_REFUSED(bytes, "copied as text");
}

TEST(Bundle, OtherVersionsAreRefused) {
  Forger forger(smallBundle());
  forger.put<uint32_t>(8, 7);
  EXPECT_REFUSED(forger.withHeaderChecksum(),
                 "x.hdl: this bundle has format version 7, this build reads "
                 "version 3: recompile");
  // The version is judged before a size that may have moved.
  forger.put<uint64_t>(16, 1);
  EXPECT_REFUSED(forger.bytes, "format version 7");

  Manifest manifest = testManifest();
  manifest.abi = heddle::abi::abiVersion + 1;
  Result<std::string> bytes = Bundle::serialize(manifest, {});
  ASSERT_FALSE(bytes);
  EXPECT_TRUE(
      says(bytes.error().text(),
           "ABI version " + std::to_string(heddle::abi::abiVersion + 1)));
}

TEST(Bundle, NamesTheSectionsOfItsTargets) {
  const std::vector<Target> targets = testCudaManifest().targets;
  EXPECT_EQ(codeSection(targets[0], CodeForm::Native), "code.host");
  EXPECT_EQ(codeSection(targets[1], CodeForm::Ptx), "code.sm_90a.ptx");
  EXPECT_EQ(codeSection(targets[1], CodeForm::Cubin), "code.sm_90a.cubin");
}

TEST(Bundle, LyingTablesAreRefused) {
  std::string good = smallBundle();
  auto forge = [&](const std::function<void(Forger &)> &change) {
    Forger forger(good);
    change(forger);
    return forger.sealed();
  };
  EXPECT_EQ(refusal(forge([](Forger &) {})), "");
  EXPECT_REFUSED(forge([](Forger &f) { f.table[1].offset += 1; }),
                 "expected a multiple of 64");
  EXPECT_REFUSED(forge([](Forger &f) { f.table[3].size = 1; }), "past the end");
  EXPECT_REFUSED(forge([](Forger &f) { f.table[1].size = UINT64_MAX; }),
                 "past the end");
  EXPECT_REFUSED(forge([](Forger &f) { f.table[1].offset = 0 - uint64_t{64}; }),
                 "past the end");
  EXPECT_REFUSED(forge([](Forger &f) { f.table[0].offset = 0; }),
                 "inside what comes before");
  EXPECT_REFUSED(forge([](Forger &f) {
                   f.table[2].offset = f.table[1].offset;
                   f.table[2].size = f.table[1].size;
                   f.rechecksum(2);
                 }),
                 "section \"code.host\" starts at byte");
  EXPECT_REFUSED(forge([](Forger &f) { f.table[1].checksum ^= 1; }),
                 "does not match its checksum");
  EXPECT_REFUSED(forge([](Forger &f) { f.table[1].name = "manifest"; }),
                 "appears twice");
  EXPECT_REFUSED(forge([](Forger &f) { f.table[1].name = ""; }),
                 "no well-formed name");
  EXPECT_REFUSED(
      forge([](Forger &f) { f.table[1].name = std::string("a\0b", 3); }),
      "no well-formed name");
  EXPECT_REFUSED(forge([](Forger &f) { f.table[0].name = "manifesto"; }),
                 "no \"manifest\" section");
  EXPECT_REFUSED(forge([](Forger &f) {
                   f.bytes[f.table[0].offset + f.table[0].size] = 1;
                 }),
                 "lies between sections and is not zero");
  EXPECT_REFUSED(forge([](Forger &f) {
                   f.bytes[f.table[0].offset] = 'x';
                   f.rechecksum(0);
                 }),
                 "manifest: not valid JSON");
  // A table that would need 200 GB is refused by arithmetic alone.
  Forger huge(good);
  huge.put<uint32_t>(12, UINT32_MAX);
  EXPECT_REFUSED(huge.bytes, "a table of 4294967295 sections does not fit");
}

TEST(Bundle, WhatIsNoFileIsRefused) {
  Folder folder;
  auto refused = [](const std::string &path) {
    Result<Bundle> bundle = Bundle::read(path);
    return bundle ? std::string() : bundle.error().text();
  };
  EXPECT_TRUE(says(refused(folder.path), "is a directory"));
  EXPECT_TRUE(says(refused(folder.path + "/none"), "No such file"));
  EXPECT_TRUE(says(refused("/dev/zero"), "is a device or pipe"));
  std::string pipe = folder.path + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(says(refused(pipe), "is a device or pipe"));
  std::string empty = folder.path + "/empty";
  std::ofstream(empty).flush();
  EXPECT_TRUE(says(refused(empty), "the file is empty"));
  // A terabyte of holes, as its header says: refused before anything is
  // allocated.
  std::string holes = folder.path + "/holes";
  Forger forger(smallBundle());
  forger.put<uint64_t>(16, uint64_t{1} << 40);
  std::ofstream(holes) << forger.bytes;
  if (::truncate(holes.c_str(), int64_t{1} << 40) == 0)
    EXPECT_TRUE(says(refused(holes), "more than any bundle may"));
}

TEST(Bundle, WritingFailsCleanly) {
  Folder folder;
  auto write = [](const std::string &path) {
    Status status = Bundle::write(path, testManifest(), {});
    return status ? std::string() : status.error().text();
  };
  EXPECT_TRUE(says(write(folder.path), "is a directory"));
  EXPECT_TRUE(says(write(folder.path + "/no/such/x.hdl"), "No such file"));
  EXPECT_TRUE(says(write(""), "empty"));
  EXPECT_TRUE(folder.files().empty());
  Status badName =
      Bundle::write(folder.path + "/x.hdl", testManifest(), {{"a b", ""}});
  EXPECT_FALSE(badName);
  Status longName = Bundle::write(folder.path + "/x.hdl", testManifest(),
                                  {{std::string(25, 'a'), ""}});
  EXPECT_FALSE(longName);
  EXPECT_TRUE(folder.files().empty());
}

TEST(Bundle, WritingReplacesAndFollowsLinks) {
  Folder folder;
  std::string file = folder.path + "/a.hdl", link = folder.path + "/b.hdl";
  std::ofstream(file) << "old";
  ASSERT_EQ(::symlink("a.hdl", link.c_str()), 0);
  ASSERT_TRUE(Bundle::write(link, testManifest(), {}));
  EXPECT_TRUE(Bundle::read(file));
  struct stat info;
  ASSERT_EQ(::lstat(link.c_str(), &info), 0);
  EXPECT_TRUE(S_ISLNK(info.st_mode));
  EXPECT_EQ(folder.files().size(), 2u);
}

} // namespace
