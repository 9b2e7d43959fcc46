//===- Program.cpp - Rows, keys, reuse and commit as data -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Heddle/IR/Program.h"

#include "bundle/program/ProgramChecks.h"
#include "heddle/Dialect/Heddle/IR/PairSet.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::heddle;
namespace bundle = ::heddle::bundle;

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

/// The dialect's enumerations have the bundle's cases in the bundle's order.
template <typename To, typename From> static To convert(From value) {
  return static_cast<To>(value);
}
#define HEDDLE_SAME(DIALECT, BUNDLE)                                           \
  static_assert(static_cast<int>(DIALECT) == static_cast<int>(bundle::BUNDLE))
HEDDLE_SAME(CadenceKind::Never, Cadence::Kind::Never);
HEDDLE_SAME(CadenceKind::At, Cadence::Kind::At);
HEDDLE_SAME(CadenceKind::Power, Cadence::Kind::Power);
HEDDLE_SAME(KeepRule::FloorPlusOne, KeepRule::FloorPlusOne);
HEDDLE_SAME(SelectionKind::Blocks, Selection::Kind::Blocks);
HEDDLE_SAME(Isolation::Spans, Selection::Isolation::Spans);
HEDDLE_SAME(Isolation::Filtered, Selection::Isolation::Filtered);
HEDDLE_SAME(Scale::Heads, Selection::Scale::Heads);
HEDDLE_SAME(PositionsKind::Response, Positions::Kind::Response);
HEDDLE_SAME(PositionsKind::FromBlock, Positions::Kind::FromBlock);
HEDDLE_SAME(PositionsKind::Committed, Positions::Kind::Committed);
HEDDLE_SAME(PositionsKind::Next, Positions::Kind::Next);
HEDDLE_SAME(PositionsKind::Fixed, Positions::Kind::Fixed);
HEDDLE_SAME(PositionsKind::Neighbors, Positions::Kind::Neighbors);
HEDDLE_SAME(PositionsKind::Predicting, Positions::Kind::Predicting);
HEDDLE_SAME(PositionsKind::Except, Positions::Kind::Except);
HEDDLE_SAME(PositionsKind::Last, Positions::Kind::Last);
HEDDLE_SAME(Exact::Salient, Pass::Exact::Salient);
HEDDLE_SAME(Exact::LeastSimilar, Pass::Exact::LeastSimilar);
HEDDLE_SAME(Exact::SalientFfn, Pass::Exact::SalientFfn);
HEDDLE_SAME(ReusedAttention::Context, Reuse::Attention::Context);
HEDDLE_SAME(ReusedAttention::Output, Reuse::Attention::Output);
HEDDLE_SAME(CommitKind::Factor, CommitRule::Kind::Factor);
HEDDLE_SAME(CommitKind::RandomOrder, CommitRule::Kind::RandomOrder);
HEDDLE_SAME(CommitKind::Timesteps, CommitRule::Kind::Timesteps);
HEDDLE_SAME(CommitKind::Even, CommitRule::Kind::Even);
HEDDLE_SAME(CommitKind::EvenAbove, CommitRule::Kind::EvenAbove);
#undef HEDDLE_SAME

bundle::Ratio mlir::heddle::toBundle(RatioAttr ratio) {
  return ratio ? bundle::Ratio{ratio.getNum(), ratio.getDen()}
               : bundle::Ratio{};
}

bundle::Cadence mlir::heddle::toBundle(CadenceAttr cadence) {
  bundle::Cadence result;
  result.kind = convert<bundle::Cadence::Kind>(cadence.getKind());
  result.fraction = toBundle(cadence.getFraction());
  result.count = cadence.getCount();
  result.period = cadence.getPeriod();
  result.step = cadence.getStep();
  result.seed = cadence.getSeed();
  result.from = cadence.getFrom();
  result.inBlock = cadence.getInBlock();
  result.afterEos = cadence.getAfterEos();
  return result;
}

