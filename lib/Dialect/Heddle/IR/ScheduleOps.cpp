//===- ScheduleOps.cpp - The schedule level -------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Assembly.h"
#include "Parameters.h"
#include "Verify.h"
#include "bundle/abi/Abi.h"
#include "bundle/program/ProgramChecks.h"
#include "heddle/Dialect/Heddle/IR/LayerParts.h"
#include "heddle/Dialect/Heddle/IR/PairSet.h"
#include "heddle/Dialect/Heddle/IR/Program.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::heddle;
namespace bundle = ::heddle::bundle;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

void CadenceOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), "cadence");
}

void SelectOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), getName().value_or(spelled(getRule().kind)));
}

void DenseOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), "dense");
}

// L2: no layer is named twice.
LogicalResult SelectOp::verify() {
  if (!getLayersAttr())
    return success();
  if (getLayersAttr().empty())
    return emitOpError("names no layer in layers(...)");
  NamedLayers<SelectOp> named;
  for (auto range : getLayersAttr().getAsRange<LayerRangeAttr>())
    if (failed(named.add(*this, range, "names a layer twice")))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// AttendOp
//===----------------------------------------------------------------------===//

LogicalResult AttendOp::verify() {
  if (getLayersAttr() && getLayersAttr().empty())
    return emitOpError("names no layer in layers(...)");
  if (getUntil() && !getPairs())
    return emitOpError("is dense until a cadence and needs the pairs to go on "
                       "with");
  return success();
}

// F1, F2: scores are a function that bundles can hold.
LogicalResult AttendOp::verifyRegions() {
  return success(succeeded(readScores(getScores())));
}

void AttendOp::getAsmBlockArgumentNames(Region &region,
                                        OpAsmSetValueNameFn setName) {
  nameScoreArguments(region, setName);
}

LogicalResult AttendOp::canonicalize(AttendOp op, PatternRewriter &rewriter) {
  if (!op.getPairs() || !op.getPairs().getDefiningOp<DenseOp>())
    return failure();
  rewriter.modifyOpInPlace(op, [&] {
    op.getPairsMutable().clear();
    op.getUntilMutable().clear();
    op.setAtOnce(false);
  });
  return success();
}

//===----------------------------------------------------------------------===//
// ScheduleOp
//===----------------------------------------------------------------------===//

// Read by hand, since the parameters are known while the region is read.
ParseResult ScheduleOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr name;
  Parameters parameters;
  SMLoc loc = parser.getCurrentLocation();
  if (failed(parser.parseOptionalSymbolName(
          name, getSymNameAttrName(result.name), result.attributes))) {
    StringRef word;
    if (failed(parser.parseOptionalKeyword(&word)))
      return parser.emitError(loc,
                              "expected the schedule's name, such as @mine");
    return parser.emitError(loc)
           << "expected the schedule's name, found '" << word
           << "'; names begin with @, as @" << word;
  }
  if (parseParameters(parser, parameters) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  Region &body = *result.addRegion();
  {
    ParameterScope scope(parameters);
    loc = parser.getCurrentLocation();
    if (*loc.getPointer() != '{')
      return parser.emitError(loc, "expected '{' and the schedule's ops")
                 .attachNote(parser.getEncodedSourceLoc(parser.getNameLoc()))
             << "the schedule begins here";
    if (parser.parseRegion(body))
      return failure();
  }
  if (body.empty())
    body.emplaceBlock();
  for (const Parameter &parameter : llvm::make_second_range(parameters))
    if (!parameter.used)
      mlir::emitWarning(parser.getEncodedSourceLoc(parameter.loc))
          << "parameter '" << parameter.name
          << "' is named nowhere in the schedule";
  return success();
}

void ScheduleOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getSymName());
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(),
                                           {getSymNameAttrName()});
  printer << ' ';
  printer.printRegion(getBodyRegion());
}

/// S2, L2: attends of disjoint layers, and last one of all others.
static LogicalResult verifyLayers(ScheduleOp schedule) {
  SmallVector<AttendOp> attends(schedule.getOps<AttendOp>());
  NamedLayers<AttendOp> named;
  for (AttendOp attend : attends) {
    const bool last = attend == attends.back();
    if (!attend.getLayersAttr() && !last)
      return attend
                 .emitOpError("names no layers, so that those after it never "
                              "come; write it last")
                 .attachNote(attends.back().getLoc())
             << "the last one is here";
    if (!attend.getLayersAttr())
      return success();
    for (auto range : attend.getLayersAttr().getAsRange<LayerRangeAttr>())
      if (failed(named.add(attend, range,
                           "names layers that another one has; "
                           "give each layer one attend")))
        return failure();
  }
  return schedule.emitOpError("needs a last attend that names no layers: "
                              "it holds for all that no other one names");
}

