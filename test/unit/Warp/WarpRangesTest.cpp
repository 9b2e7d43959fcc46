//===- WarpRangesTest.cpp - Windows, sinks, unions and positions ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WarpKernels.h"

#include "bundle/test/RandomTerm.h"
#include "heddle/Dialect/Shed/IR/Shed.h"

#include "mlir/IR/MLIRContext.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

using namespace heddle::test;
using namespace mlir;

/// Windows, whose tiles begin anywhere: rows at both ends, windows of one key
/// and wider than the sequence, tiles that are whole for some warpgroups alone;
/// keys that stand apart, and rows of some places.
TEST_F(WarpKernels, Windows) {
  uint64_t seed = 1;
  for (const char *copies : {"", ", tma = true"})
    for (int64_t size : {1, 70, 300, 5000}) {
      if (*copies && size != 70)
        continue;
      SCOPED_TRACE(std::to_string(size) + copies);
      const std::string window = "window<" + std::to_string(size) + ">";
      Compiled code = compile(
          "bf16", 128,
          std::string("consumers = 3, keys = 64, stages = 2, parts = 2, "
                      "producer_registers = 32, consumer_registers = "
                      "160") +
              copies,
          {{window, "", "within #shed.window<" + std::to_string(size) + ">"}});
      ASSERT_FALSE(code.ptx.empty());
      for (auto [n, rows, apart, moved] :
           {std::tuple(1, 1, false, false), std::tuple(450, 450, false, false),
            std::tuple(200, 200, true, false),
            std::tuple(300, 210, true, true)}) {
        Problem problem{n, rows, 1, 1, 0.088f};
        problem.window = size;
        problem.apart = apart;
        problem.moved = moved;
        check(code, true, 128, problem, seed++);
      }
    }
}

/// Sets of which each row has its own keys, by any numbers.
TEST_F(WarpKernels, SetsThatMask) {
  MLIRContext context;
  context.loadDialect<shed::ShedDialect>();
  std::mt19937 random(14);
  for (uint64_t seed = 1; seed <= 18;) {
    const ::heddle::bundle::Term term = randomTerm(random, 90);
    const shed::KeySet set = shed::keySetOf(&context, term, 0, 0);
    if (set.isUniform() || set.isSparse())
      continue;
    std::string text;
    llvm::raw_string_ostream(text) << set;
    SCOPED_TRACE(text);
    const std::string over = text.substr(StringRef("#shed.").size());
    const Compiled code =
        compile("bf16", 64,
                "consumers = 2, keys = 64, stages = 2, parts = 1, "
                "producer_registers = 40, consumer_registers = 232",
                {{over, "", "within " + text}});
    ASSERT_FALSE(code.ptx.empty());
    for (auto [n, rows, apart, moved] :
         {std::tuple(1, 1, false, false), std::tuple(333, 333, false, false),
          std::tuple(200, 130, true, true)}) {
      Problem problem{n, rows, 2, 1, 0.125f};
      problem.sets = {term};
      problem.apart = apart;
      problem.moved = moved;
      check(code, true, 64, problem, seed++);
    }
  }
}

/// Lists of keys and of blocks of which rows keep what is within any sets, also
/// in tiles that have none of it.
TEST_F(WarpKernels, ListsWithinSets) {
  MLIRContext context;
  context.loadDialect<shed::ShedDialect>();
  std::mt19937 random(21);
  for (uint64_t seed = 1; seed <= 24;)
    for (const char *over : {"list<0, group = 64>", "blocks<0, size = 64>"}) {
      ::heddle::bundle::Term list;
      list.within = randomBound(random, 90);
      std::string text;
      llvm::raw_string_ostream(text) << shed::boundSetOf(&context, list);
      SCOPED_TRACE(over + (" within " + text));
      const Compiled code =
          compile("bf16", 64,
                  "consumers = 1, keys = 64, stages = 2, parts = 1, "
                  "producer_registers = 40, consumer_registers = 232",
                  {{over, "", "within " + text}}, "int32");
      ASSERT_FALSE(code.ptx.empty());
      for (auto [n, apart] :
           {std::pair(1, false), std::pair(300, false), std::pair(200, true)}) {
        const bool blocks = over[0] == 'b';
        Lists lists{64, std::min<int64_t>(n, 70), blocks ? 64 : 0};
        if (blocks)
          lists.keep = std::min<int64_t>(3, (n + 63) / 64);
        Problem problem{n, n, 2, 1, 0.125f};
        problem.within = list.within;
        problem.apart = apart;
        check(code, true, 64, problem, seed++, nullptr, &lists);
      }
    }
}