CadenceAttr mlir::heddle::fromBundle(MLIRContext *context,
                                     const bundle::Cadence &cadence) {
  RatioAttr fraction;
  if (cadence.fraction.num > 0)
    fraction =
        RatioAttr::get(context, cadence.fraction.num, cadence.fraction.den);
  return CadenceAttr::get(context, convert<CadenceKind>(cadence.kind), fraction,
                          cadence.count, cadence.period, cadence.step,
                          cadence.seed, cadence.from, cadence.inBlock,
                          cadence.afterEos);
}

static bundle::When on(const bundle::Cadence &cadence) {
  return {bundle::When::Kind::On, cadence};
}

/// SelectOp and SelectionOp have the same accessors but for the cadence.
template <typename OpTy>
static bundle::Selection exportSelection(OpTy op, StringRef name,
                                         CadenceAttr cadence) {
  bundle::Selection result;
  result.name = name.str();
  result.kind = convert<bundle::Selection::Kind>(op.getKind());
  result.keep = toBundle(op.getKeep());
  result.rule = convert<bundle::KeepRule>(op.getRounding());
  result.group = static_cast<int64_t>(op.getGroup());
  result.scorer = stringifyScorer(op.getScorer()).str();
  result.cadence = toBundle(cadence);
  result.isolation = convert<bundle::Selection::Isolation>(op.getIsolation());
  result.scale = convert<bundle::Selection::Scale>(op.getScale());
  result.perKvHead = op.getPerKvHead();
  return result;
}

static bundle::Reuse reuseOf(ReuseOp op) {
  return {op.getKv(), convert<bundle::Reuse::Attention>(op.getAttention()),
          op.getFfn()};
}

/// RecomputeOp and PassOp, CommitOp and CommitRuleOp: what they have alike.
template <typename OpTy> static void setExact(OpTy op, bundle::Pass &pass) {
  pass.exact = convert<bundle::Pass::Exact>(op.getExact());
  pass.alone = op.getAlone();
  bundle::Ratio ratio = toBundle(op.getRatioAttr());
  (pass.comparesContexts() ? pass.below : pass.keep) = ratio;
}
template <typename OpTy> static bundle::CommitRule commitOf(OpTy op) {
  bundle::CommitRule rule;
  rule.kind = convert<bundle::CommitRule::Kind>(op.getKind());
  rule.ratio = toBundle(op.getRatioAttr());
  rule.count = static_cast<int64_t>(op.getCount().value_or(0));
  rule.lastAlone = op.getLastAlone();
  rule.leastPasses = static_cast<int64_t>(op.getPasses().value_or(1));
  rule.stopAtEos = op.getStopAtEos();
  rule.narrows = op.getNarrows();
  return rule;
}

/// The rule of some steps, or without a cadence that of the others.
static void addCommit(Program &program, Operation *op, bundle::CommitRule rule,
                      std::vector<bundle::When> when) {
  if (when.empty())
    program.manifest.commit = rule;
  else
    program.manifest.datedCommits.push_back({std::move(when), rule});
  program.commits.push_back(op);
}

//===----------------------------------------------------------------------===//
// Of a schedule
//===----------------------------------------------------------------------===//

namespace {

/// Makes the program of a schedule.
class Reader {
public:
  explicit Reader(ScheduleOp schedule) : schedule(schedule) {}

  FailureOr<Program> read();

private:
  void findUsed();
  LogicalResult addSet(Operation *op);
  LogicalResult addPass(RecomputeOp op);
  void addSelections();
  FailureOr<int64_t> indexOf(Value set) const {
    auto it = indices.find(set);
    if (it == indices.end())
      return failure();
    return it->second;
  }
  /// The same; -1 for no set and for all positions.
  FailureOr<int64_t> indexOrAll(Value set) const;

  ScheduleOp schedule;
  Program program;
  SmallPtrSet<Operation *, 16> used;
  llvm::DenseMap<Value, int64_t> indices;
};

} // namespace

