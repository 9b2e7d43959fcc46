//===- Program.cpp - Rows, keys, reuse and commit as data -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Heddle/IR/Program.h"

#include "bundle/program/ProgramChecks.h"
#include "heddle/Dialect/Heddle/IR/PairSet.h"
#include "heddle/Support/ScoreRegion.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::heddle;
namespace bundle = ::heddle::bundle;

namespace {

/// Makes the program of a schedule or plan.
class Reader {
public:
  explicit Reader(Operation *op) : body(op->getRegion(0).front()) {}

  FailureOr<Program> read();

private:
  void findUsed();
  LogicalResult addSet(Operation *op);
  LogicalResult addVisible(VisibleOp op);
  LogicalResult addPass(RecomputeOp op);
  LogicalResult addReuse(ReuseOp op);
  LogicalResult addCommit(CommitOp op);
  LogicalResult addSelections();
  void addRefreshes();
  /// Sets an index to that of the set, if there is one.
  LogicalResult find(Value set, int64_t &index) const {
    auto it = program.sets.find(set);
    if (it != program.sets.end())
      index = it->second;
    return success(!set || it != program.sets.end());
  }
  /// The same, of a set that is not of all positions.
  LogicalResult findSome(Value set, int64_t &index) const;

  Block &body;
  Program program;
  SmallPtrSet<Operation *, 16> used;
};

} // namespace

/// What never is the rule of a step says nothing of the run either.
static bool isIdle(CommitOp commit) {
  return llvm::any_of(commit.getOn(), [](Value on) {
    CadenceAttr cadence = cadenceOf(on);
    return cadence && cadence.getValue().kind == CadenceKind::Never;
  });
}

/// The sets that rows, keys and commit are made of. They may form a cycle:
/// dominance is verified later.
void Reader::findUsed() {
  SmallVector<Value> left;
  for (Operation &op : body) {
    auto commit = dyn_cast<CommitOp>(op);
    if (commit ? !isIdle(commit)
               : isa<VisibleOp, RecomputeOp, ReuseOp, SelectionOp>(op))
      llvm::append_range(left, op.getOperands());
    if (auto attend = dyn_cast<AttendOp>(op))
      for (SelectOp select : selectionsOf(attend))
        llvm::append_range(left, select.getOperands());
  }
  while (!left.empty()) {
    Operation *op = left.pop_back_val().getDefiningOp();
    if (op && used.insert(op).second)
      llvm::append_range(left, op->getOperands());
  }
}

LogicalResult Reader::findSome(Value set, int64_t &index) const {
  int64_t found = -1;
  if (failed(find(set, found)))
    return failure();
  if (found >= 0 &&
      program.manifest.positions[static_cast<size_t>(found)].kind !=
          PositionsKind::All)
    index = found;
  return success();
}

/// Sets a cadence to that of the value, if there is one.
static LogicalResult readCadence(Value value, bundle::Cadence &cadence) {
  CadenceAttr attr = cadenceOf(value);
  if (attr)
    cadence = attr.getValue();
  return success(!value || attr);
}

/// The name that the source has for a set. A plain one says no more than the
/// set does, and a schedule that is printed has it where its source has none.
static StringRef nameOf(Operation *op) {
  StringRef name = writtenName(op), stem = name.rtrim("0123456789");
  const bool isPlain = name == plainName(op) ||
                       (stem.size() < name.size() && stem.consume_back("_") &&
                        stem == plainName(op));
  // A location that a source states may have any text.
  const bool isName =
      name.size() <= bundle::Positions::longestName &&
      llvm::all_of(name, [](char c) { return llvm::isPrint(c) && c != ' '; });
  return isPlain || !isName ? "" : name;
}