/// The cadence at whose first step layers of `attend` first refresh a selection
/// on `cadence`; none if that cannot be shown. At once, nothing is refreshed
/// while attention is dense.
static std::optional<bundle::Cadence> firstRefreshed(AttendOp attend,
                                                     bundle::Cadence cadence) {
  CadenceAttr until = cadenceOf(attend.getUntil());
  if (!attend.getAtOnce() || !until || includesFirst(until.getValue()))
    return cadence;
  if (!includesAll(cadence, until.getValue()))
    return std::nullopt;
  return until.getValue();
}

/// Whether `attend` reads no step before the first one of `refreshed`.
static bool readsNoEarlier(AttendOp attend,
                           std::optional<bundle::Cadence> refreshed) {
  CadenceAttr until = cadenceOf(attend.getUntil());
  return refreshed && (includesFirst(*refreshed) ||
                       (until && startsNoLater(*refreshed, until.getValue())));
}

/// S4, S5, S10 for what one attend reads, and S3 for what its layers, which
/// `parts` are, refresh of it.
static LogicalResult verifyReads(AttendOp attend, ArrayRef<LayerPart> parts) {
  CadenceAttr until = cadenceOf(attend.getUntil());
  if (until && until.getValue().kind == CadenceKind::Never)
    return attend
               .emitOpError("is dense until a cadence that never comes; "
                            "write `attend dense`")
               .attachNote(attend.getUntil().getLoc())
           << "the cadence is here";
  PairSet set;
  if (attend.getPairs())
    set = PairSet::of(attend.getPairs());
  if (attend.getAtOnce() && set.selections.empty())
    return attend.emitOpError(
        "reads no selection, so `at_once` says nothing; drop it");
  SmallVector<SelectOp> own;
  for (const LayerPart &part : parts)
    llvm::append_range(own, part.refreshed);
  if (attend.getAtOnce() && own.empty() && !set.dense)
    return attend.emitOpError("has no layer that refreshes a selection, so "
                              "`at_once` says nothing; drop it");
  if (!attend.getPairs())
    return success();
  if (set.dense)
    return success();

  if (static_cast<int64_t>(set.selections.size()) >
      ::heddle::abi::maxIndexLists)
    return attend.emitOpError("reads ")
           << set.selections.size() << " selections; a kernel reads at most "
           << ::heddle::abi::maxIndexLists;

  for (SelectOp select : set.selections) {
    CadenceAttr cadence = cadenceOf(select.getCadence());
    if (!cadence)
      continue; // the verifier of dominance reports it
    const bundle::Cadence refreshed = cadence.getValue();
    if (llvm::none_of(own,
                      [&](SelectOp op) { return sameSelection(op, select); }) ||
        readsNoEarlier(attend, firstRefreshed(attend, refreshed)))
      continue;
    InFlightDiagnostic error = attend.emitOpError(
        "may read a selection before it is first made: its cadence, ");
    const bool never = refreshed.kind == CadenceKind::Never;
    error << toString(refreshed);
    if (until && attend.getAtOnce() && !never)
      error << ", may lack steps of " << toString(until.getValue())
            << ", before which `at_once` refreshes nothing";
    else
      error << (never ? ", has no steps" : ", need not include step 1");
    if (until && !attend.getAtOnce())
      error << ", and may begin after " << toString(until.getValue());
    else if (!until && !never)
      error << "; write `dense until(...) then pairs(...)` with that cadence";
    error.attachNote(select.getLoc()) << "the selection is here";
    return error;
  }
  return success();
}

namespace {
/// The layers that refresh a selection for others.
struct Refreshing {
  bundle::FirstOf first;
  llvm::SmallSetVector<AttendOp, 4> attends; ///< of these layers
};
} // namespace

