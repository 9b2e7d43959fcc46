//===- DeviceLauncher.cpp - A call's kernels on a GPU ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Work goes into the caller's stream in the device's primary context, which
// PyTorch, CuPy and JAX use too. Argument blocks have to be in the device's
// memory; a kernel of our own takes them there as its parameters, since those
// are read at the launch: nothing is waited for, no memory of the host has to
// stay, and a CUDA graph that records the call holds them. In other streams a
// call finds those of earlier calls there (KeptArguments.h).
//
//===----------------------------------------------------------------------===//

#include "KeptArguments.h"
#include "Launcher.h"
#include "Process.h"

#include "runtime/device/cuda/Context.h"
#include "runtime/device/cuda/Graph.h"
#include "runtime/device/cuda/Module.h"
#include "runtime/device/cuda/TileMaps.h"
#include "runtime/engine/cuda/Address.h"
#include "runtime/engine/cuda/Kernels.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace heddle::embed {

using namespace rt::cuda;

namespace {

/// Bytes that one launch takes along: all of a sequence's arguments, or what
/// parameters have room for, 4 KB in all. Short ones make a shorter call.
constexpr int64_t chunkBytes[] = {768, 3840};
constexpr const char *putNames[] = {"put_one", "put"};

/// put(to, data, words): words of 8 bytes to the device's memory.
std::string putCode() {
  std::string code = ".version 7.0\n.target sm_80\n.address_size 64\n";
  for (size_t i = 0; i < std::size(chunkBytes); ++i)
    code += std::string(".visible .entry ") + putNames[i] +
            "(\n  .param .u64 to,\n  .param .align 16 .b8 data[" +
            std::to_string(chunkBytes[i]) + R"(],
  .param .u32 words)
{
  .reg .pred %p;
  .reg .b32 %r<5>;
  .reg .b64 %d<6>;
  ld.param.u32 %r0, [words];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mad.lo.u32 %r4, %r2, %r3, %r1;
  setp.ge.u32 %p, %r4, %r0;
  @%p ret;
  ld.param.u64 %d0, [to];
  mov.b64 %d1, data;
  mul.wide.u32 %d2, %r4, 8;
  add.s64 %d3, %d1, %d2;
  ld.param.u64 %d4, [%d3];
  add.s64 %d5, %d0, %d2;
  st.global.u64 [%d5], %d4;
  ret;
}
)";
  return code;
}
constexpr int64_t putThreads = 128;

/// A GPU in use by this process; never closed, as its context is shared.
struct Gpu {
  std::unique_ptr<Context> context;
  std::unique_ptr<Module> code; ///< putCode()
  pid_t process = 0;

  Status checkProcess() const {
    if (process == processNumber())
      return Status::success();
    return Error("this process (" + std::to_string(processNumber()) +
                 ") was forked from one that uses the GPU (" +
                 std::to_string(process) +
                 "), and CUDA does not survive a fork; start processes anew "
                 "instead (in Python: multiprocessing.get_context(\"spawn\"))");
  }
};

/// Gives the thread the context back that it had: another library's idea of
/// its current device.
class ContextGuard {
public:
  explicit ContextGuard(const Driver &driver)
      : entries(driver.entryPoints()), before(current()) {}
  ~ContextGuard() {
    if (before && before != current())
      (void)entries.ctxSetCurrent.function(before);
  }
  ContextGuard(const ContextGuard &) = delete;
  ContextGuard &operator=(const ContextGuard &) = delete;

private:
  api::CUcontext current() const {
    api::CUcontext context = nullptr;
    if (auto get = entries.ctxGetCurrent.function)
      (void)get(&context);
    return context;
  }

  const api::EntryPoints &entries;
  const api::CUcontext before;
};

std::string &driverFile() {
  static std::string path;
  return path;
}

