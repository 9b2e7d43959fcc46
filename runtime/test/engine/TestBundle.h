//===- TestBundle.h - Bundles for the fake GPU ------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEST_ENGINE_TESTBUNDLE_H
#define HEDDLE_RUNTIME_TEST_ENGINE_TESTBUNDLE_H

#include "bundle/format/Bundle.h"

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::rt::cuda::test {

struct BundleShape {
  std::string gpu = "sm_90a";
  std::vector<std::string> dtypes = {"f32", "bf16", "f16"};
  std::vector<int64_t> headDims = {64};
  std::vector<bundle::Encoding> encodings = {bundle::Encoding::Uint16,
                                             bundle::Encoding::Int32};
  int64_t leastKeys = 24; ///< of the form for long sequences
};

/// Selections and kernels of a GPU, and one rule: dense attention. Selections
/// 0 and 1 have groups of 16 (half of the keys, a third), 2 has groups of 32;
/// all are refreshed every fourth step. Kernels dense, columns and union have a
/// form for all rows, too, and dense two for long sequences, of which one packs
/// rows.
bundle::Manifest gpuManifest(const BundleShape &shape = {});

/// Index of a kernel by its name: dense, dense_lse, columns, two_columns (both
/// selections of groups of 16), union (columns of 32, a window of 6 and 2
/// sinks), select_16, select_32.
int64_t kernelNamed(const bundle::Manifest &manifest, const std::string &name);

/// Replaces the rules by one: `attention` in every step but those at which the
/// selections are refreshed, which are dense.
void setRule(bundle::Manifest &manifest, const std::string &attention,
             const std::vector<int64_t> &selections);

/// Makes selection 0 one of blocks, for all kernels that write or read it.
void chooseBlocks(bundle::Manifest &manifest);

/// Attention by this kernel until the step.
bundle::Phase phaseBefore(int64_t step, const bundle::Manifest &manifest,
                          const std::string &kernel);

/// The manifest as a bundle, with PTX whose kernels do nothing.
bundle::Bundle gpuBundle(const bundle::Manifest &manifest);

} // namespace heddle::rt::cuda::test

#endif // HEDDLE_RUNTIME_TEST_ENGINE_TESTBUNDLE_H
