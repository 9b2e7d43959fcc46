//===- HostBackend.cpp - Code generation for CPUs -------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Target/Host/HostCodegen.h"

#include "Link.h"

#include "bundle/format/Bundle.h"
#include "heddle/Conversion/Passes.h"
#include "heddle/Dialect/Shed/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::heddle;
namespace bundle = ::heddle::bundle;

namespace {

constexpr StringLiteral types[] = {"f32", "bf16"};

class HostBackend final : public Backend {
public:
  explicit HostBackend(::heddle::HostTarget target)
      : target(std::move(target)) {}

  StringRef name() const override { return "host"; }
  const bundle::Target &description() const override {
    return target.description();
  }
  ArrayRef<StringLiteral> elementTypes() const override { return types; }
  ArrayRef<StringLiteral> defaultElementTypes() const override { return types; }

  // A CPU's kernels read lists through pointers to int32.
  ArrayRef<bundle::Encoding> encodings() const override {
    static constexpr bundle::Encoding all[] = {bundle::Encoding::Int32};
    return all;
  }
  SmallVector<bundle::Encoding>
  chooseEncodings(ArrayRef<bundle::Selection>) const override {
    return {bundle::Encoding::Int32};
  }

  void populateTilePasses(OpPassManager &pm,
                          const KernelForms &forms) const override {
    ConvertHeddleToShedOptions kernels;
    kernels.dtypes = forms.elementTypes;
    kernels.headDims = forms.headDims;
    pm.addPass(createConvertHeddleToShed(kernels));
    pm.addPass(shed::createShedChooseTiles(target));
    pm.addPass(shed::createShedVerifyKernels(target));
  }

  void populateMachinePasses(OpPassManager &pm) const override {
    pm.addPass(createConvertShedToVector());
    // Of each function, on all cores; a second round finds nothing more.
    pm.addNestedPass<func::FuncOp>(
        createCanonicalizerPass(GreedyRewriteConfig().setMaxIterations(1)));
    pm.addNestedPass<func::FuncOp>(createCSEPass());
    pm.addPass(createHeddleVerifyMachine());
  }

  std::string identity() const override {
    return machine() + " " + ::heddle::programIdentity(findLinker());
  }

  FailureOr<SmallVector<CodeSection>>
  generateCode(ModuleOp module, ::heddle::CodeCache *cache) const override {
    FailureOr<std::string> object =
        emitHostSharedObject(module, target, {cache, machine()});
    if (failed(object))
      return failure();
    SmallVector<CodeSection> sections;
    sections.push_back(
        {bundle::codeSection(target.description(), bundle::CodeForm::Native),
         ".so", std::move(*object)});
    return sections;
  }

private:
  /// All that is known of the CPU.
  std::string machine() const {
    const bundle::Target &cpu = target.description();
    return cpu.triple + " " + cpu.cpu + " " + llvm::join(cpu.features, ",");
  }

  ::heddle::HostTarget target;
};

} // namespace

std::unique_ptr<Backend>
mlir::heddle::createHostBackend(::heddle::HostTarget target) {
  return std::make_unique<HostBackend>(std::move(target));
}
