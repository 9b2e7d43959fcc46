//===- RegexDialect.cpp - Oniguruma patterns as PCRE2 patterns ------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A whitelist: what both engines read alike is copied, what differs and has an
// equivalent is rewritten, everything else is an error. The differences that
// matter in practice:
//   \s        PCRE2 adds U+180E; written \p{White_Space}
//   \w        PCRE2 knows letters and digits only; written out
//   \v \h     a character and hex digits in Oniguruma; written out
//   x{n,m}+   in Oniguruma not possessive but (?:x{n,m})+
//   x{,m}     in Oniguruma {0,m}
//   \p{Han}   PCRE2 means script extensions; written \p{sc:Han}
//
//===----------------------------------------------------------------------===//

#include "runtime/text/Regex.h"
#include "runtime/text/Utf8.h"

#include <cstring>
#include <optional>

using namespace heddle;
using namespace heddle::rt::text;

namespace {
class Translator {
public:
  explicit Translator(std::string_view pattern) : in(pattern) {}

  Result<std::string> run() {
    while (at < in.size())
      if (!element())
        return Error(message);
    if (!groups.empty())
      return Error("the regular expression has an unclosed '('");
    return std::move(out);
  }

private:
  bool fail(size_t where, const std::string &what) {
    message = "at byte " + std::to_string(where) +
              " of the regular expression: " + what;
    return false;
  }
  bool unsupported(size_t where, std::string_view construct) {
    return fail(where,
                std::string("'").append(construct).append(
                    "' is not supported; rewrite the pattern without it"));
  }
  char peek(size_t ahead = 0) const {
    return at + ahead < in.size() ? in[at + ahead] : '\0';
  }
  bool startsWith(std::string_view text) const {
    return in.substr(at).starts_with(text);
  }
  void copy(size_t count) {
    out.append(in, at, count);
    at += count;
  }

  bool element();
  bool openGroup();
  bool quantifier();
  bool escape(bool inClass);
  bool property(bool inClass);
  bool characterClass();

  std::string_view in;
  size_t at = 0;
  std::string out;
  std::string message;
  struct Group {
    size_t start;  ///< in `out`
    bool caseless; ///< outside of the group
  };
  std::vector<Group> groups;
  bool caseless = false;
  /// Where in `out` the element starts that a quantifier would repeat.
  std::optional<size_t> atom;
};
} // namespace

bool Translator::element() {
  size_t start = out.size();
  switch (peek()) {
  case '(':
    return openGroup();
  case ')':
    if (groups.empty())
      return fail(at, "an unmatched ')'");
    atom = groups.back().start;
    caseless = groups.back().caseless;
    groups.pop_back();
    copy(1);
    return true;
  case '*':
  case '+':
  case '?':
  case '{':
    return quantifier();
  case '[':
    atom = start;
    return characterClass();
  case '\\':
    atom = start;
    return escape(/*inClass=*/false);
  case '|':
  case '^':
  case '$':
    atom.reset();
    copy(1);
    return true;
  case ']':
  case '}':
    atom = start;
    out += '\\';
    copy(1);
    return true;
  default:
    atom = start;
    copy(utf8Step(in, at).length);
    return true;
  }
}

bool Translator::openGroup() {
  // Bare options act to the end of the group in one engine, and as a group of
  // their own alternatives in the other: alike only in front of everything.
  if (startsWith("(?i)") && at == 0) {
    caseless = true;
    copy(4);
    return true;
  }
  static constexpr std::string_view openings[] = {
      "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"};
  size_t length = peek(1) == '?' || peek(1) == '*' ? 0 : 1;
  for (std::string_view opening : openings)
    if (startsWith(opening))
      length = opening.size();
  if (length == 0)
    return unsupported(at, in.substr(at, 4));
  if (groups.size() >= 100)
    return fail(at, "more than 100 nested groups");
  groups.push_back({out.size(), caseless});
  if (startsWith("(?i:") || startsWith("(?-i:"))
    caseless = startsWith("(?i:");
  atom.reset();
  copy(length);
  return true;
}

bool Translator::quantifier() {
  if (!atom)
    return fail(at,
                "nothing to repeat before '" + std::string(1, peek()) + "'");
  size_t start = *atom;
  atom.reset();
  if (peek() != '{') {
    copy(1);
    // Lazy and possessive forms are the same in both engines.
    if (peek() == '?' || peek() == '+')
      copy(1);
  } else {
    size_t close = in.find('}', at);
    std::string_view bounds =
        close == in.npos ? "" : in.substr(at + 1, close - at - 1);
    size_t comma = bounds.find(',');
    bool wellFormed =
        !bounds.empty() && bounds != "," && bounds.size() <= 11 &&
        bounds.find_first_not_of("0123456789,") == bounds.npos &&
        (comma == bounds.npos || bounds.find(',', comma + 1) == bounds.npos);
    if (!wellFormed)
      return fail(at, "'{' starts no repeat such as {2}, {2,} or {1,3}; "
                      "write \\{ for the character");
    at = close + 1;
    out += '{';
    out += comma == 0 ? "0" : "";
    out += bounds;
    out += '}';
    if (peek() == '?') {
      if (comma == bounds.npos)
        return unsupported(at, "{n}?");
      copy(1);
    } else if (peek() == '+') {
      out.insert(start, "(?:");
      out += ")+";
      ++at;
    }
  }
  if (std::strchr("*+?{", peek()) && peek())
    return unsupported(at, "a repeat of a repeat");
  return true;
}

