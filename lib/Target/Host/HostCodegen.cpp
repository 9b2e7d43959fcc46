//===- HostCodegen.cpp - From functions on vectors to machine code --------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Target/Host/HostCodegen.h"

#include "Link.h"

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

#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"

#include <mutex>

using namespace mlir;
using namespace mlir::heddle;

namespace {

class HostCompiler final : public KernelCompiler {
public:
  explicit HostCompiler(const ::heddle::HostTarget &target) : target(target) {}

  void populateLowering(PassManager &pm) const override {
    pm.addPass(createSCFToControlFlowPass());
    pm.addPass(createConvertVectorToLLVMPass());
    pm.addPass(createArithToLLVMConversionPass());
    pm.addPass(createConvertControlFlowToLLVMPass());
    pm.addPass(createConvertFuncToLLVMPass());
    pm.addPass(createReconcileUnrealizedCastsPass());
  }
  std::unique_ptr<llvm::TargetMachine>
  createMachine(std::string &error) const override;
  // Vectors and unrolling are the lowering's choice already.
  llvm::PipelineTuningOptions tuning() const override {
    llvm::PipelineTuningOptions tuning;
    tuning.LoopVectorization = false;
    tuning.SLPVectorization = false;
    tuning.LoopUnrolling = false;
    tuning.LoopInterleaving = false;
    return tuning;
  }
  llvm::ModulePassManager passes(llvm::PassBuilder &builder) const override {
    return builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2);
  }
  llvm::CodeGenFileType form() const override {
    return llvm::CodeGenFileType::ObjectFile;
  }

private:
  const ::heddle::HostTarget &target;
};

} // namespace

std::unique_ptr<llvm::TargetMachine>
HostCompiler::createMachine(std::string &error) const {
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

FailureOr<std::string>
mlir::heddle::emitHostSharedObject(ModuleOp module,
                                   const ::heddle::HostTarget &target,
                                   const KernelCache &kept) {
  SmallVector<Operation *> functions;
  for (auto function : module.getOps<func::FuncOp>())
    functions.push_back(function);
  auto objects = compileApart(module, functions, HostCompiler(target), kept);
  if (failed(objects))
    return failure();
  llvm::Expected<std::string> shared = linkSharedObject(*objects);
  if (!shared)
    return module.emitError() << llvm::toString(shared.takeError());
  return std::move(*shared);
}
