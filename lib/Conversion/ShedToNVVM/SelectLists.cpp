//===- SelectLists.cpp - Makes index lists of scores ----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SelectFrame.h"

#include "bundle/abi/Abi.h"

#include <limits>

using namespace mlir;
using namespace mlir::heddle;
namespace abi = ::heddle::abi;

using Values = NVVMBuilder::Values;
using arith::CmpIPredicate;

Value mlir::heddle::shownScores(NVVMBuilder &v, const KeyChoice &choice,
                                Value row, Value which) {
  auto field = [&](Type type, size_t offset) {
    return v.loadConstant(type, v.at(choice.args, static_cast<int64_t>(offset)),
                          8);
  };
  Value scores = field(v.global(), offsetof(abi::SelectArgs, scores));
  Value groups = v.quotient(v.add(choice.n, choice.group - 1), choice.group);
  Value list = v.add(v.mul(v.widen(row), v.widen(groups)), v.widen(which));
  return v.choose(
      v.isNull(scores), v.global(), [&]() -> Values { return {scores}; },
      [&]() -> Values {
        return {v.at(scores, v.mul(v.mul(list, v.widen(choice.n)), 4))};
      })[0];
}

/// The scores that keys are chosen by: infinity where they are always listed,
/// the others' pooled.
static Value chosenBy(NVVMBuilder &v, const KeyChoice &choice, Value scores) {
  auto word = [&](size_t offset) {
    return v.narrow(v.loadConstant(
        v.i64(), v.at(choice.args, static_cast<int64_t>(offset)), 8));
  };
  Value begin = word(offsetof(abi::SelectArgs, alwaysBegin));
  Value end = word(offsetof(abi::SelectArgs, alwaysEnd));
  auto at = [&](Value row, Value key) { return v.at(row, v.mul(key, 4)); };
  Value most = v.real(std::numeric_limits<float>::infinity());
  if (!choice.pooled) {
    v.when(v.compare(CmpIPredicate::slt, begin, end), [&] {
      v.loop(v.add(begin, choice.thread), end, choice.threads,
             [&](Value key) { v.store(most, at(scores, key), 4); });
      v.barrier();
    });
    return scores;
  }
  // Where the keys that are chosen from stand in a row of their own, without
  // those that are always listed.
  Value gap = v.sub(end, begin);
  Value count = v.sub(choice.n, gap);
  const int64_t reach = choice.pooled / 2;
  Value padded = v.both(v.add(choice.n, 3), ~int64_t(3));
  v.barrier(); // the list before has been made of this row
  v.loop(choice.thread, padded, choice.threads, [&](Value key) {
    Value behind = v.compare(CmpIPredicate::sge, key, end);
    Value place = v.select(behind, v.sub(key, gap), key);
    // The bits of scores order like integers.
    Value best =
        v.loop(v.greatest(v.add(place, -reach), v.word(0)),
               v.least(v.add(place, reach + 1), count), v.word(1), {v.word(0)},
               [&](Value neighbor, ValueRange found) -> Values {
                 Value before = v.compare(CmpIPredicate::slt, neighbor, begin);
                 Value other = at(
                     scores, v.select(before, neighbor, v.add(neighbor, gap)));
                 return {v.greatest(found[0], v.load(v.i32(), other, 4))};
               })[0];
    Value always =
        v.both(v.compare(CmpIPredicate::sge, key, begin), v.flip(behind, 1));
    best = v.select(always, v.bits(v.i32(), most), best);
    Value real = v.compare(CmpIPredicate::slt, key, choice.n);
    v.store(v.select(real, best, v.word(0)), at(choice.pool, key), 4);
  });
  v.barrier();
  return choice.pool;
}

/// Leaves keys outside of the list that row `row` of lists and group `which`
/// choose within no score, and those inside one above 0.
static void keepWithin(NVVMBuilder &v, const KeyChoice &choice, Value row,
                       Value which, Value scores) {
  auto word = [&](size_t offset) {
    return v.narrow(v.loadConstant(
        v.i64(), v.at(choice.args, static_cast<int64_t>(offset)), 8));
  };
  constexpr size_t heads = offsetof(abi::IndexList, headsPerList);
  Value head = v.mul(row, word(offsetof(abi::SelectArgs, list) + heads));
  KeyList list = loadKeyList(
      v, choice.encoding, choice.within->blockKeys,
      v.at(choice.args, offsetof(abi::SelectArgs, within)),
      v.quotient(head, word(offsetof(abi::SelectArgs, within) + heads)),
      v.quotient(v.mul(which, choice.group), choice.within->group));
  Value begin = word(offsetof(abi::SelectArgs, alwaysBegin));
  Value end = word(offsetof(abi::SelectArgs, alwaysEnd));
  v.loop(choice.thread, choice.n, choice.threads, [&](Value key) {
    Value always = v.both(v.compare(CmpIPredicate::sge, key, begin),
                          v.compare(CmpIPredicate::slt, key, end));
    Value address = v.at(scores, v.mul(key, 4));
    // The bits of scores order like integers.
    Value score = v.greatest(v.load(v.i32(), address, 4), v.word(1));
    v.store(
        v.select(v.either(always, containsKey(v, list, key)), score, v.word(0)),
        address, 4);
  });
  v.barrier();
}

