//===- PeakLoops.h - The most that this CPU can multiply --------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_BENCH_PEAKLOOPS_H
#define HEDDLE_RUNTIME_BENCH_PEAKLOOPS_H

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::bench {

/// A loop of independent multiply-adds on registers: no memory, no waiting for
/// results. What it reaches is the peak that kernels are measured against.
struct PeakLoop {
  std::string name;    ///< "fma_f32", "dot_bf16", "amx_bf16"
  std::string feature; ///< LLVM's name of what the loop needs
  int64_t operations;  ///< floating-point operations an iteration; a
                       ///< multiply-add is two
  void (*run)(int64_t iterations);
};

/// The loops that this machine can run, the widest form of each.
std::vector<PeakLoop> peakLoops();

} // namespace heddle::bench

#endif // HEDDLE_RUNTIME_BENCH_PEAKLOOPS_H
