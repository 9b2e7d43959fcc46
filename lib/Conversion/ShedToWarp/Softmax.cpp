//===- Softmax.cpp - The online softmax of warpgroups ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionTask.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

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

/// What a lane's part of a row's sum may reach where sums are checked: no
/// weight that is rounded to `element` overflows (f16 holds 65,504), and hardly
/// any tile behind the first one gets there.
static float mostSum(Type element) {
  return element.isBF16() ? 0x1p40f : 0x1p15f;
}

/// A reference that is raised is so by at least this: over many keys a sum gets
/// large where no weight is, and would be found so again in each part. 2^20
/// keys take one such raise, and a weight that is then subnormal in f16 is
/// below 2^-10 of the row's largest.
static constexpr float leastRaise = 4.0f;

static constexpr float infinity = std::numeric_limits<float>::infinity();

/// Puts `none` where a key lies behind the last one, or is skipped.
static Value maskEnd(WarpBuilder &v, const AttentionTask &t, Value all,
                     float none, const TileKeys &keys) {
  Type type = all.getType();
  Value partial = v.compare(CmpIPredicate::slt, keys.left, keys.columns);
  if (keys.skips())
    partial =
        v.either(partial, v.compare(CmpIPredicate::slt,
                                    rangeOf(v, t, keys).first, keys.skipped));
  return v.choose(
      partial, type,
      [&]() -> Values {
        Values inputs = {all};
        if (keys.skips() && keys.isListed())
          inputs.push_back(eachKey(v, t, keys));
        Value other = v.real(none);
        return {
            v.map(type, inputs, [&](ValueRange element, Value, Value column) {
              Value keep = v.compare(CmpIPredicate::slt, column, keys.left);
              if (keys.skips()) {
                Value key =
                    keys.isListed() ? element[1] : v.add(column, keys.first);
                keep = v.both(keep,
                              v.compare(CmpIPredicate::sge, key, keys.skipped));
              }
              return v.select(keep, element[0], other);
            })};
      },
      [&]() -> Values { return {all}; })[0];
}

static Value scale(WarpBuilder &v, Value fragment, Value rows) {
  return v.map(fragment.getType(), {fragment, rows},
               [&](ValueRange element, Value, Value) {
                 return v.mulf(element[0], element[1]);
               });
}

/// What sums are to be multiplied by where weights become relative to `after`.
static Value ratioOf(WarpBuilder &v, Value before, Value after) {
  return v.map(v.fragment(1), {before, after},
               [&](ValueRange element, Value, Value) -> Value {
                 return math::Exp2Op::create(v.b,
                                             v.subf(element[0], element[1]));
               });
}

/// The largest logit of each row, in all of its lanes.
static Value topOf(WarpBuilder &v, Value logits, Value factor) {
  Value top =
      v.combine(warp::Combine::Max, v.reduce(warp::Combine::Max, logits));
  return v.map(v.fragment(1), top, [&](ValueRange element, Value, Value) {
    return v.mulf(element[0], factor);
  });
}

/// Raises the maxima to `top`, where a row of the warp has fallen behind too
/// far.
static RunningSoftmax rescale(WarpBuilder &v, RunningSoftmax state, Value top) {
  Value behind = v.map(v.fragment(1, v.i1()), {top, state.maximum},
                       [&](ValueRange element, Value, Value) {
                         return v.compare(CmpFPredicate::OGT, element[0],
                                          v.addf(element[1], v.real(slack)));
                       });
  Value far = warp::AnyOp::create(v.b, v.i1(), behind, /*warpgroup=*/false);
  Values before = state.get();
  Values after = v.choose(
      far, TypeRange(ValueRange(before)),
      [&]() -> Values {
        // Only those rows, so that a row's bits do not depend on the others.
        auto maximum =
            v.map(v.fragment(1), {behind, top, state.maximum},
                  [&](ValueRange element, Value, Value) {
                    return v.select(element[0], element[1], element[2]);
                  });
        Value ratio = ratioOf(v, state.maximum, maximum);
        return {scale(v, state.context, ratio), maximum,
                scale(v, state.sum, ratio)};
      },
      [&] { return before; });
  return RunningSoftmax(after);
}

/// The weights of logits, relative to a maximum.
static Value weigh(WarpBuilder &v, Value logits, Value factor, Value maximum) {
  return v.map(logits.getType(), {logits, maximum},
               [&](ValueRange element, Value, Value) -> Value {
                 return math::Exp2Op::create(
                     v.b, math::FmaOp::create(v.b, element[0], factor,
                                              v.negf(element[1])));
               });
}

