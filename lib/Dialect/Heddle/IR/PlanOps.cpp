//===- PlanOps.cpp - The plan level ---------------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Assembly.h"
#include "Verify.h"

#include "bundle/program/Manifest.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::heddle;

static_assert(minGroup == ::heddle::bundle::minGroup &&
              maxGroup == ::heddle::bundle::maxGroup);

std::string mlir::heddle::variantSymbol(StringRef kernel, StringRef elementType,
                                        int64_t headDim) {
  return ::heddle::bundle::variantSymbol(kernel, elementType, headDim);
}

//===----------------------------------------------------------------------===//
// PlanOp
//===----------------------------------------------------------------------===//

LogicalResult PlanOp::verifyRegions() {
  // N1: a plan holds selections, kernels, rules and a program of rows and keys.
  for (Operation &op : *getBody())
    if (!isa<SelectionOp, KernelOp, RuleOp, PositionSetOp, VisibleSetOp, PassOp,
             ReuseOp, CommitRuleOp>(op))
      return op.emitOpError("does not belong in a heddle.plan");
  if (failed(verifyOnlyOne<VisibleSetOp>(*this)) ||
      failed(verifyOnlyOne<ReuseOp>(*this)) ||
      failed(verifyCommits<CommitRuleOp>(*this)))
    return failure();

  // N2: one default rule; the others name disjoint layers.
  RuleOp fallback;
  NamedLayers<RuleOp> ranges;
  for (auto rule : getOps<RuleOp>()) {
    if (rule.isDefault()) {
      if (fallback)
        return rule.emitOpError("is the plan's second default rule")
                   .attachNote(fallback.getLoc())
               << "the first one is here";
      fallback = rule;
      continue;
    }
    if (failed(ranges.add(rule, rule.getLayersAttr(),
                          "names layers that another rule has")))
      return failure();
  }
  if (!fallback)
    return emitOpError("needs a default rule");
  return success();
}

//===----------------------------------------------------------------------===//
// SelectionOp, KernelOp
//===----------------------------------------------------------------------===//

LogicalResult SelectionOp::verify() { return verifySelection(*this); }

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  auto &properties = result.getOrAddProperties<Properties>();
  MLIRContext *context = parser.getContext();
  if (parser.parseSymbolName(properties.sym_name))
    return failure();
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  (void)parser.parseOptionalKeyword(&word);
  std::optional<KernelKind> kind = symbolizeKernelKind(word);
  if (!kind)
    return parser.emitError(loc, "a kernel is attention or select");
  properties.kind = KernelKindAttr::get(context, *kind);

  if (*kind == KernelKind::Attention) {
    ArrayAttr terms;
    if (parseTerms(parser, terms))
      return failure();
    properties.terms = terms;
    if (succeeded(parser.parseOptionalKeyword("writes_lse")))
      properties.writes_lse = parser.getBuilder().getUnitAttr();
  } else {
    int64_t group;
    if (parser.parseLParen())
      return failure();
    bool blocks = succeeded(parser.parseOptionalKeyword("blocks"));
    if ((!blocks && parser.parseKeyword("group")) || parser.parseEqual())
      return failure();
    loc = parser.getCurrentLocation();
    if (parser.parseInteger(group) ||
        failed(
            checkGroup([&] { return parser.emitError(loc); }, group, blocks)))
      return failure();
    if (blocks)
      properties.blocks = parser.getBuilder().getUnitAttr();
    if (!blocks && succeeded(parser.parseOptionalComma())) {
      if (parser.parseKeyword("per_kv_head"))
        return failure();
      properties.per_kv_head = parser.getBuilder().getUnitAttr();
    }
    if (parser.parseRParen() || parser.parseKeyword("by"))
      return failure();
    properties.group = parser.getBuilder().getI64IntegerAttr(group);
    properties.terms = parser.getBuilder().getArrayAttr({});
    ScorerAttr scorer;
    if (parseScorer(parser, scorer))
      return failure();
    properties.scorer = scorer;
  }
  return failure(parseScores(parser, *result.addRegion()) ||
                 parser.parseOptionalAttrDict(result.attributes));
}

void KernelOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getSymName());
  printer << ' ' << stringifyKernelKind(getKind());
  if (isAttention()) {
    printer << ' ';
    printTerms(printer, getTerms());
    if (getWritesLse())
      printer << " writes_lse";
  } else {
    printer << (getBlocks() ? "(blocks = " : "(group = ")
            << getGroup().value_or(0)
            << (getPerKvHead() ? ", per_kv_head)" : ")");
    if (std::optional<Scorer> scorer = getScorer())
      printer << " by " << stringifyScorer(*scorer);
  }
  printScores(printer, *this, getScores());
  printer.printOptionalAttrDict((*this)->getAttrs(),
                                {"sym_name", "kind", "terms", "writes_lse",
                                 "group", "blocks", "per_kv_head", "scorer"});
}