Result<Gpu *> gpuOf(int ordinal) {
  static std::mutex &mutex = *new std::mutex;
  static auto &all = *new std::map<int, Gpu>;
  std::lock_guard<std::mutex> lock(mutex);
  Gpu &gpu = all[ordinal];
  if (!gpu.context) {
    Result<std::shared_ptr<const Driver>> driver =
        driverFile().empty() ? Driver::open() : Driver::open(driverFile());
    if (!driver)
      return driver.takeError();
    ContextGuard guard(**driver);
    Result<std::unique_ptr<Context>> context = Context::open(*driver, ordinal);
    if (!context)
      return context.takeError();
    std::vector<KernelShape> kernels;
    for (const char *name : putNames)
      kernels.push_back({name, putThreads, 0, /*parameters=*/3, 1});
    Result<std::unique_ptr<Module>> code =
        Module::load(**context, putCode(), kernels);
    if (!code)
      return code.takeError();
    gpu.context = std::move(*context);
    gpu.code = std::move(*code);
    gpu.process = processNumber();
  }
  if (Status status = gpu.checkProcess(); !status)
    return status.takeError();
  return &gpu;
}

class DeviceLauncher final : public Launcher {
public:
  DeviceLauncher(const Gpu &gpu, ScheduleKernels kernels, int64_t sequences,
                 int64_t selections)
      : gpu(gpu), kernels(std::move(kernels)),
        scratchAt(argumentBytes(sequences, 2 + 3 * selections)),
        total(scratchAt + this->kernels.scratchBytes(sequences)),
        kept{std::make_unique<KeptArguments>(*gpu.context,
                                             argumentBytes(sequences, 1)),
             std::make_unique<KeptArguments>(*gpu.context, scratchAt)} {}
  ~DeviceLauncher() override {
    ContextGuard guard(gpu.context->driver());
    for (std::unique_ptr<KeptArguments> &each : kept)
      if (gpu.checkProcess())
        each.reset();
      else
        (void)each.release(); // the other process's memory
  }

  bundle::Encoding encoding() const override { return kernels.encoding(); }
  int64_t workspaceBytes() const override { return total; }

  Result<bool> begin(void *workspace, uintptr_t queue,
                     const Interrupted &) override {
    if (Status status = gpu.checkProcess(); !status)
      return status.takeError();
    base = addressOf(workspace);
    scratch = base + scratchAt;
    stream =
        Stream::borrow(*gpu.context, reinterpret_cast<api::CUstream>(queue));
    guard.emplace(gpu.context->driver());
    keeper = kept[base != 0].get();
    number = keeper->streamNumber(stream.handle());
    if (!base && !number) {
      guard.reset();
      return false;
    }
    arguments.clear();
    launches.clear();
    return true;
  }

  Status attend(size_t kernel,
                std::span<const abi::AttentionArgs> blocks) override {
    const DeviceKernel &bound = kernels[kernel];
    const abi::AttentionArgs &first = blocks.front(); // all are of one shape
    const KernelForm &form = first.rows == first.n ? bound.all : bound.any;
    const bundle::KernelVariant &variant = *form.variant;
    int64_t rows = 1;
    for (const abi::AttentionArgs &args : blocks) {
      for (const void *tensor :
           {args.query, args.key, args.value, (const void *)args.output})
        if (addressOf(tensor) % 16)
          return Error(
              "on a GPU, q, k and v begin at multiples of 16 bytes; one "
              "of these does not: make it contiguous, or clone() it");
      rows = std::max(rows, args.rows);
    }
    int64_t at =
        append(blocks.data(), blocks.size_bytes(), alignof(abi::AttentionArgs));
    launches.push_back({kernel, &form, at, static_cast<int64_t>(blocks.size()),
                        (rows + variant.queryRows - 1) / variant.queryRows});
    return Status::success();
  }

  Status select(size_t kernel,
                std::span<const abi::SelectArgs> blocks) override {
    int64_t at =
        append(blocks.data(), blocks.size_bytes(), alignof(abi::SelectArgs));
    launches.push_back(
        {kernel, nullptr, at, static_cast<int64_t>(blocks.size()), 0});
    return Status::success();
  }

  Status end(Status status) override {
    if (status && number)
      status = runKept();
    else if (status && (status = put()))
      status = launchAll(stream);
    guard.reset();
    return status;
  }

private:
  struct Launch {
    size_t kernel;
    const KernelForm *form; ///< null: of a select kernel
    int64_t at;             ///< of its blocks in the arguments
    int64_t sequences;
    int64_t tiles;
  };

