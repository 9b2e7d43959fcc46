//===- WarpScoresTest.cpp - Selection of keys by warpgroups ---------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Select kernels: scores beside float64's, lists beside brute force on the same
// scores. A few blocks share the groups out, so that each has several turns.
//
//===----------------------------------------------------------------------===//

#include "PtxMachine.h"
#include "WarpKernels.h"

#include "bundle/abi/Abi.h"
#include "bundle/abi/IndexLayout.h"
#include "heddle/Target/NVPTX/Ptxas.h"
#include "runtime/reference/Reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

using namespace heddle::test;
using heddle::bundle::Encoding;

namespace {

struct Form {
  const char *type;
  int64_t group;
  const char *encoding, *tiling;
  int64_t headDim = 128;
  bool blocks = false; ///< chooses blocks of as many keys as the group has rows
  int64_t sharers = 1; ///< heads that share a list
  int64_t pooled = 0;  ///< scores that are pooled, or 0
  /// Lists that are chosen within, if it is not 0: of as many rows, of blocks
  /// or of keys, of the kernel's encoding.
  int64_t outerGroup = 0;
  bool outerBlocks = false;
};

/// A pass over all rows, adding to `init`.
std::string pass(const std::string &result, const std::string &init,
                 const std::string &span, const std::string &keys) {
  return "  " + result + " = shed.for_queries " + span + "init(" + init +
         R"() : !shed.mass {
  ^bb0(%o: !shed.mass):
    %q = shed.load_queries : !shed.tile<queries, channels, TYPE>
    %l = shed.load_lse )" +
         span + R"(
    %s = shed.for_keys over #shed.)" +
         keys + R"( init(%o) : !shed.mass {
    ^bb0(%keys: !shed.keys, %c: !shed.mass):
      %k = shed.load_keys %keys : !shed.tile<keys, channels, TYPE>
      %x = shed.dot %q, %k : !shed.tile<queries, channels, TYPE>, !shed.tile<keys, channels, TYPE>
      %n = shed.column_mass %c, %x, %l, %keys
      shed.yield %n : !shed.mass
    }
    shed.yield %s : !shed.mass
  }
)";
}

std::string kernelOf(const Form &form) {
  std::string text =
      "shed.kernel @select select element(TYPE) head_dim(" +
      std::to_string(form.headDim) + ") group(" + std::to_string(form.group) +
      ")" + (form.sharers > 1 ? " shared_lists" : "") + " encoding(" +
      form.encoding + ") tiling(#shed.wgmma_tiling<" + form.tiling +
      ">) {\n  %m = shed.mass_init : !shed.mass\n" +
      pass("%r", "%m", "", "all");
  if (form.blocks)
    text += "  %e = shed.mass_init : !shed.mass\n" +
            pass("%t", "%e", "span ", "span") +
            "  shed.top_k %r span %t blocks";
  else
    text +=
        "  shed.top_k %r" +
        (form.pooled ? " pooled(" + std::to_string(form.pooled) + ")" : "") +
        (form.outerGroup == 0 ? ""
                              : std::string(" within #shed.") +
                                    (form.outerBlocks ? "blocks<0, size = "
                                                      : "list<0, group = ") +
                                    std::to_string(form.outerGroup) + ">");
  text += "\n}\n";
  for (size_t at; (at = text.find("TYPE")) != std::string::npos;)
    text.replace(at, 4, form.type);
  return text;
}

struct Choice {
  int64_t n, heads, kvHeads, keep;
  uint32_t blocks; ///< of the grid
  /// Of blocks, see abi::SelectArgs; `bySpan`: there is a spanLse.
  int64_t split = 0, boundary = 0, spanKeep = 0;
  bool bySpan = false;
  int64_t alwaysBegin = 0, alwaysEnd = 0; ///< keys that are always listed
  int64_t outerKeep = 0;
};

