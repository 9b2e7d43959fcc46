//===- NVVMBuilder.cpp - Emits CUDA code ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NVVMBuilder.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::heddle;

using Values = NVVMBuilder::Values;

/// Dynamic shared memory of every kernel of a module.
static constexpr StringLiteral sharedSymbol = "heddle_shared";

/// What swizzles of 128 bytes repeat after. No kernel has other shared memory,
/// and what a block of Hopper's has begins there.
static constexpr unsigned sharedAlignment = 1024; // bytes

Type NVVMBuilder::global() {
  return LLVM::LLVMPointerType::get(
      b.getContext(), static_cast<unsigned>(NVVM::NVVMMemorySpace::Global));
}

Type NVVMBuilder::shared() {
  return LLVM::LLVMPointerType::get(
      b.getContext(), static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared));
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

SmallVector<NamedAttribute> EntryFacts::attributes(MLIRContext *context) const {
  Builder b(context);
  auto number = [&](StringRef name, int64_t value) {
    return b.getNamedAttr(name, b.getI64IntegerAttr(value));
  };
  SmallVector<NamedAttribute> all = {
      b.getNamedAttr("nvvm.maxntid",
                     b.getDenseI32ArrayAttr({static_cast<int32_t>(threads)})),
      number("heddle.query_rows", queryRows),
      number("heddle.scratch_bytes", scratchBytes),
      number("heddle.scratch_bytes_per_key", scratchBytesPerKey),
      number("heddle.threads", threads),
      number("heddle.shared_bytes", sharedBytes)};
  if (blocks)
    all.push_back(b.getNamedAttr(
        "nvvm.minctasm", b.getI32IntegerAttr(static_cast<int32_t>(blocks))));
  return all;
}

Values NVVMBuilder::openEntry(Operation *anchor, StringRef symbol,
                              TypeRange parameters, const EntryFacts &facts) {
  b.setInsertionPoint(anchor);
  auto type = LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(b.getContext()), llvm::to_vector(parameters));
  auto function = LLVM::LLVMFuncOp::create(b, symbol, type);
  function->setAttr("nvvm.kernel", b.getUnitAttr());
  for (NamedAttribute fact : facts.attributes(b.getContext()))
    function->setAttr(fact.getName(), fact.getValue());
  Block *entry = function.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  return Values(entry->getArguments());
}

void NVVMBuilder::closeEntry() { LLVM::ReturnOp::create(b, ValueRange()); }

