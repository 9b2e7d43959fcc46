//===- Columns.cpp - Passes over the columns of a row ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowLowering.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::heddle;
using shed::Reduction;

static constexpr int64_t warp = 32;

static Reduction reductionOf(Attribute attribute) {
  return cast<shed::ReductionAttr>(attribute).getValue();
}

/// Calls `use` with each reduction of a pass and the place of its values: one,
/// or a value and a column for an argmax.
static void forReductions(shed::ForColumnsOp pass,
                          function_ref<void(Reduction, int64_t contribution,
                                            int64_t first, int64_t count)>
                              use) {
  int64_t first = 0;
  for (auto [i, attribute] : llvm::enumerate(pass.getReductions())) {
    Reduction reduction = reductionOf(attribute);
    int64_t count = reduction == Reduction::ArgMax ? 2 : 1;
    use(reduction, i, first, count);
    first += count;
  }
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

static TypedAttr leastValue(Builder &b, Type type) {
  if (type.isInteger(32))
    return b.getI32IntegerAttr(INT32_MIN);
  auto semantics = &cast<FloatType>(type).getFloatSemantics();
  return b.getFloatAttr(type, APFloat::getInf(*semantics, /*Negative=*/true));
}

/// An argmax starts at -inf in the first column of the thread's first group, so
/// that the lowest column wins where all are -inf.
RowLowering::Values RowLowering::initialAccumulators(shed::ForColumnsOp pass) {
  Operation *contribute = pass.getBody().front().getTerminator();
  Values result;
  forReductions(pass, [&](Reduction reduction, int64_t i, int64_t, int64_t) {
    Type type = contribute->getOperand(i).getType();
    TypedAttr start = reduction == Reduction::Add
                          ? cast<TypedAttr>(b.getZeroAttr(type))
                          : leastValue(b, type);
    result.push_back(arith::ConstantOp::create(b, start));
    if (reduction == Reduction::ArgMax)
      result.push_back(v.mul(v.widenUnsigned(thread), tiling.getColumns()));
  });
  return result;
}

/// x and y together. With `ordered` the columns of x are below those of y.
RowLowering::Values RowLowering::combine(Reduction reduction, ValueRange x,
                                         ValueRange y, bool ordered) {
  bool integer = isa<IntegerType>(x[0].getType());
  switch (reduction) {
  case Reduction::Add:
    return {integer ? v.add(x[0], y[0]) : v.addf(x[0], y[0])};
  case Reduction::Max:
    return {integer ? v.greatest(x[0], y[0]) : v.maxf(x[0], y[0])};
  case Reduction::ArgMax: {
    Value better = v.compare(arith::CmpFPredicate::OGT, y[0], x[0]);
    if (!ordered) {
      Value equal = v.compare(arith::CmpFPredicate::OEQ, y[0], x[0]);
      Value lower = v.compare(arith::CmpIPredicate::slt, y[1], x[1]);
      better = v.either(better, v.both(equal, lower));
    }
    return {v.select(better, y[0], x[0]), v.select(better, y[1], x[1])};
  }
  }
  llvm_unreachable("unknown reduction");
}

Value RowLowering::shuffleXor(Value x, int64_t mask) {
  Type type = x.getType();
  if (type.getIntOrFloatBitWidth() == 32)
    return v.shuffleXor(x, mask);
  Value words = v.bits(VectorType::get(2, v.i32()), x);
  Values halves = {v.shuffleXor(v.extract(words, 0), mask),
                   v.shuffleXor(v.extract(words, 1), mask)};
  return v.bits(type, v.makeVector(halves));
}

/// Over the lanes of a warp whose numbers differ in the bits below `lanes`.
RowLowering::Values RowLowering::reduceLanes(Reduction reduction, ValueRange x,
                                             int64_t lanes) {
  Values result(x);
  for (int64_t mask = lanes / 2; mask; mask /= 2) {
    Values other;
    for (Value value : result)
      other.push_back(shuffleXor(value, mask));
    result = combine(reduction, result, other, /*ordered=*/false);
  }
  return result;
}

Value RowLowering::partials(int64_t count) {
  Value base = LLVM::AddressOfOp::create(
      b, v.shared(), (kernel.getSymName() + "_partials").str());
  Value result = v.at(base, 8 * partialWords);
  partialWords += count;
  return result;
}

/// The static shared memory of the passes.
void RowLowering::declarePartials() {
  if (!partialWords)
    return;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(kernel);
  LLVM::GlobalOp::create(b, LLVM::LLVMArrayType::get(v.i64(), partialWords),
                         /*isConstant=*/false, LLVM::Linkage::Internal,
                         (kernel.getSymName() + "_partials").str(), Attribute(),
                         /*alignment=*/8,
                         static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared));
}