class WarpScores : public testing::Test {
protected:
  /// Runs the kernel and compares. Returns the scores.
  static std::vector<float> check(const Compiled &code, const Form &form,
                                  const Choice &c, uint64_t seed,
                                  bool shows = true) {
    const bool bf16 = std::string(form.type) == "bf16";
    std::mt19937_64 random(1);
    std::normal_distribution<float> normal;
    const int64_t channels = form.headDim;
    const int64_t wide = c.heads * channels + 8,
                  narrow = c.kvHeads * channels + 16;
    std::vector<uint16_t> memory(c.n * (wide + narrow) + 8);
    const size_t aligned =
        (16 - reinterpret_cast<uintptr_t>(memory.data()) % 16) % 16 / 2;
    uint16_t *query = memory.data() + aligned, *key = query + c.n * wide;
    for (uint16_t &each : memory)
      each = toHalf(bf16, normal(random));
    const float scale = 0.0875f;
    const double factor = static_cast<double>(scale) / std::log(2.0);
    const int64_t groups = (c.n + form.group - 1) / form.group;
    const int64_t count = c.heads / form.sharers * groups;
    std::vector<float> lse(c.heads * c.n), spanLse(lse);
    std::vector<double> expected(count * c.n), ofSpan(expected);
    const int64_t spanFirst = c.boundary * form.group;
    for (int64_t h = 0; h < c.heads; ++h)
      for (int64_t i = 0; i < c.n; ++i) {
        const uint16_t *q = query + i * wide + h * channels;
        std::vector<double> weights(c.n);
        double sum = 0, spanSum = 0;
        for (int64_t j = 0; j < c.n; ++j) {
          const uint16_t *k =
              key + j * narrow + h / (c.heads / c.kvHeads) * channels;
          double logit = 0;
          for (int64_t d = 0; d < channels; ++d)
            logit += static_cast<double>(fromHalf(bf16, q[d])) *
                     static_cast<double>(fromHalf(bf16, k[d]));
          sum += weights[j] = std::exp2(logit * factor);
          spanSum += j < spanFirst ? 0 : weights[j];
        }
        lse[h * c.n + i] = static_cast<float>(std::log2(sum));
        spanLse[h * c.n + i] = static_cast<float>(std::log2(spanSum));
        const int64_t first = i / form.group * form.group;
        const int64_t rows = std::min(form.group, c.n - first) * form.sharers;
        for (int64_t j = 0; j < c.n; ++j) {
          const int64_t at =
              (h / form.sharers * groups + i / form.group) * c.n + j;
          expected[at] += weights[j] / sum / static_cast<double>(rows);
          ofSpan[at] += weights[j] / spanSum / static_cast<double>(rows);
        }
      }
    // What is shown of a list: scores of keys, or of blocks and then those of
    // the second span's.
    std::vector<int64_t> shown(count, c.n);
    for (int64_t at = 0; form.blocks && at < count; ++at) {
      auto means = [&](const std::vector<double> &keys) {
        return heddle::rt::reference::blockMeans(
            std::span(keys).subspan(at * c.n, c.n), form.group, c.split,
            c.bySpan);
      };
      std::vector<double> blocks = means(expected);
      if (c.bySpan) {
        std::vector<double> more = means(ofSpan);
        blocks.insert(blocks.end(), more.begin() + c.boundary, more.end());
      }
      shown[at] = static_cast<int64_t>(blocks.size());
      std::copy(blocks.begin(), blocks.end(), expected.begin() + at * c.n);
    }

    heddle::abi::SelectArgs args{};
    args.alwaysBegin = c.alwaysBegin;
    args.alwaysEnd = c.alwaysEnd;
    args.n = c.n;
    args.list.headsPerList = form.sharers;
    const Encoding outerEncoding =
        form.outerBlocks || std::string(form.encoding) == "int32"
            ? Encoding::Int32
        : std::string(form.encoding) == "uint16" ? Encoding::Uint16
                                                 : Encoding::Bitmap;
    heddle::bundle::Kernel kernel;
    kernel.group = form.group;
    kernel.withinGroup = form.outerGroup;
    kernel.withinBlocks = form.outerBlocks;
    std::vector<uint64_t> outer;
    if (form.outerGroup > 0) {
      const int64_t entries =
          form.outerBlocks ? heddle::bundle::blockCount(c.n, form.outerGroup, 0)
                           : c.n;
      args.within = {
          nullptr,
          (c.n - 1) / form.outerGroup + 1,
          c.outerKeep,
          heddle::bundle::listRowBytes(outerEncoding, c.n, c.outerKeep),
          0,
          form.sharers};
      const int64_t rows = c.heads / form.sharers * args.within.groups;
      outer.resize(rows * args.within.rowBytes / 8 + 4);
      auto *from = reinterpret_cast<std::byte *>(outer.data());
      while (reinterpret_cast<uintptr_t>(from) % 16)
        ++from;
      args.within.indices = from;
      std::vector<int32_t> order(entries);
      for (int64_t at = 0; at < rows; ++at) {
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random);
        std::sort(order.begin(), order.begin() + c.outerKeep);
        heddle::bundle::encodeList(
            outerEncoding, c.n,
            std::span(order).first(static_cast<size_t>(c.outerKeep)),
            from + at * args.within.rowBytes);
      }
    }
    for (int64_t at = 0; !form.blocks && at < count; ++at) {
      const std::vector<double> by = heddle::rt::reference::chosenWithin(
          args, kernel, at / groups, at % groups,
          heddle::rt::reference::chosenBy(
              args, std::span(expected).subspan(at * c.n, c.n), form.pooled),
          outerEncoding);
      std::copy(by.begin(), by.end(), expected.begin() + at * c.n);
    }

