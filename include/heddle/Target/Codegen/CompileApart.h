//===- CompileApart.h - Compile kernels on all cores ------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TARGET_CODEGEN_COMPILEAPART_H
#define HEDDLE_TARGET_CODEGEN_COMPILEAPART_H

#include "heddle/Support/CodeCache.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassManager.h"

#include <string>
#include <vector>

namespace mlir::heddle {

/// How a machine makes code of one kernel.
struct KernelCompiler {
  /// Registers what translates to LLVM IR.
  function_ref<void(DialectRegistry &)> registerDialects;
  /// The passes that `compile` runs.
  function_ref<void(PassManager &)> populateLowering;
  /// Compiles a module of one kernel, which is consumed, to the bytes of its
  /// code. Called from several threads; reports errors on the module.
  function_ref<FailureOr<std::string>(ModuleOp)> compile;
};

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
