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
//   Attention: grid (most tiles of any sequence, query heads, sequences). A
//     block does the rows of tile x of head y (AttentionArgs says which these
//     are); one whose tile has none returns. Where the record says that blocks
//     run in clusters, x is rounded up to whole ones. Where it says that they
//     are persistent: grid (g, 1, sequences) with any g, in whole clusters;
//     they share out the tiles, all of head 0 first, and what a row gets does
//     not depend on g. Where it says that rows are packed: grid (most tiles of
//     any sequence, key heads, sequences), all sequences with as many key
//     heads; of the rows * kvGroup rows of head y number p is row p / kvGroup
//     of query head y * kvGroup + p % kvGroup, and tile x has queryRows of
//     them.
//   Select: grid (g, 1, sequences) with any g. Blocks share out the heads *
//     groups lists, all groups of head 0 first; what a list says does not
//     depend on g.
// Scratch is 128-byte aligned; block (x, y, z) has the row of scratchRowBytes
// bytes at index (z * gridDim.y + y) * gridDim.x + x, which the caller makes at
// least scratchBytes + scratchBytesPerKey * largest n; null when that is 0. All
// tensors and row strides in bytes are multiples of 16 bytes.
//
// CUDA code whose kernels wait (`griddepcontrol.wait`) for the launches before
// them, before they touch memory, has a variable `waitingSymbol`, in PTX as in
// machine code. Kernels of such code alone may be launched before what precedes
// them in a stream is done.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_ABI_ABI_H
#define HEDDLE_BUNDLE_ABI_ABI_H

#include <cstddef>
#include <cstdint>

