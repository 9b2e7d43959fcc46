//===- ShedToWarp.cpp - Lower kernels on tiles to warpgroups --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../ShedToNVVM/NVVMBuilder.h"

#include "bundle/Abi.h"
#include "heddle/Conversion/Passes.h"
#include "heddle/Dialect/Shed/IR/Shed.h"
#include "heddle/Dialect/Warp/IR/Warp.h"

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

/// The keys of a tile: its first one and how many follow, itself included.
struct KeyRange {
  Value first, left;
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
  LogicalResult lowerInTile(Operation &op, const KeyRange &keys);
  Softmax update(Softmax state, const Logits &logits, Value values,
                 const KeyRange &keys);
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
             Value negated = {}) {
    auto type =
        warp::TileType::get(kernel.getContext(), rows, channels, element);
    return warp::LoadOp::create(v.b, type, base, first, stride, limit, negated,
                                IntegerAttr());
  }

  shed::KernelOp kernel;
  shed::WgmmaTilingAttr tiling;
  NVVMBuilder v;
  const Type element;
  const int64_t channels;

  // Values of the function, i32 unless they are pointers or strides.
  Value args, n, rows, head, taskRow;
  Value queryBase, keyBase, valueBase, outputBase, lseBase;
  Value queryStride, keyStride, valueStride, outputStride; ///< i64, bytes
  Value factor;   ///< |scale| * log2(e)
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
                              tiling.getConsumerRegisters()));
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
  taskRow =
      v.mul(v.blockId(NVVMBuilder::Axis::X), int64_t(tiling.getQueryRows()));
  v.returnIf(v.compare(CmpIPredicate::sge, taskRow, rows));
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
            this->load(queryBase, firstRow, queryStride, rows,
                       warp::warpgroupRows, negative);
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
  if (!isa<shed::AllAttr>(loop.getOver()) || !loop.getSkip().empty())
    return loop.emitOpError("has no form for warpgroups: it is not over all "
                            "keys");
  const int64_t keys = tiling.getKeys();
  Softmax init = states.at(loop.getInit());
  bool good = true;
  Value count = v.quotient(v.add(n, keys - 1), keys);
  Values result = v.loop(
      v.word(0), count, 1, {init.context, init.maximum, init.sum},
      [&](Value tile, ValueRange carried) -> Values {
        Block &body = loop.getBody().front();
        states[body.getArgument(1)] = {carried[0], carried[1], carried[2]};
        Value first = v.mul(tile, keys);
        KeyRange range{first, v.sub(n, first)};
        for (Operation &op : body.without_terminator())
          good &= succeeded(lowerInTile(op, range));
        if (!good)
          return Values(carried);
        Softmax next =
            states.at(cast<shed::YieldOp>(body.getTerminator()).getValue());
        return {next.context, next.maximum, next.sum};
      });
  states[loop.getResult()] = {result[0], result[1], result[2]};
  return success(good);
}

LogicalResult KernelWriter::lowerInTile(Operation &op, const KeyRange &keys) {
  v.b.setLoc(op.getLoc());
  return TypeSwitch<Operation *, LogicalResult>(&op)
      .Case([&](shed::LoadKeysOp load) {
        tiles[load.getResult()] =
            this->load(keyBase, keys.first, keyStride, n, tiling.getKeys());
        return success();
      })
      .Case([&](shed::LoadValuesOp load) {
        tiles[load.getResult()] =
            this->load(valueBase, keys.first, valueStride, n, tiling.getKeys());
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

/// Adds a tile of keys. Source: online normaliser calculation for softmax
/// (Milakov, Gimelshein 2018), with the maximum lagging behind.
Softmax KernelWriter::update(Softmax state, const Logits &logits, Value values,
                             const KeyRange &keys) {
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
      v.b, outputBase, firstRow, outputStride, rows,
      warp::RoundOp::create(v.b, fragment(channels, element), output));
  if (!kernel.getWritesLse())
    return;
  // A row without keys has sum 0: -inf.
  Value lse =
      map(fragment(1), {state.maximum, total},
          [&](ValueRange element, Value, Value) -> Value {
            return v.addf(element[0], math::Log2Op::create(v.b, element[1]));
          });
  warp::StoreColumnOp::create(v.b, lse, lseBase, firstRow, rows);
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
