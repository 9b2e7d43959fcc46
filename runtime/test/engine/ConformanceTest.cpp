//===- ConformanceTest.cpp - Does the suite notice, on a GPU? -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The fake GPU's kernels conform; such as take their rows or lists for others
// do not.
//
//===----------------------------------------------------------------------===//

#include "runtime/test/conformance/CudaCheck.h"
#include "runtime/test/engine/EngineFixture.h"

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;
using namespace heddle::rt::cuda::test;

namespace {

class CudaConformance : public FakeTest {
protected:
  /// Changes what a kernel is given before it runs.
  using Change = void (*)(heddle::abi::AttentionArgs &args);

  conformance::Finding findingOf(const std::string &name,
                                 Change change = nullptr) {
    bundle::Manifest manifest = gpuManifest({.dtypes = {"f32"}});
    installKernels(manifest);
    const bundle::Kernel &kernel =
        manifest.kernels[kernelNamed(manifest, name)];
    const bundle::KernelVariant &variant = kernel.variants.front();
    if (change) {
      auto &code = fakeDriver().kernels[variant.symbol];
      code = [code, change](const FakeDriver::Launch &launch) {
        auto *blocks = launch.parameter<heddle::abi::AttentionArgs *>(0);
        for (int64_t z = 0; z < launch.grid[2]; ++z)
          change(blocks[z]);
        code(launch);
      };
    }
    conformance::Finding finding;
    auto module = Module::load(device(), gpuBundle(manifest));
    Result<Stream> stream = Stream::create(device());
    if (!module || !stream) {
      ADD_FAILURE() << "the bundle cannot be loaded";
      return finding;
    }
    conformance::Options options;
    options.lengths = {1, 15, 17, 50};
    options.ratios = {1, 3};
    return checkAttentionOnCuda({device(), **module, *stream, /*wide=*/false},
                                manifest, kernel, variant, options);
  }
};

TEST_F(CudaConformance, KernelsOfSomeRowsConform) {
  for (const char *name : {"dense", "dense_lse", "columns", "two_columns",
                           "union", "share", "share_union"}) {
    conformance::Finding finding = findingOf(name);
    EXPECT_TRUE(finding.ok()) << finding.failure;
    EXPECT_GT(finding.cases, 16);
  }
}

/// Of lists that kernels choose within, in each encoding and of blocks; a
/// kernel that takes a head's lists for another's does not conform.
TEST_F(CudaConformance, SelectionsWithinOthersConform) {
  for (bundle::Encoding encoding :
       {bundle::Encoding::Int32, bundle::Encoding::Uint16,
        bundle::Encoding::Bitmap})
    for (bool ofBlocks : {false, true})
      for (bool lies : {false, true}) {
        bundle::Manifest manifest =
            gpuManifest({.dtypes = {"f32"}, .encodings = {encoding}});
        bundle::Kernel &kernel =
            manifest.kernels[kernelNamed(manifest, "select_16")];
        kernel.withinGroup = 32;
        kernel.withinBlocks = ofBlocks;
        const bundle::KernelVariant &variant = kernel.variants.front();
        installKernels(manifest);
        auto &code = fakeDriver().kernels[variant.symbol];
        if (lies)
          code = [code](const FakeDriver::Launch &launch) {
            auto *blocks = launch.parameter<heddle::abi::SelectArgs *>(0);
            for (int64_t z = 0; z < launch.grid[2]; ++z)
              blocks[z].within.groups = 1; // other heads' lists
            code(launch);
          };
        auto module = Module::load(device(), gpuBundle(manifest));
        Result<Stream> stream = Stream::create(device());
        ASSERT_TRUE(module && stream);
        conformance::Options options;
        options.lengths = {1, 17, 33, 90};
        options.ratios = {1, 3};
        const conformance::Finding finding =
            checkSelectOnCuda({device(), **module, *stream, /*wide=*/false},
                              manifest, kernel, variant, options);
        EXPECT_EQ(finding.ok(), !lies) << finding.failure;
      }
}

/// By logits of the same rows; a kernel that scales them otherwise, which
/// changes no order, does not conform.
TEST_F(CudaConformance, SelectionsByLogitsConform) {
  for (bool lies : {false, true}) {
    bundle::Manifest manifest = gpuManifest({.dtypes = {"bf16"}});
    bundle::Kernel &kernel =
        manifest.kernels[kernelNamed(manifest, "select_16")];
    kernel.scorer = bundle::Selection::Scorer::MeanLogit;
    const bundle::KernelVariant &variant = kernel.variants.front();
    installKernels(manifest);
    auto &code = fakeDriver().kernels[variant.symbol];
    if (lies)
      code = [code](const FakeDriver::Launch &launch) {
        auto *blocks = launch.parameter<heddle::abi::SelectArgs *>(0);
        for (int64_t z = 0; z < launch.grid[2]; ++z)
          blocks[z].scale *= 1.01f;
        code(launch);
      };
    auto module = Module::load(device(), gpuBundle(manifest));
    Result<Stream> stream = Stream::create(device());
    ASSERT_TRUE(module && stream);
    conformance::Options options;
    options.lengths = {1, 17, 90};
    options.ratios = {1, 3};
    const conformance::Finding finding =
        checkSelectOnCuda({device(), **module, *stream, /*wide=*/false},
                          manifest, kernel, variant, options);
    EXPECT_EQ(finding.ok(), !lies) << finding.failure;
  }
}

TEST_F(CudaConformance, NoticesKernelsThatIgnorePlaces) {
  EXPECT_FALSE(findingOf("union", [](heddle::abi::AttentionArgs &args) {
                 auto *place = const_cast<int32_t *>(args.place);
                 // The first row's, as far as its tile reaches.
                 for (int64_t row = 0; place && row < args.rows; ++row)
                   place[row] = place[row] / 16 * 16;
               }).ok());
}

TEST_F(CudaConformance, NoticesKernelsThatLeaveRowsOut) {
  EXPECT_FALSE(findingOf("dense", [](heddle::abi::AttentionArgs &args) {
                 if (args.place && args.rows > 0)
                   --args.rows;
               }).ok());
}

TEST_F(CudaConformance, NoticesLogSumExpsAtOtherRows) {
  EXPECT_FALSE(findingOf("dense_lse", [](heddle::abi::AttentionArgs &args) {
                 if (args.rows < args.n)
                   args.lse += 1;
               }).ok());
}

} // namespace
