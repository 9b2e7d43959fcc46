//===- AttentionGrid.h - The blocks of attention kernels -------*- C++ -*--===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICE_CUDA_ATTENTIONGRID_H
#define HEDDLE_RUNTIME_DEVICE_CUDA_ATTENTIONGRID_H

#include "bundle/abi/Abi.h"
#include "bundle/program/Forms.h"
#include "runtime/device/cuda/Context.h"
#include "runtime/device/cuda/Module.h"

namespace heddle::rt::cuda {

inline bundle::LaunchShape shapeOf(const abi::AttentionArgs &args) {
  return {args.rows, args.n, args.kvGroup};
}

/// What the blocks of a launch follow from, beside its kernel.
struct AttentionLaunch {
  int64_t tiles = 1; ///< bundle::tilesOf, or of the places of lists: the most
  int64_t queryHeads = 1, kvGroup = 1, sequences = 1;
  int64_t longest = 0; ///< keys of a sequence
};

/// Tasks of a persistent kernel get a block each after all where they are over
/// lists, each block's of other keys, and two heads do not fit the L2: blocks
/// that go on drift apart and then read two heads at once, which costs more
/// than going on saves (docs/Performance.md, "Lists of keys and blocks").
inline Grid gridOf(const bundle::Kernel &kernel,
                   const bundle::KernelVariant &variant,
                   const AttentionLaunch &launch, const DeviceInfo &device) {
  constexpr int64_t elementBytes = 2; // of bf16 and f16; f32 has no such kernel
  const int64_t head = 2 * launch.longest * variant.headDim * elementBytes;
  return {.x = launch.tiles,
          .y = variant.form == bundle::LaunchForm::Packed
                   ? launch.queryHeads / launch.kvGroup
                   : launch.queryHeads,
          .z = launch.sequences,
          .blockEach = kernel.hasLists() && 2 * head > device.l2Bytes};
}

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICE_CUDA_ATTENTIONGRID_H
