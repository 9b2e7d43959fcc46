//===- Select.cpp - Scores keys and chooses those of largest score --------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "mlir/IR/Matchers.h"

#include <limits>

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::vectors;

/// Writes the entries of [from, to) that are below `limit` of the `keep`
/// largest scores to `target`, ascending, and returns their number. The bits of
/// non-negative floats order like unsigned integers, so the keep-th largest is
/// found a bit at a time by counting; NaN only changes which entries win, not
/// how many.
static Value storeLargest(KernelBuilder &v, Value scores, Value from, Value to,
                          Value keep, Value limit, Value target) {
  auto scoreAt = [&](Value j) { return v.at(scores, v.mul(j, 4)); };
  auto asInt = [&](Value bit) {
    return arith::ExtUIOp::create(v.b, v.i64(), bit).getResult();
  };
  // Counts scores whose bits satisfy `predicate` against `bound`.
  Value whole =
      v.add(from, v.mul(v.quotient(v.sub(to, from), v.lanes), v.lanes));
  auto countScores = [&](Int predicate, Value bound) {
    Value bounds = v.splat(bound), zero = v.splat(v.integer(v.i32(), 0));
    Value one = v.splat(v.integer(v.i32(), 1));
    Value lanes =
        v.loop(from, whole, v.lanes, zero, [&](Value j, ValueRange carried) {
          Value above =
              v.compare(predicate, v.load(v.ints(), scoreAt(j)), bounds);
          return Values{v.add(carried[0], v.select(above, one, zero))};
        })[0];
    Value sum = v.sumInts(lanes);
    return v.loop(whole, to, 1, sum, [&](Value j, ValueRange carried) {
      Value above = v.compare(predicate, v.load(v.i32(), scoreAt(j)), bound);
      return Values{v.add(carried[0], asInt(above))};
    })[0];
  };
  // The greatest bound with at least `keep` scores not below it.
  Value threshold =
      v.loop(v.constant(0), v.constant(32), 1, v.integer(v.i32(), 0),
             [&](Value i, ValueRange carried) {
               Value bit = v.shiftLeft(v.integer(v.i32(), 1),
                                       v.narrow(v.sub(v.constant(31), i)));
               Value bound = v.bitOr(carried[0], bit);
               Value enough =
                   v.compare(Int::sge, countScores(Int::uge, bound), keep);
               return Values{v.select(enough, bound, carried[0])};
             })[0];
  Value ties = v.sub(keep, countScores(Int::ugt, threshold));

  Value end = v.least(to, limit);
  return v.loop(from, end, 1, {v.constant(0), ties},
                [&](Value j, ValueRange carried) {
                  Value score = v.load(v.i32(), scoreAt(j));
                  Value above = v.compare(Int::ugt, score, threshold);
                  Value equal = v.compare(Int::eq, score, threshold);
                  Value left = v.compare(Int::sgt, carried[1], v.constant(0));
                  Value tied = v.bitAnd(equal, left);
                  Value take = v.bitOr(above, tied);
                  v.when(take, [&] {
                    v.store(v.narrow(j), v.at(target, v.mul(carried[0], 4)));
                  });
                  return Values{v.add(carried[0], asInt(take)),
                                v.sub(carried[1], asInt(tied))};
                })[0];
}

/// Means over the keys of each of the blocks [from, to), in place: block j has
/// no key before the j-th. `padded` (i1): a short block has the others' size.
static void poolMass(KernelBuilder &v, Value mass, Value from, Value to,
                     Value split, Value padded) {
  v.loop(from, to, 1, [&](Value block) {
    KeyRange keys = blockKeys(v, block, split, v.k.group);
    Value sum =
        v.loop(keys.first, keys.end, 1, v.real(0.0f),
               [&](Value j, ValueRange carried) {
                 return Values{v.addf(
                     carried[0], v.load(v.f32(), v.at(mass, v.mul(j, 4))))};
               })[0];
    Value size =
        v.select(padded, v.constant(v.k.group), v.sub(keys.end, keys.first));
    Value count = arith::SIToFPOp::create(v.b, v.f32(), size);
    v.store(v.divf(sum, count), v.at(mass, v.mul(block, 4)));
  });
}