LogicalResult Reader::addSet(Operation *op) {
  using Kind = bundle::Positions::Kind;
  bundle::Positions set;
  if (auto positions = dyn_cast<PositionsOp>(op)) {
    set = positions.getSet();
  } else {
    // Such ops have the words of their kinds.
    std::optional<Kind> kind = wordOf<Kind>(op->getName().stripDialect());
    if (isa<FixOp>(op))
      kind = Kind::Fixed;
    if (!kind)
      return failure();
    set.kind = *kind;
    if (auto count = op->getAttrOfType<IntegerAttr>("count"))
      set.count = count.getInt();
    if (auto confident = dyn_cast<ConfidentOp>(op))
      set.near = static_cast<int64_t>(confident.getNear().value_or(0));
    if (auto attended = dyn_cast<AttendedOp>(op))
      set.share = attended.getShare().getValue();
  }
  for (Value operand : op->getOperands())
    if (isa<PositionsType>(operand.getType())
            ? failed(find(operand, set.of.emplace_back()))
            : failed(readCadence(operand, set.cadence)))
      return failure();
  std::vector<bundle::Positions> &sets = program.manifest.positions;
  // As the canonical form has it, which the verifier can't wait for.
  auto isAll = [&](int64_t part) {
    return sets[static_cast<size_t>(part)].kind == Kind::All;
  };
  if (set.kind == Kind::Union && llvm::any_of(set.of, isAll))
    set = {};
  else if (set.kind == Kind::Intersect && !llvm::all_of(set.of, isAll))
    set.of.erase(std::remove_if(set.of.begin(), set.of.end(), isAll),
                 set.of.end());
  else if (set.kind == Kind::Intersect && !set.of.empty())
    set = {};
  auto alike = llvm::find_if(
      sets, [&](const bundle::Positions &other) { return set.isLike(other); });
  program.sets[op->getResult(0)] = alike - sets.begin();
  if (alike == sets.end()) {
    set.name = nameOf(op);
    sets.push_back(std::move(set));
    program.positions.push_back(op);
  }
  return success();
}

static LogicalResult addConditions(OperandRange cadences,
                                   std::vector<bundle::When> &when) {
  for (Value cadence : cadences)
    if (failed(readCadence(
            cadence,
            when.emplace_back(bundle::When{WhenKind::On, {}}).cadence)))
      return failure();
  return success();
}

/// None: all.
static std::vector<bundle::LayerRange>
rangesOf(std::optional<ArrayAttr> layers) {
  std::vector<bundle::LayerRange> ranges;
  if (layers)
    for (auto range : layers->getAsRange<LayerRangeAttr>())
      ranges.push_back({range.getFirst(), range.getLast()});
  return ranges;
}

LogicalResult Reader::addVisible(VisibleOp op) {
  program.visible = op;
  if (failed(findSome(op.getPositions(), program.manifest.visible)))
    return failure();
  return program.manifest.visible < 0
             ? success()
             : readCadence(op.getAllOn(), program.manifest.allVisible);
}

LogicalResult Reader::addPass(RecomputeOp op) {
  bundle::Pass pass = op.getRule();
  pass.layers = rangesOf(op.getLayers());
  if (failed(addConditions(op.getOn(), pass.when)) ||
      failed(findSome(op.getRows(), pass.rows)) ||
      failed(find(op.getAmong(), pass.among)))
    return failure();
  // A cosine is never more than 1: every row is salient.
  if (pass.comparesContexts() && pass.below.num > pass.below.den) {
    pass.exact = bundle::Pass::Exact::All;
    pass.below = {};
  }
  program.manifest.passes.push_back(std::move(pass));
  program.passes.push_back(op);
  return success();
}

LogicalResult Reader::addReuse(ReuseOp op) {
  bundle::Reuse reuse = op.getRule();
  if (failed(find(op.getInside(), reuse.inside)) ||
      failed(readCadence(op.getOn(), reuse.cadence)) ||
      failed(find(op.getRefreshed(), reuse.refreshed)))
    return failure();
  if (op.getLayersAttr())
    program.manifest.layeredReuses.push_back({rangesOf(op.getLayers()), reuse});
  else
    program.manifest.reuse = reuse;
  program.reuses.push_back(op);
  return success();
}

LogicalResult Reader::addCommit(CommitOp op) {
  bundle::CommitRule rule = op.getRule();
  std::vector<bundle::When> when;
  if (failed(find(op.getWithin(), rule.within)) ||
      failed(addConditions(op.getOn(), when)))
    return failure();
  if (when.empty())
    program.manifest.commit = rule;
  else
    program.manifest.datedCommits.push_back({std::move(when), rule});
  program.commits.push_back(op);
  return success();
}

