//===- KernelBench.cpp - Timing the kernels of bundles --------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/bench/KernelBench.h"

#include "bundle/abi/IndexLayout.h"
#include "bundle/program/Printable.h"
#include "runtime/base/Buffer.h"
#include "runtime/base/Parallel.h"
#include "runtime/bench/Asked.h"
#include "runtime/bench/PeakLoops.h"
#include "runtime/cache/IndexLists.h"
#include "runtime/schedule/PairCount.h"
#include "runtime/schedule/TaskGrid.h"
#include "runtime/tensor/DType.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <numeric>
#include <random>

using namespace heddle;
using namespace heddle::bench;
using bundle::Kernel;
using bundle::KernelVariant;
using bundle::Term;

Result<Subject> bench::loadSubject(const std::string &path) {
  Result<bundle::Bundle> bundle = bundle::Bundle::read(path);
  if (!bundle)
    return bundle.takeError();
  Subject subject;
  subject.name = printablePath(std::filesystem::path(path).stem().string());
  subject.bundle = std::make_unique<bundle::Bundle>(std::move(*bundle));
  if (Status s = rt::HostModule::load(*subject.bundle).moveTo(subject.module);
      !s)
    return s.takeError().withContext(printablePath(path));
  return subject;
}

static std::string registerOne(const std::string &name, int repetitions,
                               std::function<void(benchmark::State &)> body) {
  constexpr double seconds = 0.1; // at least, a repetition
  benchmark::RegisterBenchmark(name.c_str(), std::move(body))
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime()
      ->MinTime(seconds)
      ->Repetitions(repetitions)
      ->ReportAggregatesOnly(false);
  return name;
}

void bench::registerPeaks(int repetitions, std::vector<Row> &rows) {
  for (const PeakLoop &loop : peakLoops()) {
    // Short tasks, many for each thread, even out what threads lose to others.
    int64_t iterations = int64_t(100'000'000) / loop.operations;
    std::vector<int> counts = {1};
    if (rt::threadCount() > 1)
      counts.push_back(rt::threadCount());
    for (int threads : counts) {
      int64_t tasks = threads * 8;
      Row row;
      if (threads == rt::threadCount())
        row.loop = loop.name;
      row.operations =
          static_cast<double>(loop.operations * iterations * tasks);
      row.benchmark = registerOne(
          "peak/" + loop.name + "/threads:" + std::to_string(threads),
          repetitions, [=](benchmark::State &state) {
            for (auto _ : state) {
              if (threads == 1)
                for (int64_t task = 0; task < tasks; ++task)
                  loop.run(iterations);
              else
                rt::parallelFor(tasks,
                                [&](int64_t, int) { loop.run(iterations); });
            }
          });
      rows.push_back(row);
    }
  }
}

