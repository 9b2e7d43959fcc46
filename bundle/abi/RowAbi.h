//===- RowAbi.h - Arguments of the row kernels ------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a CUDA row kernel takes. Its parameters are the fields of the struct of
// its operation, in order, each at its natural alignment, so that the struct is
// the parameter block as it stands:
//
//   size_t bytes = sizeof(args);
//   void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &args,
//                    CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
//
// (or cuLaunchKernel's array of pointers, one to each field). All pointers are
// to device memory. A block has the threads that the manifest's record says and
// does one row, the number of blocks (x) is said with each struct: "grid:".
//
// T is the element type of the variant: float, bfloat16 or half. Arithmetic is
// fp32; T(...) rounds to T, to nearest even, where the host's row kernels round
// too. Rows of T are 16-byte aligned and their widths multiples of 8, but for
// the vocabulary. Sizes and strides count elements. No kernel has state between
// launches, and each has one order of operations: its results depend on its
// arguments alone.
//
// What changes from step to step is read from memory (`clock`, ranges, tokens),
// so that a captured step can be replayed as it is.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_ABI_ROWABI_H
#define HEDDLE_BUNDLE_ABI_ROWABI_H

#include "bundle/abi/RowOps.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>

namespace heddle::abi {

/// What a parameter is. Pointers say what they point to.
enum class RowField : uint8_t {
  Elements, ///< T *
  Bytes,    ///< uint8_t *
  Int32s,   ///< int32_t *
  Int64s,   ///< int64_t *
  Floats,   ///< float *
  Doubles,  ///< double *
  Int32,    ///< int32_t
  Int64,    ///< int64_t or uint64_t
  Double,   ///< double
};

/// y[r] = table[tokens[r]]. grid: rows.
struct EmbedArgs {
  const int32_t *tokens; ///< [rows], each in [0, vocab)
  const void *table;     ///< T [vocab x width]
  void *y;               ///< T [rows x width]
  int64_t width;
  static constexpr bundle::RowOp op = bundle::RowOp::Embed;
  static constexpr RowField fields[] = {RowField::Int32s, RowField::Elements,
                                        RowField::Elements, RowField::Int64};
};

/// Residual sum, root mean square norm, weight:
///   r    = index ? index[i] + shift : i, nothing is done if index[i] < 0
///   t    = delta ? T(x[r] + delta[r]) : x[r]
///   x[r] = t, if there is a delta and no index
///   y[i] = T(T(t / sqrt(mean(t^2) + eps)) * weight).
/// grid: rows of y.
struct RmsNormArgs {
  void *x;              ///< T [* x width]
  const void *delta;    ///< T [* x width] or null
  const void *weight;   ///< T [width]
  void *y;              ///< T [rows x width], apart from x and delta
  const int32_t *index; ///< [rows] or null
  int64_t shift;        ///< rows of x between a candidate's conditional and its
                        ///< unconditional row; 0 otherwise
  int64_t width;
  double eps; ///< rounded to fp32
  static constexpr bundle::RowOp op = bundle::RowOp::RmsNorm;
  static constexpr RowField fields[] = {RowField::Elements, RowField::Elements,
                                        RowField::Elements, RowField::Elements,
                                        RowField::Int32s,   RowField::Int64,
                                        RowField::Int64,    RowField::Double};
};

/// Rotates, in place, the pairs (a, b) = (x[j], x[j + half]) of each of `heads`
/// heads of 2 * half columns from column 0, p = position[r]:
///   a' = T(a * cos[p, j] - b * sin[p, j])
///   b' = T(b * cos[p, j] + a * sin[p, j]).
/// With inElements every operation is rounded, c = T(cos[p, j]) and
/// s = T(sin[p, j]):
///   a' = T(T(a * c) - T(b * s))
///   b' = T(T(b * c) + T(a * s)).
/// grid: rows.
struct RotateArgs {
  void *x;                 ///< T [rows x stride]
  const float *cos;        ///< [positions x half]
  const float *sin;        ///< [positions x half]
  const int32_t *position; ///< [rows]
  int64_t heads;           ///< query heads and key heads
  int64_t half;            ///< half of the head dim
  int64_t stride;
  int64_t inElements; ///< 0 or 1
  static constexpr bundle::RowOp op = bundle::RowOp::Rotate;
  static constexpr RowField fields[] = {
      RowField::Elements, RowField::Floats, RowField::Floats, RowField::Int32s,
      RowField::Int64,    RowField::Int64,  RowField::Int64,  RowField::Int64};
};

/// y[r, j] = T(T(silu(g)) * u), g = x[r, j], u = x[r, width + j],
/// silu(g) = g / (1 + exp(-g)). grid: rows.
struct SwiGluArgs {
  const void *x; ///< T [rows x 2 * width], gate first
  void *y;       ///< T [rows x width]
  int64_t width;
  static constexpr bundle::RowOp op = bundle::RowOp::SwiGlu;
  static constexpr RowField fields[] = {RowField::Elements, RowField::Elements,
                                        RowField::Int64};
};

//===----------------------------------------------------------------------===//
// Rows that are kept from step to step. Block i takes the rows that the indices
// name at i, row i where an index is null. Rows that are written are distinct,
// and no block reads a row that another one writes.
//===----------------------------------------------------------------------===//

/// y[to[i]] = x[from[i]], zeros if from[i] < 0. grid: rows that are written.
///
/// from = {4, -1, 0}, to = null: rows 0, 1, 2 of y are row 4 of x, zeros and
/// row 0 of x.
struct CopyArgs {
  const void *x;       ///< T [* x xStride]
  const int32_t *from; ///< [grid] or null
  int64_t xStride;     ///< a multiple of 8, at least width
  void *y;             ///< T [* x yStride]
  const int32_t *to;   ///< [grid] or null
  int64_t yStride;     ///< likewise
  int64_t width;
  static constexpr bundle::RowOp op = bundle::RowOp::Copy;
  static constexpr RowField fields[] = {
      RowField::Elements, RowField::Int32s, RowField::Int64, RowField::Elements,
      RowField::Int32s,   RowField::Int64,  RowField::Int64};
};

/// What rows differ by from those that they replace:
///   t             = y[to[i]]
///   change[to[i]] = T(x[from[i]] - t)
///   y[to[i]]      = x[from[i]].
/// grid: rows that are replaced.
struct ChangeArgs {
  const void *x;       ///< T [* x xStride]
  const int32_t *from; ///< [grid] or null, none negative
  int64_t xStride;
  void *y;           ///< T [* x width]
  void *change;      ///< T [* x width]
  const int32_t *to; ///< [grid] or null
  int64_t width;
  static constexpr bundle::RowOp op = bundle::RowOp::Change;
  static constexpr RowField fields[] = {
      RowField::Elements, RowField::Int32s, RowField::Int64, RowField::Elements,
      RowField::Elements, RowField::Int32s, RowField::Int64};
};

/// Bits of CompareArgs::flags.
inline constexpr int64_t compareAdds = 1;   ///< x is what is added to the cache
inline constexpr int64_t compareStores = 2; ///< the cache's rows are replaced

/// Adds rows to kept ones, or takes them as they are, and says how alike the
/// results and the kept rows are:
///   c = cache[at[i]]
///   t = x[from[i]], or c + x[from[i]] in fp32 with compareAdds
///   similarity[i]  = t . c / sqrt(max(|t|^2, 1e-8) max(|c|^2, 1e-8)), unless
///                    similarity is null
///   cache[at[i]]   = T(t), with compareStores
///   y[to[i]]       = T(t), unless y is null.
/// Sums are in fp32 and of one order, the rest of the cosine in fp64, so that
/// it is exactly 1 where t = c and |c|^2 >= 1e-8; NaN where a row has one. The
/// host's is rt::cosine. grid: rows that are compared.
struct CompareArgs {
  const void *x;       ///< T [* x xStride]
  const int32_t *from; ///< [grid] or null, none negative
  int64_t xStride;
  void *cache;       ///< T [* x width]
  const int32_t *at; ///< [grid] or null
  void *y;           ///< T [* x yStride] or null; may be x, where row to[i] of
                     ///< y is row from[i] of x
  const int32_t *to; ///< [grid] or null
  int64_t yStride;
  float *similarity; ///< [grid] or null
  int64_t width;
  int64_t flags;
  static constexpr bundle::RowOp op = bundle::RowOp::Compare;
  static constexpr RowField fields[] = {
      RowField::Elements, RowField::Int32s, RowField::Int64,
      RowField::Elements, RowField::Int32s, RowField::Elements,
      RowField::Int32s,   RowField::Int64,  RowField::Floats,
      RowField::Int64,    RowField::Int64};
};

/// Attention over the keys of two sets that share none, of what it is over
/// each. Of row i and head h, in fp32:
///   x, lx = x[from[i]], lse[lseAt[i] + h * lseStride[i]]
///   c, lc = cache[at[i]], keptLse[at[i], h]
///   m     = max(lx, lc), a = exp2(lx - m), b = exp2(lc - m)
///   t     = (a x + b c) / (a + b), l = m + log2(a + b);
///           t = 0 and l = -inf where lx and lc are -inf: no key is in a set;
///           t = x and l = lx where keptLse is null: nothing is kept yet
///   newLse[at[i], h] = l, unless newLse is null
///   y[to[i]]         = T(t), or cache[at[i]] where y is null.
/// What of x or c has no key (-inf) is not read into t. grid: rows.
struct MergeArgs {
  const void *x;       ///< T [* x xStride]
  const int32_t *from; ///< [grid] or null, none negative
  int64_t xStride;
  const float *lse;         ///< as AttentionArgs::lse
  const int64_t *lseAt;     ///< [grid]
  const int32_t *lseStride; ///< [grid]
  void *cache;              ///< T [* x heads * headDim]
  const int32_t *at;        ///< [grid] or null
  const float *keptLse;     ///< [* x heads] or null
  float *newLse;            ///< [* x heads], not keptLse, or null
  void *y;                  ///< T [* x yStride] or null; may be x, where row
                            ///< to[i] of y is row from[i] of x
  const int32_t *to;        ///< [grid] or null
  int64_t yStride;
  int64_t heads;
  int64_t headDim; ///< a multiple of 8
  static constexpr bundle::RowOp op = bundle::RowOp::Merge;
  static constexpr RowField fields[] = {
      RowField::Elements, RowField::Int32s,   RowField::Int64,
      RowField::Floats,   RowField::Int64s,   RowField::Int32s,
      RowField::Elements, RowField::Int32s,   RowField::Floats,
      RowField::Floats,   RowField::Elements, RowField::Int32s,
      RowField::Int64,    RowField::Int64,    RowField::Int64};
};

//===----------------------------------------------------------------------===//
// The sampler. Sequences are packed one after the other; a packed row is a
// position of a sequence. `clock` is [2]: the step, from 1, and its number in
// its block, from 0.
//===----------------------------------------------------------------------===//

/// count[s] = mask tokens in the packed rows [first[s], end[s]).
/// grid: sequences.
struct MaskedCountArgs {
  const int32_t *tokens;
  const int64_t *first; ///< [sequences]
  const int64_t *end;   ///< [sequences]
  int32_t *count;       ///< [sequences]
  int64_t maskToken;
  static constexpr bundle::RowOp op = bundle::RowOp::MaskedCount;
  static constexpr RowField fields[] = {RowField::Int32s, RowField::Int64s,
                                        RowField::Int64s, RowField::Int32s,
                                        RowField::Int64};
};

/// Lists the masked packed rows of [first[s], end[s]), by sequence, then
/// ascending. Candidates beyond `capacity` are counted in `count`, not listed.
/// grid: 1.
struct CandidatesArgs {
  const int32_t *tokens;
  const int64_t *first; ///< [sequences]
  const int64_t *end;   ///< [sequences]
  int32_t *rows;        ///< [capacity]: packed rows, -1 after the last
  int32_t *sequenceOf;  ///< [capacity], undefined after the last
  int32_t *offsets;     ///< [sequences + 1]: where each sequence's candidates
                        ///< begin in the list
  int32_t *count;       ///< [1]: all masked rows
  int64_t sequences;
  int64_t capacity; ///< at least 1
  int64_t maskToken;
  static constexpr bundle::RowOp op = bundle::RowOp::Candidates;
  static constexpr RowField fields[] = {
      RowField::Int32s, RowField::Int64s, RowField::Int64s, RowField::Int32s,
      RowField::Int32s, RowField::Int32s, RowField::Int32s, RowField::Int64,
      RowField::Int64,  RowField::Int64};
};

/// Bits of DrawArgs::flags.
inline constexpr int64_t drawRandomConfidence = 1; ///< uniform in (0, 1)
inline constexpr int64_t drawBarEos = 2;           ///< EOS is never drawn
/// Confidence 0 for end-of-turn and, at temperature 0, EOS.
inline constexpr int64_t drawBarConfidence = 4;
/// The softmax of confidences has EOS, though it is never drawn.
inline constexpr int64_t drawCountEos = 8;

/// Draws a token for each candidate: with u the unconditional row,
///   l = u + float(cfgScale + 1) * (l - u), if there is one, in fp32
///   token      = argmax(l + temperature * Gumbel noise), lowest index of ties
///   confidence = softmax(l)[token], relative error below 1e-6.
/// The noise is fp64, and its random numbers are those of the host's sampler.
/// A row that is not all finite gives token -1 and confidence 0, and *status
/// becomes at least 1 + its candidate. Candidates whose row is -1 are left out.
/// grid: rows of logits.
struct DrawArgs {
  const void *logits; ///< T [* x rowStride]: row i is candidate first + i
  const void *unconditional;    ///< likewise, or null
  int64_t vocab;                ///< at least 1, any number
  int64_t rowStride;            ///< a multiple of 8
  int64_t first;                ///< the first candidate of this launch
  const int32_t *rows;          ///< [capacity]
  const int32_t *sequenceOf;    ///< [capacity]
  const int64_t *sequenceStart; ///< [sequences]: packed row of position 0
  const int64_t *clock;         ///< [2]
  double temperature;           ///< 0: argmax
  double cfgScale;
  uint64_t seed;
  int64_t flags;
  int32_t eosToken;   ///< -1: none
  int32_t eotToken;   ///< -1: none
  int32_t *token;     ///< [capacity]
  double *confidence; ///< [capacity]
  int32_t *status;    ///< [1]: 0 before the first launch
  static constexpr bundle::RowOp op = bundle::RowOp::Draw;
  static constexpr RowField fields[] = {
      RowField::Elements, RowField::Elements, RowField::Int64,
      RowField::Int64,    RowField::Int64,    RowField::Int32s,
      RowField::Int32s,   RowField::Int64s,   RowField::Int64s,
      RowField::Double,   RowField::Double,   RowField::Int64,
      RowField::Int64,    RowField::Int32,    RowField::Int32,
      RowField::Int32s,   RowField::Doubles,  RowField::Int32s};
};

/// Commits the most confident candidates of each sequence (ties: the lowest
/// position):
///   quota = masked[s] / steps + (clock[1] < masked[s] % steps)
/// of them, tokens[row] = token, and tokens[row + shift] too if shift > 0.
/// Nothing is committed if *status is not 0. grid: capacity.
struct CommitArgs {
  int32_t *tokens;
  const int32_t *rows;       ///< [capacity]
  const int32_t *sequenceOf; ///< [capacity]
  const int32_t *offsets;    ///< [sequences + 1]
  const int32_t *token;      ///< [capacity]
  const double *confidence;  ///< [capacity]
  const int32_t *masked;     ///< [sequences]: MaskedCount at the block's start
  const int64_t *clock;      ///< [2]
  const int32_t *status;     ///< [1]
  uint8_t *committed;        ///< [capacity]: 1 where committed, else 0
  int64_t steps;             ///< of a block
  int64_t shift;             ///< packed rows of the conditional half; 0: none
  static constexpr bundle::RowOp op = bundle::RowOp::Commit;
  static constexpr RowField fields[] = {
      RowField::Int32s, RowField::Int32s,  RowField::Int32s, RowField::Int32s,
      RowField::Int32s, RowField::Doubles, RowField::Int32s, RowField::Int64s,
      RowField::Int32s, RowField::Bytes,   RowField::Int64,  RowField::Int64};
};

/// In the order of RowOp.
using RowArgs =
    std::tuple<EmbedArgs, RmsNormArgs, RotateArgs, SwiGluArgs, CopyArgs,
               ChangeArgs, CompareArgs, MergeArgs, MaskedCountArgs,
               CandidatesArgs, DrawArgs, CommitArgs>;

/// The parameters of an operation's kernels, in order.
constexpr std::span<const RowField> fieldsOf(bundle::RowOp op) {
  return std::apply(
      [op](auto... args) {
        const std::span<const RowField> all[] = {decltype(args)::fields...};
        return all[static_cast<size_t>(op)];
      },
      RowArgs());
}

/// Bytes of a parameter block of these fields.
constexpr size_t parameterBytes(std::span<const RowField> fields) {
  size_t bytes = 0;
  for (RowField field : fields) {
    size_t size = field == RowField::Int32 ? 4 : 8;
    bytes = (bytes + size - 1) / size * size + size;
  }
  return bytes;
}

static_assert(std::apply(
    [](auto... args) {
      return ((parameterBytes(args.fields) == sizeof(args)) && ...) &&
             ((fieldsOf(args.op).data() == args.fields) && ...);
    },
    RowArgs()));

} // namespace heddle::abi

#endif // HEDDLE_BUNDLE_ABI_ROWABI_H
