//===- Logits.cpp - Products, functions of them and masks -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A part of a tile is worked on behind what it was before, each by itself.
//
//===----------------------------------------------------------------------===//

#include "AttentionTask.h"

#include "heddle/Conversion/ScoreLowering.h"
#include "heddle/Support/ScoreRegion.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <limits>

using namespace mlir;
using namespace mlir::heddle;
using arith::CmpIPredicate;

using Values = NVVMBuilder::Values;

static constexpr float log2e = 1.44269504088896341f,
                       ln2 = 0.693147180559945309f;

namespace {
/// Ops of arith and math for one element: the lowering of maps chooses the
/// machine's instructions for them.
class MapScores final : public ScoreTarget {
public:
  explicit MapScores(ImplicitLocOpBuilder &b) : b(b) {}

  ImplicitLocOpBuilder &builder() override { return b; }
  Value real(float value) override {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(value));
  }
  Value integer(int32_t value) override {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(value));
  }
  Value bit(bool value) override {
    return arith::ConstantOp::create(b, b.getBoolAttr(value));
  }
  Value exp2(Value x) override { return math::Exp2Op::create(b, x); }
  Value log2(Value x) override { return math::Log2Op::create(b, x); }
  Value sqrt(Value x) override { return math::SqrtOp::create(b, x); }
  Value absf(Value x) override { return math::AbsFOp::create(b, x); }
  Value fma(Value x, Value y, Value z) override {
    return math::FmaOp::create(b, x, y, z);
  }
  Value tanh(Value x) override { return math::TanhOp::create(b, x); }

private:
  ImplicitLocOpBuilder &b;
};
} // namespace

/// What `body` makes of each element of `inputs`, given where its key stands
/// in the sequence.
static Value mapKeys(WarpBuilder &v, const AttentionTask &t,
                     const TileKeys &keys, Type type, ValueRange inputs,
                     function_ref<Value(ValueRange elements, Value key)> body) {
  // `each`: the key's position; null where the tile has consecutive keys, each
  // at the position of its number.
  auto mapped = [&](Value each) -> Values {
    Values all(inputs);
    if (each)
      all.push_back(each);
    return {v.map(type, all, [&](ValueRange element, Value, Value column) {
      return body(element.take_front(inputs.size()),
                  each ? element.back() : v.add(column, keys.first));
    })};
  };
  return v.choose(
      v.isNull(t.positions(v)), type,
      [&] { return mapped(keys.isListed() ? eachKey(v, t, keys) : Value()); },
      [&] {
        Value each = eachKey(v, t, keys);
        return mapped(warp::ReadOp::create(v.b, each.getType(), t.positions(v),
                                           each, v.i32()));
      })[0];
}

/// What a function makes of logits, and what that is to be multiplied by.
static std::pair<Value, float> score(WarpBuilder &v, const AttentionTask &t,
                                     Value logits, Value factor,
                                     const ::heddle::bundle::Scores &scores,
                                     const TileKeys &keys) {
  using Input = ::heddle::bundle::Scores;
  const bool asksRow = scores.uses(Input::Query),
             asksKey = scores.uses(Input::Key);
  Value scale = v.mulf(factor, v.real(ln2));
  auto type = logits.getType();
  Values inputs = {logits};
  if (asksRow)
    inputs.push_back(t.rowPositions);
  // A warpgroup that has rows of several heads has a head for each row.
  const bool asksHead = t.batch && scores.uses(Input::Head);
  if (asksHead)
    inputs.push_back(
        v.map(v.fragment(1, v.i32()), {}, [&](ValueRange, Value row, Value) {
          return v.add(t.head,
                       t.packed ? v.remainder(v.add(row, t.firstRow), t.packed)
                                : v.quotient(row, t.rowsTogether()));
        }));
  float factorLeft = 1;
  auto scored = [&](ValueRange element, Value key) {
    MapScores target(v.b);
    ScoredPair pair;
    pair.product = element[0];
    pair.scale = scale;
    pair.head = asksHead ? element[asksRow ? 2 : 1] : t.head;
    if (asksRow)
      pair.query = element[1];
    pair.key = key;
    ScoredLogit result = emitScores(target, scores, pair);
    factorLeft = result.factor;
    return result.value;
  };
  Value result;
  if (asksKey)
    result = mapKeys(v, t, keys, type, inputs, scored);
  else
    result = v.map(type, inputs, [&](ValueRange element, Value, Value) {
      return scored(element, {});
    });
  return {result, factorLeft};
}

namespace {
/// What keeps or leaves out pairs.
struct MaskedSet {
  shed::KeySet set;
  const RowKeys &rows;
  bool inside;
};
} // namespace

/// Whether each row's keys in any of these are a range.
static bool areRanges(ArrayRef<MaskedSet> sets) {
  return llvm::all_of(sets, [](const MaskedSet &set) { return set.rows.all; });
}

