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
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/CodeGen/MachineModuleInfo.h"
#include "llvm/CodeGen/Passes.h"
#include "llvm/CodeGen/TargetPassConfig.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::heddle;

void mlir::heddle::registerBackendDialects(DialectRegistry &registry) {
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
}

/// Loads every dialect that lowering may create. Loading is not safe once
/// kernels are lowered in several threads.
static void loadDialects(MLIRContext *context, const KernelCompiler &compiler) {
  DialectRegistry registry;
  registerBackendDialects(registry);
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

static void simplify(llvm::Module &module, llvm::TargetMachine &machine,
                     const KernelCompiler &compiler) {
  llvm::PassBuilder builder(&machine, compiler.tuning());
  llvm::LoopAnalysisManager lam;
  llvm::FunctionAnalysisManager fam;
  llvm::CGSCCAnalysisManager cgam;
  llvm::ModuleAnalysisManager mam;
  builder.registerModuleAnalyses(mam);
  builder.registerCGSCCAnalyses(cgam);
  builder.registerFunctionAnalyses(fam);
  builder.registerLoopAnalyses(lam);
  builder.crossRegisterProxies(lam, fam, cgam, mam);
  compiler.passes(builder).run(module, mam);
}

/// Adds what addPassesToEmitFile() does, which no pass can be left out of.
/// False if the target has no code generator.
static bool addCodegen(llvm::legacy::PassManager &passes,
                       llvm::TargetMachine &machine,
                       llvm::raw_pwrite_stream &out,
                       const KernelCompiler &compiler) {
  llvm::TargetPassConfig *config = machine.createPassConfig(passes);
  auto *functions = new llvm::MachineModuleInfoWrapperPass(&machine);
  config->setDisableVerify(true);
  compiler.configure(*config);
  passes.add(config);
  passes.add(functions);
  if (config->addISelPasses())
    return false;
  config->addMachinePasses();
  config->setInitialized();
  if (machine.addAsmPrinter(passes, out, nullptr, compiler.form(),
                            functions->getMMI().getContext()))
    return false;
  passes.add(llvm::createFreeMachineFunctionPass());
  return true;
}

/// Lowers, simplifies and emits the one kernel of `module`, which is consumed.
static FailureOr<std::string> compile(ModuleOp module,
                                      const KernelCompiler &compiler) {
  compiler.prepare(module);
  PassManager pm(module.getContext());
  pm.enableVerifier(false);
  compiler.populateLowering(pm);
  if (failed(pm.run(module)))
    return failure();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code =
      translateModuleToLLVMIR(module, context, "heddle-kernels");
  if (!code)
    return module.emitError() << "cannot be translated to LLVM IR";
  std::string error;
  std::unique_ptr<llvm::TargetMachine> machine = compiler.createMachine(error);
  if (!machine)
    return module.emitError() << "no code generator: " << error;
  code->setTargetTriple(machine->getTargetTriple());
  code->setDataLayout(machine->createDataLayout());
  if (failed(compiler.prepare(module, *code)))
    return failure();
  simplify(*code, *machine, compiler);
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (!addCodegen(passes, *machine, stream, compiler))
    return module.emitError() << "code can't be written to a file";
  passes.run(*code);
  return std::string(bytes.data(), bytes.size());
}

SmallVector<KernelRecord> mlir::heddle::collectKernels(ModuleOp module) {
  SmallVector<KernelRecord> kernels;
  for (auto function : module.getOps<FunctionOpInterface>()) {
    auto fact = [&](StringRef name) {
      auto attr = function->getAttrOfType<IntegerAttr>(name);
      return attr ? attr.getInt() : 0;
    };
    if (!function->hasAttr("heddle.query_rows") &&
        !function->hasAttr("heddle.threads"))
      continue;
    KernelRecord &kernel = kernels.emplace_back();
    kernel.symbol = function.getName().str();
    kernel.queryRows = fact("heddle.query_rows");
    kernel.scratchBytes = fact("heddle.scratch_bytes");
    kernel.scratchBytesPerKey = fact("heddle.scratch_bytes_per_key");
    kernel.threads = fact("heddle.threads");
    kernel.sharedBytes = fact("heddle.shared_bytes");
    kernel.mapRows = fact("heddle.map_rows");
    kernel.cluster = std::max<int64_t>(fact("heddle.cluster"), 1);
    kernel.leastKeys = fact("heddle.least_keys");
    kernel.persistent = fact("heddle.persistent") != 0;
  }
  return kernels;
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
            FailureOr<std::string> made = compile(*modules[i], compiler);
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
