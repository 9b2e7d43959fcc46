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
    if (!isa<SelectionOp, FallbackOp, KernelOp, RuleOp>(op) &&
        !(op.getName().getRegisteredInfo() &&
          isOfSchedules(*op.getName().getRegisteredInfo())))
      return op.emitOpError("does not belong in a heddle.plan");
  if (failed(verifyOnlyOne<VisibleOp>(*this)) || failed(verifyReuses(*this)) ||
      failed(verifyCommits(*this)))
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
// FallbackOp
//===----------------------------------------------------------------------===//

// N13: lists that keep no more are as fast.
LogicalResult FallbackOp::verify() {
  const ::heddle::bundle::Selection rule = getRule();
  if (rule.count == 0 &&
      ::heddle::bundle::isMore(rule.keep, getDenseAboveAttr().getValue()))
    return success();
  return emitOpError("is of a selection that keeps no more than the share "
                     "above which dense attention is faster");
}

//===----------------------------------------------------------------------===//
// KernelOp
//===----------------------------------------------------------------------===//

/// "columns(group = 128)", "blocks(size = 64)".
static std::string withinText(int64_t group, bool blocks) {
  return (blocks ? "blocks(size = " : "columns(group = ") + groupText(group) +
         ")";
}

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  auto &properties = result.getOrAddProperties<Properties>();
  MLIRContext *context = parser.getContext();
  if (parser.parseSymbolName(properties.sym_name))
    return failure();
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  (void)parser.parseOptionalKeyword(&word);
  std::optional<KernelKind> kind = wordOf<KernelKind>(word);
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
    if (parseGroup(parser, group, blocks))
      return failure();
    if (blocks)
      properties.blocks = parser.getBuilder().getUnitAttr();
    if (!blocks && succeeded(parser.parseOptionalComma())) {
      if (succeeded(parser.parseOptionalKeyword("per_layer")))
        properties.per_layer = parser.getBuilder().getUnitAttr();
      else if (succeeded(parser.parseKeyword("per_kv_head")))
        properties.per_kv_head = parser.getBuilder().getUnitAttr();
      else
        return failure();
    }
    if (parser.parseRParen() || parser.parseKeyword("by"))
      return failure();
    properties.group = parser.getBuilder().getI64IntegerAttr(group);
    properties.terms = parser.getBuilder().getArrayAttr({});
    ScorerAttr scorer;
    if (parseScorer(parser, scorer))
      return failure();
    properties.scorer = scorer;
    if (!blocks && succeeded(parser.parseOptionalKeyword("pooled"))) {
      int64_t pooled;
      if (parser.parseLParen() || parser.parseInteger(pooled) ||
          parser.parseRParen())
        return failure();
      properties.pooled = parser.getBuilder().getI64IntegerAttr(pooled);
    }
    if (!blocks && succeeded(parser.parseOptionalKeyword("within"))) {
      const bool ofBlocks = succeeded(parser.parseOptionalKeyword("blocks"));
      int64_t outer;
      if ((!ofBlocks && parser.parseKeyword("columns")) ||
          parser.parseLParen() ||
          parser.parseKeyword(ofBlocks ? "size" : "group") ||
          parser.parseEqual() || parseGroup(parser, outer, ofBlocks) ||
          parser.parseRParen())
        return failure();
      properties.within_group = parser.getBuilder().getI64IntegerAttr(outer);
      if (ofBlocks)
        properties.within_blocks = parser.getBuilder().getUnitAttr();
    }
  }
  return failure(parseScores(parser, *result.addRegion()) ||
                 parser.parseOptionalAttrDict(result.attributes));
}

void KernelOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getSymName());
  printer << ' ' << spelled(getKind());
  if (isAttention()) {
    printer << ' ';
    printTerms(printer, getTerms());
    if (getWritesLse())
      printer << " writes_lse";
  } else {
    printer << (getBlocks() ? "(blocks = " : "(group = ")
            << groupText(getGroup().value_or(0))
            << (getPerKvHead()  ? ", per_kv_head)"
                : getPerLayer() ? ", per_layer)"
                                : ")");
    if (std::optional<Scorer> scorer = getScorer())
      printer << " by " << spelled(*scorer);
    if (getPooled())
      printer << " pooled(" << getPooled() << ')';
    if (getWithinGroup())
      printer << " within " << withinText(getWithinGroup(), getWithinBlocks());
  }
  printScores(printer, *this, getScores());
  printer.printOptionalAttrDict(
      (*this)->getAttrs(), {"sym_name", "kind", "terms", "writes_lse", "group",
                            "blocks", "per_kv_head", "per_layer", "scorer",
                            "pooled", "within_group", "within_blocks"});
}

