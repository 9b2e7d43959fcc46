//===- heddle-opt.cpp - Runs passes on Heddle's levels of IR --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/Process.h"
#include "bundle/program/Printable.h"
#include "heddle/Conversion/Passes.h"
#include "heddle/Dialect/Heddle/IR/Heddle.h"
#include "heddle/Dialect/Heddle/Transforms/Passes.h"
#include "heddle/Dialect/Shed/IR/Shed.h"
#include "heddle/Dialect/Shed/Transforms/Passes.h"
#include "heddle/Dialect/Warp/Transforms/Passes.h"
#include "heddle/Pipelines/Compiler.h"
#include "heddle/Pipelines/Reading.h"
#include "heddle/Support/StandardOutput.h"

#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

static LogicalResult fail(const llvm::Twine &message) {
  llvm::WithColor::error(llvm::errs(), "heddle-opt") << message << "\n";
  return failure();
}

/// Whether a text of schedules has no mistake; says each as heddlec does.
static bool isGoodText(const llvm::MemoryBuffer &buffer,
                       const DialectRegistry &registry,
                       const MlirOptMainConfig &config) {
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.allowUnregisteredDialects(config.shouldAllowUnregisteredDialects());
  context.printOpOnDiagnostic(false);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(
      llvm::MemoryBuffer::getMemBuffer(buffer.getMemBufferRef()),
      llvm::SMLoc());
  SourceMgrDiagnosticHandler printing(sources, &context);
  // Of what is good MlirOptMain gives the warnings.
  ScopedDiagnosticHandler errors(&context, [](Diagnostic &diagnostic) {
    return success(diagnostic.getSeverity() != DiagnosticSeverity::Error);
  });
  return mlir::heddle::Reading(buffer.getMemBufferRef(), &context).isGood();
}

/// What MlirOptMain does with files, and before it a look at the text.
static LogicalResult run(StringRef input, StringRef output,
                         DialectRegistry &registry,
                         const MlirOptMainConfig &config) {
  std::string problem;
  std::unique_ptr<llvm::MemoryBuffer> buffer = openInputFile(input, &problem);
  if (!buffer)
    return fail(problem);
  if (buffer->getBuffer().starts_with("HEDDLE\r\n"))
    problem = "the file is a bundle; heddle-bundle dump shows it";
  else if (!isBytecode(buffer->getMemBufferRef()))
    problem = mlir::heddle::textProblem(buffer->getBuffer());
  if (!problem.empty())
    return fail(buffer->getBufferIdentifier() + ": " + problem);
  const bool whole = config.inputSplitMarker().empty() &&
                     !config.shouldVerifyDiagnostics() &&
                     !isBytecode(buffer->getMemBufferRef());
  if (whole && buffer->getBuffer().contains("heddle.schedule") &&
      !isGoodText(*buffer, registry, config))
    return failure();
  std::unique_ptr<llvm::ToolOutputFile> file = openOutputFile(output, &problem);
  if (!file)
    return fail(problem);
  const LogicalResult made =
      MlirOptMain(file->os(), std::move(buffer), registry, config);
  llvm::raw_fd_ostream &out = file->os();
  out.flush();
  if (out.has_error()) {
    const std::string why = out.error().message();
    out.clear_error(); // else its destructor aborts
    return fail("cannot write to " +
                (output == "-" ? "stdout" : ::heddle::printablePath(output)) +
                ": " + why);
  }
  if (failed(made))
    return failure();
  file->keep();
  return success();
}

int main(int argc, char **argv) {
  ::heddle::bundle::startProgram("heddle-opt");
  ::heddle::checkStandardOutputAtExit("heddle-opt");
  // --help is about this tool; libLLVM's own options are on --help-hidden.
  for (auto &entry : llvm::cl::getRegisteredOptions())
    if (entry.first != "help" && entry.first != "version")
      entry.second->setHiddenFlag(llvm::cl::Hidden);
  llvm::cl::AddExtraVersionPrinter([](llvm::raw_ostream &os) {
    os << "Heddle version " HEDDLE_VERSION "\n";
  });

  DialectRegistry registry;
  registerAllDialects(registry);
  registerAllExtensions(registry);
  registry.insert<mlir::heddle::HeddleDialect, mlir::shed::ShedDialect,
                  mlir::warp::WarpDialect>();

  registerAllPasses();
  mlir::heddle::registerHeddlePasses();
  mlir::heddle::registerHeddleConversionPasses();
  mlir::shed::registerShedPasses();
  mlir::warp::registerWarpPasses();

  llvm::InitLLVM init(argc, argv);
  llvm::cl::extrahelp examples(
      "\nEXAMPLES:\n"
      "  heddle-opt examples/pulsecol.mlir --heddle-verify-schedule\n"
      "  heddle-opt examples/pulsecol.mlir --canonicalize --heddle-plan-steps "
      "--heddle-verify-plan\n"
      "  heddlec examples/pulsecol.mlir --compile-to=shed | heddle-opt "
      "--canonicalize --cse\n");
  auto [input, output] = registerAndParseCLIOptions(
      argc, argv, "Heddle's pass driver\n", registry);
  MlirOptMainConfig config = MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects() || config.shouldListPasses())
    return asMainReturnCode(MlirOptMain(argc, argv, input, output, registry));
  return asMainReturnCode(run(input, output, registry, config));
}
