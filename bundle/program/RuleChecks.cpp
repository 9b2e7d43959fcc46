//===- RuleChecks.cpp - What kernels and phases do ------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/abi/Abi.h"
#include "bundle/program/ManifestNames.h"
#include "bundle/program/PairSets.h"
#include "bundle/program/Printable.h"
#include "bundle/program/ProgramChecks.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <utility>

using namespace heddle;
using namespace heddle::bundle;
using At = PlanProblem::At;
using Phases = std::span<const Phase>;

//===----------------------------------------------------------------------===//
// N3, N4: kernels
//===----------------------------------------------------------------------===//

static std::string groupText(int64_t group) {
  return group == groupOfAll ? "all" : std::to_string(group);
}

/// An attention kernel reads lists as their selections write them.
static std::optional<std::string> checkTerms(const Manifest &manifest,
                                             const std::vector<Term> &terms) {
  if (auto lists = std::ranges::count_if(terms, readsList);
      lists > abi::maxIndexLists)
    return "reads more than " + std::to_string(abi::maxIndexLists) +
           " index lists, found " + std::to_string(lists);
  auto name = [&](const Term &term) {
    return "\"" + printable(manifest.selection(term.selection).name) + "\"";
  };
  if (auto different = differentBounds(terms))
    return "reads " + name(terms[different->first]) + " and " +
           name(terms[different->second]) +
           " within different sets, and of what one has kept of a row the "
           "other can't know";
  for (const Term &term : terms) {
    if (!readsList(term))
      continue;
    const Selection::Kind kind = manifest.selection(term.selection).kind;
    if ((term.kind == Term::Kind::Blocks) != (kind == Selection::Kind::Blocks))
      return "reads " + name(term) + " as " + detail::nameOf(term.kind) +
             ", it is of " + detail::nameOf(kind);
  }
  return std::nullopt;
}

/// N3: what a kernel has; N4: and it reads what it says.
static std::optional<std::string> checkKernel(const Manifest &manifest,
                                              const Kernel &kernel) {
  if (kernel.kind == Kernel::Kind::Attention)
    return checkTerms(manifest, kernel.terms);
  if (!kernel.terms.empty() || kernel.writesLse)
    return "selects, which has no terms and writes no log-sum-exp, found " +
           (kernel.terms.empty() ? "writes_lse"
                                 : printable(words(kernel.terms, manifest)));
  if (!readsLse(kernel.scorer) && !kernel.scores.empty())
    return "selects by " + detail::nameOf(kernel.scorer) +
           ", which takes no function of logits: a sum of queries is no row "
           "and stands nowhere";
  if (kernel.withinGroup % kernel.group != 0)
    return "selects for groups that are no parts of those that it chooses "
           "within, found groups of " +
           groupText(kernel.group) + " within " + groupText(kernel.withinGroup);
  Selection form;
  form.kind =
      kernel.blocks ? Selection::Kind::Blocks : Selection::Kind::Columns;
  form.group = kernel.group;
  form.perKvHead = kernel.perKvHead;
  form.perLayer = kernel.perLayer;
  form.pooled = kernel.pooled;
  form.scorer = kernel.scorer;
  form.within = kernel.withinGroup > 0 ? 0 : -1;
  return checkForm(form);
}

//===----------------------------------------------------------------------===//
// N2: layers
//===----------------------------------------------------------------------===//

/// One rule is the default; the others name disjoint layers.
static std::optional<PlanProblem> checkSpans(const Manifest &manifest) {
  std::optional<size_t> byDefault;
  std::map<int64_t, size_t> byLast; // rules, by their last layers
  for (size_t i = 0; i < manifest.rules.size(); ++i) {
    const Rule &rule = manifest.rules[i];
    PlanProblem problem = {.rule = i, .at = At::Layers};
    if (rule.isDefault) {
      problem.other = std::exchange(byDefault, i);
      problem.what = "is a second default rule";
      if (problem.other)
        return problem;
      continue;
    }
    // Ranges that count from different ends are asked of the model.
    if ((rule.firstLayer < 0) != (rule.lastLayer < 0))
      continue;
    if (rule.firstLayer > rule.lastLayer) {
      problem.what = "names a first layer that comes after the last";
      return problem;
    }
    // Those so far are disjoint: one that overlaps is the first that ends at
    // this one's start or later.
    auto next = byLast.lower_bound(rule.firstLayer);
    if (next != byLast.end() &&
        manifest.rules[next->second].firstLayer <= rule.lastLayer) {
      problem.what = "names layers that another rule has";
      problem.other = next->second;
      return problem;
    }
    byLast.emplace(rule.lastLayer, i);
  }
  if (byDefault)
    return std::nullopt;
  return PlanProblem{.at = At::Rules, .what = "needs a default rule"};
}

