//===- WarpKernelsTest.cpp - Generated warpgroup kernels, run without a GPU
//-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WarpKernels.h"

#include "heddle/Target/NVPTX/Ptxas.h"

#include <cmath>
#include <optional>

using namespace mlir;
using namespace ::heddle::test;

TEST_F(WarpKernels, DenseOf128) {
  Compiled code = compile("bf16", 128,
                          "consumers = 3, keys = 128, stages = 2, parts = 2, "
                          "producer_registers = 32, consumer_registers = 160");
  ASSERT_FALSE(code.ptx.empty());
  EXPECT_EQ(code.queryRows, 192);
  uint64_t seed = 1;
  for (const Problem &problem :
       {Problem{1, 1, 1, 1, 0.1f}, Problem{129, 193, 1, 1, 0.088f},
        Problem{128, 5, 2, 1, 0.088f}, Problem{700, 70, 1, 1, -0.088f, 3},
        Problem{385, 192, 1, 1, 0.0f}})
    check(code, true, 128, problem, seed++);
}

TEST_F(WarpKernels, DenseOf64) {
  Compiled code = compile("f16", 64,
                          "consumers = 2, keys = 96, stages = 3, parts = 3, "
                          "producer_registers = 40, consumer_registers = 232");
  ASSERT_FALSE(code.ptx.empty());
  uint64_t seed = 1;
  for (const Problem &problem :
       {Problem{97, 130, 2, 2, 0.125f}, Problem{400, 3, 4, 2, 0.125f, 2}})
    check(code, false, 64, problem, seed++);
}

TEST_F(WarpKernels, BuiltInTilings) {
  auto rules = ::heddle::bundle::tilingsFromJson(shed::builtInTuning());
  ASSERT_TRUE(static_cast<bool>(rules));
  ASSERT_FALSE(rules->empty());
  uint64_t seed = 1;
  for (const shed::WgmmaRule &rule : *rules) {
    if (rule.over == "scores" || rule.shared)
      continue; // WarpScoresTest, WarpSharedTest
    const std::string tiling = textOf(rule);
    SCOPED_TRACE(rule.element + ", " + tiling);
    const int headDim = static_cast<int>(rule.headDim);
    Compiled code = compile(rule.element, headDim, tiling, overOf(rule),
                            rule.over == "list" ? "uint16" : "");
    ASSERT_FALSE(code.ptx.empty());
    const int64_t group = 64 * rule.consumers;
    if (rule.over == "list" || rule.over == "blocks") {
      const bool blocks = rule.over == "blocks";
      Lists lists{group, blocks ? 2 : rule.keys + 1, blocks ? group : 0};
      lists.wide = blocks;
      const int64_t n = 2 * group + 5;
      check(code, rule.element == "bf16", headDim, {n, n, 2, 1, 0.1f}, seed++,
            nullptr, &lists);
      continue;
    }
    // Query heads that share keys, as Dream's do, and a ragged last tile.
    for (const Problem &problem : {Problem{65, group + 1, 2, 1, 0.1f},
                                   Problem{2 * rule.keys, 16, 1, 1, 0.1f, 2}})
      check(code, rule.element == "bf16", headDim, problem, seed++);
  }
}

/// Tiles that are fetched by tensor maps: by one block, and by two that share
/// them. A last tile that is ragged, a single key, a cluster whose second block
/// has no rows, heads that share keys.
TEST_F(WarpKernels, TensorMaps) {
  uint64_t seed = 1;
  for (const char *cluster : {"1", "2"}) {
    SCOPED_TRACE(cluster);
    Compiled code =
        compile("bf16", 128,
                std::string("consumers = 3, keys = 128, stages = 2, parts = 2, "
                            "producer_registers = 32, consumer_registers = "
                            "160, tma = true, cluster = ") +
                    cluster);
    ASSERT_FALSE(code.ptx.empty());
    EXPECT_EQ(code.mapRows, 128);
    EXPECT_EQ(code.cluster, cluster[0] - '0');
    for (const Problem &problem :
         {Problem{1, 1, 1, 1, 0.1f}, Problem{129, 193, 1, 1, 0.088f},
          Problem{128, 5, 2, 1, 0.088f}, Problem{700, 390, 1, 1, -0.088f, 3},
          Problem{385, 192, 4, 2, 0.0f}})
      check(code, true, 128, problem, seed++);
  }
  Compiled narrow =
      compile("f16", 64,
              "consumers = 2, keys = 80, stages = 4, parts = 1, "
              "producer_registers = 40, consumer_registers = 232, tma = true");
  ASSERT_FALSE(narrow.ptx.empty());
  check(narrow, false, 64, {97, 130, 2, 2, 0.125f}, seed++);
}

