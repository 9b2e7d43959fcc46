//===- Link.h - Link objects to a shared object -----------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TARGET_HOST_LINK_H
#define HEDDLE_LIB_TARGET_HOST_LINK_H

#include "heddle/Target/Host/HostCodegen.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace mlir::heddle {

/// The path of the first of ld.lld-22, ld.lld and ld that is on PATH, or "". A
/// build with HEDDLE_STATIC_LLVM: of this program, which links when started
/// with linkerArgument.
std::string findLinker();

/// Links ELF objects to a shared object with findLinker(). Returns its bytes.
llvm::Expected<std::string>
linkSharedObject(llvm::ArrayRef<std::string> objects);

} // namespace mlir::heddle

#endif // HEDDLE_LIB_TARGET_HOST_LINK_H
