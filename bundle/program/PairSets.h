//===- PairSets.h - What each set of pairs means ----------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The meaning of each kind of Term, once: whoever reads or writes one, counts
// pairs, checks code or explains asks here, by withSet() or by what is made of
// it below. A set is a struct:
//
//   name      as schedules, plans and manifests write it
//   numbers   what it is stated with: window(64), sinks(1/10)
//   contains  whether it has all pairs of another of its kind
//
// It goes by positions or, if it derives from EntrySet, by the places of rows
// and keys among the visible ones: rows of a group share a list of entries,
// which the runtime keeps if it derives from ListSet.
//
//   holds     positions: the definition, is (query, key) in the set?
//   runs      positions: the same as ranges, the first run of keys from `from`
//             on that it pairs with a query, empty if there is none. A set of
//             every second key has many runs.
//   entryOf   entries: the one that stands for a key
//   keysOf    entries: the keys that one stands for, keysAtMost() of them
//
// A term may be within other sets, all of which go by positions: then its pairs
// are those that all of them have, too. What is said above is of its own set.
//
// Positions are those in the sequence; `sinks` is abi::AttentionArgs::sinks.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_PROGRAM_PAIRSETS_H
#define HEDDLE_BUNDLE_PROGRAM_PAIRSETS_H

#include "bundle/abi/IndexLayout.h"
#include "bundle/program/Fields.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace heddle::bundle {

struct Manifest;

/// One set of pairs (query, key); a union lists several. Numbers that a kind is
/// not stated with are as they are here.
struct Term {
  enum class Kind {
    Columns,
    Blocks,
    Window,
    Sinks,
    RandomBlocks,
    Others
  }; // as in Sets
  Kind kind = Kind::Window;
  int64_t size = 0;
  int64_t selection = -1; ///< of a ListSet: index into Manifest::selections
  Ratio share = {};       ///< Sinks: of the sequence; 0: `size` keys instead
  int64_t dilation = 1;   ///< Window: positions between its keys
  int64_t oneIn = 0;      ///< RandomBlocks: blocks of which one is kept
  int64_t seed = 0;       ///< RandomBlocks
  /// Sets that go by positions and are within no others, of which each has to
  /// have a pair, too. A share of sinks is not among them, nor within any.
  std::vector<Term> within = {};
  bool operator==(const Term &) const = default;
};

/// A number that a set is stated with.
struct SetNumber {
  const char *name;
  int64_t Term::*number;
  int64_t least = 1, most = maxCount;
  bool named = false; ///< written with its name, behind those that are not
  int64_t otherwise =
      -1;               ///< what it is where it is not written; -1: it must be
  bool orShare = false; ///< a share of the sequence, Term::share, may be it

  /// Whether it is left out of what is written.
  bool isLeftOut(const Term &term) const {
    return otherwise >= 0 && term.*number == otherwise;
  }
};

//===----------------------------------------------------------------------===//
// The sets
//===----------------------------------------------------------------------===//

struct EntrySet {};
struct ListSet : EntrySet {
  static constexpr std::array<SetNumber, 0> numbers = {};
  static bool contains(const Term &term, const Term &other) {
    return term.selection == other.selection;
  }
};

/// Keys j = i + t dilation with |t| <= size / 2 (integer division).
/// Source: Longformer's dilated sliding window.
struct WindowSet {
  static constexpr std::string_view name = "window";
  static constexpr std::array numbers = {SetNumber{"size", &Term::size},
                                         SetNumber{.name = "dilation",
                                                   .number = &Term::dilation,
                                                   .named = true,
                                                   .otherwise = 1}};
  static bool contains(const Term &term, const Term &other) {
    const int64_t half = other.size / 2, steps = other.dilation / term.dilation;
    return half == 0 || (other.dilation % term.dilation == 0 &&
                         term.size / 2 >= half * steps);
  }
  static bool holds(const Term &term, int64_t query, int64_t key, int64_t) {
    const int64_t distance = std::abs(query - key);
    return distance % term.dilation == 0 &&
           distance / term.dilation <= term.size / 2;
  }
  static KeyRun runs(const Term &term, int64_t query, int64_t from, int64_t) {
    const int64_t step = term.dilation, reach = term.size / 2 * step;
    if (step == 1)
      return {std::max(from, query - reach), query + reach + 1};
    // The next key is a multiple of steps behind the first one.
    const int64_t first = query - reach;
    const int64_t key =
        from <= first ? first : first + (from - first + step - 1) / step * step;
    return {key, key <= query + reach ? key + 1 : key};
  }
};

