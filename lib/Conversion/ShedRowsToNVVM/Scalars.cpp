//===- Scalars.cpp - Elementary functions of row kernels ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowLowering.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace mlir::heddle;

/// e^x for f32 within 4e-7 relative; 0 below -87.4, 3.3e38 above 88.7.
Value RowLowering::exponential(Value x) {
  // Clamped so that nothing below is infinite; NaN stays NaN.
  x = arith::MaximumFOp::create(b, x, v.real(-150.0f));
  x = arith::MinimumFOp::create(b, x, v.real(88.7f));
  // 2^(y + rest) = 2^y (1 + rest ln 2), where rest is what rounding x log2(e)
  // to y lost: up to 4e-6 for large x.
  constexpr float log2e = 1.44269502f, log2eRest = 1.92596303e-8f;
  Value y = v.mulf(x, v.real(log2e));
  Value rest = v.fma(x, v.real(log2e), v.negf(y));
  rest = v.fma(x, v.real(log2eRest), rest);
  Value power = v.exp2(y);
  return v.fma(power, v.mulf(rest, v.real(0.693147182f)), power);
}

/// ln x for a positive normal f64, relative error below 1e-15.
Value RowLowering::logarithm(Value x) {
  auto fma = [&](Value a, Value c, Value d) { return v.fma(a, c, d); };
  // x = 2^k m with m in [sqrt(1/2), sqrt(2)): subtracting the bits of
  // sqrt(1/2) leaves k in the exponent's place.
  constexpr int64_t rootHalf = 0x3FE6A09E667F3BCD;
  Value bits = v.bits(v.i64(), x);
  Value k = arith::ShRSIOp::create(b, v.sub(bits, wide(rootHalf)), wide(52));
  Value m = v.bits(v.f64(), v.sub(bits, v.shiftLeft(k, 52)));
  Value exponent = arith::SIToFPOp::create(b, v.f64(), v.narrow(k));
  // ln m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.172:
  // 2 s (1 + z / 3 + z^2 / 5 + ...), z = s^2; z^12 / 25 is below 2e-20.
  Value s = v.divf(v.subf(m, real(1)), v.addf(m, real(1)));
  Value z = v.mulf(s, s);
  Value series = real(1.0 / 23);
  for (int64_t divisor = 21; divisor >= 3; divisor -= 2)
    series = fma(series, z, real(1.0 / static_cast<double>(divisor)));
  Value twice = v.addf(s, s);
  Value ofM = fma(v.mulf(twice, z), series, twice);
  // ln 2 in two parts; the first has zeros at its end, so k * part is exact.
  Value low = fma(exponent, real(0x1.a39ef35793c76p-33), ofM);
  return fma(exponent, real(0x1.62e42feep-1), low);
}

/// Source: Salmon, Moraes, Dror, Shaw, SC 2011 (see shed.random).
std::array<Value, 4> RowLowering::philox(int64_t stream, Value seed, Value step,
                                         Value position, Value pair) {
  std::array<Value, 4> counter = {v.narrow(pair), v.narrow(position),
                                  v.narrow(step), v.word(stream)};
  Value key0 = v.narrow(seed), key1 = v.narrow(v.shiftRight(seed, 32));
  auto word = [&](uint32_t bits) { return v.word(static_cast<int32_t>(bits)); };
  // The high half by the machine's instruction: as the shift of a 64-bit
  // product it would cost three.
  auto multiply = [&](uint32_t constant, Value x) {
    Value factor = word(constant);
    return std::pair(v.call("llvm.nvvm.mulhi.ui", v.i32(), {x, factor}),
                     v.mul(x, factor));
  };
  for (uint32_t round = 0; round < 10; ++round) {
    auto [high0, low0] = multiply(0xD2511F53u, counter[0]);
    auto [high1, low1] = multiply(0xCD9E8D57u, counter[2]);
    Value round0 = v.add(key0, word(0x9E3779B9u * round));
    Value round1 = v.add(key1, word(0xBB67AE85u * round));
    counter = {v.flip(v.flip(high1, counter[1]), round0), low1,
               v.flip(v.flip(high0, counter[3]), round1), low0};
  }
  return counter;
}

/// The words are made once for the two columns of a pair, by the even lane,
/// where they differ in the index alone. Which of the two a lane is, is known
/// in a group that begins with an even column.
void RowLowering::emitRandom(shed::RandomOp random) {
  auto pass = dyn_cast<shed::ForColumnsOp>(random->getParentOp());
  bool paired = pass && place.columns % 2 == 0 &&
                random.getIndex().getDefiningOp<shed::ColumnNumberOp>();
  for (Value other : {random.getSeed(), random.getStep(), random.getPosition()})
    paired &= !pass || !pass.getBody().isAncestor(other.getParentRegion());
  emitOnce(*random, [&](int64_t i) {
    Value index = lane(random.getIndex(), i);
    std::array<Value, 4> &words = randomWords[random];
    if (!paired || i % 2 == 0)
      words = philox(random.getStream(), lane(random.getSeed(), i),
                     lane(random.getStep(), i), lane(random.getPosition(), i),
                     v.shiftRight(index, 1));
    auto half = [&](int64_t word) -> Value {
      if (paired)
        return words[word + 2 * (i % 2)];
      Value even =
          v.compare(arith::CmpIPredicate::eq, v.both(index, 1), int64_t(0));
      return v.select(even, words[word], words[word + 2]);
    };
    Value low = v.widenUnsigned(half(0)), high = v.widenUnsigned(half(1));
    return v.shiftRight(v.either(low, v.shiftLeft(high, 32)), 12);
  });
}
