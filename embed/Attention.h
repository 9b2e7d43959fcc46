//===- Attention.h - A bundle's attention on tensors ------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The attention of a bundle's steps and layers on the caller's tensors, without
// a model: every row of every sequence, all positions visible. Memory is the
// caller's too, so that a call on a GPU only puts work into a stream. It
// allocates there for the arguments of late, once a stream (KeptArguments.h).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMBED_ATTENTION_H
#define HEDDLE_EMBED_ATTENTION_H

#include "Launcher.h"

#include "bundle/Result.h"
#include "bundle/format/Bundle.h"
#include "runtime/cache/IndexLists.h"
#include "runtime/schedule/StepProgram.h"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace heddle::embed {

/// Where a call's tensors lie. All but `output` are only read.
struct CallMemory {
  const void *query = nullptr;
  const void *key = nullptr;
  const void *value = nullptr;
  void *output = nullptr;
  /// Call::listBytes(), zeros at first; of any contents where the call itself
  /// selects all that it reads, as at step 1 of a first layer.
  void *lists = nullptr;
  /// Call::workspaceBytes(), of any contents, or null, see tryRun().
  void *workspace = nullptr;
  uintptr_t stream = 0; ///< of a GPU: CUstream
};

/// What to do of a layer's step.
enum class Part {
  All,    ///< attention, and the selections that are due
  Select, ///< these alone; reads no value, writes no output
  Attend, ///< attention alone, over selections made before
};

/// A place in a run.
struct Place {
  int64_t layer = 0;
  int64_t step = 1; ///< in [1, steps]
  int64_t steps = 1;
  int64_t blockSteps = 0; ///< of each block; 0: one block
};

class Attention;

/// Calls on tensors of one shape.
class Call {
public:
  /// Bytes of the lists that a layer keeps, or reads of another; 0: none.
  int64_t listBytes(int64_t layer) const;
  /// The layer whose lists' memory calls of `layer` take: itself, or the one
  /// before that chooses what it reads. -1: they take none.
  int64_t listLayer(int64_t layer) const;
  int64_t workspaceBytes() const { return bytes; }

  /// Thread-safe: calls come one after the other. On the host `interrupted` is
  /// polled while it waits and computes. Refused there: memory of lists that
  /// holds none of this call's, as kernels would read where they point.
  Status run(const Place &place, Part part, const CallMemory &memory,
             const Interrupted &interrupted = {});

  /// The same; false, and nothing is done, where a workspace is taken and none
  /// was given. Most calls that only attend take none, but for those that a
  /// CUDA graph records: it needs memory as long as it lives.
  Result<bool> tryRun(const Place &place, Part part, const CallMemory &memory,
                      const Interrupted &interrupted = {});

private:
  friend class Attention;
  Call(Attention &attention, const CallShape &shape)
      : attention(attention), shape(shape) {}

  struct Run; // one call's
  bool selects(const rt::StepProgram &program, const Place &place,
               Part part) const;
  bool writesWorkspace(const rt::StepProgram &program, const Place &place,
                       Part part) const;

  Attention &attention;
  const CallShape shape;
  std::shared_ptr<Launcher> launcher;
  rt::IndexLists lists; ///< at an address that is not theirs
  int64_t listTotal = 0;
  int64_t bytes = 0;
  int64_t lseAt = 0, outputAt = 0, scoringLseAt = 0; ///< in the workspace
  std::timed_mutex mutex;
};

/// A bundle's kernels, loaded on a device.
class Attention {
public:
  /// `device`: a GPU's number, or -1 for the host. Refused: a schedule whose
  /// steps do not compute all rows, which only a model can run; a rule that
  /// names a layer that there is not; a layer that takes lists of several
  /// layers; code that the device does not run.
  static Result<std::unique_ptr<Attention>> make(const bundle::Bundle &bundle,
                                                 int64_t layers, int device);

  /// The result must not outlive this. Refused: a shape that the bundle has no
  /// code for.
  Result<std::unique_ptr<Call>> prepare(const CallShape &shape);

  /// Refused: a run whose steps would read what none has selected.
  Status check(int64_t steps, int64_t blockSteps) {
    Result<const rt::StepProgram *> found = program(steps, blockSteps);
    return found ? Status::success() : Status(found.takeError());
  }

private:
  friend class Call;
  Attention(const bundle::Bundle &bundle) : manifest(bundle.manifest()) {}
  Result<const rt::StepProgram *> program(int64_t steps, int64_t blockSteps);
  Status findLists();

  const bundle::Manifest manifest;
  rt::StepProgram fitted;          ///< to the layers; of no run
  std::vector<int64_t> listLayers; ///< Call::listLayer()
  bool needsLse = false;
  std::unique_ptr<Machine> machine;
  std::mutex mutex;
  std::map<std::pair<int64_t, int64_t>, rt::StepProgram> programs;
};

} // namespace heddle::embed

#endif // HEDDLE_EMBED_ATTENTION_H
