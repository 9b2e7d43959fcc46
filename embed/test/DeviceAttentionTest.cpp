//===- DeviceAttentionTest.cpp - Attention in a GPU's stream --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/abi/IndexLayout.h"
#include "bundle/program/Program.h"
#include "embed/Attention.h"
#include "runtime/reference/Reference.h"
#include "runtime/test/device/cuda/Fixture.h"
#include "runtime/test/engine/HostKernels.h"
#include "runtime/test/engine/TestBundle.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <random>
#include <set>
#include <vector>

using namespace heddle;
using namespace heddle::embed;
using namespace heddle::rt::cuda;
using namespace heddle::rt::cuda::test;

namespace {

/// Memory of the fake device, which is malloc's, on a boundary as a GPU has.
class Memory {
public:
  explicit Memory(int64_t bytes) : bytes(static_cast<size_t>(bytes) + 256) {}
  void *at() {
    void *address = bytes.data();
    size_t room = bytes.size();
    return std::align(256, 1, address, room);
  }
  template <typename T> T *as() { return static_cast<T *>(at()); }

private:
  std::vector<std::byte> bytes;
};

class DeviceAttention : public testing::Test {
protected:
  static constexpr int64_t heads = 4, kvHeads = 2, dim = 64;
  static constexpr int64_t width = (heads + 2 * kvHeads) * dim;

  void SetUp() override {
    static const bool once = [] {
      fakeDriver() = FakeDriver();
      useDriver(fakeDriverFile());
      return true;
    }();
    (void)once;
    for (const char *name : {"put", "put_one"})
      fakeDriver().kernels[name] = [this](const FakeDriver::Launch &launch) {
        const auto words = launch.parameter<uint32_t>(2);
        ASSERT_LE(int64_t(words), launch.grid[0] * launch.threads);
        ASSERT_LE(size_t(words) * 8, launch.parameters[1].size());
        std::memcpy(reinterpret_cast<void *>(launch.parameter<uint64_t>(0)),
                    launch.parameters[1].data(), size_t(words) * 8);
        ++puts;
      };
  }

  /// Calls on `sequences` of `length` rows, of a fused product's q, k and v.
  void start(const bundle::Manifest &manifest, int64_t sequences,
             int64_t length, rt::DType dtype = rt::DType::F32) {
    installKernels(manifest);
    program = manifest;
    auto made = Attention::make(gpuBundle(manifest), 2, 0);
    ASSERT_OK(made);
    attention = std::move(*made);
    shape = {.sequences = sequences,
             .length = length,
             .prompt = 0,
             .queryHeads = heads,
             .kvHeads = kvHeads,
             .headDim = dim,
             .dtype = dtype,
             .query = {length * width, width},
             .key = {length * width, width},
             .value = {length * width, width},
             .output = {length * heads * dim, heads * dim}};
    auto prepared = attention->prepare(shape);
    ASSERT_OK(prepared);
    call = std::move(*prepared);
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    fused.resize(sequences * length * width);
    for (float &x : fused)
      x = rounded(normal(random));
  }

  float rounded(float x) const {
    // By the reference's store: GCC 12 drops a mask of the low half between two
    // std::bit_cast at -O1.
    uint32_t stored = 0;
    rt::reference::store(&stored, 0, shape.dtype, x);
    return static_cast<float>(rt::reference::load(&stored, 0, shape.dtype));
  }

  /// The pairs of 50 keys that a selection of a layer's lists keeps, by
  /// sequence, head and row.
  std::vector<bool> keptIn(Memory &memory, int64_t selection = 0) const {
    const rt::IndexListShape lengths{
        program.selections,
        {std::vector<int64_t>(program.selections.size(), 0)},
        {50, 50},
        heads,
        bundle::Encoding::Uint16,
        kvHeads};
    rt::IndexLists where = rt::IndexLists::at(lengths, memory.at());
    std::vector<bool> mask(2 * heads * 50 * 50);
    for (int64_t s = 0; s < 2; ++s) {
      const heddle::abi::IndexList &list = where.list(0, s, selection);
      std::vector<int32_t> keys(list.keep);
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0; i < 50; ++i) {
          EXPECT_TRUE(bundle::decodeList(
              lengths.encoding, 50,
              bundle::listRow(list, h, i / program.selections[selection].group),
              keys));
          for (int32_t j : keys)
            mask[((s * heads + h) * 50 + i) * 50 + j] = true;
        }
    }
    return mask;
  }

