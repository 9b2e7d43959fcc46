//===- IndexSource.cpp - Reads index lists in CUDA kernels ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "IndexSource.h"

#include "bundle/abi/Abi.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::heddle;
namespace abi = ::heddle::abi;

using Values = NVVMBuilder::Values;
using arith::CmpIPredicate;

/// Keys that one warp decodes from a bitmap at a time, a word a lane.
static constexpr int64_t chunkKeys = 32 * 32;

KeyList mlir::heddle::loadKeyList(NVVMBuilder &v, shed::Encoding encoding,
                                  int64_t blockKeys, Value lists, Value row,
                                  Value group) {
  auto field = [&](Type type, size_t offset) {
    return v.loadConstant(type, v.at(lists, static_cast<int64_t>(offset)), 8);
  };
  Value indices = field(v.global(), offsetof(abi::IndexList, indices));
  Value groups = field(v.i64(), offsetof(abi::IndexList, groups));
  KeyList list;
  list.encoding = blockKeys ? shed::Encoding::Int32 : encoding;
  list.keep = v.narrow(field(v.i64(), offsetof(abi::IndexList, keep)));
  list.rowBytes = field(v.i64(), offsetof(abi::IndexList, rowBytes));
  Value at = v.add(v.mul(v.widen(row), groups), v.widen(group));
  list.base = v.at(indices, v.mul(at, list.rowBytes));
  list.blockKeys = blockKeys;
  if (blockKeys)
    list.split = v.narrow(field(v.i64(), offsetof(abi::IndexList, split)));
  return list;
}

Value mlir::heddle::blocksBefore(NVVMBuilder &v, Value split, int64_t size) {
  return v.quotient(v.add(split, size - 1), size);
}

KeyRange mlir::heddle::keysOfBlock(NVVMBuilder &v, Value block, Value n,
                                   Value split, int64_t size) {
  Value before = blocksBefore(v, split, size);
  Value second = v.compare(CmpIPredicate::sge, block, before);
  Value first =
      v.select(second, v.add(split, v.mul(v.sub(block, before), size)),
               v.mul(block, size));
  return {first, v.least(v.add(first, size), v.select(second, n, split))};
}

Value mlir::heddle::countBelow(NVVMBuilder &v, Value count, Value bound,
                               function_ref<Value(Value)> wordAt) {
  // The number is in [low, low + length].
  return v.repeat({v.word(0), count}, [&](ValueRange carried) -> Values {
    Value low = carried[0], length = carried[1];
    Value half = v.quotient(v.add(length, 1), 2);
    Value middle = v.add(low, half);
    Value below =
        v.compare(CmpIPredicate::ult, wordAt(v.add(middle, -1)), bound);
    Value rest = v.select(below, v.sub(length, half), v.add(half, -1));
    return {v.compare(CmpIPredicate::sgt, rest, int64_t(0)),
            v.select(below, middle, low), rest};
  })[0];
}

Value mlir::heddle::placesBelow(NVVMBuilder &v, Value positions, Value n,
                                Value bound) {
  bound = v.greatest(bound, v.word(0));
  return v.choose(
      v.isNull(positions), v.i32(),
      [&]() -> Values { return {v.least(bound, n)}; },
      [&]() -> Values {
        return {countBelow(v, n, bound, [&](Value place) {
          return v.loadConstant(v.i32(), v.at(positions, v.mul(place, 4)), 4);
        })};
      })[0];
}

shed::PairArithmetic mlir::heddle::positionArithmetic(NVVMBuilder &v,
                                                      Value args) {
  return {v.b, v.i32(), [&v, args] {
            // Counts of sinks and positions fit 32 bits.
            Value at = v.at(args, int64_t(offsetof(abi::AttentionArgs, sinks)));
            return v.narrow(v.loadConstant(v.i64(), at, 8));
          }};
}

