//===- HeddleToShed.cpp - Write a plan's kernels on tiles -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Conversion/Passes.h"
#include "heddle/Dialect/Heddle/Transforms/VerifyKernels.h"
#include "heddle/Dialect/Shed/IR/BundleEnums.h"
#include "heddle/Dialect/Shed/IR/Shed.h"
#include "heddle/Support/ScoreRegion.h"

#include "bundle/program/KernelNeeds.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/StringSwitch.h"

namespace mlir::heddle {
#define GEN_PASS_DEF_CONVERTHEDDLETOSHED
#include "heddle/Conversion/Passes.h.inc"
} // namespace mlir::heddle

using namespace mlir;
using namespace mlir::heddle;
namespace bundle = ::heddle::bundle;

namespace {

/// Builds one variant of one kernel.
class KernelWriter {
public:
  KernelWriter(KernelOp source, bool someRows, OpBuilder &builder, Type element)
      : source(source), form(source.getForm()), someRows(someRows),
        b(source.getLoc(), builder), context(b.getContext()), element(element),
        rowTile(shed::TileType::get(context, shed::Axis::Queries,
                                    shed::Axis::Channels, element)),
        keyTile(shed::TileType::get(context, shed::Axis::Keys,
                                    shed::Axis::Channels, element)) {}

  void write(StringRef name, int64_t headDim,
             std::optional<bundle::Encoding> encoding) {
    auto kind = source.isSelect() ? shed::KernelKind::Select
                                  : shed::KernelKind::Attention;
    auto kernel = shed::KernelOp::create(
        b, name, kind, element, static_cast<uint64_t>(headDim), form.writesLse,
        someRows, form.group ? b.getI64IntegerAttr(form.group) : IntegerAttr(),
        sharesLists(), sharesLists(/*ofLayer=*/true),
        encoding ? b.getStringAttr(bundle::nameOf(*encoding)) : StringAttr(),
        shed::TilingAttr());
    b.setInsertionPointToStart(&kernel.getBody().emplaceBlock());
    if (source.isSelect())
      writeSelect();
    else
      writeAttention();
  }

private:
  /// Whether query heads share a list that the kernel writes or reads;
  /// `ofLayer`: all of a layer do.
  bool sharesLists(bool ofLayer = false) {
    return form.perLayer || (!ofLayer && form.perKvHead) ||
           llvm::any_of(source.getTerms(), [&](Attribute term) {
             FlatSymbolRefAttr name = cast<TermAttr>(term).getSelection();
             auto selection =
                 name ? SymbolTable::lookupNearestSymbolFrom<SelectionOp>(
                            source, name)
                      : SelectionOp();
             return selection && (selection.getRule().perLayer ||
                                  (!ofLayer && selection.getRule().perKvHead));
           });
  }

  /// The logits of a tile, as the softmax gets them.
  Value logitsOf(Value queries, Value keyRows, Value keys) {
    Value logits = shed::DotOp::create(b, logitTile(), queries, keyRows);
    if (scoresOf(source.getScores()).empty())
      return logits;
    auto scores = shed::ScoresOp::create(b, logitTile(), logits, keys);
    IRMapping mapping;
    source.getScores().cloneInto(&scores.getBody(), mapping);
    Operation &end = scores.getBody().front().back();
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(&end);
    shed::YieldOp::create(b, end.getOperand(0));
    end.erase();
    return scores;
  }

  /// A pass over `over`; `body` gets the keys and the carried value.
  Value forKeys(Attribute over, ArrayRef<Attribute> skip, Value init,
                function_ref<Value(Value, Value)> body) {
    auto loop = shed::ForKeysOp::create(b, init.getType(), over,
                                        b.getArrayAttr(skip), init);
    Block &block = loop.getBody().emplaceBlock();
    Value keys = block.addArgument(shed::KeysType::get(context), b.getLoc());
    Value carried = block.addArgument(init.getType(), b.getLoc());
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&block);
    shed::YieldOp::create(b, body(keys, carried));
    return loop.getResult();
  }

