//===- HostLauncher.cpp - A call's kernels on the host --------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Launcher.h"

#include "runtime/module/HostModule.h"
#include "runtime/schedule/BoundKernel.h"
#include "runtime/schedule/HostKernels.h"

#include <map>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

namespace heddle::embed {

namespace {

/// Kernels of one element type and head dim. All calls on the host take turns:
/// each uses all cores.
class HostLauncher final : public Launcher {
public:
  explicit HostLauncher(std::unique_ptr<rt::HostKernels> kernels)
      : kernels(std::move(kernels)) {}

  Status reserve(int64_t length) {
    std::lock_guard<std::timed_mutex> turn(hostSteps());
    if (length <= static_cast<int64_t>(positions.size()))
      return Status::success();
    if (Status status = kernels->reserve(length); !status)
      return status;
    positions.resize(length);
    std::iota(positions.begin(), positions.end(), 0);
    return Status::success();
  }

  bool isHost() const override { return true; }
  Result<bool> begin(void *, uintptr_t,
                     const Interrupted &interrupted) override {
    // First: a thread that the process was forked from may hold the lock.
    if (Status status = checkProcess(); !status)
      return status.takeError();
    std::unique_lock turn(hostSteps(), std::defer_lock);
    if (Status status = take(turn, interrupted); !status)
      return status.takeError();
    turn.release(); // until end()
    if (interrupted)
      kernels->setInterrupted([&] { return ask(interrupted); });
    return true;
  }
  Status attend(size_t kernel,
                std::span<const abi::AttentionArgs> blocks) override {
    launched.assign(blocks.begin(), blocks.end());
    for (abi::AttentionArgs &args : launched) {
      args.place = positions.data();
      args.position = positions.data() + firstPosition(args);
    }
    return kernels->attend(kernel, launched);
  }
  Status select(size_t kernel,
                std::span<const abi::SelectArgs> blocks) override {
    selected.assign(blocks.begin(), blocks.end());
    for (abi::SelectArgs &args : selected)
      args.position = positions.data();
    return kernels->select(kernel, selected);
  }
  Status end(Status status) override {
    kernels->setInterrupted({});
    hostSteps().unlock();
    return status;
  }

private:
  /// Attention over a sequence's last keys alone has more rows than keys.
  static int64_t firstPosition(const abi::AttentionArgs &args) {
    return args.rows - args.n;
  }

  std::unique_ptr<rt::HostKernels> kernels;
  std::vector<int32_t> positions; ///< 0, 1, ...
  std::vector<abi::AttentionArgs> launched;
  std::vector<abi::SelectArgs> selected;
};

class Host final : public Machine {
public:
  Host(const bundle::Bundle &bundle, const bundle::Manifest &manifest,
       const rt::StepProgram &program)
      : bundle(bundle), manifest(manifest), program(program) {}

  Result<std::shared_ptr<Launcher>> fit(const CallShape &shape) override {
    if (Status status = checkProcess(); !status)
      return status.takeError();
    std::lock_guard<std::mutex> lock(mutex);
    std::shared_ptr<HostLauncher> &known =
        launchers[{shape.dtype, shape.headDim}];
    if (!known) {
      Result<std::unique_ptr<rt::HostModule>> module =
          rt::HostModule::load(bundle);
      if (!module)
        return module.takeError();
      Result<std::vector<rt::BoundKernel>> kernels = rt::bindKernels(
          manifest, program, **module, shape.dtype, shape.headDim);
      if (!kernels)
        return kernels.takeError();
      known = std::make_shared<HostLauncher>(std::make_unique<rt::HostKernels>(
          std::move(*module), std::move(*kernels)));
    }
    if (Status status = known->reserve(shape.length); !status)
      return status.takeError();
    return std::shared_ptr<Launcher>(known);
  }

private:
  const bundle::Bundle bundle;
  const bundle::Manifest &manifest;
  const rt::StepProgram &program;
  std::mutex mutex;
  std::map<std::pair<rt::DType, int64_t>, std::shared_ptr<HostLauncher>>
      launchers;
};

} // namespace

Result<std::unique_ptr<Machine>> makeHost(const bundle::Bundle &bundle,
                                          const bundle::Manifest &manifest,
                                          const rt::StepProgram &program) {
  if (Status status = checkProcess(); !status)
    return status.takeError();
  return std::unique_ptr<Machine>(
      std::make_unique<Host>(bundle, manifest, program));
}

} // namespace heddle::embed
