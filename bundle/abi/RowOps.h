//===- RowOps.h - What a device does to rows beside attention ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The operations of a model and its sampler that a bundle holds kernels for
// when the whole loop runs on the device that its attention runs on. Matrix
// products are the vendor's library's; the host has its own row functions. The
// kernels' arguments are in RowAbi.h.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_ABI_ROWOPS_H
#define HEDDLE_BUNDLE_ABI_ROWOPS_H

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace heddle::bundle {

/// In the order in which a step of a run needs them.
enum class RowOp {
  Embed,       ///< rows of the embedding table
  RmsNorm,     ///< residual sum, root mean square norm, weight
  Rotate,      ///< rotary position embedding of Q and K
  SwiGlu,      ///< gate and up projection to the hidden row
  Copy,        ///< puts rows elsewhere
  Change,      ///< what rows differ by from kept ones, which they replace
  Compare,     ///< adds rows to kept ones, how alike they are
  Merge,       ///< attention over two sets of keys, of what it is over each
  MaskedCount, ///< mask tokens of each sequence's block
  Candidates,  ///< rows that may be committed
  Draw,        ///< a token and its confidence for each candidate
  Commit,      ///< writes the most confident ones
};

/// As manifests and symbols spell them.
constexpr auto namesOf(RowOp) {
  return std::to_array<std::string_view>(
      {"embed", "rms_norm", "rotate", "swiglu", "copy", "change", "compare",
       "merge", "masked_count", "candidates", "draw", "commit"});
}
constexpr std::string_view nameOf(RowOp op) {
  return namesOf(op)[static_cast<size_t>(op)];
}

inline constexpr auto allRowOps = [] {
  std::array<RowOp, namesOf(RowOp()).size()> all{};
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<RowOp>(i);
  return all;
}();

/// The symbol of a row kernel's form for an element type: "row_embed_bf16". No
/// attention or select kernel's symbol ends like it (those end in a head dim
/// or an encoding).
inline std::string rowSymbol(RowOp op, std::string_view dtype) {
  return "row_" + std::string(nameOf(op)) + "_" + std::string(dtype);
}

} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_ABI_ROWOPS_H
