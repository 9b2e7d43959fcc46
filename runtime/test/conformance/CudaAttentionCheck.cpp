//===- CudaAttentionCheck.cpp - One attention kernel on a GPU ------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/abi/IndexLayout.h"
#include "runtime/base/Parallel.h"
#include "runtime/device/cuda/AttentionGrid.h"
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
  /// The kernel is told the places of the rows of sequences that are `placed`,
  /// and the positions of their keys; of the others it is to compute all.
  AttentionCase(const CudaUnderTest &gpu, const bundle::Kernel &kernel,
                const bundle::KernelVariant &variant,
                std::vector<std::shared_ptr<Inputs>> sequences, int64_t apart,
                const std::vector<bool> &placed, Finding &finding)
      : CudaCase(gpu, variant, std::move(sequences), apart, finding),
        kernel(kernel), placed(placed) {
    arguments =
        plan.add("arguments", sizeof(abi::AttentionArgs) * inputs.size());
    for (size_t s = 0; s < inputs.size(); ++s) {
      placeSlots.push_back(plan.add("places", placed[s] ? rows(s) * 4 : 0));
      positionSlots.push_back(
          plan.add("positions", placed[s] ? problem(s).shape.n * 4 : 0));
      firstRows.push_back(cutRows(s));
      firstRowSlots.push_back(plan.add("tiles", wordBytes(firstRows.back())));
      if (problem(s).args.n != problem(s).shape.n)
        name += (s ? ", keys=" : " keys=") + std::to_string(problem(s).args.n);
      if (placed[s])
        name += (s ? ", rows=" : " rows=") + std::to_string(rows(s));
    }
    for (const std::shared_ptr<Inputs> &each : inputs)
      for (size_t c = 0; c < each->lists.size(); ++c)
        encode(each->problem.shape, each->lists[c]->list, each->encodings[c]);
  }

  void check(std::mt19937_64 &random) {
    nowTesting(name);
    ++finding.cases;
    if (!allocate() || !uploadInputs() || !launch())
      return;
    for (size_t s = 0; s < inputs.size() && finding.ok(); ++s) {
      if (!downloadOutput(s, kernel.writesLse))
        return;
      checkWritten(s);
      compare(s, random);
    }
  }

