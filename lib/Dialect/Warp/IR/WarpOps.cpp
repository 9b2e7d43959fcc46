//===- WarpOps.cpp - Operations of the warp dialect -----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Warp/IR/Warp.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMTypes.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::warp;

#define GET_OP_CLASSES
#include "heddle/Dialect/Warp/IR/WarpOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Fragments
//===----------------------------------------------------------------------===//

LogicalResult MapOp::verify() {
  if (getResults().empty())
    return emitOpError("has no result");
  int64_t columns = 1;
  auto meet = [&](Type type) -> LogicalResult {
    auto fragment = cast<FragmentType>(type);
    if (fragment.isPacked())
      return emitOpError() << "takes and gives f32, i32 or i1, not "
                           << fragment.getElement() << "; use warp.round";
    if (fragment.isColumn())
      return success();
    if (columns != 1 && columns != fragment.getColumns())
      return emitOpError() << "has fragments of " << columns << " and of "
                           << fragment.getColumns() << " columns";
    columns = fragment.getColumns();
    return success();
  };
  for (Type type : getOperandTypes())
    if (failed(meet(type)))
      return failure();
  for (Type type : getResultTypes()) {
    if (failed(meet(type)))
      return failure();
    if (cast<FragmentType>(type).getColumns() != columns)
      return emitOpError("has a result of one column from operands of more; "
                         "use warp.reduce");
  }
  return success();
}

LogicalResult MapOp::verifyRegions() {
  Block &body = getBody().front();
  SmallVector<Type> expected;
  for (Type type : getOperandTypes())
    expected.push_back(cast<FragmentType>(type).getElement());
  Type i32 = IntegerType::get(getContext(), 32);
  expected.append({i32, i32});
  if (body.getArgumentTypes() != TypeRange(expected))
    return emitOpError("has a region whose arguments are not an element of "
                       "each operand, then the row and the column (i32)");
  auto yield = dyn_cast<YieldOp>(body.getTerminator());
  if (!yield)
    return emitOpError("has a region that does not end in warp.yield");
  SmallVector<Type> yielded;
  for (Type type : getResultTypes())
    yielded.push_back(cast<FragmentType>(type).getElement());
  if (yield.getOperandTypes() != TypeRange(yielded))
    return yield.emitOpError("does not yield an element of each result");
  for (Operation &op : body.without_terminator())
    if (!isa<arith::ArithDialect, math::MathDialect>(op.getDialect()))
      return op.emitOpError("does not belong in a warp.map, which holds ops of "
                            "arith and math");
  return success();
}

LogicalResult SliceOp::verify() {
  FragmentType source = getSource().getType(), result = getResult().getType();
  if (source.getElement() != result.getElement() || source.isColumn() ||
      result.isColumn())
    return emitOpError("takes columns of a fragment as they are");
  int64_t from = getFrom();
  if (from < 0 || from % 16 || from + result.getColumns() > source.getColumns())
    return emitOpError() << "takes columns " << from << " to "
                         << from + result.getColumns() << " of "
                         << source.getColumns()
                         << "; the first is a multiple of 16";
  return success();
}

static LogicalResult verifyColumn(Operation *op, StringRef what, Type type) {
  if (!cast<FragmentType>(type).isColumn())
    return op->emitOpError() << "has " << what << " of more than one column";
  return success();
}

LogicalResult ReduceOp::verify() {
  if (getSource().getType().isColumn())
    return emitOpError("has a source of one column; use warp.combine");
  if (getInit() && failed(verifyColumn(*this, "an init", getInit().getType())))
    return failure();
  return verifyColumn(*this, "a result", getResult().getType());
}

LogicalResult CombineOp::verify() {
  return verifyColumn(*this, "a source", getSource().getType());
}

LogicalResult AnyOp::verify() {
  if (!getSource().getType().getElement().isInteger(1))
    return emitOpError("asks elements that are not i1");
  return success();
}

