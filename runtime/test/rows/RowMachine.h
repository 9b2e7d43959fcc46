//===- RowMachine.h - Row kernels on a GPU, real or fake --------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEST_ROWS_ROWMACHINE_H
#define HEDDLE_RUNTIME_TEST_ROWS_ROWMACHINE_H

#include "bundle/abi/RowAbi.h"
#include "runtime/device/cuda/Arena.h"
#include "runtime/device/cuda/Module.h"
#include "runtime/tensor/DType.h"
#include "runtime/test/device/cuda/Fixture.h"

#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

namespace heddle::rt::cuda::test {

/// Device memory that holds elements, poisoned (all bits set) until written.
class DeviceArray {
public:
  DeviceArray(const Context &context, const Stream &stream, int64_t bytes);

  template <typename T> T *as() const {
    return reinterpret_cast<T *>(static_cast<uintptr_t>(address()));
  }
  void write(const void *from, int64_t bytes);
  template <typename T> std::vector<T> read() {
    std::vector<T> values(bytes / sizeof(T));
    readTo(values.data());
    return values;
  }

private:
  DevicePtr address() const;
  void readTo(void *to);

  const Stream &stream;
  int64_t bytes;
  Arena arena;
};

/// A test of the kernels of one element type, on the fake driver, which has the
/// definitions of HostKernels, and on this machine's GPU. There it is skipped
/// without a GPU, a bundle in HEDDLE_CUDA_BUNDLE or a kernel of the type in it,
/// and where the bundle has no such kernel, as its schedule needs none.
class RowTest : public testing::TestWithParam<std::tuple<Machine, DType>> {
protected:
  void SetUp() override;
  void TearDown() override;

  bool real() const { return std::get<Machine>(GetParam()) == Machine::Real; }
  DType dtype() const { return std::get<DType>(GetParam()); }

  /// An array of the host on the device.
  template <typename T> DeviceArray upload(const std::vector<T> &values) {
    DeviceArray array(*context, *stream, values.size() * sizeof(T));
    array.write(values.data(), values.size() * sizeof(T));
    return array;
  }
  template <typename T> DeviceArray room(int64_t elements) {
    return DeviceArray(*context, *stream, elements * sizeof(T));
  }
  /// Elements of the dtype, from values that it holds exactly, and back.
  DeviceArray uploadElements(const std::vector<float> &values);
  DeviceArray elementRoom(int64_t count);
  std::vector<float> readElements(DeviceArray &array);

  /// `value` rounded to the dtype.
  float round(float value) const;
  /// Normally distributed numbers of the dtype.
  std::vector<float> random(int64_t count, float scale = 1);

  /// Widths of rows: these, or as HEDDLE_SEED says random ones up to them.
  std::vector<int64_t> widths(std::vector<int64_t> fixed);

  /// Whether the machine has no kernel for the operation.
  bool lacks(bundle::RowOp op) const { return real() && !kernel(op); }

  template <typename Args>
  void launch(bundle::RowOp op, int64_t blocks, const Args &args) {
    start(op, blocks, &args, Args::fields);
    ASSERT_TRUE(stream->synchronize());
    ++launches;
  }
  void start(bundle::RowOp op, int64_t blocks, const void *args,
             std::span<const abi::RowField> fields);

  const Context *context = nullptr;
  const Stream *stream = nullptr;
  std::mt19937 engine;

private:
  int64_t launches = 0;
  const Kernel *kernel(bundle::RowOp op) const;
};

/// "Fake_bf16".
std::string caseName(const testing::TestParamInfo<RowTest::ParamType> &info);

} // namespace heddle::rt::cuda::test

#define INSTANTIATE_ON_MACHINES_AND_TYPES(suite)                               \
  INSTANTIATE_TEST_SUITE_P(                                                    \
      , suite,                                                                 \
      testing::Combine(testing::Values(Machine::Fake, Machine::Real),          \
                       testing::Values(DType::F32, DType::BF16, DType::F16)),  \
      caseName)

#endif // HEDDLE_RUNTIME_TEST_ROWS_ROWMACHINE_H