void NVVMBuilder::returnIf(Value condition) {
  Block *here = b.getInsertionBlock();
  Block *rest = here->splitBlock(b.getInsertionPoint());
  Block *leave = b.createBlock(rest);
  LLVM::ReturnOp::create(b, ValueRange());
  b.setInsertionPointToEnd(here);
  LLVM::CondBrOp::create(b, condition, leave, rest);
  b.setInsertionPointToStart(rest);
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

Value NVVMBuilder::integer(Type type, int64_t value) {
  return arith::ConstantOp::create(b, b.getIntegerAttr(type, value));
}

Value NVVMBuilder::mul(Value x, int64_t y) {
  if (y == 1)
    return x;
  if (llvm::isPowerOf2_64(y))
    return shiftLeft(x, llvm::Log2_64(y));
  return mul(x, like(x, y));
}

Value NVVMBuilder::quotient(Value x, int64_t y) {
  if (llvm::isPowerOf2_64(y))
    return y == 1 ? x : shiftRight(x, llvm::Log2_64(y));
  return quotient(x, like(x, y));
}

Value NVVMBuilder::remainder(Value x, int64_t y) {
  if (llvm::isPowerOf2_64(y))
    return both(x, y - 1);
  return arith::RemUIOp::create(b, x, like(x, y));
}

Value NVVMBuilder::countBits(Value x) { return LLVM::CtPopOp::create(b, x); }

Value NVVMBuilder::lowestBit(Value x) {
  return LLVM::CountTrailingZerosOp::create(b, x.getType(), x,
                                            /*is_zero_poison=*/true);
}

Value NVVMBuilder::bits(Type type, Value x) {
  return LLVM::BitcastOp::create(b, type, x);
}

//===----------------------------------------------------------------------===//
// Floats
//===----------------------------------------------------------------------===//

Value NVVMBuilder::real(float value) {
  return arith::ConstantOp::create(b, b.getF32FloatAttr(value));
}

Value NVVMBuilder::fma(Value x, Value y, Value z) {
  return LLVM::FMAOp::create(b, x, y, z);
}

Value NVVMBuilder::sqrt(Value x) { return LLVM::SqrtOp::create(b, x); }

Value NVVMBuilder::exp2(Value x) {
  return call("llvm.nvvm.ex2.approx.ftz.f32", f32(), x);
}

Value NVVMBuilder::log2(Value x) {
  return call("llvm.nvvm.lg2.approx.ftz.f", f32(), x);
}

Value NVVMBuilder::tanhApprox(Value x) {
  auto text = [&](const char *t) { return b.getStringAttr(t); };
  return LLVM::InlineAsmOp::create(
             b, f32(), x, text("tanh.approx.f32 $0, $1;"), text("=f,f"),
             /*has_side_effects=*/UnitAttr(), /*is_align_stack=*/UnitAttr(),
             LLVM::TailCallKindAttr::get(b.getContext(),
                                         LLVM::TailCallKind::None),
             LLVM::AsmDialectAttr(), /*operand_attrs=*/ArrayAttr())
      .getRes();
}

Value NVVMBuilder::toFloat(Value x) {
  if (x.getType().isF32())
    return x;
  return arith::ExtFOp::create(b, f32(), x);
}

Value NVVMBuilder::fromFloat(Type element, Value x) {
  if (element.isF32())
    return x;
  return arith::TruncFOp::create(b, element, x);
}

Value NVVMBuilder::pack(Type element, Value low, Value high) {
  // The instruction takes the high half first.
  return bits(i32(), call(element.isBF16() ? "llvm.nvvm.ff2bf16x2.rn"
                                           : "llvm.nvvm.ff2f16x2.rn",
                          VectorType::get(2, element), {high, low}));
}

std::pair<Value, Value> NVVMBuilder::unpack(Type element, Value pair) {
  if (element.isBF16())
    return {bits(f32(), shiftLeft(pair, 16)),
            bits(f32(), both(pair, word(-65536)))};
  Value halves = bits(VectorType::get(2, element), pair);
  return {toFloat(extract(halves, 0)), toFloat(extract(halves, 1))};
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value NVVMBuilder::at(Value base, Value bytes) {
  if (bytes.getType().isInteger(32))
    bytes = widenUnsigned(bytes);
  return LLVM::GEPOp::create(b, base.getType(), b.getI8Type(), base, bytes);
}

Value NVVMBuilder::at(Value base, int64_t bytes) {
  if (!bytes)
    return base;
  return LLVM::GEPOp::create(
      b, base.getType(), b.getI8Type(), base,
      ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(bytes)});
}

Value NVVMBuilder::load(Type type, Value pointer, unsigned alignment) {
  return LLVM::LoadOp::create(b, type, pointer, alignment);
}

Value NVVMBuilder::loadConstant(Type type, Value pointer, unsigned alignment) {
  return LLVM::LoadOp::create(b, type, pointer, alignment, /*isVolatile=*/false,
                              /*isNonTemporal=*/false, /*isInvariant=*/true);
}

void NVVMBuilder::store(Value value, Value pointer, unsigned alignment) {
  LLVM::StoreOp::create(b, value, pointer, alignment);
}

Value NVVMBuilder::extract(Value vector, int64_t i) {
  return LLVM::ExtractElementOp::create(b, vector, word(i));
}

Value NVVMBuilder::makeVector(ArrayRef<Value> elements) {
  Value vector = LLVM::PoisonOp::create(
      b, VectorType::get(elements.size(), elements[0].getType()));
  for (auto [i, value] : llvm::enumerate(elements))
    vector = LLVM::InsertElementOp::create(b, vector, value, word(i));
  return vector;
}

Value NVVMBuilder::null() { return LLVM::ZeroOp::create(b, global()); }

Value NVVMBuilder::isNull(Value pointer) {
  return LLVM::ICmpOp::create(b, LLVM::ICmpPredicate::eq, pointer,
                              LLVM::ZeroOp::create(b, pointer.getType()));
}

Values NVVMBuilder::rowsOfTask(Value firstRow, Value task, Value start,
                               Value end) {
  return choose(
      isNull(firstRow), {i32(), i32()},
      [&]() -> Values { return {start, end}; },
      [&]() -> Values {
        Value first = at(firstRow, mul(task, 4));
        return {loadConstant(i32(), first, 4),
                loadConstant(i32(), at(first, 4), 4)};
      });
}

Value NVVMBuilder::sharedBase() {
  auto module =
      b.getInsertionBlock()->getParentOp()->getParentOfType<ModuleOp>();
  if (!module.lookupSymbol(sharedSymbol)) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    LLVM::GlobalOp::create(
        b, LLVM::LLVMArrayType::get(i8(), 0),
        /*isConstant=*/false, LLVM::Linkage::External, sharedSymbol,
        Attribute(), sharedAlignment,
        static_cast<unsigned>(NVVM::NVVMMemorySpace::Shared));
  }
  Value base = LLVM::AddressOfOp::create(b, shared(), sharedSymbol);
  return LLVM::PtrToIntOp::create(b, i32(), base);
}

