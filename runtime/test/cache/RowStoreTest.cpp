//===- RowStoreTest.cpp - Where kept rows lie -----------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cache/RowStore.h"

#include <gtest/gtest.h>

#include <limits>

using namespace heddle;
using namespace heddle::rt;

TEST(RowStore, HasTheDocumentedLayout) {
  EXPECT_EQ(RowStore::bytesFor(2, {3, 2}, 24), 256);
  std::shared_ptr<std::byte> memory(new std::byte[256],
                                    std::default_delete<std::byte[]>());
  RowStore store({3, 2}, 24, memory, {true, true});
  EXPECT_FALSE(store.empty());
  EXPECT_EQ(store.rowBytes(), 24);
  std::byte *base = memory.get();
  EXPECT_EQ(store.layer(0), base);
  EXPECT_EQ(store.row(0, 0, 2) - base, 48);
  EXPECT_EQ(store.row(0, 1, 0) - base, 72);
  EXPECT_EQ(store.index(1, 1), 4);
  EXPECT_EQ(store.layer(1) - base, 128);
  EXPECT_EQ(store.row(1, 1, 1) - base, 224);
}

TEST(RowStore, HasMemoryForTheLayersThatKeepRows) {
  std::shared_ptr<std::byte> memory(new std::byte[256],
                                    std::default_delete<std::byte[]>());
  RowStore store({3, 2}, 24, memory, {false, true, false, true});
  EXPECT_FALSE(store.keeps(0));
  EXPECT_TRUE(store.keeps(1));
  EXPECT_FALSE(store.keeps(2));
  EXPECT_EQ(store.layer(1), memory.get());
  EXPECT_EQ(store.layer(3) - memory.get(), 128);
  EXPECT_EQ(store.row(3, 1, 1) - memory.get(), 224);
}

TEST(RowStore, KeepsNothingUnlessAsked) {
  EXPECT_TRUE(RowStore().empty());
  EXPECT_EQ(RowStore::bytesFor(4, {}, 24), 0);
}

TEST(RowStore, BytesDoNotWrapAround) {
  constexpr int64_t many = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(RowStore::bytesFor(many, {many, many}, many),
            std::numeric_limits<int64_t>::max());
}
