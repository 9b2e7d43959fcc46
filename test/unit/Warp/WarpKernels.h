//===- WarpKernels.h - Kernels from shed to results -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels go the whole way from `shed` to PTX, run on PtxMachine and are
// compared with float64. Sizes are odd, rows strided, outputs poisoned.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_WARP_WARPKERNELS_H
#define HEDDLE_TEST_UNIT_WARP_WARPKERNELS_H

#include "bundle/program/PairSets.h"
#include "heddle/Dialect/Shed/Transforms/Tuning.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <vector>

namespace mlir {
class RewritePatternSet;
class TypeConverter;
namespace shed {
class KernelOp;
} // namespace shed
} // namespace mlir

namespace heddle::test {

/// A kernel as PTX and what its launch needs.
struct Compiled {
  std::string ptx;
  int64_t sharedBytes = 0, queryRows = 0, mapRows = 0, cluster = 1;
  int64_t scratchBytes = 0, scratchBytesPerKey = 0;
  bool persistent = false, packed = false, writesLse = true;
};

/// A pass over keys: what its `shed.for_keys` is to have, and `shed.mask`, if
/// it is to be there.
struct KeySet {
  std::string over, skip = "", mask = "";
};

/// A kernel with one pass after the other. Without PTX where it has no form.
Compiled compile(const std::string &type, int headDim,
                 const std::string &tiling, const std::vector<KeySet> &passes,
                 const std::string &encoding = "",
                 const std::string &scores = "", bool sharedLists = false);
/// A kernel of `shed` or of the warp level. Without PTX where it has no form.
Compiled compileText(const std::string &text);
/// A kernel of `shed`, which `prepare` may change and for which `addPatterns`
/// adds patterns.
using Prepare = llvm::function_ref<void(mlir::shed::KernelOp)>;
using AddPatterns = llvm::function_ref<void(const mlir::TypeConverter &,
                                            mlir::RewritePatternSet &)>;
Compiled compileText(const std::string &text, Prepare prepare,
                     AddPatterns addPatterns);
/// Over one set of keys.
Compiled compile(const std::string &type, int headDim,
                 const std::string &tiling, const std::string &over = "all",
                 const std::string &encoding = "",
                 const std::string &scores = "");

std::string textOf(const mlir::shed::WgmmaRule &rule);
/// What the kernel of a rule goes over, with groups of as many rows as a tile.
std::string overOf(const mlir::shed::WgmmaRule &rule);

struct Problem {
  int64_t n, rows, heads, kvHeads;
  float scale;
  /// Of the inputs: maxima of rows then rise late, and by much.
  double spread = 1;
  /// What the query rows after the first one are multiplied by.
  double others = 1;
  /// A soft cap of logits, if not 0, and what each head's number adds to them.
  double cap = 0, bias = 0;
  /// What logits lose for each position between row and key.
  double slope = 0;
  /// Keys in a window or below a bound count beside those of lists, if >= 0.
  int64_t window = -1, sinks = -1;
  /// Whether keys stand apart from each other in the sequence.
  bool apart = false;
  /// Whether rows are those of some places.
  bool moved = false;
  /// Sets whose keys count beside those, too.
  std::vector<bundle::Term> sets = {};
  std::vector<bundle::Term> within = {}; ///< what keys of lists have to be in
  /// Blocks of a persistent kernel, or clusters if it has such.
  int64_t blocks = 3;
  /// What is added to logits of even rows, and subtracted from odd rows', so
  /// that they are large, and how much more from the first key to the last.
  double level = 0, rise = 0;
};

/// Random lists, one for a group of rows and a head, or those that share it.
/// The function that makes the problem's logits of products: its cap, what each
/// head's number adds and what positions take away, as `shed.scores` writes it.
std::string scoresOf(const Problem &problem);

struct Lists {
  int64_t group, keep;
  int64_t blockKeys = 0; ///< of lists of blocks, else 0
  int64_t split = 0;
  int64_t missing = 0; ///< entries of blocks at a list's end
  bool wide = true;    ///< int32, not uint16
  int64_t sharers = 1; ///< heads that share a list
  std::vector<std::vector<int32_t>> entries = {};
  std::vector<uint8_t> memory = {};

  int64_t blocksBefore() const { return (split + blockKeys - 1) / blockKeys; }
  int64_t groups(int64_t rows) const { return (rows + group - 1) / group; }
  int64_t rowBytes() const { return (keep * (wide ? 4 : 2) + 15) / 16 * 16; }

  void make(const Problem &p, std::mt19937_64 &random);

  /// Row: its place.
  std::vector<int64_t> keysOf(const Problem &p, int64_t head,
                              int64_t row) const;
};

class WarpKernels : public testing::Test {
protected:
  /// Runs the kernel and compares. What a block does that it must not is in
  /// `mistake`, if given, or fails the test. Returns the bits of the first row
  /// and, of kernels that are persistent or have packed rows, of all others.
  std::vector<uint16_t> check(const Compiled &code, bool bf16, int64_t headDim,
                              const Problem &problem, uint64_t seed,
                              std::string *mistake = nullptr,
                              Lists *lists = nullptr);
};

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_WARP_WARPKERNELS_H