/// A tiling whose blocks divide the keys of a query tile among them.
std::string sharedKeys(int64_t consumers, int64_t shares) {
  return "consumers = " + std::to_string(consumers) +
         ", keys = 64, stages = 2, parts = 2, producer_registers = 40, "
         "consumer_registers = 208, key_shares = " +
         std::to_string(shares);
}

/// Blocks of a cluster that divide the keys among them: fewer tiles than
/// blocks, so that some have none; a second tile of rows; a window, in which
/// rows have no key of some blocks; heads that share keys.
TEST_F(WarpKernels, KeyShares) {
  uint64_t seed = 1;
  for (auto [type, headDim, shares, consumers] :
       {std::tuple("bf16", 128, 8, 1), std::tuple("f16", 64, 8, 1),
        std::tuple("bf16", 128, 4, 2), std::tuple("bf16", 64, 2, 1)}) {
    const std::string tiling = sharedKeys(consumers, shares);
    SCOPED_TRACE(tiling);
    Compiled code = compile(type, headDim, tiling);
    ASSERT_FALSE(code.ptx.empty());
    EXPECT_EQ(code.cluster, shares);
    EXPECT_EQ(code.queryRows * shares, 64 * consumers);
    for (const Problem &problem :
         {Problem{1, 1, 1, 1, 0.1f}, Problem{129, 20, 2, 1, 0.088f},
          Problem{900, 66, 1, 1, -0.088f, 3}})
      check(code, type[0] == 'b', headDim, problem, seed++);
    Problem near{700, 70, 1, 1, 0.1f};
    near.window = 60;
    near.moved = true;
    check(compile(type, headDim, tiling,
                  {{"window<60>", "", "within #shed.window<60>"}}),
          type[0] == 'b', headDim, near, seed++);
  }
}

/// Rows of query heads that share a key head in one tile: a tile that they fill
/// in part, to the last row and by one more; one head that has the keys for
/// itself; more blocks than tiles of keys. A row's bits are those that it has
/// beside others.
TEST_F(WarpKernels, PackedRows) {
  uint64_t seed = 1;
  for (auto [type, headDim, shares, consumers] :
       {std::tuple("bf16", 128, 8, 1), std::tuple("f16", 64, 4, 2),
        std::tuple("bf16", 64, 16, 1), std::tuple("f16", 128, 2, 1)}) {
    const std::string tiling = sharedKeys(consumers, shares);
    SCOPED_TRACE(tiling);
    const bool bf16 = type[0] == 'b';
    Compiled code = compile(type, headDim, tiling + ", packed = true");
    ASSERT_FALSE(code.ptx.empty());
    EXPECT_TRUE(code.packed);
    EXPECT_EQ(code.cluster, shares);
    EXPECT_EQ(code.queryRows * shares, 64 * consumers);
    for (const Problem &problem :
         {Problem{1, 1, 7, 1, 0.1f}, Problem{65, 16, 8, 2, 0.088f},
          Problem{200, 17, 7, 1, -0.088f, 3}, Problem{131, 63, 4, 2, 0.088f},
          Problem{66, 3, 2, 2, 0.1f}})
      check(code, bf16, headDim, problem, seed++);
    // Where each row and each head has logits of its own.
    Problem near{300, 20, 7, 1, 0.1f};
    near.window = 60;
    near.moved = near.apart = true;
    check(compile(type, headDim, tiling + ", packed = true",
                  {{"window<60>", "", "within #shed.window<60>"}}),
          bf16, headDim, near, seed++);
    Problem biased{150, 30, 4, 2, 0.25f};
    biased.cap = 2;
    biased.bias = 1;
    biased.slope = 0.01;
    biased.moved = true;
    check(compile(type, headDim, tiling + ", packed = true", "all", "",
                  scoresOf(biased)),
          bf16, headDim, biased, seed++);
  }
}

/// A row has the same bits whether it is packed or not.
TEST_F(WarpKernels, PackedRowsHaveTheBitsOfOthers) {
  const std::string tiling =
      "consumers = 1, keys = 64, stages = 2, parts = 1, producer_registers = "
      "40, consumer_registers = 208, key_shares = 4";
  Compiled packed = compile("bf16", 128, tiling + ", packed = true"),
           own = compile("bf16", 128, tiling);
  ASSERT_FALSE(packed.ptx.empty() || own.ptx.empty());
  const Problem problem{300, 1, 7, 1, 0.088f, 3};
  EXPECT_EQ(check(packed, true, 128, problem, 1),
            check(own, true, 128, problem, 1));
}

