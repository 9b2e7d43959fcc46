//===- TileMaps.h - Tensor maps of keys and values --------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICE_CUDA_TILEMAPS_H
#define HEDDLE_RUNTIME_DEVICE_CUDA_TILEMAPS_H

#include "bundle/Result.h"
#include "bundle/abi/Abi.h"
#include "bundle/program/Manifest.h"
#include "runtime/device/cuda/Context.h"

namespace heddle::rt::cuda {

/// What a kernel that has tiles brought by tensor maps (KernelVariant::mapRows
/// is not 0) is told of keys [n x kv_heads x head_dim] and values of one
/// sequence. Of `args` it takes their device addresses, n, their strides and
/// the heads. The result is to lie on a multiple of 64 in device memory, for
/// AttentionArgs::tileMaps. An error where the driver refuses an address or a
/// stride, neither of which may be other than a multiple of 16 bytes.
Result<abi::TileMaps> encodeTileMaps(const Context &context,
                                     const bundle::KernelVariant &variant,
                                     const abi::AttentionArgs &args);
/// The same for a kernel that selects: of keys alone.
Result<abi::TileMaps> encodeTileMaps(const Context &context,
                                     const bundle::KernelVariant &variant,
                                     const abi::SelectArgs &args);

} // namespace heddle::rt::cuda

#endif // HEDDLE_RUNTIME_DEVICE_CUDA_TILEMAPS_H