/// S3, L3 for what layers read that others refresh.
static LogicalResult verifyShared(ArrayRef<LayerPart> parts) {
  std::vector<bundle::LayerSpan> spans;
  for (const LayerPart &part : parts)
    spans.push_back(part.layers
                        ? bundle::LayerSpan{false, part.layers.getFirst(),
                                            part.layers.getLast()}
                        : bundle::LayerSpan());
  const std::vector<int64_t> first = bundle::firstLayers(spans);
  SmallVector<std::pair<SelectOp, Refreshing>> all;
  auto find = [&](SelectOp select) -> Refreshing & {
    for (auto &[other, refreshing] : all)
      if (sameSelection(other, select))
        return refreshing;
    return all.emplace_back(select, Refreshing()).second;
  };
  for (auto [part, layer] : llvm::zip_equal(parts, first))
    for (SelectOp select : part.refreshed)
      if (select.getLayersAttr()) {
        find(select).first.add(layer);
        find(select).attends.insert(part.attend);
      }

  AttendOp attend;
  PairSet set;
  for (auto [part, layer] : llvm::zip_equal(parts, first)) {
    if (part.attend != attend) {
      attend = part.attend;
      set = attend.getPairs() ? PairSet::of(attend.getPairs()) : PairSet();
    }
    if (set.dense)
      continue;
    for (SelectOp select : set.selections) {
      CadenceAttr cadence = cadenceOf(select.getCadence());
      if (!cadence || llvm::any_of(part.refreshed, [&](SelectOp op) {
            return sameSelection(op, select);
          }))
        continue;
      Refreshing &refreshing = find(select);
      if (!refreshing.first.comesBefore(layer))
        return attend.emitOpError("reads a selection in layer ")
                   .append(layer,
                           ", which neither refreshes it nor comes after "
                           "a layer that does; name it in the "
                           "selection's layers(...), or write an attend "
                           "without the selection for it")
                   .attachNote(select.getLoc())
               << "the selection is here";
      for (AttendOp other : refreshing.attends) {
        if (readsNoEarlier(attend, firstRefreshed(other, cadence.getValue())))
          continue;
        InFlightDiagnostic error = attend.emitOpError(
            "may read a selection before the layers that refresh it first do: "
            "on ");
        error << toString(cadence.getValue());
        if (CadenceAttr until = cadenceOf(other.getUntil());
            until && other.getAtOnce())
          error << ", not before " << toString(until.getValue());
        error << "; be dense until(...) it, or let its cadence include step 1";
        error.attachNote(select.getLoc()) << "the selection is here";
        error.attachNote(other.getLoc()) << "its layers have this attend";
        return error;
      }
    }
  }
  return success();
}

/// F3, F4: what is computed beside attention knows logits by their product
/// alone.
static LogicalResult verifyScored(ScheduleOp schedule, AttendOp attend,
                                  ArrayRef<LayerPart> parts) {
  if (scoresOf(attend.getScores()).empty())
    return success();
  for (auto reuse : schedule.getOps<ReuseOp>())
    if (reuse.getAttention() == ReusedAttention::Propagated)
      return attend
                 .emitOpError("has scores, by which context(propagating) can't "
                              "weigh what changed; reuse context")
                 .attachNote(reuse.getLoc())
             << "the reuse is here";
  for (const LayerPart &part : parts)
    for (SelectOp select : part.refreshed)
      if (select.getRule().isolation == Isolation::Filtered)
        return attend
                   .emitOpError(
                       "has scores, which isolating(filtered) can't take "
                       "among the response's keys alone; isolate aligned "
                       "or spans")
                   .attachNote(select.getLoc())
               << "the selection is here";
  return success();
}

LogicalResult ScheduleOp::verifyRegions() {
  // S8: the name can be printed.
  if (!::heddle::bundle::isPlainText(getSymName()))
    return emitOpError("has control characters in its name");
  // S1: a schedule holds nothing but the ops of its level.
  for (Operation &op : *getBody())
    if (!termOf(&op) &&
        !isa<CadenceOp, SelectOp, DenseOp, UnionOp, AttendOp, PositionsOp,
             IntersectOp, ExceptOp, FixOp, NeighborsOp, NearestOp, LastOp,
             HullOp, LeadingOp, PredictingOp, VisibleOp, ReuseOp, RecomputeOp,
             CommitOp>(op))
      return op.emitOpError("does not belong in a heddle.schedule");
  // Each of these is said, whatever the others find.
  bool good = succeeded(verifyLayers(*this));
  SmallVector<LayerPart> parts;
  if (good)
    parts = layerParts(*this);
  else // as if each attend had layers of its own
    for (auto attend : getOps<AttendOp>())
      parts.push_back({attend, {}, PairSet::of(attend.getPairs()).selections});
  for (ArrayRef<LayerPart> left = parts; !left.empty();) {
    AttendOp attend = left.front().attend;
    ArrayRef<LayerPart> own = left.take_while(
        [&](const LayerPart &part) { return part.attend == attend; });
    left = left.drop_front(own.size());
    good &= succeeded(verifyReads(attend, own)) &&
            succeeded(verifyScored(*this, attend, own));
  }
  good = good && succeeded(verifyShared(parts));
  // K5, U4: one of each.
  good &= succeeded(verifyOnlyOne<VisibleOp>(*this));
  good &= succeeded(verifyOnlyOne<ReuseOp>(*this));
  good &= succeeded(verifyCommits(*this));
  if (!good)
    return failure();
  FailureOr<Program> program = Program::of(*this);
  return failed(program) ? success() : program->check();
}
