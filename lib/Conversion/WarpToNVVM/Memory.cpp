//===- Memory.cpp - Tiles and global memory -------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../ShedToNVVM/IndexSource.h"
#include "Lowering.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::heddle;
using arith::CmpIPredicate;
using Values = NVVMBuilder::Values;

namespace {

/// A thread's part of a tile that a warpgroup brings: the same 16 bytes of
/// every panel, of every 16th row. All of its rows have the same number modulo
/// 8, so its places in the tile are constants apart, and a row's address serves
/// all panels.
struct TilePart {
  static constexpr int64_t step = 16;

  TilePart(ThreadBuilder &v, warp::TileType tile)
      : rows(tile.getRows()), panels(tile.getColumns() / 64),
        panelBytes(tile.getPanelBytes()) {
    Value thread = v.threadOfGroup();
    row = v.quotient(thread, 8);
    Value chunk = v.both(thread, 7);
    byte = v.mul(chunk, 16);
    place = v.add(v.mul(row, 128), v.mul(v.flip(chunk, v.both(row, 7)), 16));
  }

  /// The first of the thread's bytes in the matrix at `base`.
  Value from(ThreadBuilder &v, Value base, Value first, Value stride) const {
    return v.at(v.at(base, byte), v.mul(v.widen(v.add(first, row)), stride));
  }

  /// Calls `body` with each of the thread's rows, counted from its first one,
  /// where 16 bytes of it are, and where they go, counted from `place`.
  void forEach(ThreadBuilder &v, Value from, Value stride,
               function_ref<void(int64_t, Value, int64_t)> body) const {
    Value next = v.mul(stride, step);
    for (int64_t at = 0; at < rows; at += step) {
      for (int64_t panel = 0; panel < panels; ++panel)
        body(at, v.at(from, 128 * panel), at * 128 + panel * panelBytes);
      from = v.at(from, next);
    }
  }

  int64_t rows, panels, panelBytes; ///< of the tile
  Value row, byte, place;
};

/// A thread's part of a tile of gathered rows: the same 16 bytes of each panel
/// of every 16th row. Eight lanes bring 128 bytes of a row together.
struct GatheredPart {
  explicit GatheredPart(ThreadBuilder &v) {
    Value lane = v.lane(), chunk = v.both(lane, 7);
    row = v.add(v.mul(v.warpOfGroup(), 4), v.quotient(lane, 8));
    byte = v.mul(chunk, 16);
    place = v.add(v.mul(row, 128), v.mul(v.flip(chunk, v.both(row, 7)), 16));
  }

