//===- CudaSelectCheck.cpp - One select kernel on a GPU ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/IndexLayout.h"
#include "runtime/base/Parallel.h"
#include "runtime/reference/Reference.h"
#include "runtime/test/conformance/CudaCase.h"

#include <algorithm>
#include <cmath>

using namespace heddle;
using namespace heddle::conformance;
using rt::cuda::ArenaPlan;

namespace {

class SelectCase : public CudaCase {
public:
  SelectCase(const CudaUnderTest &gpu, const bundle::Kernel &kernel,
             const bundle::KernelVariant &variant,
             std::vector<std::shared_ptr<Inputs>> sequences, int64_t apart,
             Finding &finding)
      : CudaCase(gpu, variant, std::move(sequences), apart, finding),
        group(kernel.group) {
    const auto count = static_cast<int64_t>(inputs.size());
    arguments = plan.add("arguments", sizeof(abi::SelectArgs) * count);
    for (const std::shared_ptr<Inputs> &each : inputs) {
      Lists &lists = all.emplace_back();
      const int64_t n = each->problem.shape.n;
      lists.groups = (n - 1) / group + 1;
      lists.count = heads() * lists.groups;
      lists.rowBytes = bundle::listRowBytes(variant.encoding, n, each->keep);
      lists.indices = plan.add("indices", lists.count * lists.rowBytes);
      lists.scores = plan.add("scores", lists.count * n * 4);
    }
    scratchRow = bundle::scratchRowBytes(variant, longest());
    scratch = plan.add("scratch", scratchRow * blocks * count);
  }

  void check(std::mt19937_64 &random) {
    nowTesting(name);
    ++finding.cases;
    for (size_t s = 0; s < inputs.size(); ++s) {
      pickGroups(s, random);
      writeLse(s);
    }
    if (!allocate() || !uploadInputs())
      return;
    for (size_t s = 0; s < inputs.size(); ++s)
      if (!upload(slots[s].lse, problem(s).lse.data(), problem(s).lse.size()))
        return;
    std::vector<std::vector<std::byte>> first(inputs.size());
    if (!launch(true))
      return;
    for (size_t s = 0; s < inputs.size(); ++s) {
      if (!downloadLists(s, first[s]))
        return;
      for (int64_t at : all[s].picked)
        if (!compare(s, at, first[s]))
          return;
    }
    if (!launch(false))
      return;
    for (size_t s = 0; s < inputs.size() && finding.ok(); ++s) {
      std::vector<std::byte> second;
      if (downloadLists(s, second))
        compareLists(s, first[s], second);
    }
  }

private:
  /// Of a launch for each sequence; few, so that each does several tasks.
  static constexpr int64_t blocks = 5;

  struct Lists {
    int64_t groups = 0, count = 0, rowBytes = 0;
    ArenaPlan::Slot indices = 0, scores = 0;
    std::vector<int64_t> picked; ///< lists that are compared
  };

  void pickGroups(size_t s, std::mt19937_64 &random) {
    const Shape &shape = problem(s).shape;
    const double work = 2.0 * group * shape.n * shape.headDim;
    // Both the log-sum-exp and the scores are made by definition.
    all[s].picked =
        sample(all[s].count,
               std::max<int64_t>(int64_t(referenceWork / work / 2), 2), random);
  }

  rt::reference::Head headAt(size_t s, int64_t head) const {
    const Problem &p = problem(s);
    return rt::reference::headOf(p.args, head, p.shape.headDim, p.shape.dtype);
  }

  /// Rows of groups that are not compared give no key any probability.
  void writeLse(size_t s) {
    const int64_t n = problem(s).shape.n;
    float *values = problem(s).lse.as<float>();
    std::fill(values, values + heads() * n, INFINITY);
    std::vector<int64_t> rows;
    for (int64_t at : all[s].picked) {
      const int64_t begin = at % all[s].groups * group;
      for (int64_t row = begin; row < std::min(n, begin + group); ++row)
        rows.push_back(at / all[s].groups * n + row);
    }
    rt::parallelFor(static_cast<int64_t>(rows.size()), [&](int64_t i, int) {
      values[rows[i]] = static_cast<float>(
          rt::reference::attendRow(headAt(s, rows[i] / n), rows[i] % n,
                                   [](int64_t, int64_t) { return true; })
              .lse);
    });
  }

  bool launch(bool withScores) {
    std::vector<abi::SelectArgs> argumentBlocks;
    const auto count = static_cast<int64_t>(inputs.size());
    for (size_t s = 0; s < inputs.size(); ++s) {
      abi::SelectArgs args = abi::selectArgsOf(argumentsOf(s));
      args.scores = withScores ? address<float>(all[s].scores) : nullptr;
      args.list = bundle::int32Lists(nullptr, all[s].groups, inputs[s]->keep);
      args.list.indices = address<void>(all[s].indices);
      args.list.rowBytes = all[s].rowBytes;
      argumentBlocks.push_back(args);
      // Lists arrive poisoned, bitmaps cleared beyond their last key.
      uint8_t fill = variant.encoding == bundle::Encoding::Bitmap ? 0 : 0xff;
      if (!good(gpu.stream.fillBytes(memory[all[s].indices], fill,
                                     all[s].count * all[s].rowBytes)))
        return false;
    }
    return upload(arguments, argumentBlocks.data(),
                  count * int64_t(sizeof(abi::SelectArgs))) &&
           good(gpu.stream.fillBytes(memory[scratch], 0xff,
                                     scratchRow * blocks * count)) &&
           good(gpu.module[variant.symbol].launch(
               gpu.stream, rt::cuda::Grid{.x = blocks, .z = count},
               memory[arguments], memory[scratch], scratchRow)) &&
           good(gpu.stream.synchronize());
  }

