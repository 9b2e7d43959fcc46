//===- Softmax.cpp - The online softmax ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Base 2, elementwise over the vectors of a panel. The reference maximum of a
// row may lag behind its true maximum by up to `slack`: weights then reach
// 2^slack, which changes no relative error and saves most rescalings.
// Source: online normaliser calculation for softmax (Milakov, Gimelshein 2018).
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"

#include "bundle/abi/Abi.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;
using namespace mlir::heddle;
namespace abi = ::heddle::abi;

static constexpr float slack = 8.0f;
static constexpr float infinity = std::numeric_limits<float>::infinity();

void KernelLowering::initSoftmax() {
  Value lowest = v.splat(-infinity), zero = v.splat(0.0f);
  forPanels([&](Value p) {
    Value maximum = panelBase(layout.maximum, layout.rowPanel, p);
    Value sum = panelBase(layout.sum, layout.rowPanel, p);
    for (int64_t i = 0; i < vectors; ++i) {
      v.storeLane(lowest, maximum, i);
      v.storeLane(zero, sum, i);
    }
    Value context = panelBase(layout.context, layout.contextPanel, p);
    v.loop(channels * vectors, 4, [&](Value k) {
      for (int64_t i = 0; i < 4; ++i)
        v.storeLane(zero, v.at(context, v.mul(k, v.lanes * 4)), i);
    });
  });
}

/// Leaves of each row the pairs that the masked sets say.
void KernelLowering::mask(shed::MaskOp op, const KeyTile &tile, Value p) {
  Value lowest = v.splat(-infinity);
  Value rowPositions = panelBase(layout.positions, layout.rowPanel, p);
  Values queries;
  for (int64_t i = 0; i < active; ++i)
    queries.push_back(v.loadLane(rowPositions, i, v.ints()));
  shed::PairArithmetic a(v.b, v.ints());
  v.loop(v.constant(0), tile.count, 1, [&](Value j) {
    Value row = logitsRow(j);
    Value key = v.splat(v.narrow(positionAt(placeOf(tile, j))));
    for (int64_t i = 0; i < active; ++i) {
      Value logit = v.loadLane(row, i);
      if (std::optional<shed::KeySet> within = op.getWithin())
        logit = v.select(within->keeps(a, queries[i], key), logit, lowest);
      for (auto set : op.getOutside().getAsRange<shed::KeySet>())
        logit = v.select(set.keeps(a, queries[i], key), lowest, logit);
      v.storeLane(logit, row, i);
    }
  });
}

/// Logits of the padding behind the tile's last key give no weight.
void KernelLowering::padLogits(const KeyTile &tile) {
  Value lowest = v.splat(-infinity);
  v.loop(tile.count, tile.padded, 1, [&](Value j) {
    for (int64_t i = 0; i < active; ++i)
      v.storeLane(lowest, logitsRow(j), i);
  });
}

/// What logits in scratch are multiplied with for base 2; null for nothing.
Value KernelLowering::logitScale() {
  if (scoreFactor)
    return v.splat(*scoreFactor);
  return paired ? v.splat(factor) : Value();
}

