//===- Problem.h - Random inputs of a kernel --------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEST_CONFORMANCE_PROBLEM_H
#define HEDDLE_RUNTIME_TEST_CONFORMANCE_PROBLEM_H

#include "bundle/abi/Abi.h"
#include "bundle/program/Manifest.h"
#include "runtime/tensor/DType.h"
#include "runtime/test/conformance/GuardedBuffer.h"

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace heddle::conformance {

/// What the values look like.
enum class Values {
  Normal,    ///< all normally distributed, logits of size 1
  Peaked,    ///< logits of size 4: few keys matter
  Rising,    ///< logits grow with the key: every tile raises the maximum
  Shifted,   ///< logits near 200: exp overflows unless the maximum is taken off
  EqualKeys, ///< all keys are the same: every score ties
  Twins,     ///< the second half of the keys repeats the first
};
inline constexpr Values allValues[] = {Values::Normal,    Values::Peaked,
                                       Values::Rising,    Values::Shifted,
                                       Values::EqualKeys, Values::Twins};
std::string toString(Values values);

/// Shape of one sequence.
struct Shape {
  int64_t n = 1;
  int64_t kvHeads = 1;
  int64_t ratio = 1; ///< query heads per key/value head
  int64_t headDim = 64;
  int64_t padding = 0; ///< elements between rows
  rt::DType dtype = rt::DType::F32;
  Values values = Values::Normal;
  int64_t queryHeads() const { return kvHeads * ratio; }
};
std::string toString(const Shape &shape);

/// Q, K and V of one sequence in guarded, read-only memory; what lies between
/// their rows is NaN. Output and log-sum-exp are poisoned.
class Problem {
public:
  Problem(const Shape &shape, std::mt19937_64 &random);

  const Shape shape;
  /// Output and lse point to the buffers below; no lists. At first all rows of
  /// a sequence without gaps; tiles are the kernel's business.
  abi::AttentionArgs args{};
  GuardedBuffer query, key, value, output, lse, place, position;

  /// Leaves out rows: none, some, all but one or all of them.
  void sampleRows(std::mt19937_64 &random);
  /// All rows and keys again.
  void takeAllRows();
  /// All rows over some keys that follow each other, as few as one: there may
  /// be more rows than keys. For kernels of takesParts().
  void takeSomeKeys(std::mt19937_64 &random);
  /// Leaves out rows and positions.
  void thinOut(std::mt19937_64 &random);
  /// Tells kernels of these terms how many sinks there are, if that is a share
  /// of all positions: some are behind the last one that is visible.
  void setSinks(const bundle::Kernel &kernel);

  void poisonOutputs() {
    output.poison();
    lse.poison();
  }
};

/// Whether a kernel's keys may begin anywhere in the sequence: it reads no
/// place.
inline bool takesParts(const bundle::Kernel &kernel) {
  return kernel.terms.empty() && !kernel.scores.usesPositions();
}

/// Index lists of random keys or blocks in guarded memory.
struct RandomLists {
  /// As the selection has them: `keep` of the n keys, or about as large a share
  /// of the blocks, which start anew somewhere in every other sequence; some
  /// lists of blocks lack entries at their end, but where all are `whole`.
  RandomLists(const Shape &shape, const bundle::Selection &selection,
              int64_t keep, std::mt19937_64 &random, bool whole = false);
  GuardedBuffer memory;
  abi::IndexList list;

private:
  struct Form {
    int64_t rows, groups, keep;
    int64_t entries; ///< numbers to choose from
    int64_t split = 0, headsPerList = 1;
    bool lacking = false; ///< some lack entries
  };
  RandomLists(const Form &form, std::mt19937_64 &random);
  static Form formOf(const Shape &shape, const bundle::Selection &selection,
                     int64_t keep, std::mt19937_64 &random);
};

/// Scratch memory as a manifest's variant asks for it.
std::unique_ptr<GuardedBuffer> scratchFor(const bundle::KernelVariant &variant,
                                          int64_t n);

/// What a comparison found.
struct Finding {
  int64_t cases = 0;
  double worst = 0;    ///< largest relative error
  double share = 0;    ///< largest error / what was allowed there
  std::string failure; ///< the first one, empty if none

  bool ok() const { return failure.empty(); }
  void fail(const std::string &what) {
    if (failure.empty())
      failure = what;
  }
  /// Records an error and fails if it is above `allowed` (or NaN).
  void measure(double error, double allowed, const std::string &what);
};

/// Largest relative error that a result may have. Rounding in a logit becomes a
/// relative error of a probability that grows with the logit, so results with a
/// large log-sum-exp (in powers of two) are allowed more.
double allowedError(rt::DType dtype, double lse);

/// What CUDA kernels' logits may be off by, relative: the machine's tanh, which
/// 16-bit kernels take, is within 2^-11.
double cudaLogitError(const bundle::Kernel &kernel, rt::DType dtype);

/// False if `name` is no element type that attention is defined for.
bool parseDType(const std::string &name, rt::DType &dtype);

} // namespace heddle::conformance

#endif // HEDDLE_RUNTIME_TEST_CONFORMANCE_PROBLEM_H
