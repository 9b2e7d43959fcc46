//===- SelectTest.cpp - Scores and selections against float64 -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SelectEvaluator.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>

using namespace heddle;
using namespace heddle::test;

namespace {

const int64_t lengths[] = {1, 2, 15, 17, 64, 65, 129, 300};
const int64_t groups[] = {16, 32, 64, 128, 256};

class Select : public testing::TestWithParam<std::string> {
protected:
  static std::string kernels() {
    std::string text = "heddle.kernel @dense attention []\n";
    for (int64_t group : groups)
      text += "heddle.kernel @g" + std::to_string(group) +
              " select(group = " + std::to_string(group) +
              ") by mean_probability\n";
    for (int64_t group : {16, 64, 128}) {
      std::string g = std::to_string(group);
      text += "heddle.kernel @b" + g + " select(blocks = " + g +
              ") by mean_probability\n";
      text += "heddle.kernel @gs" + g + " select(group = " + g +
              ", per_kv_head) by mean_probability\n";
    }
    text += "heddle.kernel @all select(group = all) by mean_probability\n"
            "heddle.kernel @layer select(group = all, per_layer) by "
            "mean_probability pooled(3)\n"
            "heddle.kernel @wide select(group = 32) by mean_probability "
            "pooled(7)\n"
            "heddle.kernel @shared select(group = 64, per_kv_head) by "
            "mean_probability pooled(3)\n"
            "heddle.kernel @sum select(group = 16, per_layer) by "
            "mean_probability\n"
            "heddle.kernel @own select(group = 32) by mean_probability within "
            "columns(group = 32)\n"
            "heddle.kernel @fine select(group = 16, per_kv_head) by "
            "mean_probability pooled(3) within columns(group = all)\n"
            "heddle.kernel @whole select(group = all, per_layer) by "
            "mean_probability within columns(group = all)\n"
            "heddle.kernel @tiled select(group = 32) by mean_probability "
            "within blocks(size = 64)\n"
            "heddle.kernel @l16 select(group = 16) by mean_logit\n"
            "heddle.kernel @l256 select(group = 256) by mean_logit\n"
            "heddle.kernel @lshared select(group = 32, per_kv_head) by "
            "mean_logit\n"
            "heddle.kernel @llayer select(group = all, per_layer) by "
            "mean_logit pooled(3)\n"
            "heddle.kernel @lb64 select(blocks = 64) by mean_logit\n"
            "heddle.kernel @lown select(group = 32) by mean_logit within "
            "columns(group = 32)\n";
    return text;
  }
};

TEST_P(Select, MatchesFloat64AndBruteForce) {
  KernelSet set(GetParam(), "", kernels(), {"f32", "bf16"}, {64, 128});
  std::mt19937 random(testSeed());
  for (bool bf16 : {false, true})
    for (int64_t headDim : {64, 128})
      for (int64_t n : lengths) {
        bool grouped = random() % 2;
        Sequence s(random, bf16, n, grouped ? 7 : 2, grouped ? 1 : 2, headDim);
        // Equal keys have equal scores: ties.
        if (random() % 2)
          for (int64_t j = 0; j < n; ++j)
            std::copy_n(&s.key[j / 3 * s.kvStride], s.kvHeads * headDim,
                        &s.key[j * s.kvStride]);
        std::vector<float> lse = evaluate(s, {}).lse;
        for (int64_t group : groups) {
          SCOPED_TRACE((bf16 ? "bf16 head_dim " : "f32 head_dim ") +
                       std::to_string(headDim) + " n " + std::to_string(n) +
                       " group " + std::to_string(group));
          int64_t keeps[] = {1, n, static_cast<int64_t>(1 + random() % n)};
          int64_t keep = keeps[random() % 3];
          SelectResult got = runSelect(
              set["g" + std::to_string(group) + (bf16 ? "_bf16_d" : "_f32_d") +
                  std::to_string(headDim)],
              s, lse, {.group = group, .keep = keep});
          EXPECT_LT(relativeError(got.scores, evaluateScores(s, lse, group)),
                    1e-5);
          EXPECT_EQ(got.indices, bruteForce(got.scores, n, keep));
          if (HasFailure())
            return;
        }
      }
}

/// Lists that the query heads of a key/value head share: by mean scores.
TEST_P(Select, SharesLists) {
  KernelSet set(GetParam(), "", kernels(), {"f32", "bf16"}, {64});
  std::mt19937 random(testSeed());
  for (bool bf16 : {false, true})
    for (int64_t n : lengths)
      for (int64_t group : {16, 64, 128}) {
        SCOPED_TRACE((bf16 ? "bf16 n " : "f32 n ") + std::to_string(n) +
                     " group " + std::to_string(group));
        Sequence s(random, bf16, n, 6, 2, 64);
        std::vector<float> lse = evaluate(s, {}).lse;
        Choice choice{.group = group,
                      .keep = static_cast<int64_t>(1 + random() % n),
                      .headsPerList = 3};
        SelectResult got = runSelect(set["gs" + std::to_string(group) +
                                         (bf16 ? "_bf16_d64" : "_f32_d64")],
                                     s, lse, choice);
        EXPECT_LT(relativeError(got.scores, evaluateScores(s, lse, group, 3)),
                  1e-5);
        EXPECT_EQ(got.indices, bruteForce(got.scores, n, choice.keep));
        if (HasFailure())
          return;
      }
}

/// By the rows of a range, beside keys that are always listed, by the best of
/// neighbors, and by all heads.
TEST_P(Select, ChoosesByRangesAndNeighbors) {
  KernelSet set(GetParam(), "", kernels(), {"f32", "bf16"}, {64});
  std::mt19937 random(testSeed());
  struct Form {
    const char *name;
    int64_t group, headsPerList, pooled;
  };
  auto below = [&](int64_t bound) {
    return static_cast<int64_t>(random() % bound);
  };
  for (bool bf16 : {false, true})
    for (int64_t n : lengths)
      for (const Form &form :
           {Form{"all", bundle::groupOfAll, 1, 1},
            Form{"layer", bundle::groupOfAll, 6, 3}, Form{"wide", 32, 1, 7},
            Form{"shared", 64, 3, 3}, Form{"sum", 16, 6, 1}})
        for (int turn = 0; turn < 4; ++turn) {
          SCOPED_TRACE(std::string(bf16 ? "bf16 " : "f32 ") + form.name +
                       " n " + std::to_string(n) + " turn " +
                       std::to_string(turn));
          Sequence s(random, bf16, n, 6, 2, 64);
          std::vector<float> lse = evaluate(s, {}).lse;
          Choice choice{.group = form.group, .headsPerList = form.headsPerList};
          // All rows and none always; all always; ranges that reach an end.
          choice.rowEnd = n;
          if (turn > 0) {
            choice.rowBegin = below(n);
            choice.rowEnd = choice.rowBegin + 1 + below(n - choice.rowBegin);
            choice.alwaysBegin = turn == 1 ? 0 : below(n);
            choice.alwaysEnd =
                turn == 1 ? below(n + 1)
                : turn == 2
                    ? n
                    : choice.alwaysBegin + below(n - choice.alwaysBegin + 1);
          }
          const int64_t always = choice.alwaysEnd - choice.alwaysBegin;
          choice.keep = always + (always < n ? 1 + below(n - always) : 0);
          SelectResult got = runSelect(
              set[std::string(form.name) + (bf16 ? "_bf16_d64" : "_f32_d64")],
              s, lse, choice);
          const bool ofAll = form.group == bundle::groupOfAll;
          std::vector<float> want =
              chosenBy(evaluateScores(s, lse, form.group, form.headsPerList,
                                      ofAll ? choice.rowBegin : 0,
                                      ofAll ? choice.rowEnd : n),
                       n, choice.alwaysBegin, choice.alwaysEnd, form.pooled);
          EXPECT_LT(relativeError(got.scores, want), 1e-5);
          EXPECT_EQ(got.indices, bruteForce(got.scores, n, choice.keep));
          for (size_t list = 0; list < got.indices.size(); list += choice.keep)
            for (int64_t key = choice.alwaysBegin; key < choice.alwaysEnd;
                 ++key)
              EXPECT_TRUE(std::binary_search(
                  got.indices.begin() + list,
                  got.indices.begin() + list + choice.keep, key));
          if (HasFailure())
            return;
        }
}

/// Among the keys of other lists, of which some score 0: these come before all
/// others.
TEST_P(Select, ChoosesWithinLists) {
  KernelSet set(GetParam(), "", kernels(), {"f32", "bf16"}, {64});
  std::mt19937 random(testSeed());
  struct Form {
    const char *name;
    int64_t group, headsPerList, pooled, outerGroup, outerHeads;
    bool blocks;
  };
  auto below = [&](int64_t bound) {
    return static_cast<int64_t>(random() % bound);
  };
  constexpr int64_t all = bundle::groupOfAll;
  for (bool bf16 : {false, true})
    for (int64_t n : lengths)
      for (const Form &form : {Form{"own", 32, 1, 1, 32, 1, false},
                               Form{"own", 32, 1, 1, 32, 3, false},
                               Form{"fine", 16, 3, 3, all, 6, false},
                               Form{"whole", all, 6, 1, all, 6, false},
                               Form{"tiled", 32, 1, 1, 64, 1, true}})
        for (int turn = 0; turn < 4; ++turn) {
          SCOPED_TRACE(std::string(bf16 ? "bf16 " : "f32 ") + form.name +
                       " n " + std::to_string(n) + " turn " +
                       std::to_string(turn));
          Sequence s(random, bf16, n, 6, 2, 64);
          std::vector<float> lse = evaluate(s, {}).lse;
          // Rows that pay nothing: all keys score 0.
          if (turn == 1)
            std::fill(lse.begin(), lse.end(),
                      std::numeric_limits<float>::infinity());
          Choice choice{.group = form.group, .headsPerList = form.headsPerList};
          choice.rowEnd = n;
          if (turn > 1) {
            choice.alwaysBegin = below(n);
            choice.alwaysEnd =
                choice.alwaysBegin + below(n - choice.alwaysBegin + 1);
          }
          // The lists: entries, and the keys of each.
          const int64_t split = form.blocks && turn > 1 ? below(n) : 0;
          const int64_t entries =
              form.blocks ? bundle::blockCount(n, form.outerGroup, split) : n;
          const int64_t keep = 1 + below(entries);
          const int64_t outerGroups = (n - 1) / form.outerGroup + 1;
          std::vector<int32_t> order(entries), lists;
          std::iota(order.begin(), order.end(), 0);
          std::vector<std::vector<bool>> inside;
          int64_t sure = n;
          for (int64_t at = 0; at < 6 / form.outerHeads * outerGroups; ++at) {
            std::shuffle(order.begin(), order.end(), random);
            lists.insert(lists.end(), order.begin(), order.begin() + keep);
            std::sort(lists.end() - keep, lists.end());
            std::vector<bool> &own = inside.emplace_back(n);
            for (auto entry = lists.end() - keep; entry != lists.end();
                 ++entry) {
              bundle::KeyRun keys = {*entry, *entry + 1};
              if (form.blocks)
                keys = bundle::keysOfBlock(*entry, n, form.outerGroup, split);
              std::fill(own.begin() + keys.begin, own.begin() + keys.end, true);
            }
            for (int64_t j = choice.alwaysBegin; j < choice.alwaysEnd; ++j)
              own[j] = true;
            sure = std::min<int64_t>(sure,
                                     std::count(own.begin(), own.end(), true));
          }
          choice.within = bundle::int32Lists(lists.data(), outerGroups, keep);
          choice.within.split = split;
          choice.within.headsPerList = form.outerHeads;
          const int64_t always = choice.alwaysEnd - choice.alwaysBegin;
          choice.keep = always + (sure > always ? 1 + below(sure - always) : 0);
          if (choice.keep == 0)
            continue;
          SelectResult got = runSelect(
              set[std::string(form.name) + (bf16 ? "_bf16_d64" : "_f32_d64")],
              s, lse, choice);
          std::vector<float> want =
              chosenBy(evaluateScores(s, lse, form.group, form.headsPerList), n,
                       choice.alwaysBegin, choice.alwaysEnd, form.pooled);
          const int64_t groups = std::ssize(want) / n * form.headsPerList / 6;
          for (int64_t i = 0; i < std::ssize(want); ++i) {
            const int64_t row = i / n / groups, group = i / n % groups;
            const std::vector<bool> &own =
                inside[row * form.headsPerList / form.outerHeads * outerGroups +
                       group * form.group / form.outerGroup];
            want[i] = own[i % n]
                          ? std::max(want[i],
                                     std::numeric_limits<float>::denorm_min())
                          : 0;
            EXPECT_EQ(got.scores[i] > 0, own[i % n]) << i;
          }
          EXPECT_LT(relativeError(got.scores, want), 1e-5);
          EXPECT_EQ(got.indices, bruteForce(got.scores, n, choice.keep));
          if (HasFailure())
            return;
        }
}

/// By mean logits, of which the least is 0; the log-sum-exp is not read.
TEST_P(Select, ChoosesByLogits) {
  KernelSet set(GetParam(), "", kernels(), {"f32", "bf16"}, {64, 128});
  std::mt19937 random(testSeed());
  struct Form {
    const char *name;
    int64_t group, headsPerList, pooled;
    bool blocks;
  };
  auto below = [&](int64_t bound) {
    return static_cast<int64_t>(random() % bound);
  };
  for (bool bf16 : {false, true})
    for (int64_t headDim : {64, 128})
      for (int64_t n : lengths)
        for (const Form &form :
             {Form{"l16", 16, 1, 1, false}, Form{"l256", 256, 1, 1, false},
              Form{"lshared", 32, 3, 1, false},
              Form{"llayer", bundle::groupOfAll, 6, 3, false},
              Form{"lb64", 64, 1, 1, true}, Form{"lown", 32, 1, 1, false}}) {
          SCOPED_TRACE(std::string(bf16 ? "bf16 " : "f32 ") + form.name +
                       " head_dim " + std::to_string(headDim) + " n " +
                       std::to_string(n));
          Sequence s(random, bf16, n, 6, 2, headDim);
          // Equal keys have equal scores: ties.
          if (random() % 2)
            for (int64_t j = 0; j < n; ++j)
              std::copy_n(&s.key[j / 3 * s.kvStride], s.kvHeads * headDim,
                          &s.key[j * s.kvStride]);
          const std::vector<float> lse(s.heads * n,
                                       std::numeric_limits<float>::quiet_NaN());
          Choice choice{.group = form.group, .headsPerList = form.headsPerList};
          const bool ofAll = form.group == bundle::groupOfAll;
          choice.rowEnd = n;
          if (ofAll) {
            choice.rowBegin = below(n);
            choice.rowEnd = choice.rowBegin + 1 + below(n - choice.rowBegin);
            choice.alwaysBegin = below(n);
            choice.alwaysEnd =
                choice.alwaysBegin + below(n - choice.alwaysBegin);
          }
          if (form.blocks)
            choice.split = below(n + 1);
          const int64_t entries =
              form.blocks ? blocksOf(n, form.group, choice.split) : n;
          const int64_t always = choice.alwaysEnd - choice.alwaysBegin;
          choice.keep = always + 1 + below(entries - always);
          // Within every other key of all of them.
          std::vector<int32_t> others;
          if (form.name == std::string("lown")) {
            for (int64_t at = 0; at < 6 * ((n - 1) / 32 + 1); ++at)
              for (int64_t j = 0; j < n; j += 2)
                others.push_back(static_cast<int32_t>(j));
            choice.within = bundle::int32Lists(others.data(), (n - 1) / 32 + 1,
                                               (n + 1) / 2);
            choice.keep = 1 + below((n + 1) / 2);
          }
          SelectResult got = runSelect(
              set[std::string(form.name) + (bf16 ? "_bf16_d" : "_f32_d") +
                  std::to_string(headDim)],
              s, lse, choice);
          std::vector<float> want = evaluateLogits(
              s, form.group, form.headsPerList, ofAll ? choice.rowBegin : 0,
              ofAll ? choice.rowEnd : n);
          if (!form.blocks)
            want = chosenBy(want, n, choice.alwaysBegin, choice.alwaysEnd,
                            form.pooled);
          if (!others.empty())
            for (size_t at = 0; at < want.size(); ++at)
              want[at] =
                  at % n % 2
                      ? 0
                      : std::max(want[at],
                                 std::numeric_limits<float>::denorm_min());
          for (size_t list = 0; list < want.size() / n; ++list) {
            const float *row = &got.scores[list * n];
            std::vector<float> scores(row, row + entries);
            std::vector<float> wanted(&want[list * n], &want[list * n] + n);
            if (form.blocks) {
              wanted = pool(wanted.data(), n, form.group, choice.split, false);
              const float least = *std::ranges::min_element(wanted);
              for (float &score : wanted)
                score -= least;
            }
            // Differences from the least one, which all may be close to.
            EXPECT_LT(relativeError(scores, wanted, 0.1), 1e-4);
            if (!ofAll && others.empty())
              EXPECT_EQ(*std::min_element(scores.begin(), scores.end()), 0);
            auto first = got.indices.begin() + list * choice.keep;
            EXPECT_EQ(std::vector<int32_t>(first, first + choice.keep),
                      bruteForce(scores, entries, choice.keep));
          }
          if (HasFailure())
            return;
        }
}

/// Blocks of one span, of two and of two of which one is scored by itself.
TEST_P(Select, ChoosesBlocks) {
  KernelSet set(GetParam(), "", kernels(), {"f32", "bf16"}, {64});
  std::mt19937 random(testSeed());
  for (bool bf16 : {false, true})
    for (int64_t n : lengths)
      for (int64_t size : {16, 64, 128})
        for (int form = 0; form < 4; ++form) {
          SCOPED_TRACE((bf16 ? "bf16 n " : "f32 n ") + std::to_string(n) +
                       " size " + std::to_string(size) + " form " +
                       std::to_string(form));
          Sequence s(random, bf16, n, 4, 2, 64);
          // Equal keys, so that whole blocks tie.
          if (random() % 2)
            for (int64_t j = 0; j < n; ++j)
              std::copy_n(&s.key[j % size * s.kvStride], 2 * 64,
                          &s.key[j * s.kvStride]);
          std::vector<float> lse = evaluate(s, {}).lse;
          Choice choice{.group = size, .headsPerList = 1};
          auto below = [&](int64_t bound) {
            return static_cast<int64_t>(random() % bound);
          };
          if (form == 1) // the second span's blocks start anew
            choice.split = below(n + 1);
          int64_t blocks = blocksOf(n, size, choice.split);
          if (form > 0)
            choice.boundary =
                form == 1 ? blocksOf(choice.split, size, 0) : below(blocks + 1);
          std::vector<float> spanLse;
          if (form == 3) {
            // Over the keys from the boundary on.
            int64_t first = choice.boundary * size;
            if (choice.boundary == 0 || first >= n)
              continue;
            for (int64_t h = 0; h < s.heads; ++h)
              for (int64_t i = 0; i < n; ++i) {
                double sum = 0;
                for (int64_t j = first; j < n; ++j)
                  sum += std::exp2(s.logit(i, j, h));
                spanLse.push_back(static_cast<float>(std::log2(sum)));
              }
            choice.spanLse = spanLse.data();
          }
          int64_t rest = blocks - choice.boundary;
          choice.spanKeep = form == 3             ? 1 + below(blocks)
                            : choice.boundary > 0 ? 1 + below(choice.boundary)
                                                  : 0;
          choice.keep = choice.spanKeep + (rest > 0 ? 1 + below(rest) : 0);
          SelectResult got = runSelect(set["b" + std::to_string(size) +
                                           (bf16 ? "_bf16_d64" : "_f32_d64")],
                                       s, lse, choice);
          std::vector<float> want =
              evaluateScores(s, lse, size, choice.headsPerList);
          std::vector<float> wantSpan =
              choice.spanLse
                  ? evaluateScores(s, spanLse, size, choice.headsPerList)
                  : std::vector<float>();
          for (size_t list = 0; list < want.size() / n; ++list) {
            const float *row = &got.scores[list * n];
            std::vector<float> scores(row, row + blocks), spanScores;
            EXPECT_LT(relativeError(scores, pool(&want[list * n], n, size,
                                                 choice.split, choice.spanLse)),
                      1e-5);
            if (choice.spanLse) {
              spanScores.assign(row + blocks, row + blocks + rest);
              EXPECT_LT(
                  relativeError(spanScores, pool(&wantSpan[list * n], n, size,
                                                 0, true, choice.boundary)),
                  1e-5);
            }
            auto first = got.indices.begin() + list * choice.keep;
            EXPECT_EQ(std::vector<int32_t>(first, first + choice.keep),
                      chooseBlocks(scores, spanScores, choice));
          }
          if (HasFailure())
            return;
        }
}

/// Whatever the scores are: `keep` distinct ascending indices.
TEST_P(Select, KeepsItsPromiseWithNaN) {
  KernelSet set(GetParam(), "", kernels(), {"f32"}, {64});
  std::mt19937 random(testSeed());
  Sequence s(random, false, 100, 1, 1, 64);
  std::vector<float> lse = evaluate(s, {}).lse;
  for (int64_t j : {0, 7, 50, 99})
    s.key[j * s.kvStride + 3] = std::numeric_limits<float>::quiet_NaN();
  for (int64_t keep : {1, 3, 4, 5, 99, 100}) {
    SelectResult got =
        runSelect(set["g32_f32_d64"], s, lse, {.group = 32, .keep = keep});
    for (size_t row = 0; row < got.indices.size(); row += keep)
      for (int64_t i = 0; i < keep; ++i) {
        EXPECT_GE(got.indices[row + i], i ? got.indices[row + i - 1] + 1 : 0);
        EXPECT_LT(got.indices[row + i], 100);
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Select, testing::ValuesIn(runnableTargets()),
                         [](const auto &info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

} // namespace
