//===- WarpKernelsTest.cpp - Generated warpgroup kernels, run without a GPU
//-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels go the whole way from `shed` to PTX, run on PtxMachine and are
// compared with float64. Sizes are odd, rows strided, outputs poisoned.
//
//===----------------------------------------------------------------------===//

#include "PtxMachine.h"

#include "bundle/Abi.h"
#include "heddle/Conversion/Passes.h"
#include "heddle/Dialect/Shed/IR/Shed.h"
#include "heddle/Dialect/Shed/Transforms/Tuning.h"
#include "heddle/Dialect/Warp/Transforms/Passes.h"
#include "heddle/Target/NVPTX/CudaTarget.h"
#include "heddle/Target/NVPTX/PtxCodegen.h"
#include "heddle/Target/NVPTX/Ptxas.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>

using namespace mlir;
using namespace ::heddle::test;

namespace {

/// A kernel as PTX and what its launch needs.
struct Compiled {
  std::string ptx;
  int64_t sharedBytes = 0, queryRows = 0, mapRows = 0, cluster = 1;
};

/// A pass over keys: what its `shed.for_keys` is to have, and `shed.mask`, if
/// it is to be there.
struct KeySet {
  std::string over, skip = "", mask = "";
};

/// A kernel with one pass after the other.
std::string kernelOf(const std::string &type, int headDim,
                     const std::string &tiling,
                     const std::vector<KeySet> &passes,
                     const std::string &encoding, const std::string &scores) {
  std::string text = "shed.kernel @dense attention element(" + type +
                     ") head_dim(" + std::to_string(headDim) + ") writes_lse " +
                     (encoding.empty() ? "" : "encoding(" + encoding + ") ") +
                     "tiling(#shed.wgmma_tiling<" + tiling +
                     R"(>) {
  %q = shed.load_queries : !shed.tile<queries, channels, TYPE>
  %s0 = shed.softmax_init : !shed.softmax
)";
  for (size_t i = 0; i < passes.size(); ++i) {
    const KeySet &pass = passes[i];
    std::string logits = "%l";
    text += "  %s" + std::to_string(i + 1) + " = shed.for_keys over #shed." +
            pass.over + (pass.skip.empty() ? "" : " skip " + pass.skip) +
            " init(%s" + std::to_string(i) +
            R"() : !shed.softmax {
  ^bb0(%keys: !shed.keys, %s: !shed.softmax):
    %k = shed.load_keys %keys : !shed.tile<keys, channels, TYPE>
    %v = shed.load_values %keys : !shed.tile<keys, channels, TYPE>
    %l = shed.dot %q, %k : !shed.tile<queries, channels, TYPE>, !shed.tile<keys, channels, TYPE>
)";
    if (!scores.empty()) {
      text += "    %f = shed.scores %l at %keys " + scores + "\n";
      logits = "%f";
    }
    if (!pass.mask.empty()) {
      text += "    %m = shed.mask " + logits + ", %keys " + pass.mask + "\n";
      logits = "%m";
    }
    text += "    %n = shed.softmax_update %s, " + logits +
            R"(, %v : !shed.tile<keys, channels, TYPE>
    shed.yield %n : !shed.softmax
  }
)";
  }
  text += "  shed.store %s" + std::to_string(passes.size()) + "\n}\n";
  for (size_t at; (at = text.find("TYPE")) != std::string::npos;)
    text.replace(at, 4, type);
  return text;
}