  Value row, byte, place;
};

struct LowerReadRows : ThreadPattern<warp::ReadRowsOp> {
  using ThreadPattern::ThreadPattern;
  SmallVector<Values> rewrite(warp::ReadRowsOp op, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    Value first = v.add(adaptor.getFirst().front(), GatheredPart(v).row);
    Value last = v.add(adaptor.getCount().front(), -1);
    const int64_t bytes = op.getElement().getIntOrFloatBitWidth() / 8;
    Values rows;
    for (int64_t i = 0; i < op.getResult().getType().getRows(); i += 16) {
      Value at = v.at(adaptor.getList().front(),
                      v.mul(v.least(v.add(first, i), last), bytes));
      Value row =
          v.loadConstant(op.getElement(), at, static_cast<unsigned>(bytes));
      rows.push_back(
          bytes == 4 ? row : Value(arith::ExtUIOp::create(v.b, v.i32(), row)));
    }
    return {rows};
  }
};

struct LowerRead : ThreadPattern<warp::ReadOp> {
  using ThreadPattern::ThreadPattern;
  SmallVector<Values> rewrite(warp::ReadOp op, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    const int64_t bytes = op.getElement().getIntOrFloatBitWidth() / 8;
    Values read;
    for (Value index : adaptor.getIndices()) {
      Value at = v.at(adaptor.getList().front(), v.mul(index, bytes));
      Value number =
          v.loadConstant(op.getElement(), at, static_cast<unsigned>(bytes));
      read.push_back(bytes == 4
                         ? number
                         : Value(arith::ExtUIOp::create(v.b, v.i32(), number)));
    }
    return {read};
  }
};

struct LowerReadColumns : ThreadPattern<warp::ReadColumnsOp> {
  using ThreadPattern::ThreadPattern;
  SmallVector<Values> rewrite(warp::ReadColumnsOp op, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    Value first = v.add(adaptor.getFirst().front(), v.column());
    Value limit = adaptor.getLimit().front(), last = v.add(limit, -1);
    Values read;
    for (int64_t square = 0; square < op.getResult().getType().getColumns();
         square += 8) {
      Value pair[2];
      for (int64_t i = 0; i < 2; ++i) {
        Value index = v.add(first, square + i);
        Value at = v.at(adaptor.getBase().front(),
                        v.mul(v.widen(v.least(index, last)), 4));
        pair[i] =
            v.select(v.compare(CmpIPredicate::slt, index, limit),
                     v.loadConstant(v.f32(), at, 4), adaptor.getFill().front());
      }
      // Both rows of the square that a thread holds.
      read.append({pair[0], pair[1], pair[0], pair[1]});
    }
    return {read};
  }
};

struct LowerCountBelow : ThreadPattern<warp::CountBelowOp> {
  using ThreadPattern::ThreadPattern;
  SmallVector<Values> rewrite(warp::CountBelowOp op, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    Values counts;
    for (Value bound : adaptor.getBounds())
      counts.push_back(
          countBelow(v, adaptor.getCount().front(), bound, [&](Value place) {
            return v.loadConstant(
                v.i32(), v.at(adaptor.getList().front(), v.mul(place, 4)), 4);
          }));
    return {counts};
  }
};

/// Where row `row` begins of a batch whose matrices take turns.
template <typename Adaptor>
Value rowInTurns(ThreadBuilder &v, Adaptor adaptor, Value stride, Value row) {
  Value count = adaptor.getBatch().front(), own = v.quotient(row, count);
  Value matrix = v.sub(row, v.mul(own, count));
  return v.at(
      v.at(adaptor.getBase().front(), v.mul(v.widenUnsigned(own), stride)),
      v.mul(v.widenUnsigned(matrix), adaptor.getBatchStride().front()));
}

/// Where a thread stores the two rows that it holds, 8 rows apart. Of a batch
/// both are of one matrix, unless matrices take turns.
struct OwnRows {
  template <typename Op, typename Adaptor>
  OwnRows(ThreadBuilder &v, Op op, Adaptor adaptor, Value stride) {
    Value row = v.row(), base = adaptor.getBase().front();
    Value limit = adaptor.getLimit().front();
    if (op.getInTurns()) {
      row = v.add(adaptor.getFirst().front(), row);
      left = v.sub(limit, row);
      for (int64_t half = 0; half < 2; ++half)
        at[half] = rowInTurns(v, adaptor, stride, v.add(row, 8 * half));
      return;
    }
    if (op.getBatch()) {
      const auto rows = static_cast<int64_t>(*op.getBatchRows());
      Value number = v.quotient(row, rows);
      row = v.remainder(row, rows);
      base = v.at(base, v.mul(v.widenUnsigned(number),
                              adaptor.getBatchStride().front()));
      limit = v.select(
          v.compare(CmpIPredicate::slt, number, adaptor.getBatch().front()),
          limit, v.word(0));
    }
    row = v.add(adaptor.getFirst().front(), row);
    left = v.sub(limit, row);
    at[0] = v.at(base, v.mul(v.widen(row), stride));
    at[1] = v.at(at[0], v.mul(stride, 8));
  }

