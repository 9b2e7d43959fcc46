//===- ShedToNVVM.cpp - Lower kernels on tiles to CUDA kernels ------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Conversion/ShedToNVVM.h"

#include "AttentionFrame.h"
#include "SelectFrame.h"

#include "heddle/Conversion/CheckForms.h"
#include "heddle/Conversion/Passes.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Transforms/Patterns.h"
#include "mlir/IR/Matchers.h"

namespace mlir::heddle {
#define GEN_PASS_DEF_CONVERTSHEDTONVVM
#include "heddle/Conversion/Passes.h.inc"
} // namespace mlir::heddle

using namespace mlir;
using namespace mlir::heddle;
using Values = NVVMBuilder::Values;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Value mlir::heddle::asTile(NVVMBuilder &v, Type type, ValueRange values) {
  return UnrealizedConversionCastOp::create(v.b, type, values).getResult(0);
}

Values mlir::heddle::asValues(NVVMBuilder &v, TypeRange types, Value tile) {
  return Values(
      UnrealizedConversionCastOp::create(v.b, types, tile).getResults());
}

KeyTile KeyTile::of(ValueRange values) {
  assert(values.size() == size && "a tile of keys");
  APInt form;
  [[maybe_unused]] bool known = matchPattern(values[5], m_ConstantInt(&form));
  assert(known && "the form of a tile is a constant");
  return {values[0], values[1], values[2],
          values[3], values[4], form.getSExtValue()};
}

QueryTile QueryTile::of(ValueRange values) {
  return {values.front(), Values(values.drop_front())};
}

Logits Logits::of(ValueRange values, int64_t columns) {
  return {Values(values.drop_back()), values.back(), columns};
}

Values Logits::values() const {
  Values all = elements;
  all.push_back(factor);
  return all;
}

Softmax Softmax::of(ValueRange values, int64_t rows) {
  return {Values(values.drop_back(2 * rows)),
          Values(values.take_back(2 * rows).drop_back(rows)),
          Values(values.take_back(rows))};
}

