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

#include "AttentionLowering.h"

#include "bundle/abi/Abi.h"

#include <limits>

using namespace mlir;
using namespace mlir::heddle;
using arith::CmpFPredicate;
using arith::CmpIPredicate;
namespace abi = ::heddle::abi;

using Values = NVVMBuilder::Values;

static constexpr float slack = 8.0f;
static constexpr float infinity = std::numeric_limits<float>::infinity();

void AttentionLowering::initSoftmax() {
  context.assign(rowSquares * channelSquares * 4, v.real(0.0f));
  // Not -inf, so that a row that has met no key yet has differences, too: its
  // masked logits, -inf, still give no weight.
  maximum.assign(rowSquares * 2, v.real(std::numeric_limits<float>::lowest()));
  sum.assign(rowSquares * 2, v.real(0.0f));
}

Values AttentionLowering::state() const {
  Values all = context;
  llvm::append_range(all, maximum);
  llvm::append_range(all, sum);
  return all;
}

void AttentionLowering::setState(ArrayRef<Value> all) {
  size_t rows = 2 * rowSquares;
  context.assign(all.begin(), all.end() - 2 * rows);
  maximum.assign(all.end() - 2 * rows, all.end() - rows);
  sum.assign(all.end() - rows, all.end());
}

/// Number in the tile (i32) of this thread's row `row` of 2 * rowSquares.
Value AttentionLowering::rowInTile(int64_t row) {
  return v.add(v.add(warpRow, v.quotient(own.lane, 4)), 8 * row);
}

/// Logits of the padding behind a pass's last key give no weight.
void AttentionLowering::maskEnd(KeyPass &pass, const KeyTile &tile) {
  Value lowest = v.real(-infinity);
  Value left = v.sub(v.sub(pass.count, tile.rank), own.column);
  for (int64_t n = 0; n < keySquares; ++n)
    for (int64_t e = 0; e < 2; ++e) {
      Value inside = v.compare(CmpIPredicate::sgt, left, 8 * n + e);
      for (int64_t m = 0; m < rowSquares; ++m)
        for (int64_t i = e; i < 4; i += 2)
          logit(m, n, i) = v.select(inside, logit(m, n, i), lowest);
    }
}

/// Likewise logits of the keys that the filter leaves out.
void AttentionLowering::maskFiltered(KeyPass &pass, const KeyTile &tile) {
  assert(!split && "the filter counts keys from the tile's first on");
  Value lowest = v.real(-infinity), filter = v.add(shared, layout.filter);
  for (int64_t n = 0; n < keySquares; ++n) {
    Value word = v.shiftRight(pass.filter->leftOut(tile.index, n / 4, filter),
                              own.column);
    for (int64_t e = 0; e < 2; ++e) {
      Value bit = v.both(word, int64_t(1) << (n % 4 * 8 + e));
      Value inside = v.compare(CmpIPredicate::eq, bit, int64_t(0));
      for (int64_t m = 0; m < rowSquares; ++m)
        for (int64_t i = e; i < 4; i += 2)
          logit(m, n, i) = v.select(inside, logit(m, n, i), lowest);
    }
  }
}

/// Where in the sequence this thread's rows stand.
Values AttentionLowering::rowPositions() {
  Values positions;
  Value ownPositions = v.add(shared, v.mul(rowInTile(0), 4));
  for (int64_t r = 0; r < 2 * rowSquares; ++r)
    positions.push_back(
        v.loadShared(v.i32(), ownPositions, layout.positions + 8 * r * 4));
  return positions;
}

/// Likewise its keys: two of each square.
Values AttentionLowering::keyPositions(KeyPass &pass, const KeyTile &tile) {
  Value rank = v.add(tile.rank, own.column);
  Values keys;
  for (int64_t k = 0; k < keySquares; ++k)
    for (int64_t e = 0; e < 2; ++e) {
      Value key = v.add(rank, 8 * k + e);
      // Ranks behind the pass's last are masked, whatever they compare with.
      keys.push_back(pass.source
                         ? pass.source->key(key)
                         : v.least(v.add(pass.first, key), v.add(n, -1)));
    }
  return positionsOf(keys);
}

/// Leaves of each row the pairs that the masked sets say.
void AttentionLowering::mask(shed::MaskOp op, KeyPass &pass,
                             const KeyTile &tile) {
  Value lowest = v.real(-infinity);
  Values queries = rowPositions(), keys = keyPositions(pass, tile);
  shed::PairArithmetic a(v.b, v.i32());
  for (int64_t n = 0; n < keySquares; ++n)
    for (int64_t e = 0; e < 2; ++e) {
      Value key = keys[2 * n + e];
      for (int64_t m = 0; m < rowSquares; ++m)
        for (int64_t i = e; i < 4; i += 2) {
          Value query = queries[2 * m + i / 2];
          Value &result = logit(m, n, i);
          if (std::optional<shed::KeySet> within = op.getWithin())
            result = v.select(within->keeps(a, query, key), result, lowest);
          for (auto set : op.getOutside().getAsRange<shed::KeySet>())
            result = v.select(set.keeps(a, query, key), lowest, result);
        }
    }
}

