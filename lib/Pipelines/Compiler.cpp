//===- Compiler.cpp - From a schedule's text to a bundle ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Pipelines/Compiler.h"

#include "bundle/Bundle.h"
#include "heddle/Dialect/Heddle/IR/Heddle.h"
#include "heddle/Pipelines/Pipelines.h"
#include "heddle/Target/Bundle/ExportManifest.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::heddle;
namespace bundle = ::heddle::bundle;

StringRef mlir::heddle::stringifyLevel(Level level) {
  switch (level) {
  case Level::Schedule:
    return "schedule";
  case Level::Plan:
    return "plan";
  case Level::Shed:
    return "shed";
  case Level::Machine:
    return "machine";
  case Level::Code:
    return "code";
  case Level::Bundle:
    return "bundle";
  }
  llvm_unreachable("unknown level");
}

void mlir::heddle::registerCompilerDialects(DialectRegistry &registry) {
  registry.insert<HeddleDialect>();
}

namespace {

/// One compilation: the levels in order, until the one asked for.
class Compilation {
public:
  Compilation(ModuleOp module, StringRef source, const CompilerOptions &options,
              TimingScope &timing)
      : module(module), source(source), options(options), timing(timing) {}

  FailureOr<Compiled> run();

private:
  LogicalResult runPasses(Level level,
                          function_ref<void(OpPassManager &)> populate);
  LogicalResult reach(Level level, std::string contents);
  bool isDone() const { return reached == options.level; }
  std::string print();

  ModuleOp module;
  StringRef source;
  const CompilerOptions &options;
  TimingScope &timing;
  Compiled result;
  std::optional<Level> reached;
};

} // namespace

std::string Compilation::print() {
  std::string text;
  llvm::raw_string_ostream out(text);
  module->print(out, OpPrintingFlags().enableDebugInfo(false));
  return text;
}

LogicalResult
Compilation::runPasses(Level level,
                       function_ref<void(OpPassManager &)> populate) {
  PassManager pm(module.getContext(), ModuleOp::getOperationName());
  if (failed(applyPassManagerCLOptions(pm)))
    return failure();
  pm.enableVerifier(options.verifyEach);
  TimingScope scope = timing.nest(stringifyLevel(level));
  pm.enableTiming(scope);
  populate(pm);
  return pm.run(module);
}

/// Hands a level's contents to the observer and keeps them if it is the last.
LogicalResult Compilation::reach(Level level, std::string contents) {
  reached = level;
  if (options.observer && failed(options.observer(level, contents)))
    return failure();
  if (isDone())
    result.output = std::move(contents);
  return success();
}

FailureOr<Compiled> Compilation::run() {
  if (failed(runPasses(Level::Schedule, populateSchedulePipeline)) ||
      failed(reach(Level::Schedule, print())))
    return failure();
  if (isDone())
    return std::move(result);

  if (failed(runPasses(Level::Plan, populatePlanPipeline)))
    return failure();
  auto plans = module.getOps<PlanOp>();
  assert(llvm::hasSingleElement(plans) && "parseSchedule leaves one schedule");
  result.manifest = exportManifest(*plans.begin());
  result.manifest.producer = options.producer;
  if (failed(reach(Level::Plan, print())) || isDone())
    return std::move(result);
  return failure();
}

FailureOr<Compiled> mlir::heddle::compile(ModuleOp module, StringRef source,
                                          const CompilerOptions &options,
                                          TimingScope &timing) {
  return Compilation(module, source, options, timing).run();
}