Compiled compile(const std::string &type, int headDim,
                 const std::string &tiling, const std::vector<KeySet> &passes,
                 const std::string &encoding = "",
                 const std::string &scores = "") {
  std::string text = kernelOf(type, headDim, tiling, passes, encoding, scores);
  DialectRegistry registry;
  mlir::heddle::registerPtxDialects(registry);
  MLIRContext context(registry);
  context.loadDialect<shed::ShedDialect>();
  auto module = parseSourceString<ModuleOp>(text, &context);
  PassManager pm(&context);
  pm.addPass(mlir::heddle::createConvertShedToWarp());
  pm.addPass(createCSEPass());
  pm.addPass(warp::createWarpSpecializeRoles());
  pm.addPass(warp::createWarpVerifyPipelines());
  pm.addPass(mlir::heddle::createConvertWarpToNVVM());
  pm.addPass(createCSEPass());
  if (!module || failed(pm.run(*module)))
    return {};
  auto records = mlir::heddle::collectCudaKernels(*module);
  auto ptx =
      mlir::heddle::emitPtx(*module, *::heddle::CudaTarget::get("sm_90a"));
  if (failed(ptx))
    return {};
  return {*ptx, records[0].sharedBytes, records[0].queryRows,
          records[0].mapRows, records[0].cluster};
}

Compiled compile(const std::string &type, int headDim,
                 const std::string &tiling, const std::string &over = "all",
                 const std::string &encoding = "",
                 const std::string &scores = "") {
  return compile(type, headDim, tiling, std::vector<KeySet>{{over}}, encoding,
                 scores);
}

std::string textOf(const shed::WgmmaRule &rule) {
  return "consumers = " + std::to_string(rule.consumers) +
         ", keys = " + std::to_string(rule.keys) +
         ", stages = " + std::to_string(rule.stages) +
         ", parts = " + std::to_string(rule.parts) +
         ", producer_registers = " + std::to_string(rule.producerRegisters) +
         ", consumer_registers = " + std::to_string(rule.consumerRegisters) +
         (rule.blocks > 1 ? ", blocks = " + std::to_string(rule.blocks) : "") +
         (rule.tma ? ", tma = true, cluster = " + std::to_string(rule.cluster)
                   : "");
}

/// What the kernel of a rule goes over, with groups of as many rows as a tile.
std::string overOf(const shed::WgmmaRule &rule) {
  const std::string rows = std::to_string(64 * rule.consumers);
  return rule.over == "list"     ? "list<0, group = " + rows + ">"
         : rule.over == "blocks" ? "blocks<0, size = " + rows + ">"
                                 : "all";
}

struct Problem {
  int64_t n, rows, heads, kvHeads;
  float scale;
  /// Of the inputs: maxima of rows then rise late, and by much.
  double spread = 1;
  /// What the query rows after the first one are multiplied by.
  double others = 1;
  /// A soft cap of logits, if not 0, and what each head's number adds to them.
  double cap = 0, bias = 0;
  /// What logits lose for each position between row and key.
  double slope = 0;
  /// Keys in a window or below a bound count beside those of lists, if >= 0.
  int64_t window = -1, sinks = -1;
  /// Whether keys stand apart from each other in the sequence.
  bool apart = false;
  /// Whether rows are those of some places.
  bool moved = false;
};

/// Random lists, one a head and group of rows.
struct Lists {
  int64_t group, keep;
  int64_t blockKeys = 0; ///< of lists of blocks, else 0
  int64_t split = 0;
  int64_t missing = 0; ///< entries of blocks at a list's end
  bool wide = true;    ///< int32, not uint16
  std::vector<std::vector<int32_t>> entries = {};
  std::vector<uint8_t> memory = {};

  int64_t blocksBefore() const { return (split + blockKeys - 1) / blockKeys; }
  int64_t groups(int64_t rows) const { return (rows + group - 1) / group; }
  int64_t rowBytes() const { return (keep * (wide ? 4 : 2) + 15) / 16 * 16; }

  void make(const Problem &p, std::mt19937_64 &random) {
    const int64_t all =
        blockKeys ? blocksBefore() + (p.n - split + blockKeys - 1) / blockKeys
                  : p.n;
    memory.assign(p.heads * groups(p.rows) * rowBytes(), 0xee);
    for (int64_t list = 0; list < p.heads * groups(p.rows); ++list) {
      std::vector<int32_t> some(all);
      std::iota(some.begin(), some.end(), 0);
      std::shuffle(some.begin(), some.end(), random);
      some.resize(keep - missing);
      std::sort(some.begin(), some.end());
      some.resize(keep, -1);
      for (int64_t i = 0; i < keep; ++i)
        std::memcpy(&memory[list * rowBytes() + i * (wide ? 4 : 2)], &some[i],
                    wide ? 4 : 2);
      entries.push_back(some);
    }
  }

