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
#include "bundle/program/Printable.h"
#include "bundle/program/ProgramChecks.h"
#include "heddle/Dialect/Heddle/IR/LayerParts.h"
#include "heddle/Dialect/Heddle/IR/PairSet.h"
#include "heddle/Dialect/Heddle/IR/Program.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/ConvertUTF.h"

using namespace mlir;
using namespace mlir::heddle;
namespace bundle = ::heddle::bundle;

//===----------------------------------------------------------------------===//
// SelectOp
//===----------------------------------------------------------------------===//

// P18 to P20, so that the other selection can be shown.
static LogicalResult verifyWithin(SelectOp select) {
  if (!select.getWithin())
    return success();
  SelectOp outer = select.getOuter();
  if (!outer)
    return select
               .emitOpError(
                   "chooses within pairs that no selection gives; name a "
                   "`select`")
               .attachNote(select.getWithin().getLoc())
           << "the pairs are here";
  bundle::Selection own = select.getRule(), other = outer.getRule();
  CadenceAttr here = cadenceOf(select.getCadence()),
              there = cadenceOf(outer.getCadence());
  if (!here || !there) // the verifier of dominance reports it
    return success();
  own.cadence = here.getValue();
  other.cadence = there.getValue();
  other.within = outer.getWithin() ? 0 : -1;
  std::optional<std::string> wrong = bundle::checkWithin(own, other);
  if (!wrong && select.getLayersAttr() != outer.getLayersAttr())
    wrong = "is refreshed in other layers than the selection that it chooses "
            "within; write the same layers(...) for both";
  if (!wrong)
    return success();
  return select.emitOpError(*wrong).attachNote(outer.getLoc())
         << "the other selection is here";
}

