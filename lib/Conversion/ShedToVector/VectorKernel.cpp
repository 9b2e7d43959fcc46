//===- VectorKernel.cpp - Facts of a kernel on vectors --------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::heddle;
using namespace mlir::heddle::vectors;

VectorKernel::VectorKernel(shed::KernelOp kernel)
    : tiling(kernel.getTilingAs<shed::TilingAttr>()),
      channels(kernel.getHeadDim()), panel(tiling.getPanel()),
      vectors(tiling.getVectors()),
      elementBytes(kernel.getElement().isBF16() ? 2 : 4), dot(tiling.getDot()),
      bf16(kernel.getElement().isBF16()),
      selects(kernel.getKind() == shed::KernelKind::Select),
      tiles(dot == shed::DotKind::Tiles), masks(kernel.comparesRows()),
      paired(dot != shed::DotKind::Fma),
      steps(paired ? channels / 2 : channels), keyStep(tiles ? 32 : 2),
      writesLse(kernel.getWritesLse()),
      group(static_cast<int64_t>(kernel.getGroup().value_or(0))),
      sharedLists(kernel.getSharedLists()) {
  layOut(kernel);
}

void VectorKernel::layOut(shed::KernelOp kernel) {
  auto take = [&](int64_t bytes) {
    int64_t offset = layout.bytes;
    layout.bytes += (bytes + 63) / 64 * 64;
    return offset;
  };
  int64_t panels = tiling.getPanels(), keys = tiling.getKeys();
  layout.queryPanel = steps * panel * 4;
  layout.rowPanel = panel * 4;
  layout.contextPanel = channels * panel * 4;
  layout.logits = take(keys * panel * 4);
  if (paired)
    layout.weights = take(keys / 2 * panel * 4);
  layout.queries = take(panels * layout.queryPanel);
  if (selects) {
    layout.lse = take(panels * layout.rowPanel);
  } else {
    layout.maximum = take(panels * layout.rowPanel);
    layout.sum = take(panels * layout.rowPanel);
    layout.context = take(panels * layout.contextPanel);
    layout.spill = take(channels * elementBytes);
  }
  if (masks)
    layout.positions = take(panels * layout.rowPanel);
  int64_t buffers = tiles ? 2 : 1;
  if (tiling.getPackKeys() || tiles)
    layout.keys = take(buffers * keys * channels * (paired ? 2 : 4));
  if (tiling.getPackValues() && !selects)
    layout.values = take(buffers * keys * channels * (paired ? 2 : 4));

  auto takeOfKeys = [&] {
    return std::exchange(layout.perKey, layout.perKey + 4);
  };
  bool compacts = false;
  kernel.walk(
      [&](shed::ForKeysOp loop) { compacts |= !loop.getSkip().empty(); });
  if (compacts)
    layout.list = takeOfKeys();
  kernel.walk(
      [&](shed::MassInitOp init) { layout.masses[init] = takeOfKeys(); });
  kernel.walk([&](shed::TopKOp op) {
    if (op.getPooled())
      layout.pool = takeOfKeys();
  });
  kernel.walk([&](shed::ForKeysOp loop) {
    SmallVector<Attribute> sets(loop.getSkip().getValue());
    sets.push_back(loop.getOver());
    for (Attribute set : sets) {
      std::optional<shed::KeyEntries> entries = shed::entriesOf(set);
      if (entries && entries->blockKeys &&
          !llvm::is_contained(llvm::make_first_range(layout.blocks), *entries))
        layout.blocks.emplace_back(*entries, takeOfKeys());
    }
  });
}

Scope VectorKernel::scopeOf(Operation *op) const {
  for (Block *block = op->getBlock(); block;
       block = block->getParentOp() ? block->getParentOp()->getBlock()
                                    : nullptr)
    if (auto found = scopes.find(block); found != scopes.end())
      return found->second;
  return {};
}

//===----------------------------------------------------------------------===//
// What types become
//===----------------------------------------------------------------------===//

bool KeySource::isList() const { return !list.getDefiningOp<LLVM::ZeroOp>(); }

bool LogitTile::isScaled() const { return !matchPattern(scale, m_OneFloat()); }

// A type for each field, in order.
ShedToVectorTypeConverter::ShedToVectorTypeConverter(MLIRContext *context) {
  Type ptr = LLVM::LLVMPointerType::get(context);
  Type i1 = IntegerType::get(context, 1), i64 = IntegerType::get(context, 64),
       f32 = Float32Type::get(context);
  const SmallVector<Type> keys = {i64, i64, ptr, i64, i64, i64, ptr, ptr};
  using Types = SmallVectorImpl<Type>;
  addConversion([](Type type) { return type; });
  addConversion([=](shed::KeysType, Types &types) {
    types.append(keys);
    return success();
  });
  addConversion([=](shed::TileType type, Types &types) {
    if (type.getRows() == shed::Axis::Keys) {
      types.append({ptr, i64, ptr, i64});
      types.append(keys);
    } else if (type.getColumns() == shed::Axis::Channels) {
      types.append(2, i64);
    } else {
      types.append({ptr, i64, i64, i64, f32, i1});
    }
    return success();
  });
  addConversion([=](shed::SoftmaxType, Types &types) {
    types.append(3, i64);
    return success();
  });
  addConversion([=](shed::LseType) { return i64; });
  addConversion([=](shed::MassType) { return ptr; });
}

//===----------------------------------------------------------------------===//
// KernelBuilder
//===----------------------------------------------------------------------===//

void KernelBuilder::forPanels(function_ref<void(Value)> body) {
  if (k.tiling.getPanels() == 1)
    return body(constant(0));
  loop(constant(0), here.panels, 1, body);
}

Value KernelBuilder::placeOf(const KeySource &source, Value j) {
  if (!source.isList())
    return add(source.first, j);
  return widen(load(i32(), at(source.list, mul(j, 4))));
}

Value KernelBuilder::placeOfRow(Value row) {
  if (k.selects) // all rows
    return row;
  return widen(load(i32(), at(k.places, mul(row, 4))));
}

Value KernelBuilder::positionAt(Value place) {
  return widen(load(i32(), at(k.positions, mul(place, 4))));
}

Values KernelBuilder::positionsOfRows(const LogitTile &logits) {
  Value row = ofPanel(logits.positions, k.layout.rowPanel);
  Values vectors;
  for (int64_t i = 0; i < here.active; ++i)
    vectors.push_back(loadLane(row, i, ints()));
  return vectors;
}
