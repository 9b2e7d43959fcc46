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

#include "bundle/Abi.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

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

/// Row indices of vector `lane` of a panel.
Value KernelLowering::rowIndices(Value p, int64_t lane) {
  Value first = v.add(v.add(rows.row, v.mul(p, panel)), lane * v.lanes);
  return arith::AddIOp::create(v.b, v.splat(v.narrow(first)), v.iota());
}

void KernelLowering::mask(shed::MaskOp op, const KeyTile &tile, Value p) {
  Value lowest = v.splat(-infinity);
  // |i - j| <= h is one unsigned comparison: i - j + h <= 2h.
  struct Band {
    Values shifted; ///< i + h
    Value width;    ///< 2h
    bool inside;
  };
  SmallVector<Band> bands;
  auto addBand = [&](shed::WindowAttr window, bool inside) {
    // No sequence is as long as a window of 2^30 keys.
    int64_t half = std::min<int64_t>(window.getSize() / 2, 1 << 29);
    Band band{{}, v.splat(v.integer(v.i32(), 2 * half)), inside};
    for (int64_t i = 0; i < vectors; ++i)
      band.shifted.push_back(arith::AddIOp::create(
          v.b, rowIndices(p, i), v.splat(v.integer(v.i32(), half))));
    bands.push_back(band);
  };
  if (op.getWithin())
    addBand(*op.getWithin(), true);
  for (auto window : op.getOutside().getAsRange<shed::WindowAttr>())
    addBand(window, false);
  v.loop(v.constant(0), tile.count, 1, [&](Value j) {
    Value row = logitsRow(j);
    Value key = v.splat(v.narrow(position(tile, j)));
    for (int64_t i = 0; i < vectors; ++i) {
      Value logit = v.loadLane(row, i);
      for (const Band &band : bands) {
        Value distance = arith::SubIOp::create(v.b, band.shifted[i], key);
        Value drop = v.compare(band.inside ? arith::CmpIPredicate::ugt
                                           : arith::CmpIPredicate::ule,
                               distance, band.width);
        logit = v.select(drop, lowest, logit);
      }
      v.storeLane(logit, row, i);
    }
  });
}

/// Logits of the padding behind the tile's last key give no weight.
void KernelLowering::padLogits(const KeyTile &tile) {
  Value lowest = v.splat(-infinity);
  v.loop(tile.count, tile.padded, 1, [&](Value j) {
    for (int64_t i = 0; i < vectors; ++i)
      v.storeLane(lowest, logitsRow(j), i);
  });
}

void KernelLowering::updateSoftmax(const KeyTile &tile, Value p) {
  padLogits(tile);
  Value maximumRow = panelBase(layout.maximum, layout.rowPanel, p);
  Value sumRow = panelBase(layout.sum, layout.rowPanel, p);
  Value lowest = v.splat(-infinity);
  Value scale = paired ? v.splat(factor) : Value();

  // Two keys a step: two independent chains of maxima for each vector.
  Values tileMaximum = v.loop(
      v.constant(0), tile.padded, 2, Values(2 * vectors, lowest),
      [&](Value j, ValueRange carried) {
        Values next;
        Value row = logitsRow(j);
        for (int64_t key = 0; key < 2; ++key)
          for (int64_t i = 0; i < vectors; ++i)
            next.push_back(v.maxf(v.loadLane(v.at(row, key * panel * 4), i),
                                  carried[key * vectors + i]));
        return next;
      });

  Value exceeds;
  Values greater, old;
  for (int64_t i = 0; i < vectors; ++i) {
    Value top = v.maxf(tileMaximum[i], tileMaximum[vectors + i]);
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
    for (int64_t i = 0; i < vectors; ++i) {
      ratio.push_back(v.exp2(v.subf(old[i], shift(greater[i]))));
      v.storeLane(greater[i], maximumRow, i);
      v.storeLane(v.mulf(v.loadLane(sumRow, i), ratio[i]), sumRow, i);
    }
    Value context = panelBase(layout.context, layout.contextPanel, p);
    v.loop(channels, 1, [&](Value c) {
      Value row = v.at(context, v.mul(c, panel * 4));
      for (int64_t i = 0; i < vectors; ++i)
        v.storeLane(v.mulf(v.loadLane(row, i), ratio[i]), row, i);
    });
  });

  Values offset, sums;
  for (int64_t i = 0; i < vectors; ++i) {
    Value shifted = shift(v.loadLane(maximumRow, i));
    offset.push_back(arith::NegFOp::create(v.b, shifted));
    sums.push_back(v.loadLane(sumRow, i));
  }
  sums = v.loop(
      v.constant(0), tile.padded, 2, sums, [&](Value j, ValueRange carried) {
        Values next(carried);
        Value row = logitsRow(j);
        Value weightRow =
            v.at(scratch, v.add(v.mul(j, panel * 2), layout.weights));
        for (int64_t i = 0; i < vectors; ++i) {
          Value weight[2];
          for (int64_t key = 0; key < 2; ++key) {
            Value from = v.at(row, key * panel * 4);
            Value logit = v.loadLane(from, i);
            weight[key] = v.exp2(scale ? v.fma(logit, scale, offset[i])
                                       : v.addf(logit, offset[i]));
            next[i] = v.addf(next[i], weight[key]);
            if (!paired)
              v.storeLane(weight[key], from, i);
          }
          if (paired)
            v.storeLane(v.pairs(weight[0], weight[1], true), weightRow, i);
        }
        return next;
      });
  for (int64_t i = 0; i < vectors; ++i)
    v.storeLane(sums[i], sumRow, i);
}

/// mass[j] += sum over the panel's rows of exp2(logit - lse).
void KernelLowering::columnMass(const KeyTile &tile, Value p) {
  Value lse = panelBase(layout.lse, layout.rowPanel, p);
  Values offset;
  for (int64_t i = 0; i < vectors; ++i)
    offset.push_back(arith::NegFOp::create(v.b, v.loadLane(lse, i)));
  Value scale = paired ? v.splat(factor) : Value();
  Value mass = v.at(v.at(scratch, layout.bytes), v.mul(n, layout.mass));
  v.loop(v.constant(0), tile.count, 1, [&](Value j) {
    Value row = logitsRow(j);
    Value total;
    for (int64_t i = 0; i < vectors; ++i) {
      Value logit = v.loadLane(row, i);
      Value weight = v.exp2(scale ? v.fma(logit, scale, offset[i])
                                  : v.addf(logit, offset[i]));
      total = total ? v.addf(total, weight) : weight;
    }
    Value to = v.at(mass, v.mul(position(tile, j), 4));
    v.store(v.addf(v.load(v.f32(), to), v.sum(total)), to);
  });
}

/// Divides by the sums and stores the rows that exist; the others go to
/// scratch.
void KernelLowering::storeContext() {
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
                  v.mul(v.add(v.mul(head, n), rows.row), 4));
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