  /// Row: its place.
  std::vector<int64_t> keysOf(const Problem &p, int64_t head,
                              int64_t row) const {
    std::vector<int64_t> keys;
    for (int32_t entry : entries[head * groups(p.rows) + row / group]) {
      if (!blockKeys) {
        keys.push_back(entry);
        continue;
      }
      if (entry < 0)
        continue;
      const bool second = entry >= blocksBefore();
      int64_t first = second ? split + (entry - blocksBefore()) * blockKeys
                             : entry * blockKeys;
      int64_t end = std::min(first + blockKeys, second ? p.n : split);
      for (; first < end; ++first)
        keys.push_back(first);
    }
    return keys;
  }
};

/// Arrays of bf16 or f16 rows with gaps between them.
struct Rows {
  Rows(int64_t count, int64_t stride) : stride(stride) {
    // Copies take 16 bytes, which are aligned.
    memory.resize(static_cast<size_t>(count * stride) + 8, 0x7fc1);
    offset = (16 - reinterpret_cast<uintptr_t>(memory.data()) % 16) % 16 / 2;
  }
  uint16_t *data() { return memory.data() + offset; }
  uint16_t &at(int64_t row, int64_t column) {
    return data()[row * stride + column];
  }
  int64_t bytes() const {
    return static_cast<int64_t>(memory.size() - offset) * 2;
  }

  int64_t stride;
  size_t offset;
  std::vector<uint16_t> memory;
};

class WarpKernels : public testing::Test {
protected:
  /// Runs the kernel and compares. What a block does that it must not is in
  /// `mistake`, if given, or fails the test. Returns the bits of the first row.
  std::vector<uint16_t> check(const Compiled &code, bool bf16, int64_t headDim,
                              const Problem &problem, uint64_t seed,
                              std::string *mistake = nullptr,
                              Lists *lists = nullptr);
};

} // namespace