//===----------------------------------------------------------------------===//
// N9: every read of a selection comes after a write
//===----------------------------------------------------------------------===//

static bool refreshes(const Phase &phase, int64_t selection) {
  return std::ranges::find(phase.refreshes, selection,
                           &Phase::Refresh::selection) != phase.refreshes.end();
}

/// Whether a phase refreshes a selection before it attends.
static bool refreshesBefore(const Phase &phase, int64_t selection) {
  return phase.refreshesFirst && refreshes(phase, selection);
}

static bool isOn(const Phase &phase, const Cadence &cadence) {
  return phase.when == When{When::Kind::On, cadence};
}

/// The first of the phases that is `before` a cadence that begins no earlier
/// than this one; their number if none is.
static size_t beginningBefore(const Cadence &cadence, Phases phases) {
  auto first = std::ranges::find_if(phases, [&](const Phase &phase) {
    return phase.when.kind == When::Kind::Before &&
           startsNoLater(cadence, phase.when.cadence);
  });
  return static_cast<size_t>(first - phases.begin());
}

/// From when on a rule refreshes a selection at every step of its cadence: the
/// first step of which cadence; none if that cannot be shown. See checkRead().
static std::optional<Cadence> refreshedFrom(Phases phases, int64_t selection,
                                            const Cadence &cadence) {
  // Those at the end that refresh first.
  size_t last = phases.size();
  while (last > 0 && refreshesBefore(phases[last - 1], selection))
    --last;
  if (last == 0)
    return cadence;
  if (const When &before = phases.front().when;
      last == 1 && last < phases.size() && before.kind == When::Kind::Before &&
      includesAll(cadence, before.cadence))
    return before.cadence;
  for (const Phase &phase : phases) {
    if (!refreshes(phase, selection))
      break;
    if (isOn(phase, cadence))
      return cadence;
  }
  return std::nullopt;
}

namespace {

/// What all readers of a selection ask of the phases of their rule, found once:
/// a rule may have thousands of both. What no phase is has their number.
struct Writes {
  Writes(Phases phases, int64_t selection, const Cadence &cadence);

  /// Whether step 1 is the cadence's, or one of the first `count` phases is
  /// `before` a cadence that begins no earlier.
  bool beginBefore(size_t count) const {
    return fromFirstStep || firstBefore < count;
  }

  Phases phases;
  int64_t selection;
  const Cadence &cadence;
  bool fromFirstStep; ///< whether the cadence includes step 1
  /// The first that is `before` a cadence that begins no earlier.
  size_t firstBefore;
  /// The one `on` the cadence, if it and all in front refresh the selection.
  size_t written;
  /// The first of those at the end that all refresh it before they attend.
  size_t refreshFirst;
  /// The first not of those whose steps are all both before a cadence and the
  /// selection's.
  size_t waiting;
};

} // namespace

Writes::Writes(Phases phases, int64_t selection, const Cadence &cadence)
    : phases(phases), selection(selection), cadence(cadence),
      fromFirstStep(includesFirst(cadence)),
      firstBefore(beginningBefore(cadence, phases)), written(phases.size()),
      refreshFirst(phases.size()), waiting(0) {
  for (size_t p = 0; p < phases.size() && refreshes(phases[p], selection); ++p)
    if (isOn(phases[p], cadence)) {
      written = p;
      break;
    }
  while (refreshFirst > 0 &&
         refreshesBefore(phases[refreshFirst - 1], selection))
    --refreshFirst;
  while (waiting < phases.size() &&
         phases[waiting].when.kind == When::Kind::Before &&
         includesAll(cadence, phases[waiting].when.cadence))
    ++waiting;
}