/// Turns logits, not yet scaled, into weights.
void AttentionLowering::updateSoftmax() {
  int64_t rows = 2 * rowSquares;
  // Element i of this thread's row r, over the squares of keys.
  auto element = [&](int64_t r, int64_t i) -> Value & {
    return logit(r / 2, i / 2, r % 2 * 2 + i % 2);
  };
  Values top;
  Value exceeds;
  for (int64_t r = 0; r < rows; ++r) {
    Value even = element(r, 0), odd = element(r, 1);
    for (int64_t i = 2; i < 2 * keySquares; i += 2) {
      even = v.maxf(even, element(r, i));
      odd = v.maxf(odd, element(r, i + 1));
    }
    Value greatest = v.reduceLanes(
        v.maxf(even, odd), 4, [&](Value x, Value y) { return v.maxf(x, y); });
    top.push_back(v.mulf(greatest, logitFactor));
    Value over = v.compare(CmpFPredicate::OGT, top[r],
                           v.addf(maximum[r], v.real(slack)));
    exceeds = exceeds ? v.either(exceeds, over) : over;
  }

  Values before = state();
  setState(v.choose(
      v.anyInWarp(exceeds), TypeRange(ValueRange(before)),
      [&]() -> Values {
        Values next, greater, sums, ratio;
        for (int64_t r = 0; r < rows; ++r) {
          greater.push_back(v.maxf(maximum[r], top[r]));
          ratio.push_back(v.exp2(v.subf(maximum[r], greater[r])));
          sums.push_back(v.mulf(sum[r], ratio[r]));
        }
        for (auto [i, value] : llvm::enumerate(context)) {
          int64_t m = i / (4 * channelSquares);
          next.push_back(v.mulf(value, ratio[2 * m + i % 4 / 2]));
        }
        llvm::append_range(next, greater);
        llvm::append_range(next, sums);
        return next;
      },
      [&] { return before; }));

  for (int64_t r = 0; r < rows; ++r) {
    Value offset = v.negf(maximum[r]);
    Value even = sum[r], odd;
    for (int64_t i = 0; i < 2 * keySquares; i += 2) {
      for (int64_t e = i; e < i + 2; ++e) {
        Value &weight = element(r, e);
        weight = v.exp2(v.fma(weight, logitFactor, offset));
      }
      even = v.addf(even, element(r, i));
      odd = odd ? v.addf(odd, element(r, i + 1)) : element(r, i + 1);
    }
    sum[r] = v.addf(even, odd);
  }
}

