//===- RowMemory.h - Kept rows in a device's memory -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_ENGINE_CUDA_ROWMEMORY_H
#define HEDDLE_RUNTIME_ENGINE_CUDA_ROWMEMORY_H

#include "runtime/device/cuda/Arena.h"
#include "runtime/device/cuda/Pinned.h"
#include "runtime/device/cuda/Stream.h"
#include "runtime/engine/cuda/RowUploads.h"
#include "runtime/engine/cuda/Rows.h"
#include "runtime/schedule/RowMemory.h"

namespace heddle::rt::cuda {

/// Works on rows of the row kernels' element type, in the order of a stream.
/// Everything passed by reference must outlive it.
class DeviceRowMemory final : public RowMemory {
public:
  DeviceRowMemory(const Context &context, const Stream &stream,
                  const RowKernels &kernels, RowUploads &uploads, DType dtype)
      : context(context), stream(stream), kernels(kernels), uploads(uploads),
        dtype(dtype) {}

  Status check(int64_t bytes, const std::string &what,
               const std::string &advice) const override;
  Result<std::shared_ptr<std::byte>> allocate(int64_t bytes) override;
  Status reserve(int64_t rows) override;
  Status clear(void *memory, int64_t bytes) override;
  Status clear(const RowTable &rows, int64_t width) override;
  Status copy(const RowTable &from, const RowTable &to, int64_t width) override;
  Status replace(const RowTable &from, const RowTable &to, void *change,
                 int64_t width) override;
  Status put(void *memory, const void *host, int64_t bytes) override;
  Status fetch(const RowTable &rows, int64_t width, void *host) override;
  Status compare(const RowComparison &rows, int64_t width,
                 int64_t first) override;
  Status merge(const RowMerge &rows, int64_t heads, int64_t headDim) override;
  Result<std::span<const float>> similarities(int64_t first,
                                              int64_t count) override;

private:
  /// Rows of two tables, on the device.
  struct Moved {
    const int32_t *from = nullptr;
    const int32_t *to = nullptr;
  };
  Result<const int32_t *> upload(std::span<const int32_t> index);
  Result<Moved> upload(const RowTable &from, const RowTable &to);

  const Context &context;
  const Stream &stream;
  const RowKernels &kernels;
  RowUploads &uploads;
  DType dtype;
  std::shared_ptr<std::byte> similarity; ///< floats on the device
  PinnedBuffer pinned;                   ///< as many
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_ENGINE_CUDA_ROWMEMORY_H