/// Whether phase `reader`, which refreshes a selection on its cadence before it
/// reads it, finds it refreshed at its first step. All of its steps may be the
/// cadence's. Else all phases behind it refresh it first as well, and with any
/// number of those right in front that do they are as one: their first step is
/// step 1, or one at which the last of the cadences begins that all phases in
/// front of them wait for. Or they are all of the rule's, and one in front ends
/// no earlier than the cadence begins.
static bool refreshesAtFirst(const Writes &writes, size_t reader) {
  if (const When &own = writes.phases[reader].when; own.kind == When::Kind::On)
    return includesAll(writes.cadence, own.cadence);
  if (reader < writes.refreshFirst)
    return false;
  return std::min(writes.waiting, reader) >=
             std::max<size_t>(1, writes.refreshFirst) ||
         (writes.refreshFirst == 0 && writes.beginBefore(reader));
}

/// What phase `reader` reads was written at an earlier step, or in the same one
/// by the phase itself. Say C is the selection's cadence. If some phase is `on`
/// C, and it and all phases before it refresh the selection, then the selection
/// is refreshed at exactly the steps of C. The reader comes after that phase,
/// so it runs at steps outside of C only; it remains that the first step of C
/// is not after the reader's first. That holds if C includes step 1, or if an
/// earlier phase takes all steps `before` a cadence that begins no earlier than
/// C.
static const char *checkRead(const Writes &writes, size_t reader) {
  if (refreshesBefore(writes.phases[reader], writes.selection) &&
      refreshesAtFirst(writes, reader))
    return nullptr;
  if (writes.written >= reader)
    return "reads a selection that the phases before it do not refresh in "
           "every step of the selection's cadence";
  return writes.beginBefore(reader)
             ? nullptr
             : "may read a selection before it is first written; it must "
               "come after a phase that is `before` the selection's "
               "cadence";
}

namespace {

/// What rules refresh.
class Reads {
public:
  explicit Reads(const Manifest &manifest);
  std::optional<PlanProblem> check(size_t rule);

private:
  std::optional<PlanProblem> checkOthers(PlanProblem reader);
  std::vector<size_t> readableFrom(size_t rule, int64_t selection);

  /// The rules that refresh a selection.
  struct Refreshing {
    FirstOf first; ///< of their layers
    /// From when on they do, and one of the rules that do from then.
    std::vector<std::pair<std::optional<Cadence>, size_t>> from;
  };

  const Manifest &manifest;
  std::vector<int64_t> firsts;              ///< layer of each rule
  std::map<int64_t, Refreshing> refreshing; ///< by selection
  /// Of the rule at hand, by selection.
  std::map<int64_t, Writes> writes;
  std::map<int64_t, std::vector<size_t>> readable;
};

} // namespace

Reads::Reads(const Manifest &manifest) : manifest(manifest) {
  std::vector<LayerSpan> spans;
  for (const Rule &rule : manifest.rules)
    spans.push_back({rule.isDefault, rule.firstLayer, rule.lastLayer});
  firsts = firstLayers(spans);
  for (size_t i = 0; i < manifest.rules.size(); ++i)
    for (int64_t selection : refreshedBy(manifest.rules[i])) {
      Refreshing &of = refreshing[selection];
      of.first.add(firsts[i]);
      auto from = refreshedFrom(manifest.rules[i].phases, selection,
                                manifest.selection(selection).cadence);
      if (std::ranges::none_of(
              of.from, [&](const auto &each) { return each.first == from; }))
        of.from.emplace_back(std::move(from), i);
    }
}

/// From which phase of a rule on it may read what others refresh, for each of
/// Refreshing::from: one in front is `before` a cadence that begins no earlier.
std::vector<size_t> Reads::readableFrom(size_t rule, int64_t selection) {
  std::vector<size_t> firsts;
  for (const auto &[from, other] : refreshing[selection].from)
    firsts.push_back(!from ? SIZE_MAX
                     : includesFirst(*from)
                         ? 0
                         : beginningBefore(*from, manifest.rules[rule].phases) +
                               1);
  return firsts;
}