  void writeAttention() {
    Value queries = shed::LoadQueriesOp::create(b, rowTile);
    Value state =
        shed::SoftmaxInitOp::create(b, shed::SoftmaxType::get(context));
    // Each pair counts once: a set leaves out what earlier ones had. Those that
    // are the same for all rows of a tile leave no tile behind; those that
    // differ by row are masked.
    SmallVector<Attribute> uniform, masked;
    SmallVector<Part> bounded;
    for (const Part &part : parts()) {
      shed::KeySet set = part.set;
      if (llvm::is_contained(uniform, set) || llvm::is_contained(masked, set))
        continue;
      shed::KeySet own = part.bound        ? part.bound
                         : set.isUniform() ? shed::KeySet()
                                           : set;
      // All lists are within the same sets. So of another list all keys are
      // left out, of this one those that an earlier part has kept.
      SmallVector<Attribute> skip(uniform), outside(masked);
      for (const Part &before : bounded)
        if (before.selection == part.selection)
          outside.push_back(before.bound);
        else
          skip.push_back(before.set);
      state = forKeys(set, skip, state, [&](Value keys, Value carried) {
        Value keyRows = shed::LoadKeysOp::create(b, keyTile, keys);
        Value valueRows = shed::LoadValuesOp::create(b, keyTile, keys);
        Value logits = logitsOf(queries, keyRows, keys);
        if (own || !outside.empty())
          logits = shed::MaskOp::create(b, logitTile(), logits, keys, own,
                                        b.getArrayAttr(outside));
        return shed::SoftmaxUpdateOp::create(b, carried.getType(), carried,
                                             logits, valueRows)
            .getResult();
      });
      if (part.bound)
        bounded.push_back(part);
      else
        (own ? masked : uniform).push_back(set);
    }
    shed::StoreOp::create(b, state);
  }

  /// What a pass is over, of lists within what.
  struct Part {
    shed::KeySet set;
    shed::KeySet bound = {};
    FlatSymbolRefAttr selection = {};
  };

  /// In the order of passes. What the runtime tells, a share and numbers of
  /// sinks, is one set. It may be long and comes first: then it is a range
  /// without a hole, from which nothing is filtered and no window masked. Lists
  /// within other sets come last: what rows have of them no later pass can
  /// tell.
  SmallVector<Part> parts() {
    auto terms = llvm::to_vector(source.getTerms().getAsRange<TermAttr>());
    auto *told = llvm::find_if(terms, [](TermAttr term) {
      return bundle::isShareOfSinks(term.getSet());
    });
    SmallVector<Part> parts, bounded;
    if (told != terms.end())
      parts.push_back({shed::keySetOf(context, told->getSet(), 0, 0)});
    int64_t lists = 0;
    for (TermAttr term : terms) {
      const bundle::Term set = term.getSet();
      if (told != terms.end() && set.kind == told->getSet().kind &&
          set.within.empty())
        continue;
      FlatSymbolRefAttr selection = term.getSelection();
      Part part = {shed::keySetOf(context, set, selection ? lists++ : 0,
                                  term.getGroup()),
                   selection ? shed::boundSetOf(context, set) : shed::KeySet(),
                   selection};
      (part.bound ? bounded : parts).push_back(part);
    }
    llvm::append_range(parts, bounded);
    if (parts.empty())
      parts.push_back({shed::AllAttr::get(context)});
    return parts;
  }

  void writeSelect() {
    const bool byLogits = !readsLse(form.scorer);
    Value mass = byLogits ? writeLogits() : writeScores(/*span=*/false);
    Value span =
        form.blocks && !byLogits ? writeScores(/*span=*/true) : Value();
    shed::KeySet within;
    if (form.withinBlocks)
      within = shed::BlocksAttr::get(context, 0, form.withinGroup);
    else if (form.withinGroup)
      within = shed::ListAttr::get(context, 0, form.withinGroup);
    shed::TopKOp::create(
        b, mass, span, form.blocks,
        form.pooled ? b.getI64IntegerAttr(form.pooled) : IntegerAttr(), within);
  }

