//===- NVVMBuilder.h - Emits CUDA code ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thin layer over OpBuilder that writes the few shapes of code CUDA kernels
// are made of: entries of the kernel ABI, byte addresses in global and shared
// memory, asynchronous copies, matrix fragments, shuffles, loops with carried
// values. Everything that a thread holds is a scalar SSA value, so that it
// lives in registers.
//
// A shared address is an i32 of bytes from the start of the block's dynamic
// shared memory, plus `sharedBase()`. Constant offsets are parameters of their
// own: they end up in the instruction and cost no register.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CONVERSION_SHEDTONVVM_NVVMBUILDER_H
#define HEDDLE_LIB_CONVERSION_SHEDTONVVM_NVVMBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::heddle {

/// What the bundle's record and the driver must know of a CUDA kernel.
struct EntryFacts {
  int64_t threads = 0;     ///< threads of a block, a multiple of 32
  int64_t sharedBytes = 0; ///< dynamic shared memory of a block
  int64_t blocks = 0;      ///< blocks that should fit a multiprocessor; 0: any
  int64_t queryRows = 0;   ///< rows of a task
  int64_t scratchBytes = 0;
  int64_t scratchBytesPerKey = 0;

  /// As attributes of the function.
  SmallVector<NamedAttribute> attributes(MLIRContext *context) const;
};

class NVVMBuilder {
public:
  using Values = SmallVector<Value>;

  NVVMBuilder(Location loc, MLIRContext *context) : b(loc, context) {}
  virtual ~NVVMBuilder() = default;

  ImplicitLocOpBuilder b;

  //===--- Types -----------------------------------------------------------===
  Type i1() { return b.getI1Type(); }
  Type i8() { return b.getI8Type(); }
  Type i16() { return b.getI16Type(); }
  Type i32() { return b.getI32Type(); }
  Type i64() { return b.getI64Type(); }
  Type f32() { return b.getF32Type(); }
  Type f64() { return b.getF64Type(); }
  /// Pointers to global and shared memory.
  Type global();
  Type shared();
  /// Four 32-bit words: the widest access of a thread, 16 bytes.
  VectorType quad() { return VectorType::get(4, i32()); }

  //===--- Functions -------------------------------------------------------===
  /// Opens the kernel `symbol` before `anchor`, with the machine-level
  /// attributes of `facts`, and moves into its body. Returns the arguments.
  /// Pointers among the parameters should be `global()`.
  Values openEntry(Operation *anchor, StringRef symbol, TypeRange parameters,
                   const EntryFacts &facts);
  /// Ends the kernel.
  void closeEntry();
  /// Returns from the kernel where `condition` holds. Emits a branch at the
  /// function's top level, so it can't be used inside loops and conditionals.
  void returnIf(Value condition);

