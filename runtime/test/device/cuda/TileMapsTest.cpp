//===- TileMapsTest.cpp - Tensor maps of keys and values ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/TileMaps.h"
#include "runtime/device/cuda/Module.h"
#include "runtime/test/device/cuda/Fixture.h"

#include <cstring>

using heddle::Result;
using namespace heddle::rt::cuda;
using namespace heddle::rt::cuda::test;
namespace bundle = heddle::bundle;

namespace {

class TileMapsTest : public FakeTest {
protected:
  static bundle::KernelVariant variant() {
    bundle::KernelVariant variant;
    variant.symbol = "attention_dense_bf16_d128";
    variant.dtype = "bf16";
    variant.headDim = 128;
    variant.mapRows = 96;
    return variant;
  }
  /// 8 query heads, 2 of keys: K and V are side by side in rows of 768.
  static heddle::abi::AttentionArgs arguments() {
    heddle::abi::AttentionArgs args{};
    args.key = reinterpret_cast<void *>(uintptr_t(0x10000));
    args.value = reinterpret_cast<void *>(uintptr_t(0x10200));
    args.n = 77;
    args.keyStride = 768;
    args.valueStride = 1024;
    args.kvGroup = 4;
    args.heads = 8;
    return args;
  }
  static FakeTensorMap read(const unsigned char (&map)[128]) {
    FakeTensorMap copy;
    static_assert(sizeof(copy) == sizeof(map));
    std::memcpy(&copy, map, sizeof(map));
    return copy;
  }
};

TEST_F(TileMapsTest, TellOfKeysAndValues) {
  Result<heddle::abi::TileMaps> maps =
      encodeTileMaps(device(), variant(), arguments());
  ASSERT_OK(maps);
  const FakeTensorMap key = read(maps->key), value = read(maps->value);
  EXPECT_EQ(key.type, heddle::rt::cuda::api::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
  EXPECT_EQ(key.address, 0x10000u);
  EXPECT_EQ(value.address, 0x10200u);
  EXPECT_EQ(key.strideBytes, 2u * 768);
  EXPECT_EQ(value.strideBytes, 2u * 1024);
  for (const FakeTensorMap &map : {key, value}) {
    EXPECT_EQ(map.columns, 2u * 128);
    EXPECT_EQ(map.rows, 77u);
    EXPECT_EQ(map.boxColumns, 64u);
    EXPECT_EQ(map.boxRows, 96u);
  }
  bundle::KernelVariant half = variant();
  half.dtype = "f16";
  maps = encodeTileMaps(device(), half, arguments());
  ASSERT_OK(maps);
  EXPECT_EQ(read(maps->key).type,
            heddle::rt::cuda::api::CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
}

TEST_F(TileMapsTest, RefusesWhatItCannotTellOf) {
  heddle::abi::AttentionArgs args = arguments();
  args.valueStride = 1025;
  EXPECT_ERROR(encodeTileMaps(device(), variant(), args),
               "tensor maps of kernel attention_dense_bf16_d128: "
               "cuTensorMapEncodeTiled failed");
  args = arguments();
  args.key = reinterpret_cast<void *>(uintptr_t(0x10008));
  EXPECT_ERROR(encodeTileMaps(device(), variant(), args),
               "cuTensorMapEncodeTiled failed");
  bundle::KernelVariant wide = variant();
  wide.dtype = "f32";
  EXPECT_ERROR(encodeTileMaps(device(), wide, arguments()), "has tiles of f32");
}

/// Grids are whole clusters.
TEST_F(TileMapsTest, ClustersAreWhole) {
  Result<std::unique_ptr<Module>> module = Module::load(
      device(), testPtx, {{.symbol = "fault", .threads = 32, .cluster = 2}});
  ASSERT_OK(module);
  int64_t blocks = 0;
  fakeDriver().kernels["fault"] = [&](const FakeDriver::Launch &launch) {
    blocks = launch.grid[0];
  };
  Result<Stream> stream = Stream::create(device());
  ASSERT_OK(stream);
  for (auto [asked, launched] : {std::pair(1, 2), std::pair(4, 4)}) {
    ASSERT_OK((**module)["fault"].launch(*stream, Grid{.x = asked}));
    ASSERT_OK(stream->synchronize());
    EXPECT_EQ(blocks, launched);
  }
  *stream = Stream();
  module->reset();
  close();
}

} // namespace