LogicalResult KernelOp::verify() {
  // N3: each kind has its own parameters.
  if (isAttention()) {
    if (getGroup() || getScorer() || getBlocks() || getPerKvHead() ||
        getPerLayer() || getPooled() || getWithinGroup() || getWithinBlocks())
      return emitOpError("computes attention, which has no group or scorer");
    SmallVector<FlatSymbolRefAttr> selections;
    SmallVector<::heddle::bundle::Term> terms;
    for (auto term : getTerms().getAsRange<TermAttr>()) {
      selections.push_back(term.getSelection());
      terms.push_back(term.getSet());
      terms.back().selection =
          llvm::find(selections, selections.back()) - selections.begin();
    }
    if (auto different = differentBounds(terms))
      return emitOpError("reads ")
             << selections[different->first] << " and "
             << selections[different->second]
             << " within different sets, and of what one has kept of a row the "
                "other can't know";
    return success();
  }
  if (!getTerms().empty() || getWritesLse())
    return emitOpError("selects, which has no terms and writes no "
                       "log-sum-exp");
  if (!getGroup() || !getScorer())
    return emitOpError("selects, which needs a group and a scorer");
  if (!readsLse(*getScorer()) && !scoresOf(getScores()).empty())
    return emitOpError("selects by ")
           << spelled(*getScorer())
           << ", which takes no function of logits: a sum of queries is no "
              "row and stands nowhere";
  if (getBlocks() && (getPerKvHead() || getPerLayer()))
    return emitOpError("selects blocks, which each query head has its own of");
  if (getPerKvHead() && getPerLayer())
    return emitOpError("selects for each key/value head and for the layer");
  if (getBlocks() && getPooled())
    return emitOpError("selects blocks, whose scores are means of their keys'");
  if (getPooled() && failed(checkPooled([&] { return emitOpError(); },
                                        static_cast<int64_t>(getPooled()))))
    return failure();
  if (failed(
          checkGroup([&] { return emitOpError(); }, *getGroup(), getBlocks())))
    return failure();
  if (!getWithinGroup() && getWithinBlocks())
    return emitOpError("chooses within blocks of no size");
  if (!getWithinGroup())
    return success();
  if (getBlocks())
    return emitOpError("selects blocks, which are within nothing");
  const auto outer = static_cast<int64_t>(getWithinGroup());
  if (failed(
          checkGroup([&] { return emitOpError(); }, outer, getWithinBlocks())))
    return failure();
  if (outer % static_cast<int64_t>(*getGroup()))
    return emitOpError("selects for groups that are no parts of those that it "
                       "chooses within");
  return success();
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
  for (auto term : getTerms().getAsRange<TermAttr>()) {
    FlatSymbolRefAttr name = term.getSelection();
    if (!name)
      continue;
    auto selection =
        lookUp<SelectionOp>(symbols, *this, name, "heddle.selection");
    if (!selection)
      return failure();
    const ::heddle::bundle::Selection rule = selection.getRule();
    StringRef readAs =
        ::heddle::bundle::setNames()[static_cast<size_t>(term.getSet().kind)];
    if (readAs != spelled(rule.kind))
      return emitOpError("reads ")
                 .append(name, " as ", readAs, ", it is of ",
                         spelled(rule.kind))
                 .attachNote(selection.getLoc())
             << "the selection is here";
    int64_t group = term.getGroup();
    if (group != rule.group)
      return emitOpError("reads ")
                 .append(name, " in groups of ", group,
                         ", it is made in groups of ", rule.group)
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

bool PhaseOp::refreshesFirst() {
  return !isa<AttendWithOp>(getBody()->front());
}

// N5: a phase is one attention, then refreshes; or a scoring one, if refreshes
// need it, refreshes and the attention. Each refresh comes behind its own
// scoring ones, and behind all else comes what is measured.
LogicalResult PhaseOp::verifyRegions() {
  Block &body = *getBody();
  if (body.empty() || !isa<AttendWithOp, ScoreWithOp, RefreshOp>(body.front()))
    return emitOpError("must begin with heddle.attend_with, or with what "
                       "refreshes before it");
  Operation *last = &body.back();
  while (isa<MeasureOp>(last))
    last = last->getPrevNode();
  Operation *attention = refreshesFirst() ? last : &body.front();
  for (auto measure : getOps<MeasureOp>())
    if (measure->isBeforeInBlock(last))
      return measure.emitOpError("measures what its phase has computed, so it "
                                 "must stand behind all else of the phase");
  for (Operation &op : body)
    if (!isa<RefreshOp, ScoreWithOp, MeasureOp>(op) &&
        !(isa<AttendWithOp>(op) && &op == attention))
      return op.emitOpError("cannot follow a phase's ")
             << body.front().getName()
             << "; only heddle.refresh and heddle.score_with before it can"
             << (refreshesFirst() ? ", and a last heddle.attend_with" : "");
  if (!isa<AttendWithOp>(attention))
    return emitOpError("refreshes first and must end with heddle.attend_with");
  for (auto score : getOps<ScoreWithOp>()) {
    Operation *next = score->getNextNode();
    if (!next || !isa<RefreshOp, ScoreWithOp>(next))
      return score.emitOpError("scores for no heddle.refresh");
    if (!score.isOfRefresh() &&
        (score.getScaledByHeads() || score.getOfResponse()))
      return score.emitOpError("serves all of the phase's refreshes, by "
                               "attention's own scale and all keys");
  }
  return success();
}

::heddle::bundle::Phase::Scoring ScoreWithOp::asData(int64_t kernel) {
  return {kernel, getScaledByHeads() ? Scale::Heads : Scale::HeadDim,
          getOfResponse()};
}

SmallVector<ScoreWithOp, 2> RefreshOp::getScorings() {
  SmallVector<ScoreWithOp, 2> scorings;
  for (Operation *op = (*this)->getPrevNode(); op; op = op->getPrevNode()) {
    auto score = dyn_cast<ScoreWithOp>(op);
    if (!score || !score.isOfRefresh())
      break;
    scorings.push_back(score);
  }
  return {scorings.rbegin(), scorings.rend()};
}

template <typename Op>
static LogicalResult verifyAttention(Op op, FlatSymbolRefAttr name,
                                     SymbolTableCollection &symbols) {
  auto kernel = lookUp<KernelOp>(symbols, op, name, "heddle.kernel");
  if (!kernel)
    return failure();
  if (!kernel.isAttention())
    return op.emitOpError("needs an attention kernel, found ")
               .append(name)
               .attachNote(kernel.getLoc())
           << "the kernel is here";
  return success();
}

LogicalResult AttendWithOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (failed(verifyAttention(*this, getKernelAttr(), symbols)))
    return failure();
  return getShadowAttr() ? verifyAttention(*this, getShadowAttr(), symbols)
                         : success();
}

LogicalResult ScoreWithOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyAttention(*this, getKernelAttr(), symbols);
}

