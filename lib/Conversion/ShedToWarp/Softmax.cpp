//===- Softmax.cpp - The online softmax of warpgroups ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionWriter.h"

#include "heddle/Conversion/ScoreLowering.h"
#include "heddle/Support/ScoreRegion.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <limits>

using namespace mlir;
using namespace mlir::heddle;
using arith::CmpFPredicate;
using arith::CmpIPredicate;

using Values = NVVMBuilder::Values;

/// How far the reference maximum of a row may lag behind its true one: weights
/// then reach 2^slack, which changes no relative error and saves most
/// rescalings.
static constexpr float slack = 8.0f;

static constexpr float infinity = std::numeric_limits<float>::infinity();

/// What the function in front of a softmax gives, if there is one.
static std::optional<mlir::heddle::ScoreBounds> boundsBefore(Value logits) {
  while (auto mask = logits.getDefiningOp<shed::MaskOp>())
    logits = mask.getLogits();
  auto scores = logits.getDefiningOp<shed::ScoresOp>();
  if (!scores)
    return std::nullopt;
  return mlir::heddle::boundsOf(mlir::heddle::scoresOf(scores.getBody()));
}

bool mlir::heddle::boundsLogits(shed::KernelOp kernel) {
  // Sums of 2^31 weights times values up to 2^16 are below 2^127, still.
  constexpr double log2e = 1.4426950408889634, most = 80 / log2e;
  if (!kernel.getElement().isBF16())
    return false;
  return !kernel
              .walk([&](shed::SoftmaxUpdateOp op) {
                std::optional<ScoreBounds> bounds =
                    boundsBefore(op.getLogits());
                return bounds && bounds->low >= -most && bounds->high <= most
                           ? WalkResult::advance()
                           : WalkResult::interrupt();
              })
              .wasInterrupted();
}

/// Adds a tile of keys. Source: online normaliser calculation for softmax
/// (Milakov, Gimelshein 2018), with the maximum lagging behind.
RunningSoftmax AttentionWriter::update(RunningSoftmax state, Value value,
                                       Value values, const KeyPass &pass,
                                       const TileKeys &keys) {
  auto isMasked = [&](const Logits &logits) {
    return logits.endMasked && !pass.skipped;
  };
  Logits all;
  if (!bounded) {
    all = logitsOf(value, pass, keys);
    if (!isMasked(all))
      all.fragment = maskEnd(all.fragment, -infinity, pass, keys);
    Value top = v.combine(warp::Combine::Max,
                          v.reduce(warp::Combine::Max, all.fragment));
    top = v.map(v.fragment(1), top, [&](ValueRange element, Value, Value) {
      return v.mulf(element[0], all.factor);
    });
    state = rescale(state, top);
  }

  // The products of a part run while the exponentials of the next are computed,
  // and its functions of logits where no maximum asks for all of them before.
  const int64_t columns = tiling.getKeys() / tiling.getParts();
  Value sums = state.context;
  for (int64_t from = 0; from < tiling.getKeys(); from += columns) {
    TileKeys part = keys;
    Logits some = all;
    Values inputs;
    if (bounded) {
      part = partOf(keys, from, columns);
      some = logitsOf(value, pass, part);
      inputs = {some.fragment};
    } else {
      inputs = {v.slice(some.fragment, from, columns), state.maximum};
    }
    Value weights = v.map(
        v.fragment(columns), inputs,
        [&](ValueRange element, Value, Value) -> Value {
          if (bounded)
            return math::Exp2Op::create(v.b, v.mulf(element[0], some.factor));
          return math::Exp2Op::create(
              v.b, math::FmaOp::create(v.b, element[0], some.factor,
                                       v.negf(element[1])));
        });
    // Behind the exponentials, so that these run among what leads to them.
    if (bounded && !isMasked(some))
      weights = maskEnd(weights, 0.0f, pass, part);
    state.sum = warp::ReduceOp::create(v.b, v.fragment(1), warp::Combine::Add,
                                       weights, state.sum);
    Value rounded =
        warp::RoundOp::create(v.b, v.fragment(columns, element), weights);
    sums = v.multiply(rounded, values, sums, false, from);
  }
  state.context = v.wait(sums);
  return state;
}

/// Raises the maxima to `top`, where a row of the warp has fallen behind too
/// far.
RunningSoftmax AttentionWriter::rescale(RunningSoftmax state, Value top) {
  Value behind = v.map(v.fragment(1, v.i1()), {top, state.maximum},
                       [&](ValueRange element, Value, Value) {
                         return v.compare(CmpFPredicate::OGT, element[0],
                                          v.addf(element[1], v.real(slack)));
                       });
  Value far = warp::AnyOp::create(v.b, v.i1(), behind);
  Values before = {state.context, state.maximum, state.sum};
  Values after = v.choose(
      far, TypeRange(ValueRange(before)),
      [&]() -> Values {
        // Only those rows, so that a row's bits do not depend on the others.
        auto maximum =
            v.map(v.fragment(1), {behind, top, state.maximum},
                  [&](ValueRange element, Value, Value) {
                    return v.select(element[0], element[1], element[2]);
                  });
        Value ratio = v.map(v.fragment(1), {state.maximum, maximum},
                            [&](ValueRange element, Value, Value) -> Value {
                              return math::Exp2Op::create(
                                  v.b, v.subf(element[0], element[1]));
                            });
        auto times = [&](ValueRange element, Value, Value) {
          return v.mulf(element[0], element[1]);
        };
        return {v.map(v.fragment(channels), {state.context, ratio}, times),
                maximum, v.map(v.fragment(1), {state.sum, ratio}, times)};
      },
      [&] { return before; });
  return {after[0], after[1], after[2]};
}

