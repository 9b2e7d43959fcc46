//===- Fixture.cpp - A device to test on, real or fake --------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/test/device/cuda/Fixture.h"

#include <algorithm>
#include <filesystem>

#include <dlfcn.h>

namespace heddle::rt::cuda::test {

namespace {

std::string locate(const std::string &built) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path file = fs::path(built).filename();
  for (const fs::path &folder :
       {program.parent_path(), program.parent_path() / "fakes"})
    if (fs::exists(folder / file, error))
      return (folder / file).string();
  return built;
}

template <typename State>
State &stateOf(const std::string &path, const char *name) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  EXPECT_NE(library, nullptr) << dlerror();
  auto get = reinterpret_cast<State *(*)()>(dlsym(library, name));
  EXPECT_NE(get, nullptr) << dlerror();
  return *get();
}

} // namespace

std::string fakeDriverFile() { return locate(HEDDLE_FAKE_CUDA); }

std::string fakeCublasLtFile() { return locate(HEDDLE_FAKE_CUBLASLT); }

FakeDriver &fakeDriver() {
  return stateOf<FakeDriver>(fakeDriverFile(), "heddleFakeDriver");
}

FakeCublasLt &fakeCublasLt() {
  return stateOf<FakeCublasLt>(fakeCublasLtFile(), "heddleFakeCublasLt");
}

const char *const testPtx = R"(
.version 7.1
.target sm_80
.address_size 64

.visible .entry scale(
    .param .u64 p_y,
    .param .u64 p_x,
    .param .f32 p_a,
    .param .u64 p_n
)
{
    .reg .pred %p<2>;
    .reg .f32 %f<4>;
    .reg .b32 %r<5>;
    .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [p_y];
    ld.param.u64 %rd2, [p_x];
    ld.param.f32 %f1, [p_a];
    ld.param.u64 %rd3, [p_n];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mul.wide.u32 %rd4, %r1, %r2;
    cvt.u64.u32 %rd5, %r3;
    add.s64 %rd4, %rd4, %rd5;
    setp.ge.s64 %p1, %rd4, %rd3;
    @%p1 bra done;
    cvta.to.global.u64 %rd1, %rd1;
    cvta.to.global.u64 %rd2, %rd2;
    shl.b64 %rd6, %rd4, 2;
    add.s64 %rd7, %rd2, %rd6;
    ld.global.f32 %f2, [%rd7];
    mul.f32 %f3, %f2, %f1;
    add.s64 %rd8, %rd1, %rd6;
    st.global.f32 [%rd8], %f3;
done:
    ret;
}

.visible .entry fault()
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    mov.u64 %rd1, 8;
    mov.u32 %r1, 1;
    st.global.u32 [%rd1], %r1;
    ret;
}
)";

void FakeTest::SetUp() {
  fakeDriver() = FakeDriver();
  fakeCublasLt() = FakeCublasLt();
  fakeDriver().kernels["scale"] = [](const FakeDriver::Launch &launch) {
    float *y = launch.parameter<float *>(0);
    const float *x = launch.parameter<const float *>(1);
    float a = launch.parameter<float>(2);
    int64_t n = launch.parameter<int64_t>(3);
    for (int64_t i = 0; i < std::min(n, launch.grid[0] * launch.threads); ++i)
      y[i] = a * x[i];
  };
  fakeDriver().kernels["fault"] = [](const FakeDriver::Launch &) {
    fakeDriver().sticky = api::CUDA_ERROR_ILLEGAL_ADDRESS;
  };
}

Context &FakeTest::device() {
  if (!context) {
    Result<std::shared_ptr<const Driver>> opened =
        Driver::open(fakeDriverFile());
    EXPECT_TRUE(opened) << opened.error().text();
    driver = *opened;
    Result<std::unique_ptr<Context>> made = Context::open(driver);
    EXPECT_TRUE(made) << made.error().text();
    context = std::move(*made);
  }
  return *context;
}

void FakeTest::TearDown() {
  context.reset();
  // A faulted GPU takes everything with it.
  if (fakeDriver().sticky == api::CUDA_SUCCESS) {
    EXPECT_EQ(fakeDriver().alive(), 0);
  }
  EXPECT_EQ(fakeCublasLt().objects, 0);
}

void DeviceTest::SetUp() {
  FakeTest::SetUp();
  if (real()) {
    Result<std::unique_ptr<Context>> made = Context::open();
    if (!made)
      GTEST_SKIP() << made.error().text();
    context = std::move(*made);
  }
  Result<Stream> made = Stream::create(device());
  ASSERT_OK(made);
  stream = std::move(*made);
}

void DeviceTest::TearDown() {
  stream = Stream();
  FakeTest::TearDown();
}

std::shared_ptr<const CublasLt> DeviceTest::cublasLt() {
  if (!real()) {
    Result<std::shared_ptr<const CublasLt>> fake =
        CublasLt::openFile(fakeCublasLtFile());
    EXPECT_TRUE(fake) << fake.error().text();
    return *fake;
  }
  Result<std::shared_ptr<const CublasLt>> library =
      CublasLt::open(device().device().driverVersion);
  if (library)
    return *library;
  [&] { GTEST_SKIP() << library.error().text(); }();
  return nullptr;
}

} // namespace heddle::rt::cuda::test