Values Softmax::values() const {
  Values all = context;
  llvm::append_range(all, maximum);
  llvm::append_range(all, sum);
  return all;
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

namespace {
/// What the operands are is what the results are: of casts to and from what a
/// thread has, and of loads of tiles, which copies have brought to where their
/// keys say.
template <typename Op> struct HandOn : OpConversionPattern<Op> {
  using OpConversionPattern<Op>::OpConversionPattern;
  LogicalResult
  matchAndRewrite(Op op,
                  typename OpConversionPattern<Op>::OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    SmallVector<Value> values;
    for (ValueRange operand : adaptor.getOperands())
      llvm::append_range(values, operand);
    SmallVector<Type> types;
    const bool isLegal =
        this->getTypeConverter()->isLegal(op->getResultTypes());
    if ((!isLegal && op->getNumResults() != 1) ||
        failed(this->getTypeConverter()->convertTypes(op->getResultTypes(),
                                                      types)) ||
        TypeRange(ValueRange(values)) != TypeRange(types))
      return rewriter.notifyMatchFailure(op, "a thread has other values of it");
    if (isLegal)
      rewriter.replaceOp(op, values);
    else
      rewriter.replaceOpWithMultiple(op, ArrayRef<ValueRange>{values});
    return success();
  }
};

struct LowerKeysAt : ValuesPattern<shed::KeysAtOp, PatternBuilder> {
  using ValuesPattern::ValuesPattern;
  SmallVector<Values> rewrite(shed::KeysAtOp op, Adaptor adaptor,
                              PatternBuilder &v) const override {
    int64_t form = 0;
    auto add = [&](KeyTile::Form what, bool is) { form |= is ? what : 0; };
    add(KeyTile::Listed, op.isListed());
    add(KeyTile::Marked, op.isMarked());
    add(KeyTile::Blocks, op.getBlocks());
    add(KeyTile::Partial, op.getPartial());
    auto word = [&](ValueRange value) {
      return value.empty() ? v.word(0) : value.front();
    };
    return {{word(adaptor.getTile()), word(adaptor.getRank()),
             word(adaptor.getStage()), word(adaptor.getCount()),
             word(adaptor.getFirst()), v.word(form)}};
  }
};
} // namespace

/// Adds that values of a type are so many of f32 or of words.
template <typename T>
static void addCount(TypeConverter &converter, size_t floats, size_t words) {
  converter.addConversion([=](T type, SmallVectorImpl<Type> &types) {
    types.append(floats, Float32Type::get(type.getContext()));
    types.append(words, IntegerType::get(type.getContext(), 32));
    return success();
  });
}

/// Types that have the same values in all kernels, and patterns.
static void populateCommon(TypeConverter &converter,
                           RewritePatternSet &patterns) {
  converter.addConversion([](Type type) { return type; });
  patterns.add<HandOn<UnrealizedConversionCastOp>, HandOn<shed::LoadKeysOp>,
               HandOn<shed::LoadValuesOp>>(converter, patterns.getContext());
}

/// Adds how many values a thread has for tiles: of queries and of keys words.
static void addTiles(TypeConverter &converter, size_t queries, size_t keys,
                     size_t logits, size_t logitWords) {
  addCount<shed::KeysType>(converter, 0, keys);
  converter.addConversion([=](shed::TileType type,
                              SmallVectorImpl<Type> &types) {
    Type word = IntegerType::get(type.getContext(), 32);
    if (type.getColumns() == shed::Axis::Keys) {
      types.append(logits, type.getElement());
      types.append(logitWords, word);
    } else {
      types.append(type.getRows() == shed::Axis::Keys ? keys : queries, word);
    }
    return success();
  });
}

static void populatePatterns(TypeConverter &converter,
                             RewritePatternSet &patterns,
                             const AttentionFrame &f) {
  populateCommon(converter, patterns);
  patterns.add<LowerKeysAt>(converter, patterns.getContext());
  const bool kept = f.tiling.getKeepQueries();
  addTiles(converter, 1 + (kept ? f.rowSquares * f.channels / 4 : 0),
           KeyTile::size, 4 * f.rowSquares * f.keySquares + 1, 0);
  addCount<shed::SoftmaxType>(converter,
                              4 * f.rowSquares * (f.channelSquares + 1), 0);
  populateAttentionProducts(converter, patterns, f);
  populateAttentionLogits(converter, patterns, f);
  populateAttentionSoftmax(converter, patterns, f);
}

static void populatePatterns(TypeConverter &converter,
                             RewritePatternSet &patterns,
                             const SelectFrame &f) {
  populateCommon(converter, patterns);
  addTiles(converter, ScoredRows::size,
           1 + (f.exact ? 0 : f.channels / 4 * f.keySquares),
           4 * f.rowSquares * f.keySquares + 1, ScoredRows::size);
  addCount<shed::LseType>(converter, 0, 1);
  addCount<shed::MassType>(converter, 2 * f.keySquares, 1);
  populateSelectScores(converter, patterns, f);
  populateSelectLogits(converter, patterns, f);
  populateSelectLists(converter, patterns, f);
}

//===----------------------------------------------------------------------===//
// Tasks
//===----------------------------------------------------------------------===//

static constexpr StringLiteral again =
    "; change the kernel and run shed-pipeline-copies again";

/// What copies and loops around the task's ops go by is what its facts and
/// these ops take.
template <typename Frame, typename Task>
static LogicalResult checkFacts(Task task, const Frame &frame) {
  if (shed::SharedLayoutAttr taken = frame.layoutTaken(task);
      taken != task.getLayout())
    return task.emitOpError()
           << "has the layout " << task.getLayout()
           << "; its facts and the ops in it take " << taken << again;
  auto function = task->template getParentOfType<LLVM::LLVMFuncOp>();
  for (NamedAttribute fact : frame.entryFacts().attributes(task.getContext()))
    if (Attribute found = function->getAttr(fact.getName());
        found != fact.getValue()) {
      InFlightDiagnostic error = task.emitOpError() << "stands in a function ";
      if (found)
        error << "whose " << fact.getName().getValue() << " is " << found;
      else
        error << "without " << fact.getName().getValue();
      return error << "; its facts take " << fact.getValue() << again;
    }
  return success();
}

/// Casts are to and from as many values, of these types, as a thread has.
static LogicalResult checkCasts(Region &body, const TypeConverter &converter) {
  WalkResult walked = body.walk([&](UnrealizedConversionCastOp cast) {
    TypeRange values = cast.getOperandTypes(), tile = cast.getResultTypes();
    auto isShed = [](Type type) {
      return isa<shed::ShedDialect>(type.getDialect());
    };
    if (llvm::none_of(tile, isShed))
      std::swap(values, tile);
    if (llvm::none_of(tile, isShed))
      return WalkResult::advance();
    if (tile.size() != 1 || llvm::any_of(values, isShed)) {
      cast.emitOpError() << "has values of shed beside others; it is between "
                            "one and what a thread has of it";
      return WalkResult::interrupt();
    }
    SmallVector<Type> types;
    if (failed(converter.convertTypes(tile, types)) ||
        TypeRange(types) == values)
      return WalkResult::advance();
    InFlightDiagnostic error = cast.emitOpError();
    if (types.size() != values.size()) {
      error << "has " << values.size() << " value(s) for " << tile
            << "; by the task's facts a thread has " << types.size();
    } else {
      const size_t at = std::distance(
          types.begin(),
          std::mismatch(types.begin(), types.end(), values.begin()).first);
      error << "has " << values[at] << " for value " << at << " of " << tile
            << "; a thread has " << types[at];
    }
    return WalkResult::interrupt();
  });
  return success(!walked.wasInterrupted());
}

/// Lowers what stands in a task, and puts it in the task's place.
template <typename Frame, typename Task>
static LogicalResult lowerTask(Task task, MorePatterns more) {
  const Frame frame(task);
  if (failed(checkFacts(task, frame)))
    return failure();
  TypeConverter converter;
  ConversionTarget target(*task->getContext());
  RewritePatternSet patterns(task->getContext());
  populatePatterns(converter, patterns, frame);
  if (more)
    more(converter, patterns);
  scf::populateSCFStructuralTypeConversionsAndLegality(converter, patterns,
                                                       target);
  target.addIllegalDialect<shed::ShedDialect>();
  target.addLegalOp<Task>();
  target.addDynamicallyLegalOp<UnrealizedConversionCastOp>(
      [&](Operation *op) { return converter.isLegal(op); });
  target.markUnknownOpDynamicallyLegal([&](Operation *op) {
    return converter.isLegal(op->getOperandTypes()) &&
           converter.isLegal(op->getResultTypes());
  });
  FrozenRewritePatternSet frozen(std::move(patterns));
  if (failed(checkCasts(task.getBody(), converter)) ||
      failed(checkForms(task->getRegions(), target, frozen, "on fragments")) ||
      failed(applyPartialConversion(task, target, frozen)))
    return failure();
  task->getBlock()->getOperations().splice(
      Block::iterator(task), task.getBody().front().getOperations());
  task.erase();
  return success();
}

LogicalResult mlir::heddle::lowerShedToNVVM(Operation *root,
                                            MorePatterns more) {
  SmallVector<Operation *> tasks;
  const WalkResult walked =
      root->walk<WalkOrder::PreOrder>([&](Operation *op) -> WalkResult {
        if (isa<shed::KernelOp>(op))
          return op->emitOpError()
                 << "is not pipelined; run shed-pipeline-copies first";
        if (isa<shed::AttentionTaskOp, shed::SelectTaskOp>(op))
          tasks.push_back(op);
        else if (!isa_and_nonnull<shed::ShedDialect>(op->getDialect()))
          return WalkResult::advance();
        else if (!isa<shed::RowKernelOp>(op)) // which has a pass of its own
          return op->emitOpError() << "stands in no task";
        return WalkResult::skip();
      });
  if (walked.wasInterrupted())
    return failure();
  return success(llvm::all_of(tasks, [&](Operation *op) {
    if (auto task = dyn_cast<shed::SelectTaskOp>(op))
      return succeeded(lowerTask<SelectFrame>(task, more));
    return succeeded(
        lowerTask<AttentionFrame>(cast<shed::AttentionTaskOp>(op), more));
  }));
}

namespace {
struct ConvertShedToNVVM
    : mlir::heddle::impl::ConvertShedToNVVMBase<ConvertShedToNVVM> {
  void runOnOperation() override {
    if (failed(lowerShedToNVVM(getOperation())))
      signalPassFailure();
  }
};
} // namespace
