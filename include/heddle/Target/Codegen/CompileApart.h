//===- CompileApart.h - Compile kernels on all cores ------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TARGET_CODEGEN_COMPILEAPART_H
#define HEDDLE_TARGET_CODEGEN_COMPILEAPART_H

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

/// Compiles each of `kernels` in a module of its own, with all symbols that it
/// uses, on all cores of the context. Returns their code in their order. Fails
/// with an error on `module` when there is no kernel.
FailureOr<std::vector<std::string>>
compileApart(ModuleOp module, ArrayRef<Operation *> kernels,
             const KernelCompiler &compiler);

} // namespace mlir::heddle

#endif // HEDDLE_TARGET_CODEGEN_COMPILEAPART_H
