//===- CudaSubjects.h - What is timed on a GPU ------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_BENCH_CUDASUBJECTS_H
#define HEDDLE_RUNTIME_BENCH_CUDASUBJECTS_H

#include "bundle/format/Bundle.h"
#include "runtime/bench/CudaBench.h"
#include "runtime/device/cuda/Context.h"
#include "runtime/device/cuda/Module.h"
#include "runtime/device/cuda/Stream.h"
#include "runtime/engine/cuda/Weights.h"

#include <string>
#include <vector>

namespace heddle::bench {

/// A bundle on a device.
struct CudaSubject {
  std::string name;
  const bundle::Bundle *bundle = nullptr;
  const rt::cuda::Context *context = nullptr;
  const rt::cuda::Module *module = nullptr;
  const rt::cuda::Stream *stream = nullptr;
};

/// Every attention and select kernel at every length: random Q, K, V in one
/// matrix, lists of as many random keys as the bundle's selection keeps.
Status timeKernels(const CudaSubject &subject, const CudaRequest &request,
                   std::vector<CudaRow> &rows);

/// Attention kernels over all keys in their form for any rows, with
/// `request.rows` rows in each sequence, at every length.
Status timeFewRows(const CudaSubject &subject, const CudaRequest &request,
                   std::vector<CudaRow> &rows);

/// Every kind of step of a model at every length, with what attention and
/// products take of it; whole runs if asked.
Status timeSteps(const CudaSubject &subject, const rt::ModelConfig &config,
                 const rt::cuda::DeviceWeights &weights, rt::DType dtype,
                 const CudaRequest &request, std::vector<CudaRow> &rows);

} // namespace heddle::bench

#endif // HEDDLE_RUNTIME_BENCH_CUDASUBJECTS_H
