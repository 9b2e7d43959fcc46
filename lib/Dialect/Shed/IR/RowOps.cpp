//===- RowOps.cpp - Operations on rows ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Shed/IR/Shed.h"

#include "bundle/abi/RowAbi.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::shed;

using ::heddle::abi::RowField;
using EmitError = function_ref<InFlightDiagnostic()>;

Type shed::arithmeticType(Type element) {
  if (element.isBF16() || element.isF16())
    return Float32Type::get(element.getContext());
  return element;
}

//===----------------------------------------------------------------------===//
// Attributes and types
//===----------------------------------------------------------------------===//

LogicalResult RowTilingAttr::verify(EmitError emitError, int64_t threads,
                                    int64_t columns, int64_t kept) {
  if (threads < 32 || threads > 1024 || !llvm::isPowerOf2_64(threads))
    return emitError() << "threads = " << threads
                       << " is not a power of two from 32 to 1024";
  if (columns != 1 && columns != 8)
    return emitError() << "a thread takes 1 or 8 columns at once, not "
                       << columns;
  if (kept < 0 || kept > 8)
    return emitError() << "kept is from 0 to 8, not " << kept;
  if (kept && columns == 1)
    return emitError() << "single columns can't be kept in registers";
  return success();
}

LogicalResult ArrayType::verify(EmitError emitError, Type element) {
  if (element.isF32() || element.isF64() || element.isBF16() ||
      element.isF16() || element.isInteger(8) || element.isInteger(32) ||
      element.isInteger(64))
    return success();
  return emitError() << "an array's elements are f32, bf16, f16, f64, i8, i32 "
                        "or i64, not "
                     << element;
}

LogicalResult KeptType::verify(EmitError emitError, Type element) {
  if (element.isF32() || element.isBF16() || element.isF16())
    return success();
  return emitError() << "kept values are f32, bf16 or f16, not " << element;
}

//===----------------------------------------------------------------------===//
// RowKernelOp
//===----------------------------------------------------------------------===//

/// The type of a parameter; `element` stands for T.
static Type parameterType(RowField field, Type element) {
  Builder b(element.getContext());
  auto array = [](Type of) { return ArrayType::get(of.getContext(), of); };
  switch (field) {
  case RowField::Elements:
    return array(element);
  case RowField::Bytes:
    return array(b.getI8Type());
  case RowField::Int32s:
    return array(b.getI32Type());
  case RowField::Int64s:
    return array(b.getI64Type());
  case RowField::Floats:
    return array(b.getF32Type());
  case RowField::Doubles:
    return array(b.getF64Type());
  case RowField::Int32:
    return b.getI32Type();
  case RowField::Int64:
    return b.getI64Type();
  case RowField::Double:
    return b.getF64Type();
  }
  llvm_unreachable("unknown field");
}

LogicalResult RowKernelOp::verifyRegions() {
  auto fields = ::heddle::abi::fieldsOf(getKind());
  SmallVector<Type> expected;
  for (RowField field : fields)
    expected.push_back(parameterType(field, getElement()));
  TypeRange given = getBody().getArgumentTypes();
  if (given.size() != expected.size())
    return emitOpError() << "of operation " << nameOf(getKind()) << " has "
                         << given.size() << " arguments; expected "
                         << expected.size() << " (" << TypeRange(expected)
                         << ")";
  for (auto [i, type] : llvm::enumerate(given))
    if (type != expected[i])
      return emitOpError() << "of operation " << nameOf(getKind())
                           << " has argument " << i << " of type " << type
                           << "; expected " << expected[i];

  // Passes work with all threads: every thread must come to them.
  bool good = true;
  getBody().walk([&](Operation *op) {
    if (!isa<ForColumnsOp, NumberColumnsOp>(op))
      return;
    if (op->getParentOfType<ForColumnsOp>() ||
        op->getParentOfType<NumberColumnsOp>()) {
      op->emitOpError() << "is inside another pass over columns";
      good = false;
    }
  });
  return success(good);
}

LogicalResult RaiseOp::verify() {
  if (!getValue().getType().isInteger(32))
    return emitOpError() << "raises elements of i32, not "
                         << getArray().getType().getElement();
  return success();
}

//===----------------------------------------------------------------------===//
// Passes over columns
//===----------------------------------------------------------------------===//

ParseResult shed::parseReductions(OpAsmParser &parser, ArrayAttr &reductions) {
  SmallVector<Attribute> parsed;
  auto parseOne = [&]() -> ParseResult {
    SMLoc location = parser.getCurrentLocation();
    StringRef name;
    if (parser.parseKeyword(&name))
      return failure();
    std::optional<Reduction> reduction = symbolizeReduction(name);
    if (!reduction)
      return parser.emitError(location) << "unknown reduction '" << name
                                        << "'; expected add, max or argmax";
    parsed.push_back(ReductionAttr::get(parser.getContext(), *reduction));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseOne))
    return failure();
  reductions = parser.getBuilder().getArrayAttr(parsed);
  return success();
}