std::vector<uint16_t> WarpKernels::check(const Compiled &code, bool bf16,
                                         int64_t headDim, const Problem &p,
                                         uint64_t seed, std::string *mistake,
                                         Lists *lists) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  const int64_t wide = p.heads * headDim, narrow = p.kvHeads * headDim;
  Rows query(p.rows, wide + 8), key(p.n, narrow + 16), value(p.n, narrow + 24),
      output(p.rows, wide + 32);
  auto fill = [&](Rows &rows, int64_t count, int64_t columns) {
    for (int64_t i = 0; i < count; ++i)
      for (int64_t j = 0; j < columns; ++j)
        rows.at(i, j) =
            toHalf(bf16, static_cast<float>(p.spread * normal(random)));
  };
  fill(query, p.rows, wide);
  for (int64_t i = 1; i < p.rows; ++i)
    for (int64_t j = 0; j < wide; ++j)
      query.at(i, j) = toHalf(bf16, static_cast<float>(p.others) *
                                        fromHalf(bf16, query.at(i, j)));
  fill(key, p.n, narrow);
  fill(value, p.n, narrow);
  std::vector<float> lse(static_cast<size_t>(p.heads * p.rows) + 1, -12345.0f);

  ::heddle::abi::AttentionArgs args{};
  args.query = query.data();
  args.key = key.data();
  args.value = value.data();
  args.output = output.data();
  args.lse = lse.data();
  args.n = p.n;
  args.rows = p.rows;
  args.queryStride = query.stride;
  args.keyStride = key.stride;
  args.valueStride = value.stride;
  args.outputStride = output.stride;
  args.kvGroup = p.heads / p.kvHeads;
  args.heads = static_cast<uint32_t>(p.heads);
  args.scale = p.scale;

  if (lists) {
    lists->make(p, random);
    args.lists[0] = {lists->memory.data(), lists->groups(p.rows), lists->keep,
                     lists->rowBytes(), lists->split};
  }

  std::vector<int32_t> position(p.n), place(p.rows);
  std::iota(position.begin(), position.end(), 0);
  std::iota(place.begin(), place.end(), 0);
  if (p.apart) {
    for (int64_t j = 1; j < p.n; ++j)
      position[j] = position[j - 1] + 1 + static_cast<int32_t>(random() % 4);
    args.position = position.data();
  }
  if (p.moved) {
    std::vector<int32_t> all(p.n);
    std::iota(all.begin(), all.end(), 0);
    std::shuffle(all.begin(), all.end(), random);
    std::copy_n(all.begin(), p.rows, place.begin());
    std::sort(place.begin(), place.end());
    args.place = place.data();
  }
  args.sinks = p.sinks;

  PtxTensorMap maps[2];
  static_assert(sizeof(maps) == sizeof(::heddle::abi::TileMaps));
  for (Rows *rows : {&key, &value}) {
    PtxTensorMap &map = maps[rows == &value];
    map.address = reinterpret_cast<uint64_t>(rows->data());
    map.columns = narrow;
    map.rows = p.n;
    map.stride = rows->stride * 2;
    map.boxColumns = 64;
    map.boxRows = code.mapRows;
  }
  if (code.mapRows)
    args.tileMaps = reinterpret_cast<const ::heddle::abi::TileMaps *>(maps);

  PtxProgram program(code.ptx, "dense");
  EXPECT_EQ(program.cluster, code.cluster);
  PtxMachine machine(program, code.sharedBytes, seed);
  machine.allow(&args, sizeof(args));
  if (lists)
    machine.allow(lists->memory.data(),
                  static_cast<int64_t>(lists->memory.size()));
  machine.allow(maps, sizeof(maps));
  machine.allow(position.data(), p.n * 4);
  machine.allow(place.data(), p.rows * 4);
  machine.allow(query.data(), query.bytes());
  machine.allow(key.data(), key.bytes());
  machine.allow(value.data(), value.bytes());
  machine.allow(output.data(), output.bytes());
  machine.allow(lse.data(), static_cast<int64_t>(lse.size()) * 4 - 4);
  // A tile or cluster more than there is, which is to do nothing.
  for (int64_t tile = 0;
       tile <=
       (p.rows + code.queryRows - 1) / code.queryRows + code.cluster - 1;
       tile += code.cluster)
    for (int64_t head = 0; head < p.heads; ++head)
      try {
        machine.run(
            {static_cast<uint32_t>(tile), static_cast<uint32_t>(head), 0},
            {reinterpret_cast<uint64_t>(&args), 0, 0});
      } catch (const PtxError &error) {
        if (!mistake)
          ADD_FAILURE() << error.what();
        else
          *mistake = error.what();
        return {};
      }

  auto real = [&](Rows &rows, int64_t row, int64_t column) {
    return static_cast<double>(fromHalf(bf16, rows.at(row, column)));
  };
  double worst = 0, worstLse = 0;
  for (int64_t head = 0; head < p.heads; ++head)
    for (int64_t row = 0; row < p.rows; ++row) {
      const int64_t kv = head / args.kvGroup * headDim, own = head * headDim;
      std::vector<double> logits;
      std::vector<int64_t> keys(p.n);
      std::iota(keys.begin(), keys.end(), 0);
      if (lists)
        keys = lists->keysOf(p, head, place[row]);
      const int64_t at = position[place[row]];
      if (p.window >= 0 || p.sinks >= 0) {
        std::vector<bool> kept(p.n);
        for (int64_t j = 0; j < p.n; ++j)
          kept[j] =
              (p.window >= 0 && std::abs(position[j] - at) <= p.window / 2) ||
              position[j] < p.sinks;
        if (lists)
          for (int64_t j : keys)
            kept[j] = true;
        keys.clear();
        for (int64_t j = 0; j < p.n; ++j)
          if (kept[j])
            keys.push_back(j);
      }
      double most = -INFINITY, sum = 0;
      for (int64_t j : keys) {
        double dot = 0;
        for (int64_t c = 0; c < headDim; ++c)
          dot += real(query, row, own + c) * real(key, j, kv + c);
        dot *= p.scale;
        if (p.cap)
          dot = std::tanh(dot / p.cap) * p.cap +
                p.bias * static_cast<double>(head);
        dot -= p.slope * static_cast<double>(std::abs(position[j] - at));
        logits.push_back(dot * std::log2(std::exp(1.0)));
        most = std::max(most, logits.back());
      }
      for (double &logit : logits)
        sum += logit = std::exp2(logit - most);
      worstLse = std::max(worstLse, std::fabs(lse[head * p.rows + row] -
                                              (most + std::log2(sum))));
      for (int64_t c = 0; c < headDim; ++c) {
        double expected = 0;
        for (size_t j = 0; j < keys.size(); ++j)
          expected += logits[j] / sum * real(value, keys[j], kv + c);
        double found = real(output, row, own + c);
        worst = std::max(
            worst, std::isnan(found) ? INFINITY : std::fabs(found - expected));
      }
    }
  // Weights and outputs are rounded to 8 bits (bf16) or 11.
  EXPECT_LT(worst, (bf16 ? 0.02 : 0.004) * p.spread);
  // The machine's tanh is within 2^-11.
  EXPECT_LT(worstLse, 2e-4 * p.spread * p.spread + p.cap / 1024);
  // Nothing else is written.
  for (int64_t row = 0; row < p.rows; ++row)
    for (int64_t column = wide; column < output.stride; ++column)
      EXPECT_EQ(output.at(row, column), 0x7fc1);
  EXPECT_EQ(lse.back(), -12345.0f);
  return {&output.at(0, 0), &output.at(0, 0) + wide};
}