/// Those of a plan, or of a schedule those that are read.
LogicalResult Reader::addSelections() {
  auto add = [&](auto op, StringRef name, CadenceAttr cadence, auto isOuter) {
    bundle::Selection selection = op.getRule();
    selection.name = name.str();
    selection.cadence = cadence.getValue();
    selection.rows = selection.always = selection.within = -1;
    if (failed(find(op.getRows(), selection.rows)) ||
        failed(find(op.getAlways(), selection.always)))
      return failure();
    if (op.getWithin()) {
      auto *outer = llvm::find_if(program.selections, isOuter);
      if (outer == program.selections.end())
        return failure();
      selection.within = outer - program.selections.begin();
    }
    program.selections.push_back(op);
    program.manifest.selections.push_back(std::move(selection));
    return success();
  };
  for (auto op : body.getOps<SelectionOp>())
    if (failed(add(op, op.getSymName(), op.getCadenceAttr(),
                   [name = op.getWithinAttr()](Operation *other) {
                     return cast<SelectionOp>(other).getSymName() ==
                            name.getValue();
                   })))
      return failure();
  for (auto attend : body.getOps<AttendOp>()) {
    for (SelectOp select : selectionsOf(attend)) {
      CadenceAttr cadence = cadenceOf(select.getCadence());
      bool known = llvm::any_of(program.selections, [&](Operation *other) {
        return sameSelection(select, cast<SelectOp>(other));
      });
      if (!known && cadence &&
          failed(add(select, select.getName().value_or(""), cadence,
                     [outer = select.getOuter()](Operation *other) {
                       return sameSelection(outer, cast<SelectOp>(other));
                     })))
        return failure();
    }
  }
  return success();
}

/// The passes that the refreshes of a schedule's selections ask for.
void Reader::addRefreshes() {
  std::vector<bundle::Pass> &passes = program.manifest.passes;
  if (passes.empty() || !isa<ScheduleOp>(body.getParentOp()))
    return;
  size_t front = 0;
  for (auto [op, selection] :
       llvm::zip_equal(program.selections, program.manifest.selections)) {
    const bundle::When refresh = {bundle::When::Kind::On, selection.cadence};
    // Nothing to add if one of the passes in front does it already.
    bool there = false;
    for (const bundle::Pass &pass : passes) {
      if (!pass.computesAllRows())
        break;
      there |= pass.layers.empty() && pass.when.size() == 1 &&
               pass.when.front() == refresh;
    }
    if (there)
      continue;
    bundle::Pass whole;
    whole.when = {refresh};
    passes.insert(passes.begin() + static_cast<ptrdiff_t>(front), whole);
    program.passes.insert(program.passes.begin() + front, op);
    ++front;
  }
}

FailureOr<Program> Reader::read() {
  findUsed();
  for (Operation &op : body)
    if (op.getNumResults() == 1 &&
        isa<PositionsType>(op.getResult(0).getType()) && used.contains(&op))
      if (failed(addSet(&op)))
        return failure();
  for (Operation &op : body) {
    LogicalResult added =
        llvm::TypeSwitch<Operation *, LogicalResult>(&op)
            .Case([&](VisibleOp visible) { return addVisible(visible); })
            .Case([&](ReuseOp reuse) { return addReuse(reuse); })
            .Case([&](CommitOp commit) {
              return isIdle(commit) ? success() : addCommit(commit);
            })
            .Case([&](RecomputeOp pass) { return addPass(pass); })
            .Default([](Operation *) { return success(); });
    if (failed(added))
      return failure();
  }
  if (failed(addSelections()))
    return failure();
  addRefreshes();
  return std::move(program);
}

//===----------------------------------------------------------------------===//
// Of a plan: kernels and rules
//===----------------------------------------------------------------------===//

namespace {
/// Indices that symbols get in the manifest.
struct Indices {
  llvm::StringMap<int64_t> selections, kernels;
};
} // namespace

static bundle::Kernel kernelOf(KernelOp op, const Indices &indices) {
  bundle::Kernel result = op.getForm();
  result.name = op.getSymName().str();
  result.scores = scoresOf(op.getScores());
  for (auto term : op.getTerms().getAsRange<TermAttr>()) {
    bundle::Term &own = result.terms.emplace_back(term.getSet());
    if (FlatSymbolRefAttr selection = term.getSelection())
      own.selection = indices.selections.lookup(selection.getValue());
  }
  return result;
}