/// The maxima to begin with. Rows that have met no key take those of their
/// first ones: sums would find the same, but weigh these for it.
static Value beginMaximum(WarpBuilder &v, const RunningSoftmax &state,
                          Value logits, Value factor) {
  return v.choose(
      state.empty, state.maximum.getType(),
      [&]() -> Values {
        Value top = topOf(v, logits, factor);
        return {
            v.map(v.fragment(1), top, [&](ValueRange element, Value, Value) {
              return v.maxf(element[0],
                            v.real(std::numeric_limits<float>::lowest()));
            })};
      },
      [&]() -> Values { return {state.maximum}; })[0];
}

/// The weights of a part of a tile, relative to maxima of parts before, and
/// sums with them. Where a row's sum gets too large, its maximum is raised to
/// the part's or further, all that is summed so far is scaled and the part
/// weighed anew. `context`: products of the parts before, perhaps on their way.
static Value weighBySums(WarpBuilder &v, const AttentionTask &t, Value logits,
                         Value factor, RunningSoftmax &state, Value &context) {
  const float most = mostSum(t.element);
  auto isTooLarge = [&](Value sum) {
    return v.map(
        v.fragment(1, v.i1()), sum, [&](ValueRange element, Value, Value) {
          return v.compare(CmpFPredicate::OGT, element[0], v.real(most));
        });
  };
  Value weights = weigh(v, logits, factor, state.maximum);
  Value sum = v.reduce(warp::Combine::Add, weights, state.sum);
  // Products on their way are all warps' to wait for.
  const bool flies = isa<warp::FlyingType>(context.getType());
  Value large = warp::AnyOp::create(v.b, v.i1(), isTooLarge(sum), flies);
  Values before = {context, state.maximum, sum, weights};
  Values after = v.choose(
      large, TypeRange(ValueRange(before)),
      [&]() -> Values {
        Value sums = flies ? v.wait(context) : context;
        // Only those rows, so that a row's bits do not depend on the others.
        Value maximum =
            v.map(v.fragment(1),
                  {isTooLarge(v.combine(warp::Combine::Max, sum)),
                   topOf(v, logits, factor), state.maximum},
                  [&](ValueRange element, Value, Value) {
                    Value least = v.addf(element[2], v.real(leastRaise));
                    return v.select(element[0], v.maxf(element[1], least),
                                    element[2]);
                  });
        Value ratio = ratioOf(v, state.maximum, maximum);
        sums = scale(v, sums, ratio);
        if (flies)
          sums = warp::ResumeOp::create(v.b, context.getType(), context, sums);
        Value again = weigh(v, logits, factor, maximum);
        return {sums, maximum,
                v.reduce(warp::Combine::Add, again, scale(v, state.sum, ratio)),
                again};
      },
      [&] { return before; });
  context = after[0];
  state.maximum = after[1];
  state.sum = after[2];
  return after[3];
}

/// Adds a tile of keys. Source: online normaliser calculation for softmax
/// (Milakov, Gimelshein 2018), with the maximum lagging behind.
static Results update(RewriteBuilder &v, const AttentionTask &t,
                      RunningSoftmax state, const LogitParts &logits,
                      Value values, const TileKeys &keys) {
  // Whole tiles of a list, with a tail after them, have nothing to mask.
  const bool endMasked =
      (t.hasWholeTiles() || matchPattern(logits.masked, m_One())) &&
      !keys.skips();
  const bool checksSums = t.tiling.getCheckSums();
  Value whole = logits.parts[0];
  if (!t.bounded) {
    if (!endMasked)
      whole = maskEnd(v, t, whole, -infinity, keys);
    if (!checksSums)
      state = rescale(v, state, topOf(v, whole, logits.factor));
  }

  // The products of a part run while the exponentials of the next are computed,
  // and its functions of logits where no maximum asks for all of them before.
  const int64_t columns = t.tileKeys / t.tileParts;
  Value sums = state.context;
  for (int64_t i = 0; i < t.tileParts; ++i) {
    Value part =
        t.bounded ? logits.parts[i] : v.slice(whole, i * columns, columns);
    Value weights;
    if (t.bounded) {
      v.behind({part, logits.factor, values, sums, keys.left});
      const TileKeys own = keys.part(v, i * columns, columns);
      weights = v.map(
          part.getType(), part, [&](ValueRange element, Value, Value) -> Value {
            return math::Exp2Op::create(v.b, v.mulf(element[0], logits.factor));
          });
      // Behind the exponentials, so that these run among what leads to them.
      if (!endMasked)
        weights = maskEnd(v, t, weights, 0.0f, own);
    } else if (checksSums) {
      if (!i)
        state.maximum = beginMaximum(v, state, part, logits.factor);
      weights = weighBySums(v, t, part, logits.factor, state, sums);
    } else {
      weights = weigh(v, part, logits.factor, state.maximum);
    }
    if (!checksSums)
      state.sum = v.reduce(warp::Combine::Add, weights, state.sum);
    Value rounded =
        warp::RoundOp::create(v.b, v.fragment(columns, t.element), weights);
    sums = v.multiply(rounded, values, sums, false, i * columns);
  }
  state.context = v.wait(sums);
  if (checksSums)
    state.empty = v.bit(false);
  return {state.get()};
}

