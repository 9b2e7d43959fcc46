//===- ModuleTest.cpp - The code of a bundle that fits a GPU, and its launches
//===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/Module.h"

#include "bundle/abi/Abi.h"
#include "bundle/test/TestManifest.h"
#include "runtime/device/cuda/Arena.h"
#include "runtime/test/device/cuda/Fixture.h"

#include <set>

using namespace heddle;
using namespace heddle::rt::cuda;
using namespace heddle::rt::cuda::test;
using bundle::CodeForm;

namespace {

/// A target and the forms of its code that the bundle shall have.
struct Code {
  std::string cpu;
  std::string ptxFeature;
  bool ptx = true;
  bool cubin = false;
};

struct BundleOptions {
  std::string symbolLeftOut;
  int64_t threads = 128;
  int64_t sharedBytes = 65536;
  bool waits = false; ///< all kernels, and the code says so
};

/// A bundle for the host and these GPUs, with empty kernels.
bundle::Bundle makeBundle(const std::vector<Code> &codes,
                          const BundleOptions &options = {}) {
  bundle::Manifest manifest = bundle::testCudaManifest();
  // Its one GPU target is the pattern of all.
  bundle::Target pattern = manifest.targets.back();
  manifest.targets.pop_back();
  for (const Code &code : codes) {
    pattern.cpu = code.cpu;
    pattern.features = {code.ptxFeature};
    manifest.targets.push_back(pattern);
  }
  std::string entries;
  auto repeat = [&](auto &variants, const char *parameters) {
    using Variant = typename std::decay_t<decltype(variants)>::value_type;
    std::vector<Variant> result;
    for (const Variant &variant : variants) {
      int64_t copies = 1;
      if (variant.target == 1) {
        copies = static_cast<int64_t>(codes.size());
        if (variant.symbol != options.symbolLeftOut)
          entries += ".visible .entry " + variant.symbol + "(" + parameters +
                     ")\n{\n" +
                     (options.waits ? "  griddepcontrol.wait;\n" : "") +
                     "  ret;\n}\n";
      }
      for (int64_t i = 0; i < copies; ++i) {
        result.push_back(variant);
        result.back().target = variant.target == 0 ? 0 : 1 + i;
        if (variant.target == 1) {
          result.back().threads = options.threads;
          result.back().sharedBytes = options.sharedBytes;
        }
      }
    }
    variants = result;
  };
  for (bundle::Kernel &kernel : manifest.kernels)
    repeat(kernel.variants, ".param .u64 a, .param .u64 b, .param .u64 c");
  for (bundle::RowKernel &kernel : manifest.rowKernels)
    repeat(kernel.variants, ".param .u64 x");

  if (options.waits)
    entries += std::string(".visible .global .align 1 .b8 ") +
               heddle::abi::waitingSymbol + ";\n";

  std::vector<std::pair<std::string, std::string>> sections = {
      {"code.host", "no code"}};
  for (size_t i = 0; i < codes.size(); ++i) {
    const bundle::Target &target = manifest.targets[i + 1];
    std::string ptx = ".version 8.0\n.target " + target.cpu +
                      "\n.address_size 64\n" + entries;
    if (codes[i].ptx)
      sections.push_back({codeSection(target, CodeForm::Ptx), ptx});
    if (codes[i].cubin)
      sections.push_back(
          {codeSection(target, CodeForm::Cubin), "\177ELF" + ptx});
  }
  Result<std::string> bytes = bundle::Bundle::serialize(manifest, sections);
  EXPECT_TRUE(bytes) << bytes.error().text();
  Result<bundle::Bundle> result = bundle::Bundle::parse(*bytes, "test");
  EXPECT_TRUE(result) << result.error().text();
  return std::move(*result);
}

DeviceInfo gpu(int capability, int driverVersion = 13000) {
  DeviceInfo info;
  info.name = "Some GPU";
  info.major = capability / 10;
  info.minor = capability % 10;
  info.driverVersion = driverVersion;
  return info;
}

/// "sm_90a ptx": what is chosen, or the error.
std::string choose(const bundle::Bundle &bundle, const DeviceInfo &device) {
  Result<CodeChoice> choice = chooseCode(bundle, device);
  if (!choice)
    return choice.error().text();
  return bundle.manifest().targets[choice->target].cpu +
         (choice->form == CodeForm::Cubin ? " cubin" : " ptx");
}

TEST(ChooseCode, TheNearestArchitectureBelowTheDevice) {
  bundle::Bundle bundle = makeBundle({{"sm_80", "ptx71", true, true},
                                      {"sm_90a", "ptx80", true, true},
                                      {"sm_89", "ptx78", true, false},
                                      {"sm_100", "ptx86", true, true}});
  EXPECT_EQ(choose(bundle, gpu(80)), "sm_80 cubin");
  EXPECT_EQ(choose(bundle, gpu(86)), "sm_80 cubin");
  // sm_80's machine code would run, sm_89's kernels are tiled for this GPU.
  EXPECT_EQ(choose(bundle, gpu(89)), "sm_89 ptx");
  EXPECT_EQ(choose(bundle, gpu(90)), "sm_90a cubin");
  EXPECT_EQ(choose(bundle, gpu(100)), "sm_100 cubin");
  EXPECT_EQ(choose(bundle, gpu(103)), "sm_100 cubin");
  EXPECT_EQ(choose(bundle, gpu(120)), "sm_100 ptx");
}

TEST(ChooseCode, SpecificCodeRunsOnItsOwnArchitectureOnly) {
  bundle::Bundle bundle = makeBundle(
      {{"sm_90a", "ptx80", true, true}, {"sm_90", "ptx78", true, true}});
  EXPECT_EQ(choose(bundle, gpu(90)), "sm_90a cubin");
  EXPECT_EQ(choose(bundle, gpu(100)), "sm_90 ptx");
  EXPECT_EQ(choose(makeBundle({{"sm_90a", "ptx80"}}), gpu(100)),
            "the bundle has code for the host (x86-64-v3), sm_90a (PTX), none "
            "of which runs on Some GPU (device 0, compute capability 10.0); "
            "compile the schedule with `heddlec --target=cuda:sm_100`");
}

TEST(ChooseCode, MachineCodeAloneServesItsMajorNumber) {
  bundle::Bundle bundle = makeBundle({{"sm_86", "ptx71", false, true}});
  EXPECT_EQ(choose(bundle, gpu(86)), "sm_86 cubin");
  EXPECT_EQ(choose(bundle, gpu(89)), "sm_86 cubin");
  for (int other : {75, 80, 90})
    EXPECT_NE(choose(bundle, gpu(other)).find("sm_86 (machine code)"),
              std::string::npos);
}

TEST(ChooseCode, ADriverTooOldForThePtx) {
  bundle::Bundle ptx = makeBundle({{"sm_120", "ptx87"}});
  EXPECT_EQ(choose(ptx, gpu(120, 12080)), "sm_120 ptx");
  EXPECT_NE(choose(ptx, gpu(120, 12040))
                .find("the code for sm_120 needs a driver of CUDA 12.8, this "
                      "one is of 12.4; update the driver"),
            std::string::npos);
  // Other code that the driver does understand is taken instead.
  bundle::Bundle both = makeBundle({{"sm_120", "ptx87"}, {"sm_80", "ptx71"}});
  EXPECT_EQ(choose(both, gpu(120, 12040)), "sm_80 ptx");
  bundle::Bundle cubin = makeBundle({{"sm_120", "ptx87", true, true}});
  EXPECT_EQ(choose(cubin, gpu(120, 12040)), "sm_120 cubin");
}

class LoadTest : public FakeTest {};

TEST_F(LoadTest, ResolvesEveryKernelOfTheTarget) {
  bundle::Bundle bundle = makeBundle(
      {{"sm_80", "ptx71", true, true}, {"sm_90a", "ptx80", true, true}});
  Result<std::unique_ptr<Module>> module = Module::load(device(), bundle);
  ASSERT_OK(module);
  EXPECT_EQ((*module)->choice().target, 2);
  EXPECT_EQ((*module)->choice().form, CodeForm::Cubin);
  EXPECT_TRUE(fakeDriver().loadedCode.starts_with("\177ELF"));
  int seen = 0;
  auto check = [&](const auto &variant) {
    const Kernel *kernel = (*module)->find(variant.symbol);
    if (variant.target != 2)
      return;
    ++seen;
    ASSERT_NE(kernel, nullptr) << variant.symbol;
    EXPECT_EQ(kernel->threads(), 128);
    EXPECT_EQ(kernel->sharedBytes(), 65536);
    EXPECT_EQ(kernel->registers(), 128);
  };
  for (const bundle::Kernel &kernel : bundle.manifest().kernels)
    for (const auto &variant : kernel.variants)
      check(variant);
  for (const bundle::RowKernel &kernel : bundle.manifest().rowKernels)
    for (const auto &variant : kernel.variants)
      check(variant);
  EXPECT_GT(seen, 10);
  EXPECT_EQ((*module)->find("dense_lse_f32_d64"), nullptr); // the host's
  // 64 KiB of shared memory are more than a kernel may have unasked.
  Result<Stream> stream = Stream::create(device());
  ASSERT_OK(stream);
  uint64_t none = 0;
  EXPECT_OK((**module)["window_bf16_d64"].launch(*stream, {2, 3, 4}, none, none,
                                                 none));
  ASSERT_OK(stream->synchronize());
  EXPECT_EQ(fakeDriver().launches["window_bf16_d64"], 24);
  module->reset();
  EXPECT_EQ(fakeDriver().modules, 0);
}

// The fake refuses to launch a kernel early that does not wait.
TEST_F(LoadTest, OnlyKernelsThatWaitAreLaunchedEarly) {
  struct Case {
    const char *cpu;
    bool waits, cubin;
    int major, driver;
    bool early;
  };
  for (const Case &c : {Case{"sm_90a", true, false, 9, 13000, true},
                        Case{"sm_90a", true, true, 9, 12030, true},
                        Case{"sm_100", true, false, 12, 13000, true},
                        // Bundles of earlier compilers, and code for sm_80.
                        Case{"sm_90a", false, false, 9, 13000, false},
                        Case{"sm_80", false, true, 8, 13000, false},
                        Case{"sm_80", false, false, 10, 13000, false},
                        // Drivers that cannot capture such launches.
                        Case{"sm_90a", true, true, 9, 12020, false}}) {
    SCOPED_TRACE(std::string(c.cpu) + (c.waits ? " waits" : "") + " on " +
                 std::to_string(c.major) + ", driver " +
                 std::to_string(c.driver));
    SetUp();
    fakeDriver().major = c.major;
    fakeDriver().version = c.driver;
    BundleOptions options;
    options.waits = c.waits;
    Result<std::unique_ptr<Module>> module = Module::load(
        device(), makeBundle({{c.cpu, "ptx78", true, c.cubin}}, options));
    ASSERT_OK(module);
    Result<Stream> stream = Stream::create(device());
    ASSERT_OK(stream);
    uint64_t none = 0;
    ASSERT_OK((**module)["window_bf16_d64"].launch(*stream, {2, 3, 4}, none,
                                                   none, none));
    ASSERT_OK(stream->synchronize());
    EXPECT_EQ(fakeDriver().launches["window_bf16_d64"], 24);
    EXPECT_EQ(fakeDriver().early["window_bf16_d64"], c.early);
    EXPECT_EQ(fakeDriver().calls["cuLaunchKernelEx"], c.early);
    EXPECT_EQ(fakeDriver().calls["cuLaunchKernel"], !c.early);
    module->reset();
    *stream = Stream();
    TearDown();
  }
}

TEST_F(LoadTest, FallsBackToPtxWhenTheDriverRefusesMachineCode) {
  fakeDriver().refuseCubins = true;
  bundle::Bundle both = makeBundle({{"sm_90a", "ptx80", true, true}});
  Result<std::unique_ptr<Module>> module = Module::load(device(), both);
  ASSERT_OK(module);
  EXPECT_EQ((*module)->choice().form, CodeForm::Ptx);
  bundle::Bundle cubin = makeBundle({{"sm_90a", "ptx80", false, true}});
  EXPECT_ERROR(Module::load(device(), cubin),
               "section code.sm_90a.cubin: the driver (CUDA 13.0) refused the "
               "code, which is for another GPU than Fake GPU");
}

TEST_F(LoadTest, ShowsTheCompilersLog) {
  fakeDriver().jitLog = "ptxas application ptx input, line 7; fatal: no\n";
  Result<std::unique_ptr<Module>> module =
      Module::load(device(), makeBundle({{"sm_90a", "ptx80"}}));
  EXPECT_ERROR(module, "section code.sm_90a.ptx: the driver (CUDA 13.0) "
                       "refused the code: cuModuleLoadDataEx failed: "
                       "CUDA_ERROR_INVALID_PTX");
  EXPECT_ERROR(module, "its log:\nptxas application ptx input, line 7; fatal: "
                       "no");
  EXPECT_FALSE(device().broken());
}

TEST_F(LoadTest, RefusesCodeThatIsNotTheManifests) {
  BundleOptions options;
  options.symbolLeftOut = "window_bf16_d64";
  EXPECT_ERROR(
      Module::load(device(), makeBundle({{"sm_90a", "ptx80"}}, options)),
      "section code.sm_90a.ptx: kernel 'window_bf16_d64' is not in the code");
  options = {};
  options.threads = 1024; // the fake's functions take 512
  EXPECT_ERROR(
      Module::load(device(), makeBundle({{"sm_90a", "ptx80"}}, options)),
      "should run with 1024 threads a block, its code and Fake GPU (device 0, "
      "compute capability 9.0) allow 1 to 512");
  EXPECT_EQ(fakeDriver().modules, 0);
}

TEST_F(LoadTest, KernelsTiledForMoreSharedMemory) {
  fakeDriver().major = 8;
  fakeDriver().minor = 6;
  fakeDriver().sharedPerBlock = 101376;
  BundleOptions options;
  options.sharedBytes = 163840;
  EXPECT_ERROR(
      Module::load(device(), makeBundle({{"sm_80", "ptx71"}}, options)),
      "needs 163840 bytes of shared memory a block, Fake GPU (device 0, "
      "compute capability 8.6) has 101376; compile the schedule with `heddlec "
      "--target=cuda:sm_86`");
}

TEST_F(LoadTest, NoJitCompiler) {
  fakeDriver().failures["cuModuleLoadDataEx"] = {
      api::CUDA_ERROR_JIT_COMPILER_NOT_FOUND, 0};
  EXPECT_ERROR(Module::load(device(), testPtx, {}),
               "libnvidia-ptxjitcompiler.so");
  EXPECT_ERROR(Module::load(device(), "", {}), "there is no code");
}

class LaunchTest : public DeviceTest {
protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure())
      return;
    Result<std::unique_ptr<Module>> loaded =
        Module::load(device(), testPtx, {{"scale", 256, 0}, {"fault", 32, 0}});
    ASSERT_OK(loaded);
    module = std::move(*loaded);
  }
  void TearDown() override {
    module.reset();
    DeviceTest::TearDown();
  }
  std::unique_ptr<Module> module;
};