/// Leaves keys outside of the list that the task chooses within no score, and
/// those inside one above 0.
static void keepWithin(KernelBuilder &v, const shed::KeyEntries &entries,
                       Value mass) {
  auto listField = [&](auto member) {
    return v.field(member, offsetof(SelectArgs, within));
  };
  Value keep = listField(&IndexList::keep);
  Value heads = listField(&IndexList::headsPerList);
  Value split = listField(&IndexList::split);
  Value row =
      arith::DivUIOp::create(v.b, v.mul(v.k.listRow, v.k.headsPerList), heads);
  Value group = v.add(v.mul(row, listField(&IndexList::groups)),
                      v.quotient(v.mul(v.k.task, v.k.group), entries.group));
  Value list =
      v.at(listField(&IndexList::indices), v.mul(v.mul(group, keep), 4));
  auto scoreAt = [&](Value key) { return v.at(mass, v.mul(key, 4)); };
  auto clear = [&](Value from, Value to) {
    v.loop(from, to, 1,
           [&](Value key) { v.store(v.integer(v.i32(), 0), scoreAt(key)); });
  };
  // Entries ascend. Carried: the end of those before.
  Value behind = v.loop(
      v.constant(0), keep, 1, v.constant(0), [&](Value t, ValueRange end) {
        Value entry = v.widen(v.load(v.i32(), v.at(list, v.mul(t, 4))));
        KeyRange keys = {entry, v.add(entry, 1)};
        if (entries.blockKeys)
          keys = blockKeys(v, entry, split, entries.blockKeys);
        clear(end[0], keys.first);
        // The bits of scores order like integers.
        v.loop(keys.first, keys.end, 1, [&](Value key) {
          v.store(
              v.greatest(v.load(v.i32(), scoreAt(key)), v.integer(v.i32(), 1)),
              scoreAt(key));
        });
        return Values{keys.end};
      })[0];
  clear(behind, v.k.n);
}

/// The scores that keys are chosen by: infinity where they are always listed,
/// the others' pooled.
static Value chosenBy(KernelBuilder &v, shed::TopKOp op, Value mass) {
  Value begin = v.field(&SelectArgs::alwaysBegin);
  Value end = v.field(&SelectArgs::alwaysEnd);
  auto at = [&](Value scores, Value key) {
    return v.at(scores, v.mul(key, 4));
  };
  const auto pooled = static_cast<int64_t>(op.getPooled().value_or(0));
  if (pooled > 0) {
    Value to = v.ofAllKeys(v.k.layout.pool);
    Value gap = v.sub(end, begin), count = v.sub(v.k.n, gap);
    // Where the keys that are chosen from stand in a row of their own.
    v.each(count, [&](Value place) {
      auto keyAt = [&](Value place) {
        return v.select(v.compare(Int::slt, place, begin), place,
                        v.add(place, gap));
      };
      // The bits of scores order like integers.
      Value best =
          v.loop(v.greatest(v.add(place, -(pooled / 2)), v.constant(0)),
                 v.least(v.add(place, pooled / 2 + 1), count), 1,
                 v.integer(v.i32(), 0), [&](Value neighbor, ValueRange found) {
                   return Values{v.greatest(
                       found[0], v.load(v.i32(), at(mass, keyAt(neighbor))))};
                 })[0];
      v.store(best, at(to, keyAt(place)));
    });
    mass = to;
  }
  if (op.getWithin())
    keepWithin(v, *op.getEntriesWithin(), mass);
  v.loop(begin, end, 1, [&](Value key) {
    v.store(v.real(std::numeric_limits<float>::infinity()), at(mass, key));
  });
  return mass;
}

/// Takes the least of `count` scores away from all, so that none is negative.
static void takeLeastAway(KernelBuilder &v, Value scores, Value count) {
  auto at = [&](Value entry) { return v.at(scores, v.mul(entry, 4)); };
  Value least = v.loop(v.constant(0), count, 1,
                       v.real(std::numeric_limits<float>::infinity()),
                       [&](Value entry, ValueRange least) {
                         return Values{arith::MinNumFOp::create(
                             v.b, least[0], v.load(v.f32(), at(entry)))};
                       })[0];
  v.each(count, [&](Value entry) {
    v.store(v.subf(v.load(v.f32(), at(entry)), least), at(entry));
  });
}

