//===- CudaCheck.cpp - Kernels of a bundle on a GPU ----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/test/conformance/CudaCheck.h"

#include "bundle/IndexLayout.h"
#include "runtime/base/Parallel.h"
#include "runtime/device/cuda/Arena.h"
#include "runtime/reference/Reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

using namespace heddle;
using namespace heddle::conformance;
using bundle::Term;
using rt::cuda::Arena;
using rt::cuda::ArenaPlan;
using rt::cuda::DevicePtr;

namespace {

/// Multiply-adds that the definitions may take for one case; beyond that only
/// some rows or groups are compared.
constexpr double referenceWork = 4e8;

/// Strides on a device are multiples of 16 bytes.
constexpr int64_t paddingUnit = 8;

/// `count` numbers below `bound`, with the first and the last, ascending; all
/// of them when there are no more.
std::vector<int64_t> sample(int64_t bound, int64_t count,
                            std::mt19937_64 &random) {
  std::vector<int64_t> picked;
  if (count >= bound) {
    picked.resize(bound);
    std::iota(picked.begin(), picked.end(), 0);
    return picked;
  }
  picked = {0, bound - 1};
  while (static_cast<int64_t>(picked.size()) < std::max<int64_t>(count, 2))
    picked.push_back(static_cast<int64_t>(random() % uint64_t(bound)));
  std::sort(picked.begin(), picked.end());
  picked.erase(std::unique(picked.begin(), picked.end()), picked.end());
  return picked;
}

/// One kernel variant on one problem in device memory. Each buffer is an
/// allocation of its own, so that a memory checker knows where it ends.
class CudaCase {
public:
  CudaCase(const CudaUnderTest &gpu, const bundle::KernelVariant &variant,
           Problem &problem, Finding &finding, std::string name)
      : gpu(gpu), variant(variant), problem(problem), finding(finding),
        name(std::move(name)) {
    query = plan.add("query", problem.query.size());
    key = plan.add("key", problem.key.size());
    value = plan.add("value", problem.value.size());
    output = plan.add("output", problem.output.size());
    lse = plan.add("lse", problem.lse.size());
  }

protected:
  /// Says so once and stops the case.
  bool good(const Status &status) {
    if (!status)
      finding.fail(name + ": " + status.error().text());
    return finding.ok();
  }

  bool allocate() {
    Result<Arena> made = Arena::allocate(
        gpu.context, plan, {.poison = true, .separate = true, .reserve = 0});
    if (!made) {
      finding.fail(name + ": " + made.error().text());
      return false;
    }
    memory = std::move(*made);
    return true;
  }

  bool upload(ArenaPlan::Slot slot, const void *from, int64_t bytes) {
    return good(gpu.stream.copyToDevice(memory[slot], from, bytes)) &&
           good(gpu.stream.synchronize());
  }
  bool download(ArenaPlan::Slot slot, void *to, int64_t bytes) {
    return good(gpu.stream.copyToHost(to, memory[slot], bytes)) &&
           good(gpu.stream.synchronize());
  }
  template <typename T> T *address(ArenaPlan::Slot slot) const {
    return reinterpret_cast<T *>(static_cast<uintptr_t>(memory[slot]));
  }

  bool uploadInputs() {
    return upload(query, problem.query.data(), problem.query.size()) &&
           upload(key, problem.key.data(), problem.key.size()) &&
           upload(value, problem.value.data(), problem.value.size());
  }

  const CudaUnderTest &gpu;
  const bundle::KernelVariant &variant;
  Problem &problem;
  Finding &finding;
  const std::string name;
  ArenaPlan plan;
  Arena memory;
  ArenaPlan::Slot query, key, value, output, lse;
};

class CudaAttentionCase : public CudaCase {
public:
  CudaAttentionCase(const CudaUnderTest &gpu, const bundle::Kernel &kernel,
                    const bundle::KernelVariant &variant, Problem &problem,
                    Finding &finding, std::string name)
      : CudaCase(gpu, variant, problem, finding, std::move(name)),
        kernel(kernel) {
    arguments = plan.add("arguments", sizeof(abi::AttentionArgs));
  }

