//===- Compiler.cpp - From a schedule's text to a bundle ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Pipelines/Compiler.h"

#include "bundle/Bundle.h"
#include "heddle/Dialect/Heddle/IR/Heddle.h"
#include "heddle/Dialect/Shed/IR/Shed.h"
#include "heddle/Pipelines/Pipelines.h"
#include "heddle/Target/Bundle/ExportManifest.h"
#include "heddle/Target/Host/HostCodegen.h"
#include "heddle/Target/Host/HostTarget.h"

#include "mlir/IR/Remarks.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"
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
  registerHostCodegenDialects(registry);
}

namespace {

/// One compilation: the levels in order, until the one asked for.
class Compilation {
public:
  Compilation(ModuleOp module, StringRef source,
              const ::heddle::HostTarget &target,
              const CompilerOptions &options, TimingScope &timing)
      : module(module), source(source), target(target), options(options),
        timing(timing) {}

  FailureOr<Compiled> run();

private:
  LogicalResult runPasses(Level level,
                          function_ref<void(OpPassManager &)> populate);
  LogicalResult reach(Level level, std::string contents);
  LogicalResult runSchedule();
  LogicalResult runPlan();
  LogicalResult runShed();
  LogicalResult runMachine();
  LogicalResult runCode();
  LogicalResult runBundle();
  bool isDone() const { return reached == options.level; }
  /// Kernels print to megabytes, so only on demand.
  bool needsText(Level level) const {
    return options.observer || options.level == level;
  }
  std::string print();

  ModuleOp module;
  StringRef source;
  const ::heddle::HostTarget &target;
  const CompilerOptions &options;
  TimingScope &timing;
  Compiled result;
  std::optional<Level> reached;
  std::string plan; ///< the IR at Level::Plan
  std::string code; ///< the shared object
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

LogicalResult Compilation::runSchedule() {
  if (failed(runPasses(Level::Schedule, populateSchedulePipeline)))
    return failure();
  return reach(Level::Schedule, print());
}

LogicalResult Compilation::runPlan() {
  if (failed(runPasses(Level::Plan, populatePlanPipeline)))
    return failure();
  auto plans = module.getOps<PlanOp>();
  assert(llvm::hasSingleElement(plans) && "parseSchedule leaves one schedule");
  result.manifest = exportManifest(*plans.begin());
  result.manifest.producer = options.producer;
  result.manifest.targets = {target.description()};
  plan = print();
  return reach(Level::Plan, plan);
}

/// Tells whoever asked with --remarks how each kernel was cut.
static void remarkTilings(ModuleOp module) {
  for (auto kernel : module.getOps<shed::KernelOp>())
    remark::passed(kernel.getLoc(), remark::RemarkOpts::name("ChooseTiles")
                                        .category("heddle-shed")
                                        .function(kernel.getSymName()))
        << llvm::formatv("{0} is cut as {1}", kernel.getSymName(),
                         Attribute(kernel.getTilingAttr()))
               .str();
}

LogicalResult Compilation::runShed() {
  ShedPipelineOptions forms{options.elementTypes, options.headDims};
  if (failed(runPasses(Level::Shed, [&](OpPassManager &pm) {
        populateShedPipeline(pm, target, forms);
      })))
    return failure();
  // The plan has been exported; below this level only kernels are left.
  for (PlanOp op : llvm::make_early_inc_range(module.getOps<PlanOp>()))
    op.erase();
  remarkTilings(module);
  return reach(Level::Shed, needsText(Level::Shed) ? print() : "");
}

LogicalResult Compilation::runMachine() {
  if (failed(runPasses(Level::Machine, populateMachinePipeline)) ||
      failed(exportVariants(collectHostKernels(module), options.elementTypes,
                            options.headDims, result.manifest,
                            module.getLoc())))
    return failure();
  return reach(Level::Machine, needsText(Level::Machine) ? print() : "");
}

LogicalResult Compilation::runCode() {
  TimingScope scope = timing.nest(stringifyLevel(Level::Code));
  FailureOr<std::string> object = emitHostSharedObject(module, target);
  if (failed(object))
    return failure();
  code = std::move(*object);
  return reach(Level::Code, code);
}

LogicalResult Compilation::runBundle() {
  TimingScope scope = timing.nest(stringifyLevel(Level::Bundle));
  auto bytes = bundle::Bundle::serialize(
      result.manifest, {{std::string(bundle::scheduleSection), source.str()},
                        {std::string(bundle::planSection), plan},
                        {bundle::codeSection(result.manifest.targets.front(),
                                             bundle::CodeForm::Native),
                         std::move(code)}});
  if (!bytes)
    return module.emitError(bytes.error().text());
  return reach(Level::Bundle, std::move(*bytes));
}

FailureOr<Compiled> Compilation::run() {
  using Stage = LogicalResult (Compilation::*)();
  for (Stage stage : {&Compilation::runSchedule, &Compilation::runPlan,
                      &Compilation::runShed, &Compilation::runMachine,
                      &Compilation::runCode, &Compilation::runBundle}) {
    if (failed((this->*stage)()))
      return failure();
    if (isDone())
      break;
  }
  return std::move(result);
}

FailureOr<Compiled> mlir::heddle::compile(ModuleOp module, StringRef source,
                                          const CompilerOptions &options,
                                          TimingScope &timing) {
  llvm::Expected<::heddle::HostTarget> target =
      ::heddle::HostTarget::get(options.cpu);
  if (!target) {
    emitError(UnknownLoc::get(module.getContext()))
        << llvm::toString(target.takeError());
    return failure();
  }
  return Compilation(module, source, *target, options, timing).run();
}
