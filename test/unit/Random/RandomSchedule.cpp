//===- RandomSchedule.cpp - Schedules drawn from the whole algebra --------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomSchedule.h"
#include "../Kernels/RandomScores.h"
#include "bundle/program/PositionForms.h"

#include "bundle/test/RandomTerm.h"

#include <algorithm>
#include <map>

using namespace heddle;
using namespace heddle::test;
namespace bundle = heddle::bundle;

std::string RandomSchedule::text(const std::vector<std::string> &parts) const {
  std::string text = "heddle.schedule @s {\n";
  for (const std::string &line : lines)
    text += "  " + line + "\n";
  if (parts.empty())
    return text + "  attend dense" + scores + "\n}\n";
  text += "  %pairs = union ";
  for (size_t i = 0; i < parts.size(); ++i)
    text += (i ? ", " : "") + parts[i];
  text += "\n  attend ";
  if (!until.empty())
    text += "dense until(" + until + ") then ";
  return text + earlier + "pairs(%pairs)" + (atOnce ? " at_once" : "") +
         scores + "\n}\n";
}

namespace {

class Generator {
public:
  explicit Generator(std::mt19937 &random) : random(random) {}

  RandomSchedule draw() {
    switch (below(9)) {
    case 0: // every step computes all rows
      below(3)   ? commits(/*mayRevoke=*/true, /*mayEdit=*/true)
      : below(2) ? drafts()
                 : shadows();
      break;
    case 8:
      keptAttention();
      break;
    case 1:
      fixedRows();
      break;
    case 2:
      salientRows();
      break;
    case 3:
      leastSimilarRows();
      break;
    case 4:
      orderedRows();
      break;
    case 5:
      releasedWindow();
      break;
    case 6:
      span();
      break;
    case 7:
      layeredRows();
      break;
    default:
      movingWindow();
    }
    if (!dense)
      pairs();
    scores();
    layers();
    return std::move(schedule);
  }

private:
  int64_t below(int64_t bound) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(bound));
  }
  std::string number(int64_t low, int64_t high) {
    return std::to_string(low + below(high - low + 1));
  }
  template <size_t N> std::string oneOf(const char *const (&choices)[N]) {
    return choices[below(N)];
  }
  void add(std::string line) { schedule.lines.push_back(std::move(line)); }
  /// Adds a line "%name = op" and gives the value.
  std::string value(const std::string &name, const std::string &op) {
    std::string v = "%" + name + std::to_string(values++);
    add(v + " = " + op);
    return v;
  }
  std::string cadence(const std::string &form) {
    return value("c", "cadence " + form);
  }

  /// A cadence that includes step 1, of a block or of the run.
  std::string fromStepOne() {
    std::string block = below(4) ? "" : " in block";
    switch (below(7)) {
    case 5:
      return cadence(drafted ? "every(3)" : driftForm());
    case 6:
      return cadence("geometric(" + number(2, 4) + ")" + block);
    case 0:
      return cadence("first(" + number(1, 4) + ")" + block);
    case 1:
      return cadence("uniform(window = 0.6, count = " + number(1, 4) + ")" +
                     block);
    case 2:
      return cadence("power(window = 1/2, count = " + number(1, 4) + ")" +
                     block);
    default:
      return cadence("every(" + number(1, 5) + ")" + block);
    }
  }

  /// Draws a cadence's fields, each from the least that it may be on.
  struct Drawer {
    static constexpr bool writes = false;
    Generator &from;

    void operator()(const char *, bundle::Cadence::Kind &kind,
                    bundle::detail::Kind) {
      kind = bundle::Cadence::Kind(from.below(int(namesOf(kind).size())));
    }
    void operator()(const char *, bool &value, bundle::detail::Clause) {
      value = from.below(4) == 0;
    }
    template <typename T, typename R>
    void operator()(const char *, T &value, R rule) {
      if constexpr (std::is_same_v<T, bundle::Ratio>)
        value = {1, 1 + from.below(4)};
      else if constexpr (requires { valueRule(rule).low; })
        value = std::max<int64_t>(1, valueRule(rule).low) + from.below(4);
    }
    bool has(const char *, bool, const char *since = "") {
      return !*since && from.below(2);
    }
  };

  /// A cadence of any form.
  std::string anyForm() {
    bundle::Cadence cadence;
    Drawer drawer{*this};
    bundle::detail::fields(drawer, cadence);
    return cadence.kind == bundle::Cadence::Kind::Drift ? driftForm()
                                                        : toString(cadence);
  }

  /// A cadence by drift, mostly the one that the schedule has.
  std::string driftForm() {
    return driftForm(drifts.empty() || below(4) == 0
                         ? oneOf({"", "", ", layer = 0", ", layer = -2"})
                         : drifts.begin()->first);
  }

  /// The one of a layer; all have `within`, `in block` and what they measure in
  /// common.
  std::string driftForm(const std::string &layer) {
    if (drifts.empty()) {
      weighs = !dense && below(3) == 0;
      drift = ", within = " + number(2, 6);
      driftClause = below(3) ? "" : " in block";
    }
    std::string &form = drifts[layer];
    if (form.empty())
      // Of weights that hardly change each engine has its own last bits.
      form = (weighs ? "drift(attention, below = " + oneOf({"1/2", "0.9"})
                     : "drift(below = " + oneOf({"1/2", "0.9", "1"})) +
             drift + layer + ")" + driftClause;
    return form;
  }

  /// Any set that is made of no others, but what comes next in an order.
  std::string anySet() {
    bundle::Positions set;
    do
      set.kind =
          bundle::Positions::Kind(below(int(bundle::Positions::Kind::Union)));
    while (set.kind == bundle::Positions::Kind::Next);
    Drawer drawer{*this};
    bundle::detail::fieldsOfForm(drawer, set);
    bundle::detail::Speller speller(bundle::detail::wordOf(set.kind));
    bundle::detail::fieldsOfForm(speller, set);
    speller.close();
    return "positions " + speller.text;
  }

  /// A later cadence, for passes that only some steps take.
  std::string sometimes(bool byDrift = true) {
    switch (below(8)) {
    case 0:
      return cadence("at(step = " + number(2, 8) + ")");
    case 1:
      return cadence("at(" + oneOf({"0.4", "1/2"}) + ")");
    case 2:
      return cadence("at(0.3, plus = " + number(1, 3) + ") in block");
    case 3:
      return cadence("random(window = 0.8, count = " + number(1, 4) +
                     ", seed = " + number(0, 9) + ")");
    case 4: {
      std::string form = anyForm();
      while (!byDrift && form.starts_with("drift"))
        form = anyForm();
      return cadence(form);
    }
    default:
      return cadence("every(" + number(2, 4) + ", from = " + number(2, 5) +
                     ")");
    }
  }

  /// " on %c", or of two cadences the steps that both have.
  std::string onSome(bool byDrift = true) {
    std::string on = " on " + sometimes(byDrift);
    return below(4) ? on : on + " and " + sometimes(byDrift);
  }

  /// Positions that hold every masked one, so that a step can commit.
  std::string masked() {
    std::string set =
        value("p", oneOf({"positions response", "positions block",
                          "positions undecoded", "positions from(block)",
                          "positions undecoded(first = 9)"}));
    switch (below(8)) {
    case 0:
    case 1:
      return set;
    case 2:
      return value("p", "hull " + set);
    case 3:
      return value("p",
                   "intersect " + set + ", " +
                       value("p", oneOf({"positions response", "positions all",
                                         "positions undecoded"})));
    case 4:
      return value("p", "except " + set + ", " +
                            value("p", oneOf({"positions committed(last = 2)",
                                              "positions decoded",
                                              "positions prompt"})));
    default:
      break;
    }
    std::string other = value("p", anySet());
    if (below(3) == 0)
      other = value("p", "last(" + number(1, 4) + ") of " + other);
    else if (!ordered && below(3) == 0)
      other = value("p", "confident(" + number(1, 4) + near() + ") of " + set);
    return value("p", "union " + set + ", " + other);
  }

  /// How what is decoded near a position lifts a confidence, if it does.
  std::string near() { return below(2) ? "" : ", near = " + number(1, 12); }

  /// The same of the confidences that a commit goes by.
  std::string lifted() {
    return below(4) ? "" : " near(" + number(1, 12) + ")";
  }

  /// The weight of confidence beside a cosine, if there is one.
  std::string weight() {
    return below(2) ? "" : ", confidence = " + oneOf({"1/2", "0.1", "1"});
  }

  /// The commits of a schedule in which every masked position has its row; with
  /// `mayRevoke` also each that a commit made a mask again, and with `mayEdit`
  /// each of which it made another token. With both, masks may be noise.
  void commits(bool mayRevoke = true, bool mayEdit = false,
               bool mayRenoise = true) {
    if (below(3) == 0)
      return;
    if (below(2)) {
      std::string first =
          value("p", "positions undecoded(first = " + number(1, 3) + ")");
      add("commit best(" + number(1, 2) + ") within(" + first + ")" +
          onSome(/*byDrift=*/false));
    }
    static const char *const rules[] = {"quota", "timesteps", "even",
                                        "even_above(1/2)",
                                        "even_above(1/2, strictly)"};
    std::string rule =
        "commit " + (below(2) ? oneOf(rules) + lifted() : sure());
    if (mayRevoke && below(5) == 0)
      rule += revoke();
    if (mayEdit && below(4) == 0)
      rule += edit();
    if (mayRevoke && mayEdit && mayRenoise && below(3) == 0)
      rule += " renoise";
    if (below(4) == 0)
      rule += " passes(at_least = 2)";
    if (below(4) == 0)
      rule += " stop(eos)";
    add(rule);
  }

  /// A rule that takes as many as the run's confidences say, or a number.
  std::string sure() {
    std::string rule =
        below(6) ? oneOf({"above(0.9)", "above(1/50, strictly)", "factor(5/4)",
                          "factor(1, last_alone)", "best(2)"}) +
                       lifted()
                 : "entropy(3)";
    if (below(4) == 0)
      rule += " at_most(share = " + oneOf({"0.7", "1/8", "1/1"}) +
              (below(2) ? ", least = " + number(1, 3) : "") +
              (below(2) ? ", most = " + number(3, 6) : "") + ")";
    return rule;
  }

  std::string revoke(const std::string &by = "") {
    return " revoke(below = " + oneOf({"0.9", "1/50", "1/1"}) + by +
           (below(2) ? ", fewer_than = step_before" : "") + ")";
  }

  /// Commits that revoke by a shadow, or some of which do. Its rows are no
  /// places that selections, sets of pairs or scores could ask for.
  void shadows() {
    dense = plainLogits = true;
    if (below(3) == 0)
      add("commit " + oneOf({"quota", "best(1)"}) + onSome(/*byDrift=*/false));
    add("commit " + (below(3) ? sure() : oneOf({"quota", "timesteps"})) +
        revoke(", by = shadow") +
        oneOf({"", "", " stop(eos)", " stop(eos, narrowing)",
               " passes(at_least = 2)"}));
  }

  std::string edit() {
    return " edit(above = " + oneOf({"0.9", "1/50", "1/1000"}) +
           (below(2) ? ", further = " + number(1, 3) : "") + ")";
  }

  /// The set with what became a token at the step before, which a step that
  /// edits computes.
  std::string withRecent(const std::string &set) {
    std::string recent = value("p", "positions committed(last = 1)");
    return value("p", "union " + set + ", " + recent);
  }

  /// Commits whose steps may be drafted ahead.
  void drafts() {
    drafted = true;
    static const char *const rules[] = {"quota", "best(2)", "timesteps",
                                        "even"};
    if (below(3) == 0)
      add("commit " + oneOf(rules) + onSome(/*byDrift=*/false));
    add("commit " + oneOf(rules) + lifted() + oneOf({"", "", " renoise"}) +
        " verify(drafts = " + number(1, 4) + ")" +
        oneOf({"", "", " stop(eos)", " passes(at_least = 2)"}));
  }

  void fixedRows() {
    std::string start = fromStepOne();
    add("reuse " + oneOf({"kv", "kv, ffn", "kv, context, ffn",
                          "kv(before_rope), output"}));
    add("recompute all on " + start);
    const bool edits = below(3) == 0;
    auto some = [&] {
      std::string rows = masked();
      return edits ? withRecent(rows) : rows;
    };
    if (below(2)) {
      std::string sometimes = onSome();
      add("recompute " + some() + sometimes);
    }
    std::string rows = some();
    if (below(5) == 0) {
      dense = plainLogits = true;
      std::string drawing = value(
          "p", "attended(share = " + oneOf({"1/10", "0.5", "1", "1 percent"}) +
                   ") of " + value("p", anySet()));
      rows = value("p", "union " + rows + ", " + drawing);
    }
    if (!edits && below(4) == 0)
      rows = value("p", "predicting " + rows) + " alone";
    else if (below(4) == 0)
      rows += " alone";
    add("recompute " + rows);
    commits(/*mayRevoke=*/true, edits);
  }

  /// Positions that follow each other.
  std::string range() {
    std::string set = value(
        "p", oneOf({"positions block", "positions block", "positions response",
                    "positions prompt", "positions from(block)",
                    "positions before(block)", "positions all"}));
    switch (below(6)) {
    case 0:
      return value("p", "hull " + value("p", anySet()));
    case 1:
      return value("p", "leading " + value("p", anySet()));
    case 2:
      return value("p", "fix " + set + " on " + fromStepOne());
    default:
      return set;
    }
  }

  /// Attention over the keys outside of a range is kept.
  void keptAttention() {
    dense = plainLogits = true;
    const bool window = below(3) == 0;
    std::string start =
        window ? cadence("every(" + number(2, 5) + ")") : fromStepOne();
    if (window) {
      std::string seen =
          value("p", "union " + value("p", "positions decoded") + ", " +
                         value("p", "positions undecoded(first = 20)"));
      add("visible " + value("p", "fix " + seen + " on " + start));
    }
    std::string inside = range();
    std::string refreshed;
    const bool changed = !window && below(4) == 0;
    if (changed) {
      std::string masks = value("p", "positions undecoded");
      refreshed = ", refresh = " + withRecent(masks);
    } else if (below(3)) {
      refreshed = ", refresh = ";
      if (below(2))
        refreshed +=
            "least_similar(keep = " + oneOf({"1/4", "0.6", "1", "0 percent"}) +
            ") in ";
      refreshed += value("p", below(2) ? anySet() : "positions block");
    }
    add("reuse kv" + oneOf({"", ", ffn"}) + ", attention(outside = " + inside +
        ", on = " + start + refreshed + ")");
    add("recompute all on " + start);
    const bool edits = changed || below(3) == 0;
    std::string rows =
        window ? value("p", "positions undecoded(first = 9)") : masked();
    if (edits)
      rows = withRecent(rows);
    add("recompute " + rows);
    commits(/*mayRevoke=*/!window, edits, /*mayRenoise=*/changed);
  }

  /// All rows now and then, else those of the response as `exact` says:
  /// "salient(below = 2)".
  void someExactRows(const std::string &reuse, const std::string &exact) {
    std::string start = fromStepOne();
    add("reuse " + reuse);
    add("recompute all on " + start);
    if (below(2)) {
      std::string whole = onSome();
      add("recompute " + exact + " in all" + whole);
    }
    add("recompute " + exact + " in %response");
    commits(/*mayRevoke=*/true, /*mayEdit=*/true);
  }

  /// Rows that differ from layer to layer: in later ones some of the earlier
  /// ones', or any where the layers keep what they leave out.
  void layeredRows() {
    std::string start = fromStepOne();
    if (below(3) == 0) { // what is not chosen ends
      std::string rows =
          value("p", oneOf({"positions block", "positions response",
                            "positions from(block)"}));
      std::string first = value("p", "positions undecoded(first = 1)");
      if (below(2))
        first = value("p", "union " + first + ", " +
                               value("p", "confident(" + number(1, 3) + near() +
                                              ") of " + rows));
      std::string others = value("p", "except " + rows + ", " + first);
      add("reuse kv");
      add("recompute all on " + start);
      const std::string kept = oneOf({"1/4", "0.6", "0 percent"});
      add("recompute least_similar(keep = " + kept + ", among = " + others +
          (kept == "0 percent" ? "" : weight()) + ") in " + rows +
          " in layers" + oneOf({"(1)", "(1 to 2)", "(-1)", "(0, 2)"}));
      add("recompute " + rows);
      return;
    }
    const bool edits = below(3) == 0;
    auto some = [&] {
      std::string rows = masked();
      return edits ? withRecent(rows) : rows;
    };
    std::string rows = some();
    if (below(2)) {
      add("reuse " + oneOf({"kv, ffn", "kv, context", "kv, output, ffn"}) +
          " in layers" + oneOf({"(0)", "(0 to 1)", "(-1)"}));
      add("reuse kv");
      add("recompute all on " + start);
      std::string when = below(3) ? "" : onSome();
      add("recompute " + rows + when + " in layers" +
          oneOf({"(0)", "(0 to 1)", "(0, 1)"}));
      std::string other = some();
      add("recompute " + value("p", "intersect " + rows + ", " + other));
    } else {
      add("%response = positions response");
      static const char *const kept[] = {"context", "context(propagating)",
                                         "output"};
      const int64_t which = below(3);
      plainLogits |= which == 1;
      add(std::string("reuse kv, ") + kept[which] + ", ffn");
      add("recompute all on " + start);
      if (below(3) == 0) { // from the layer on that has drifted
        const std::string early = cadence(driftForm(", layer = -3"));
        const std::string late = cadence(driftForm(", layer = -2"));
        add("recompute all on " + early + " in layers(-3 to -1)");
        add("recompute all on " + late + " in layers(-2 to -1)");
      }
      add("recompute " + rows + " in layers" +
          oneOf({"(0)", "(1 to 2)", "(-1)", "(0, -1)"}));
      if (below(2))
        add("recompute " + some());
      else if (which == 2)
        add("recompute least_similar(keep = 0.6, among = %response) in "
            "%response");
      else
        add("recompute salient(below = 1/100) in %response");
    }
    commits(/*mayRevoke=*/false, edits);
  }

  void salientRows() {
    add("%response = positions response");
    // Rounding must not decide: either nearly all rows are salient, or few.
    plainLogits = below(2);
    someExactRows(plainLogits ? "kv, context(propagating), ffn"
                              : "kv, context, ffn",
                  oneOf({"salient", "salient", "salient_ffn"}) +
                      "(below = " + oneOf({"1/2", "2", "1/100"}) + ")");
  }

  void leastSimilarRows() {
    add("%response = positions response");
    const std::string kept = oneOf({"1/4", "0.6", "1", "0 percent"});
    someExactRows(oneOf({"kv, output, ffn", "kv, context, ffn"}),
                  "least_similar(keep = " + kept + ", among = %response" +
                      (kept == "0 percent" ? "" : weight()) + ")");
  }

  /// What comes next in a drawn order, and what stands around it.
  void orderedRows() {
    ordered = true;
    std::string start = fromStepOne();
    std::string next = value("p", "positions next");
    std::string near =
        value("p", oneOf({"neighbors(", "nearest("}) + number(1, 5) + ") of " +
                       next + " in " + masked());
    std::string rows = value("p", "union " + next + ", " + near);
    const bool edits = below(3) == 0;
    if (edits || below(2))
      rows = withRecent(rows);
    add("reuse kv");
    add("recompute all on " + start);
    add("recompute " + rows);
    add("commit random_order" + (edits ? edit() : ""));
  }

  /// What is decoded and the next masks, as they were at a phase's begin.
  void movingWindow() {
    bool ends = below(3) == 0;
    phase =
        cadence("every(" + number(2, 5) + ")" + (ends ? " or after eos" : ""));
    std::string active = number(2, 6);
    std::string decoded = value("p", "positions decoded");
    std::string next =
        value("p", "positions undecoded(first = " + number(8, 40) + ")");
    std::string recent =
        value("p", "positions committed(since = " + phase + ")");
    std::string some =
        value("p", "positions undecoded(first = " + active + ")");
    std::string seen = value("p", "union " + decoded + ", " + next);
    std::string rows = value("p", "union " + some + ", " + recent);
    add("visible " + value("p", "fix " + seen + " on " + phase));
    bool salient = plainLogits = below(3) == 0;
    add(salient ? "reuse kv, context(propagating), ffn" : "reuse kv");
    add("recompute all on " + phase);
    add(salient ? "recompute salient(below = 2) in " + rows
                : "recompute " + rows);
    // Of what the window committed; what is not in the set stays.
    const bool edits = below(3) == 0;
    add("commit quota within(" + (edits ? rows : some) + ")" +
        (edits ? edit() : "") + (ends ? " stop(eos, narrowing)" : ""));
  }

  /// The same by steps that see all positions, which leaves no selections; with
  /// rows that are no keys it leaves all pairs.
  void releasedWindow() {
    selects = false;
    const bool unseen = below(2);
    dense = plainLogits = unseen;
    std::string period = number(3, 6);
    std::string start = cadence("every(" + period + ")");
    std::string after = cadence("every(" + period + ", from = 2)");
    std::string active =
        value("p", "positions undecoded(first = " + number(2, 6) + ")");
    std::string recent =
        value("p", "positions committed(since = " + after + ")");
    std::string seen =
        value("p", "union " + value("p", "positions decoded") + ", " +
                       value("p", "positions undecoded(first = " +
                                      (unseen ? number(1, 4) : "20") + ")"));
    add("visible all on " + start + " then " +
        value("p", "fix " + seen + " on " + after));
    add("reuse kv");
    add("recompute all on " + start);
    const bool edits = below(3) == 0;
    if (edits)
      active = withRecent(active);
    add("recompute " + value("p", "union " + active + ", " + recent) +
        (unseen ? " unseen" : ""));
    add("commit quota on " + start);
    add("commit " + oneOf({"quota", "best(1)"}) + " within(" + active + ")" +
        (edits ? edit() : ""));
  }

  /// A prefix that stays and the rows from the window's first to its last.
  void span() {
    selects = false;
    bool ends = below(2);
    std::string start =
        cadence("every(" + number(3, 6) + ")" + (ends ? " or after eos" : ""));
    std::string kept =
        value("p", "union " + value("p", "positions decoded") + ", " +
                       value("p", "positions undecoded(first = 20)"));
    std::string prefix =
        value("p", "fix " + value("p", "leading " + kept) + " on " + start);
    std::string first = value("p", "positions undecoded(first = 1)");
    std::string begin = value("p", "fix " + first + " on " + start);
    std::string some =
        value("p", "positions undecoded(first = " + number(2, 6) + ")");
    std::string rows =
        value("p", "hull " + value("p", "union " + begin + ", " + some));
    add("visible " + value("p", "union " + prefix + ", " + rows));
    add("reuse kv");
    add("recompute all on " + start);
    add("recompute " + rows + " alone");
    add("commit best(1) within(" + first + ") on " + start);
    add("commit best(1) within(" + rows + ")" +
        (ends ? " stop(eos, narrowing)" : ""));
  }

  /// What columns in groups of `size`, of heads that share lists as `shared`
  /// says, may be chosen within.
  std::string outer(const std::string &size, const std::string &shared,
                    const std::string &when) {
    const bool ofAll = size == "all";
    const std::string keep = "(keep = " + oneOf({"1/8", "1/2", "3", "70"});
    if (!ofAll && shared.empty() && below(2))
      return value(
          "s", "select blocks" + keep +
                   ", size = " + (below(2) ? size : "128") + ")" + scorer() +
                   oneOf({"", "isolating(spans) ", "isolating(aligned) "}) +
                   "on " + when);
    const std::string group = ofAll || below(2) ? size : oneOf({"128", "all"});
    std::string more = below(2) ? shared : ", per_layer";
    if (shared.empty() && below(3) == 0)
      more = ", per_kv_head";
    return value("s",
                 "select columns" + keep + ", group = " + group + more + ")" +
                     scorer() +
                     (drafted || below(3) ? "" : "always " + range() + " ") +
                     "on " + when);
  }

  std::string scorer() {
    return oneOf(
        {" by mean_probability ", " by mean_probability ", " by mean_logit "});
  }

  std::string selection(const std::string &on) {
    std::string keep =
        oneOf({"1/8", "0.2", "50 percent", "1/1", "1/100", "1", "2", "40"});
    std::string size = oneOf({"16", "32", "64", "128"});
    std::string rounding =
        oneOf({"", "", "", ", rounding = ceil", ", rounding = round",
               ", rounding = floor_plus_one"});
    if (keep.find_first_not_of("0123456789") == std::string::npos)
      rounding.clear(); // of a number
    // Layer 0 is before all that read.
    std::string when = on;
    if (below(4) == 0)
      when += " in layers" + oneOf({"(0)", "(0, 2)", "(0 to 1)"});
    if (below(3) == 0) {
      std::string isolation =
          oneOf({"", "", "isolating(spans) ", "isolating(aligned) ",
                 "isolating(filtered) "});
      plainLogits |= isolation == "isolating(filtered) ";
      // Logits have neither of these.
      std::string by = isolation == "isolating(filtered) "
                           ? " by mean_probability "
                           : scorer();
      std::string scale = by == " by mean_probability "
                              ? oneOf({"", "", "scaled_by(heads) "})
                              : "";
      return value("s", "select blocks(keep = " + keep + ", size = " + size +
                            rounding + ")" + by + isolation + scale + "on " +
                            when);
    }
    std::string shared =
        below(4) ? "" : oneOf({", per_kv_head", ", per_layer"});
    std::string by = scorer();
    if (below(5) == 0)
      by += "pooled(" + oneOf({"3", "5", "127"}) + ") ";
    const bool ofAll = below(5) == 0;
    if (ofAll && !drafted && below(3))
      by += "of " + range() + " ";
    if (!drafted && (below(5) == 0 || (ofAll && below(2))))
      by += "always " + range() + " ";
    if (below(4) == 0)
      by += "within " + outer(ofAll ? "all" : size, shared, when) + " ";
    return value("s", "select columns(keep = " + keep +
                          ", group = " + (ofAll ? "all" : size) + rounding +
                          shared + ")" + by + "on " + when);
  }

  void pairs() {
    if (below(6) == 0)
      return;
    std::string shared;
    bool late = selects && phase.empty() && below(5) == 0;
    if (late) {
      shared = cadence("at(" + oneOf({"0.2", "1/2", "step = 3"}) + ")");
      schedule.until = shared;
    }
    // Lists that are within other sets are all within the same.
    std::string bound;
    bool plain = false;
    for (int64_t count = selects ? below(3) : 0; count > 0; --count) {
      std::string one = selection(late             ? shared
                                  : !phase.empty() ? phase
                                                   : fromStepOne());
      if (below(3) == 0) {
        if (bound.empty())
          bound = below(4) ? setOf(numberedTerm())
                           : value("w", "union " + setOf(numberedTerm()) +
                                            ", " + setOf(numberedTerm()));
        one = value("i", "intersect " + one + ", " + bound);
        schedule.intersects = true;
      } else {
        plain = true;
      }
      schedule.terms.push_back(one);
    }
    // What another set contains is not read.
    schedule.atOnce = plain && below(4) == 0;
    for (int64_t count = below(3); count > 0; --count) {
      const bundle::Term term = randomTerm(random, 60);
      schedule.window |= term.kind == bundle::Term::Kind::Window;
      schedule.sinks |= term.kind == bundle::Term::Kind::Sinks;
      schedule.intersects |= !term.within.empty();
      schedule.terms.push_back(setOf(term));
    }
    std::shuffle(schedule.terms.begin(), schedule.terms.end(), random);
    if (schedule.terms.empty() || below(5))
      return;
    std::string set = setOf(randomTerm(random, 60));
    if (selects && !late && !schedule.atOnce && below(2))
      set = value("w", "union " + set + ", " +
                           selection(!phase.empty() ? phase : fromStepOne()));
    schedule.earlier =
        "pairs(" + set + ") until(" +
        cadence(oneOf({"at(1/2)", "at(step = 4)", "every(3, from = 2)"})) +
        ") then ";
  }

  /// The value of a term, which may be an intersection.
  std::string setOf(const bundle::Term &term) {
    auto own = term;
    own.within.clear();
    std::string set = value("w", bundle::words(own));
    if (term.within.empty())
      return set;
    std::string parts = set;
    for (const bundle::Term &each : term.within)
      parts += ", " + value("w", bundle::words(each));
    return value("i", "intersect " + parts);
  }

  /// What may be intersected: no fraction of sinks.
  bundle::Term numberedTerm() {
    while (true)
      if (bundle::Term term = randomSet(random, 60);
          !bundle::isShareOfSinks(term))
        return term;
  }

  /// A function of the logits, where none of the other words asks for plain
  /// ones.
  void scores() {
    if (!plainLogits && below(5) == 0)
      schedule.scores = " " + regionOf(randomScores(random));
  }

  void layers() {
    if (below(3))
      return;
    std::string where = oneOf({"(0 to 0)", "(-1 to -1)", "(0 to 1)"});
    if (dense || below(2)) {
      add("attend dense in layers" + where);
      return;
    }
    if (below(4) == 0) {
      std::string all = value("d", "dense");
      add("attend pairs(" + all + ") in layers" + where);
      return;
    }
    std::string set = setOf(randomTerm(random, 40));
    add("attend pairs(" + set + ") in layers" + where);
  }

  std::mt19937 &random;
  RandomSchedule schedule;
  std::string phase; ///< on which visible positions change; "" if all are
  std::string drift, driftClause; ///< what its cadences by drift have in common
  bool weighs = false;            ///< they go by attention's weights
  std::map<std::string, std::string> drifts; ///< each of them, by its layer
  bool selects = true;                       ///< selections may be read
  bool drafted = false;     ///< of them none by drift or sets of positions
  bool ordered = false;     ///< commits go by an order
  bool plainLogits = false; ///< scores are not allowed
  bool dense = false;       ///< nor are other pairs than all
  int64_t values = 0;
};

} // namespace

RandomSchedule heddle::test::drawSchedule(std::mt19937 &random) {
  return Generator(random).draw();
}
