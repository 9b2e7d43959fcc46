//===- Lowering.h - Patterns from shed to warpgroups ------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// heddle/Conversion/ShedToWarp.h says what values become. Here are these as
// structures, what is known of a kernel as a whole, and what patterns are made
// of.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CONVERSION_SHEDTOWARP_LOWERING_H
#define HEDDLE_LIB_CONVERSION_SHEDTOWARP_LOWERING_H

#include "../ShedToNVVM/ThreadPattern.h"
#include "WarpBuilder.h"

#include "heddle/Conversion/ShedToWarp.h"

namespace mlir::heddle {

//===----------------------------------------------------------------------===//
// What values become
//===----------------------------------------------------------------------===//

/// The keys of a tile, or of a part of one.
struct TileKeys {
  static constexpr int values = 6;

  Value first;   ///< i32: the first one's row, or its place in the list
  Value left;    ///< i32: how many there are from it on, at most 0 if none
  Value end;     ///< i32: of the rows that exist
  Value skipped; ///< i32: keys before it do not count; 0: all do
  Value list;    ///< where a list that names them begins; null: they follow
                 ///< each other
  Value count;   ///< i32: keys of the list, or of the sequence
  int64_t columns = 0;
  int64_t from = 0; ///< the part's first column in the tile

  /// Of the last values of an operand.
  TileKeys(ValueRange operand, int64_t columns);
  TileKeys(Value first, Value left, Value end, Value skipped, Value list,
           Value count, int64_t columns)
      : first(first), left(left), end(end), skipped(skipped), list(list),
        count(count), columns(columns) {}

  SmallVector<Value, values> get() const {
    return {first, left, end, skipped, list, count};
  }
  /// So many of them, from one on.
  TileKeys part(WarpBuilder &v, int64_t from, int64_t columns) const;
  /// What the operands say when the kernel is written.
  bool isListed() const;
  bool skips() const;
};

struct LogitParts {
  SmallVector<Value> parts; ///< each times `factor`
  Value factor;
  Value masked; ///< i1: what lies behind the pass's last key is -inf

  explicit LogitParts(ValueRange operand)
      : parts(operand.drop_back(2)), factor(operand.drop_back().back()),
        masked(operand.back()) {}
  LogitParts(Value factor, Value masked) : factor(factor), masked(masked) {}

  SmallVector<Value> get() const {
    SmallVector<Value> all = parts;
    all.append({factor, masked});
    return all;
  }
};

/// The sum is in parts, one a lane.
struct RunningSoftmax {
  Value context, maximum, sum;
  Value empty; ///< i1: no tile was added; only where sums are checked

  RunningSoftmax() = default;
  explicit RunningSoftmax(ValueRange operand)
      : context(operand[0]), maximum(operand[1]), sum(operand[2]),
        empty(operand.size() > 3 ? operand[3] : Value()) {}
  SmallVector<Value> get() const {
    SmallVector<Value> all = {context, maximum, sum};
    if (empty)
      all.push_back(empty);
    return all;
  }
};

//===----------------------------------------------------------------------===//
// The kernel as a whole
//===----------------------------------------------------------------------===//

struct WarpPatterns;

class WarpTask {
public:
  explicit WarpTask(shed::KernelOp kernel)
      : tiling(kernel.getTilingAs<shed::WgmmaTilingAttr>()),
        tileKeys(tiling.getKeys()), tileParts(tiling.getParts()),
        element(kernel.getElement()), channels(kernel.getHeadDim()),
        encoding(kernel.getEncoding().value_or(shed::Encoding::Int32)),
        sharedLists(kernel.getSharedLists()), kernel(kernel) {}
  virtual ~WarpTask() = default;

