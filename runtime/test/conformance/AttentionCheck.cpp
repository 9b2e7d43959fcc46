//===- AttentionCheck.cpp - One attention kernel --------------------------===//
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
#include <map>
#include <memory>
#include <numeric>

using namespace heddle;
using namespace heddle::conformance;
using bundle::Term;

namespace {

/// One variant of one kernel on one problem.
class AttentionCase {
public:
  AttentionCase(const bundle::Kernel &kernel,
                const bundle::KernelVariant &variant,
                abi::AttentionKernel entry, Problem &problem, Finding &finding,
                const std::string &name)
      : kernel(kernel), variant(variant), entry(entry), problem(problem),
        finding(finding), name(name),
        scratch(scratchFor(variant, problem.shape.n)) {
    if (!kernel.writesLse)
      problem.args.lse = nullptr;
  }

  void addList(const abi::IndexList &list, int64_t group) {
    problem.args.lists[lists.size()] = list;
    lists.push_back(list);
    groups.push_back(group);
  }

  /// All rows, also over some keys, then some of a sequence with gaps.
  void check(std::mt19937_64 &random) {
    checkRows(random);
    const std::string all = name;
    if (takesParts(kernel)) {
      problem.takeSomeKeys(random);
      name += " keys=" + std::to_string(problem.args.n);
      checkRows(random);
      problem.takeAllRows();
      name = all;
    }
    problem.thinOut(random);
    name += " rows=" + std::to_string(problem.args.rows);
    checkRows(random);
  }

private:
  void checkRows(std::mt19937_64 &random) {
    nowTesting(name);
    ++finding.cases;
    cutRows();
    problem.setSinks(kernel);
    checkOneTask(random);
    runAll(random);
    compare();
    if (!problem.output.intact() || !problem.lse.intact() || !scratch->intact())
      finding.fail(name + ": bytes in front of an output or around the scratch "
                          "memory were overwritten");
  }

  /// Tiles by place where rows must share lists, else as few as can be.
  void cutRows() {
    const int32_t *place = problem.args.place;
    int64_t rows = problem.args.rows, tile = variant.queryRows;
    firstRow.assign(1, 0);
    for (int64_t next = tile; next < problem.shape.n + tile; next += tile)
      firstRow.push_back(static_cast<int32_t>(
          lists.empty() ? std::min(next, rows)
                        : std::lower_bound(place, place + rows, next) - place));
    problem.args.firstRow = firstRow.data();
  }

  int64_t tiles() const { return static_cast<int64_t>(firstRow.size()) - 1; }

  void run(int64_t head, int64_t tile) {
    scratch->poison();
    entry(&problem.args, head, tile, scratch->data());
  }

  /// A task leaves everything but its own rows as it was.
  void checkOneTask(std::mt19937_64 &random) {
    problem.poisonOutputs();
    int64_t head = below(random, problem.shape.queryHeads());
    int64_t tile = below(random, tiles());
    run(head, tile);
    int64_t begin = firstRow[tile], end = firstRow[tile + 1];
    int64_t element = byteSize(problem.shape.dtype);
    int64_t width = problem.shape.headDim * element;
    std::vector<std::byte> seen(problem.output.data(),
                                problem.output.data() + problem.output.size());
    for (int64_t row = begin; row < end; ++row)
      std::fill_n(seen.begin() + row * problem.args.outputStride * element +
                      head * width,
                  width, std::byte{0xff});
    std::vector<std::byte> seenLse(problem.lse.data(),
                                   problem.lse.data() + problem.lse.size());
    std::fill(seenLse.begin() + (head * problem.args.rows + begin) * 4,
              seenLse.begin() + (head * problem.args.rows + end) * 4,
              std::byte{0xff});
    auto poisoned = [](std::byte byte) { return byte == std::byte{0xff}; };
    if (!std::all_of(seen.begin(), seen.end(), poisoned) ||
        !std::all_of(seenLse.begin(), seenLse.end(), poisoned))
      finding.fail(name + ": the task of head " + std::to_string(head) +
                   ", tile " + std::to_string(tile) +
                   " wrote outside of its rows");
  }

  void runAll(std::mt19937_64 &random) {
    problem.poisonOutputs();
    std::vector<int64_t> tasks(
        static_cast<size_t>(problem.shape.queryHeads() * tiles()));
    std::iota(tasks.begin(), tasks.end(), 0);
    std::shuffle(tasks.begin(), tasks.end(), random);
    for (int64_t task : tasks)
      run(task / tiles(), task % tiles());
  }