  /// `list` on the host, in int32.
  void addList(const abi::IndexList &list, int64_t group) {
    lists.push_back(list);
    groups.push_back(group);
    int64_t rowBytes =
        bundle::listRowBytes(variant.encoding, problem.shape.n, list.keep);
    int64_t rows = problem.shape.queryHeads() * list.groups;
    encoded.emplace_back(rows * rowBytes);
    for (int64_t row = 0; row < rows; ++row)
      bundle::encodeList(variant.encoding, problem.shape.n,
                         std::span(static_cast<const int32_t *>(list.indices) +
                                       row * list.keep,
                                   static_cast<size_t>(list.keep)),
                         encoded.back().data() + row * rowBytes);
    listSlots.push_back(plan.add("list", rows * rowBytes));
  }

  void check(std::mt19937_64 &random) {
    nowTesting(name);
    ++finding.cases;
    if (!allocate() || !uploadInputs() || !launch())
      return;
    problem.poisonOutputs();
    if (!download(output, problem.output.data(), problem.output.size()) ||
        !download(lse, problem.lse.data(), problem.lse.size()))
      return;
    checkWritten();
    compare(random);
  }

private:
  bool launch() {
    abi::AttentionArgs args = problem.args;
    args.query = address<void>(query);
    args.key = address<void>(key);
    args.value = address<void>(value);
    args.output = address<void>(output);
    args.lse = kernel.writesLse ? address<float>(lse) : nullptr;
    args.heads = static_cast<uint32_t>(problem.shape.queryHeads());
    for (size_t c = 0; c < lists.size(); ++c) {
      if (!upload(listSlots[c], encoded[c].data(),
                  static_cast<int64_t>(encoded[c].size())))
        return false;
      args.lists[c] = {address<void>(listSlots[c]), lists[c].groups,
                       lists[c].keep,
                       bundle::listRowBytes(variant.encoding, problem.shape.n,
                                            lists[c].keep)};
    }
    if (!upload(arguments, &args, sizeof(args)))
      return false;
    rt::cuda::Grid grid{.x = (problem.shape.n + variant.queryRows - 1) /
                             variant.queryRows,
                        .y = problem.shape.queryHeads(),
                        .z = 1};
    return good(gpu.module[variant.symbol].launch(gpu.stream, grid,
                                                  memory[arguments],
                                                  DevicePtr(0), int64_t(0))) &&
           good(gpu.stream.synchronize());
  }

  /// Every element of a row is no longer poison, all between rows still is.
  void checkWritten() {
    const int64_t size = byteSize(problem.shape.dtype);
    const int64_t width = problem.shape.queryHeads() * problem.shape.headDim;
    const std::byte *bytes = problem.output.data();
    auto poisoned = [&](int64_t element) {
      for (int64_t b = 0; b < size; ++b)
        if (bytes[element * size + b] != std::byte{0xff})
          return false;
      return true;
    };
    for (int64_t row = 0; row < problem.shape.n && finding.ok(); ++row) {
      int64_t first = row * problem.args.outputStride;
      int64_t end = row + 1 < problem.shape.n
                        ? first + problem.args.outputStride
                        : problem.output.size() / size;
      for (int64_t e = first; e < end; ++e)
        if (poisoned(e) != (e - first >= width)) {
          finding.fail(name + ": row " + std::to_string(row) + ", element " +
                       std::to_string(e - first) + " of " +
                       std::to_string(width) +
                       (poisoned(e) ? " was not written"
                                    : " lies between rows and was written"));
          break;
        }
    }
  }

  void compare(std::mt19937_64 &random) {
    const int64_t n = problem.shape.n, heads = problem.shape.queryHeads();
    const double rowWork = 2.0 * n * problem.shape.headDim;
    std::vector<int64_t> picked =
        sample(heads * n,
               std::max<int64_t>(int64_t(referenceWork / rowWork), 8), random);
    std::vector<rt::reference::RowResult> expected(picked.size());
    rt::parallelFor(static_cast<int64_t>(picked.size()), [&](int64_t i, int) {
      int64_t head = picked[i] / n;
      expected[i] = rt::reference::attendRow(
          rt::reference::headOf(problem.args, head, problem.shape.headDim,
                                problem.shape.dtype),
          picked[i] % n,
          rt::reference::pairsOf(kernel.terms, head, lists, groups));
    });
    for (size_t i = 0; i < picked.size() && finding.ok(); ++i)
      compareAttentionRow(problem, kernel.writesLse, picked[i] / n,
                          picked[i] % n, expected[i], name, finding);
  }