/// Blocks that go on to further tiles of rows: fewer blocks than tiles, a block
/// without any, one block for all. Queries come by threads or by tensor maps, a
/// block's own where a cluster shares keys. What a row gets does not depend on
/// how many blocks there are.
TEST_F(WarpKernels, Persistent) {
  const std::string two = "consumers = 2, keys = 64, stages = 2, parts = 2, "
                          "producer_registers = 40, consumer_registers = 232, ",
                    three = "consumers = 3, keys = 64, stages = 2, parts = 1, "
                            "producer_registers = 32, consumer_registers = "
                            "160, ";
  uint64_t seed = 1;
  for (auto [type, headDim, tiling] :
       {std::tuple("bf16", 128, two + "query_stages = 2"),
        std::tuple("f16", 64, three + "query_stages = 1"),
        std::tuple("bf16", 128, two + "tma = true, query_stages = 2"),
        std::tuple("bf16", 128,
                   three + "tma = true, cluster = 2, query_stages = 1")}) {
    SCOPED_TRACE(tiling);
    Compiled code = compile(type, headDim, tiling);
    ASSERT_FALSE(code.ptx.empty());
    EXPECT_TRUE(code.persistent);
    for (Problem problem :
         {Problem{66, 200, 2, 1, 0.088f}, Problem{130, 129, 1, 1, -0.1f, 2}}) {
      const auto bits = check(code, type[0] == 'b', headDim, problem, seed);
      problem.blocks = 1;
      EXPECT_EQ(bits, check(code, type[0] == 'b', headDim, problem, seed++));
    }
  }
}

/// Of three warpgroups one may have no rows, so that turns come out even: of
/// two heads of 640 rows one block has two tiles of 192 rows and two of 128
/// each, three blocks four of 192, and 130 rows leave warpgroups without rows
/// at the end. A row's bits are the same, also where a window's keys begin with
/// the rows' and tiles have another number of keys than of rows.
TEST_F(WarpKernels, PersistentShortTiles) {
  const std::string tiling =
      "consumers = 3, keys = 64, stages = 2, parts = 1, producer_registers = "
      "32, consumer_registers = 160, query_stages = 2, tma = true";
  Compiled one = compile("bf16", 128, tiling),
           two = compile("bf16", 128, tiling + ", cluster = 2"),
           near = compile(
               "bf16", 128,
               "consumers = 3, keys = 96, stages = 2, parts = 2, "
               "producer_registers = "
               "32, consumer_registers = 160, query_stages = 2, tma = true",
               {{"window<90>", "", "within #shed.window<90>"}});
  ASSERT_FALSE(one.ptx.empty() || two.ptx.empty() || near.ptx.empty());
  for (int64_t rows : {1, 63, 130, 256, 640}) {
    std::vector<uint16_t> dense, local;
    for (int64_t blocks : {1, 2, 3, 5}) {
      SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(blocks));
      Problem problem{70, rows, 2, 1, 0.088f};
      problem.blocks = blocks;
      auto compare = [&](const Compiled &code, std::vector<uint16_t> &first) {
        const auto bits =
            check(code, true, 128, problem, static_cast<uint64_t>(rows));
        if (first.empty())
          first = bits;
        EXPECT_EQ(bits, first);
      };
      compare(one, dense);
      compare(two, dense);
      problem.n = rows;
      problem.window = 90;
      compare(near, local);
    }
  }
}

/// The same over lists, of keys and of blocks, and over windows and unions,
/// where turns have tiles in other numbers.
TEST_F(WarpKernels, PersistentOverSets) {
  const std::string tiling =
      "consumers = 2, keys = 64, stages = 2, parts = 2, producer_registers = "
      "40, consumer_registers = 232, query_stages = 2";
  uint64_t seed = 1;
  Compiled keys = compile("bf16", 128, tiling, "list<0, group = 128>");
  Compiled blocks = compile("bf16", 128, tiling, "blocks<0, size = 128>");
  Compiled fetched =
      compile("bf16", 128, tiling + ", tma = true", "blocks<0, size = 128>");
  ASSERT_FALSE(keys.ptx.empty() || blocks.ptx.empty() || fetched.ptx.empty());
  for (int64_t keep : {1, 65, 200}) {
    Lists lists{128, keep};
    check(keys, true, 128, {300, 300, 2, 1, 0.088f}, seed++, nullptr, &lists);
  }
  for (const Compiled &code : {blocks, fetched}) {
    Lists lists{128, 2, 128, 150, 1};
    check(code, true, 128, {450, 450, 2, 2, -0.088f}, seed++, nullptr, &lists);
  }
  Compiled near = compile(
      "bf16", 128, tiling,
      {{"sinks<10>"},
       {"window<200>", "[#shed.sinks<10>]", "within #shed.window<200>"}});
  Compiled both =
      compile("bf16", 128, tiling,
              {{"window<100>", "", "within #shed.window<100>"},
               {"list<0, group = 128>", "", "outside [#shed.window<100>]"}});
  ASSERT_FALSE(near.ptx.empty() || both.ptx.empty());
  Problem problem{600, 600, 2, 1, 0.088f};
  problem.window = 200;
  problem.sinks = 10;
  check(near, true, 128, problem, seed++);
  problem.rows = 300;
  problem.moved = true;
  check(near, true, 128, problem, seed++);
  // Blocks of a cluster bring the tiles of both of their windows.
  Compiled shared = compile(
      "bf16", 128, tiling + ", tma = true, cluster = 2",
      {{"sinks<10>"},
       {"window<200>", "[#shed.sinks<10>]", "within #shed.window<200>"}});
  ASSERT_FALSE(shared.ptx.empty());
  check(shared, true, 128, problem, seed++);
  problem.rows = problem.n;
  problem.moved = false;
  check(shared, true, 128, problem, seed++);
  Problem mixed{500, 500, 2, 1, 0.088f};
  mixed.window = 100;
  Lists lists{128, 70};
  check(both, true, 128, mixed, seed++, nullptr, &lists);
  // Of two rows most tiles have none; what such a tile would compare with is
  // nowhere in memory.
  for (int64_t rows : {2, 200}) {
    Lists few{128, 70};
    mixed.rows = rows;
    mixed.moved = true;
    check(both, true, 128, mixed, seed++, nullptr, &few);
  }
}