/// The sums of all shares, in their order, of the columns from `from` on. A
/// share without keys has sum 0 and the lowest maximum.
static RunningSoftmax mergeShares(WarpBuilder &v, const AttentionTask &t,
                                  Value space, int64_t columns, Value from) {
  const int64_t columnBytes = warp::warpgroupRows * 4 * 4;
  auto column = [&](Value block, int64_t offset) {
    return warp::GetOp::create(v.b, v.fragment(1), v.add(space, offset), block,
                               v.word(0));
  };
  // What more shares have, read at once, takes registers that are not there.
  const int64_t shares = t.tiling.getKeyShares(),
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
/// `state`: of the columns from `from` on, whose sum is of all of a row.
static void finish(WarpBuilder &v, const AttentionTask &t,
                   const RunningSoftmax &state, Value from, Value lseEnd) {
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
      v.b, v.at(t.outputBase, v.widen(v.mul(from, 2))), t.firstRow,
      t.outputStride, t.taskEnd,
      warp::RoundOp::create(v.b, v.fragment(type.getColumns(), t.element),
                            output),
      t.batch, t.batchStride(v.constant(t.channels * 2)), t.batchRows(v),
      t.inTurns(v));
  if (!t.writesLse)
    return;
  // A row without keys has sum 0: -inf.
  Value lse =
      v.map(v.fragment(1), {state.maximum, state.sum},
            [&](ValueRange element, Value, Value) -> Value {
              return v.addf(element[0], math::Log2Op::create(v.b, element[1]));
            });
  warp::StoreColumnOp::create(v.b, lse, t.lseBase, t.firstRow, lseEnd, Value(),
                              t.batch, t.batchStride(v.mul(v.widen(t.rows), 4)),
                              t.batchRows(v), t.inTurns(v));
}

/// Stores what this block found, or its part of what its cluster did.
static Results store(RewriteBuilder &v, const AttentionTask &t,
                     RunningSoftmax all) {
  all.sum = v.combine(warp::Combine::Add, all.sum);
  if (!t.share) {
    finish(v, t, all, v.word(0), t.taskEnd);
    return {};
  }
  // Each of the first blocks finishes some columns of all rows.
  const int64_t shares = t.tiling.getKeyShares();
  const int64_t writers = std::min(shares, t.channels / 32);
  const int64_t columns = t.channels / writers;
  // A group's context, maxima and sums.
  const int64_t bytes = warp::warpgroupRows * (t.channels + 4 + 4) * 4;
  Value space =
      warp::SpaceOp::create(v.b, v.i32(), t.tiling.getConsumers() * bytes,
                            /*over_tiles=*/true, IntegerAttr());
  space = v.add(space, v.mul(warp::WarpgroupOp::create(v.b), bytes));
  warp::PutOp::create(v.b, all.maximum, space);
  const int64_t columnBytes = warp::warpgroupRows * 4 * 4;
  warp::PutOp::create(v.b, all.sum, v.add(space, columnBytes));
  warp::PutOp::create(v.b, all.context, v.add(space, 2 * columnBytes));
  warp::MeetClusterOp::create(v.b);
  v.when(v.compare(CmpIPredicate::slt, t.share, writers), [&] {
    Value from = v.mul(t.share, columns);
    Value isFirst = v.compare(CmpIPredicate::eq, t.share, int64_t(0));
    finish(v, t, mergeShares(v, t, space, columns, from), from,
           v.select(isFirst, t.taskEnd, v.word(0)));
  });
  warp::MeetClusterOp::create(v.b);
  return {};
}

void mlir::heddle::populateSoftmaxPatterns(WarpPatterns patterns,
                                           const AttentionTask &t) {
  patterns.add<shed::SoftmaxInitOp>([&](RewriteBuilder &v, auto, auto) {
    // Not -inf, so that a row that has met no key yet has differences, too: its
    // masked logits, -inf, still give no weight.
    const float first = t.bounded ? 0.0f : std::numeric_limits<float>::lowest();
    Values state = {v.splat(t.channels, 0.0f), v.splat(1, first),
                    v.splat(1, 0.0f)};
    if (t.tiling.getCheckSums())
      state.push_back(v.bit(true));
    return Results{state};
  });
  patterns.add<shed::SoftmaxUpdateOp>([&](RewriteBuilder &v, auto, auto in) {
    return update(v, t, RunningSoftmax(in.getState()),
                  LogitParts(in.getLogits()), in.getValues()[0],
                  TileKeys(in.getValues(), t.tileKeys));
  });
  patterns.add<shed::StoreOp>([&](RewriteBuilder &v, auto, auto in) {
    return store(v, t, RunningSoftmax(in.getState()));
  });
}
