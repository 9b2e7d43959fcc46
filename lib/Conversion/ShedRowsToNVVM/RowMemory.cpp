//===- RowMemory.cpp - Arrays of row kernels ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowLowering.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace mlir::heddle;

int64_t RowLowering::elementBytes(Type element) {
  return element.getIntOrFloatBitWidth() / 8;
}

Value RowLowering::address(Value array, Value index, Type element) {
  return v.at(array, v.mul(index, elementBytes(element)));
}

Value RowLowering::readElement(Value pointer, Type element) {
  Value value = v.load(element, pointer, elementBytes(element));
  if (element.isBF16() || element.isF16())
    return v.toFloat(value);
  return value;
}

void RowLowering::writeElement(Value value, Value pointer, Type element) {
  if (element.isBF16() || element.isF16())
    value = v.fromFloat(element, value);
  v.store(value, pointer, elementBytes(element));
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

/// By thread 0, where all threads do the same.
void RowLowering::writeOnce(function_ref<void()> write) {
  if (place.firstColumn)
    return write();
  v.when(v.compare(arith::CmpIPredicate::eq, thread, 0), write);
}

void RowLowering::emitRead(shed::ReadOp read) {
  Type element = read.getArray().getType().getElement();
  emitOnce(*read, [&](int64_t i) {
    Value pointer =
        address(lane(read.getArray(), i), lane(read.getIndex(), i), element);
    return readElement(pointer, element);
  });
}

void RowLowering::emitWrite(shed::WriteOp write) {
  Type element = write.getArray().getType().getElement();
  writeOnce([&] {
    for (int64_t i = place.lane; i < place.lane + place.lanes; ++i)
      writeElement(lane(write.getValue(), i),
                   address(lane(write.getArray(), i), lane(write.getIndex(), i),
                           element),
                   element);
  });
}

void RowLowering::emitRaise(shed::RaiseOp raise) {
  Type element = raise.getArray().getType().getElement();
  writeOnce([&] {
    for (int64_t i = place.lane; i < place.lane + place.lanes; ++i)
      LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::max,
                                address(lane(raise.getArray(), i),
                                        lane(raise.getIndex(), i), element),
                                lane(raise.getValue(), i),
                                LLVM::AtomicOrdering::monotonic);
  });
}

//===----------------------------------------------------------------------===//
// Groups of columns
//===----------------------------------------------------------------------===//

RowLowering::Values RowLowering::loadGroup(Value pointer, int64_t words) {
  Values result;
  for (int64_t quad = 0; quad < words / 4; ++quad) {
    Value vector = v.load(v.quad(), v.at(pointer, 16 * quad), 16);
    for (int64_t i = 0; i < 4; ++i)
      result.push_back(v.extract(vector, i));
  }
  return result;
}

void RowLowering::storeGroup(ValueRange words, Value pointer) {
  for (size_t quad = 0; quad < words.size() / 4; ++quad)
    v.store(v.makeVector(Values(words.slice(4 * quad, 4))),
            v.at(pointer, 16 * quad), 16);
}

RowLowering::Lanes RowLowering::unpack(Type element, ValueRange words) {
  Lanes result;
  for (Value word : words) {
    if (elementBytes(element) == 4) {
      result.push_back(element.isF32() ? v.bits(element, word) : word);
      continue;
    }
    auto [low, high] = v.unpack(element, word);
    result.push_back(low);
    result.push_back(high);
  }
  return result;
}

RowLowering::Values RowLowering::pack(Type element, ArrayRef<Value> lanes) {
  Values result;
  if (elementBytes(element) == 4) {
    for (Value value : lanes)
      result.push_back(element.isF32() ? v.bits(v.i32(), value) : value);
    return result;
  }
  for (size_t i = 0; i < lanes.size(); i += 2)
    result.push_back(v.pack(element, lanes[i], lanes[i + 1]));
  return result;
}

/// Whether columns of `element` are read and written a group at a time.
static bool inGroups(Type element, int64_t lanes) {
  int64_t bits = element.getIntOrFloatBitWidth();
  return lanes == 8 && (bits == 16 || bits == 32);
}

void RowLowering::emitReadColumn(shed::ReadColumnOp read) {
  Type element = read.getArray().getType().getElement();
  bool same = values.find(read.getArray())->second.size() == 1;
  if (same && inGroups(element, place.lanes)) {
    Value pointer = address(only(read.getArray()), place.firstColumn, element);
    int64_t words = place.lanes * elementBytes(element) / 4;
    return set(read, unpack(element, loadGroup(pointer, words)));
  }
  Lanes result;
  for (int64_t i = place.lane; i < place.lane + place.lanes; ++i)
    result.push_back(readElement(
        address(lane(read.getArray(), i), v.add(place.firstColumn, i), element),
        element));
  set(read, result);
}

void RowLowering::emitWriteColumn(shed::WriteColumnOp write) {
  Type element = write.getArray().getType().getElement();
  bool same = values.find(write.getArray())->second.size() == 1;
  if (same && inGroups(element, place.lanes))
    return storeGroup(
        pack(element, lanes(write.getValue())),
        address(only(write.getArray()), place.firstColumn, element));
  for (int64_t i = place.lane; i < place.lane + place.lanes; ++i)
    writeElement(lane(write.getValue(), i),
                 address(lane(write.getArray(), i), v.add(place.firstColumn, i),
                         element),
                 element);
}

void RowLowering::emitRecall(shed::RecallOp recall) {
  const Kept &row = kept.find(recall.getKept())->second;
  Type element = recall.getKept().getType().getElement();
  auto group = static_cast<size_t>(place.keptGroup);
  if (place.keptGroup >= 0 && group < row.groups.size()) {
    Lanes all = unpack(element, row.groups[group]);
    return set(recall,
               Lanes(ArrayRef<Value>(all).slice(place.lane, place.lanes)));
  }
  Value home = address(row.home, place.firstColumn, element);
  if (inGroups(element, place.lanes))
    return set(recall,
               unpack(element, loadGroup(home, place.lanes *
                                                   elementBytes(element) / 4)));
  Lanes result;
  for (int64_t i = place.lane; i < place.lane + place.lanes; ++i)
    result.push_back(
        readElement(v.at(home, i * elementBytes(element)), element));
  set(recall, result);
}
