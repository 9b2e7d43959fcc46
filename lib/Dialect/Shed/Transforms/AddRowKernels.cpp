//===- AddRowKernels.cpp - Row kernels of a model and its sampler ---------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernels are written in the dialect itself, in RowKernels/, once for all
// element types: the first line of each text, `!T = f32`, is replaced. Helper
// functions of a text are expanded where it calls them.
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Shed/Transforms/Passes.h"

#include "bundle/abi/RowOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Parser/Parser.h"

namespace mlir::shed {
#define GEN_PASS_DEF_SHEDADDROWKERNELS
#include "heddle/Dialect/Shed/Transforms/Passes.h.inc"
} // namespace mlir::shed

using namespace mlir;
using namespace mlir::shed;

namespace bundle = ::heddle::bundle;

namespace {
struct Text {
  StringLiteral operation, text;
};
} // namespace

static constexpr Text texts[] = {
#include "RowKernelTexts.inc"
};

/// Replaces calls of the module's functions, each a single block, by their
/// bodies, also within those; then erases the functions.
static void expandCalls(ModuleOp module) {
  SymbolTable symbols(module);
  while (true) {
    SmallVector<func::CallOp> calls;
    module.walk([&](func::CallOp call) { calls.push_back(call); });
    if (calls.empty())
      break;
    for (func::CallOp call : calls) {
      auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
      Block &body = callee.getBody().front();
      OpBuilder builder(call);
      IRMapping mapping;
      mapping.map(body.getArguments(), call.getOperands());
      for (Operation &op : body.without_terminator())
        builder.clone(op, mapping);
      for (auto [result, value] : llvm::zip_equal(
               call.getResults(), body.getTerminator()->getOperands()))
        result.replaceAllUsesWith(mapping.lookupOrDefault(value));
      call.erase();
    }
  }
  for (auto function :
       llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    function.erase();
}

/// The kernel of an operation for an element type.
static OwningOpRef<ModuleOp> writeKernel(const Text &source, StringRef dtype,
                                         MLIRContext *context) {
  StringRef body = source.text;
  bool hasAlias = body.consume_front("!T = f32\n");
  assert(hasAlias && "a row kernel's text begins with its element type");
  (void)hasAlias;
  std::string text = ("!T = " + dtype + "\n" + body).str();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(
      text, ParserConfig(context), (source.operation + ".mlir").str());
  if (module)
    expandCalls(*module);
  return module;
}

namespace {
struct AddRowKernels : shed::impl::ShedAddRowKernelsBase<AddRowKernels> {
  using ShedAddRowKernelsBase::ShedAddRowKernelsBase;

  void runOnOperation() override {
    for (StringRef name : operations)
      if (llvm::none_of(bundle::allRowOps, [&](bundle::RowOp op) {
            return name == StringRef(bundle::nameOf(op));
          })) {
        getOperation().emitError()
            << "there is no row operation '" << name << "'";
        return signalPassFailure();
      }
    SmallVector<std::string> names(dtypes.begin(), dtypes.end());
    if (names.empty())
      names.push_back("f32");
    for (StringRef dtype : names) {
      if (!llvm::is_contained({"f32", "bf16", "f16"}, dtype)) {
        getOperation().emitError()
            << "row kernels come in f32, bf16 and f16, not in '" << dtype
            << "'";
        return signalPassFailure();
      }
      for (bundle::RowOp op : bundle::allRowOps)
        if ((operations.empty() ||
             llvm::is_contained(operations, bundle::nameOf(op))) &&
            failed(add(op, dtype)))
          return signalPassFailure();
    }
  }

  LogicalResult add(bundle::RowOp op, StringRef dtype) {
    std::string symbol = bundle::rowSymbol(op, dtype);
    ModuleOp module = getOperation();
    if (module.lookupSymbol(symbol))
      return success();
    const Text *source = llvm::find_if(texts, [&](const Text &text) {
      return text.operation == StringRef(bundle::nameOf(op));
    });
    assert(source != std::end(texts) && "an operation without a kernel");
    OwningOpRef<ModuleOp> parsed = writeKernel(*source, dtype, &getContext());
    if (!parsed)
      return failure();
    for (auto kernel :
         llvm::make_early_inc_range(parsed->getOps<RowKernelOp>())) {
      kernel->remove();
      kernel.setSymName(symbol);
      module.push_back(kernel);
    }
    return success();
  }
};
} // namespace

std::unique_ptr<Pass>
mlir::shed::createShedAddRowKernels(ArrayRef<std::string> dtypes,
                                    ArrayRef<bundle::RowOp> operations) {
  ShedAddRowKernelsOptions options;
  options.dtypes.assign(dtypes.begin(), dtypes.end());
  for (bundle::RowOp op : operations)
    options.operations.emplace_back(bundle::nameOf(op));
  return createShedAddRowKernels(std::move(options));
}
