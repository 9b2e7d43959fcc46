//===- PtxLaunch.h - All blocks of a launch, without a GPU ------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For tests that are compiled without exceptions, as those of the compiler are.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_WARP_PTXLAUNCH_H
#define HEDDLE_TEST_UNIT_WARP_PTXLAUNCH_H

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace heddle::test {

struct PtxLaunch {
  std::string ptx, symbol;
  int64_t sharedBytes = 0;
  std::array<uint32_t, 3> grid = {1, 1, 1};
  std::vector<uint64_t> parameters = {};
  /// What the kernel may read and write: where, and how many bytes.
  std::vector<std::pair<const void *, int64_t>> arrays = {};
  uint64_t seed = 1;
};

/// Runs the blocks one after the other on a PtxMachine, those of a cluster
/// together. "", or what one does that it must not.
std::string run(const PtxLaunch &launch);

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_WARP_PTXLAUNCH_H