  void compare() {
    int64_t rows = problem.shape.queryHeads() * problem.args.rows;
    std::vector<rt::reference::RowResult> expected(static_cast<size_t>(rows));
    rt::parallelFor(rows, [&](int64_t at, int) {
      int64_t head = at / problem.args.rows;
      expected[at] = rt::reference::attendRow(
          rt::reference::headOf(problem.args, head, problem.shape.headDim,
                                problem.shape.dtype, kernel.scores),
          at % problem.args.rows,
          rt::reference::pairsOf(kernel.terms, head, lists, groups,
                                 problem.args.position, problem.args.sinks));
    });
    for (int64_t at = 0; at < rows && finding.ok(); ++at)
      compareAttentionRow(problem, kernel.writesLse, at / problem.args.rows,
                          at % problem.args.rows, expected[at],
                          /*logitError=*/0, name, finding);
  }

  static int64_t below(std::mt19937_64 &random, int64_t bound) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(bound));
  }

  const bundle::Kernel &kernel;
  const bundle::KernelVariant &variant;
  abi::AttentionKernel entry;
  Problem &problem;
  Finding &finding;
  std::string name;
  std::unique_ptr<GuardedBuffer> scratch;
  std::vector<abi::IndexList> lists;
  std::vector<int64_t> groups;
  std::vector<int32_t> firstRow;
};

} // namespace

void conformance::compareAttentionRow(Problem &problem, bool hasLse,
                                      int64_t head, int64_t row,
                                      const rt::reference::RowResult &expected,
                                      double logitError,
                                      const std::string &name,
                                      Finding &finding) {
  double difference = 0, norm = 0;
  for (int64_t e = 0; e < problem.shape.headDim; ++e) {
    double found = rt::reference::load(problem.output.data(),
                                       row * problem.args.outputStride +
                                           head * problem.shape.headDim + e,
                                       problem.shape.dtype);
    difference += (found - expected.output[e]) * (found - expected.output[e]);
    norm += expected.output[e] * expected.output[e];
  }
  std::string where =
      name + ": head " + std::to_string(head) + ", row " + std::to_string(row);
  const float *lses = problem.lse.as<float>();
  double lse = hasLse ? lses[head * problem.args.rows + row] : expected.lse;
  if (std::isinf(expected.lse)) {
    if (difference != 0 || lse != expected.lse)
      finding.fail(where + " has no keys and is not zero");
    return;
  }
  // What each logit may be off by is the relative error of its weight.
  const double off = logitError * std::max(1.0, std::abs(expected.lse));
  double allowed = allowedError(problem.shape.dtype, expected.lse) + off;
  finding.measure(std::sqrt(difference / norm), allowed, where + ", output");
  if (!hasLse)
    return;
  // Accumulated in fp32 whatever the element type.
  finding.measure(
      std::abs(lse - expected.lse) / std::max(1.0, std::abs(expected.lse)),
      allowedError(rt::DType::F32, 0) + logitError, where + ", log-sum-exp");
}

Finding conformance::checkAttention(const bundle::Manifest &manifest,
                                    const bundle::Kernel &kernel,
                                    const bundle::KernelVariant &variant,
                                    abi::AttentionKernel entry,
                                    const Options &options) {
  Finding finding;
  std::mt19937_64 random(options.seed);
  bool listed = kernel.hasLists();
  size_t turn = 0;
  for (int64_t ratio : options.ratios) {
    for (int64_t n : options.lengths) {
      // One key, some, all; without lists once.
      std::vector<int64_t> keeps = {
          1, 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(n)), n};
      if (!listed)
        keeps.resize(1);
      for (int64_t keep : keeps) {
        Shape shape;
        shape.n = n;
        shape.kvHeads = ratio == 1 ? 2 : 1;
        shape.ratio = ratio;
        shape.headDim = variant.headDim;
        shape.padding = static_cast<int64_t>(turn % 4) * 7; // 0, 7, 14, 21
        shape.values = allValues[turn++ % std::size(allValues)];
        if (!parseDType(variant.dtype, shape.dtype)) {
          finding.fail("element type " + variant.dtype + " has no reference");
          return finding;
        }
        Problem problem(shape, random);
        std::string name = kernel.name + " " + variant.dtype +
                           " d=" + std::to_string(variant.headDim) + " " +
                           toString(shape);
        if (listed)
          name += " keep=" + std::to_string(keep);
        AttentionCase one(kernel, variant, entry, problem, finding, name);
        // Terms that read the same selection read the same lists.
        std::map<int64_t, std::unique_ptr<RandomLists>> lists;
        for (const Term &term : kernel.terms) {
          if (term.selection < 0)
            continue;
          const bundle::Selection &selection =
              manifest.selections[term.selection];
          auto &own = lists[term.selection];
          if (!own)
            own = std::make_unique<RandomLists>(shape, selection, keep, random);
          one.addList(own->list, selection.group);
        }
        one.check(random);
        if (!finding.ok())
          return finding;
      }
    }
  }
  return finding;
}
