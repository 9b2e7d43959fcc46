//===- CublasLtTest.cpp - Where cuBLASLt is looked for --------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/CublasLt.h"
#include "runtime/test/device/cuda/Fixture.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

using namespace heddle;
using namespace heddle::rt::cuda;
using namespace heddle::rt::cuda::test;

namespace fs = std::filesystem;

namespace {

/// Sets a variable of the environment until the end of the scope.
class Variable {
public:
  Variable(const char *name, const std::string &value) : name(name) {
    if (const char *old = std::getenv(name))
      before = old;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (before)
      setenv(name, before->c_str(), 1);
    else
      unsetenv(name);
  }

private:
  const char *name;
  std::optional<std::string> before;
};

class CublasLtTest : public FakeTest {
protected:
  void SetUp() override {
    FakeTest::SetUp();
    std::string pattern = testing::TempDir() + "/heddle-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override {
    fs::remove_all(folder);
    FakeTest::TearDown();
  }
  /// An empty file below the folder.
  std::string touch(const std::string &path) {
    fs::path file = folder / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file).flush();
    return file.string();
  }
  fs::path folder;
};

TEST_F(CublasLtTest, TheNamedFileOrFolderIsTheOnlyCandidate) {
  Variable file("HEDDLE_CUBLASLT_PATH", "/some/libcublasLt.so.12");
  EXPECT_EQ(cublasLtCandidates(13000),
            (std::vector<std::string>{"/some/libcublasLt.so.12"}));
  Variable named("HEDDLE_CUBLASLT_PATH", folder.string());
  EXPECT_EQ(
      cublasLtCandidates(13000),
      (std::vector<std::string>{(folder / "libcublasLt.so.13").string(),
                                (folder / "libcublasLt.so.12").string()}));
}

TEST_F(CublasLtTest, FindsToolkitsAndWheelsInOrder) {
  std::string toolkit = touch("cuda/lib64/libcublasLt.so.13");
  std::string wheel = touch(
      "venv/lib/python3.12/site-packages/nvidia/cu13/lib/libcublasLt.so.13");
  std::string old = touch(
      "venv/lib/python3.12/site-packages/nvidia/cublas/lib/libcublasLt.so.12");
  std::string onPath = touch(
      "other/lib/python3.11/site-packages/nvidia/cu13/lib/libcublasLt.so.13");
  touch("other/bin/python3");
  Variable none("HEDDLE_CUBLASLT_PATH", "");
  Variable home("CUDA_HOME", (folder / "cuda").string());
  Variable environment("VIRTUAL_ENV", (folder / "venv").string());
  Variable path("PATH", "relative::" + (folder / "other/bin").string());
  std::vector<std::string> all = cublasLtCandidates(13000);
  auto place = [&](const std::string &name) {
    return std::find(all.begin(), all.end(), name) - all.begin();
  };
  EXPECT_EQ(place("libcublasLt.so.13"), 0); // the loader's own search
  EXPECT_LT(place("libcublasLt.so.13"), place(toolkit));
  EXPECT_LT(place(toolkit), place(wheel));
  EXPECT_LT(place(wheel), place(onPath));
  EXPECT_LT(place(onPath), place("libcublasLt.so.12"));
  EXPECT_LT(place("libcublasLt.so.12"), place(old));
  EXPECT_LT(place(old), static_cast<long>(all.size()));
  // A driver of CUDA 12 runs no cuBLASLt 13.
  for (const std::string &candidate : cublasLtCandidates(12080))
    EXPECT_TRUE(candidate.ends_with("libcublasLt.so.12")) << candidate;
}

TEST_F(CublasLtTest, NoneSaysHowToGetOne) {
  Variable none("HEDDLE_CUBLASLT_PATH", (folder / "lib.so").string());
  EXPECT_ERROR(CublasLt::open(12080),
               "cuBLASLt, NVIDIA's library for matrix products, was not found");
  EXPECT_ERROR(CublasLt::open(12080), "`pip install nvidia-cublas-cu12`");
  EXPECT_ERROR(CublasLt::open(12080), "HEDDLE_CUBLASLT_PATH");
  EXPECT_ERROR(CublasLt::open(12080), (folder / "lib.so").string());
  EXPECT_ERROR(CublasLt::open(13000), "`pip install nvidia-cublas`");
}

TEST_F(CublasLtTest, OtherLibrariesAreRefused) {
  EXPECT_ERROR(CublasLt::openFile(fakeDriverFile()),
               "has no entry point cublasLtCreate; expected cuBLASLt 12 or 13");
  EXPECT_ERROR(CublasLt::openFile(touch("text.so")), "text.so");
}

TEST_F(CublasLtTest, OpensTheNamedOne) {
  Variable named("HEDDLE_CUBLASLT_PATH", fakeCublasLtFile().c_str());
  Result<std::shared_ptr<const CublasLt>> library = CublasLt::open(12080);
  ASSERT_OK(library);
  EXPECT_EQ((*library)->version(), 130100u);
  EXPECT_EQ((*library)->description(),
            "cuBLASLt 13.1.0 (" + fakeCublasLtFile() + ")");
  EXPECT_EQ((*library)->describe("cublasLtMatmul", 15).text(),
            "cublasLtMatmul failed: CUBLAS_STATUS_NOT_SUPPORTED (15, the fake "
            "says so)");
}

} // namespace
