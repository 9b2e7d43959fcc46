//===- ProgramChecks.cpp - What must hold in every run --------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/ManifestNames.h"
#include "bundle/program/ProgramChecker.h"

#include <algorithm>
#include <set>
#include <vector>

using namespace heddle::bundle;
using namespace heddle::bundle::detail;

/// What is true of a set if it is of some set that it is made of.
void Checker::addParts(const Positions &set, SetFacts &own) const {
  for (int64_t part : set.of) {
    own.varies |= facts[size_t(part)].varies;
    own.late |= facts[size_t(part)].late;
    own.addChanges(facts[size_t(part)]);
  }
}

void Checker::checkPositions(size_t index) {
  const Positions &set = manifest.positions[index];
  SetFacts own;
  using Kind = Positions::Kind;
  // R8: what was at the latest step of a cadence needs one.
  bool dated = set.kind == Kind::Fixed ||
               (set.kind == Kind::Committed && set.count == 0);
  // It may begin at step 2, if step 1 does not ask for the set.
  own.late = dated && beginsAtSecond(set.cadence);
  if (dated && !own.late && !includesFirst(set.cadence))
    fail(At::Positions, index,
         "goes back to the latest step of " + toString(set.cadence) +
             ", which need not include step 1, so that there may be none");
  // R13: a set of rows is for a pass.
  for (int64_t part : set.of)
    if (facts[size_t(part)].ofRows)
      return fail(At::Positions, index,
                  "is made of rows (predicting), which only a "
                  "`recompute ... alone` takes");
  // R11: nobody knows what will be most confident.
  if (set.kind == Kind::Next && !inOrder())
    return fail(At::Positions, index,
                "is what comes next in an order that is drawn before the "
                "run, and the schedule has none; let it "
                "`commit random_order`");
  // R21: what an order takes is predicted and committed at once.
  if (set.kind == Kind::Confident && inOrder())
    return fail(At::Positions, index,
                "goes by the confidence of what earlier steps predicted and "
                "left masked, and with `commit random_order` they predict what "
                "they commit alone; commit by confidence, or name "
                "`positions next`");
  if (set.kind == Kind::Attended)
    checkAttended(index);
  switch (set.kind) {
  default:
    detail::withForm(set.kind, [&](auto form) {
      form.facts(own, set, *this);
      return true;
    });
    break;
  case Kind::Neighbors:
  case Kind::Nearest:
    // R12: positions, and those that are their neighbors.
    if (set.of.size() != 2)
      return fail(At::Positions, index,
                  "needs two sets: whose neighbors, and among which positions");
    addParts(set, own);
    own.ofPrompt = facts[size_t(set.of.back())].ofPrompt;
    own.filled = facts[size_t(set.of.back())].filled;
    break;
  case Kind::Except: {
    // R14: positions, and those that are not.
    if (set.of.size() != 2)
      return fail(At::Positions, index,
                  "needs two sets: of which positions, and without which");
    const SetFacts &of = facts[size_t(set.of.front())];
    // What takes no masked position away leaves the first one.
    if (facts[size_t(set.of.back())].filled) {
      own.first = of.first;
      own.next = of.next;
      own.revoked = of.revoked;
    }
    own.filled = of.filled;
    own.ofPrompt = of.ofPrompt;
    addParts(set, own);
    break;
  }
  case Kind::Hull:
  case Kind::Leading:
  case Kind::Predicting:
  case Kind::Last:
  case Kind::Confident:
  case Kind::Attended: {
    if (set.of.size() != 1)
      return fail(At::Positions, index, "is made of exactly one set");
    const SetFacts &other = facts[size_t(set.of.front())];
    if (set.kind == Kind::Hull)
      own = other;
    // So many first positions hold the first masked one if the set has it and
    // all that stands before it.
    if (set.kind == Kind::Leading)
      own.first = other.first & other.decoded;
    // The prompt is never masked.
    own.ofPrompt = (other.ofPrompt && set.kind != Kind::Confident) ||
                   set.kind == Kind::Leading || set.kind == Kind::Predicting;
    own.filled = other.filled && set.kind == Kind::Last;
    own.ofRows = set.kind == Kind::Predicting;
    addParts(set, own);
    own.varies |= set.kind == Kind::Confident || set.kind == Kind::Attended;
    break;
  }
  case Kind::Union:
  case Kind::Intersect: {
    // R9: there is nothing to unite or intersect.
    if (set.of.empty())
      return fail(At::Positions, index, "needs at least one set");
    bool both = set.kind == Kind::Intersect;
    if (both)
      own = SetFacts::all();
    own.filled = !both;
    for (int64_t part : set.of) {
      const SetFacts &other = facts[size_t(part)];
      for (auto fact : {&SetFacts::first, &SetFacts::next, &SetFacts::decoded})
        own.*fact = both ? own.*fact & other.*fact : own.*fact | other.*fact;
      for (auto fact :
           {&SetFacts::recent, &SetFacts::revoked, &SetFacts::ofPrompt})
        own.*fact = both ? own.*fact && other.*fact : own.*fact || other.*fact;
      own.filled =
          both ? own.filled || other.filled : own.filled && other.filled;
    }
    addParts(set, own);
    break;
  }
  case Kind::Fixed: {
    if (set.of.size() != 1)
      return fail(At::Positions, index, "fixes exactly one set");
    const SetFacts &other = facts[size_t(set.of.front())];
    if (other.late)
      return fail(At::Positions, index,
                  "fixes a set that goes back to a cadence which begins at "
                  "step 2, so that there is none at step 1");
    bool changes = other.varies || !other.changes.empty();
    for (auto fact : {&SetFacts::first, &SetFacts::next, &SetFacts::decoded})
      own.*fact = (other.*fact).fixed(set.cadence);
    if (changes)
      own.changes = {set.cadence};
    own.recent = !changes && other.recent;
    own.revoked = !changes && other.revoked;
    own.ofPrompt = other.ofPrompt;
    // What was a token then may have become a mask since.
    own.filled = other.filled && !(changes && revokes());
    break;
  }
  }
  facts.push_back(std::move(own));
}