/// What never is the rule of a step says nothing of the run either.
static bool isIdle(CommitOp commit) {
  return llvm::any_of(commit.getOn(), [](Value on) {
    CadenceAttr cadence = cadenceOf(on);
    return cadence && cadence.getKind() == CadenceKind::Never;
  });
}

/// The sets that rows, keys and commit are made of. They may form a cycle:
/// dominance is verified later.
void Reader::findUsed() {
  SmallVector<Value> left;
  for (Operation &op : *schedule.getBody()) {
    auto commit = dyn_cast<CommitOp>(op);
    if (commit ? !isIdle(commit) : isa<VisibleOp, RecomputeOp>(op))
      llvm::append_range(left, op.getOperands());
  }
  while (!left.empty()) {
    Operation *op = left.pop_back_val().getDefiningOp();
    if (op && used.insert(op).second)
      llvm::append_range(left, op->getOperands());
  }
}

FailureOr<int64_t> Reader::indexOrAll(Value set) const {
  if (!set)
    return -1;
  FailureOr<int64_t> index = indexOf(set);
  if (succeeded(index) &&
      program.manifest.positions[static_cast<size_t>(*index)].kind ==
          bundle::Positions::Kind::All)
    return -1;
  return index;
}

LogicalResult Reader::addSet(Operation *op) {
  using Kind = bundle::Positions::Kind;
  bundle::Positions set;
  Value cadence;
  if (auto positions = dyn_cast<PositionsOp>(op)) {
    set.kind = convert<Kind>(positions.getKind());
    set.count = static_cast<int64_t>(positions.getCount());
    cadence = positions.getSince();
  } else {
    set.kind = llvm::TypeSwitch<Operation *, Kind>(op)
                   .Case([](UnionOp) { return Kind::Union; })
                   .Case([](IntersectOp) { return Kind::Intersect; })
                   .Case([](ExceptOp) { return Kind::Except; })
                   .Case([](FixOp) { return Kind::Fixed; })
                   .Case([](NeighborsOp) { return Kind::Neighbors; })
                   .Case([](LastOp) { return Kind::Last; })
                   .Case([](HullOp) { return Kind::Hull; })
                   .Case([](LeadingOp) { return Kind::Leading; })
                   .Case([](PredictingOp) { return Kind::Predicting; });
    if (auto neighbors = dyn_cast<NeighborsOp>(op))
      set.count = static_cast<int64_t>(neighbors.getCount());
    if (auto last = dyn_cast<LastOp>(op))
      set.count = static_cast<int64_t>(last.getCount());
    for (Value operand : op->getOperands()) {
      if (!isa<PositionsType>(operand.getType())) {
        cadence = operand;
        continue;
      }
      FailureOr<int64_t> index = indexOf(operand);
      if (failed(index))
        return failure();
      set.of.push_back(*index);
    }
  }
  if (cadence) {
    CadenceAttr attr = cadenceOf(cadence);
    if (!attr)
      return failure();
    set.cadence = toBundle(attr);
  }
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
  auto alike = std::find(sets.begin(), sets.end(), set);
  indices[op->getResult(0)] = alike - sets.begin();
  if (alike == sets.end()) {
    sets.push_back(std::move(set));
    program.positions.push_back(op);
  }
  return success();
}

static LogicalResult addConditions(OperandRange cadences,
                                   std::vector<bundle::When> &when) {
  for (Value cadence : cadences) {
    CadenceAttr attr = cadenceOf(cadence);
    if (!attr)
      return failure();
    when.push_back(on(toBundle(attr)));
  }
  return success();
}