    const Encoding encoding =
        std::string(form.encoding) == "uint16"   ? Encoding::Uint16
        : std::string(form.encoding) == "bitmap" ? Encoding::Bitmap
                                                 : Encoding::Int32;
    const int64_t rowBytes =
        heddle::bundle::listRowBytes(encoding, c.n, c.keep);
    std::vector<uint8_t> lists(count * rowBytes + 16,
                               encoding == Encoding::Bitmap ? 0 : 0xa5);
    const size_t skip =
        (16 - reinterpret_cast<uintptr_t>(lists.data()) % 16) % 16;
    std::vector<float> scores(count * c.n, -12345.0f);
    args.query = query;
    args.key = key;
    args.lse = lse.data();
    args.scores = shows ? scores.data() : nullptr;
    args.n = c.n;
    args.queryStride = wide;
    args.keyStride = narrow;
    args.kvGroup = c.heads / c.kvHeads;
    args.scale = scale;
    args.heads = static_cast<uint32_t>(c.heads);
    args.list.indices = lists.data() + skip;
    args.list.groups = groups;
    args.list.keep = c.keep;
    args.list.rowBytes = rowBytes;
    args.list.headsPerList = form.sharers;
    args.list.split = c.split;
    args.boundary = c.boundary;
    args.spanKeep = c.spanKeep;
    args.spanLse = c.bySpan ? spanLse.data() : nullptr;

    // A matrix of rows of all key heads; of the three maps the kernel reads
    // one.
    alignas(64) PtxTensorMap maps[3] = {};
    if (code.mapRows) {
      maps[0].address = reinterpret_cast<uint64_t>(key);
      maps[0].columns = narrow;
      maps[0].rows = c.n;
      maps[0].stride = narrow * 2;
      maps[0].boxColumns = 64;
      maps[0].boxRows = code.mapRows;
      args.tileMaps = reinterpret_cast<const ::heddle::abi::TileMaps *>(maps);
    }

