//===- ConformanceTest.cpp - Does the suite notice? -----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Hand-written kernels conform; a manifest that says something else of them
// does not.
//
//===----------------------------------------------------------------------===//

#include "runtime/test/conformance/Conformance.h"

#include "runtime/test/schedule/HandBundle.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::conformance;
using bundle::Kernel;
using bundle::Term;

namespace {

Options quick() {
  Options options;
  options.lengths = {1, 2, 15, 16, 17, 33};
  options.ratios = {1, 7};
  return options;
}

/// The finding for one kernel's f32 variant after `change`.
Finding findingOf(const std::string &name,
                  const std::function<void(Kernel &)> &change) {
  bundle::Manifest manifest = test::handManifest();
  bundle::Bundle bundle = test::makeHandBundle(manifest);
  auto module = rt::HostModule::load(bundle);
  EXPECT_TRUE(module) << module.error().text();
  Kernel kernel = manifest.kernels[test::kernelNamed(manifest, name)];
  change(kernel);
  const bundle::KernelVariant &variant = kernel.variants.front();
  if (kernel.kind == Kernel::Kind::Select)
    return checkSelect(kernel, variant, (*module)->select(variant.symbol),
                       quick());
  return checkAttention(manifest, kernel, variant,
                        (*module)->attention(variant.symbol), quick());
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST(Conformance, HandWrittenKernelsConform) {
  bundle::Manifest manifest = test::handManifest();
  // A program that uses most of them.
  bundle::Phase refreshing;
  refreshing.when.kind = bundle::When::Kind::On;
  refreshing.when.cadence.kind = bundle::Cadence::Kind::Every;
  refreshing.when.cadence.period = 4;
  for (bundle::Selection &selection : manifest.selections)
    selection.cadence = refreshing.when.cadence;
  refreshing.attention = test::kernelNamed(manifest, "dense_lse");
  refreshing.refreshes = {{0, test::kernelNamed(manifest, "select16")},
                          {1, test::kernelNamed(manifest, "select32")}};
  bundle::Phase otherwise;
  otherwise.attention = test::kernelNamed(manifest, "columns16_columns32_lse");
  manifest.rules[0].phases = {refreshing, otherwise};
  std::vector<std::string> lines;
  Result<bool> conforms =
      checkBundle(test::makeHandBundle(manifest), quick(),
                  [&](const std::string &line) { lines.push_back(line); });
  ASSERT_TRUE(conforms) << conforms.error().text();
  for (const std::string &line : lines)
    EXPECT_TRUE(line.starts_with("ok")) << line;
  EXPECT_TRUE(*conforms);
  // Two element types of every kernel and of the program.
  EXPECT_EQ(lines.size(), 2 * (manifest.kernels.size() + 1));
}

TEST(Conformance, ChecksOnlyKernelsThatAreAskedFor) {
  const bundle::Manifest manifest = test::handManifest();
  const bundle::Bundle bundle = test::makeHandBundle(manifest);
  Options options = quick();
  options.kernel = "window6";
  std::vector<std::string> lines;
  auto report = [&](const std::string &line) { lines.push_back(line); };
  Result<bool> conforms = checkBundle(bundle, options, report);
  ASSERT_TRUE(conforms) << conforms.error().text();
  EXPECT_TRUE(*conforms);
  EXPECT_FALSE(lines.empty());
  for (const std::string &line : lines)
    EXPECT_TRUE(contains(line, "window6")) << line;
  options.kernel = "window7";
  conforms = checkBundle(bundle, options, report);
  ASSERT_FALSE(conforms);
  EXPECT_EQ(conforms.error().text(),
            "no kernel for this device has \"window7\" in its name");
}

TEST(Conformance, NoticesAnotherPattern) {
  EXPECT_FALSE(
      findingOf("window6", [](Kernel &kernel) { kernel.terms.clear(); }).ok());
  EXPECT_FALSE(findingOf("window6", [](Kernel &kernel) {
                 kernel.terms[0].size = 4;
               }).ok());
  EXPECT_FALSE(findingOf("columns16_window6_sinks2", [](Kernel &kernel) {
                 kernel.terms.pop_back();
               }).ok());
  EXPECT_FALSE(findingOf("columns32", [](Kernel &kernel) {
                 kernel.terms[0].selection = 0;
               }).ok());
}

/// The hand-written dense kernel, doing one row more than its tile has.
static heddle::abi::AttentionKernel dense = nullptr;
static void doMore(const heddle::abi::AttentionArgs *args, int64_t head,
                   int64_t tile, void *scratch) {
  heddle::abi::AttentionArgs more = *args;
  auto rows = static_cast<int32_t>(args->rows);
  const int32_t firstRow[] = {args->firstRow[tile],
                              std::min(args->firstRow[tile + 1] + 1, rows)};
  more.firstRow = firstRow;
  dense(&more, head, 0, scratch);
}

TEST(Conformance, NoticesWritesOutsideOfATask) {
  bundle::Manifest manifest = test::handManifest();
  auto module = rt::HostModule::load(test::makeHandBundle(manifest));
  ASSERT_TRUE(module) << module.error().text();
  Kernel kernel = manifest.kernels[test::kernelNamed(manifest, "dense")];
  bundle::KernelVariant variant = kernel.variants.front();
  dense = (*module)->attention(variant.symbol);
  variant.queryRows = 4;
  Finding finding = checkAttention(manifest, kernel, variant, doMore, quick());
  EXPECT_TRUE(contains(finding.failure, "outside of its rows"))
      << finding.failure;
}

TEST(Conformance, NoticesRowsLeftOut) {
  // The kernel does 8 rows of a tile where the manifest gives it 16.
  Finding finding = findingOf(
      "dense", [](Kernel &kernel) { kernel.variants[0].queryRows = 16; });
  EXPECT_TRUE(contains(finding.failure, "nan, allowed")) << finding.failure;
}

TEST(Conformance, NoticesAMissingLogSumExp) {
  EXPECT_FALSE(
      findingOf("dense", [](Kernel &kernel) { kernel.writesLse = true; }).ok());
}

TEST(Conformance, NoticesOtherGroups) {
  EXPECT_FALSE(
      findingOf("select32", [](Kernel &kernel) { kernel.group = 16; }).ok());
}

using ConformanceDeathTest = testing::Test;

TEST(ConformanceDeathTest, NoticesTooMuchScratch) {
  EXPECT_EXIT(
      {
        describeFaults();
        findingOf("dense", [](Kernel &kernel) {
          kernel.variants[0].scratchBytesPerKey = 0;
        });
      },
      testing::ExitedWithCode(1), "memory outside of the kernel's buffers");
}

TEST(ConformanceDeathTest, NoticesReadsBeyondATensor) {
  EXPECT_EXIT(
      {
        describeFaults();
        GuardedBuffer buffer(12);
        nowTesting("a test");
        volatile int32_t *end = buffer.as<int32_t>() + 3;
        std::fprintf(stderr, "%d", *end);
      },
      testing::ExitedWithCode(1), "in a test");
}

TEST(GuardedBuffer, NoticesBytesInFront) {
  GuardedBuffer buffer(100);
  EXPECT_TRUE(buffer.intact());
  buffer.data()[0] = std::byte{1};
  EXPECT_TRUE(buffer.intact());
  buffer.data()[-1] = std::byte{1};
  EXPECT_FALSE(buffer.intact());
}

TEST(GuardedBuffer, NoticesBytesInAnAlignmentGap) {
  GuardedBuffer buffer(100, 64);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
  buffer.data()[100] = std::byte{1};
  EXPECT_FALSE(buffer.intact());
}
