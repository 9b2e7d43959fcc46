//===- WarpKernels.cpp - Kernels from shed to results ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WarpKernels.h"

#include "PtxMachine.h"

#include "bundle/abi/Abi.h"
#include "heddle/Conversion/Passes.h"
#include "heddle/Conversion/ShedToWarp.h"
#include "heddle/Dialect/Shed/IR/Shed.h"
#include "heddle/Dialect/Warp/Transforms/Passes.h"
#include "heddle/Target/NVPTX/CudaTarget.h"
#include "heddle/Target/NVPTX/PtxCodegen.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace mlir;
using namespace ::heddle::test;

namespace {

constexpr const char *checkedSums = "check_sums = true";

/// A kernel with one pass after the other. It writes log-sum-exps where its
/// tiling has a form for that.
std::string kernelOf(const std::string &type, int headDim,
                     const std::string &tiling,
                     const std::vector<KeySet> &passes,
                     const std::string &encoding, const std::string &scores,
                     bool sharedLists) {
  std::string text =
      "shed.kernel @dense attention element(" + type + ") head_dim(" +
      std::to_string(headDim) + ") " +
      (StringRef(tiling).contains(checkedSums) ? "" : "writes_lse ") +
      (sharedLists ? "shared_lists " : "") +
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

} // namespace

namespace heddle::test {

Compiled compile(const std::string &type, int headDim,
                 const std::string &tiling, const std::vector<KeySet> &passes,
                 const std::string &encoding, const std::string &scores,
                 bool sharedLists) {
  return compileText(
      kernelOf(type, headDim, tiling, passes, encoding, scores, sharedLists));
}

Compiled compileText(const std::string &text) {
  return compileText(text, {}, {});
}

Compiled compileText(const std::string &text, Prepare prepare,
                     AddPatterns addPatterns) {
  DialectRegistry registry;
  mlir::heddle::registerBackendDialects(registry);
  MLIRContext context(registry);
  context.loadDialect<arith::ArithDialect, LLVM::LLVMDialect, math::MathDialect,
                      NVVM::NVVMDialect, scf::SCFDialect, shed::ShedDialect,
                      warp::WarpDialect>();
  context.allowUnregisteredDialects();
  auto module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return {};
  if (addPatterns) {
    auto kernel = *module->getOps<shed::KernelOp>().begin();
    if (prepare)
      prepare(kernel);
    if (failed(mlir::heddle::lowerShedToWarp(kernel, addPatterns)))
      return {};
  }
  PassManager pm(&context);
  pm.addPass(mlir::heddle::createConvertShedToWarp());
  pm.addPass(createCSEPass());
  pm.addPass(warp::createWarpSpecializeRoles());
  pm.addPass(warp::createWarpPingPong());
  pm.addPass(warp::createWarpVerifyPipelines());
  pm.addPass(mlir::heddle::createConvertWarpToNVVM());
  pm.addPass(createCSEPass());
  if (failed(pm.run(*module)))
    return {};
  auto records = mlir::heddle::collectKernels(*module);
  auto ptx =
      mlir::heddle::emitPtx(*module, *::heddle::CudaTarget::get("sm_90a"));
  if (failed(ptx))
    return {};
  return {*ptx,
          records[0].sharedBytes,
          records[0].queryRows,
          records[0].mapRows,
          records[0].cluster,
          records[0].scratchBytes,
          records[0].scratchBytesPerKey,
          records[0].persistent != 0,
          StringRef(text).contains("packed = true"),
          !StringRef(text).contains(checkedSums)};
}

Compiled compile(const std::string &type, int headDim,
                 const std::string &tiling, const std::string &over,
                 const std::string &encoding, const std::string &scores) {
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
                   : "") +
         (rule.queryStages
              ? ", query_stages = " + std::to_string(rule.queryStages)
              : "") +
         (rule.keyShares > 1
              ? ", key_shares = " + std::to_string(rule.keyShares)
              : "") +
         (rule.packed ? ", packed = true" : "") +
         (rule.checkSums ? std::string(", ") + checkedSums : "") +
         (rule.pingPong ? ", ping_pong = true" : "") +
         (rule.oneRing ? ", one_ring = true" : "") +
         (rule.tailKeys ? ", tail_keys = " + std::to_string(rule.tailKeys)
                        : "");
}

std::string scoresOf(const Problem &problem) {
  std::string text = "(%logit, %query, %key, %head) {\n", value = "%logit";
  auto constant = [&](const char *name, double number) {
    text += std::string(name) + " = arith.constant " + std::to_string(number) +
            " : f32\n";
  };
  if (problem.cap != 0) {
    constant("%cap", problem.cap);
    text += "%share = arith.divf " + value +
            ", %cap : f32\n"
            "%bound = math.tanh %share : f32\n"
            "%capped = arith.mulf %bound, %cap : f32\n";
    value = "%capped";
  }
  if (problem.bias != 0) {
    constant("%bias", problem.bias);
    text += "%number = arith.sitofp %head : i32 to f32\n"
            "%more = arith.mulf %number, %bias : f32\n"
            "%biased = arith.addf " +
            value + ", %more : f32\n";
    value = "%biased";
  }
  if (problem.slope != 0) {
    constant("%slope", problem.slope);
    text += "%apart = arith.subi %query, %key : i32\n"
            "%far = arith.sitofp %apart : i32 to f32\n"
            "%away = math.absf %far : f32\n"
            "%less = arith.mulf %away, %slope : f32\n"
            "%sloped = arith.subf " +
            value + ", %less : f32\n";
    value = "%sloped";
  }
  return text + "shed.yield " + value + " : f32\n}";
}

std::string overOf(const shed::WgmmaRule &rule) {
  const std::string rows = std::to_string(64 * rule.consumers);
  return rule.over == "list"     ? "list<0, group = " + rows + ">"
         : rule.over == "blocks" ? "blocks<0, size = " + rows + ">"
                                 : "all";
}

} // namespace heddle::test

