//===- Spelling.cpp - Fractions as the user wrote them --------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/explain/Spelling.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>

using namespace heddle::explain;

namespace {

bool isDigit(char c) { return c >= '0' && c <= '9'; }

bool isWord(char c) {
  return isDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         c == '_' || c == '%' || c == '@' || c == '.';
}

/// Reads digits; none if they are too many for a fraction of a schedule.
std::optional<int64_t> readDigits(std::string_view text, size_t &at) {
  int64_t value = 0;
  size_t start = at;
  for (; at < text.size() && isDigit(text[at]); ++at) {
    if (at - start >= 17)
      return std::nullopt;
    value = 10 * value + (text[at] - '0');
  }
  return at > start ? std::optional(value) : std::nullopt;
}

/// The fraction at `at`, in lowest terms, and `at` behind it; "" if there is
/// none. `percent`: also "20 percent".
std::string readFraction(std::string_view text, size_t &at) {
  std::optional<int64_t> num = readDigits(text, at);
  if (!num)
    return "";
  int64_t den = 1;
  bool isFraction = false;
  if (at + 1 < text.size() && text[at] == '.' && isDigit(text[at + 1])) {
    size_t digits = ++at;
    std::optional<int64_t> part = readDigits(text, at);
    if (!part || at - digits > 9 || *num > 100000000)
      return "";
    for (size_t i = digits; i < at; ++i)
      den *= 10;
    num = *num * den + *part;
    isFraction = true;
  } else if (at + 1 < text.size() && text[at] == '/' && isDigit(text[at + 1])) {
    std::optional<int64_t> below = readDigits(text, ++at);
    if (!below || *below == 0)
      return "";
    den = *below;
    isFraction = true;
  }
  constexpr std::string_view percent = " percent";
  if (text.substr(at, percent.size()) == percent) {
    if (den > INT64_MAX / 100)
      return "";
    den *= 100;
    at += percent.size();
    isFraction = true;
  }
  if (!isFraction)
    return "";
  int64_t divisor = std::gcd(*num, den);
  return std::to_string(*num / divisor) + "/" + std::to_string(den / divisor);
}

/// Calls `use` with each fraction of `text` in lowest terms and as it is
/// written, `other` with each piece between.
template <typename Use, typename Other>
void forFractions(std::string_view text, Use use, Other other) {
  size_t from = 0, at = 0;
  while (at < text.size()) {
    if (!isDigit(text[at]) || (at > 0 && isWord(text[at - 1]))) {
      ++at;
      continue;
    }
    size_t start = at;
    std::string fraction = readFraction(text, at);
    if (fraction.empty()) {
      at = std::max(at, start + 1);
      continue;
    }
    other(text.substr(from, start - from));
    use(fraction, text.substr(start, at - start));
    from = at;
  }
  other(text.substr(from));
}

} // namespace

Spelling::Spelling(std::string_view source) {
  while (!source.empty()) {
    size_t end = std::min(source.find('\n'), source.size());
    std::string_view line = source.substr(0, end);
    source.remove_prefix(std::min(end + 1, source.size()));
    forFractions(
        line.substr(0, line.find("//")),
        [&](const std::string &fraction, std::string_view text) {
          written.emplace(fraction, text);
        },
        [](std::string_view) {});
  }
}

std::string Spelling::apply(std::string_view text) const {
  std::string result;
  forFractions(
      text,
      [&](const std::string &fraction, std::string_view as) {
        auto found = as == fraction ? written.find(fraction) : written.end();
        result += found == written.end() ? as : found->second;
      },
      [&](std::string_view piece) { result += piece; });
  return result;
}