/// Rows that rescale do not make the others of their warp rescale, too.
TEST_F(WarpKernels, RowsAreOnTheirOwn) {
  Compiled code = compile("bf16", 64,
                          "consumers = 1, keys = 64, stages = 2, parts = 1, "
                          "producer_registers = 56, consumer_registers = 232");
  ASSERT_FALSE(code.ptx.empty());
  Problem problem{300, 16, 1, 1, 0.125f};
  auto row = check(code, true, 64, problem, 1);
  ASSERT_EQ(row.size(), 64u);
  problem.others = 8;
  EXPECT_EQ(row, check(code, true, 64, problem, 1));
}

/// Warpgroups that start products in order: two and three, over all keys, lists
/// and blocks, turn by turn, with tiles in parts; ends within a tile, and
/// warpgroups without rows, which come in order like the others.
TEST_F(WarpKernels, PingPong) {
  uint64_t seed = 1;
  for (auto [consumers, more] :
       {std::tuple(2, "parts = 1"), std::tuple(2, "parts = 2"),
        std::tuple(3, "parts = 2, query_stages = 2"),
        std::tuple(2, "parts = 2, check_sums = true, query_stages = 2")}) {
    const int64_t group = 64 * consumers;
    const std::string tiling =
        "consumers = " + std::to_string(consumers) +
        ", keys = 64, stages = 2, producer_registers = 32, consumer_registers "
        "= 160, ping_pong = true, " +
        more;
    SCOPED_TRACE(tiling);
    const std::string size = std::to_string(group);
    Compiled dense = compile("bf16", 64, tiling),
             list = compile("bf16", 64, tiling, "list<0, group = " + size + ">",
                            "int32"),
             blocks =
                 compile("bf16", 64, tiling, "blocks<0, size = " + size + ">");
    ASSERT_FALSE(dense.ptx.empty() || list.ptx.empty() || blocks.ptx.empty());
    EXPECT_NE(dense.ptx.find("bar.arrive"), std::string::npos);
    for (int64_t rows : {1, 70, 200, 330}) {
      Problem problem{330, rows, 2, 1, 0.125f};
      check(dense, true, 64, problem, seed++);
    }
    Problem problem{150, 150, 2, 1, 0.125f};
    for (int64_t keep : {1, 130}) {
      Lists lists{group, keep};
      check(list, true, 64, problem, seed++, nullptr, &lists);
    }
    Lists ofBlocks{group, 1};
    ofBlocks.blockKeys = group;
    check(blocks, true, 64, problem, seed++, nullptr, &ofBlocks);
  }
}