LogicalResult MeasureOp::verify() {
  if (getCadence().kind == CadenceKind::Drift)
    return success();
  return emitOpError("measures ")
         << toString(getCadence())
         << ", which goes by nothing that a step finds; expected a cadence by "
            "drift";
}

LogicalResult MeasureOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return getKernelAttr() ? verifyAttention(*this, getKernelAttr(), symbols)
                         : success();
}

// N4: what is chosen within stands before.
LogicalResult SelectionOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FlatSymbolRefAttr name = getWithinAttr();
  if (!name)
    return success();
  auto outer = lookUp<SelectionOp>(symbols, *this, name, "heddle.selection");
  if (!outer)
    return failure();
  if (outer->isBeforeInBlock(*this))
    return success();
  return emitOpError("chooses within ")
             .append(name, ", which does not stand before it")
             .attachNote(outer.getLoc())
         << "the other selection is here";
}

LogicalResult RefreshOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto selection = lookUp<SelectionOp>(symbols, *this, getSelectionAttr(),
                                       "heddle.selection");
  auto kernel =
      lookUp<KernelOp>(symbols, *this, getKernelAttr(), "heddle.kernel");
  if (!selection || !kernel)
    return failure();
  const ::heddle::bundle::Selection rule = selection.getRule();
  bool blocks = rule.kind == SelectionKind::Blocks;
  ::heddle::bundle::Selection outer;
  if (FlatSymbolRefAttr name = selection.getWithinAttr())
    if (auto other = symbols.lookupNearestSymbolFrom<SelectionOp>(*this, name))
      outer = other.getRule();
  const bool inBlocks = outer.kind == SelectionKind::Blocks;
  if (!kernel.isSelect() ||
      static_cast<int64_t>(*kernel.getGroup()) != rule.group ||
      *kernel.getScorer() != rule.scorer || kernel.getBlocks() != blocks ||
      kernel.getPerKvHead() != rule.perKvHead ||
      kernel.getPerLayer() != rule.perLayer ||
      static_cast<int64_t>(kernel.getPooled()) != rule.pooled ||
      static_cast<int64_t>(kernel.getWithinGroup()) != outer.group ||
      kernel.getWithinBlocks() != inBlocks) {
    InFlightDiagnostic error = emitOpError("needs a select kernel of ");
    error << (blocks ? "blocks of " : "group ") << groupText(rule.group)
          << (rule.perKvHead  ? " per key/value head"
              : rule.perLayer ? " per layer"
                              : "")
          << " by " << spelled(rule.scorer);
    if (rule.pooled)
      error << " pooled(" << rule.pooled << ')';
    if (outer.group)
      error << " within " << withinText(outer.group, inBlocks);
    error.attachNote(kernel.getLoc()) << "the kernel is here";
    return error;
  }
  return success();
}
