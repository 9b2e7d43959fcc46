//===- NativeCode.h - What host code may do when it is loaded ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_FORMAT_NATIVECODE_H
#define HEDDLE_BUNDLE_FORMAT_NATIVECODE_H

#include "bundle/Result.h"

#include <string_view>

namespace heddle::bundle {

/// Refuses what is no 64-bit little-endian ELF shared object for x86-64 or
/// AArch64, what reaches outside of `code`, and what would run or load anything
/// while the dynamic loader maps it: initialisers and finalisers, functions
/// that choose themselves (STT_GNU_IFUNC), needed libraries, relocations that
/// write outside of the object's writable memory or into the tables that the
/// loader reads. What heddlec's linker does not write is refused too, so
/// nothing rests on how a loader reads a rare entry. Needs no memory and time
/// beyond one pass over the tables. Says nothing of what the code does when it
/// is called.
Status checkNativeCode(std::string_view code);

} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_FORMAT_NATIVECODE_H
