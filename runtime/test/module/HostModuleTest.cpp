//===- HostModuleTest.cpp - Loading code, and refusing to -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/module/HostModule.h"

#include "runtime/test/schedule/HandBundle.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

using namespace heddle;
using namespace heddle::rt;

/// The error of loading a manifest with some code; fails the test if it loads.
static std::string refusal(const bundle::Manifest &manifest,
                           const std::string &code) {
  Result<bundle::Bundle> bundle = test::makeBundle(manifest, code);
  if (!bundle)
    return "the bundle itself: " + bundle.error().text();
  Result<std::unique_ptr<HostModule>> module = HostModule::load(*bundle);
  EXPECT_FALSE(module);
  return module ? "" : module.error().text();
}

static bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

TEST(HostModule, ResolvesEveryVariantAndRuns) {
  bundle::Bundle bundle = test::makeHandBundle(test::handManifest());
  Result<std::unique_ptr<HostModule>> module = HostModule::load(bundle);
  ASSERT_TRUE(module) << module.error().text();

  // One key: the output is its value, the log-sum-exp its logit.
  float q[8] = {1, 1}, k[8] = {2, 3}, v[8] = {0, 1, 2, 3, 4, 5, 6, 7}, o[8];
  float lse = 0, scratch[64];
  heddle::abi::AttentionArgs args{};
  args.query = q;
  args.key = k;
  args.value = v;
  args.output = o;
  args.lse = &lse;
  args.n = args.rows = 1;
  args.queryStride = args.keyStride = args.valueStride = args.outputStride = 8;
  args.kvGroup = 1;
  args.scale = 0.5f;
  const int32_t places[] = {0}, firstRow[] = {0, 1};
  args.place = args.position = places;
  args.firstRow = firstRow;
  (*module)->attention("dense_lse_f32_d8")(&args, 0, 0, scratch);
  EXPECT_EQ(std::vector<float>(o, o + 8), std::vector<float>(v, v + 8));
  EXPECT_FLOAT_EQ(lse, 2.5f * 1.44269504f);
}

TEST(HostModule, SeveralAtOnceAndAgain) {
  bundle::Bundle bundle = test::makeHandBundle(test::handManifest());
  for (int round = 0; round < 20; ++round) {
    Result<std::unique_ptr<HostModule>> first = HostModule::load(bundle);
    Result<std::unique_ptr<HostModule>> second = HostModule::load(bundle);
    ASSERT_TRUE(first) << first.error().text();
    ASSERT_TRUE(second) << second.error().text();
    EXPECT_NE((*first)->attention("dense_f32_d8"),
              (*second)->attention("dense_f32_d8"));
  }
}

TEST(HostModule, RefusesAnotherAbi) {
  bundle::Manifest manifest = test::handManifest();
  manifest.abi = heddle::abi::abiVersion + 1;
  std::string text = refusal(manifest, test::handCode());
  EXPECT_TRUE(contains(text, "ABI version")) << text;
  EXPECT_TRUE(contains(text, "recompile")) << text;
}

TEST(HostModule, RefusesAnotherMachine) {
  bundle::Manifest manifest = test::handManifest();
  manifest.targets[0].triple = "s390x-unknown-linux-gnu";
  EXPECT_TRUE(contains(refusal(manifest, test::handCode()), "s390x"));
  manifest = test::handManifest();
  manifest.targets[0].features = {"warp-drive"};
  EXPECT_TRUE(contains(refusal(manifest, test::handCode()), "warp-drive"));
}

/// Forms of all kernels for a GPU, as if they had been compiled for it too.
static void addGpu(bundle::Manifest &manifest) {
  auto index = static_cast<int64_t>(manifest.targets.size());
  bundle::Target gpu;
  gpu.kind = bundle::Target::Kind::Cuda;
  gpu.triple = "nvptx64-nvidia-cuda";
  gpu.cpu = "sm_90a";
  gpu.features = {"ptx80"};
  manifest.targets.push_back(gpu);
  for (bundle::Kernel &kernel : manifest.kernels) {
    bundle::KernelVariant variant = kernel.variants.front();
    variant.target = index;
    variant.threads = 128;
    variant.symbol = bundle::expectedSymbol(kernel, variant, gpu);
    kernel.variants.push_back(variant);
  }
  for (bundle::RowOp op : bundle::allRowOps)
    manifest.rowKernels.push_back(
        {op, {{index, bundle::rowSymbol(op, "f32"), "f32", 128, 0}}});
}

TEST(HostModule, LeavesTheFormsOfOtherTargetsAlone) {
  bundle::Manifest manifest = test::handManifest();
  addGpu(manifest);
  Result<std::unique_ptr<HostModule>> module =
      HostModule::load(test::makeHandBundle(manifest));
  EXPECT_TRUE(module) << module.error().text();
}