/// Makes the task's list by the scores of all keys, and those of the second
/// span where it has its own.
static Results lowerTopK(Lowering<shed::TopKOp> &v) {
  Value mass = v.in.getMass().front();
  auto listField = [&](auto member) {
    return v.field(member, offsetof(SelectArgs, list));
  };
  Value groups = listField(&IndexList::groups);
  Value keep = listField(&IndexList::keep);
  Value group = v.add(v.mul(v.k.listRow, groups), v.k.task);
  Value to = v.at(listField(&IndexList::indices), v.mul(v.mul(group, keep), 4));
  Value scores = v.field(&SelectArgs::scores);
  Value scoreRow = v.at(scores, v.mul(v.mul(group, v.k.n), 4));
  auto showScores = [&](Value from, Value count, Value after) {
    v.each(count, [&](Value j) {
      v.store(v.load(v.i32(), v.at(from, v.mul(j, 4))),
              v.at(scoreRow, v.mul(v.add(after, j), 4)));
    });
  };
  // score = mass / (rows x heads).
  Value count = arith::SIToFPOp::create(v.b, v.f32(),
                                        v.mul(v.here.rows, v.k.headsPerList));
  auto scale = [&](Value mass, Value from) {
    v.loop(from, v.k.n, 1, [&](Value j) {
      Value at = v.at(mass, v.mul(j, 4));
      v.store(v.divf(v.load(v.f32(), at), count), at);
    });
  };
  Value zero = v.constant(0);
  scale(mass, zero);
  if (!v.op.getBlocks()) {
    if (v.op.isByLogits())
      takeLeastAway(v, mass, v.k.n);
    mass = chosenBy(v, v.op, mass);
    v.when(v.isSet(scores), [&] { showScores(mass, v.k.n, zero); });
    storeLargest(v, mass, zero, v.k.n, keep, v.k.n, to);
    return {};
  }

  int64_t size = v.k.group;
  Value split = listField(&IndexList::split);
  Value blocks = v.add(v.quotient(v.add(split, size - 1), size),
                       v.quotient(v.add(v.sub(v.k.n, split), size - 1), size));
  Value boundary = v.field(&SelectArgs::boundary);
  Value hasSpans = v.compare(Int::sgt, boundary, zero);
  Value filtered = v.integer(v.b.getI1Type(), 0);
  if (v.op.getSpan())
    filtered = v.bitAnd(hasSpans, v.isSet(v.field(&SelectArgs::spanLse)));
  poolMass(v, mass, zero, blocks, split, filtered);
  if (v.op.isByLogits())
    takeLeastAway(v, mass, blocks);
  v.when(v.isSet(scores), [&] { showScores(mass, blocks, zero); });
  Value second = mass, firstEnd = boundary;
  if (v.op.getSpan()) {
    Value spanMass = v.in.getSpan().front();
    v.when(filtered, [&] {
      scale(spanMass, blockKeys(v, boundary, split, size).first);
      poolMass(v, spanMass, boundary, blocks, split, filtered);
      v.when(v.isSet(scores), [&] {
        showScores(v.at(spanMass, v.mul(boundary, 4)), v.sub(blocks, boundary),
                   blocks);
      });
    });
    second = v.select(filtered, spanMass, mass);
    firstEnd = v.select(filtered, blocks, boundary);
  }
  // Without spans the first one is empty.
  Value firstKeep = v.select(hasSpans, v.field(&SelectArgs::spanKeep), zero);
  Value written =
      storeLargest(v, mass, zero, firstEnd, firstKeep, boundary, to);
  written = v.add(written, storeLargest(v, second, boundary, blocks,
                                        v.sub(keep, firstKeep), blocks,
                                        v.at(to, v.mul(written, 4))));
  v.loop(written, keep, 1, [&](Value j) {
    v.store(v.integer(v.i32(), -1), v.at(to, v.mul(j, 4)));
  });
  return {};
}

/// mass[j] += sum over the panel's rows of exp2(logit - lse).
static Results lowerColumnMass(Lowering<shed::ColumnMassOp> &v) {
  Value mass = v.in.getMass().front();
  const auto logits = unpack<LogitTile>(v.in.getLogits());
  const auto keys = unpack<Keys>(v.in.getKeys());
  Value lse = v.ofPanel(v.in.getLse().front(), v.k.layout.rowPanel);
  Values offset;
  for (int64_t i = 0; i < v.here.active; ++i) {
    Value sum = v.loadLane(lse, i);
    offset.push_back(v.negf(sum));
    if (!matchPattern(logits.infinite, m_Zero())) {
      // A row of which all is masked gives nobody any probability.
      Value lowest = v.splat(-std::numeric_limits<float>::infinity());
      offset.back() =
          v.select(v.compare(Float::OEQ, sum, lowest), lowest, offset.back());
    }
  }
  Value scale = logitScale(v, logits);
  v.each(logits.count, [&](Value j) {
    Value row = v.logitsRow(logits.base, j);
    Value total;
    for (int64_t i = 0; i < v.here.active; ++i) {
      Value logit = v.loadLane(row, i);
      Value weight = v.exp2(scale ? v.fma(logit, scale, offset[i])
                                  : v.addf(logit, offset[i]));
      total = total ? v.addf(total, weight) : weight;
    }
    Value to = v.at(mass, v.mul(v.placeOf(keys, j), 4));
    v.store(v.addf(v.load(v.f32(), to), v.sum(total)), to);
  });
  return {{mass}};
}

static Results lowerMassInit(Lowering<shed::MassInitOp> &v) {
  Value mass = v.ofAllKeys(v.k.layout.masses.at(v.op));
  v.each(v.k.n,
         [&](Value j) { v.store(v.real(0.0f), v.at(mass, v.mul(j, 4))); });
  return {{mass}};
}

void vectors::populateSelectPatterns(const VectorPatterns &patterns) {
  patterns.add(lowerMassInit);
  patterns.add(lowerColumnMass);
  patterns.add(lowerTopK);
}
