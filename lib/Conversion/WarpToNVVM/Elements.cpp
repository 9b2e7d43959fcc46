//===- Elements.cpp - Fragments as the scalars of threads -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::heddle;
using Values = NVVMBuilder::Values;

namespace {

Value combine(ThreadBuilder &v, warp::Combine kind, Value x, Value y) {
  return kind == warp::Combine::Max ? v.maxf(x, y) : v.addf(x, y);
}

struct LowerSplat : ThreadPattern<warp::SplatOp> {
  using ThreadPattern::ThreadPattern;
  SmallVector<Values> rewrite(warp::SplatOp op, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    return {Values(op.getResult().getType().getElements(),
                   adaptor.getValue().front())};
  }
};

struct LowerMap : ThreadPattern<warp::MapOp> {
  using ThreadPattern::ThreadPattern;

  /// What an op of the region is for one element. Approximations of the machine
  /// stand for functions, as everywhere in kernels.
  static void clone(Operation &op, IRMapping &mapping, ThreadBuilder &v) {
    auto operand = [&](unsigned i) {
      return mapping.lookupOrDefault(op.getOperand(i));
    };
    if (isa<math::Exp2Op>(op))
      mapping.map(op.getResult(0), v.exp2(operand(0)));
    else if (isa<math::Log2Op>(op))
      mapping.map(op.getResult(0), v.log2(operand(0)));
    else if (isa<math::TanhOp>(op))
      mapping.map(op.getResult(0), v.tanhApprox(operand(0)));
    else if (isa<math::SqrtOp>(op))
      mapping.map(op.getResult(0), v.sqrt(operand(0)));
    else if (isa<math::AbsFOp>(op))
      mapping.map(
          op.getResult(0),
          v.bits(v.f32(), v.both(v.bits(v.i32(), operand(0)), 0x7fffffff)));
    else if (isa<math::FmaOp>(op))
      mapping.map(op.getResult(0), v.fma(operand(0), operand(1), operand(2)));
    else
      v.b.clone(op, mapping);
  }

  SmallVector<Values> rewrite(warp::MapOp op, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    Block &body = op.getBody().front();
    auto width = cast<warp::FragmentType>(op.getResultTypes().front());
    const unsigned inputs = op->getNumOperands();
    Value row = body.getArgument(inputs), column = body.getArgument(inputs + 1);
    Value firstRow = row.use_empty() ? Value() : v.row();
    Value firstColumn = column.use_empty() ? Value() : v.column();
    SmallVector<Values> results(op->getNumResults());
    for (int64_t e = 0; e < width.getElements(); ++e) {
      // Of a column there are only rows.
      const int64_t low = width.isColumn() ? e : e % 4 / 2;
      IRMapping mapping;
      for (unsigned i = 0; i < inputs; ++i) {
        auto type = cast<warp::FragmentType>(op.getInputs()[i].getType());
        ValueRange elements = adaptor.getInputs()[i];
        mapping.map(body.getArgument(i), elements[type.isColumn() ? low : e]);
      }
      if (firstRow)
        mapping.map(row, v.add(firstRow, 8 * low));
      if (firstColumn)
        mapping.map(column, width.isColumn()
                                ? v.word(0)
                                : v.add(firstColumn, e / 4 * 8 + e % 2));
      for (Operation &inner : body.without_terminator())
        clone(inner, mapping, v);
      for (auto [i, value] :
           llvm::enumerate(body.getTerminator()->getOperands()))
        results[i].push_back(mapping.lookupOrDefault(value));
    }
    return results;
  }
};

struct LowerSlice : ThreadPattern<warp::SliceOp> {
  using ThreadPattern::ThreadPattern;
  SmallVector<Values> rewrite(warp::SliceOp op, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    const bool packed = op.getResult().getType().isPacked();
    const int64_t each = packed ? 4 : 2; // columns to a value of a thread
    return {Values(adaptor.getSource().slice(
        op.getFrom() / each, op.getResult().getType().getColumns() / each))};
  }
};

struct LowerReduce : ThreadPattern<warp::ReduceOp> {
  using ThreadPattern::ThreadPattern;
  SmallVector<Values> rewrite(warp::ReduceOp op, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    ValueRange source = adaptor.getSource(), init = adaptor.getInit();
    Values parts;
    for (int64_t row = 0; row < 2; ++row) {
      // Two chains, which do not wait for each other.
      Value chain[2];
      for (size_t e = 0; e < source.size(); ++e) {
        if (static_cast<int64_t>(e % 4 / 2) != row)
          continue;
        Value &at = chain[e % 2];
        if (!at && e % 2 == 0 && !init.empty())
          at = init[row];
        at = at ? combine(v, op.getKind(), at, source[e]) : source[e];
      }
      parts.push_back(combine(v, op.getKind(), chain[0], chain[1]));
    }
    return {parts};
  }
};

struct LowerCombine : ThreadPattern<warp::CombineOp> {
  using ThreadPattern::ThreadPattern;
  SmallVector<Values> rewrite(warp::CombineOp op, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    Values all;
    for (Value part : adaptor.getSource())
      all.push_back(v.reduceLanes(part, 4, [&](Value x, Value y) {
        return combine(v, op.getKind(), x, y);
      }));
    return {all};
  }
};

struct LowerAny : ThreadPattern<warp::AnyOp> {
  using ThreadPattern::ThreadPattern;
  SmallVector<Values> rewrite(warp::AnyOp op, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    Value some;
    for (Value each : adaptor.getSource())
      some = some ? v.either(some, each) : each;
    if (!op.getWarpgroup())
      return {{v.anyInWarp(some)}};
    // The barrier of the warpgroup's number, as where its lanes load. It is the
    // same in all lanes, so no shuffle says so in each part of each tile.
    Value any =
        v.assembly("{\n.reg .pred p;\nsetp.ne.b32 p, $1, 0;\n"
                   "bar.red.or.pred p, $2, 128, p;\nselp.b32 $0, 1, 0, p;\n}",
                   "=r,r,r",
                   {arith::ExtUIOp::create(v.b, v.i32(), some),
                    v.quotient(v.threadId(), warp::warpgroupThreads)},
                   v.i32(), /*clobbersMemory=*/false)[0];
    return {{v.compare(arith::CmpIPredicate::ne, any, int64_t(0))}};
  }
};

struct LowerRound : ThreadPattern<warp::RoundOp> {
  using ThreadPattern::ThreadPattern;
  SmallVector<Values> rewrite(warp::RoundOp op, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    ValueRange source = adaptor.getSource();
    Values words;
    for (size_t e = 0; e < source.size(); e += 2)
      words.push_back(v.pack(op.getResult().getType().getElement(), source[e],
                             source[e + 1]));
    return {words};
  }
};

} // namespace

void mlir::heddle::populateElementPatterns(const TypeConverter &converter,
                                           Patterns &patterns) {
  patterns.add<LowerSplat, LowerMap, LowerSlice, LowerReduce, LowerCombine,
               LowerAny, LowerRound>(converter, patterns.getContext());
}
