//===- SelectWriter.h - Selection by warpgroups -----------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keys are the rows of products and queries their columns, so that a key's
// score is a sum along a row, in a thread and over four lanes, and needs no
// other warp. A warpgroup that computes has 128 queries, of one group or of
// several, which stay in shared memory; their log-sum-exps, one a column, stay
// in registers. All of a block read the same tiles of keys. Scores go to the
// block's scratch, a row a group; then all warpgroups that compute make the
// groups' lists of them, one after the other, while the next keys are brought.
// Blocks share out the groups, turn by turn. A kernel that chooses blocks of
// keys has as many rows again, for scores among the keys of the second span,
// and two for the means that the two spans' lists are made of. Heads that share
// lists are scored one after the other, each adding to the scores before.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CONVERSION_SHEDTOWARP_SELECTWRITER_H
#define HEDDLE_LIB_CONVERSION_SHEDTOWARP_SELECTWRITER_H

#include "WarpBuilder.h"

namespace mlir::heddle {

/// Writes a select kernel for warpgroups, as one stream of control.
class SelectWriter {
public:
  explicit SelectWriter(shed::KernelOp kernel)
      : kernel(kernel), tiling(kernel.getTilingAs<shed::WgmmaTilingAttr>()),
        v(kernel.getLoc(), kernel.getContext()), element(kernel.getElement()),
        channels(kernel.getHeadDim()), group(*kernel.getGroup()),
        groups(std::max<int64_t>(columns / group, 1)),
        parts(tiling.getConsumers() * groups),
        blocks(cast<shed::TopKOp>(kernel.getBody().front().back()).getBlocks()),
        pooled(static_cast<int64_t>(
            cast<shed::TopKOp>(kernel.getBody().front().back())
                .getPooled()
                .value_or(0))),
        within(cast<shed::TopKOp>(kernel.getBody().front().back())
                   .getEntriesWithin()) {}

  LogicalResult run();

private:
  LogicalResult verifyForm();
  Value field(Type type, size_t offset);
  void loadArguments();
  void score(Value head, Value first, Value span, Value added);
  void choose(Value row, Value first);
  Value scratchRow(Value row);
  Value load(Value base, Value first, Value stride, int64_t rows);

  shed::KernelOp kernel;
  shed::WgmmaTilingAttr tiling;
  WarpBuilder v;
  const Type element;
  const int64_t channels;
  static constexpr int64_t columns = 128; ///< query rows of a warpgroup
  const int64_t group;  ///< rows that share a list, at most `columns`
  const int64_t groups; ///< of a warpgroup
  const int64_t parts;  ///< groups that a block scores together
  const bool blocks;    ///< chooses blocks of `group` keys
  const int64_t pooled; ///< scores that are pooled, or 0
  const std::optional<shed::KeyEntries> within; ///< see KeyChoice

  // Values of the function: before all turns.
  Value args, scratch;
  Value n, heads, tiles;        ///< i32
  Value queryStride, keyStride; ///< i64, bytes
  Value kvGroup;                ///< i32
  Value sharers;                ///< i32: heads that share a list
  Value factor;                 ///< scale * log2(e)
};

} // namespace mlir::heddle

#endif // HEDDLE_LIB_CONVERSION_SHEDTOWARP_SELECTWRITER_H