/// Every thread gets the reductions of all. The order is fixed: within a warp
/// by halves, then the warps likewise.
RowLowering::Values RowLowering::reduceInBlock(shed::ForColumnsOp pass,
                                               ValueRange accumulators) {
  Values result(accumulators);
  if (result.empty())
    return result;
  auto reduceAll = [&](int64_t lanes) {
    forReductions(pass, [&](Reduction reduction, int64_t, int64_t first,
                            int64_t count) {
      Values reduced =
          reduceLanes(reduction, ValueRange(result).slice(first, count), lanes);
      llvm::copy(reduced, result.begin() + first);
    });
  };
  reduceAll(warp);
  int64_t warps = tiling.getThreads() / warp;
  if (warps == 1)
    return result;

  Value memory = partials(warps * static_cast<int64_t>(result.size()));
  Value lane = v.remainder(thread, warp);
  Value own = v.at(memory, v.mul(v.quotient(thread, warp), 8));
  Value other = v.at(memory, v.mul(v.both(lane, warps - 1), 8));
  v.when(v.compare(arith::CmpIPredicate::eq, lane, 0), [&] {
    for (auto [i, value] : llvm::enumerate(result))
      v.store(value, v.at(own, 8 * warps * i), 8);
  });
  v.barrier();
  for (auto [i, value] : llvm::enumerate(result))
    value = v.load(value.getType(), v.at(other, 8 * warps * i), 8);
  reduceAll(warps);
  // The next round of a loop writes the same memory.
  if (pass->getParentOfType<scf::ForOp>())
    v.barrier();
  return result;
}

//===----------------------------------------------------------------------===//
// shed.for_columns
//===----------------------------------------------------------------------===//

/// The body for the columns at hand. A body that only reads is written out a
/// column at a time, after the loads of all: registers then hold the
/// temporaries of one column.
SmallVector<RowLowering::Lanes> RowLowering::emitBody(Block &body) {
  SmallVector<Lanes> result(body.getTerminator()->getNumOperands());
  bool onlyReads = !body.walk([](Operation *op) {
                          return isa<shed::WriteColumnOp, shed::RecallOp>(op)
                                     ? WalkResult::interrupt()
                                     : WalkResult::advance();
                        })
                        .wasInterrupted();
  if (place.lanes == 1 || !onlyReads) {
    emitBlock(body);
    for (auto [i, value] : llvm::enumerate(body.getTerminator()->getOperands()))
      result[i] = lanes(value);
    return result;
  }
  const Place group = place;
  auto isEarly = [&](Operation &op) {
    auto read = dyn_cast<shed::ReadColumnOp>(op);
    return read && read.getArray().getParentBlock() != &body;
  };
  for (Operation &op : body)
    if (isEarly(op))
      emit(op);
  place.lanes = 1;
  for (place.lane = 0; place.lane < group.lanes; ++place.lane) {
    for (Operation &op : body.without_terminator())
      if (!isEarly(op))
        emit(op);
    for (auto [i, value] : llvm::enumerate(body.getTerminator()->getOperands()))
      result[i].push_back(lane(value, place.lane));
  }
  place = group;
  return result;
}

