//===- VectorBuilder.cpp - Emits vector code ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Conversion/VectorBuilder.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::heddle;

using Values = VectorBuilder::Values;

Type VectorBuilder::ptr() { return LLVM::LLVMPointerType::get(b.getContext()); }

Value VectorBuilder::integer(Type type, int64_t value) {
  return arith::ConstantOp::create(b, b.getIntegerAttr(type, value));
}

Value VectorBuilder::real(float value) {
  return arith::ConstantOp::create(b, b.getF32FloatAttr(value));
}

Value VectorBuilder::quotient(Value x, int64_t y) {
  return arith::DivUIOp::create(b, x, constant(y));
}

Value VectorBuilder::bits(Type type, Value x) {
  return arith::BitcastOp::create(b, type, x);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value VectorBuilder::at(Value base, Value bytes) {
  return LLVM::GEPOp::create(b, ptr(), b.getI8Type(), base, bytes);
}

Value VectorBuilder::at(Value base, int64_t bytes) {
  if (!bytes)
    return base;
  return LLVM::GEPOp::create(
      b, ptr(), b.getI8Type(), base,
      ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(bytes)});
}

Value VectorBuilder::load(Type type, Value address, unsigned alignment) {
  return LLVM::LoadOp::create(b, type, address, alignment);
}

void VectorBuilder::store(Value value, Value address, unsigned alignment) {
  LLVM::StoreOp::create(b, value, address, alignment);
}

void VectorBuilder::prefetch(Value address, bool nearest) {
  LLVM::Prefetch::create(b, address, /*rw=*/0, /*hint=*/nearest ? 3 : 2,
                         /*cache=*/1);
}

Value VectorBuilder::loadLane(Value row, int64_t v, Type type) {
  return load(type ? type : Type(floats()), at(row, v * lanes * 4));
}

void VectorBuilder::storeLane(Value value, Value row, int64_t v) {
  store(value, at(row, v * lanes * 4));
}

Value VectorBuilder::loadMasked(Value address, Value mask, Value other) {
  return LLVM::MaskedLoadOp::create(b, other.getType(), address, mask, other,
                                    b.getI32IntegerAttr(4));
}

void VectorBuilder::storeMasked(Value value, Value address, Value mask) {
  LLVM::MaskedStoreOp::create(b, value, address, mask, b.getI32IntegerAttr(4));
}

Value VectorBuilder::null() { return LLVM::ZeroOp::create(b, ptr()); }

Value VectorBuilder::isSet(Value pointer) {
  Value word = LLVM::PtrToIntOp::create(b, i64(), pointer);
  return compare(arith::CmpIPredicate::ne, word, constant(0));
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

Values VectorBuilder::loop(Value from, Value to, int64_t step,
                           ValueRange carried,
                           function_ref<Values(Value, ValueRange)> body) {
  auto loop = scf::ForOp::create(b, from, to, constant(step), carried);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Values next = body(loop.getInductionVar(), loop.getRegionIterArgs());
  // Without carried values the builder has put the yield already.
  if (!carried.empty())
    scf::YieldOp::create(b, next);
  return Values(loop.getResults());
}

void VectorBuilder::loop(Value from, Value to, int64_t step,
                         function_ref<void(Value)> body) {
  loop(from, to, step, ValueRange(), [&](Value i, ValueRange) {
    body(i);
    return Values();
  });
}

void VectorBuilder::loop(int64_t to, int64_t step,
                         function_ref<void(Value)> body) {
  if (to <= step)
    return body(constant(0));
  loop(constant(0), constant(to), step, body);
}

void VectorBuilder::when(Value condition, function_ref<void()> body) {
  auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  body();
}

void VectorBuilder::either(Value condition, function_ref<void()> body,
                           function_ref<void()> otherwise) {
  auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  body();
  b.setInsertionPointToStart(branch.elseBlock());
  otherwise();
}

Values VectorBuilder::repeat(ValueRange carried,
                             function_ref<Value(ValueRange)> condition,
                             function_ref<Values(ValueRange)> body) {
  SmallVector<Type> types(carried.getTypes());
  SmallVector<Location> locations(types.size(), b.getLoc());
  auto loop = scf::WhileOp::create(b, types, carried);
  OpBuilder::InsertionGuard guard(b);
  Block *before = b.createBlock(&loop.getBefore(), {}, types, locations);
  Value proceed = condition(before->getArguments());
  scf::ConditionOp::create(b, proceed, before->getArguments());
  Block *after = b.createBlock(&loop.getAfter(), {}, types, locations);
  Values next = body(after->getArguments());
  scf::YieldOp::create(b, next);
  return Values(loop.getResults());
}

//===----------------------------------------------------------------------===//
// Vectors
//===----------------------------------------------------------------------===//

Value VectorBuilder::splat(Value scalar) {
  return vector::BroadcastOp::create(
      b, VectorType::get(lanes, scalar.getType()), scalar);
}

Value VectorBuilder::iota() {
  SmallVector<int32_t> values(lanes);
  for (auto [i, value] : llvm::enumerate(values))
    value = i;
  return arith::ConstantOp::create(
      b, DenseElementsAttr::get(ints(), ArrayRef<int32_t>(values)));
}

Value VectorBuilder::fma(Value x, Value y, Value z) {
  return vector::FMAOp::create(b, x, y, z);
}

Value VectorBuilder::maxf(Value x, Value y) {
  return select(compare(arith::CmpFPredicate::OGT, x, y), x, y);
}

Value VectorBuilder::any(Value mask) {
  return vector::ReductionOp::create(b, vector::CombiningKind::OR, mask);
}

Value VectorBuilder::sum(Value x) {
  // Halves until one lane is left: a fixed order, so the result never depends
  // on what the compiler thinks of associativity.
  for (int64_t half = lanes / 2; half >= 1; half /= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < half; ++i) {
      low.push_back(i);
      high.push_back(i + half);
    }
    x = addf(vector::ShuffleOp::create(b, x, x, low),
             vector::ShuffleOp::create(b, x, x, high));
  }
  return vector::ExtractOp::create(b, x, ArrayRef<int64_t>{0});
}