/// R24: what attention was drawn is added up from the keys that are kept, of
/// rows that have a place among them.
void Checker::checkAttended(size_t index) {
  if (!manifest.reuse.kv ||
      std::ranges::all_of(manifest.passes, &Pass::computesAllRows))
    fail(
        At::Positions, index,
        "goes by the attention that positions drew, which is added up from "
        "cached keys, and the schedule caches none: it needs `reuse kv`, and a "
        "`recompute %rows` by which some steps leave rows out");
  else if (manifest.reuse.attention == Reuse::Attention::Outside)
    fail(At::Positions, index,
         "goes by the attention that positions drew, and of that outside of a "
         "set a step has only what was kept; reuse kv alone, or context or "
         "output");
  else if (std::ranges::any_of(manifest.passes, &Pass::unseen))
    fail(At::Positions, index,
         "goes by the attention that positions drew from rows that are "
         "visible; write a recompute without `unseen`");
}

/// R1: the pass that runs at step 1, whichever it is, computes all.
void Checker::checkFirstStep() {
  for (size_t i = 0; i < manifest.passes.size(); ++i) {
    const Pass &pass = manifest.passes[i];
    if (pass.computesAllRows()) {
      if (pass.layers.empty() &&
          std::ranges::all_of(pass.when, [](const When &when) {
            return when.kind == When::Kind::On && includesFirst(when.cadence);
          }))
        return;
      continue;
    }
    bool later = std::ranges::any_of(pass.when, [](const When &when) {
      return when.kind == When::Kind::Before ? includesFirst(when.cadence)
                                             : excludesFirst(when.cadence);
    });
    if (!later)
      return fail(
          At::Pass, i,
          "may run at step 1, where nothing is cached yet; a `recompute "
          "all` on a cadence that includes step 1 must come before");
  }
}