    PtxProgram program(code.ptx, "select");
    const int64_t scratchRow =
        (code.scratchBytes + code.scratchBytesPerKey * c.n + 15) / 16 * 16;
    std::vector<uint8_t> scratch(c.blocks * scratchRow + 16, 0xff);
    const size_t jump =
        (16 - reinterpret_cast<uintptr_t>(scratch.data()) % 16) % 16;
    PtxMachine machine(program, code.sharedBytes, seed);
    machine.grid = {c.blocks, 1, 1};
    machine.allow(&args, sizeof(args));
    machine.allow(maps, sizeof(maps));
    machine.allow(query, c.n * (wide + narrow) * 2);
    machine.allow(lse.data(), c.heads * c.n * 4);
    machine.allow(spanLse.data(), c.heads * c.n * 4);
    machine.allow(scores.data(), static_cast<int64_t>(scores.size()) * 4);
    machine.allow(lists.data() + skip, count * rowBytes);
    machine.allow(outer.data(), static_cast<int64_t>(outer.size()) * 8);
    machine.allow(scratch.data() + jump, c.blocks * scratchRow);
    for (uint32_t block = 0; block < c.blocks; ++block)
      machine.run({block, 0, 0},
                  {reinterpret_cast<uint64_t>(&args),
                   reinterpret_cast<uint64_t>(scratch.data() + jump),
                   static_cast<uint64_t>(scratchRow)});
    if (!shows)
      return {};
    int64_t wrong = 0;
    for (int64_t at = 0; at < count; ++at) {
      const float *row = scores.data() + at * c.n;
      for (int64_t i = 0; i < shown[at]; ++i) {
        const double right = expected[at * c.n + i];
        // Keys that are always listed score infinity.
        const double off =
            static_cast<double>(row[i]) == right
                ? 0
                : std::abs(static_cast<double>(row[i]) - right) / right;
        if (!(off < 1e-4) && wrong++ == 0)
          ADD_FAILURE() << c.n << " rows: score " << i << " of list " << at
                        << " is " << row[i] << ", not " << right;
      }
      std::vector<int32_t> best(c.n), found(c.keep);
      if (form.blocks) {
        std::span all(row, static_cast<size_t>(shown[at]));
        const size_t second =
            c.bySpan ? (all.size() + static_cast<size_t>(c.boundary)) / 2
                     : all.size();
        best = heddle::rt::reference::chosenBlocks(args, all.first(second),
                                                   all.subspan(second));
      } else {
        std::iota(best.begin(), best.end(), 0);
        std::stable_sort(best.begin(), best.end(),
                         [&](int32_t x, int32_t y) { return row[x] > row[y]; });
        best.resize(c.keep);
        std::sort(best.begin(), best.end());
      }
      const std::byte *list =
          reinterpret_cast<const std::byte *>(lists.data() + skip) +
          at * rowBytes;
      if (form.blocks)
        std::memcpy(found.data(), list, c.keep * 4);
      else
        EXPECT_TRUE(heddle::bundle::decodeList(encoding, c.n, list, found));
      EXPECT_EQ(found, best) << "list " << at;
    }
    EXPECT_EQ(wrong, 0);
    return scores;
  }
};

constexpr const char *two = "consumers = 2, keys = 64, stages = 2, parts = 1, "
                            "producer_registers = 40, consumer_registers = 232";
constexpr const char *four = "consumers = 4, keys = 128, stages = 2, parts = "
                             "1, producer_registers = 24, consumer_registers "
                             "= 112";
constexpr const char *fetched = "consumers = 4, keys = 128, stages = 2, parts "
                                "= 1, producer_registers = 24, "
                                "consumer_registers = 112, tma = true";

TEST_F(WarpScores, AreMeansOverGroups) {
  // One row; a group cut short; a tile cut short; consumers without rows; more
  // blocks than groups; several turns.
  const std::pair<Form, std::vector<Choice>> forms[] = {
      {{"bf16", 128, "uint16", two},
       {{1, 1, 1, 1, 2}, {129, 2, 1, 13, 3}, {390, 2, 2, 50, 2}}},
      {{"f16", 128, "int32", four}, {{300, 2, 2, 299, 1}, {640, 1, 1, 77, 1}}},
      {{"bf16", 64, "bitmap",
        "consumers = 1, keys = 64, stages = 3, parts = 1, "
        "producer_registers = 40, consumer_registers = 160",
        64},
       {{63, 1, 1, 20, 1}, {200, 2, 1, 40, 3}}},
      {{"bf16", 128, "int32", fetched},
       {{1, 1, 1, 1, 1}, {300, 2, 2, 299, 1}, {640, 4, 2, 77, 3}}},
      // Several groups a warpgroup, the last of which are not there.
      {{"bf16", 64, "uint16", two}, {{1, 1, 1, 1, 1}, {330, 2, 1, 33, 2}}},
      {{"f16", 16, "uint16", four}, {{270, 1, 1, 10, 1}}},
      {{"bf16", 32, "int32", two, 64}, {{300, 1, 1, 9, 2}}}};
  uint64_t seed = 1;
  for (const auto &[form, choices] : forms) {
    SCOPED_TRACE(form.tiling);
    Compiled code = compileText(kernelOf(form));
    ASSERT_FALSE(code.ptx.empty());
    for (const Choice &choice : choices)
      check(code, form, choice, seed++);
    check(code, form, choices.back(), seed++, /*shows=*/false);
  }
}

