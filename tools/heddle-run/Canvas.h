//===- Canvas.h - The sequences being unmasked, drawn in place --*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_RUN_CANVAS_H
#define HEDDLE_TOOLS_HEDDLE_RUN_CANVAS_H

#include "Terminal.h"
#include "Text.h"
#include "runtime/denoise/Denoise.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace heddle::run {

/// How a piece of a sequence is drawn.
enum class Ink {
  Prompt, ///< dim
  Kept,   ///< plain: committed earlier
  Fresh,  ///< bold green: committed by this step
  Open,   ///< cyan maskSign: masked, in the current block or before
  Later,  ///< dim maskSign: masked, in a later block
};

/// What a token is drawn with.
Ink inkOf(int64_t position, int32_t token, bool fresh, int64_t promptLength,
          int64_t blockEnd, int32_t maskToken);

struct Piece {
  std::string text;
  Ink ink = Ink::Kept;
};

/// Shown for a special token of a response, such as the end of the text.
inline constexpr const char *specialSign = "\u00b7";

/// One sequence in pieces of equal ink, prompt first. `fresh` [tokens].
std::vector<Piece> sequencePieces(std::span<const int32_t> tokens,
                                  const std::vector<bool> &fresh,
                                  int64_t promptLength, int64_t blockEnd,
                                  const TextRules &rules);

/// Lines of at most `columns` columns.
struct Layout {
  std::vector<std::string> lines; ///< with colour codes, each self-contained
  int focus = 0;                  ///< the line of the first open position
};
Layout layOut(const std::vector<Piece> &pieces, int columns);

/// The `rows` lines around the focus.
std::vector<std::string> cropTo(const Layout &layout, int rows);

/// Redraws all sequences and a status line at the same place of standard
/// output, which is a terminal, at most some 30 times a second.
class Canvas {
public:
  Canvas(TextRules rules, std::vector<int64_t> promptLengths,
         int64_t blockLength);
  ~Canvas() { clear(); }

  void step(const rt::StepRecord &record, const std::string &status);

  /// Removes the drawing; the cursor stands where it began.
  void clear();

private:
  TextRules rules;
  std::vector<int64_t> promptLengths;
  int64_t blockLength;
  size_t drawnLines = 0;
  std::chrono::steady_clock::time_point last;
};

} // namespace heddle::run

#endif // HEDDLE_TOOLS_HEDDLE_RUN_CANVAS_H
