//===- ThreadPattern.h - Patterns that write what a thread does -*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CONVERSION_SHEDTONVVM_THREADPATTERN_H
#define HEDDLE_LIB_CONVERSION_SHEDTONVVM_THREADPATTERN_H

#include "NVVMBuilder.h"

#include "mlir/Transforms/DialectConversion.h"

namespace mlir::heddle {

/// A builder that writes before the op that is rewritten.
template <typename Builder> class Rewriting : public Builder {
public:
  Rewriting(Operation *op, ConversionPatternRewriter &rewriter)
      : Builder(op->getLoc(), op->getContext()), rewriter(rewriter) {
    this->b.setListener(rewriter.getListener());
    this->b.setInsertionPoint(op);
  }

  ConversionPatternRewriter &rewriter;
};
using PatternBuilder = Rewriting<NVVMBuilder>;

/// A value of the kernel's level that a thread has as `values`, and what it has
/// of one: casts, which are gone when all ops are lowered.
Value asTile(NVVMBuilder &v, Type type, ValueRange values);
NVVMBuilder::Values asValues(NVVMBuilder &v, TypeRange types, Value tile);

/// A pattern whose `rewrite` writes the op's results, one range for each.
template <typename Op, typename Builder>
class ValuesPattern : public OpConversionPattern<Op> {
public:
  using OpConversionPattern<Op>::OpConversionPattern;
  using Adaptor = typename OpConversionPattern<Op>::OneToNOpAdaptor;
  using Values = NVVMBuilder::Values;

  virtual SmallVector<Values> rewrite(Op op, Adaptor adaptor,
                                      Builder &v) const = 0;

  LogicalResult
  matchAndRewrite(Op op, Adaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Builder v(op, rewriter);
    SmallVector<Values> results = rewrite(op, adaptor, v);
    SmallVector<ValueRange> ranges(results.begin(), results.end());
    rewriter.replaceOpWithMultiple(op, ranges);
    return success();
  }
};

/// One for a kernel with the facts `Frame`, which outlive the pattern.
template <typename Op, typename Frame>
class FramePattern : public ValuesPattern<Op, PatternBuilder> {
public:
  FramePattern(const TypeConverter &converter, MLIRContext *context,
               const Frame &frame)
      : ValuesPattern<Op, PatternBuilder>(converter, context), f(frame) {}

protected:
  const Frame &f;
};

} // namespace mlir::heddle

#endif // HEDDLE_LIB_CONVERSION_SHEDTONVVM_THREADPATTERN_H
