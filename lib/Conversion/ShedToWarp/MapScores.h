//===- MapScores.h - Functions of logits as warp.map ------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CONVERSION_SHEDTOWARP_MAPSCORES_H
#define HEDDLE_LIB_CONVERSION_SHEDTOWARP_MAPSCORES_H

#include "heddle/Conversion/ScoreLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace mlir::heddle {

/// Ops of arith and math for one element: the lowering of maps chooses the
/// machine's instructions for them.
class MapScores final : public ScoreTarget {
public:
  explicit MapScores(ImplicitLocOpBuilder &b) : b(b) {}

  ImplicitLocOpBuilder &builder() override { return b; }
  Value real(float value) override {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(value));
  }
  Value integer(int32_t value) override {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(value));
  }
  Value bit(bool value) override {
    return arith::ConstantOp::create(b, b.getBoolAttr(value));
  }
  Value exp2(Value x) override { return math::Exp2Op::create(b, x); }
  Value log2(Value x) override { return math::Log2Op::create(b, x); }
  Value sqrt(Value x) override { return math::SqrtOp::create(b, x); }
  Value absf(Value x) override { return math::AbsFOp::create(b, x); }
  Value fma(Value x, Value y, Value z) override {
    return math::FmaOp::create(b, x, y, z);
  }
  Value tanh(Value x) override { return math::TanhOp::create(b, x); }

private:
  ImplicitLocOpBuilder &b;
};

} // namespace mlir::heddle

#endif // HEDDLE_LIB_CONVERSION_SHEDTOWARP_MAPSCORES_H