TEST(HostModule, RefusesBundlesForGpusAlone) {
  bundle::Manifest manifest = test::handManifest();
  manifest.targets.clear();
  for (bundle::Kernel &kernel : manifest.kernels)
    kernel.variants.resize(1);
  addGpu(manifest);
  for (bundle::Kernel &kernel : manifest.kernels)
    kernel.variants.erase(kernel.variants.begin());
  EXPECT_EQ(refusal(manifest, ""),
            "the bundle has code for sm_90a only; run it with --device=cuda or "
            "compile it with `heddlec --target=host`");
}

TEST(HostModule, RefusesMissingCode) {
  std::string text = refusal(test::handManifest(), "");
  EXPECT_TRUE(contains(text, "no section 'code.host'")) << text;
}

TEST(HostModule, RefusesWhatIsNoSharedObject) {
  bundle::Manifest manifest = test::handManifest();
  EXPECT_TRUE(contains(refusal(manifest, "x"), "too few"));
  EXPECT_TRUE(
      contains(refusal(manifest, std::string(4096, 'x')), "not a 64-bit"));

  std::string code = test::handCode();
  auto *header = reinterpret_cast<Elf64_Ehdr *>(code.data());
  header->e_machine = EM_S390;
  EXPECT_TRUE(contains(refusal(manifest, code), "ELF machine"));

  code = test::handCode();
  reinterpret_cast<Elf64_Ehdr *>(code.data())->e_phoff = code.size() - 8;
  EXPECT_TRUE(contains(refusal(manifest, code), "program headers"));
}

TEST(HostModule, RefusesTruncatedCodeAtAnyLength) {
  bundle::Manifest manifest = test::handManifest();
  std::string code = test::handCode();
  // What comes after the last segment, debug information, nobody loads.
  auto *header = reinterpret_cast<Elf64_Ehdr *>(code.data());
  auto *segments =
      reinterpret_cast<Elf64_Phdr *>(code.data() + header->e_phoff);
  uint64_t end = 0;
  for (int i = 0; i < header->e_phnum; ++i)
    end = std::max(end, segments[i].p_offset + segments[i].p_filesz);
  ASSERT_GT(end, 1000u);
  for (size_t size = 64; size < end; size += end / 37)
    EXPECT_TRUE(contains(refusal(manifest, code.substr(0, size)), "outside"))
        << size;
  EXPECT_TRUE(contains(refusal(manifest, code.substr(0, end - 1)), "outside"));
}

/// Gives a kernel another name, and so all of its forms another symbol.
static void rename(bundle::Kernel &kernel, const std::string &name) {
  kernel.name = name;
  for (bundle::KernelVariant &variant : kernel.variants)
    variant.symbol =
        bundle::variantSymbol(name, variant.dtype, variant.headDim);
}

TEST(HostModule, RefusesAMissingSymbol) {
  bundle::Manifest manifest = test::handManifest();
  rename(manifest.kernels[2], "nowhere");
  std::string text = refusal(manifest, test::handCode());
  EXPECT_TRUE(contains(text, "kernel 'nowhere'")) << text;
  EXPECT_TRUE(contains(text, "'nowhere_f32_d8', which is no function")) << text;
}

TEST(HostModule, RefusesASymbolOfData) {
  bundle::Manifest manifest = test::handManifest();
  rename(manifest.kernels[2], "data");
  std::string text = refusal(manifest, test::handCode());
  EXPECT_TRUE(contains(text, "'data_f32_d8', which is no function")) << text;
}

//===----------------------------------------------------------------------===//
// Manifests that say something else than the code does
//===----------------------------------------------------------------------===//

/// The error of loading the hand-written kernels after `change` to the f32
/// form of one of them.
static std::string
refusalOf(const std::string &name,
          const std::function<void(bundle::Kernel &, bundle::KernelVariant &)>
              &change) {
  bundle::Manifest manifest = test::handManifest();
  bundle::Kernel &kernel =
      manifest.kernels[static_cast<size_t>(test::kernelNamed(manifest, name))];
  change(kernel, kernel.variants[0]);
  return refusal(manifest, test::handCode());
}

#define EXPECT_LIE(name, change, part)                                         \
  do {                                                                         \
    std::string text = refusalOf(                                              \
        name, [](bundle::Kernel &kernel, bundle::KernelVariant &variant) {     \
          (void)kernel, (void)variant;                                         \
          change;                                                              \
        });                                                                    \
    EXPECT_TRUE(contains(text, part)) << text;                                 \
  } while (false)

