//===- WarpSharedTest.cpp - Heads that share lists, by warpgroups ---------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tile that is gathered for a group of rows serves all heads that share the
// list: tasks have rows of several heads, blocks share a task's warpgroups, and
// some have fewer than others.
//
//===----------------------------------------------------------------------===//

#include "WarpKernels.h"

#include "heddle/Target/NVPTX/Ptxas.h"

#include <optional>

using namespace mlir;
using namespace ::heddle::test;

namespace {

constexpr const char *three =
    "consumers = 3, keys = 128, stages = 2, parts = 2, "
    "producer_registers = 32, consumer_registers = 160";
constexpr const char *two = "consumers = 2, keys = 64, stages = 3, parts = 1, "
                            "producer_registers = 40, consumer_registers = 232";

Compiled compileShared(const std::string &type, int headDim,
                       const std::string &tiling, int64_t group,
                       const std::string &encoding = "uint16",
                       const std::string &scores = "") {
  return compile(type, headDim, tiling,
                 {{"list<0, group = " + std::to_string(group) + ">"}}, encoding,
                 scores, /*sharedLists=*/true);
}

/// Lists of 16-bit numbers for groups of so many rows, shared by so many heads.
Lists listsOf(int64_t group, int64_t keep, int64_t sharers) {
  Lists lists{group, keep};
  lists.wide = false;
  lists.sharers = sharers;
  return lists;
}

} // namespace

/// Dream's seven heads, 448 rows: blocks of 2, 2 and 3 warpgroups. A last group
/// of two rows; lists of one key, of a tile, of a tile and a key.
TEST_F(WarpKernels, HeadsShareLists) {
  Compiled code = compileShared("bf16", 128, three, 64);
  ASSERT_FALSE(code.ptx.empty());
  EXPECT_EQ(code.queryRows, 64);
  uint64_t seed = 1;
  for (auto [problem, keep] :
       {std::pair(Problem{1, 1, 7, 1, 0.088f}, 1),
        std::pair(Problem{66, 66, 7, 1, -0.088f, 2}, 66),
        std::pair(Problem{130, 130, 14, 2, 0.088f}, 128),
        std::pair(Problem{140, 140, 7, 1, 0.088f}, 129)}) {
    Lists lists = listsOf(64, keep, 7);
    check(code, true, 128, problem, seed++, nullptr, &lists);
  }
}

/// Groups of fewer rows than a warpgroup has, which then has several heads',
/// the last of them perhaps with none; groups of more; one head alone.
TEST_F(WarpKernels, SharedListsOfOtherGroups) {
  uint64_t seed = 1;
  for (auto [group, taskRows, sharers, tiling] :
       {std::tuple(32, 32, 7, three), std::tuple(32, 32, 4, two),
        std::tuple(16, 16, 5, two), std::tuple(128, 128, 3, two),
        std::tuple(128, 128, 2, three), std::tuple(192, 192, 2, three),
        std::tuple(256, 64, 3, two), std::tuple(64, 64, 1, two)}) {
    SCOPED_TRACE(std::to_string(group) + ", " + std::to_string(sharers));
    Compiled code = compileShared("f16", 64, tiling, group);
    ASSERT_FALSE(code.ptx.empty());
    EXPECT_EQ(code.queryRows, taskRows);
    Lists lists = listsOf(group, 70, sharers);
    const int64_t n = group + 69;
    check(code, false, 64, {n, n, 2 * sharers, 2, 0.125f}, seed++, nullptr,
          &lists);
  }
  EXPECT_TRUE(compileShared("f16", 64, two, 96).ptx.empty());
}

/// What asks for the head and the place of a row, of which a warpgroup has
/// several heads'.
TEST_F(WarpKernels, SharedListsWithScoresAndWindows) {
  Problem problem{100, 100, 6, 2, 0.25f};
  problem.cap = 2;
  problem.bias = 1;
  const std::string cap = scoresOf(problem);
  uint64_t seed = 1;
  for (int64_t group : {32, 64}) {
    Compiled code = compileShared("bf16", 64, two, group, "uint16", cap);
    ASSERT_FALSE(code.ptx.empty());
    Lists lists = listsOf(group, 40, 3);
    check(code, true, 64, problem, seed++, nullptr, &lists);
  }
  for (int64_t group : {16, 32, 64}) {
    Compiled code =
        compile("bf16", 64, two,
                {{"sinks<3>"},
                 {"window<20>", "[#shed.sinks<3>]", "within #shed.window<20>"},
                 {"list<0, group = " + std::to_string(group) + ">",
                  "[#shed.sinks<3>]", "outside [#shed.window<20>]"}},
                "int32", "", /*sharedLists=*/true);
    ASSERT_FALSE(code.ptx.empty());
    Lists lists{group, 50};
    lists.sharers = 3;
    Problem near{210, 210, 6, 2, 0.125f};
    near.window = 20;
    near.sinks = 3;
    near.apart = group == 32;
    check(code, true, 64, near, seed++, nullptr, &lists);
  }
}

/// Not of which other heads and rows a block has.
TEST_F(WarpKernels, SharedRowsAreOnTheirOwn) {
  Compiled code = compileShared("bf16", 64, two, 32);
  ASSERT_FALSE(code.ptx.empty());
  Problem problem{90, 90, 4, 1, 0.125f};
  Lists lists = listsOf(32, 70, 4), again = lists;
  auto row = check(code, true, 64, problem, 1, nullptr, &lists);
  ASSERT_EQ(row.size(), 4u * 64);
  problem.others = 8;
  EXPECT_EQ(row, check(code, true, 64, problem, 1, nullptr, &again));
}

TEST_F(WarpKernels, AssemblerFindsNothingSlowInSharedLists) {
  std::optional<std::string> ptxas = ::heddle::findPtxas();
  if (!ptxas)
    GTEST_SKIP() << "no ptxas";
  auto rules = ::heddle::bundle::tilingsFromJson(shed::builtInTuning());
  ASSERT_TRUE(static_cast<bool>(rules));
  for (const shed::WgmmaRule &rule : *rules)
    for (int64_t group : {32, 64, 128}) {
      if (!rule.shared || rule.over != "list")
        continue;
      SCOPED_TRACE(rule.element + ", " + textOf(rule));
      std::string why;
      auto result = ::heddle::assemble(
          *ptxas, "sm_90a",
          compileShared(rule.element, static_cast<int>(rule.headDim),
                        textOf(rule), group)
              .ptx,
          why);
      ASSERT_TRUE(static_cast<bool>(result));
      if (!*result)
        GTEST_SKIP() << why;
      EXPECT_TRUE((*result)->complaints.empty());
      ASSERT_EQ((*result)->kernels.size(), 1u);
      EXPECT_EQ((*result)->kernels[0].stackBytes, 0);
    }
}
