//===- ShedToWarp.cpp - Lower kernels on tiles to warpgroups --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../ShedToNVVM/IndexSource.h"

#include "MapScores.h"

#include "bundle/Abi.h"
#include "heddle/Conversion/Passes.h"
#include "heddle/Dialect/Shed/IR/Shed.h"
#include "heddle/Dialect/Warp/IR/Warp.h"
#include "heddle/Support/ScoreRegion.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"

#include <limits>

namespace mlir::heddle {
#define GEN_PASS_DEF_CONVERTSHEDTOWARP
#include "heddle/Conversion/Passes.h.inc"
} // namespace mlir::heddle

using namespace mlir;
using namespace mlir::heddle;
using arith::CmpFPredicate;
using arith::CmpIPredicate;
namespace abi = ::heddle::abi;

using Values = NVVMBuilder::Values;

/// How far the reference maximum of a row may lag behind its true one: weights
/// then reach 2^slack, which changes no relative error and saves most
/// rescalings.
static constexpr float slack = 8.0f;
static constexpr float infinity = std::numeric_limits<float>::infinity();

namespace {

/// Logits, which are `fragment` times `factor`.
struct Logits {
  Value fragment, factor;
};

/// A running softmax. The sum is in parts, one a lane.
struct Softmax {
  Value context, maximum, sum;
};

/// A pass over keys, tile by tile.
struct KeyPass {
  Value tiles;                 ///< i32
  Value count;                 ///< i32: keys, but of a list of blocks
  std::optional<KeyList> list; ///< of keys or of blocks
};

/// The keys of a tile: where they stand and how many there are from the first
/// one on, at most 0 if none.
struct TileKeys {
  Value first; ///< i32: the first row, or 0 with `rows`
  Value left;  ///< i32
  Value end;   ///< i32: of the rows that exist
  Value rows;  ///< of keys that a list names
};

/// Writes a kernel for warpgroups of 64 rows, as one stream of control.
class KernelWriter {
public:
  explicit KernelWriter(shed::KernelOp kernel)
      : kernel(kernel), tiling(kernel.getTilingAs<shed::WgmmaTilingAttr>()),
        v(kernel.getLoc(), kernel.getContext()), element(kernel.getElement()),
        channels(kernel.getHeadDim()) {}

  LogicalResult run();

private:
  using MapBody =
      function_ref<Value(ValueRange elements, Value row, Value column)>;

  void findRows();
  void loadArguments();
  Value field(Type type, size_t offset) {
    return v.loadConstant(type, v.at(args, static_cast<int64_t>(offset)),
                          type.isF32() || type.isInteger(32) ? 4 : 8);
  }
  LogicalResult lower(Operation &op);
  LogicalResult lowerKeys(shed::ForKeysOp loop);
  KeyPass keyPass(Attribute over);
  TileKeys keysOf(const KeyPass &pass, Value tile);
  LogicalResult lowerInTile(Operation &op, const TileKeys &keys);
  Logits score(const Logits &logits, const ::heddle::bundle::Scores &scores);
  Softmax update(Softmax state, const Logits &logits, Value values,
                 const TileKeys &keys);
  Softmax rescale(Softmax state, Value top);
  void store(const Softmax &state);

  //===--- Ops of the warp level --------------------------------------------===
  warp::FragmentType fragment(int64_t columns, Type type) {
    return warp::FragmentType::get(kernel.getContext(), columns, type);
  }
  warp::FragmentType fragment(int64_t columns) {
    return fragment(columns, v.f32());
  }
  Value splat(int64_t columns, float value) {
    return warp::SplatOp::create(v.b, fragment(columns), v.real(value));
  }
  Value map(Type type, ValueRange inputs, MapBody body);
  Value multiply(Value left, Value right, Value sums, bool transposed,
                 int64_t from);
  Value load(Value base, Value first, Value stride, Value limit, int64_t rows,
             Value gathered = {}, Value negated = {}, Value map = {}) {
    auto type =
        warp::TileType::get(kernel.getContext(), rows, channels, element);
    return warp::LoadOp::create(v.b, type, base, first, stride, limit, gathered,
                                negated, map, map ? kvColumn : Value(),
                                IntegerAttr());
  }
  Value loadKeys(Value base, Value stride, Value map, const TileKeys &keys) {
    return load(base, keys.first, stride, keys.end, tiling.getKeys(), keys.rows,
                {}, keys.rows ? Value() : map);
  }