LogicalResult KernelOp::verify() {
  // N3: each kind has its own parameters.
  if (isAttention()) {
    if (getGroup() || getScorer() || getBlocks() || getPerKvHead())
      return emitOpError("computes attention, which has no group or scorer");
    return success();
  }
  if (!getTerms().empty() || getWritesLse())
    return emitOpError("selects, which has no terms and writes no "
                       "log-sum-exp");
  if (!getGroup() || !getScorer())
    return emitOpError("selects, which needs a group and a scorer");
  if (getBlocks() && getPerKvHead())
    return emitOpError("selects blocks, which each query head has its own of");
  return checkGroup([&] { return emitOpError(); }, *getGroup(), getBlocks());
}

// F1, F2: scores are a function that bundles can hold.
LogicalResult KernelOp::verifyRegions() {
  return success(succeeded(readScores(getScores())));
}

void KernelOp::getAsmBlockArgumentNames(Region &region,
                                        OpAsmSetValueNameFn setName) {
  nameScoreArguments(region, setName);
}

/// The op of kind `OpTy` that `name` means in the plan around `user`; an error
/// at `user` if it is none.
template <typename OpTy>
static OpTy lookUp(SymbolTableCollection &symbols, Operation *user,
                   FlatSymbolRefAttr name, StringRef what) {
  auto op = symbols.lookupNearestSymbolFrom<OpTy>(user, name);
  if (!op)
    user->emitOpError("names ")
        << name << ", which is no " << what << " of the plan";
  return op;
}

// N4: names lead to what they must; groups agree.
LogicalResult KernelOp::verifySymbolUses(SymbolTableCollection &symbols) {
  for (Attribute term : getTerms()) {
    FlatSymbolRefAttr name = selectionOf(term);
    if (!name)
      continue;
    auto selection =
        lookUp<SelectionOp>(symbols, *this, name, "heddle.selection");
    if (!selection)
      return failure();
    auto blocks = dyn_cast<BlocksTermAttr>(term);
    if (static_cast<bool>(blocks) !=
        (selection.getKind() == SelectionKind::Blocks))
      return emitOpError("reads ")
                 .append(name, blocks ? " as blocks" : " as columns",
                         ", it is of ",
                         stringifySelectionKind(selection.getKind()))
                 .attachNote(selection.getLoc())
             << "the selection is here";
    int64_t group =
        blocks ? blocks.getSize() : cast<ColumnsTermAttr>(term).getGroup();
    if (group != static_cast<int64_t>(selection.getGroup()))
      return emitOpError("reads ")
                 .append(name, " in groups of ", group,
                         ", it is made in groups of ", selection.getGroup())
                 .attachNote(selection.getLoc())
             << "the selection is here";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// PhaseOp and what it holds
//===----------------------------------------------------------------------===//

AttendWithOp PhaseOp::getAttention() {
  return *getBody()->getOps<AttendWithOp>().begin();
}

ScoreWithOp PhaseOp::getScoring() {
  return dyn_cast<ScoreWithOp>(getBody()->front());
}

LogicalResult PhaseOp::verify() {
  if ((getWhen() == WhenKind::Otherwise) == static_cast<bool>(getCadenceAttr()))
    return emitOpError(getCadenceAttr() ? "applies otherwise and has a cadence"
                                        : "needs a cadence");
  return success();
}

// N5: a phase is one attention, then refreshes; or a scoring one, refreshes and
// the attention.
LogicalResult PhaseOp::verifyRegions() {
  Block &body = *getBody();
  if (body.empty() || !isa<AttendWithOp, ScoreWithOp>(body.front()))
    return emitOpError(
        "must begin with heddle.attend_with or heddle.score_with");
  auto rest = llvm::drop_begin(body);
  const bool scores = isa<ScoreWithOp>(body.front());
  for (Operation &op : rest)
    if (!isa<RefreshOp>(op) &&
        !(scores && isa<AttendWithOp>(op) && &op == &body.back()))
      return op.emitOpError("cannot follow a phase's ")
             << body.front().getName()
             << (scores ? "; only heddle.refresh and a last heddle.attend_with "
                          "can"
                        : "; only heddle.refresh can");
  if (scores && !isa<AttendWithOp>(body.back()))
    return emitOpError("scores and must end with heddle.attend_with");
  if (scores && isa<AttendWithOp>(*rest.begin()))
    return emitOpError("scores for no heddle.refresh");
  return success();
}

template <typename Op>
static LogicalResult verifyAttention(Op op, SymbolTableCollection &symbols) {
  auto kernel =
      lookUp<KernelOp>(symbols, op, op.getKernelAttr(), "heddle.kernel");
  if (!kernel)
    return failure();
  if (!kernel.isAttention())
    return op.emitOpError("needs an attention kernel, found ")
               .append(op.getKernelAttr())
               .attachNote(kernel.getLoc())
           << "the kernel is here";
  return success();
}

LogicalResult AttendWithOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyAttention(*this, symbols);
}

LogicalResult ScoreWithOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyAttention(*this, symbols);
}

