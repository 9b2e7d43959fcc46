//===- Packing.cpp - Brings rows of Q, K and V into shape ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"

#include "bundle/abi/Abi.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;
using namespace mlir::heddle;
namespace abi = ::heddle::abi;

void KernelLowering::loadQueries() {
  int64_t lanes = v.lanes;
  // Dwords of a row: fp32 elements or pairs of bf16.
  int64_t dwords = channels * elementBytes / 4;
  Value last = v.add(v.add(rows.row, rows.rows), -1);
  Value signs = paired ? v.splat(querySign) : Value();
  Value scale = paired ? Value() : v.splat(factor);
  forPanels([&](Value p) {
    Value base = panelBase(layout.queries, layout.queryPanel, p);
    v.loop(panel, lanes, [&](Value lane) {
      Value first = v.add(rows.row, v.add(v.mul(p, panel), lane));
      v.loop(dwords, lanes, [&](Value column) {
        Values square;
        for (int64_t r = 0; r < lanes; ++r) {
          Value row = v.least(v.add(first, r), last);
          Value address =
              v.at(v.at(queryBase, v.mul(row, queryStride)), v.mul(column, 4));
          square.push_back(v.load(v.ints(), address, elementBytes));
        }
        v.transpose(square);
        int64_t perDword = bf16 && !paired ? 2 : 1;
        Value to = v.at(
            base, v.add(v.mul(column, perDword * panel * 4), v.mul(lane, 4)));
        for (auto [i, dword] : llvm::enumerate(square)) {
          int64_t at = i * perDword * panel * 4;
          if (paired) {
            v.store(arith::XOrIOp::create(v.b, dword, signs), v.at(to, at));
          } else if (bf16) {
            v.store(v.mulf(v.lowHalf(dword), scale), v.at(to, at));
            v.store(v.mulf(v.highHalf(dword), scale), v.at(to, at + panel * 4));
          } else {
            v.store(v.mulf(v.bits(v.floats(), dword), scale), v.at(to, at));
          }
        }
      });
    });
  });
}

/// Rows beyond the last stand where it does.
void KernelLowering::loadRowPositions() {
  Value last = v.add(rows.rows, -1);
  v.loop(v.constant(0), v.mul(rows.panels, panel), 1, [&](Value r) {
    Value place = placeOfRow(v.add(rows.row, v.least(r, last)));
    v.store(v.narrow(positionAt(place)),
            v.at(v.at(scratch, layout.positions), v.mul(r, 4)));
  });
}

void KernelLowering::loadLse() {
  // Rows beyond the last get +inf, so that their probability is exactly 0.
  size_t which = inSpan ? offsetof(abi::SelectArgs, spanLse)
                        : offsetof(abi::SelectArgs, lse);
  Value from =
      v.at(field(v.ptr(), which), v.mul(v.add(v.mul(head, n), rows.row), 4));
  Value beyond = v.splat(std::numeric_limits<float>::infinity());
  Value end = v.splat(v.narrow(rows.rows));
  v.loop(v.constant(0), v.mul(rows.panels, panel), v.lanes, [&](Value lane) {
    Value index = arith::AddIOp::create(v.b, v.splat(v.narrow(lane)), v.iota());
    Value valid = v.compare(arith::CmpIPredicate::slt, index, end);
    v.store(v.loadMasked(v.at(from, v.mul(lane, 4)), valid, beyond),
            v.at(v.at(scratch, layout.lse), v.mul(lane, 4)));
  });
}

Value KernelLowering::rowAddress(Value base, Value stride, const KeyTile &tile,
                                 Value j, bool gathers) {
  return v.at(base, v.mul(gathers ? placeOf(tile, j) : j, stride));
}

/// Writes a row of bf16 as fp32.
void KernelLowering::widenRow(Value from, Value to) {
  auto words = VectorType::get(v.lanes, v.b.getI16Type());
  for (int64_t c = 0; c < channels; c += v.lanes) {
    Value word = v.load(words, v.at(from, c * 2), 2);
    Value dword = arith::ExtUIOp::create(v.b, v.ints(), word);
    v.store(v.lowHalf(dword), v.at(to, c * 4));
  }
}

