//===- Compiler.cpp - From a schedule's text to a bundle ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Pipelines/Compiler.h"

#include "CodeEntry.h"
#include "Hints.h"
#include "Targets.h"

#include "bundle/format/Bundle.h"
#include "bundle/format/Crossovers.h"
#include "bundle/program/KernelNeeds.h"
#include "bundle/program/Program.h"
#include "heddle/Dialect/Heddle/IR/Heddle.h"
#include "heddle/Dialect/Shed/IR/Shed.h"
#include "heddle/Pipelines/Pipelines.h"
#include "heddle/Target/Bundle/ExportManifest.h"
#include "heddle/Target/Codegen/CompileApart.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::heddle;
namespace bundle = ::heddle::bundle;

StringRef mlir::heddle::stringifyLevel(Level level) {
  static constexpr StringLiteral names[] = {
      "schedule", "plan", "shed", "pipeline", "machine", "code", "bundle"};
  return names[static_cast<size_t>(level)];
}

bool mlir::heddle::isOfTarget(Level level) {
  return level >= Level::Shed && level <= Level::Code;
}

void mlir::heddle::registerCompilerDialects(DialectRegistry &registry) {
  registry.insert<HeddleDialect>();
  registerBackendDialects(registry);
}

namespace {

using PopulatePasses = function_ref<void(OpPassManager &)>;

/// One compilation: the schedule and its plan, then each target's levels, until
/// the level asked for.
class Compilation {
public:
  Compilation(ModuleOp module, StringRef source, ArrayRef<TargetJob> jobs,
              const CompilerOptions &options, TimingScope &timing)
      : module(module), source(source), jobs(jobs), options(options),
        timing(timing) {}

  FailureOr<Compiled> run();

private:
  LogicalResult runSchedule();
  LogicalResult runPlan();
  LogicalResult runTarget(size_t index);
  FailureOr<CodeEntry> codeOf(const Backend &backend, ModuleOp own,
                              TimingScope &scope);
  FailureOr<CodeEntry> compileTarget(const Backend &backend, ModuleOp own,
                                     TimingScope &scope);
  LogicalResult runBundle();

  LogicalResult runPasses(ModuleOp module, Level level, TimingScope &parent,
                          PopulatePasses populate);
  LogicalResult reach(Level level, StringRef target, StringRef extension,
                      std::string contents);
  LogicalResult reachIR(Level level, StringRef target, ModuleOp module);
  bool isDone() const { return reached == options.level; }

  ModuleOp module;
  StringRef source;
  ArrayRef<TargetJob> jobs;
  const CompilerOptions &options;
  TimingScope &timing;
  Compiled result;
  std::optional<Level> reached;
  std::string plan; ///< the IR at Level::Plan
  std::vector<std::pair<std::string, std::string>> code; ///< sections
};

std::string print(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream out(text);
  module->print(out, OpPrintingFlags().enableDebugInfo(false));
  return text;
}

/// Tells whoever asked with --remarks how each kernel was cut.
void remarkTilings(ModuleOp module) {
  for (auto kernel : module.getOps<shed::KernelOp>())
    remark::passed(kernel.getLoc(), remark::RemarkOpts::name("ChooseTiles")
                                        .category("heddle-shed")
                                        .function(kernel.getSymName()))
        << llvm::formatv("{0} is cut as {1}", kernel.getSymName(),
                         Attribute(kernel.getTilingAttr()))
               .str();
}

/// L2, C4: what a schedule says of layers is of those of a model that has so
/// many.
LogicalResult checkNamedLayers(ModuleOp module, int64_t layers) {
  bool good = true;
  auto isLayer = [&](int64_t layer) {
    return layer >= -layers && layer < layers;
  };
  module.walk([&](Operation *op) {
    auto refuse = [&](const Twine &named) {
      good = false;
      op->emitOpError() << named << ", the model has layers 0 to "
                        << layers - 1;
    };
    op->getAttrDictionary().walk([&](Attribute attribute) {
      if (auto range = dyn_cast<LayerRangeAttr>(attribute)) {
        if (!isLayer(range.getFirst()) || !isLayer(range.getLast()))
          refuse("names layers " + Twine(range.getFirst()) + " to " +
                 Twine(range.getLast()));
      } else if (auto cadence = dyn_cast<CadenceAttr>(attribute)) {
        const bundle::Cadence value = cadence.getValue();
        if (value.kind == bundle::Cadence::Kind::Drift && !isLayer(value.layer))
          refuse("goes by what drifts in layer " + Twine(value.layer));
      }
    });
  });
  return success(good);
}

} // namespace