LogicalResult RefreshOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto selection = lookUp<SelectionOp>(symbols, *this, getSelectionAttr(),
                                       "heddle.selection");
  auto kernel =
      lookUp<KernelOp>(symbols, *this, getKernelAttr(), "heddle.kernel");
  if (!selection || !kernel)
    return failure();
  bool blocks = selection.getKind() == SelectionKind::Blocks;
  if (!kernel.isSelect() || *kernel.getGroup() != selection.getGroup() ||
      *kernel.getScorer() != selection.getScorer() ||
      kernel.getBlocks() != blocks ||
      kernel.getPerKvHead() != selection.getPerKvHead()) {
    InFlightDiagnostic error = emitOpError("needs a select kernel of ");
    error << (blocks ? "blocks of " : "group ") << selection.getGroup()
          << (selection.getPerKvHead() ? " per key/value head" : "") << " by "
          << stringifyScorer(selection.getScorer());
    error.attachNote(kernel.getLoc()) << "the kernel is here";
    return error;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Rows, keys, reuse, commit
//===----------------------------------------------------------------------===//

// N11: each form has its own parameters.
LogicalResult PositionSetOp::verify() {
  StringRef name = stringifyPositionsKind(getKind());
  PositionsKind kind = getKind();
  bool made = isMadeOfSets(kind);
  if (made ? getOf().empty() : !getOf().empty())
    return emitOpError() << name
                         << (made ? " needs a set"
                                  : " is made of no other set");
  if (kind == PositionsKind::Fixed && getOf().size() != 1)
    return emitOpError("fixes exactly one set");
  if ((kind == PositionsKind::Hull || kind == PositionsKind::Leading ||
       kind == PositionsKind::Predicting || kind == PositionsKind::Last) &&
      getOf().size() != 1)
    return emitOpError("is made of exactly one set");
  bool neighbors = kind == PositionsKind::Neighbors;
  if (neighbors && getOf().size() != 2)
    return emitOpError(
        "needs two sets: whose neighbors, and among which positions");
  if (kind == PositionsKind::Except && getOf().size() != 2)
    return emitOpError("needs two sets: of which positions, and without which");
  bool counted = neighbors || kind == PositionsKind::Last;
  bool counts = kind == PositionsKind::Undecoded ||
                kind == PositionsKind::Committed || counted;
  int64_t count = static_cast<int64_t>(getCount());
  if (count < (counted ? 1 : 0) || (!counts && count > 0) ||
      count > ::heddle::bundle::maxCount)
    return emitOpError() << name
                         << " has no count, or one out of range: " << count;
  bool dated = kind == PositionsKind::Fixed ||
               (kind == PositionsKind::Committed && count == 0);
  if (dated != static_cast<bool>(getCadenceAttr()))
    return emitOpError() << name
                         << (dated ? " needs a cadence" : " has no cadence");
  return success();
}

// N12: sets are made of sets that stand before them.
LogicalResult PositionSetOp::verifySymbolUses(SymbolTableCollection &symbols) {
  for (auto part : getOf().getAsRange<FlatSymbolRefAttr>()) {
    auto set =
        lookUp<PositionSetOp>(symbols, *this, part, "heddle.position_set");
    if (!set)
      return failure();
    if (!set->isBeforeInBlock(*this))
      return emitOpError("is made of ")
                 .append(part, ", which must stand before it")
                 .attachNote(set.getLoc())
             << "the set is here";
  }
  return success();
}

LogicalResult VisibleSetOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return success(static_cast<bool>(lookUp<PositionSetOp>(
      symbols, *this, getSetAttr(), "heddle.position_set")));
}

LogicalResult PassOp::verify() {
  return verifyExact(*this, static_cast<bool>(getAmongAttr()));
}

LogicalResult PassOp::verifySymbolUses(SymbolTableCollection &symbols) {
  for (FlatSymbolRefAttr name : {getRowsAttr(), getAmongAttr()})
    if (name &&
        !lookUp<PositionSetOp>(symbols, *this, name, "heddle.position_set"))
      return failure();
  return success();
}

LogicalResult CommitRuleOp::verify() { return verifyCommit(*this); }

LogicalResult CommitRuleOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return success(!getWithinAttr() ||
                 lookUp<PositionSetOp>(symbols, *this, getWithinAttr(),
                                       "heddle.position_set"));
}

// U1: something is kept.
LogicalResult ReuseOp::verify() {
  if (!getKv() && !getFfn() && getAttention() == ReusedAttention::None)
    return emitOpError("keeps nothing; name kv, context, output or ffn");
  if (getBeforeRope() && !getKv())
    return emitOpError("keeps no keys, so none before RoPE");
  return success();
}

LogicalResult ReuseOp::canonicalize(ReuseOp op, PatternRewriter &rewriter) {
  if (!op.getBeforeRope())
    return failure();
  rewriter.modifyOpInPlace(op, [&] { op.setBeforeRope(false); });
  return success();
}
