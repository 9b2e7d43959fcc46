//===- TopK.cpp - Chooses the largest scores in a CUDA kernel ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TopK.h"

using namespace mlir;
using namespace mlir::heddle;

using Values = NVVMBuilder::Values;
using arith::CmpIPredicate;

/// Scores are not negative: the sign bit is left out, and with it that of NaN.
static constexpr int64_t magnitude = 0x7fffffff;
/// Bits of a score that one histogram tells apart, from the highest on.
static constexpr int64_t digits[] = {11, 10, 10};
static constexpr int64_t histogramBytes = 4 << 11;
/// Behind the histogram: words that warps leave for each other.
static constexpr int64_t warpWords = 2 * 32;
static constexpr int64_t pickWords = 4;
static constexpr int64_t warpOffset = histogramBytes;
static constexpr int64_t pickOffset = warpOffset + 4 * warpWords;
/// Independent loads that a thread has under way.
static constexpr int64_t depth = 4;
/// Words of 32 keys that a warp looks at together.
static constexpr int64_t stride = 8;

int64_t TopK::sharedBytes() { return pickOffset + 4 * pickWords; }

void TopK::run(Value row, Value count, const KeyList &to, Value threadId,
               Value at, const Names &called) {
  scores = row;
  n = count;
  list = to;
  names = called;
  thread = threadId;
  shared = at;
  lane = v.both(thread, 31);
  warp = v.quotient(thread, 32);
  // A bitmap's padding is written, too.
  words = encoding == shed::Encoding::Bitmap
              ? v.narrow(v.quotient(list.rowBytes, 4))
              : v.quotient(v.add(n, 31), 32);
  Value part = v.mul(
      v.quotient(v.add(words, warps * stride - 1), warps * stride), stride);
  firstWord = v.mul(warp, part);
  endWord = v.least(v.add(firstWord, part), words);

  Threshold threshold = search();
  if (encoding != shed::Encoding::Bitmap)
    return write(threshold, countBefore(threshold));
  // Every score that equals the threshold is taken, but for rare ties.
  Values before = v.choose(
      v.compare(CmpIPredicate::eq, threshold.equal, threshold.ties), v.i32(),
      [&]() -> Values { return {v.word(0)}; },
      [&]() -> Values { return {countBefore(threshold).equal}; });
  write(threshold, {Value(), before[0]});
}

//===----------------------------------------------------------------------===//
// The keep-th largest score
//===----------------------------------------------------------------------===//

TopK::Threshold TopK::search() {
  Threshold found{v.word(0), list.keep, Value()};
  int64_t shift = 31;
  for (int64_t bits : digits) {
    shift -= bits;
    count(found.bits, shift, bits);
    v.barrier();
    found = pick(found, shift, bits);
  }
  return found;
}

/// Counts the scores that begin with the bits of `prefix`, by the `bits` next
/// ones.
void TopK::count(Value prefix, int64_t shift, int64_t bits) {
  int64_t bins = int64_t(1) << bits;
  Value zeros = v.makeVector(Values(4, v.word(0)));
  v.loop(v.mul(thread, 16), v.word(4 * bins), 16 * threads,
         [&](Value at) { v.storeShared(zeros, v.add(shared, at), 0, 16); });
  v.barrier();
  Value quads = v.quotient(v.add(n, 3), 4), last = v.add(quads, -1);
  Value wanted = v.shiftRight(prefix, shift + bits);
  v.loop(thread, quads, depth * threads, [&](Value first) {
    Values loaded, exists;
    for (int64_t i = 0; i < depth; ++i) {
      Value index = v.add(first, i * threads);
      exists.push_back(v.compare(CmpIPredicate::slt, index, quads));
      loaded.push_back(
          v.load(v.quad(), v.at(scores, v.mul(v.least(index, last), 16)), 16));
    }
    for (int64_t i = 0; i < depth; ++i)
      for (int64_t word = 0; word < 4; ++word) {
        Value score = v.both(v.extract(loaded[i], word), magnitude);
        Value matches = exists[i];
        if (shift + bits < 31)
          matches = v.both(matches, v.compare(CmpIPredicate::eq,
                                              v.shiftRight(score, shift + bits),
                                              wanted));
        v.when(matches, [&] {
          Value bin = v.both(v.shiftRight(score, shift), bins - 1);
          v.atomicAdd(v.sharedAt(v.add(shared, v.mul(bin, 4))), v.word(1));
        });
      }
  });
}