  /// The output of a layer's step.
  std::vector<float> run(const Place &place, Part part, Memory &lists) {
    const int64_t size = rt::byteSize(shape.dtype);
    Memory input(std::ssize(fused) * size), workspace(call->workspaceBytes()),
        output(shape.sequences * shape.output.sequence * size);
    for (size_t i = 0; i < fused.size(); ++i)
      if (shape.dtype == rt::DType::F32)
        input.as<float>()[i] = fused[i];
      else
        input.as<uint16_t>()[i] =
            static_cast<uint16_t>(std::bit_cast<uint32_t>(fused[i]) >> 16);
    auto *base = input.as<std::byte>();
    CallMemory memory;
    memory.query = base;
    memory.key = base + heads * dim * size;
    memory.value = base + (heads + kvHeads) * dim * size;
    memory.output = output.at();
    memory.lists = lists.at();
    memory.workspace = workspace.at();
    const int waits = fakeDriver().calls["cuStreamSynchronize"];
    const int blocks = fakeDriver().calls["cuMemAlloc_v2"];
    EXPECT_OK(call->run(place, part, memory));
    EXPECT_EQ(fakeDriver().calls["cuStreamSynchronize"], waits);
    // Room for arguments, the first time.
    EXPECT_LE(fakeDriver().calls["cuMemAlloc_v2"], blocks + (runs++ == 0));
    std::vector<float> result(shape.sequences * shape.output.sequence);
    for (size_t i = 0; i < result.size(); ++i)
      result[i] =
          shape.dtype == rt::DType::F32
              ? output.as<float>()[i]
              : std::bit_cast<float>(uint32_t(output.as<uint16_t>()[i]) << 16);
    return result;
  }

  /// By definition, over the pairs (sequence, head, row, key) that are kept.
  using Kept = std::function<bool(int64_t, int64_t, int64_t, int64_t)>;
  void expectAttention(const std::vector<float> &mine, const Kept &kept,
                       double tolerance) const {
    const int64_t n = shape.length;
    double worst = 0;
    for (int64_t s = 0; s < shape.sequences; ++s)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0; i < n; ++i) {
          auto row = [&](int64_t r, int64_t at) {
            return fused.data() + (s * n + r) * width + at * dim;
          };
          const int64_t kv = h / (heads / kvHeads);
          std::vector<double> sum(dim);
          double total = 0;
          for (int64_t j = 0; j < n; ++j) {
            if (!kept(s, h, i, j))
              continue;
            double logit = 0;
            for (int64_t d = 0; d < dim; ++d)
              logit += double(row(i, h)[d]) * row(j, heads + kv)[d];
            const double p = std::exp(logit / std::sqrt(double(dim)));
            total += p;
            for (int64_t d = 0; d < dim; ++d)
              sum[d] += p * row(j, heads + kvHeads + kv)[d];
          }
          for (int64_t d = 0; d < dim; ++d)
            worst = std::max(
                worst, std::abs(sum[d] / total -
                                mine[((s * n + i) * heads + h) * dim + d]));
        }
    EXPECT_LT(worst, tolerance);
  }

  /// The fake's GPU, as a program beside uses it.
  static Context &device() {
    static std::unique_ptr<Context> context = [] {
      return std::move(*Context::open(*Driver::open(fakeDriverFile()), 0));
    }();
    return *context;
  }

  int puts = 0, runs = 0;
  bundle::Manifest program;
  std::unique_ptr<Attention> attention;
  std::unique_ptr<Call> call;
  CallShape shape;
  std::vector<float> fused;
};

bool everything(int64_t, int64_t, int64_t, int64_t) { return true; }

TEST_F(DeviceAttention, IsTheDefinition) {
  start(gpuManifest(), 2, 40);
  Memory none(0);
  expectAttention(run({}, Part::All, none), everything, 1e-5);
}

TEST_F(DeviceAttention, TakesBatchesWhoseArgumentsTakeSeveralLaunches) {
  bundle::Manifest manifest = gpuManifest();
  manifest.rules.front().phases.front().attention =
      kernelNamed(manifest, "dense_lse"); // with tensor maps
  start(manifest, 13, 33, rt::DType::BF16);
  Memory none(0);
  fakeDriver().launches.clear();
  expectAttention(run({}, Part::All, none), everything, 0.02);
  EXPECT_GT(fakeDriver().launches["put"], 2);
}