Value NVVMBuilder::sharedAt(Value address, int64_t offset) {
  return at(LLVM::IntToPtrOp::create(b, shared(), address), offset);
}

Value NVVMBuilder::loadShared(Type type, Value address, int64_t offset,
                              unsigned alignment) {
  return load(type, sharedAt(address, offset), alignment);
}

void NVVMBuilder::storeShared(Value value, Value address, int64_t offset,
                              unsigned alignment) {
  store(value, sharedAt(address, offset), alignment);
}

Value NVVMBuilder::atomicAdd(Value pointer, Value value) {
  return LLVM::AtomicRMWOp::create(
      b,
      value.getType().isF32() ? LLVM::AtomicBinOp::fadd
                              : LLVM::AtomicBinOp::add,
      pointer, value, LLVM::AtomicOrdering::monotonic);
}

//===----------------------------------------------------------------------===//
// Asynchronous copies
//===----------------------------------------------------------------------===//

void NVVMBuilder::copyAsync(Value toAddress, int64_t offset, Value from,
                            Value bytes) {
  NVVM::CpAsyncOp::create(b, sharedAt(toAddress, offset), from, 16,
                          NVVM::LoadCacheModifierKind::CG, bytes);
}

void NVVMBuilder::commitCopies() { NVVM::CpAsyncCommitGroupOp::create(b); }

void NVVMBuilder::awaitCopies(int64_t pending) {
  NVVM::CpAsyncWaitGroupOp::create(b, pending);
}

//===----------------------------------------------------------------------===//
// Matrix fragments
//===----------------------------------------------------------------------===//

static Values unpackStruct(NVVMBuilder &v, Value result, int64_t count) {
  Values values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(LLVM::ExtractValueOp::create(v.b, result, i));
  return values;
}

Values NVVMBuilder::loadMatrices(Value address, int64_t offset,
                                 bool transpose) {
  auto type = LLVM::LLVMStructType::getLiteral(b.getContext(),
                                               SmallVector<Type>(4, i32()));
  auto layout = transpose ? NVVM::MMALayout::col : NVVM::MMALayout::row;
  Value result = NVVM::LdMatrixOp::create(
      b, type, sharedAt(address, offset), 4, layout,
      NVVM::LdStMatrixShapeAttr::get(b.getContext(), 8, 8),
      NVVM::LdStMatrixEltType::B16);
  return unpackStruct(*this, result, 4);
}

Values NVVMBuilder::multiply(Type element, ValueRange x, ValueRange y,
                             ValueRange sum) {
  bool bf16 = element.isBF16();
  auto type = LLVM::LLVMStructType::getLiteral(b.getContext(),
                                               SmallVector<Type>(4, f32()));
  // The op takes pairs of f16 as vectors, and of bf16 as words.
  auto operands = [&](ValueRange words) {
    Values result(words);
    if (!bf16)
      for (Value &value : result)
        value = bits(VectorType::get(2, element), value);
    return result;
  };
  auto multiplicand = bf16 ? NVVM::MMATypes::bf16 : NVVM::MMATypes::f16;
  Value result = NVVM::MmaOp::create(
      b, type, operands(x), operands(y), sum, ArrayRef<int64_t>{16, 8, 16},
      std::nullopt, std::nullopt,
      std::array<NVVM::MMATypes, 2>{multiplicand, multiplicand},
      std::array<NVVM::MMALayout, 2>{NVVM::MMALayout::row,
                                     NVVM::MMALayout::col});
  return unpackStruct(*this, result, 4);
}

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

Value NVVMBuilder::threadId() { return NVVM::ThreadIdXOp::create(b, i32()); }

Value NVVMBuilder::blockId(Axis axis) {
  switch (axis) {
  case Axis::X:
    return NVVM::BlockIdXOp::create(b, i32());
  case Axis::Y:
    return NVVM::BlockIdYOp::create(b, i32());
  case Axis::Z:
    return NVVM::BlockIdZOp::create(b, i32());
  }
  llvm_unreachable("unknown axis");
}