  /// The probability that the task's rows give to each key: of all keys, or of
  /// those of the second span.
  Value writeScores(bool span) {
    Value mass = shed::MassInitOp::create(b, shed::MassType::get(context));
    auto loop = shed::ForQueriesOp::create(b, mass.getType(), span, mass);
    Block &block = loop.getBody().emplaceBlock();
    Value outer = block.addArgument(mass.getType(), b.getLoc());
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&block);
    Value queries = shed::LoadQueriesOp::create(b, rowTile);
    Value lse = shed::LoadLseOp::create(b, shed::LseType::get(context), span);
    Attribute keySet = shed::AllAttr::get(context);
    if (span)
      keySet = shed::SpanAttr::get(context);
    Value sum = forKeys(keySet, {}, outer, [&](Value keys, Value carried) {
      Value keyRows = shed::LoadKeysOp::create(b, keyTile, keys);
      Value logits = logitsOf(queries, keyRows, keys);
      return shed::ColumnMassOp::create(b, carried.getType(), carried, logits,
                                        lse, keys)
          .getResult();
    });
    shed::YieldOp::create(b, sum);
    return loop.getResult();
  }

  /// The logits that the task's rows have for each key.
  Value writeLogits() {
    Value mass = shed::MassInitOp::create(b, shed::MassType::get(context));
    return shed::LogitMassOp::create(b, mass.getType(), mass);
  }

  Type logitTile() {
    return shed::TileType::get(context, shed::Axis::Queries, shed::Axis::Keys,
                               b.getF32Type());
  }

  KernelOp source;
  bundle::Kernel form;
  bool someRows;
  ImplicitLocOpBuilder b;
  MLIRContext *context;
  Type element, rowTile, keyTile;
};

struct ConvertHeddleToShed
    : mlir::heddle::impl::ConvertHeddleToShedBase<ConvertHeddleToShed> {
  using ConvertHeddleToShedBase::ConvertHeddleToShedBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<std::string> types(dtypes.begin(), dtypes.end());
    SmallVector<int64_t> dims(headDims.begin(), headDims.end());
    if (types.empty())
      types = {"f32"};
    if (dims.empty())
      dims = {128};
    OpBuilder builder(&getContext());
    for (const std::string &type : types)
      if (!elementType(builder, type)) {
        module.emitError() << "dtype '" << type
                           << "' is not supported; expected f32, bf16 or f16";
        return signalPassFailure();
      }
    for (const std::string &encoding : encodings)
      if (!bundle::detail::valueOf<bundle::Encoding>(encoding)) {
        module.emitError() << "index encoding '" << encoding
                           << "' is not supported; expected int32, uint16 or "
                              "bitmap";
        return signalPassFailure();
      }
    for (PlanOp plan : llvm::to_vector(module.getOps<PlanOp>())) {
      // The pass may run alone, on a plan that nothing has verified.
      FailureOr<Program> program = verifyKernels(plan);
      if (failed(program))
        return signalPassFailure();
      for (auto [i, kernel] : llvm::enumerate(plan.getOps<KernelOp>()))
        for (const std::string &type : types)
          for (int64_t dim : dims)
            if (failed(writeForms(builder, kernel, program->manifest,
                                  static_cast<int64_t>(i), type, dim)))
              return signalPassFailure();
    }
  }

private:
  static Type elementType(Builder &builder, StringRef name) {
    return StringSwitch<Type>(name)
        .Case("f32", builder.getF32Type())
        .Case("bf16", builder.getBF16Type())
        .Case("f16", builder.getF16Type())
        .Default(Type());
  }

  /// One kernel, which `plan` has at `index`, for an element type and head dim:
  /// one for each encoding, if it has index lists and encodings are asked for.
  LogicalResult writeForms(OpBuilder &builder, KernelOp kernel,
                           const bundle::Manifest &plan, int64_t index,
                           StringRef type, int64_t dim) {
    const bool someRows = bundle::computesSomeRows(plan, index);
    auto writeForm = [&](StringRef name,
                         std::optional<bundle::Encoding> encoding) {
      if (getOperation().lookupSymbol(name)) {
        kernel.emitOpError()
            << "needs the symbol '" << name << "', which is taken";
        return failure();
      }
      builder.setInsertionPointToEnd(getOperation().getBody());
      KernelWriter(kernel, someRows, builder, elementType(builder, type))
          .write(name, dim, encoding);
      return success();
    };
    const bundle::Kernel &described = plan.kernels[static_cast<size_t>(index)];
    if (encodings.empty() || !described.hasLists())
      return writeForm(
          bundle::variantSymbol(kernel.getSymName().str(), type, dim),
          std::nullopt);
    std::vector<bundle::Encoding> ofKeys;
    for (const std::string &name : encodings)
      ofKeys.push_back(*bundle::detail::valueOf<bundle::Encoding>(name));
    for (bundle::Encoding encoding : bundle::encodingsOf(described, ofKeys))
      if (failed(writeForm(
              bundle::variantSymbol(kernel.getSymName(), type, dim, encoding),
              encoding)))
        return failure();
    return success();
  }
};
} // namespace
