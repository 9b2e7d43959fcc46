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

#include "bundle/format/Crossovers.h"
#include "bundle/program/Manifest.h"
#include "heddle/Target/Backend.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"
#include "llvm/Support/Error.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace llvm {
class MemoryBuffer;
class SourceMgr;
} // namespace llvm

namespace mlir::heddle {

/// How far a compilation goes.
enum class Level { Schedule, Plan, Shed, Pipeline, Machine, Code, Bundle };

/// "schedule", "plan", ...
StringRef stringifyLevel(Level level);

/// Whether each target has the level of its own: from Shed to Code.
bool isOfTarget(Level level);

/// What a compilation has at a level.
struct LevelOutput {
  Level level;
  /// Backend::name() at the levels that each target has of its own; else "".
  StringRef target;
  StringRef extension; ///< of a file with these contents: ".mlir", ".ptx"
  StringRef contents;
};

struct CompilerOptions {
  /// The machines that the bundle gets code for, as createBackend() takes them.
  SmallVector<std::string> targets = {"host"};
  BackendOptions backend;
  /// One variant of each kernel for each element type and head dim. A target
  /// makes the element types of the list that it has; an empty list means each
  /// target's own defaults.
  SmallVector<std::string> elementTypes;
  SmallVector<int64_t> headDims = {64, 128};
  /// A table of crossovers (`bundle/format/Crossovers.h`): where a selection
  /// keeps more than is faster on all targets, all keys are attended to, and a
  /// remark says so. "": nowhere.
  std::string crossovers{::heddle::bundle::builtInCrossovers()};
  /// The encoding of index lists, where a target has a choice; by default the
  /// one that takes the fewest bytes for the schedule's selections.
  std::optional<::heddle::bundle::Encoding> encoding;
  /// Of the model that the bundle is for, if it is for one: a schedule that
  /// names others of its layers is refused.
  std::optional<int64_t> layers;
  /// Which schedule of the file; may be empty when there is one.
  std::string schedule;
  /// Those of a target (isOfTarget()) are for a single one; Pipeline is for one
  /// that has it (Backend::hasPipelines()).
  Level level = Level::Bundle;
  /// Whether levels from Code on make code. If not, the manifest is complete
  /// all the same, nothing is linked or assembled, and there is no output.
  bool generateCode = true;
  /// Verify the IR after each pass, not only at the end of a level.
  bool verifyEach = false;
  /// Called with each pass manager before it runs; may be null. A tool that has
  /// registered MLIR's options gives applyPassManagerCLOptions.
  std::function<LogicalResult(PassManager &)> configure;
  /// Where code is taken from and kept; null: everything is compiled, as it is
  /// for an `observer`. What comes from there gives no remarks.
  ::heddle::CodeCache *cache = nullptr;
  /// Called for each target whose code the cache was asked for, with whether it
  /// was there; may be null.
  std::function<void(StringRef target, bool found)> cacheObserver;
  /// Goes into the manifest: "heddlec 0.1.0 (LLVM 22.1.8)".
  std::string producer;
  /// Called with everything that is reached: IR, code, the bundle; may be null.
  std::function<LogicalResult(const LevelOutput &)> observer;
};

/// The result of a compilation.
struct Compiled {
  /// The IR at `level`, the code's first section or the bundle.
  std::string output;
  /// Complete from Level::Code on; without variants from Plan to Pipeline;
  /// empty at Schedule.
  ::heddle::bundle::Manifest manifest;
};

/// What is wrong with the targets that `options` names, or with element types
/// and an encoding that they don't have: a sentence. compile() reports it, too.
llvm::Error checkTargets(const CompilerOptions &options);

/// Registers what a compilation reads and produces, nothing else, so that a
/// context is made quickly.
void registerCompilerDialects(DialectRegistry &registry);

/// Reads a schedule's file, '-' for stdin. Null, with a sentence in `problem`,
/// when it cannot be read or has more than 16 MiB, whatever it is (a device may
/// have no end).
std::unique_ptr<llvm::MemoryBuffer> readScheduleFile(StringRef path,
                                                     std::string &problem);

/// What keeps MLIR's parser from reading `text` as it is seen: brackets nested
/// so deeply that the parser, which recurses, might run out of stack, or a
/// carriage return alone, which ends comments and no lines. "" if nothing does.
std::string textProblem(StringRef text);

/// Parses the main buffer of `sourceMgr` and leaves the one schedule that
/// `name` chooses (or the only one) in the module. Fails with a diagnostic when
/// the buffer is empty, is not text, is nested too deeply, has no schedule or
/// not that one.
OwningOpRef<ModuleOp> parseSchedule(llvm::SourceMgr &sourceMgr, StringRef name,
                                    MLIRContext *context);

/// The text of the main buffer of `sourceMgr` with other values for parameters
/// of the schedule that parseSchedule() would choose: `settings` are names and
/// values, {"keep", "1/2"}. The text is then what a user would have written to
/// the same end; whether it can be parsed is not known. Fails with a diagnostic
/// when the head cannot be read as it is, there is no such parameter or the
/// value is of another kind.
FailureOr<std::string>
setParameters(llvm::SourceMgr &sourceMgr, StringRef name,
              ArrayRef<std::pair<std::string, std::string>> settings,
              MLIRContext *context);

/// Compiles the module's schedule; `source` is the text that it was parsed
/// from, which the bundle keeps. The module is changed.
FailureOr<Compiled> compile(ModuleOp module, StringRef source,
                            const CompilerOptions &options,
                            TimingScope &timing);

} // namespace mlir::heddle

#endif // HEDDLE_PIPELINES_COMPILER_H
