//===- DeviceTest.cpp - heddle-run on GPUs that are not there -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Program.h"
#include "TinySetup.h"
#include "runtime/test/engine/TestBundle.h"

#include <cstdlib>
#include <filesystem>

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::run::test;
using nlohmann::json;

namespace {

/// While it lives, the programs that are started find the fake driver where the
/// machine's would be.
class FakeGpu {
public:
  FakeGpu() {
    std::filesystem::create_symlink(HEDDLE_FAKE_CUDA,
                                    folder.path + "/libcuda.so.1");
    const char *before = std::getenv("LD_LIBRARY_PATH");
    if (before)
      old = before;
    setenv("LD_LIBRARY_PATH",
           (folder.path + (old.empty() ? "" : ":" + old)).c_str(), 1);
    setenv("HEDDLE_CUBLASLT_PATH", HEDDLE_FAKE_CUBLASLT, 1);
  }
  ~FakeGpu() {
    if (old.empty())
      unsetenv("LD_LIBRARY_PATH");
    else
      setenv("LD_LIBRARY_PATH", old.c_str(), 1);
    unsetenv("HEDDLE_CUBLASLT_PATH");
  }

private:
  rt::test::TemporaryFolder folder;
  std::string old;
};

/// The program ends with `code` and says this, and nothing on standard output.
void expectFailure(const std::string &arguments, const std::string &message,
                   int code = 1) {
  Outcome outcome = heddleRun(arguments);
  EXPECT_EQ(outcome.code, code) << arguments;
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err.find("heddle-run: error: "), 0u) << outcome.err;
  EXPECT_NE(outcome.err.find(message), std::string::npos) << outcome.err;
}

TEST(DeviceOption, WithoutADriver) {
  if (dlopen("libcuda.so.1", RTLD_LAZY))
    GTEST_SKIP() << "this machine has an NVIDIA driver";
  TinySetup setup;
  for (const char *device : {"cuda", "cuda:0", "cuda:7"})
    expectFailure(setup.dense() + "abc --device=" + device,
                  "this machine has no NVIDIA driver");
  expectFailure(setup.dense() + "abc --device=cuda --random-weights",
                "--device=cpu");
  // A mistake that can be mended here comes first.
  expectFailure(setup.with("none.hdl") + "abc --device=cuda",
                "none.hdl: cannot open");
  Outcome json = heddleRun(setup.dense() + "abc --device=cuda --json");
  EXPECT_EQ(json.code, 1);
  EXPECT_FALSE(json::parse(json.out)["complete"].get<bool>());
  // A question, not a failure.
  Outcome info = heddleRun("--info --device=cuda");
  EXPECT_EQ(info.code, 0);
  EXPECT_EQ(info.out.find("this machine has no NVIDIA driver"), 0u);
}

TEST(DeviceOption, WhatTheHostHasNot) {
  TinySetup setup;
  expectFailure(setup.dense() + "abc --random-weights", "--device=cuda", 2);
  expectFailure(setup.dense() + "abc --dtype fp16", "needs a GPU", 2);
}

TEST(DeviceOption, InfoListsTheGpus) {
  FakeGpu gpu;
  const std::string line = "cuda:0  Fake GPU (device 0, compute capability "
                           "9.0)";
  Outcome info = heddleRun("--info --device=cuda");
  EXPECT_EQ(info.code, 0) << info.err;
  EXPECT_EQ(info.out, line + "\n");
  TinySetup setup;
  json all =
      json::parse(heddleRun(setup.dense() + "--info --json --device=cuda").out);
  EXPECT_EQ(all["gpus"], json::array({line}));
  EXPECT_TRUE(all.contains("bundle"));
}

TEST(DeviceOption, GpusThatDoNotFit) {
  FakeGpu gpu;
  TinySetup setup;
  expectFailure(setup.dense() + "abc --device=cuda",
                "dense.hdl: the bundle has code for the host");
  expectFailure(setup.dense() + "abc --device=cuda:1", "1");
  setenv("HEDDLE_CUBLASLT_PATH", "/nowhere", 1);
  expectFailure(setup.dense() + "abc --device=cuda", "cuBLASLt");
}

/// A bundle as heddlec makes it for GPUs: bf16 and f16.
void writeGpuBundle(const TinySetup &setup,
                    const std::vector<std::string> &dtypes) {
  using rt::cuda::test::BundleShape;
  bundle::Manifest manifest = rt::cuda::test::gpuManifest(
      BundleShape{.dtypes = dtypes, .headDims = {8}});
  bundle::Bundle made = rt::cuda::test::gpuBundle(manifest);
  std::string section =
      codeSection(manifest.targets.front(), bundle::CodeForm::Ptx);
  ASSERT_TRUE(
      bundle::Bundle::write(setup.path() + "/gpu.hdl", manifest,
                            {{section, std::string(made.section(section))}}));
}

TEST(DeviceOption, TheTypeIsChosenByWeightsAndBundle) {
  FakeGpu gpu;
  TinySetup setup; // its weights are f32
  writeGpuBundle(setup, {"bf16", "f16"});
  auto run = [&](const std::string &arguments) {
    return heddleRun(setup.with("gpu.hdl") +
                     "abc --gen-length 8 --device=cuda " + arguments);
  };
  auto dtype = [&](const std::string &arguments) {
    Outcome outcome = run(arguments + " --json --quiet");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    return json::parse(outcome.out)["options"]["dtype"];
  };
  EXPECT_EQ(dtype(""), "bf16");
  EXPECT_EQ(dtype("--dtype=fp16"), "f16");
  EXPECT_EQ(dtype("--random-weights"), "bf16");
  EXPECT_NE(run("").err.find("heddle-run: the weights are f32, which the "
                             "bundle has no code for; computing in bf16, the "
                             "nearest that it has\n"),
            std::string::npos);
  // What is asked for is not replaced.
  expectFailure(setup.with("gpu.hdl") + "abc --device=cuda --dtype=fp32",
                "has no form for f32");
}

TEST(DeviceOption, TooLittleMemoryIsSaidBeforeTheModelIsLoaded) {
  FakeGpu gpu;
  TinySetup setup;
  writeGpuBundle(setup, {"f32", "bf16", "f16"});
  // The fake has 4 GiB; a model of as many layers as a config.json may say.
  json config = json::parse(contents(setup.path() + "/config.json"));
  config["n_layers"] = 100000;
  config["mlp_hidden_size"] = 4000;
  setup.write("config.json", config.dump());
  Outcome outcome =
      heddleRun(setup.with("gpu.hdl") +
                "abc --gen-length 8 --device=cuda --random-weights");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find("Fake GPU (device 0, compute capability 9.0) has "
                             "4.3 GB free, but the model needs "),
            std::string::npos)
      << outcome.err;
}

} // namespace
