//===- TileMaps.cpp - Tensor maps of queries, keys and values -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/cuda/TileMaps.h"

#include <algorithm>

namespace heddle::rt::cuda {

using namespace api;

/// Encodes a map of `rows` rows that have `heads` heads each.
static Status encode(const Context &context,
                     const bundle::KernelVariant &variant, unsigned char *map,
                     const void *base, int64_t rowStride, int64_t heads,
                     int64_t rows, int64_t boxRows) {
  constexpr uint64_t elementBytes = 2;
  constexpr unsigned panelColumns = 64;
  if (variant.dtype != "bf16" && variant.dtype != "f16")
    return Error("kernel " + variant.symbol + " has tiles of " + variant.dtype +
                 " brought by tensor maps, which it can't; compile the "
                 "schedule with this version of heddlec");
  const uint64_t sizes[] = {static_cast<uint64_t>(heads * variant.headDim),
                            static_cast<uint64_t>(rows)};
  const uint64_t strides[] = {static_cast<uint64_t>(rowStride) * elementBytes};
  const unsigned box[] = {panelColumns, static_cast<unsigned>(boxRows)};
  const unsigned steps[] = {1, 1};
  Status status = context.call(
      context.api().tensorMapEncodeTiled, map,
      variant.dtype == "bf16" ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                              : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      2u, const_cast<void *>(base), sizes, strides, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (!status)
    return status.takeError().withContext("tensor maps of kernel " +
                                          variant.symbol);
  return status;
}

Result<abi::TileMaps> encodeTileMaps(const Context &context,
                                     const bundle::KernelVariant &variant,
                                     const abi::AttentionArgs &args) {
  abi::TileMaps maps{};
  const int64_t heads = args.heads, kvHeads = heads / args.kvGroup;
  Status status = encode(context, variant, maps.key, args.key, args.keyStride,
                         kvHeads, args.n, variant.mapRows);
  if (status)
    status = encode(context, variant, maps.value, args.value, args.valueStride,
                    kvHeads, args.n, variant.mapRows);
  // A matrix has a row; of a sequence without rows nothing is brought.
  if (status && variant.persistent)
    status = encode(context, variant, maps.query, args.query, args.queryStride,
                    heads, std::max<int64_t>(args.rows, 1), variant.queryRows);
  if (!status)
    return status.takeError();
  return maps;
}

Result<abi::TileMaps> encodeTileMaps(const Context &context,
                                     const bundle::KernelVariant &variant,
                                     const abi::SelectArgs &args) {
  abi::TileMaps maps{};
  if (Status status =
          encode(context, variant, maps.key, args.key, args.keyStride,
                 args.heads / args.kvGroup, args.n, variant.mapRows);
      !status)
    return status.takeError();
  return maps;
}

} // namespace heddle::rt::cuda
