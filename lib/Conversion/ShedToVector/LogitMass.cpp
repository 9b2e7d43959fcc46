//===- LogitMass.cpp - Scores keys by mean logits -------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The sum of a group's logits for a key is the product of the key with the sum
// of the group's queries: one product a key, however many rows there are. So
// vectors run along channels, and all is f32.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::vectors;

/// `lanes` channels of a row of Q or K from channel `channel` on.
static Value channelsOfRow(KernelBuilder &v, Value row, Value channel) {
  Value at = v.at(row, v.mul(channel, v.k.elementBytes));
  if (!v.k.bf16)
    return v.load(v.floats(), at);
  auto words = VectorType::get(v.lanes, v.b.getI16Type());
  return v.lowHalf(arith::ExtUIOp::create(v.b, v.ints(), v.load(words, at, 2)));
}

/// The sum of the task's queries of the head at hand, scaled, to `to`.
static void sumQueries(KernelBuilder &v, Value to) {
  Value scale = v.splat(v.field(&SelectArgs::scale));
  v.loop(v.constant(0), v.constant(v.k.channels), v.lanes, [&](Value channel) {
    Value sum = v.loop(
        v.k.taskRow, v.k.taskEnd, 1, v.splat(0.0f),
        [&](Value row, ValueRange sums) {
          Value from = v.at(v.here.queryBase, v.mul(row, v.k.queryStride));
          return Values{v.addf(sums[0], channelsOfRow(v, from, channel))};
        })[0];
    v.store(v.mulf(sum, scale), v.at(to, v.mul(channel, 4)));
  });
}

/// Adds the logits of the task's rows and heads to the mass of keys.
static Results lowerLogitMass(Lowering<shed::LogitMassOp> &v) {
  const VectorKernel &k = v.k;
  Value mass = v.in.getMass().front(), query = v.inScratch(k.layout.queries);
  auto massOf = [&](Value key) { return v.at(mass, v.mul(key, 4)); };
  Value first = v.mul(k.listRow, k.headsPerList);
  v.loop(first, v.add(first, k.headsPerList), 1, [&](Value which) {
    setHead(v, which);
    sumQueries(v, query);
    v.each(k.n, [&](Value key) {
      Value row = v.at(v.here.keyBase, v.mul(key, k.keyStride));
      Value products = v.loop(
          v.constant(0), v.constant(k.channels), v.lanes, v.splat(0.0f),
          [&](Value channel, ValueRange sums) {
            Value left = v.load(v.floats(), v.at(query, v.mul(channel, 4)));
            return Values{v.fma(left, channelsOfRow(v, row, channel), sums[0])};
          })[0];
      v.store(v.addf(v.load(v.f32(), massOf(key)), v.sum(products)),
              massOf(key));
    });
  });
  return {{mass}};
}

void vectors::populateLogitPatterns(const VectorPatterns &patterns) {
  patterns.add(lowerLogitMass);
}