/// Finds the bin that holds the keep-th largest score.
TopK::Threshold TopK::pick(const Threshold &previous, int64_t shift,
                           int64_t bits) {
  int64_t bins = int64_t(1) << bits,
          each = std::max<int64_t>(bins / threads, 1);
  int64_t holders = bins / each;
  // Thread t sums `each` bins, thread 0 the highest.
  Value top = v.sub(v.word(bins - 1), v.mul(thread, each));
  Value topAddress = v.add(shared, v.mul(top, 4));
  auto addOwn = [&]() -> Values {
    Value sum = v.word(0);
    for (int64_t i = 0; i < each; ++i)
      sum = v.add(sum, v.loadShared(v.i32(), topAddress, -4 * i));
    return {sum};
  };
  Value own =
      holders == threads
          ? addOwn()[0]
          : v.choose(v.compare(CmpIPredicate::ult, thread, holders), v.i32(),
                     addOwn, [&]() -> Values { return {v.word(0)}; })[0];
  Value above = prefixOfBlock(own, warpOffset);
  // The keep-th largest is in the bins of exactly one thread.
  Value mine =
      v.both(v.compare(CmpIPredicate::slt, above, previous.ties),
             v.compare(CmpIPredicate::sge, v.add(above, own), previous.ties));
  v.when(mine, [&] {
    Values found =
        v.repeat({top, above, v.word(0)}, [&](ValueRange at) -> Values {
          Value inBin = v.loadShared(v.i32(), v.add(shared, v.mul(at[0], 4)));
          Value reached = v.add(at[1], inBin);
          Value more =
              v.both(v.compare(CmpIPredicate::slt, reached, previous.ties),
                     v.compare(CmpIPredicate::sgt, at[0], int64_t(0)));
          return {more, v.select(more, v.add(at[0], -1), at[0]),
                  v.select(more, reached, at[1]), inBin};
        });
    Value bits = v.either(previous.bits, v.shiftLeft(found[0], shift));
    v.storeShared(bits, shared, pickOffset);
    v.storeShared(v.sub(previous.ties, found[1]), shared, pickOffset + 4);
    v.storeShared(found[2], shared, pickOffset + 8);
  });
  v.barrier();
  return {v.loadShared(v.i32(), shared, pickOffset),
          v.loadShared(v.i32(), shared, pickOffset + 4),
          v.loadShared(v.i32(), shared, pickOffset + 8)};
}

/// The sum of `x` over the threads before this one. Uses a word of shared
/// memory a warp at `at`; a barrier must lie between two uses.
Value TopK::prefixOfBlock(Value x, int64_t at) {
  Value sum = x;
  for (int64_t distance = 1; distance < 32; distance *= 2) {
    Value below = v.shuffleUp(sum, distance);
    sum = v.add(sum, v.select(v.compare(CmpIPredicate::uge, lane, distance),
                              below, v.word(0)));
  }
  v.when(v.compare(CmpIPredicate::eq, lane, 31),
         [&] { v.storeShared(sum, v.add(shared, v.mul(warp, 4)), at); });
  v.barrier();
  Value before = v.sub(sum, x);
  for (int64_t i = 0; i + 1 < warps; ++i)
    before = v.add(before, v.select(v.compare(CmpIPredicate::ugt, warp, i),
                                    v.loadShared(v.i32(), shared, at + 4 * i),
                                    v.word(0)));
  return before;
}

//===----------------------------------------------------------------------===//
// The list
//===----------------------------------------------------------------------===//

/// The lane's scores in `stride` words from `word` on: key 32 * word + lane and
/// so on. Behind the row's end -1, less than any score.
Values TopK::scoresOf(Value word) {
  Values loaded, keys;
  Value key = v.add(v.mul(word, 32), lane), last = v.add(n, -1);
  for (int64_t i = 0; i < stride; ++i) {
    keys.push_back(v.add(key, 32 * i));
    loaded.push_back(
        v.load(v.i32(), v.at(scores, v.mul(v.least(keys[i], last), 4)), 4));
  }
  Values result;
  for (int64_t i = 0; i < stride; ++i)
    result.push_back(v.select(v.compare(CmpIPredicate::slt, keys[i], n),
                              v.both(loaded[i], magnitude), v.word(-1)));
  return result;
}