RowLowering::Values RowLowering::emitGroup(shed::ForColumnsOp pass, Value piece,
                                           const Place &at,
                                           ValueRange accumulators,
                                           Values *keeps) {
  place = at;
  Block &body = pass.getBody().front();
  if (pass.getPieces())
    set(body.getArgument(0), {piece});
  SmallVector<Lanes> contributions = emitBody(body);

  Values result;
  forReductions(
      pass, [&](Reduction reduction, int64_t i, int64_t first, int64_t count) {
        // The group's columns by halves, then the accumulator.
        SmallVector<Values> columns;
        for (auto [lane, value] : llvm::enumerate(contributions[i])) {
          columns.push_back({value});
          if (reduction == Reduction::ArgMax)
            columns.back().push_back(v.add(at.firstColumn, lane));
        }
        for (; columns.size() > 1; columns.resize(columns.size() / 2))
          for (size_t c = 0; c < columns.size() / 2; ++c)
            columns[c] = combine(reduction, columns[2 * c], columns[2 * c + 1],
                                 /*ordered=*/true);
        llvm::append_range(result,
                           combine(reduction, accumulators.slice(first, count),
                                   columns[0], /*ordered=*/true));
      });
  if (pass.getHome()) {
    Type element = pass.getHome().getType().getElement();
    const Lanes &values = contributions.back();
    if (keeps) {
      *keeps = pack(element, values);
    } else {
      Value home = address(only(pass.getHome()), at.firstColumn, element);
      if (at.lanes == 8)
        storeGroup(pack(element, values), home);
      else
        writeElement(values[0], home, element);
    }
  }
  place = Place();
  return result;
}

void RowLowering::emitForColumns(shed::ForColumnsOp pass) {
  const int64_t columns = tiling.getColumns(), threads = tiling.getThreads();
  // A row has fewer than 2^31 columns: narrow counters save registers.
  Value width = v.narrow(only(pass.getWidth()));
  Value groups = v.quotient(width, columns);
  Value total = groups;
  if (pass.getPieces())
    total = v.mul(groups, v.narrow(only(pass.getPieces())));
  auto placeOf = [&](Value group, int64_t keptGroup) {
    Place at;
    at.firstColumn = v.widenUnsigned(v.mul(group, columns));
    at.columns = at.lanes = columns;
    at.keptGroup = keptGroup;
    return at;
  };

  bool keeps = static_cast<bool>(pass.getHome());
  bool recalls =
      pass.getBody()
          .walk([](shed::RecallOp) { return WalkResult::interrupt(); })
          .wasInterrupted();
  int64_t inRegisters = keeps || recalls ? tiling.getKept() : 0;
  Values accumulators = initialAccumulators(pass);
  Kept row;
  if (keeps)
    row.home = only(pass.getHome());

  // Groups that stay in registers between passes, one after the other.
  int64_t words = 0;
  if (keeps)
    words = columns * elementBytes(pass.getHome().getType().getElement()) / 4;
  for (int64_t i = 0; i < inRegisters; ++i) {
    Value group = v.add(thread, i * threads);
    SmallVector<Type> types(ValueRange(accumulators).getTypes());
    types.append(words, v.i32());
    auto work = [&] {
      Values keep;
      Values result = emitGroup(pass, Value(), placeOf(group, i), accumulators,
                                keeps ? &keep : nullptr);
      llvm::append_range(result, keep);
      return result;
    };
    Value inside = v.compare(arith::CmpIPredicate::slt, group, total);
    if (types.empty()) {
      v.when(inside, [&] { work(); });
      continue;
    }
    Values result = v.choose(inside, types, work, [&] {
      Values same = accumulators;
      same.append(words, v.word(0));
      return same;
    });
    row.groups.emplace_back(result.begin() + accumulators.size(), result.end());
    accumulators.assign(result.begin(), result.begin() + accumulators.size());
  }

  // All others.
  accumulators = v.loop(v.add(thread, inRegisters * threads), total, threads,
                        accumulators, [&](Value group, ValueRange carried) {
                          Value piece;
                          if (pass.getPieces()) {
                            Value quotient = v.quotient(group, groups);
                            piece = v.widenUnsigned(quotient);
                            group = v.sub(group, v.mul(quotient, groups));
                          }
                          return emitGroup(pass, piece, placeOf(group, -1),
                                           carried, nullptr);
                        });

  // What is left of a ragged row, a column a thread.
  if (pass.getRagged() && columns > 1) {
    Value column = v.add(v.mul(groups, columns), thread);
    Value inside = v.compare(arith::CmpIPredicate::slt, column, width);
    Place at;
    at.firstColumn = v.widenUnsigned(column);
    auto work = [&] {
      return emitGroup(pass, Value(), at, accumulators, nullptr);
    };
    if (accumulators.empty())
      v.when(inside, [&] { work(); });
    else
      accumulators = v.choose(inside, ValueRange(accumulators).getTypes(), work,
                              [&] { return accumulators; });
  }

  Values results = reduceInBlock(pass, accumulators);
  for (auto [result, value] : llvm::zip(pass.getResults(), results))
    set(result, {value});
  if (keeps)
    kept[pass.getResults().back()] = std::move(row);
}

