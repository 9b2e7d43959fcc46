//===- Abi.h - What generated kernels and the runtime agree on --*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The argument blocks of every kernel that a bundle can hold. The compiler
// lowers field accesses with offsetof() on these structs, the runtime fills
// them in: no other place knows their layout. Plain C layout, no padding bytes
// left implicit. Change a struct only together with `abiVersion`. The argument
// lists of row kernels are in RowAbi.h.
//
// Kernels of the host and of CUDA devices take the same blocks. A kernel keeps
// no state, allocates nothing, writes each output element of its rows exactly
// once and never reads an output.
//
// A host kernel is
//
//   void symbol(const Args *args, int64_t head, int64_t tile, void *scratch);
//
// One call does one task: query head `head` of one sequence, rows
// [tile * queryRows, min((tile + 1) * queryRows, n)). Tasks of one launch are
// independent and may run in any order on any thread. `scratch` is 64-byte
// aligned and holds scratchBytes + scratchBytesPerKey * n bytes (both in the
// manifest's kernel record); its contents are undefined on entry. Its index
// lists are Int32.
//
// A CUDA kernel is
//
//   .entry symbol(const Args *args, void *scratch, int64_t scratchRowBytes)
//
// for a batch of sequences: `args` is an array of blocks in device memory, one
// a sequence, of which blockIdx.z picks one; pointers in it are device memory.
// Blocks have the threads and the dynamic shared memory of the kernel's record.
//   Attention: grid (ceil(largest n / queryRows), query heads, sequences). A
//     block does rows [x * queryRows, min((x + 1) * queryRows, n)) of head y;
//     one whose first row is not below n returns.
//   Select: grid (g, 1, sequences) with any g. Blocks share out the heads *
//     groups lists, all groups of head 0 first; what a list says does not
//     depend on g.
// Scratch is 128-byte aligned; block (x, y, z) has the row of scratchRowBytes
// bytes at index (z * gridDim.y + y) * gridDim.x + x, which the caller makes at
// least scratchBytes + scratchBytesPerKey * largest n; null when that is 0. All
// tensors and row strides in bytes are multiples of 16 bytes.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_ABI_H
#define HEDDLE_BUNDLE_ABI_H

#include <cstddef>
#include <cstdint>

namespace heddle::abi {

/// Version of everything in this file. A bundle of another version is refused.
inline constexpr uint32_t abiVersion = 2;

/// Parameters of a CUDA attention or select kernel.
inline constexpr int64_t cudaParameters = 3;

/// The most index lists that one attention kernel reads (terms of a union that
/// come from selections).
inline constexpr int64_t maxIndexLists = 4;

/// A selection of key columns for one layer and one sequence: for each query
/// head and each group of consecutive query rows, `keep` key positions in
/// ascending order, without repeats, each in [0, n).
///
/// Worked example: 2 query heads, n = 5, groups of 2 rows, keep = 3. There are
/// groups = ceil(5 / 2) = 3 groups (the last one has a single row), and the
/// buffer is
///   head 0: {0,1,4} {0,2,3} {1,2,4}   head 1: {0,1,2} {0,3,4} {2,3,4}
/// as 2 * 3 * 3 int32 values; row 3 of head 1 belongs to group 3 / 2 = 1 and
/// attends to keys 0, 3 and 4.
///
/// That is Encoding::Int32; IndexLayout.h has the others. Which one a kernel
/// reads or writes is said in its record, and rowBytes follows from it:
/// listRowBytes(encoding, n, keep).
struct IndexList {
  void *indices;    ///< [query_heads x groups] rows of rowBytes
  int64_t groups;   ///< ceil(n / group size)
  int64_t keep;     ///< keys kept per group, in [1, n]
  int64_t rowBytes; ///< from the list of one group to the next
};

/// Attention of the query rows of one sequence over its own keys:
///   O[i,h] = sum_j P_ij V[j, h / kvGroup],
///   P_i = softmax over the pairs (i, j) that the kernel's pattern keeps of
///         scale * Q[i,h] . K[j, h / kvGroup].
/// Element type and head dim are fixed per kernel. Strides count elements and
/// separate consecutive rows (tokens); the head_dim elements of a head are
/// contiguous and head h starts at h * head_dim.
struct AttentionArgs {
  const void *query; ///< [n x query_heads x head_dim]
  const void *key;   ///< [n x kv_heads x head_dim]
  const void *value; ///< [n x kv_heads x head_dim]
  void *output;      ///< [n x query_heads x head_dim], element type of query
  float *lse; ///< [query_heads x n]: log2(sum_j exp2(s_ij)) where s_ij is
              ///< the scaled logit times log2(e). Written by kernels
              ///< whose record says writesLse, else ignored.
  int64_t n;  ///< rows of the sequence, at least 1
  int64_t queryStride;
  int64_t keyStride;
  int64_t valueStride;
  int64_t outputStride;
  int64_t kvGroup;                ///< query_heads / kv_heads
  float scale;                    ///< usually 1 / sqrt(head_dim)
  uint32_t heads;                 ///< query heads
  IndexList lists[maxIndexLists]; ///< in the order of the kernel's terms
};

/// Score and select key columns for one sequence. For group `tile` (rows
/// G = [tile * group, min((tile + 1) * group, n))) and query head h:
///   score_j = mean over i in G of P_ij,  P_ij = exp2(s_ij - lse[h, i]),
/// over all n keys; the `list.keep` keys of largest score (lowest index wins
/// ties) are written as the list of (h, tile), ascending.
/// Source: PulseCol, equations 5 and 6.
struct SelectArgs {
  const void *query; ///< [n x query_heads x head_dim]
  const void *key;   ///< [n x kv_heads x head_dim]
  const float *lse;  ///< [query_heads x n], as AttentionArgs::lse
  float *scores;     ///< null, or [query_heads x groups x n]: the scores, for
                     ///< observers and tests
  int64_t n;
  int64_t queryStride;
  int64_t keyStride;
  int64_t kvGroup;
  float scale;
  uint32_t heads; ///< query heads
  IndexList list; ///< written
};

using AttentionKernel = void (*)(const AttentionArgs *args, int64_t head,
                                 int64_t tile, void *scratch);
using SelectKernel = void (*)(const SelectArgs *args, int64_t head,
                              int64_t tile, void *scratch);

} // namespace heddle::abi

#endif // HEDDLE_BUNDLE_ABI_H