Value VectorBuilder::sumInts(Value x) {
  return widen(vector::ReductionOp::create(b, vector::CombiningKind::ADD, x));
}

Value VectorBuilder::exp2(Value x) {
  // n = round(x) by adding 1.5 * 2^23, whose low mantissa bits then hold n;
  // 2^(x - n) by a polynomial with constant term 1, minimax on [-1/2, 1/2];
  // n goes into the exponent. x = -127 gives n = -127 and polynomial 1, whose
  // bits plus n << 23 are exactly +0: hence the clamp. The clamp keeps NaN.
  Value lowest = splat(-127.0f);
  x = select(compare(arith::CmpFPredicate::OLT, x, lowest), lowest, x);
  Value magic = splat(12582912.0f);
  Value shifted = addf(x, magic);
  Value f = subf(x, subf(shifted, magic));
  static constexpr float coefficients[] = {1.3264727e-3f, 9.6715129e-3f,
                                           5.5507337e-2f, 2.4022242e-1f,
                                           6.9314698e-1f};
  Value p = splat(coefficients[0]);
  for (float c : ArrayRef<float>(coefficients).drop_front())
    p = fma(p, f, splat(c));
  p = fma(p, f, splat(1.0f));
  Value n = shiftLeft(bits(ints(), shifted), splat(integer(i32(), 23)));
  return bits(floats(), add(bits(ints(), p), n));
}

Value VectorBuilder::log2(Value x) {
  // x = 2^e * f with f in [sqrt(1/2), sqrt(2)); log2(f) = 2/ln 2 * artanh(z),
  // z = (f - 1) / (f + 1), |z| < 0.172.
  Value word = bits(ints(), x);
  Value offset = splat(integer(i32(), 0x3f3504f3)); // sqrt(1/2)
  Value e =
      arith::ShRSIOp::create(b, sub(word, offset), splat(integer(i32(), 23)));
  Value f = bits(floats(), sub(word, shiftLeft(e, splat(integer(i32(), 23)))));
  Value one = splat(1.0f);
  Value z = divf(subf(f, one), addf(f, one));
  Value zz = mulf(z, z);
  constexpr double scale = 2.88539008177792681472; // 2 / ln 2
  Value p = splat(static_cast<float>(scale / 9));
  for (int odd : {7, 5, 3, 1})
    p = fma(p, zz, splat(static_cast<float>(scale / odd)));
  Value result = fma(p, z, arith::SIToFPOp::create(b, floats(), e).getResult());
  Value zero = splat(0.0f);
  // x * 0 carries NaN over.
  result = addf(result, mulf(x, zero));
  return select(compare(arith::CmpFPredicate::OEQ, x, zero),
                splat(-std::numeric_limits<float>::infinity()), result);
}

