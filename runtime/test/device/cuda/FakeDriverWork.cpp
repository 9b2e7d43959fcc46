//===- FakeDriverWork.cpp - A driver in host memory: code, streams, graphs ===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/test/device/cuda/FakeState.h"

#include <algorithm>
#include <cstring>
#include <regex>
#include <set>
#include <utility>

using namespace heddle::rt::cuda;
using namespace heddle::rt::cuda::api;
using namespace heddle::rt::cuda::test;

namespace {

FakeDriver &state() { return *heddleFakeDriver(); }

std::set<CUstream> streams;

/// Runs the oldest work of a stream; false if there is none. After a fault
/// nothing runs.
bool runOne(CUstream stream) {
  if (stream->pending.empty())
    return false;
  std::function<void()> work = std::move(stream->pending.front());
  stream->pending.pop_front();
  if (state().sticky == CUDA_SUCCESS)
    work();
  return true;
}

void runUntil(const EventState &event) {
  while (event.stream && runOne(event.stream))
    ;
}

/// Entries and the sizes of their parameters, from the text of PTX.
std::map<std::string, CUfunc_st> parse(const std::string &ptx) {
  std::map<std::string, CUfunc_st> functions;
  std::regex entry(R"(\.entry\s+(\w+)\s*\(([^)]*)\))");
  // Arrays are aligned, and have as many elements.
  std::regex parameter(
      R"(\.param\s+(?:\.align\s+\d+\s+)?\.[a-z](\d+)\s+\w+(?:\[(\d+)\])?)");
  // To the end of the function, which is a brace at a line's start.
  auto waits = [&](const std::smatch &start) {
    const size_t from = start.position() + start.length();
    return ptx.substr(from, ptx.find("\n}", from) - from)
        .find("griddepcontrol.wait;");
  };
  for (std::sregex_iterator at(ptx.begin(), ptx.end(), entry), end; at != end;
       ++at) {
    CUfunc_st function;
    function.name = (*at)[1];
    std::string list = (*at)[2];
    for (std::sregex_iterator p(list.begin(), list.end(), parameter);
         p != std::sregex_iterator(); ++p)
      function.parameterBytes.push_back(
          std::stoul((*p)[1]) / 8 *
          ((*p)[2].matched ? std::stoul((*p)[2]) : 1));
    function.waits = waits(*at) != std::string::npos;
    functions[function.name] = function;
  }
  return functions;
}

/// Variables of PTX in device memory.
std::map<std::string, char> parseGlobals(const std::string &ptx) {
  std::map<std::string, char> globals;
  std::regex global(R"(\.visible\s+\.global[^;]*\s(\w+);)");
  for (std::sregex_iterator at(ptx.begin(), ptx.end(), global), end; at != end;
       ++at)
    globals[(*at)[1]] = 0;
  return globals;
}

CUresult launch(const CUlaunchConfig &config, CUfunction function,
                void **parameters) {
  bool early = false;
  for (unsigned i = 0; i < config.numAttrs; ++i)
    early |= config.attrs[i].id ==
                 CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
             config.attrs[i].value.programmaticStreamSerializationAllowed != 0;
  const int64_t threads =
      int64_t(config.blockDimX) * config.blockDimY * config.blockDimZ;
  if (config.gridDimX * config.gridDimY * config.gridDimZ == 0 ||
      threads == 0 || (early && !function->waits) ||
      static_cast<int>(config.sharedMemBytes) > function->sharedLimit)
    return CUDA_ERROR_INVALID_VALUE;
  if (early)
    ++state().early[function->name];
  FakeDriver::Launch launch{{config.gridDimX, config.gridDimY, config.gridDimZ},
                            threads,
                            config.sharedMemBytes,
                            {}};
  for (size_t i = 0; i < function->parameterBytes.size(); ++i) {
    const char *begin = static_cast<const char *>(parameters[i]);
    launch.parameters.emplace_back(begin, begin + function->parameterBytes[i]);
  }
  return enqueue(config.hStream, "kernel",
                 [name = function->name, launch = std::move(launch)] {
                   state().launches[name] +=
                       launch.grid[0] * launch.grid[1] * launch.grid[2];
                   auto code = state().kernels.find(name);
                   if (code != state().kernels.end())
                     code->second(launch);
                 });
}

} // namespace