/// The first keys of the sequence, below sinkBound().
struct SinksSet {
  static constexpr std::string_view name = "sinks";
  static constexpr std::array numbers = {
      SetNumber{.name = "size", .number = &Term::size, .orShare = true}};
  /// Whether a number is more than a share depends on the sequence.
  static bool contains(const Term &term, const Term &other) {
    const Ratio a = term.share, b = other.share;
    if ((a.num > 0) != (b.num > 0))
      return false;
    return a.num > 0 ? static_cast<__int128>(a.num) * b.den >=
                           static_cast<__int128>(b.num) * a.den
                     : term.size >= other.size;
  }
  static int64_t bound(const Term &term, int64_t sinks) {
    return term.share.num > 0 ? sinks : term.size;
  }
  static bool holds(const Term &term, int64_t, int64_t key, int64_t sinks) {
    return key < bound(term, sinks);
  }
  static KeyRun runs(const Term &term, int64_t, int64_t from, int64_t sinks) {
    return {from, bound(term, sinks)};
  }
};

/// Of every `oneIn` blocks of `size` positions one, drawn anew for each block
/// of query positions: the same on every machine, in every head. Source:
/// BigBird's random blocks. MurmurHash3's finalizer draws them.
struct RandomBlocksSet {
  static constexpr std::string_view name = "random_blocks";
  static constexpr std::array numbers = {
      SetNumber{.name = "one_in", .number = &Term::oneIn, .named = true},
      SetNumber{.name = "size", .number = &Term::size, .named = true},
      SetNumber{.name = "seed",
                .number = &Term::seed,
                .least = 0,
                .named = true,
                .otherwise = 0}};
  static bool contains(const Term &term, const Term &other) {
    return term.oneIn == other.oneIn && term.size == other.size &&
           term.seed == other.seed;
  }
  /// The block among those of `strip` that is kept for a block of queries.
  static int64_t drawn(const Term &term, int64_t block, int64_t strip) {
    auto word = [](int64_t number) { return static_cast<uint32_t>(number); };
    uint32_t x = word(term.seed) * 0x9e3779b9u + word(block) * 0x85ebca77u +
                 word(strip) * 0xc2b2ae3du;
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return (x ^ x >> 16) % word(term.oneIn);
  }
  static bool holds(const Term &term, int64_t query, int64_t key, int64_t) {
    const int64_t block = key / term.size;
    return block % term.oneIn ==
           drawn(term, query / term.size, block / term.oneIn);
  }
  static KeyRun runs(const Term &term, int64_t query, int64_t from, int64_t) {
    for (int64_t strip = from / term.size / term.oneIn;; ++strip) {
      const int64_t block =
          strip * term.oneIn + drawn(term, query / term.size, strip);
      if (const int64_t end = (block + 1) * term.size; from < end)
        return {std::max(from, block * term.size), end};
    }
  }
};

/// All keys but the one at the query's position.
struct OthersSet {
  static constexpr std::string_view name = "others";
  static constexpr std::array<SetNumber, 0> numbers = {};
  static bool contains(const Term &, const Term &) { return true; }
  static bool holds(const Term &, int64_t query, int64_t key, int64_t) {
    return key != query;
  }
  static KeyRun runs(const Term &, int64_t query, int64_t from, int64_t) {
    constexpr int64_t end = std::numeric_limits<int64_t>::max();
    return from < query ? KeyRun{from, query}
                        : KeyRun{std::max(from, query + 1), end};
  }
};

/// The keys that a selection lists for the query's group.
struct ColumnsSet : ListSet {
  static constexpr std::string_view name = "columns", groupName = "group";
  static int64_t keysAtMost(int64_t) { return 1; }
  static int64_t entryOf(int64_t key, int64_t, int64_t) { return key; }
  static KeyRun keysOf(int64_t entry, int64_t, int64_t, int64_t) {
    return {entry, entry + 1};
  }
};

