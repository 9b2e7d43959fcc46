//===- Lists.cpp - Sets of keys, and choosing them ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"

#include "bundle/Abi.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::heddle;
namespace abi = ::heddle::abi;

/// The keys that list `list` has for the group of the rows at hand.
KeySource KernelLowering::listSource(shed::ListAttr list) {
  size_t entry = offsetof(abi::AttentionArgs, lists) +
                 list.getIndex() * sizeof(abi::IndexList);
  Value indices = field(v.ptr(), entry + offsetof(abi::IndexList, indices));
  Value groups = field(v.i64(), entry + offsetof(abi::IndexList, groups));
  Value keep = field(v.i64(), entry + offsetof(abi::IndexList, keep));
  Value group =
      v.add(v.mul(head, groups), v.quotient(rows.row, list.getGroup()));
  return {keep, Value(), v.at(indices, v.mul(v.mul(group, keep), 4))};
}

KeySource KernelLowering::keySource(shed::ForKeysOp loop) {
  int64_t sinks = 0;
  SmallVector<shed::ListAttr> lists;
  for (Attribute set : loop.getSkip()) {
    if (auto attr = dyn_cast<shed::SinksAttr>(set))
      sinks = std::max(sinks, attr.getSize());
    else
      lists.push_back(cast<shed::ListAttr>(set));
  }
  KeySource source;
  Attribute over = loop.getOver();
  if (auto list = dyn_cast<shed::ListAttr>(over)) {
    source = listSource(list);
    if (sinks || !lists.empty())
      source = compact(source, lists, sinks);
    return source;
  }
  // A range [first, end), which the sinks shorten.
  Value first = v.constant(0), end = n;
  if (auto window = dyn_cast<shed::WindowAttr>(over)) {
    int64_t half = window.getSize() / 2;
    first = v.greatest(v.add(rows.row, -half), v.constant(0));
    end = v.least(v.add(v.add(rows.row, rows.rows), half), n);
  } else if (auto attr = dyn_cast<shed::SinksAttr>(over)) {
    end = v.least(v.constant(attr.getSize()), n);
  }
  if (sinks)
    first = v.greatest(first, v.constant(sinks));
  source = {v.greatest(v.sub(end, first), v.constant(0)), first, Value()};
  return lists.empty() ? source : compact(source, lists, 0);
}

/// Writes the keys of `source` that are at least `sinks` and in none of the
/// lists `skip` to scratch: one merge of ascending lists.
KeySource KernelLowering::compact(KeySource source,
                                  ArrayRef<shed::ListAttr> skip,
                                  int64_t sinks) {
  Value to = v.at(v.at(scratch, layout.bytes), v.mul(n, layout.list));
  SmallVector<KeySource> lists;
  for (shed::ListAttr list : skip)
    lists.push_back(listSource(list));
  // Carried: keys written, then the place in each list.
  Values carried(1 + lists.size(), v.constant(0));
  carried = v.loop(
      v.constant(0), source.count, 1, carried, [&](Value t, ValueRange places) {
        Values next(places);
        Value key = position(source, t);
        Value keep =
            v.compare(arith::CmpIPredicate::sge, key, v.constant(sinks));
        for (auto [i, list] : llvm::enumerate(lists)) {
          auto inside = [&](Value place) {
            return v.compare(arith::CmpIPredicate::slt, place, list.count);
          };
          // The entry at `place`, or the last one behind the end.
          auto entry = [&](Value place) {
            return position(list, v.least(place, v.add(list.count, -1)));
          };
          auto advance = scf::WhileOp::create(
              v.b, TypeRange{v.i64()}, ValueRange{places[i + 1]},
              [&](OpBuilder &, Location, ValueRange place) {
                v.b.setInsertionPointToEnd(place[0].getParentBlock());
                Value less = arith::AndIOp::create(
                    v.b, inside(place[0]),
                    v.compare(arith::CmpIPredicate::slt, entry(place[0]), key));
                scf::ConditionOp::create(v.b, less, place);
              },
              [&](OpBuilder &, Location, ValueRange place) {
                v.b.setInsertionPointToEnd(place[0].getParentBlock());
                scf::YieldOp::create(v.b, v.add(place[0], 1));
              });
          v.b.setInsertionPointAfter(advance);
          Value place = advance.getResult(0);
          next[i + 1] = place;
          Value differs = arith::OrIOp::create(
              v.b, v.compare(arith::CmpIPredicate::sge, place, list.count),
              v.compare(arith::CmpIPredicate::ne, entry(place), key));
          keep = arith::AndIOp::create(v.b, keep, differs);
        }
        // Writing a dropped key is harmless: the next one takes its place.
        v.store(v.narrow(key), v.at(to, v.mul(next[0], 4)));
        next[0] = v.add(next[0], arith::ExtUIOp::create(v.b, v.i64(), keep));
        return next;
      });
  return {carried[0], Value(), to};
}

