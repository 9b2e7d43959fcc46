//===- PairSet.cpp - What a value of !heddle.pairs holds ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Dialect/Heddle/IR/PairSet.h"

#include "bundle/abi/Abi.h"
#include "bundle/program/ProgramChecks.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <limits>
#include <utility>

using namespace mlir;
using namespace mlir::heddle;
using ::heddle::bundle::Term;

/// A kernel has a pass for each: more are hardly meant.
static constexpr size_t maxIntersectionTerms = 16;
/// Ops that an intersection flattens, which each one above it does again.
static constexpr size_t maxIntersectionOps = 256;

CadenceAttr mlir::heddle::cadenceOf(Value cadence) {
  auto op = cadence ? cadence.getDefiningOp<CadenceOp>() : CadenceOp();
  return op ? op.getValueAttr() : CadenceAttr();
}

/// The same but for what they choose within.
static bool sameBut(SelectOp a, SelectOp b) {
  return cadenceOf(a.getCadence()) == cadenceOf(b.getCadence()) &&
         a.getRule() == b.getRule() && a.getRows() == b.getRows() &&
         a.getAlways() == b.getAlways() &&
         a.getLayersAttr() == b.getLayersAttr();
}

bool mlir::heddle::sameSelection(SelectOp a, SelectOp b) {
  if (a == b)
    return true;
  // What is chosen within is within nothing itself (P18).
  SelectOp inA = a.getOuter(), inB = b.getOuter();
  return sameBut(a, b) && !inA == !inB && (!inA || sameBut(inA, inB));
}

bool mlir::heddle::isAmong(SelectOp select, ArrayRef<SelectOp> others) {
  return llvm::any_of(
      others, [&](SelectOp other) { return sameSelection(select, other); });
}

TermAttr mlir::heddle::termOf(Operation *op) {
  return op->getAttrOfType<TermAttr>("term");
}

