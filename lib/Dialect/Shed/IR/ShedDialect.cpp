//===- ShedDialect.cpp - Attributes and types of the shed dialect ---*- C++
//-*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Shed/IR/BundleEnums.h"
#include "heddle/Dialect/Shed/IR/Shed.h"

#include "bundle/format/Tilings.h"
#include "bundle/program/Manifest.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::shed;

#include "heddle/Dialect/Shed/IR/ShedDialect.cpp.inc"
#include "heddle/Dialect/Shed/IR/ShedEnums.cpp.inc"

/// `?` or an integer.
static ParseResult parseNumberOrTold(AsmParser &parser, int64_t &size) {
  if (failed(parser.parseOptionalQuestion()))
    return parser.parseInteger(size);
  size = ShapedType::kDynamic;
  return success();
}

static void printNumberOrTold(AsmPrinter &printer, int64_t size) {
  if (ShapedType::isDynamic(size))
    printer << '?';
  else
    printer << size;
}

#define GET_ATTRDEF_CLASSES
#include "heddle/Dialect/Shed/IR/ShedAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "heddle/Dialect/Shed/IR/ShedTypes.cpp.inc"

void ShedDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "heddle/Dialect/Shed/IR/ShedAttrs.cpp.inc"
      >();
}

void ShedDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "heddle/Dialect/Shed/IR/ShedTypes.cpp.inc"
      >();
}

void ShedDialect::initialize() {
  registerAttributes();
  registerTypes();
  addOperations<
#define GET_OP_LIST
#include "heddle/Dialect/Shed/IR/ShedOps.cpp.inc"
      >();
}

using EmitError = function_ref<InFlightDiagnostic()>;

LogicalResult TilingAttr::verify(EmitError emitError, int64_t queryRows,
                                 int64_t panel, int64_t keys, int64_t lanes,
                                 int64_t blockKeys, int64_t blockChannels,
                                 DotKind dot, bool packKeys, bool packValues,
                                 int64_t fetchAhead) {
  if (lanes != 8 && lanes != 16)
    return emitError() << "a tiling has 8 or 16 lanes, not " << lanes;
  if (panel < lanes || panel % lanes)
    return emitError() << "panel = " << panel
                       << " is not a positive multiple of lanes = " << lanes;
  if (queryRows < 1)
    return emitError() << "query_rows is at least 1, not " << queryRows;
  if (blockKeys < 1 || blockChannels < 1)
    return emitError() << "block_keys and block_channels are at least 1, not "
                       << blockKeys << " and " << blockChannels;
  if (fetchAhead < 0 || fetchAhead > 2)
    return emitError() << "fetch_ahead is 0, 1 or 2, not " << fetchAhead;
  // Code asks for each row by itself.
  if (fetchAhead && keys > ::heddle::bundle::maxGroup)
    return emitError() << "with fetch_ahead a tile has at most "
                       << ::heddle::bundle::maxGroup << " keys, not " << keys;
  if (keys < blockKeys || keys % blockKeys || keys % 2)
    return emitError() << "keys = " << keys
                       << " is not a positive even multiple of block_keys = "
                       << blockKeys;
  if (dot == DotKind::Tiles && (lanes != 16 || panel % 16 || keys % 32))
    return emitError() << "matrix tiles need 16 lanes, panels of 16 rows and "
                          "keys in multiples of 32";
  if (dot != DotKind::Fma && !packValues)
    return emitError() << "bf16 products need pack_values = true";
  return success();
}

LogicalResult MmaTilingAttr::verify(EmitError emitError, int64_t queryRows,
                                    int64_t warps, int64_t keys, int64_t stages,
                                    int64_t blocks, bool keepQueries,
                                    bool shareKeys) {
  if (!llvm::isPowerOf2_64(warps) || warps > 16)
    return emitError() << "an mma_tiling has 1, 2, 4, 8 or 16 warps, not "
                       << warps;
  if (queryRows != 16 * warps && queryRows != 32 * warps)
    return emitError() << "query_rows = " << queryRows
                       << " is neither 16 nor 32 rows for each of " << warps
                       << " warps";
  if (keys < 16 || keys > 256 || !llvm::isPowerOf2_64(keys))
    return emitError() << "keys is a power of two from 16 to 256, not " << keys;
  if (stages < 2 || stages > 3)
    return emitError() << "stages is 2 or 3, not " << stages;
  if (blocks < 1 || blocks > 32)
    return emitError() << "blocks is from 1 to 32, not " << blocks;
  return success();
}

LogicalResult WgmmaTilingAttr::verify(
    EmitError emitError, int64_t consumers, int64_t keys, int64_t stages,
    int64_t parts, int64_t producerRegisters, int64_t consumerRegisters,
    int64_t blocks, bool tma, int64_t cluster, int64_t keyShares,
    int64_t leastKeys, int64_t queryStages, bool packed, bool checkSums,
    bool pingPong, int64_t tailKeys, bool oneRing) {
  ::heddle::bundle::TilingRule rule;
  rule.consumers = consumers;
  rule.keys = keys;
  rule.stages = stages;
  rule.parts = parts;
  rule.producerRegisters = producerRegisters;
  rule.consumerRegisters = consumerRegisters;
  rule.blocks = blocks;
  rule.tma = tma;
  rule.cluster = cluster;
  rule.keyShares = keyShares;
  rule.leastKeys = leastKeys;
  rule.queryStages = queryStages;
  rule.packed = packed;
  rule.checkSums = checkSums;
  rule.pingPong = pingPong;
  rule.tailKeys = tailKeys;
  rule.oneRing = oneRing;
  std::string problem = ::heddle::bundle::tilingProblem(rule);
  return problem.empty() ? success() : LogicalResult(emitError() << problem);
}

LogicalResult TileType::verify(EmitError emitError, Axis rows, Axis columns,
                               Type element) {
  if (rows == columns)
    return emitError() << "a tile has two different axes";
  if (!element.isF32() && !element.isBF16() && !element.isF16())
    return emitError() << "a tile's elements are f32, bf16 or f16, not "
                       << element;
  return success();
}