/// The keys of the blocks of keys that a selection lists for the query's group.
struct BlocksSet : ListSet {
  static constexpr std::string_view name = "blocks", groupName = "size";
  static int64_t keysAtMost(int64_t size) { return size; }
  static int64_t entryOf(int64_t key, int64_t size, int64_t split) {
    return blockOf(key, size, split);
  }
  /// Cut off where the sequence or its first span ends; none for an entry that
  /// is not used.
  static KeyRun keysOf(int64_t entry, int64_t size, int64_t split, int64_t n) {
    if (entry < 0)
      return {0, 0};
    return keysOfBlock(entry, n, size, split);
  }
};

/// In the order of Term::Kind.
using Sets = std::tuple<ColumnsSet, BlocksSet, WindowSet, SinksSet,
                        RandomBlocksSet, OthersSet>;

/// Calls `use` with the set of a term: where this folder goes by all kinds.
template <size_t kind = 0, typename Use>
decltype(auto) withSet(const Term &term, Use &&use) {
  if constexpr (kind + 1 < std::tuple_size_v<Sets>)
    if (static_cast<size_t>(term.kind) != kind)
      return withSet<kind + 1>(term, use);
  return use(std::tuple_element_t<kind, Sets>());
}

template <typename Set>
inline constexpr bool byEntries = std::is_base_of_v<EntrySet, Set>;
template <typename Set>
inline constexpr bool listed = std::is_base_of_v<ListSet, Set>;

/// The names of the sets, in the order of Term::Kind.
constexpr auto setNames() {
  return std::apply(
      [](auto... set) {
        return std::array<std::string_view, sizeof...(set)>{set.name...};
      },
      Sets());
}

/// What a term of this kind is stated with, in order.
inline std::span<const SetNumber> numbersOf(Term::Kind kind) {
  return withSet({.kind = kind}, [](auto set) {
    return std::span<const SetNumber>(decltype(set)::numbers);
  });
}

/// The kind with a name; none if there is none.
inline std::optional<Term::Kind> kindNamed(std::string_view name) {
  constexpr auto names = setNames();
  for (size_t kind = 0; kind < names.size(); ++kind)
    if (names[kind] == name)
      return static_cast<Term::Kind>(kind);
  return std::nullopt;
}

/// What plans call the number of a selection that shapes a kernel.
inline std::string_view groupName(Term::Kind kind) {
  return withSet({.kind = kind}, [](auto set) -> std::string_view {
    if constexpr (listed<decltype(set)>)
      return set.groupName;
    return "";
  });
}

/// Whether the term's pairs are those of a selection.
inline bool readsList(const Term &term) {
  return withSet(term, [](auto set) { return listed<decltype(set)>; });
}

/// Whether the term goes by places, not by positions.
inline bool goesByPlaces(const Term &term) {
  return withSet(term, [](auto set) { return byEntries<decltype(set)>; });
}

/// Whether a term's own set has all pairs of another's in every sequence.
inline bool ownContains(const Term &term, const Term &other) {
  return term.kind == other.kind &&
         withSet(term, [&](auto set) { return set.contains(term, other); });
}

/// Whether a term has all pairs of another in every sequence: each set that it
/// is made of contains one that the other is made of.
inline bool contains(const Term &term, const Term &other) {
  auto containsOne = [&](const Term &set) {
    return ownContains(set, other) ||
           std::any_of(
               other.within.begin(), other.within.end(),
               [&](const Term &each) { return ownContains(set, each); });
  };
  return containsOne(term) &&
         std::all_of(term.within.begin(), term.within.end(), containsOne);
}

/// What a term is within, as a term of its own; there is something.
inline Term boundOf(const Term &term) {
  Term bound = term.within.front();
  bound.within.assign(term.within.begin() + 1, term.within.end());
  return bound;
}

/// Whether all sets that a term is within pair these positions.
inline bool isWithin(const Term &term, int64_t query, int64_t key,
                     int64_t sinks) {
  return std::all_of(term.within.begin(), term.within.end(),
                     [&](const Term &each) {
                       return withSet(each, [&](auto set) {
                         if constexpr (byEntries<decltype(set)>)
                           return false;
                         else
                           return set.holds(each, query, key, sinks);
                       });
                     });
}

/// Whether the term is a share of the sequence, which its kernel gets to know
/// at run time alone (abi::AttentionArgs::sinks).
inline bool isShareOfSinks(const Term &term) {
  return term.kind == Term::Kind::Sinks && term.share.num > 0;
}

/// Why a term is not within the sets that it says; empty if it is.
std::string whyNotWithin(const Term &term);

