//===- TestManifest.h - Manifests for tests, and parts of them --*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_TEST_TESTMANIFEST_H
#define HEDDLE_BUNDLE_TEST_TESTMANIFEST_H

#include "bundle/program/ProgramChecks.h"

#include <string>
#include <utility>
#include <vector>

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

namespace test {

inline Positions madeOf(Positions::Kind kind, std::vector<int64_t> of,
                        const Cadence &cadence = {}) {
  Positions set = setOf(kind);
  set.of = std::move(of);
  set.cadence = cadence;
  return set;
}

inline Cadence every(int64_t period, int64_t from = 1) {
  return {.kind = Cadence::Kind::Every, .period = period, .from = from};
}
inline Cadence first(int64_t count) {
  return {.kind = Cadence::Kind::First, .count = count};
}
inline Cadence atStep(int64_t step) {
  return {.kind = Cadence::Kind::At, .step = step};
}
inline Cadence windowed(Cadence::Kind kind, Ratio fraction, int64_t count,
                        int64_t seed = 0) {
  return {.kind = kind, .fraction = fraction, .count = count, .seed = seed};
}
/// drift(below = 0.9, within = 8)
inline Cadence drift(int64_t layer = -1, bool attention = false) {
  return {.kind = Cadence::Kind::Drift,
          .fraction = {9, 10},
          .period = 8,
          .layer = layer,
          .attention = attention};
}
inline Cadence inBlock(Cadence cadence) {
  cadence.inBlock = true;
  return cadence;
}

/// What is wrong with a program; "" if nothing is.
inline std::string refusalOf(const Manifest &manifest) {
  std::optional<ProgramProblem> problem = checkProgram(manifest);
  return problem ? problem->what : "";
}

} // namespace test

} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_TEST_TESTMANIFEST_H
