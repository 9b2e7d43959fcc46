//===- SelectCheck.cpp - One select kernel --------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Parallel.h"
#include "runtime/reference/Reference.h"
#include "runtime/test/conformance/Cases.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace heddle;
using namespace heddle::conformance;

namespace {

class SelectCase {
public:
  SelectCase(const bundle::Kernel &kernel, const bundle::KernelVariant &variant,
             abi::SelectKernel entry, Problem &problem, const Choice &choice,
             Finding &finding, const std::string &name)
      : kernel(kernel), entry(entry), problem(problem), choice(choice),
        blocks(kernel.blocks), group(kernel.group),
        groups((problem.shape.n - 1) / kernel.group + 1),
        share(headsPerList(kernel, problem.shape)), finding(finding),
        name(name), lists(problem.shape.queryHeads() / share * groups),
        indices(lists * choice.keep * 4), scores(lists * problem.shape.n * 4),
        spanLse(problem.shape.queryHeads() * problem.shape.n * 4),
        scratch(scratchFor(variant, problem.shape.n)) {
    args.query = problem.args.query;
    args.key = problem.args.key;
    args.lse = problem.lse.as<float>();
    args.n = problem.shape.n;
    args.queryStride = problem.args.queryStride;
    args.keyStride = problem.args.keyStride;
    args.kvGroup = problem.args.kvGroup;
    args.scale = problem.args.scale;
    args.position = problem.args.position;
    args.heads = static_cast<uint32_t>(problem.shape.queryHeads());
    args.list = bundle::int32Lists(indices.as<int32_t>(), groups, choice.keep);
    args.list.split = choice.split;
    args.list.headsPerList = share;
    choice.fill(args);
    args.spanLse = choice.bySpan ? spanLse.as<float>() : nullptr;
  }

  void check() {
    nowTesting(name);
    ++finding.cases;
    writeLse(problem.lse, 0);
    if (choice.bySpan)
      writeLse(spanLse, choice.boundary * group);
    run(scores.as<float>());
    compare();
    std::vector<std::byte> first(indices.data(),
                                 indices.data() + indices.size());
    run(nullptr);
    if (std::memcmp(first.data(), indices.data(), first.size()) != 0)
      finding.fail(name + ": other keys are selected when no scores are asked "
                          "for");
    if (!indices.intact() || !scores.intact() || !scratch->intact())
      finding.fail(name + ": bytes in front of an output or around the scratch "
                          "memory were overwritten");
  }

private:
  /// What an attention kernel over the keys from `firstKey` on would have
  /// written, rounded once.
  void writeLse(GuardedBuffer &lse, int64_t firstKey) {
    int64_t n = problem.shape.n;
    rt::parallelFor(problem.shape.queryHeads() * n, [&](int64_t at, int) {
      rt::reference::Head head =
          rt::reference::headOf(args, at / n, problem.shape.headDim,
                                problem.shape.dtype, kernel.scores);
      auto keeps = [=](int64_t, int64_t key) { return key >= firstKey; };
      lse.as<float>()[at] =
          static_cast<float>(rt::reference::attendRow(head, at % n, keeps).lse);
    });
    lse.protect(true);
  }

  void run(float *scoreMemory) {
    indices.poison();
    args.scores = scoreMemory;
    for (int64_t row = 0; row < lists / groups; ++row)
      for (int64_t tile = groups - 1; tile >= 0; --tile) {
        scratch->poison();
        entry(&args, row, tile, scratch->data());
      }
  }

  /// Scores of a list's keys or blocks as the definitions have them.
  std::vector<double> scoresOf(int64_t at, const float *lse) const {
    auto [begin, end] = choice.rowsOf(kernel, at % groups, problem.shape.n);
    std::vector<double> scores = rt::reference::scoresOfList(
        args, kernel, at / groups, begin, end, lse, problem.shape.headDim,
        problem.shape.dtype, choice.bySpan);
    return blocks ? scores
                  : rt::reference::chosenWithin(
                        args, kernel, at / groups, at % groups,
                        rt::reference::chosenBy(args, scores, kernel.pooled));
  }

  void compare() {
    std::vector<std::vector<double>> all(static_cast<size_t>(lists));
    std::vector<std::vector<double>> span(static_cast<size_t>(lists));
    rt::parallelFor(lists, [&](int64_t at, int) {
      all[at] = scoresOf(at, args.lse);
      if (!choice.bySpan)
        return;
      span[at] = scoresOf(at, args.spanLse);
      span[at].erase(span[at].begin(), span[at].begin() + choice.boundary);
    });
    for (int64_t at = 0; at < lists && finding.ok(); ++at)
      compareList(at, all[at], span[at]);
  }

