//===- Terminal.h - What a terminal shows and how wide it is ----*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_RUN_TERMINAL_H
#define HEDDLE_TOOLS_HEDDLE_RUN_TERMINAL_H

#include <string>
#include <string_view>
#include <vector>

namespace heddle::run {

struct TerminalSize {
  int columns = 80;
  int rows = 24;
};

/// The size of the terminal behind a file descriptor; 80 x 24 if it won't say.
TerminalSize terminalSize(int descriptor);

/// Whether terminals of this process understand control codes: TERM names a
/// kind, and not the one that has none.
bool hasControlCodes();

/// Makes character widths known (the locale C.UTF-8, for this process).
void enableCharacterWidths();

/// Hides the cursor of standard output; restoreTerminal shows it again.
void hideCursor();

/// Shows a hidden cursor and resets colours. Safe in a signal handler.
void restoreTerminal();

/// One column or more on a terminal: a character with what combines with it.
struct Cell {
  std::string bytes;
  int width = 1;
  bool lineBreak = false;
};

/// Cuts text into cells. Control characters other than a line break, and marks
/// that turn the direction of writing, show as a middle dot, so that no text
/// can steer the terminal; a tab is a blank.
std::vector<Cell> toCells(std::string_view text);

} // namespace heddle::run

#endif // HEDDLE_TOOLS_HEDDLE_RUN_TERMINAL_H
