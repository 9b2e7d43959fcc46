//===- Fixture.h - A device to test on, real or fake ------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEST_DEVICE_CUDA_FIXTURE_H
#define HEDDLE_RUNTIME_TEST_DEVICE_CUDA_FIXTURE_H

#include "runtime/device/cuda/Context.h"
#include "runtime/device/cuda/CublasLt.h"
#include "runtime/device/cuda/Stream.h"
#include "runtime/test/device/cuda/FakeCublasLt.h"
#include "runtime/test/device/cuda/FakeDriver.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace heddle::rt::cuda::test {

/// The fakes' files: in the folder of the running program, or in `fakes` there,
/// where a package may have put them, else where they were built.
std::string fakeDriverFile();
std::string fakeCublasLtFile();

/// The states of the fakes.
FakeDriver &fakeDriver();
FakeCublasLt &fakeCublasLt();

/// Two kernels in PTX that every GPU from sm_80 on runs, and the fake as well:
///   scale(float *y, const float *x, float a, int64_t n)   y[i] = a * x[i]
///   fault()                                               writes to address 8
extern const char *const testPtx;

/// A test on the fake driver: state reset before, nothing left alive after.
class FakeTest : public testing::Test {
protected:
  void SetUp() override;
  void TearDown() override;

  /// The fake's GPU, as it is set up now.
  Context &device();
  /// Gives the device back, so that TearDown can count.
  void close() { context.reset(); }

  std::shared_ptr<const Driver> driver;
  std::unique_ptr<Context> context;
};

enum class Machine { Fake, Real };

/// A test that says the same on the fake and on this machine's GPU, skipped
/// with the driver's words where there is none.
class DeviceTest : public FakeTest,
                   public testing::WithParamInterface<Machine> {
protected:
  void SetUp() override;

  bool real() const { return GetParam() == Machine::Real; }

  /// The machine's cuBLASLt or the fake one; null after having skipped.
  std::shared_ptr<const CublasLt> cublasLt();

  /// `values` on the device and back.
  template <typename T>
  void upload(DevicePtr to, const std::vector<T> &values) {
    ASSERT_TRUE(
        stream.copyToDevice(to, values.data(), values.size() * sizeof(T)));
    ASSERT_TRUE(stream.synchronize());
  }
  template <typename T> std::vector<T> download(DevicePtr from, int64_t count) {
    std::vector<T> values(count);
    EXPECT_TRUE(stream.copyToHost(values.data(), from, count * sizeof(T)));
    EXPECT_TRUE(stream.synchronize());
    return values;
  }
  void TearDown() override;

  Stream stream;
};

inline std::string machineName(const testing::TestParamInfo<Machine> &info) {
  return info.param == Machine::Fake ? "Fake" : "Real";
}

} // namespace heddle::rt::cuda::test

/// Fails with the error's text; `result` is a Status or a Result.
#define ASSERT_OK(result)                                                      \
  do {                                                                         \
    auto &&assertedResult = (result);                                          \
    ASSERT_TRUE(bool(assertedResult)) << assertedResult.error().text();        \
  } while (false)
#define EXPECT_OK(result)                                                      \
  do {                                                                         \
    auto &&expectedResult = (result);                                          \
    EXPECT_TRUE(bool(expectedResult)) << expectedResult.error().text();        \
  } while (false)
/// `result` is an error whose text contains `part`.
#define EXPECT_ERROR(result, part)                                             \
  do {                                                                         \
    auto &&failedResult = (result);                                            \
    ASSERT_FALSE(bool(failedResult)) << "expected an error: " << (part);       \
    EXPECT_NE(failedResult.error().text().find(part), std::string::npos)       \
        << failedResult.error().text();                                        \
  } while (false)

#define INSTANTIATE_ON_MACHINES(suite)                                         \
  INSTANTIATE_TEST_SUITE_P(                                                    \
      , suite, testing::Values(Machine::Fake, Machine::Real), machineName)

#endif // HEDDLE_RUNTIME_TEST_DEVICE_CUDA_FIXTURE_H