LogicalResult Reader::addPass(RecomputeOp op) {
  bundle::Pass pass;
  if (failed(addConditions(op.getOn(), pass.when)))
    return failure();
  FailureOr<int64_t> rows = indexOrAll(op.getRows());
  FailureOr<int64_t> among =
      op.getAmong() ? indexOf(op.getAmong()) : FailureOr<int64_t>(-1);
  if (failed(rows) || failed(among))
    return failure();
  pass.rows = *rows;
  pass.among = *among;
  setExact(op, pass);
  // A cosine is never more than 1: every row is salient.
  if (pass.comparesContexts() && pass.below.num > pass.below.den) {
    pass.exact = bundle::Pass::Exact::All;
    pass.below = {};
  }
  program.manifest.passes.push_back(std::move(pass));
  program.passes.push_back(op);
  return success();
}

/// Selections that are read, and the passes that their refreshes ask for.
void Reader::addSelections() {
  for (auto attend : schedule.getOps<AttendOp>()) {
    PairSet pairs = PairSet::of(attend.getPairs());
    if (!attend.getPairs() || pairs.dense)
      continue;
    for (SelectOp select : pairs.selections) {
      CadenceAttr cadence = cadenceOf(select.getCadence());
      bool known = llvm::any_of(program.selections, [&](Operation *other) {
        return sameSelection(select, cast<SelectOp>(other));
      });
      if (known || !cadence)
        continue;
      program.selections.push_back(select);
      program.manifest.selections.push_back(
          exportSelection(select, select.getName().value_or(""), cadence));
    }
  }
  std::vector<bundle::Pass> &passes = program.manifest.passes;
  if (passes.empty())
    return;
  size_t front = 0;
  for (Operation *select : program.selections) {
    bundle::When refresh =
        on(toBundle(cadenceOf(cast<SelectOp>(select).getCadence())));
    // Nothing to add if one of the passes in front does it already.
    bool there = false;
    for (const bundle::Pass &pass : passes) {
      if (pass.rows >= 0 || pass.exact != bundle::Pass::Exact::All)
        break;
      there |= pass.when.size() == 1 && pass.when.front() == refresh;
    }
    if (there)
      continue;
    bundle::Pass whole;
    whole.when = {refresh};
    passes.insert(passes.begin() + static_cast<ptrdiff_t>(front), whole);
    program.passes.insert(program.passes.begin() + front, select);
    ++front;
  }
}

FailureOr<Program> Reader::read() {
  findUsed();
  for (Operation &op : *schedule.getBody())
    if (isa<PositionsOp, UnionOp, IntersectOp, ExceptOp, FixOp, NeighborsOp,
            LastOp, HullOp, LeadingOp, PredictingOp>(op) &&
        used.contains(&op))
      if (failed(addSet(&op)))
        return failure();
  for (Operation &op : *schedule.getBody()) {
    FailureOr<int64_t> index = -1;
    if (auto visible = dyn_cast<VisibleOp>(op)) {
      index = indexOrAll(visible.getPositions());
      program.manifest.visible = succeeded(index) ? *index : -1;
      if (visible.getAllOn() && program.manifest.visible >= 0) {
        CadenceAttr attr = cadenceOf(visible.getAllOn());
        if (!attr)
          return failure();
        program.manifest.allVisible = toBundle(attr);
      }
      program.visible = visible;
    } else if (auto reuse = dyn_cast<ReuseOp>(op)) {
      program.manifest.reuse = reuseOf(reuse);
      program.reuse = reuse;
    } else if (auto commit = dyn_cast<CommitOp>(op);
               commit && !isIdle(commit)) {
      bundle::CommitRule rule = commitOf(commit);
      if (commit.getWithin())
        index = indexOf(commit.getWithin());
      rule.within = succeeded(index) ? *index : -1;
      std::vector<bundle::When> when;
      if (failed(addConditions(commit.getOn(), when)))
        return failure();
      addCommit(program, commit, rule, std::move(when));
    } else if (auto recompute = dyn_cast<RecomputeOp>(op)) {
      if (failed(addPass(recompute)))
        return failure();
    }
    if (failed(index))
      return failure();
  }
  addSelections();
  return std::move(program);
}

FailureOr<Program> Program::of(ScheduleOp schedule) {
  return Reader(schedule).read();
}

