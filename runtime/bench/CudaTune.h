//===- CudaTune.h - Measuring tilings on a GPU ------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_BENCH_CUDATUNE_H
#define HEDDLE_RUNTIME_BENCH_CUDATUNE_H

#include "runtime/bench/CudaBench.h"
#include "runtime/bench/Tuning.h"

namespace heddle::bench {

/// Measures the candidates, each for `tune.seconds` back to back, so that the
/// GPU's power limit holds for all. `device` gets the GPU's name.
Result<TuneResult> runTuning(const CudaRequest &request,
                             const TuneRequest &tune,
                             const std::vector<Candidate> &candidates,
                             std::string &device);

} // namespace heddle::bench

#endif // HEDDLE_RUNTIME_BENCH_CUDATUNE_H
