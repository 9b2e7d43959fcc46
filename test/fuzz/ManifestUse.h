//===- ManifestUse.h - What is done with a manifest -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_FUZZ_MANIFESTUSE_H
#define HEDDLE_TEST_FUZZ_MANIFESTUSE_H

#include "bundle/format/ManifestJson.h"

namespace heddle::fuzz {

/// Writes and reads a manifest that was accepted, which must not change it, and
/// explains it for runs of several shapes.
void useManifest(const bundle::Manifest &manifest);

} // namespace heddle::fuzz

#endif // HEDDLE_TEST_FUZZ_MANIFESTUSE_H