void Checker::checkPasses() {
  const std::vector<Pass> &passes = manifest.passes;
  for (size_t i = 0; i < passes.size() && !problem; ++i) {
    const Pass &pass = passes[i];
    bool last = i + 1 == passes.size();
    // R2: the last one takes what the others leave, and only it.
    if (last && !pass.when.empty())
      return fail(At::Pass, i,
                  "is the last one and has a cadence, so that some steps "
                  "compute nothing");
    if (last && !pass.layers.empty())
      return fail(At::Pass, i,
                  "is the last one and names layers, so that others compute "
                  "nothing; add one that names none");
    if (!last && pass.when.empty() && pass.layers.empty())
      return fail(At::Pass, i,
                  "has no cadence, so that those after it never run");
    if (std::ranges::count(pass.when, When::Kind::Otherwise, &When::kind))
      return fail(At::Pass, i, "has a condition that always holds");
    if ((problem = layers.checkUnseen(i)))
      return;
    if (pass.computesAllRows())
      continue;
    // R13: what predicts a position is not one of those that are predicted.
    if (pass.rows >= 0 && facts[size_t(pass.rows)].ofRows && !pass.alone)
      return fail(At::Pass, i,
                  "names the rows that predict positions, and would add the "
                  "rows that predict these; write `recompute %rows alone`");
    if (pass.among >= 0 && facts[size_t(pass.among)].ofRows)
      return fail(At::Pass, i,
                  "compares rows by what they predict "
                  "(predicting); name the positions");
    if ((problem = layers.checkKept(i)))
      return;
    // R10: a token that no layer sees is never passed on.
    if (pass.exact == Pass::Exact::Salient && pass.rows >= 0 &&
        !facts[size_t(pass.rows)].recent)
      fail(At::Pass, i,
           "begins with the rows that became tokens at the step before, which "
           "its positions need not hold, so that what they say would never be "
           "passed on; add committed(last = 1) to them");
    // R18: something can be committed, and what has changed is computed.
    else if (layers.endsByChoice(i) && renoises())
      fail(At::Pass, i,
           "may let rows end of masked positions, in whose place `renoise` "
           "puts other noise at each step, so that the keys and values of "
           "former noise would stay cached; let its layers `reuse kv, output, "
           "ffn`");
    else if (layers.endsByChoice(i) &&
             (revokes() || edits() || !canCommit(predictedBy(pass))))
      fail(
          At::Pass, i,
          revokes() || edits()
              ? std::string("may let rows end that a commit with ") +
                    (revokes() ? "`revoke` made masks again"
                               : "`edit` gave another token") +
                    " at the step before, of which the former token's keys and "
                    "values would stay cached; let its layers `reuse kv, "
                    "output, ffn`"
              : "lets rows end that it does not choose, and the rows that it "
                "does not choose from need not hold the first masked position; "
                "leave that out of `among`, by `except %rows, %first` with "
                "%first = positions undecoded(first = 1), or let its layers "
                "`reuse kv, output, ffn`");
    // R6: something can be committed.
    else if (!canCommit(predictedBy(pass)))
      fail(At::Pass, i,
           "computes rows that need not hold the first masked position, so "
           "that a run may stop short of its end; add undecoded(first = 1) or "
           "the block to them");
    // R15: what is kept of a row is not that of a mask.
    else if (revokes() && !factsOf(pass.rows).revoked)
      fail(At::Pass, i,
           "computes rows that need not hold what a commit with `revoke` made "
           "a mask again at the step before, of which the token's keys and "
           "values would stay cached; add `positions undecoded` or the block "
           "to them");
    else if (renoises() && !factsOf(pass.rows).revoked)
      fail(At::Pass, i,
           "computes rows that need not hold every masked position of the "
           "block, in whose place `renoise` puts other noise at each step, so "
           "that the keys and values of former noise would stay cached; add "
           "`positions undecoded` or the block to them");
    else if (renoises() && !factsOf(pass.rows).recent)
      fail(At::Pass, i,
           "computes rows that need not hold what became a token at the step "
           "before, in whose place `renoise` had put noise, so that the keys "
           "and values of noise would stay cached; add committed(last = 1) to "
           "them");
    else if (edits() && !factsOf(pass.rows).recent)
      fail(At::Pass, i,
           "computes rows that need not hold what a commit with `edit` gave "
           "another token at the step before, of which the former one's keys "
           "and values would stay cached; add committed(last = 1) to them");
  }
  if (!problem)
    checkFirstStep();
  if (!problem)
    problem = layers.checkPlaces();
}