  /// Of so many launches. A call has at most attention twice and, of each
  /// selection, its kernel and attention twice more, for log-sum-exps.
  static int64_t argumentBytes(int64_t sequences, int64_t launches) {
    constexpr int64_t block = sizeof(abi::AttentionArgs) +
                              sizeof(abi::TileMaps) + alignof(abi::TileMaps);
    static_assert(sizeof(abi::SelectArgs) <= block);
    int64_t most = launches * sequences * block;
    return (most + 255) / 256 * 256;
  }

  int64_t append(const void *from, size_t size, size_t alignment) {
    size_t at = (arguments.size() + alignment - 1) / alignment * alignment;
    arguments.resize(at + size);
    std::memcpy(arguments.data() + at, from, size);
    return static_cast<int64_t>(at);
  }

  Status launchAll(const Stream &into) const {
    for (const Launch &each : launches) {
      Status status = each.form
                          ? kernels.attend(into, *each.form, base + each.at,
                                           each.sequences, each.tiles)
                          : kernels.select(into, each.kernel, base + each.at,
                                           each.sequences, scratch);
      if (!status)
        return status;
    }
    return Status::success();
  }

  /// In a stream that arguments are kept for.
  Status runKept() {
    Result<KeptArguments::Place *> place = keeper->find(*number, arguments);
    if (!place)
      return place.takeError();
    base = (*place)->address;
    if ((*place)->content.empty()) {
      std::vector<std::byte> content = arguments; // put() adds to them
      if (Status status = put(); !status)
        return status;
      (*place)->content = std::move(content);
    } else if (launches.size() > 1) {
      auto record = [this](const Stream &into) { return launchAll(into); };
      if (const Graph *graph = keeper->graphOf(**place, workBytes(), record))
        return graph->launch(stream);
    }
    return launchAll(stream);
  }

  /// What tells launchAll() from others on the same arguments.
  std::vector<std::byte> workBytes() const {
    std::vector<std::byte> bytes(sizeof(scratch) +
                                 launches.size() * sizeof(Launch));
    std::memcpy(bytes.data(), &scratch, sizeof(scratch));
    std::memcpy(bytes.data() + sizeof(scratch), launches.data(),
                launches.size() * sizeof(Launch));
    return bytes;
  }

  /// Tensor maps, which follow from the blocks, behind them.
  Status appendMaps() {
    for (const Launch &each : launches) {
      if (!each.form || !each.form->variant->mapRows)
        continue;
      for (int64_t s = 0; s < each.sequences; ++s) {
        const size_t at = static_cast<size_t>(each.at) +
                          size_t(s) * sizeof(abi::AttentionArgs);
        abi::AttentionArgs args;
        std::memcpy(&args, arguments.data() + at, sizeof(args));
        Result<abi::TileMaps> maps =
            encodeTileMaps(*gpu.context, *each.form->variant, args);
        if (!maps)
          return maps.takeError();
        args.tileMaps = rt::cuda::at<const abi::TileMaps>(
            base + append(&*maps, sizeof(*maps), alignof(abi::TileMaps)));
        std::memcpy(arguments.data() + at, &args, sizeof(args));
      }
    }
    return Status::success();
  }

  Status put() {
    static_assert(sizeof(abi::AttentionArgs) % 8 == 0 &&
                  sizeof(abi::SelectArgs) % 8 == 0);
    if (Status status = appendMaps(); !status)
      return status;
    const auto size = static_cast<int64_t>(arguments.size());
    const size_t which = size > chunkBytes[0];
    const int64_t most = chunkBytes[which];
    const Kernel &kernel = *putKernels[which];
    arguments.resize((size + most - 1) / most * most);
    for (int64_t at = 0; at < size; at += most) {
      const auto words = static_cast<uint32_t>(std::min(most, size - at) / 8);
      const DevicePtr to = base + at;
      const void *values[] = {&to, arguments.data() + at, &words, nullptr};
      const int64_t sizes[] = {sizeof(to), most, sizeof(words), 0};
      Status status = kernel.launchWith(
          stream, {.x = (words + putThreads - 1) / putThreads}, values, sizes,
          3);
      if (!status)
        return status;
    }
    return Status::success();
  }

