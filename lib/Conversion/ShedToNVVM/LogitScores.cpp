//===- LogitScores.cpp - Scores keys by mean logits -----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The mean of a group's logits for a key is the product of the key with the
// mean of the group's queries; the mean over a block's keys is the product with
// the mean of these. A block of threads holds the means of several groups in
// shared memory, so that keys are read once for all of them.
//
// Blocks: a warp sums the keys of some, and has their means meet those of all
// groups, in f32. These products are so few that reading keys takes longer.
//
// Keys: those of a warp's tile, as they are, are the rows of a matrix product.
// Its columns are the means in two parts: what the element type has of a mean,
// and what it has of the rest. What is left out is at most 2^-18 of it in bf16,
// 2^-22 in f16.
//
// Sums go in an order that the group or block alone decides.
//
//===----------------------------------------------------------------------===//

#include "SelectFrame.h"

#include "bundle/abi/Abi.h"
#include "heddle/Dialect/Shed/IR/MmaTiling.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <limits>

using namespace mlir;
using namespace mlir::heddle;
namespace abi = ::heddle::abi;

using Values = NVVMBuilder::Values;
using arith::CmpIPredicate;

static VectorType fourFloats(NVVMBuilder &v) {
  return VectorType::get(4, v.f32());
}

/// Of an abi::IndexList, as an i32.
static Value listField(NVVMBuilder &v, const SelectFrame &f, size_t offset) {
  return v.narrow(
      f.field(v, v.i64(), offsetof(abi::SelectArgs, list) + offset));
}

Value mlir::heddle::countBlocks(NVVMBuilder &v, const SelectFrame &f) {
  Value split = listField(v, f, offsetof(abi::IndexList, split));
  return v.add(blocksBefore(v, split, f.group),
               blocksBefore(v, v.sub(f.n, split), f.group));
}

//===----------------------------------------------------------------------===//
// Means
//===----------------------------------------------------------------------===//

namespace {
/// Rows of a head, or of several that follow one another.
struct HeadRows {
  Value base;   ///< of the first head
  Value stride; ///< i64, bytes
  Value heads;  ///< i32; null: one
};
} // namespace

/// A warp's sum over rows `first` to `end` (i32). Some lanes have `emit` write
/// their part of it: of chunk `chunk` (i32), 16 bytes of a row.
static void sumRows(NVVMBuilder &v, const SelectFrame &f, const HeadRows &rows,
                    Value first, Value end,
                    function_ref<void(Value, ValueRange)> emit) {
  const auto width = static_cast<int64_t>(
      std::min<uint64_t>(32, llvm::PowerOf2Ceil(f.chunks)));
  const int64_t together = 32 / width, each = f.channels / f.chunks;
  // Loads that are under way together: whole groups and blocks have no rest.
  const int64_t deep = std::clamp<int64_t>(f.group / together, 1, 8);
  Value own = v.quotient(f.lane, width);
  end = v.greatest(end, first);
  Value whole =
      v.add(first, v.mul(v.quotient(v.sub(end, first), deep * together),
                         deep * together));
  auto add = [&](ValueRange sums, Value quad) -> Values {
    Values next;
    for (int64_t i = 0; i < 4; ++i) {
      Value word = v.extract(quad, i);
      if (f.exact) {
        next.push_back(v.addf(sums[i], v.bits(v.f32(), word)));
        continue;
      }
      auto [low, high] = v.unpack(f.element, word);
      next.push_back(v.addf(sums[2 * i], low));
      next.push_back(v.addf(sums[2 * i + 1], high));
    }
    return next;
  };
  auto sumHead = [&](Value from, ValueRange sums) -> Values {
    auto rowAt = [&](Value row) {
      return v.at(from, v.mul(v.widen(row), rows.stride));
    };
    Values most = v.loop(first, whole, deep * together, sums,
                         [&](Value row, ValueRange carried) -> Values {
                           Value at = rowAt(v.add(row, own));
                           Values quads;
                           for (int64_t i = 0; i < deep; ++i) {
                             quads.push_back(v.loadConstant(v.quad(), at, 16));
                             at = v.at(at, v.mul(rows.stride, together));
                           }
                           Values next(carried);
                           for (Value quad : quads)
                             next = add(next, quad);
                           return next;
                         });
    return v.loop(
        whole, end, together, most,
        [&](Value row, ValueRange carried) -> Values {
          Value mine = v.add(row, own);
          Value there = v.compare(CmpIPredicate::slt, mine, end);
          Values next = add(
              carried,
              v.loadConstant(v.quad(), rowAt(v.select(there, mine, row)), 16));
          for (auto [sum, before] : llvm::zip_equal(next, carried))
            sum = v.select(there, sum, before);
          return next;
        });
  };
  auto sumChunk = [&](Value chunk) {
    // The last chunk is also that of lanes that have none.
    Value from = v.at(rows.base,
                      v.mul(v.least(chunk, v.word(f.chunks - 1)), int64_t(16)));
    Values sums(each, v.real(0.0f));
    sums = rows.heads
               ? v.loop(v.word(0), rows.heads, 1, sums,
                        [&](Value head, ValueRange carried) -> Values {
                          return sumHead(v.at(from, v.mul(head, f.rowBytes)),
                                         carried);
                        })
               : sumHead(from, sums);
    for (int64_t distance = width; distance < 32; distance *= 2)
      for (Value &sum : sums)
        sum = v.addf(sum, v.shuffleXor(sum, distance));
    Value mine = v.compare(CmpIPredicate::slt, chunk, f.chunks);
    if (together > 1)
      mine = v.both(mine, v.compare(CmpIPredicate::eq, own, int64_t(0)));
    v.when(mine, [&] { emit(chunk, sums); });
  };
  if (f.chunks <= 32)
    sumChunk(v.both(f.lane, width - 1));
  else
    v.loop(f.lane, v.word(f.chunks), 32, sumChunk);
}