void KernelLowering::loadKeys(KeyTile &tile) {
  bool gathered = !tile.source.first;
  auto source = [&](Value j) {
    return rowAddress(keyBase, keyStride, tile,
                      v.least(j, v.add(tile.count, -1)), true);
  };
  if (tiling.getPackKeys() && !paired) {
    Value packed = v.at(scratch, layout.keys);
    v.loop(v.constant(0), tile.count, 1, [&](Value j) {
      widenRow(source(j), v.at(packed, v.mul(j, channels * 4)));
    });
    tile.keys = packed;
    tile.keyStride = v.constant(channels * 4);
    return;
  }
  if (gathered) {
    tile.keys = keyBase;
    tile.keyStride = keyStride;
    tile.gathersKeys = true;
    return;
  }
  tile.keys = v.at(keyBase, v.mul(placeOf(tile, v.constant(0)), keyStride));
  tile.keyStride = keyStride;
}

void KernelLowering::loadValues(KeyTile &tile) {
  Value packed = v.at(scratch, layout.values);
  auto source = [&](Value j) {
    return rowAddress(valueBase, valueStride, tile,
                      v.least(j, v.add(tile.count, -1)), true);
  };
  auto words = VectorType::get(v.lanes, v.b.getI16Type());
  // A dword for each channel: bf16 of two keys.
  auto interleave = [&](Value low, Value high, Value column) {
    auto part = [&](Value row) {
      Value word = v.load(words, v.at(row, v.mul(column, 2)), 2);
      return arith::ExtUIOp::create(v.b, v.ints(), word).getResult();
    };
    return arith::OrIOp::create(
               v.b, part(low),
               arith::ShLIOp::create(v.b, part(high),
                                     v.splat(v.integer(v.i32(), 16))))
        .getResult();
  };
  switch (dot) {
  case shed::DotKind::Fma:
    tile.gathersValues = !tiling.getPackValues() && !tile.source.first;
    if (!tiling.getPackValues()) {
      tile.valueStride = valueStride;
      tile.values = tile.gathersValues
                        ? valueBase
                        : v.at(valueBase, v.mul(placeOf(tile, v.constant(0)),
                                                valueStride));
      return;
    }
    v.loop(v.constant(0), tile.count, 1, [&](Value j) {
      Value from = source(j), to = v.at(packed, v.mul(j, channels * 4));
      if (bf16)
        return widenRow(from, to);
      for (int64_t c = 0; c < channels; c += v.lanes)
        v.store(v.load(v.floats(), v.at(from, c * 4)), v.at(to, c * 4));
    });
    break;
  case shed::DotKind::Pairs:
    // [keys / 2][channels] dwords.
    v.loop(v.constant(0), tile.padded, 2, [&](Value j) {
      Value low = source(j), high = source(v.add(j, 1));
      Value to = v.at(packed, v.mul(j, channels * 2));
      for (int64_t c = 0; c < channels; c += v.lanes)
        v.store(interleave(low, high, v.constant(c)), v.at(to, c * 4));
    });
    break;
  case shed::DotKind::Tiles:
    llvm_unreachable("TilePacking.cpp packs for matrix tiles");
  }
  tile.values = packed;
  tile.valueStride = v.constant(channels * 4);
}

/// Has a cache fetch rows of K or V that a later tile reads: part `part` of the
/// `parts` that a panel has, so that requests are spread over the products. The
/// rows of a range are left to the hardware.
void KernelLowering::fetchAhead(const KeyTile &tile, Value base, Value stride,
                                Value p, Value part, int64_t parts) {
  int64_t tiles = tiling.getFetchAhead(), keys = tiling.getKeys();
  if (!tiles || tile.source.first)
    return;
  int64_t all = std::max<int64_t>(1, parts * tiling.getPanels());
  int64_t share = llvm::divideCeil(keys, all);
  Value first = v.mul(v.add(v.mul(p, parts), part), share);
  auto fetch = [&] {
    Value from = v.add(v.add(tile.begin, tiles * keys), first);
    Value last = v.add(tile.source.count, -1);
    for (int64_t key = 0; key < share; ++key) {
      Value at = placeOf(tile.source, v.least(v.add(from, key), last));
      for (int64_t c = 0; c < channels * elementBytes; c += 64)
        v.prefetch(v.at(v.at(base, v.mul(at, stride)), c), tiles == 1);
    }
  };
  if (share * all <= keys)
    return fetch();
  v.when(v.compare(arith::CmpIPredicate::slt, first, v.constant(keys)), fetch);
}