  void compareList(int64_t at, const std::vector<double> &expected,
                   const std::vector<double> &expectedSpan) {
    std::string where = name + ": list " + std::to_string(at / groups) +
                        ", group " + std::to_string(at % groups);
    const float *row = scores.as<float>() + at * problem.shape.n;
    std::span<const float> found(row, expected.size());
    std::span<const float> foundSpan(row + expected.size(),
                                     expectedSpan.size());
    compareScores(at, found, expected, problem.lse, where);
    compareScores(at, foundSpan, expectedSpan, spanLse, where + ", by span");
    std::vector<int32_t> best =
        blocks ? rt::reference::chosenBlocks(args, found, foundSpan)
               : rt::reference::largest(found, choice.keep);
    const int32_t *list = indices.as<int32_t>() + at * choice.keep;
    auto [wrong, right] = std::mismatch(list, list + choice.keep, best.begin());
    if (wrong != list + choice.keep)
      finding.fail(where + ": entry " + std::to_string(wrong - list) +
                   " of the list is " + std::to_string(*wrong) +
                   ", brute force on the same scores says " +
                   std::to_string(*right));
  }

  void compareScores(int64_t at, std::span<const float> found,
                     const std::vector<double> &expected, GuardedBuffer &lses,
                     const std::string &where) {
    const int64_t n = problem.shape.n;
    auto [begin, end] = choice.rowsOf(kernel, at % groups, n);
    compareSelectScores(
        kernel, found, expected, lses.as<float>(), n, at / groups * share,
        share, begin, end,
        [&](double lse) { return allowedError(problem.shape.dtype, lse); },
        where, finding);
  }

  const bundle::Kernel &kernel;
  abi::SelectKernel entry;
  Problem &problem;
  Choice choice;
  bool blocks;
  int64_t group, groups;
  int64_t share; ///< query heads of a list
  Finding &finding;
  std::string name;
  int64_t lists;
  GuardedBuffer indices, scores, spanLse;
  std::unique_ptr<GuardedBuffer> scratch;
  abi::SelectArgs args{};
};

} // namespace

void conformance::compareSelectScores(
    const bundle::Kernel &kernel, std::span<const float> found,
    const std::vector<double> &expected, const float *lses, int64_t n,
    int64_t head, int64_t heads, int64_t begin, int64_t end,
    const std::function<double(double)> &allowed, const std::string &where,
    Finding &finding) {
  double top = 0, largest = 0;
  for (double score : expected)
    if (std::isfinite(score))
      top = std::max(top, score);
  for (int64_t h = head; h < head + heads; ++h)
    for (int64_t row = begin; row < end; ++row)
      if (double lse = lses[h * n + row]; std::isfinite(lse))
        largest = std::max(largest, std::abs(lse));
  // Scores far below the largest may be flushed to zero.
  constexpr double negligible = 1e-6, least = 1e-30;
  const bool logits = !readsLse(kernel.scorer);
  for (size_t entry = 0; entry < expected.size(); ++entry) {
    // Keys that are always listed score infinity.
    const bool same = static_cast<double>(found[entry]) == expected[entry];
    finding.measure(
        same ? 0
             : std::abs(found[entry] - expected[entry]) /
                   (logits
                        ? std::max({top, largest, 1.0})
                        : std::max({expected[entry], negligible * top, least})),
        logits ? allowedError(rt::DType::F32, largest) : allowed(largest),
        where + ", score " + std::to_string(entry));
  }
}

Finding conformance::checkSelect(const bundle::Kernel &kernel,
                                 const bundle::KernelVariant &variant,
                                 abi::SelectKernel entry,
                                 const Options &options) {
  Finding finding;
  std::mt19937_64 random(options.seed);
  size_t turn = 0;
  for (int64_t ratio : options.ratios) {
    for (int64_t n : options.lengths) {
      Shape shape;
      shape.n = n;
      shape.ratio = ratio;
      for (const Choice &choice : choicesFor(kernel, shape, random)) {
        shape.headDim = variant.headDim;
        shape.padding = static_cast<int64_t>(turn % 4) * 7;
        shape.values = allValues[turn++ % std::size(allValues)];
        if (!parseDType(variant.dtype, shape.dtype)) {
          finding.fail("element type " + variant.dtype + " has no reference");
          return finding;
        }
        Problem problem(shape, random);
        if (kernel.scores.usesPositions())
          problem.thinOut(random); // all rows, of positions with gaps
        std::string name = kernel.name + " " + variant.dtype +
                           " d=" + std::to_string(variant.headDim) + " " +
                           toString(shape) + " " + toString(choice);
        SelectCase(kernel, variant, entry, problem, choice, finding, name)
            .check();
        if (!finding.ok())
          return finding;
      }
    }
  }
  return finding;
}
