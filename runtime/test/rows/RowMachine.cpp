//===- RowMachine.cpp - Row kernels on a GPU, real or fake ----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/test/rows/RowMachine.h"

#include "runtime/tensor/Convert.h"
#include "runtime/test/engine/HostKernels.h"
#include "runtime/test/engine/TestBundle.h"

#include <cstdlib>
#include <cstring>
#include <optional>

namespace heddle::rt::cuda::test {

namespace {

/// A GPU with a bundle's kernels.
struct Kernels {
  void open(Result<std::unique_ptr<Context>> opened,
            Result<bundle::Bundle> file) {
    if (!opened) {
      problem = opened.takeError().text();
      return;
    }
    context = std::move(*opened);
    if (!file) {
      broken = file.takeError().text();
      return;
    }
    Result<std::unique_ptr<Module>> loaded = Module::load(*context, *file);
    if (!loaded) {
      broken = loaded.takeError().text();
      return;
    }
    module = std::move(*loaded);
    Result<Stream> queue = Stream::create(*context);
    if (!queue) {
      broken = queue.takeError().text();
      return;
    }
    stream = std::move(*queue);
  }

  std::string problem; ///< why tests are skipped
  std::string broken;  ///< why tests fail
  std::unique_ptr<Context> context;
  std::unique_ptr<Module> module;
  std::optional<Stream> stream;
};

Kernels openFake() {
  Kernels fake;
  Result<std::shared_ptr<const Driver>> driver = Driver::open(fakeDriverFile());
  if (!driver) {
    fake.broken = driver.takeError().text();
    return fake;
  }
  bundle::Manifest manifest = gpuManifest();
  installKernels(manifest);
  fake.open(Context::open(*driver), gpuBundle(manifest));
  return fake;
}

Kernels openReal() {
  Kernels real;
  if (const char *path = std::getenv("HEDDLE_CUDA_BUNDLE"))
    real.open(Context::open(), bundle::Bundle::read(path));
  else
    real.problem = "HEDDLE_CUDA_BUNDLE names no bundle with code for a GPU";
  return real;
}

/// Opened once.
Kernels &kernelsOf(Machine machine) {
  if (machine == Machine::Fake) {
    static Kernels fake = openFake();
    return fake;
  }
  static Kernels real = openReal();
  return real;
}

} // namespace

DeviceArray::DeviceArray(const Context &context, const Stream &stream,
                         int64_t bytes)
    : stream(stream), bytes(bytes) {
  ArenaPlan plan;
  plan.add("test", std::max<int64_t>(bytes, 1));
  EXPECT_TRUE(plan.layout());
  ArenaOptions options;
  options.poison = true;
  Result<Arena> allocated = Arena::allocate(context, std::move(plan), options);
  EXPECT_TRUE(allocated) << allocated.takeError().text();
  if (allocated)
    arena = std::move(*allocated);
}

DevicePtr DeviceArray::address() const { return arena[0]; }

void DeviceArray::write(const void *from, int64_t count) {
  EXPECT_TRUE(stream.copyToDevice(address(), from, count));
  EXPECT_TRUE(stream.synchronize());
}

void DeviceArray::readTo(void *to) {
  EXPECT_TRUE(stream.copyToHost(to, address(), bytes));
  EXPECT_TRUE(stream.synchronize());
}

/// Of inputs and widths that are not the fixed ones, or null.
static const char *givenSeed() { return std::getenv("HEDDLE_SEED"); }

void RowTest::SetUp() {
  const char *seed = givenSeed();
  engine.seed(seed ? static_cast<uint32_t>(std::strtoul(seed, nullptr, 10))
                   : 42);
  Kernels &m = kernelsOf(std::get<Machine>(GetParam()));
  if (!m.problem.empty())
    GTEST_SKIP() << m.problem;
  ASSERT_TRUE(m.broken.empty()) << m.broken;
  context = m.context.get();
  stream = &*m.stream;
  if (!kernel(bundle::RowOp::Embed))
    GTEST_SKIP() << "the bundle has no row kernels in " << name(dtype());
}

/// What campaigns count.
void RowTest::TearDown() {
  RecordProperty("cases", static_cast<int>(launches));
}

std::vector<int64_t> RowTest::widths(std::vector<int64_t> fixed) {
  constexpr int64_t step = 8;
  for (int64_t &width : fixed)
    if (givenSeed())
      width = step * (1 + static_cast<int64_t>(engine() % (width / step)));
  return fixed;
}

const Kernel *RowTest::kernel(bundle::RowOp op) const {
  return kernelsOf(std::get<Machine>(GetParam()))
      .module->find(bundle::rowSymbol(op, name(dtype())));
}

void RowTest::start(bundle::RowOp op, int64_t blocks, const void *args,
                    std::span<const abi::RowField> fields) {
  const Kernel *entry = kernel(op);
  ASSERT_NE(entry, nullptr) << nameOf(op);
  std::vector<const void *> values;
  std::vector<int64_t> sizes;
  size_t at = 0;
  for (abi::RowField field : fields) {
    size_t size = field == abi::RowField::Int32 ? 4 : 8;
    at = (at + size - 1) / size * size;
    values.push_back(static_cast<const char *>(args) + at);
    sizes.push_back(static_cast<int64_t>(size));
    at += size;
  }
  Status status = entry->launchWith(*stream, Grid{.x = blocks}, values.data(),
                                    sizes.data(), values.size());
  ASSERT_TRUE(status) << status.takeError().text();
}

float RowTest::round(float value) const {
  switch (dtype()) {
  case DType::F32:
    return value;
  case DType::BF16:
    return fromBF16(toBF16(value));
  case DType::F16:
    return fromF16(toF16(value));
  }
  return value;
}

std::vector<float> RowTest::random(int64_t count, float scale) {
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(count);
  for (float &value : values)
    value = round(normal(engine));
  return values;
}

DeviceArray RowTest::uploadElements(const std::vector<float> &values) {
  auto count = static_cast<int64_t>(values.size());
  std::vector<float> storage(values.size()); // room and alignment for any type
  convert(DType::F32, values.data(), dtype(), storage.data(), count);
  DeviceArray array = elementRoom(count);
  array.write(storage.data(), count * byteSize(dtype()));
  return array;
}

DeviceArray RowTest::elementRoom(int64_t count) {
  return DeviceArray(*context, *stream, count * byteSize(dtype()));
}

std::vector<float> RowTest::readElements(DeviceArray &array) {
  std::vector<uint8_t> bytes = array.read<uint8_t>();
  std::vector<float> values(bytes.size() / byteSize(dtype()));
  convert(dtype(), bytes.data(), DType::F32, values.data(),
          static_cast<int64_t>(values.size()));
  return values;
}

std::string caseName(const testing::TestParamInfo<RowTest::ParamType> &info) {
  auto [machine, dtype] = info.param;
  return (machine == Machine::Fake ? "Fake_" : "Real_") +
         std::string(name(dtype));
}

} // namespace heddle::rt::cuda::test
