//===- DriverTest.cpp - What a machine is, and what is wrong with it ------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/Driver.h"
#include "runtime/device/cuda/Module.h"
#include "runtime/test/device/cuda/Fixture.h"

#include <set>

#include <dlfcn.h>
#include <unistd.h>

using namespace heddle;
using namespace heddle::rt::cuda;
using namespace heddle::rt::cuda::api;
using namespace heddle::rt::cuda::test;

namespace {

class DriverTest : public FakeTest {
protected:
  Result<std::shared_ptr<const Driver>> open() {
    return Driver::open(fakeDriverFile());
  }
};

TEST_F(DriverTest, NoDriver) {
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE))
    GTEST_SKIP() << "this machine has a driver";
  EXPECT_ERROR(Driver::open(), "this machine has no NVIDIA driver "
                               "(libcuda.so.1 was not found); install");
  EXPECT_ERROR(Driver::open("/nowhere/libcuda.so.1"), "/nowhere/libcuda.so.1");
}

TEST_F(DriverTest, NotADriver) {
  EXPECT_ERROR(Driver::open("libm.so.6"),
               "has no entry point cuInit; update the driver");
}

TEST_F(DriverTest, TooOld) {
  fakeDriver().version = 11080;
  EXPECT_ERROR(open(), "supports CUDA 11.8, Heddle needs 12.0 or newer; update "
                       "the driver");
}

TEST_F(DriverTest, NoDevice) {
  fakeDriver().devices = 0;
  EXPECT_ERROR(open(), "the NVIDIA driver finds no GPU on this machine");
  EXPECT_ERROR(open(), "cuInit failed: CUDA_ERROR_NO_DEVICE (100");
}

TEST_F(DriverTest, EachWayNotToStartSaysWhatToDo) {
  std::set<std::string> texts;
  const std::pair<CUresult, const char *> ways[] = {
      {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "restart the machine"},
      {CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, "compatibility package"},
      {CUDA_ERROR_STUB_LIBRARY, "LD_LIBRARY_PATH"},
      {CUDA_ERROR_SYSTEM_NOT_READY, "fabric manager"},
      {CUDA_ERROR_UNKNOWN, "see whether `nvidia-smi` works"}};
  for (auto [code, part] : ways) {
    fakeDriver().failures["cuInit"] = {code, 0};
    EXPECT_ERROR(open(), part);
    texts.insert(open().error().text());
  }
  EXPECT_EQ(texts.size(), std::size(ways));
}

TEST_F(DriverTest, VersionsOfPtx) {
  EXPECT_EQ(driverVersionForPtx(0), 0);
  EXPECT_EQ(driverVersionForPtx(71), 11010);
  EXPECT_EQ(driverVersionForPtx(78), 11080);
  EXPECT_EQ(driverVersionForPtx(80), 12000);
  EXPECT_EQ(driverVersionForPtx(85), 12050);
  EXPECT_EQ(driverVersionForPtx(86), 12070);
  EXPECT_EQ(driverVersionForPtx(88), 12090);
  EXPECT_EQ(driverVersionForPtx(90), 13000);
  EXPECT_EQ(formatVersion(12090), "12.9");
}

TEST_F(DriverTest, OrdinalOutOfRange) {
  Result<std::shared_ptr<const Driver>> driver = open();
  ASSERT_OK(driver);
  EXPECT_ERROR(Context::open(*driver, 1),
               "there is no GPU 1: this process sees one, number 0");
  EXPECT_ERROR(Context::open(*driver, -1), "there is no GPU -1");
  fakeDriver().devices = 4;
  driver = open();
  ASSERT_OK(driver);
  EXPECT_ERROR(Context::open(*driver, 4),
               "this process sees 4, numbers 0 to 3");
  EXPECT_OK(Context::open(*driver, 3));
}

TEST_F(DriverTest, FactsOfADevice) {
  const DeviceInfo &info = device().device();
  EXPECT_EQ(info.describe(), "Fake GPU (device 0, compute capability 9.0)");
  EXPECT_EQ(info.capability(), 90);
  EXPECT_EQ(info.multiprocessors, 132);
  EXPECT_EQ(info.sharedPerBlock, 232448);
  EXPECT_EQ(info.sharedPerMultiprocessor, 233472);
  EXPECT_EQ(info.l2Bytes, 60 << 20);
  EXPECT_EQ(info.driverVersion, 13000);
  Result<MemoryInfo> memory = device().memory();
  ASSERT_OK(memory);
  EXPECT_EQ(memory->free, int64_t(4) << 30);
}

TEST_F(DriverTest, ADeviceInUseByAnother) {
  Result<std::shared_ptr<const Driver>> driver = open();
  ASSERT_OK(driver);
  fakeDriver().failures["cuDevicePrimaryCtxRetain"] = {
      CUDA_ERROR_DEVICE_UNAVAILABLE, 0};
  EXPECT_ERROR(Context::open(*driver), "exclusive use by another process");
}

TEST_F(DriverTest, ErrorsNameTheCallAndTheDriversWords) {
  fakeDriver().failures["cuStreamCreate"] = {CUDA_ERROR_OUT_OF_MEMORY, 0};
  EXPECT_ERROR(Stream::create(device()),
               "cuStreamCreate failed: CUDA_ERROR_OUT_OF_MEMORY (2, out of "
               "memory)");
  fakeDriver().failures["cuStreamCreate"] = {12345, 0};
  EXPECT_ERROR(Stream::create(device()),
               "cuStreamCreate failed: an error without a name (12345, no "
               "description)");
  EXPECT_FALSE(device().broken());
}

TEST_F(DriverTest, HardwareFaultsAreNoMistakeOfOurs) {
  fakeDriver().failures["cuCtxSynchronize"] = {CUDA_ERROR_ECC_UNCORRECTABLE, 0};
  Status status = device().synchronize();
  EXPECT_ERROR(status, "memory has an error that could not be corrected");
  EXPECT_EQ(status.error().text().find("mistake in Heddle"), std::string::npos);
  EXPECT_TRUE(device().broken());
}

class FaultTest : public DeviceTest {};

TEST_P(FaultTest, AKernelFaultBreaksTheContext) {
  // In a process of its own: a fault takes the whole process's GPU with it.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto faultAndGoOn = [&] {
    Result<std::unique_ptr<Module>> module =
        Module::load(device(), testPtx, {{"fault", 32, 0}});
    Result<Event> event = Event::create(device());
    ASSERT_OK(module);
    ASSERT_OK(event);
    ASSERT_OK((**module)["fault"].launch(stream, {}));
    Status status = stream.synchronize();
    EXPECT_ERROR(status,
                 "a kernel read or wrote memory outside of its buffers");
    EXPECT_ERROR(status, "CUDA_ERROR_ILLEGAL_ADDRESS");
    EXPECT_ERROR(status, device().device().describe());
    EXPECT_TRUE(device().broken());
    // Nothing works any more, and all of it says why.
    EXPECT_ERROR(Stream::create(device()), "the run cannot go on");
    EXPECT_ERROR(device().memory(), "a kernel read or wrote memory outside");
    EXPECT_EQ(stream.synchronize().error().text(), status.error().text());
  };
  EXPECT_EXIT(
      {
        faultAndGoOn();
        stream = Stream();
        context.reset(); // destructors after a fault
        _exit(HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

INSTANTIATE_ON_MACHINES(FaultTest);

} // namespace
