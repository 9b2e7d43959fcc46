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
#include "heddle/Dialect/Heddle/IR/PairSet.h"
#include "heddle/Dialect/Heddle/IR/Program.h"

#include "llvm/ADT/STLExtras.h"

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

/// S3, S4, S5, S10 for what one attend reads.
static LogicalResult verifyReads(AttendOp attend) {
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
    const bool first = includesFirst(refreshed);
    // At once, it is not refreshed while attention is dense.
    const bool ready =
        !until ? first
        : attend.getAtOnce() && !includesFirst(until.getValue())
            ? includesAll(refreshed, until.getValue())
            : first || (!attend.getAtOnce() &&
                        startsNoLater(refreshed, until.getValue()));
    if (ready)
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

/// F3, F4: what is computed beside attention knows logits by their product
/// alone.
static LogicalResult verifyScored(ScheduleOp schedule, AttendOp attend) {
  if (scoresOf(attend.getScores()).empty())
    return success();
  for (auto reuse : schedule.getOps<ReuseOp>())
    if (reuse.getAttention() == ReusedAttention::Propagated)
      return attend
                 .emitOpError("has scores, by which context(propagating) can't "
                              "weigh what changed; reuse context")
                 .attachNote(reuse.getLoc())
             << "the reuse is here";
  if (!attend.getPairs())
    return success();
  for (SelectOp select : PairSet::of(attend.getPairs()).selections)
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
  for (auto attend : getOps<AttendOp>())
    good &= succeeded(verifyReads(attend)) &&
            succeeded(verifyScored(*this, attend));
  // K5, U4: one of each.
  good &= succeeded(verifyOnlyOne<VisibleOp>(*this));
  good &= succeeded(verifyOnlyOne<ReuseOp>(*this));
  good &= succeeded(verifyCommits(*this));
  if (!good)
    return failure();
  FailureOr<Program> program = Program::of(*this);
  return failed(program) ? success() : program->check();
}
