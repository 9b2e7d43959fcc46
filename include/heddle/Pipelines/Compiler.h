//===- Compiler.h - From a schedule's text to a bundle ----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What heddlec does, as a library. Errors are MLIR diagnostics at the source
// line that they are about.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PIPELINES_COMPILER_H
#define HEDDLE_PIPELINES_COMPILER_H

#include "bundle/Manifest.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Support/Timing.h"

#include <functional>
#include <string>

namespace llvm {
class SourceMgr;
} // namespace llvm

namespace mlir::heddle {

/// How far a compilation goes.
enum class Level { Schedule, Plan, Shed, Machine, Code, Bundle };

/// "schedule", "plan", ...
StringRef stringifyLevel(Level level);

struct CompilerOptions {
  /// "host" or a CPU as LLVM names it ("x86-64-v3", "znver4", ...).
  std::string cpu = "host";
  /// One variant of each kernel for each element type and head dim.
  SmallVector<std::string> elementTypes = {"f32", "bf16"};
  SmallVector<int64_t> headDims = {64, 128};
  /// Which schedule of the file; may be empty when there is one.
  std::string schedule;
  Level level = Level::Bundle;
  /// Verify the IR after each pass, not only at the end of a level.
  bool verifyEach = false;
  /// Goes into the manifest: "heddlec 0.1.0 (LLVM 22.1.8)".
  std::string producer;
  /// Called with each level that is reached and its text (IR, or the bytes of
  /// the shared object); may be null.
  std::function<LogicalResult(Level level, StringRef contents)> observer;
};

/// The result of a compilation.
struct Compiled {
  /// The IR at `level`, the shared object or the bundle.
  std::string output;
  /// Complete from Level::Code on; without variants at Plan to Machine; empty
  /// at Schedule.
  ::heddle::bundle::Manifest manifest;
};

/// Registers what a compilation reads and produces, nothing else, so that a
/// context is made quickly.
void registerCompilerDialects(DialectRegistry &registry);

/// Parses the main buffer of `sourceMgr` and leaves the one schedule that
/// `name` chooses (or the only one) in the module. Fails with a diagnostic when
/// the buffer is empty, is not text, has no schedule or not that one.
OwningOpRef<ModuleOp> parseSchedule(llvm::SourceMgr &sourceMgr, StringRef name,
                                    MLIRContext *context);

/// Compiles the module's schedule; `source` is the text that it was parsed
/// from, which the bundle keeps. The module is changed.
FailureOr<Compiled> compile(ModuleOp module, StringRef source,
                            const CompilerOptions &options,
                            TimingScope &timing);

} // namespace mlir::heddle

#endif // HEDDLE_PIPELINES_COMPILER_H
