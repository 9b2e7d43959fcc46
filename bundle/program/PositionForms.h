//===- PositionForms.h - What each set of positions means -------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sets of positions of one sequence, from what is known before a step's forward
// pass. Each form that is made of no other sets says once
//
//   name    how manifests spell it, and schedules unless it has a `word`
//   fields  the fields that it has (Fields.h)
//   span,   the definition: the positions of a span that it holds, of which
//   holds   Undecoded takes the first
//   bound   the most positions that it holds in any step
//   facts   what is known of it in every run (ProgramChecks.h)
//
// Sets that are made of others stand behind them in the enumeration.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_PROGRAM_POSITIONFORMS_H
#define HEDDLE_BUNDLE_PROGRAM_POSITIONFORMS_H

#include "bundle/program/Cadences.h"

#include <span>

namespace heddle::bundle {

/// A set of positions of one sequence. The text is the sequence as far as
/// CommitRule::narrows says.
struct Positions {
  enum class Kind {
    All,
    Prompt,
    Response,
    Block,
    BeforeBlock,
    FromBlock,
    Decoded,
    Undecoded,
    Committed,
    Next,
    Single,
    Union,      ///< of the sets `of`
    Intersect,  ///< of the sets `of`
    Fixed,      ///< the set of[0] as it was before the latest step of `cadence`
    Neighbors,  ///< for each position of of[0] the `count` positions of of[1]
                ///< next to it, itself not among them: one to its left and one
                ///< to its right in turn, outwards; where a side has no more,
                ///< the other's
    Hull,       ///< every position from the first to the last of of[0]
    Leading,    ///< as many first positions of the sequence as of[0] has
    Predicting, ///< the rows that predict the positions of of[0]: these
                ///< themselves, or the ones before them
    Except,     ///< what is in of[0] and not in of[1]
    Last,       ///< the last `count` positions of of[0]
    Nearest,    ///< for each position of of[0] in turn (of Next in the drawn
                ///< order, else ascending) the `count` nearest of of[1], the
                ///< left one of two as near, that are neither in of[0] nor
                ///< taken for one before it
    Confident,  ///< of the undecoded positions of of[0] the `count` whose last
                ///< prediction had the highest confidence, the lower one of
                ///< equals; those without one last. With `near` by confidence
                ///< times the share of what is near that is decoded
    Attended,   ///< of of[0] the first ones, by the attention that they drew in
                ///< the last step that computed rows, that together drew less
                ///< than `share` of the set's, at least one, the lower one of
                ///< equals first; none before any step
  };
  Kind kind = Kind::All;
  int64_t count = 0;       ///< Undecoded, Committed, Neighbors, Nearest, Last,
                           ///< Confident; Single: which
  Cadence cadence;         ///< Committed, Fixed
  std::vector<int64_t> of; ///< indices into Manifest::positions, lower than own
  std::string name;        ///< as the schedule has it, without '%'; "": none
  /// Confident: the standard deviation, in positions, of the Gaussian that says
  /// how much a decoded position counts; 0: confidence alone.
  int64_t near = 0;
  Ratio share; ///< Attended
  static constexpr size_t longestName = 255;
  bool operator==(const Positions &) const = default;

  bool isMadeOfSets() const { return kind >= Kind::Union; }
  /// Whether the other is the same set, whatever both are called.
  bool isLike(const Positions &other) const {
    return kind == other.kind && count == other.count && of == other.of &&
           cadence == other.cadence && near == other.near &&
           share == other.share;
  }
};

/// The most that Positions::near can be: weights are summed position by
/// position.
inline constexpr int64_t maxNear = 1024;

/// A sequence before a step.
struct SequenceView {
  int64_t length, promptLength;
  int64_t blockBegin, blockEnd;         ///< the block being decoded
  int64_t textEnd;                      ///< positions from here on are no text
  std::span<const uint8_t> masked;      ///< not 0 where there is no token
  std::span<const int32_t> committedAt; ///< the step of each that has one
  int64_t since;                        ///< Committed: at or after which step
};

/// Whether a set holds a position that steps could commit, which is always in
/// the block being decoded.
struct Holding {
  enum When {
    No,
    Fresh, ///< in steps at which the set is evaluated
    Always ///< also later, while it is kept as it was
  };
  When run = No;
  When inOneBlock = No; ///< as long as the block stays the same

  static Holding of(When when) { return {when, when}; }
  Holding operator&(Holding b) const {
    return {std::min(run, b.run), std::min(inOneBlock, b.inOneBlock)};
  }
  Holding operator|(Holding b) const {
    return {std::max(run, b.run), std::max(inOneBlock, b.inOneBlock)};
  }