  const bundle::Kernel &kernel;
  ArenaPlan::Slot arguments;
  std::vector<abi::IndexList> lists;
  std::vector<int64_t> groups;
  std::vector<std::vector<std::byte>> encoded;
  std::vector<ArenaPlan::Slot> listSlots;
};

class CudaSelectCase : public CudaCase {
public:
  CudaSelectCase(const CudaUnderTest &gpu, const bundle::Kernel &kernel,
                 const bundle::KernelVariant &variant, Problem &problem,
                 int64_t keep, Finding &finding, std::string name)
      : CudaCase(gpu, variant, problem, finding, std::move(name)),
        group(kernel.group), groups((problem.shape.n - 1) / kernel.group + 1),
        keep(keep),
        rowBytes(bundle::listRowBytes(variant.encoding, problem.shape.n, keep)),
        lists(problem.shape.queryHeads() * groups) {
    arguments = plan.add("arguments", sizeof(abi::SelectArgs));
    indices = plan.add("indices", lists * rowBytes);
    scores = plan.add("scores", lists * problem.shape.n * 4);
    scratchRow = (variant.scratchBytes +
                  variant.scratchBytesPerKey * problem.shape.n + 127) /
                 128 * 128;
    scratch = plan.add("scratch", scratchRow * blocks);
  }

  void check(std::mt19937_64 &random) {
    nowTesting(name);
    ++finding.cases;
    pickGroups(random);
    writeLse();
    if (!allocate() || !uploadInputs() ||
        !upload(lse, problem.lse.data(), problem.lse.size()))
      return;
    std::vector<std::byte> first(lists * rowBytes), second(first.size());
    found.resize(lists * problem.shape.n);
    if (!launch(true) ||
        !download(indices, first.data(), static_cast<int64_t>(first.size())) ||
        !download(scores, found.data(), static_cast<int64_t>(found.size()) * 4))
      return;
    for (int64_t at : picked) {
      compareScores(at);
      if (finding.ok())
        compareList(at, first);
      if (!finding.ok())
        return;
    }
    if (!launch(false) ||
        !download(indices, second.data(), static_cast<int64_t>(second.size())))
      return;
    // Pads of lists are undefined.
    std::vector<int32_t> a(keep), b(keep);
    for (int64_t at = 0; at < lists && finding.ok(); ++at)
      if (!bundle::decodeList(variant.encoding, problem.shape.n,
                              first.data() + at * rowBytes, a) ||
          !bundle::decodeList(variant.encoding, problem.shape.n,
                              second.data() + at * rowBytes, b) ||
          a != b)
        finding.fail(name + ": list " + std::to_string(at) +
                     " is damaged, or other keys are selected when no scores "
                     "are asked for");
  }

private:
  /// Few, so that each does several tasks.
  static constexpr int64_t blocks = 5;

  void pickGroups(std::mt19937_64 &random) {
    const double work = 2.0 * group * problem.shape.n * problem.shape.headDim;
    // Both the log-sum-exp and the scores are made by definition.
    picked = sample(
        lists, std::max<int64_t>(int64_t(referenceWork / work / 2), 2), random);
  }

  rt::reference::Head headAt(int64_t head) const {
    return rt::reference::headOf(problem.args, head, problem.shape.headDim,
                                 problem.shape.dtype);
  }

  /// Rows of groups that are not compared give no key any probability.
  void writeLse() {
    const int64_t n = problem.shape.n;
    float *values = problem.lse.as<float>();
    std::fill(values, values + problem.shape.queryHeads() * n, INFINITY);
    std::vector<int64_t> rows;
    for (int64_t at : picked)
      for (int64_t row = at % groups * group;
           row < std::min(n, (at % groups + 1) * group); ++row)
        rows.push_back(at / groups * n + row);
    rt::parallelFor(static_cast<int64_t>(rows.size()), [&](int64_t i, int) {
      values[rows[i]] = static_cast<float>(
          rt::reference::attendRow(headAt(rows[i] / n), rows[i] % n,
                                   [](int64_t, int64_t) { return true; })
              .lse);
    });
  }

