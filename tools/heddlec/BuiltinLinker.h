//===- BuiltinLinker.h - heddlec as the linker of its code ------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLEC_BUILTINLINKER_H
#define HEDDLE_TOOLS_HEDDLEC_BUILTINLINKER_H

#include <optional>

namespace mlir::heddle {

/// Links as ld.lld with the arguments after the first and returns its status,
/// if the first is linkerArgument and this build holds lld
/// (HEDDLE_STATIC_LLVM). To be called before anything else: lld resets LLVM's
/// options.
#ifdef HEDDLE_BUILTIN_LINKER
std::optional<int> linkIfAsked(int argc, char **argv);
#else
inline std::optional<int> linkIfAsked(int, char **) { return std::nullopt; }
#endif

} // namespace mlir::heddle

#endif // HEDDLE_TOOLS_HEDDLEC_BUILTINLINKER_H
