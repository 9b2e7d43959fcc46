//===- CudaSelectCheck.cpp - One select kernel on a GPU ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/abi/IndexLayout.h"
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
             Finding &finding, std::mt19937_64 &random)
      : CudaCase(gpu, variant, std::move(sequences), apart, finding),
        kernel(kernel), group(kernel.group), blocks(kernel.blocks),
        share(headsPerList(kernel, problem(0).shape)),
        encoding(blocks ? bundle::Encoding::Int32 : variant.encoding) {
    const auto count = static_cast<int64_t>(inputs.size());
    arguments = plan.add("arguments", sizeof(abi::SelectArgs) * count);
    for (const std::shared_ptr<Inputs> &each : inputs) {
      Lists &lists = all.emplace_back();
      const int64_t n = each->problem.shape.n;
      const std::vector<Choice> choices =
          choicesFor(kernel, each->problem.shape, random);
      lists.choice = choices[random() % choices.size()];
      if (!blocks && lists.choice.alwaysBegin == lists.choice.alwaysEnd)
        lists.choice.keep = std::min(each->keep, lists.choice.from);
      name += ", " + toString(lists.choice);
      lists.groups = (n - 1) / group + 1;
      lists.count = heads() / share * lists.groups;
      // Of lists of blocks, some have more entries than there are.
      lists.rowBytes = bundle::listRowBytes(
          encoding, std::max(n, lists.choice.keep), lists.choice.keep);
      lists.indices = plan.add("indices", lists.count * lists.rowBytes);
      lists.scores = plan.add("scores", lists.count * n * 4);
      lists.spanLse = plan.add("span lse", each->problem.lse.size());
      lists.spanLseOnHost =
          std::make_unique<GuardedBuffer>(each->problem.lse.size());
      if (lists.choice.outer)
        encodeOuter(lists, n);
    }
    scratchRow = bundle::scratchRowBytes(variant, longest());
    scratch = plan.add("scratch", scratchRow * gridBlocks * count);
  }

  void check(std::mt19937_64 &random) {
    nowTesting(name);
    ++finding.cases;
    for (size_t s = 0; s < inputs.size(); ++s) {
      pickGroups(s, random);
      const Choice &choice = all[s].choice;
      writeLse(s, problem(s).lse, 0);
      writeLse(s, *all[s].spanLseOnHost,
               choice.bySpan ? choice.boundary * group : 0);
    }
    if (!allocate() || !uploadInputs())
      return;
    for (size_t s = 0; s < inputs.size(); ++s)
      if (!upload(slots[s].lse, problem(s).lse.data(), problem(s).lse.size()) ||
          !upload(all[s].spanLse, all[s].spanLseOnHost->data(),
                  all[s].spanLseOnHost->size()) ||
          (all[s].choice.outer &&
           !upload(all[s].outer, all[s].encodedOuter.data(),
                   static_cast<int64_t>(all[s].encodedOuter.size()))))
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
  static constexpr int64_t gridBlocks = 5;

  struct Lists {
    Choice choice;
    int64_t groups = 0, count = 0, rowBytes = 0;
    ArenaPlan::Slot indices = 0, scores = 0, spanLse = 0;
    std::unique_ptr<GuardedBuffer> spanLseOnHost;
    std::vector<int64_t> picked; ///< lists that are compared
    /// What is chosen within, as the kernel reads it.
    std::vector<std::byte> encodedOuter;
    int64_t outerRowBytes = 0;
    ArenaPlan::Slot outer = 0;
  };

  void encodeOuter(Lists &lists, int64_t n) {
    const abi::IndexList &list = lists.choice.outer->list;
    const bundle::Encoding form =
        kernel.withinBlocks ? bundle::Encoding::Int32 : encoding;
    lists.outerRowBytes = bundle::listRowBytes(form, n, list.keep);
    const int64_t rows = heads() / list.headsPerList * list.groups;
    lists.encodedOuter.resize(rows * lists.outerRowBytes);
    rt::parallelFor(rows, [&](int64_t row, int) {
      bundle::encodeList(form, n,
                         std::span(static_cast<const int32_t *>(list.indices) +
                                       row * list.keep,
                                   static_cast<size_t>(list.keep)),
                         lists.encodedOuter.data() + row * lists.outerRowBytes);
    });
    lists.outer = plan.add("outer lists",
                           static_cast<int64_t>(lists.encodedOuter.size()));
  }

  void pickGroups(size_t s, std::mt19937_64 &random) {
    const Shape &shape = problem(s).shape;
    const double work = 2.0 * static_cast<double>(std::min(group, shape.n)) *
                        static_cast<double>(share) *
                        static_cast<double>(shape.n * shape.headDim);
    // Both the log-sum-exp and the scores are made by definition, twice where a
    // span is scored apart.
    const int64_t times = all[s].choice.bySpan ? 4 : 2;
    all[s].picked = sample(
        all[s].count,
        std::max<int64_t>(int64_t(referenceWork / work / double(times)), 2),
        random);
  }

  rt::reference::Head headAt(size_t s, int64_t head) const {
    const Problem &p = problem(s);
    return rt::reference::headOf(p.args, head, p.shape.headDim, p.shape.dtype,
                                 kernel.scores);
  }

  /// Of the keys from `firstKey` on. Rows of groups that are not compared give
  /// no key any probability.
  void writeLse(size_t s, GuardedBuffer &lse, int64_t firstKey) {
    const int64_t n = problem(s).shape.n;
    float *values = lse.as<float>();
    std::fill(values, values + heads() * n, INFINITY);
    std::vector<int64_t> rows;
    for (int64_t at : all[s].picked) {
      auto [begin, end] = all[s].choice.rowsOf(kernel, at % all[s].groups, n);
      const int64_t first = at / all[s].groups * share;
      for (int64_t head = first; head < first + share; ++head)
        for (int64_t row = begin; row < end; ++row)
          rows.push_back(head * n + row);
    }
    rt::parallelFor(static_cast<int64_t>(rows.size()), [&](int64_t i, int) {
      values[rows[i]] = static_cast<float>(
          rt::reference::attendRow(
              headAt(s, rows[i] / n), rows[i] % n,
              [=](int64_t, int64_t key) { return key >= firstKey; })
              .lse);
    });
  }

  /// What a kernel is asked for; addresses are the host's.
  abi::SelectArgs hostArgs(size_t s) const {
    const Problem &p = problem(s);
    abi::SelectArgs args = abi::selectArgsOf(p.args);
    args.heads = static_cast<uint32_t>(heads());
    return chosen(s, args);
  }

  /// `args` with the list and what says how to choose.
  abi::SelectArgs chosen(size_t s, abi::SelectArgs args) const {
    const Choice &choice = all[s].choice;
    args.list = bundle::int32Lists(nullptr, all[s].groups, choice.keep);
    args.list.rowBytes = all[s].rowBytes;
    args.list.split = choice.split;
    args.list.headsPerList = share;
    choice.fill(args);
    args.spanLse = choice.bySpan ? all[s].spanLseOnHost->as<float>() : nullptr;
    return args;
  }

  bool launch(bool withScores) {
    std::vector<abi::SelectArgs> argumentBlocks;
    const auto count = static_cast<int64_t>(inputs.size());
    for (size_t s = 0; s < inputs.size(); ++s) {
      abi::SelectArgs args = chosen(s, abi::selectArgsOf(argumentsOf(s)));
      args.scores = withScores ? address<float>(all[s].scores) : nullptr;
      args.list.indices = address<void>(all[s].indices);
      if (args.spanLse)
        args.spanLse = address<float>(all[s].spanLse);
      if (all[s].choice.outer) {
        args.within.indices = address<void>(all[s].outer);
        args.within.rowBytes = all[s].outerRowBytes;
      }
      argumentBlocks.push_back(args);
      // Lists arrive poisoned (with no -1), bitmaps cleared beyond their last
      // key.
      uint8_t fill = encoding == bundle::Encoding::Bitmap ? 0 : 0xa5;
      if (!good(gpu.stream.fillBytes(memory[all[s].indices], fill,
                                     all[s].count * all[s].rowBytes)))
        return false;
    }
    return uploadMaps(argumentBlocks) &&
           upload(arguments, argumentBlocks.data(),
                  count * int64_t(sizeof(abi::SelectArgs))) &&
           (!gpu.poison ||
            good(gpu.stream.fillBytes(memory[scratch], 0xff,
                                      scratchRow * gridBlocks * count))) &&
           good(gpu.module[variant.symbol].launch(
               gpu.stream, rt::cuda::Grid{.x = gridBlocks, .z = count},
               memory[arguments], memory[scratch], scratchRow)) &&
           good(gpu.stream.synchronize());
  }

  bool downloadLists(size_t s, std::vector<std::byte> &to) {
    to.resize(all[s].count * all[s].rowBytes);
    return download(all[s].indices, to.data(), static_cast<int64_t>(to.size()));
  }

  /// Scores of a list against the definition, its entries against brute force
  /// on the same scores.
  bool compare(size_t s, int64_t at, const std::vector<std::byte> &rows) {
    const int64_t n = problem(s).shape.n;
    const Choice &choice = all[s].choice;
    const std::string where = name + ": sequence " + std::to_string(s) +
                              ", list " + std::to_string(at / all[s].groups) +
                              ", group " + std::to_string(at % all[s].groups);
    const std::vector<double> expected = scoresOf(s, at, problem(s).lse);
    std::vector<double> expectedSpan;
    if (choice.bySpan) {
      expectedSpan = scoresOf(s, at, *all[s].spanLseOnHost);
      expectedSpan.erase(expectedSpan.begin(),
                         expectedSpan.begin() + choice.boundary);
    }
    std::vector<float> found(expected.size() + expectedSpan.size());
    if (!good(gpu.stream.copyToHost(found.data(),
                                    memory[all[s].scores] + at * n * 4,
                                    std::ssize(found) * 4)) ||
        !good(gpu.stream.synchronize()))
      return false;
    const std::span<const float> first(found.data(), expected.size());
    const std::span<const float> second(found.data() + expected.size(),
                                        expectedSpan.size());
    compareScores(s, at, first, expected, problem(s).lse, where);
    compareScores(s, at, second, expectedSpan, *all[s].spanLseOnHost,
                  where + ", by span");
    std::vector<int32_t> list(choice.keep);
    if (!bundle::decodeList(encoding, n, rows.data() + at * all[s].rowBytes,
                            list)) {
      finding.fail(where + ": the list is damaged");
      return false;
    }
    std::vector<int32_t> best =
        blocks ? rt::reference::chosenBlocks(hostArgs(s), first, second)
               : rt::reference::largest(first, choice.keep);
    auto [wrong, right] = std::mismatch(list.begin(), list.end(), best.begin());
    if (wrong != list.end())
      finding.fail(where + ": entry " + std::to_string(wrong - list.begin()) +
                   " of the list is " + std::to_string(*wrong) +
                   ", brute force on the same scores says " +
                   std::to_string(*right));
    return finding.ok();
  }

  /// Scores of a list's keys or blocks as the definitions have them.
  std::vector<double> scoresOf(size_t s, int64_t at, GuardedBuffer &lse) const {
    const Shape &shape = problem(s).shape;
    auto [begin, end] =
        all[s].choice.rowsOf(kernel, at % all[s].groups, shape.n);
    std::vector<double> scores = rt::reference::scoresOfList(
        hostArgs(s), kernel, at / all[s].groups, begin, end, lse.as<float>(),
        shape.headDim, shape.dtype, all[s].choice.bySpan);
    return blocks ? scores
                  : rt::reference::chosenWithin(
                        hostArgs(s), kernel, at / all[s].groups,
                        at % all[s].groups,
                        rt::reference::chosenBy(hostArgs(s), scores,
                                                kernel.pooled));
  }

  void compareScores(size_t s, int64_t at, std::span<const float> found,
                     const std::vector<double> &expected, GuardedBuffer &lses,
                     const std::string &where) {
    const Shape &shape = problem(s).shape;
    auto [begin, end] =
        all[s].choice.rowsOf(kernel, at % all[s].groups, shape.n);
    compareSelectScores(
        kernel, found, expected, lses.as<float>(), shape.n,
        at / all[s].groups * share, share, begin, end,
        [&](double lse) {
          return allowedError(shape.dtype, lse) +
                 cudaLogitError(kernel, shape.dtype) * std::max(1.0, lse);
        },
        where, finding);
  }

  void compareLists(size_t s, const std::vector<std::byte> &first,
                    const std::vector<std::byte> &second) {
    // Pads of lists are undefined.
    std::vector<int32_t> a(all[s].choice.keep), b(a.size());
    const int64_t rowBytes = all[s].rowBytes, n = problem(s).shape.n;
    for (int64_t at = 0; at < all[s].count && finding.ok(); ++at)
      if (!bundle::decodeList(encoding, n, first.data() + at * rowBytes, a) ||
          !bundle::decodeList(encoding, n, second.data() + at * rowBytes, b) ||
          a != b)
        finding.fail(name + ": sequence " + std::to_string(s) + ", list " +
                     std::to_string(at) +
                     " is damaged, or other keys are selected when no scores "
                     "are asked for");
  }

  const bundle::Kernel &kernel;
  const int64_t group;
  const bool blocks;
  const int64_t share; ///< query heads of a list
  const bundle::Encoding encoding;
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
      SelectCase(gpu, kernel, variant, std::move(sequences), 0, *current,
                 *draws)
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
             wideStride(shape.n, shape.dtype), finding, random)
      .check(random);
  return finding;
}