  /// Of the set fixed on a cadence. A run that commits nothing stays as it is
  /// until a step of an unending cadence evaluates the set anew.
  Holding fixed(const Cadence &cadence) const {
    bool again = cadence.kind == Cadence::Kind::Every;
    Holding own = of(run == Fresh && !again ? No : run);
    if (cadence.inBlock && inOneBlock == Always)
      own = {std::max(own.run, Fresh), Always};
    return own;
  }
};

/// What is known of a set of positions in every run.
struct SetFacts {
  Holding first; ///< the first masked position
  /// The first masked position of the drawn order, if that is what steps go by:
  /// then it does as well, so that they can commit something.
  Holding next;
  /// It may change at any step; else at those of `changes` only.
  bool varies = false;
  std::vector<Cadence> changes;
  /// Whether it holds what became a token at the step before, or another one,
  /// at every step that does not compute all rows anyway.
  bool recent = false;
  /// The same of every masked position of the block: any of them may have
  /// become a mask again at the step before (CommitRule::revokes), and each is
  /// other noise now (CommitRule::renoises).
  bool revoked = false;
  Holding decoded;       ///< every position of the text that is not masked
  bool filled = false;   ///< none of its positions is masked
  bool late = false;     ///< there is none before step 2
  bool ofRows = false;   ///< it is of rows, not of what they predict
  bool ofPrompt = false; ///< it may hold positions of the prompt

  void addChanges(const SetFacts &other) {
    for (const Cadence &cadence : other.changes)
      if (std::find(changes.begin(), changes.end(), cadence) == changes.end())
        changes.push_back(cadence);
  }