/// References that are raised by sums, not by maxima of each tile: logits that
/// grow along the keys, fall, are all large or all far below 0, rows of both
/// kinds side by side; tiles in parts, so that products are on their way or are
/// not; ends within a tile and rows that have no key of the first tiles, or
/// none at all; NaN.
TEST_F(WarpKernels, ChecksSums) {
  uint64_t seed = 1;
  for (auto [type, headDim, consumers, more] :
       {std::tuple("bf16", 64, 1, "parts = 1"),
        std::tuple("bf16", 64, 1, "parts = 2"),
        std::tuple("bf16", 64, 1, "parts = 4"),
        std::tuple("bf16", 128, 2, "parts = 2, query_stages = 2"),
        std::tuple("f16", 64, 1, "parts = 1"),
        std::tuple("f16", 64, 1, "parts = 4"),
        std::tuple("f16", 128, 2, "parts = 2, query_stages = 2")}) {
    const bool bf16 = type[0] == 'b';
    const int64_t group = 64 * consumers;
    const std::string tiling =
        "consumers = " + std::to_string(consumers) +
        ", keys = 64, stages = 2, producer_registers = 40, consumer_registers "
        "= 208, check_sums = true, " +
        more;
    SCOPED_TRACE(type + (", " + tiling));
    const std::string ofGroups =
        "list<0, group = " + std::to_string(group) + ">";
    Compiled dense = compile(type, headDim, tiling), list, near, none;
    list = compile(type, headDim, tiling, ofGroups);
    near = compile(
        type, headDim, tiling,
        {{"sinks<3>"},
         {"window<40>", "[#shed.sinks<3>]", "within #shed.window<40>"}});
    none = compile(type, headDim, tiling,
                   {{ofGroups, "", "within #shed.window<10>"}}, "int32");
    ASSERT_FALSE(dense.ptx.empty() || list.ptx.empty() || near.ptx.empty() ||
                 none.ptx.empty());
    for (auto [level, rise] :
         {std::pair(0.0, 0.0), std::pair(0.0, 300.0), std::pair(0.0, 40.0),
          std::pair(0.0, -300.0), std::pair(500.0, 0.0),
          std::pair(-500.0, 900.0)}) {
      if (headDim == 128 && rise <= 0)
        continue; // take long
      SCOPED_TRACE(std::to_string(level) + ", " + std::to_string(rise));
      Problem problem{330, 70, 2, 1, 0.125f};
      problem.level = level;
      problem.rise = rise;
      check(dense, bf16, headDim, problem, seed++);
      problem.n = 33;
      check(dense, bf16, headDim, problem, seed++);
      problem.n = problem.rows = 150;
      for (int64_t keep : {1, 130}) {
        Lists lists{group, keep};
        check(list, bf16, headDim, problem, seed++, nullptr, &lists);
      }
      Problem within = problem;
      within.within = {{::heddle::bundle::Term::Kind::Window, 10}};
      Lists lists{group, 20};
      check(none, bf16, headDim, within, seed++, nullptr, &lists);
      problem.window = 40;
      problem.sinks = 3;
      check(near, bf16, headDim, problem, seed++);
    }
    // Far apart without any order, and NaN in the rows after the first one.
    Problem apart{200, 66, 1, 1, 0.125f, 6};
    check(dense, bf16, headDim, apart, seed++);
    apart.others = NAN;
    check(dense, bf16, headDim, apart, seed++);
    // What a row gets does not depend on those that are raised beside it.
    Problem own{330, 16, 1, 1, 0.125f};
    own.rise = 100;
    auto ofFirstRow = [&] {
      auto bits = check(dense, bf16, headDim, own, 1);
      bits.resize(static_cast<size_t>(headDim));
      return bits;
    };
    const auto row = ofFirstRow();
    own.others = 8;
    EXPECT_EQ(row, ofFirstRow());
  }
}

/// A function of logits that asks for no position, over all keys and a list.
TEST_F(WarpKernels, SoftCap) {
  const char *tiling = "consumers = 2, keys = 64, stages = 2, parts = 1, "
                       "producer_registers = 40, consumer_registers = 232";
  Problem problem{150, 140, 2, 1, 0.25f};
  problem.cap = 2;
  problem.bias = 1;
  const std::string cap = scoresOf(problem);
  Compiled dense = compile("bf16", 64, tiling, "all", "", cap);
  ASSERT_FALSE(dense.ptx.empty());
  check(dense, true, 64, problem, 1);
  Compiled list = compile("bf16", 64, tiling, "list<0, group = 128>", "", cap);
  ASSERT_FALSE(list.ptx.empty());
  problem.rows = 150;
  Lists lists{128, 70};
  check(list, true, 64, problem, 2, nullptr, &lists);
}

