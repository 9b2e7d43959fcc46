//===- CudaBench.h - Timing kernels and steps on a GPU ----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Times are those of the device, between events. A figure is the median of
// several measurements, with the smallest and largest beside it; a measurement
// is one launch with the caches as the launch before left them ("warm") or
// with L2 full of something else ("cold").
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_BENCH_CUDABENCH_H
#define HEDDLE_RUNTIME_BENCH_CUDABENCH_H

#include "bundle/Result.h"
#include "runtime/tensor/DType.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace heddle::bench {

struct CudaRequest {
  std::vector<std::string> bundles;
  int ordinal = 0;
  std::vector<int64_t> lengths = {4096, 16384};
  std::vector<std::string> dtypes; ///< empty: all; of a model one, or bf16
  std::vector<int64_t> headDims;   ///< empty: all
  std::string kernel;              ///< how names of kernels start; empty: all
  int64_t heads = 32;
  int64_t kvHeads = 0; ///< 0: as many as query heads
  int repetitions = 15;

  /// Query rows of each sequence; 0: all. Else attention over all keys alone is
  /// timed, with caches of keys and values and so many sequences.
  int64_t rows = 0;
  int64_t sequences = 1;

  /// A folder with a config.json: steps of such a model, with random weights,
  /// are timed instead of kernels.
  std::string model;
  int64_t genLength = 128;
  int64_t steps = 128;
  bool wholeRuns = false; ///< also all steps of a run, one after the other

  /// Of the model's weights and activations.
  rt::DType modelType() const;
};

/// Milliseconds.
struct Times {
  double median = 0;
  double least = 0;
  double most = 0;
};

/// Of some measurements.
inline Times timesOf(std::vector<double> measured) {
  std::ranges::sort(measured);
  const size_t count = measured.size();
  return {(measured[(count - 1) / 2] + measured[count / 2]) / 2,
          measured.front(), measured.back()};
}

struct CudaRow {
  std::string bundle;
  std::string name; ///< a kernel's symbol, a kind of step
  std::string kind; ///< "dense", "attention", "select", "rows", "step", "run"
  std::string dtype;
  int64_t headDim = 0;
  int64_t length = 0;
  Times warm;
  Times cold;            ///< zero where it was not measured
  double operations = 0; ///< of kept pairs; 0: unknown
  double bytes = 0;      ///< of tensors, each once; 0: not asked
  double relative = 0;   ///< to dense attention, or to the dense step
  // Of a step, whose `warm` is the time of all layers; each measured by itself.
  // `rows` are the kernels between products and attention; the head, with its
  // product, draws and commits, comes after the layers.
  double attention = 0, products = 0, rows = 0, head = 0;
};

/// Times what is asked for; `device` gets the GPU's name. Progress goes to
/// standard error.
Result<std::vector<CudaRow>> runCudaBench(const CudaRequest &request,
                                          std::string &device);

std::string toTable(const std::vector<CudaRow> &rows);
std::string toJson(const std::vector<CudaRow> &rows, const std::string &device);

} // namespace heddle::bench

#endif // HEDDLE_RUNTIME_BENCH_CUDABENCH_H
