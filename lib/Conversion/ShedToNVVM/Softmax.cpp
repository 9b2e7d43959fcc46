//===- Softmax.cpp - The online softmax -----------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Base 2. The reference maximum of a row may lag behind its true maximum by up
// to `slack`: weights then reach 2^slack, which changes no relative error and
// saves most rescalings. Sums stay apart in the four lanes that share a row
// until the end.
// Source: online normaliser calculation for softmax (Milakov, Gimelshein 2018).
//
//===----------------------------------------------------------------------===//

#include "AttentionFrame.h"

#include "bundle/abi/Abi.h"

#include <limits>

using namespace mlir;
using namespace mlir::heddle;
using arith::CmpFPredicate;
using arith::CmpIPredicate;
namespace abi = ::heddle::abi;

using Values = NVVMBuilder::Values;

static constexpr float slack = 8.0f;

namespace {
struct LowerInit : FramePattern<shed::SoftmaxInitOp, AttentionFrame> {
  using FramePattern::FramePattern;
  SmallVector<Values> rewrite(shed::SoftmaxInitOp, Adaptor,
                              PatternBuilder &v) const override {
    Softmax none;
    none.context.assign(f.rowSquares * f.channelSquares * 4, v.real(0.0f));
    // Not -inf, so that a row that has met no key yet has differences, too: its
    // masked logits, -inf, still give no weight.
    none.maximum.assign(f.rowSquares * 2,
                        v.real(std::numeric_limits<float>::lowest()));
    none.sum.assign(f.rowSquares * 2, v.real(0.0f));
    return {none.values()};
  }
};
} // namespace

/// Turns logits, not yet scaled, into weights.
static void updateSoftmax(NVVMBuilder &v, const AttentionFrame &f, Softmax &s,
                          Logits &logits) {
  int64_t rows = 2 * f.rowSquares;
  // Element i of this thread's row r, over the squares of keys.
  auto element = [&](int64_t r, int64_t i) -> Value & {
    return logits.at(r / 2, i / 2, r % 2 * 2 + i % 2);
  };
  Values top;
  Value exceeds;
  for (int64_t r = 0; r < rows; ++r) {
    Value even = element(r, 0), odd = element(r, 1);
    for (int64_t i = 2; i < 2 * f.keySquares; i += 2) {
      even = v.maxf(even, element(r, i));
      odd = v.maxf(odd, element(r, i + 1));
    }
    Value greatest = v.reduceLanes(
        v.maxf(even, odd), 4, [&](Value x, Value y) { return v.maxf(x, y); });
    top.push_back(v.mulf(greatest, logits.factor));
    Value over = v.compare(CmpFPredicate::OGT, top[r],
                           v.addf(s.maximum[r], v.real(slack)));
    exceeds = exceeds ? v.either(exceeds, over) : over;
  }

  Values before = s.values();
  s = Softmax::of(
      v.choose(
          v.anyInWarp(exceeds), TypeRange(ValueRange(before)),
          [&]() -> Values {
            Values next, greater, sums, ratio;
            for (int64_t r = 0; r < rows; ++r) {
              greater.push_back(v.maxf(s.maximum[r], top[r]));
              ratio.push_back(v.exp2(v.subf(s.maximum[r], greater[r])));
              sums.push_back(v.mulf(s.sum[r], ratio[r]));
            }
            for (auto [i, value] : llvm::enumerate(s.context)) {
              int64_t m = i / (4 * f.channelSquares);
              next.push_back(v.mulf(value, ratio[2 * m + i % 4 / 2]));
            }
            llvm::append_range(next, greater);
            llvm::append_range(next, sums);
            return next;
          },
          [&] { return before; }),
      rows);

  for (int64_t r = 0; r < rows; ++r) {
    Value offset = v.negf(s.maximum[r]);
    Value even = s.sum[r], odd;
    for (int64_t i = 0; i < 2 * f.keySquares; i += 2) {
      for (int64_t e = i; e < i + 2; ++e) {
        Value &weight = element(r, e);
        weight = v.exp2(v.fma(weight, logits.factor, offset));
      }
      even = v.addf(even, element(r, i));
      odd = odd ? v.addf(odd, element(r, i + 1)) : element(r, i + 1);
    }
    s.sum[r] = v.addf(even, odd);
  }
}

