//===- RowLowering.cpp - Lowers one row kernel ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowLowering.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::heddle;

RowLowering::RowLowering(shed::RowKernelOp kernel)
    : kernel(kernel), tiling(kernel.getTiling()),
      v(kernel.getLoc(), kernel.getContext()), b(v.b) {}

LogicalResult RowLowering::run() {
  if (failed(check()))
    return failure();
  SmallVector<Type> parameters;
  for (Type type : kernel.getBody().getArgumentTypes())
    parameters.push_back(convert(type));
  EntryFacts facts;
  facts.threads = tiling.getThreads();
  Values arguments =
      v.openEntry(kernel, kernel.getSymName(), parameters, facts);
  Operation *function = b.getInsertionBlock()->getParentOp();
  for (StringRef name : {"heddle.query_rows", "heddle.scratch_bytes",
                         "heddle.scratch_bytes_per_key"})
    function->removeAttr(name);

  for (auto [argument, value] :
       llvm::zip_equal(kernel.getBody().getArguments(), arguments))
    set(argument, {value});
  thread = v.threadId();
  emitBlock(kernel.getBody().front());
  v.closeEntry();
  declarePartials();
  return success();
}

/// What `emit` knows.
LogicalResult RowLowering::check() {
  WalkResult result = kernel.getBody().walk([&](Operation *op) {
    bool inPass = op->getParentOfType<shed::ForColumnsOp>() ||
                  op->getParentOfType<shed::NumberColumnsOp>();
    bool known =
        TypeSwitch<Operation *, bool>(op)
            .Case<math::ExpOp, math::Log2Op>(
                [](auto math) { return math.getType().isF32(); })
            .Case([](math::LogOp log) { return log.getType().isF64(); })
            .Case([](math::SqrtOp sqrt) {
              return sqrt.getType().isF32() || sqrt.getType().isF64();
            })
            .Case<math::AbsFOp, math::FmaOp, scf::IfOp, scf::YieldOp>(
                [](auto) { return true; })
            .Case([&](scf::ForOp loop) {
              return !inPass && !loop.getUnsignedCmp();
            })
            .Case<shed::RowOp, shed::IsNullOp, shed::AdvanceOp, shed::ReadOp,
                  shed::WriteOp, shed::RaiseOp, shed::ReadColumnOp,
                  shed::WriteColumnOp, shed::ForColumnsOp,
                  shed::NumberColumnsOp, shed::ContributeOp, shed::RecallOp,
                  shed::ColumnNumberOp, shed::RoundOp, shed::RandomOp>(
                [](auto) { return true; })
            .Default([](Operation *op) {
              return isa_and_nonnull<arith::ArithDialect>(op->getDialect()) &&
                     op->getNumResults() == 1 && op->getNumRegions() == 0;
            });
    if (!known) {
      op->emitOpError() << "can't be lowered "
                        << (inPass ? "in a pass over columns"
                                   : "in a row kernel");
      return WalkResult::interrupt();
    }
    return WalkResult(checkOperands(*op));
  });
  return failure(result.wasInterrupted());
}

/// Columns and kept values are the pass's own: no value of the machine stands
/// for them that control flow or a selection could hand on.
LogicalResult RowLowering::checkOperands(Operation &op) {
  for (OpOperand &operand : op.getOpOperands()) {
    Type type = operand.get().getType();
    bool takes = true;
    if (isa<shed::ColumnType>(type))
      takes = isa<shed::ReadColumnOp, shed::WriteColumnOp, shed::RecallOp,
                  shed::ColumnNumberOp>(op);
    else if (isa<shed::KeptType>(type))
      takes = isa<shed::RecallOp>(op);
    if (!takes)
      return op.emitOpError()
             << "has operand " << operand.getOperandNumber() << " of type "
             << type << ", which only operations on columns take";
  }
  return success();
}

Type RowLowering::convert(Type type) {
  return isa<shed::ArrayType>(type) ? v.global() : type;
}

