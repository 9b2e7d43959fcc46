//===- KernelHarness.cpp - Compiles and runs kernels ----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelHarness.h"

#include "bundle/abi/IndexLayout.h"
#include "heddle/Conversion/Passes.h"
#include "heddle/Dialect/Heddle/IR/Heddle.h"
#include "heddle/Dialect/Shed/Transforms/Passes.h"
#include "heddle/Target/Host/HostCodegen.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace heddle;
using namespace heddle::test;

[[noreturn]] static void fail(const std::string &what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

/// Linux gives AMX only to processes that ask for it.
static bool requestTiles() {
  constexpr int requestPermission = 0x1023, tileData = 18;
  static bool granted =
      syscall(SYS_arch_prctl, requestPermission, tileData) == 0;
  return granted;
}

std::vector<std::string> heddle::test::runnableTargets() {
  std::vector<std::string> runnable;
  llvm::Expected<HostTarget> host = HostTarget::get("host");
  if (!host) {
    llvm::consumeError(host.takeError());
    return runnable;
  }
  // cooperlake has bf16 dot products; znver5's kernels fetch rows ahead, too.
  for (const char *name :
       {"x86-64-v3", "x86-64-v4", "cooperlake", "znver5", "sapphirerapids"}) {
    HostTarget target = llvm::cantFail(HostTarget::get(name));
    bool all = true;
    for (const std::string &feature : target.description().features)
      all &= host->has(feature);
    if (all && (!target.hasBf16Tiles() || requestTiles()))
      runnable.push_back(name);
  }
  return runnable;
}

KernelSet::KernelSet(const std::string &target, const std::string &selections,
                     const std::string &kernels,
                     std::vector<std::string> dtypes,
                     std::vector<int64_t> headDims) {
  using namespace mlir;
  DialectRegistry registry;
  registry.insert<mlir::heddle::HeddleDialect, shed::ShedDialect>();
  mlir::heddle::registerBackendDialects(registry);
  MLIRContext context(registry);
  std::string first = kernels.substr(kernels.find('@'));
  first = first.substr(0, first.find(' '));
  std::string text = "heddle.plan @plan {\n" + selections + kernels +
                     "heddle.rule default { heddle.phase otherwise { "
                     "heddle.attend_with " +
                     first + " } } }";
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    fail("cannot parse:\n" + text);
  PassManager pm(&context);
  mlir::heddle::ConvertHeddleToShedOptions options;
  options.dtypes.assign(dtypes.begin(), dtypes.end());
  options.headDims.assign(headDims.begin(), headDims.end());
  pm.addPass(mlir::heddle::createConvertHeddleToShed(options));
  if (failed(pm.run(*module)))
    fail("cannot lower:\n" + text);
  compile(target, *module);
}

KernelSet::KernelSet(const std::string &target, mlir::ModuleOp kernels) {
  compile(target, kernels);
}

void KernelSet::compile(const std::string &target, mlir::ModuleOp module) {
  using namespace mlir;
  HostTarget host = llvm::cantFail(HostTarget::get(target));
  PassManager pm(module.getContext());
  pm.addPass(shed::createShedChooseTiles(host));
  pm.addPass(shed::createShedVerifyKernels(host));
  pm.addPass(mlir::heddle::createConvertShedToVector());
  if (failed(pm.run(module)))
    fail("cannot lower kernels");
  FailureOr<std::string> object =
      mlir::heddle::emitHostSharedObject(module, host);
  if (failed(object))
    fail("cannot compile kernels");
  bytes = *object;

  char path[] = "/tmp/heddle-kernels-XXXXXX";
  int file = mkstemp(path);
  if (file < 0 || write(file, object->data(), object->size()) !=
                      static_cast<ssize_t>(object->size()))
    fail("cannot write a temporary file");
  close(file);
  library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  unlink(path);
  if (!library)
    fail(dlerror());
  for (const mlir::heddle::KernelRecord &kernel :
       mlir::heddle::collectKernels(module)) {
    Entry entry;
    entry.function = dlsym(library, kernel.symbol.c_str());
    if (!entry.function)
      fail("not exported: " + kernel.symbol);
    entry.queryRows = kernel.queryRows;
    entry.scratchBytes = kernel.scratchBytes;
    entry.scratchBytesPerKey = kernel.scratchBytesPerKey;
    entries[kernel.symbol] = entry;
  }
}

KernelSet::~KernelSet() { dlclose(library); }

const KernelSet::Entry &KernelSet::operator[](const std::string &symbol) const {
  auto entry = entries.find(symbol);
  if (entry == entries.end())
    fail("no kernel " + symbol);
  return entry->second;
}

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

static uint16_t toBf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static float fromBf16(uint16_t x) {
  uint32_t bits = static_cast<uint32_t>(x) << 16;
  float result;
  std::memcpy(&result, &bits, 4);
  return result;
}

Sequence::Sequence(std::mt19937 &random, bool bf16, int64_t n, int64_t heads,
                   int64_t kvHeads, int64_t headDim)
    : bf16(bf16), n(n), heads(heads), kvHeads(kvHeads), headDim(headDim),
      scale(1.0f / std::sqrt(static_cast<float>(headDim))) {
  // Rows further apart than they need be.
  queryStride = heads * headDim + 8;
  kvStride = kvHeads * headDim + 24;
  std::normal_distribution<float> normal(0.0f, 1.0f);
  auto fill = [&](std::vector<float> &data, int64_t count) {
    data.resize(count);
    for (float &x : data)
      x = bf16 ? fromBf16(toBf16(normal(random))) : normal(random);
  };
  fill(query, n * queryStride);
  fill(key, n * kvStride);
  fill(value, n * kvStride);
  place.resize(n);
  std::iota(place.begin(), place.end(), 0);
  position = place;
  length = n;
}

void Sequence::thinOut(std::mt19937 &random) {
  // Each gap between positions is 0, 0, 0, 1, 2, ... wide.
  int32_t next = static_cast<int32_t>(random() % 4);
  for (int32_t &p : position) {
    p = next;
    next += 1 + std::max(0, static_cast<int32_t>(random() % 6) - 2);
  }
  length = next + static_cast<int32_t>(random() % 50);
  int64_t counts[] = {0, 1, n, static_cast<int64_t>(random() % (n + 1)),
                      static_cast<int64_t>(random() % (n + 1))};
  std::vector<int32_t> all(n);
  std::iota(all.begin(), all.end(), 0);
  place.clear();
  std::sample(all.begin(), all.end(), std::back_inserter(place),
              counts[random() % 5], random);
}

double Sequence::logit(int64_t r, int64_t j, int64_t h) const {
  const float *q = &query[r * queryStride + h * headDim];
  const float *k = &key[j * kvStride + h / (heads / kvHeads) * headDim];
  // Sums that do not wait for each other; head dims are multiples of eight.
  constexpr int64_t lanes = 8;
  double sums[lanes] = {};
  for (int64_t c = 0; c < headDim; c += lanes)
    for (int64_t lane = 0; lane < lanes; ++lane)
      sums[lane] += static_cast<double>(q[c + lane]) * k[c + lane];
  double sum = std::accumulate(sums, sums + lanes, 0.0);
  return sum * scale * 1.4426950408889634;
}

int64_t heddle::test::blockOf(int64_t key, int64_t size, int64_t split) {
  if (key < split)
    return key / size;
  return blocksOf(split, size, 0) + (key - split) / size;
}

int64_t heddle::test::blocksOf(int64_t n, int64_t size, int64_t split) {
  return n == 0 ? 0 : blockOf(n - 1, size, split) + 1;
}

List::List(std::mt19937 &random, int64_t n, int64_t rows, int64_t group,
           int64_t keep)
    : group(group), groups((n + group - 1) / group), keep(keep) {
  std::vector<int32_t> all(n);
  for (int64_t j = 0; j < n; ++j)
    all[j] = static_cast<int32_t>(j);
  for (int64_t g = 0; g < rows * groups; ++g)
    std::sample(all.begin(), all.end(), std::back_inserter(indices), keep,
                random);
}

List List::ofBlocks(std::mt19937 &random, int64_t n, int64_t rows, int64_t size,
                    int64_t split) {
  int64_t count = blocksOf(n, size, split);
  List list(random, count, rows, 1, 1 + random() % count);
  // As many lists as the sequence has groups, which may be fewer than blocks.
  list.group = size;
  list.groups = (n + size - 1) / size;
  list.indices.resize(rows * list.groups * list.keep);
  list.blocks = true;
  list.split = split;
  for (size_t end = list.keep; end <= list.indices.size(); end += list.keep)
    for (size_t missing = random() % 3 ? 0 : random() % (list.keep + 1);
         missing > 0; --missing)
      list.indices[end - missing] = -1;
  return list;
}

bool List::contains(int64_t h, int64_t i, int64_t j) const {
  auto from = indices.begin() + (h / headsPerList * groups + i / group) * keep;
  int64_t entry = blocks ? blockOf(j, group, split) : j;
  return std::find(from, from + keep, static_cast<int32_t>(entry)) !=
         from + keep;
}

static int64_t sinksOf(const bundle::Term &term, const Sequence &s) {
  if (term.share.num == 0)
    return term.size;
  return std::max<int64_t>(1, s.length * term.share.num / term.share.den);
}

int64_t Pattern::sinksTold(const Sequence &s) const {
  int64_t most = -1;
  bool share = false;
  for (const bundle::Term &term : terms)
    if (term.kind == bundle::Term::Kind::Sinks && term.within.empty()) {
      share |= term.share.num > 0;
      most = std::max(most, sinksOf(term, s));
    }
  return share ? most : -1;
}

bool Pattern::contains(const Sequence &s, int64_t h, int64_t i,
                       int64_t j) const {
  size_t list = 0;
  for (const bundle::Term &term : terms) {
    const bool holds = bundle::withSet(term, [&](auto set) {
      if constexpr (bundle::listed<decltype(set)>)
        return lists[list++].contains(h, i, j);
      else
        return set.holds(term, s.position[i], s.position[j], sinksOf(term, s));
    });
    if (holds && bundle::isWithin(term, s.position[i], s.position[j], -1))
      return true;
  }
  return terms.empty();
}

double Pattern::logit(const Sequence &s, int64_t r, int64_t j,
                      int64_t h) const {
  double logit = s.logit(r, j, h);
  if (!scores)
    return logit;
  constexpr double log2e = 1.4426950408889634;
  return scores(logit / log2e, s.position[s.place[r]], s.position[j],
                static_cast<int32_t>(h)) *
         log2e;
}

AttentionResult heddle::test::evaluate(const Sequence &s,
                                       const Pattern &pattern) {
  AttentionResult result;
  result.output.resize(s.rows() * s.heads * s.headDim);
  result.lse.resize(s.heads * s.rows());
  for (int64_t h = 0; h < s.heads; ++h)
    for (int64_t r = 0; r < s.rows(); ++r) {
      std::vector<std::pair<int64_t, double>> logits;
      double top = -std::numeric_limits<double>::infinity();
      for (int64_t j = 0; j < s.n; ++j)
        if (pattern.contains(s, h, s.place[r], j)) {
          logits.emplace_back(j, pattern.logit(s, r, j, h));
          top = std::max(top, logits.back().second);
        }
      double sum = 0;
      std::vector<double> row(s.headDim);
      for (auto [j, x] : logits) {
        if (std::isinf(x))
          continue; // masked
        double p = std::exp2(x - top);
        sum += p;
        for (int64_t c = 0; c < s.headDim; ++c)
          row[c] += p * s.v(j, h, c);
      }
      for (int64_t c = 0; c < s.headDim; ++c)
        result.output[(r * s.heads + h) * s.headDim + c] =
            static_cast<float>(sum > 0 ? row[c] / sum : 0.0);
      result.lse[h * s.rows() + r] = static_cast<float>(top + std::log2(sum));
    }
  return result;
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

namespace {

/// Bytes with guards around them, poisoned as NaN.
class Guarded {
public:
  explicit Guarded(int64_t size)
      : size(size), memory(static_cast<uint8_t *>(std::aligned_alloc(
                        64, (size + 2 * guard + 63) / 64 * 64))) {
    std::memset(memory, 0xff, size + 2 * guard);
  }
  ~Guarded() { std::free(memory); }
  Guarded(const Guarded &) = delete;
  uint8_t *data() { return memory + guard; }
  void poison() { std::memset(data(), 0xff, size); }
  bool intact() const {
    for (int64_t i = 0; i < guard; ++i)
      if (memory[i] != 0xff || memory[guard + size + i] != 0xff)
        return false;
    return true;
  }

private:
  static constexpr int64_t guard = 4096;
  int64_t size;
  uint8_t *memory;
};

/// A copy of `data` in its dtype that ends where its memory ends.
class Input {
public:
  Input(const std::vector<float> &data, bool bf16) {
    if (bf16) {
      words.reserve(data.size());
      for (float x : data)
        words.push_back(toBf16(x));
      pointer = words.data();
    } else {
      floats = data;
      pointer = floats.data();
    }
  }
  const void *pointer = nullptr;

private:
  std::vector<uint16_t> words;
  std::vector<float> floats;
};

} // namespace

/// The first row of each tile, and the number of rows.
static std::vector<int32_t> cutRows(const Sequence &s, const Pattern &pattern,
                                    int64_t queryRows, std::mt19937 &random) {
  std::vector<int32_t> first = {0};
  auto rows = static_cast<int32_t>(s.rows());
  if (pattern.lists.empty()) {
    // Some have none.
    while (first.back() < rows)
      first.push_back(std::min(
          rows, first.back() +
                    static_cast<int32_t>(random() % 2 ? queryRows
                                                      : random() % queryRows)));
    return first;
  }
  for (int64_t end = queryRows; end < s.n + queryRows; end += queryRows)
    first.push_back(static_cast<int32_t>(
        std::lower_bound(s.place.begin(), s.place.end(), end) -
        s.place.begin()));
  return first;
}

AttentionResult heddle::test::withArguments(
    const Sequence &s, const Pattern &pattern,
    const std::function<void(abi::AttentionArgs &, const Arrays &)> &launch) {
  int64_t elementBytes = s.bf16 ? 2 : 4;
  int64_t stride = s.heads * s.headDim;
  Guarded output(s.rows() * stride * elementBytes);
  Guarded lse(s.heads * s.rows() * 4);
  Input query(s.query, s.bf16), key(s.key, s.bf16), value(s.value, s.bf16);
  abi::AttentionArgs args = {};
  args.query = query.pointer;
  args.key = key.pointer;
  args.value = value.pointer;
  args.output = output.data();
  args.lse = reinterpret_cast<float *>(lse.data());
  args.n = s.n;
  args.queryStride = s.queryStride;
  args.keyStride = args.valueStride = s.kvStride;
  args.outputStride = stride;
  args.kvGroup = s.heads / s.kvHeads;
  args.scale = s.scale;
  args.heads = static_cast<uint32_t>(s.heads);
  for (size_t i = 0; i < pattern.lists.size(); ++i) {
    const List &list = pattern.lists[i];
    args.lists[i] = bundle::int32Lists(
        const_cast<int32_t *>(list.indices.data()), list.groups, list.keep);
    args.lists[i].split = list.split;
    args.lists[i].headsPerList = list.headsPerList;
  }
  args.rows = s.rows();
  args.place = s.place.data();
  args.position = s.position.data();
  args.sinks = pattern.sinksTold(s);
  launch(args, {{query.pointer, std::ssize(s.query) * elementBytes},
                {key.pointer, std::ssize(s.key) * elementBytes},
                {value.pointer, std::ssize(s.value) * elementBytes},
                {output.data(), s.rows() * stride * elementBytes},
                {lse.data(), s.heads * s.rows() * 4},
                {s.place.data(), s.rows() * 4},
                {s.position.data(), s.n * 4}});
  EXPECT_TRUE(output.intact()) << "wrote outside of the output";
  EXPECT_TRUE(lse.intact()) << "wrote outside of the log-sum-exp";
  AttentionResult result;
  for (int64_t i = 0; i < s.rows() * stride; ++i)
    result.output.push_back(
        s.bf16 ? fromBf16(reinterpret_cast<uint16_t *>(output.data())[i])
               : reinterpret_cast<float *>(output.data())[i]);
  result.lse.assign(args.lse, args.lse + s.heads * s.rows());
  return result;
}

AttentionResult heddle::test::runAttention(const KernelSet::Entry &kernel,
                                           const Sequence &s,
                                           const Pattern &pattern,
                                           std::mt19937 &random) {
  std::vector<int32_t> firstRow = cutRows(s, pattern, kernel.queryRows, random);
  Guarded scratch(kernel.scratchBytes + kernel.scratchBytesPerKey * s.n);
  return withArguments(
      s, pattern, [&](abi::AttentionArgs &args, const Arrays &) {
        args.firstRow = firstRow.data();
        auto call = reinterpret_cast<abi::AttentionKernel>(kernel.function);
        for (int64_t h = s.heads - 1; h >= 0; --h)
          for (size_t task = 0; task + 1 < firstRow.size(); ++task) {
            scratch.poison();
            call(&args, h, static_cast<int64_t>(task), scratch.data());
          }
        EXPECT_TRUE(scratch.intact()) << "wrote outside of scratch";
      });
}

SelectResult heddle::test::withArguments(
    const Sequence &s, const std::vector<float> &lse, const Choice &choice,
    const std::function<void(abi::SelectArgs &, const Arrays &)> &launch) {
  int64_t groups = (s.n + choice.group - 1) / choice.group;
  int64_t rows = s.heads / choice.headsPerList, keep = choice.keep;
  Guarded indices(rows * groups * keep * 4);
  Guarded scores(rows * groups * s.n * 4);
  Input query(s.query, s.bf16), key(s.key, s.bf16);
  abi::SelectArgs args = {};
  args.query = query.pointer;
  args.key = key.pointer;
  args.lse = lse.data();
  args.n = s.n;
  args.queryStride = s.queryStride;
  args.keyStride = s.kvStride;
  args.kvGroup = s.heads / s.kvHeads;
  args.scale = s.scale;
  args.heads = static_cast<uint32_t>(s.heads);
  auto *keys = reinterpret_cast<int32_t *>(indices.data());
  args.list = bundle::int32Lists(keys, groups, keep);
  args.list.split = choice.split;
  args.list.headsPerList = choice.headsPerList;
  args.boundary = choice.boundary;
  args.spanKeep = choice.spanKeep;
  args.spanLse = choice.spanLse;
  args.rowBegin = choice.rowBegin;
  args.rowEnd = choice.rowEnd;
  args.alwaysBegin = choice.alwaysBegin;
  args.alwaysEnd = choice.alwaysEnd;
  args.within = choice.within;
  args.position = s.position.data();
  const int64_t elementBytes = s.bf16 ? 2 : 4;
  const Arrays arrays = {
      {query.pointer, std::ssize(s.query) * elementBytes},
      {key.pointer, std::ssize(s.key) * elementBytes},
      {lse.data(), std::ssize(lse) * 4},
      {choice.spanLse, choice.spanLse ? std::ssize(lse) * 4 : 0},
      {scores.data(), rows * groups * s.n * 4},
      {s.position.data(), s.n * 4}};
  SelectResult result;
  // Once without and once with scores: the same selection.
  for (bool withScores : {false, true}) {
    args.scores =
        withScores ? reinterpret_cast<float *>(scores.data()) : nullptr;
    indices.poison();
    launch(args, arrays);
    std::vector<int32_t> got(keys, keys + rows * groups * keep);
    if (withScores)
      EXPECT_EQ(got, result.indices) << "observing scores changed them";
    result.indices = got;
  }
  EXPECT_TRUE(indices.intact()) << "wrote outside of the indices";
  EXPECT_TRUE(scores.intact()) << "wrote outside of the scores";
  result.scores.assign(args.scores, args.scores + rows * groups * s.n);
  return result;
}

SelectResult heddle::test::runSelect(const KernelSet::Entry &kernel,
                                     const Sequence &s,
                                     const std::vector<float> &lse,
                                     const Choice &choice) {
  EXPECT_EQ(kernel.queryRows, std::min(choice.group, bundle::maxQueryRows));
  Guarded scratch(kernel.scratchBytes + kernel.scratchBytesPerKey * s.n);
  auto call = reinterpret_cast<abi::SelectKernel>(kernel.function);
  return withArguments(
      s, lse, choice, [&](abi::SelectArgs &args, const Arrays &) {
        for (int64_t row = 0; row < s.heads / choice.headsPerList; ++row)
          for (int64_t g = 0; g < args.list.groups; ++g) {
            scratch.poison();
            call(&args, row, g, scratch.data());
          }
        EXPECT_TRUE(scratch.intact()) << "wrote outside of scratch";
      });
}

double heddle::test::relativeError(const std::vector<float> &a,
                                   const std::vector<float> &b, double least) {
  double worst = 0, largest = least;
  for (size_t i = 0; i < b.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) {
      if (a[i] != b[i])
        return std::numeric_limits<double>::infinity();
      continue;
    }
    worst = std::max(worst, std::fabs(static_cast<double>(a[i]) - b[i]));
    largest = std::max(largest, std::fabs(static_cast<double>(b[i])));
  }
  return largest > 0 ? worst / largest : worst;
}

uint32_t heddle::test::testSeed() {
  static uint32_t seed = [] {
    const char *given = std::getenv("HEDDLE_SEED");
    uint32_t value =
        given ? static_cast<uint32_t>(std::strtoul(given, nullptr, 10))
              : std::random_device()();
    std::printf("seed: HEDDLE_SEED=%u\n", value);
    return value;
  }();
  return seed;
}
