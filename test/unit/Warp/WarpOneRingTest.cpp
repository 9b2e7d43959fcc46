//===- WarpOneRingTest.cpp - Keys and values in one ring ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WarpKernels.h"

using namespace mlir;
using namespace ::heddle::test;

/// Copied and fetched, alone and for a cluster, with stages that two do not
/// divide and with as few as there can be; blocks that go on to further rows,
/// with warpgroups that pass tiles; sums and maxima.
TEST_F(WarpKernels, OneRing) {
  uint64_t seed = 1;
  for (auto [type, headDim, more] :
       {std::tuple("bf16", 64, "stages = 3"),
        std::tuple("f16", 64, "stages = 2, query_stages = 2"),
        std::tuple("bf16", 128,
                   "stages = 3, tma = true, cluster = 2, query_stages = 2, "
                   "check_sums = true"),
        std::tuple("bf16", 64, "stages = 5, tma = true")}) {
    Compiled code =
        compile(type, headDim,
                std::string("consumers = 3, keys = 64, parts = 2, "
                            "producer_registers = 32, consumer_registers = "
                            "160, one_ring = true, ") +
                    more);
    SCOPED_TRACE(more);
    ASSERT_FALSE(code.ptx.empty());
    for (const Problem &problem :
         {Problem{1, 1, 1, 1, 0.1f}, Problem{129, 193, 2, 1, 0.088f},
          Problem{330, 70, 1, 1, -0.088f, 2}})
      check(code, type[0] == 'b', headDim, problem, seed++);
  }
}

/// With tails, windows behind sinks, lists that heads share, and order.
TEST_F(WarpKernels, OneRingOverSets) {
  uint64_t seed = 1;
  const std::string two = "consumers = 2, keys = 96, stages = 3, parts = 2, "
                          "producer_registers = 40, consumer_registers = 232, "
                          "one_ring = true, ";
  for (const char *more :
       {"tail_keys = 32, query_stages = 2", "ping_pong = true"}) {
    SCOPED_TRACE(more);
    Compiled list =
        compile("bf16", 64, two + more, "list<0, group = 128>", "uint16");
    ASSERT_FALSE(list.ptx.empty());
    for (int64_t keep : {20, 96, 225}) {
      Lists lists{128, keep};
      lists.wide = false;
      check(list, true, 64, {230, 230, 2, 1, 0.125f}, seed++, nullptr, &lists);
    }
  }
  Compiled near =
      compile("f16", 64, two + "query_stages = 1",
              {{"sinks<3>"},
               {"window<40>", "[#shed.sinks<3>]", "within #shed.window<40>"}});
  ASSERT_FALSE(near.ptx.empty());
  Problem problem{300, 300, 1, 1, 0.125f};
  problem.window = 40;
  problem.sinks = 3;
  check(near, false, 64, problem, seed++);
  Compiled shared =
      compile("bf16", 64, two + "tail_keys = 16", {{"list<0, group = 64>"}},
              "int32", "", /*sharedLists=*/true);
  ASSERT_FALSE(shared.ptx.empty());
  Lists lists{64, 110};
  lists.sharers = 3;
  check(shared, true, 64, {170, 170, 3, 1, 0.125f}, seed++, nullptr, &lists);
}