/// Blocks: of all; of two spans, chosen by the same scores or each by its own;
/// where they start anew at a boundary; all of them.
TEST_F(WarpScores, AreMeansOverBlocks) {
  const std::pair<Form, std::vector<Choice>> forms[] = {
      {{"bf16", 32, "int32", two, 128, true},
       {{1, 1, 1, 1, 1},
        {330, 2, 1, 4, 2},
        {330, 1, 1, 6, 1, 0, 5, 3},
        {330, 2, 2, 5, 2, 0, 4, 3, true},
        {333, 1, 1, 6, 2, 100, 4, 2}}},
      {{"f16", 128, "int32", four, 64, true},
       {{700, 1, 1, 6, 1}, {700, 1, 1, 3, 1, 0, 2, 1, true}}},
      {{"f16", 64, "int32", fetched, 64, true},
       {{333, 2, 1, 4, 2, 100, 2, 1}, {700, 1, 1, 3, 1, 0, 2, 1, true}}},
      {{"bf16", 64, "int32", two, 64, true}, {{390, 1, 1, 3, 3}}}};
  uint64_t seed = 1;
  for (const auto &[form, choices] : forms) {
    SCOPED_TRACE(form.group);
    Compiled code = compileText(kernelOf(form));
    ASSERT_FALSE(code.ptx.empty());
    for (const Choice &choice : choices)
      check(code, form, choice, seed++);
    check(code, form, choices.back(), seed++, /*shows=*/false);
  }
}

/// Heads that share lists are scored together: of one turn and of several, with
/// a last group and a last consumer without rows.
TEST_F(WarpScores, AreMeansOverHeadsThatShare) {
  const std::pair<Form, std::vector<Choice>> forms[] = {
      {{"bf16", 64, "uint16", two, 128, false, 7},
       {{1, 7, 1, 1, 1}, {200, 14, 2, 33, 2}}},
      {{"f16", 128, "bitmap", two, 64, false, 2}, {{300, 4, 2, 60, 3}}},
      {{"bf16", 64, "uint16", fetched, 64, false, 3}, {{270, 6, 2, 60, 2}}},
      {{"bf16", 32, "int32", four, 64, false, 3}, {{270, 6, 2, 20, 1}}}};
  uint64_t seed = 1;
  for (const auto &[form, choices] : forms) {
    SCOPED_TRACE(form.group);
    Compiled code = compileText(kernelOf(form));
    ASSERT_FALSE(code.ptx.empty());
    for (const Choice &choice : choices)
      check(code, form, choice, seed++);
    check(code, form, choices.back(), seed++, /*shows=*/false);
  }
}

/// Keys beside those that are always listed, by the best of neighbors, which
/// are on both sides of these: none, some at an end, in the middle, all; more
/// neighbors than keys; several groups that use the same memory in turn.
TEST_F(WarpScores, ChooseByNeighborsBesideWhatIsAlwaysListed) {
  const std::pair<Form, std::vector<Choice>> forms[] = {
      {{"bf16", 128, "uint16", two, 64, false, 1, 3},
       {{1, 1, 1, 1, 1},
        {130, 2, 1, 40, 3, 0, 0, 0, false, 0, 32},
        {261, 1, 1, 99, 1, 0, 0, 0, false, 70, 101},
        {33, 1, 1, 33, 1, 0, 0, 0, false, 0, 33}}},
      {{"f16", 32, "bitmap", four, 64, false, 2, 127},
       {{300, 4, 2, 60, 3, 0, 0, 0, false, 299, 300}}},
      {{"bf16", 64, "int32", two, 64, false, 1, 0},
       {{200, 2, 1, 50, 2, 0, 0, 0, false, 64, 96},
        {200, 1, 1, 32, 2, 0, 0, 0, false, 168, 200}}}};
  uint64_t seed = 1;
  for (const auto &[form, choices] : forms) {
    SCOPED_TRACE(form.pooled);
    Compiled code = compileText(kernelOf(form));
    ASSERT_FALSE(code.ptx.empty());
    for (const Choice &choice : choices)
      check(code, form, choice, seed++);
    check(code, form, choices.back(), seed++, /*shows=*/false);
  }
}