/// Counts the scores above and at the threshold in the parts of the warps
/// before this one.
TopK::Counts TopK::countBefore(const Threshold &threshold) {
  Values own = v.loop(firstWord, endWord, stride, {v.word(0), v.word(0)},
                      [&](Value word, ValueRange carried) -> Values {
                        Value greater = carried[0], equal = carried[1];
                        for (Value score : scoresOf(word)) {
                          auto count = [&](CmpIPredicate predicate) -> Value {
                            return arith::ExtUIOp::create(
                                v.b, v.i32(),
                                v.compare(predicate, score, threshold.bits));
                          };
                          greater = v.add(greater, count(CmpIPredicate::sgt));
                          equal = v.add(equal, count(CmpIPredicate::eq));
                        }
                        return {greater, equal};
                      });
  auto plus = [&](Value x, Value y) { return v.add(x, y); };
  Value greater = v.reduceLanes(own[0], 32, plus);
  Value equal = v.reduceLanes(own[1], 32, plus);
  // The last words of this kind were read before the barriers of pick().
  v.when(v.compare(CmpIPredicate::eq, lane, int64_t(0)), [&] {
    Value at = v.add(shared, v.mul(warp, 8));
    v.storeShared(greater, at, warpOffset);
    v.storeShared(equal, at, warpOffset + 4);
  });
  v.barrier();
  Counts before{v.word(0), v.word(0)};
  for (int64_t i = 0; i + 1 < warps; ++i) {
    Value counts = v.compare(CmpIPredicate::ugt, warp, i);
    auto add = [&](Value sum, int64_t offset) {
      Value other = v.loadShared(v.i32(), shared, warpOffset + 8 * i + offset);
      return v.add(sum, v.select(counts, other, v.word(0)));
    };
    before = {add(before.greater, 0), add(before.equal, 4)};
  }
  return before;
}

void TopK::write(const Threshold &threshold, const Counts &before) {
  bool bitmap = encoding == shed::Encoding::Bitmap;
  bool wide = encoding == shed::Encoding::Int32;
  Value below = v.add(v.shiftLeft(v.word(1), lane), -1);
  // Carried: scores at the threshold so far, then keys written.
  Values carried = {before.equal};
  if (!bitmap)
    carried.push_back(
        v.add(before.greater, v.least(before.equal, threshold.ties)));
  v.loop(
      firstWord, endWord, stride, carried,
      [&](Value word, ValueRange at) -> Values {
        Values next(at);
        Value mine = v.word(0);
        for (auto [i, score] : llvm::enumerate(scoresOf(word))) {
          Value equal = v.compare(CmpIPredicate::eq, score, threshold.bits);
          Value equals = v.ballot(equal);
          Value rank = v.add(next[0], v.countBits(v.both(equals, below)));
          Value tied = v.both(
              equal, v.compare(CmpIPredicate::slt, rank, threshold.ties));
          Value take = v.either(
              tied, v.compare(CmpIPredicate::sgt, score, threshold.bits));
          Value taken = v.ballot(take);
          next[0] = v.add(next[0], v.countBits(equals));
          if (bitmap) {
            mine = v.select(v.compare(CmpIPredicate::eq, lane, i), taken, mine);
            continue;
          }
          Value place = v.add(next[1], v.countBits(v.both(taken, below)));
          next[1] = v.add(next[1], v.countBits(taken));
          // Always true for a valid `keep`; never writes behind the list.
          take = v.both(take, v.compare(CmpIPredicate::ult, place, list.keep));
          Value key = v.add(v.add(v.mul(word, 32), lane), 32 * i);
          if (names.first)
            key = v.add(key, names.first);
          if (names.limit)
            take =
                v.both(take, v.compare(CmpIPredicate::slt, key, names.limit));
          v.when(take, [&] {
            if (wide)
              return v.store(key, v.at(list.base, v.mul(place, 4)), 4);
            v.store(arith::TruncIOp::create(v.b, v.i16(), key),
                    v.at(list.base, v.mul(place, 2)), 2);
          });
        }
        if (bitmap) {
          Value index = v.add(word, lane);
          v.when(v.both(v.compare(CmpIPredicate::ult, lane, stride),
                        v.compare(CmpIPredicate::slt, index, endWord)),
                 [&] { v.store(mine, v.at(list.base, v.mul(index, 4)), 4); });
        }
        return next;
      });
}