  shed::KernelOp kernel;
  shed::WgmmaTilingAttr tiling;
  NVVMBuilder v;
  const Type element;
  const int64_t channels;

  // Values of the function, i32 unless they are pointers or strides.
  Value args, n, rows, head;
  Value tileStart;        ///< the tile's first place, where it has lists
  Value taskRow, taskEnd; ///< the tile's rows
  Value queryBase, keyBase, valueBase, outputBase, lseBase;
  Value queryStride, keyStride, valueStride, outputStride; ///< i64, bytes
  Value keyMap, valueMap; ///< tensor maps, with `tma`
  Value kvColumn;         ///< of the head in them, in elements
  Value factor;           ///< |scale| * log2(e)
  Value negative; ///< whether the sign of `scale` is to go into the queries
  Value firstRow; ///< of the warpgroup

  // What the ops of `shed` gave.
  DenseMap<Value, Value> tiles;
  DenseMap<Value, Logits> logits;
  DenseMap<Value, Softmax> states;
};

} // namespace

LogicalResult KernelWriter::run() {
  if (kernel.getKind() != shed::KernelKind::Attention || element.isF32() ||
      channels % 64)
    return kernel.emitOpError("has no form for warpgroups, which have kernels "
                              "of attention for bf16 and f16 and head dims "
                              "that are multiples of 64");
  EntryFacts facts;
  facts.queryRows = tiling.getQueryRows();
  Values arguments = v.openEntry(kernel, kernel.getSymName(),
                                 {v.global(), v.global(), v.i64()}, facts);
  Operation *function = v.b.getInsertionBlock()->getParentOp();
  function->setAttr(
      warp::pipelineName,
      warp::PipelineAttr::get(kernel.getContext(), tiling.getConsumers(),
                              tiling.getStages(), tiling.getProducerRegisters(),
                              tiling.getConsumerRegisters(), tiling.getBlocks(),
                              tiling.getCluster()));
  if (tiling.getTma())
    function->setAttr("heddle.map_rows",
                      v.b.getI64IntegerAttr(tiling.getKeys()));
  args =
      v.at(arguments[0], v.mul(v.widenUnsigned(v.blockId(NVVMBuilder::Axis::Z)),
                               int64_t(sizeof(abi::AttentionArgs))));
  findRows();
  loadArguments();
  for (Operation &op : kernel.getBody().front()) {
    v.b.setLoc(op.getLoc());
    if (failed(lower(op)))
      return failure();
  }
  v.closeEntry();
  return success();
}

/// Returns from the kernel where the tile has no rows.
void KernelWriter::findRows() {
  auto word = [&](size_t offset) { return v.narrow(field(v.i64(), offset)); };
  n = word(offsetof(abi::AttentionArgs, n));
  rows = word(offsetof(abi::AttentionArgs, rows));
  Value block = v.blockId(NVVMBuilder::Axis::X);
  tileStart = v.mul(block, int64_t(tiling.getQueryRows()));
  taskRow = tileStart;
  Value end = rows;
  if (kernel.hasLists()) {
    // No tile lies behind the last place.
    v.returnIf(v.compare(CmpIPredicate::sge, tileStart, n));
    Value firstRow = field(v.global(), offsetof(abi::AttentionArgs, firstRow));
    Values range = v.choose(
        v.isNull(firstRow), {v.i32(), v.i32()},
        [&]() -> Values { return {tileStart, rows}; },
        [&]() -> Values {
          Value first = v.at(firstRow, v.mul(block, 4));
          return {v.loadConstant(v.i32(), first, 4),
                  v.loadConstant(v.i32(), v.at(first, 4), 4)};
        });
    taskRow = range[0];
    end = range[1];
  }
  // Blocks of a cluster bring each other's tiles, so all of them stay if one
  // has rows.
  Value firstOfCluster =
      tiling.getCluster() > 1
          ? v.mul(v.both(block, -tiling.getCluster()), tiling.getQueryRows())
          : taskRow;
  v.returnIf(v.compare(CmpIPredicate::sge, firstOfCluster, end));
  taskEnd = v.least(v.add(taskRow, int64_t(tiling.getQueryRows())), end);
}