CUresult heddle::rt::cuda::test::enqueue(CUstream stream, const char *kind,
                                         std::function<void()> work) {
  if (!stream) {
    runAll();
    work();
  } else if (stream->capture) {
    stream->capture->nodes.push_back({kind, std::move(work)});
  } else {
    stream->pending.push_back(std::move(work));
  }
  return CUDA_SUCCESS;
}

void heddle::rt::cuda::test::runAll() {
  for (CUstream stream : streams)
    while (runOne(stream))
      ;
}

HEDDLE_FAKE_ENTRY CUresult heddleFakeEnqueue(CUstream stream, const char *kind,
                                             std::function<void()> work) {
  return enqueue(stream, kind, std::move(work));
}

HEDDLE_FAKE_ENTRY CUresult cuModuleLoadDataEx(CUmodule *module,
                                              const void *image, unsigned count,
                                              CUjit_option *options,
                                              void **values) {
  if (CUresult code = enter("cuModuleLoadDataEx"))
    return code;
  std::string text = static_cast<const char *>(image);
  // Machine code is an ELF file; the fake's is one by its first bytes alone.
  bool cubin = text.starts_with("\177ELF");
  if (cubin && state().refuseCubins)
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  if (!cubin && !state().jitLog.empty()) {
    char *log = nullptr;
    size_t size = 0;
    for (unsigned i = 0; i < count; ++i) {
      if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
        log = static_cast<char *>(values[i]);
      if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
        size = reinterpret_cast<uintptr_t>(values[i]);
    }
    if (log && size > state().jitLog.size())
      std::strcpy(log, state().jitLog.c_str());
    return CUDA_ERROR_INVALID_PTX;
  }
  state().loadedCode = text;
  *module = new CUmod_st{parse(text), parseGlobals(text)};
  ++state().modules;
  return CUDA_SUCCESS;
}

HEDDLE_FAKE_ENTRY CUresult cuModuleUnload(CUmodule module) {
  if (CUresult code = enter("cuModuleUnload"))
    return code;
  delete module;
  --state().modules;
  return CUDA_SUCCESS;
}

HEDDLE_FAKE_ENTRY CUresult cuModuleGetFunction(CUfunction *function,
                                               CUmodule module,
                                               const char *name) {
  if (CUresult code = enter("cuModuleGetFunction"))
    return code;
  auto found = module->functions.find(name);
  if (found == module->functions.end())
    return CUDA_ERROR_NOT_FOUND;
  *function = &found->second;
  return CUDA_SUCCESS;
}

HEDDLE_FAKE_ENTRY CUresult cuModuleGetGlobal_v2(CUdeviceptr *address,
                                                size_t *bytes, CUmodule module,
                                                const char *name) {
  if (CUresult code = enter("cuModuleGetGlobal_v2"))
    return code;
  auto found = module->globals.find(name);
  if (found == module->globals.end())
    return CUDA_ERROR_NOT_FOUND;
  *address = reinterpret_cast<CUdeviceptr>(&found->second);
  *bytes = 1;
  return CUDA_SUCCESS;
}

HEDDLE_FAKE_ENTRY CUresult cuFuncGetAttribute(int *value,
                                              CUfunction_attribute attribute,
                                              CUfunction function) {
  if (CUresult code = enter("cuFuncGetAttribute"))
    return code;
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 512
           : attribute == CU_FUNC_ATTRIBUTE_NUM_REGS            ? 128
                                                                : 0;
  return CUDA_SUCCESS;
}

HEDDLE_FAKE_ENTRY CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(
    int *count, CUfunction, int threads, size_t) {
  *count = 2048 / threads;
  return enter("cuOccupancyMaxActiveBlocksPerMultiprocessor");
}

HEDDLE_FAKE_ENTRY CUresult cuFuncSetAttribute(CUfunction function,
                                              CUfunction_attribute attribute,
                                              int value) {
  if (CUresult code = enter("cuFuncSetAttribute"))
    return code;
  if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED)
    function->largeClusters = value != 0;
  else
    function->sharedLimit = value;
  return CUDA_SUCCESS;
}

