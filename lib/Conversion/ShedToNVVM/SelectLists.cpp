//===- SelectLists.cpp - Makes index lists of scores ----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SelectLowering.h"

#include "bundle/Abi.h"

using namespace mlir;
using namespace mlir::heddle;
namespace abi = ::heddle::abi;

using Values = NVVMBuilder::Values;
using arith::CmpIPredicate;

void SelectLowering::choose(Value row, Value first) {
  v.loop(v.word(0), v.word(parts), 1, [&](Value part) {
    Value which = v.add(first, part);
    v.when(v.compare(CmpIPredicate::slt, v.mul(which, group), n), [&] {
      KeyList list =
          loadKeyList(v, encoding, blocks ? group : 0,
                      v.at(args, offsetof(abi::SelectArgs, list)), row, which);
      Value shown = shownScores(row, which);
      if (blocks)
        return chooseBlocks(list, part, shown);
      Value scores = scoresOf(part, false);
      v.when(v.flip(v.isNull(shown), 1), [&] {
        v.loop(thread, n, threads, [&](Value key) {
          Value offset = v.mul(key, 4);
          v.store(v.load(v.f32(), v.at(scores, offset), 4), v.at(shown, offset),
                  4);
        });
      });
      TopK(v, encoding, threads).run(scores, n, list, thread, shared);
    });
  });
}

/// Where the scores of a list are to be shown, or null.
Value SelectLowering::shownScores(Value row, Value which) {
  Value scores = field(v.global(), offsetof(abi::SelectArgs, scores));
  Value groups = v.quotient(v.add(n, group - 1), group);
  Value list = v.add(v.mul(v.widen(row), v.widen(groups)), v.widen(which));
  return v.choose(
      v.isNull(scores), v.global(), [&]() -> Values { return {scores}; },
      [&]() -> Values {
        return {v.at(scores, v.mul(v.mul(list, v.widen(n)), 4))};
      })[0];
}

/// The mean scores, `from` having the keys', of blocks `first` to `end` (i32)
/// to `to`; zero from block `limit` on and up to a multiple of 4 of them. Also
/// to `shown`, all of them, if that is not null. Where the second span is
/// scored by itself a short block has the others' size.
void SelectLowering::poolScores(Value from, Value first, Value end, Value limit,
                                const KeyList &list, Value to, Value shown) {
  Value count = v.sub(end, first);
  Value padded = v.both(v.add(count, 3), ~int64_t(3));
  Value shows = v.flip(v.isNull(shown), 1), wholeSize = isScoredBySpan();
  v.loop(thread, padded, threads, [&](Value i) {
    Value block = v.add(first, i);
    KeyRange keys = keysOfBlock(v, block, n, list.split, group);
    // None behind the last block.
    Value sum =
        v.loop(keys.first, v.least(keys.end, n), v.word(1), {v.real(0.0f)},
               [&](Value key, ValueRange sums) -> Values {
                 return {v.addf(sums[0],
                                v.load(v.f32(), v.at(from, v.mul(key, 4)), 4))};
               })[0];
    Value size = v.select(wholeSize, v.word(group),
                          v.greatest(v.sub(keys.end, keys.first), v.word(1)));
    Value mean = v.divf(sum, arith::SIToFPOp::create(v.b, v.f32(), size));
    Value offset = v.mul(i, 4);
    v.store(v.select(v.compare(CmpIPredicate::slt, block, limit), mean,
                     v.real(0.0f)),
            v.at(to, offset), 4);
    v.when(v.both(shows, v.compare(CmpIPredicate::slt, i, count)),
           [&] { v.store(mean, v.at(shown, offset), 4); });
  });
}

/// Makes a list of blocks, see abi::SelectArgs.
void SelectLowering::chooseBlocks(const KeyList &list, Value part,
                                  Value shown) {
  auto word = [&](size_t offset) { return v.narrow(field(v.i64(), offset)); };
  Value zero = v.word(0), bySpan = isScoredBySpan();
  Value boundary = word(offsetof(abi::SelectArgs, boundary));
  Value all = v.add(blocksBefore(v, list.split, group),
                    blocksBefore(v, v.sub(n, list.split), group));
  // Without spans the first one is empty.
  Value firstKeep = v.select(v.compare(CmpIPredicate::sgt, boundary, zero),
                             word(offsetof(abi::SelectArgs, spanKeep)), zero);
  Value firstEnd = v.select(bySpan, all, boundary);
  Value mass = scoresOf(part, false);
  Value firstScores = scratchRow(v.word(2 * parts));
  Value secondScores = scratchRow(v.word(2 * parts + 1));
  poolScores(mass, zero, all, firstEnd, list, firstScores, shown);
  Value showsSecond = v.both(bySpan, v.flip(v.isNull(shown), 1));
  Value shownSecond = v.choose(
      showsSecond, v.global(),
      [&]() -> Values { return {v.at(shown, v.mul(all, 4))}; },
      [&]() -> Values { return {v.null()}; })[0];
  Value secondMass = v.choose(
      bySpan, v.global(), [&]() -> Values { return {scoresOf(part, true)}; },
      [&]() -> Values { return {mass}; })[0];
  poolScores(secondMass, boundary, all, all, list, secondScores, shownSecond);
  v.loop(thread, list.keep, threads, [&](Value i) {
    v.store(v.word(-1), v.at(list.base, v.mul(i, 4)), 4);
  });
  v.barrier();

  TopK topK(v, list.encoding, threads);
  v.when(v.compare(CmpIPredicate::sgt, firstKeep, zero), [&] {
    KeyList firstList = list;
    firstList.keep = firstKeep;
    topK.run(firstScores, firstEnd, firstList, thread, shared,
             {Value(), boundary});
  });
  v.barrier();
  // Of the best of all, those of the second span are missing.
  Value written = v.choose(
      bySpan, v.i32(),
      [&]() -> Values {
        return {countBelow(v, firstKeep, boundary, [&](Value place) {
          return v.load(v.i32(), v.at(list.base, v.mul(place, 4)), 4);
        })};
      },
      [&]() -> Values { return {firstKeep}; })[0];
  KeyList secondList = list;
  secondList.keep = v.sub(list.keep, firstKeep);
  secondList.base = v.at(list.base, v.mul(written, 4));
  v.when(v.compare(CmpIPredicate::sgt, secondList.keep, zero), [&] {
    topK.run(secondScores, v.sub(all, boundary), secondList, thread, shared,
             {boundary, Value()});
  });
  v.barrier();
}