/// Caps that leave no maximum to find, and, in f16 and beyond 55, caps that do
/// not: with tiles in parts, which their last keys end within, over all keys,
/// lists and windows that some rows have no key of.
TEST_F(WarpKernels, CappedParts) {
  struct Form {
    const char *type;
    int64_t parts;
    double cap, spread;
  };
  uint64_t seed = 1;
  for (const Form &form : {Form{"bf16", 1, 2, 1},
                           {"bf16", 2, 50, 2},
                           {"bf16", 4, 30, 1},
                           {"bf16", 2, 60, 3},
                           {"f16", 2, 30, 2}}) {
    SCOPED_TRACE(form.type + std::to_string(form.cap));
    const std::string tiling =
        "consumers = 2, keys = 64, stages = 2, producer_registers = 40, "
        "consumer_registers = 232, parts = " +
        std::to_string(form.parts);
    const bool bf16 = std::string(form.type) == "bf16";
    Problem problem{150, 140, 2, 1, 0.25f};
    problem.cap = form.cap;
    const std::string cap = scoresOf(problem);
    problem.spread = form.spread;
    Compiled dense = compile(form.type, 64, tiling, "all", "", cap);
    ASSERT_FALSE(dense.ptx.empty());
    // Warps vote on raising maxima.
    EXPECT_EQ(dense.ptx.find("vote.sync") == std::string::npos,
              bf16 && form.cap < 55);
    check(dense, bf16, 64, problem, seed++);
    problem.others = NAN; // of the rows after the first one alone
    check(dense, bf16, 64, problem, seed++);
    problem.others = 1;
    problem.n = 33; // ends within the first part but for four of them
    problem.rows = 20;
    check(dense, bf16, 64, problem, seed++);
    problem.n = problem.rows = 150;
    Compiled list =
        compile(form.type, 64, tiling, "list<0, group = 128>", "", cap);
    ASSERT_FALSE(list.ptx.empty());
    for (int64_t keep : {1, 70}) {
      Lists lists{128, keep};
      check(list, bf16, 64, problem, seed++, nullptr, &lists);
    }
    Compiled window =
        compile(form.type, 64, tiling,
                {{"window<40>", "", "within #shed.window<40>"}}, "", cap);
    ASSERT_FALSE(window.ptx.empty());
    problem.window = 40;
    check(window, bf16, 64, problem, seed++);
    // A list's keys that stand within 5 places: most rows have none.
    Compiled none =
        compile(form.type, 64, tiling,
                {{"list<0, group = 128>", "", "within #shed.window<10>"}},
                "int32", cap);
    ASSERT_FALSE(none.ptx.empty());
    problem.window = -1;
    problem.within = {{::heddle::bundle::Term::Kind::Window, 10}};
    Lists lists{128, 20};
    check(none, bf16, 64, problem, seed++, nullptr, &lists);
  }
}

/// Lists of keys, whose rows are gathered: fewer than a tile, one more than a
/// tile, all of them; of 16 and of 32 bits.
TEST_F(WarpKernels, ListsOfKeys) {
  const char *two = "consumers = 2, keys = 128, stages = 2, parts = 2, "
                    "producer_registers = 40, consumer_registers = 232";
  Compiled wide = compile("bf16", 128, two, "list<0, group = 128>", "int32");
  ASSERT_FALSE(wide.ptx.empty());
  EXPECT_EQ(wide.queryRows, 128);
  uint64_t seed = 1;
  for (auto [problem, keep] :
       {std::pair(Problem{130, 130, 2, 1, 0.088f}, 1),
        std::pair(Problem{300, 300, 1, 1, 0.088f, 2}, 129),
        std::pair(Problem{200, 200, 1, 1, 0.088f}, 200),
        std::pair(Problem{7, 7, 1, 1, 0.088f}, 5)}) {
    Lists lists{128, keep};
    check(wide, true, 128, problem, seed++, nullptr, &lists);
  }
  Compiled narrow =
      compile("f16", 64,
              "consumers = 1, keys = 80, stages = 3, parts = 1, "
              "producer_registers = 40, consumer_registers = 208, blocks = 2",
              "list<0, group = 64>", "uint16");
  ASSERT_FALSE(narrow.ptx.empty());
  for (int64_t keep : {3, 80, 161}) {
    Lists lists{64, keep};
    lists.wide = false;
    check(narrow, false, 64, {170, 170, 2, 2, 0.125f}, seed++, nullptr, &lists);
  }
}

/// Blocks, some of which are missing; a last one that is shorter; blocks that
/// start anew at a split.
TEST_F(WarpKernels, ListsOfBlocks) {
  Compiled code = compile("bf16", 128,
                          "consumers = 1, keys = 64, stages = 2, parts = 1, "
                          "producer_registers = 40, consumer_registers = 232",
                          "blocks<0, size = 128>", "int32");
  ASSERT_FALSE(code.ptx.empty());
  uint64_t seed = 1;
  for (auto [n, keep, split, missing] :
       {std::tuple(400, 2, 0, 0), std::tuple(300, 3, 0, 0),
        std::tuple(450, 3, 150, 1), std::tuple(100, 1, 0, 0)}) {
    Lists lists{128, keep, 128, split, missing};
    check(code, true, 128, {n, n, 1, 1, 0.088f}, seed++, nullptr, &lists);
  }
}

