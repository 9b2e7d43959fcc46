//===- AttentionGrid.h - The blocks of attention kernels -------*- C++ -*--===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where `kvGroup` query heads share a key head, and tiles are not cut by lists.
// Persistent kernels: how many tasks blocks have.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICE_CUDA_ATTENTIONGRID_H
#define HEDDLE_RUNTIME_DEVICE_CUDA_ATTENTIONGRID_H

#include "bundle/program/Manifest.h"
#include "runtime/device/cuda/Context.h"

namespace heddle::rt::cuda {

/// Tiles of a sequence of which `rows` rows are computed.
inline int64_t tilesOf(const bundle::KernelVariant &variant, int64_t rows,
                       int64_t kvGroup) {
  const int64_t all = variant.packed ? rows * kvGroup : rows;
  return (all + variant.queryRows - 1) / variant.queryRows;
}

/// Heads that have tiles of their own.
inline int64_t headsWithTiles(const bundle::KernelVariant &variant,
                              int64_t queryHeads, int64_t kvGroup) {
  return variant.packed ? queryHeads / kvGroup : queryHeads;
}

/// Whether each task of a persistent kernel gets a block of its own after all.
/// Blocks that go on drift apart. Over lists, each block's of other keys, they
/// then read two heads at once: where these do not fit the L2, that costs more
/// than going on saves (docs/Performance.md, "Lists of keys and blocks").
inline bool hasBlockEach(const bundle::Kernel &kernel,
                         const bundle::KernelVariant &variant, int64_t keys,
                         const DeviceInfo &device) {
  constexpr int64_t elementBytes = 2; // of bf16 and f16; f32 has no such kernel
  const int64_t head = 2 * keys * variant.headDim * elementBytes; // K and V
  return kernel.hasLists() && 2 * head > device.l2Bytes;
}

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICE_CUDA_ATTENTIONGRID_H
