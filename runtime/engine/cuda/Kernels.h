//===- Kernels.h - A schedule's kernels on a device -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_ENGINE_CUDA_KERNELS_H
#define HEDDLE_RUNTIME_ENGINE_CUDA_KERNELS_H

#include "bundle/program/Forms.h"
#include "runtime/device/cuda/Module.h"
#include "runtime/model/Config.h"
#include "runtime/schedule/StepProgram.h"
#include "runtime/tensor/DType.h"

#include <cstdint>
#include <vector>

namespace heddle::rt::cuda {

/// Positions that fit index lists on a device.
inline constexpr int64_t longestSequence = int64_t(1) << 30;

/// One compiled form of a kernel.
struct KernelForm {
  const bundle::KernelVariant *variant = nullptr; ///< null: no layer runs it
  const Kernel *code = nullptr;
};

/// A kernel of a manifest in the forms that fit model, target and encoding.
struct DeviceKernel {
  const bundle::Kernel *kernel = nullptr;
  bundle::LaunchForms forms; ///< that the device runs
  std::array<KernelForm, bundle::launchForms.size()> compiled;
  std::vector<int64_t> selections; ///< read, in the order of terms
  std::vector<int64_t> groups;     ///< their group sizes
  bool listed = false;             ///< pairs depend on the contents of lists
  bool comparesPositions = false;  ///< reads positions

  /// The form that computes a sequence, and that for any.
  const KernelForm &of(const bundle::LaunchShape &shape) const {
    return compiled[static_cast<size_t>(forms.of(shape))];
  }
  const KernelForm &any() const { return compiled.front(); }
};

/// The attention and select kernels that a step program runs.
class ScheduleKernels {
public:
  ScheduleKernels() = default;

  /// Everything passed by reference must outlive the result. An error when a
  /// kernel has no form for the model's head dim and `dtype`.
  static Result<ScheduleKernels> bind(const Context &context,
                                      const Module &module,
                                      const bundle::Manifest &manifest,
                                      const StepProgram &steps,
                                      const ModelConfig &config, DType dtype);

  /// Chooses the forms for sequences of at most `longest` keys.
  Status fit(int64_t longest);

  /// How lists of keys say positions, after fit().
  bundle::Encoding encoding() const { return form; }

  const DeviceKernel &operator[](size_t kernel) const { return bound[kernel]; }
  size_t size() const { return bound.size(); }

  /// Bytes of scratch memory of launches for `sequences` sequences.
  int64_t scratchBytes(int64_t sequences) const;

  /// Runs a form of an attention kernel: `arguments` [sequences] are
  /// AttentionArgs in device memory, of which the largest has `tiles` tiles of
  /// that form.
  Status attend(const Stream &stream, const DeviceKernel &kernel,
                const KernelForm &form, DevicePtr arguments, int64_t sequences,
                int64_t tiles) const;

  /// Runs a select kernel: `arguments` [sequences] are SelectArgs in device
  /// memory, `scratch` has scratchBytes(sequences) bytes.
  Status select(const Stream &stream, size_t kernel, DevicePtr arguments,
                int64_t sequences, DevicePtr scratch) const;

private:
  int64_t selectBlocks(const DeviceKernel &select, int64_t sequences) const;

  const Context *context = nullptr;
  const Module *module = nullptr;
  const bundle::Manifest *program = nullptr;
  const StepProgram *steps = nullptr;
  DType dtype = DType::BF16;
  int64_t headDim = 0, queryHeads = 0, kvGroup = 1;
  std::vector<DeviceKernel> bound;
  bundle::Encoding form = bundle::Encoding::Int32;
  int64_t longest = 0;
};

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_ENGINE_CUDA_KERNELS_H