/// Blocks of a list are consecutive keys, so tensor maps bring them, too.
TEST_F(WarpKernels, TensorMapsOfBlocks) {
  Compiled code =
      compile("bf16", 128,
              "consumers = 1, keys = 64, stages = 2, parts = 1, "
              "producer_registers = 40, consumer_registers = 232, tma = true",
              "blocks<0, size = 128>", "int32");
  ASSERT_FALSE(code.ptx.empty());
  uint64_t seed = 1;
  for (auto [n, keep, split, missing] :
       {std::tuple(400, 2, 0, 0), std::tuple(450, 3, 150, 1),
        std::tuple(100, 1, 0, 0)}) {
    Lists lists{128, keep, 128, split, missing};
    check(code, true, 128, {n, n, 1, 1, 0.088f}, seed++, nullptr, &lists);
  }
}

/// A machine that finds nothing proves nothing: what would go wrong on a GPU,
/// now and then or always, does so here.
TEST_F(WarpKernels, MistakesAreFound) {
  const std::string tiling =
      "consumers = 1, keys = 64, stages = 2, parts = 2, "
      "producer_registers = 40, consumer_registers = 232";
  const Compiled copied = compile("bf16", 128, tiling),
                 fetched = compile("bf16", 128, tiling + ", tma = true"),
                 shared =
                     compile("bf16", 128, tiling + ", tma = true, cluster = 2"),
                 divided = compile("bf16", 128, tiling + ", key_shares = 8"),
                 persistent =
                     compile("bf16", 128, tiling + ", query_stages = 1");
  Problem problem{300, 128, 1, 1, 0.088f};
  problem.blocks = 1;
  // Replaces a text from the last `after` on.
  auto mistakeOf = [&](const Compiled &code, std::string_view text,
                       std::string_view instead, std::string_view after = "") {
    Compiled changed = code;
    size_t at =
        changed.ptx.find(text, after.empty() ? 0 : changed.ptx.rfind(after));
    EXPECT_NE(at, std::string::npos) << text;
    for (; at != std::string::npos;
         at = changed.ptx.find(text, at + instead.size()))
      changed.ptx.replace(at, text.size(), instead);
    std::string mistake;
    for (uint64_t seed = 1; mistake.empty() && seed < 5; ++seed)
      check(changed, true, 128, problem, seed, &mistake);
    return mistake;
  };
  auto has = [](const std::string &text, const char *part) {
    return text.find(part) != std::string::npos;
  };
  auto mistakeWith = [&](std::string_view text, std::string_view instead) {
    return mistakeOf(copied, text, instead);
  };
  EXPECT_EQ(mistakeWith("wgmma.fence", "wgmma.fence"), "");
  EXPECT_PRED2(has, mistakeWith("wgmma.wait_group.sync.aligned 0;", ""),
               "before the wait");
  EXPECT_PRED2(has, mistakeWith("fence.proxy.async.shared::cta;", ""),
               "without a proxy fence");
  EXPECT_PRED2(has,
               mistakeWith("@p mbarrier.arrive.shared::cta.b64 _, [", "// "),
               "no warp can go on");
  EXPECT_PRED2(has, mistakeOf(fetched, "fence.proxy.tensormap::generic", "// "),
               "has not acquired");
  // Tiles of 16,384 bytes.
  EXPECT_PRED2(has, mistakeOf(fetched, ", 16384;", ", 16400;"),
               "no warp can go on");
  EXPECT_PRED2(
      has,
      mistakeOf(shared, "@p mbarrier.arrive.shared::cluster.b64 _, [", "// "),
      "no warp can go on");
  EXPECT_PRED2(has,
               mistakeOf(divided, "barrier.cluster.wait.acquire.aligned;",
                         "// ", "ld.shared::cluster"),
               "an access to a block that has ended");
  // Of the queries' ring, whose stage is released last.
  EXPECT_EQ(mistakeOf(persistent, "wgmma.fence", "wgmma.fence"), "");
  EXPECT_PRED2(has,
               mistakeOf(persistent, "@p mbarrier.arrive.shared::cta.b64 _, [",
                         "// ", "@p mbarrier.arrive.shared::cta.b64 _, ["),
               "no warp can go on");
  // A warp that goes by its own vote waits for products alone.
  const Compiled voting = compile("bf16", 128, tiling + ", check_sums = true");
  problem.spread = 30; // so that warps find different things
  EXPECT_EQ(mistakeOf(voting, "wgmma.fence", "wgmma.fence"), "");
  EXPECT_PRED2(has,
               mistakeOf(voting, "bar.red.or.pred p, ",
                         "vote.sync.any.pred p, p, -1; // "),
               "another warp of the warpgroup");
  problem.spread = 1;
  // The waits for all stages come last.
  EXPECT_PRED2(has,
               mistakeOf(shared, "mbarrier.try_wait.parity.shared::cta.b64 p,",
                         "// ", "st.global"),
               "a block that has ended");
}

