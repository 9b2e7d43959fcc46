//===- HostKernels.h - What a bundle's kernels do, on the fake --*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_TEST_ENGINE_HOSTKERNELS_H
#define HEDDLE_RUNTIME_TEST_ENGINE_HOSTKERNELS_H

#include "bundle/program/Manifest.h"

namespace heddle::rt::cuda::test {

/// Gives the fake driver code for every kernel of a manifest of gpuManifest()'s
/// kind: the definitions of Abi.h and RowAbi.h, written as they read. Attention
/// and scores are float64; scratch memory is overwritten as a real kernel may.
void installKernels(const bundle::Manifest &manifest);

} // namespace heddle::rt::cuda::test

#endif // HEDDLE_RUNTIME_TEST_ENGINE_HOSTKERNELS_H