  Value left;  ///< rows from the first of them to the limit
  Value at[2]; ///< where they begin
};

struct LowerLoad : ThreadPattern<warp::LoadOp> {
  using ThreadPattern::ThreadPattern;
  SmallVector<Values> rewrite(warp::LoadOp op, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    warp::TileType type = op.getResult().getType();
    TilePart part(v, type);
    // Consumers come after the one warpgroup that brings tiles.
    Value group = v.groupOfBlock();
    Value tile = v.add(v.add(v.tiles(), static_cast<int64_t>(*op.getOffset())),
                       v.mul(v.add(group, -1), type.getBytes()));
    Value place = v.add(tile, part.place);
    Value stride = adaptor.getStride().front(),
          first = adaptor.getFirst().front();
    Value base = adaptor.getBase().front();
    Value left = v.sub(adaptor.getLimit().front(), v.add(first, part.row));
    auto bring = [&](Value there, Value at, int64_t offset) {
      Values words = v.choose(
          there, SmallVector<Type>(4, v.i32()),
          [&] {
            Value quad = v.load(v.quad(), at, 16);
            Values some;
            for (int64_t i = 0; i < 4; ++i)
              some.push_back(v.extract(quad, i));
            return some;
          },
          [&] { return Values(4, v.word(0)); });
      v.storeShared(v.makeVector(words), place, offset, 16);
    };
    if (op.getInTurns()) {
      for (int64_t row = 0; row < part.rows; row += TilePart::step) {
        Value at = v.at(
            rowInTurns(v, adaptor, stride, v.add(v.add(first, part.row), row)),
            part.byte);
        Value there = v.compare(CmpIPredicate::sgt, left, row);
        for (int64_t panel = 0; panel < part.panels; ++panel)
          bring(there, v.at(at, 128 * panel),
                row * 128 + panel * part.panelBytes);
      }
      ready(v, group);
      return {{tile}};
    }
    // A matrix of the batch after the other; without one there is one.
    const auto all = part.rows;
    part.rows = static_cast<int64_t>(op.getBatchRows().value_or(all));
    for (int64_t matrix = 0; matrix < all / part.rows; ++matrix) {
      Value own = left;
      if (op.getBatch())
        own = v.select(
            v.compare(CmpIPredicate::sgt, adaptor.getBatch().front(), matrix),
            left, v.word(0));
      part.forEach(v, part.from(v, base, first, stride), stride,
                   [&](int64_t row, Value at, int64_t offset) {
                     bring(v.compare(CmpIPredicate::sgt, own, row), at,
                           offset + matrix * part.rows * 128);
                   });
      if (op.getBatch())
        base = v.at(base, adaptor.getBatchStride().front());
    }
    ready(v, group);
    return {{tile}};
  }

  static void ready(ThreadBuilder &v, Value group) {
    v.fenceForProducts();
    // Barrier 0 is the block's.
    v.assembly("bar.sync $0, 128;", "r", group);
  }
};

struct LowerNegate : ThreadPattern<warp::NegateOp> {
  using ThreadPattern::ThreadPattern;
  // Swizzled rows are the same bytes as others.
  SmallVector<Values> rewrite(warp::NegateOp op, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    warp::TileType type = op.getTile().getType();
    v.when(adaptor.getCondition().front(), [&] {
      Value from = adaptor.getTile().front();
      if (op.getFrom())
        from = v.add(from, v.mul(adaptor.getFrom().front(), 128));
      from = v.add(from, v.mul(v.threadOfGroup(), 16));
      constexpr int64_t round = warp::warpgroupThreads * 16;
      for (int64_t panel = 0; panel < type.getColumns() / 64; ++panel)
        for (int64_t at = 0; at < warp::warpgroupRows * 128; at += round) {
          const int64_t offset = panel * type.getPanelBytes() + at;
          Value quad = v.loadShared(v.quad(), from, offset, 16);
          Values words;
          for (int64_t i = 0; i < 4; ++i)
            words.push_back(v.flip(v.extract(quad, i), 0x80008000));
          v.storeShared(v.makeVector(words), from, offset, 16);
        }
      v.fenceForProducts();
      v.assembly("bar.sync $0, 128;", "r", v.groupOfBlock());
    });
    return {};
  }
};

struct LowerCopy : ThreadPattern<warp::CopyOp> {
  using ThreadPattern::ThreadPattern;
  // The producer's instructions take turns with those that compute, so tiles
  // that are whole, all but the last, are copied without asking row by row.
  SmallVector<Values> rewrite(warp::CopyOp op, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    if (op.getRows()) {
      gather(op, adaptor, v);
      return {};
    }
    TilePart part(v, op.getInto().getType());
    Value stride = adaptor.getStride().front(),
          first = adaptor.getFirst().front();
    Value from = part.from(v, adaptor.getBase().front(), first, stride);
    Value to = v.add(adaptor.getInto().front(), part.place);
    Value left = v.sub(adaptor.getLimit().front(), first);
    v.when(v.compare(CmpIPredicate::sge, left, part.rows), [&] {
      part.forEach(v, from, stride, [&](int64_t, Value at, int64_t offset) {
        v.copyAsync(to, offset, at);
      });
    });
    v.when(v.compare(CmpIPredicate::slt, left, part.rows), [&] {
      Value own = v.sub(left, part.row);
      part.forEach(v, from, stride, [&](int64_t row, Value at, int64_t offset) {
        Value there = v.compare(CmpIPredicate::sgt, own, row);
        v.copyAsync(to, offset, at, v.select(there, v.word(16), v.word(0)));
      });
    });
    return {};
  }