private:
  int64_t rows(size_t sequence) const { return problem(sequence).args.rows; }

  static int64_t wordBytes(const std::vector<int32_t> &words) {
    return static_cast<int64_t>(words.size() * sizeof(int32_t));
  }

  int64_t tilesOf(int64_t rows, size_t sequence) const {
    return bundle::tilesOf(variant, rows, problem(sequence).args.kvGroup);
  }

  /// The first row of each tile, and the number of rows; nothing where tiles
  /// are as many rows each.
  std::vector<int32_t> cutRows(size_t sequence) const {
    if (!placed[sequence] || !kernel.hasLists())
      return {};
    const int32_t *place = problem(sequence).args.place;
    const int64_t n = problem(sequence).shape.n;
    std::vector<int32_t> first(1, 0);
    for (int64_t tile = 1; tile <= tilesOf(n, sequence); ++tile)
      first.push_back(
          static_cast<int32_t>(std::lower_bound(place, place + rows(sequence),
                                                tile * variant.queryRows) -
                               place));
    return first;
  }

  /// The most tiles of any sequence.
  int64_t tiles() const {
    int64_t most = 1;
    for (size_t s = 0; s < inputs.size(); ++s)
      most =
          std::max(most, firstRows[s].empty()
                             ? tilesOf(rows(s), s)
                             : static_cast<int64_t>(firstRows[s].size()) - 1);
    return most;
  }

  /// Tells the kernel which rows there are.
  bool uploadRows(size_t sequence, abi::AttentionArgs &args) {
    if (!placed[sequence])
      return true;
    const std::vector<int32_t> &first = firstRows[sequence];
    if (!upload(placeSlots[sequence], problem(sequence).place.data(),
                rows(sequence) * 4) ||
        !upload(positionSlots[sequence], problem(sequence).position.data(),
                problem(sequence).shape.n * 4) ||
        !upload(firstRowSlots[sequence], first.data(), wordBytes(first)))
      return false;
    args.place = address<int32_t>(placeSlots[sequence]);
    args.position = address<int32_t>(positionSlots[sequence]);
    if (!first.empty())
      args.firstRow = address<int32_t>(firstRowSlots[sequence]);
    return true;
  }

  /// `list` on the host, in int32.
  void encode(const Shape &shape, const abi::IndexList &list,
              bundle::Encoding encoding) {
    const int64_t rowBytes = bundle::listRowBytes(encoding, shape.n, list.keep);
    const int64_t rows = shape.queryHeads() / list.headsPerList * list.groups;
    encoded.emplace_back(rows * rowBytes);
    rt::parallelFor(rows, [&](int64_t row, int) {
      bundle::encodeList(encoding, shape.n,
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
      problem(s).setSinks(kernel);
      abi::AttentionArgs args = argumentsOf(s);
      if (!kernel.writesLse)
        args.lse = nullptr;
      if (!uploadRows(s, args))
        return false;
      for (size_t c = 0; c < inputs[s]->lists.size(); ++c, ++next) {
        if (!upload(listSlots[next], encoded[next].data(),
                    static_cast<int64_t>(encoded[next].size())))
          return false;
        args.lists[c] = inputs[s]->lists[c]->list;
        args.lists[c].indices = address<void>(listSlots[next]);
        args.lists[c].rowBytes = bundle::listRowBytes(
            inputs[s]->encodings[c], args.n, args.lists[c].keep);
      }
      blocks.push_back(args);
    }
    if (!uploadMaps(blocks))
      return false;
    if (!upload(arguments, blocks.data(),
                static_cast<int64_t>(blocks.size() * sizeof(blocks[0]))))
      return false;
    int64_t longest = 0;
    for (const abi::AttentionArgs &args : blocks)
      longest = std::max(longest, args.n);
    const rt::cuda::Grid grid =
        rt::cuda::gridOf(kernel, variant,
                         {tiles(), heads(), problem(0).args.kvGroup,
                          static_cast<int64_t>(inputs.size()), longest},
                         gpu.context.device());
    return good(gpu.module[variant.symbol].launch(gpu.stream, grid,
                                                  memory[arguments],
                                                  DevicePtr(0), int64_t(0))) &&
           good(gpu.stream.synchronize());
  }

  /// Every element of a row is no longer poison, all between and behind them
  /// still is.
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
      const int64_t written = row < rows(sequence) ? width : 0;
      for (int64_t e = first; e < end; ++e)
        if (poisoned(e) != (e - first >= written)) {
          finding.fail(name + ": sequence " + std::to_string(sequence) +
                       ", row " + std::to_string(row) + ", element " +
                       std::to_string(e - first) + " of " +
                       std::to_string(width) +
                       (poisoned(e) ? " was not written"
                                    : " is in no row and was written"));
          break;
        }
    }
    const int64_t sums = kernel.writesLse ? heads() * rows(sequence) : 0;
    for (int64_t byte = sums * 4; byte < p.lse.size(); ++byte)
      if (p.lse.data()[byte] != std::byte{0xff})
        finding.fail(name + ": sequence " + std::to_string(sequence) +
                     ", log-sum-exp " + std::to_string(byte / 4) +
                     " is no row's and was written");
  }

  void compare(size_t sequence, std::mt19937_64 &random) {
    Problem &p = problem(sequence);
    const int64_t n = rows(sequence);
    if (n == 0)
      return;
    const double rowWork = 2.0 * p.shape.n * p.shape.headDim;
    std::vector<int64_t> picked =
        sample(heads() * n,
               std::max<int64_t>(int64_t(referenceWork / rowWork), 8), random);
    std::vector<abi::IndexList> lists;
    for (const std::shared_ptr<RandomLists> &list : inputs[sequence]->lists)
      lists.push_back(list->list);
    std::vector<rt::reference::RowResult> expected(picked.size());
    rt::parallelFor(static_cast<int64_t>(picked.size()), [&](int64_t i, int) {
      int64_t head = picked[i] / n;
      // A sequence that is not placed may have had gaps in an earlier case.
      const int32_t *position = placed[sequence] ? p.args.position : nullptr;
      rt::reference::Head one = rt::reference::headOf(
          p.args, head, p.shape.headDim, p.shape.dtype, kernel.scores);
      one.position = position;
      expected[i] = rt::reference::attendRow(
          one, picked[i] % n,
          rt::reference::pairsOf(kernel.terms, head, lists,
                                 inputs[sequence]->groups, position,
                                 p.args.sinks));
    });
    for (size_t i = 0; i < picked.size() && finding.ok(); ++i)
      compareAttentionRow(p, kernel.writesLse, picked[i] / n, picked[i] % n,
                          expected[i], cudaLogitError(kernel, p.shape.dtype),
                          name + ": sequence " + std::to_string(sequence),
                          finding);
  }

  const bundle::Kernel &kernel;
  const std::vector<bool> placed;
  std::vector<ArenaPlan::Slot> placeSlots, positionSlots, firstRowSlots;
  std::vector<std::vector<int32_t>> firstRows;
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
  auto judge = [&](const std::vector<std::shared_ptr<Inputs>> &sequences,
                   const std::vector<bool> &placed) {
    if (current->ok())
      AttentionCase(gpu, kernel, variant, sequences, 0, placed, *current)
          .check(*draws);
  };
  // All rows; then some of one sequence at least, and some positions, beside
  // others that are whole.
  Batches batches([&](const std::vector<std::shared_ptr<Inputs>> &sequences) {
    // Where rows are packed a launch is for one number of key heads.
    if (variant.form == bundle::LaunchForm::Packed &&
        std::ranges::any_of(sequences, [&](const auto &each) {
          return each->problem.shape.kvHeads !=
                 sequences.front()->problem.shape.kvHeads;
        }))
      return;
    std::vector<bool> placed(sequences.size(), false);
    judge(sequences, placed);
    if (variant.form == bundle::LaunchForm::All)
      return;
    // All rows over some keys: the forms for few rows have no more than keys.
    if (takesParts(kernel) && variant.leastKeys == 0) {
      for (const std::shared_ptr<Inputs> &each : sequences)
        each->problem.takeSomeKeys(*draws);
      judge(sequences, placed);
      for (const std::shared_ptr<Inputs> &each : sequences)
        each->problem.takeAllRows();
    }
    const size_t certain = (*draws)() % sequences.size();
    for (size_t s = 0; s < sequences.size(); ++s) {
      placed[s] = s == certain || (*draws)() % 2;
      if (placed[s])
        sequences[s]->problem.thinOut(*draws);
    }
    judge(sequences, placed);
    for (const std::shared_ptr<Inputs> &each : sequences)
      each->problem.takeAllRows();
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
                wideStride(shape.n, shape.dtype), {false}, finding)
      .check(random);
  return finding;
}
