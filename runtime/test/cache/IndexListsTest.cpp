//===- IndexListsTest.cpp - Where lists lie and what they cost ------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cache/IndexLists.h"
#include "runtime/base/Buffer.h"

#include <gtest/gtest.h>

#include <limits>

using namespace heddle;
using namespace heddle::rt;

/// The worked example of IndexLists.h.
static IndexListShape example() {
  IndexListShape shape;
  shape.selections.resize(2);
  shape.selections[0].keep = {1, 2};
  shape.selections[0].group = 4;
  shape.selections[1].keep = {1, 1000}; // at least one key is kept
  shape.selections[1].group = 8;
  shape.sources = {{0, 0}, {1, 0}};
  shape.lengths = {8, 5};
  shape.queryHeads = 2;
  return shape;
}

/// Lists and their memory.
struct OwnLists : IndexLists {
  Buffer memory;
  int64_t bytes() const { return memory.size(); }
};

static Result<OwnLists> allocate(const IndexListShape &shape) {
  Result<Buffer> memory = Buffer::allocate(IndexLists::bytesFor(shape));
  if (!memory)
    return memory.takeError();
  return OwnLists{IndexLists::at(shape, memory->data()), std::move(*memory)};
}

TEST(IndexLists, HaveTheDocumentedLayout) {
  EXPECT_EQ(IndexLists::bytesFor(example()), 384);
  Result<OwnLists> lists = allocate(example());
  ASSERT_TRUE(lists) << lists.error().text();
  EXPECT_EQ(lists->bytes(), 384);
  struct {
    int64_t layer, sequence, selection, groups, keep, offset;
  } rows[] = {{0, 0, 0, 2, 4, 0},   {0, 0, 1, 1, 1, 64},  {0, 1, 0, 2, 2, 128},
              {0, 1, 1, 1, 1, 192}, {1, 0, 0, 2, 4, 256}, {1, 1, 0, 2, 2, 320}};
  const auto *base =
      static_cast<const std::byte *>(lists->list(0, 0, 0).indices);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(base) % 64, 0u);
  for (auto &row : rows) {
    const heddle::abi::IndexList &list =
        lists->list(row.layer, row.sequence, row.selection);
    EXPECT_EQ(list.groups, row.groups);
    EXPECT_EQ(list.keep, row.keep);
    EXPECT_EQ(static_cast<const std::byte *>(list.indices) - base, row.offset);
    EXPECT_EQ(list.rowBytes, row.keep * 4);
  }
  // Layer 1 reads layer 0's.
  for (int64_t sequence : {0, 1})
    EXPECT_EQ(&lists->list(1, sequence, 1), &lists->list(0, sequence, 1));
}

/// A draft reads the lists of its sequence, and takes no memory.
TEST(IndexLists, AreReadOfTheSequenceThatOwnsThem) {
  IndexListShape shape = example();
  shape.lengths = {8, 8, 5, 5};
  shape.owners = {0, 0, 2, 2};
  EXPECT_EQ(IndexLists::bytesFor(shape), 384);
  Result<OwnLists> lists = allocate(shape);
  ASSERT_TRUE(lists) << lists.error().text();
  EXPECT_EQ(lists->bytes(), 384);
  for (int64_t layer : {0, 1})
    for (int64_t selection : {0, 1}) {
      EXPECT_EQ(&lists->list(layer, 1, selection),
                &lists->list(layer, 0, selection));
      EXPECT_EQ(&lists->list(layer, 3, selection),
                &lists->list(layer, 2, selection));
    }
  EXPECT_NE(lists->list(0, 2, 0).indices, lists->list(0, 0, 0).indices);
  lists->see(1, 8, 0); // a draft's own shape is nobody's
  lists->markFilled(1, 2, 0);
  EXPECT_TRUE(lists->filled(1, 3, 0));
  EXPECT_FALSE(lists->filled(1, 1, 0));
}