Value RowLowering::lane(Value value, int64_t i) {
  const Lanes &emitted = values.find(value)->second;
  return emitted.size() == 1 ? emitted[0] : emitted[i];
}

RowLowering::Lanes RowLowering::lanes(Value value) {
  Lanes result;
  for (int64_t i = 0; i < place.lanes; ++i)
    result.push_back(lane(value, place.lane + i));
  return result;
}

Value RowLowering::real(double value) {
  return arith::ConstantOp::create(b, b.getF64FloatAttr(value));
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

void RowLowering::emitBlock(Block &block) {
  for (Operation &op : block)
    if (!op.hasTrait<OpTrait::IsTerminator>())
      emit(op);
}

void RowLowering::emit(Operation &op) {
  TypeSwitch<Operation &>(op)
      .Case([&](scf::IfOp branch) { emitIf(branch); })
      .Case([&](scf::ForOp loop) { emitLoop(loop); })
      .Case([&](shed::ForColumnsOp pass) { emitForColumns(pass); })
      .Case([&](shed::NumberColumnsOp pass) { emitNumberColumns(pass); })
      .Case([&](shed::ReadOp read) { emitRead(read); })
      .Case([&](shed::WriteOp write) { emitWrite(write); })
      .Case([&](shed::RaiseOp raise) { emitRaise(raise); })
      .Case([&](shed::ReadColumnOp read) { emitReadColumn(read); })
      .Case([&](shed::WriteColumnOp write) { emitWriteColumn(write); })
      .Case([&](shed::RecallOp recall) { emitRecall(recall); })
      .Case([&](shed::RoundOp round) { emitRound(round); })
      .Case([&](shed::RowOp row) {
        set(row, {v.widenUnsigned(v.blockId(NVVMBuilder::Axis::X))});
      })
      .Case([&](shed::ColumnNumberOp number) {
        Lanes result;
        for (int64_t i = 0; i < place.lanes; ++i)
          result.push_back(v.add(place.firstColumn, place.lane + i));
        set(number, result);
      })
      .Case([&](shed::IsNullOp null) {
        emitOnce(op,
                 [&](int64_t i) { return v.isNull(lane(null.getArray(), i)); });
      })
      .Case([&](shed::AdvanceOp advance) {
        emitOnce(op, [&](int64_t i) {
          return address(lane(advance.getArray(), i),
                         lane(advance.getOffset(), i),
                         advance.getArray().getType().getElement());
        });
      })
      .Case([&](shed::RandomOp random) { emitRandom(random); })
      .Case([&](math::ExpOp exp) {
        emitOnce(op, [&](int64_t i) {
          return exponential(lane(exp.getOperand(), i));
        });
      })
      .Case([&](math::LogOp log) {
        emitOnce(op, [&](int64_t i) {
          return logarithm(lane(log.getOperand(), i));
        });
      })
      .Case([&](math::Log2Op log) {
        emitOnce(op,
                 [&](int64_t i) { return v.log2(lane(log.getOperand(), i)); });
      })
      .Case([&](math::SqrtOp sqrt) {
        emitOnce(op,
                 [&](int64_t i) { return v.sqrt(lane(sqrt.getOperand(), i)); });
      })
      .Case([&](math::FmaOp fma) {
        emitOnce(op, [&](int64_t i) {
          return v.fma(lane(fma.getA(), i), lane(fma.getB(), i),
                       lane(fma.getC(), i));
        });
      })
      .Case([&](math::AbsFOp abs) {
        emitOnce(op, [&](int64_t i) -> Value {
          return LLVM::FAbsOp::create(b, lane(abs.getOperand(), i));
        });
      })
      .Default([&](Operation &) { emitCopy(op); });
}

/// Sets the result of an op without side effects: computed once if its operands
/// are the same for all columns at hand.
void RowLowering::emitOnce(Operation &op,
                           function_ref<Value(int64_t lane)> make) {
  bool same = llvm::all_of(op.getOperands(), [&](Value operand) {
    return values.find(operand)->second.size() == 1;
  });
  Lanes result;
  for (int64_t i = 0, e = same ? 1 : place.lanes; i < e; ++i)
    result.push_back(make(place.lane + i));
  set(op.getResult(0), result);
}

/// Ops of arith: as they are.
void RowLowering::emitCopy(Operation &op) {
  emitOnce(op, [&](int64_t i) {
    IRMapping mapping;
    for (Value operand : op.getOperands())
      mapping.map(operand, lane(operand, i));
    Operation *copy = b.insert(op.clone(mapping));
    copy->getResult(0).setType(convert(op.getResult(0).getType()));
    return copy->getResult(0);
  });
}

void RowLowering::emitIf(scf::IfOp branch) {
  bool same = values.find(branch.getCondition())->second.size() == 1;
  // Columns that may differ in the condition go one after the other.
  int64_t rounds = same ? 1 : place.lanes;
  int64_t width = same ? place.lanes : 1;
  SmallVector<Type> types;
  for (Type type : branch.getResultTypes())
    types.append(width, convert(type));

  SmallVector<Lanes> results(branch.getNumResults());
  Place outer = place;
  for (int64_t round = 0; round < rounds; ++round) {
    place.lanes = width;
    place.lane = outer.lane + round;
    auto emitRegion = [&](Region &region) {
      Values yielded;
      emitBlock(region.front());
      for (Value value : region.front().getTerminator()->getOperands())
        llvm::append_range(yielded, lanes(value));
      return yielded;
    };
    Value condition = lane(branch.getCondition(), place.lane);
    Values emitted;
    if (types.empty()) {
      auto copy =
          scf::IfOp::create(b, condition, !branch.getElseRegion().empty());
      OpBuilder::InsertionGuard guard(b);
      for (auto [from, to] :
           llvm::zip_equal(branch->getRegions(), copy->getRegions()))
        if (!from.empty()) {
          b.setInsertionPointToStart(&to.front());
          emitRegion(from);
        }
    } else {
      emitted = v.choose(
          condition, types, [&] { return emitRegion(branch.getThenRegion()); },
          [&] { return emitRegion(branch.getElseRegion()); });
    }
    for (auto [i, value] : llvm::enumerate(emitted))
      results[i / width].push_back(value);
  }
  place = outer;
  for (auto [value, emitted] : llvm::zip_equal(branch.getResults(), results))
    set(value, emitted);
}

void RowLowering::emitLoop(scf::ForOp loop) {
  Values initial;
  for (Value value : loop.getInitArgs())
    initial.push_back(only(value));
  Values results = v.loop(
      only(loop.getLowerBound()), only(loop.getUpperBound()),
      only(loop.getStep()), initial, [&](Value i, ValueRange carried) {
        set(loop.getInductionVar(), {i});
        for (auto [argument, value] :
             llvm::zip_equal(loop.getRegionIterArgs(), carried))
          set(argument, {value});
        emitBlock(*loop.getBody());
        Values next;
        for (Value value : loop.getBody()->getTerminator()->getOperands())
          next.push_back(only(value));
        return next;
      });
  for (auto [result, value] : llvm::zip_equal(loop.getResults(), results))
    set(result, {value});
}

void RowLowering::emitRound(shed::RoundOp round) {
  Type to = round.getTo();
  if (to.isF32())
    return set(round, values.find(round.getValue())->second);
  Lanes result = values.find(round.getValue())->second;
  if (result.size() == 1) {
    result[0] = v.toFloat(v.fromFloat(to, result[0]));
  } else {
    result = lanes(round.getValue());
    // One instruction rounds two.
    if (result.size() % 2 == 0)
      result = unpack(to, pack(to, result));
    else
      for (Value &value : result)
        value = v.toFloat(v.fromFloat(to, value));
  }
  set(round, result);
}