LogicalResult RoundOp::verify() {
  if (getSource().getType().getColumns() != getResult().getType().getColumns())
    return emitOpError("changes the number of columns");
  return success();
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

LogicalResult MultiplyOp::verify() {
  TileType right = getRight().getType();
  Type element;
  int64_t depth, held = 0;
  if (auto tile = dyn_cast<TileType>(getLeft().getType())) {
    APInt known;
    int64_t leftFrom = 0;
    if (getLeftFrom() && matchPattern(getLeftFrom(), m_ConstantInt(&known)))
      leftFrom = known.getSExtValue();
    if (leftFrom < 0 || leftFrom % 8 ||
        leftFrom + warpgroupRows > tile.getRows())
      return emitOpError() << "takes rows " << leftFrom << " to "
                           << leftFrom + warpgroupRows << " of "
                           << tile.getRows()
                           << " on the left; the first is a multiple of 8";
    element = tile.getElement();
    depth = tile.getColumns();
  } else {
    auto fragment = cast<FragmentType>(getLeft().getType());
    if (!fragment.isPacked() || fragment.getColumns() % 16)
      return emitOpError("has a left fragment that is not of 16-bit elements "
                         "in a multiple of 16 columns");
    if (getLeftFrom())
      return emitOpError("takes rows from another than the first one on of a "
                         "left fragment, which has 64");
    element = fragment.getElement();
    depth = fragment.getColumns();
    held = fragment.getRegisters();
  }
  if (element != right.getElement())
    return emitOpError() << "multiplies " << element << " by "
                         << right.getElement();
  int64_t columns = right.getColumns(), from = getFrom();
  if (getTransposed()) {
    columns = right.getRows();
    if (depth != right.getColumns() || from)
      return emitOpError() << "multiplies rows of " << depth
                           << " elements by rows of " << right.getColumns()
                           << ", all of them";
  } else if (from < 0 || from % 16 || from + depth > right.getRows()) {
    return emitOpError() << "takes rows " << from << " to " << from + depth
                         << " of " << right.getRows()
                         << "; the first is a multiple of 16";
  }
  if (Value sums = getSums()) {
    int64_t there;
    if (auto flying = dyn_cast<FlyingType>(sums.getType())) {
      there = flying.getColumns();
      held += flying.getHeld();
    } else {
      there = cast<FragmentType>(sums.getType()).getColumns();
    }
    if (there != columns)
      return emitOpError() << "adds products of " << columns
                           << " columns to sums of " << there;
  }
  auto expected = FlyingType::get(getContext(), columns, held);
  if (getResult().getType() != expected)
    return emitOpError() << "gives " << expected << ", not "
                         << getResult().getType();
  return success();
}

LogicalResult WaitOp::verify() {
  if (getFlying().getType().getColumns() != getResult().getType().getColumns())
    return emitOpError("changes the number of columns");
  return success();
}

LogicalResult ResumeOp::verify() {
  if (getFlying().getType().getColumns() != getSums().getType().getColumns())
    return emitOpError("changes the number of columns");
  // Sums of products that are on their way have no value to put another for.
  const bool waited =
      llvm::any_of(getFlying().getUsers(), [&](Operation *user) {
        Operation *here = user->getBlock()->findAncestorOpInBlock(**this);
        return isa<WaitOp>(user) && here && user->isBeforeInBlock(here);
      });
  if (!waited)
    return emitOpError("puts other sums in place of those of products that "
                       "may be on their way; put a warp.wait for these "
                       "products before it, in its block or one around it");
  return success();
}

/// Checks that there are as many `rows`, if any, as the tile has.
static LogicalResult verifyRows(Operation *op, Value rows, TileType tile) {
  if (!rows)
    return success();
  const int64_t there = cast<RowsType>(rows.getType()).getRows();
  if (there != tile.getRows())
    return op->emitOpError()
           << "gathers " << there << " rows for a tile of " << tile.getRows();
  return success();
}

/// Checks that a batch is there with all that tells of it, or not at all, and
/// that of the 16 rows that a warp holds all are of one matrix, unless each is
/// of another.
template <typename Op> static LogicalResult verifyBatch(Op op) {
  const int ways = op.getBatchRows().has_value() + op.getInTurns();
  if (!op.getBatch() != !op.getBatchStride() || ways != (op.getBatch() ? 1 : 0))
    return op.emitOpError(
        "has a batch without its stride and one of 'of N' and 'in_turns', "
        "which say how rows are divided among matrices, or has these without a "
        "batch");
  if (!op.getBatchRows())
    return success();
  const auto rows = static_cast<int64_t>(*op.getBatchRows());
  if (rows < 16 || warpgroupRows % rows)
    return op.emitOpError() << "has matrices of " << rows
                            << " rows in its batch; they have 16, 32 or 64";
  return success();
}

LogicalResult LoadOp::verify() {
  if (!getMap() != !getColumn())
    return emitOpError("has a tensor map without a column, or a column without "
                       "a tensor map");
  if (getMap() && getRows())
    return emitOpError("can't gather rows by a tensor map");
  if (getBatch() && (getRows() || getMap()))
    return emitOpError("can't gather rows of a batch, nor bring them by a "
                       "tensor map");
  if (failed(verifyBatch(*this)))
    return failure();
  return verifyRows(*this, getRows(), getResult().getType());
}

LogicalResult CopyOp::verify() {
  return verifyRows(*this, getRows(), getInto().getType());
}

LogicalResult ReadOp::verify() {
  if (!getIndices().getType().getElement().isInteger(32))
    return emitOpError("has indices that are not i32");
  return success();
}

LogicalResult ReadColumnsOp::verify() {
  if (getResult().getType().isColumn())
    return emitOpError("has a result of one column; use warp.read");
  return success();
}

LogicalResult CountBelowOp::verify() {
  if (!getBounds().getType().getElement().isInteger(32))
    return emitOpError("has bounds that are not i32");
  return verifyColumn(*this, "bounds", getBounds().getType());
}

LogicalResult StoreOp::verify() {
  if (getSource().getType().getColumns() % 32)
    return emitOpError("stores a multiple of 32 columns");
  return verifyBatch(*this);
}

LogicalResult StoreColumnOp::verify() {
  if (failed(verifyBatch(*this)))
    return failure();
  return verifyColumn(*this, "a source", getSource().getType());
}

//===----------------------------------------------------------------------===//
// Pipelines
//===----------------------------------------------------------------------===//

LogicalResult RolesOp::verifyRegions() {
  if (getProducer().getNumArguments() != 0)
    return emitOpError("has a producer with arguments");
  if (getConsumer().getNumArguments() != 1 ||
      !getConsumer().getArgument(0).getType().isInteger(32))
    return emitOpError("has consumers whose argument is not their number, an "
                       "i32");
  const bool alternate =
      getPingPong() || !getConsumer().getOps<OrderBeginOp>().empty();
  if (alternate && (getConsumers() < 2 || getConsumers() > 4))
    return emitOpError("has an order, which 2 to 4 consumers have, not ")
           << getConsumers();
  return success();
}

template <typename Op> static LogicalResult verifyStage(Op op) {
  RingType ring = op.getRing().getType();
  TileType tile = op.getResult().getType();
  if (ring.isFetched() ? tile != ring.getTile()
                       : !ring.getTile().hasRoomFor(tile))
    return op.emitOpError()
           << "gives " << op.getResult().getType() << " from a ring of "
           << op.getRing().getType().getTile();
  return success();
}

/// Checks that the ring's tiles are fetched, or that threads copy them.
static LogicalResult verifyFilling(Operation *op, RingType ring, bool fetched) {
  if (ring.isFetched() == fetched)
    return success();
  return op->emitOpError() << (fetched ? "fetches a tile that threads copy"
                                       : "copies a tile that is fetched");
}

LogicalResult AcquireOp::verify() {
  return success(succeeded(verifyStage(*this)) &&
                 succeeded(verifyFilling(*this, getRing().getType(), false)));
}

LogicalResult PublishOp::verify() {
  return verifyFilling(*this, getRing().getType(), false);
}

LogicalResult DrainOp::verify() {
  return verifyFilling(*this, getRing().getType(), true);
}

LogicalResult FetchOp::verify() {
  return verifyFilling(*this, getRing().getType(), true);
}

LogicalResult AwaitOp::verify() { return verifyStage(*this); }
