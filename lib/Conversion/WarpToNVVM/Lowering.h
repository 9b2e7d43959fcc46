//===- Lowering.h - Patterns from the warp level to threads ----*- C++ -*--===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A fragment becomes the scalars that a thread holds of it, in the order of
// FragmentType; products on their way become their sums and then the words of
// left operands that they still read. A tile is its address in shared memory
// (i32), a ring that of its tiles and that of its barriers.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CONVERSION_WARPTONVVM_LOWERING_H
#define HEDDLE_LIB_CONVERSION_WARPTONVVM_LOWERING_H

#include "../ShedToNVVM/ThreadPattern.h"

#include "heddle/Dialect/Warp/IR/Warp.h"

namespace mlir::heddle {

/// Writes what a thread does, before the op that is rewritten.
class ThreadBuilder : public PatternBuilder {
public:
  using PatternBuilder::PatternBuilder;

  Value lane() { return both(threadId(), 31); }
  /// Of the warpgroup: the thread, and the warp.
  Value threadOfGroup() { return both(threadId(), warp::warpgroupThreads - 1); }
  Value warpOfGroup() { return quotient(threadOfGroup(), 32); }
  /// The warpgroup's number in the block, seen to be the same in all lanes.
  Value groupOfBlock() {
    return shuffle(quotient(threadId(), warp::warpgroupThreads), word(0));
  }
  /// The row of the thread's first elements, and their column in a square.
  Value row() { return add(mul(warpOfGroup(), 16), quotient(lane(), 4)); }
  Value column() { return mul(both(lane(), 3), 2); }

  /// Where tiles lie: shared memory begins as they are aligned.
  Value tiles() { return sharedBase(); }

  /// PTX that is not to be moved or dropped. Results, if any, are as many as
  /// `types`. `clobbersMemory` keeps accesses to memory on their side of it.
  Values assembly(StringRef text, StringRef constraints, ValueRange operands,
                  TypeRange types = {}, bool clobbersMemory = true);
  /// Makes what this thread wrote, or saw written, known to matrix products.
  void fenceForProducts();
};

using Patterns = RewritePatternSet;
void populateElementPatterns(const TypeConverter &converter,
                             Patterns &patterns);
void populateProductPatterns(const TypeConverter &converter,
                             Patterns &patterns);
void populateMemoryPatterns(const TypeConverter &converter, Patterns &patterns);
void populatePipelinePatterns(const TypeConverter &converter,
                              Patterns &patterns);

/// The warpgroups of the block of `op` that compute: all but the producer. 0
/// where its function does not say how many threads a block has.
int64_t consumersOf(Operation *op);

template <typename Op>
class ThreadPattern : public ValuesPattern<Op, ThreadBuilder> {
public:
  using ValuesPattern<Op, ThreadBuilder>::ValuesPattern;
};

} // namespace mlir::heddle

#endif // HEDDLE_LIB_CONVERSION_WARPTONVVM_LOWERING_H