TEST_P(LaunchTest, RunsWithItsParameters) {
  constexpr int64_t n = 100001;
  ArenaPlan plan;
  ArenaPlan::Slot x = plan.add("x", n * 4), y = plan.add("y", n * 4);
  ArenaOptions options;
  options.poison = true;
  Result<Arena> arena = Arena::allocate(device(), plan, options);
  ASSERT_OK(arena);
  std::vector<float> values(n);
  for (int64_t i = 0; i < n; ++i)
    values[i] = static_cast<float>(i);
  upload((*arena)[x], values);
  const Kernel &scale = (*module)["scale"];
  EXPECT_GT(scale.registers(), 0);
  EXPECT_EQ(scale.localBytes(), 0);
  ASSERT_OK(scale.launch(stream, {(n + 255) / 256}, (*arena)[y], (*arena)[x],
                         0.5f, n));
  std::vector<float> result = download<float>((*arena)[y], n);
  for (int64_t i = 0; i < n; ++i)
    ASSERT_EQ(result[i], 0.5f * static_cast<float>(i));
}

TEST_P(LaunchTest, ComparesParametersWithTheKernels) {
  const Kernel &scale = (*module)["scale"];
  DevicePtr none = 0;
  if (device().api().funcGetParamInfo.function == nullptr)
    GTEST_SKIP() << "this driver does not tell the parameters of a kernel";
  EXPECT_ERROR(scale.launch(stream, {1}, none, none, 1.0f),
               "kernel 'scale' takes 4 parameters of 8, 8, 4, 8 bytes, it was "
               "launched with 3 of 8, 8, 4 bytes");
  EXPECT_ERROR(scale.launch(stream, {1}, none, none, 1.0, int64_t(1)),
               "launched with 4 of 8, 8, 8, 8 bytes");
}

