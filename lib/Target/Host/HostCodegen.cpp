//===- HostCodegen.cpp - From functions on vectors to machine code --------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Target/Host/HostCodegen.h"

#include "Link.h"

#include "heddle/Target/Codegen/CompileApart.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <mutex>

using namespace mlir;
using namespace mlir::heddle;

void mlir::heddle::registerHostCodegenDialects(DialectRegistry &registry) {
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

SmallVector<KernelRecord> mlir::heddle::collectHostKernels(ModuleOp module) {
  SmallVector<KernelRecord> kernels;
  for (auto function : module.getOps<func::FuncOp>()) {
    auto fact = [&](StringRef name) {
      auto attr = function->getAttrOfType<IntegerAttr>(name);
      return attr ? attr.getInt() : 0;
    };
    if (function->hasAttr("heddle.query_rows"))
      kernels.push_back({function.getSymName().str(), fact("heddle.query_rows"),
                         fact("heddle.scratch_bytes"),
                         fact("heddle.scratch_bytes_per_key")});
  }
  return kernels;
}

namespace {

void populateLowering(PassManager &pm) {
  pm.enableVerifier(false);
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(createConvertVectorToLLVMPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createConvertFuncToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
}

std::unique_ptr<llvm::TargetMachine>
createMachine(const ::heddle::HostTarget &target, std::string &error) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
  llvm::Triple triple(target.description().triple);
  const llvm::Target *backend =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend)
    return nullptr;
  std::string features;
  for (const std::string &feature : target.description().features)
    features += (features.empty() ? "+" : ",+") + feature;
  llvm::TargetOptions options;
  return std::unique_ptr<llvm::TargetMachine>(backend->createTargetMachine(
      triple, "x86-64", features, options, llvm::Reloc::PIC_, std::nullopt,
      llvm::CodeGenOptLevel::Default));
}

void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  // Vectors and unrolling are the lowering's choice already.
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  tuning.LoopUnrolling = false;
  tuning.LoopInterleaving = false;
  llvm::PassBuilder builder(&machine, tuning);
  llvm::LoopAnalysisManager lam;
  llvm::FunctionAnalysisManager fam;
  llvm::CGSCCAnalysisManager cgam;
  llvm::ModuleAnalysisManager mam;
  builder.registerModuleAnalyses(mam);
  builder.registerCGSCCAnalyses(cgam);
  builder.registerFunctionAnalyses(fam);
  builder.registerLoopAnalyses(lam);
  builder.crossRegisterProxies(lam, fam, cgam, mam);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2)
      .run(module, mam);
}

/// Lowers, optimises and emits the functions of `module`, which is consumed, as
/// an ELF object. Reports errors on it.
FailureOr<std::string> emit(ModuleOp module,
                            const ::heddle::HostTarget &target) {
  PassManager pm(module.getContext());
  populateLowering(pm);
  if (failed(pm.run(module)))
    return failure();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code =
      translateModuleToLLVMIR(module, context, "heddle-kernels");
  if (!code)
    return module.emitError() << "cannot be translated to LLVM IR";
  std::string error;
  std::unique_ptr<llvm::TargetMachine> machine = createMachine(target, error);
  if (!machine)
    return module.emitError() << "no x86 code generator: " << error;
  code->setTargetTriple(machine->getTargetTriple());
  code->setDataLayout(machine->createDataLayout());
  optimize(*code, *machine);
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr,
                                   llvm::CodeGenFileType::ObjectFile))
    return module.emitError() << "x86 code can't be written to a file";
  passes.run(*code);
  return std::string(bytes.data(), bytes.size());
}

} // namespace

FailureOr<std::string>
mlir::heddle::emitHostSharedObject(ModuleOp module,
                                   const ::heddle::HostTarget &target,
                                   const KernelCache &kept) {
  SmallVector<Operation *> functions;
  for (auto function : module.getOps<func::FuncOp>())
    functions.push_back(function);
  auto objects =
      compileApart(module, functions,
                   {registerHostCodegenDialects, populateLowering,
                    [&](ModuleOp kernel) { return emit(kernel, target); }},
                   kept);
  if (failed(objects))
    return failure();
  llvm::Expected<std::string> shared = linkSharedObject(*objects);
  if (!shared)
    return module.emitError() << llvm::toString(shared.takeError());
  return std::move(*shared);
}