TEST(IndexLists, AreReadOfTheNearestLayerThatKeepsThem) {
  IndexListShape shape = example();
  shape.sources = {{-1, -1}, {1, -1}, {1, 2}, {1, 2}, {4, 2}, {4, 2}};
  Result<OwnLists> lists = allocate(shape);
  ASSERT_TRUE(lists);
  lists->markFilled(4, 1, 0);
  for (int64_t layer = 0; layer < 6; ++layer)
    for (int64_t selection = 0; selection < 2; ++selection) {
      const int64_t source = shape.sources[layer][selection];
      EXPECT_EQ(lists->list(layer, 1, selection).indices == nullptr,
                source < 0);
      if (source >= 0)
        EXPECT_EQ(&lists->list(layer, 1, selection),
                  &lists->list(source, 1, selection));
      EXPECT_EQ(lists->filled(layer, 1, selection),
                source == 4 && selection == 0);
    }
  EXPECT_NE(lists->list(1, 1, 0).indices, lists->list(4, 1, 0).indices);
}

TEST(IndexLists, TakeAnyEncoding) {
  for (bundle::Encoding encoding :
       {bundle::Encoding::Uint16, bundle::Encoding::Bitmap}) {
    IndexListShape shape = example();
    shape.encoding = encoding;
    EXPECT_EQ(IndexLists::bytesFor(shape), 384);
    Result<OwnLists> lists = allocate(shape);
    ASSERT_TRUE(lists) << lists.error().text();
    const auto *base =
        static_cast<const std::byte *>(lists->list(0, 0, 0).indices);
    EXPECT_EQ(lists->list(0, 1, 0).rowBytes, 16);
    EXPECT_EQ(static_cast<const std::byte *>(lists->list(1, 1, 0).indices),
              base + 320);
  }
}

TEST(IndexLists, HaveRoomForAllKeysWhereSomeAreAlwaysListed) {
  IndexListShape shape = example();
  shape.selections[0].always = 0;
  shape.selections[0].group = bundle::groupOfAll;
  shape.selections[0].perLayer = true;
  Result<OwnLists> lists = allocate(shape);
  ASSERT_TRUE(lists) << lists.error().text();
  EXPECT_EQ(lists->list(0, 0, 0).groups, 1);
  EXPECT_EQ(lists->list(0, 0, 0).headsPerList, 2);
  EXPECT_EQ(lists->list(0, 0, 0).rowBytes, 8 * 4);
  lists->keep(0, 0, 0, 8, 5);
  EXPECT_EQ(lists->list(0, 0, 0).keep, 5);
  EXPECT_EQ(lists->list(0, 0, 0).rowBytes, 5 * 4);
  EXPECT_EQ(lists->list(1, 0, 0).keep, 8); // a layer's own
  EXPECT_EQ(lists->list(0, 1, 0).keep, 5); // of 5 places
  lists->see(0, 6, 0);
  EXPECT_EQ(lists->list(0, 0, 0).keep, 6);
}

TEST(IndexLists, HaveWhatTheirOuterListsSurelyHave) {
  bundle::Selection outer, inner;
  outer.keep = inner.keep = {1, 2};
  outer.group = inner.group = 32;
  inner.within = 0;
  auto from = [&](int64_t n, int64_t prompt, int64_t always = 0) {
    const std::vector<bundle::Selection> all = {outer, inner};
    return keysToChoose(all, inner, n, prompt, always);
  };
  EXPECT_EQ(from(100, 40), 50);
  EXPECT_EQ(from(100, 40, 20), 60); // 20 and a half of 80
  EXPECT_EQ(from(10, 4, 20), 10);   // no more are there
  outer.kind = bundle::Selection::Kind::Blocks;
  EXPECT_EQ(from(100, 40), 36); // {96..99} and another one
  EXPECT_EQ(from(128, 40), 64);
  EXPECT_EQ(from(20, 5), 20);
  outer.isolation = bundle::Selection::Isolation::Spans;
  EXPECT_EQ(from(100, 40), 8 + 28); // of 32 and 8, of 32 and 28
  EXPECT_EQ(from(1, 1), 1);
  EXPECT_EQ(keysToChoose({}, outer, 7, 3, 0), 7); // within none

  IndexListShape shape = example();
  shape.selections = {outer, inner};
  Result<OwnLists> lists = allocate(shape);
  ASSERT_TRUE(lists) << lists.error().text();
  lists->see(0, 8, 3);
  EXPECT_EQ(lists->list(0, 0, 1).keep, 4); // all of both blocks: 8
  shape.selections[0].always = 0;
  shape.selections[0].kind = bundle::Selection::Kind::Columns;
  shape.selections[0].isolation = bundle::Selection::Isolation::None;
  lists = allocate(shape);
  ASSERT_TRUE(lists) << lists.error().text();
  EXPECT_EQ(lists->list(0, 0, 1).keep, 4); // at most, until it is known
  lists->keep(0, 0, 1, 8, 3);
  EXPECT_EQ(lists->list(0, 0, 1).keep, 3);
}