Value NVVMBuilder::gridSize(Axis axis) {
  switch (axis) {
  case Axis::X:
    return NVVM::GridDimXOp::create(b, i32());
  case Axis::Y:
    return NVVM::GridDimYOp::create(b, i32());
  case Axis::Z:
    return NVVM::GridDimZOp::create(b, i32());
  }
  llvm_unreachable("unknown axis");
}

void NVVMBuilder::barrier() { NVVM::Barrier0Op::create(b); }

void NVVMBuilder::warpBarrier() { NVVM::SyncWarpOp::create(b, word(-1)); }

static Value shuffleOp(NVVMBuilder &v, NVVM::ShflKind kind, Value x,
                       Value offset, int64_t clamp) {
  return NVVM::ShflOp::create(v.b, x.getType(), v.word(-1), x, offset,
                              v.word(clamp), kind, UnitAttr());
}

Value NVVMBuilder::shuffleXor(Value x, int64_t mask) {
  return shuffleOp(*this, NVVM::ShflKind::bfly, x, word(mask), 31);
}

Value NVVMBuilder::shuffle(Value x, Value lane) {
  return shuffleOp(*this, NVVM::ShflKind::idx, x, lane, 31);
}

Value NVVMBuilder::shuffleUp(Value x, int64_t distance) {
  return shuffleOp(*this, NVVM::ShflKind::up, x, word(distance), 0);
}

Value NVVMBuilder::ballot(Value condition) {
  return NVVM::VoteSyncOp::create(b, i32(), word(-1), condition,
                                  NVVM::VoteSyncKind::ballot);
}

Value NVVMBuilder::anyInWarp(Value condition) {
  return NVVM::VoteSyncOp::create(b, i1(), word(-1), condition,
                                  NVVM::VoteSyncKind::any);
}

Value NVVMBuilder::reduceLanes(Value x, int64_t lanes,
                               function_ref<Value(Value, Value)> combine) {
  for (int64_t mask = lanes / 2; mask; mask /= 2)
    x = combine(x, shuffleXor(x, mask));
  return x;
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

Values NVVMBuilder::loop(Value from, Value to, Value step, ValueRange carried,
                         function_ref<Values(Value, ValueRange)> body) {
  auto loop = scf::ForOp::create(b, from, to, step, carried);
  OpBuilder::InsertionGuard guard(b);
  // Without carried values the builder has put the yield already.
  b.setInsertionPointToStart(loop.getBody());
  Values next = body(loop.getInductionVar(), loop.getRegionIterArgs());
  if (!carried.empty())
    scf::YieldOp::create(b, next);
  return Values(loop.getResults());
}

void NVVMBuilder::loop(Value from, Value to, Value step,
                       function_ref<void(Value)> body) {
  loop(from, to, step, ValueRange(), [&](Value i, ValueRange) {
    body(i);
    return Values();
  });
}

Values NVVMBuilder::repeat(ValueRange carried,
                           function_ref<Values(ValueRange)> body) {
  assert(!carried.empty() && "a loop that carries nothing never ends");
  OpBuilder::InsertionGuard guard(b);
  auto loop = scf::WhileOp::create(
      b, carried.getTypes(), carried,
      [&](OpBuilder &, Location, ValueRange values) {
        b.setInsertionPointToEnd(values[0].getParentBlock());
        Values next = body(values);
        scf::ConditionOp::create(b, next.front(),
                                 ValueRange(next).drop_front());
      },
      [&](OpBuilder &, Location, ValueRange values) {
        b.setInsertionPointToEnd(values[0].getParentBlock());
        scf::YieldOp::create(b, values);
      });
  return Values(loop.getResults());
}

void NVVMBuilder::when(Value condition, function_ref<void()> body) {
  auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  body();
}

Values NVVMBuilder::choose(Value condition, TypeRange types,
                           function_ref<Values()> then,
                           function_ref<Values()> otherwise) {
  auto branch = scf::IfOp::create(b, types, condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  for (auto [block, values] : {std::pair(branch.thenBlock(), then),
                               std::pair(branch.elseBlock(), otherwise)}) {
    b.setInsertionPointToEnd(block);
    scf::YieldOp::create(b, values());
  }
  return Values(branch.getResults());
}

Value NVVMBuilder::call(StringRef intrinsic, Type result, ValueRange operands) {
  return LLVM::CallIntrinsicOp::create(b, result, b.getStringAttr(intrinsic),
                                       operands)
      .getResults();
}
