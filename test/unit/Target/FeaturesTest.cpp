//===- FeaturesTest.cpp - The compiler's CPUs, as the runtime sees them ---===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A bundle names the features that its code needs; the runtime refuses what it
// does not know. The two lists stand on both sides of it, so they are compared
// here.
//
//===----------------------------------------------------------------------===//

#include "heddle/Target/Host/HostTarget.h"
#include "runtime/module/CpuFeatures.h"

#include <gtest/gtest.h>

using namespace heddle;

namespace {

TEST(Features, TheRuntimeKnowsAllThatTheCompilerNames) {
  for (const char *cpu : {"host", "x86-64-v3", "x86-64-v4", "haswell", "znver4",
                          "sapphirerapids", "graniterapids"}) {
    SCOPED_TRACE(cpu);
    llvm::Expected<HostTarget> target = HostTarget::get(cpu);
    if (!target) { // a machine without AVX2, or no x86-64
      std::string why = llvm::toString(target.takeError());
      EXPECT_STREQ(cpu, "host") << why;
      continue;
    }
    EXPECT_TRUE(target->has("avx2"));
    for (const std::string &feature : target->description().features)
      EXPECT_NE(rt::cpuFeature(feature), rt::FeatureState::Unknown) << feature;
  }
}

TEST(Features, WhatIsCompiledForTheHostRunsHere) {
  llvm::Expected<HostTarget> target = HostTarget::get("host");
  if (!target)
    GTEST_SKIP() << llvm::toString(target.takeError());
  Status status = rt::checkTarget(target->description());
  EXPECT_TRUE(status) << (status ? "" : status.error().text());
}

} // namespace
