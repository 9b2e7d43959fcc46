//===- KeyPasses.cpp - Passes over keys as loops with copies --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The pipeline: tiles of keys and values go to stages of shared memory, all but
// one of which are on their way while that one is worked on. A tile is one
// group of asynchronous copies (`cp.async`), which the threads that copy wait
// for.
//
//===----------------------------------------------------------------------===//

#include "AttentionOpening.h"

#include "bundle/abi/Abi.h"

using namespace mlir;
using namespace mlir::heddle;
using arith::CmpIPredicate;
namespace abi = ::heddle::abi;

using Values = NVVMBuilder::Values;

KeyTile KeyPass::tile(NVVMBuilder &v, Value index, int64_t keys, Value stage,
                      bool partial) const {
  int64_t form = 0;
  if (source)
    form |= KeyTile::Listed;
  if (source && source->hasGaps())
    form |= KeyTile::Blocks;
  if (filter)
    form |= KeyTile::Marked;
  else if (partial)
    form |= KeyTile::Partial;
  return {index, v.mul(index, keys), stage, count, first, form};
}

KeyList AttentionOpening::list(const shed::KeyEntries &entries) {
  size_t entry = offsetof(abi::AttentionArgs, lists) +
                 entries.index * sizeof(abi::IndexList);
  Value row = head;
  if (kernel.getSharedLists())
    row = v.quotient(
        head, v.narrow(field(v, v.i64(),
                             entry + offsetof(abi::IndexList, headsPerList))));
  return loadKeyList(v, encoding, entries.blockKeys,
                     v.at(args, static_cast<int64_t>(entry)), row,
                     v.quotient(tileStart, entries.group));
}

/// How many keys have positions below `bound`.
Value AttentionOpening::placesBelow(Value bound) {
  Value positions =
      field(v, v.global(), offsetof(abi::AttentionArgs, position));
  return mlir::heddle::placesBelow(v, positions, n, bound);
}

KeyPass AttentionOpening::keyPass(shed::ForKeysOp loop) {
  SmallVector<shed::KeySet> before;
  SmallVector<KeyList> lists;
  for (auto set : loop.getSkip().getAsRange<shed::KeySet>()) {
    if (std::optional<shed::KeyEntries> entries = set.getEntries())
      lists.push_back(list(*entries));
    else
      before.push_back(set);
  }
  Value skipped;
  if (!before.empty())
    skipped =
        endOf(v, before, args,
              field(v, v.global(), offsetof(abi::AttentionArgs, position)), n);
  KeyPass pass;
  auto over = cast<shed::KeySet>(loop.getOver());
  int64_t keys = tiling.getKeys();
  if (std::optional<shed::KeyEntries> entries = over.getEntries()) {
    KeyList keyList = list(*entries);
    pass.source.emplace(v, keyList.encoding, keys);
    pass.source->open(keyList, n, part.thread,
                      v.add(shared, layout.getSource()));
    pass.count = pass.source->count();
  } else {
    // A range [first, end), which the sets before it shorten.
    Value first = v.word(0), end = n;
    Values ends(2);
    if (!over.isUniform())
      ends = positionsOf(v, {placeOf(taskRow), placeOf(v.add(taskEnd, -1))});
    shed::PairArithmetic a = positionArithmetic(v, args);
    shed::PositionRange range = over.getKeys(a, ends[0], ends[1]);
    if (over.isSparse()) {
      pass.sparse = over;
      pass.rows = {ends[0], v.add(ends[1], 1)};
    }
    if (range.begin)
      first = placesBelow(range.begin);
    if (range.end)
      end = placesBelow(range.end);
    if (skipped)
      first = v.greatest(first, skipped);
    pass.first = first;
    pass.count = v.greatest(v.sub(end, first), v.word(0));
    skipped = {};
  }
  if (skipped || !lists.empty() || (pass.source && pass.source->hasGaps()))
    pass.filter.emplace(v, lists, skipped, keys);
  pass.tiles = v.quotient(v.add(pass.count, keys - 1), keys);
  return pass;
}

/// Begins to bring what belongs to a tile: its keys and values, what the filter
/// says of them, and the positions of the tile behind it.
void AttentionOpening::bringTile(KeyPass &pass, Value tile, Value stage,
                                 Cursor cursor) {
  auto bring = [&] {
    copyTile(pass, tile, stage, cursor);
    auto isGap = [&](Value rank) { return pass.source->isGap(rank); };
    const bool gaps = pass.source && pass.source->hasGaps();
    if (pass.filter)
      pass.filter->mark(
          tile, pass.count, part.thread, v.add(shared, layout.getFilter()),
          [&](Value rank) {
            return pass.source ? pass.source->key(rank)
                               : v.add(pass.first, rank);
          },
          gaps ? function_ref<Value(Value)>(isGap)
               : function_ref<Value(Value)>());
    if (pass.source)
      pass.source->fill(v.add(tile, 1));
  };
  // Plain ranges bring zeros behind their end, which is cheaper than a branch.
  if (pass.sparse)
    v.when(keepsSome(pass, tile), bring);
  else if (pass.source || pass.filter)
    v.when(v.compare(CmpIPredicate::slt, tile, pass.tiles), bring);
  else
    bring();
  v.commitCopies();
}