TEST(HostModule, RefusesTooLittleScratch) {
  EXPECT_LIE("dense", variant.scratchBytesPerKey = 0,
             "trial run of 'dense_f32_d8': it writes 36 bytes behind its "
             "scratch memory, the manifest says 0 bytes and 0 a key");
  EXPECT_LIE("select32", variant.scratchBytesPerKey = 0, "behind its scratch");
}

TEST(HostModule, RefusesOtherRows) {
  EXPECT_LIE("dense", variant.queryRows = 1024, "task 0 leaves out row 8");
  EXPECT_LIE("columns32", variant.queryRows = 32, "task 0 leaves out row 16");
}

TEST(HostModule, RefusesOtherPairs) {
  EXPECT_LIE("window6", kernel.terms.clear(), "attends to other keys");
  EXPECT_LIE("window6", kernel.terms[0].size = 4, "attends to other keys");
  EXPECT_LIE("columns16", kernel.terms.clear(), "attends to other keys");
  EXPECT_LIE("columns16_window6_sinks2", kernel.terms.pop_back(),
             "attends to other keys");
  // A number where the code asks for a share's bound, and the reverse.
  EXPECT_LIE("window5_share",
             (kernel.terms[1].share = {}, kernel.terms[1].size = 4),
             "attends to other keys");
  EXPECT_LIE("share_lse", kernel.terms.pop_back(), "leaves out row 0");
  EXPECT_LIE("sinks3_lse",
             (kernel.terms[0].size = 0, kernel.terms[0].share = {1, 5}),
             "attends to other keys");
  EXPECT_LIE("sinks3_lse",
             kernel.terms.push_back({bundle::Term::Kind::Columns, 0, 0}),
             "attends to other keys");
}

TEST(HostModule, RefusesAnotherLogSumExp) {
  EXPECT_LIE("dense", kernel.writesLse = true, "leaves out the log-sum-exp");
  EXPECT_LIE("dense_lse", kernel.writesLse = false, "writes the log-sum-exp");
}

TEST(HostModule, RefusesOtherGroups) {
  EXPECT_LIE("select16", kernel.group = 32, "scores rows of other groups");
  EXPECT_LIE("select32", kernel.group = 16;
             for (auto &each : kernel.variants) each.queryRows = 16,
             "scores rows of other groups");
}

/// Why a bundle is refused whose "select16" is changed, or "".
template <typename Change> static std::string whySelects(Change change) {
  bundle::Manifest manifest = test::handManifest();
  change(manifest.kernels[static_cast<size_t>(
      test::kernelNamed(manifest, "select16"))]);
  Result<bundle::Bundle> bundle = test::makeBundle(manifest, test::handCode());
  EXPECT_TRUE(bundle) << bundle.error().text();
  Result<std::unique_ptr<HostModule>> module = HostModule::load(*bundle);
  return module ? std::string() : module.error().text();
}

TEST(HostModule, TriesKernelsUnderFunctions) {
  auto refused = [](auto change) {
    return whySelects([&](bundle::Kernel &kernel) {
      kernel.scores.nodes = {{.op = bundle::Scores::Op::AbsF,
                              .of = {bundle::Scores::Logit, -1, -1}}};
      change(kernel);
    });
  };
  EXPECT_EQ(refused([](bundle::Kernel &) {}), "");
  // Lists of keys must be the best ones to the last under functions, too.
  EXPECT_PRED2(contains,
               refused([](bundle::Kernel &kernel) { kernel.withinGroup = 16; }),
               "selects other keys");
}

TEST(HostModule, TriesKernelsByMeanLogits) {
  auto refused = [](const std::string &name, auto change) {
    return whySelects([&](bundle::Kernel &kernel) {
      rename(kernel, name);
      kernel.scorer = bundle::Selection::Scorer::MeanLogit;
      change(kernel);
    });
  };
  EXPECT_EQ(refused("select16_logits", [](bundle::Kernel &) {}), "");
  const std::string other = "selects other keys";
  auto widen = [](bundle::Kernel &kernel) {
    kernel.group = 32;
    for (bundle::KernelVariant &each : kernel.variants)
      each.queryRows = 32;
  };
  auto pool = [](bundle::Kernel &kernel) { kernel.pooled = 5; };
  auto weigh = [](bundle::Kernel &kernel) {
    kernel.scorer = bundle::Selection::Scorer::MeanProbability;
  };
  EXPECT_PRED2(contains, refused("select16_logits", widen), other);
  EXPECT_PRED2(contains, refused("select16_logits", pool), other);
  EXPECT_PRED2(contains, refused("select16_logits", weigh), "scores rows of");
  EXPECT_PRED2(contains, refused("select16", [](bundle::Kernel &) {}), other);
}
