//===- KernelHarness.h - Compiles, runs and checks kernels ------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiles kernels in process for a target, runs them on random sequences and
// holds the results against a float64 evaluation written here, from the
// definitions in bundle/abi/Abi.h alone.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_KERNELS_KERNELHARNESS_H
#define HEDDLE_TEST_UNIT_KERNELS_KERNELHARNESS_H

#include "bundle/abi/Abi.h"
#include "bundle/program/Manifest.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace heddle::test {

/// The targets that this machine can run, weakest first: x86-64-v3, x86-64-v4,
/// cooperlake (bf16 dot products), sapphirerapids (matrix tiles).
std::vector<std::string> runnableTargets();

/// Kernels of one shared object, loaded into this process.
class KernelSet {
public:
  /// `kernels` is the list of heddle.kernel ops of a plan, `selections` that of
  /// heddle.selection ops. Compiles every dtype and head dim; aborts with the
  /// compiler's diagnostics on failure.
  KernelSet(const std::string &target, const std::string &selections,
            const std::string &kernels, std::vector<std::string> dtypes,
            std::vector<int64_t> headDims);
  /// Of a module of shed.kernel ops, which are lowered in it.
  KernelSet(const std::string &target, mlir::ModuleOp kernels);
  ~KernelSet();
  KernelSet(const KernelSet &) = delete;

  struct Entry {
    void *function = nullptr;
    int64_t queryRows = 0, scratchBytes = 0, scratchBytesPerKey = 0;
  };
  const Entry &operator[](const std::string &symbol) const;
  const std::string &object() const { return bytes; }

private:
  void compile(const std::string &target, mlir::ModuleOp kernels);

  std::string bytes;
  void *library = nullptr;
  std::map<std::string, Entry> entries;
};

/// One sequence's inputs, in float (exactly representable in the dtype). Rows
/// of queries are compact: row r is the visible position at place[r].
struct Sequence {
  bool bf16 = false;
  int64_t n = 0, heads = 0, kvHeads = 0, headDim = 0;
  float scale = 0;
  std::vector<float> query, key, value; ///< [n x heads x headDim], padded rows
  std::vector<int32_t> place;           ///< of each row; at first all n
  std::vector<int32_t> position;        ///< of each key; at first its place
  int64_t queryStride = 0, kvStride = 0;
  int64_t length = 0; ///< positions, those that are left out with them

  Sequence(std::mt19937 &random, bool bf16, int64_t n, int64_t heads,
           int64_t kvHeads, int64_t headDim);
  int64_t rows() const { return static_cast<int64_t>(place.size()); }
  /// Leaves none, one, some or all of the rows, and some positions out.
  void thinOut(std::mt19937 &random);
  float v(int64_t j, int64_t h, int64_t c) const {
    return value[j * kvStride + h / (heads / kvHeads) * headDim + c];
  }
  /// Scaled logit of row r and key j times log2(e).
  double logit(int64_t r, int64_t j, int64_t h) const;
};

/// The block of a key, and how many there are: blocks start anew at `split`.
int64_t blockOf(int64_t key, int64_t size, int64_t split);
int64_t blocksOf(int64_t n, int64_t size, int64_t split);

/// An index list as the ABI has it.
struct List {
  int64_t group = 0, groups = 0, keep = 0, headsPerList = 1;
  bool blocks = false;
  int64_t split = 0;
  std::vector<int32_t> indices;
  /// Random ascending distinct keys for each row of lists and group.
  List(std::mt19937 &random, int64_t n, int64_t rows, int64_t group,
       int64_t keep);
  /// The same of blocks, up to all of them; some lists end in missing ones.
  static List ofBlocks(std::mt19937 &random, int64_t n, int64_t rows,
                       int64_t size, int64_t split);
  bool contains(int64_t h, int64_t i, int64_t j) const;
};

/// What becomes of a scaled logit (base e) of a query and a key at these
/// positions, in this query head.
using LogitFunction = std::function<double(double logit, int32_t query,
                                           int32_t key, int32_t head)>;

/// A union of terms; empty is dense.
struct Pattern {
  std::vector<bundle::Term> terms;
  std::vector<List> lists;   ///< of the Columns and Blocks terms, in order
  LogitFunction scores = {}; ///< none: logits stay as they are
  /// Logit of row r and key j times log2(e).
  double logit(const Sequence &s, int64_t r, int64_t j, int64_t h) const;
  /// Whether the row at place i attends to key j.
  bool contains(const Sequence &s, int64_t h, int64_t i, int64_t j) const;
  /// What a kernel with a share of sinks is told; -1 for others, which do not
  /// read it.
  int64_t sinksTold(const Sequence &s) const;
};

/// What a kernel wrote.
struct AttentionResult {
  std::vector<float> output; ///< [rows x heads x headDim]
  std::vector<float> lse;    ///< [heads x rows]
};

/// Places in memory and how many bytes each has.
using Arrays = std::vector<std::pair<const void *, int64_t>>;

/// Has `launch` run an attention kernel with these arguments, whose outputs are
/// poisoned. They name the arrays, and the pattern's lists.
AttentionResult withArguments(
    const Sequence &sequence, const Pattern &pattern,
    const std::function<void(abi::AttentionArgs &args, const Arrays &arrays)>
        &launch);

/// Runs all tasks of an attention kernel with poisoned outputs and scratch, and
/// fails the test where bytes around outputs or scratch have changed. Without
/// lists, `random` cuts the rows into tiles.
AttentionResult runAttention(const KernelSet::Entry &kernel,
                             const Sequence &sequence, const Pattern &pattern,
                             std::mt19937 &random);
AttentionResult evaluate(const Sequence &sequence, const Pattern &pattern);

/// What a select kernel is asked for.
struct Choice {
  int64_t group = 0, keep = 0, headsPerList = 1;
  int64_t split = 0, boundary = 0, spanKeep = 0;
  const float *spanLse = nullptr;
  /// Of one group for all rows, those that score; and keys that are always
  /// listed.
  int64_t rowBegin = 0, rowEnd = 0, alwaysBegin = 0, alwaysEnd = 0;
  abi::IndexList within{}; ///< that is chosen within
};

struct SelectResult {
  std::vector<int32_t> indices; ///< [lists x groups x keep]
  std::vector<float> scores;    ///< [lists x groups x n]
};
/// Has `launch` run a select kernel, once without and once with scores, which
/// fails the test if it chooses otherwise.
SelectResult withArguments(
    const Sequence &sequence, const std::vector<float> &lse,
    const Choice &choice,
    const std::function<void(abi::SelectArgs &args, const Arrays &arrays)>
        &launch);
SelectResult runSelect(const KernelSet::Entry &kernel, const Sequence &sequence,
                       const std::vector<float> &lse, const Choice &choice);

/// max |a - b| / max(least, max |b|); infinity if a NaN or infinity differs.
/// `least` is for sums that may cancel: one logit may be close to nothing.
double relativeError(const std::vector<float> &a, const std::vector<float> &b,
                     double least = 0);

/// The seed of this run, new each time unless HEDDLE_SEED is set.
uint32_t testSeed();

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_KERNELS_KERNELHARNESS_H
