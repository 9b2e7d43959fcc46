//===- PtxCodegen.cpp - From kernels in LLVM's terms to PTX ---------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Target/NVPTX/PtxCodegen.h"

#include "PtxText.h"

#include "bundle/abi/Abi.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Pass/Pass.h"

#include "llvm/CodeGen/Passes.h"
#include "llvm/CodeGen/TargetPassConfig.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Transforms/Scalar/ADCE.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

#include <mutex>

using namespace mlir;
using namespace mlir::heddle;

namespace {

bool isKernel(LLVM::LLVMFuncOp function) {
  return function->hasAttr(NVVM::NVVMDialect::getKernelFuncAttrName());
}

/// What only the kernel of `module` uses gets a name that no other kernel's
/// module has, and can't be seen from outside.
void makePrivate(llvm::Module &module) {
  auto kernel = llvm::find_if(module, [](const llvm::Function &function) {
    return function.getCallingConv() == llvm::CallingConv::PTX_Kernel;
  });
  assert(kernel != module.end() && "compileApart() leaves one in each module");
  for (llvm::GlobalValue &value : module.global_values()) {
    if (value.isDeclaration() || &value == &*kernel)
      continue;
    value.setName(kernel->getName() + "_" + value.getName());
    value.setLinkage(llvm::GlobalValue::InternalLinkage);
  }
}

/// Nothing is linked later, so what is called must be here.
LogicalResult checkDefined(ModuleOp module, const llvm::Module &code) {
  for (const llvm::Function &function : code)
    if (function.isDeclaration() && !function.isIntrinsic() &&
        !function.use_empty())
      return module.emitError()
             << "a kernel calls @" << function.getName()
             << ", which is neither defined in its module nor an instruction";
  return success();
}

/// Makes kernels fit to be launched before what precedes them is done: each
/// lets the next one start, then waits until all before it is done and visible.
/// Both come first, so memory is touched after the wait alone, and the order of
/// the two is free. What a kernel only reads may still be written while it
/// waits, so no load is of a constant.
void startEarly(ModuleOp module) {
  for (auto function : module.getOps<LLVM::LLVMFuncOp>()) {
    if (!isKernel(function))
      continue;
    auto b = OpBuilder::atBlockBegin(&function.getFunctionBody().front());
    for (auto kind : {NVVM::GridDepActionKind::launch_dependents,
                      NVVM::GridDepActionKind::wait})
      NVVM::GriddepcontrolOp::create(b, function.getLoc(), kind);
    function.walk([](LLVM::LoadOp load) { load.setInvariant(false); });
  }
}

class PtxCompiler final : public KernelCompiler {
public:
  explicit PtxCompiler(const ::heddle::CudaTarget &target) : target(target) {}

  void prepare(ModuleOp module) const override {
    if (target.startsEarly())
      startEarly(module);
  }
  void populateLowering(PassManager &pm) const override {
    pm.addPass(createSCFToControlFlowPass());
    pm.addPass(createConvertVectorToLLVMPass());
    pm.addPass(createConvertNVVMToLLVMPass());
    pm.addPass(createConvertMathToLLVMPass());
    pm.addPass(createConvertIndexToLLVMPass());
    pm.addPass(createArithToLLVMConversionPass());
    pm.addPass(createConvertControlFlowToLLVMPass());
    pm.addPass(createReconcileUnrealizedCastsPass());
  }
  std::unique_ptr<llvm::TargetMachine>
  createMachine(std::string &error) const override;
  LogicalResult prepare(ModuleOp module, llvm::Module &code) const override {
    makePrivate(code);
    return checkDefined(module, code);
  }
  /// Little is left to do: tiles, unrolling and what stays in registers are the
  /// lowering's choice, and scheduling is ptxas's. Above all no pass that moves
  /// code out of loops: -O1 and up take the dense kernel for a head dim of 128
  /// from 243 registers to 255 and a spill, the select kernel from 188 to 242
  /// (sm_80). What is left changes little, so that llc alone shows what a
  /// bundle will hold.
  llvm::ModulePassManager passes(llvm::PassBuilder &) const override {
    llvm::FunctionPassManager functions;
    functions.addPass(llvm::SROAPass(llvm::SROAOptions::PreserveCFG));
    functions.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
    functions.addPass(llvm::SimplifyCFGPass());
    functions.addPass(llvm::ADCEPass());
    llvm::ModulePassManager passes;
    passes.addPass(
        llvm::createModuleToFunctionPassAdaptor(std::move(functions)));
    return passes;
  }
  /// Subexpressions that LLVM finds common across a loop over tiles take a
  /// register for all of it, and ptxas finds the others by itself. Without them
  /// the dense kernel of warpgroups for a head dim of 128 has no spill and is 1
  /// to 2% faster (sm_90a). ptxas needs them where a warp has the tile: two
  /// kernels spill without (sm_100).
  void configure(llvm::TargetPassConfig &config) const override {
    if (target.hasWgmma())
      config.disablePass(&llvm::MachineCSELegacyID);
  }
  llvm::CodeGenFileType form() const override {
    return llvm::CodeGenFileType::AssemblyFile;
  }

private:
  const ::heddle::CudaTarget &target;
};

} // namespace

std::unique_ptr<llvm::TargetMachine>
PtxCompiler::createMachine(std::string &error) const {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  llvm::Triple triple(target.description().triple);
  const llvm::Target *backend =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend)
    return nullptr;
  return std::unique_ptr<llvm::TargetMachine>(backend->createTargetMachine(
      triple, target.description().cpu,
      "+" + target.description().features.front(), llvm::TargetOptions(),
      /*RM=*/std::nullopt, /*CM=*/std::nullopt,
      llvm::CodeGenOptLevel::Aggressive));
}

FailureOr<std::string> mlir::heddle::emitPtx(ModuleOp module,
                                             const ::heddle::CudaTarget &target,
                                             const KernelCache &kept) {
  SmallVector<Operation *> kernels;
  for (auto function : module.getOps<LLVM::LLVMFuncOp>())
    if (isKernel(function))
      kernels.push_back(function);
  auto texts = compileApart(module, kernels, PtxCompiler(target), kept);
  if (failed(texts))
    return failure();
  llvm::Expected<std::string> joined = joinPtx(*texts);
  if (!joined)
    return module.emitError() << llvm::toString(joined.takeError());
  if (target.startsEarly())
    *joined += std::string(".visible .global .align 1 .b8 ") +
               ::heddle::abi::waitingSymbol + ";\n";
  return std::move(*joined);
}