void shed::printReductions(OpAsmPrinter &printer, Operation *,
                           ArrayAttr reductions) {
  printer << '(';
  llvm::interleaveComma(reductions, printer, [&](Attribute reduction) {
    printer << stringifyEnum(cast<ReductionAttr>(reduction).getValue());
  });
  printer << ')';
}

static LogicalResult verifyArguments(Operation *op, Region &region,
                                     TypeRange expected) {
  if (region.getArgumentTypes() == expected)
    return success();
  return op->emitOpError() << "has a region with arguments ("
                           << region.getArgumentTypes() << "); expected ("
                           << expected << ")";
}

static bool canReduce(Reduction reduction, Type type) {
  switch (reduction) {
  case Reduction::Add:
    return type.isF32() || type.isF64() || type.isInteger(32) ||
           type.isInteger(64);
  case Reduction::Max:
    return type.isF32() || type.isF64() || type.isInteger(32);
  case Reduction::ArgMax:
    return type.isF32() || type.isF64();
  }
  llvm_unreachable("unknown reduction");
}

LogicalResult ForColumnsOp::verifyRegions() {
  Builder b(getContext());
  Type column = ColumnType::get(getContext());
  SmallVector<Type> arguments;
  if (getPieces())
    arguments.push_back(b.getI64Type());
  arguments.push_back(column);
  if (failed(verifyArguments(*this, getBody(), arguments)))
    return failure();

  auto contribute = cast<ContributeOp>(getBody().front().getTerminator());
  SmallVector<Type> given(contribute.getValues().getTypes());
  if (given.size() != getReductions().size() + (getHome() ? 1 : 0))
    return contribute.emitOpError()
           << "gives " << given.size() << " values to a pass with "
           << getReductions().size() << " reductions"
           << (getHome() ? " and a value to keep" : "");
  SmallVector<Type> expected;
  for (auto [i, attribute] : llvm::enumerate(getReductions())) {
    Reduction reduction = cast<ReductionAttr>(attribute).getValue();
    if (!canReduce(reduction, given[i]))
      return contribute.emitOpError()
             << "gives " << given[i] << " to the reduction "
             << stringifyEnum(reduction);
    if (reduction == Reduction::ArgMax && getPieces())
      return emitOpError() << "takes the argmax over pieces; a column's number "
                              "names none of them";
    expected.push_back(given[i]);
    if (reduction == Reduction::ArgMax)
      expected.push_back(b.getI64Type());
  }
  if (getHome()) {
    if (getPieces() || getRagged())
      return emitOpError() << "keeps values of "
                           << (getPieces() ? "pieces" : "a ragged row");
    Type element = getHome().getType().getElement();
    if (!arithmeticType(element).isF32() || !given.back().isF32())
      return emitOpError() << "keeps values of " << given.back()
                           << " in an array of " << element
                           << "; expected f32 in an array of floats";
    expected.push_back(KeptType::get(getContext(), element));
  }
  if (getResultTypes() != TypeRange(expected))
    return emitOpError() << "has results (" << getResultTypes()
                         << "); expected (" << TypeRange(expected) << ")";
  return success();
}

LogicalResult NumberColumnsOp::verifyRegions() {
  Builder b(getContext());
  Type column = ColumnType::get(getContext());
  if (failed(verifyArguments(*this, getWhere(), column)) ||
      failed(verifyArguments(*this, getBody(), {column, b.getI64Type()})))
    return failure();
  auto chosen = cast<ContributeOp>(getWhere().front().getTerminator());
  if (chosen.getValues().getTypes() != TypeRange(b.getI1Type()))
    return chosen.emitOpError() << "of a condition gives one i1, not ("
                                << chosen.getValues().getTypes() << ")";
  auto rest = cast<ContributeOp>(getBody().front().getTerminator());
  if (!rest.getValues().empty())
    return rest.emitOpError() << "gives values that nothing takes";
  return success();
}

LogicalResult RecallOp::verify() {
  auto keeper = getKept().getDefiningOp<ForColumnsOp>();
  auto pass = (*this)->getParentOfType<ForColumnsOp>();
  if (!keeper || !pass || pass.getPieces() || pass.getRagged() ||
      keeper.getWidth() != pass.getWidth())
    return emitOpError() << "recalls what a pass of another width kept";
  return success();
}
