//===- heddlec.cpp - Compiles a schedule to a bundle ----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BuiltinLinker.h"
#include "Messages.h"
#include "Options.h"

#include "bundle/Process.h"
#include "bundle/format/File.h"
#include "bundle/program/Printable.h"
#include "heddle/Pipelines/Compiler.h"
#include "heddle/Support/StandardOutput.h"
#include "tools/explain/page/Page.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Remarks.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/WithColor.h"

#include <unistd.h>

using namespace mlir;
using namespace mlir::heddle;

namespace {

LogicalResult fail(const llvm::Twine &message) {
  llvm::outs().flush();
  llvm::WithColor::error(messages(), "heddlec") << message << "\n";
  return failure();
}

/// Writes to a file, or to stdout when the name is '-'.
LogicalResult write(StringRef name, StringRef contents) {
  if (name == "-") {
    llvm::outs() << contents;
    return success(); // checkStandardOutputAtExit() finds what was lost
  }
  ::heddle::Status status =
      ::heddle::bundle::writeFileAtomically(name.str(), contents);
  return status ? success() : fail(status.error().text());
}

/// DIR/2-plan.mlir and so on; DIR/3-shed.sm_90a.mlir when there are several
/// targets.
LogicalResult dumpLevel(const Options &options, const LevelOutput &output) {
  StringRef folder = options.dump;
  if (std::error_code error = llvm::sys::fs::create_directories(folder))
    return fail(::heddle::printablePath(folder) +
                ": cannot create the folder: " + error.message());
  std::string name = std::to_string(static_cast<int>(output.level) + 1) + "-" +
                     stringifyLevel(output.level).str();
  if (!output.target.empty() && options.compiler.targets.size() > 1)
    name += "." + output.target.str();
  SmallString<128> path(folder);
  llvm::sys::path::append(path, name + output.extension);
  return write(path, output.contents);
}

LogicalResult writeExplanation(const Options &options, StringRef source,
                               const ::heddle::bundle::Manifest &manifest) {
  ::heddle::explain::ExplainRequest request = options.request;
  request.source = source.str();
  if (auto table =
          ::heddle::bundle::crossoversFromJson(options.compiler.crossovers))
    request.crossovers = std::move(*table);
  auto explanation = ::heddle::explain::explainRun(manifest, request);
  if (!explanation)
    return fail("--explain: " + explanation.error().text());
  if (options.explain == ExplainFormat::Html)
    return write(options.output, ::heddle::explain::toHtml(*explanation));
  return write("-", options.explain == ExplainFormat::Json
                        ? toJson(*explanation)
                        : toText(*explanation, options.kernels));
}

LogicalResult enableRemarks(MLIRContext &context, const std::string &filter) {
  if (filter.empty())
    return success();
  remark::RemarkCategories categories;
  categories.passed = categories.missed = categories.analysis =
      categories.failed = filter;
  return remark::enableOptimizationRemarks(
      context, /*streamer=*/nullptr,
      std::make_unique<remark::RemarkEmittingPolicyAll>(), categories,
      /*printAsEmitRemarks=*/true);
}

/// Prints what the cache holds, or empties it.
LogicalResult runCacheCommand(const CacheOptions &options) {
  auto cache = ::heddle::CodeCache::open(options.folder, options.policy);
  if (!cache)
    return fail("the cache: " + llvm::toString(cache.takeError()));
  if (options.clear)
    if (llvm::Error error = (*cache)->clear())
      return fail("the cache: " + llvm::toString(std::move(error)));
  if (options.stats == ExplainFormat::None)
    return success();
  auto size = (*cache)->size();
  if (!size)
    return fail("the cache: " + llvm::toString(size.takeError()));
  std::string text;
  llvm::raw_string_ostream out(text);
  uint64_t limit = (*cache)->limit();
  if (options.stats == ExplainFormat::Json)
    out << llvm::formatv(
        "{0:2}\n",
        llvm::json::Value(llvm::json::Object{
            {"folder", (*cache)->folder()},
            {"entries", size->entries},
            {"bytes", size->bytes},
            {"limit_bytes", limit ? llvm::json::Value(limit) : nullptr}}));
  else
    out << llvm::formatv("folder   {0}\nentries  {1}\nbytes    {2:N}\n"
                         "limit    {3}\n",
                         (*cache)->folder(), size->entries, size->bytes,
                         limit ? llvm::formatv("{0:N} bytes", limit).str()
                               : "none");
  return write("-", text);
}

/// The cache for a compilation, or null. A folder that the user named and that
/// is of no use is worth a warning, another is not.
std::unique_ptr<::heddle::CodeCache> openCache(const CacheOptions &options) {
  if (!options.used)
    return nullptr;
  if (options.bypassed) {
    if (options.verbose)
      messages() << "heddlec: the cache is not used: --dump, --remarks, "
                    "--verify-each and MLIR's own options always compile\n";
    return nullptr;
  }
  auto cache = ::heddle::CodeCache::open(options.folder, options.policy);
  if (cache)
    return std::move(*cache);
  std::string why = llvm::toString(cache.takeError());
  if (options.named || options.verbose || !options.policy.empty())
    llvm::WithColor::warning(messages(), "heddlec")
        << "no compiled code is kept: " << why << "\n";
  return nullptr;
}

/// Makes room, and says what went wrong if that is wanted.
void closeCache(::heddle::CodeCache &cache, const CacheOptions &options) {
  cache.prune();
  std::string problem = cache.problem();
  if (!problem.empty() && (options.named || options.verbose))
    llvm::WithColor::warning(messages(), "heddlec")
        << "not all compiled code is kept: " << problem << "\n";
}

/// The schedule's text with the parameters that the user set, or null.
std::unique_ptr<llvm::MemoryBuffer>
withSettings(std::unique_ptr<llvm::MemoryBuffer> buffer, const Options &options,
             MLIRContext &context) {
  if (options.settings.empty())
    return buffer;
  const std::string name = buffer->getBufferIdentifier().str();
  llvm::SourceMgr sourceMgr;
  sourceMgr.AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  SourceMgrDiagnosticHandler handler(sourceMgr, &context, messages());
  FailureOr<std::string> text = setParameters(
      sourceMgr, options.compiler.schedule, options.settings, &context);
  return failed(text) ? nullptr
                      : llvm::MemoryBuffer::getMemBufferCopy(*text, name);
}

/// Prints a problem that no line of the schedule is to blame for, such as a
/// missing linker, without a place in it.
LogicalResult printUnlocated(Diagnostic &diagnostic) {
  auto at = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>();
  if (at && at.getLine() > 0)
    return failure(); // SourceMgrDiagnosticHandler shows the line
  constexpr StringLiteral program = "heddlec";
  llvm::raw_ostream &err = messages();
  llvm::outs().flush();
  switch (diagnostic.getSeverity()) {
  case DiagnosticSeverity::Error:
    llvm::WithColor::error(err, program);
    break;
  case DiagnosticSeverity::Warning:
    llvm::WithColor::warning(err, program);
    break;
  case DiagnosticSeverity::Note:
    llvm::WithColor::note(err, program);
    break;
  case DiagnosticSeverity::Remark:
    llvm::WithColor::remark(err, program);
    break;
  }
  err << diagnostic << "\n";
  for (Diagnostic &note : diagnostic.getNotes())
    llvm::WithColor::note(err, program) << note << "\n";
  return success();
}

LogicalResult run(Options options) {
  if (options.cache.clear || options.cache.stats != ExplainFormat::None)
    return runCacheCommand(options.cache);
  std::string problem;
  std::unique_ptr<llvm::MemoryBuffer> buffer =
      readScheduleFile(options.input, problem);
  if (!buffer)
    return fail(problem);

  DialectRegistry registry;
  registerCompilerDialects(registry);
  MLIRContext context(registry);
  // The source line says more to a user than the generic form of an op.
  context.printOpOnDiagnostic(false);
  buffer = withSettings(std::move(buffer), options, context);
  if (!buffer)
    return failure();
  StringRef source = buffer->getBuffer();
  llvm::SourceMgr sourceMgr;
  sourceMgr.AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  SourceMgrDiagnosticHandler handler(sourceMgr, &context, messages());
  ScopedDiagnosticHandler unlocated(&context, printUnlocated);
  if (failed(enableRemarks(context, options.remarks)))
    return fail("cannot enable remarks");

  DefaultTimingManager timingManager;
  applyDefaultTimingManagerCLOptions(timingManager);
  TimingScope timing = timingManager.getRootScope();

  TimingScope parsing = timing.nest("Parse");
  OwningOpRef<ModuleOp> module =
      parseSchedule(sourceMgr, options.compiler.schedule, &context);
  parsing.stop();
  if (!module)
    return failure();
  if (!options.dump.empty())
    options.compiler.observer = [&](const LevelOutput &output) {
      return dumpLevel(options, output);
    };
  std::unique_ptr<::heddle::CodeCache> cache;
  if (options.compiler.level >= Level::Code)
    cache = openCache(options.cache);
  options.compiler.cache = cache.get();
  if (options.cache.verbose)
    options.compiler.cacheObserver = [](StringRef target, bool found) {
      messages() << "heddlec: code for " << target
                 << (found ? " is from the cache\n" : " is not in the cache\n");
    };
  FailureOr<Compiled> compiled =
      compile(*module, source, options.compiler, timing);
  if (cache)
    closeCache(*cache, options.cache);
  if (failed(compiled))
    return failure();

  if (options.explain != ExplainFormat::None &&
      failed(writeExplanation(options, source, compiled->manifest)))
    return failure();
  if (options.output.empty() || options.explain == ExplainFormat::Html)
    return success();
  return write(options.output, compiled->output);
}

/// Too little memory is no bug: a sentence in place of an abort.
void endOutOfMemory(void *, const char *, bool) {
  constexpr char text[] = "heddlec: error: out of memory\n";
  (void)!::write(STDERR_FILENO, text, sizeof(text) - 1);
  ::_exit(1);
}

} // namespace

int main(int argc, char **argv) {
  if (std::optional<int> linked = linkIfAsked(argc, argv))
    return *linked;
  ::heddle::bundle::startProgram("heddlec");
  ::heddle::checkStandardOutputAtExit("heddlec");
  llvm::InitLLVM init(argc, argv);
  llvm::install_bad_alloc_error_handler(endOutOfMemory);
  llvm::setBugReportMsg("heddlec crashed, which is a bug in heddlec: please "
                        "report it with the schedule and this trace.\n");
  std::optional<int> exitCode;
  Options options = parseOptions(argc, argv, exitCode);
  if (exitCode)
    return *exitCode;
  return succeeded(run(std::move(options))) ? 0 : 1;
}