// L2: no layer is named twice.
LogicalResult SelectOp::verify() {
  // P15, P16: which sets these are does not matter here.
  bundle::Selection rule = getRule();
  rule.rows = getRows() ? 0 : -1;
  rule.always = getAlways() ? 0 : -1;
  rule.within = getWithin() ? 0 : -1;
  if (auto wrong = bundle::checkForm(rule))
    return emitOpError(*wrong);
  if (failed(verifyWithin(*this)))
    return failure();
  if (!getLayersAttr())
    return success();
  if (getLayersAttr().empty())
    return emitOpError("names no layer in layers(...)");
  NamedLayers<SelectOp> named;
  for (auto range : getLayersAttr().getAsRange<LayerRangeAttr>())
    if (failed(named.add(*this, range, /*message=*/"")))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// AttendOp
//===----------------------------------------------------------------------===//

LogicalResult AttendOp::verify() {
  if (getLayersAttr() && getLayersAttr().empty())
    return emitOpError("names no layer in layers(...)");
  const size_t sets = getPairs().size(), ends = getUntil().size();
  if (ends != sets && ends + 1 != sets)
    return emitOpError("has ")
           << sets << " sets of pairs and " << ends
           << " cadences; each stage but the last ends on one";
  return success();
}

SmallVector<AttendOp::Stage, 2> AttendOp::getStages() {
  SmallVector<Stage, 2> stages;
  const bool dense = getUntil().size() == getPairs().size();
  if (dense)
    stages.push_back({Value(), Value()});
  for (Value pairs : getPairs())
    stages.push_back({pairs, Value()});
  for (auto [stage, until] : llvm::zip(stages, getUntil()))
    stage.until = until;
  return stages;
}

// F1, F2: scores are a function that bundles can hold.
LogicalResult AttendOp::verifyRegions() {
  return success(succeeded(readScores(getScores())));
}

void AttendOp::getAsmBlockArgumentNames(Region &region,
                                        OpAsmSetValueNameFn setName) {
  nameScoreArguments(region, setName);
}

// Stages that are dense from the first on are one if nothing else follows; a
// first one that is says so by its word.
LogicalResult AttendOp::canonicalize(AttendOp op, PatternRewriter &rewriter) {
  auto isDense = [](Value pairs) { return pairs.getDefiningOp<DenseOp>(); };
  if (op.getPairs().empty())
    return failure();
  if (llvm::all_of(op.getPairs(), isDense)) {
    rewriter.modifyOpInPlace(op, [&] {
      op.getPairsMutable().clear();
      op.getUntilMutable().clear();
      op.setAtOnce(false);
    });
    return success();
  }
  if (op.getPairs().size() == op.getUntil().size() ||
      !isDense(op.getPairs().front()))
    return failure();
  rewriter.modifyOpInPlace(op, [&] { op.getPairsMutable().erase(0); });
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

static LogicalResult verifyAttends(ScheduleOp schedule) {
  if (failed(verifyLayersOf<AttendOp>(schedule,
                                      "names layers that another one has; "
                                      "give each layer one attend")))
    return failure();
  SmallVector<AttendOp> attends(schedule.getOps<AttendOp>());
  if (attends.empty() || attends.back().getLayersAttr())
    return schedule.emitOpError("needs a last attend that names no layers: "
                                "it holds for all that no other one names");
  return success();
}

/// The cadence that an attend is dense until, null if it begins otherwise.
static CadenceAttr denseUntil(AttendOp attend) {
  AttendOp::Stage first = attend.getStages().front();
  return !first.pairs || PairSet::of(first.pairs).dense ? cadenceOf(first.until)
                                                        : CadenceAttr();
}

/// The cadence at whose first step layers of `attend` first refresh a selection
/// on `cadence`; none if that cannot be shown. At once, nothing is refreshed
/// while attention is dense.
static std::optional<bundle::Cadence> firstRefreshed(AttendOp attend,
                                                     bundle::Cadence cadence) {
  CadenceAttr until = denseUntil(attend);
  if (!attend.getAtOnce() || !until || includesFirst(until.getValue()))
    return cadence;
  if (!includesAll(cadence, until.getValue()))
    return std::nullopt;
  return until.getValue();
}

/// Whether a stage of `attend` reads no step before the first one of
/// `refreshed`: it begins with the last of the cadences that end those before.
static bool readsNoEarlier(AttendOp attend, size_t stage,
                           std::optional<bundle::Cadence> refreshed) {
  return refreshed &&
         (includesFirst(*refreshed) ||
          llvm::any_of(attend.getUntil().take_front(stage), [&](Value until) {
            CadenceAttr cadence = cadenceOf(until);
            return cadence && startsNoLater(*refreshed, cadence.getValue());
          }));
}

/// S4: each stage comes.
static LogicalResult verifyStages(AttendOp attend) {
  for (const AttendOp::Stage &stage : attend.getStages()) {
    CadenceAttr until = cadenceOf(stage.until);
    if (!until || until.getValue().kind != CadenceKind::Never)
      continue;
    return attend
               .emitOpError(stage.pairs
                                ? "attends to pairs until a cadence that never "
                                  "comes; drop what follows"
                                : "is dense until a cadence that never comes; "
                                  "write `attend dense`")
               .attachNote(stage.until.getLoc())
           << "the cadence is here";
  }
  return success();
}

/// S3 for what a stage reads and layers of its own attend refresh.
static LogicalResult verifyOwnRead(AttendOp attend, size_t stage,
                                   SelectOp select) {
  CadenceAttr cadence = cadenceOf(select.getCadence());
  if (!cadence) // the verifier of dominance reports it
    return success();
  const bundle::Cadence refreshed = cadence.getValue();
  if (readsNoEarlier(attend, stage, firstRefreshed(attend, refreshed)))
    return success();
  InFlightDiagnostic error = attend.emitOpError(
      "may read a selection before it is first made: its cadence, ");
  const bool never = refreshed.kind == CadenceKind::Never;
  CadenceAttr until =
      stage > 0 ? cadenceOf(attend.getUntil()[stage - 1]) : CadenceAttr();
  const bool waits = attend.getAtOnce() && denseUntil(attend);
  error << toString(refreshed);
  if (waits && !never)
    error << ", may lack steps of " << toString(denseUntil(attend).getValue())
          << ", before which `at_once` refreshes nothing";
  else
    error << (never ? ", has no steps" : ", need not include step 1");
  if (until && !waits)
    error << ", and may begin after " << toString(until.getValue());
  else if (!until && !never)
    error << "; write `dense until(...) then pairs(...)` with that cadence";
  error.attachNote(select.getLoc()) << "the selection is here";
  return error;
}

/// P20 where nothing is refreshed while attention is dense: then, too, what a
/// selection chooses within comes no later.
static LogicalResult verifyOuter(AttendOp attend, SelectOp select) {
  SelectOp outer = select.getOuter();
  CadenceAttr cadence = outer ? cadenceOf(outer.getCadence()) : CadenceAttr();
  if (!cadence || firstRefreshed(attend, cadence.getValue()))
    return success();
  InFlightDiagnostic error = attend.emitOpError(
      "refreshes a selection within another one whose cadence, ");
  error << toString(cadence.getValue()) << ", may lack steps of "
        << toString(denseUntil(attend).getValue())
        << ", before which `at_once` refreshes nothing";
  error.attachNote(outer.getLoc()) << "the other selection is here";
  return error;
}

/// S4, S5, S10 for what one attend reads, and S3 for what its layers, which
/// `parts` are, refresh of it.
static LogicalResult verifyReads(AttendOp attend, ArrayRef<LayerPart> parts) {
  if (failed(verifyStages(attend)))
    return failure();
  SmallVector<SelectOp> own;
  for (const LayerPart &part : parts)
    llvm::append_range(own, part.refreshed);
  for (SelectOp select : own)
    if (failed(verifyOuter(attend, select)))
      return failure();
  const bool reads =
      llvm::any_of(attend.getStages(), [](const AttendOp::Stage &stage) {
        return !PairSet::of(stage.pairs).selections.empty();
      });
  if (attend.getAtOnce() && !reads)
    return attend.emitOpError(
        "reads no selection, so `at_once` says nothing; drop it");
  if (attend.getAtOnce() && own.empty() && !selectionsOf(attend).empty())
    return attend.emitOpError("has no layer that refreshes a selection, so "
                              "`at_once` says nothing; drop it");
  for (auto [stage, set] : llvm::enumerate(pairsOfStages(attend))) {
    if (static_cast<int64_t>(set.selections.size()) >
        ::heddle::abi::maxIndexLists)
      return attend.emitOpError("reads ")
             << set.selections.size() << " selections; a kernel reads at most "
             << ::heddle::abi::maxIndexLists;
    if (failed(verifyBounds(attend, set)))
      return failure();
    for (SelectOp select : set.selections)
      if (isAmong(select, own) && failed(verifyOwnRead(attend, stage, select)))
        return failure();
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

/// S3, L3 for what a stage of an attend reads in `layer`, which does not
/// refresh it, and in those after it.
static LogicalResult verifySharedRead(AttendOp attend, size_t stage,
                                      SelectOp select, int64_t layer,
                                      const Refreshing &refreshing) {
  CadenceAttr cadence = cadenceOf(select.getCadence());
  if (!cadence)
    return success();
  if (!refreshing.first.comesBefore(layer))
    return attend.emitOpError("reads a selection in layer ")
               .append(layer, ", which neither refreshes it nor comes after "
                              "a layer that does; name it in the "
                              "selection's layers(...), or write an attend "
                              "without the selection for it")
               .attachNote(select.getLoc())
           << "the selection is here";
  for (AttendOp other : refreshing.attends) {
    if (readsNoEarlier(attend, stage,
                       firstRefreshed(other, cadence.getValue())))
      continue;
    InFlightDiagnostic error = attend.emitOpError(
        "may read a selection before the layers that refresh it first do: on ");
    error << toString(cadence.getValue());
    if (CadenceAttr until = denseUntil(other); until && other.getAtOnce())
      error << ", not before " << toString(until.getValue());
    error << "; write `dense until(...) then pairs(...)` with that cadence, or "
             "let it include step 1";
    error.attachNote(select.getLoc()) << "the selection is here";
    error.attachNote(other.getLoc()) << "its layers have this attend";
    return error;
  }
  return success();
}

/// S3, L3 for what layers read that others refresh.
static LogicalResult verifyShared(ArrayRef<LayerPart> parts) {
  std::vector<bundle::LayerSpan> spans;
  for (const LayerPart &part : parts)
    spans.push_back(spanOf(part.layers));
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
  SmallVector<PairSet> stages;
  for (auto [part, layer] : llvm::zip_equal(parts, first)) {
    if (part.attend != attend) {
      attend = part.attend;
      stages = pairsOfStages(attend);
    }
    for (auto [stage, set] : llvm::enumerate(stages))
      for (SelectOp select : set.selections) {
        if (isAmong(select, part.refreshed))
          continue;
        const Refreshing &refreshing = find(select);
        if (failed(verifySharedRead(attend, stage, select, layer, refreshing)))
          return failure();
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
  // Whatever layers it keeps it in.
  for (auto reuse : schedule.getOps<ReuseOp>())
    if (reuse.getRule().attention == ReusedAttention::Propagated)
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

/// `check` takes whether an attend is dense, and its scores; `why` is there.
static LogicalResult verifyDense(
    ScheduleOp schedule, Operation *why,
    function_ref<std::optional<std::string>(bool, const bundle::Scores &)>
        check) {
  for (auto attend : schedule.getOps<AttendOp>()) {
    const SmallVector<AttendOp::Stage, 2> stages = attend.getStages();
    const SmallVector<PairSet> sets = pairsOfStages(attend);
    const bool dense = llvm::all_of(llvm::seq(stages.size()), [&](size_t i) {
      return !stages[i].pairs || sets[i].dense;
    });
    if (auto problem = check(dense, scoresOf(attend.getScores())))
      return attend.emitOpError(*problem).attachNote(why->getLoc())
             << "the " << why->getName().stripDialect() << " is here";
  }
  return success();
}

/// U8, R20, R25, M13: attention that is kept outside of a set, is of rows that
/// are not visible, is added up, or is of shadows.
static LogicalResult verifyAllDense(ScheduleOp schedule) {
  for (auto reuse : schedule.getOps<ReuseOp>())
    if (reuse.getRule().attention == ReusedAttention::Outside &&
        failed(verifyDense(schedule, reuse, bundle::checkOutside)))
      return failure();
  for (auto recompute : schedule.getOps<RecomputeOp>())
    if (recompute.getRule().unseen &&
        failed(verifyDense(schedule, recompute, bundle::checkUnseen)))
      return failure();
  for (auto attended : schedule.getOps<AttendedOp>())
    if (failed(verifyDense(schedule, attended, bundle::checkRollout)))
      return failure();
  for (auto commit : schedule.getOps<CommitOp>())
    if (bundle::CommitRule(commit.getRule()).hasShadow() &&
        failed(verifyDense(schedule, commit, bundle::checkShadow)))
      return failure();
  return success();
}

LogicalResult ScheduleOp::verifyRegions() {
  // S8: the name can be printed, in JSON, too.
  StringRef name = getSymName();
  if (name.empty())
    return emitOpError("has an empty name, expected one such as @dense");
  auto *start = reinterpret_cast<const llvm::UTF8 *>(name.begin());
  if (!llvm::isLegalUTF8String(
          &start, reinterpret_cast<const llvm::UTF8 *>(name.end())))
    return emitOpError("has a name that is not UTF-8, @\"")
           << ::heddle::printable(name)
           << "\"; write it in letters, such as @dense";
  if (!::heddle::bundle::isPlainText(name))
    return emitOpError("has control characters in its name");
  // S1: a schedule holds nothing but the ops of its level.
  for (Operation &op : *getBody()) {
    auto name = op.getName().getRegisteredInfo();
    if (!name || !isOfSchedules(*name))
      return op.emitOpError("does not belong in a heddle.schedule");
  }
  // Each of these is said, whatever the others find.
  bool good = succeeded(verifyAttends(*this));
  SmallVector<LayerPart> parts;
  if (good)
    parts = layerParts(*this);
  else // as if each attend had layers of its own
    for (auto attend : getOps<AttendOp>())
      parts.push_back({attend, {}, selectionsOf(attend)});
  for (ArrayRef<LayerPart> left = parts; !left.empty();) {
    AttendOp attend = left.front().attend;
    ArrayRef<LayerPart> own = left.take_while(
        [&](const LayerPart &part) { return part.attend == attend; });
    left = left.drop_front(own.size());
    good &= succeeded(verifyReads(attend, own)) &&
            succeeded(verifyScored(*this, attend, own));
  }
  good = good && succeeded(verifyShared(parts));
  // K5: one.
  good &= succeeded(verifyOnlyOne<VisibleOp>(*this));
  good &= succeeded(verifyReuses(*this)) && succeeded(verifyAllDense(*this));
  good &= succeeded(verifyCommits(*this));
  if (!good)
    return failure();
  FailureOr<Program> program = Program::of(*this);
  return failed(program) ? success() : program->check();
}
