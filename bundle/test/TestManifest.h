//===- TestManifest.h - A manifest that uses every field --------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_TEST_TESTMANIFEST_H
#define HEDDLE_BUNDLE_TEST_TESTMANIFEST_H

#include "bundle/program/Manifest.h"

namespace heddle::bundle {

/// Two rules: by default columns of 20% in groups of 32 (dense until the first
/// refresh, refreshed uniformly, columns otherwise); the last two layers use a
/// window with sinks. One variant (f32, head dim 64) a kernel.
Manifest testManifest();

/// The same, compiled for sm_90a (bf16) too, with lists in uint16 and int32.
Manifest testCudaManifest();

/// Of the first manifest's default rule: columns and blocks, and every field of
/// rows, keys, reuse and commit.
Manifest testRowsManifest();

inline Positions setOf(Positions::Kind kind, int64_t count = 0) {
  Positions set;
  set.kind = kind;
  set.count = count;
  return set;
}

} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_TEST_TESTMANIFEST_H