Value mlir::heddle::endOf(NVVMBuilder &v, ArrayRef<shed::KeySet> sets,
                          Value args, Value positions, Value n) {
  shed::PairArithmetic a = positionArithmetic(v, args);
  Value bound;
  for (shed::KeySet set : sets) {
    if (isa<shed::AllAttr>(set))
      return n;
    Value end = set.getKeys(a, {}, {}).end;
    bound = bound ? v.greatest(bound, end) : end;
  }
  return placesBelow(v, positions, n, bound);
}

Value mlir::heddle::entryOf(NVVMBuilder &v, const KeyList &list, Value place) {
  const bool wide = list.encoding == shed::Encoding::Int32;
  Value address = v.at(list.base, v.mul(place, wide ? 4 : 2));
  if (wide)
    return v.loadConstant(v.i32(), address, 4);
  return arith::ExtUIOp::create(v.b, v.i32(),
                                v.loadConstant(v.i16(), address, 2));
}

Value mlir::heddle::containsKey(NVVMBuilder &v, const KeyList &list,
                                Value key) {
  if (list.blockKeys) {
    // Entries name blocks; those of -1, at the end, are the greatest.
    Value second = v.compare(CmpIPredicate::sge, key, list.split);
    Value inSpan = v.select(second, v.sub(key, list.split), key);
    Value before = v.select(second, blocksBefore(v, list.split, list.blockKeys),
                            v.word(0));
    key = v.add(before, v.quotient(inSpan, list.blockKeys));
  }
  if (list.encoding == shed::Encoding::Bitmap) {
    Value word = v.loadConstant(
        v.i32(), v.at(list.base, v.mul(v.quotient(key, 32), 4)), 4);
    Value bit = v.both(v.shiftRight(word, v.both(key, 31)), 1);
    return v.compare(CmpIPredicate::ne, bit, int64_t(0));
  }
  auto entry = [&](Value place) { return entryOf(v, list, place); };
  Value found = countBelow(v, list.keep, key, entry);
  return v.compare(CmpIPredicate::eq,
                   entry(v.least(found, v.add(list.keep, -1))), key);
}

//===----------------------------------------------------------------------===//
// IndexSource
//===----------------------------------------------------------------------===//

int64_t IndexSource::ringKeys(shed::Encoding encoding, int64_t tileKeys) {
  // A bitmap's chunk may give a whole chunk of keys beyond the tile's last.
  if (encoding == shed::Encoding::Bitmap)
    return 2 * chunkKeys;
  return ringTiles * tileKeys;
}

int64_t IndexSource::sharedBytes(shed::Encoding encoding, int64_t tileKeys) {
  assert(llvm::isPowerOf2_64(tileKeys) && tileKeys >= 32 && tileKeys <= 256);
  int64_t keys = ringKeys(encoding, tileKeys);
  switch (encoding) {
  case shed::Encoding::Int32:
    return 4 * keys;
  case shed::Encoding::Uint16:
    return 2 * keys;
  case shed::Encoding::Bitmap:
    return 4 * keys + 16; // and where decoding stands: keys, words
  }
  llvm_unreachable("unknown encoding");
}

void IndexSource::open(const KeyList &of, Value keyCount, Value threadId,
                       Value at) {
  list = of;
  n = keyCount;
  ranks = list.blockKeys ? v.mul(list.keep, list.blockKeys) : list.keep;
  thread = threadId;
  shared = at;
  if (encoding != shed::Encoding::Bitmap)
    return;
  words = v.quotient(v.add(n, 31), 32);
  // Where warp 0 stands; no other warp needs to know.
  int64_t state = 4 * ringKeys(encoding, tileKeys);
  v.when(v.compare(CmpIPredicate::eq, thread, int64_t(0)), [&] {
    v.storeShared(v.word(0), shared, state);
    v.storeShared(v.word(0), shared, state + 4);
  });
}

void IndexSource::resume(Value count, bool blocks, Value at) {
  ranks = count;
  list.blockKeys = blocks;
  shared = at;
}

/// Copies `bytes` (4 or 16) to shared memory.
static void copyAsync(NVVMBuilder &v, Value to, Value from, int64_t bytes) {
  NVVM::CpAsyncOp::create(v.b, v.sharedAt(to), from, bytes,
                          bytes == 16 ? NVVM::LoadCacheModifierKind::CG
                                      : NVVM::LoadCacheModifierKind::CA,
                          Value());
}

