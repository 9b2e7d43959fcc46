//===- WarpToNVVM.cpp - Lower the warp level to threads -------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "heddle/Conversion/Passes.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Transforms/Patterns.h"

namespace mlir::heddle {
#define GEN_PASS_DEF_CONVERTWARPTONVVM
#include "heddle/Conversion/Passes.h.inc"
} // namespace mlir::heddle

using namespace mlir;
using namespace mlir::heddle;
using Values = NVVMBuilder::Values;

int64_t mlir::heddle::consumersOf(Operation *op) {
  auto function = op->getParentOfType<LLVM::LLVMFuncOp>();
  auto all = function
                 ? function->getAttrOfType<DenseI32ArrayAttr>("nvvm.maxntid")
                 : DenseI32ArrayAttr();
  return all && all.size() == 1 ? all[0] / warp::warpgroupThreads - 1 : 0;
}

Values ThreadBuilder::assembly(StringRef text, StringRef constraints,
                               ValueRange operands, TypeRange types,
                               bool clobbersMemory) {
  Type result;
  if (types.size() == 1)
    result = types[0];
  else if (types.size() > 1)
    result = LLVM::LLVMStructType::getLiteral(b.getContext(),
                                              llvm::to_vector(types));
  std::string all = constraints.str();
  if (clobbersMemory)
    all += all.empty() ? "~{memory}" : ",~{memory}";
  auto op = LLVM::InlineAsmOp::create(
      b, result ? TypeRange(result) : TypeRange(), operands, text, all,
      /*has_side_effects=*/true, /*is_align_stack=*/false,
      LLVM::TailCallKind::None, LLVM::AsmDialectAttr(), ArrayAttr());
  if (types.size() < 2)
    return Values(op->getResults());
  Values results;
  for (size_t i = 0; i < types.size(); ++i)
    results.push_back(LLVM::ExtractValueOp::create(
        b, op->getResult(0), ArrayRef<int64_t>(static_cast<int64_t>(i))));
  return results;
}

void ThreadBuilder::fenceForProducts() {
  NVVM::FenceProxyOp::create(
      b,
      NVVM::ProxyKindAttr::get(b.getContext(), NVVM::ProxyKind::async_shared),
      NVVM::SharedSpaceAttr::get(b.getContext(),
                                 NVVM::SharedSpace::shared_cta));
}

/// The types of the values that a thread has for one of the warp level.
static void convertTypes(TypeConverter &converter) {
  converter.addConversion([](Type type) { return type; });
  auto word = [](Type type) { return IntegerType::get(type.getContext(), 32); };
  converter.addConversion(
      [=](warp::FragmentType type, SmallVectorImpl<Type> &types) {
        Type each = type.isPacked() ? Type(word(type)) : type.getElement();
        types.append(type.getRegisters(), each);
        return success();
      });
  converter.addConversion([=](warp::FlyingType type,
                              SmallVectorImpl<Type> &types) {
    types.append(type.getColumns() / 2, Float32Type::get(type.getContext()));
    types.append(type.getHeld(), word(type));
    return success();
  });
  converter.addConversion(
      [=](warp::TileType type) -> Type { return word(type); });
  converter.addConversion(
      [=](warp::RowsType type, SmallVectorImpl<Type> &types) {
        types.append(type.getRows() / 16, word(type));
        return success();
      });
  converter.addConversion(
      [=](warp::RingType type, SmallVectorImpl<Type> &types) {
        types.append(2, word(type));
        return success();
      });
}

namespace {
struct ConvertWarpToNVVM
    : mlir::heddle::impl::ConvertWarpToNVVMBase<ConvertWarpToNVVM> {
  void runOnOperation() override {
    WalkResult walked = getOperation().walk([](warp::LoadOp load) {
      if (load.getOffset() && load->getParentOfType<warp::RolesOp>() &&
          !load.getRows())
        return WalkResult::advance();
      load.emitOpError("belongs to no role; run warp-specialize-roles first");
      return WalkResult::interrupt();
    });
    if (walked.wasInterrupted())
      return signalPassFailure();
    walked = getOperation().walk([](Operation *op) {
      if (auto roles = dyn_cast<warp::RolesOp>(op);
          roles && roles.getPingPong()) {
        op->emitOpError("asks for an order; run warp-ping-pong first");
        return WalkResult::interrupt();
      }
      auto space = dyn_cast<warp::SpaceOp>(op);
      auto any = dyn_cast<warp::AnyOp>(op);
      if (!space && !(any && any.getWarpgroup()) &&
          !isa<warp::MeetOp, warp::OrderBeginOp, warp::OrderWaitOp,
               warp::OrderArriveOp, warp::OrderEndOp>(op))
        return WalkResult::advance();
      auto roles = op->getParentOfType<warp::RolesOp>();
      if (!roles || (space && !space.getOffset()))
        op->emitOpError("belongs to no role; run warp-specialize-roles first");
      else if (!roles.getConsumer().isAncestor(op->getParentRegion()))
        op->emitOpError("is not among the warpgroups that compute");
      else if (consumersOf(op) != static_cast<int64_t>(roles.getConsumers()))
        op->emitOpError(
            "is in a function whose nvvm.maxntid is not that of its "
            "roles, 128 threads for each warpgroup");
      else
        return WalkResult::advance();
      return WalkResult::interrupt();
    });
    if (walked.wasInterrupted())
      return signalPassFailure();
    TypeConverter converter;
    convertTypes(converter);
    ConversionTarget target(getContext());
    target.addIllegalDialect<warp::WarpDialect>();
    target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
    RewritePatternSet patterns(&getContext());
    scf::populateSCFStructuralTypeConversionsAndLegality(converter, patterns,
                                                         target);
    populateElementPatterns(converter, patterns);
    populateProductPatterns(converter, patterns);
    populateMemoryPatterns(converter, patterns);
    populatePipelinePatterns(converter, patterns);
    if (failed(applyPartialConversion(getOperation(), target,
                                      std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