void Lists::make(const Problem &p, std::mt19937_64 &random) {
  const int64_t all =
      blockKeys ? blocksBefore() + (p.n - split + blockKeys - 1) / blockKeys
                : p.n;
  const int64_t count = p.heads / sharers * groups(p.n);
  memory.assign(count * rowBytes(), 0xee);
  for (int64_t list = 0; list < count; ++list) {
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

std::vector<int64_t> Lists::keysOf(const Problem &p, int64_t head,
                                   int64_t row) const {
  std::vector<int64_t> keys;
  for (int32_t entry : entries[head / sharers * groups(p.n) + row / group]) {
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
  if (p.level || p.rise) {
    auto number = [](int64_t i) { return static_cast<double>(i); };
    for (int64_t i = 0; i < p.rows; ++i)
      for (int64_t j = 0; j < wide; j += headDim)
        query.at(i, j) = toHalf(bf16, i % 2 ? -1.0f : 1.0f);
    for (int64_t i = 0; i < p.n; ++i)
      for (int64_t j = 0; j < narrow; j += headDim)
        key.at(i, j) = toHalf(
            bf16, static_cast<float>(
                      (p.level + p.rise * number(i) / number(p.n)) / p.scale));
  }
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
    args.lists[0] = {lists->memory.data(), lists->groups(p.n), lists->keep,
                     lists->rowBytes(),    lists->split,       lists->sharers};
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
  // Where there are lists, tiles are cut by places, and may have no row.
  std::vector<int32_t> firstRow;
  if (lists && p.moved) {
    for (int64_t tile = 0; firstRow.empty() || firstRow.back() < p.rows; ++tile)
      firstRow.push_back(static_cast<int32_t>(
          std::lower_bound(place.begin(), place.end(), tile * code.queryRows) -
          place.begin()));
    firstRow.resize((p.n + code.queryRows - 1) / code.queryRows + 1,
                    static_cast<int32_t>(p.rows));
    args.firstRow = firstRow.data();
  }
  args.sinks = p.sinks;

  PtxTensorMap maps[3];
  static_assert(sizeof(maps) == sizeof(::heddle::abi::TileMaps));
  for (auto [i, rows] : {std::pair(0, &key), {1, &value}, {2, &query}}) {
    const bool ofQueries = i == 2;
    PtxTensorMap &map = maps[i];
    map.address = reinterpret_cast<uint64_t>(rows->data());
    map.columns = ofQueries ? wide : narrow;
    map.rows = ofQueries ? p.rows : p.n;
    map.stride = rows->stride * 2;
    map.boxColumns = 64;
    map.boxRows = ofQueries ? code.queryRows : code.mapRows;
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
  machine.allow(firstRow.data(), static_cast<int64_t>(firstRow.size()) * 4);
  machine.allow(query.data(), query.bytes());
  machine.allow(key.data(), key.bytes());
  machine.allow(value.data(), value.bytes());
  machine.allow(output.data(), output.bytes());
  if (code.writesLse)
    machine.allow(lse.data(), static_cast<int64_t>(lse.size()) * 4 - 4);
  // A tile or cluster more than there is, which is to do nothing. Persistent
  // blocks are as many as they are.
  const int64_t packed = code.packed ? args.kvGroup : 1;
  const int64_t tiles = (p.rows * packed + code.queryRows - 1) / code.queryRows;
  const int64_t clusters = code.persistent
                               ? p.blocks
                               : (tiles + code.cluster - 1) / code.cluster + 1;
  const int64_t heads = code.persistent ? 1 : p.heads / packed;
  machine.grid = {static_cast<uint32_t>(clusters * code.cluster),
                  static_cast<uint32_t>(heads), 1};
  for (int64_t tile = 0; tile < clusters * code.cluster; tile += code.cluster)
    for (int64_t head = 0; head < heads; ++head)
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
      std::erase_if(keys, [&](int64_t j) {
        return !::heddle::bundle::isWithin({.within = p.within}, at,
                                           position[j], -1);
      });
      if (p.window >= 0 || p.sinks >= 0 || !p.sets.empty()) {
        const auto holds =
            ::heddle::bundle::pairsOf(p.sets, head, {}, {}, position.data());
        std::vector<bool> kept(p.n);
        for (int64_t j = 0; j < p.n; ++j)
          kept[j] =
              (p.window >= 0 && std::abs(position[j] - at) <= p.window / 2) ||
              position[j] < p.sinks ||
              (!p.sets.empty() && holds(place[row], j));
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
      if (code.writesLse)
        worstLse = std::max(worstLse, std::fabs(lse[head * p.rows + row] -
                                                (most + std::log2(sum))));
      for (int64_t c = 0; c < headDim; ++c) {
        double expected = 0;
        for (size_t j = 0; j < keys.size(); ++j)
          expected += logits[j] / sum * real(value, keys[j], kv + c);
        double found = real(output, row, own + c);
        const bool written = output.at(row, own + c) != 0x7fc1;
        if (std::isnan(expected) && std::isnan(found) && written)
          continue;
        worst = std::max(worst, std::isnan(found) || std::isnan(expected)
                                    ? INFINITY
                                    : std::fabs(found - expected));
      }
    }
  // Weights and outputs are rounded to 8 bits (bf16) or 11.
  EXPECT_LT(worst, (bf16 ? 0.02 : 0.004) * p.spread);
  // The machine's tanh is within 2^-11.
  EXPECT_LT(worstLse, 2e-4 * p.spread * p.spread + p.cap / 1024 +
                          1e-6 * (std::fabs(p.level) + std::fabs(p.rise)));
  // Nothing else is written.
  for (int64_t row = 0; row < p.rows; ++row)
    for (int64_t column = wide; column < output.stride; ++column)
      EXPECT_EQ(output.at(row, column), 0x7fc1);
  EXPECT_EQ(lse.back(), -12345.0f);
  std::vector<uint16_t> bits;
  for (int64_t row = 0; row < (code.persistent || code.packed ? p.rows : 1);
       ++row)
    bits.insert(bits.end(), &output.at(row, 0), &output.at(row, 0) + wide);
  return bits;
}
