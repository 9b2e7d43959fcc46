//===- AttentionGrid.h - The blocks of attention kernels -------*- C++ -*--===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where `kvGroup` query heads share a key head, and tiles are not cut by lists.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICE_CUDA_ATTENTIONGRID_H
#define HEDDLE_RUNTIME_DEVICE_CUDA_ATTENTIONGRID_H

#include "bundle/program/Manifest.h"

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

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICE_CUDA_ATTENTIONGRID_H