/// The softmax of these keys and of those of another warp's state, of which
/// `quad` loads four values.
static Values mergedWith(NVVMBuilder &v, const AttentionFrame &f,
                         const Softmax &s,
                         function_ref<Value(int64_t first)> quad) {
  const int64_t rows = 2 * f.rowSquares;
  const auto outputs = static_cast<int64_t>(s.context.size());
  Values others; // maxima, then sums
  for (int64_t i = 0; i < 2 * rows; i += 4)
    for (int64_t e = 0; e < 4; ++e)
      others.push_back(v.extract(quad(outputs + i), e));
  Values merged, greater, sums, ours, theirs;
  for (int64_t r = 0; r < rows; ++r) {
    greater.push_back(v.maxf(s.maximum[r], others[r]));
    ours.push_back(v.exp2(v.subf(s.maximum[r], greater[r])));
    theirs.push_back(v.exp2(v.subf(others[r], greater[r])));
    sums.push_back(
        v.fma(s.sum[r], ours[r], v.mulf(others[rows + r], theirs[r])));
  }
  for (int64_t i = 0; i < outputs; i += 4) {
    Value four = quad(i);
    for (int64_t e = 0; e < 4; ++e) {
      int64_t r = 2 * (i / (4 * f.channelSquares)) + e / 2;
      merged.push_back(v.fma(s.context[i + e], ours[r],
                             v.mulf(v.extract(four, e), theirs[r])));
    }
  }
  llvm::append_range(merged, greater);
  llvm::append_range(merged, sums);
  return merged;
}

/// Leaves what all warps found of their rows with the first that hold them, in
/// turns: the upper half of the warps hands its registers over to the lower
/// one, then the upper half of those. All lanes hold the same places of the
/// squares.
static void mergeSplit(NVVMBuilder &v, const AttentionFrame &f, Softmax &s) {
  const auto size = static_cast<int64_t>(s.values().size());
  assert(size % 4 == 0 && "squares have four elements a lane");
  // Nobody still reads the tiles.
  v.awaitCopies(0);
  v.barrier();
  for (int64_t half = f.tiling.getWarps() / 2; half >= 1; half /= 2) {
    Values before = s.values();
    Value place = v.add(v.add(f.shared, v.mul(f.own.lane, 16)),
                        v.mul(v.both(f.warp, half - 1), size / 4 * 512));
    auto exchange = [&]() -> Values {
      Value gives = v.compare(CmpIPredicate::eq, v.both(f.warp, -half), half);
      v.when(gives, [&] {
        for (int64_t i = 0; i < size; i += 4)
          v.storeShared(v.makeVector(ArrayRef<Value>(before).slice(i, 4)),
                        place, f.layout.getKeys() + i / 4 * 512, 16);
      });
      v.barrier();
      Values merged = v.choose(
          v.compare(CmpIPredicate::slt, f.warp, half),
          TypeRange(ValueRange(before)),
          [&] {
            return mergedWith(v, f, s, [&](int64_t first) {
              return v.loadShared(VectorType::get(4, v.f32()), place,
                                  f.layout.getKeys() + first / 4 * 512, 16);
            });
          },
          [&] { return before; });
      if (half > 1) // then others write there
        v.barrier();
      return merged;
    };
    s = Softmax::of(
        v.choose(v.compare(CmpIPredicate::sle, f.split->rowWarps, half),
                 TypeRange(ValueRange(before)), exchange,
                 [&] { return before; }),
        2 * f.rowSquares);
  }
}

