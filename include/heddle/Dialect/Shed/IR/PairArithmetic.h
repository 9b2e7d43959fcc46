//===- PairArithmetic.h - Builds what a set of pairs says -------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_SHED_IR_PAIRARITHMETIC_H
#define HEDDLE_DIALECT_SHED_IR_PAIRARITHMETIC_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <functional>

namespace mlir::shed {

/// Positions [begin, end) in the sequence; null: from the first, to the last.
struct PositionRange {
  Value begin, end;
};

/// Writes integer arithmetic where `b` stands, of the type that a machine has
/// positions in: a scalar, or a vector of what lanes work on.
class PairArithmetic {
public:
  using Predicate = arith::CmpIPredicate;

  /// `told` loads abi::AttentionArgs::sinks as a `type`.
  PairArithmetic(ImplicitLocOpBuilder &b, Type type,
                 std::function<Value()> told = {})
      : b(b), type(type), loadTold(std::move(told)) {}

  Value integer(int64_t value);
  Value told() { return loadTold(); }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, x, y); }
  Value add(Value x, int64_t y) { return y ? add(x, integer(y)) : x; }
  Value sub(Value x, Value y) { return arith::SubIOp::create(b, x, y); }
  Value greatest(Value x, Value y) { return arith::MaxSIOp::create(b, x, y); }
  Value least(Value x, Value y) { return arith::MinSIOp::create(b, x, y); }
  Value mul(Value x, int64_t y) {
    return arith::MulIOp::create(b, x, integer(y));
  }
  Value either(Value x, Value y) { return arith::OrIOp::create(b, x, y); }
  /// x ^ (x >> y), of which the sign is a bit.
  Value mix(Value x, int64_t y) {
    return arith::XOrIOp::create(b, x,
                                 arith::ShRUIOp::create(b, x, integer(y)));
  }
  /// x / y and x % y for x >= 0, or x as a number without a sign, and y >= 1.
  Value quotient(Value x, int64_t y) {
    return arith::DivUIOp::create(b, x, integer(y));
  }
  Value remainder(Value x, int64_t y) {
    return arith::RemUIOp::create(b, x, integer(y));
  }
  Value both(Value x, Value y) { return arith::AndIOp::create(b, x, y); }
  Value compare(Predicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, predicate, x, y);
  }
  Value compare(Predicate predicate, Value x, int64_t y) {
    return compare(predicate, x, integer(y));
  }

private:
  ImplicitLocOpBuilder &b;
  Type type;
  std::function<Value()> loadTold;
};

} // namespace mlir::shed

#endif // HEDDLE_DIALECT_SHED_IR_PAIRARITHMETIC_H
