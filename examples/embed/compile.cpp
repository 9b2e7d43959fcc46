//===- compile.cpp - A bundle from a schedule, as a library ---------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// usage: compile SCHEDULE BUNDLE
//
// What heddlec does at its core: fp32 kernels for this machine's CPU.
//
//===----------------------------------------------------------------------===//

#include "bundle/format/File.h"
#include "heddle/Pipelines/Compiler.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::heddle;

int main(int argc, char **argv) {
  if (argc != 3) {
    llvm::errs() << "usage: compile SCHEDULE BUNDLE\n";
    return 2;
  }
  std::string problem;
  auto buffer = readScheduleFile(argv[1], problem);
  if (!buffer) {
    llvm::errs() << "compile: " << problem << "\n";
    return 1;
  }
  llvm::StringRef source = buffer->getBuffer();

  DialectRegistry registry;
  registerCompilerDialects(registry);
  MLIRContext context(registry);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  SourceMgrDiagnosticHandler printer(sources, &context);

  auto module = parseSchedule(sources, /*name=*/"", &context);
  if (!module)
    return 1;
  CompilerOptions options;
  options.elementTypes = {"f32"};
  options.producer = "the example compile";
  DefaultTimingManager timing;
  TimingScope whole = timing.getRootScope();
  FailureOr<Compiled> made = compile(*module, source, options, whole);
  if (failed(made))
    return 1;
  ::heddle::Status written =
      ::heddle::bundle::writeFileAtomically(argv[2], made->output);
  if (written)
    return 0;
  llvm::errs() << "compile: " << written.error().text() << "\n";
  return 1;
}