void KernelWriter::loadArguments() {
  Type i64 = v.i64();
  head = v.blockId(NVVMBuilder::Axis::Y);
  Value kvHead = v.quotient(
      head, v.narrow(field(i64, offsetof(abi::AttentionArgs, kvGroup))));
  auto base = [&](size_t offset, Value which) {
    return v.at(field(v.global(), offset),
                v.mul(v.widenUnsigned(which), channels * 2));
  };
  auto stride = [&](size_t offset) { return v.mul(field(i64, offset), 2); };
  queryBase = base(offsetof(abi::AttentionArgs, query), head);
  keyBase = base(offsetof(abi::AttentionArgs, key), kvHead);
  valueBase = base(offsetof(abi::AttentionArgs, value), kvHead);
  outputBase = base(offsetof(abi::AttentionArgs, output), head);
  if (tiling.getTma()) {
    Value maps = field(v.global(), offsetof(abi::AttentionArgs, tileMaps));
    keyMap = v.at(maps, int64_t(offsetof(abi::TileMaps, key)));
    valueMap = v.at(maps, int64_t(offsetof(abi::TileMaps, value)));
    kvColumn = v.mul(kvHead, channels);
  }
  queryStride = stride(offsetof(abi::AttentionArgs, queryStride));
  keyStride = stride(offsetof(abi::AttentionArgs, keyStride));
  valueStride = stride(offsetof(abi::AttentionArgs, valueStride));
  outputStride = stride(offsetof(abi::AttentionArgs, outputStride));
  if (kernel.getWritesLse())
    lseBase = v.at(field(v.global(), offsetof(abi::AttentionArgs, lse)),
                   v.mul(v.mul(v.widen(head), v.widen(rows)), 4));
  Value scale = field(v.f32(), offsetof(abi::AttentionArgs, scale));
  negative = v.compare(CmpFPredicate::OLT, scale, v.real(0.0f));
  Value magnitude = v.select(negative, v.negf(scale), scale);
  // Not quite zero: zero times a masked logit would be NaN.
  factor = v.maxf(v.mulf(magnitude, v.real(1.44269504088896341f)),
                  v.real(std::numeric_limits<float>::min()));
}

LogicalResult KernelWriter::lower(Operation &op) {
  return TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](shed::LoadQueriesOp load) {
        firstRow = v.add(taskRow, v.mul(warp::WarpgroupOp::create(v.b),
                                        warp::warpgroupRows));
        tiles[load.getResult()] =
            this->load(queryBase, firstRow, queryStride, taskEnd,
                       warp::warpgroupRows, {}, negative);
        return success();
      })
      .Case([&](shed::SoftmaxInitOp init) {
        // Not -inf, so that a row that has met no key yet has differences, too:
        // its masked logits, -inf, still give no weight.
        states[init.getResult()] = {
            splat(channels, 0.0f),
            splat(1, std::numeric_limits<float>::lowest()), splat(1, 0.0f)};
        return success();
      })
      .Case([&](shed::ForKeysOp loop) { return lowerKeys(loop); })
      .Case([&](shed::StoreOp op) {
        store(states.at(op.getState()));
        return success();
      })
      .Default([](Operation *op) {
        return op->emitOpError("has no form for warpgroups");
      });
}

