//===- TopK.cpp - Chooses the keys or blocks of largest score -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"

#include "bundle/abi/Abi.h"

#include <limits>

using namespace mlir;
using namespace mlir::heddle;
namespace abi = ::heddle::abi;

/// Scores of the keys: the task's own, or of the second span alone.
Value KernelLowering::massAt(bool span) {
  return v.at(v.at(scratch, layout.bytes),
              v.mul(n, span ? layout.spanMass : layout.mass));
}

void KernelLowering::initMass(bool span) {
  Value mass = massAt(span);
  v.loop(v.constant(0), n, 1,
         [&](Value j) { v.store(v.real(0.0f), v.at(mass, v.mul(j, 4))); });
}

/// Writes the entries of [from, to) that are below `limit` of the `keep`
/// largest scores to `target`, ascending, and returns their number. The bits of
/// non-negative floats order like unsigned integers, so the keep-th largest is
/// found a bit at a time by counting; NaN only changes which entries win, not
/// how many.
Value KernelLowering::storeLargest(Value scores, Value from, Value to,
                                   Value keep, Value limit, Value target) {
  auto scoreAt = [&](Value j) { return v.at(scores, v.mul(j, 4)); };
  auto asInt = [&](Value bit) {
    return arith::ExtUIOp::create(v.b, v.i64(), bit).getResult();
  };
  // Counts scores whose bits satisfy `predicate` against `bound`.
  Value whole =
      v.add(from, v.mul(v.quotient(v.sub(to, from), v.lanes), v.lanes));
  auto countScores = [&](arith::CmpIPredicate predicate, Value bound) {
    Value bounds = v.splat(bound), zero = v.splat(v.integer(v.i32(), 0));
    Value one = v.splat(v.integer(v.i32(), 1));
    Value lanes =
        v.loop(from, whole, v.lanes, zero, [&](Value j, ValueRange carried) {
          Value above =
              v.compare(predicate, v.load(v.ints(), scoreAt(j)), bounds);
          return Values{arith::AddIOp::create(v.b, carried[0],
                                              v.select(above, one, zero))};
        })[0];
    Value sum = v.sumInts(lanes);
    return v.loop(whole, to, 1, sum, [&](Value j, ValueRange carried) {
      Value above = v.compare(predicate, v.load(v.i32(), scoreAt(j)), bound);
      return Values{v.add(carried[0], asInt(above))};
    })[0];
  };
  // The greatest bound with at least `keep` scores not below it.
  Value threshold = v.loop(
      v.constant(0), v.constant(32), 1, v.integer(v.i32(), 0),
      [&](Value i, ValueRange carried) {
        Value bit = arith::ShLIOp::create(v.b, v.integer(v.i32(), 1),
                                          v.narrow(v.sub(v.constant(31), i)));
        Value bound = arith::OrIOp::create(v.b, carried[0], bit);
        Value enough =
            v.compare(arith::CmpIPredicate::sge,
                      countScores(arith::CmpIPredicate::uge, bound), keep);
        return Values{v.select(enough, bound, carried[0])};
      })[0];
  Value ties = v.sub(keep, countScores(arith::CmpIPredicate::ugt, threshold));

  Value end = v.least(to, limit);
  return v.loop(
      from, end, 1, {v.constant(0), ties}, [&](Value j, ValueRange carried) {
        Value score = v.load(v.i32(), scoreAt(j));
        Value above = v.compare(arith::CmpIPredicate::ugt, score, threshold);
        Value equal = v.compare(arith::CmpIPredicate::eq, score, threshold);
        Value left =
            v.compare(arith::CmpIPredicate::sgt, carried[1], v.constant(0));
        Value tied = arith::AndIOp::create(v.b, equal, left);
        Value take = arith::OrIOp::create(v.b, above, tied);
        v.when(take, [&] {
          v.store(v.narrow(j), v.at(target, v.mul(carried[0], 4)));
        });
        return Values{v.add(carried[0], asInt(take)),
                      v.sub(carried[1], asInt(tied))};
      })[0];
}

/// Means over the keys of each of the blocks [from, to), in place: block j has
/// no key before the j-th. `padded` (i1): a short block has the others' size.
void KernelLowering::poolMass(Value mass, Value from, Value to, Value split,
                              Value padded) {
  v.loop(from, to, 1, [&](Value block) {
    KeyRange keys = blockKeys(block, split, *kernel.getGroup());
    Value sum =
        v.loop(keys.first, keys.end, 1, v.real(0.0f),
               [&](Value j, ValueRange carried) {
                 return Values{v.addf(
                     carried[0], v.load(v.f32(), v.at(mass, v.mul(j, 4))))};
               })[0];
    Value size = v.select(padded, v.constant(*kernel.getGroup()),
                          v.sub(keys.end, keys.first));
    Value count = arith::SIToFPOp::create(v.b, v.f32(), size);
    v.store(arith::DivFOp::create(v.b, sum, count),
            v.at(mass, v.mul(block, 4)));
  });
}

/// Leaves keys outside of the list that the task chooses within no score, and
/// those inside one above 0.
void KernelLowering::keepWithin(const shed::KeyEntries &entries, Value mass) {
  auto listField = [&](Type type, size_t offset) {
    return field(type, offsetof(abi::SelectArgs, within) + offset);
  };
  Value keep = listField(v.i64(), offsetof(abi::IndexList, keep));
  Value heads = listField(v.i64(), offsetof(abi::IndexList, headsPerList));
  Value split = listField(v.i64(), offsetof(abi::IndexList, split));
  Value row = arith::DivUIOp::create(v.b, v.mul(listRow, headsPerList), heads);
  Value group =
      v.add(v.mul(row, listField(v.i64(), offsetof(abi::IndexList, groups))),
            v.quotient(v.mul(task, *kernel.getGroup()), entries.group));
  Value list = v.at(listField(v.ptr(), offsetof(abi::IndexList, indices)),
                    v.mul(v.mul(group, keep), 4));
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
          keys = blockKeys(entry, split, entries.blockKeys);
        clear(end[0], keys.first);
        // The bits of scores order like integers.
        v.loop(keys.first, keys.end, 1, [&](Value key) {
          v.store(
              v.greatest(v.load(v.i32(), scoreAt(key)), v.integer(v.i32(), 1)),
              scoreAt(key));
        });
        return Values{keys.end};
      })[0];
  clear(behind, n);
}

