//===- Launcher.h - Where a call's kernels run ------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMBED_LAUNCHER_H
#define HEDDLE_EMBED_LAUNCHER_H

#include "Process.h"

#include "bundle/Result.h"
#include "bundle/abi/Abi.h"
#include "bundle/format/Bundle.h"
#include "runtime/schedule/StepProgram.h"
#include "runtime/tensor/DType.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace heddle::embed {

/// What calls of one shape have in common. The elements of a head and the heads
/// of a row are contiguous.
struct CallShape {
  /// Elements from one to the next.
  struct Strides {
    int64_t sequence = 0;
    int64_t row = 0;
  };
  int64_t sequences = 1;
  int64_t length = 0; ///< of each sequence, prompt included
  int64_t prompt = 0; ///< in [0, length]
  int64_t queryHeads = 0;
  int64_t kvHeads = 0;
  int64_t headDim = 0;
  rt::DType dtype = rt::DType::F32;
  Strides query, key, value, output;
};

/// Runs kernels of a manifest for calls of one shape.
class Launcher {
public:
  virtual ~Launcher() = default;

  /// How lists of keys say positions.
  virtual bundle::Encoding encoding() const { return bundle::Encoding::Int32; }
  /// Whether the caller's memory is the host's.
  virtual bool isHost() const { return false; }
  /// Bytes of memory of the device that a call takes.
  virtual int64_t workspaceBytes() const { return 0; }

  /// Begins a call. `workspace` is 256-byte aligned, or null for a call that
  /// only attends; false: in this stream it takes one all the same, and the
  /// call has not begun. On the host `interrupted` is polled until end().
  virtual Result<bool> begin(void *workspace, uintptr_t stream,
                             const Interrupted &interrupted) = 0;
  /// One block a sequence, all set but what the machine wants (Abi.h): places,
  /// positions, tiles.
  virtual Status attend(size_t kernel,
                        std::span<const abi::AttentionArgs> blocks) = 0;
  virtual Status select(size_t kernel,
                        std::span<const abi::SelectArgs> blocks) = 0;
  /// Ends it, in any case.
  virtual Status end(Status status) = 0;
};

/// A device with a bundle's code on it.
class Machine {
public:
  virtual ~Machine() = default;
  virtual Result<std::shared_ptr<Launcher>> fit(const CallShape &shape) = 0;
};

/// Both arguments must outlive the results, the program only fitted to layers.
Result<std::unique_ptr<Machine>> makeHost(const bundle::Bundle &bundle,
                                          const bundle::Manifest &manifest,
                                          const rt::StepProgram &program);
Result<std::unique_ptr<Machine>> makeDevice(const bundle::Bundle &bundle,
                                            const bundle::Manifest &manifest,
                                            const rt::StepProgram &program,
                                            int ordinal);

/// The file of the CUDA driver, for tests; before a GPU is used.
void useDriver(std::string path);

/// Waits for a stream of a GPU that is in use.
Status synchronizeDevice(int ordinal, uintptr_t stream);

} // namespace heddle::embed

#endif // HEDDLE_EMBED_LAUNCHER_H
