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

#include "Lowering.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::vectors;

static constexpr float slack = 8.0f;
static constexpr float infinity = std::numeric_limits<float>::infinity();

static void initSoftmax(KernelBuilder &v, const Softmax &state) {
  const VectorKernel &k = v.k;
  Value lowest = v.splat(-infinity), zero = v.splat(0.0f);
  v.forPanels([&](Value p) {
    Value maximum = v.ofPanel(state.maximum, k.layout.rowPanel, p);
    Value sum = v.ofPanel(state.sum, k.layout.rowPanel, p);
    for (int64_t i = 0; i < k.vectors; ++i) {
      v.storeLane(lowest, maximum, i);
      v.storeLane(zero, sum, i);
    }
    Value context = v.ofPanel(state.context, k.layout.contextPanel, p);
    v.loop(k.channels * k.vectors, 4, [&](Value i) {
      for (int64_t j = 0; j < 4; ++j)
        v.storeLane(zero, v.at(context, v.mul(i, v.lanes * 4)), j);
    });
  });
}

/// Logits of the padding behind the tile's last key give no weight.
static void padLogits(KernelBuilder &v, const LogitTile &logits) {
  Value lowest = v.splat(-infinity);
  v.loop(logits.count, logits.padded, 1, [&](Value j) {
    for (int64_t i = 0; i < v.here.active; ++i)
      v.storeLane(lowest, v.logitsRow(logits.base, j), i);
  });
}

Value vectors::logitScale(KernelBuilder &v, const LogitTile &logits) {
  return logits.isScaled() ? v.splat(logits.scale) : Value();
}

/// Multiplies the context of each row of a panel with its ratio.
static void scaleContext(KernelBuilder &v, Value all, ArrayRef<Value> ratio) {
  const VectorKernel &k = v.k;
  Value context = v.ofPanel(all, k.layout.contextPanel);
  if (!k.tiles)
    return v.loop(k.channels, 1, [&](Value c) {
      Value row = v.at(context, v.mul(c, k.panel * 4));
      for (int64_t i = 0; i < v.here.active; ++i)
        v.storeLane(v.mulf(v.loadLane(row, i), ratio[i]), row, i);
    });
  // Rows of channels: their ratios go through memory that the weights take
  // next.
  Value ratios = v.inScratch(k.layout.weights);
  for (int64_t i = 0; i < v.here.active; ++i)
    v.storeLane(ratio[i], ratios, i);
  v.loop(v.here.active * v.lanes, 1, [&](Value r) {
    Value row = v.at(context, v.mul(r, k.channels * 4));
    Value scale = v.splat(v.load(v.f32(), v.at(ratios, v.mul(r, 4))));
    for (int64_t i = 0; i < k.channels / v.lanes; ++i)
      v.storeLane(v.mulf(v.loadLane(row, i), scale), row, i);
  });
}