/// One part in as many as a mean has terms, of `heads` query heads (i32) or
/// one: none behind the last group or key.
static Value shareOf(NVVMBuilder &v, Value first, Value end, Value heads) {
  Value count = v.greatest(v.sub(end, first), v.word(1));
  if (heads)
    count = v.mul(count, heads);
  return v.divf(v.real(1.0f), arith::SIToFPOp::create(v.b, v.f32(), count));
}

/// Floats, a multiple of 4, on 16 bytes of shared memory.
static void storeFloats(NVVMBuilder &v, ValueRange floats, Value address,
                        int64_t offset) {
  for (size_t i = 0; i < floats.size(); i += 4)
    v.storeShared(v.makeVector(Values(floats.slice(i, 4))), address,
                  offset + 4 * static_cast<int64_t>(i), 16);
}

namespace {
/// Some heads of a list that share a head of keys.
struct KeyHead {
  Value key;          ///< i32
  Value first, heads; ///< i32: query heads
};

/// The rows of group `part` (i32) of the task.
struct GroupRows {
  GroupRows(NVVMBuilder &v, const SelectFrame &f, Value part) {
    first = v.mul(v.add(f.first, part), f.group);
    if (f.ofRange)
      first = v.add(first, f.rowBegin);
    end = v.least(v.add(first, f.group), f.rowEnd);
  }
  Value first, end;
};
} // namespace

static HeadRows queriesOf(NVVMBuilder &v, const SelectFrame &f,
                          const KeyHead &head) {
  Value base = f.field(v, v.global(), offsetof(abi::SelectArgs, query));
  Value stride =
      v.mul(f.field(v, v.i64(), offsetof(abi::SelectArgs, queryStride)),
            f.rowBytes / f.channels);
  return {v.at(base, v.mul(v.widen(head.first), f.rowBytes)), stride,
          f.sharesLists ? head.heads : Value()};
}