LogicalResult Compilation::runPasses(ModuleOp module, Level level,
                                     TimingScope &parent,
                                     PopulatePasses populate) {
  PassManager pm(module.getContext(), ModuleOp::getOperationName());
  if (options.configure && failed(options.configure(pm)))
    return failure();
  pm.enableVerifier(options.verifyEach);
  TimingScope scope = parent.nest(stringifyLevel(level));
  pm.enableTiming(scope);
  populate(pm);
  return pm.run(module);
}

/// Hands a level's contents to the observer and keeps them if it is the last.
LogicalResult Compilation::reach(Level level, StringRef target,
                                 StringRef extension, std::string contents) {
  if (options.observer &&
      failed(options.observer({level, target, extension, contents})))
    return failure();
  // A target's code may have several sections, of which the first counts.
  if (level == options.level && reached != level)
    result.output = std::move(contents);
  reached = level;
  return success();
}

LogicalResult Compilation::reachIR(Level level, StringRef target,
                                   ModuleOp module) {
  // Kernels print to megabytes, so only on demand.
  bool needed = options.observer || options.level == level;
  return reach(level, target, ".mlir", needed ? print(module) : "");
}

LogicalResult Compilation::runSchedule() {
  if (options.layers && failed(checkNamedLayers(module, *options.layers)))
    return failure();
  if (failed(
          runPasses(module, Level::Schedule, timing, populateSchedulePipeline)))
    return failure();
  return reachIR(Level::Schedule, "", module);
}

LogicalResult Compilation::runPlan() {
  std::vector<bundle::Crossover> crossovers;
  std::vector<bundle::Target> targets;
  if (!options.crossovers.empty()) {
    auto table = bundle::crossoversFromJson(options.crossovers);
    if (!table)
      return emitError(module.getLoc()) << table.error().text();
    crossovers = std::move(*table);
    for (const TargetJob &job : jobs)
      targets.push_back(job.backend->description());
  }
  if (failed(runPasses(module, Level::Plan, timing, [&](OpPassManager &pm) {
        populatePlanPipeline(pm, crossovers, targets);
      })))
    return failure();
  auto plans = module.getOps<PlanOp>();
  assert(llvm::hasSingleElement(plans) && "parseSchedule leaves one schedule");
  PlanOp made = *plans.begin();
  auto selections = llvm::map_to_vector(
      made.getOps<SelectionOp>(), [](SelectionOp op) { return op.getRule(); });
  std::vector<bundle::Target> machines;
  for (const TargetJob &job : jobs)
    machines.push_back(describe(job, selections, options.encoding));
  bundle::Manifest &manifest = result.manifest;
  manifest = exportManifest(made, options.producer, std::move(machines));
  if (options.layers)
    if (auto rules = bundle::rulesOfLayers(manifest, *options.layers); !rules)
      return made.emitError(rules.error().text());
  for (auto [op, fallback] :
       llvm::zip_equal(made.getOps<FallbackOp>(), manifest.fallbacks))
    emitRemark(op.getLoc(), bundle::toString(manifest, fallback));
  plan = print(module);
  return reach(Level::Plan, "", ".mlir", plan);
}

LogicalResult Compilation::runTarget(size_t index) {
  const TargetJob &job = jobs[index];
  const Backend &backend = *job.backend;
  TimingScope scope = timing.nest(backend.name());
  OwningOpRef<ModuleOp> owned = module.clone();
  ModuleOp own = *owned;

  KernelForms forms{
      job.elementTypes, options.headDims,
      llvm::to_vector(llvm::ArrayRef(result.manifest.targets[index].encodings)),
      bundle::rowOpsOf(result.manifest)};
  if (failed(runPasses(own, Level::Shed, scope, [&](OpPassManager &pm) {
        backend.populateTilePasses(pm, forms);
      })))
    return failure();
  // The plan has been exported; below this level only kernels are left.
  for (PlanOp op : llvm::make_early_inc_range(own.getOps<PlanOp>()))
    op.erase();
  remarkTilings(own);
  if (failed(reachIR(Level::Shed, backend.name(), own)) || isDone())
    return success(isDone());

  FailureOr<CodeEntry> made = codeOf(backend, own, scope);
  if (failed(made))
    return failure();
  if (options.level == Level::Pipeline)
    return success();
  if (failed(exportVariants(made->records, forms, index, result.manifest,
                            module.getLoc())))
    return failure();
  for (CodeSection &section : made->sections) {
    if (failed(reach(Level::Code, backend.name(), section.extension,
                     section.contents)))
      return failure();
    code.emplace_back(std::move(section.name), std::move(section.contents));
  }
  return success();
}

