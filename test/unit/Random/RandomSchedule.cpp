//===- RandomSchedule.cpp - Schedules drawn from the whole algebra --------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomSchedule.h"

#include <algorithm>

using namespace heddle::test;

std::string RandomSchedule::text(const std::vector<std::string> &parts) const {
  std::string text = "heddle.schedule @s {\n";
  for (const std::string &line : lines)
    text += "  " + line + "\n";
  if (parts.empty())
    return text + "  heddle.attend dense\n}\n";
  text += "  %pairs = heddle.union ";
  for (size_t i = 0; i < parts.size(); ++i)
    text += (i ? ", " : "") + parts[i];
  text += "\n  heddle.attend ";
  if (!until.empty())
    text += "dense until(" + until + ") then ";
  return text + "pairs(%pairs)" + (atOnce ? " at_once" : "") + "\n}\n";
}

namespace {

class Generator {
public:
  explicit Generator(std::mt19937 &random) : random(random) {}

  RandomSchedule draw() {
    switch (below(6)) {
    case 0:
      break; // every step computes all rows
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
    default:
      movingWindow();
    }
    pairs();
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
    return value("c", "heddle.cadence " + form);
  }

  /// A cadence that includes step 1, of a block or of the run.
  std::string fromStepOne() {
    std::string block = below(4) ? "" : " in block";
    switch (below(5)) {
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

  /// A later cadence, for passes that only some steps take.
  std::string sometimes() {
    return cadence(below(2) ? "every(" + number(2, 4) +
                                  ", from = " + number(2, 5) + ")"
                            : "at(step " + number(2, 8) + ")");
  }

  /// Positions that hold every masked one, so that a step can commit.
  std::string masked() {
    std::string set =
        value("p", oneOf({"heddle.positions response", "heddle.positions block",
                          "heddle.positions undecoded",
                          "heddle.positions from(block)",
                          "heddle.positions undecoded(first = 9)"}));
    if (below(2))
      return set;
    std::string other =
        value("p", oneOf({"heddle.positions committed(last = 2)",
                          "heddle.positions decoded",
                          "heddle.positions before(block)"}));
    return value("p", "heddle.union positions " + set + ", " + other);
  }

  void fixedRows() {
    std::string start = fromStepOne();
    add("heddle.reuse " + oneOf({"kv", "kv, ffn", "kv, context, ffn",
                                 "kv(before_rope), output"}));
    add("heddle.recompute all on " + start);
    if (below(2)) {
      std::string some = sometimes();
      add("heddle.recompute " + masked() + " on " + some);
    }
    add("heddle.recompute " + masked());
  }

  /// All rows now and then, else those of the response as `exact` says:
  /// "salient(below = 2)".
  void someExactRows(const std::string &reuse, const std::string &exact) {
    std::string start = fromStepOne();
    add("heddle.reuse " + reuse);
    add("heddle.recompute all on " + start);
    if (below(2)) {
      std::string whole = sometimes();
      add("heddle.recompute " + exact + " in all on " + whole);
    }
    add("heddle.recompute " + exact + " in %response");
  }

  void salientRows() {
    add("%response = heddle.positions response");
    // Rounding must not decide: either nearly all rows are salient, or few.
    someExactRows(oneOf({"kv, context, ffn", "kv, context(propagating), ffn"}),
                  oneOf({"salient", "salient", "salient_ffn"}) +
                      "(below = " + oneOf({"1/2", "2", "1/100"}) + ")");
  }

  void leastSimilarRows() {
    add("%response = heddle.positions response");
    someExactRows(oneOf({"kv, output, ffn", "kv, context, ffn"}),
                  "least_similar(keep = " + oneOf({"1/4", "0.6", "1"}) +
                      ", among = %response)");
  }

  /// What comes next in a drawn order, and what stands around it.
  void orderedRows() {
    std::string start = fromStepOne();
    std::string next = value("p", "heddle.positions next");
    std::string near = value("p", "heddle.neighbors(" + number(1, 5) + ") of " +
                                      next + " in " + masked());
    std::string rows =
        value("p", "heddle.union positions " + next + ", " + near);
    if (below(2)) {
      std::string recent = value("p", "heddle.positions committed(last = 1)");
      rows = value("p", "heddle.union positions " + rows + ", " + recent);
    }
    add("heddle.reuse kv");
    add("heddle.recompute all on " + start);
    add("heddle.recompute " + rows);
    add("heddle.commit random_order");
  }

  /// What is decoded and the next masks, as they were at a phase's begin.
  void movingWindow() {
    bool ends = below(3) == 0;
    phase =
        cadence("every(" + number(2, 5) + ")" + (ends ? " or after eos" : ""));
    std::string active = number(2, 6);
    std::string decoded = value("p", "heddle.positions decoded");
    std::string next =
        value("p", "heddle.positions undecoded(first = " + number(8, 40) + ")");
    std::string recent =
        value("p", "heddle.positions committed(since = " + phase + ")");
    std::string some =
        value("p", "heddle.positions undecoded(first = " + active + ")");
    std::string seen =
        value("p", "heddle.union positions " + decoded + ", " + next);
    std::string rows =
        value("p", "heddle.union positions " + some + ", " + recent);
    add("heddle.visible " + value("p", "heddle.fix " + seen + " on " + phase));
    bool salient = below(3) == 0;
    add(salient ? "heddle.reuse kv, context(propagating), ffn"
                : "heddle.reuse kv");
    add("heddle.recompute all on " + phase);
    add(salient ? "heddle.recompute salient(below = 2) in " + rows
                : "heddle.recompute " + rows);
    add("heddle.commit quota within(" + some + ")" +
        (ends ? " stop(eos, narrowing)" : ""));
  }

  std::string selection(const std::string &on) {
    std::string keep = oneOf({"1/8", "0.2", "50 percent", "1", "1/100"});
    std::string shared = below(4) ? "" : ", per_kv_head";
    if (below(3) == 0)
      return value(
          "s", "heddle.select blocks(keep = " + keep +
                   ", size = " + oneOf({"16", "32", "64", "128"}) + shared +
                   ") by mean_probability " +
                   oneOf({"", "", "isolating(spans) ", "isolating(aligned) "}) +
                   "on " + on);
    return value("s", "heddle.select columns(keep = " + keep +
                          ", group = " + oneOf({"16", "32", "64", "128"}) +
                          oneOf({"", "", ", rounding = ceil"}) + shared +
                          ") by mean_probability on " + on);
  }

  void pairs() {
    if (below(6) == 0)
      return;
    std::string shared;
    bool late = phase.empty() && below(5) == 0;
    if (late) {
      shared = cadence("at(" + oneOf({"0.2", "1/2", "step 3"}) + ")");
      schedule.until = shared;
    }
    for (int64_t count = below(3); count > 0; --count)
      schedule.terms.push_back(selection(late             ? shared
                                         : !phase.empty() ? phase
                                                          : fromStepOne()));
    schedule.atOnce = !schedule.terms.empty() && below(4) == 0;
    if (below(2)) {
      schedule.window = true;
      schedule.terms.push_back(
          value("w", "heddle.window(" + number(1, 60) + ")"));
    }
    if (below(3) == 0) {
      schedule.sinks = true;
      schedule.terms.push_back(value(
          "k",
          "heddle.sinks(" +
              (below(2) ? number(1, 20) : oneOf({"10 percent", "1/3", "1.0"})) +
              ")"));
    }
    std::shuffle(schedule.terms.begin(), schedule.terms.end(), random);
  }

  void layers() {
    if (below(3))
      return;
    std::string where = oneOf({"(0 to 0)", "(-1 to -1)", "(0 to 1)"});
    if (below(2)) {
      add("heddle.attend dense in layers" + where);
      return;
    }
    std::string window = value("w", "heddle.window(" + number(1, 40) + ")");
    add("heddle.attend pairs(" + window + ") in layers" + where);
  }

  std::mt19937 &random;
  RandomSchedule schedule;
  std::string phase; ///< on which visible positions change; "" if all are
  int64_t values = 0;
};

} // namespace

RandomSchedule heddle::test::drawSchedule(std::mt19937 &random) {
  return Generator(random).draw();
}
