//===- KeyPasses.cpp - Which keys a pass over them has --------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionWriter.h"

#include "bundle/Abi.h"

using namespace mlir;
using namespace mlir::heddle;
using arith::CmpIPredicate;
namespace abi = ::heddle::abi;

using Values = NVVMBuilder::Values;

KeyPass AttentionWriter::keyPass(Attribute over) {
  const int64_t keys = tiling.getKeys();
  KeyPass pass;
  std::optional<shed::IndexedSet> which = shed::indexedSet(over);
  if (!which) {
    pass.count = n;
    pass.tiles = v.quotient(v.add(n, keys - 1), keys);
    return pass;
  }
  size_t entry = offsetof(abi::AttentionArgs, lists) +
                 which->index * sizeof(abi::IndexList);
  Value row = head;
  if (kernel.getSharedLists())
    row = v.quotient(
        head, v.narrow(field(v.i64(),
                             entry + offsetof(abi::IndexList, headsPerList))));
  auto blocks = dyn_cast<shed::BlocksAttr>(over);
  pass.list = loadKeyList(
      v, kernel.getEncoding().value_or(shed::Encoding::Int32),
      blocks ? blocks.getSize() : 0, v.at(args, static_cast<int64_t>(entry)),
      row, v.quotient(tileStart, which->group));
  pass.count = pass.list->keep;
  pass.tiles = blocks ? v.mul(pass.list->keep, blocks.getSize() / keys)
                      : v.quotient(v.add(pass.count, keys - 1), keys);
  return pass;
}

/// A tile has the next keys in order, the next ones of a list of keys, or a
/// part of a block. Source of the last: bundle/Abi.h, IndexList.
TileKeys AttentionWriter::keysOf(const KeyPass &pass, Value tile) {
  const int64_t keys = tiling.getKeys();
  if (!pass.list || !pass.list->blockKeys) {
    Value rank = v.mul(tile, keys), left = v.sub(pass.count, rank);
    if (!pass.list)
      return {rank, left, n, {}};
    Type number =
        pass.list->encoding == shed::Encoding::Uint16 ? v.i16() : v.i32();
    Value rows = warp::ReadRowsOp::create(
        v.b, warp::RowsType::get(kernel.getContext(), keys), pass.list->base,
        rank, pass.count, number);
    return {v.word(0), left, n, rows};
  }
  const int64_t parts = pass.list->blockKeys / keys;
  Value block = v.loadConstant(
      v.i32(), v.at(pass.list->base, v.mul(v.quotient(tile, parts), 4)), 4);
  Value gone = v.compare(CmpIPredicate::slt, block, int64_t(0));
  KeyRange range = keysOfBlock(v, v.greatest(block, v.word(0)), n,
                               pass.list->split, pass.list->blockKeys);
  Value first = v.add(range.first, v.mul(v.remainder(tile, parts), keys));
  Value end = v.select(gone, v.word(0), range.end);
  return {first, v.sub(end, first), end, {}};
}