void KernelLowering::updateSoftmax(const KeyTile &tile, Value p) {
  padLogits(tile);
  Value maximumRow = panelBase(layout.maximum, layout.rowPanel, p);
  Value sumRow = panelBase(layout.sum, layout.rowPanel, p);
  Value lowest = v.splat(-infinity);
  Value scale = logitScale();

  // Two keys a step: two independent chains of maxima for each vector.
  Values tileMaximum = v.loop(
      v.constant(0), tile.padded, 2, Values(2 * active, lowest),
      [&](Value j, ValueRange carried) {
        Values next;
        Value row = logitsRow(j);
        for (int64_t key = 0; key < 2; ++key)
          for (int64_t i = 0; i < active; ++i)
            next.push_back(v.maxf(v.loadLane(v.at(row, key * panel * 4), i),
                                  carried[key * active + i]));
        return next;
      });

  Value exceeds;
  Values greater, old;
  for (int64_t i = 0; i < active; ++i) {
    Value top = v.maxf(tileMaximum[i], tileMaximum[active + i]);
    if (scale)
      top = v.mulf(top, scale);
    Value before = v.loadLane(maximumRow, i);
    Value over = v.compare(arith::CmpFPredicate::OGT, top,
                           v.addf(before, v.splat(slack)));
    exceeds =
        exceeds ? arith::OrIOp::create(v.b, exceeds, over).getResult() : over;
    greater.push_back(v.maxf(top, before));
    old.push_back(before);
  }
  // A row that has met no key yet keeps -inf; shifting by 0 then leaves its
  // logits at -inf rather than -inf - -inf.
  auto shift = [&](Value maximum) {
    return v.select(v.compare(arith::CmpFPredicate::OEQ, maximum, lowest),
                    v.splat(0.0f), maximum);
  };
  v.when(v.any(exceeds), [&] {
    Values ratio;
    for (int64_t i = 0; i < active; ++i) {
      ratio.push_back(v.exp2(v.subf(old[i], shift(greater[i]))));
      v.storeLane(greater[i], maximumRow, i);
      v.storeLane(v.mulf(v.loadLane(sumRow, i), ratio[i]), sumRow, i);
    }
    scaleContext(ratio, p);
  });

  Values offset, sums;
  for (int64_t i = 0; i < active; ++i) {
    Value shifted = shift(v.loadLane(maximumRow, i));
    offset.push_back(arith::NegFOp::create(v.b, shifted));
    sums.push_back(v.loadLane(sumRow, i));
  }
  auto weigh = [&](Value row, int64_t i, Value &sum) {
    Value logit = v.loadLane(row, i);
    Value weight = v.exp2(scale ? v.fma(logit, scale, offset[i])
                                : v.addf(logit, offset[i]));
    sum = v.addf(sum, weight);
    return weight;
  };
  Value weights = v.at(scratch, layout.weights);
  auto weighRows = [&](Value j, ValueRange carried) {
    Values next(carried);
    Value row = logitsRow(j), second = v.at(row, panel * 4);
    for (int64_t i = 0; i < active; ++i) {
      Value low = weigh(row, i, next[i]), high = weigh(second, i, next[i]);
      if (paired) {
        v.storeLane(v.pairs(low, high, true),
                    v.at(weights, v.mul(j, panel * 2)), i);
      } else {
        v.storeLane(low, row, i);
        v.storeLane(high, second, i);
      }
    }
    return next;
  };
  // Left operands: [keys / 32][panel][32 keys].
  auto weighSquare = [&](int64_t i, Value j, Value &sum) {
    Values square;
    for (int64_t key = 0; key < 32; key += 2) {
      packAhead(tile, p, i, j, key);
      Value row = v.at(logitsRow(j), key * panel * 4);
      Value low = weigh(row, i, sum);
      Value high = weigh(v.at(row, panel * 4), i, sum);
      square.push_back(v.pairs(low, high, true));
    }
    v.transpose(square);
    Value to = v.at(weights, v.mul(j, panel * 2));
    for (auto [r, row] : llvm::enumerate(square))
      v.store(row, v.at(to, (i * 16 + r) * 64));
  };
  if (dot != shed::DotKind::Tiles)
    sums = v.loop(v.constant(0), tile.padded, 2, sums, weighRows);
  else
    for (int64_t i = 0; i < active; ++i)
      sums[i] = v.loop(v.constant(0), tile.padded, 32, sums[i],
                       [&](Value j, ValueRange carried) {
                         Value sum = carried[0];
                         weighSquare(i, j, sum);
                         return Values{sum};
                       })[0];
  for (int64_t i = 0; i < active; ++i)
    v.storeLane(sums[i], sumRow, i);
}

/// Multiplies the context of each row of a panel with its ratio.
void KernelLowering::scaleContext(ArrayRef<Value> ratio, Value p) {
  Value context = panelBase(layout.context, layout.contextPanel, p);
  if (dot != shed::DotKind::Tiles)
    return v.loop(channels, 1, [&](Value c) {
      Value row = v.at(context, v.mul(c, panel * 4));
      for (int64_t i = 0; i < active; ++i)
        v.storeLane(v.mulf(v.loadLane(row, i), ratio[i]), row, i);
    });
  // Rows of channels: their ratios go through memory that the weights take
  // next.
  Value ratios = v.at(scratch, layout.weights);
  for (int64_t i = 0; i < active; ++i)
    v.storeLane(ratio[i], ratios, i);
  v.loop(active * v.lanes, 1, [&](Value r) {
    Value row = v.at(context, v.mul(r, channels * 4));
    Value scale = v.splat(v.load(v.f32(), v.at(ratios, v.mul(r, 4))));
    for (int64_t i = 0; i < channels / v.lanes; ++i)
      v.storeLane(v.mulf(v.loadLane(row, i), scale), row, i);
  });
}

/// mass[j] += sum over the panel's rows of exp2(logit - lse).
void KernelLowering::columnMass(const KeyTile &tile, Value p) {
  Value lse = panelBase(layout.lse, layout.rowPanel, p);
  Values offset;
  for (int64_t i = 0; i < active; ++i) {
    Value sum = v.loadLane(lse, i);
    offset.push_back(arith::NegFOp::create(v.b, sum));
    if (scoreFactor) {
      // A row of which all is masked gives nobody any probability.
      Value lowest = v.splat(-infinity);
      offset.back() =
          v.select(v.compare(arith::CmpFPredicate::OEQ, sum, lowest), lowest,
                   offset.back());
    }
  }
  Value scale = logitScale();
  Value mass = massAt(inSpan);
  v.loop(v.constant(0), tile.count, 1, [&](Value j) {
    Value row = logitsRow(j);
    Value total;
    for (int64_t i = 0; i < active; ++i) {
      Value logit = v.loadLane(row, i);
      Value weight = v.exp2(scale ? v.fma(logit, scale, offset[i])
                                  : v.addf(logit, offset[i]));
      total = total ? v.addf(total, weight) : weight;
    }
    Value to = v.at(mass, v.mul(placeOf(tile, j), 4));
    v.store(v.addf(v.load(v.f32(), to), v.sum(total)), to);
  });
}