/// The sets whose union a set is, itself and unions among them included.
std::set<int64_t> Checker::partsOf(int64_t set) const {
  std::set<int64_t> parts = {set};
  std::vector<int64_t> left = {set};
  while (!left.empty()) {
    const Positions &next = manifest.positions[size_t(left.back())];
    left.pop_back();
    if (next.kind == Positions::Kind::Union)
      for (int64_t part : next.of)
        if (parts.insert(part).second)
          left.push_back(part);
  }
  return parts;
}

/// Whether every step computes all of a set exactly that is visible.
bool Checker::isComputed(int64_t set) const {
  return std::ranges::all_of(manifest.passes, [&](const Pass &pass) {
    return pass.exact == Pass::Exact::All &&
           (pass.rows < 0 || partsOf(pass.rows).count(set));
  });
}

void Checker::checkVisible() {
  if (manifest.visible < 0)
    return;
  const SetFacts &visible = facts[size_t(manifest.visible)];
  if (visible.ofRows)
    return fail(At::Visible, 0,
                "is made of rows (predicting); name the positions");
  // K2: the visible positions stay as they are between two steps of a cadence,
  // but for those that each step computes.
  if (visible.varies) {
    std::set<int64_t> parts = partsOf(manifest.visible);
    bool computed = std::ranges::all_of(parts, [&](int64_t part) {
      return !facts[size_t(part)].varies || isComputed(part) ||
             manifest.positions[size_t(part)].kind == Positions::Kind::Union;
    });
    if (!computed)
      return fail(
          At::Visible, 0,
          "depends on what is decoded and may change at any step; fix it "
          "on a cadence at whose steps all rows are computed: "
          "fix %positions on %cadence");
  }
  // K1: there is always a row, and one that can be committed.
  // What comes next need not: a step whose quota is 0 has nothing next.
  if (visible.first.run == Holding::No)
    return fail(At::Visible, 0,
                "need not hold the first masked position, so that a run may "
                "stop short of its end; fix the positions on every(n), or make "
                "them a set that always does, such as the response");
  // K6: what comes with all positions has nothing cached.
  if (manifest.showsAll() && !wholeOn(manifest.allVisible))
    return fail(At::Visible, 0,
                "shows all positions on " + toString(manifest.allVisible) +
                    ", at whose steps all rows must be computed; begin with "
                    "`recompute all` on the same cadence");
  if (visible.late && !includesFirst(manifest.allVisible))
    return fail(At::Visible, 0,
                "goes back to a cadence that begins at step 2, so that there "
                "is nothing to see at step 1; let all be visible on a cadence "
                "that includes step 1");
  // K4: lists number the visible keys.
  if ((manifest.showsAll() || visible.varies) && !manifest.selections.empty())
    return fail(At::Selection, 0,
                "numbers the visible keys, which may change at a step that "
                "does not refresh it");
  for (const Cadence &cadence : visible.changes)
    checkVisibleChange(cadence);
}

void Checker::checkVisibleChange(const Cadence &cadence) {
  // K3: what was not visible has nothing cached; at the step before, all was.
  bool after = follows(cadence, manifest.allVisible);
  if (!after && !wholeOn(cadence))
    return fail(At::Visible, 0,
                "changes on " + toString(cadence) +
                    ", at whose steps positions may come that have nothing "
                    "cached; begin with `recompute all` on the same "
                    "cadence");
  for (size_t i = 0; i < manifest.selections.size(); ++i)
    if (!includesAll(manifest.selections[i].cadence, cadence))
      return fail(At::Selection, i,
                  "is made over the visible keys, which change on " +
                      toString(cadence) +
                      "; refresh it at these steps too, for instance on the "
                      "same cadence");
}

