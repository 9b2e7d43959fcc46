//===- DTypeChoiceTest.cpp - The type that a run computes in --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/engine/DTypeChoice.h"

#include "runtime/test/engine/TestBundle.h"
#include "runtime/test/model/TinyModel.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::rt;

namespace {

using Types = std::vector<DType>;
constexpr DType f32 = DType::F32, bf16 = DType::BF16, f16 = DType::F16;

TEST(DTypeChoice, TheNearestLosesLeast) {
  for (DType type : {f32, bf16, f16}) {
    EXPECT_EQ(nearestDType(type, {f32, bf16, f16}), type);
    EXPECT_EQ(nearestDType(type, {}), type);
  }
  EXPECT_EQ(nearestDType(bf16, {f32, f16}), f32);
  EXPECT_EQ(nearestDType(f16, {f32, bf16}), f32);
  EXPECT_EQ(nearestDType(bf16, {f16}), f16);
  EXPECT_EQ(nearestDType(f16, {bf16}), bf16);
  EXPECT_EQ(nearestDType(f32, {bf16, f16}), bf16);
}

TEST(DTypeChoice, OfferedIsWhatEveryKernelHas) {
  using Kind = bundle::Target::Kind;
  bundle::Manifest manifest =
      cuda::test::gpuManifest({.dtypes = {"bf16", "f16"}, .headDims = {8, 64}});
  EXPECT_EQ(offeredDTypes(manifest, Kind::Cuda, 64), (Types{bf16, f16}));
  EXPECT_EQ(offeredDTypes(manifest, Kind::Cuda, 32), Types());
  EXPECT_EQ(offeredDTypes(manifest, Kind::Host, 64), Types());
  std::erase_if(manifest.kernels.back().variants,
                [](const bundle::KernelVariant &variant) {
                  return variant.dtype == "f16" && variant.headDim == 8;
                });
  EXPECT_EQ(offeredDTypes(manifest, Kind::Cuda, 8), Types{bf16});
  EXPECT_EQ(offeredDTypes(manifest, Kind::Cuda, 64), (Types{bf16, f16}));
}

TEST(DTypeChoice, StoredIsWhatMostBytesAre) {
  test::TemporaryFolder folder;
  test::makeTinyModel({}, bf16, 1).write(folder);
  Result<std::optional<DType>> stored = storedDType(folder.path);
  ASSERT_TRUE(stored) << stored.error().text();
  EXPECT_EQ(*stored, bf16);
  test::TemporaryFolder empty;
  EXPECT_FALSE(storedDType(empty.path));
}

} // namespace
