//===- WarpTailTest.cpp - Lists whose last tiles are smaller --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A second loop has what is left of a list behind its last whole tile, with
// tiles of fewer keys, in the same rings.
//
//===----------------------------------------------------------------------===//

#include "WarpKernels.h"

using namespace mlir;
using namespace ::heddle::test;

/// Lists without a whole tile, without a tail, with one and with several tiles
/// of it, and one key more and less; blocks that go on to further rows, so that
/// rings are left in any phase; consumers in order.
TEST_F(WarpKernels, TailsOfLists) {
  uint64_t seed = 1;
  using Keeps = std::vector<int64_t>;
  for (auto [type, headDim, consumers, tiling, narrow, wide] :
       {std::tuple("bf16", 128, 2,
                   "keys = 192, parts = 3, query_stages = 1, check_sums = "
                   "true, tail_keys = 64",
                   Keeps{64, 191, 193, 399}, Keeps{192, 257}),
        std::tuple("f16", 64, 1,
                   "keys = 128, parts = 4, query_stages = 2, check_sums = "
                   "true, tail_keys = 48",
                   Keeps{1, 47, 49, 128, 176, 300}, Keeps{127, 129, 256}),
        std::tuple("f16", 64, 2,
                   "keys = 64, parts = 2, query_stages = 2, check_sums = "
                   "true, tail_keys = 32, ping_pong = true",
                   Keeps{31, 100}, Keeps{64, 135}),
        std::tuple("bf16", 64, 1, "keys = 96, parts = 2, tail_keys = 16",
                   Keeps{1, 15, 17, 96, 209}, Keeps{16, 95, 97, 192})}) {
    const std::string text = "consumers = " + std::to_string(consumers) +
                             ", stages = 2, producer_registers = 40, "
                             "consumer_registers = 232, " +
                             tiling;
    SCOPED_TRACE(type + (", " + text));
    const int64_t group = 64 * consumers;
    for (bool isWide : {false, true}) {
      Compiled code = compile(type, headDim, text,
                              "list<0, group = " + std::to_string(group) + ">",
                              isWide ? "int32" : "uint16");
      ASSERT_FALSE(code.ptx.empty());
      for (int64_t keep : isWide ? wide : narrow) {
        SCOPED_TRACE(keep);
        Lists lists{group, keep};
        lists.wide = isWide;
        const int64_t n = std::max<int64_t>(keep, group + 7);
        check(code, type[0] == 'b', headDim, {n, n, 2, 1, 0.125f}, seed++,
              nullptr, &lists);
      }
    }
  }
}

/// Seven heads that share a list, by two, two and three warpgroups.
TEST_F(WarpKernels, TailsOfSharedLists) {
  Compiled code =
      compile("bf16", 64,
              "consumers = 3, keys = 96, stages = 2, parts = 2, "
              "producer_registers = 32, consumer_registers = 160, check_sums = "
              "true, tail_keys = 32",
              {{"list<0, group = 64>"}}, "uint16", "", /*sharedLists=*/true);
  ASSERT_FALSE(code.ptx.empty());
  uint64_t seed = 1;
  for (int64_t keep : {1, 96, 130, 161}) {
    Lists lists{64, keep};
    lists.wide = false;
    lists.sharers = 7;
    check(code, true, 64, {170, 170, 7, 1, 0.125f}, seed++, nullptr, &lists);
  }
}

/// Functions of logits, with bounds and of positions, and what is kept of a
/// list's keys by position.
TEST_F(WarpKernels, TailsWithScoresAndWindows) {
  const std::string tiling =
      "consumers = 1, keys = 96, stages = 2, parts = 3, producer_registers = "
      "40, consumer_registers = 232, tail_keys = 32";
  const char *over = "list<0, group = 64>";
  uint64_t seed = 1;
  for (bool asksPosition : {false, true}) {
    Problem problem{150, 150, 2, 1, 0.25f};
    problem.cap = 2;
    if (asksPosition) {
      problem.slope = 0.01;
      problem.moved = true;
    }
    Compiled code =
        compile("bf16", 64, tiling, over, "int32", scoresOf(problem));
    ASSERT_FALSE(code.ptx.empty());
    for (int64_t keep : {20, 96, 140}) {
      Lists lists{64, keep};
      check(code, true, 64, problem, seed++, nullptr, &lists);
    }
  }
  Compiled code = compile("bf16", 64, tiling,
                          {{over, "", "within #shed.window<40>"}}, "int32");
  ASSERT_FALSE(code.ptx.empty());
  for (int64_t keep : {20, 96, 140}) {
    Problem problem{200, 200, 2, 1, 0.125f};
    problem.within = {{::heddle::bundle::Term::Kind::Window, 40}};
    Lists lists{64, keep};
    check(code, true, 64, problem, seed++, nullptr, &lists);
  }
}