  bool downloadLists(size_t s, std::vector<std::byte> &to) {
    to.resize(all[s].count * all[s].rowBytes);
    return download(all[s].indices, to.data(), static_cast<int64_t>(to.size()));
  }

  /// Scores of a list against the definition, its keys against brute force on
  /// the same scores.
  bool compare(size_t s, int64_t at, const std::vector<std::byte> &rows) {
    Problem &p = problem(s);
    const int64_t n = p.shape.n, head = at / all[s].groups;
    const int64_t begin = at % all[s].groups * group;
    const int64_t end = std::min(begin + group, n);
    const std::string where = name + ": sequence " + std::to_string(s) +
                              ", head " + std::to_string(head) + ", group " +
                              std::to_string(at % all[s].groups);
    std::vector<float> found(n);
    if (!good(gpu.stream.copyToHost(
            found.data(), memory[all[s].scores] + at * n * 4, n * 4)) ||
        !good(gpu.stream.synchronize()))
      return false;
    std::span lse(p.lse.as<float>() + head * n, static_cast<size_t>(n));
    std::vector<double> expected =
        rt::reference::meanProbability(headAt(s, head), begin, end, lse);
    double top = *std::max_element(expected.begin(), expected.end());
    double largest = 0;
    for (int64_t row = begin; row < end; ++row)
      largest = std::max<double>(largest, std::abs(lse[row]));
    constexpr double negligible = 1e-6;
    for (int64_t key = 0; key < n; ++key)
      finding.measure(std::abs(found[key] - expected[key]) /
                          std::max(expected[key], negligible * top),
                      allowedError(p.shape.dtype, largest),
                      where + ", score of key " + std::to_string(key));
    std::vector<int32_t> list(inputs[s]->keep);
    if (!bundle::decodeList(variant.encoding, n,
                            rows.data() + at * all[s].rowBytes, list)) {
      finding.fail(where + ": the list is damaged");
      return false;
    }
    std::vector<int32_t> best =
        rt::reference::largest(std::span<const float>(found), inputs[s]->keep);
    auto [wrong, right] = std::mismatch(list.begin(), list.end(), best.begin());
    if (wrong != list.end())
      finding.fail(where + ": entry " + std::to_string(wrong - list.begin()) +
                   " of the list is key " + std::to_string(*wrong) +
                   ", brute force on the same scores says " +
                   std::to_string(*right));
    return finding.ok();
  }

  void compareLists(size_t s, const std::vector<std::byte> &first,
                    const std::vector<std::byte> &second) {
    // Pads of lists are undefined.
    std::vector<int32_t> a(inputs[s]->keep), b(a.size());
    const int64_t rowBytes = all[s].rowBytes, n = problem(s).shape.n;
    for (int64_t at = 0; at < all[s].count && finding.ok(); ++at)
      if (!bundle::decodeList(variant.encoding, n, first.data() + at * rowBytes,
                              a) ||
          !bundle::decodeList(variant.encoding, n,
                              second.data() + at * rowBytes, b) ||
          a != b)
        finding.fail(name + ": sequence " + std::to_string(s) + ", list " +
                     std::to_string(at) +
                     " is damaged, or other keys are selected when no scores "
                     "are asked for");
  }

  const int64_t group;
  std::vector<Lists> all;
  ArenaPlan::Slot arguments, scratch;
  int64_t scratchRow = 0;
};

} // namespace

Finding conformance::checkSelectOnCuda(const CudaUnderTest &gpu,
                                       const bundle::Manifest &manifest,
                                       const bundle::Kernel &kernel,
                                       const bundle::KernelVariant &variant,
                                       const Options &options) {
  CaseRules rules;
  rules.paddingUnit = 8; // strides on a device are multiples of 16 bytes
  rules.longest = longSequence;
  // 4 GiB: all groups of 32 at 131,072 tokens, with one head.
  rules.mostScores = int64_t(1) << 30;
  Finding *current = nullptr;
  std::mt19937_64 *draws = nullptr;
  Batches batches([&](std::vector<std::shared_ptr<Inputs>> sequences) {
    if (current->ok())
      SelectCase(gpu, kernel, variant, std::move(sequences), 0, *current)
          .check(*draws);
  });
  Finding finding = forEachCase(manifest, kernel, variant, options, rules,
                                [&](std::shared_ptr<Inputs> inputs,
                                    Finding &found, std::mt19937_64 &random) {
                                  current = &found;
                                  draws = &random;
                                  batches.add(inputs);
                                });
  if (!finding.ok() || !gpu.wide)
    return finding;
  std::mt19937_64 random(options.seed);
  Shape shape{.n = 300, .ratio = 2, .headDim = variant.headDim};
  if (!parseDType(variant.dtype, shape.dtype))
    return finding;
  SelectCase(gpu, kernel, variant,
             {makeInputs(manifest, kernel, variant, shape, 100, random)},
             wideStride(shape.n, shape.dtype), finding)
      .check(random);
  return finding;
}