/// Windows, whose tiles begin anywhere: rows at both ends, windows of one key
/// and wider than the sequence, tiles that are whole for some warpgroups alone;
/// keys that stand apart, and rows of some places.
TEST_F(WarpKernels, Windows) {
  uint64_t seed = 1;
  for (const char *copies : {"", ", tma = true"})
    for (int64_t size : {0, 1, 70, 300, 5000}) {
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
          {{window, "", "within <" + std::to_string(size) + ">"}});
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
          {{sinks}, {"window<90>", "[#shed." + sinks + "]", "within <90>"}});
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
         {"window<50>", "[#shed.sinks<5>]", "within <50>"},
         {"window<90>", "[#shed.sinks<5>]",
          "within <90> outside [#shed.window<50>]"},
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
  for (const KeySet &pass : {KeySet{"all"}, KeySet{"list<0, group = 128>"},
                             KeySet{"window<90>", "", "within <90>"}}) {
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
  auto rules = shed::parseTuning(shed::builtInTuning());
  ASSERT_TRUE(static_cast<bool>(rules));
  ASSERT_FALSE(rules->empty());
  uint64_t seed = 1;
  for (const shed::WgmmaRule &rule : *rules) {
    const std::string tiling = textOf(rule);
    SCOPED_TRACE(rule.element + ", " + tiling);
    const int headDim = static_cast<int>(rule.headDim);
    Compiled code = compile(rule.element, headDim, tiling, overOf(rule),
                            rule.over == "list" ? "uint16" : "");
    ASSERT_FALSE(code.ptx.empty());
    const int64_t group = 64 * rule.consumers;
    if (rule.over != "all") {
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

/// A function of logits that asks for no position, over all keys and a list.
TEST_F(WarpKernels, SoftCap) {
  const char *tiling = "consumers = 2, keys = 64, stages = 2, parts = 1, "
                       "producer_registers = 40, consumer_registers = 232";
  const char *cap = R"((%logit, %query, %key, %head) {
      %c = arith.constant 2.0 : f32
      %share = arith.divf %logit, %c : f32
      %bound = math.tanh %share : f32
      %capped = arith.mulf %bound, %c : f32
      %h = arith.sitofp %head : i32 to f32
      %z = arith.addf %capped, %h : f32
      shed.yield %z : f32
    })";
  Problem problem{150, 140, 2, 1, 0.25f};
  problem.cap = 2;
  problem.bias = 1;
  Compiled dense = compile("bf16", 64, tiling, "all", "", cap);
  ASSERT_FALSE(dense.ptx.empty());
  check(dense, true, 64, problem, 1);
  Compiled list = compile("bf16", 64, tiling, "list<0, group = 128>", "", cap);
  ASSERT_FALSE(list.ptx.empty());
  problem.rows = 150;
  Lists lists{128, 70};
  check(list, true, 64, problem, 2, nullptr, &lists);
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
                     compile("bf16", 128, tiling + ", tma = true, cluster = 2");
  const Problem problem{300, 128, 1, 1, 0.088f};
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
  // The waits for all stages come last.
  EXPECT_PRED2(has,
               mistakeOf(shared, "mbarrier.try_wait.parity.shared::cta.b64 p,",
                         "// ", "st.global"),
               "a signal to a block that has ended");
}

/// ptxas serialises products whose registers it cannot prove to be free, and
/// says so.
TEST_F(WarpKernels, AssemblerFindsNothingSlow) {
  std::optional<std::string> ptxas = ::heddle::findPtxas();
  if (!ptxas)
    GTEST_SKIP() << "no ptxas";
  auto judge = [&](const std::string &type, int headDim,
                   const std::string &tiling, const std::vector<KeySet> &sets) {
    SCOPED_TRACE(type + ", " + tiling + ", " + sets.back().over);
    std::string why;
    auto result = ::heddle::assemble(
        *ptxas, "sm_90a", compile(type, headDim, tiling, sets).ptx, why);
    ASSERT_TRUE(static_cast<bool>(result));
    if (!*result)
      GTEST_SKIP() << why;
    EXPECT_TRUE((*result)->complaints.empty());
    ASSERT_EQ((*result)->kernels.size(), 1u);
    EXPECT_EQ((*result)->kernels[0].stackBytes, 0);
  };
  auto rules = shed::parseTuning(shed::builtInTuning());
  ASSERT_TRUE(static_cast<bool>(rules));
  for (const shed::WgmmaRule &rule : *rules)
    judge(rule.element, static_cast<int>(rule.headDim), textOf(rule),
          {{overOf(rule)}});
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
        std::tuple("f16", 128,
                   "consumers = 3, keys = 80, stages = 4, parts = 1, "
                   "producer_registers = 32, consumer_registers = 160",
                   "all"),
        std::tuple("bf16", 128,
                   "consumers = 2, keys = 176, stages = 2, parts = 1, "
                   "producer_registers = 40, consumer_registers = 232",
                   "all")})
    judge(type, headDim, tiling, {{over}});
  const std::string three = "consumers = 3, keys = 128, stages = 2, parts = 2, "
                            "producer_registers = 32, consumer_registers = 160";
  const std::vector<KeySet> ranges = {
      {"sinks<?>"}, {"window<4096>", "[#shed.sinks<?>]", "within <4096>"}};
  judge("bf16", 128, three, ranges);
  judge("bf16", 128, three + ", tma = true", ranges);
  judge("bf16", 128,
        "consumers = 2, keys = 128, stages = 2, parts = 2, "
        "producer_registers = 40, consumer_registers = 232",
        {{"window<512>", "", "within <512>"},
         {"list<0, group = 128>", "", "outside [#shed.window<512>]"}});
}
