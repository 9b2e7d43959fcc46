//===- CodeEntry.h - A target's code as bytes of the cache ------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_PIPELINES_CODEENTRY_H
#define HEDDLE_LIB_PIPELINES_CODEENTRY_H

#include "heddle/Target/Backend.h"

#include <optional>
#include <string>

namespace mlir::heddle {

/// All that a compilation takes from a target's levels below Shed.
struct CodeEntry {
  SmallVector<KernelRecord> records;
  SmallVector<CodeSection> sections;
};

std::string toBytes(const CodeEntry &entry);

/// None when `bytes` are nothing that toBytes() gives.
std::optional<CodeEntry> toCodeEntry(StringRef bytes);

} // namespace mlir::heddle

#endif // HEDDLE_LIB_PIPELINES_CODEENTRY_H
