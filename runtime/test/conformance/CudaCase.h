//===- CudaCase.h - Problems in the memory of a GPU -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEST_CONFORMANCE_CUDACASE_H
#define HEDDLE_RUNTIME_TEST_CONFORMANCE_CUDACASE_H

#include "runtime/device/cuda/Arena.h"
#include "runtime/device/cuda/TileMaps.h"
#include "runtime/test/conformance/Cases.h"
#include "runtime/test/conformance/CudaCheck.h"

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace heddle::conformance {

/// Multiply-adds that the definitions may take for one case; beyond that only
/// some rows or groups are compared.
inline constexpr double referenceWork = 4e8;

/// `count` numbers below `bound`, with the first and the last, ascending; all
/// of them when there are no more.
std::vector<int64_t> sample(int64_t bound, int64_t count,
                            std::mt19937_64 &random);

/// The sequences of one launch in device memory. Each buffer is an allocation
/// of its own, so that a memory checker knows where it ends.
class CudaCase {
public:
  /// `apart`: elements between the starts of rows on the device, 0 for as many
  /// as on the host; more make tensors that 32-bit offsets do not reach.
  CudaCase(const CudaUnderTest &gpu, const bundle::KernelVariant &variant,
           std::vector<std::shared_ptr<Inputs>> inputs, int64_t apart,
           Finding &finding);

protected:
  /// Says so once and stops the case.
  bool good(const Status &status);
  bool allocate();
  bool upload(rt::cuda::ArenaPlan::Slot slot, const void *from, int64_t bytes);
  bool download(rt::cuda::ArenaPlan::Slot slot, void *to, int64_t bytes);
  /// Q, K and V of all sequences.
  bool uploadInputs();
  /// Outputs of a sequence; what lies between rows stays poison on the host
  /// when rows are apart on the device or memory is not poisoned there.
  bool downloadOutput(size_t sequence, bool hasLse);

  /// Gives the arguments of each sequence their tensor maps, if the kernel has
  /// such.
  template <typename Args> bool uploadMaps(std::vector<Args> &blocks) {
    if (!variant.mapRows)
      return true;
    std::vector<abi::TileMaps> encoded(blocks.size());
    for (size_t s = 0; s < blocks.size(); ++s) {
      if (!good(rt::cuda::encodeTileMaps(gpu.context, variant, blocks[s])
                    .moveTo(encoded[s])))
        return false;
      blocks[s].tileMaps = address<abi::TileMaps>(maps) + s;
    }
    return upload(maps, encoded.data(),
                  static_cast<int64_t>(encoded.size() * sizeof(encoded[0])));
  }

  template <typename T> T *address(rt::cuda::ArenaPlan::Slot slot) const {
    return reinterpret_cast<T *>(static_cast<uintptr_t>(memory[slot]));
  }
  Problem &problem(size_t sequence) const { return inputs[sequence]->problem; }
  /// Addresses and strides on the device; no lists.
  abi::AttentionArgs argumentsOf(size_t sequence) const;
  int64_t longest() const;
  int64_t heads() const { return problem(0).shape.queryHeads(); }

  const CudaUnderTest &gpu;
  const bundle::KernelVariant &variant;
  const std::vector<std::shared_ptr<Inputs>> inputs;
  const int64_t apart;
  Finding &finding;
  std::string name;
  rt::cuda::ArenaPlan plan;
  rt::cuda::Arena memory;
  struct Slots {
    rt::cuda::ArenaPlan::Slot query, key, value, output, lse;
  };
  std::vector<Slots> slots;

private:
  rt::cuda::ArenaPlan::Slot maps;
  int64_t strideOf(int64_t onHost) const { return apart ? apart : onHost; }
  int64_t bytesOf(const Problem &problem, int64_t heads, int64_t onHost) const;
  bool move(rt::cuda::ArenaPlan::Slot slot, const Problem &problem,
            GuardedBuffer &buffer, int64_t heads, int64_t onHost, bool up);
};

/// Judges every case by itself, and in threes as the sequences of one launch.
class Batches {
public:
  using Check = std::function<void(std::vector<std::shared_ptr<Inputs>>)>;
  explicit Batches(Check check) : check(std::move(check)) {}
  void add(const std::shared_ptr<Inputs> &inputs);

private:
  Check check;
  std::vector<std::shared_ptr<Inputs>> waiting;
};

/// Sequences longer than this are judged alone, with one head.
inline constexpr int64_t longSequence = 8192;

/// Rows that are this far apart make a tensor of `rows` more than 4 GiB.
int64_t wideStride(int64_t rows, rt::DType dtype);

/// Free memory that the cases with such tensors take.
inline constexpr int64_t wideBytes = int64_t(20) << 30;

} // namespace heddle::conformance

#endif // HEDDLE_RUNTIME_TEST_CONFORMANCE_CUDACASE_H