TEST(IndexLists, RememberWhichAreFilled) {
  Result<OwnLists> lists = allocate(example());
  ASSERT_TRUE(lists);
  EXPECT_FALSE(lists->filled(0, 1, 0));
  lists->markFilled(0, 1, 0);
  EXPECT_TRUE(lists->filled(0, 1, 0));
  EXPECT_FALSE(lists->filled(0, 0, 0));
  EXPECT_FALSE(lists->filled(1, 1, 0));
  EXPECT_FALSE(lists->filled(0, 1, 1));
}

TEST(IndexLists, TakeNoMemoryWithoutSelections) {
  IndexListShape shape;
  shape.sources = {{}, {}};
  shape.lengths = {100};
  shape.queryHeads = 4;
  EXPECT_EQ(IndexLists::bytesFor(shape), 0);
  EXPECT_TRUE(allocate(shape));
}

TEST(IndexLists, BytesDoNotWrapAround) {
  IndexListShape shape = example();
  shape.selections[0].keep = {1, 1};
  shape.selections[0].group = 1;
  shape.lengths.assign(8, std::numeric_limits<int32_t>::max());
  shape.queryHeads = 128;
  EXPECT_EQ(IndexLists::bytesFor(shape), std::numeric_limits<int64_t>::max());
}

TEST(IndexLists, NumbersOfKeysAreTheSameAtAnyLength) {
  IndexListShape shape = example();
  shape.selections[0].count = 3;
  shape.selections[1].count = 9;
  Result<OwnLists> lists = allocate(shape);
  ASSERT_TRUE(lists);
  for (int64_t sequence = 0; sequence < 2; ++sequence) {
    EXPECT_EQ(lists->list(0, sequence, 0).keep, 3);
    EXPECT_EQ(lists->list(0, sequence, 0).rowBytes, 12);
    EXPECT_EQ(lists->list(0, sequence, 1).keep,
              std::min<int64_t>(shape.lengths[sequence], 9));
  }
  lists->see(0, 2, 0);
  EXPECT_EQ(lists->list(0, 0, 0).keep, 2);
  // Of each of two spans, and no more than they have.
  bundle::Selection blocks;
  blocks.kind = bundle::Selection::Kind::Blocks;
  blocks.group = 32;
  blocks.count = 2;
  blocks.isolation = bundle::Selection::Isolation::Spans;
  BlockSpans spans = blockSpans(blocks, 200, 20);
  EXPECT_EQ(spans.spanKeep, 1);
  EXPECT_EQ(spans.keep, 3);
}

TEST(IndexLists, AccountForTheDesignsExample) {
  // 65,536 tokens, one fifth kept, 32 layers, 32 heads, groups of 128: 27 GB.
  IndexListShape shape;
  shape.selections.resize(1);
  shape.selections[0].keep = {1, 5};
  shape.selections[0].group = 128;
  for (int64_t layer = 0; layer < 32; ++layer)
    shape.sources.push_back({layer});
  shape.lengths = {65536};
  shape.queryHeads = 32;
  int64_t exact = int64_t(32) * 32 * 512 * 13107 * 4;
  EXPECT_EQ(IndexLists::bytesFor(shape), exact);
}