bool Translator::property(bool inClass) {
  size_t begin = at;
  bool negated = peek(1) == 'P';
  if (peek(2) != '{')
    return unsupported(begin, "\\p without braces");
  size_t close = in.find('}', at);
  if (close == in.npos)
    return fail(begin, "'\\p{' without '}'");
  std::string name(in.substr(at + 3, close - at - 3));
  if (name.starts_with('^')) {
    negated = !negated;
    name.erase(0, 1);
  }
  for (char c : name)
    if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && c != '_')
      return unsupported(begin, in.substr(begin, close + 1 - begin));
  // In a class, Oniguruma adds the other cases of the characters, PCRE2 not.
  if (caseless && (name == "Lu" || name == "Ll" || name == "Lt"))
    return unsupported(begin, in.substr(begin, close + 1 - begin));
  // One or two letters are a general category, the rest are scripts.
  if (name.size() > 2 && name != "Any" && name != "Alphabetic" &&
      name != "White_Space")
    name = "sc:" + name;
  out += negated ? "\\P{" : "\\p{";
  out += name;
  out += '}';
  at = close + 1;
  return true;
}

bool Translator::escape(bool inClass) {
  char c = peek(1);
  // The inside of a class, and its negation where a class may hold one.
  std::string_view members;
  switch (c) {
  case 'p':
  case 'P':
    return property(inClass);
  case 's':
    members = "\\p{White_Space}";
    break;
  case 'S':
    members = "\\P{White_Space}";
    break;
  case 'd':
    members = "\\p{Nd}";
    break;
  case 'D':
    members = "\\P{Nd}";
    break;
  case 'v':
    members = "\\x0B";
    break;
  case 'w':
  case 'W':
    if (c == 'W' && inClass)
      return unsupported(at, "\\W in a class");
    out += inClass ? "" : c == 'W' ? "[^" : "[";
    out += "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
    out += inClass ? "" : "]";
    at += 2;
    return true;
  case 'h':
    out += inClass ? "0-9a-fA-F" : "[0-9a-fA-F]";
    at += 2;
    return true;
  case 'A':
  case 'z':
  case 'Z':
    if (inClass)
      return unsupported(at, in.substr(at, 2));
    atom.reset();
    copy(2);
    return true;
  case 'r':
  case 'n':
  case 't':
  case 'f':
  case 'a':
  case 'e':
    copy(2);
    return true;
  case 'x':
  case 'u': {
    // \xHH, \x{H...} and \uHHHH.
    bool braces = c == 'x' && peek(2) == '{';
    size_t from = at + (braces ? 3 : 2);
    size_t to = braces ? in.find('}', from) : from + (c == 'x' ? 2 : 4);
    std::string_view digits =
        to == in.npos || to > in.size() ? "" : in.substr(from, to - from);
    bool wellFormed =
        !digits.empty() && digits.size() <= 8 &&
        digits.find_first_not_of("0123456789abcdefABCDEF") == digits.npos;
    // Beyond ASCII, \xHH is a byte of UTF-8 in Oniguruma.
    if (!wellFormed || (c == 'x' && !braces && digits[0] >= '8'))
      return unsupported(at, in.substr(at, 4));
    out += "\\x{";
    out += digits;
    out += '}';
    at = to + (braces ? 1 : 0);
    return true;
  }
  default:
    break;
  }
  if (!members.empty()) {
    out += members;
    at += 2;
    return true;
  }
  bool punctuation = c > ' ' && c < '\x7F' && !(c >= '0' && c <= '9') &&
                     !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z');
  if (!punctuation && c != ' ')
    return unsupported(at, in.substr(at, 2));
  copy(2);
  return true;
}

bool Translator::characterClass() {
  size_t begin = at;
  copy(1);
  if (peek() == '^')
    copy(1);
  if (peek() == ']')
    return unsupported(begin, "a class that starts with ']'");
  while (peek() != ']') {
    if (at >= in.size())
      return fail(begin, "an unclosed '['");
    if (peek() == '[')
      return unsupported(at, "'[' inside a class");
    if (startsWith("&&"))
      return unsupported(at, "&& inside a class");
    if (peek() == '\\') {
      if (!escape(/*inClass=*/true))
        return false;
      continue;
    }
    copy(utf8Step(in, at).length);
  }
  copy(1);
  return true;
}

Result<std::string>
heddle::rt::text::translateOniguruma(std::string_view pattern) {
  return Translator(pattern).run();
}