  bool launch(bool withScores) {
    abi::SelectArgs args{};
    args.query = address<void>(query);
    args.key = address<void>(key);
    args.lse = address<float>(lse);
    args.scores = withScores ? address<float>(scores) : nullptr;
    args.n = problem.shape.n;
    args.queryStride = problem.args.queryStride;
    args.keyStride = problem.args.keyStride;
    args.kvGroup = problem.args.kvGroup;
    args.scale = problem.args.scale;
    args.heads = static_cast<uint32_t>(problem.shape.queryHeads());
    args.list = {address<void>(indices), groups, keep, rowBytes};
    // Lists arrive poisoned, bitmaps cleared beyond their last key.
    uint8_t fill = variant.encoding == bundle::Encoding::Bitmap ? 0 : 0xff;
    return upload(arguments, &args, sizeof(args)) &&
           good(
               gpu.stream.fillBytes(memory[indices], fill, lists * rowBytes)) &&
           good(gpu.stream.fillBytes(memory[scratch], 0xff,
                                     scratchRow * blocks)) &&
           good(gpu.module[variant.symbol].launch(
               gpu.stream, rt::cuda::Grid{.x = blocks}, memory[arguments],
               memory[scratch], scratchRow)) &&
           good(gpu.stream.synchronize());
  }

  void compareScores(int64_t at) {
    const int64_t n = problem.shape.n, head = at / groups;
    const int64_t begin = at % groups * group, end = std::min(begin + group, n);
    std::vector<double> expected = rt::reference::meanProbability(
        headAt(head), begin, end,
        std::span(problem.lse.as<float>() + head * n, static_cast<size_t>(n)));
    double top = *std::max_element(expected.begin(), expected.end());
    double lse = 0;
    for (int64_t row = begin; row < end; ++row)
      lse = std::max<double>(lse,
                             std::abs(problem.lse.as<float>()[head * n + row]));
    constexpr double negligible = 1e-6;
    for (int64_t key = 0; key < n; ++key)
      finding.measure(std::abs(found[at * n + key] - expected[key]) /
                          std::max(expected[key], negligible * top),
                      allowedError(problem.shape.dtype, lse),
                      where(at) + ", score of key " + std::to_string(key));
  }

  void compareList(int64_t at, const std::vector<std::byte> &rows) {
    const int64_t n = problem.shape.n;
    std::vector<int32_t> list(keep);
    if (!bundle::decodeList(variant.encoding, n, rows.data() + at * rowBytes,
                            list)) {
      finding.fail(where(at) + ": the list is damaged");
      return;
    }
    std::vector<int32_t> best = rt::reference::largest(
        std::span(found.data() + at * n, static_cast<size_t>(n)), keep);
    auto [wrong, right] = std::mismatch(list.begin(), list.end(), best.begin());
    if (wrong != list.end())
      finding.fail(
          where(at) + ": entry " + std::to_string(wrong - list.begin()) +
          " of the list is key " + std::to_string(*wrong) +
          ", brute force on the same scores says " + std::to_string(*right));
  }

  std::string where(int64_t at) const {
    return name + ": head " + std::to_string(at / groups) + ", group " +
           std::to_string(at % groups);
  }

  const int64_t group, groups, keep, rowBytes, lists;
  ArenaPlan::Slot arguments, indices, scores, scratch;
  int64_t scratchRow = 0;
  std::vector<int64_t> picked; ///< lists that are compared
  std::vector<float> found;    ///< scores
};

std::string nameOfCase(const bundle::Kernel &kernel,
                       const bundle::KernelVariant &variant,
                       const Shape &shape) {
  std::string text = kernel.name + " " + variant.dtype +
                     " d=" + std::to_string(variant.headDim) + " ";
  if (kernel.hasLists())
    text += std::string(nameOf(variant.encoding)) + " ";
  return text + toString(shape);
}

/// The shape of the next case.
Shape nextShape(const bundle::KernelVariant &variant, int64_t n, int64_t ratio,
                size_t &turn) {
  Shape shape;
  shape.n = n;
  shape.kvHeads = ratio == 1 && n <= 8192 ? 2 : 1;
  shape.ratio = ratio;
  shape.headDim = variant.headDim;
  shape.padding = static_cast<int64_t>(turn % 4) * paddingUnit;
  shape.values = allValues[turn++ % std::size(allValues)];
  return shape;
}

} // namespace