namespace heddle::abi {

/// Version of everything in this file. A bundle of another version is refused.
inline constexpr uint32_t abiVersion = 10;

/// Parameters of a CUDA attention or select kernel.
inline constexpr int64_t cudaParameters = 3;

/// The variable that says of CUDA code that all its kernels wait, see above.
inline constexpr char waitingSymbol[] = "heddle_kernels_wait";

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
///
/// Lists of blocks hold block numbers instead, as Int32 whatever the encoding
/// of a kernel's other lists: with blocks of b keys, block v has the keys [v b,
/// (v + 1) b). If `split` > 0, blocks start anew there: those before it end at
/// `split` at the latest, and with s = ceil(split / b) block v >= s has the
/// keys [split + (v - s) b, split + (v - s + 1) b). All end at n. Example: b =
/// 32, n = 100, split = 40: blocks {0..31} {32..39} {40..71} {72..99}.
struct IndexList {
  void *indices;     ///< [heads x groups] rows of rowBytes
  int64_t groups;    ///< ceil(n / group size)
  int64_t keep;      ///< keys or blocks kept per group, at least 1
  int64_t rowBytes;  ///< from the list of one group to the next
  int64_t split = 0; ///< lists of blocks, see above; else 0
  /// Query heads that share a list: the list of head h is that of row
  /// h / headsPerList; at least 1.
  int64_t headsPerList = 1;
};

/// What a GPU is told of the keys and values of one sequence, so that it brings
/// tiles of them in bulk: tensor maps as its driver encodes them. Each tells of
/// a matrix of n rows and kv_heads x head_dim columns, in boxes of 64 columns
/// (128 bytes, with the 128-byte swizzle) and as many rows as the kernel's
/// record says (kernels that select are told of keys alone, the rest is 0);
/// behind row n - 1 all is zero. `query` likewise: `rows` rows and query_heads
/// x head_dim columns, in boxes of the record's query rows; read by persistent
/// kernels alone. Source: CUDA Driver API, tensor map object management.
struct TileMaps {
  alignas(64) unsigned char key[128];
  alignas(64) unsigned char value[128];
  alignas(64) unsigned char query[128];
};

/// Attention of some rows of one sequence over its visible keys:
///   O[r,h] = sum_j P_rj V[j, h / kvGroup],
///   P_r = softmax over the pairs (place[r], j) that the kernel's pattern keeps
///         of scale * Q[r,h] . K[j, h / kvGroup].
/// Keys are the n visible positions of the sequence in order; key j stands at
/// position[j] of the sequence. Row r of query, output and lse is the visible
/// position at place place[r], ascending. Groups and lists count places;
/// windows and sinks compare positions: |position[i] - position[j]|,
/// position[j] < size, or < `sinks` where a term is a share. A kernel with
/// Kernel::scores replaces scale * Q . K by that function of it, of
/// position[i], position[j] and h. A kernel without terms (all pairs), whose
/// scores ask for no position, reads no place, so its rows may also stand
/// elsewhere, in any number.
///
/// Tile t has the rows [firstRow[t], firstRow[t + 1]), at most queryRows of
/// them. In a kernel with lists they are those whose places lie in [t *
/// queryRows, (t + 1) * queryRows), so that all have the same lists; in others
/// any consecutive ones.
///
/// Worked example: a sequence of 8 of which {0,1,2,4,6} are visible (n = 5);
/// rows are to be computed for positions 1, 4 and 6: position = {0,1,2,4,6},
/// rows = 3, place = {1,3,4}. With 2 query rows a tile and lists, firstRow =
/// {0,1,2,3}: tile 0 has row 0 (place 1), tile 1 row 1 (place 3), tile 2 row 2
/// (place 4); without lists, firstRow = {0,2,3}.
///
/// CUDA kernels take null for `place` where row r is at place r, and null for
/// `firstRow` where tile t has the rows [t * queryRows, min((t + 1) *
/// queryRows, rows)). Those without lists cut all tiles so and never read
/// `firstRow`. They take null for `position` where key j stands at j; those
/// that compare no positions (Kernel::comparesPositions) never read it.
///
/// Element type and head dim are fixed per kernel. Strides count elements and
/// separate consecutive rows (tokens); the head_dim elements of a head are
/// contiguous and head h starts at h * head_dim.
struct AttentionArgs {
  const void *query; ///< [rows x query_heads x head_dim]
  const void *key;   ///< [n x kv_heads x head_dim]
  const void *value; ///< [n x kv_heads x head_dim]
  void *output;      ///< [rows x query_heads x head_dim], element type of query
  float *lse; ///< [query_heads x rows]: log2(sum_j exp2(s_ij)) where s_ij is
              ///< the scaled logit times log2(e). Written by kernels
              ///< whose record says writesLse, else ignored.
  int64_t n;  ///< visible keys, at least 1
  int64_t queryStride;
  int64_t keyStride;
  int64_t valueStride;
  int64_t outputStride;
  int64_t kvGroup;                ///< query_heads / kv_heads
  float scale;                    ///< usually 1 / sqrt(head_dim)
  uint32_t heads;                 ///< query heads
  IndexList lists[maxIndexLists]; ///< in the order of the kernel's terms
  int64_t rows;                   ///< rows to compute, in [0, n], but see above
  const int32_t *place;           ///< [rows] ascending, each in [0, n)
  const int32_t *position;        ///< [n] ascending: of each key
  const int32_t *firstRow;        ///< [tiles + 1], of each tile
  /// bundle::sinkBound() of the kernel's terms in the whole sequence, at least
  /// 1 where a term is a share. Read by kernels of which one is, by no others.
  int64_t sinks;
  /// Read by CUDA kernels whose record says so (KernelVariant::mapRows), by no
  /// others.
  const TileMaps *tileMaps;
};

/// Score and select key columns for one sequence. For group `tile` (rows
/// G = [tile * group, min((tile + 1) * group, n))) and query head h:
///   score_j = mean over i in G of P_ij,  P_ij = exp2(s_ij - lse[h, i]),
/// over all n keys; the `list.keep` keys of largest score (lowest index wins
/// ties) are written as the list of (h, tile), ascending.
/// Source: PulseCol, equations 5 and 6.
///
/// A kernel that selects blocks (b = group) scores block v by the mean of
/// score_j over its keys and writes block numbers, ascending. With boundary = 0
/// they are the list.keep best. Else they are the spanKeep best of the blocks
/// below `boundary` and the list.keep - spanKeep best of the others; if spanLse
/// is not null, the former are instead those below `boundary` of the spanKeep
/// best of all, the latter are scored by P_ij = exp2(s_ij - spanLse[h, i])
/// (among their keys alone), means divide by b in a shorter last block, too,
/// and missing entries at a list's end are -1. A row of `scores` begins with a
/// score for each block, then, if spanLse is not null (which needs boundary > 0
/// and split = 0), those by it of the blocks from `boundary` on.
///
/// A kernel that scores by logits (Kernel::scorer) has the mean over the same
/// rows of scale * q_i . k_j, less the least key's, or the mean of that over
/// the keys of a block, less the least block's, and reads neither lse nor
/// spanLse.
/// Source: Sparse-dLLM, released code.
///
/// A kernel for shared lists scores by the mean over list.headsPerList query
/// heads; its tasks are (list row, group) instead of (query head, group).
///
/// A kernel of one group for all rows takes the mean over the rows [rowBegin,
/// rowEnd) alone, which are some; others have rows of all places.
///
/// Kernels that select keys choose from those outside of [alwaysBegin,
/// alwaysEnd): those inside are listed whatever they score, and list.keep
/// counts them. Where the kernel pools w scores (Kernel::pooled), a key's score
/// is the largest of the (w - 1) / 2 keys before it, its own and those of as
/// many behind it, of the keys that are chosen from, without gaps. Worked
/// example: w = 3, keys {2, 3} always listed, score_j = {1, 5, 9, 9, 2, 3}: the
/// keys chosen from are 0, 1, 4 and 5, which score 5, 5, 5 and 3.
/// Source of both: Sparse-dLLM, released code.
///
/// Kernels that choose within another selection (Kernel::withinGroup) choose
/// from the keys of one of its lists alone, beside those in [alwaysBegin,
/// alwaysEnd). For list row r and group t it is that of row r *
/// list.headsPerList / within.headsPerList and of the group that has row t *
/// group. A key's score is what it would be without; list.keep is at most the
/// number of keys to choose from. Example: list.headsPerList = 1,
/// within.headsPerList = 2, groups of 32 within groups of 128: row 3 and group
/// 5 choose from the list of row 1 and group 1. Others read no `within`.
struct SelectArgs {
  const void *query; ///< [n x query_heads x head_dim]
  const void *key;   ///< [n x kv_heads x head_dim]
  const float *lse;  ///< [query_heads x n], as AttentionArgs::lse
  float *scores;     ///< null, or [heads of list x groups x n]: the scores that
                     ///< are chosen by, infinity for keys that are always
                     ///< listed; for observers and tests. Within another
                     ///< selection 0 for keys that it does not list, and for
                     ///< those that it lists the least number above 0 if they
                     ///< score 0, so that they come first
  int64_t n;
  int64_t queryStride;
  int64_t keyStride;
  int64_t kvGroup;
  float scale;
  uint32_t heads;       ///< query heads
  IndexList list;       ///< written
  int64_t boundary;     ///< blocks: first block number of the second span, or 0
  int64_t spanKeep;     ///< blocks: how many of the first span
  const float *spanLse; ///< blocks: null, or [query_heads x n]
  /// [n] as AttentionArgs::position. Read by kernels whose logits depend on
  /// positions, by no others; CUDA kernels take null where key j stands at j.
  const int32_t *position;
  int64_t rowBegin, rowEnd;       ///< places, see above
  int64_t alwaysBegin, alwaysEnd; ///< places; alike where there are none
  IndexList within;               ///< read, see above
  const TileMaps *tileMaps;       ///< of keys alone, as AttentionArgs::tileMaps
};

/// What scoring has in common with the attention whose log-sum-exp it reads:
/// the list and what says how to choose are left to be filled in.
inline SelectArgs selectArgsOf(const AttentionArgs &attention) {
  SelectArgs args{};
  args.query = attention.query;
  args.key = attention.key;
  args.lse = attention.lse;
  args.n = attention.n;
  args.queryStride = attention.queryStride;
  args.keyStride = attention.keyStride;
  args.kvGroup = attention.kvGroup;
  args.scale = attention.scale;
  args.heads = attention.heads;
  args.position = attention.position;
  args.rowEnd = attention.n;
  return args;
}

using AttentionKernel = void (*)(const AttentionArgs *args, int64_t head,
                                 int64_t tile, void *scratch);
using SelectKernel = void (*)(const SelectArgs *args, int64_t head,
                              int64_t tile, void *scratch);

} // namespace heddle::abi

#endif // HEDDLE_BUNDLE_ABI_ABI_H