/// A call's tensors, and what it computes.
struct Tensors {
  explicit Tensors(const CallShape &shape, unsigned seed)
      : inputBytes(shape.sequences * shape.query.sequence * 4),
        outputBytes(shape.sequences * shape.output.sequence * 4),
        input(inputBytes), output(outputBytes) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < inputBytes / 4; ++i)
      input.as<float>()[i] = normal(random);
    memory.query = input.at();
    memory.key = input.as<float>() + shape.queryHeads * shape.headDim;
    memory.value =
        input.as<float>() + (shape.queryHeads + shape.kvHeads) * shape.headDim;
    memory.output = output.at();
  }
  std::vector<float> take() {
    std::vector<float> result(output.as<float>(),
                              output.as<float>() + outputBytes / 4);
    std::fill_n(output.as<float>(), outputBytes / 4, NAN);
    return result;
  }

  int64_t inputBytes, outputBytes;
  Memory input, output;
  CallMemory memory;
};

TEST_F(DeviceAttention, PutsNoArgumentsThatAreThereAlready) {
  const int none = fakeDriver().blocks;
  start(gpuManifest(), 1, 40);
  std::vector<std::unique_ptr<Tensors>> many;
  std::vector<std::vector<float>> expected;
  for (unsigned i = 0; i < 17; ++i) {
    Tensors &each = *many.emplace_back(std::make_unique<Tensors>(shape, i));
    Memory workspace(call->workspaceBytes());
    CallMemory memory = each.memory;
    memory.workspace = workspace.at();
    ASSERT_OK(call->run({}, Part::All, memory));
    expected.push_back(each.take());
  }
  ASSERT_NE(expected[0], expected[1]);

  const int blocks = fakeDriver().blocks;
  auto expectPuts = [&](int more, size_t which, uintptr_t stream = 0) {
    SCOPED_TRACE(which);
    const int before = puts;
    CallMemory memory = many[which]->memory;
    memory.stream = stream;
    ASSERT_OK(call->run({}, Part::All, memory));
    if (stream) // the fake runs the legacy one at once
      ASSERT_OK(synchronizeDevice(0, stream));
    EXPECT_EQ(puts, before + more);
    EXPECT_EQ(many[which]->take(), expected[which]);
  };
  for (int round = 0; round < 2; ++round)
    for (size_t which = 0; which < 16; ++which)
      expectPuts(round == 0, which);
  expectPuts(1, 16);
  expectPuts(0, 16);
  expectPuts(0, 15);
  expectPuts(1, 0); // the one used longest ago made room
  EXPECT_EQ(fakeDriver().blocks, blocks + 1);

  // Each stream has its own, also one whose handle another had before.
  const heddle::rt::cuda::api::EntryPoints &api = device().api();
  for (int i = 0; i < 2; ++i) {
    heddle::rt::cuda::api::CUstream stream = nullptr;
    ASSERT_OK(device().call(api.streamCreate, &stream, 1u));
    const auto handle = reinterpret_cast<uintptr_t>(stream);
    expectPuts(1, 16, handle);
    expectPuts(0, 16, handle);
    ASSERT_OK(device().call(api.streamDestroy, stream));
  }

  // What did not arrive is put again.
  fakeDriver().failures["cuLaunchKernel"] = {
      heddle::rt::cuda::api::CUDA_ERROR_OUT_OF_MEMORY, 0};
  EXPECT_ERROR(call->run({}, Part::All, many[1]->memory), "put_one");
  fakeDriver().failures.clear();
  expectPuts(1, 1);
  call.reset();
  EXPECT_EQ(fakeDriver().blocks, none);
}

/// Both layers attend to all keys where they select, layer 1 by another kernel,
/// on the same arguments.
bundle::Manifest twoLayers() {
  bundle::Manifest manifest = gpuManifest();
  setRule(manifest, "columns", {0});
  bundle::Kernel other = manifest.kernels[kernelNamed(manifest, "dense_lse")];
  other.name = "other_lse";
  for (bundle::KernelVariant &variant : other.variants)
    variant.symbol.replace(0, std::string("dense").size(), "other");
  manifest.kernels.push_back(other);
  bundle::Rule second = manifest.rules.front();
  second.isDefault = false;
  second.firstLayer = second.lastLayer = 1;
  second.phases.front().attention = kernelNamed(manifest, "other_lse");
  manifest.rules.push_back(second);
  return manifest;
}