//===----------------------------------------------------------------------===//
// shed.number_columns
//===----------------------------------------------------------------------===//

void RowLowering::emitNumberColumns(shed::NumberColumnsOp pass) {
  const int64_t threads = tiling.getThreads(), warps = threads / warp;
  Value width = only(pass.getWidth());
  Value memory = partials(warps);
  Value lane = v.remainder(thread, warp);
  Value warpNumber = v.quotient(thread, warp);
  Value lower = v.sub(v.shiftLeft(v.word(1), lane), v.word(1));
  Value own = v.at(memory, v.mul(warpNumber, 8));
  Value otherWarp = v.both(lane, warps - 1);
  Value other = v.at(memory, v.mul(otherWarp, 8));

  Values after = v.loop(
      wide(0), width, threads, {only(pass.getStart())},
      [&](Value base, ValueRange carried) -> Values {
        Value column = v.add(base, v.widenUnsigned(thread));
        Value inside = v.compare(arith::CmpIPredicate::slt, column, width);
        Place at;
        at.firstColumn = column;
        place = at;
        Value chosen = v.choose(
            inside, v.i1(),
            [&]() -> Values {
              Block &where = pass.getWhere().front();
              emitBlock(where);
              return {only(where.getTerminator()->getOperand(0))};
            },
            [&]() -> Values { return {v.integer(v.i1(), 0)}; })[0];

        // Chosen columns of lower lanes, of lower warps, of the whole round.
        Value mask = v.ballot(chosen);
        Value inWarp = v.countBits(v.both(mask, lower));
        v.when(v.compare(arith::CmpIPredicate::eq, lane, 0),
               [&] { v.store(v.countBits(mask), own, 4); });
        v.barrier();
        Value counts = v.load(v.i32(), other, 4);
        Value below =
            v.compare(arith::CmpIPredicate::ult, otherWarp, warpNumber);
        Value before = reduceLanes(
            Reduction::Add, v.select(below, counts, v.word(0)), warps)[0];
        Value round = reduceLanes(Reduction::Add, counts, warps)[0];
        v.barrier();

        Value number =
            v.add(carried[0], v.widenUnsigned(v.add(before, inWarp)));
        v.when(chosen, [&] {
          set(pass.getBody().getArgument(1), {number});
          emitBlock(pass.getBody().front());
        });
        place = Place();
        return {v.add(carried[0], v.widenUnsigned(round))};
      });
  set(pass.getResult(), {after[0]});
}