LogicalResult KernelWriter::lowerKeys(shed::ForKeysOp loop) {
  if (!loop.getSkip().empty() ||
      !isa<shed::AllAttr, shed::ListAttr, shed::BlocksAttr>(loop.getOver()))
    return loop.emitOpError("has no form for warpgroups: it is not over all "
                            "keys, or those of one list");
  auto blocks = dyn_cast<shed::BlocksAttr>(loop.getOver());
  if (blocks && blocks.getSize() % tiling.getKeys())
    return loop.emitOpError()
           << "has no form for warpgroups: tiles of " << tiling.getKeys()
           << " keys do not divide blocks of " << blocks.getSize();
  if (tiling.getCluster() > 1 && !isa<shed::AllAttr>(loop.getOver()))
    return loop.emitOpError("has no form for warpgroups: blocks of a cluster "
                            "share tiles of all keys alone");
  if (isa<shed::ListAttr>(loop.getOver()) && tiling.getTma())
    return loop.emitOpError("has no form for warpgroups: tensor maps bring "
                            "consecutive keys, not those of a list");
  if (isa<shed::ListAttr>(loop.getOver()) &&
      kernel.getEncoding() == shed::Encoding::Bitmap)
    return loop.emitOpError("has no form for warpgroups: keys of a bitmap are "
                            "not read one by one");
  Softmax init = states.at(loop.getInit());
  bool good = true;
  KeyPass pass = keyPass(loop.getOver());
  Values result = v.loop(
      v.word(0), pass.tiles, 1, {init.context, init.maximum, init.sum},
      [&](Value tile, ValueRange carried) -> Values {
        Block &body = loop.getBody().front();
        states[body.getArgument(1)] = {carried[0], carried[1], carried[2]};
        TileKeys keys = keysOf(pass, tile);
        for (Operation &op : body.without_terminator())
          good &= succeeded(lowerInTile(op, keys));
        if (!good)
          return Values(carried);
        Softmax next =
            states.at(cast<shed::YieldOp>(body.getTerminator()).getValue());
        return {next.context, next.maximum, next.sum};
      });
  states[loop.getResult()] = {result[0], result[1], result[2]};
  return success(good);
}

KeyPass KernelWriter::keyPass(Attribute over) {
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
TileKeys KernelWriter::keysOf(const KeyPass &pass, Value tile) {
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

LogicalResult KernelWriter::lowerInTile(Operation &op, const TileKeys &keys) {
  v.b.setLoc(op.getLoc());
  return TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](shed::LoadKeysOp load) {
        tiles[load.getResult()] = loadKeys(keyBase, keyStride, keyMap, keys);
        return success();
      })
      .Case([&](shed::LoadValuesOp load) {
        tiles[load.getResult()] =
            loadKeys(valueBase, valueStride, valueMap, keys);
        return success();
      })
      .Case([&](shed::DotOp dot) {
        Value product = multiply(tiles.at(dot.getQueries()),
                                 tiles.at(dot.getKeys()), {}, true, 0);
        logits[dot.getResult()] = {
            warp::WaitOp::create(v.b, fragment(tiling.getKeys()), product),
            factor};
        return success();
      })
      .Case([&](shed::ScoresOp op) {
        const ::heddle::bundle::Scores scores = scoresOf(op.getBody());
        using Input = ::heddle::bundle::Scores;
        if (scores.uses(Input::Query) || scores.uses(Input::Key)) {
          op.emitOpError("has no form for warpgroups: its function asks where "
                         "rows or keys stand");
          return failure();
        }
        logits[op.getResult()] = score(logits.at(op.getLogits()), scores);
        return success();
      })
      .Case([&](shed::SoftmaxUpdateOp op) {
        states[op.getResult()] =
            update(states.at(op.getState()), logits.at(op.getLogits()),
                   tiles.at(op.getValues()), keys);
        return success();
      })
      .Default([](Operation *op) {
        return op->emitOpError("has no form for warpgroups");
      });
}