TEST_F(DeviceAttention, LaunchesThatComeAgainBecomeAGraph) {
  start(twoLayers(), 1, 40);
  auto prepared = attention->prepare(shape);
  ASSERT_OK(prepared);
  Call &fresh = **prepared; // has kept nothing
  Tensors tensors(shape, 1);
  Memory lists(call->listBytes(0)), workspace(call->workspaceBytes()),
      other(call->workspaceBytes());
  tensors.memory.lists = lists.at();
  tensors.memory.workspace = workspace.at();
  auto &calls = fakeDriver().calls;
  using Bytes = std::vector<std::byte>;
  auto take = [&] {
    auto *from = lists.as<std::byte>();
    Bytes made(from, from + call->listBytes(0));
    std::fill_n(from, made.size(), std::byte(0));
    return std::pair(tensors.take(), made);
  };
  std::mt19937 random(7);
  auto expectGraphs = [&](int launched, int64_t layer, int more = 0) {
    SCOPED_TRACE(launched);
    // Numbers change, addresses do not.
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < tensors.inputBytes / 4; ++i)
      tensors.input.as<float>()[i] = normal(random);
    const Place place{.layer = layer, .step = 1, .steps = 8};
    const int graphs = calls["cuGraphLaunch"], before = puts;
    ASSERT_OK(call->run(place, Part::All, tensors.memory));
    EXPECT_EQ(calls["cuGraphLaunch"], graphs + launched);
    EXPECT_EQ(puts, before + more);
    const auto mine = take();
    CallMemory memory = tensors.memory;
    memory.workspace = other.at();
    ASSERT_OK(fresh.run(place, Part::All, memory));
    EXPECT_EQ(mine, take());
  };
  ASSERT_EQ(bundle::plannedSteps(program.selections[0].cadence, 8, 0)[0], 1);
  expectGraphs(0, 0, 1);
  expectGraphs(0, 0);
  for (int i = 0; i < 3; ++i)
    expectGraphs(1, 0);
  // The same arguments, other kernels: `fresh` would say.
  expectGraphs(0, 1);
  EXPECT_EQ(fakeDriver().execs, 0) << "of work that has not come twice";
  expectGraphs(1, 1);
  expectGraphs(0, 0);
  expectGraphs(1, 0);

  // Where the driver records none, all goes on as before.
  call.reset();
  EXPECT_EQ(fakeDriver().execs, 1) << "of `fresh`";
  auto again = attention->prepare(shape);
  ASSERT_OK(again);
  call = std::move(*again);
  fakeDriver().failures["cuGraphInstantiateWithFlags"] = {
      heddle::rt::cuda::api::CUDA_ERROR_OUT_OF_MEMORY, 0};
  expectGraphs(0, 0, 1);
  for (int i = 0; i < 3; ++i)
    expectGraphs(0, 0);
  fakeDriver().failures.clear();
  EXPECT_EQ(fakeDriver().graphs, 0);
}

TEST_F(DeviceAttention, LeavesTheThreadTheContextThatItHad) {
  start(gpuManifest(), 1, 40);
  Tensors tensors(shape, 1);
  auto &calls = fakeDriver().calls;
  ASSERT_OK(call->run({}, Part::All, tensors.memory));
  const int before = calls["cuCtxSetCurrent"];
  ASSERT_OK(call->run({}, Part::All, tensors.memory));
  EXPECT_EQ(calls["cuCtxSetCurrent"], before) << "it was the thread's already";

  const heddle::rt::cuda::api::EntryPoints &api = device().api();
  char other = 0; // no call of the fake looks into a context
  auto *const theirs =
      reinterpret_cast<heddle::rt::cuda::api::CUcontext>(&other);
  heddle::rt::cuda::api::CUcontext now = nullptr;
  ASSERT_EQ(api.ctxGetCurrent.function(&now), 0);
  auto *const ours = now;
  ASSERT_EQ(api.ctxSetCurrent.function(theirs), 0);
  EXPECT_OK(call->run({}, Part::All, tensors.memory));
  EXPECT_EQ(calls["cuCtxSetCurrent"], before + 3);
  ASSERT_EQ(api.ctxGetCurrent.function(&now), 0);
  EXPECT_EQ(now, theirs);
  ASSERT_EQ(api.ctxSetCurrent.function(ours), 0);
}

