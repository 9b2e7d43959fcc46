//===- TileMapsTest.cpp - Tensor maps of keys and values ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/TileMaps.h"
#include "runtime/device/cuda/AttentionGrid.h"
#include "runtime/device/cuda/Module.h"
#include "runtime/test/device/cuda/Fixture.h"

#include <array>
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
  /// The map of `arguments()`'s keys, or of its values.
  static void expectKeys(const FakeTensorMap &map, uint64_t address,
                         uint64_t stride) {
    EXPECT_EQ(map.address, address);
    EXPECT_EQ(map.strideBytes, 2 * stride);
    EXPECT_EQ(map.columns, 2u * 128);
    EXPECT_EQ(map.rows, 77u);
    EXPECT_EQ(map.boxColumns, 64u);
    EXPECT_EQ(map.boxRows, 96u);
  }
};

TEST_F(TileMapsTest, TellOfKeysAndValues) {
  Result<heddle::abi::TileMaps> maps =
      encodeTileMaps(device(), variant(), arguments());
  ASSERT_OK(maps);
  const FakeTensorMap key = read(maps->key), value = read(maps->value);
  EXPECT_EQ(key.type, heddle::rt::cuda::api::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
  expectKeys(key, 0x10000, 768);
  expectKeys(value, 0x10200, 1024);
  // Persistent kernels have those of queries, too.
  EXPECT_EQ(read(maps->query).address, 0u);
  heddle::abi::AttentionArgs args = arguments();
  args.query = reinterpret_cast<void *>(uintptr_t(0x20000));
  args.queryStride = 1536;
  args.rows = 55;
  bundle::KernelVariant persistent = variant();
  persistent.persistent = true;
  persistent.queryRows = 192;
  maps = encodeTileMaps(device(), persistent, args);
  ASSERT_OK(maps);
  const FakeTensorMap query = read(maps->query);
  EXPECT_EQ(query.address, 0x20000u);
  EXPECT_EQ(query.strideBytes, 2u * 1536);
  EXPECT_EQ(query.columns, 8u * 128);
  EXPECT_EQ(query.rows, 55u);
  EXPECT_EQ(query.boxRows, 192u);
  EXPECT_EQ(read(maps->key).rows, 77u);
  bundle::KernelVariant half = variant();
  half.dtype = "f16";
  maps = encodeTileMaps(device(), half, arguments());
  ASSERT_OK(maps);
  EXPECT_EQ(read(maps->key).type,
            heddle::rt::cuda::api::CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
}

/// A kernel that selects reads keys alone.
TEST_F(TileMapsTest, TellSelectionOfKeys) {
  heddle::abi::SelectArgs args = heddle::abi::selectArgsOf(arguments());
  Result<heddle::abi::TileMaps> maps =
      encodeTileMaps(device(), variant(), args);
  ASSERT_OK(maps);
  expectKeys(read(maps->key), 0x10000, 768);
  EXPECT_EQ(read(maps->value).address, 0u);
  EXPECT_EQ(read(maps->query).address, 0u);
  args.keyStride = 769;
  EXPECT_ERROR(encodeTileMaps(device(), variant(), args),
               "tensor maps of kernel attention_dense_bf16_d128: "
               "cuTensorMapEncodeTiled failed");
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

/// Not every device holds clusters of more than 8 blocks.
TEST_F(TileMapsTest, LargeClustersAreAskedFor) {
  for (auto [cluster, clusters, held] :
       {std::tuple(8, 0, true), std::tuple(16, 7, true),
        std::tuple(16, 0, false)}) {
    fakeDriver().largeClusters = clusters;
    Result<std::unique_ptr<Module>> module =
        Module::load(device(), testPtx,
                     {{.symbol = "fault", .threads = 32, .cluster = cluster}});
    ASSERT_OK(module);
    EXPECT_EQ((**module)["fault"].holdsCluster(), held);
    module->reset();
  }
  close();
}

/// Of a persistent kernel no more blocks run than the device holds at once, in
/// whole clusters, whatever the number of tasks.
TEST_F(TileMapsTest, PersistentBlocksAreHeldAtOnce) {
  fakeDriver().multiprocessors = 7;
  for (int64_t cluster : {1, 2}) {
    Result<std::unique_ptr<Module>> module =
        Module::load(device(), testPtx,
                     {{.symbol = "fault",
                       .threads = 32,
                       .cluster = cluster,
                       .persistent = true}});
    ASSERT_OK(module);
    const Kernel &kernel = (**module)["fault"];
    const int64_t held = 7 * kernel.residentBlocks() / cluster * cluster;
    std::array<int64_t, 3> grid = {};
    fakeDriver().kernels["fault"] = [&](const FakeDriver::Launch &launch) {
      grid = {launch.grid[0], launch.grid[1], launch.grid[2]};
    };
    Result<Stream> stream = Stream::create(device());
    ASSERT_OK(stream);
    for (auto [asked, blocks] :
         {std::pair(Grid{1, 2, 3}, 2 * cluster),
          std::pair(Grid{1000, 32, 1}, held),
          std::pair(Grid{1000, 32, 1, /*blockEach=*/true}, int64_t(32000))}) {
      ASSERT_OK(kernel.launch(*stream, asked));
      ASSERT_OK(stream->synchronize());
      EXPECT_EQ(grid, (std::array<int64_t, 3>{blocks, 1, asked.z}));
    }
    *stream = Stream();
    module->reset();
  }
  close();
}

TEST(Device, BlocksGoOnOverListsWhereTwoHeadsFitTheL2) {
  DeviceInfo device;
  device.l2Bytes = 50 << 20;
  bundle::KernelVariant variant;
  variant.headDim = 128;
  bundle::Kernel dense, listed;
  listed.terms = {{bundle::Term::Kind::Columns, 0, 0}};
  // K and V of two heads, 1,024 bytes a key, are 50 MiB at 51,200 keys.
  for (auto [keys, each] : {std::pair(int64_t(51200), false), {51201, true}}) {
    const AttentionLaunch launch = {.longest = keys};
    EXPECT_EQ(gridOf(listed, variant, launch, device).blockEach, each);
    EXPECT_FALSE(gridOf(dense, variant, launch, device).blockEach);
  }
}

} // namespace