namespace {

/// The tensors and lists that one kernel variant is timed on; Q, K and V of one
/// sequence, rows of all heads together as in a model.
class Workload {
public:
  Workload(const Subject &subject, const Kernel &kernel,
           const KernelVariant &variant, int64_t n, int64_t heads)
      : variant(variant), n(n), heads(heads),
        grid({{(n - 1) / (kernel.kind == Kernel::Kind::Select
                              ? kernel.group
                              : variant.queryRows) +
                   1,
               n}},
             heads) {
    const std::vector<bundle::Selection> &selections =
        subject.bundle->manifest().selections;
    std::mt19937 random(1);
    // About what a dense row of such logits has; the time does not depend on
    // it.
    lse.assign(static_cast<size_t>(n * heads),
               std::log2(static_cast<float>(n)) + 0.7f);
    bool listed = rt::pairsDependOnLists(kernel.terms);
    std::vector<abi::IndexList> lists;
    std::vector<int64_t> groups;
    for (const Term &term : kernel.terms)
      if (readsList(term))
        addList(selections[term.selection], random, lists, groups);

    attention.lse = lse.data();
    attention.n = n;
    attention.queryStride = attention.keyStride = attention.valueStride =
        attention.outputStride = heads * variant.headDim;
    attention.kvGroup = 1;
    attention.scale =
        static_cast<float>(1 / std::sqrt(static_cast<double>(variant.headDim)));
    attention.heads = select.heads = static_cast<uint32_t>(heads);
    std::copy(lists.begin(), lists.end(), attention.lists);
    attention.rows = n;
    attention.sinks = bundle::sinkBound(kernel.terms, n);
    places.resize(static_cast<size_t>(n));
    std::iota(places.begin(), places.end(), 0);
    attention.place = attention.position = places.data();
    for (int64_t row = 0; row < n; row += variant.queryRows)
      firstRows.push_back(static_cast<int32_t>(row));
    firstRows.push_back(static_cast<int32_t>(n));
    attention.firstRow = firstRows.data();
    if (listed) {
      for (int64_t head = 0; head < heads; ++head)
        pairs += rt::pairsOfRows(kernel.terms, attention, head, groups);
    } else {
      pairs = heads * rt::fixedPairs(kernel.terms, n,
                                     lists.empty() ? 0 : lists.front().keep);
    }

    select.lse = lse.data();
    select.n = select.rowEnd = n;
    select.queryStride = select.keyStride = attention.queryStride;
    select.kvGroup = 1;
    select.scale = attention.scale;
    select.position = attention.position;
    if (kernel.kind == Kernel::Kind::Select) {
      bundle::Selection scored;
      scored.group = kernel.group;
      scored.scorer = kernel.scorer;
      scoredRows = scored.scoringRows(n);
      // As much as the bundle's selection of that group size keeps.
      for (const bundle::Selection &selection : selections) {
        const int64_t outer = selection.within;
        if (selection.group != kernel.group || select.list.indices ||
            (outer < 0 ? 0 : selections[outer].group) != kernel.withinGroup)
          continue;
        addList(selection, random, lists, groups);
        select.list = lists.back();
        if (outer < 0)
          continue;
        addList(selections[outer], random, lists, groups);
        select.within = lists.back();
        select.list.keep = std::min(
            select.list.keep, rt::keysToChoose(selections, selection, n, 0, 0));
      }
    }
    stride =
        (variant.scratchBytes + variant.scratchBytesPerKey * n + 63) / 64 * 64;
  }

  /// Allocates scratch and tensors (as the runtime does, so that large ones lie
  /// on huge pages) and fills the tensors. False when there is no such memory.
  bool reserve() {
    int64_t elements = n * heads * variant.headDim;
    int64_t bytes = elements * (variant.dtype == "f32" ? 4 : 2);
    auto take = [](rt::Buffer &buffer, int64_t size) {
      Result<rt::Buffer> memory = rt::Buffer::allocate(size);
      if (memory)
        buffer = std::move(*memory);
      return bool(memory);
    };
    if (!take(scratch, std::max<int64_t>(64, stride * rt::threadCount())))
      return false;
    std::mt19937 random(2);
    for (rt::Buffer *tensor : {&query, &key, &value, &output}) {
      if (!take(*tensor, bytes))
        return false;
      fill(*tensor, elements, random);
    }
    attention.query = select.query = query.data();
    attention.key = select.key = key.data();
    attention.value = value.data();
    attention.output = output.data();
    return true;
  }

  void run(abi::AttentionKernel entry) {
    rt::parallelFor(grid.size(), [&](int64_t task, int worker) {
      rt::TaskGrid::Task at = grid[task];
      entry(&attention, at.head, at.tile, scratch.data() + worker * stride);
    });
  }

  void run(abi::SelectKernel entry) {
    rt::parallelFor(grid.size(), [&](int64_t task, int worker) {
      rt::TaskGrid::Task at = grid[task];
      entry(&select, at.head, at.tile, scratch.data() + worker * stride);
    });
  }

