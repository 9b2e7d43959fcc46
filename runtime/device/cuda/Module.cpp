//===- Module.cpp - A bundle's kernels on the device ----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/Module.h"

#include "bundle/abi/Abi.h"
#include "bundle/abi/RowAbi.h"

#include "runtime/base/Machine.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <span>

namespace heddle::rt::cuda {

using namespace api;
using bundle::CodeForm;

namespace {

/// "sm_90a": 90, specific.
struct Architecture {
  int capability = 0;
  bool specific = false; ///< for exactly this one
};

std::optional<Architecture> parseArchitecture(std::string_view cpu) {
  if (!cpu.starts_with("sm_"))
    return std::nullopt;
  Architecture result;
  const char *end = cpu.data() + cpu.size();
  auto [rest, error] = std::from_chars(cpu.data() + 3, end, result.capability);
  std::string_view suffix(rest, static_cast<size_t>(end - rest));
  if (error != std::errc() || (!suffix.empty() && suffix != "a"))
    return std::nullopt;
  result.specific = suffix == "a";
  return result;
}

/// The PTX ISA that a target's code needs (80 for "ptx80"); 0 if it says none.
int ptxVersion(const bundle::Target &target) {
  int version = 0;
  for (std::string_view feature : target.features)
    if (feature.starts_with("ptx"))
      std::from_chars(feature.data() + 3, feature.data() + feature.size(),
                      version);
  return version;
}

bool runsCubin(const Architecture &code, const DeviceInfo &device) {
  if (code.specific)
    return code.capability == device.capability();
  return code.capability / 10 == device.major &&
         code.capability <= device.capability();
}

bool runsPtx(const Architecture &code, const DeviceInfo &device) {
  if (code.specific)
    return code.capability == device.capability();
  return code.capability <= device.capability();
}

/// "sm_80 (PTX), sm_90a (PTX and machine code)".
std::string listTargets(const bundle::Bundle &bundle) {
  std::string text;
  for (const bundle::Target &target : bundle.manifest().targets) {
    if (!text.empty())
      text += ", ";
    if (target.kind == bundle::Target::Kind::Host) {
      text += "the host (" + target.cpu + ")";
      continue;
    }
    bool cubin = !bundle.section(codeSection(target, CodeForm::Cubin)).empty();
    bool ptx = !bundle.section(codeSection(target, CodeForm::Ptx)).empty();
    text += target.cpu + (cubin && ptx ? " (PTX and machine code)"
                          : cubin      ? " (machine code)"
                          : ptx        ? " (PTX)"
                                       : " (without its code)");
  }
  return text;
}

/// "8, 8, 4 bytes".
template <typename Sizes> std::string listSizes(const Sizes &sizes) {
  std::string text;
  for (int64_t size : sizes)
    text += (text.empty() ? "" : ", ") + std::to_string(size);
  return text + " bytes";
}

} // namespace

/// How heddlec names the code that suits a device best.
static std::string compilerTarget(const DeviceInfo &device) {
  switch (device.capability()) {
  case 80:
  case 86:
  case 89:
  case 100:
  case 120:
    return "cuda:sm_" + std::to_string(device.capability());
  case 90:
    return "cuda:sm_90a";
  default:
    return "cuda"; // PTX, which the driver compiles
  }
}

Result<CodeChoice> chooseCode(const bundle::Bundle &bundle,
                              const DeviceInfo &device) {
  const std::vector<bundle::Target> &targets = bundle.manifest().targets;
  CodeChoice best;
  Architecture bestArchitecture;
  std::string tooOld;
  for (size_t i = 0; i < targets.size(); ++i) {
    const bundle::Target &target = targets[i];
    if (target.kind != bundle::Target::Kind::Cuda)
      continue;
    std::optional<Architecture> code = parseArchitecture(target.cpu);
    if (!code)
      continue;
    bool cubin = runsCubin(*code, device) &&
                 !bundle.section(codeSection(target, CodeForm::Cubin)).empty();
    bool ptx = runsPtx(*code, device) &&
               !bundle.section(codeSection(target, CodeForm::Ptx)).empty();
    int needed = driverVersionForPtx(ptxVersion(target));
    if (ptx && !cubin && device.driverVersion < needed) {
      tooOld = "the code for " + target.cpu + " needs a driver of CUDA " +
               formatVersion(needed) + ", this one is of " +
               formatVersion(device.driverVersion) +
               "; update the driver, or compile where ptxas is, so that the "
               "bundle has machine code";
      continue;
    }
    if (!cubin && !ptx)
      continue;
    bool better = best.target < 0 ||
                  code->capability > bestArchitecture.capability ||
                  (code->capability == bestArchitecture.capability &&
                   code->specific && !bestArchitecture.specific);
    if (!better)
      continue;
    best = {static_cast<int64_t>(i), cubin ? CodeForm::Cubin : CodeForm::Ptx};
    bestArchitecture = *code;
  }
  if (best.target >= 0)
    return best;
  if (!tooOld.empty())
    return Error(device.describe() + ": " + tooOld);
  return Error("the bundle has code for " + listTargets(bundle) +
               ", none of which runs on " + device.describe() +
               "; compile the schedule with `heddlec --target=" +
               compilerTarget(device) + "`");
}

Result<std::unique_ptr<Module>> Module::load(const Context &context,
                                             const bundle::Bundle &bundle) {
  Result<CodeChoice> choice = chooseCode(bundle, context.device());
  if (!choice)
    return choice.takeError();
  const bundle::Manifest &manifest = bundle.manifest();
  const bundle::Target &target = manifest.targets[choice->target];
  auto section = [&](CodeForm form) {
    return bundle.section(codeSection(target, form));
  };

  std::unique_ptr<Module> module(new Module(context));
  Status status = module->start(section(choice->form));
  // Machine code can be newer than the driver; PTX may serve then.
  if (!status && choice->form == CodeForm::Cubin && !context.broken() &&
      runsPtx(*parseArchitecture(target.cpu), context.device()) &&
      !section(CodeForm::Ptx).empty()) {
    choice->form = CodeForm::Ptx;
    status = module->start(section(CodeForm::Ptx));
  }
  std::string where = "section " + codeSection(target, choice->form);
  if (!status)
    return status.takeError().withContext(where);
  module->chosen = *choice;

  auto resolve = [&](const auto &variant, int64_t parameters,
                     int64_t cluster = 1, bool persistent = false) -> Status {
    if (variant.target != choice->target)
      return Status::success();
    return module->resolve({variant.symbol, variant.threads,
                            variant.sharedBytes, parameters, cluster,
                            persistent});
  };
  for (const bundle::Kernel &kernel : manifest.kernels)
    for (const bundle::KernelVariant &variant : kernel.variants)
      if (Status status = resolve(variant, abi::cudaParameters, variant.cluster,
                                  variant.persistent);
          !status)
        return status.takeError().withContext(where);
  for (const bundle::RowKernel &kernel : manifest.rowKernels)
    for (const bundle::RowVariant &variant : kernel.variants)
      if (Status status =
              resolve(variant, std::ssize(abi::fieldsOf(kernel.op)));
          !status)
        return status.takeError().withContext(where);
  return module;
}

Result<std::unique_ptr<Module>>
Module::load(const Context &context, std::string_view code,
             const std::vector<KernelShape> &kernels) {
  std::unique_ptr<Module> module(new Module(context));
  if (Status status = module->start(code); !status)
    return status.takeError();
  for (const KernelShape &shape : kernels)
    if (Status status = module->resolve(shape); !status)
      return status.takeError();
  return module;
}

/// Whether kernels may start before what precedes them in a stream is done:
/// from compute capability 9.0 on. Drivers before 12.3 cannot capture it.
static bool canLaunchEarly(const Context &context) {
  return context.device().major >= 9 &&
         context.device().driverVersion >= 12030 &&
         context.api().launchKernelEx.function;
}

bool Module::hasWaitingKernels() const {
  CUdeviceptr address = 0;
  size_t bytes = 0;
  return owner->api().moduleGetGlobal.function(
             &address, &bytes, handle, abi::waitingSymbol) == CUDA_SUCCESS;
}

Status Module::start(std::string_view code) {
  if (code.empty())
    return Error("there is no code");
  // The driver takes PTX as a C string.
  std::string image(code);
  std::string log(16384, '\0');
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER,
                            CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log.data(), reinterpret_cast<void *>(
                                    static_cast<uintptr_t>(log.size() - 1))};
  if (Status status = owner->enter(); !status)
    return status;
  const auto &entry = owner->api().moduleLoadDataEx;
  CUresult result = entry.function(&handle, image.data(), std::size(options),
                                   options, values);
  if (result == CUDA_SUCCESS) {
    kernelsWait = canLaunchEarly(*owner) && hasWaitingKernels();
    return Status::success();
  }
  handle = nullptr;
  log.resize(std::strlen(log.c_str()));
  while (!log.empty() && (log.back() == '\n' || log.back() == ' '))
    log.pop_back();
  Error error = [&] {
    Status status = owner->check(result, entry.name);
    return status.takeError();
  }();
  std::string what = "the driver (CUDA " +
                     formatVersion(owner->device().driverVersion) +
                     ") refused the code";
  switch (result) {
  case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    what += ", which is newer than it; update the driver";
    break;
  case CUDA_ERROR_NO_BINARY_FOR_GPU:
    what += ", which is for another GPU than " + owner->device().describe();
    break;
  case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
  case CUDA_ERROR_JIT_COMPILATION_DISABLED:
    what += ": its PTX compiler (libnvidia-ptxjitcompiler.so) is missing or "
            "switched off (CUDA_DISABLE_PTX_JIT); compile where ptxas is, so "
            "that the bundle has machine code";
    break;
  default:
    break;
  }
  return Error(what + ": " + error.text() +
               (log.empty() ? "" : "; its log:\n" + log));
}