/// Calls `use` with what a value is made of by ops of a type. Those that share
/// operands can be exponentially many paths, and long chains: each op is
/// visited once, without recursion. False if these are more than `most` ops.
template <typename OpTy>
static bool forParts(Value value, function_ref<void(Operation *)> use,
                     size_t most = std::numeric_limits<size_t>::max()) {
  SmallPtrSet<Operation *, 8> seen;
  SmallVector<Value> left;
  if (value)
    left.push_back(value);
  while (!left.empty()) {
    Operation *op = left.pop_back_val().getDefiningOp();
    if (!op || !seen.insert(op).second)
      continue;
    if (seen.size() > most)
      return false;
    if (isa<OpTy>(op))
      llvm::append_range(left, llvm::reverse(op->getOperands()));
    else
      use(op);
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Terms
//===----------------------------------------------------------------------===//

/// Of sets alone, whatever they are within: kinds in the order of bundle::Sets,
/// numbers before shares, small before large.
static bool ownComesBefore(const Term &a, const Term &b) {
  auto shares = [](const Term &term) { return term.share.num > 0; };
  if (a.kind != b.kind || shares(a) != shares(b))
    return std::pair(a.kind, shares(a)) < std::pair(b.kind, shares(b));
  for (const ::heddle::bundle::SetNumber &number : numbersOf(a.kind))
    if (a.*number.number != b.*number.number)
      return a.*number.number < b.*number.number;
  return false;
}

static bool comesBefore(const PairTerm &a, const PairTerm &b) {
  if (ownComesBefore(a.set, b.set) || ownComesBefore(b.set, a.set))
    return ownComesBefore(a.set, b.set);
  return std::lexicographical_compare(a.set.within.begin(), a.set.within.end(),
                                      b.set.within.begin(), b.set.within.end(),
                                      ownComesBefore);
}

/// Whether a term has all pairs of another in every sequence.
static bool holds(const PairTerm &term, const PairTerm &other) {
  return (!term.select ||
          (other.select && sameSelection(term.select, other.select))) &&
         contains(term.set, other.set);
}

/// Adds a term to a union in its place.
static void addTerm(SmallVectorImpl<PairTerm> &terms, const PairTerm &term) {
  if (llvm::any_of(terms,
                   [&](const PairTerm &other) { return holds(other, term); }))
    return;
  llvm::erase_if(terms,
                 [&](const PairTerm &other) { return holds(term, other); });
  PairTerm *from =
      llvm::find_if(terms, [](const PairTerm &other) { return !other.select; });
  PairTerm *to = terms.end();
  if (term.select) {
    auto isSame = [&](const PairTerm &other) {
      return sameSelection(other.select, term.select);
    };
    to = std::find_if_not(std::find_if(terms.begin(), from, isSame), from,
                          isSame);
    from = std::find_if(terms.begin(), to, isSame);
  }
  terms.insert(std::upper_bound(from, to, term, comesBefore), term);
}

/// Adds the pairs of an op that is no union and no intersection. A foreign op
/// adds nothing: the schedule's verifier reports it.
static void addPart(SmallVectorImpl<PairTerm> &terms, DenseOp &dense,
                    Operation *part) {
  llvm::TypeSwitch<Operation *>(part)
      .Case([&](DenseOp op) {
        if (!dense)
          dense = op;
      })
      .Case([&](SelectOp op) {
        Term set;
        set.kind = *::heddle::bundle::kindNamed(spelled(op.getRule().kind));
        addTerm(terms, {op, set, op.getResult()});
      })
      .Default([&](Operation *op) {
        if (TermAttr term = termOf(op))
          addTerm(terms, {SelectOp(), term.getSet(), op->getResult(0)});
      });
}

/// What two terms have in common, of which one at most reads a selection.
static PairTerm meet(const PairTerm &a, const PairTerm &b) {
  SmallVector<Term> sets;
  auto add = [&](const Term &set) {
    auto has = [](const Term &large, const Term &small) {
      return ::heddle::bundle::ownContains(large, small);
    };
    if (llvm::any_of(sets, [&](const Term &other) { return has(set, other); }))
      return;
    llvm::erase_if(sets, [&](const Term &other) { return has(other, set); });
    sets.insert(llvm::upper_bound(sets, set, ownComesBefore), set);
    sets.back().within.clear();
  };
  for (const PairTerm *term : {&a, &b}) {
    Term own = term->set;
    own.within.clear();
    add(own);
    llvm::for_each(term->set.within, add);
  }
  PairTerm both = {a.select ? a.select : b.select, sets.front(), Value()};
  both.set.within.assign(sets.begin() + 1, sets.end());
  return both;
}

/// The terms of an intersection; `dense`, if all of it is.
static SmallVector<PairTerm> termsOf(IntersectOp op, DenseOp &dense) {
  SmallVector<PairTerm> terms;
  DenseOp all;
  bool first = true;
  forParts<IntersectOp>(op.getResult(), [&](Operation *part) {
    SmallVector<PairTerm> own;
    DenseOp here;
    forParts<UnionOp>(part->getResult(0),
                      [&](Operation *leaf) { addPart(own, here, leaf); });
    if (here) {
      all = here;
      return;
    }
    SmallVector<PairTerm> before = std::exchange(terms, {});
    if (std::exchange(first, false))
      terms = own;
    for (const PairTerm &a : before)
      for (const PairTerm &b : own)
        if (terms.size() <= maxIntersectionTerms)
          addTerm(terms, meet(a, b));
  });
  if (first)
    dense = all;
  return terms;
}

//===----------------------------------------------------------------------===//
// Sets
//===----------------------------------------------------------------------===//

PairSet PairSet::of(Value pairs) {
  PairSet set;
  forParts<UnionOp>(pairs, [&](Operation *op) {
    auto both = dyn_cast<IntersectOp>(op);
    if (!both)
      return addPart(set.terms, set.dense, op);
    DenseOp dense;
    for (const PairTerm &term : termsOf(both, dense))
      addTerm(set.terms, term);
    if (!set.dense)
      set.dense = dense;
  });
  for (const PairTerm &term : set.terms)
    if (term.select && !isAmong(term.select, set.selections))
      set.selections.push_back(term.select);
  return set;
}

SmallVector<Value> mlir::heddle::partsOf(UnionOp op) {
  SmallVector<PairTerm> terms;
  DenseOp dense;
  SmallVector<Value> intersections;
  forParts<UnionOp>(op.getResult(), [&](Operation *part) {
    if (isa<IntersectOp>(part))
      intersections.push_back(part->getResult(0));
    else
      addPart(terms, dense, part);
  });
  if (dense)
    return {dense};
  SmallVector<Value> values;
  for (const PairTerm &term : terms)
    values.push_back(term.value);
  llvm::append_range(values, intersections);
  return values;
}

SmallVector<PairSet> mlir::heddle::pairsOfStages(AttendOp attend) {
  SmallVector<PairSet> sets;
  for (AttendOp::Stage stage : attend.getStages()) {
    PairSet &set = sets.emplace_back(PairSet::of(stage.pairs));
    CadenceAttr until = cadenceOf(stage.until);
    if (set.dense || (until && includesFirst(until.getValue()))) {
      set.terms.clear();
      set.selections.clear();
    }
  }
  return sets;
}

SmallVector<SelectOp> mlir::heddle::selectionsOf(AttendOp attend) {
  SmallVector<SelectOp> all;
  auto add = [&](SelectOp select) {
    if (select && !isAmong(select, all))
      all.push_back(select);
  };
  for (const PairSet &set : pairsOfStages(attend))
    for (SelectOp select : set.selections) {
      add(select.getOuter());
      add(select);
    }
  return all;
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

LogicalResult mlir::heddle::verifyPairs(IntersectOp op) {
  Operation *reads = nullptr; // of the operands so far
  LogicalResult good = success();
  auto fail = [&](const Twine &message, Operation *at, StringRef note) {
    if (succeeded(good))
      good = op.emitOpError(message).attachNote(at->getLoc()) << note;
  };
  bool few = true;
  auto ofUnion = [&](Operation *part) {
    Operation *here = nullptr;
    auto ofPart = [&](Operation *leaf) {
      // P12
      if (isa<IntersectOp>(leaf))
        fail("is of a union that holds an intersection; unite intersections, "
             "and intersect none of their unions",
             leaf, "the intersection is here");
      // P11
      if (TermAttr term = termOf(leaf);
          term && ::heddle::bundle::isShareOfSinks(term.getSet()))
        fail("is of a fraction of sinks, whose number a kernel gets to know "
             "when it runs; write a number",
             leaf, "the sinks are here");
      if (isa<SelectOp>(leaf))
        here = leaf;
    };
    few &= forParts<UnionOp>(part->getResult(0), ofPart, maxIntersectionOps);
    // P10
    if (here && reads)
      fail("is of two sets that selections give; a kernel goes by the lists of "
           "one of them; let one choose within the other: select ... within "
           "%other",
           here, "the second selection is here");
    if (here)
      reads = here;
  };
  // P13
  few &= forParts<IntersectOp>(op.getResult(), ofUnion, maxIntersectionOps);
  if (!few)
    return op.emitOpError("is of more than ")
           << maxIntersectionOps << " unions, intersections and sets";
  if (failed(good))
    return failure();
  DenseOp dense;
  if (termsOf(op, dense).size() > maxIntersectionTerms)
    return op.emitOpError("comes to more than ")
           << maxIntersectionTerms
           << " intersections of two sets or more, one for each way to take a "
              "part of each of its unions; unite fewer";
  return success();
}

LogicalResult mlir::heddle::verifyBounds(AttendOp attend, const PairSet &set) {
  SmallVector<Term> terms;
  SmallVector<SelectOp> selects;
  for (const PairTerm &term : set.terms) {
    if (!term.select)
      continue;
    selects.push_back(term.select);
    terms.push_back(term.set);
    terms.back().selection =
        llvm::find_if(
            selects,
            [&](SelectOp other) { return sameSelection(other, term.select); }) -
        selects.begin();
  }
  // P14
  if (auto different = ::heddle::bundle::differentBounds(terms)) {
    InFlightDiagnostic error = attend.emitOpError(
        "reads two selections that are intersected with different sets, and "
        "of what one has kept of a row the other can't know; intersect both "
        "with the same set");
    error.attachNote(selects[different->first].getLoc()) << "one is here";
    error.attachNote(selects[different->second].getLoc())
        << "the other one is here";
    return error;
  }
  // S4
  if (static_cast<int64_t>(terms.size()) > ::heddle::abi::maxIndexLists)
    return attend.emitOpError("reads ")
           << terms.size()
           << " parts of selections, one for each set of a union that it "
              "intersects them with; a kernel reads at most "
           << ::heddle::abi::maxIndexLists;
  return success();
}