/// The softmax of these keys and of those of another warp's state, of which
/// `quad` loads four values.
Values AttentionLowering::mergedWith(function_ref<Value(int64_t first)> quad) {
  const int64_t rows = 2 * rowSquares;
  const auto outputs = static_cast<int64_t>(context.size());
  Values others; // maxima, then sums
  for (int64_t i = 0; i < 2 * rows; i += 4)
    for (int64_t e = 0; e < 4; ++e)
      others.push_back(v.extract(quad(outputs + i), e));
  Values merged, greater, sums, ours, theirs;
  for (int64_t r = 0; r < rows; ++r) {
    greater.push_back(v.maxf(maximum[r], others[r]));
    ours.push_back(v.exp2(v.subf(maximum[r], greater[r])));
    theirs.push_back(v.exp2(v.subf(others[r], greater[r])));
    sums.push_back(v.fma(sum[r], ours[r], v.mulf(others[rows + r], theirs[r])));
  }
  for (int64_t i = 0; i < outputs; i += 4) {
    Value four = quad(i);
    for (int64_t e = 0; e < 4; ++e) {
      int64_t r = 2 * (i / (4 * channelSquares)) + e / 2;
      merged.push_back(v.fma(context[i + e], ours[r],
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
void AttentionLowering::mergeSplit() {
  const auto size = static_cast<int64_t>(state().size());
  assert(size % 4 == 0 && "squares have four elements a lane");
  // Nobody still reads the tiles.
  v.awaitCopies(0);
  v.barrier();
  for (int64_t half = tiling.getWarps() / 2; half >= 1; half /= 2) {
    Values before = state();
    Value place = v.add(v.add(shared, v.mul(own.lane, 16)),
                        v.mul(v.both(warp, half - 1), size / 4 * 512));
    auto exchange = [&]() -> Values {
      Value gives = v.compare(CmpIPredicate::eq, v.both(warp, -half), half);
      v.when(gives, [&] {
        for (int64_t i = 0; i < size; i += 4)
          v.storeShared(v.makeVector(ArrayRef<Value>(before).slice(i, 4)),
                        place, layout.keys + i / 4 * 512, 16);
      });
      v.barrier();
      Values merged = v.choose(
          v.compare(CmpIPredicate::slt, warp, half),
          TypeRange(ValueRange(before)),
          [&] {
            return mergedWith([&](int64_t first) {
              return v.loadShared(VectorType::get(4, v.f32()), place,
                                  layout.keys + first / 4 * 512, 16);
            });
          },
          [&] { return before; });
      if (half > 1) // then others write there
        v.barrier();
      return merged;
    };
    setState(v.choose(v.compare(CmpIPredicate::sle, split->rowWarps, half),
                      TypeRange(ValueRange(before)), exchange,
                      [&] { return before; }));
  }
}

/// Divides by the sums and stores the rows that exist, by way of the warp's own
/// queries in shared memory, so that lanes write 16 bytes each. Then the
/// log-sum-exp, if the kernel writes it.
void AttentionLowering::storeContext() {
  int64_t rows = 2 * rowSquares;
  Value row = v.quotient(own.lane, 4);
  Value place = v.add(
      v.add(shared, warpBytes),
      exact ? v.add(swizzle.place(v, row, v.quotient(own.column, 4)),
                    v.mul(v.both(own.column, 2), 4))
            : v.add(swizzle.place(v, row, v.word(0)), v.mul(own.column, 2)));
  v.warpBarrier();
  Values total;
  for (int64_t r = 0; r < rows; ++r) {
    total.push_back(v.reduceLanes(
        sum[r], 4, [&](Value x, Value y) { return v.addf(x, y); }));
    Value none = v.compare(CmpFPredicate::OEQ, total[r], v.real(0.0f));
    Value inverse =
        v.select(none, v.real(0.0f), v.divf(v.real(1.0f), total[r]));
    for (int64_t c = 0; c < channelSquares; ++c) {
      Value low = v.mulf(out(r / 2, c, r % 2 * 2), inverse);
      Value high = v.mulf(out(r / 2, c, r % 2 * 2 + 1), inverse);
      auto [to, offset] = swizzle.move(v, place, 8 * r, 8 * elementBytes * c);
      Value pair =
          exact ? v.makeVector({low, high}) : v.pack(element, low, high);
      v.storeShared(pair, to, layout.queries + offset, exact ? 8 : 4);
    }
  }
  v.warpBarrier();

  Value first = v.add(taskRow, warpRow);
  Value output = v.at(field(v.global(), offsetof(abi::AttentionArgs, output)),
                      v.mul(v.widen(head), channels * elementBytes));
  Value stride = v.mul(
      field(v.i64(), offsetof(abi::AttentionArgs, outputStride)), elementBytes);
  int64_t step = 32 / copyLanes;
  Value mine = v.quotient(own.lane, copyLanes);
  Value chunk = v.remainder(own.lane, copyLanes);
  Value from = v.add(v.add(shared, warpBytes), swizzle.place(v, mine, chunk));
  Value to = v.at(v.at(output, v.mul(v.widen(v.add(first, mine)), stride)),
                  v.mul(chunk, 16));
  Value left = v.sub(taskEnd, v.add(first, mine));
  for (int64_t r = 0; r < 16 * rowSquares; r += step)
    v.when(v.compare(CmpIPredicate::sgt, left, r), [&] {
      for (int64_t c = 0; c < swizzle.rowBytes; c += copyLanes * 16) {
        auto [at, offset] = swizzle.move(v, from, r, c);
        v.store(v.loadShared(v.quad(), at, layout.queries + offset, 16),
                v.at(v.at(to, v.mul(stride, r)), c), 16);
      }
    });

  if (!kernel.getWritesLse())
    return;
  Value all = field(v.i64(), offsetof(abi::AttentionArgs, rows));
  Value lse = v.at(field(v.global(), offsetof(abi::AttentionArgs, lse)),
                   v.mul(v.add(v.mul(v.widen(head), all), v.widen(first)), 4));
  Value writes = v.compare(CmpIPredicate::eq, own.column, int64_t(0));
  Value below = v.sub(taskEnd, taskRow);
  for (int64_t r = 0; r < rows; ++r)
    v.when(v.both(writes, v.compare(CmpIPredicate::slt, rowInTile(r), below)),
           [&] {
             // A row without keys has sum 0: -inf.
             v.store(v.addf(maximum[r], v.log2(total[r])),
                     v.at(lse, v.mul(v.add(row, 8 * r), 4)), 4);
           });
}
