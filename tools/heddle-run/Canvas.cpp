//===- Canvas.cpp - The sequences being unmasked, drawn in place ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Canvas.h"

#include <algorithm>
#include <cstdio>

#include <unistd.h>

namespace heddle::run {

namespace {

const char *code(Ink ink) {
  switch (ink) {
  case Ink::Prompt:
  case Ink::Later:
    return "\x1b[2m";
  case Ink::Kept:
    return "";
  case Ink::Fresh:
    return "\x1b[1;32m";
  case Ink::Open:
    return "\x1b[36m";
  }
  return "";
}

/// Moves up over the lines drawn before and erases them.
std::string eraseCode(size_t lines) {
  return lines == 0 ? "" : "\x1b[" + std::to_string(lines) + "A\r\x1b[J";
}

} // namespace

Ink inkOf(int64_t position, int32_t token, bool fresh, int64_t promptLength,
          int64_t blockEnd, int32_t maskToken) {
  if (position < promptLength)
    return Ink::Prompt;
  if (token == maskToken)
    return position < blockEnd ? Ink::Open : Ink::Later;
  return fresh ? Ink::Fresh : Ink::Kept;
}

std::vector<Piece> sequencePieces(std::span<const int32_t> tokens,
                                  const std::vector<bool> &fresh,
                                  int64_t promptLength, int64_t blockEnd,
                                  const TextRules &rules) {
  std::vector<Piece> pieces;
  int64_t size = static_cast<int64_t>(tokens.size());
  auto inkAt = [&](int64_t i) {
    return inkOf(i, tokens[i], fresh[i], promptLength, blockEnd,
                 rules.maskToken);
  };
  auto signAt = [&](int64_t i) -> const char * {
    if (i < promptLength)
      return nullptr;
    if (tokens[i] == rules.maskToken)
      return maskSign;
    bool hidden =
        rules.tokenizer && !rules.raw && rules.tokenizer->isSpecial(tokens[i]);
    return hidden ? specialSign : nullptr;
  };
  for (int64_t first = 0, end; first < size; first = end) {
    Ink ink = inkAt(first);
    const char *sign = signAt(first);
    for (end = first + 1;
         end < size && inkAt(end) == ink && signAt(end) == sign; ++end)
      ;
    Piece piece;
    piece.ink = ink;
    if (sign)
      for (int64_t i = first; i < end; ++i)
        piece.text += sign;
    else
      piece.text = idsText(tokens.subspan(first, end - first), rules);
    if (!rules.tokenizer && !pieces.empty())
      piece.text.insert(0, " ");
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

Layout layOut(const std::vector<Piece> &pieces, int columns) {
  Layout layout;
  std::string line;
  int used = 0;
  bool focused = false;
  auto breakLine = [&](Ink ink) {
    layout.lines.push_back(line + "\x1b[0m");
    line = code(ink);
    used = 0;
  };
  for (const Piece &piece : pieces) {
    line += "\x1b[0m";
    line += code(piece.ink);
    for (const Cell &cell : toCells(piece.text)) {
      if (cell.lineBreak) {
        breakLine(piece.ink);
        continue;
      }
      if (used + cell.width > columns && used > 0)
        breakLine(piece.ink);
      if (piece.ink == Ink::Open && !focused) {
        focused = true;
        layout.focus = static_cast<int>(layout.lines.size());
      }
      line += cell.bytes;
      used += cell.width;
    }
  }
  breakLine(Ink::Kept);
  if (!focused)
    layout.focus = static_cast<int>(layout.lines.size()) - 1;
  return layout;
}

std::vector<std::string> cropTo(const Layout &layout, int rows) {
  int lines = static_cast<int>(layout.lines.size());
  rows = std::max(rows, 1);
  if (lines <= rows)
    return layout.lines;
  int first = std::clamp(layout.focus - rows / 2, 0, lines - rows);
  return {layout.lines.begin() + first, layout.lines.begin() + first + rows};
}

Canvas::Canvas(TextRules rules, std::vector<int64_t> promptLengths,
               int64_t blockLength)
    : rules(rules), promptLengths(std::move(promptLengths)),
      blockLength(blockLength) {
  enableCharacterWidths();
  hideCursor();
}

void Canvas::step(const rt::StepRecord &record, const std::string &status) {
  auto now = std::chrono::steady_clock::now();
  bool isLast = record.step == record.totalSteps;
  if (drawnLines > 0 && !isLast && now - last < std::chrono::milliseconds(33))
    return;
  last = now;

  TerminalSize size = terminalSize(STDOUT_FILENO);
  Layout all;
  int64_t sequences = static_cast<int64_t>(record.tokens.size());
  for (int64_t s = 0; s < sequences; ++s) {
    const std::vector<int32_t> &tokens = record.tokens[s];
    std::vector<bool> fresh(tokens.size());
    for (const rt::Commit &commit : record.commits)
      if (commit.sequence == s)
        fresh[commit.position] = true;
    Layout one =
        layOut(sequencePieces(
                   tokens, fresh, promptLengths[s],
                   promptLengths[s] + (record.block + 1) * blockLength, rules),
               size.columns);
    if (s == 0)
      all.focus = one.focus;
    else
      all.lines.push_back("");
    all.lines.insert(all.lines.end(), one.lines.begin(), one.lines.end());
  }
  // The status line and the line of the cursor stay on the screen.
  std::vector<std::string> lines = cropTo(all, size.rows - 2);
  lines.push_back("\x1b[2m" + status.substr(0, size.columns - 1) + "\x1b[0m");

  std::string frame = eraseCode(drawnLines);
  for (const std::string &line : lines)
    frame += line + "\n";
  std::fwrite(frame.data(), 1, frame.size(), stdout);
  std::fflush(stdout);
  drawnLines = lines.size();
}

void Canvas::clear() {
  std::fputs(eraseCode(drawnLines).c_str(), stdout);
  std::fflush(stdout);
  drawnLines = 0;
  restoreTerminal();
}

} // namespace heddle::run