/// Divides by the sums and stores the rows that exist, by way of the warp's own
/// queries in shared memory, so that lanes write 16 bytes each. Then the
/// log-sum-exp, if the kernel writes it.
static void storeContext(NVVMBuilder &v, const AttentionFrame &f,
                         const Softmax &s) {
  int64_t rows = 2 * f.rowSquares;
  Value row = v.quotient(f.own.lane, 4);
  Value place = v.add(
      v.add(f.shared, f.warpBytes),
      f.exact
          ? v.add(f.swizzle.place(v, row, v.quotient(f.own.column, 4)),
                  v.mul(v.both(f.own.column, 2), 4))
          : v.add(f.swizzle.place(v, row, v.word(0)), v.mul(f.own.column, 2)));
  v.warpBarrier();
  Values total;
  for (int64_t r = 0; r < rows; ++r) {
    total.push_back(v.reduceLanes(
        s.sum[r], 4, [&](Value x, Value y) { return v.addf(x, y); }));
    Value none = v.compare(CmpFPredicate::OEQ, total[r], v.real(0.0f));
    Value inverse =
        v.select(none, v.real(0.0f), v.divf(v.real(1.0f), total[r]));
    for (int64_t c = 0; c < f.channelSquares; ++c) {
      const Value *sums =
          &s.context[(r / 2 * f.channelSquares + c) * 4 + r % 2 * 2];
      Value low = v.mulf(sums[0], inverse);
      Value high = v.mulf(sums[1], inverse);
      auto [to, offset] =
          f.swizzle.move(v, place, 8 * r, 8 * f.elementBytes * c);
      Value pair =
          f.exact ? v.makeVector({low, high}) : v.pack(f.element, low, high);
      v.storeShared(pair, to, f.layout.getQueries() + offset, f.exact ? 8 : 4);
    }
  }
  v.warpBarrier();

  Value first = v.add(f.taskRow, f.warpRow);
  Value output =
      v.at(f.field(v, v.global(), offsetof(abi::AttentionArgs, output)),
           v.mul(v.widen(f.head), f.channels * f.elementBytes));
  Value stride =
      v.mul(f.field(v, v.i64(), offsetof(abi::AttentionArgs, outputStride)),
            f.elementBytes);
  int64_t step = 32 / f.copyLanes;
  Value mine = v.quotient(f.own.lane, f.copyLanes);
  Value chunk = v.remainder(f.own.lane, f.copyLanes);
  Value from =
      v.add(v.add(f.shared, f.warpBytes), f.swizzle.place(v, mine, chunk));
  Value to = v.at(v.at(output, v.mul(v.widen(v.add(first, mine)), stride)),
                  v.mul(chunk, 16));
  Value left = v.sub(f.taskEnd, v.add(first, mine));
  for (int64_t r = 0; r < 16 * f.rowSquares; r += step)
    v.when(v.compare(CmpIPredicate::sgt, left, r), [&] {
      for (int64_t c = 0; c < f.swizzle.rowBytes; c += f.copyLanes * 16) {
        auto [at, offset] = f.swizzle.move(v, from, r, c);
        v.store(v.loadShared(v.quad(), at, f.layout.getQueries() + offset, 16),
                v.at(v.at(to, v.mul(stride, r)), c), 16);
      }
    });

  if (!f.writesLse)
    return;
  Value all = f.field(v, v.i64(), offsetof(abi::AttentionArgs, rows));
  Value lse =
      v.at(f.field(v, v.global(), offsetof(abi::AttentionArgs, lse)),
           v.mul(v.add(v.mul(v.widen(f.head), all), v.widen(first)), 4));
  Value writes = v.compare(CmpIPredicate::eq, f.own.column, int64_t(0));
  Value below = v.sub(f.taskEnd, f.taskRow);
  for (int64_t r = 0; r < rows; ++r)
    v.when(
        v.both(writes, v.compare(CmpIPredicate::slt, f.rowInTile(v, r), below)),
        [&] {
          // A row without keys has sum 0: -inf.
          v.store(v.addf(s.maximum[r], v.log2(total[r])),
                  v.at(lse, v.mul(v.add(row, 8 * r), 4)), 4);
        });
}

namespace {
struct LowerUpdate : FramePattern<shed::SoftmaxUpdateOp, AttentionFrame> {
  using FramePattern::FramePattern;
  SmallVector<Values> rewrite(shed::SoftmaxUpdateOp, Adaptor adaptor,
                              PatternBuilder &v) const override {
    auto softmax = Softmax::of(adaptor.getState(), 2 * f.rowSquares);
    auto logits = Logits::of(adaptor.getLogits(), f.keySquares);
    auto values = KeyTile::of(adaptor.getValues());
    maskMissing(v, f, logits, values);
    updateSoftmax(v, f, softmax, logits);
    addContext(v, f, softmax, logits, values);
    return {softmax.values()};
  }
};

struct LowerStore : FramePattern<shed::StoreOp, AttentionFrame> {
  using FramePattern::FramePattern;
  SmallVector<Values> rewrite(shed::StoreOp, Adaptor adaptor,
                              PatternBuilder &v) const override {
    auto softmax = Softmax::of(adaptor.getState(), 2 * f.rowSquares);
    if (f.split) {
      mergeSplit(v, f, softmax);
      v.when(v.compare(CmpIPredicate::slt, f.warp, f.split->rowWarps),
             [&] { storeContext(v, f, softmax); });
    } else {
      storeContext(v, f, softmax);
    }
    return {};
  }
};
} // namespace

void mlir::heddle::populateAttentionSoftmax(const TypeConverter &converter,
                                            RewritePatternSet &patterns,
                                            const AttentionFrame &frame) {
  patterns.add<LowerInit, LowerUpdate, LowerStore>(
      converter, patterns.getContext(), frame);
}