// A grid of one cluster says how large it is.
HEDDLE_FAKE_ENTRY CUresult cuOccupancyMaxActiveClusters(
    int *clusters, CUfunction function, const CUlaunchConfig *config) {
  const bool allowed = config->gridDimX <= 8 || function->largeClusters;
  *clusters = allowed ? state().largeClusters : 0;
  return allowed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

HEDDLE_FAKE_ENTRY CUresult cuFuncGetParamInfo(CUfunction function, size_t index,
                                              size_t *offset, size_t *bytes) {
  if (index >= function->parameterBytes.size())
    return CUDA_ERROR_INVALID_VALUE;
  *offset = 0;
  *bytes = function->parameterBytes[index];
  return CUDA_SUCCESS;
}

HEDDLE_FAKE_ENTRY CUresult cuLaunchKernel(CUfunction function, unsigned gridX,
                                          unsigned gridY, unsigned gridZ,
                                          unsigned blockX, unsigned blockY,
                                          unsigned blockZ, unsigned sharedBytes,
                                          CUstream stream, void **parameters,
                                          void **extra) {
  if (CUresult code = enter("cuLaunchKernel"))
    return code;
  return launch({gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes,
                 stream, nullptr, 0},
                function, parameters);
}

HEDDLE_FAKE_ENTRY CUresult cuLaunchKernelEx(const CUlaunchConfig *config,
                                            CUfunction function,
                                            void **parameters, void **extra) {
  if (CUresult code = enter("cuLaunchKernelEx"))
    return code;
  return launch(*config, function, parameters);
}

// Two dimensions, one 128-byte swizzle: what the driver says of them.
HEDDLE_FAKE_ENTRY CUresult cuTensorMapEncodeTiled(
    void *map, CUtensorMapDataType type, unsigned rank, void *address,
    const uint64_t *sizes, const uint64_t *strides, const unsigned *box,
    const unsigned *steps, CUtensorMapInterleave interleave,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
    CUtensorMapFloatOOBfill fill) {
  if (CUresult code = enter("cuTensorMapEncodeTiled"))
    return code;
  const auto at = reinterpret_cast<uintptr_t>(address);
  constexpr uint64_t mostSize = uint64_t(1) << 32, mostStride = uint64_t(1)
                                                                << 40;
  if (reinterpret_cast<uintptr_t>(map) % 64 || rank != 2 || at % 16 || !at ||
      sizes[0] < 1 || sizes[0] > mostSize || sizes[1] < 1 ||
      sizes[1] > mostSize || strides[0] % 16 || strides[0] >= mostStride ||
      box[0] * 2 != 128 || box[1] < 1 || box[1] > 256 || steps[0] != 1 ||
      steps[1] != 1 || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE ||
      swizzle != CU_TENSOR_MAP_SWIZZLE_128B ||
      fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
    return CUDA_ERROR_INVALID_VALUE;
  const FakeTensorMap encoded{type,       at,     sizes[0], sizes[1],
                              strides[0], box[0], box[1],   {}};
  static_assert(sizeof(encoded) == 128);
  std::memcpy(map, &encoded, sizeof(encoded));
  return CUDA_SUCCESS;
}

HEDDLE_FAKE_ENTRY CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  if (CUresult code = enter("cuStreamCreate"))
    return code;
  static unsigned long long legacyAndAllBefore = 1;
  *stream = new CUstream_st();
  (*stream)->id = ++legacyAndAllBefore;
  streams.insert(*stream);
  ++state().streams;
  return CUDA_SUCCESS;
}

HEDDLE_FAKE_ENTRY CUresult cuStreamDestroy_v2(CUstream stream) {
  if (CUresult code = enter("cuStreamDestroy_v2"))
    return code;
  while (runOne(stream))
    ;
  streams.erase(stream);
  delete stream;
  --state().streams;
  return CUDA_SUCCESS;
}

HEDDLE_FAKE_ENTRY CUresult cuStreamSynchronize(CUstream stream) {
  if (CUresult code = enter("cuStreamSynchronize"))
    return code;
  if (stream && stream->capture) {
    stream->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  while (runOne(stream))
    ;
  return state().sticky;
}

HEDDLE_FAKE_ENTRY CUresult cuStreamBeginCapture_v2(CUstream stream,
                                                   CUstreamCaptureMode mode) {
  if (CUresult code = enter("cuStreamBeginCapture_v2"))
    return code;
  if (stream->capture)
    return CUDA_ERROR_INVALID_VALUE;
  stream->capture = new CUgraph_st();
  stream->invalid = false;
  ++state().graphs;
  return CUDA_SUCCESS;
}

HEDDLE_FAKE_ENTRY CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  if (CUresult code = enter("cuStreamEndCapture"))
    return code;
  *graph = std::exchange(stream->capture, nullptr);
  if (stream->invalid) {
    delete std::exchange(*graph, nullptr);
    --state().graphs;
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  return CUDA_SUCCESS;
}

HEDDLE_FAKE_ENTRY CUresult cuStreamIsCapturing(CUstream stream, int *status) {
  *status = stream && stream->capture;
  return enter("cuStreamIsCapturing");
}

HEDDLE_FAKE_ENTRY CUresult cuStreamGetId(CUstream stream,
                                         unsigned long long *id) {
  *id = stream ? stream->id : 1;
  return enter("cuStreamGetId");
}

static thread_local auto captureMode = CUstreamCaptureMode(0); // global

HEDDLE_FAKE_ENTRY CUresult
cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  std::swap(captureMode, *mode);
  return CUDA_SUCCESS;
}

bool heddle::rt::cuda::test::disturbsCapture() {
  if (captureMode == CU_STREAM_CAPTURE_MODE_RELAXED)
    return false;
  bool any = false;
  for (CUstream stream : streams)
    if (stream->capture)
      any = stream->invalid = true;
  return any;
}

HEDDLE_FAKE_ENTRY CUresult cuEventCreate(CUevent *event, unsigned flags) {
  if (CUresult code = enter("cuEventCreate"))
    return code;
  *event = new CUevent_st();
  (*event)->timed = !(flags & CU_EVENT_DISABLE_TIMING);
  ++state().events;
  return CUDA_SUCCESS;
}

HEDDLE_FAKE_ENTRY CUresult cuEventDestroy_v2(CUevent event) {
  if (CUresult code = enter("cuEventDestroy_v2"))
    return code;
  delete event;
  --state().events;
  return CUDA_SUCCESS;
}

HEDDLE_FAKE_ENTRY CUresult cuEventRecord(CUevent event, CUstream stream) {
  if (CUresult code = enter("cuEventRecord"))
    return code;
  event->state->stream = stream;
  return enqueue(stream, "record", [state = event->state] {
    state->stream = nullptr;
    state->recorded = true;
    state->time = std::chrono::steady_clock::now();
    if (auto clock = heddleFakeDriver()->clock)
      state->time = std::chrono::steady_clock::time_point(
          std::chrono::microseconds(*clock));
  });
}

HEDDLE_FAKE_ENTRY CUresult cuEventQuery(CUevent event) {
  if (CUresult code = enter("cuEventQuery"))
    return code;
  return event->state->stream ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

HEDDLE_FAKE_ENTRY CUresult cuEventSynchronize(CUevent event) {
  if (CUresult code = enter("cuEventSynchronize"))
    return code;
  runUntil(*event->state);
  return state().sticky;
}

HEDDLE_FAKE_ENTRY CUresult cuEventElapsedTime(float *milliseconds,
                                              CUevent start, CUevent end) {
  if (CUresult code = enter("cuEventElapsedTime"))
    return code;
  if (!start->state->recorded || !end->state->recorded || !start->timed ||
      !end->timed)
    return CUDA_ERROR_INVALID_VALUE;
  *milliseconds = std::chrono::duration<float, std::milli>(end->state->time -
                                                           start->state->time)
                      .count();
  return CUDA_SUCCESS;
}

HEDDLE_FAKE_ENTRY CUresult cuGraphInstantiateWithFlags(
    CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  if (CUresult code = enter("cuGraphInstantiateWithFlags"))
    return code;
  *exec = new CUgraphExec_st{graph->nodes};
  ++state().execs;
  return CUDA_SUCCESS;
}

HEDDLE_FAKE_ENTRY CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes,
                                           size_t *count) {
  *count = graph->nodes.size();
  return enter("cuGraphGetNodes");
}

HEDDLE_FAKE_ENTRY CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  if (CUresult code = enter("cuGraphLaunch"))
    return code;
  for (const CUgraphNode_st &node : exec->nodes)
    if (CUresult code = enqueue(stream, node.kind.c_str(), node.work))
      return code;
  return CUDA_SUCCESS;
}

HEDDLE_FAKE_ENTRY CUresult cuGraphExecDestroy(CUgraphExec exec) {
  if (CUresult code = enter("cuGraphExecDestroy"))
    return code;
  delete exec;
  --state().execs;
  return CUDA_SUCCESS;
}

HEDDLE_FAKE_ENTRY CUresult cuGraphDestroy(CUgraph graph) {
  if (CUresult code = enter("cuGraphDestroy"))
    return code;
  delete graph;
  --state().graphs;
  return CUDA_SUCCESS;
}