  /// That of all positions.
  static SetFacts all() {
    SetFacts facts;
    facts.first = facts.next = facts.decoded = Holding::of(Holding::Always);
    facts.recent = facts.revoked = facts.ofPrompt = true;
    return facts;
  }
};

namespace detail {

struct Span {
  int64_t begin, end;
};

/// Every position. What the other forms do not say is as it is here; `program`
/// knows whether all rows are computed on a cadence.
struct AllSet {
  static constexpr Name name = "all", word = "";
  template <typename V> static void fields(V &, In<V, Positions> &) {}
  static Span span(const Positions &, const SequenceView &s) {
    return {0, s.length};
  }
  static bool holds(const SequenceView &, size_t) { return true; }
  static int64_t bound(const Positions &, int64_t length, int64_t) {
    return length;
  }
  template <typename Program>
  static void facts(SetFacts &own, const Positions &, const Program &) {
    own = SetFacts::all();
  }
};

struct PromptSet : AllSet {
  static constexpr Name name = "prompt";
  static Span span(const Positions &, const SequenceView &s) {
    return {0, s.promptLength};
  }
  static int64_t bound(const Positions &, int64_t, int64_t prompt) {
    return prompt;
  }
  template <typename Program>
  static void facts(SetFacts &own, const Positions &, const Program &) {
    own.ofPrompt = own.filled = true;
  }
};

struct ResponseSet : AllSet {
  static constexpr Name name = "response";
  static Span span(const Positions &, const SequenceView &s) {
    return {s.promptLength, s.length};
  }
  static int64_t bound(const Positions &, int64_t length, int64_t prompt) {
    return length - prompt;
  }
  template <typename Program>
  static void facts(SetFacts &own, const Positions &, const Program &) {
    own = SetFacts::all();
    own.decoded = {}; // the prompt is
    own.ofPrompt = false;
  }
};

/// The block being decoded.
struct BlockSet : ResponseSet {
  static constexpr Name name = "block";
  static Span span(const Positions &, const SequenceView &s) {
    return {s.blockBegin, s.blockEnd};
  }
  template <typename Program>
  static void facts(SetFacts &own, const Positions &, const Program &program) {
    own.first = own.next = {Holding::Fresh, Holding::Always};
    own.varies = true;
    Cadence start;
    start.kind = Cadence::Kind::First;
    start.count = 1;
    start.inBlock = true;
    own.recent = program.wholeOn(start);
    own.revoked = true; // where a block begins nothing of it was a token
  }
};

/// What stands before it, the prompt included.
struct BeforeBlockSet : AllSet {
  static constexpr Name name = "before_block", word = "before(block)";
  static Span span(const Positions &, const SequenceView &s) {
    return {0, s.blockBegin};
  }
  template <typename Program>
  static void facts(SetFacts &own, const Positions &, const Program &) {
    own.varies = own.ofPrompt = true;
  }
};

/// The block and what follows it.
struct FromBlockSet : AllSet {
  static constexpr Name name = "from_block", word = "from(block)";
  static Span span(const Positions &, const SequenceView &s) {
    return {s.blockBegin, s.length};
  }
  template <typename Program>
  static void facts(SetFacts &own, const Positions &x, const Program &program) {
    BlockSet::facts(own, x, program);
    own.first = own.next = Holding::of(Holding::Always);
  }
};

/// What of the text is not masked.
struct DecodedSet : AllSet {
  static constexpr Name name = "decoded";
  static Span span(const Positions &, const SequenceView &s) {
    return {0, std::min(s.length, s.textEnd)};
  }
  static bool holds(const SequenceView &s, size_t i) { return !s.masked[i]; }
  template <typename Program>
  static void facts(SetFacts &own, const Positions &, const Program &) {
    own.varies = own.recent = own.ofPrompt = own.filled = true;
    own.decoded = Holding::of(Holding::Fresh);
  }
};

/// Its first `count` masked positions; 0: all of them.
struct UndecodedSet : DecodedSet {
  static constexpr Name name = "undecoded";
  template <typename V> static void fields(V &v, In<V, Positions> &x) {
    v("count", x.count, Spelt{Or{Range{0, maxCount}, 0}, "first"});
  }
  static bool holds(const SequenceView &s, size_t i) { return s.masked[i]; }
  static int64_t bound(const Positions &x, int64_t length, int64_t prompt) {
    return x.count > 0 ? std::min(x.count, length - prompt) : length - prompt;
  }
  template <typename Program>
  static void facts(SetFacts &own, const Positions &x, const Program &program) {
    // What is masked now was so before, unless it was revoked since.
    const auto all = program.revokes() ? Holding::Fresh : Holding::Always;
    own.first = Holding::of(x.count == 0 ? all : Holding::Fresh);
    own.next = Holding::of(x.count == 0 ? all : Holding::No);
    own.varies = true;
    own.revoked = x.count == 0;
  }
};

/// Positions of the text that became tokens in the last `count` steps, or
/// (count = 0) in or after the latest step of `cadence`.
struct CommittedSet : DecodedSet {
  static constexpr Name name = "committed";
  template <typename V> static void fields(V &v, In<V, Positions> &x) {
    if (v.has("cadence", x.count == 0, "since"))
      v("cadence", x.cadence, Spelt{Any{}, "since"});
    else
      v("count", x.count, Spelt{counted, "last"});
  }
  static bool holds(const SequenceView &s, size_t i) {
    return !s.masked[i] && s.committedAt[i] >= s.since;
  }
  static int64_t bound(const Positions &, int64_t length, int64_t prompt) {
    return length - prompt;
  }
  template <typename Program>
  static void facts(SetFacts &own, const Positions &x, const Program &program) {
    own.varies = own.filled = true;
    own.recent = x.count > 0 || program.wholeOn(x.cadence);
  }
};

/// What the step takes of a drawn order: as many as its quota of the masked
/// positions up to the block's end, the first ones in the order
/// (CommitRule::Kind::RandomOrder). The executor is told them.
struct NextSet : ResponseSet {
  static constexpr Name name = "next";
  template <typename Program>
  static void facts(SetFacts &own, const Positions &, const Program &) {
    own.next = Holding::of(Holding::Fresh);
    own.varies = true;
  }
};

/// The one position `count` of the sequence, from 0; negative: from its end,
/// -1 being the last; none where the sequence is too short.
struct SingleSet : AllSet {
  static constexpr Name name = "single";
  template <typename V> static void fields(V &v, In<V, Positions> &x) {
    v("index", x.count, Lone{Range{-maxCount, maxCount}});
  }
  static Span span(const Positions &x, const SequenceView &s) {
    const int64_t at = x.count + (x.count < 0 ? s.length : 0);
    return at < 0 || at >= s.length ? Span{0, 0} : Span{at, at + 1};
  }
  static int64_t bound(const Positions &, int64_t, int64_t) { return 1; }
  template <typename Program>
  static void facts(SetFacts &own, const Positions &, const Program &) {
    own.ofPrompt = true;
  }
};

using PlainSets = std::tuple<AllSet, PromptSet, ResponseSet, BlockSet,
                             BeforeBlockSet, FromBlockSet, DecodedSet,
                             UndecodedSet, CommittedSet, NextSet, SingleSet>;

/// Calls `use` with the form of a set that is made of no others.
template <typename Use> auto withForm(Positions::Kind kind, Use use) {
  return withElement(PlainSets(), kind, use);
}

/// "before(block)"
inline std::string wordOf(Positions::Kind kind) {
  return withForm(kind, [](auto form) {
    return std::string(form.word.empty() ? form.name : form.word);
  });
}

} // namespace detail

constexpr auto namesOf(Positions::Kind) {
  return std::apply(
      [](auto... form) {
        return std::to_array<detail::Name>(
            {form.name..., "union", "intersect", "fixed", "neighbors", "hull",
             "leading", "predicting", "except", "last", "nearest", "confident",
             "attended"});
      },
      detail::PlainSets());
}

namespace detail {
template <typename V> void fieldsOfForm(V &v, In<V, Positions> &x) {
  withForm(x.kind, [&](auto form) { return form.fields(v, x), true; });
}
} // namespace detail
} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_PROGRAM_POSITIONFORMS_H
