//===- Module.h - A bundle's kernels on the device --------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICE_CUDA_MODULE_H
#define HEDDLE_RUNTIME_DEVICE_CUDA_MODULE_H

#include "bundle/Result.h"
#include "bundle/format/Bundle.h"
#include "runtime/device/cuda/Context.h"
#include "runtime/device/cuda/Stream.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <vector>

namespace heddle::rt::cuda {

/// A target of a bundle and the form of its code that a device runs.
struct CodeChoice {
  int64_t target = -1; ///< index into Manifest::targets
  bundle::CodeForm form = bundle::CodeForm::Ptx;
};

/// Picks the target whose architecture is nearest below the device's, since its
/// kernels were tiled for the most alike GPU, and of it machine code (cubin:
/// same major number of the compute capability, minor number not above) rather
/// than PTX, which the driver compiles for any later GPU. Code for an "a"
/// architecture (sm_90a) runs on exactly that one. Refused with what the bundle
/// has and what the device is; also when the driver is too old for the PTX.
Result<CodeChoice> chooseCode(const bundle::Bundle &bundle,
                              const DeviceInfo &device);

/// Blocks of a launch. A launch with an empty grid does nothing.
struct Grid {
  int64_t x = 1;
  int64_t y = 1;
  int64_t z = 1;
  bool blockEach = false; ///< no block of a persistent kernel has two tasks
};

/// A kernel as the manifest describes it.
struct KernelShape {
  std::string symbol;
  int64_t threads = 0;     ///< of a block
  int64_t sharedBytes = 0; ///< dynamic shared memory of a block
  int64_t parameters = 0;  ///< number of them; 0: as many as the code has
  int64_t cluster = 1;     ///< blocks next to each other in x that run together
  bool persistent = false; ///< blocks go on to further tasks, see abi/Abi.h
};

/// An entry of a loaded module.
class Kernel {
public:
  const std::string &symbol() const { return shape.symbol; }
  int64_t threads() const { return shape.threads; }
  int64_t sharedBytes() const { return shape.sharedBytes; }
  int registers() const { return registerCount; } ///< of a thread
  int localBytes() const { return localMemory; }  ///< spilled, of a thread
  /// Blocks that a multiprocessor holds at once, at least 1.
  int residentBlocks() const { return resident; }
  /// Whether the device holds all blocks of a cluster at once. Not all devices
  /// do so with more than bundle::portableCluster.
  bool holdsCluster() const { return clusterHeld; }

  /// Puts a launch with these parameters into the stream, on whole clusters of
  /// blocks: grid.x is rounded up to a multiple. Of a persistent kernel x and y
  /// say how many tasks there are, which no more blocks share out than the
  /// device holds at once, but with `blockEach`. Parameters are compared with
  /// the kernel's own, number and sizes, where the driver can tell (12.4 and
  /// newer); pass each as the exact type of the kernel ABI.
  template <typename... P>
  Status launch(const Stream &stream, const Grid &grid,
                const P &...parameters) const {
    static_assert((std::is_trivially_copyable_v<P> && ...));
    const void *values[] = {&parameters..., nullptr};
    const int64_t sizes[] = {sizeof(P)..., 0};
    return launchWith(stream, grid, values, sizes, sizeof...(P));
  }

  /// The same with parameters in arrays.
  Status launchWith(const Stream &stream, const Grid &grid,
                    const void *const *values, const int64_t *sizes,
                    size_t count) const;

private:
  friend class Module;
  const Context *owner = nullptr;
  api::CUfunction function = nullptr;
  KernelShape shape;
  int registerCount = 0;
  int localMemory = 0;
  int resident = 1;
  bool clusterHeld = true;
  bool parametersKnown = false;
  bool waits = false; ///< for the launches before it, by itself
  std::vector<int64_t> parameterBytes;
};

/// Code in the device's memory. Kernels are valid as long as it is. Those of
/// code that has abi::waitingSymbol are launched while what precedes them in
/// the stream still runs, if the driver can do so: they wait for it themselves.
class Module {
public:
  /// Loads the code that chooseCode() picks and resolves every kernel that the
  /// manifest lists for that target. Refused when the code is not the device's,
  /// does not compile (with the driver's log), lacks a symbol, or asks for more
  /// threads or shared memory than the device has.
  static Result<std::unique_ptr<Module>> load(const Context &context,
                                              const bundle::Bundle &bundle);

  /// The same for code that is in no bundle. `code`: PTX text or a cubin.
  static Result<std::unique_ptr<Module>>
  load(const Context &context, std::string_view code,
       const std::vector<KernelShape> &kernels);

  ~Module();
  Module(const Module &) = delete;
  Module &operator=(const Module &) = delete;

  /// The bundle's target in use; -1 when the code came from no bundle.
  const CodeChoice &choice() const { return chosen; }

  /// The kernel of a symbol; null if there is none.
  const Kernel *find(std::string_view symbol) const;

  /// The kernel of a symbol that is known to be there.
  const Kernel &operator[](std::string_view symbol) const;

private:
  explicit Module(const Context &context) : owner(&context) {}
  Status start(std::string_view code);
  bool hasWaitingKernels() const;
  Status resolve(const KernelShape &shape);

  const Context *owner;
  api::CUmodule handle = nullptr;
  bool kernelsWait = false; ///< and may be launched early
  CodeChoice chosen;
  std::unordered_map<std::string, Kernel> kernels;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICE_CUDA_MODULE_H
