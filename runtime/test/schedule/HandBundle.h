//===- HandBundle.h - Bundles of hand-written kernels -----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEST_SCHEDULE_HANDBUNDLE_H
#define HEDDLE_RUNTIME_TEST_SCHEDULE_HANDBUNDLE_H

#include "bundle/format/Bundle.h"

#include <cstdint>
#include <string>

namespace heddle::test {

/// Head dim of every hand-written kernel, in f32 and bf16.
inline constexpr int64_t handHeadDim = 8;

/// A manifest with all hand-written kernels (selection 0 for groups of 16 rows,
/// 1 for groups of 32) and one rule: dense attention in every layer. Tests
/// replace the rules and the selections' keep and cadence.
bundle::Manifest handManifest();

/// Index of a kernel of handManifest(). Ends the program on an unknown name.
int64_t kernelNamed(const bundle::Manifest &manifest, const std::string &name);

/// The shared object's bytes.
std::string handCode();

/// Writes a bundle with `code` as its code section to a temporary file, reads
/// it back and removes it.
Result<bundle::Bundle> makeBundle(const bundle::Manifest &manifest,
                                  const std::string &code);

/// A bundle of handCode() that has the manifest, which readers take.
bundle::Bundle makeHandBundle(const bundle::Manifest &manifest);

} // namespace heddle::test

#endif // HEDDLE_RUNTIME_TEST_SCHEDULE_HANDBUNDLE_H