/// Among the keys of other lists: as many as these have, some, beside what is
/// always listed, by neighbors.
TEST_F(WarpScores, ChooseWithinLists) {
  const std::pair<Form, std::vector<Choice>> forms[] = {
      {{"bf16", 32, "uint16", two, 64, false, 1, 3, 128},
       {{1, 1, 1, 1, 1, 0, 0, 0, false, 0, 0, 1},
        {130, 2, 1, 40, 3, 0, 0, 0, false, 0, 0, 40},
        {261, 1, 1, 60, 1, 0, 0, 0, false, 70, 101, 90}}},
      {{"f16", 32, "bitmap", four, 64, false, 2, 0, 32},
       {{300, 4, 2, 60, 3, 0, 0, 0, false, 0, 0, 77}}},
      {{"bf16", 64, "int32", two, 64, false, 1, 0, 64, true},
       {{200, 2, 1, 8, 2, 0, 0, 0, false, 0, 0, 1},
        {200, 1, 1, 70, 2, 0, 0, 0, false, 168, 200, 2}}}};
  uint64_t seed = 1;
  for (const auto &[form, choices] : forms) {
    SCOPED_TRACE(form.outerGroup);
    Compiled code = compileText(kernelOf(form));
    ASSERT_FALSE(code.ptx.empty());
    for (const Choice &choice : choices)
      check(code, form, choice, seed++);
    check(code, form, choices.back(), seed++, /*shows=*/false);
  }
}

/// Not those of other warps' speed, nor of which block has a group.
TEST_F(WarpScores, HaveTheSameBitsInAnyOrder) {
  const Form form{"bf16", 128, "uint16", two};
  Compiled code = compileText(kernelOf(form));
  ASSERT_FALSE(code.ptx.empty());
  const std::vector<float> once = check(code, form, {270, 2, 2, 27, 1}, 1);
  EXPECT_EQ(once, check(code, form, {270, 2, 2, 27, 1}, 2));
  EXPECT_EQ(once, check(code, form, {270, 2, 2, 27, 4}, 3));
}

TEST_F(WarpScores, AssemblerFindsNothingSlow) {
  std::optional<std::string> ptxas = ::heddle::findPtxas();
  if (!ptxas)
    GTEST_SKIP() << "no ptxas";
  const char *tilings[] = {two, four,
                           "consumers = 2, keys = 128, stages = 3, parts = 1, "
                           "producer_registers = 40, consumer_registers = 232"};
  std::vector<Form> forms;
  for (const char *tiling : tilings)
    for (const char *encoding : {"uint16", "bitmap"})
      forms.push_back({"bf16", 128, encoding, tiling});
  for (int64_t group : {32, 64, 128}) {
    Form form{"bf16",
              group,
              "int32",
              "consumers = 4, keys = 64, stages = 3, parts = 1, "
              "producer_registers = 24, consumer_registers = 112",
              128,
              true};
    forms.push_back(form);
    form.blocks = false;
    form.sharers = 7;
    forms.push_back(form);
  }
  for (const Form &form : forms) {
    SCOPED_TRACE(std::string(form.tiling) + ", " + form.encoding);
    std::string why;
    auto result = ::heddle::assemble(*ptxas, "sm_90a",
                                     compileText(kernelOf(form)).ptx, why);
    ASSERT_TRUE(static_cast<bool>(result))
        << llvm::toString(result.takeError());
    if (!*result)
      GTEST_SKIP() << why;
    EXPECT_TRUE((*result)->complaints.empty());
    ASSERT_EQ((*result)->kernels.size(), 1u);
    EXPECT_EQ((*result)->kernels[0].stackBytes, 0);
  }
}

} // namespace
