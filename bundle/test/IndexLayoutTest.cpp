//===- IndexLayoutTest.cpp - Lists in every encoding ----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/abi/IndexLayout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

using namespace heddle;
using namespace heddle::bundle;

namespace {

constexpr Encoding allEncodings[] = {Encoding::Int32, Encoding::Uint16,
                                     Encoding::Bitmap};

std::vector<uint8_t> encoded(Encoding encoding, int64_t n,
                             const std::vector<int32_t> &keys) {
  std::vector<uint8_t> row(static_cast<size_t>(
      listRowBytes(encoding, n, static_cast<int64_t>(keys.size()))));
  std::fill(row.begin(), row.end(), uint8_t{0xff}); // all of it is written
  encodeList(encoding, n, keys, row.data());
  return row;
}

TEST(IndexLayout, IsTheWorkedExample) {
  const std::vector<int32_t> keys = {1, 4, 33};
  EXPECT_EQ(encoded(Encoding::Int32, 40, keys),
            (std::vector<uint8_t>{1, 0, 0, 0, 4, 0, 0, 0, 33, 0, 0, 0}));
  std::vector<uint8_t> halves = encoded(Encoding::Uint16, 40, keys);
  ASSERT_EQ(halves.size(), 16u);
  halves.resize(6);
  EXPECT_EQ(halves, (std::vector<uint8_t>{1, 0, 4, 0, 33, 0}));
  EXPECT_EQ(encoded(Encoding::Bitmap, 40, keys),
            (std::vector<uint8_t>{0x12, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                  0, 0}));
}

TEST(IndexLayout, RowsHaveTheDocumentedSizes) {
  EXPECT_EQ(listRowBytes(Encoding::Int32, 100, 1), 4);
  EXPECT_EQ(listRowBytes(Encoding::Int32, 100, 7), 28);
  EXPECT_EQ(listRowBytes(Encoding::Uint16, 100, 1), 16);
  EXPECT_EQ(listRowBytes(Encoding::Uint16, 100, 8), 16);
  EXPECT_EQ(listRowBytes(Encoding::Uint16, 100, 9), 32);
  for (int64_t keep : {int64_t(1), int64_t(64), int64_t(128)}) {
    EXPECT_EQ(listRowBytes(Encoding::Bitmap, 128, keep), 16);
    EXPECT_EQ(listRowBytes(Encoding::Bitmap, 129, keep), 32);
  }
  // The longest that there are do not overflow.
  int64_t most = int64_t(1) << 31;
  EXPECT_EQ(listRowBytes(Encoding::Int32, most, most), most * 4);
  EXPECT_EQ(listRowBytes(Encoding::Bitmap, most, most), most / 8);
}

TEST(IndexLayout, ABitmapIsSmallerFromOneKeyInSixteenOn) {
  int64_t n = 65536;
  EXPECT_EQ(listRowBytes(Encoding::Uint16, n, n / 16),
            listRowBytes(Encoding::Bitmap, n, n / 16));
  EXPECT_LT(listRowBytes(Encoding::Bitmap, n, n / 16 + 8),
            listRowBytes(Encoding::Uint16, n, n / 16 + 8));
}

TEST(IndexLayout, KnowsWhatItHolds) {
  EXPECT_TRUE(holds(Encoding::Uint16, 65536)); // keys 0 to 65535
  EXPECT_FALSE(holds(Encoding::Uint16, 65537));
  for (Encoding encoding : {Encoding::Int32, Encoding::Bitmap}) {
    EXPECT_TRUE(holds(encoding, int64_t(1) << 31));
    EXPECT_FALSE(holds(encoding, (int64_t(1) << 31) + 1));
  }
}

TEST(IndexLayout, RandomListsRoundTrip) {
  std::mt19937 random(1);
  for (int64_t n : {1, 2, 31, 32, 33, 127, 128, 129, 1000, 65536}) {
    std::vector<int32_t> all(static_cast<size_t>(n));
    std::iota(all.begin(), all.end(), 0);
    for (int64_t keep : {int64_t(1), (n + 1) / 2, n}) {
      std::vector<int32_t> keys;
      std::sample(all.begin(), all.end(), std::back_inserter(keys), keep,
                  random);
      for (Encoding encoding : allEncodings) {
        std::vector<uint8_t> row = encoded(encoding, n, keys);
        std::vector<int32_t> found(keys.size());
        EXPECT_TRUE(decodeList(encoding, n, row.data(), found));
        EXPECT_EQ(found, keys) << "n " << n << " keep " << keep;
      }
    }
  }
}

TEST(IndexLayout, NoticesBitmapsThatAreWrong) {
  std::vector<uint8_t> row = encoded(Encoding::Bitmap, 40, {1, 4, 33});
  std::vector<int32_t> three(3), two(2), four(4);
  EXPECT_TRUE(decodeList(Encoding::Bitmap, 40, row.data(), three));
  EXPECT_FALSE(decodeList(Encoding::Bitmap, 40, row.data(), two));
  EXPECT_FALSE(decodeList(Encoding::Bitmap, 40, row.data(), four));
  row[5] = 1; // bit 40
  EXPECT_FALSE(decodeList(Encoding::Bitmap, 40, row.data(), four));
  row[5] = 0;
  row[15] = 0x80; // the last bit of the pad
  EXPECT_FALSE(decodeList(Encoding::Bitmap, 40, row.data(), four));
}

TEST(IndexLayout, BlocksAreTheWorkedExample) {
  const int64_t begin[] = {0, 32, 40, 72}, end[] = {32, 40, 72, 100};
  ASSERT_EQ(blockCount(100, 32, 40), 4);
  for (int64_t block = 0; block < 4; ++block) {
    EXPECT_EQ(keysOfBlock(block, 100, 32, 40).begin, begin[block]);
    EXPECT_EQ(keysOfBlock(block, 100, 32, 40).end, end[block]);
  }
}

TEST(IndexLayout, BlocksPartitionTheKeys) {
  for (int64_t n = 1; n < 40; ++n)
    for (int64_t size : {1, 3, 16, 64})
      for (int64_t split = 0; split <= n; ++split) {
        int64_t next = 0;
        for (int64_t block = 0; block < blockCount(n, size, split); ++block) {
          KeyRun keys = keysOfBlock(block, n, size, split);
          EXPECT_EQ(keys.begin, next);
          EXPECT_GT(keys.end, keys.begin);
          EXPECT_LE(keys.end, keys.begin + size);
          EXPECT_FALSE(keys.begin < split && split < keys.end);
          next = keys.end;
        }
        EXPECT_EQ(next, n);
      }
}

TEST(IndexLayout, FindsTheRowOfAHeadAndGroup) {
  // The worked example of abi::IndexList.
  std::vector<int32_t> keys = {0, 1, 4, 0, 2, 3, 1, 2, 4,
                               0, 1, 2, 0, 3, 4, 2, 3, 4};
  heddle::abi::IndexList list = int32Lists(keys.data(), 3, 3);
  EXPECT_EQ(list.rowBytes, 12);
  const int32_t *found = int32Keys(list, 1, 1);
  EXPECT_EQ(std::vector<int32_t>(found, found + 3),
            (std::vector<int32_t>{0, 3, 4}));
  std::vector<uint8_t> bitmaps(2 * 3 * 16);
  list = {bitmaps.data(), 3, 3, listRowBytes(Encoding::Bitmap, 5, 3)};
  EXPECT_EQ(listRow(list, 1, 1), bitmaps.data() + 64);
}

} // namespace
