//===- AskedTest.cpp - What a bundle has no kernels for -------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/bench/Asked.h"

#include <gtest/gtest.h>

#include <string>

using namespace heddle;
using namespace heddle::bench;

namespace {

/// Kernels in bf16 for head dim 64.
bundle::Manifest manifestOf(bundle::Target::Kind kind) {
  bundle::Manifest manifest;
  manifest.targets.emplace_back().kind = kind;
  bundle::KernelVariant &variant =
      manifest.kernels.emplace_back().variants.emplace_back();
  variant.dtype = "bf16";
  variant.headDim = 64;
  return manifest;
}

/// What is said ends so.
void expectAdvice(const Status &status, const std::string &advice) {
  ASSERT_FALSE(status) << advice;
  EXPECT_TRUE(status.error().text().ends_with(advice)) << status.error().text();
}

TEST(Asked, SaysWhatCanBeDone) {
  using Kind = bundle::Target::Kind;
  const bundle::Manifest host = manifestOf(Kind::Host),
                         gpu = manifestOf(Kind::Cuda);
  EXPECT_TRUE(checkAsked(host, 0, {"bf16"}, {64}));
  // No option of heddlec makes these.
  expectAdvice(checkAsked(host, 0, {"f16"}, {}),
               ", it has bf16; f16 is for GPUs, give one of these");
  expectAdvice(checkAsked(host, 0, {}, {63}),
               ", it has 64; give one of these, or compile it with heddlec "
               "--head-dim, which says what there can be");
  expectAdvice(
      checkAsked(host, 0, {"f32"}, {}),
      ", it has bf16; give one of these, or compile it with --dtype=f32");
  expectAdvice(
      checkAsked(gpu, 0, {"f16"}, {}),
      ", it has bf16; give one of these, or compile it with --dtype=f16");
}

} // namespace
