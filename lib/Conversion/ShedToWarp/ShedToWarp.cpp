//===- ShedToWarp.cpp - Lower kernels on tiles to warpgroups --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "heddle/Conversion/CheckForms.h"
#include "heddle/Conversion/Passes.h"
#include "heddle/Dialect/Shed/Transforms/Tuning.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::heddle {
#define GEN_PASS_DEF_CONVERTSHEDTOWARP
#include "heddle/Conversion/Passes.h.inc"
} // namespace mlir::heddle

using namespace mlir;
using namespace mlir::heddle;

void RewriteBuilder::behind(ValueRange values) {
  Operation *last = nullptr;
  for (Value value : values)
    if (Operation *op = value.getDefiningOp();
        op && op->getBlock() == b.getInsertionBlock() &&
        (!last || last->isBeforeInBlock(op)))
      last = op;
  if (last)
    b.setInsertionPointAfter(last);
}

void WarpTask::moveBody(WarpBuilder &v) {
  v.b.getInsertionBlock()->getOperations().splice(
      v.b.getInsertionPoint(), kernel.getBody().front().getOperations());
}

/// The types of what values become, as ShedToWarp.h says it.
static void convertTypes(TypeConverter &converter, const WarpTask &task) {
  using Types = SmallVectorImpl<Type>;
  MLIRContext *context = task.element.getContext();
  Type f32 = Float32Type::get(context), i32 = IntegerType::get(context, 32);
  Type pointer = LLVM::LLVMPointerType::get(
      context, static_cast<unsigned>(NVVM::NVVMMemorySpace::Global));
  auto fragment = [=](int64_t columns) {
    return warp::FragmentType::get(context, columns, f32);
  };
  auto addKeys = [=](Types &types) {
    types.append({i32, i32, i32, i32, pointer, i32});
  };
  converter.addConversion([](Type type) { return type; });
  converter.addConversion([=, &task](shed::TileType type, Types &types) {
    if (type.getColumns() == shed::Axis::Keys) {
      types.append(task.logitParts, fragment(task.logitColumns));
      types.append({f32, IntegerType::get(context, 1)});
    } else if (type.getRows() == shed::Axis::Keys) {
      types.push_back(task.tile(task.tileKeys));
      addKeys(types);
    } else {
      types.push_back(task.tile(task.queryRows));
    }
    return success();
  });
  converter.addConversion([=](shed::KeysType, Types &types) {
    addKeys(types);
    return success();
  });
  converter.addConversion([=, &task](shed::SoftmaxType, Types &types) {
    types.append({fragment(task.channels), fragment(1), fragment(1)});
    if (task.tiling.getCheckSums())
      types.push_back(IntegerType::get(context, 1));
    return success();
  });
  converter.addConversion([=, &task](shed::LseType) -> Type {
    return fragment(task.logitColumns);
  });
  converter.addConversion([=, &task](shed::MassType, Types &types) {
    types.append(task.groups, pointer);
    types.append(task.groups, f32);
    return success();
  });
}

static void populatePatterns(const TypeConverter &converter,
                             RewritePatternSet &patterns,
                             const WarpTask &task) {
  task.populate({converter, patterns});
}

LogicalResult WarpTask::verifyRule(StringRef over) {
  if (element.isF32())
    return kernel.emitOpError() << "has no form for warpgroups, which have "
                                   "kernels for bf16 and f16";
  shed::WgmmaRule rule;
  rule.element = element.isBF16() ? "bf16" : "f16";
  rule.over = over.str();
  rule.headDim = channels;
  rule.cluster = tiling.getCluster();
  rule.queryStages = tiling.getQueryStages();
  rule.packed = tiling.getPacked();
  rule.shared = sharedLists;
  rule.checkSums = tiling.getCheckSums();
  rule.pingPong = tiling.getPingPong();
  rule.tailKeys = tiling.getTailKeys();
  rule.oneRing = tiling.getOneRing();
  std::string problem = ::heddle::bundle::kernelProblem(rule);
  return problem.empty() ? success()
                         : kernel.emitOpError()
                               << "has no form for warpgroups: " << problem;
}

namespace {
/// The patterns of a task. They point to its converter.
struct Lowering {
  Lowering(const WarpTask &task, const MorePatterns &more) {
    convertTypes(converter, task);
    RewritePatternSet set(task.element.getContext());
    populatePatterns(converter, set, task);
    if (more)
      more(converter, set);
    patterns = std::move(set);
  }
  Lowering(const Lowering &) = delete;

  TypeConverter converter;
  FrozenRewritePatternSet patterns;
};
} // namespace

LogicalResult mlir::heddle::lowerShedToWarp(shed::KernelOp kernel,
                                            MorePatterns more) {
  std::unique_ptr<WarpTask> task = kernel.getKind() == shed::KernelKind::Select
                                       ? makeSelectTask(kernel)
                                       : makeAttentionTask(kernel);
  if (failed(task->verifyForm()))
    return failure();
  const Lowering main(*task, more);
  ConversionTarget target(*kernel.getContext());
  target.addLegalDialect<arith::ArithDialect, LLVM::LLVMDialect,
                         math::MathDialect, NVVM::NVVMDialect, scf::SCFDialect,
                         warp::WarpDialect>();
  target.addIllegalDialect<shed::ShedDialect>();
  if (failed(checkForms(kernel->getRegions(), target, main.patterns,
                        "for warpgroups")))
    return failure();
  Operation *function = task->open();
  // The loops over tails first, by patterns of their own. What goes from loop
  // to loop has casts until all are lowered, for it is of the same types in
  // all.
  SmallVector<Operation *> loops;
  std::unique_ptr<WarpTask> tail = task->splitTail(function, loops);
  ConversionConfig config;
  config.buildMaterializations = !tail;
  if (tail && failed(applyPartialConversion(
                  loops, target, Lowering(*tail, more).patterns, config)))
    return failure();
  if (failed(applyPartialConversion(function, target, main.patterns, config)))
    return failure();
  if (tail) {
    SmallVector<UnrealizedConversionCastOp> casts, left;
    function->walk(
        [&](UnrealizedConversionCastOp cast) { casts.push_back(cast); });
    reconcileUnrealizedCasts(casts, &left);
    if (!left.empty())
      return left.front().emitOpError("is left between the whole tiles of a "
                                      "list and its tail");
  }
  kernel.erase();
  return success();
}

namespace {
struct ConvertShedToWarp
    : mlir::heddle::impl::ConvertShedToWarpBase<ConvertShedToWarp> {
  void runOnOperation() override {
    SmallVector<shed::KernelOp> kernels;
    getOperation().walk([&](shed::KernelOp kernel) {
      if (kernel.getTilingAs<shed::WgmmaTilingAttr>())
        kernels.push_back(kernel);
    });
    for (shed::KernelOp kernel : kernels)
      if (failed(lowerShedToWarp(kernel)))
        return signalPassFailure();
  }
};
} // namespace