static bundle::Phase phaseOf(PhaseOp op, const Indices &indices) {
  bundle::Phase result;
  result.when = op.getWhen();
  result.attention = indices.kernels.lookup(op.getAttention().getKernel());
  if (std::optional<StringRef> shadow = op.getAttention().getShadow())
    result.shadow = indices.kernels.lookup(*shadow);
  if (std::optional<StringRef> rollout = op.getAttention().getRollout())
    result.rollout = indices.kernels.lookup(*rollout);
  result.refreshesFirst = op.refreshesFirst();
  if (ScoreWithOp scoring = op.getScoring())
    result.scoring = indices.kernels.lookup(scoring.getKernel());
  for (auto refresh : op.getOps<RefreshOp>()) {
    bundle::Phase::Refresh &own = result.refreshes.emplace_back();
    own.selection = indices.selections.lookup(refresh.getSelection());
    own.kernel = indices.kernels.lookup(refresh.getKernel());
    for (ScoreWithOp score : refresh.getScorings())
      own.scorings.push_back(
          score.asData(indices.kernels.lookup(score.getKernel())));
  }
  for (auto measure : op.getOps<MeasureOp>()) {
    bundle::Phase::Measure &own = result.measures.emplace_back();
    own.cadence = measure.getCadence();
    if (std::optional<StringRef> kernel = measure.getKernel())
      own.kernel = indices.kernels.lookup(*kernel);
  }
  return result;
}

static void addRules(PlanOp plan, bundle::Manifest &manifest) {
  // Ops may stand in any order, so symbols get their indices first.
  Indices indices;
  for (auto op : plan.getOps<SelectionOp>())
    indices.selections.try_emplace(op.getSymName(), indices.selections.size());
  for (auto op : plan.getOps<KernelOp>())
    indices.kernels.try_emplace(op.getSymName(), indices.kernels.size());
  for (auto op : plan.getOps<KernelOp>())
    manifest.kernels.push_back(kernelOf(op, indices));
  for (auto op : plan.getOps<RuleOp>()) {
    bundle::Rule &rule = manifest.rules.emplace_back();
    rule.isDefault = op.isDefault();
    if (LayerRangeAttr layers = op.getLayersAttr()) {
      rule.firstLayer = layers.getFirst();
      rule.lastLayer = layers.getLast();
    }
    for (auto phase : op.getOps<PhaseOp>())
      rule.phases.push_back(phaseOf(phase, indices));
  }
}

FailureOr<Program> Program::of(Operation *scheduleOrPlan) {
  FailureOr<Program> program = Reader(scheduleOrPlan).read();
  if (auto plan = dyn_cast<PlanOp>(scheduleOrPlan); plan && succeeded(program))
    addRules(plan, program->manifest);
  return program;
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

LogicalResult Program::check() const {
  // S9: a manifest has room for so many.
  auto isOneTooMany = [](ArrayRef<Operation *> ops, size_t most,
                         StringRef what) {
    if (ops.size() <= most)
      return false;
    ops[most]->emitOpError("is one ") << what << " at most " << most;
    return true;
  };
  if (isOneTooMany(positions, bundle::maxPositions,
                   "set of positions too many: a schedule uses") ||
      isOneTooMany(passes, bundle::maxPasses,
                   "pass too many: a schedule has") ||
      isOneTooMany(reuses, bundle::maxPasses, "too many: a schedule has") ||
      isOneTooMany(commits, bundle::maxPasses, "too many: a schedule has"))
    return failure();
  std::optional<bundle::ProgramProblem> problem =
      bundle::checkProgram(manifest);
  if (!problem)
    return success();
  using At = bundle::ProgramProblem::At;
  Operation *op = nullptr, *other = nullptr;
  switch (problem->at) {
  case At::Positions:
    op = positions[problem->index];
    break;
  case At::Visible:
    op = visible;
    break;
  case At::Pass:
    op = passes[problem->index];
    if (problem->other)
      other = passes[*problem->other];
    break;
  case At::Reuse:
    op = reuses[std::min(problem->index, reuses.size() - 1)];
    break;
  case At::Commit:
    assert(problem->index < commits.size() && "the model's own rule is fine");
    op = commits[problem->index];
    break;
  case At::Selection:
    op = selections[problem->index];
    break;
  }
  InFlightDiagnostic error = op->emitOpError(problem->what);
  if (other)
    error.attachNote(other->getLoc()) << "they are named here";
  return error;
}
