//===- SpecFuzzer.cpp - Schedules
//------------------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The input is a schedule's text: parsed, verified, planned, and the step
// program written as a manifest. LLVM's own libraries count nothing.
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/Mutators.h"
#include "test/unit/Random/RandomSchedule.h"

#include "bundle/format/ManifestJson.h"
#include "heddle/Dialect/Heddle/IR/Heddle.h"
#include "heddle/Pipelines/Compiler.h"
#include "heddle/Pipelines/Pipelines.h"
#include "heddle/Target/Bundle/ExportManifest.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

#include <memory>

using namespace heddle;

namespace {

/// A context keeps what it has made for good, so it is used for some inputs
/// only: often enough to be cheap, seldom enough to stay small.
class Compiler {
public:
  Compiler() : context(mlir::MLIRContext::Threading::DISABLED) {
    mlir::DialectRegistry registry;
    registry.insert<mlir::heddle::HeddleDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    mlir::heddle::populateSchedulePipeline(simplify);
    mlir::heddle::populatePlanPipeline(plan);
  }

  /// The schedule in canonical form, or null if `text` is refused.
  mlir::OwningOpRef<mlir::ModuleOp> schedule(const std::string &text) {
    llvm::SourceMgr sources;
    sources.AddNewSourceBuffer(
        llvm::MemoryBuffer::getMemBufferCopy(text, "input"), llvm::SMLoc());
    auto module = mlir::heddle::parseSchedule(sources, "", &context);
    if (!module || mlir::failed(simplify.run(*module)))
      return nullptr;
    return module;
  }

  mlir::LogicalResult makePlan(mlir::ModuleOp module) {
    return plan.run(module);
  }

  mlir::MLIRContext *get() { return &context; }

private:
  mlir::MLIRContext context;
  mlir::PassManager simplify{&context, mlir::ModuleOp::getOperationName()};
  mlir::PassManager plan{&context, mlir::ModuleOp::getOperationName()};
};

std::string textOf(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream out(text);
  module->print(out);
  return text;
}

} // namespace

void fuzz::runInput(const std::string &input) {
  static std::unique_ptr<Compiler> compiler;
  static int uses = 0;
  if (uses++ % 1000 == 0)
    compiler = std::make_unique<Compiler>();
  int errors = 0;
  mlir::ScopedDiagnosticHandler quiet(
      compiler->get(), [&](mlir::Diagnostic &diagnostic) {
        errors += diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error;
        return mlir::success();
      });
  auto module = compiler->schedule(input);
  if (!module) {
    require(errors > 0, "a schedule is refused with an error");
    return;
  }
  const std::string printed = textOf(*module);
  auto again = compiler->schedule(printed);
  require(bool(again), "a schedule that is printed can be read");
  require(textOf(*again) == printed, "canonical form stays as it is");
  // What is wrong with a schedule is found before: users know no plan.
  require(mlir::succeeded(compiler->makePlan(*module)),
          "a schedule that verifies has a plan");
  for (mlir::heddle::PlanOp op : module->getOps<mlir::heddle::PlanOp>()) {
    bundle::Manifest manifest = mlir::heddle::exportManifest(op);
    const std::string written = bundle::toJson(manifest);
    require(!written.empty(), "a plan becomes a manifest");
  }
}

std::string fuzz::mutated(const std::string &input, Random &random) {
  static const std::vector<std::string> words = [] {
    // Of schedules that are drawn from the whole language.
    std::vector<std::string> all;
    std::mt19937 seeded(1);
    for (int i = 0; i < 400; ++i) {
      std::string word;
      for (char c : test::drawSchedule(seeded).text())
        if (c == '_' || llvm::isAlnum(c))
          word += c;
        else if (!word.empty())
          all.push_back(std::exchange(word, ""));
    }
    return all;
  }();
  if (below(random, 30) == 0) {
    std::mt19937 seeded(static_cast<uint32_t>(random()));
    return test::drawSchedule(seeded).text();
  }
  return mutatedWords(input, words, random);
}

std::string fuzz::crossed(const std::string &input, const std::string &other,
                          Random &random) {
  return crossedLines(input, other, random);
}