static Value keysOf(NVVMBuilder &v, const SelectFrame &f, const KeyHead &head) {
  return v.at(f.field(v, v.global(), offsetof(abi::SelectArgs, key)),
              v.mul(v.widen(head.key), f.rowBytes));
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

/// The address of mean `i` (i32) from `base` on: of f32, of 16 bytes more than
/// the channels take, so that lanes read other banks.
static Value meanAt(NVVMBuilder &v, const SelectFrame &f, Value base, Value i) {
  return v.add(base, v.mul(i, 4 * f.channels + 16));
}

/// The mean queries of the block's groups, scaled.
static void poolQueries(NVVMBuilder &v, const SelectFrame &f,
                        const KeyHead &head) {
  HeadRows queries = queriesOf(v, f, head);
  Value scale = f.field(v, v.f32(), offsetof(abi::SelectArgs, scale));
  v.loop(f.warp, v.word(f.parts), f.warps, [&](Value part) {
    GroupRows rows(v, f, part);
    Value share =
        v.mulf(scale, shareOf(v, rows.first, rows.end, f.headsPerList));
    Value to = meanAt(v, f, f.shared, part);
    sumRows(v, f, queries, rows.first, rows.end,
            [&](Value chunk, ValueRange sums) {
              Values means;
              for (Value sum : sums)
                means.push_back(v.mulf(sum, share));
              const auto bytes = static_cast<int64_t>(4 * sums.size());
              storeFloats(v, means, v.add(to, v.mul(chunk, bytes)),
                          f.layout.getQueries());
            });
  });
}

/// Scores all blocks of keys for the block's groups, or adds to their scores.
static void scoreBlocks(NVVMBuilder &v, const SelectFrame &f,
                        const KeyHead &head, Value to, Value split,
                        Value count) {
  constexpr int64_t together = shed::blocksTogether;
  HeadRows keys{keysOf(v, f, head), f.keyStride, Value()};
  const int64_t meanBytes = 4 * f.channels + 16;
  Value own = v.add(v.add(f.shared, f.layout.getKeys()),
                    v.mul(f.warp, together * meanBytes));
  v.loop(v.mul(f.warp, together), count, together * f.warps, [&](Value first) {
    v.warpBarrier(); // the last means have been read
    v.loop(v.word(0), v.word(together), 1, [&](Value i) {
      KeyRange range = keysOfBlock(v, v.add(first, i), f.n, split, f.group);
      Value end = v.least(range.end, f.n);
      Value share = shareOf(v, range.first, end, Value());
      Value mean = meanAt(v, f, own, i);
      sumRows(v, f, keys, range.first, end, [&](Value chunk, ValueRange sums) {
        Values means;
        for (Value sum : sums)
          means.push_back(v.mulf(sum, share));
        const auto bytes = static_cast<int64_t>(4 * sums.size());
        storeFloats(v, means, v.add(mean, v.mul(chunk, bytes)), 0);
      });
    });
    v.warpBarrier();
    v.loop(f.lane, v.word(f.parts), 32, [&](Value part) {
      Value query = meanAt(v, f, f.shared, part);
      Values scores =
          v.loop(v.word(0), hiddenWord(v, 4 * f.channels), 16,
                 Values(together, v.real(0.0f)),
                 [&](Value byte, ValueRange carried) -> Values {
                   Values next(carried);
                   Value left = v.loadShared(fourFloats(v), v.add(query, byte),
                                             f.layout.getQueries(), 16);
                   for (int64_t i = 0; i < together; ++i) {
                     Value right = v.loadShared(fourFloats(v), v.add(own, byte),
                                                i * meanBytes, 16);
                     for (int64_t c = 0; c < 4; ++c)
                       next[i] = v.fma(v.extract(left, c), v.extract(right, c),
                                       next[i]);
                   }
                   return next;
                 });
      // Behind the last block, too: rows have room for fours.
      Value at = v.at(f.scoresOf(v, part, to), v.mul(first, 4));
      if (f.sharesLists) {
        Value before = v.load(fourFloats(v), at, 16);
        for (int64_t i = 0; i < together; ++i)
          scores[i] = v.addf(v.extract(before, i), scores[i]);
      }
      v.store(v.makeVector(scores), at, 16);
    });
  });
}

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

/// The mean queries of the block's groups, without the scale, as rows of
/// queries; behind those of all groups what the element type leaves of them.
static void splitQueries(NVVMBuilder &v, const SelectFrame &f,
                         const KeyHead &head) {
  HeadRows queries = queriesOf(v, f, head);
  const int64_t each = f.channels / f.chunks, sumBytes = 4 * f.channels;
  // Sums are where keys are to be; of one group each warp has those of a part.
  auto sum = [&](Value slot, Value first, Value end) {
    Value to = v.add(f.shared, v.mul(slot, sumBytes));
    sumRows(v, f, queries, first, end, [&](Value chunk, ValueRange sums) {
      storeFloats(v, sums, v.add(to, v.mul(chunk, 4 * each)),
                  f.layout.getKeys());
    });
  };
  if (f.ofRange) {
    GroupRows rows(v, f, v.word(0));
    Value count =
        v.quotient(v.add(v.sub(rows.end, rows.first), f.warps - 1), f.warps);
    Value first = v.add(rows.first, v.mul(f.warp, count));
    sum(f.warp, first, v.least(v.add(first, count), rows.end));
  } else {
    v.loop(f.warp, v.word(f.parts), f.warps, [&](Value part) {
      GroupRows rows(v, f, part);
      sum(part, rows.first, rows.end);
    });
  }
  v.barrier();
  v.loop(f.thread, v.word(f.rows * f.chunks), f.threads, [&](Value item) {
    Value part = v.quotient(item, f.chunks);
    Value chunk = v.sub(item, v.mul(part, f.chunks));
    auto none = [&]() -> Values { return Values(each, v.real(0.0f)); };
    auto mean = [&]() -> Values {
      GroupRows rows(v, f, part);
      Value share = shareOf(v, rows.first, rows.end, f.headsPerList);
      Value from =
          v.add(v.add(f.shared, v.mul(part, sumBytes)), v.mul(chunk, 4 * each));
      Values means;
      for (int64_t i = 0; i < each; i += 4) {
        Values sums(4);
        for (int64_t slot = 0; slot < (f.ofRange ? f.warps : 1); ++slot) {
          Value four =
              v.loadShared(fourFloats(v), from,
                           f.layout.getKeys() + slot * sumBytes + 4 * i, 16);
          for (int64_t c = 0; c < 4; ++c) {
            Value part = v.extract(four, c);
            sums[c] = slot ? v.addf(sums[c], part) : part;
          }
        }
        for (Value sum : sums)
          means.push_back(v.mulf(sum, share));
      }
      return means;
    };
    Values means = v.choose(v.compare(CmpIPredicate::slt, part, f.parts),
                            SmallVector<Type>(each, v.f32()), mean, none);
    if (f.swizzled)
      chunk = v.flip(chunk, v.mul(v.both(part, 1), 4));
    Value to =
        v.add(v.add(f.shared, v.mul(part, f.rowBytes)), v.mul(chunk, 16));
    if (f.exact)
      return storeFloats(v, means, to, f.layout.getQueries());
    Values parts, rests;
    for (int64_t i = 0; i < each; i += 2) {
      parts.push_back(v.pack(f.element, means[i], means[i + 1]));
      auto [low, high] = v.unpack(f.element, parts.back());
      rests.push_back(
          v.pack(f.element, v.subf(means[i], low), v.subf(means[i + 1], high)));
    }
    v.storeShared(v.makeVector(parts), to, f.layout.getQueries(), 16);
    v.storeShared(v.makeVector(rests), to,
                  f.layout.getQueries() + f.rows * f.rowBytes, 16);
  });
}

/// Scores all keys for the block's groups, or adds to their scores. A key is
/// always the same lane's.
static void scoreKeys(NVVMBuilder &v, const SelectFrame &f, const KeyHead &head,
                      Value to) {
  Value base = keysOf(v, f, head);
  f.copyKeys(v, base, f.warp);
  v.commitCopies();
  Value scale = f.field(v, v.f32(), offsetof(abi::SelectArgs, scale));
  Value padded = v.both(v.add(f.n, 3), ~int64_t(3));
  // Groups 8 r + 2 (l % 4) and the next one.
  Value group = v.mul(v.both(f.lane, 3), 2);
  Values rows;
  for (int64_t at = 0; at < f.rows; at += 8)
    for (int64_t i = 0; i < 2; ++i)
      rows.push_back(f.scoresOf(v, v.add(group, at + i), to));
  auto store = [&](Value tile, int64_t square, ValueRange products) {
    Value first = v.add(v.mul(tile, f.tileKeys), v.quotient(f.lane, 4));
    for (int64_t half = 0; half < 2 * f.keySquares; ++half)
      for (int64_t i = 0; i < 2; ++i) {
        Value key = v.add(first, 8 * half);
        Value mine = v.compare(CmpIPredicate::slt, key, padded);
        if (f.parts < 8 * (square + 1))
          mine = v.both(mine, v.compare(CmpIPredicate::slt, group,
                                        f.parts - 8 * square - i));
        v.when(mine, [&] {
          Value score =
              v.select(v.compare(CmpIPredicate::slt, key, f.n),
                       v.mulf(products[2 * half + i], scale), v.real(0.0f));
          Value at = v.at(rows[2 * square + i], v.mul(key, 4));
          if (f.sharesLists)
            score = v.addf(v.load(v.f32(), at, 4), score);
          v.store(score, at, 4);
        });
      }
  };
  const int64_t squares = f.rows / 8, elements = 4 * f.keySquares;
  Value tiles = v.quotient(v.add(f.n, f.tileKeys - 1), f.tileKeys);
  v.loop(f.warp, tiles, f.warps, [&](Value tile) {
    v.awaitCopies(0);
    v.warpBarrier();
    auto copyNext = [&] {
      v.warpBarrier();
      Value next = v.add(tile, f.warps);
      v.when(v.compare(CmpIPredicate::slt, next, tiles),
             [&] { f.copyKeys(v, base, next); });
      v.commitCopies();
    };
    if (f.exact) {
      for (int64_t r = 0; r < squares; ++r)
        store(tile, r, multiplyKeys(v, f, {}, v.word(8 * r)));
      return copyNext();
    }
    // The tile moves to registers and leaves its place to the next one.
    Values fragments = f.loadKeyFragments(v);
    copyNext();
    Values products = multiplyKeys(v, f, fragments, v.word(0));
    for (int64_t r = 0; r < squares; ++r) {
      Values sums;
      for (int64_t i = 0; i < elements; ++i)
        sums.push_back(v.addf(products[r * elements + i],
                              products[(squares + r) * elements + i]));
      store(tile, r, sums);
    }
  });
  v.awaitCopies(0);
}

//===----------------------------------------------------------------------===//
// Both
//===----------------------------------------------------------------------===//

Value mlir::heddle::leastScore(NVVMBuilder &v, const SelectFrame &f,
                               Value scores, Value count) {
  auto least = [&](Value x, Value y) -> Value {
    return arith::MinNumFOp::create(v.b, x, y);
  };
  Value most = v.real(std::numeric_limits<float>::infinity());
  Value own = v.loop(
      f.thread, count, f.threads, Values{most},
      [&](Value entry, ValueRange carried) -> Values {
        return {least(carried[0],
                      v.load(v.f32(), v.at(scores, v.mul(entry, 4)), 4))};
      })[0];
  own = v.reduceLanes(own, 32, least);
  v.barrier(); // the last list has been made here
  v.when(v.compare(CmpIPredicate::eq, f.lane, int64_t(0)), [&] {
    v.storeShared(own, v.add(f.shared, v.mul(f.warp, 4)), f.layout.getLse());
  });
  v.barrier();
  Value all = v.loadShared(v.f32(), f.shared, f.layout.getLse());
  for (int64_t i = 1; i < f.warps; ++i)
    all =
        least(all, v.loadShared(v.f32(), f.shared, f.layout.getLse() + 4 * i));
  v.barrier(); // lists are made there
  return all;
}

namespace {
/// Scores of the groups of the task.
struct LowerLogitMass : FramePattern<shed::LogitMassOp, SelectFrame> {
  using FramePattern::FramePattern;
  SmallVector<Values> rewrite(shed::LogitMassOp, Adaptor adaptor,
                              PatternBuilder &v) const override {
    Value to = Mass::of(adaptor.getMass()).row;
    Value kvGroup =
        v.narrow(f.field(v, v.i64(), offsetof(abi::SelectArgs, kvGroup)));
    Value split, count = f.n;
    if (f.blocks) {
      split = listField(v, f, offsetof(abi::IndexList, split));
      count = countBlocks(v, f);
    }
    auto score = [&](const KeyHead &head) {
      // The list before has been made of these rows, and in shared memory.
      v.barrier();
      if (f.blocks)
        poolQueries(v, f, head);
      else
        splitQueries(v, f, head);
      v.barrier();
      if (f.blocks)
        scoreBlocks(v, f, head, to, split, count);
      else
        scoreKeys(v, f, head, to);
    };
    if (!f.sharesLists) {
      score({v.quotient(f.list, kvGroup), f.list, Value()});
      return {Values(adaptor.getMass())};
    }
    // All heads add to zeros.
    v.barrier();
    Value padded = v.both(v.add(count, 3), ~int64_t(3));
    v.loop(f.thread, padded, f.threads, [&](Value entry) {
      for (int64_t part = 0; part < f.parts; ++part)
        v.store(v.real(0.0f),
                v.at(f.scoresOf(v, v.word(part), to), v.mul(entry, 4)), 4);
    });
    Value first = v.mul(f.list, f.headsPerList);
    Value end = v.add(first, f.headsPerList);
    v.loop(
        v.quotient(first, kvGroup),
        v.add(v.quotient(v.add(end, -1), kvGroup), 1), 1, [&](Value key) {
          Value from = v.mul(key, kvGroup);
          Value begin = v.greatest(first, from);
          score({key, begin, v.sub(v.least(end, v.add(from, kvGroup)), begin)});
        });
    return {Values(adaptor.getMass())};
  }
};
} // namespace

void mlir::heddle::populateSelectLogits(const TypeConverter &converter,
                                        RewritePatternSet &patterns,
                                        const SelectFrame &frame) {
  patterns.add<LowerLogitMass>(converter, patterns.getContext(), frame);
}