/// Two terms of a union that read different selections, each within other sets,
/// and not within the same: P14. Terms say the selections that they read.
std::optional<std::pair<size_t, size_t>>
differentBounds(std::span<const Term> terms);

/// The sinks of a union in a sequence of `length` positions, visible or not:
/// those below the result, 0 if no term is sinks. A share is rounded down, to
/// one position at least.
/// Source: SparseD and PulseCol, section 4.1, which leave the rounding open.
int64_t sinkBound(std::span<const Term> terms, int64_t length);

//===----------------------------------------------------------------------===//
// Unions
//===----------------------------------------------------------------------===//

/// The first run of positions in [from, limit) that a term which goes by
/// positions pairs with a query; empty if there is none.
inline KeyRun firstRun(const Term &term, int64_t query, int64_t from,
                       int64_t limit, int64_t sinks) {
  auto own = [&](const Term &each, int64_t begin) {
    return withSet(each, [&](auto set) -> KeyRun {
      if constexpr (byEntries<decltype(set)>)
        return {limit, limit};
      else
        return set.runs(each, query, begin, sinks);
    });
  };
  KeyRun run = own(term, from);
  // Each set's first run from where the run begins: where that lies behind, the
  // search goes on there.
  for (size_t i = 0; i < term.within.size() && run.begin < run.end;) {
    if (run.begin >= limit)
      return {limit, limit};
    const KeyRun other = own(term.within[i], run.begin);
    if (other.begin >= other.end)
      return {limit, limit};
    if (other.begin == run.begin) {
      run.end = std::min(run.end, other.end);
      ++i;
    } else {
      run = own(term, other.begin);
      i = 0;
    }
  }
  run.end = std::min(run.end, limit);
  return run;
}

/// Calls `use(begin, end)` with the positions below `limit` that the terms
/// which go by positions pair with a query, each once and ascending.
template <typename Use>
void forRuns(std::span<const Term> terms, int64_t query, int64_t sinks,
             int64_t limit, Use use) {
  KeyRun next{0, 0};
  for (int64_t from = 0; from < limit; from = next.end) {
    next = {limit, limit};
    for (const Term &term : terms)
      if (KeyRun run = firstRun(term, query, from, limit, sinks);
          run.begin < run.end && run.begin < next.begin)
        next = run;
    if (next.begin < next.end)
      use(next.begin, next.end);
  }
}

/// Calls `use(begin, end)` with the places of each entry of a term's list of a
/// head and group, whatever it is within: `size` is its group or block size, of
/// n keys.
template <typename Use>
void forEntries(const Term &term, const abi::IndexList &list, int64_t head,
                int64_t group, int64_t size, int64_t n, Use use) {
  const int32_t *entries = int32Keys(list, head / list.headsPerList, group);
  withSet(term, [&](auto set) {
    if constexpr (listed<decltype(set)>)
      for (int64_t e = 0; e < list.keep; ++e)
        if (KeyRun keys = set.keysOf(entries[e], size, list.split, n);
            keys.begin < keys.end)
          use(keys.begin, keys.end);
  });
}

/// The most keys that an entry of a term's list stands for.
inline int64_t keysAtMost(const Term &term, int64_t size) {
  return withSet(term, [&](auto set) -> int64_t {
    if constexpr (listed<decltype(set)>)
      return set.keysAtMost(size);
    return 0;
  });
}

/// Whether the query row at a place attends to a key.
using PairPredicate = std::function<bool(int64_t place, int64_t key)>;

/// The pairs that a union of terms keeps in query head `head`; no terms means
/// all. `lists[c]` belongs to the c-th term of columns or blocks and is Int32,
/// `groups[c]` is its group or block size; `position[j]` is where key j stands
/// in the sequence, null: at j. All are referred to, not copied.
PairPredicate pairsOf(std::span<const Term> terms, int64_t head,
                      std::span<const abi::IndexList> lists,
                      std::span<const int64_t> groups,
                      const int32_t *position = nullptr, int64_t sinks = 0);

/// As a schedule states it: "window(64)", "sinks(0.1)", with the name of a
/// selection "columns(cols)"; what it is within as a plan does: "columns(cols)
/// within window(64)".
std::string words(const Term &term, std::string_view selection = {});
/// "dense", "columns(cols)", "window(64) + sinks(4)".
std::string words(std::span<const Term> terms, const Manifest &manifest);

} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_PROGRAM_PAIRSETS_H