/// ptxas serialises products whose registers it cannot prove to be free, and
/// says so.
TEST_F(WarpKernels, AssemblerFindsNothingSlow) {
  std::optional<std::string> ptxas = ::heddle::findPtxas();
  if (!ptxas)
    GTEST_SKIP() << "no ptxas";
  auto judge = [&](const std::string &type, int headDim,
                   const std::string &tiling, const std::vector<KeySet> &sets,
                   const std::string &scores = "") {
    SCOPED_TRACE(type + ", " + tiling + ", " + sets.back().over + scores);
    std::string why;
    auto result = ::heddle::assemble(
        *ptxas, "sm_90a", compile(type, headDim, tiling, sets, "", scores).ptx,
        why);
    ASSERT_TRUE(static_cast<bool>(result));
    if (!*result)
      GTEST_SKIP() << why;
    EXPECT_TRUE((*result)->complaints.empty());
    ASSERT_EQ((*result)->kernels.size(), 1u);
    EXPECT_EQ((*result)->kernels[0].stackBytes, 0);
  };
  auto rules = ::heddle::bundle::tilingsFromJson(shed::builtInTuning());
  ASSERT_TRUE(static_cast<bool>(rules));
  for (const shed::WgmmaRule &rule : *rules)
    if (rule.over != "scores" && !rule.shared) {
      const int headDim = static_cast<int>(rule.headDim);
      judge(rule.element, headDim, textOf(rule), {{overOf(rule)}});
      if (rule.checkSums)
        continue; // not of functions
      // With and, in f16 and beyond its reach, without bounds.
      for (double cap : {30, 60}) {
        Problem capped{};
        capped.cap = cap;
        judge(rule.element, headDim, textOf(rule), {{overOf(rule)}},
              scoresOf(capped));
      }
    }
  // And some that tables may come to.
  for (auto [type, headDim, tiling, over] :
       {std::tuple("bf16", 128,
                   "consumers = 3, keys = 128, stages = 2, parts = 2, "
                   "producer_registers = 32, consumer_registers = 160, "
                   "tma = true",
                   "all"),
        std::tuple("bf16", 128,
                   "consumers = 3, keys = 128, stages = 2, parts = 2, "
                   "producer_registers = 32, consumer_registers = 160, "
                   "tma = true, cluster = 2",
                   "all"),
        std::tuple("bf16", 128,
                   "consumers = 2, keys = 128, stages = 3, parts = 1, "
                   "producer_registers = 40, consumer_registers = 232, "
                   "tma = true",
                   "blocks<0, size = 128>"),
        std::tuple("bf16", 128,
                   "consumers = 2, keys = 128, stages = 3, parts = 1, "
                   "producer_registers = 40, consumer_registers = 232",
                   "list<0, group = 128>"),
        std::tuple("bf16", 128,
                   "consumers = 1, keys = 64, stages = 2, parts = 1, "
                   "producer_registers = 40, consumer_registers = 208, "
                   "blocks = 2, key_shares = 8",
                   "all"),
        std::tuple("bf16", 128,
                   "consumers = 1, keys = 80, stages = 2, parts = 1, "
                   "producer_registers = 40, consumer_registers = 208, "
                   "blocks = 2, key_shares = 16, packed = true",
                   "all"),
        std::tuple("f16", 64,
                   "consumers = 2, keys = 128, stages = 2, parts = 2, "
                   "producer_registers = 40, consumer_registers = 232, "
                   "key_shares = 8, packed = true",
                   "all"),
        std::tuple("f16", 128,
                   "consumers = 3, keys = 80, stages = 4, parts = 1, "
                   "producer_registers = 32, consumer_registers = 160",
                   "all"),
        std::tuple("bf16", 128,
                   "consumers = 2, keys = 176, stages = 2, parts = 1, "
                   "producer_registers = 40, consumer_registers = 232",
                   "all")})
    judge(type, headDim, tiling, {{over}});
  const std::string three = "consumers = 3, keys = 96, stages = 2, parts = 2, "
                            "producer_registers = 32, consumer_registers = 160";
  const std::vector<KeySet> ranges = {
      {"sinks<?>"},
      {"window<4096>", "[#shed.sinks<?>]", "within #shed.window<4096>"}};
  judge("bf16", 128, three, ranges);
  judge("bf16", 128, three + ", tma = true", ranges);
  judge("bf16", 128, three + ", tma = true, query_stages = 2", ranges);
  judge("bf16", 128,
        "consumers = 2, keys = 128, stages = 2, parts = 2, "
        "producer_registers = 40, consumer_registers = 232",
        {{"window<512>", "", "within #shed.window<512>"},
         {"list<0, group = 128>", "", "outside [#shed.window<512>]"}});
}
