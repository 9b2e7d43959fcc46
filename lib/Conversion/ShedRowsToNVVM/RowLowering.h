//===- RowLowering.h - Lowers one row kernel ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block of `threads` threads does a row. Thread t takes the groups t,
// t + threads, ... of `columns` consecutive columns; what the body of a pass
// says of one column is written out for each column of the group, loads and
// stores of the group being one access. Outside of passes every thread computes
// the same, and thread 0 writes.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CONVERSION_SHEDROWSTONVVM_ROWLOWERING_H
#define HEDDLE_LIB_CONVERSION_SHEDROWSTONVVM_ROWLOWERING_H

#include "../ShedToNVVM/NVVMBuilder.h"

#include "heddle/Dialect/Shed/IR/Shed.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseMap.h"

namespace mlir::heddle {

class RowLowering {
public:
  explicit RowLowering(shed::RowKernelOp kernel);

  /// Emits the kernel's function before it.
  LogicalResult run();

private:
  using Values = SmallVector<Value>;
  /// A value for each column of the group at hand, or one for all.
  using Lanes = SmallVector<Value, 8>;

  /// Where emission is.
  struct Place {
    /// The group's first column (i64); null outside of passes.
    Value firstColumn;
    /// The group's columns; a multiple of their number is the first.
    int64_t columns = 1;
    /// Columns that are written out: the group's or, for lane `lane` alone, 1.
    int64_t lanes = 1;
    int64_t lane = 0;
    /// The number of the group among those kept in registers, -1 if it is none.
    int64_t keptGroup = -1;
  };

  /// What a pass has kept.
  struct Kept {
    SmallVector<Values> groups; ///< words of each group in registers
    Value home;                 ///< where the other columns are
  };

  //===--- Kernels: RowLowering.cpp -----------------------------------------===
  LogicalResult check();
  LogicalResult checkOperands(Operation &op);
  void emitBlock(Block &block);
  void emit(Operation &op);
  void emitOnce(Operation &op, function_ref<Value(int64_t lane)> make);
  void emitCopy(Operation &op);
  void emitIf(scf::IfOp branch);
  void emitLoop(scf::ForOp loop);
  void emitRound(shed::RoundOp round);
  void emitRandom(shed::RandomOp random);

  //===--- Memory: RowMemory.cpp --------------------------------------------===
  int64_t elementBytes(Type element);
  Value address(Value array, Value index, Type element);
  Value readElement(Value pointer, Type element);
  void writeElement(Value value, Value pointer, Type element);
  void writeOnce(function_ref<void()> write);
  void emitRead(shed::ReadOp read);
  void emitWrite(shed::WriteOp write);
  void emitRaise(shed::RaiseOp raise);
  void emitReadColumn(shed::ReadColumnOp read);
  void emitWriteColumn(shed::WriteColumnOp write);
  void emitRecall(shed::RecallOp recall);
  /// A group of f32, bf16 or f16 columns as words and back.
  Lanes unpack(Type element, ValueRange words);
  Values pack(Type element, ArrayRef<Value> lanes);
  Values loadGroup(Value pointer, int64_t words);
  void storeGroup(ValueRange words, Value pointer);

  //===--- Passes: Columns.cpp ----------------------------------------------===
  void emitForColumns(shed::ForColumnsOp pass);
  void emitNumberColumns(shed::NumberColumnsOp pass);
  /// One group of a pass. Returns the accumulators after it and, where `keeps`
  /// is not null, sets the words to keep.
  Values emitGroup(shed::ForColumnsOp pass, Value piece, const Place &at,
                   ValueRange accumulators, Values *keeps);
  SmallVector<Lanes> emitBody(Block &body);
  Values initialAccumulators(shed::ForColumnsOp pass);
  Values combine(shed::Reduction reduction, ValueRange x, ValueRange y,
                 bool ordered);
  Values reduceInBlock(shed::ForColumnsOp pass, ValueRange accumulators);
  Values reduceLanes(shed::Reduction reduction, ValueRange x, int64_t lanes);
  Value shuffleXor(Value x, int64_t mask);
  /// The address of `count` 8-byte words of shared memory of this pass's own.
  Value partials(int64_t count);
  void declarePartials();

  //===--- Scalars: Scalars.cpp ---------------------------------------------===
  Value exponential(Value x);
  Value logarithm(Value x);
  /// Four words, i32; `pair` is half the index.
  std::array<Value, 4> philox(int64_t stream, Value seed, Value step,
                              Value position, Value pair);

  Type convert(Type type);
  Value only(Value value) { return lane(value, 0); }
  Value lane(Value value, int64_t i);
  /// Lanes of `value` for the columns at hand.
  Lanes lanes(Value value);
  void set(Value value, Lanes emitted) { values[value] = std::move(emitted); }
  Value real(double value);
  Value wide(int64_t value) { return v.integer(v.i64(), value); }

  shed::RowKernelOp kernel;
  shed::RowTilingAttr tiling;
  NVVMBuilder v;
  ImplicitLocOpBuilder &b;
  Place place;
  Value thread; ///< i32
  llvm::DenseMap<Value, Lanes> values;
  llvm::DenseMap<Value, Kept> kept;
  /// What the even lane has made for the odd one behind it.
  llvm::DenseMap<Operation *, std::array<Value, 4>> randomWords;
  int64_t partialWords = 0;
};

} // namespace mlir::heddle

#endif // HEDDLE_LIB_CONVERSION_SHEDROWSTONVVM_ROWLOWERING_H
