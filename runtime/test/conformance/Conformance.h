//===- Conformance.h - Kernels of a bundle against float64 ------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEST_CONFORMANCE_CONFORMANCE_H
#define HEDDLE_RUNTIME_TEST_CONFORMANCE_CONFORMANCE_H

#include "bundle/Result.h"
#include "bundle/format/Bundle.h"
#include "runtime/module/HostModule.h"
#include "runtime/reference/Reference.h"
#include "runtime/test/conformance/Problem.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace heddle::conformance {

struct Options {
  uint64_t seed = 1;
  std::vector<int64_t> lengths = {1,  2,   15,  16,  17,  63,  64,
                                  65, 100, 127, 128, 129, 257, 500};
  std::vector<int64_t> ratios = {1, 7}; ///< query heads per key/value head
  std::string kernel; ///< only kernels with this in their symbols
  /// Of GPUs: whether tensors of more than 4 GiB are tried, and whether memory
  /// is poisoned that nothing has written (else it is as it was allocated).
  bool wide = true, poison = true;

  bool asksFor(const bundle::KernelVariant &variant) const {
    return variant.symbol.find(kernel) != std::string::npos;
  }
  /// What is wrong where no kernel is asked for.
  Error nothingFound() const {
    return Error("no kernel for this device has \"" + kernel +
                 "\" in its name");
  }
};

/// Outputs and log-sum-exp of one attention kernel variant: relative error, no
/// write outside of a task's rows, none outside of the tensors, no dependence
/// on scratch contents or task order, every element written. Column terms get
/// random lists of one key, of some and of all keys.
Finding checkAttention(const bundle::Manifest &manifest,
                       const bundle::Kernel &kernel,
                       const bundle::KernelVariant &variant,
                       abi::AttentionKernel entry, const Options &options);

/// Scores and lists of one select kernel variant: scores against float64, lists
/// against brute force on the kernel's own scores, the same lists when no
/// scores are asked for.
Finding checkSelect(const bundle::Kernel &kernel,
                    const bundle::KernelVariant &variant,
                    abi::SelectKernel entry, const Options &options);

/// The whole step program through ScheduleExecutor on a ragged batch against
/// ReferenceExecutor, with the lists that the select kernels choose.
Finding checkProgram(const bundle::Bundle &bundle, rt::DType dtype,
                     int64_t headDim, const Options &options);

/// Compares a row of output and log-sum-exp in `problem` with the definition.
/// `logitError`: what functions of logits may be off by, relative.
void compareAttentionRow(Problem &problem, bool hasLse, int64_t head,
                         int64_t row, const rt::reference::RowResult &expected,
                         double logitError, const std::string &name,
                         Finding &finding);

/// Scores of a list's keys or blocks beside their definitions. `lses`: [heads,
/// n], those that the scores were made with; `heads` of them from `head` on and
/// the rows [begin, end) share the list. `allowed`: the error that scores may
/// have, by the largest log-sum-exp of these; of logits, which are sums in f32
/// and have lost the least one's size, that of f32 beside the largest.
void compareSelectScores(const bundle::Kernel &kernel,
                         std::span<const float> found,
                         const std::vector<double> &expected, const float *lses,
                         int64_t n, int64_t head, int64_t heads, int64_t begin,
                         int64_t end,
                         const std::function<double(double)> &allowed,
                         const std::string &where, Finding &finding);

/// A finding as a line of a report.
std::string lineOf(const std::string &name, const Finding &finding);

/// Everything above for all host variants of a bundle. `report` gets one line
/// each. An error when the bundle cannot be run here; else whether all conform.
Result<bool>
checkBundle(const bundle::Bundle &bundle, const Options &options,
            const std::function<void(const std::string &)> &report);

} // namespace heddle::conformance

#endif // HEDDLE_RUNTIME_TEST_CONFORMANCE_CONFORMANCE_H