void VectorBuilder::transpose(Values &rows) {
  for (int64_t step = 1; step < lanes; step *= 2) {
    SmallVector<int64_t> even, odd;
    for (int64_t t = 0; t < lanes; ++t) {
      even.push_back(t & step ? lanes + t - step : t);
      odd.push_back(t & step ? lanes + t : t + step);
    }
    for (int64_t i = 0; i < lanes; ++i) {
      if (i & step)
        continue;
      Value x = rows[i], y = rows[i + step];
      rows[i] = vector::ShuffleOp::create(b, x, y, even);
      rows[i + step] = vector::ShuffleOp::create(b, x, y, odd);
    }
  }
}

Value VectorBuilder::interleaveQuarters(Value x, Value y, int64_t half) {
  auto type = cast<VectorType>(x.getType());
  int64_t count = type.getNumElements();
  int64_t quarter = 128 / type.getElementTypeBitWidth();
  SmallVector<int64_t> order;
  for (int64_t first = half * quarter / 2; first < count; first += quarter)
    for (int64_t i = first; i < first + quarter / 2; ++i)
      order.append({i, count + i});
  return vector::ShuffleOp::create(b, x, y, order);
}

//===----------------------------------------------------------------------===//
// bf16
//===----------------------------------------------------------------------===//

Value VectorBuilder::roundToBf16(Value x) {
  Value word = bits(ints(), x);
  auto mask = [&](int64_t v) { return splat(integer(i32(), v)); };
  Value odd = bitAnd(shiftRight(word, mask(16)), mask(1));
  Value rounded = shiftRight(add(word, add(odd, mask(0x7fff))), mask(16));
  Value quiet = bitOr(shiftRight(word, mask(16)), mask(0x40));
  return select(compare(arith::CmpFPredicate::UNO, x, x), quiet, rounded);
}

Value VectorBuilder::bf16Both(Value low, Value high) {
  auto halves = VectorType::get(2 * lanes, b.getBF16Type());
  return call(lanes == 16 ? "llvm.x86.avx512bf16.cvtne2ps2bf16.512"
                          : "llvm.x86.avx512bf16.cvtne2ps2bf16.256",
              halves, {high, low});
}

Value VectorBuilder::pairs(Value low, Value high, bool native) {
  if (!native)
    return bitOr(roundToBf16(low),
                 shiftLeft(roundToBf16(high), splat(integer(i32(), 16))));
  Value both = bf16Both(low, high);
  SmallVector<int64_t> order;
  for (int64_t i = 0; i < lanes; ++i) {
    order.push_back(i);
    order.push_back(i + lanes);
  }
  Value mixed = vector::ShuffleOp::create(b, both, both, order);
  return vector::BitCastOp::create(b, ints(), mixed);
}

Value VectorBuilder::lowHalf(Value dwords) {
  return bits(floats(), shiftLeft(dwords, splat(integer(i32(), 16))));
}

Value VectorBuilder::highHalf(Value dwords) {
  return bits(floats(), bitAnd(dwords, splat(integer(i32(), -65536))));
}

Value VectorBuilder::bf16Bits(Value x, bool native) {
  auto words = VectorType::get(lanes, b.getI16Type());
  if (!native)
    return arith::TruncIOp::create(b, words, roundToBf16(x));
  auto halves = VectorType::get(lanes, b.getBF16Type());
  Value rounded = lanes == 16
                      ? call("llvm.x86.avx512bf16.cvtneps2bf16.512", halves, x)
                      : call("llvm.x86.avx512bf16.cvtneps2bf16.256", halves, x);
  return vector::BitCastOp::create(b, words, rounded);
}

Value VectorBuilder::call(StringRef intrinsic, Type result,
                          ValueRange operands) {
  return LLVM::CallIntrinsicOp::create(b, result, b.getStringAttr(intrinsic),
                                       operands)
      .getResults();
}

void VectorBuilder::callVoid(StringRef intrinsic, ValueRange operands) {
  LLVM::CallIntrinsicOp::create(b, b.getStringAttr(intrinsic), operands);
}
