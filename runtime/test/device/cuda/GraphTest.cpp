//===- GraphTest.cpp - Recorded work does what it was recorded as ---------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/Graph.h"

#include "bundle/abi/Abi.h"
#include "runtime/device/cuda/Arena.h"
#include "runtime/device/cuda/Module.h"
#include "runtime/test/device/cuda/Fixture.h"

#include <bit>

using namespace heddle;
using namespace heddle::rt::cuda;
using namespace heddle::rt::cuda::test;

namespace {

class GraphTest : public DeviceTest {
protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure())
      return;
    ArenaPlan plan;
    plan.add("x", count * 4);
    plan.add("y", count * 4);
    Result<Arena> made = Arena::allocate(device(), plan);
    ASSERT_OK(made);
    arena = std::move(*made);
    Result<std::unique_ptr<Module>> loaded =
        Module::load(device(), code(), {{"scale", 128, 0}});
    ASSERT_OK(loaded);
    module = std::move(*loaded);
    std::vector<float> ones(count, 1);
    upload(arena[0], ones);
  }
  void TearDown() override {
    module.reset();
    arena = Arena();
    DeviceTest::TearDown();
  }

  virtual std::string code() const { return testPtx; }

  /// y = factor * x
  Status scale(const Stream &on, float factor, DevicePtr y, DevicePtr x) {
    return (*module)["scale"].launch(on, {(count + 127) / 128}, y, x, factor,
                                     count);
  }
  /// x = factor * x, twice the kernel
  Graph::Recorder growBy(float factor) {
    return [this, factor](const Stream &on) {
      if (Status status = scale(on, factor, arena[1], arena[0]); !status)
        return status;
      return scale(on, 1, arena[0], arena[1]);
    };
  }
  float first() { return download<float>(arena[0], 1)[0]; }
  float last() { return download<float>(arena[0] + (count - 1) * 4, 1)[0]; }

  static constexpr int64_t count = 1000;
  Arena arena;
  std::unique_ptr<Module> module;
};

TEST_P(GraphTest, RunsAtEveryLaunchAndNotBefore) {
  Result<Graph> graph = Graph::capture(stream, growBy(2));
  ASSERT_OK(graph);
  EXPECT_EQ(graph->nodes(), 2);
  EXPECT_EQ(first(), 1);
  for (int i = 0; i < 5; ++i)
    ASSERT_OK(graph->launch(stream));
  EXPECT_EQ(first(), 32);
  EXPECT_EQ(last(), 32);
}

TEST_P(GraphTest, AnErrorWhileRecordingLeavesTheStreamUsable) {
  Result<Graph> graph = Graph::capture(stream, [&](const Stream &on) -> Status {
    if (Status status = scale(on, 2, arena[1], arena[0]); !status)
      return status;
    return Error("the recorder gave up");
  });
  EXPECT_ERROR(graph, "the recorder gave up");
  ASSERT_OK(scale(stream, 4, arena[0], arena[0]));
  EXPECT_EQ(first(), 4);
  EXPECT_OK(Graph::capture(stream, growBy(1)));
}

TEST_P(GraphTest, WaitingInsideARecordingIsAnError) {
  Result<Graph> graph = Graph::capture(
      stream, [&](const Stream &on) { return on.synchronize(); });
  EXPECT_ERROR(graph, "cuStreamSynchronize failed");
  // Also when the recorder does not tell.
  graph = Graph::capture(stream, [&](const Stream &on) {
    (void)on.synchronize();
    return Status::success();
  });
  EXPECT_ERROR(graph, "cuStreamEndCapture failed");
  EXPECT_FALSE(device().broken());
  EXPECT_OK(Graph::capture(stream, growBy(1)));
}

TEST_P(GraphTest, CopiesAndFillsAreRecordedToo) {
  Result<Graph> graph = Graph::capture(stream, [&](const Stream &on) -> Status {
    if (Status status = on.fillBytes(arena[0], 0x40, count * 4); !status)
      return status;
    if (Status status = on.fillBytes(arena[1], 0, count * 4); !status)
      return status;
    return on.copyOnDevice(arena[1], arena[0], 4);
  });
  ASSERT_OK(graph);
  ASSERT_OK(graph->launch(stream));
  const float filled = std::bit_cast<float>(0x40404040);
  EXPECT_EQ(last(), filled);
  EXPECT_EQ(download<float>(arena[1], 2), (std::vector<float>{filled, 0}));
}