/// Takes kernels on tiles to code. Without sections when no code is wanted.
FailureOr<CodeEntry> Compilation::compileTarget(const Backend &backend,
                                                ModuleOp own,
                                                TimingScope &scope) {
  CodeEntry entry;
  if (backend.hasPipelines()) {
    if (failed(runPasses(
            own, Level::Pipeline, scope,
            [&](OpPassManager &pm) { backend.populatePipelinePasses(pm); })) ||
        failed(reachIR(Level::Pipeline, backend.name(), own)))
      return failure();
    if (isDone())
      return entry;
  }
  if (failed(runPasses(own, Level::Machine, scope, [&](OpPassManager &pm) {
        backend.populateMachinePasses(pm);
      })))
    return failure();
  entry.records = collectKernels(own);
  if (failed(reachIR(Level::Machine, backend.name(), own)))
    return failure();
  if (isDone() || !options.generateCode)
    return entry;
  TimingScope generation = scope.nest(stringifyLevel(Level::Code));
  FailureOr<SmallVector<CodeSection>> sections =
      backend.generateCode(own, options.cache);
  if (failed(sections))
    return failure();
  entry.sections = std::move(*sections);
  return entry;
}

/// The same, from the cache if it is there. What was warned of is compiled anew
/// each time, so that it is warned of each time.
FailureOr<CodeEntry> Compilation::codeOf(const Backend &backend, ModuleOp own,
                                         TimingScope &scope) {
  ::heddle::CodeCache *cache = options.cache;
  if (!cache || options.observer || options.level < Level::Code)
    return compileTarget(backend, own, scope);
  std::string key =
      ::heddle::cacheKey({options.generateCode ? "target" : "records",
                          backend.identity(), keyText(own)});
  std::optional<CodeEntry> found;
  if (std::optional<std::string> bytes = cache->find(key))
    found = toCodeEntry(*bytes);
  if (options.cacheObserver)
    options.cacheObserver(backend.name(), found.has_value());
  if (found)
    return std::move(*found);

  bool silent = true;
  ScopedDiagnosticHandler listener(module.getContext(), [&](Diagnostic &) {
    silent = false;
    return failure(); // on to whoever prints it
  });
  FailureOr<CodeEntry> made = compileTarget(backend, own, scope);
  if (succeeded(made) && silent)
    cache->store(key, toBytes(*made));
  return made;
}

LogicalResult Compilation::runBundle() {
  TimingScope scope = timing.nest(stringifyLevel(Level::Bundle));
  std::vector<std::pair<std::string, std::string>> sections = {
      {std::string(bundle::scheduleSection), source.str()},
      {std::string(bundle::planSection), plan}};
  if (!options.backend.tuning.empty())
    sections.emplace_back(bundle::tuningSection, options.backend.tuning);
  // By which it is compiled anew. Without fallbacks that is by none.
  if (!result.manifest.fallbacks.empty())
    sections.emplace_back(bundle::crossoversSection, options.crossovers);
  llvm::move(code, std::back_inserter(sections));
  auto bytes = bundle::Bundle::serialize(result.manifest, sections);
  if (!bytes)
    return module.emitError(bytes.error().text());
  return reach(Level::Bundle, "", ".hdl", std::move(*bytes));
}

FailureOr<Compiled> Compilation::run() {
  NamesAsWritten names(module.getContext());
  if (failed(runSchedule()))
    return failure();
  if (!isDone() && failed(runPlan()))
    return failure();
  for (size_t i = 0; i < jobs.size() && !isDone(); ++i)
    if (failed(runTarget(i)))
      return failure();
  if (!isDone() && options.generateCode && failed(runBundle()))
    return failure();
  return std::move(result);
}

FailureOr<Compiled> mlir::heddle::compile(ModuleOp module, StringRef source,
                                          const CompilerOptions &options,
                                          TimingScope &timing) {
  llvm::Expected<std::vector<TargetJob>> jobs = planTargets(options);
  if (!jobs) {
    emitError(UnknownLoc::get(module.getContext()))
        << llvm::toString(jobs.takeError());
    return failure();
  }
  return Compilation(module, source, *jobs, options, timing).run();
}
