//===- HostCodegen.h - From functions on vectors to a shared object -------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TARGET_HOST_HOSTCODEGEN_H
#define HEDDLE_TARGET_HOST_HOSTCODEGEN_H

#include "heddle/Target/Codegen/CompileApart.h"
#include "heddle/Target/Host/HostTarget.h"

namespace mlir::heddle {

/// Compiles `module` (after convert-shed-to-vector) and links a shared object
/// that exports its kernels and needs nothing but memcpy, memmove and memset of
/// the C library. Kernels compile on all cores. Errors are reported on the
/// module: a failed translation, or no linker on PATH (ld.lld-22, ld.lld, ld).
FailureOr<std::string> emitHostSharedObject(ModuleOp module,
                                            const ::heddle::HostTarget &target,
                                            const KernelCache &kept = {});

/// With this first argument a program that holds lld (HEDDLE_STATIC_LLVM) is
/// the linker: it starts itself to link.
inline constexpr llvm::StringLiteral linkerArgument = "--act-as-ld.lld";

/// The back end that makes such shared objects.
std::unique_ptr<Backend> createHostBackend(::heddle::HostTarget target);

} // namespace mlir::heddle

#endif // HEDDLE_TARGET_HOST_HOSTCODEGEN_H