Finding conformance::checkAttentionOnCuda(const CudaUnderTest &gpu,
                                          const bundle::Manifest &manifest,
                                          const bundle::Kernel &kernel,
                                          const bundle::KernelVariant &variant,
                                          const Options &options) {
  Finding finding;
  std::mt19937_64 random(options.seed);
  const bool columns = kernel.hasLists();
  size_t turn = 0;
  for (int64_t ratio : options.ratios)
    for (int64_t n : options.lengths) {
      if (columns && !bundle::holds(variant.encoding, n))
        continue;
      // One key, some, all; of long sequences some.
      int64_t some =
          1 + static_cast<int64_t>(random() % uint64_t(std::max<int64_t>(
                                                  n > 8192 ? n / 8 : n, 1)));
      std::vector<int64_t> keeps = {some, 1, n};
      keeps.resize(!columns || n > 8192 ? 1 : 3);
      for (int64_t keep : keeps) {
        Shape shape = nextShape(variant, n, ratio, turn);
        if (!parseDType(variant.dtype, shape.dtype)) {
          finding.fail("element type " + variant.dtype + " has no reference");
          return finding;
        }
        Problem problem(shape, random);
        std::string name = nameOfCase(kernel, variant, shape);
        if (columns)
          name += " keep=" + std::to_string(keep);
        CudaAttentionCase one(gpu, kernel, variant, problem, finding, name);
        std::vector<std::unique_ptr<RandomLists>> lists;
        for (const Term &term : kernel.terms) {
          if (term.kind != Term::Kind::Columns)
            continue;
          int64_t group = manifest.selections[term.selection].group;
          lists.push_back(
              std::make_unique<RandomLists>(shape, group, keep, random));
          one.addList(lists.back()->list, group);
        }
        one.check(random);
        if (!finding.ok())
          return finding;
      }
    }
  return finding;
}

Finding conformance::checkSelectOnCuda(const CudaUnderTest &gpu,
                                       const bundle::Kernel &kernel,
                                       const bundle::KernelVariant &variant,
                                       const Options &options) {
  Finding finding;
  std::mt19937_64 random(options.seed);
  size_t turn = 0;
  for (int64_t ratio : options.ratios)
    for (int64_t n : options.lengths) {
      // All scores of all groups are kept for the comparison.
      constexpr int64_t mostScores = int64_t(1) << 28;
      if (!bundle::holds(variant.encoding, n) ||
          (n / kernel.group + 1) * n * ratio > mostScores)
        continue;
      int64_t some = 1 + static_cast<int64_t>(random() % uint64_t(n));
      std::vector<int64_t> keeps = {some, 1, n};
      keeps.resize(n > 8192 ? 1 : 3);
      for (int64_t keep : keeps) {
        Shape shape = nextShape(variant, n, ratio, turn);
        if (!parseDType(variant.dtype, shape.dtype)) {
          finding.fail("element type " + variant.dtype + " has no reference");
          return finding;
        }
        Problem problem(shape, random);
        CudaSelectCase(gpu, kernel, variant, problem, keep, finding,
                       nameOfCase(kernel, variant, shape) +
                           " keep=" + std::to_string(keep))
            .check(random);
        if (!finding.ok())
          return finding;
      }
    }
  return finding;
}

Result<bool> conformance::checkBundleOnCuda(
    const bundle::Bundle &bundle, int ordinal, const Options &options,
    const std::function<void(const std::string &)> &report) {
  auto context = rt::cuda::Context::open(ordinal);
  if (!context)
    return context.takeError();
  auto module = rt::cuda::Module::load(**context, bundle);
  if (!module)
    return module.takeError();
  Result<rt::cuda::Stream> stream = rt::cuda::Stream::create(**context);
  if (!stream)
    return stream.takeError();
  const bundle::Manifest &manifest = bundle.manifest();
  const int64_t target = (*module)->choice().target;
  report("on " + (*context)->device().describe() + ", code for " +
         toString(manifest.targets[target]));
  CudaUnderTest gpu{**context, **module, *stream};
  bool ok = true;
  for (const bundle::Kernel &kernel : manifest.kernels)
    for (const bundle::KernelVariant &variant : kernel.variants) {
      if (variant.target != target)
        continue;
      Finding finding =
          kernel.kind == bundle::Kernel::Kind::Attention
              ? checkAttentionOnCuda(gpu, manifest, kernel, variant, options)
              : checkSelectOnCuda(gpu, kernel, variant, options);
      report(lineOf(variant.symbol, finding));
      ok &= finding.ok();
      // After a fault nothing on the device can be trusted.
      if ((*context)->broken())
        return false;
    }
  return ok;
}