TEST_F(DeviceAttention, KeepsArgumentsOfManyStreams) {
  start(gpuManifest(), 1, 40);
  Tensors tensors(shape, 1);
  const heddle::rt::cuda::api::EntryPoints &api = device().api();
  auto inNewStream = [&]() -> Result<bool> {
    heddle::rt::cuda::api::CUstream stream = nullptr;
    if (Status made = device().call(api.streamCreate, &stream, 1u); !made)
      return made.takeError();
    tensors.memory.stream = reinterpret_cast<uintptr_t>(stream);
    Result<bool> done = call->tryRun({}, Part::All, tensors.memory);
    EXPECT_OK(synchronizeDevice(0, tensors.memory.stream));
    EXPECT_OK(device().call(api.streamDestroy, stream));
    return done;
  };
  // All that PyTorch has of a device: 32 of each of 4 priorities.
  for (int i = 0; i < 129; ++i) {
    auto done = inNewStream();
    ASSERT_OK(done);
    ASSERT_TRUE(*done) << i;
  }
  // A program that makes streams without end comes to a point from which on new
  // ones take a workspace, as graphs do; older ones need none still.
  tensors.memory.stream = 0;
  ASSERT_OK(call->run({}, Part::All, tensors.memory));
  const int64_t allocated = fakeDriver().blocks;
  int streams = 0;
  for (bool kept = true; kept; ++streams) {
    auto done = inNewStream();
    ASSERT_OK(done);
    kept = *done;
    ASSERT_LT(streams, 10000);
  }
  EXPECT_EQ(fakeDriver().blocks, allocated + streams - 1);
  Memory workspace(call->workspaceBytes());
  tensors.memory.workspace = workspace.at();
  const std::vector<float> expected = [&] {
    tensors.memory.stream = 0;
    EXPECT_OK(call->run({}, Part::All, tensors.memory));
    return tensors.take();
  }();
  auto done = inNewStream();
  ASSERT_OK(done);
  EXPECT_TRUE(*done);
  EXPECT_EQ(tensors.take(), expected);
  tensors.memory.workspace = nullptr;
  tensors.memory.stream = 0;
  EXPECT_OK(call->run({}, Part::All, tensors.memory));
}

