//===- Fields.h - What is said of a struct's fields -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// fields(v, x) says to `v` the name of each field of `x` in the order of the
// manifest, where its value lies and what it may be. What writes and what reads
// manifests and schedules go by it, so none knows a field that another does
// not:
//
//   v("group", x.group, Group{})     a field and what holds of it
//   v("kind", x.kind, Kind{})        the same; what follows depends on it
//   v.has("step", x.step > 0)        whether it is there: the writer's answer
//                                    is the second argument, the reader's what
//                                    it reads; the third is how schedules name
//                                    it, if not so
//   v.word("layers", "default", x.b) a word in the place of an object
//   v.object("exact", [&](auto &v))  an object that is no struct of its own
//
// A list's rule is that of its elements. A schedule spells a struct as its
// kind and, in parentheses, `name = value`, but for
//
//   Lone{rule}          the value alone: every(8)
//   Or{rule, value}     nothing where it is `value`
//   Spelt{rule, "last"} with this name
//   Flag{}              its name where it is true: factor(1, last_alone)
//   Clause{"in block"}  these words behind the parentheses where it is true
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_PROGRAM_FIELDS_H
#define HEDDLE_BUNDLE_PROGRAM_FIELDS_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

namespace heddle::bundle {

/// The largest count, period, step, size and layer number of a schedule: far
/// above anything sensible and low enough that the runtime's products (bytes,
/// pairs) stay within 64 bits.
inline constexpr int64_t maxCount = INT32_MAX;

/// An exact fraction, 0 <= num, 0 < den, in lowest terms.
struct Ratio {
  int64_t num = 0;
  int64_t den = 1;
  bool operator==(const Ratio &) const = default;
};

inline bool isMore(Ratio one, Ratio other) {
  return static_cast<__int128>(one.num) * other.den >
         static_cast<__int128>(other.num) * one.den;
}

/// A decimal has at most so many digits, so that a double tells it from every
/// other.
inline constexpr size_t maxDecimals = 15;

namespace detail {

/// The names of an enumeration's values are given by namesOf(), asked with any
/// of them.
using Name = std::string_view;
template <typename E> std::string nameOf(E value) {
  const auto names = namesOf(value);
  const size_t index = static_cast<size_t>(value);
  return std::string(index < names.size() ? names[index] : "?");
}
template <typename E> std::optional<E> valueOf(std::string_view name) {
  const auto names = namesOf(E());
  const auto place = std::ranges::find(names, name);
  if (place == names.end())
    return std::nullopt;
  return static_cast<E>(place - names.begin());
}

/// A value that only its type restricts.
struct Any {};
/// An enumerator that says which other fields there are.
struct Kind {};
/// An integer of the file from `low` to `high`; the value is `base` more.
struct Range {
  int64_t low, high, base = 0;
};
inline constexpr Range counted = {1, maxCount};
/// Rows that share an index list (P2).
struct Group {};
/// A ratio above 0, or that as well.
struct UpTo {
  int64_t most = 1;
  bool orNone = false;
};

template <typename R> struct Lone {
  R rule;
};
template <typename R> struct Or {
  R rule;
  int64_t value;
};
template <typename R> struct Spelt {
  R rule;
  const char *name;
};
struct Flag {};
struct Clause {
  std::string_view words;
};

/// The part of a rule that speaks of values.
template <typename R> constexpr R valueRule(R rule) { return rule; }
template <typename R> constexpr R valueRule(Lone<R> lone) { return lone.rule; }
template <typename R> constexpr R valueRule(Or<R> option) {
  return option.rule;
}
template <typename R> constexpr auto valueRule(Spelt<R> spelt) {
  return valueRule(spelt.rule);
}
constexpr Any valueRule(Flag) { return {}; }
constexpr Any valueRule(Clause) { return {}; }

/// Calls `use` with the element of a tuple at an enumerator's place.
template <typename Tuple, typename E, typename Use>
auto withElement(Tuple elements, E place, Use use) {
  decltype(use(std::get<0>(elements))) result{};
  std::apply(
      [&](auto... element) {
        size_t index = 0;
        ((index++ == static_cast<size_t>(place) ? void(result = use(element))
                                                : void()),
         ...);
      },
      elements);
  return result;
}

/// What `v` does with a T: the writer only looks at it.
template <typename V, typename T>
using In = std::conditional_t<V::writes, const T, T>;

/// "0.3" where the decimals end, else "1/3".
std::string spell(Ratio ratio);

/// Spells a struct in a schedule's words.
class Speller {
public:
  static constexpr bool writes = true;
  explicit Speller(std::string text = "") : text(std::move(text)) {}
  std::string text;

  template <typename E> void operator()(const char *, const E &value, Kind) {
    text += nameOf(value);
  }
  template <typename R>
  void operator()(const char *name, const int64_t &value, Or<R> option) {
    if (value != option.value)
      (*this)(name, value, option.rule);
  }
  template <typename T, typename R>
  void operator()(const char *, const T &value, Lone<R> lone) {
    add(spelt(value, lone.rule));
  }
  template <typename T, typename R>
  void operator()(const char *, const T &value, Spelt<R> as) {
    (*this)(as.name, value, as.rule);
  }
  void operator()(const char *name, const bool &value, Flag) {
    if (value)
      add(name);
  }
  void operator()(const char *, const bool &value, Clause clause) {
    close();
    if (value)
      text += " " + std::string(clause.words);
  }
  template <typename T, typename R>
  void operator()(const char *name, const T &value, R rule) {
    add(name + (" = " + spelt(value, rule)));
  }
  bool has(const char *, bool needed, const char * = "") { return needed; }
  /// What stands behind the parentheses comes next.
  void close() {
    text += open ? ")" : "";
    open = false;
  }

private:
  static std::string spelt(int64_t value, Range rule) {
    return std::to_string(value - rule.base);
  }
  static std::string spelt(Ratio value, UpTo) { return spell(value); }
  template <typename T> static std::string spelt(const T &value, Any) {
    return toString(value);
  }
  void add(const std::string &argument) {
    text += (open ? ", " : "(") + argument;
    open = true;
  }
  bool open = false;
};

} // namespace detail
} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_PROGRAM_FIELDS_H