TEST_P(GraphTest, AnEmptyGraphIsOne) {
  Result<Graph> graph =
      Graph::capture(stream, [](const Stream &) { return Status::success(); });
  ASSERT_OK(graph);
  EXPECT_EQ(graph->nodes(), 0);
  EXPECT_OK(graph->launch(stream));
  EXPECT_OK(stream.synchronize());
}

INSTANTIATE_ON_MACHINES(GraphTest);

/// Kernels that are launched before what they read is there.
class EarlyTest : public GraphTest {
protected:
  void SetUp() override {
    GraphTest::SetUp();
    if (!IsSkipped() && !HasFatalFailure() && device().device().major < 9)
      GTEST_SKIP() << "kernels of this GPU cannot wait";
  }
  std::string code() const override {
    std::string text = testPtx;
    auto replace = [&](const std::string &from, const std::string &to) {
      for (size_t at = text.find(from); at != std::string::npos;
           at = text.find(from, at + to.size()))
        text.replace(at, from.size(), to);
    };
    if (const_cast<EarlyTest *>(this)->device().device().major < 9)
      return text;
    replace(".version 7.1", ".version 7.8");
    replace("sm_80", "sm_90");
    replace("ld.param.u64 %rd1", "griddepcontrol.launch_dependents;\n"
                                 "    griddepcontrol.wait;\n"
                                 "    ld.param.u64 %rd1");
    return text + ".visible .global .align 1 .b8 " +
           heddle::abi::waitingSymbol + ";\n";
  }
};

TEST_P(EarlyTest, EachSeesWhatTheOneBeforeWrote) {
  for (int i = 0; i < 100; ++i)
    ASSERT_OK(growBy(i % 2 ? 0.5f : 2.0f)(stream));
  ASSERT_OK(growBy(2)(stream));
  EXPECT_EQ(first(), 2);
  EXPECT_EQ(last(), 2);
  if (!real()) {
    EXPECT_EQ(fakeDriver().early["scale"], 202);
  }
}

TEST_P(EarlyTest, AlsoInGraphsAndBehindCopies) {
  Result<Graph> graph = Graph::capture(stream, [&](const Stream &on) -> Status {
    for (int i = 0; i < 20; ++i) {
      if (Status status = growBy(2)(on); !status)
        return status;
      if (Status status = on.copyOnDevice(arena[1], arena[0], count * 4);
          !status)
        return status;
      if (Status status = scale(on, 0.5f, arena[0], arena[1]); !status)
        return status;
    }
    return growBy(2)(on);
  });
  ASSERT_OK(graph);
  EXPECT_EQ(graph->nodes(), 20 * 4 + 2);
  for (int i = 0; i < 5; ++i)
    ASSERT_OK(graph->launch(stream));
  EXPECT_EQ(first(), 32);
  EXPECT_EQ(last(), 32);
}

INSTANTIATE_ON_MACHINES(EarlyTest);

class GraphFailureTest : public FakeTest {};

TEST_F(GraphFailureTest, EveryCallOfACaptureIsChecked) {
  Result<Stream> stream = Stream::create(device());
  ASSERT_OK(stream);
  for (const char *call : {"cuStreamBeginCapture_v2", "cuStreamEndCapture",
                           "cuGraphGetNodes", "cuGraphInstantiateWithFlags"}) {
    fakeDriver().failures = {{call, {api::CUDA_ERROR_UNKNOWN, 0}}};
    EXPECT_ERROR(Graph::capture(
                     *stream, [](const Stream &) { return Status::success(); }),
                 std::string(call) + " failed");
    fakeDriver().failures.clear();
    // cuStreamEndCapture failed before it ended anything: end it now.
    api::CUgraph left = nullptr;
    int capturing = 0;
    ASSERT_OK(device().call(device().api().streamIsCapturing, stream->handle(),
                            &capturing));
    if (capturing) {
      ASSERT_OK(device().call(device().api().streamEndCapture, stream->handle(),
                              &left));
      ASSERT_OK(device().call(device().api().graphDestroy, left));
    }
  }
}

} // namespace
