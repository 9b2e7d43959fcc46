//===- CompileApart.cpp - Compile kernels on all cores --------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Target/Codegen/CompileApart.h"

#include "mlir/IR/OwningOpRef.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/Threading.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::heddle;

/// Loads every dialect that lowering may create. Loading is not safe once
/// kernels are lowered in several threads.
static void loadDialects(MLIRContext *context, const KernelCompiler &compiler) {
  DialectRegistry registry;
  compiler.registerDialects(registry);
  PassManager pm(context);
  compiler.populateLowering(pm);
  pm.getDependentDialects(registry);
  context->appendDialectRegistry(registry);
  for (StringRef name : registry.getDialectNames())
    context->getOrLoadDialect(name);
}

static OwningOpRef<ModuleOp> isolate(const SymbolTable &symbols,
                                     Operation *kernel) {
  OwningOpRef<ModuleOp> result(ModuleOp::create(kernel->getLoc()));
  SetVector<Operation *> needed;
  needed.insert(kernel);
  for (size_t i = 0; i < needed.size(); ++i)
    if (auto uses = SymbolTable::getSymbolUses(needed[i]))
      for (SymbolTable::SymbolUse use : *uses)
        if (Operation *used =
                symbols.lookup(use.getSymbolRef().getRootReference()))
          needed.insert(used);
  for (Operation *op : needed)
    result->push_back(op->clone());
  return result;
}

std::string mlir::heddle::keyText(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream out(text);
  module->print(out, OpPrintingFlags().printGenericOpForm());
  return text;
}

FailureOr<std::vector<std::string>>
mlir::heddle::compileApart(ModuleOp module, ArrayRef<Operation *> kernels,
                           const KernelCompiler &compiler,
                           const KernelCache &kept) {
  if (kernels.empty())
    return module.emitError() << "holds no kernel to compile";
  MLIRContext *context = module.getContext();
  loadDialects(context, compiler);
  SymbolTable symbols(module);
  SmallVector<OwningOpRef<ModuleOp>> modules;
  for (Operation *kernel : kernels)
    modules.push_back(isolate(symbols, kernel));
  std::vector<std::string> code(modules.size());
  if (failed(failableParallelForEachN(
          context, 0, modules.size(), [&](size_t i) -> LogicalResult {
            std::string key;
            if (kept.cache) {
              key = ::heddle::cacheKey(
                  {"kernel", kept.identity, keyText(*modules[i])});
              if (std::optional<std::string> found = kept.cache->find(key)) {
                code[i] = std::move(*found);
                return success();
              }
            }
            FailureOr<std::string> made = compiler.compile(*modules[i]);
            if (failed(made))
              return failure();
            code[i] = std::move(*made);
            if (kept.cache)
              kept.cache->store(key, code[i]);
            return success();
          })))
    return failure();
  return code;
}