Value KernelWriter::map(Type type, ValueRange inputs, MapBody body) {
  auto op = warp::MapOp::create(v.b, type, inputs);
  Block &block = op.getBody().emplaceBlock();
  for (Value input : inputs)
    block.addArgument(cast<warp::FragmentType>(input.getType()).getElement(),
                      v.b.getLoc());
  Value row = block.addArgument(v.i32(), v.b.getLoc());
  Value column = block.addArgument(v.i32(), v.b.getLoc());
  OpBuilder::InsertionGuard guard(v.b);
  v.b.setInsertionPointToStart(&block);
  ValueRange elements = ValueRange(block.getArguments()).drop_back(2);
  warp::YieldOp::create(v.b, body(elements, row, column));
  return op.getResult(0);
}

Value KernelWriter::multiply(Value left, Value right, Value sums,
                             bool transposed, int64_t from) {
  auto tile = cast<warp::TileType>(right.getType());
  int64_t held = 0;
  if (auto type = dyn_cast<warp::FragmentType>(left.getType()))
    held = type.getRegisters();
  if (sums)
    if (auto type = dyn_cast<warp::FlyingType>(sums.getType()))
      held += type.getHeld();
  auto type = warp::FlyingType::get(
      kernel.getContext(), transposed ? tile.getRows() : tile.getColumns(),
      held);
  return warp::MultiplyOp::create(v.b, type, left, right, sums, transposed,
                                  from);
}

/// What a function makes of logits.
Logits KernelWriter::score(const Logits &from,
                           const ::heddle::bundle::Scores &scores) {
  constexpr float log2e = 1.44269504088896341f, ln2 = 0.693147180559945309f;
  Value scale = v.mulf(from.factor, v.real(ln2));
  float factorLeft = 1;
  Value scored =
      map(from.fragment.getType(), from.fragment,
          [&](ValueRange element, Value, Value) {
            MapScores target(v.b);
            ScoredLogit result = emitScores(
                target, scores,
                {.product = element[0], .scale = scale, .head = head});
            factorLeft = result.factor;
            return result.value;
          });
  return {scored, v.real(factorLeft * log2e)};
}

/// Adds a tile of keys. Source: online normaliser calculation for softmax
/// (Milakov, Gimelshein 2018), with the maximum lagging behind.
Softmax KernelWriter::update(Softmax state, const Logits &logits, Value values,
                             const TileKeys &keys) {
  auto type = cast<warp::FragmentType>(logits.fragment.getType());
  // What lies behind the last key gives no weight.
  Value partial =
      v.compare(CmpIPredicate::slt, keys.left, int64_t(tiling.getKeys()));
  Value all = v.choose(
      partial, Type(type),
      [&]() -> Values {
        Value lowest = v.real(-infinity);
        return {map(type, logits.fragment,
                    [&](ValueRange element, Value, Value column) {
                      return v.select(
                          v.compare(CmpIPredicate::slt, column, keys.left),
                          element[0], lowest);
                    })};
      },
      [&]() -> Values { return {logits.fragment}; })[0];

  Value top = warp::CombineOp::create(v.b, warp::Combine::Max,
                                      warp::ReduceOp::create(v.b, fragment(1),
                                                             warp::Combine::Max,
                                                             all, Value()));
  top = map(fragment(1), top, [&](ValueRange element, Value, Value) {
    return v.mulf(element[0], logits.factor);
  });
  state = rescale(state, top);

  // The products of a part run while the exponentials of the next are computed.
  const int64_t part = tiling.getKeys() / tiling.getParts();
  Value sums = state.context;
  for (int64_t from = 0; from < tiling.getKeys(); from += part) {
    Value some = all;
    if (tiling.getParts() > 1)
      some = warp::SliceOp::create(v.b, fragment(part), all, from);
    Value weights =
        map(fragment(part), {some, state.maximum},
            [&](ValueRange element, Value, Value) -> Value {
              return math::Exp2Op::create(
                  v.b, math::FmaOp::create(v.b, element[0], logits.factor,
                                           v.negf(element[1])));
            });
    state.sum = warp::ReduceOp::create(v.b, fragment(1), warp::Combine::Add,
                                       weights, state.sum);
    Value rounded =
        warp::RoundOp::create(v.b, fragment(part, element), weights);
    sums = multiply(rounded, values, sums, false, from);
  }
  state.context = warp::WaitOp::create(v.b, fragment(channels), sums);
  return state;
}

