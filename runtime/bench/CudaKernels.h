//===- CudaKernels.h - Kernels to be timed on a GPU -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_BENCH_CUDAKERNELS_H
#define HEDDLE_RUNTIME_BENCH_CUDAKERNELS_H

#include "runtime/bench/CudaSubjects.h"
#include "runtime/device/cuda/Arena.h"

#include <utility>
#include <vector>

namespace heddle::bench {

using KernelAndVariant =
    std::pair<const bundle::Kernel *, const bundle::KernelVariant *>;

/// The kernels of the bundle's code on the device that a run of all rows takes,
/// of those that are asked for.
std::vector<KernelAndVariant> kernelsAsked(const CudaSubject &subject,
                                           const CudaRequest &request);

/// Whether the kernel's lists hold the numbers of `n` keys.
bool takesLength(const KernelAndVariant &which, int64_t n);

/// One kernel at one length, with random tensors and random lists.
class KernelSubject {
public:
  KernelSubject(const CudaSubject &subject, const KernelAndVariant &which,
                int64_t n, const CudaRequest &request);

  Status prepare();
  Status launch(const rt::cuda::Stream &stream) const;

  /// Multiplications and additions of kept pairs.
  double operations() const {
    double perPair = selects() ? 2 : 4;
    return perPair * static_cast<double>(pairs) *
           static_cast<double>(variant.headDim);
  }

private:
  Status fillLists(const bundle::Selection &selection, size_t c,
                   abi::AttentionArgs &args);
  Status prepareSelection(const abi::AttentionArgs &args);
  template <typename Args> Status upload(Args args);
  int64_t keptOf(const bundle::Selection &selection) const;
  bool selects() const { return kernel.kind == bundle::Kernel::Kind::Select; }
  int64_t listRows(const bundle::Selection &selection) const {
    return heads / selection.headsPerList(heads, kvHeads);
  }
  template <typename T> T *address(rt::cuda::ArenaPlan::Slot slot) const {
    return reinterpret_cast<T *>(static_cast<uintptr_t>(memory[slot]));
  }

  const CudaSubject &subject;
  const bundle::Kernel &kernel;
  const bundle::KernelVariant &variant;
  const int64_t n, heads, kvHeads;
  const rt::DType dtype;
  const rt::cuda::Kernel &code;
  rt::cuda::Arena memory;
  rt::cuda::ArenaPlan::Slot qkv = 0, output = 0, lse = 0, arguments = 0,
                            scratch = 0, maps = 0;
  std::vector<rt::cuda::ArenaPlan::Slot> lists;
  // What the host counts pairs by: lists as 32-bit numbers, and their groups.
  std::vector<std::vector<int32_t>> keys;
  std::vector<abi::IndexList> decoded;
  std::vector<int64_t> groups;
  int64_t scratchRow = 0, blocks = 0;
  int64_t pairs = 0;
};

} // namespace heddle::bench

#endif // HEDDLE_RUNTIME_BENCH_CUDAKERNELS_H