/// Only tiles at an edge pay.
static Value mask(WarpBuilder &v, const AttentionTask &t,
                  ArrayRef<MaskedSet> sets, Value logits,
                  const TileKeys &keys) {
  KeyRange range = rangeOf(v, t, keys);
  Value whole;        // all rows have all of these keys, or none has any
  bool never = false; // that can't be told
  for (const auto &[set, rows, inside] : sets) {
    if (inside && !rows.all) {
      never = true;
      continue;
    }
    Value same =
        inside ? v.both(v.compare(CmpIPredicate::sge, range.first,
                                  rows.all->first),
                        v.compare(CmpIPredicate::sle, range.end, rows.all->end))
               : v.either(
                     v.compare(CmpIPredicate::sle, range.end, rows.some.first),
                     v.compare(CmpIPredicate::sge, range.first, rows.some.end));
    whole = whole ? v.both(whole, same) : same;
  }

  Type type = logits.getType();
  Value lowest = v.real(-std::numeric_limits<float>::infinity());
  auto choose = [&](const MaskedSet &set, Value keep, Value logit) -> Value {
    return set.inside ? v.select(keep, logit, lowest)
                      : v.select(keep, lowest, logit);
  };
  // Where each row's keys are a range, a key's number says whether it is there.
  auto byRange = [&]() -> Values {
    Values inputs = {logits};
    for (const MaskedSet &set : sets)
      inputs.append({set.rows.first, set.rows.length});
    if (keys.isListed())
      inputs.push_back(eachKey(v, t, keys));
    return {v.map(type, inputs, [&](ValueRange element, Value, Value column) {
      Value result = element[0];
      for (auto [i, set] : llvm::enumerate(sets)) {
        // One unsigned comparison: keys before are far behind.
        Value first = element[1 + 2 * i];
        Value at = keys.isListed() ? v.sub(element.back(), first)
                                   : v.add(column, v.sub(keys.first, first));
        result = choose(
            set, v.compare(CmpIPredicate::ult, at, element[2 + 2 * i]), result);
      }
      return result;
    })};
  };
  auto byPosition = [&]() -> Values {
    shed::PairArithmetic a = positionArithmetic(v, t.args);
    return {mapKeys(v, t, keys, type, {logits, t.rowPositions},
                    [&](ValueRange element, Value key) {
                      Value result = element[0];
                      for (const MaskedSet &set : sets)
                        result = choose(set, set.set.keeps(a, element[1], key),
                                        result);
                      return result;
                    })};
  };
  auto masked = [&] { return areRanges(sets) ? byRange() : byPosition(); };
  if (never)
    return masked()[0];
  return v.choose(whole, type, [&]() -> Values { return {logits}; }, masked)[0];
}

/// What `write` makes of each part, given its keys: right behind the part, so
/// that the next one's stands behind what is done with it.
static void mapParts(RewriteBuilder &v, const AttentionTask &t,
                     LogitParts &logits, ValueRange operand,
                     function_ref<Value(Value, const TileKeys &)> write) {
  const TileKeys keys(operand, t.tileKeys);
  const Value factor = logits.factor;
  for (auto [i, part] : llvm::enumerate(logits.parts)) {
    v.behind({part, factor, keys.first, keys.left});
    part = write(part, keys.part(v, i * t.logitColumns, t.logitColumns));
  }
}

void mlir::heddle::populateLogitPatterns(WarpPatterns patterns,
                                         const AttentionTask &t) {
  patterns.add<shed::DotOp>([&](RewriteBuilder &v, auto, auto in) {
    Value product = v.wait(v.multiply(in.getQueries()[0], in.getKeys()[0], {},
                                      true, 0, t.queryFrom));
    LogitParts logits(t.factor, v.bit(false));
    for (int64_t i = 0; i < t.logitParts; ++i)
      logits.parts.push_back(
          v.slice(product, i * t.logitColumns, t.logitColumns));
    return Results{logits.get()};
  });
  patterns.add<shed::ScoresOp>(
      [&](RewriteBuilder &v, shed::ScoresOp op, auto in) {
        const ::heddle::bundle::Scores scores = scoresOf(op.getBody());
        LogitParts logits(in.getLogits());
        const Value before = logits.factor;
        mapParts(v, t, logits, in.getKeys(), [&](Value part, auto &keys) {
          auto [value, factor] = score(v, t, part, before, scores, keys);
          if (logits.factor == before)
            logits.factor = v.real(factor * log2e);
          return value;
        });
        return Results{logits.get()};
      });
  patterns.add<shed::MaskOp>([&](RewriteBuilder &v, shed::MaskOp op, auto in) {
    LogitParts logits(in.getLogits());
    const TileKeys keys(in.getKeys(), t.tileKeys);
    SmallVector<MaskedSet> sets;
    if (std::optional<shed::KeySet> within = op.getWithin())
      sets.push_back({*within, t.rowKeys.at(*within), true});
    for (auto set : op.getOutside().getAsRange<shed::KeySet>())
      sets.push_back({set, t.rowKeys.at(set), false});
    // In a pass over what the block's rows have of a set, each row's keys end
    // where the pass does, or sooner.
    const bool masked = op.getWithin() && !keys.isListed() &&
                        keys.end == sets[0].rows.some.end && areRanges(sets);
    const Value before = logits.masked;
    mapParts(v, t, logits, in.getKeys(), [&](Value part, auto &keys) {
      if (masked && logits.masked == before)
        logits.masked = v.bit(true);
      return mask(v, t, sets, part, keys);
    });
    return Results{logits.get()};
  });
}