  const Gpu &gpu;
  const ScheduleKernels kernels;
  const Kernel *const putKernels[2] = {&(*gpu.code)[putNames[0]],
                                       &(*gpu.code)[putNames[1]]};
  const int64_t scratchAt;
  const int64_t total;
  /// Of calls without a workspace, which have one launch, and of others.
  std::unique_ptr<KeptArguments> kept[2];

  // The call.
  DevicePtr base = 0; ///< of its arguments
  DevicePtr scratch = 0;
  KeptArguments *keeper = nullptr;
  std::optional<uint64_t> number; ///< of the stream, if arguments are kept
  Stream stream;
  std::optional<ContextGuard> guard;
  std::vector<std::byte> arguments;
  std::vector<Launch> launches;
};

class Device final : public Machine {
public:
  Device(const Gpu &gpu, std::unique_ptr<Module> module,
         const bundle::Manifest &manifest, const rt::StepProgram &program)
      : gpu(gpu), module(std::move(module)), manifest(manifest),
        program(program) {}

  Result<std::shared_ptr<Launcher>> fit(const CallShape &shape) override {
    if (Status status = gpu.checkProcess(); !status)
      return status.takeError();
    constexpr int64_t mostSequences = 65535; // of a grid
    if (shape.sequences > mostSequences || shape.length > longestSequence)
      return Error("a batch of " + std::to_string(shape.sequences) + " x " +
                   std::to_string(shape.length) + " tokens; at most " +
                   std::to_string(mostSequences) + " x " +
                   std::to_string(longestSequence) + " go to a GPU together");
    for (const CallShape::Strides &strides :
         {shape.query, shape.key, shape.value, shape.output})
      if (strides.row * rt::byteSize(shape.dtype) % 16 ||
          strides.sequence * rt::byteSize(shape.dtype) % 16)
        return Error("on a GPU, rows and sequences begin at multiples of 16 "
                     "bytes; here they are " +
                     std::to_string(strides.row) + " and " +
                     std::to_string(strides.sequence) +
                     " elements apart: make it contiguous");
    rt::ModelConfig config;
    config.layers = program.layers();
    config.queryHeads = shape.queryHeads;
    config.kvHeads = shape.kvHeads;
    config.headDim = shape.headDim;
    Result<ScheduleKernels> kernels = ScheduleKernels::bind(
        *gpu.context, *module, manifest, program, config, shape.dtype);
    if (!kernels)
      return kernels.takeError();
    if (Status status = kernels->fit(shape.length); !status)
      return status.takeError();
    return std::shared_ptr<Launcher>(std::make_shared<DeviceLauncher>(
        gpu, std::move(*kernels), shape.sequences,
        static_cast<int64_t>(manifest.selections.size())));
  }

private:
  const Gpu &gpu;
  std::unique_ptr<Module> module;
  const bundle::Manifest &manifest;
  const rt::StepProgram &program;
};

} // namespace

void useDriver(std::string path) { driverFile() = std::move(path); }

Status synchronizeDevice(int ordinal, uintptr_t stream) {
  Result<Gpu *> gpu = gpuOf(ordinal);
  if (!gpu)
    return gpu.takeError();
  ContextGuard guard((*gpu)->context->driver());
  return Stream::borrow(*(*gpu)->context,
                        reinterpret_cast<api::CUstream>(stream))
      .synchronize();
}

Result<std::unique_ptr<Machine>> makeDevice(const bundle::Bundle &bundle,
                                            const bundle::Manifest &manifest,
                                            const rt::StepProgram &program,
                                            int ordinal) {
  Result<Gpu *> gpu = gpuOf(ordinal);
  if (!gpu)
    return gpu.takeError();
  ContextGuard guard((*gpu)->context->driver());
  Result<std::unique_ptr<Module>> module =
      Module::load(*(*gpu)->context, bundle);
  if (!module)
    return module.takeError();
  return std::unique_ptr<Machine>(
      std::make_unique<Device>(**gpu, std::move(*module), manifest, program));
}

} // namespace heddle::embed
