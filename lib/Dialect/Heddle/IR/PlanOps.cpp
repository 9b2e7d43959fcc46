//===- PlanOps.cpp - The plan level ---------------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Assembly.h"

#include "bundle/Manifest.h"

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
  // N1: a plan holds selections, kernels and rules.
  for (Operation &op : *getBody())
    if (!isa<SelectionOp, KernelOp, RuleOp>(op))
      return op.emitOpError("does not belong in a heddle.plan");

  // N2: one default rule; the others name disjoint layers.
  RuleOp fallback;
  SmallVector<RuleOp> ranges;
  for (auto rule : getOps<RuleOp>()) {
    if (rule.isDefault()) {
      if (fallback)
        return rule.emitOpError("is the plan's second default rule")
                   .attachNote(fallback.getLoc())
               << "the first one is here";
      fallback = rule;
      continue;
    }
    for (RuleOp other : ranges)
      if (rule.getLayersAttr().overlaps(other.getLayersAttr()))
        return rule.emitOpError("names layers that another rule has")
                   .attachNote(other.getLoc())
               << "they are named here";
    ranges.push_back(rule);
  }
  if (!fallback)
    return emitOpError("needs a default rule");
  return success();
}

//===----------------------------------------------------------------------===//
// SelectionOp, KernelOp
//===----------------------------------------------------------------------===//

LogicalResult SelectionOp::verify() {
  return checkGroup([&] { return emitOpError(); }, getGroup());
}

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
    if (parser.parseLParen() || parser.parseKeyword("group") ||
        parser.parseEqual())
      return failure();
    loc = parser.getCurrentLocation();
    if (parser.parseInteger(group) ||
        failed(checkGroup([&] { return parser.emitError(loc); }, group)) ||
        parser.parseRParen() || parser.parseKeyword("by"))
      return failure();
    properties.group = parser.getBuilder().getI64IntegerAttr(group);
    properties.terms = parser.getBuilder().getArrayAttr({});
    ScorerAttr scorer;
    if (parseScorer(parser, scorer))
      return failure();
    properties.scorer = scorer;
  }
  return parser.parseOptionalAttrDict(result.attributes);
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
    printer << "(group = " << getGroup().value_or(0) << ")";
    if (std::optional<Scorer> scorer = getScorer())
      printer << " by " << stringifyScorer(*scorer);
  }
  printer.printOptionalAttrDict(
      (*this)->getAttrs(),
      {"sym_name", "kind", "terms", "writes_lse", "group", "scorer"});
}

LogicalResult KernelOp::verify() {
  // N3: each kind has its own parameters.
  if (isAttention()) {
    if (getGroup() || getScorer())
      return emitOpError("computes attention, which has no group or scorer");
    return success();
  }
  if (!getTerms().empty() || getWritesLse())
    return emitOpError("selects, which has no terms and writes no "
                       "log-sum-exp");
  if (!getGroup() || !getScorer())
    return emitOpError("selects, which needs a group and a scorer");
  return checkGroup([&] { return emitOpError(); }, *getGroup());
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
    auto columns = dyn_cast<ColumnsTermAttr>(term);
    if (!columns)
      continue;
    auto selection = lookUp<SelectionOp>(symbols, *this, columns.getSelection(),
                                         "heddle.selection");
    if (!selection)
      return failure();
    if (columns.getGroup() != static_cast<int64_t>(selection.getGroup()))
      return emitOpError("reads ")
                 .append(columns.getSelection(), " in groups of ",
                         columns.getGroup(), ", it is made in groups of ",
                         selection.getGroup())
                 .attachNote(selection.getLoc())
             << "the selection is here";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// PhaseOp and what it holds
//===----------------------------------------------------------------------===//

AttendWithOp PhaseOp::getAttention() {
  return cast<AttendWithOp>(getBody()->front());
}

LogicalResult PhaseOp::verify() {
  if ((getWhen() == WhenKind::Otherwise) == static_cast<bool>(getCadenceAttr()))
    return emitOpError(getCadenceAttr() ? "applies otherwise and has a cadence"
                                        : "needs a cadence");
  return success();
}

// N5: a phase is one attention, then refreshes.
LogicalResult PhaseOp::verifyRegions() {
  Block &body = *getBody();
  if (body.empty() || !isa<AttendWithOp>(body.front()))
    return emitOpError("must begin with heddle.attend_with");
  for (Operation &op : llvm::drop_begin(body))
    if (!isa<RefreshOp>(op))
      return op.emitOpError("cannot follow a phase's heddle.attend_with; only "
                            "heddle.refresh can");
  return success();
}

LogicalResult AttendWithOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel =
      lookUp<KernelOp>(symbols, *this, getKernelAttr(), "heddle.kernel");
  if (!kernel)
    return failure();
  if (!kernel.isAttention())
    return emitOpError("needs an attention kernel, found ")
               .append(getKernelAttr())
               .attachNote(kernel.getLoc())
           << "the kernel is here";
  return success();
}

LogicalResult RefreshOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto selection = lookUp<SelectionOp>(symbols, *this, getSelectionAttr(),
                                       "heddle.selection");
  auto kernel =
      lookUp<KernelOp>(symbols, *this, getKernelAttr(), "heddle.kernel");
  if (!selection || !kernel)
    return failure();
  if (!kernel.isSelect() || *kernel.getGroup() != selection.getGroup() ||
      *kernel.getScorer() != selection.getScorer()) {
    InFlightDiagnostic error = emitOpError("needs a select kernel of group ");
    error << selection.getGroup() << " by "
          << stringifyScorer(selection.getScorer());
    error.attachNote(kernel.getLoc()) << "the kernel is here";
    return error;
  }
  return success();
}