TEST_F(DeviceAttention, TakesAWorkspaceWhereAGraphRecordsOrKernelsWrite) {
  bundle::Manifest manifest = gpuManifest();
  setRule(manifest, "columns", {0});
  start(manifest, 1, 40);
  const int64_t due =
      bundle::plannedSteps(manifest.selections[0].cadence, 8, 0)[0];
  const Place selecting{.layer = 0, .step = due, .steps = 8};
  Tensors tensors(shape, 1);
  Memory lists(call->listBytes(0));
  tensors.memory.lists = lists.at();
  EXPECT_ERROR(call->run(selecting, Part::All, tensors.memory),
               "takes a workspace");

  auto stream = Stream::create(device());
  ASSERT_OK(stream);
  tensors.memory.stream = reinterpret_cast<uintptr_t>(stream->handle());
  ASSERT_OK(device().call(
      device().api().streamBeginCapture, stream->handle(),
      heddle::rt::cuda::api::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  const Place reading{.step = due + 1, .steps = 8};
  auto done = call->tryRun(reading, Part::All, tensors.memory);
  ASSERT_OK(done);
  EXPECT_FALSE(*done);
  // Beside a capture calls go on, and allocate.
  tensors.memory.stream = 0;
  EXPECT_OK(call->run(reading, Part::All, tensors.memory));
  heddle::rt::cuda::api::CUgraph graph = nullptr;
  ASSERT_OK(
      device().call(device().api().streamEndCapture, stream->handle(), &graph));
  ASSERT_OK(device().call(device().api().graphDestroy, graph));
}

TEST_F(DeviceAttention, LayersReadTheListsOfOneBefore) {
  bundle::Manifest manifest = gpuManifest();
  setRule(manifest, "columns", {0});
  bundle::Rule first = manifest.rules.front();
  first.isDefault = false;
  first.firstLayer = first.lastLayer = 0;
  std::vector<bundle::Phase> &others = manifest.rules.front().phases;
  others = {others.back()};
  manifest.rules.push_back(first);
  start(manifest, 2, 50);
  ASSERT_OK(attention->check(8, 0));
  EXPECT_EQ(call->listLayer(0), 0);
  EXPECT_EQ(call->listLayer(1), 0);
  EXPECT_EQ(call->listBytes(1), call->listBytes(0));
  Memory lists(call->listBytes(0));
  expectAttention(run({.layer = 0, .step = 1, .steps = 8}, Part::All, lists),
                  everything, 1e-5);
  const std::vector<bool> kept = keptIn(lists);
  // Of other queries and keys, by the lists of the same step.
  std::reverse(fused.begin(), fused.end());
  expectAttention(
      run({.layer = 1, .step = 1, .steps = 8}, Part::All, lists),
      [&](int64_t s, int64_t h, int64_t i, int64_t j) -> bool {
        return kept[((s * heads + h) * 50 + i) * 50 + j];
      },
      1e-5);
  EXPECT_EQ(keptIn(lists), kept);

  // Layer 1 refreshes one and reads another.
  bundle::Manifest two = gpuManifest();
  setRule(two, "two_columns", {0, 1});
  first.phases = two.rules.front().phases;
  two.rules.front().phases.front().refreshes.pop_back();
  two.rules.push_back(first);
  auto refused = Attention::make(gpuBundle(two), 2, 0);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text().find(
                "layer 1 of the schedule 'test' takes selections of several "
                "layers"),
            std::string::npos)
      << refused.error().text();
}

TEST_F(DeviceAttention, SelectsAndReadsWhatWasSelected) {
  bundle::Manifest manifest = gpuManifest();
  setRule(manifest, "columns", {0});
  start(manifest, 2, 50);
  ASSERT_OK(attention->check(8, 0));
  const std::vector<int64_t> refreshes =
      bundle::plannedSteps(manifest.selections[0].cadence, 8, 0);
  const std::set<int64_t> refreshed(refreshes.begin(), refreshes.end());
  ASSERT_FALSE(refreshed.empty());
  Memory lists(call->listBytes(1)), again(call->listBytes(1));
  std::vector<bool> kept;
  for (int64_t step = *refreshed.begin(); step <= 8; ++step) {
    const std::vector<float> mine =
        run({.layer = 1, .step = step, .steps = 8}, Part::All, lists);
    if (refreshed.count(step)) {
      expectAttention(mine, everything, 1e-5);
      kept = keptIn(lists);
    } else {
      expectAttention(
          mine,
          [&](int64_t s, int64_t h, int64_t i, int64_t j) -> bool {
            return kept[((s * heads + h) * 50 + i) * 50 + j];
          },
          1e-5);
    }
  }
  EXPECT_EQ(std::count(kept.begin(), kept.end(), true), 2 * heads * 50 * 25);
  // The selection alone is the same, and writes no output.
  const std::vector<float> nothing =
      run({.layer = 1, .step = *refreshed.begin(), .steps = 8}, Part::Select,
          again);
  EXPECT_TRUE(std::all_of(nothing.begin(), nothing.end(),
                          [](float x) { return x == 0; }));
  EXPECT_EQ(keptIn(again), kept);
}

// A step attends over what it has just chosen, with no other attention.
TEST_F(DeviceAttention, SelectsByLogitsAtOnce) {
  bundle::Manifest manifest = gpuManifest();
  constexpr auto scorer = bundle::Selection::Scorer::MeanLogit;
  manifest.selections[0].scorer = scorer;
  for (bundle::Kernel &kernel : manifest.kernels)
    if (kernel.name == "select_16")
      kernel.scorer = scorer;
  setRule(manifest, "columns", {0});
  std::vector<bundle::Phase> &phases = manifest.rules.front().phases;
  const std::vector<bundle::Phase::Refresh> refreshes =
      phases.front().refreshes;
  phases = {phases.back()};
  phases.front().refreshes = refreshes;
  phases.front().refreshesFirst = true;
  manifest.selections[0].cadence.kind = bundle::Cadence::Kind::Every;
  manifest.selections[0].cadence.period = 1;
  start(manifest, 2, 50);
  Memory lists(call->listBytes(1)), again(call->listBytes(1));
  for (int64_t step : {1, 2}) {
    const std::vector<float> mine =
        run({.layer = 1, .step = step, .steps = 8}, Part::All, lists);
    const std::vector<bool> kept = keptIn(lists);
    EXPECT_EQ(std::count(kept.begin(), kept.end(), true), 2 * heads * 50 * 25);
    expectAttention(
        mine,
        [&](int64_t s, int64_t h, int64_t i, int64_t j) -> bool {
          return kept[((s * heads + h) * 50 + i) * 50 + j];
        },
        1e-5);
    run({.layer = 1, .step = step, .steps = 8}, Part::Select, again);
    EXPECT_EQ(keptIn(again), kept);
    // Other queries and keys choose others.
    std::reverse(fused.begin(), fused.end());
    run({.layer = 1, .step = step, .steps = 8}, Part::Select, again);
    EXPECT_NE(keptIn(again), kept);
  }
}

TEST_F(DeviceAttention, ChoosesWithinWhatWasSelected) {
  bundle::Manifest manifest = gpuManifest();
  manifest.selections[0].group = 32;
  manifest.selections[1].within = 0;
  manifest.selections[1].cadence.period = 2;
  for (bundle::Kernel &kernel : manifest.kernels)
    if (kernel.name == "select_16")
      kernel.withinGroup = 32;
    else if (kernel.name == "two_columns")
      kernel.terms.erase(kernel.terms.begin());
  setRule(manifest, "two_columns", {0, 1});
  manifest.rules.front().phases.front().when.cadence =
      manifest.selections[1].cadence;
  start(manifest, 2, 50);
  ASSERT_OK(attention->check(8, 0));
  Memory lists(call->listBytes(1));
  auto isWithin = [&](const std::vector<bool> &outer) {
    const std::vector<bool> inner = keptIn(lists, 1);
    for (size_t i = 0; i < inner.size(); ++i)
      if (inner[i] && !outer[i])
        return false;
    // A third of the 25 keys that the others have.
    return std::count(inner.begin(), inner.end(), true) == 2 * heads * 50 * 8;
  };
  run({.layer = 1, .step = 1, .steps = 8}, Part::All, lists);
  const std::vector<bool> outer = keptIn(lists), first = keptIn(lists, 1);
  EXPECT_TRUE(isWithin(outer));
  expectAttention(
      run({.layer = 1, .step = 2, .steps = 8}, Part::All, lists),
      [&](int64_t s, int64_t h, int64_t i, int64_t j) -> bool {
        return first[((s * heads + h) * 50 + i) * 50 + j];
      },
      1e-5);
  // By other queries and keys, within the same.
  std::reverse(fused.begin(), fused.end());
  run({.layer = 1, .step = 3, .steps = 8}, Part::All, lists);
  EXPECT_EQ(keptIn(lists), outer);
  EXPECT_TRUE(isWithin(outer));
  EXPECT_NE(keptIn(lists, 1), first);
}

TEST_F(DeviceAttention, RefusesWhatKernelsCannotRead) {
  start(gpuManifest(), 1, 20);
  CallMemory memory;
  alignas(256) std::byte byte[512];
  memory.query = memory.key = memory.value = byte + 8;
  memory.output = memory.workspace = byte;
  EXPECT_ERROR(call->run({}, Part::All, memory), "multiples of 16 bytes");
  memory.lists = byte + 8;
  EXPECT_ERROR(call->run({}, Part::All, memory), "multiple of 64 bytes");
  shape.key.row += 2;
  EXPECT_ERROR(attention->prepare(shape), "make it contiguous");
  shape.key.row -= 2;
  shape.headDim = 80;
  EXPECT_ERROR(attention->prepare(shape), "head dim 80");
  EXPECT_ERROR(Attention::make(gpuBundle(gpuManifest()), 1, 3),
               "there is no GPU 3");
  // What only a model's run has.
  bundle::Manifest evicting = gpuManifest();
  evicting.positions.emplace_back().kind = bundle::Positions::Kind::Block;
  evicting.selections.front().always = 0;
  EXPECT_ERROR(Attention::make(gpuBundle(evicting), 1, 0),
               "goes by a set of positions, which needs a model");
}

} // namespace