/// Raises the maxima to `top`, where a row of the warp has fallen behind too
/// far.
Softmax KernelWriter::rescale(Softmax state, Value top) {
  Value behind = map(fragment(1, v.i1()), {top, state.maximum},
                     [&](ValueRange element, Value, Value) {
                       return v.compare(CmpFPredicate::OGT, element[0],
                                        v.addf(element[1], v.real(slack)));
                     });
  Value far = warp::AnyOp::create(v.b, v.i1(), behind);
  Values before = {state.context, state.maximum, state.sum};
  Values after = v.choose(
      far, TypeRange(ValueRange(before)),
      [&]() -> Values {
        // Only those rows, so that a row's bits do not depend on the others.
        auto maximum =
            map(fragment(1), {behind, top, state.maximum},
                [&](ValueRange element, Value, Value) {
                  return v.select(element[0], element[1], element[2]);
                });
        Value ratio = map(fragment(1), {state.maximum, maximum},
                          [&](ValueRange element, Value, Value) -> Value {
                            return math::Exp2Op::create(
                                v.b, v.subf(element[0], element[1]));
                          });
        auto times = [&](ValueRange element, Value, Value) {
          return v.mulf(element[0], element[1]);
        };
        return {map(fragment(channels), {state.context, ratio}, times), maximum,
                map(fragment(1), {state.sum, ratio}, times)};
      },
      [&] { return before; });
  return {after[0], after[1], after[2]};
}

/// Divides by the sums and stores, then the log-sum-exp, if the kernel has it.
void KernelWriter::store(const Softmax &state) {
  Value total = warp::CombineOp::create(v.b, warp::Combine::Add, state.sum);
  Value inverse =
      map(fragment(1), total, [&](ValueRange element, Value, Value) {
        Value none = v.compare(CmpFPredicate::OEQ, element[0], v.real(0.0f));
        return v.select(none, v.real(0.0f), v.divf(v.real(1.0f), element[0]));
      });
  Value output = map(fragment(channels), {state.context, inverse},
                     [&](ValueRange element, Value, Value) {
                       return v.mulf(element[0], element[1]);
                     });
  warp::StoreOp::create(
      v.b, outputBase, firstRow, outputStride, taskEnd,
      warp::RoundOp::create(v.b, fragment(channels, element), output));
  if (!kernel.getWritesLse())
    return;
  // A row without keys has sum 0: -inf.
  Value lse =
      map(fragment(1), {state.maximum, total},
          [&](ValueRange element, Value, Value) -> Value {
            return v.addf(element[0], math::Log2Op::create(v.b, element[1]));
          });
  warp::StoreColumnOp::create(v.b, lse, lseBase, firstRow, taskEnd);
}

namespace {
struct ConvertShedToWarp
    : mlir::heddle::impl::ConvertShedToWarpBase<ConvertShedToWarp> {
  void runOnOperation() override {
    SmallVector<shed::KernelOp> kernels;
    getOperation().walk([&](shed::KernelOp kernel) {
      if (kernel.getTilingAs<shed::WgmmaTilingAttr>())
        kernels.push_back(kernel);
    });
    for (shed::KernelOp kernel : kernels) {
      if (failed(KernelWriter(kernel).run()))
        return signalPassFailure();
      kernel.erase();
    }
  }
};
} // namespace
