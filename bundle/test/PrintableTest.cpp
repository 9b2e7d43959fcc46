//===- PrintableTest.cpp - Tests of names in messages ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/Printable.h"

#include <gtest/gtest.h>

using namespace heddle;

TEST(Printable, KeepsWhatIsSeen) {
  for (const char *text : {"", "model.layers.0.weight",
                           "café/日本語 \U0001F600", "a\\b 'c' \"d\""})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, EscapesWhatSteersATerminal) {
  EXPECT_EQ(printable("a\x1b[31m\tb\x7f\r\nc"),
            "a\\u001b[31m\\u0009b\\u007f\\u000d\\nc");
  EXPECT_EQ(printable("C1 \u009b, zero " + std::string(1, '\0')),
            "C1 \\u009b, zero \\u0000");
}

TEST(Printable, EscapesWhatTurnsOrHidesText) {
  EXPECT_EQ(printable("txt.\u202egpj.exe\u2069"), "txt.\\u202egpj.exe\\u2069");
  EXPECT_EQ(printable("line\u2028paragraph\u2029"),
            "line\\u2028paragraph\\u2029");
  EXPECT_EQ(printable("a\u200bb\u00adc\ufeffd\U000E0041"),
            "a\\u200bb\\u00adc\\ufeffd\\ue0041");
}

TEST(Printable, EscapesWhatIsNoUtf8) {
  EXPECT_EQ(printable("a\xff\xfe\xe2\x82 b"), "a\\xff\\xfe\\xe2\\x82 b");
}

TEST(Printable, CutsBetweenCharacters) {
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdefg", 6), "abcdef...");
  EXPECT_EQ(printable("ab\u65e5\u672c", 4), "ab...");
  EXPECT_EQ(printable("ab\u65e5\u672c", 5), "ab\u65e5...");
  EXPECT_EQ(printable("\x80\x80\x80\x80", 2), "...") << "all are continuations";
}

TEST(Printable, MessagesKeepTheirLineBreaks) {
  EXPECT_EQ(printableLines("a\x1b[31m\tb\x7f\nc \u2591\u202e"),
            "a\\u001b[31m\\u0009b\\u007f\nc \u2591\\u202e");
  const std::string longer(10000, 'a');
  EXPECT_EQ(printableLines(longer), longer);
}
