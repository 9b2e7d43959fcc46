//===- Messages.h - Standard error of heddlec -------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLEC_MESSAGES_H
#define HEDDLE_TOOLS_HEDDLEC_MESSAGES_H

#include "llvm/Support/raw_ostream.h"

namespace mlir::heddle {

/// llvm::errs() for what quotes a schedule or a path: shows it by
/// printableLines(). Colours are those of llvm::errs().
llvm::raw_ostream &messages();

} // namespace mlir::heddle

#endif // HEDDLE_TOOLS_HEDDLEC_MESSAGES_H