/// Stores what this block found, or its part of what its cluster did.
void AttentionWriter::store(const RunningSoftmax &state) {
  RunningSoftmax all = state;
  all.sum = v.combine(warp::Combine::Add, state.sum);
  if (!share) {
    finish(all, v.word(0), taskEnd);
    return;
  }
  // Each of the first blocks finishes some columns of all rows.
  const int64_t shares = tiling.getKeyShares();
  const int64_t writers = std::min(shares, channels / 32);
  const int64_t columns = channels / writers;
  // A group's context, maxima and sums.
  const int64_t bytes = warp::warpgroupRows * (channels + 4 + 4) * 4;
  Value space =
      warp::SpaceOp::create(v.b, v.i32(), tiling.getConsumers() * bytes,
                            /*over_tiles=*/true, IntegerAttr());
  space = v.add(space, v.mul(warp::WarpgroupOp::create(v.b), bytes));
  warp::PutOp::create(v.b, all.maximum, space);
  const int64_t columnBytes = warp::warpgroupRows * 4 * 4;
  warp::PutOp::create(v.b, all.sum, v.add(space, columnBytes));
  warp::PutOp::create(v.b, all.context, v.add(space, 2 * columnBytes));
  warp::MeetClusterOp::create(v.b);
  v.when(v.compare(CmpIPredicate::slt, share, writers), [&] {
    Value from = v.mul(share, columns);
    Value isFirst = v.compare(CmpIPredicate::eq, share, int64_t(0));
    finish(mergeShares(space, columns, from), from,
           v.select(isFirst, taskEnd, v.word(0)));
  });
  warp::MeetClusterOp::create(v.b);
}

/// The sums of all shares, in their order, of the columns from `from` on. A
/// share without keys has sum 0 and the lowest maximum.
RunningSoftmax AttentionWriter::mergeShares(Value space, int64_t columns,
                                            Value from) {
  const int64_t columnBytes = warp::warpgroupRows * 4 * 4;
  auto column = [&](Value block, int64_t offset) {
    return warp::GetOp::create(v.b, v.fragment(1), v.add(space, offset), block,
                               v.word(0));
  };
  // What more shares have, read at once, takes registers that are not there.
  const int64_t shares = tiling.getKeyShares(),
                together = std::min<int64_t>(shares, 4);
  auto overShares = [&](Values state, auto body) -> Values {
    auto some = [&](Value first, ValueRange before) {
      Values after(before);
      for (int64_t i = 0; i < together; ++i)
        after = body(v.add(first, i), after);
      return after;
    };
    if (shares == together)
      return some(v.word(0), state);
    return v.loop(v.word(0), v.word(shares), together, state, some);
  };
  auto larger = [&](ValueRange element, Value, Value) {
    return v.maxf(element[0], element[1]);
  };
  auto add = [&](ValueRange element, Value, Value) -> Value {
    return math::FmaOp::create(v.b, element[1], element[2], element[0]);
  };
  RunningSoftmax all;
  all.maximum = overShares(
      {v.splat(1, std::numeric_limits<float>::lowest())},
      [&](Value block, const Values &state) -> Values {
        return {v.map(v.fragment(1), {state[0], column(block, 0)}, larger)};
      })[0];
  Values sums = overShares(
      {v.splat(1, 0.0f), v.splat(columns, 0.0f)},
      [&](Value block, const Values &state) -> Values {
        Value weight = v.map(v.fragment(1), {column(block, 0), all.maximum},
                             [&](ValueRange element, Value, Value) -> Value {
                               return math::Exp2Op::create(
                                   v.b, v.subf(element[0], element[1]));
                             });
        Value context =
            warp::GetOp::create(v.b, v.fragment(columns),
                                v.add(space, 2 * columnBytes), block, from);
        return {v.map(v.fragment(1),
                      {state[0], column(block, columnBytes), weight}, add),
                v.map(v.fragment(columns), {state[1], context, weight}, add)};
      });
  all.sum = sums[0];
  all.context = sums[1];
  return all;
}

/// Divides by the sums and stores, then the log-sum-exp, if the kernel has it.
void AttentionWriter::finish(const RunningSoftmax &state, Value from,
                             Value lseEnd) {
  Value inverse =
      v.map(v.fragment(1), state.sum, [&](ValueRange element, Value, Value) {
        Value none = v.compare(CmpFPredicate::OEQ, element[0], v.real(0.0f));
        return v.select(none, v.real(0.0f), v.divf(v.real(1.0f), element[0]));
      });
  auto type = cast<warp::FragmentType>(state.context.getType());
  Value output = v.map(type, {state.context, inverse},
                       [&](ValueRange element, Value, Value) {
                         return v.mulf(element[0], element[1]);
                       });
  warp::StoreOp::create(
      v.b, v.at(outputBase, v.widen(v.mul(from, 2))), firstRow, outputStride,
      taskEnd,
      warp::RoundOp::create(v.b, v.fragment(type.getColumns(), element),
                            output),
      batch, batchStride(v.constant(channels * 2)), batchRows(), inTurns());
  if (!kernel.getWritesLse())
    return;
  // A row without keys has sum 0: -inf.
  Value lse =
      v.map(v.fragment(1), {state.maximum, state.sum},
            [&](ValueRange element, Value, Value) -> Value {
              return v.addf(element[0], math::Log2Op::create(v.b, element[1]));
            });
  warp::StoreColumnOp::create(v.b, lse, lseBase, firstRow, lseEnd, Value(),
                              batch, batchStride(v.mul(v.widen(rows), 4)),
                              batchRows(), inTurns());
}