void mlir::heddle::chooseKeys(NVVMBuilder &v, const KeyChoice &choice,
                              Value row, Value which, Value scores) {
  KeyList list = loadKeyList(v, choice.encoding, 0,
                             v.at(choice.args, offsetof(abi::SelectArgs, list)),
                             row, which);
  scores = chosenBy(v, choice, scores);
  if (choice.within)
    keepWithin(v, choice, row, which, scores);
  Value shown = shownScores(v, choice, row, which);
  v.when(v.flip(v.isNull(shown), 1), [&] {
    v.loop(choice.thread, choice.n, choice.threads, [&](Value key) {
      Value offset = v.mul(key, 4);
      v.store(v.load(v.f32(), v.at(scores, offset), 4), v.at(shown, offset), 4);
    });
  });
  TopK(v, choice.encoding, choice.threads)
      .run(scores, choice.n, list, choice.thread, choice.shared);
}

namespace {

/// Makes a list of blocks of scores of keys.
class BlockChooser {
public:
  BlockChooser(NVVMBuilder &v, const KeyChoice &choice, const KeyList &list,
               Value bySpan)
      : v(v), choice(choice), list(list), bySpan(bySpan) {}

  void run(const BlockScores &scores, Value shown);

private:
  Value word(size_t offset) {
    return v.narrow(v.loadConstant(
        v.i64(), v.at(choice.args, static_cast<int64_t>(offset)), 8));
  }
  void pool(Value from, Value first, Value end, Value limit, Value to,
            Value shown);