/// Whether some row of the block has some key of a tile; none behind the last.
Value AttentionOpening::keepsSome(const KeyPass &pass, Value tile) {
  Value from = v.mul(tile, tiling.getKeys());
  Value last = v.add(v.least(v.add(from, tiling.getKeys()), pass.count), -1);
  Value none = v.compare(CmpIPredicate::sge, tile, pass.tiles);
  auto place = [&](Value rank) {
    return v.add(pass.first, v.select(none, v.word(0), rank));
  };
  // Of a pass without keys the first place need not be one.
  Value lastPlace = v.add(n, -1);
  Values ends = positionsOf(
      v, {v.least(place(from), lastPlace), v.least(place(last), lastPlace)});
  shed::PairArithmetic a = positionArithmetic(v, args);
  Value some =
      pass.sparse.keepsSome(a, pass.rows, {ends[0], v.add(ends[1], 1)});
  return v.both(some, v.flip(none, 1));
}

/// The softmax behind the pass, of `softmax` before it.
Value AttentionOpening::writePass(shed::ForKeysOp loop, Value softmax) {
  int64_t stages = tiling.getStages();
  if (passed) {
    // Nobody still reads what an earlier pass brought.
    v.awaitCopies(0);
    v.barrier();
  }
  passed = true;
  KeyPass pass = keyPass(loop);
  Cursor cursor = beginCopies(pass);
  if (pass.source) {
    pass.source->fill(v.word(0));
    v.commitCopies();
    v.awaitCopies(0);
    v.barrier();
  }
  for (int64_t t = 0; t < stages - 1; ++t) {
    if (t && pass.source) {
      v.awaitCopies(0);
      v.barrier();
    }
    bringTile(pass, v.word(t), v.word(t * stageBytes), cursor);
    cursor = advance(pass, cursor);
  }
  finishQueries(stages - 1);

  // Carried: the stages of the tile at hand and of the one being brought, where
  // the latter comes from, then the softmax.
  auto nextStage = [&](Value stage) {
    Value last = v.compare(CmpIPredicate::eq, stage, (stages - 1) * stageBytes);
    return v.select(last, v.word(0), v.add(stage, stageBytes));
  };
  auto carry = [&](Value stage, Value next, Cursor from, Value softmax) {
    Values values = {stage, next};
    if (!pass.source)
      values.append({from.key, from.value});
    values.push_back(softmax);
    return values;
  };
  // `last`: the tile is the pass's last one, so nothing is brought behind it.
  auto runTiles = [&](Value from, Value to, bool partial, bool last,
                      Values carried) {
    return v.loop(from, to, 1, carried, [&](Value t, ValueRange now) {
      // A list's positions travel with the tile before theirs.
      v.awaitCopies(pass.source || last ? 0 : stages - 2);
      v.barrier();
      Cursor next;
      if (!pass.source)
        next = {now[2], now[3]};
      if (!last) {
        bringTile(pass, v.add(t, stages - 1), now[1], next);
        next = advance(pass, next);
      }
      const KeyTile tile = pass.tile(v, t, tiling.getKeys(), now[0], partial);
      Value before = now.back();
      auto after = [&]() -> Values { return {writeTile(loop, tile, before)}; };
      auto same = [&]() -> Values { return {before}; };
      Value softmax = (pass.sparse ? v.choose(keepsSome(pass, t),
                                              before.getType(), after, same)
                                   : after())
                          .front();
      return carry(nextStage(now[0]), nextStage(now[1]), next, softmax);
    });
  };
  Values carried =
      carry(v.word(0), v.word((stages - 1) * stageBytes), cursor, softmax);
  // A filter marks what lies behind the end, too.
  if (pass.filter || cast<shed::KeySet>(loop.getOver()).isShort()) {
    carried = runTiles(v.word(0), pass.tiles, true, false, carried);
  } else {
    Value whole = v.quotient(pass.count, tiling.getKeys());
    carried = runTiles(v.word(0), whole, false, false, carried);
    carried = runTiles(whole, pass.tiles, true, true, carried);
  }
  return carried.back();
}

/// The ops on a tile, or on each of the parts that the warp takes of it.
Value AttentionOpening::writeTile(shed::ForKeysOp loop, const KeyTile &tile,
                                  Value softmax) {
  if (!split)
    return writeKeys(loop, tile, softmax);
  const int64_t keys = tiling.getKeys() / tiling.getWarps();
  return v
      .loop(split->first, v.word(tiling.getWarps()), split->sharers, softmax,
            [&](Value which, ValueRange carried) -> Values {
              Value first = v.mul(which, keys);
              KeyTile part = tile;
              part.rank = v.add(tile.rank, first);
              part.stage = v.add(tile.stage, v.mul(first, swizzle.rowBytes));
              return {writeKeys(loop, part, carried.front())};
            })
      .front();
}

Value AttentionOpening::writeKeys(shed::ForKeysOp loop, const KeyTile &tile,
                                  Value softmax) {
  Block &body = loop.getBody().front();
  IRMapping values = tiles;
  Value keys = body.getArgument(0);
  values.map(keys,
             shed::KeysAtOp::create(
                 v.b, keys.getType(), tile.rank, tile.count,
                 tile.is(KeyTile::Listed) ? Value() : tile.first, tile.stage,
                 tile.is(KeyTile::Marked) ? tile.index : Value(),
                 tile.is(KeyTile::Blocks), tile.is(KeyTile::Partial))
                 .getResult());
  values.map(body.getArgument(1), softmax);
  for (Operation &op : body.without_terminator())
    v.b.clone(op, values);
  return values.lookup(cast<shed::YieldOp>(body.back()).getValue());
}