//===----------------------------------------------------------------------===//
// Of a plan
//===----------------------------------------------------------------------===//

Program Program::of(PlanOp plan) {
  Program program;
  llvm::StringMap<int64_t> indices;
  auto indexOf = [&](FlatSymbolRefAttr name) {
    return name ? indices.lookup(name.getValue()) : int64_t(-1);
  };
  auto conditions = [](ArrayAttr cadences) {
    std::vector<bundle::When> when;
    for (auto cadence : cadences.getAsRange<CadenceAttr>())
      when.push_back(on(toBundle(cadence)));
    return when;
  };
  for (auto op : plan.getOps<PositionSetOp>()) {
    bundle::Positions set;
    set.kind = convert<bundle::Positions::Kind>(op.getKind());
    set.count = static_cast<int64_t>(op.getCount());
    if (CadenceAttr cadence = op.getCadenceAttr())
      set.cadence = toBundle(cadence);
    for (auto part : op.getOf().getAsRange<FlatSymbolRefAttr>())
      set.of.push_back(indexOf(part));
    indices[op.getSymName()] = static_cast<int64_t>(program.positions.size());
    program.manifest.positions.push_back(std::move(set));
    program.positions.push_back(op);
  }
  for (Operation &op : *plan.getBody())
    llvm::TypeSwitch<Operation *>(&op)
        .Case([&](SelectionOp selection) {
          program.manifest.selections.push_back(exportSelection(
              selection, selection.getSymName(), selection.getCadence()));
          program.selections.push_back(selection);
        })
        .Case([&](VisibleSetOp visible) {
          program.manifest.visible = indexOf(visible.getSetAttr());
          if (CadenceAttr allOn = visible.getAllOnAttr())
            program.manifest.allVisible = toBundle(allOn);
          program.visible = visible;
        })
        .Case([&](ReuseOp reuse) {
          program.manifest.reuse = reuseOf(reuse);
          program.reuse = reuse;
        })
        .Case([&](CommitRuleOp commit) {
          bundle::CommitRule rule = commitOf(commit);
          rule.within = indexOf(commit.getWithinAttr());
          addCommit(program, commit, rule, conditions(commit.getOn()));
        })
        .Case([&](PassOp op) {
          bundle::Pass pass;
          pass.when = conditions(op.getOn());
          pass.rows = indexOf(op.getRowsAttr());
          pass.among = indexOf(op.getAmongAttr());
          setExact(op, pass);
          program.manifest.passes.push_back(std::move(pass));
          program.passes.push_back(op);
        });
  return program;
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

LogicalResult Program::check() const {
  // S9: a manifest has room for so many.
  if (positions.size() > bundle::maxPositions)
    return positions[bundle::maxPositions]->emitOpError()
           << "is one set of positions too many: a schedule uses at most "
           << bundle::maxPositions;
  if (passes.size() > bundle::maxPasses)
    return passes[bundle::maxPasses]->emitOpError()
           << "is one pass too many: a schedule has at most "
           << bundle::maxPasses;
  if (commits.size() > bundle::maxPasses)
    return commits[bundle::maxPasses]->emitOpError()
           << "is one too many: a schedule has at most " << bundle::maxPasses;
  std::optional<bundle::ProgramProblem> problem =
      bundle::checkProgram(manifest);
  if (!problem)
    return success();
  using At = bundle::ProgramProblem::At;
  Operation *op = nullptr;
  switch (problem->at) {
  case At::Positions:
    op = positions[problem->index];
    break;
  case At::Visible:
    op = visible;
    break;
  case At::Pass:
    op = passes[problem->index];
    break;
  case At::Reuse:
    op = reuse;
    break;
  case At::Commit:
    assert(problem->index < commits.size() && "the model's own rule is fine");
    op = commits[problem->index];
    break;
  case At::Selection:
    op = selections[problem->index];
    break;
  }
  return op->emitOpError(problem->what);
}