  NVVMBuilder &v;
  const KeyChoice &choice;
  const KeyList &list;
  Value bySpan; ///< i1: whether the second span is scored by itself
};

/// The mean scores, `from` having the keys' or their own, of blocks `first` to
/// `end` (i32) to `to`; zero from block `limit` on and up to a multiple of 4 of
/// them. Also to `shown`, all of them, if that is not null. Where the second
/// span is scored by itself a short block has the others' size.
void BlockChooser::pool(Value from, Value first, Value end, Value limit,
                        Value to, Value shown) {
  const int64_t size = choice.group;
  Value count = v.sub(end, first);
  Value padded = v.both(v.add(count, 3), ~int64_t(3));
  Value shows = v.flip(v.isNull(shown), 1);
  auto scoreOf = [&](Value block) {
    Value score = v.load(v.f32(), v.at(from, v.mul(block, 4)), 4);
    return v.subf(score, choice.least);
  };
  auto meanOf = [&](Value block) -> Value {
    KeyRange keys = keysOfBlock(v, block, choice.n, list.split, size);
    // None behind the last block.
    Value sum =
        v.loop(keys.first, v.least(keys.end, choice.n), v.word(1),
               {v.real(0.0f)}, [&](Value key, ValueRange sums) -> Values {
                 return {v.addf(sums[0],
                                v.load(v.f32(), v.at(from, v.mul(key, 4)), 4))};
               })[0];
    Value keysThere =
        v.select(bySpan, v.word(size),
                 v.greatest(v.sub(keys.end, keys.first), v.word(1)));
    return v.divf(sum, arith::SIToFPOp::create(v.b, v.f32(), keysThere));
  };
  v.loop(choice.thread, padded, choice.threads, [&](Value i) {
    Value block = v.add(first, i);
    Value mean =
        choice.least ? scoreOf(v.least(block, v.add(end, -1))) : meanOf(block);
    Value offset = v.mul(i, 4);
    v.store(v.select(v.compare(CmpIPredicate::slt, block, limit), mean,
                     v.real(0.0f)),
            v.at(to, offset), 4);
    v.when(v.both(shows, v.compare(CmpIPredicate::slt, i, count)),
           [&] { v.store(mean, v.at(shown, offset), 4); });
  });
}

void BlockChooser::run(const BlockScores &scores, Value shown) {
  Value zero = v.word(0);
  Value boundary = word(offsetof(abi::SelectArgs, boundary));
  Value all = v.add(blocksBefore(v, list.split, choice.group),
                    blocksBefore(v, v.sub(choice.n, list.split), choice.group));
  // Without spans the first one is empty.
  Value firstKeep = v.select(v.compare(CmpIPredicate::sgt, boundary, zero),
                             word(offsetof(abi::SelectArgs, spanKeep)), zero);
  Value firstEnd = v.select(bySpan, all, boundary);
  pool(scores.keys, zero, all, firstEnd, scores.first, shown);
  Value showsSecond = v.both(bySpan, v.flip(v.isNull(shown), 1));
  Value shownSecond = v.choose(
      showsSecond, v.global(),
      [&]() -> Values { return {v.at(shown, v.mul(all, 4))}; },
      [&]() -> Values { return {v.null()}; })[0];
  Value secondMass = v.choose(
      bySpan, v.global(), [&]() -> Values { return {scores.spanKeys}; },
      [&]() -> Values { return {scores.keys}; })[0];
  pool(secondMass, boundary, all, all, scores.second, shownSecond);
  v.loop(choice.thread, list.keep, choice.threads, [&](Value i) {
    v.store(v.word(-1), v.at(list.base, v.mul(i, 4)), 4);
  });
  v.barrier();

  TopK topK(v, list.encoding, choice.threads);
  v.when(v.compare(CmpIPredicate::sgt, firstKeep, zero), [&] {
    KeyList firstList = list;
    firstList.keep = firstKeep;
    topK.run(scores.first, firstEnd, firstList, choice.thread, choice.shared,
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
    topK.run(scores.second, v.sub(all, boundary), secondList, choice.thread,
             choice.shared, {boundary, Value()});
  });
  v.barrier();
}

} // namespace

Value mlir::heddle::isScoredBySpan(NVVMBuilder &v, Value args) {
  Value lse = v.loadConstant(
      v.global(), v.at(args, int64_t(offsetof(abi::SelectArgs, spanLse))), 8);
  return v.flip(v.isNull(lse), 1);
}

void mlir::heddle::chooseBlocks(NVVMBuilder &v, const KeyChoice &choice,
                                Value row, Value which,
                                const BlockScores &scores) {
  KeyList list = loadKeyList(v, choice.encoding, choice.group,
                             v.at(choice.args, offsetof(abi::SelectArgs, list)),
                             row, which);
  Value bySpan =
      choice.least ? v.integer(v.i1(), 0) : isScoredBySpan(v, choice.args);
  BlockChooser(v, choice, list, bySpan)
      .run(scores, shownScores(v, choice, row, which));
}

/// Takes the least score away from all keys'.
static void takeAway(NVVMBuilder &v, const KeyChoice &choice, Value scores) {
  v.loop(choice.thread, choice.n, choice.threads, [&](Value key) {
    Value at = v.at(scores, v.mul(key, 4));
    v.store(v.subf(v.load(v.f32(), at, 4), choice.least), at, 4);
  });
  v.barrier();
}

namespace {
struct LowerTopK : FramePattern<shed::TopKOp, SelectFrame> {
  using FramePattern::FramePattern;
  SmallVector<Values> rewrite(shed::TopKOp op, Adaptor adaptor,
                              PatternBuilder &v) const override {
    Value mass = Mass::of(adaptor.getMass()).row;
    Value spanMass =
        op.getSpan() ? Mass::of(adaptor.getSpan()).row : v.word(f.parts);
    KeyChoice choice{f.encoding, f.group,  f.threads, f.args,
                     f.n,        f.thread, f.shared};
    choice.within = op.getEntriesWithin();
    v.barrier();
    if (op.getPooled()) {
      choice.pooled = static_cast<int64_t>(*op.getPooled());
      choice.pool = f.scratchRow(v, v.word(f.parts));
    }
    v.loop(v.word(0), v.word(f.parts), 1, [&](Value part) {
      Value which = v.add(f.first, part);
      Value begin = v.mul(which, f.group);
      v.when(v.compare(CmpIPredicate::slt, begin, f.rowCount(v)), [&] {
        Value keys = f.scoresOf(v, part, mass);
        if (f.byLogits) {
          Value count = f.blocks ? countBlocks(v, f) : f.n;
          choice.least = leastScore(v, f, keys, count);
        }
        if (!op.getBlocks()) {
          if (f.byLogits)
            takeAway(v, choice, keys);
          return chooseKeys(v, choice, f.list, which, keys);
        }
        const int64_t rooms = f.scoresBlocks() ? f.parts : 2 * f.parts;
        chooseBlocks(v, choice, f.list, which,
                     {keys, f.scoresOf(v, part, spanMass),
                      f.scratchRow(v, v.word(rooms)),
                      f.scratchRow(v, v.word(rooms + 1))});
      });
    });
    return {};
  }
};
} // namespace

void mlir::heddle::populateSelectLists(const TypeConverter &converter,
                                       RewritePatternSet &patterns,
                                       const SelectFrame &frame) {
  patterns.add<LowerTopK>(converter, patterns.getContext(), frame);
}