void IndexSource::fill(Value tile) {
  if (list.blockKeys)
    return fillFromBlocks(tile);
  if (encoding == shed::Encoding::Bitmap)
    return fillFromBitmap(tile);
  bool wide = encoding == shed::Encoding::Int32;
  // Lists of int32 start at any word; those of uint16 at multiples of 16 bytes,
  // and end at one.
  int64_t keyBytes = wide ? 4 : 2, copyBytes = wide ? 4 : 16;
  int64_t copyKeys = copyBytes / keyBytes, ring = ringKeys(encoding, tileKeys);
  Value rank = v.add(v.mul(tile, tileKeys), v.mul(thread, copyKeys));
  Value mine =
      v.both(v.compare(CmpIPredicate::ult, thread, tileKeys / copyKeys),
             v.compare(CmpIPredicate::slt, rank, list.keep));
  v.when(mine, [&] {
    Value to = v.add(shared, v.mul(v.both(rank, ring - 1), keyBytes));
    copyAsync(v, to, v.at(list.base, v.mul(rank, keyBytes)), copyBytes);
  });
}

/// Each thread finds the key of one rank, or leaves -1 where there is none.
void IndexSource::fillFromBlocks(Value tile) {
  Value rank = v.add(v.mul(tile, tileKeys), thread);
  Value mine = v.both(v.compare(CmpIPredicate::ult, thread, tileKeys),
                      v.compare(CmpIPredicate::slt, rank, ranks));
  v.when(mine, [&] {
    Value which = v.quotient(rank, list.blockKeys);
    Value block = entryOf(v, list, which);
    KeyRange keys = keysOfBlock(v, block, n, list.split, list.blockKeys);
    Value key = v.add(keys.first, v.sub(rank, v.mul(which, list.blockKeys)));
    Value gap = v.either(v.compare(CmpIPredicate::slt, block, int64_t(0)),
                         v.compare(CmpIPredicate::sge, key, keys.end));
    Value place = v.both(rank, ringKeys(encoding, tileKeys) - 1);
    v.storeShared(v.select(gap, v.word(-1), key),
                  v.add(shared, v.mul(place, 4)));
  });
}

/// Warp 0 decodes 32 words at a time until the tile's keys are in the ring.
void IndexSource::fillFromBitmap(Value tile) {
  int64_t ring = ringKeys(encoding, tileKeys), state = 4 * ring;
  v.when(v.compare(CmpIPredicate::ult, thread, 32), [&] {
    v.warpBarrier();
    Value target = v.least(v.mul(v.add(tile, 1), tileKeys), list.keep);
    Value produced = v.loadShared(v.i32(), shared, state);
    Value next = v.loadShared(v.i32(), shared, state + 4);
    auto unfinished = [&](Value produced, Value next) {
      return v.both(v.compare(CmpIPredicate::slt, produced, target),
                    v.compare(CmpIPredicate::slt, next, words));
    };
    v.when(unfinished(produced, next), [&] {
      Values reached = v.repeat({produced, next}, [&](ValueRange at) -> Values {
        Value index = v.add(at[1], thread);
        // Of the row's padding words, those that exist are zero; none is read.
        Value word = v.choose(
            v.compare(CmpIPredicate::slt, index, words), v.i32(),
            [&]() -> Values {
              return {
                  v.loadConstant(v.i32(), v.at(list.base, v.mul(index, 4)), 4)};
            },
            [&]() -> Values { return {v.word(0)}; })[0];
        Value count = v.countBits(word), sum = count;
        for (int64_t distance = 1; distance < 32; distance *= 2) {
          Value below = v.shuffleUp(sum, distance);
          sum = v.add(sum,
                      v.select(v.compare(CmpIPredicate::uge, thread, distance),
                               below, v.word(0)));
        }
        Value total = v.shuffle(sum, v.word(31));
        Value slot = v.add(at[0], v.sub(sum, count));
        Value first = v.mul(index, 32);
        v.when(v.compare(CmpIPredicate::ne, word, int64_t(0)), [&] {
          v.repeat({word, slot}, [&](ValueRange bits) -> Values {
            Value key = v.add(first, v.lowestBit(bits[0]));
            v.storeShared(key,
                          v.add(shared, v.mul(v.both(bits[1], ring - 1), 4)));
            Value rest = v.both(bits[0], v.add(bits[0], -1));
            return {v.compare(CmpIPredicate::ne, rest, int64_t(0)), rest,
                    v.add(bits[1], 1)};
          });
        });
        Value produced = v.add(at[0], total), next = v.add(at[1], 32);
        return {unfinished(produced, next), produced, next};
      });
      v.warpBarrier();
      v.when(v.compare(CmpIPredicate::eq, thread, int64_t(0)), [&] {
        v.storeShared(reached[0], shared, state);
        v.storeShared(reached[1], shared, state + 4);
      });
      // The words needed next are on their way while the tile is worked on.
      v.when(v.compare(CmpIPredicate::slt, reached[1], words), [&] {
        // LLVM has nvvm.prefetch for sm_90 and later only.
        NVVM::InlinePtxOp::create(
            v.b, TypeRange(), ValueRange(v.at(list.base, v.mul(reached[1], 4))),
            ValueRange(), "prefetch.global.L1 [{$r0}];", Value());
      });
    });
  });
}

