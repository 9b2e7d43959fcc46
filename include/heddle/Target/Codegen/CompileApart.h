//===- CompileApart.h - Compile kernels on all cores ------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TARGET_CODEGEN_COMPILEAPART_H
#define HEDDLE_TARGET_CODEGEN_COMPILEAPART_H

#include "heddle/Support/CodeCache.h"
#include "heddle/Target/Backend.h"

#include "llvm/Passes/PassBuilder.h"
#include "llvm/Target/TargetMachine.h"

#include <string>
#include <vector>

namespace mlir::heddle {

/// How a machine makes code of one kernel, the only one of a module. Called
/// from several threads; errors are reported on the module.
class KernelCompiler {
public:
  virtual ~KernelCompiler() = default;

  /// Does what comes before the lowering to LLVM's dialects.
  virtual void prepare(ModuleOp) const {}
  virtual void populateLowering(PassManager &pm) const = 0;
  /// Null, and why, when LLVM has no such code generator.
  virtual std::unique_ptr<llvm::TargetMachine>
  createMachine(std::string &error) const = 0;
  /// Checks what was translated, and does what comes before its passes.
  virtual LogicalResult prepare(ModuleOp, llvm::Module &) const {
    return success();
  }
  virtual llvm::PipelineTuningOptions tuning() const { return {}; }
  virtual llvm::ModulePassManager passes(llvm::PassBuilder &builder) const = 0;
  /// Leaves out passes of code generation.
  virtual void configure(llvm::TargetPassConfig &) const {}
  virtual llvm::CodeGenFileType form() const = 0;
};

/// Registers the dialects that code generation translates to LLVM IR.
void registerBackendDialects(DialectRegistry &registry);

/// The records of all kernels of a module at the machine level, in their order:
/// the functions with facts as attributes, `heddle.query_rows`,
/// `heddle.threads` and so on.
SmallVector<KernelRecord> collectKernels(ModuleOp module);

/// The IR of `module` as a part of a key: all of it in the generic form, save
/// locations, on which code does not depend.
std::string keyText(ModuleOp module);

/// Where compiled kernels are kept, and what their code depends on beside their
/// IR and this program.
struct KernelCache {
  ::heddle::CodeCache *cache = nullptr; ///< null: everything is compiled
  std::string identity;
};

/// Compiles each of `kernels` in a module of its own, with all symbols that it
/// uses, on all cores of the context, unless `kept` has its code. Returns their
/// code in their order. Fails with an error on `module` when there is no
/// kernel.
FailureOr<std::vector<std::string>> compileApart(ModuleOp module,
                                                 ArrayRef<Operation *> kernels,
                                                 const KernelCompiler &compiler,
                                                 const KernelCache &kept);

} // namespace mlir::heddle

#endif // HEDDLE_TARGET_CODEGEN_COMPILEAPART_H
