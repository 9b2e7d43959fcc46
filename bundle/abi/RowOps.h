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

inline constexpr RowOp allRowOps[] = {
    RowOp::Embed,       RowOp::RmsNorm,    RowOp::Rotate,  RowOp::SwiGlu,
    RowOp::Copy,        RowOp::Change,     RowOp::Compare, RowOp::Merge,
    RowOp::MaskedCount, RowOp::Candidates, RowOp::Draw,    RowOp::Commit,
};

/// As manifests and symbols spell it.
constexpr std::string_view nameOf(RowOp op) {
  switch (op) {
  case RowOp::Embed:
    return "embed";
  case RowOp::RmsNorm:
    return "rms_norm";
  case RowOp::Rotate:
    return "rotate";
  case RowOp::SwiGlu:
    return "swiglu";
  case RowOp::Copy:
    return "copy";
  case RowOp::Change:
    return "change";
  case RowOp::Compare:
    return "compare";
  case RowOp::Merge:
    return "merge";
  case RowOp::MaskedCount:
    return "masked_count";
  case RowOp::Candidates:
    return "candidates";
  case RowOp::Draw:
    return "draw";
  case RowOp::Commit:
    return "commit";
  }
  return "?";
}

/// The symbol of a row kernel's form for an element type: "row_embed_bf16". No
/// attention or select kernel's symbol ends like it (those end in a head dim
/// or an encoding).
inline std::string rowSymbol(RowOp op, std::string_view dtype) {
  return "row_" + std::string(nameOf(op)) + "_" + std::string(dtype);
}

} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_ABI_ROWOPS_H