/// Of what other rules refresh: their layers come before, and begin no later
/// than the phase reads.
std::optional<PlanProblem> Reads::checkOthers(PlanProblem reader) {
  const Refreshing &others = refreshing[reader.selection];
  if (!others.first.comesBefore(firsts[reader.rule])) {
    reader.what = "reads a selection that neither its rule refreshes nor one "
                  "whose layers come before";
    return reader;
  }
  auto [known, isNew] = readable.try_emplace(reader.selection);
  if (isNew)
    known->second = readableFrom(reader.rule, reader.selection);
  for (size_t i = 0; i < others.from.size(); ++i) {
    if (reader.phase >= known->second[i])
      continue;
    reader.other = others.from[i].second;
    reader.what = others.from[i].first
                      ? "may read a selection before the rule that refreshes "
                        "it first does; it must come after a phase that is "
                        "`before` that"
                      : "reads a selection of a rule that does not refresh it "
                        "in every step of its cadence";
    return reader;
  }
  return std::nullopt;
}

std::optional<PlanProblem> Reads::check(size_t rule) {
  const std::vector<Phase> &phases = manifest.rules[rule].phases;
  writes.clear();
  readable.clear();
  for (int64_t selection : refreshedBy(manifest.rules[rule]))
    writes.try_emplace(selection, phases, selection,
                       manifest.selection(selection).cadence);
  for (size_t p = 0; p < phases.size(); ++p)
    for (int64_t selection :
         manifest.kernel(phases[p].attention).selections()) {
      PlanProblem problem = {.rule = rule, .phase = p, .selection = selection};
      auto own = writes.find(selection);
      if (own == writes.end()) {
        if (auto found = checkOthers(problem))
          return found;
      } else if (const char *why = checkRead(own->second, p)) {
        problem.what = why;
        return problem;
      }
    }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// N4, N5, N8, N10: phases
//===----------------------------------------------------------------------===//

/// N8, R20: what is kept of attention outside of a set is merged by
/// log-sum-exp, and rows that are not visible have no place among those that
/// kernels count.
static std::optional<std::string> checkAttention(const Manifest &manifest,
                                                 const Kernel &kernel) {
  const bool dense = kernel.terms.empty();
  if (manifest.reuse.attention == Reuse::Attention::Outside) {
    if (auto problem = checkOutside(dense, kernel.scores))
      return problem;
    if (!kernel.writesLse)
      return "must write the log-sum-exp where attention outside of a set is "
             "kept";
  }
  return std::ranges::any_of(manifest.passes, &Pass::unseen)
             ? checkUnseen(dense, kernel.scores)
             : std::nullopt;
}

/// "group 32 per layer by mean_probability within blocks(size = 64)".
static std::string formText(const ListForm &form) {
  std::string text =
      (form.blocks ? "blocks of " : "group ") + groupText(form.group);
  text += form.perKvHead  ? " per key/value head"
          : form.perLayer ? " per layer"
                          : "";
  text += " by " + detail::nameOf(form.scorer);
  if (form.pooled > 0)
    text += " pooled(" + std::to_string(form.pooled) + ")";
  if (form.withinGroup > 0)
    text += (form.withinBlocks ? " within blocks(size = "
                               : " within columns(group = ") +
            groupText(form.withinGroup) + ")";
  return text;
}

/// "a select kernel of group 32 by mean_probability", "dense attention that
/// writes no log-sum-exp".
static std::string kernelText(const Manifest &manifest, const Kernel &kernel) {
  if (kernel.kind == Kernel::Kind::Select)
    return "a select kernel of " + formText(kernel);
  const std::string over =
      kernel.terms.empty()
          ? "dense attention"
          : "attention over " + printable(words(kernel.terms, manifest));
  return over + (kernel.writesLse ? "" : " that writes no log-sum-exp");
}

/// N4: whether the kernel is the one that selections of this form need; "" if
/// it is.
static std::string whyNotOf(const Manifest &manifest, const ListForm &form,
                            const Kernel &kernel) {
  if (kernel.kind == Kernel::Kind::Select &&
      static_cast<const ListForm &>(kernel) == form)
    return "";
  return "needs a select kernel of " + formText(form) + ", found " +
         kernelText(manifest, kernel);
}

/// N8: a refresh that reads the log-sum-exp follows dense attention that writes
/// it, and each one what its selection is scored by besides, and no more.
static std::optional<std::string> checkRefresh(const Manifest &manifest,
                                               const Phase &phase,
                                               const Phase::Refresh &refresh) {
  const Selection &selection = manifest.selection(refresh.selection);
  const Kernel &scorer = manifest.kernel(phase.scorer());
  if (readsLse(selection.scorer)) {
    // F5: by the same function of the logits.
    if (manifest.kernel(refresh.kernel).scores != scorer.scores)
      return "must choose by the scores of the attention whose log-sum-exp it "
             "reads";
    const bool early = phase.refreshesFirst && phase.scoring < 0;
    if (!scorer.terms.empty() || !scorer.writesLse || early)
      return "must follow dense attention that writes the log-sum-exp, found " +
             (early ? "none before it" : kernelText(manifest, scorer));
  }
  return checkScorings(selection, phase.scorer(), scorer.scores,
                       refresh.scorings);
}

/// The first thing that a phase launches and can't.
static std::optional<PlanProblem>
checkPhase(const Manifest &manifest, PlanProblem at, const Phase &phase) {
  auto fail = [&](At where, int64_t kernel, std::string what) {
    at.at = where;
    at.kernel = kernel;
    at.what = std::move(what);
    return at;
  };
  for (auto [where, kernel] : {std::pair(At::Attention, phase.attention),
                               std::pair(At::Scoring, phase.scorer())})
    if (manifest.kernel(kernel).kind != Kernel::Kind::Attention)
      return fail(where, kernel,
                  "needs an attention kernel, found " +
                      kernelText(manifest, manifest.kernel(kernel)));
  if (phase.refreshesFirst && phase.refreshes.empty())
    return fail(At::Phase, -1, "refreshes before it attends, and nothing");
  if (!phase.refreshesFirst && phase.scoring >= 0)
    return fail(At::Scoring, phase.scoring,
                "scores for refreshes before the attention, and they come "
                "behind it");
  bool anyReads = false;
  std::set<int64_t> refreshed;
  for (at.refresh = 0; at.refresh < phase.refreshes.size(); ++at.refresh) {
    const Phase::Refresh &refresh = phase.refreshes[at.refresh];
    const ListForm form =
        formOf(manifest, manifest.selection(refresh.selection));
    if (std::string why =
            whyNotOf(manifest, form, manifest.kernel(refresh.kernel));
        !why.empty())
      return fail(At::Refresh, refresh.kernel, std::move(why));
    if (auto why = checkRefresh(manifest, phase, refresh))
      return fail(At::Refresh, phase.scorer(), *why);
    if (!refreshed.insert(refresh.selection).second)
      return fail(At::Refresh, -1, "is the phase's second of one selection");
    anyReads |= readsLse(manifest.selection(refresh.selection).scorer);
  }
  if (phase.scoring >= 0 && !anyReads)
    return fail(At::Scoring, phase.scoring,
                "scores for refreshes of which none reads log-sum-exps");
  if (auto why = checkAttention(manifest, manifest.kernel(phase.attention)))
    return fail(At::Attention, phase.attention, *why);
  return std::nullopt;
}

std::optional<PlanProblem> heddle::bundle::checkPlan(const Manifest &manifest) {
  for (size_t i = 0; i < manifest.kernels.size(); ++i)
    if (auto why = checkKernel(manifest, manifest.kernels[i]))
      return PlanProblem{
          .at = At::Kernel, .what = *why, .kernel = static_cast<int64_t>(i)};
  if (auto problem = checkSpans(manifest))
    return problem;
  for (size_t i = 0; i < manifest.rules.size(); ++i) {
    const std::vector<Phase> &phases = manifest.rules[i].phases;
    auto isLast = [](const Phase &phase) {
      return phase.when.kind == When::Kind::Otherwise;
    };
    if (phases.empty() || !isLast(phases.back()))
      return PlanProblem{.rule = i,
                         .at = At::Rule,
                         .what = "must end with a phase `otherwise`, so that "
                                 "every step has a phase"};
    for (size_t p = 0; p < phases.size(); ++p) {
      PlanProblem here = {.rule = i, .phase = p};
      if (p + 1 < phases.size() && isLast(phases[p])) {
        here.what = "takes every step, so that the phases after it never run";
        return here;
      }
      if (auto problem = checkPhase(manifest, here, phases[p]))
        return problem;
    }
  }
  Reads reads(manifest);
  for (size_t i = 0; i < manifest.rules.size(); ++i)
    if (auto problem = reads.check(i))
      return problem;
  return std::nullopt;
}