/// storeContext for matrix tiles, whose context has a row for each query and
/// channels in the order that packPair gave them.
void KernelLowering::storeContextTiles() {
  int64_t headBytes = channels * elementBytes;
  Value output = v.at(field(v.ptr(), offsetof(abi::AttentionArgs, output)),
                      v.mul(head, headBytes));
  Value stride = v.mul(
      field(v.i64(), offsetof(abi::AttentionArgs, outputStride)), elementBytes);
  Value sums = v.at(scratch, layout.sum);
  Value context = v.at(scratch, layout.context);
  v.loop(v.constant(0), rows.rows, 1, [&](Value r) {
    Value sum = v.load(v.f32(), v.at(sums, v.mul(r, 4)));
    Value zero = v.real(0.0f);
    Value inverse = v.splat(
        v.select(v.compare(arith::CmpFPredicate::OEQ, sum, zero), zero,
                 arith::DivFOp::create(v.b, v.real(1.0f), sum).getResult()));
    Value from = v.at(context, v.mul(r, channels * 4));
    Value to = v.at(output, v.mul(v.add(rows.row, r), stride));
    for (int64_t c = 0; c < channels; c += 32) {
      Value low = v.mulf(v.loadLane(from, c / 16), inverse);
      Value high = v.mulf(v.loadLane(from, c / 16 + 1), inverse);
      auto quads = VectorType::get(8, v.i64());
      Value both = vector::BitCastOp::create(v.b, quads, v.bf16Both(low, high));
      v.store(vector::ShuffleOp::create(
                  v.b, both, both, ArrayRef<int64_t>{0, 4, 1, 5, 2, 6, 3, 7}),
              v.at(to, c * 2), 2);
    }
  });
}

/// Divides by the sums and stores the rows that exist; the others go to
/// scratch.
void KernelLowering::storeContext() {
  if (dot == shed::DotKind::Tiles)
    return storeContextTiles();
  int64_t lanes = v.lanes;
  int64_t headBytes = channels * elementBytes;
  Value output = v.at(field(v.ptr(), offsetof(abi::AttentionArgs, output)),
                      v.mul(head, headBytes));
  Value stride = v.mul(
      field(v.i64(), offsetof(abi::AttentionArgs, outputStride)), elementBytes);
  Value spill = v.at(scratch, layout.spill);
  Value zero = v.splat(0.0f);
  forPanels([&](Value p) {
    Value sumRow = panelBase(layout.sum, layout.rowPanel, p);
    Value context = panelBase(layout.context, layout.contextPanel, p);
    v.loop(panel, lanes, [&](Value lane) {
      Value sum = v.load(v.floats(), v.at(sumRow, v.mul(lane, 4)));
      Value inverse =
          v.select(v.compare(arith::CmpFPredicate::OEQ, sum, zero), zero,
                   arith::DivFOp::create(v.b, v.splat(1.0f), sum).getResult());
      Value first = v.add(v.mul(p, panel), lane);
      Values to;
      for (int64_t r = 0; r < lanes; ++r) {
        Value row = v.add(first, r);
        Value valid = v.compare(arith::CmpIPredicate::slt, row, rows.rows);
        to.push_back(v.select(
            valid, v.at(output, v.mul(v.add(rows.row, row), stride)), spill));
      }
      v.loop(channels, lanes, [&](Value channel) {
        Values square;
        Value from =
            v.at(context, v.add(v.mul(channel, panel * 4), v.mul(lane, 4)));
        for (int64_t c = 0; c < lanes; ++c)
          square.push_back(
              v.mulf(v.load(v.floats(), v.at(from, c * panel * 4)), inverse));
        v.transpose(square);
        for (auto [r, row] : llvm::enumerate(square))
          v.store(bf16 ? v.bf16Bits(row, paired) : row,
                  v.at(to[r], v.mul(channel, elementBytes)), elementBytes);
      });
    });
  });
}

void KernelLowering::storeLse() {
  Value to = v.at(field(v.ptr(), offsetof(abi::AttentionArgs, lse)),
                  v.mul(v.add(v.mul(head, allRows), rows.row), 4));
  Value end = v.splat(v.narrow(rows.rows));
  v.loop(v.constant(0), v.mul(rows.panels, panel), v.lanes, [&](Value lane) {
    Value bytes = v.mul(lane, 4);
    Value index = arith::AddIOp::create(v.b, v.splat(v.narrow(lane)), v.iota());
    Value valid = v.compare(arith::CmpIPredicate::slt, index, end);
    Value sum = v.load(v.floats(), v.at(v.at(scratch, layout.sum), bytes));
    Value maximum =
        v.load(v.floats(), v.at(v.at(scratch, layout.maximum), bytes));
    // A row without keys has maximum -inf and sum 0.
    v.storeMasked(v.addf(maximum, v.log2(sum)), v.at(to, bytes), valid);
  });
}