Value IndexSource::key(Value rank) {
  Value key = entry(rank);
  return list.blockKeys ? v.greatest(key, v.word(0)) : key;
}

Value IndexSource::isGap(Value rank) {
  return v.compare(CmpIPredicate::slt, entry(rank), int64_t(0));
}

/// The ring's entry of rank `rank`, or of the last one.
Value IndexSource::entry(Value rank) {
  int64_t ring = ringKeys(encoding, tileKeys);
  Value place = v.both(v.least(rank, v.add(ranks, -1)), ring - 1);
  if (encoding == shed::Encoding::Uint16)
    return arith::ExtUIOp::create(
        v.b, v.i32(),
        v.loadShared(v.i16(), v.add(shared, v.mul(place, 2)), 0, 2));
  return v.loadShared(v.i32(), v.add(shared, v.mul(place, 4)));
}

//===----------------------------------------------------------------------===//
// KeyFilter
//===----------------------------------------------------------------------===//

int64_t KeyFilter::sharedBytes(int64_t tileKeys) {
  return llvm::alignTo(IndexSource::ringTiles * tileKeys / 8, 16);
}

Value KeyFilter::wordsOf(Value tile, Value shared) {
  return v.add(shared,
               v.mul(v.both(tile, IndexSource::ringTiles - 1), tileKeys / 8));
}

void KeyFilter::mark(Value tile, Value count, Value thread, Value shared,
                     function_ref<Value(Value)> keyOf,
                     function_ref<Value(Value)> isGap) {
  // A warp marks 32 keys.
  v.when(v.compare(CmpIPredicate::ult, thread, tileKeys), [&] {
    Value rank = v.add(v.mul(tile, tileKeys), thread);
    Value behind = v.compare(CmpIPredicate::sge, rank, count);
    Value last = v.least(rank, v.add(count, -1));
    Value out = isGap ? v.either(behind, isGap(last)) : behind;
    if (sinks || !lists.empty()) {
      Value key = keyOf(last);
      if (sinks)
        out = v.either(out, v.compare(CmpIPredicate::slt, key, sinks));
      for (const KeyList &list : lists)
        out = v.either(out, containsKey(v, list, key));
    }
    Value word = v.ballot(out);
    v.when(v.compare(CmpIPredicate::eq, v.both(thread, 31), int64_t(0)), [&] {
      v.storeShared(
          word, v.add(wordsOf(tile, shared), v.mul(v.quotient(thread, 32), 4)));
    });
  });
}

Value KeyFilter::leftOut(Value tile, int64_t word, Value shared) {
  return v.loadShared(v.i32(), wordsOf(tile, shared), 4 * word);
}