/// Makes weights of the logits. `keys`: of the tile, for matrix tiles.
static void updateSoftmax(KernelBuilder &v, const Softmax &state,
                          const LogitTile &logits, const Keys &keys) {
  const VectorKernel &k = v.k;
  padLogits(v, logits);
  Value maximumRow = v.ofPanel(state.maximum, k.layout.rowPanel);
  Value sumRow = v.ofPanel(state.sum, k.layout.rowPanel);
  Value lowest = v.splat(-infinity);
  Value scale = logitScale(v, logits);

  // Two keys a step: two independent chains of maxima for each vector.
  Values tileMaximum = v.loop(
      v.constant(0), logits.padded, 2, Values(2 * v.here.active, lowest),
      [&](Value j, ValueRange carried) {
        Values next;
        Value row = v.logitsRow(logits.base, j);
        for (int64_t key = 0; key < 2; ++key)
          for (int64_t i = 0; i < v.here.active; ++i)
            next.push_back(v.maxf(v.loadLane(v.at(row, key * k.panel * 4), i),
                                  carried[key * v.here.active + i]));
        return next;
      });

  Value exceeds;
  Values greater, old;
  for (int64_t i = 0; i < v.here.active; ++i) {
    Value top = v.maxf(tileMaximum[i], tileMaximum[v.here.active + i]);
    if (scale)
      top = v.mulf(top, scale);
    Value before = v.loadLane(maximumRow, i);
    Value over = v.compare(Float::OGT, top, v.addf(before, v.splat(slack)));
    exceeds = exceeds ? v.bitOr(exceeds, over) : over;
    greater.push_back(v.maxf(top, before));
    old.push_back(before);
  }
  // A row that has met no key yet keeps -inf; shifting by 0 then leaves its
  // logits at -inf rather than -inf - -inf.
  auto shift = [&](Value maximum) {
    return v.select(v.compare(Float::OEQ, maximum, lowest), v.splat(0.0f),
                    maximum);
  };
  v.when(v.any(exceeds), [&] {
    Values ratio;
    for (int64_t i = 0; i < v.here.active; ++i) {
      ratio.push_back(v.exp2(v.subf(old[i], shift(greater[i]))));
      v.storeLane(greater[i], maximumRow, i);
      v.storeLane(v.mulf(v.loadLane(sumRow, i), ratio[i]), sumRow, i);
    }
    scaleContext(v, state.context, ratio);
  });

  Values offset, sums;
  for (int64_t i = 0; i < v.here.active; ++i) {
    Value shifted = shift(v.loadLane(maximumRow, i));
    offset.push_back(v.negf(shifted));
    sums.push_back(v.loadLane(sumRow, i));
  }
  auto weigh = [&](Value row, int64_t i, Value &sum) {
    Value logit = v.loadLane(row, i);
    Value weight = v.exp2(scale ? v.fma(logit, scale, offset[i])
                                : v.addf(logit, offset[i]));
    sum = v.addf(sum, weight);
    return weight;
  };
  Value weights = v.inScratch(k.layout.weights);
  auto weighRows = [&](Value j, ValueRange carried) {
    Values next(carried);
    Value row = v.logitsRow(logits.base, j), second = v.at(row, k.panel * 4);
    for (int64_t i = 0; i < v.here.active; ++i) {
      Value low = weigh(row, i, next[i]), high = weigh(second, i, next[i]);
      if (k.paired) {
        v.storeLane(v.pairs(low, high, true),
                    v.at(weights, v.mul(j, k.panel * 2)), i);
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
      packAhead(v, keys, i, j, key);
      Value row = v.at(v.logitsRow(logits.base, j), key * k.panel * 4);
      Value low = weigh(row, i, sum);
      Value high = weigh(v.at(row, k.panel * 4), i, sum);
      square.push_back(v.pairs(low, high, true));
    }
    v.transpose(square);
    Value to = v.at(weights, v.mul(j, k.panel * 2));
    for (auto [r, row] : llvm::enumerate(square))
      v.store(row, v.at(to, (i * 16 + r) * 64));
  };
  if (!k.tiles)
    sums = v.loop(v.constant(0), logits.padded, 2, sums, weighRows);
  else
    for (int64_t i = 0; i < v.here.active; ++i)
      sums[i] = v.loop(v.constant(0), logits.padded, 32, sums[i],
                       [&](Value j, ValueRange carried) {
                         Value sum = carried[0];
                         weighSquare(i, j, sum);
                         return Values{sum};
                       })[0];
  for (int64_t i = 0; i < v.here.active; ++i)
    v.storeLane(sums[i], sumRow, i);
}

/// storeContext for matrix tiles, whose context has a row for each query and
/// channels in the order that packPair gave them.
static void storeContextTiles(KernelBuilder &v, const Softmax &state,
                              Value output, Value stride) {
  const VectorKernel &k = v.k;
  Value sums = v.inScratch(state.sum), context = v.inScratch(state.context);
  v.each(v.here.rows, [&](Value r) {
    Value sum = v.load(v.f32(), v.at(sums, v.mul(r, 4)));
    Value zero = v.real(0.0f);
    Value inverse = v.splat(v.select(v.compare(Float::OEQ, sum, zero), zero,
                                     v.divf(v.real(1.0f), sum)));
    Value from = v.at(context, v.mul(r, k.channels * 4));
    Value to = v.at(output, v.mul(v.add(v.here.row, r), stride));
    for (int64_t c = 0; c < k.channels; c += 32) {
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
static void storeContext(KernelBuilder &v, const Softmax &state, Value output,
                         Value stride) {
  const VectorKernel &k = v.k;
  int64_t lanes = v.lanes;
  Value spill = v.inScratch(k.layout.spill);
  Value zero = v.splat(0.0f);
  v.forPanels([&](Value p) {
    Value sumRow = v.ofPanel(state.sum, k.layout.rowPanel, p);
    Value context = v.ofPanel(state.context, k.layout.contextPanel, p);
    v.loop(k.panel, lanes, [&](Value lane) {
      Value sum = v.load(v.floats(), v.at(sumRow, v.mul(lane, 4)));
      Value inverse = v.select(v.compare(Float::OEQ, sum, zero), zero,
                               v.divf(v.splat(1.0f), sum));
      Value first = v.add(v.mul(p, k.panel), lane);
      Values to;
      for (int64_t r = 0; r < lanes; ++r) {
        Value row = v.add(first, r);
        Value valid = v.compare(Int::slt, row, v.here.rows);
        to.push_back(v.select(
            valid, v.at(output, v.mul(v.add(v.here.row, row), stride)), spill));
      }
      v.loop(k.channels, lanes, [&](Value channel) {
        Values square;
        Value from =
            v.at(context, v.add(v.mul(channel, k.panel * 4), v.mul(lane, 4)));
        for (int64_t c = 0; c < lanes; ++c)
          square.push_back(
              v.mulf(v.load(v.floats(), v.at(from, c * k.panel * 4)), inverse));
        v.transpose(square);
        for (auto [r, row] : llvm::enumerate(square))
          v.store(k.bf16 ? v.bf16Bits(row, k.paired) : row,
                  v.at(to[r], v.mul(channel, k.elementBytes)), k.elementBytes);
      });
    });
  });
}

static void storeLse(KernelBuilder &v, const Softmax &state) {
  const VectorKernel &k = v.k;
  Value to = v.at(v.field(&AttentionArgs::lse),
                  v.mul(v.add(v.mul(v.here.head, k.allRows), v.here.row), 4));
  Value end = v.splat(v.narrow(v.here.rows));
  v.loop(v.constant(0), v.mul(v.here.panels, k.panel), v.lanes,
         [&](Value lane) {
           Value bytes = v.mul(lane, 4);
           Value index = v.add(v.splat(v.narrow(lane)), v.iota());
           Value valid = v.compare(Int::slt, index, end);
           Value sum = v.load(v.floats(), v.at(v.inScratch(state.sum), bytes));
           Value maximum =
               v.load(v.floats(), v.at(v.inScratch(state.maximum), bytes));
           // A row without keys has maximum -inf and sum 0.
           v.storeMasked(v.addf(maximum, v.log2(sum)), v.at(to, bytes), valid);
         });
}

static Results lowerSoftmaxInit(Lowering<shed::SoftmaxInitOp> &v) {
  const ScratchLayout &layout = v.k.layout;
  const Softmax state{v.constant(layout.maximum), v.constant(layout.sum),
                      v.constant(layout.context)};
  initSoftmax(v, state);
  return {pack(state)};
}

static Results lowerSoftmaxUpdate(Lowering<shed::SoftmaxUpdateOp> &v) {
  const auto state = unpack<Softmax>(v.in.getState());
  const auto logits = unpack<LogitTile>(v.in.getLogits());
  const auto values = unpack<KeyTile>(v.in.getValues());
  updateSoftmax(v, state, logits, values.keys);
  addToContext(v, state.context, logits, values);
  return {pack(state)};
}

static Results lowerStore(Lowering<shed::StoreOp> &v) {
  const VectorKernel &k = v.k;
  const auto state = unpack<Softmax>(v.in.getState());
  Value output = v.at(v.field(&AttentionArgs::output),
                      v.mul(v.here.head, k.channels * k.elementBytes));
  Value stride = v.mul(v.field(&AttentionArgs::outputStride), k.elementBytes);
  (k.tiles ? storeContextTiles : storeContext)(v, state, output, stride);
  if (k.writesLse)
    storeLse(v, state);
  return {};
}

void vectors::populateSoftmaxPatterns(const VectorPatterns &patterns) {
  patterns.add(lowerSoftmaxInit);
  patterns.add(lowerSoftmaxUpdate);
  patterns.add(lowerStore);
}