  /// Two multiply-adds for each element of a pair's query: Q K^T and P V.
  double attentionOperations() const {
    return 4.0 * static_cast<double>(pairs * variant.headDim);
  }
  /// One: Q K^T.
  double selectOperations() const {
    return 2.0 * static_cast<double>(scoredRows * n * heads * variant.headDim);
  }

private:
  void fill(rt::Buffer &tensor, int64_t elements, std::mt19937 &random) const {
    std::normal_distribution<float> normal;
    if (variant.dtype == "f32")
      std::generate_n(tensor.as<float>(), elements,
                      [&] { return normal(random); });
    else
      std::generate_n(tensor.as<uint16_t>(), elements,
                      [&] { return rt::toBF16(normal(random)); });
  }

  void addList(const bundle::Selection &selection, std::mt19937 &random,
               std::vector<abi::IndexList> &lists,
               std::vector<int64_t> &groups) {
    // Of blocks as of one span: there is no prompt.
    const bool blocks = selection.kind == bundle::Selection::Kind::Blocks;
    const rt::BlockSpans spans = rt::blockSpans(selection, n, 0);
    int64_t keep = blocks ? spans.keep : selection.kept(n);
    int64_t count = (n - 1) / selection.group + 1;
    std::vector<int32_t> all(static_cast<size_t>(blocks ? spans.blocks : n));
    std::iota(all.begin(), all.end(), 0);
    std::vector<int32_t> &indices = memory.emplace_back();
    indices.reserve(static_cast<size_t>(heads * count * keep));
    for (int64_t list = 0; list < heads * count; ++list)
      std::sample(all.begin(), all.end(), std::back_inserter(indices), keep,
                  random);
    lists.push_back(bundle::int32Lists(indices.data(), count, keep));
    groups.push_back(selection.group);
  }

  const KernelVariant &variant;
  int64_t n, heads;
  rt::TaskGrid grid;
  rt::Buffer query, key, value, output;
  std::vector<float> lse;
  std::vector<std::vector<int32_t>> memory;
  std::vector<int32_t> places, firstRows;
  abi::AttentionArgs attention{};
  abi::SelectArgs select{};
  int64_t pairs = 0, scoredRows = 0;
  int64_t stride = 0;
  rt::Buffer scratch;
};

} // namespace

void bench::registerKernels(const Subject &subject, const Request &request,
                            std::vector<Row> &rows) {
  const bundle::Manifest &manifest = subject.bundle->manifest();
  for (const Kernel &kernel : manifest.kernels) {
    for (const KernelVariant &variant : kernel.variants) {
      if (variant.target != bundle::hostTarget(manifest) ||
          !asked(request.dtypes, variant.dtype) ||
          !asked(request.headDims, variant.headDim))
        continue;
      for (int64_t n : request.lengths) {
        bool select = kernel.kind == Kernel::Kind::Select;
        size_t at = rows.size();
        Row &row = rows.emplace_back();
        row.kind = select ? Row::Kind::Select : Row::Kind::Attention;
        row.dtype = variant.dtype;
        row.headDim = variant.headDim;
        row.length = n;
        row.dense = !select && kernel.terms.empty();
        row.writesLse = kernel.writesLse;
        // Made when first timed: all workloads at once could need more memory
        // than there is. Interleaved repetitions come back to them.
        auto work = std::make_shared<std::unique_ptr<Workload>>();
        row.benchmark = registerOne(
            subject.name + ":" + kernel.name + "/" + variant.dtype + "/d" +
                std::to_string(variant.headDim) + "/n" + std::to_string(n),
            request.repetitions,
            [=, &subject, &kernel, &variant, &rows,
             heads = request.heads](benchmark::State &state) {
              if (!*work) {
                *work = std::make_unique<Workload>(subject, kernel, variant, n,
                                                   heads);
                rows[at].operations = select ? (*work)->selectOperations()
                                             : (*work)->attentionOperations();
              }
              if (!(*work)->reserve()) {
                state.SkipWithError("not enough memory for scratch");
                return;
              }
              for (auto _ : state) {
                if (select)
                  (*work)->run(subject.module->select(variant.symbol));
                else
                  (*work)->run(subject.module->attention(variant.symbol));
              }
            });
      }
    }
  }
}
