//===- PtxText.h - Put PTX modules together ---------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_TARGET_NVPTX_PTXTEXT_H
#define HEDDLE_LIB_TARGET_NVPTX_PTXTEXT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace mlir::heddle {

/// One PTX module with everything that `modules` define, in their order. All
/// must have the same version, target and address size; what several declare
/// `.extern` is declared once. Names that they define must differ.
llvm::Expected<std::string> joinPtx(llvm::ArrayRef<std::string> modules);

} // namespace mlir::heddle

#endif // HEDDLE_LIB_TARGET_NVPTX_PTXTEXT_H