TEST_P(LaunchTest, LimitsOfAGrid) {
  const Kernel &scale = (*module)["scale"];
  DevicePtr none = 0;
  for (Grid grid : {Grid{0}, Grid{1, 0}, Grid{1, 1, 0}})
    EXPECT_OK(scale.launch(stream, grid, none, none, 1.0f, int64_t(0)));
  for (Grid grid :
       {Grid{int64_t(1) << 31}, Grid{1, 65536}, Grid{1, 1, 65536}, Grid{-1}})
    EXPECT_ERROR(scale.launch(stream, grid, none, none, 1.0f, int64_t(0)),
                 "a GPU takes at most 2147483647 x 65535 x 65535");
  EXPECT_OK(scale.launch(stream, {3, 2, 2}, none, none, 1.0f, int64_t(0)));
  EXPECT_OK(stream.synchronize());
  if (!real()) {
    EXPECT_EQ(fakeDriver().launches["scale"], 12);
  }
}

TEST_P(LaunchTest, BrokenPtxIsRefusedWithALog) {
  if (!real())
    fakeDriver().jitLog = "the fake's log";
  Result<std::unique_ptr<Module>> broken = Module::load(
      device(), ".version 7.1\n.target sm_80\n.address_size 64\nnonsense\n",
      {});
  EXPECT_ERROR(broken, "refused the code");
  EXPECT_ERROR(broken, "its log:\n");
  EXPECT_FALSE(device().broken());
}

TEST_P(LaunchTest, ASymbolThatIsNotThere) {
  EXPECT_ERROR(Module::load(device(), testPtx, {{"scales", 32, 0}}),
               "kernel 'scales' is not in the code");
  EXPECT_EQ(module->find("scales"), nullptr);
}

INSTANTIATE_ON_MACHINES(LaunchTest);

} // namespace