/// The scores that keys are chosen by: infinity where they are always listed,
/// the others' pooled.
Value KernelLowering::chosenBy(Value mass, int64_t pooled) {
  Value begin = field(v.i64(), offsetof(abi::SelectArgs, alwaysBegin));
  Value end = field(v.i64(), offsetof(abi::SelectArgs, alwaysEnd));
  auto at = [&](Value scores, Value key) {
    return v.at(scores, v.mul(key, 4));
  };
  if (pooled > 0) {
    Value to = v.at(v.at(scratch, layout.bytes), v.mul(n, layout.pool));
    Value gap = v.sub(end, begin), count = v.sub(n, gap);
    // Where the keys that are chosen from stand in a row of their own.
    v.loop(v.constant(0), count, 1, [&](Value place) {
      auto keyAt = [&](Value place) {
        return v.select(v.compare(arith::CmpIPredicate::slt, place, begin),
                        place, v.add(place, gap));
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
  if (auto topK = cast<shed::TopKOp>(kernel.getBody().front().back());
      topK.getWithin())
    keepWithin(*topK.getEntriesWithin(), mass);
  v.loop(begin, end, 1, [&](Value key) {
    v.store(v.real(std::numeric_limits<float>::infinity()), at(mass, key));
  });
  return mass;
}

void KernelLowering::topK(shed::TopKOp op) {
  auto listField = [&](Type type, size_t offset) {
    return field(type, offsetof(abi::SelectArgs, list) + offset);
  };
  Value groups = listField(v.i64(), offsetof(abi::IndexList, groups));
  Value keep = listField(v.i64(), offsetof(abi::IndexList, keep));
  Value group = v.add(v.mul(listRow, groups), task);
  Value to = v.at(listField(v.ptr(), offsetof(abi::IndexList, indices)),
                  v.mul(v.mul(group, keep), 4));
  Value scores = field(v.ptr(), offsetof(abi::SelectArgs, scores));
  Value scoreRow = v.at(scores, v.mul(v.mul(group, n), 4));
  auto showScores = [&](Value from, Value count, Value after) {
    v.loop(v.constant(0), count, 1, [&](Value j) {
      v.store(v.load(v.i32(), v.at(from, v.mul(j, 4))),
              v.at(scoreRow, v.mul(v.add(after, j), 4)));
    });
  };
  // score = mass / (rows x heads).
  Value count =
      arith::SIToFPOp::create(v.b, v.f32(), v.mul(rows.rows, headsPerList));
  auto scale = [&](Value mass, Value from) {
    v.loop(from, n, 1, [&](Value j) {
      Value at = v.at(mass, v.mul(j, 4));
      v.store(arith::DivFOp::create(v.b, v.load(v.f32(), at), count), at);
    });
  };
  Value zero = v.constant(0), mass = massAt(false);
  scale(mass, zero);
  if (!op.getBlocks()) {
    mass = chosenBy(mass, static_cast<int64_t>(op.getPooled().value_or(0)));
    v.when(v.isSet(scores), [&] { showScores(mass, n, zero); });
    storeLargest(mass, zero, n, keep, n, to);
    return;
  }

  int64_t size = *kernel.getGroup();
  Value split = listField(v.i64(), offsetof(abi::IndexList, split));
  Value blocks = v.add(v.quotient(v.add(split, size - 1), size),
                       v.quotient(v.add(v.sub(n, split), size - 1), size));
  Value boundary = field(v.i64(), offsetof(abi::SelectArgs, boundary));
  Value hasSpans = v.compare(arith::CmpIPredicate::sgt, boundary, zero);
  Value filtered = v.integer(v.b.getI1Type(), 0);
  if (op.getSpan())
    filtered = arith::AndIOp::create(
        v.b, hasSpans,
        v.isSet(field(v.ptr(), offsetof(abi::SelectArgs, spanLse))));
  poolMass(mass, zero, blocks, split, filtered);
  v.when(v.isSet(scores), [&] { showScores(mass, blocks, zero); });
  Value second = mass, firstEnd = boundary;
  if (op.getSpan()) {
    Value spanMass = massAt(true);
    v.when(filtered, [&] {
      scale(spanMass, blockKeys(boundary, split, size).first);
      poolMass(spanMass, boundary, blocks, split, filtered);
      v.when(v.isSet(scores), [&] {
        showScores(v.at(spanMass, v.mul(boundary, 4)), v.sub(blocks, boundary),
                   blocks);
      });
    });
    second = v.select(filtered, spanMass, mass);
    firstEnd = v.select(filtered, blocks, boundary);
  }
  // Without spans the first one is empty.
  Value firstKeep = v.select(
      hasSpans, field(v.i64(), offsetof(abi::SelectArgs, spanKeep)), zero);
  Value written = storeLargest(mass, zero, firstEnd, firstKeep, boundary, to);
  written = v.add(written,
                  storeLargest(second, boundary, blocks, v.sub(keep, firstKeep),
                               blocks, v.at(to, v.mul(written, 4))));
  v.loop(written, keep, 1, [&](Value j) {
    v.store(v.integer(v.i32(), -1), v.at(to, v.mul(j, 4)));
  });
}
