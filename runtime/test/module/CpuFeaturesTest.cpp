//===- CpuFeaturesTest.cpp - What the CPU has, asked twice ----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/module/CpuFeatures.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::rt;

TEST(CpuFeatures, UnknownNamesAreSaidToBeUnknown) {
  EXPECT_EQ(cpuFeature("warp-drive"), FeatureState::Unknown);
  EXPECT_EQ(cpuFeature(""), FeatureState::Unknown);
}

#if defined(__x86_64__)
TEST(CpuFeatures, AgreesWithTheCompilersOwnDetection) {
  __builtin_cpu_init();
#define CHECK_FEATURE(name)                                                    \
  EXPECT_EQ(cpuFeature(name) == FeatureState::Usable,                          \
            __builtin_cpu_supports(name) != 0)                                 \
      << name
  CHECK_FEATURE("sse2");
  CHECK_FEATURE("sse4.2");
  CHECK_FEATURE("popcnt");
  CHECK_FEATURE("avx");
  CHECK_FEATURE("avx2");
  CHECK_FEATURE("fma");
  CHECK_FEATURE("bmi2");
  CHECK_FEATURE("fma4");
  CHECK_FEATURE("avx512f");
  CHECK_FEATURE("avx512vl");
  CHECK_FEATURE("avx512bw");
  CHECK_FEATURE("avx512dq");
  CHECK_FEATURE("avx512vnni");
  CHECK_FEATURE("avx512bf16");
#undef CHECK_FEATURE
}
#endif

TEST(CheckTarget, AcceptsThisMachine) {
  bundle::Target target;
  target.triple = std::string(hostArchitecture()) + "-unknown-linux-gnu";
  EXPECT_TRUE(static_cast<bool>(checkTarget(target)));
}

TEST(CheckTarget, RefusesAnotherArchitectureOrSystem) {
  bundle::Target target;
  target.triple = "riscv64-unknown-linux-gnu";
  Status status = checkTarget(target);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().text().find("riscv64"), std::string::npos);
  EXPECT_NE(status.error().text().find("--target=host"), std::string::npos);
  target.triple = std::string(hostArchitecture()) + "-apple-darwin";
  EXPECT_FALSE(checkTarget(target));
}

TEST(CheckTarget, NamesEveryFeatureInTheWay) {
  bundle::Target target;
  target.triple = std::string(hostArchitecture()) + "-unknown-linux-gnu";
  target.cpu = "imaginary";
  target.features = {"warp-drive", "flux"};
#if defined(__x86_64__)
  // No CPU has both of these.
  target.features.insert(target.features.end(), {"tbm", "avx512fp16"});
#endif
  Status status = checkTarget(target);
  ASSERT_FALSE(status);
  std::string text = status.error().text();
  EXPECT_NE(text.find("imaginary"), std::string::npos) << text;
  EXPECT_NE(text.find("warp-drive, flux"), std::string::npos) << text;
#if defined(__x86_64__)
  EXPECT_NE(text.find("this CPU lacks tbm"), std::string::npos) << text;
#endif
  EXPECT_NE(text.find("--target=host"), std::string::npos) << text;
}