  //===--- Integers: i32 unless the operands are i64 ------------------------===
  Value integer(Type type, int64_t value);
  Value word(int64_t value) { return integer(i32(), value); }
  Value constant(int64_t value) { return integer(i64(), value); }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, x, y); }
  Value add(Value x, int64_t y) { return y ? add(x, like(x, y)) : x; }
  Value sub(Value x, Value y) { return arith::SubIOp::create(b, x, y); }
  Value mul(Value x, Value y) { return arith::MulIOp::create(b, x, y); }
  /// x * y; a shift where y is a power of two.
  Value mul(Value x, int64_t y);
  /// x / y and x % y for x >= 0 and y >= 1.
  Value quotient(Value x, int64_t y);
  Value quotient(Value x, Value y) { return arith::DivUIOp::create(b, x, y); }
  Value remainder(Value x, int64_t y);
  Value remainder(Value x, Value y) { return arith::RemUIOp::create(b, x, y); }
  Value least(Value x, Value y) { return arith::MinSIOp::create(b, x, y); }
  Value greatest(Value x, Value y) { return arith::MaxSIOp::create(b, x, y); }
  Value both(Value x, Value y) { return arith::AndIOp::create(b, x, y); }
  Value both(Value x, int64_t y) { return both(x, like(x, y)); }
  Value either(Value x, Value y) { return arith::OrIOp::create(b, x, y); }
  Value flip(Value x, Value y) { return arith::XOrIOp::create(b, x, y); }
  Value flip(Value x, int64_t y) { return y ? flip(x, like(x, y)) : x; }
  Value shiftLeft(Value x, Value y) { return arith::ShLIOp::create(b, x, y); }
  Value shiftLeft(Value x, int64_t y) { return shiftLeft(x, like(x, y)); }
  /// Fills with zeros.
  Value shiftRight(Value x, Value y) { return arith::ShRUIOp::create(b, x, y); }
  Value shiftRight(Value x, int64_t y) { return shiftRight(x, like(x, y)); }
  /// Number of set bits, and of zeros below the lowest set bit (of x != 0).
  Value countBits(Value x);
  Value lowestBit(Value x);
  Value compare(arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, predicate, x, y);
  }
  Value compare(arith::CmpIPredicate predicate, Value x, int64_t y) {
    return compare(predicate, x, like(x, y));
  }
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, condition, x, y);
  }
  /// i32 to i64 keeping the sign, or as a number that is not negative.
  Value widen(Value x) { return arith::ExtSIOp::create(b, i64(), x); }
  Value widenUnsigned(Value x) { return arith::ExtUIOp::create(b, i64(), x); }
  Value narrow(Value x) { return arith::TruncIOp::create(b, i32(), x); }
  /// The same bits as another type of the same width.
  Value bits(Type type, Value x);
  /// A constant of x's type.
  Value like(Value x, int64_t value) { return integer(x.getType(), value); }

  //===--- Floats: f32 -----------------------------------------------------===
  Value real(float value);
  Value addf(Value x, Value y) { return arith::AddFOp::create(b, x, y); }
  Value subf(Value x, Value y) { return arith::SubFOp::create(b, x, y); }
  Value mulf(Value x, Value y) { return arith::MulFOp::create(b, x, y); }
  /// Correctly rounded; some 8 instructions.
  Value divf(Value x, Value y) { return arith::DivFOp::create(b, x, y); }
  Value negf(Value x) { return arith::NegFOp::create(b, x); }
  Value fma(Value x, Value y, Value z);
  /// The greater value; the other one where one is NaN.
  Value maxf(Value x, Value y) { return arith::MaxNumFOp::create(b, x, y); }
  Value compare(arith::CmpFPredicate predicate, Value x, Value y) {
    return arith::CmpFOp::create(b, predicate, x, y);
  }
  /// Correctly rounded square root, of f64 too.
  Value sqrt(Value x);
  /// 2^x and log2(x) within 2 units in the last place, denormal results and
  /// arguments taken as 0: exp2(-inf) = 0, log2(0) = -inf.
  Value exp2(Value x);
  Value log2(Value x);
  /// tanh(x) within 2^-11 relative, one instruction from sm_75 on.
  /// Source: PTX ISA, tanh.approx.f32.
  Value tanhApprox(Value x);

  //===--- f32, bf16 and f16 in memory --------------------------------------===
  /// An f32 from or to a scalar of type `element`, rounded to nearest even.
  Value toFloat(Value x);
  Value fromFloat(Type element, Value x);
  /// A word of two elements (bf16 or f16), the first one in its low half.
  Value pack(Type element, Value low, Value high);
  std::pair<Value, Value> unpack(Type element, Value pair);

  //===--- Memory ----------------------------------------------------------===
  /// base + bytes (i64 or i32 that is not negative), for any pointer.
  Value at(Value base, Value bytes);
  Value at(Value base, int64_t bytes);
  Value load(Type type, Value pointer, unsigned alignment);
  /// A load of what nobody writes while the kernel runs.
  Value loadConstant(Type type, Value pointer, unsigned alignment);
  void store(Value value, Value pointer, unsigned alignment);
  /// Element `i` of a vector; a vector of some.
  Value extract(Value vector, int64_t i);
  Value makeVector(ArrayRef<Value> elements);
  Value isNull(Value pointer);

  /// The rows of a task by abi::AttentionArgs::firstRow: from its entry to the
  /// next, and where there is no table from `start` to `end`.
  SmallVector<Value> rowsOfTask(Value firstRow, Value task, Value start,
                                Value end);
  /// The null pointer to global memory.
  Value null();

  /// Address of the block's dynamic shared memory, as an i32.
  Value sharedBase();
  /// The pointer to shared memory at `address` + `offset` bytes.
  Value sharedAt(Value address, int64_t offset = 0);
  Value loadShared(Type type, Value address, int64_t offset = 0,
                   unsigned alignment = 4);
  void storeShared(Value value, Value address, int64_t offset = 0,
                   unsigned alignment = 4);
  /// Atomic add to an i32 or f32 in memory; the old value.
  Value atomicAdd(Value pointer, Value value);

  //===--- Asynchronous copies ---------------------------------------------===
  /// Copies 16 bytes to shared memory, past the first-level cache. Copies the
  /// first `bytes` (i32) and fills the rest with zeros if given: with 0,
  /// `from` is not read.
  void copyAsync(Value toAddress, int64_t offset, Value from,
                 Value bytes = Value());
  void commitCopies();
  /// Waits until at most `pending` of this thread's commits are unfinished.
  void awaitCopies(int64_t pending);

  //===--- Matrix fragments (one warp) --------------------------------------===
  /// Four 8 x 8 matrices of 16-bit elements; lane l gives the address of row
  /// l % 8 of matrix l / 8. Result m, of lane l: elements 2 * (l % 4) and the
  /// next one of row l / 4 of matrix m, or of column l / 4 when transposed.
  Values loadMatrices(Value address, int64_t offset, bool transpose);
  /// c + a * b on m16n8k16: a 4 words, b 2 words, c 4 floats.
  Values multiply(Type element, ValueRange a, ValueRange b, ValueRange c);

  //===--- Threads ---------------------------------------------------------===
  enum class Axis { X, Y, Z };
  Value threadId();
  Value blockId(Axis axis);
  Value gridSize(Axis axis);
  /// Of the threads that compute.
  virtual void barrier();
  void warpBarrier();
  /// The value that lane (own lane ^ mask) holds, of a 32-bit type.
  Value shuffleXor(Value x, int64_t mask);
  /// The value of lane `lane`; of the lane `distance` below or own value.
  Value shuffle(Value x, Value lane);
  Value shuffleUp(Value x, int64_t distance);
  Value ballot(Value condition);
  Value anyInWarp(Value condition);
  /// `combine` over the lanes whose numbers differ in the bits below `lanes`.
  Value reduceLanes(Value x, int64_t lanes,
                    function_ref<Value(Value, Value)> combine);

  //===--- Control ---------------------------------------------------------===
  /// for (i = from; i < to; i += step) carrying values; i32 or i64.
  Values loop(Value from, Value to, Value step, ValueRange carried,
              function_ref<Values(Value, ValueRange)> body);
  Values loop(Value from, Value to, int64_t step, ValueRange carried,
              function_ref<Values(Value, ValueRange)> body) {
    return loop(from, to, like(from, step), carried, body);
  }
  void loop(Value from, Value to, Value step, function_ref<void(Value)> body);
  void loop(Value from, Value to, int64_t step,
            function_ref<void(Value)> body) {
    loop(from, to, like(from, step), body);
  }
  /// Repeats while the i1 that `body` returns first holds; the rest is carried.
  Values repeat(ValueRange carried, function_ref<Values(ValueRange)> body);
  void when(Value condition, function_ref<void()> body);
  /// The values of `then`, or `otherwise`'s.
  Values choose(Value condition, TypeRange types, function_ref<Values()> then,
                function_ref<Values()> otherwise);

  //===--- Intrinsics ------------------------------------------------------===
  Value call(StringRef intrinsic, Type result, ValueRange operands);
};

} // namespace mlir::heddle

#endif // HEDDLE_LIB_CONVERSION_SHEDTONVVM_NVVMBUILDER_H