TEST(IndexLists, FollowTheVisiblePositions) {
  Result<OwnLists> lists = allocate(example());
  ASSERT_TRUE(lists);
  void *memory = lists->list(0, 0, 0).indices;
  lists->markFilled(0, 0, 0);
  lists->markFilled(0, 1, 0);
  lists->see(0, 5, 2);
  EXPECT_FALSE(lists->filled(0, 0, 0));
  EXPECT_TRUE(lists->filled(0, 1, 0)) << "another sequence";
  EXPECT_EQ(lists->list(0, 0, 0).indices, memory);
  EXPECT_EQ(lists->list(0, 0, 0).groups, 2);
  EXPECT_EQ(lists->list(0, 0, 0).keep, 2);
  EXPECT_EQ(&lists->list(1, 0, 1), &lists->list(0, 0, 1));
}

TEST(IndexLists, BlocksHaveTheDocumentedSpans) {
  bundle::Selection selection;
  selection.kind = bundle::Selection::Kind::Blocks;
  selection.keep = {1, 2};
  selection.group = 32;
  struct {
    bundle::Selection::Isolation isolation;
    int64_t blocks, keep, split, boundary, spanKeep;
  } rows[] = {{bundle::Selection::Isolation::None, 4, 2, 0, 0, 0},
              {bundle::Selection::Isolation::Spans, 4, 2, 40, 2, 1},
              {bundle::Selection::Isolation::Aligned, 4, 2, 0, 2, 1},
              {bundle::Selection::Isolation::Filtered, 4, 3, 0, 2, 2}};
  for (auto &row : rows) {
    selection.isolation = row.isolation;
    BlockSpans spans = blockSpans(selection, 100, 40);
    EXPECT_EQ(spans.blocks, row.blocks);
    EXPECT_EQ(spans.keep, row.keep);
    EXPECT_EQ(spans.split, row.split);
    EXPECT_EQ(spans.boundary, row.boundary);
    EXPECT_EQ(spans.spanKeep, row.spanKeep);
    for (int64_t prompt : {0, 100}) // one span alone is none
      EXPECT_EQ(blockSpans(selection, 100, prompt).boundary, 0);
  }
  // The response is in the block that the prompt ends in: the last block is it.
  selection.isolation = bundle::Selection::Isolation::Aligned;
  EXPECT_EQ(blockSpans(selection, 100, 97).boundary, 3);
  EXPECT_EQ(blockSpans(selection, 30, 20).boundary, 0);
}

TEST(IndexLists, HaveRoomForEverySplit) {
  // Lists of two spans fit the memory that one shape was given.
  for (auto isolation : {bundle::Selection::Isolation::Spans,
                         bundle::Selection::Isolation::Aligned,
                         bundle::Selection::Isolation::Filtered})
    for (auto rule : {bundle::KeepRule::Floor, bundle::KeepRule::Ceil,
                      bundle::KeepRule::Round, bundle::KeepRule::FloorPlusOne})
      for (bundle::Ratio keep :
           {bundle::Ratio{1, 100}, bundle::Ratio{1, 2}, bundle::Ratio{1, 1}}) {
        IndexListShape shape;
        bundle::Selection &selection = shape.selections.emplace_back();
        selection.kind = bundle::Selection::Kind::Blocks;
        selection.isolation = isolation;
        selection.rule = rule;
        selection.keep = keep;
        selection.group = 4;
        selection.perKvHead = true;
        shape.sources = {{0}};
        shape.lengths = {37};
        shape.queryHeads = 6;
        shape.kvHeads = 2;
        Result<OwnLists> lists = allocate(shape);
        ASSERT_TRUE(lists);
        for (int64_t n = 1; n <= 37; ++n)
          for (int64_t prompt = 0; prompt <= n; ++prompt) {
            lists->see(0, n, prompt);
            const heddle::abi::IndexList &list = lists->list(0, 0, 0);
            ASSERT_EQ(list.headsPerList, 3);
            ASSERT_LE(2 * list.groups * list.rowBytes, lists->bytes())
                << "n " << n << " prompt " << prompt;
          }
      }
}
