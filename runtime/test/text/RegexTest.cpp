//===- RegexTest.cpp - Oniguruma patterns on PCRE2 ------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/text/Regex.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::rt::text;

/// The matches as strings, or the error in one string.
static std::vector<std::string> matches(const std::string &pattern,
                                        const std::string &text) {
  Result<Regex> regex = Regex::compile(pattern);
  if (!regex)
    return {regex.error().text()};
  Regex::Scratch scratch(text.size());
  std::vector<Span> spans;
  if (Status status = regex->findAll(text, scratch, spans); !status)
    return {status.error().text()};
  std::vector<std::string> found;
  for (Span span : spans)
    found.push_back(text.substr(span.begin, span.end - span.begin));
  return found;
}
using Found = std::vector<std::string>;

/// Each expectation is what Oniguruma 6.9 does with the same pattern.
TEST(Regex, DifferencesBetweenTheEnginesAreTranslated) {
  // U+180E is white space for PCRE2 alone.
  EXPECT_EQ(matches("\\s+", "a\u180Eb\u0085\u00A0c"), Found{"\u0085\u00A0"});
  EXPECT_EQ(matches("\\S+", "a\u180Eb\u2028c"), (Found{"a\u180Eb", "c"}));
  EXPECT_EQ(matches("[^\\s]+", "a \u3000b"), (Found{"a", "b"}));
  // A repeat of an interval, not a possessive interval.
  EXPECT_EQ(matches("\\p{N}{1,3}+", "1234567"), Found{"1234567"});
  EXPECT_EQ(matches("(?:ab){2}+", "ababababab"), Found{"abababab"});
  EXPECT_EQ(matches("a{,2}b", "aaab"), Found{"aab"});
  EXPECT_EQ(matches("\\v", "\n\v"), Found{"\v"});
  EXPECT_EQ(matches("\\h+", "xfaceZ 0"), (Found{"face", "0"}));
  EXPECT_EQ(matches("^a.", "a\ra\nab"), (Found{"a\r", "ab"}));
  EXPECT_EQ(matches("\\w+", "e\u0301_\u203F1-"), Found{"e\u0301_\u203F1"});
  EXPECT_EQ(matches("\\p{^L}+", "a12b"), Found{"12"});
  EXPECT_EQ(matches("[\\u4e00-\\u9fa5]+", "a\u4E16\u754Cb"),
            Found{"\u4E16\u754C"});
  // PCRE2 10.42 would not give back the space.
  EXPECT_EQ(matches("\\P{N}*\\P{L}", "a "), Found{"a "});
  EXPECT_EQ(matches("\\p{Lu}(?i:b)\\p{Ll}", "ABc"), Found{"ABc"});
  EXPECT_EQ(matches("\\p{Han}", "\u4E16\u3001"), Found{"\u4E16"});
}

TEST(Regex, PublishedPatternsWork) {
  EXPECT_EQ(matches("(?i:'s|'t|'re)|\\p{L}+", "it'S don't"),
            (Found{"it", "'S", "don", "'t"}));
  EXPECT_EQ(matches("\\s+(?!\\S)|\\s+", "a   b  "), (Found{"  ", " ", "  "}));
  EXPECT_EQ(matches("[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}", "(ab12"),
            (Found{"(ab", "1", "2"}));
  EXPECT_EQ(matches(" ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*", " !?\r\n\nx"),
            Found{" !?\r\n\n"});
}

TEST(Regex, NoEmptyMatchTouchesTheMatchBefore) {
  EXPECT_EQ(matches("a*", "baac"), (Found{"", "aa", ""}));
  EXPECT_EQ(matches("", "é"), (Found{"", ""}));
  EXPECT_EQ(matches("(?=b)", "abab"), (Found{"", ""}));
}

TEST(Regex, WhatTheEnginesReadDifferentlyIsRefused) {
  struct {
    const char *pattern, *names;
  } cases[] = {{"a(?i)b", "(?i)"},
               {"[a&&b]", "&&"},
               {"[[:alpha:]]", "'['"},
               {"\\1", "\\1"},
               {"\\K", "\\K"},
               {"\\R", "\\R"},
               {"\\bx", "\\b"},
               {"(?#x)", "(?#x"},
               {"(?<n>a)", "(?<n"},
               {"(*ACCEPT)", "(*AC"},
               {"a**", "repeat"},
               {"a{2}?", "{n}?"},
               {"*a", "nothing"},
               {"(a", "unclosed"},
               {"a)", "unmatched"},
               {"[a", "unclosed"},
               {"[]a]", "class"},
               {"a{x}", "\\{"},
               {"\\p{L", "'}'"},
               {"\\pL", "braces"},
               {"\\p{Nope}", "property"},
               {"\\xE9", "\\xE9"},
               {"\\", "not supported"},
               {"[\\W]", "\\W"},
               {"a{2,1}", "compile"},
               {"(?<=a+)b", "lookbehind"},
               {"^*", "nothing"},
               {"a{99999}", "compile"},
               {"(?i:[a\\p{Lu}])", "\\p{Lu}"}};
  for (const auto &one : cases) {
    Found found = matches(one.pattern, "x");
    ASSERT_EQ(found.size(), 1u) << one.pattern;
    EXPECT_NE(found[0].find("regular expression"), std::string::npos)
        << one.pattern << ": " << found[0];
    EXPECT_NE(found[0].find(one.names), std::string::npos)
        << one.pattern << ": " << found[0];
  }
}

TEST(Regex, LiteralsHaveNoSpecialCharacters) {
  Result<Regex> regex = Regex::compileLiteral("a.*(");
  ASSERT_TRUE(regex);
  std::string text = "xa.*(a.*(aab";
  Regex::Scratch scratch(text.size());
  std::vector<Span> spans;
  ASSERT_TRUE(regex->findAll(text, scratch, spans));
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[1].begin, 5u);
}
