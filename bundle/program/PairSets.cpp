//===- PairSets.cpp - What each set of pairs means ------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/PairSets.h"

#include "bundle/program/ManifestNames.h"

using namespace heddle;
using namespace heddle::bundle;

std::string bundle::words(const Term &term, std::string_view selection) {
  std::string text(selection);
  for (const SetNumber &number : numbersOf(term.kind)) {
    if (number.isLeftOut(term))
      continue;
    text += text.empty() ? "" : ", ";
    if (number.named)
      text += std::string(number.name) + " = ";
    text += number.orShare && term.share.num > 0
                ? detail::spellShare(term.share)
                : std::to_string(term.*number.number);
  }
  text = text.empty() ? "" : "(" + text + ")";
  text = detail::nameOf(term.kind) + text;
  for (const Term &each : term.within)
    text += " within " + words(each);
  return text;
}

std::string bundle::whyNotWithin(const Term &term) {
  for (const Term &each : term.within) {
    const std::string name = detail::nameOf(each.kind);
    if (goesByPlaces(each))
      return "a term is within sets that go by positions, not " + name;
    if (!each.within.empty())
      return name + ", which a term is within, is within another set";
    if (isShareOfSinks(each) || isShareOfSinks(term))
      return "a fraction of sinks is within no set, and none is within it";
  }
  return "";
}

std::optional<std::pair<size_t, size_t>>
bundle::differentBounds(std::span<const Term> terms) {
  auto isBounded = [](const Term &term) {
    return readsList(term) && !term.within.empty();
  };
  auto boundsOf = [&](int64_t selection) {
    std::vector<std::vector<Term>> bounds;
    for (const Term &term : terms)
      if (isBounded(term) && term.selection == selection)
        bounds.push_back(term.within);
    return bounds;
  };
  const auto first = std::find_if(terms.begin(), terms.end(), isBounded);
  for (auto term = first; term != terms.end(); ++term) {
    if (!isBounded(*term))
      continue;
    const auto a = boundsOf(first->selection), b = boundsOf(term->selection);
    if (!std::is_permutation(a.begin(), a.end(), b.begin(), b.end()))
      return std::pair(first - terms.begin(), term - terms.begin());
  }
  return std::nullopt;
}

int64_t bundle::sinkBound(std::span<const Term> terms, int64_t length) {
  int64_t bound = 0;
  for (const Term &term : terms)
    if (term.kind == Term::Kind::Sinks && term.within.empty())
      bound =
          std::max(bound, isShareOfSinks(term)
                              ? keepCount(term.share, KeepRule::Floor, length)
                              : term.size);
  return bound;
}

PairPredicate bundle::pairsOf(std::span<const Term> terms, int64_t head,
                              std::span<const abi::IndexList> lists,
                              std::span<const int64_t> groups,
                              const int32_t *position, int64_t sinks) {
  if (terms.empty())
    return [](int64_t, int64_t) { return true; };
  auto positionOf = [=](int64_t place) {
    return position ? int64_t(position[place]) : place;
  };
  return [=](int64_t place, int64_t key) {
    size_t next = 0;
    return std::any_of(terms.begin(), terms.end(), [&](const Term &term) {
      const bool own = withSet(term, [&](auto set) {
        if constexpr (listed<decltype(set)>) {
          const abi::IndexList &list = lists[next];
          const int64_t size = groups[next++];
          const int32_t *entries =
              int32Keys(list, head / list.headsPerList, place / size);
          return std::count(entries, entries + list.keep,
                            set.entryOf(key, size, list.split)) > 0;
        } else {
          return set.holds(term, positionOf(place), positionOf(key), sinks);
        }
      });
      return own && isWithin(term, positionOf(place), positionOf(key), sinks);
    });
  };
}

std::string bundle::words(std::span<const Term> terms,
                          const Manifest &manifest) {
  std::string text;
  for (const Term &term : terms)
    text +=
        (text.empty() ? "" : " + ") +
        words(term,
              readsList(term)
                  ? std::string_view(manifest.selection(term.selection).name)
                  : std::string_view());
  return text.empty() ? "dense" : text;
}
