//===- CudaAttentionCheck.cpp - One attention kernel on a GPU ------------===//
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

using namespace heddle;
using namespace heddle::conformance;
using rt::cuda::ArenaPlan;
using rt::cuda::DevicePtr;

namespace {

class AttentionCase : public CudaCase {
public:
  AttentionCase(const CudaUnderTest &gpu, const bundle::Kernel &kernel,
                const bundle::KernelVariant &variant,
                std::vector<std::shared_ptr<Inputs>> sequences, int64_t apart,
                Finding &finding)
      : CudaCase(gpu, variant, std::move(sequences), apart, finding),
        kernel(kernel) {
    arguments =
        plan.add("arguments", sizeof(abi::AttentionArgs) * inputs.size());
    for (const std::shared_ptr<Inputs> &each : inputs)
      for (const std::unique_ptr<RandomLists> &list : each->lists)
        encode(each->problem.shape, list->list);
  }

  void check(std::mt19937_64 &random) {
    nowTesting(name);
    ++finding.cases;
    if (!allocate() || !uploadInputs() || !launch())
      return;
    for (size_t s = 0; s < inputs.size() && finding.ok(); ++s) {
      if (!downloadOutput(s))
        return;
      checkWritten(s);
      compare(s, random);
    }
  }

private:
  /// `list` on the host, in int32.
  void encode(const Shape &shape, const abi::IndexList &list) {
    const int64_t rowBytes =
        bundle::listRowBytes(variant.encoding, shape.n, list.keep);
    const int64_t rows = shape.queryHeads() * list.groups;
    encoded.emplace_back(rows * rowBytes);
    rt::parallelFor(rows, [&](int64_t row, int) {
      bundle::encodeList(variant.encoding, shape.n,
                         std::span(static_cast<const int32_t *>(list.indices) +
                                       row * list.keep,
                                   static_cast<size_t>(list.keep)),
                         encoded.back().data() + row * rowBytes);
    });
    listSlots.push_back(plan.add("list", rows * rowBytes));
  }

  bool launch() {
    std::vector<abi::AttentionArgs> blocks;
    size_t next = 0;
    for (size_t s = 0; s < inputs.size(); ++s) {
      abi::AttentionArgs args = argumentsOf(s);
      if (!kernel.writesLse)
        args.lse = nullptr;
      for (size_t c = 0; c < inputs[s]->lists.size(); ++c, ++next) {
        if (!upload(listSlots[next], encoded[next].data(),
                    static_cast<int64_t>(encoded[next].size())))
          return false;
        args.lists[c] = inputs[s]->lists[c]->list;
        args.lists[c].indices = address<void>(listSlots[next]);
        args.lists[c].rowBytes =
            bundle::listRowBytes(variant.encoding, args.n, args.lists[c].keep);
      }
      blocks.push_back(args);
    }
    if (!upload(arguments, blocks.data(),
                static_cast<int64_t>(blocks.size() * sizeof(blocks[0]))))
      return false;
    rt::cuda::Grid grid{.x = (longest() + variant.queryRows - 1) /
                             variant.queryRows,
                        .y = heads(),
                        .z = static_cast<int64_t>(inputs.size())};
    return good(gpu.module[variant.symbol].launch(gpu.stream, grid,
                                                  memory[arguments],
                                                  DevicePtr(0), int64_t(0))) &&
           good(gpu.stream.synchronize());
  }

  /// Every element of a row is no longer poison, all between rows still is.
  void checkWritten(size_t sequence) {
    Problem &p = problem(sequence);
    const int64_t size = byteSize(p.shape.dtype);
    const int64_t width = p.shape.queryHeads() * p.shape.headDim;
    const std::byte *bytes = p.output.data();
    auto poisoned = [&](int64_t element) {
      for (int64_t b = 0; b < size; ++b)
        if (bytes[element * size + b] != std::byte{0xff})
          return false;
      return true;
    };
    for (int64_t row = 0; row < p.shape.n && finding.ok(); ++row) {
      int64_t first = row * p.args.outputStride;
      int64_t end = row + 1 < p.shape.n ? first + p.args.outputStride
                                        : p.output.size() / size;
      for (int64_t e = first; e < end; ++e)
        if (poisoned(e) != (e - first >= width)) {
          finding.fail(name + ": sequence " + std::to_string(sequence) +
                       ", row " + std::to_string(row) + ", element " +
                       std::to_string(e - first) + " of " +
                       std::to_string(width) +
                       (poisoned(e) ? " was not written"
                                    : " lies between rows and was written"));
          break;
        }
    }
  }

  void compare(size_t sequence, std::mt19937_64 &random) {
    Problem &p = problem(sequence);
    const int64_t n = p.shape.n;
    const double rowWork = 2.0 * n * p.shape.headDim;
    std::vector<int64_t> picked =
        sample(heads() * n,
               std::max<int64_t>(int64_t(referenceWork / rowWork), 8), random);
    std::vector<abi::IndexList> lists;
    for (const std::unique_ptr<RandomLists> &list : inputs[sequence]->lists)
      lists.push_back(list->list);
    std::vector<rt::reference::RowResult> expected(picked.size());
    rt::parallelFor(static_cast<int64_t>(picked.size()), [&](int64_t i, int) {
      int64_t head = picked[i] / n;
      expected[i] = rt::reference::attendRow(
          rt::reference::headOf(p.args, head, p.shape.headDim, p.shape.dtype),
          picked[i] % n,
          rt::reference::pairsOf(kernel.terms, head, lists,
                                 inputs[sequence]->groups));
    });
    for (size_t i = 0; i < picked.size() && finding.ok(); ++i)
      compareAttentionRow(
          p, kernel.writesLse, picked[i] / n, picked[i] % n, expected[i],
          name + ": sequence " + std::to_string(sequence), finding);
  }

  const bundle::Kernel &kernel;
  ArenaPlan::Slot arguments;
  std::vector<std::vector<std::byte>> encoded; ///< lists of all sequences
  std::vector<ArenaPlan::Slot> listSlots;
};

} // namespace

Finding conformance::checkAttentionOnCuda(const CudaUnderTest &gpu,
                                          const bundle::Manifest &manifest,
                                          const bundle::Kernel &kernel,
                                          const bundle::KernelVariant &variant,
                                          const Options &options) {
  CaseRules rules;
  rules.paddingUnit = 8; // strides on a device are multiples of 16 bytes
  rules.longest = longSequence;
  Finding *current = nullptr;
  std::mt19937_64 *draws = nullptr;
  Batches batches([&](std::vector<std::shared_ptr<Inputs>> sequences) {
    if (current->ok())
      AttentionCase(gpu, kernel, variant, std::move(sequences), 0, *current)
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
  AttentionCase(gpu, kernel, variant,
                {makeInputs(manifest, kernel, variant, shape, 100, random)},
                wideStride(shape.n, shape.dtype), finding)
      .check(random);
  return finding;
}