  // A row's address is computed once for all of its panels.
  static void gather(warp::CopyOp op, Adaptor adaptor, ThreadBuilder &v) {
    warp::TileType tile = op.getInto().getType();
    GatheredPart part(v);
    Value to = v.add(adaptor.getInto().front(), part.place);
    Value base = v.at(adaptor.getBase().front(), part.byte);
    // Row strides in bytes fit 32 bits, and products with them one instruction.
    Value stride = v.widenUnsigned(v.narrow(adaptor.getStride().front()));
    for (auto [i, row] : llvm::enumerate(adaptor.getRows())) {
      Value number = v.add(row, adaptor.getFirst().front());
      Value from = v.at(base, v.mul(v.widenUnsigned(number), stride));
      for (int64_t panel = 0; panel < tile.getColumns() / 64; ++panel)
        v.copyAsync(to,
                    static_cast<int64_t>(i) * 16 * 128 +
                        panel * tile.getPanelBytes(),
                    panel ? v.at(from, panel * 128) : from);
    }
  }
};

/// Four words of each of a row's four lanes, exchanged so that lane q has what
/// was word q of them all.
void transpose(ThreadBuilder &v, Value lane, MutableArrayRef<Value> words) {
  for (int64_t mask : {1, 2}) {
    Value high = v.compare(CmpIPredicate::ne, v.both(lane, mask), int64_t(0));
    for (int64_t i = 0; i < 4; ++i) {
      if (i & mask)
        continue;
      Value &low = words[i], &other = words[i | mask];
      Value given = v.shuffleXor(v.select(high, low, other), mask);
      Value kept = v.select(high, other, low);
      low = v.select(high, given, kept);
      other = v.select(high, kept, given);
    }
  }
}

struct LowerStore : ThreadPattern<warp::StoreOp> {
  using ThreadPattern::ThreadPattern;
  SmallVector<Values> rewrite(warp::StoreOp op, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    ValueRange source = adaptor.getSource();
    Value lane = v.lane(), stride = adaptor.getStride().front();
    OwnRows own(v, op, adaptor, stride);
    const auto squares = static_cast<int64_t>(source.size()) / 2;
    for (int64_t half = 0; half < 2; ++half) {
      Value to = v.at(own.at[half], v.mul(v.both(lane, 3), 16));
      for (int64_t square = 0; square < squares; square += 4) {
        Values words;
        for (int64_t i = 0; i < 4; ++i)
          words.push_back(source[2 * (square + i) + half]);
        transpose(v, lane, words);
        v.when(v.compare(CmpIPredicate::sgt, own.left, 8 * half), [&] {
          v.store(v.makeVector(words), v.at(to, square * 16), 16);
        });
      }
    }
    return {};
  }
};

/// Waits for the threads that compute. Barrier 0 is the block's, those behind
/// it belong to a warpgroup each.
void meet(Operation *op, ThreadBuilder &v) {
  const int64_t consumers = consumersOf(op);
  v.assembly("bar.sync " + std::to_string(consumers + 1) + ", " +
                 std::to_string(consumers * warp::warpgroupThreads) + ";",
             "", {});
}

struct LowerSpace : ThreadPattern<warp::SpaceOp> {
  using ThreadPattern::ThreadPattern;
  SmallVector<Values> rewrite(warp::SpaceOp op, Adaptor,
                              ThreadBuilder &v) const override {
    if (op.getOverTiles())
      meet(op, v);
    return {{v.add(v.tiles(), static_cast<int64_t>(*op.getOffset()))}};
  }
};

/// A thread's elements of a square are 16 bytes, those of a column 8. Each
/// piece is a row of as many bytes for each thread of the warpgroup.
struct Pieces {
  Pieces(ThreadBuilder &v, warp::FragmentType type, Value at)
      : elements(type.isColumn() ? 2 : 4),
        rowBytes(elements * 4 * warp::warpgroupThreads),
        count(type.getElements() / elements),
        own(v.add(at, v.mul(v.threadOfGroup(), elements * 4))) {}
  int64_t elements, rowBytes, count;
  Value own; ///< the thread's place in the first piece
};

struct LowerPut : ThreadPattern<warp::PutOp> {
  using ThreadPattern::ThreadPattern;
  SmallVector<Values> rewrite(warp::PutOp op, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    Pieces pieces(v, op.getSource().getType(), adaptor.getAt().front());
    ValueRange source = adaptor.getSource();
    for (int64_t i = 0; i < pieces.count; ++i)
      v.storeShared(v.makeVector(Values(
                        source.slice(i * pieces.elements, pieces.elements))),
                    pieces.own, i * pieces.rowBytes,
                    static_cast<unsigned>(pieces.elements * 4));
    return {};
  }
};

struct LowerGet : ThreadPattern<warp::GetOp> {
  using ThreadPattern::ThreadPattern;
  SmallVector<Values> rewrite(warp::GetOp op, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    Pieces pieces(v, op.getResult().getType(), adaptor.getAt().front());
    Value from =
        v.add(pieces.own, v.mul(v.quotient(adaptor.getColumn().front(), 8),
                                pieces.rowBytes));
    Value there = v.assembly("mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r",
                             {from, adaptor.getBlock().front()}, v.i32())[0];
    Values result;
    const bool four = pieces.elements == 4;
    for (int64_t i = 0; i < pieces.count; ++i)
      result.append(v.assembly(
          four ? "ld.shared::cluster.v4.f32 {$0, $1, $2, $3}, [$4];"
               : "ld.shared::cluster.v2.f32 {$0, $1}, [$2];",
          four ? "=f,=f,=f,=f,r" : "=f,=f,r", v.add(there, i * pieces.rowBytes),
          SmallVector<Type>(static_cast<size_t>(pieces.elements), v.f32())));
    return {result};
  }
};

struct LowerMeetCluster : ThreadPattern<warp::MeetClusterOp> {
  using ThreadPattern::ThreadPattern;
  SmallVector<Values> rewrite(warp::MeetClusterOp, Adaptor,
                              ThreadBuilder &v) const override {
    v.assembly("barrier.cluster.arrive.release.aligned;\n"
               "barrier.cluster.wait.acquire.aligned;",
               "", {});
    return {};
  }
};

struct LowerMeet : ThreadPattern<warp::MeetOp> {
  using ThreadPattern::ThreadPattern;
  SmallVector<Values> rewrite(warp::MeetOp op, Adaptor,
                              ThreadBuilder &v) const override {
    meet(op, v);
    return {};
  }
};

struct LowerStoreColumn : ThreadPattern<warp::StoreColumnOp> {
  using ThreadPattern::ThreadPattern;
  SmallVector<Values> rewrite(warp::StoreColumnOp op, Adaptor adaptor,
                              ThreadBuilder &v) const override {
    OwnRows own(v, op, adaptor, v.constant(4));
    Value writes =
        v.compare(CmpIPredicate::eq, v.both(v.lane(), 3), int64_t(0));
    for (auto [half, value] : llvm::enumerate(adaptor.getSource()))
      v.when(v.both(writes,
                    v.compare(CmpIPredicate::sgt, own.left, int64_t(8 * half))),
             [&, value = value, half = half] {
               Value to = own.at[half], sum = value;
               if (op.getAdded())
                 sum = v.addf(
                     value,
                     v.choose(
                         adaptor.getAdded().front(), v.f32(),
                         [&]() -> Values { return {v.load(v.f32(), to, 4)}; },
                         [&]() -> Values { return {v.real(0.0f)}; })[0]);
               v.store(sum, to, 4);
             });
    return {};
  }
};

} // namespace

void mlir::heddle::populateMemoryPatterns(const TypeConverter &converter,
                                          Patterns &patterns) {
  patterns
      .add<LowerReadRows, LowerRead, LowerReadColumns, LowerCountBelow,
           LowerLoad, LowerNegate, LowerCopy, LowerSpace, LowerPut, LowerGet,
           LowerMeet, LowerMeetCluster, LowerStore, LowerStoreColumn>(
          converter, patterns.getContext());
}
