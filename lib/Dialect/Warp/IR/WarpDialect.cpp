//===- WarpDialect.cpp - Attributes and types of the warp dialect ---------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Warp/IR/Warp.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::warp;

#include "heddle/Dialect/Warp/IR/WarpDialect.cpp.inc"
#include "heddle/Dialect/Warp/IR/WarpEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "heddle/Dialect/Warp/IR/WarpAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "heddle/Dialect/Warp/IR/WarpTypes.cpp.inc"

void WarpDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "heddle/Dialect/Warp/IR/WarpAttrs.cpp.inc"
      >();
}

void WarpDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "heddle/Dialect/Warp/IR/WarpTypes.cpp.inc"
      >();
}

void WarpDialect::initialize() {
  registerAttributes();
  registerTypes();
  addOperations<
#define GET_OP_LIST
#include "heddle/Dialect/Warp/IR/WarpOps.cpp.inc"
      >();
}

using EmitError = function_ref<InFlightDiagnostic()>;

static bool is16Bit(Type element) {
  return element.isBF16() || element.isF16();
}

LogicalResult PipelineAttr::verify(EmitError emitError, int64_t consumers,
                                   int64_t stages, int64_t producerRegisters,
                                   int64_t consumerRegisters, int64_t blocks,
                                   int64_t cluster, int64_t turnStages,
                                   bool pingPong, bool /*oneRing*/) {
  if (turnStages < 0 || turnStages > 4)
    return emitError() << "turn_stages is from 0 to 4, not " << turnStages;
  if (cluster < 1 || cluster > 2)
    return emitError() << "a cluster has 1 or 2 blocks, not " << cluster;
  if (blocks < 1 || blocks > 4)
    return emitError() << "a multiprocessor holds 1 to 4 blocks, not "
                       << blocks;
  if (consumers < 1 || consumers > 4)
    return emitError() << "a pipeline has 1 to 4 consumers, not " << consumers;
  if (pingPong && consumers == 1)
    return emitError() << "ping_pong is for 2 to 4 consumers, not 1";
  if (stages < 2 || stages > 8)
    return emitError() << "a ring has 2 to 8 stages, not " << stages;
  for (int64_t registers : {producerRegisters, consumerRegisters})
    if (registers < 24 || registers > 240 || registers % 8)
      return emitError() << "a thread has a multiple of 8 registers from 24 to "
                            "240, not "
                         << registers;
  return success();
}

LogicalResult TileType::verify(EmitError emitError, int64_t rows,
                               int64_t columns, Type element) {
  if (rows < 8 || rows % 8 || rows > 256)
    return emitError() << "a tile has a multiple of 8 rows up to 256, not "
                       << rows;
  if (columns < 64 || columns % 64 || columns > 256)
    return emitError() << "a tile has 64, 128, 192 or 256 columns, not "
                       << columns;
  if (!is16Bit(element))
    return emitError() << "a tile's elements are bf16 or f16, not " << element;
  return success();
}

LogicalResult RowsType::verify(EmitError emitError, int64_t rows) {
  if (rows < 16 || rows % 16 || rows > 256)
    return emitError() << "a multiple of 16 rows up to 256 are gathered, not "
                       << rows;
  return success();
}

LogicalResult RingType::verify(EmitError emitError, int64_t stages,
                               TileType tile, int64_t cluster) {
  if (cluster < 0 || cluster > 2)
    return emitError() << "a cluster has 1 or 2 blocks, not " << cluster;
  if (cluster && tile.getColumns() / 64 % cluster)
    return emitError() << cluster << " blocks can't share panels of "
                       << tile.getColumns()
                       << " columns, 64 each, in equal parts";
  if (stages < 1 || stages > 8)
    return emitError() << "a ring has 1 to 8 stages, not " << stages;
  return success();
}

LogicalResult FragmentType::verify(EmitError emitError, int64_t columns,
                                   Type element) {
  if (columns != 1 && (columns < 8 || columns % 8 || columns > 256))
    return emitError() << "a fragment has 1 column or a multiple of 8 up to "
                          "256, not "
                       << columns;
  if (!element.isF32() && !element.isInteger(32) && !element.isInteger(1) &&
      (!is16Bit(element) || columns == 1))
    return emitError()
           << "a fragment's elements are f32, i32 or i1, or bf16 or f16 "
              "in more than 1 column, not "
           << element;
  return success();
}

LogicalResult FlyingType::verify(EmitError emitError, int64_t columns,
                                 int64_t held) {
  if (columns < 8 || columns % 8 || columns > 256)
    return emitError()
           << "products have a multiple of 8 columns up to 256, not "
           << columns;
  if (held < 0)
    return emitError() << "products hold 0 registers or more, not " << held;
  return success();
}
