//===- Backend.h - Code generation for one machine --------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a compilation asks of a machine, from the level of plans down. A plan is
// the same for all machines; below it each back end works on a module of its
// own, so a bundle can hold code for several.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TARGET_BACKEND_H
#define HEDDLE_TARGET_BACKEND_H

#include "bundle/abi/RowOps.h"
#include "bundle/program/Manifest.h"
#include "heddle/Support/CodeCache.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/LLVM.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <vector>

namespace mlir::heddle {

/// What a bundle's manifest says of one compiled function by itself: not which
/// kernel's it is, nor in which form.
using KernelRecord = ::heddle::bundle::KernelVariant;

/// One section of a bundle with a target's code.
struct CodeSection {
  std::string name;      ///< bundle::codeSection()
  std::string extension; ///< of a file with these contents: ".so", ".ptx"
  std::string contents;
};

/// Which forms of the plan's kernels are made.
struct KernelForms {
  SmallVector<std::string> elementTypes; ///< "f32", "bf16", "f16"
  SmallVector<int64_t> headDims;
  SmallVector<::heddle::bundle::Encoding> encodings; ///< of lists of keys
  /// Of a machine with row kernels; none: all that there are.
  std::vector<::heddle::bundle::RowOp> rowOps = {};
};

/// What is done with NVIDIA's assembler, ptxas.
enum class Assembler {
  Auto,   ///< adds machine code to the PTX if it is found
  None,   ///< PTX only, which the driver compiles
  Strict, ///< must be found, and find nothing slow: no stack frame, no warning
};

struct BackendOptions {
  Assembler assembler = Assembler::Auto;
  /// A table of tilings (`Dialect/Shed/Transforms/Tuning.h`) for GPUs with
  /// products of warpgroups; "" for the built-in one. And the file that it is
  /// from, for messages.
  std::string tuning = {}, tuningFile = {};
};

class Backend {
public:
  virtual ~Backend() = default;

  /// "host" or "sm_90a": a compilation has at most one target of a name.
  virtual StringRef name() const = 0;

  /// The machine, for the bundle's manifest; its encodings are for
  /// chooseEncodings() to say.
  virtual const ::heddle::bundle::Target &description() const = 0;

  /// The element types of Q, K and V that it has kernels for, and those of them
  /// that a compilation makes unless told otherwise.
  virtual ArrayRef<StringLiteral> elementTypes() const = 0;
  virtual ArrayRef<StringLiteral> defaultElementTypes() const = 0;

  /// The encodings of index lists that it has kernels for, and those of them in
  /// which the lists of `selections` take the fewest bytes, in the order in
  /// which a run should prefer them: one at least that holds any length.
  virtual ArrayRef<::heddle::bundle::Encoding> encodings() const = 0;
  virtual SmallVector<::heddle::bundle::Encoding>
  chooseEncodings(ArrayRef<::heddle::bundle::Selection> selections) const = 0;

  /// Afterwards the module also holds a `shed.kernel` for every kernel of its
  /// plans and each of `forms`, with a tiling that fits this machine, and the
  /// kernels that this machine needs beside the plan's.
  virtual void populateTilePasses(OpPassManager &pm,
                                  const KernelForms &forms) const = 0;

  /// Whether kernels pass through the level of pipelines. One without goes from
  /// tiles to its machine level at once.
  virtual bool hasPipelines() const { return false; }

  /// Afterwards kernels say what moves when: copies, the stages that they go
  /// to, what waits for them and which warps do so. Nothing where there are
  /// none.
  virtual void populatePipelinePasses(OpPassManager &) const {}

  /// Afterwards the module holds this machine's kernels in upstream dialects.
  virtual void populateMachinePasses(OpPassManager &pm) const = 0;

  /// What code depends on beside the module and this program: the machine, and
  /// the other programs that make it.
  virtual std::string identity() const = 0;

  /// Compiles a module at the machine level, on all cores. Takes kernels from
  /// `cache`, and keeps them there, unless it is null. The first section is
  /// the one to show. Errors are reported on the module.
  virtual FailureOr<SmallVector<CodeSection>>
  generateCode(ModuleOp module, ::heddle::CodeCache *cache) const = 0;
};

/// The back end for `target`: "host" (this machine's CPU), a CPU as LLVM names
/// it, "cuda" (every GPU from sm_80 on) or "cuda:sm_90a". Fails with a sentence
/// that says what there is.
llvm::Expected<std::unique_ptr<Backend>>
createBackend(StringRef target, const BackendOptions &options);

} // namespace mlir::heddle

#endif // HEDDLE_TARGET_BACKEND_H