Status Module::resolve(const KernelShape &shape) {
  if (kernels.count(shape.symbol))
    return Status::success();
  const DeviceInfo &device = owner->device();
  const EntryPoints &entries = owner->api();
  std::string where = "kernel '" + shape.symbol + "'";

  Kernel kernel;
  kernel.owner = owner;
  kernel.shape = shape;
  kernel.waits = kernelsWait;
  if (Status status = owner->enter(); !status)
    return status;
  CUresult found = entries.moduleGetFunction.function(&kernel.function, handle,
                                                      shape.symbol.c_str());
  if (found == CUDA_ERROR_NOT_FOUND)
    return Error(where + " is not in the code; the bundle is inconsistent, "
                         "compile the schedule again");
  if (Status status = owner->check(found, entries.moduleGetFunction.name);
      !status)
    return status.takeError().withContext(where);

  // Asking also loads the code now, not in the middle of a capture.
  int mostThreads = 0, staticShared = 0;
  const std::pair<CUfunction_attribute, int *> facts[] = {
      {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &mostThreads},
      {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &staticShared},
      {CU_FUNC_ATTRIBUTE_NUM_REGS, &kernel.registerCount},
      {CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &kernel.localMemory},
  };
  for (auto [attribute, value] : facts)
    if (Status status = owner->call(entries.funcGetAttribute, value, attribute,
                                    kernel.function);
        !status)
      return status.takeError().withContext(where);
  if (shape.threads < 1 || shape.threads > mostThreads)
    return Error(where + " should run with " + std::to_string(shape.threads) +
                 " threads a block, its code and " + device.describe() +
                 " allow 1 to " + std::to_string(mostThreads));
  if (shape.sharedBytes < 0 ||
      shape.sharedBytes > device.sharedPerBlock - staticShared)
    return Error(where + " needs " +
                 std::to_string(shape.sharedBytes + staticShared) +
                 " bytes of shared memory a block, " + device.describe() +
                 " has " + std::to_string(device.sharedPerBlock) +
                 "; compile the schedule with `heddlec --target=" +
                 compilerTarget(device) + "`");
  if (shape.sharedBytes > 0)
    if (Status status =
            owner->call(entries.funcSetAttribute, kernel.function,
                        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                        static_cast<int>(shape.sharedBytes));
        !status)
      return status.takeError().withContext(where);

  if (shape.cluster > bundle::portableCluster)
    if (Status status =
            owner->call(entries.funcSetAttribute, kernel.function,
                        CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
        !status)
      return status.takeError().withContext(where);

  if (Status status =
          owner->call(entries.occupancy, &kernel.resident, kernel.function,
                      static_cast<int>(shape.threads),
                      static_cast<size_t>(shape.sharedBytes));
      !status)
    return status.takeError().withContext(where);
  kernel.resident = std::max(kernel.resident, 1);
  if (shape.cluster > bundle::portableCluster) {
    // The cluster's size is in the code.
    const CUlaunchConfig one{static_cast<unsigned>(shape.cluster),
                             1,
                             1,
                             static_cast<unsigned>(shape.threads),
                             1,
                             1,
                             static_cast<unsigned>(shape.sharedBytes),
                             nullptr,
                             nullptr,
                             0};
    int clusters = 0;
    kernel.clusterHeld =
        entries.activeClusters.function &&
        entries.activeClusters.function(&clusters, kernel.function, &one) ==
            CUDA_SUCCESS &&
        clusters > 0;
  }

  if (auto ask = entries.funcGetParamInfo.function) {
    // Not beyond a number that is known: asking for one too many is an error,
    // which tools that watch the driver report.
    size_t offset = 0, bytes = 0;
    for (int64_t i = 0; shape.parameters == 0 || i < shape.parameters; ++i) {
      if (ask(kernel.function, static_cast<size_t>(i), &offset, &bytes) !=
          CUDA_SUCCESS)
        break;
      kernel.parameterBytes.push_back(static_cast<int64_t>(bytes));
    }
    kernel.parametersKnown = true;
  }
  kernels.emplace(shape.symbol, std::move(kernel));
  return Status::success();
}

Module::~Module() {
  if (handle)
    owner->release(owner->api().moduleUnload, handle);
}

const Kernel *Module::find(std::string_view symbol) const {
  auto found = kernels.find(std::string(symbol));
  return found == kernels.end() ? nullptr : &found->second;
}

const Kernel &Module::operator[](std::string_view symbol) const {
  const Kernel *kernel = find(symbol);
  assert(kernel && "not a symbol of the manifest");
  return *kernel;
}

Status Kernel::launchWith(const Stream &stream, const Grid &asked,
                          const void *const *values, const int64_t *sizes,
                          size_t count) const {
  Grid grid = asked;
  grid.x = (grid.x + shape.cluster - 1) / shape.cluster * shape.cluster;
  if (shape.persistent) {
    const int64_t held = int64_t(owner->device().multiprocessors) * resident /
                         shape.cluster * shape.cluster;
    grid.x *= grid.y;
    if (!grid.blockEach)
      grid.x = std::min(grid.x, std::max(held, shape.cluster));
    grid.y = std::min<int64_t>(grid.y, 1);
  }
  auto where = [&] { return "kernel '" + shape.symbol + "'"; };
  const std::span<const int64_t> given(sizes, count);
  if (parametersKnown &&
      !std::equal(given.begin(), given.end(), parameterBytes.begin(),
                  parameterBytes.end()))
    return Error(where() + " takes " + std::to_string(parameterBytes.size()) +
                 " parameters of " + listSizes(parameterBytes) +
                 ", it was launched with " + std::to_string(count) + " of " +
                 listSizes(given) +
                 "; the bundle and this program do not fit together, compile "
                 "the schedule again");
  if (grid.x == 0 || grid.y == 0 || grid.z == 0)
    return Status::success();
  constexpr int64_t mostX = std::numeric_limits<int32_t>::max();
  if (grid.x < 0 || grid.x > mostX || grid.y < 0 || grid.y > 65535 ||
      grid.z < 0 || grid.z > 65535)
    return Error(where() + " would run on " + std::to_string(grid.x) + " x " +
                 std::to_string(grid.y) + " x " + std::to_string(grid.z) +
                 " blocks, a GPU takes at most 2147483647 x 65535 x 65535; use "
                 "fewer tokens or sequences");
  const EntryPoints &entries = owner->api();
  CUlaunchAttribute early{CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                          {}};
  early.value.programmaticStreamSerializationAllowed = 1;
  const CUlaunchConfig config{static_cast<unsigned>(grid.x),
                              static_cast<unsigned>(grid.y),
                              static_cast<unsigned>(grid.z),
                              static_cast<unsigned>(shape.threads),
                              1,
                              1,
                              static_cast<unsigned>(shape.sharedBytes),
                              stream.handle(),
                              &early,
                              1};
  auto **parameters = const_cast<void **>(values);
  void **extra = nullptr;
  Status status =
      waits ? owner->call(entries.launchKernelEx, &config, function, parameters,
                          extra)
            : owner->call(entries.launchKernel, function, config.gridDimX,
                          config.gridDimY, config.gridDimZ, config.blockDimX,
                          config.blockDimY, config.blockDimZ,
                          config.sharedMemBytes, config.hStream, parameters,
                          extra);
  if (!status)
    return status.takeError().withContext(where());
  return Status::success();
}

} // namespace heddle::rt::cuda
