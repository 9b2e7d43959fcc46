//===- SelectCheck.cpp - One select kernel --------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Parallel.h"
#include "runtime/reference/Reference.h"
#include "runtime/test/conformance/Conformance.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace heddle;
using namespace heddle::conformance;

namespace {

class SelectCase {
public:
  SelectCase(const bundle::Kernel &kernel, const bundle::KernelVariant &variant,
             abi::SelectKernel entry, Problem &problem, int64_t keep,
             Finding &finding, const std::string &name)
      : entry(entry), problem(problem), group(kernel.group),
        groups((problem.shape.n - 1) / kernel.group + 1), keep(keep),
        finding(finding), name(name),
        lists(problem.shape.queryHeads() * groups), indices(lists * keep * 4),
        scores(lists * problem.shape.n * 4),
        scratch(scratchFor(variant, problem.shape.n)) {}

  void check() {
    nowTesting(name);
    ++finding.cases;
    writeLse();
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
  /// What a dense attention kernel would have written, rounded once.
  void writeLse() {
    int64_t n = problem.shape.n;
    rt::parallelFor(problem.shape.queryHeads() * n, [&](int64_t at, int) {
      problem.lse.as<float>()[at] = static_cast<float>(
          rt::reference::attendRow(headAt(at / n), at % n,
                                   [](int64_t, int64_t) { return true; })
              .lse);
    });
    problem.lse.protect(true);
  }

  rt::reference::Head headAt(int64_t head) const {
    return rt::reference::headOf(problem.args, head, problem.shape.headDim,
                                 problem.shape.dtype);
  }

  void run(float *scoreMemory) {
    indices.poison();
    abi::SelectArgs args{};
    args.query = problem.args.query;
    args.key = problem.args.key;
    args.lse = problem.lse.as<float>();
    args.scores = scoreMemory;
    args.n = problem.shape.n;
    args.queryStride = problem.args.queryStride;
    args.keyStride = problem.args.keyStride;
    args.kvGroup = problem.args.kvGroup;
    args.scale = problem.args.scale;
    args.heads = static_cast<uint32_t>(problem.shape.queryHeads());
    args.list = bundle::int32Lists(indices.as<int32_t>(), groups, keep);
    for (int64_t head = 0; head < problem.shape.queryHeads(); ++head)
      for (int64_t tile = groups - 1; tile >= 0; --tile) {
        scratch->poison();
        entry(&args, head, tile, scratch->data());
      }
  }

  void compare() {
    int64_t n = problem.shape.n;
    std::vector<std::vector<double>> expected(static_cast<size_t>(lists));
    rt::parallelFor(lists, [&](int64_t at, int) {
      int64_t head = at / groups, begin = at % groups * group;
      expected[at] = rt::reference::meanProbability(
          headAt(head), begin, std::min(begin + group, n),
          std::span(problem.lse.as<float>() + head * n,
                    static_cast<size_t>(n)));
    });
    for (int64_t at = 0; at < lists && finding.ok(); ++at)
      compareList(at, expected[at]);
  }

  void compareList(int64_t at, const std::vector<double> &expected) {
    int64_t n = problem.shape.n, head = at / groups;
    std::string where = name + ": head " + std::to_string(head) + ", group " +
                        std::to_string(at % groups);
    std::span<const float> found(scores.as<float>() + at * n,
                                 static_cast<size_t>(n));
    double top = *std::max_element(expected.begin(), expected.end());
    int64_t begin = at % groups * group;
    double lse = 0;
    for (int64_t row = begin; row < std::min(begin + group, n); ++row)
      lse = std::max<double>(lse,
                             std::abs(problem.lse.as<float>()[head * n + row]));
    // Scores far below the largest may be flushed to zero.
    constexpr double negligible = 1e-6;
    for (int64_t key = 0; key < n; ++key)
      finding.measure(std::abs(found[key] - expected[key]) /
                          std::max(expected[key], negligible * top),
                      allowedError(problem.shape.dtype, lse),
                      where + ", score of key " + std::to_string(key));
    std::vector<int32_t> best = rt::reference::largest(found, keep);
    const int32_t *list = indices.as<int32_t>() + at * keep;
    auto [wrong, right] = std::mismatch(list, list + keep, best.begin());
    if (wrong != list + keep)
      finding.fail(where + ": entry " + std::to_string(wrong - list) +
                   " of the list is key " + std::to_string(*wrong) +
                   ", brute force on the same scores says " +
                   std::to_string(*right));
  }

  abi::SelectKernel entry;
  Problem &problem;
  int64_t group, groups, keep;
  Finding &finding;
  std::string name;
  int64_t lists;
  GuardedBuffer indices, scores;
  std::unique_ptr<GuardedBuffer> scratch;
};

} // namespace

Finding conformance::checkSelect(const bundle::Kernel &kernel,
                                 const bundle::KernelVariant &variant,
                                 abi::SelectKernel entry,
                                 const Options &options) {
  Finding finding;
  std::mt19937_64 random(options.seed);
  size_t turn = 0;
  for (int64_t ratio : options.ratios) {
    for (int64_t n : options.lengths) {
      int64_t some =
          1 + static_cast<int64_t>(random() % static_cast<uint64_t>(n));
      for (int64_t keep : {int64_t(1), some, n}) {
        Shape shape;
        shape.n = n;
        shape.ratio = ratio;
        shape.headDim = variant.headDim;
        shape.padding = static_cast<int64_t>(turn % 4) * 7;
        shape.values = allValues[turn++ % std::size(allValues)];
        if (!parseDType(variant.dtype, shape.dtype)) {
          finding.fail("element type " + variant.dtype + " has no reference");
          return finding;
        }
        Problem problem(shape, random);
        SelectCase(kernel, variant, entry, problem, keep, finding,
                   kernel.name + " " + variant.dtype +
                       " d=" + std::to_string(variant.headDim) + " " +
                       toString(shape) + " keep=" + std::to_string(keep))
            .check();
        if (!finding.ok())
          return finding;
      }
    }
  }
  return finding;
}
