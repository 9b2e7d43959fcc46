//===- ElfMutator.h - Changes of an ELF file's tables -----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_FUZZ_ELFMUTATOR_H
#define HEDDLE_TEST_FUZZ_ELFMUTATOR_H

#include "test/fuzz/Target.h"

namespace heddle::fuzz {

/// An ELF file with a field of its header, of a program or section header, of
/// the dynamic section, of a symbol or of a relocation changed.
std::string mutatedElf(const std::string &file, Random &random);

} // namespace heddle::fuzz

#endif // HEDDLE_TEST_FUZZ_ELFMUTATOR_H
