//===- Terminal.cpp - What a terminal shows and how wide it is ------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Terminal.h"

#include "bundle/Utf8.h"
#include "bundle/program/Manifest.h"

#include <clocale>
#include <csignal>
#include <cstdlib>
#include <cwchar>

#include <sys/ioctl.h>
#include <unistd.h>

namespace heddle::run {

namespace {

volatile std::sig_atomic_t cursorHidden = 0;

void writeAll(std::string_view text) {
  // A terminal that is gone is no reason to stop.
  [[maybe_unused]] ssize_t written =
      ::write(STDOUT_FILENO, text.data(), text.size());
}

} // namespace

TerminalSize terminalSize(int descriptor) {
  winsize size = {};
  if (ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col < 2 ||
      size.ws_row < 2)
    return {};
  return {size.ws_col, size.ws_row};
}

bool hasControlCodes() {
  const char *kind = std::getenv("TERM");
  return kind && *kind && std::string_view(kind) != "dumb";
}

void enableCharacterWidths() { std::setlocale(LC_CTYPE, "C.UTF-8"); }

void hideCursor() {
  cursorHidden = 1;
  writeAll("\x1b[?25l");
}

void restoreTerminal() {
  if (!cursorHidden)
    return;
  cursorHidden = 0;
  writeAll("\x1b[0m\x1b[?25h");
}

std::vector<Cell> toCells(std::string_view text) {
  std::vector<Cell> cells;
  for (size_t at = 0; at < text.size();) {
    Utf8Step step = utf8Step(text, at);
    std::string_view bytes = text.substr(at, step.length);
    at += step.length;
    if (step.codepoint == '\n') {
      cells.push_back({.bytes = "", .width = 0, .lineBreak = true});
      continue;
    }
    if (step.codepoint == '\t') {
      cells.push_back({.bytes = " "});
      continue;
    }
    // Marks that turn the direction of writing have a width, of nothing.
    const bool plain = step.codepoint >= 0 && bundle::isPlainText(bytes);
    int width = plain ? wcwidth(step.codepoint) : -1;
    if (width < 0)
      cells.push_back({.bytes = "\u00b7"});
    else if (width > 0)
      cells.push_back({.bytes = std::string(bytes), .width = width});
    else if (!cells.empty() && !cells.back().lineBreak)
      cells.back().bytes += bytes;
  }
  return cells;
}

} // namespace heddle::run