void KernelLowering::initMass() {
  Value mass = v.at(v.at(scratch, layout.bytes), v.mul(n, layout.mass));
  v.loop(v.constant(0), n, 1,
         [&](Value j) { v.store(v.real(0.0f), v.at(mass, v.mul(j, 4))); });
}

/// Scores, then the `keep` largest. The bits of non-negative floats order like
/// unsigned integers, so the keep-th largest is found a bit at a time by
/// counting; NaN only changes which keys win, not how many.
void KernelLowering::topK() {
  Value mass = v.at(v.at(scratch, layout.bytes), v.mul(n, layout.mass));
  size_t entry = offsetof(abi::SelectArgs, list);
  Value indices = field(v.ptr(), entry + offsetof(abi::IndexList, indices));
  Value groups = field(v.i64(), entry + offsetof(abi::IndexList, groups));
  Value keep = field(v.i64(), entry + offsetof(abi::IndexList, keep));
  Value group = v.add(v.mul(head, groups), task);

  // score = mass / rows.
  Value count = arith::SIToFPOp::create(v.b, v.f32(), rows.rows);
  auto scoreAt = [&](Value j) { return v.at(mass, v.mul(j, 4)); };
  v.loop(v.constant(0), n, 1, [&](Value j) {
    Value score =
        arith::DivFOp::create(v.b, v.load(v.f32(), scoreAt(j)), count);
    v.store(score, scoreAt(j));
  });
  Value scores = field(v.ptr(), offsetof(abi::SelectArgs, scores));
  Value wanted =
      v.compare(arith::CmpIPredicate::ne,
                LLVM::PtrToIntOp::create(v.b, v.i64(), scores).getResult(),
                v.constant(0));
  v.when(wanted, [&] {
    Value to = v.at(scores, v.mul(v.mul(group, n), 4));
    v.loop(v.constant(0), n, 1, [&](Value j) {
      v.store(v.load(v.i32(), scoreAt(j)), v.at(to, v.mul(j, 4)));
    });
  });

  // Counts scores whose bits satisfy `predicate` against `bound`.
  Value whole = v.mul(v.quotient(n, v.lanes), v.lanes);
  auto countScores = [&](arith::CmpIPredicate predicate, Value bound) {
    Value bounds = v.splat(bound), zero = v.splat(v.integer(v.i32(), 0));
    Value one = v.splat(v.integer(v.i32(), 1));
    Value lanes = v.loop(
        v.constant(0), whole, v.lanes, zero, [&](Value j, ValueRange carried) {
          Value above =
              v.compare(predicate, v.load(v.ints(), scoreAt(j)), bounds);
          return Values{arith::AddIOp::create(v.b, carried[0],
                                              v.select(above, one, zero))};
        })[0];
    Value sum = v.sumInts(lanes);
    return v.loop(whole, n, 1, sum, [&](Value j, ValueRange carried) {
      Value above = v.compare(predicate, v.load(v.i32(), scoreAt(j)), bound);
      return Values{
          v.add(carried[0], arith::ExtUIOp::create(v.b, v.i64(), above))};
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

  Value to = v.at(indices, v.mul(v.mul(group, keep), 4));
  Values places = {v.constant(0), ties};
  v.loop(v.constant(0), n, 1, places, [&](Value j, ValueRange carried) {
    Value score = v.load(v.i32(), scoreAt(j));
    Value above = v.compare(arith::CmpIPredicate::ugt, score, threshold);
    Value equal = v.compare(arith::CmpIPredicate::eq, score, threshold);
    Value left =
        v.compare(arith::CmpIPredicate::sgt, carried[1], v.constant(0));
    Value tied = arith::AndIOp::create(v.b, equal, left);
    Value take = arith::OrIOp::create(v.b, above, tied);
    v.when(take, [&] { v.store(v.narrow(j), v.at(to, v.mul(carried[0], 4))); });
    auto asInt = [&](Value bit) {
      return arith::ExtUIOp::create(v.b, v.i64(), bit).getResult();
    };
    return Values{v.add(carried[0], asInt(take)),
                  v.sub(carried[1], asInt(tied))};
  });
}
