//===- CanvasTest.cpp - The drawing, and what a terminal gets of it -------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Canvas.h"
#include "FakeTokenizer.h"
#include "OnTerminal.h"

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::run;
using namespace heddle::run::test;

namespace {

constexpr int32_t mask = 39;

TextRules rulesOf(const rt::Tokenizer *tokenizer) {
  TextRules rules;
  rules.tokenizer = tokenizer;
  rules.maskToken = mask;
  return rules;
}

/// A line without its colour codes.
std::string plain(const std::string &line) {
  std::string text;
  for (size_t i = 0; i < line.size(); ++i)
    if (line[i] == '\x1b')
      i = line.find('m', i);
    else
      text += line[i];
  return text;
}

TEST(Cells, WidthsAndControls) {
  enableCharacterWidths();
  std::vector<Cell> cells = toCells("a\u4e2de\u0301\n\x1b[2J\t\xff\u202e");
  std::vector<std::string> bytes;
  std::vector<int> widths;
  for (const Cell &cell : cells) {
    bytes.push_back(cell.bytes);
    widths.push_back(cell.width);
  }
  // An escape becomes a dot, as does a mark that turns the direction of
  // writing: text cannot steer the terminal.
  EXPECT_EQ(bytes,
            (std::vector<std::string>{"a", "\u4e2d", "e\u0301", "", "\u00b7",
                                      "[", "2", "J", " ", "\u00b7", "\u00b7"}));
  EXPECT_EQ(widths, (std::vector<int>{1, 2, 1, 0, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_TRUE(cells[3].lineBreak);
}

TEST(Pieces, InkFollowsTheState) {
  FakeTokenizer tokenizer;
  // Prompt "hi" and a special token, response of two blocks of 3, its second
  // token fresh, its last one special.
  std::vector<int32_t> tokens = {7, 8, 33, 0, 1, mask, mask, mask, 2, 33};
  std::vector<bool> fresh(10);
  fresh[4] = true;
  std::vector<Piece> pieces =
      sequencePieces(tokens, fresh, 3, 6, rulesOf(&tokenizer));
  std::vector<std::pair<std::string, Ink>> got;
  for (const Piece &piece : pieces)
    got.push_back({piece.text, piece.ink});
  EXPECT_EQ(got, (std::vector<std::pair<std::string, Ink>>{
                     {"hi", Ink::Prompt},
                     {"a", Ink::Kept},
                     {"b", Ink::Fresh},
                     {"\u2591", Ink::Open},
                     {"\u2591\u2591", Ink::Later},
                     {"c", Ink::Kept},
                     {"\u00b7", Ink::Kept}}));
}

TEST(Layout, WrapsAtTheWidth) {
  enableCharacterWidths();
  Layout layout = layOut({{"abcdef", Ink::Prompt},
                          {"gh\ni", Ink::Kept},
                          {"\u4e2d\u4e2d", Ink::Fresh},
                          {"\u2591", Ink::Open}},
                         4);
  std::vector<std::string> lines;
  for (const std::string &line : layout.lines)
    lines.push_back(plain(line));
  // A wide character does not straddle the edge.
  EXPECT_EQ(lines, (std::vector<std::string>{"abcd", "efgh", "i\u4e2d",
                                             "\u4e2d\u2591"}));
  EXPECT_EQ(layout.focus, 3);
}

TEST(Layout, CropsAroundTheFocus) {
  Layout layout;
  for (int i = 0; i < 20; ++i)
    layout.lines.push_back(std::to_string(i));
  layout.focus = 10;
  EXPECT_EQ(cropTo(layout, 4),
            (std::vector<std::string>{"8", "9", "10", "11"}));
  layout.focus = 0;
  EXPECT_EQ(cropTo(layout, 2), (std::vector<std::string>{"0", "1"}));
  layout.focus = 19;
  EXPECT_EQ(cropTo(layout, 2), (std::vector<std::string>{"18", "19"}));
  EXPECT_EQ(cropTo(layout, 99).size(), 20u);
  EXPECT_EQ(cropTo(layout, -3).size(), 1u);
}

/// What `body` writes to a terminal of 20 columns and 6 rows.
std::string drawn(const std::function<void()> &body) {
  Outcome outcome = onTerminal(20, 6, body);
  EXPECT_EQ(outcome.code, 0);
  return outcome.out;
}

TEST(Canvas, RedrawsInPlaceAndCleansUp) {
  std::string output = drawn([] {
    FakeTokenizer tokenizer;
    Canvas canvas(rulesOf(&tokenizer), {2}, 2);
    std::vector<std::vector<int32_t>> tokens = {{7, 8, mask, 0}};
    rt::StepRecord record;
    record.step = 1;
    record.totalSteps = 2;
    record.tokens = tokens;
    record.commits = {{0, 3, 0, 1.0}};
    canvas.step(record, "first");
    tokens[0][2] = 1;
    record.commits = {{0, 2, 1, 1.0}};
    record.step = 2;
    canvas.step(record, "second");
  });
  size_t first = output.find("first"), second = output.find("second");
  ASSERT_NE(first, std::string::npos) << output;
  ASSERT_NE(second, std::string::npos) << output;
  // Both frames have a line of text and a status line: two lines up, erase.
  const std::string back = "\x1b[2A\r\x1b[J";
  size_t redraw = output.find(back);
  EXPECT_GT(redraw, first);
  EXPECT_LT(redraw, second);
  EXPECT_NE(output.find(back, second), std::string::npos);
  // The cursor is hidden first and shown last.
  EXPECT_LT(output.find("\x1b[?25l"), first);
  EXPECT_GT(output.rfind("\x1b[?25h"), output.rfind(back));
  // The fresh token is green.
  EXPECT_NE(output.find("\x1b[1;32ma"), std::string::npos);
  EXPECT_NE(output.find("\x1b[1;32mb"), std::string::npos);
}

TEST(Canvas, ATallSequenceStaysOnTheScreen) {
  std::string output = drawn([] {
    FakeTokenizer tokenizer;
    Canvas canvas(rulesOf(&tokenizer), {1}, 400);
    std::vector<std::vector<int32_t>> tokens = {
        std::vector<int32_t>(401, mask)};
    tokens[0][0] = 0;
    rt::StepRecord record;
    record.step = 1;
    record.totalSteps = 1;
    record.tokens = tokens;
    canvas.step(record, "status");
  });
  // Four lines of the sequence and the status line.
  EXPECT_NE(output.find("\x1b[5A\r\x1b[J"), std::string::npos) << output;
}

} // namespace
