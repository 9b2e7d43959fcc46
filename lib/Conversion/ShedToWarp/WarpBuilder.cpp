//===- WarpBuilder.cpp - Writes ops of the warp level ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WarpBuilder.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::heddle;

Value WarpBuilder::map(Type type, ValueRange inputs, MapBody body) {
  auto op = warp::MapOp::create(b, type, inputs);
  Block &block = op.getBody().emplaceBlock();
  for (Value input : inputs)
    block.addArgument(cast<warp::FragmentType>(input.getType()).getElement(),
                      b.getLoc());
  Value row = block.addArgument(i32(), b.getLoc());
  Value column = block.addArgument(i32(), b.getLoc());
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&block);
  ValueRange elements = ValueRange(block.getArguments()).drop_back(2);
  warp::YieldOp::create(b, body(elements, row, column));
  return op.getResult(0);
}

Value WarpBuilder::slice(Value source, int64_t from, int64_t columns) {
  auto type = cast<warp::FragmentType>(source.getType());
  if (type.getColumns() == columns)
    return source;
  return warp::SliceOp::create(b, fragment(columns, type.getElement()), source,
                               from);
}

Value WarpBuilder::multiply(Value left, Value right, Value sums,
                            bool transposed, int64_t from, Value leftFrom) {
  auto tile = cast<warp::TileType>(right.getType());
  int64_t held = 0;
  if (auto type = dyn_cast<warp::FragmentType>(left.getType()))
    held = type.getRegisters();
  if (sums)
    if (auto type = dyn_cast<warp::FlyingType>(sums.getType()))
      held += type.getHeld();
  auto type = warp::FlyingType::get(
      b.getContext(), transposed ? tile.getRows() : tile.getColumns(), held);
  return warp::MultiplyOp::create(b, type, left, right, sums, leftFrom,
                                  transposed, from);
}

Value WarpBuilder::wait(Value flying) {
  auto type = cast<warp::FlyingType>(flying.getType());
  return warp::WaitOp::create(b, fragment(type.getColumns()), flying);
}

Value WarpBuilder::clusterId() { return NVVM::ClusterIdXOp::create(b, i32()); }

Value WarpBuilder::clusters() { return NVVM::ClusterDimXOp::create(b, i32()); }

void WarpBuilder::describePipeline(shed::WgmmaTilingAttr tiling) {
  Operation *function = b.getInsertionBlock()->getParentOp();
  function->setAttr(
      warp::pipelineName,
      warp::PipelineAttr::get(b.getContext(), tiling.getConsumers(),
                              tiling.getStages(), tiling.getProducerRegisters(),
                              tiling.getConsumerRegisters(), tiling.getBlocks(),
                              tiling.getCluster(), tiling.getQueryStages(),
                              tiling.getPingPong(), tiling.getOneRing()));
  if (const int64_t shares = tiling.getKeyShares(); shares > 1) {
    function->setAttr("heddle.cluster", b.getI64IntegerAttr(shares));
    function->setAttr(
        "nvvm.cluster_dim",
        b.getDenseI32ArrayAttr({static_cast<int32_t>(shares), 1, 1}));
  }
  if (tiling.getLeastKeys())
    function->setAttr("heddle.least_keys",
                      b.getI64IntegerAttr(tiling.getLeastKeys()));
  if (tiling.getQueryStages())
    function->setAttr("heddle.persistent", b.getI64IntegerAttr(1));
  if (tiling.getTma())
    function->setAttr("heddle.map_rows", b.getI64IntegerAttr(tiling.getKeys()));
}