void Checker::checkSelection(size_t index) {
  const Selection &selection = manifest.selections[index];
  auto wrong = checkForm(selection);
  if (!wrong && selection.within >= 0)
    wrong = checkWithin(selection, manifest.selection(selection.within));
  if (wrong)
    return fail(At::Selection, index, *wrong);
  // P17: kernels are told where they begin and end.
  for (int64_t set : {selection.rows, selection.always}) {
    std::string wrong = set < 0 ? "" : notARange(set);
    if (!wrong.empty())
      return fail(At::Selection, index,
                  (set == selection.rows ? "is scored by the rows of "
                                         : "always lists the keys of ") +
                      wrong);
  }
  // S6: scores are of all visible rows.
  if (!wholeOn(selection.cadence))
    fail(At::Selection, index,
         "is refreshed on " + toString(selection.cadence) +
             ", at whose steps all visible rows must be computed");
}

void Checker::checkDrift() {
  const std::vector<Cadence> drifts = driftsOf(manifest);
  if (drifts.empty())
    return;
  // C4: what has drifted in a layer is measured from the latest step of one
  // cadence, and those of several layers have steps in common.
  auto check = [&](At at, size_t index, const Cadence &cadence) {
    if (cadence.kind != Cadence::Kind::Drift)
      return;
    for (const Cadence &drift : drifts) { // of those found before it
      if (drift == cadence)
        return;
      Cadence alike = drift;
      if (cadence.layer != drift.layer) {
        alike.fraction = cadence.fraction;
        alike.layer = cadence.layer;
      }
      if (cadence != alike)
        return fail(at, index,
                    "goes by " + toString(cadence) + " beside " +
                        toString(drift) +
                        "; cadences by drift differ in their layer, and with "
                        "it in `below`, alone: write the same for both");
    }
  };
  for (size_t i = 0; i < manifest.positions.size(); ++i)
    check(At::Positions, i, manifest.positions[i].cadence);
  check(At::Visible, 0, manifest.allVisible);
  check(At::Reuse, 0, manifest.reuse.cadence);
  for (size_t i = 0; i < manifest.passes.size(); ++i)
    for (const When &when : manifest.passes[i].when)
      check(At::Pass, i, when.cadence);
  for (size_t i = 0; i < manifest.selections.size(); ++i)
    check(At::Selection, i, manifest.selections[i].cadence);
  // C5: what a step commits by is known before what it computes is.
  for (size_t i = 0; i < manifest.datedCommits.size(); ++i)
    for (const When &when : manifest.datedCommits[i].when)
      if (when.cadence.kind == Cadence::Kind::Drift)
        fail(At::Commit, i,
             "is on " + toString(when.cadence) +
                 ", which says what is computed and not what is committed; "
                 "name a cadence of another form");
}

std::optional<ProgramProblem>
heddle::bundle::checkProgram(const Manifest &manifest) {
  return Checker(manifest).check();
}

std::optional<ProgramProblem>
heddle::bundle::checkLayers(const Manifest &manifest, int64_t layers) {
  return LayerChecker(manifest).checkIn(layers);
}

std::optional<std::string> heddle::bundle::checkRollout(bool dense,
                                                        const Scores &scores) {
  // R25: keys are scored from all pairs of the rows that a step computed, which
  // stand one behind the other.
  if (!dense)
    return "must be dense where a set goes by the attention that positions "
           "drew (attended); write `attend dense`";
  if (scores.usesPositions())
    return "has scores that ask for positions, without which the attention "
           "that positions drew (attended) is added up; leave that set out, or "
           "the scores";
  return std::nullopt;
}

std::optional<std::string> heddle::bundle::checkUnseen(bool dense,
                                                       const Scores &scores) {
  // R20: lists, sets of pairs and scores know a row by its place among the
  // visible positions.
  if (!dense)
    return "must be dense where rows that are not visible are computed; write "
           "`attend dense`, or a recompute without `unseen`";
  if (scores.usesPositions())
    return "has scores that ask for positions, which rows that are not visible "
           "have no place for; write a recompute without `unseen`";
  return std::nullopt;
}

bool heddle::bundle::seesPrompt(const Manifest &manifest) {
  return manifest.visible < 0 || manifest.showsAll() ||
         Checker(manifest).visible().ofPrompt;
}

bool heddle::bundle::visibleMoves(const Manifest &manifest) {
  return manifest.visible >= 0 &&
         (manifest.showsAll() || Checker(manifest).visible().varies);
}