  /// Refuses at its place what has no form.
  virtual LogicalResult verifyForm() = 0;
  /// Writes a function, with the ops of the kernel's body where it has found a
  /// block's rows. Its values are there from then on.
  virtual Operation *open() = 0;
  virtual void populate(WarpPatterns patterns) const = 0;
  /// Where what is left of a list has smaller tiles: clones each loop over keys
  /// after itself, adds the clones to `loops` and gives the task that lowers
  /// them; else null. Until all are lowered, the function goes over lists
  /// twice.
  virtual std::unique_ptr<WarpTask>
  splitTail(Operation *function, SmallVectorImpl<Operation *> &loops) const {
    return nullptr;
  }

  /// A tile of rows of Q, K or V.
  Type tile(int64_t rows) const {
    return warp::TileType::get(element.getContext(), rows, channels, element);
  }
  Value field(WarpBuilder &v, Type type, size_t offset) const {
    return v.loadConstant(type, v.at(args, static_cast<int64_t>(offset)),
                          type.isF32() || type.isInteger(32) ? 4 : 8);
  }
  /// Where the matrix of head `which` (i32) begins.
  Value ofHead(WarpBuilder &v, size_t offset, Value which) const {
    return v.at(field(v, v.global(), offset),
                v.mul(v.widenUnsigned(which), channels * 2));
  }

  const shed::WgmmaTilingAttr tiling;
  int64_t tileKeys;  ///< keys of a tile; in the task of a tail the fewer ones
  int64_t tileParts; ///< in which the weights of a tile meet its values
  const Type element;
  const int64_t channels;
  const shed::Encoding encoding; ///< of lists
  const bool sharedLists;        ///< whether heads share them
  // What a thread has of tiles.
  int64_t queryRows = 0;    ///< of a tile of queries
  int64_t logitParts = 1;   ///< of a tile of logits
  int64_t logitColumns = 0; ///< of a part
  int64_t groups = 0;       ///< whose scores a warpgroup adds to
  Value args;               ///< the block's arguments

protected:
  /// Refuses what no entry of a table over such keys may say, either.
  LogicalResult verifyRule(StringRef over);
  /// Moves the ops of the kernel to where `v` stands.
  void moveBody(WarpBuilder &v);

  shed::KernelOp kernel;
};

std::unique_ptr<WarpTask> makeAttentionTask(shed::KernelOp kernel);
std::unique_ptr<WarpTask> makeSelectTask(shed::KernelOp kernel);

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

/// Writes what warpgroups do, before the op that is rewritten.
class RewriteBuilder : public Rewriting<WarpBuilder> {
public:
  using Rewriting::Rewriting;

  /// Goes on right behind the last of these values: what is made of a part of a
  /// tile stands with it, so that its products run under the next one's
  /// exponentials, and what leads to one part alone is in registers.
  void behind(ValueRange values);
  /// Moves ops here, those that `which` holds for if it is given.
  void take(iterator_range<Block::iterator> ops,
            function_ref<bool(Operation &)> which = {}) {
    for (Operation &op : llvm::make_early_inc_range(ops))
      if (!which || which(op))
        rewriter.moveOpBefore(&op, b.getInsertionBlock(),
                              b.getInsertionPoint());
  }
};

/// What each result of an op becomes.
using Results = SmallVector<SmallVector<Value>>;

/// A pattern that `write` is: a function of a builder, an op and what its
/// operands became.
template <typename Op, typename Write>
class WarpPattern : public ValuesPattern<Op, RewriteBuilder> {
public:
  WarpPattern(const TypeConverter &converter, MLIRContext *context, Write write)
      : ValuesPattern<Op, RewriteBuilder>(converter, context), write(write) {}

  Results rewrite(Op op,
                  typename OpConversionPattern<Op>::OneToNOpAdaptor operands,
                  RewriteBuilder &v) const override {
    return write(v, op, operands);
  }

private:
  const Write write;
};

struct WarpPatterns {
  const TypeConverter &converter;
  RewritePatternSet &patterns;

  template <typename Op, typename Write> void add(Write write) {
    patterns.add<WarpPattern<Op, Write>>(converter, patterns.getContext(),
                                         write);
  }
};

} // namespace mlir::heddle

#endif // HEDDLE_LIB_CONVERSION_SHEDTOWARP_LOWERING_H