/// Sinks, by number and as the arguments say, and a window behind them, which
/// leaves them out: loops that share rings, maxima and sums.
TEST_F(WarpKernels, SinksAndWindows) {
  const std::string tiling =
      "consumers = 2, keys = 64, stages = 3, parts = 1, "
      "producer_registers = 40, consumer_registers = 232";
  uint64_t seed = 1;
  for (const char *copies : {"", ", tma = true"})
    for (bool told : {false, true}) {
      SCOPED_TRACE(std::string(told ? "told" : "4") + copies);
      const std::string sinks = told ? "sinks<?>" : "sinks<70>";
      Compiled code = compile(
          "f16", 64, tiling + copies,
          {{sinks},
           {"window<90>", "[#shed." + sinks + "]", "within #shed.window<90>"}});
      ASSERT_FALSE(code.ptx.empty());
      for (auto [n, rows, apart, moved] :
           {std::tuple(1, 1, false, false), std::tuple(60, 60, false, false),
            std::tuple(333, 333, false, false),
            std::tuple(333, 130, true, true)}) {
        Problem problem{n, rows, 2, 1, 0.125f, 2};
        problem.window = 90;
        problem.sinks = told ? 130 : 70;
        problem.apart = apart;
        problem.moved = moved;
        check(code, false, 64, problem, seed++);
      }
    }
}

/// Lists beside windows and sinks; lists without any block.
TEST_F(WarpKernels, Unions) {
  const char *tiling = "consumers = 1, keys = 64, stages = 2, parts = 1, "
                       "producer_registers = 40, consumer_registers = 232";
  uint64_t seed = 1;
  for (bool blocks : {false, true}) {
    SCOPED_TRACE(blocks ? "blocks" : "keys");
    Compiled code = compile(
        "bf16", 64, tiling,
        {{"sinks<5>"},
         {"window<50>", "[#shed.sinks<5>]", "within #shed.window<50>"},
         {"window<90>", "[#shed.sinks<5>]",
          "within #shed.window<90> outside [#shed.window<50>]"},
         {blocks ? "blocks<0, size = 64>" : "list<0, group = 64>",
          "[#shed.sinks<5>]", "outside [#shed.window<50>, #shed.window<90>]"}},
        "int32");
    ASSERT_FALSE(code.ptx.empty());
    for (auto [n, keep, missing, apart] :
         {std::tuple(7, 1, 0, false), std::tuple(300, 3, 0, false),
          std::tuple(300, 3, 3, true), std::tuple(410, 5, 1, true)}) {
      Lists lists{64, keep, blocks ? 64 : 0};
      lists.missing = blocks ? missing : 0;
      if (!blocks)
        lists.keep = std::min<int64_t>(n, 50 * keep);
      else
        lists.keep = std::min<int64_t>(keep, (n + 63) / 64);
      Problem problem{n, n, 2, 1, 0.125f};
      problem.window = 90;
      problem.sinks = 5;
      problem.apart = apart;
      check(code, true, 64, problem, seed++, nullptr, &lists);
    }
  }
}

/// A list behind all keys has none left, as such a union's loops are ordered.
TEST_F(WarpKernels, ListsBehindAllKeys) {
  Compiled code =
      compile("bf16", 64,
              "consumers = 1, keys = 64, stages = 2, parts = 1, "
              "producer_registers = 40, consumer_registers = 232",
              {{"all"}, {"list<0, group = 64>", "[#shed.all]"}}, "int32");
  ASSERT_FALSE(code.ptx.empty());
  uint64_t seed = 1;
  for (int64_t n : {1, 64, 150}) {
    Lists lists{64, std::min<int64_t>(n, 20)};
    Problem problem{n, n, 2, 1, 0.125f};
    problem.window = 2 * n; // all keys
    check(code, true, 64, problem, seed++, nullptr, &lists);
  }
}

/// Functions of logits that ask where rows and keys stand.
TEST_F(WarpKernels, Positions) {
  const char *tiling = "consumers = 2, keys = 64, stages = 2, parts = 1, "
                       "producer_registers = 40, consumer_registers = 232";
  const char *bias = R"((%logit, %query, %key, %head) {
      %c = arith.constant 0.03125 : f32
      %far = arith.subi %query, %key : i32
      %real = arith.sitofp %far : i32 to f32
      %most = math.absf %real : f32
      %less = arith.mulf %most, %c : f32
      %z = arith.subf %logit, %less : f32
      shed.yield %z : f32
    })";
  uint64_t seed = 1;
  for (const KeySet &pass :
       {KeySet{"all"}, KeySet{"list<0, group = 128>"},
        KeySet{"window<90>", "", "within #shed.window<90>"}}) {
    SCOPED_TRACE(pass.over);
    Compiled code = compile("bf16", 64, tiling, {pass}, "", bias);
    ASSERT_FALSE(code.ptx.empty());
    const bool list = pass.over[0] == 'l';
    for (auto [n, rows, apart, moved] :
         {std::tuple(1, 1, false, false), std::tuple(200, 200, false, false),
          std::tuple(200, 200, true, false),
          std::tuple(200, 130, true, true)}) {
      Problem problem{n, list ? n : rows, 1, 1, 0.25f};
      problem.slope = 0.03125;
      problem.apart = apart;
      problem.moved = moved && !list;
      if (!pass.mask.empty())
        problem.window = 90;
      Lists lists{128, std::min<int64_t>(n, 70)};
      check(code, true, 64, problem, seed++, nullptr, list ? &lists : nullptr);
    }
  }
}
