//===- VectorBuilder.h - Emits vector code ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thin layer over OpBuilder that writes the few shapes of code host kernels
// are made of: byte addresses, loops with carried values, elementary functions
// on vectors, transposition.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CONVERSION_VECTORBUILDER_H
#define HEDDLE_CONVERSION_VECTORBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::heddle {

class VectorBuilder {
public:
  using Values = SmallVector<Value>;

  VectorBuilder(Location loc, MLIRContext *context, int64_t lanes)
      : b(loc, context), lanes(lanes) {}

  ImplicitLocOpBuilder b;
  const int64_t lanes;

  //===--- Types -----------------------------------------------------------===
  Type i32() { return b.getI32Type(); }
  Type i64() { return b.getI64Type(); }
  Type f32() { return b.getF32Type(); }
  Type ptr();
  VectorType floats() { return VectorType::get(lanes, f32()); }
  VectorType ints() { return VectorType::get(lanes, i32()); }
  /// A whole vector of 16-bit elements.
  VectorType words() { return VectorType::get(2 * lanes, b.getI16Type()); }

  //===--- Scalars ---------------------------------------------------------===
  Value constant(int64_t value) { return integer(i64(), value); }
  Value integer(Type type, int64_t value);
  Value real(float value);
  Value add(Value x, Value y) { return arith::AddIOp::create(b, x, y); }
  Value add(Value x, int64_t y) { return y ? add(x, constant(y)) : x; }
  Value sub(Value x, Value y) { return arith::SubIOp::create(b, x, y); }
  Value mul(Value x, Value y) { return arith::MulIOp::create(b, x, y); }
  Value mul(Value x, int64_t y) { return y == 1 ? x : mul(x, constant(y)); }
  Value quotient(Value x, int64_t y);
  Value least(Value x, Value y) { return arith::MinSIOp::create(b, x, y); }
  Value greatest(Value x, Value y) { return arith::MaxSIOp::create(b, x, y); }
  /// x rounded up to a multiple of y.
  Value roundUp(Value x, int64_t y) {
    return mul(quotient(add(x, y - 1), y), y);
  }
  Value compare(arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, predicate, x, y);
  }
  Value compare(arith::CmpFPredicate predicate, Value x, Value y) {
    return arith::CmpFOp::create(b, predicate, x, y);
  }
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, condition, x, y);
  }
  Value widen(Value x) { return arith::ExtSIOp::create(b, i64(), x); }
  Value narrow(Value x) { return arith::TruncIOp::create(b, i32(), x); }
  Value bits(Type type, Value x);
  Value bitAnd(Value x, Value y) { return arith::AndIOp::create(b, x, y); }
  Value bitOr(Value x, Value y) { return arith::OrIOp::create(b, x, y); }
  Value bitXor(Value x, Value y) { return arith::XOrIOp::create(b, x, y); }
  Value shiftLeft(Value x, Value y) { return arith::ShLIOp::create(b, x, y); }
  Value shiftRight(Value x, Value y) { return arith::ShRUIOp::create(b, x, y); }

  //===--- Memory ----------------------------------------------------------===
  /// base + bytes.
  Value at(Value base, Value bytes);
  Value at(Value base, int64_t bytes);
  Value load(Type type, Value address, unsigned alignment = 4);
  void store(Value value, Value address, unsigned alignment = 4);
  /// Fetches a line of memory into the nearest cache or the second.
  void prefetch(Value address, bool nearest);
  /// Vector v of a row of fp32 or dword vectors at `row`.
  Value loadLane(Value row, int64_t v, Type type = {});
  void storeLane(Value value, Value row, int64_t v);
  /// The lanes of `mask` from memory, the others from `other`.
  Value loadMasked(Value address, Value mask, Value other);
  void storeMasked(Value value, Value address, Value mask);

  Value null();
  /// Whether a pointer is not null.
  Value isSet(Value pointer);

  //===--- Control ---------------------------------------------------------===
  /// for (i = from; i < to; i += step) carrying values.
  Values loop(Value from, Value to, int64_t step, ValueRange carried,
              function_ref<Values(Value, ValueRange)> body);
  void loop(Value from, Value to, int64_t step, function_ref<void(Value)> body);
  /// body(0), body(1), ... body(count - 1).
  void each(Value count, function_ref<void(Value)> body) {
    loop(constant(0), count, 1, body);
  }
  /// A loop whose trip count is known; a single trip leaves no loop behind.
  void loop(int64_t to, int64_t step, function_ref<void(Value)> body);
  void when(Value condition, function_ref<void()> body);
  void either(Value condition, function_ref<void()> body,
              function_ref<void()> otherwise);
  /// while (condition(values)) values = body(values).
  Values repeat(ValueRange carried, function_ref<Value(ValueRange)> condition,
                function_ref<Values(ValueRange)> body);

  //===--- Vectors ---------------------------------------------------------===
  Value splat(Value scalar);
  Value splat(float value) { return splat(real(value)); }
  /// 0, 1, 2, ... as i32 lanes.
  Value iota();
  Value fma(Value x, Value y, Value z);
  Value addf(Value x, Value y) { return arith::AddFOp::create(b, x, y); }
  Value subf(Value x, Value y) { return arith::SubFOp::create(b, x, y); }
  Value mulf(Value x, Value y) { return arith::MulFOp::create(b, x, y); }
  Value divf(Value x, Value y) { return arith::DivFOp::create(b, x, y); }
  Value negf(Value x) { return arith::NegFOp::create(b, x); }
  /// The greater value; y where x is NaN.
  Value maxf(Value x, Value y);
  /// Whether any lane of a vector of i1 is set.
  Value any(Value mask);
  /// The sum of the lanes.
  Value sum(Value x);
  /// The sum of i32 lanes, as i64.
  Value sumInts(Value x);
  /// 2^x for x <= 127, within 2e-7 relative; exactly 0 for x <= -127 and -inf;
  /// NaN for NaN.
  Value exp2(Value x);
  /// log2(x) for x >= 0, within 3e-7 absolute; -inf for 0, NaN for NaN.
  Value log2(Value x);
  /// Transposes a square of 32-bit lanes in log2(lanes) stages of shuffles.
  void transpose(Values &rows);
  /// Pairs of elements of x and y, of one half of each 128 bits: one
  /// instruction, where the order along the whole vector would take more.
  Value interleaveQuarters(Value x, Value y, int64_t half);

  //===--- bf16 ------------------------------------------------------------===
  /// The lanes of `low`, then those of `high`, as bf16, by AVX512_BF16.
  Value bf16Both(Value low, Value high);
  /// Dwords holding bf16(low) | bf16(high) << 16, rounded to nearest even; with
  /// `native` by AVX512_BF16's conversion.
  Value pairs(Value low, Value high, bool native);
  /// bf16 bits of fp32 lanes in the low halves of dwords.
  Value roundToBf16(Value x);
  /// fp32 from the low or high halves of dwords.
  Value lowHalf(Value dwords);
  Value highHalf(Value dwords);
  /// A vector of i16 bits of `x` rounded to bf16.
  Value bf16Bits(Value x, bool native);

  //===--- Intrinsics ------------------------------------------------------===
  Value call(StringRef intrinsic, Type result, ValueRange operands);
  void callVoid(StringRef intrinsic, ValueRange operands);
};

} // namespace mlir::heddle

#endif // HEDDLE_CONVERSION_VECTORBUILDER_H
