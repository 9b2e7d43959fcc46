//===- HintsOp.cpp - The op that an error is about, as tokens -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HintsOp.h"

#include "heddle/Dialect/Heddle/IR/Heddle.h"

using namespace mlir;
using namespace mlir::heddle;

bool mlir::heddle::beginsOp(MLIRContext *context, StringRef word) {
  auto op = opOfSchedules(context, word);
  return word == "heddle.schedule" || word == "yield" ||
         word == YieldOp::getOperationName() ||
         (op && !op->hasTrait<OpTrait::OneResult>());
}

Hints::Op::Op(MLIRContext *context, StringRef all, size_t place) {
  SmallVector<Token> every = tokensOf(all);
  auto column = [&](const Token &token) { return columnOf(all, token.begin); };
  size_t first = 0, found = 0;
  while (found < every.size() && every[found].begin < place)
    ++found;
  // The parser may take for two what is one here, such as 2k.
  if (found > 0 && every[found - 1].end() > place &&
      !every[found - 1].text.contains('"')) {
    const Token whole = every[found - 1];
    const size_t size = place - whole.begin;
    every[found - 1].text = whole.text.take_front(size);
    every.insert(every.begin() + found, {place, whole.text.drop_front(size)});
    split = true;
  }
  const bool exact = found < every.size() && every[found].begin == place;
  size_t last = every.size();
  size_t indent = 0;
  for (size_t i = 0; i < every.size(); ++i) {
    const Token &token = every[i];
    const bool behindBrace =
        i > 0 && StringRef("{}").contains(every[i - 1].text);
    const bool second =
        i > 0 && every[i - 1].isValue() && beginsLine(all, every[i - 1].begin);
    const bool makes = token.isValue() && !second && i + 1 < every.size() &&
                       every[i + 1].text == "=";
    const bool line = beginsLine(all, token.begin);
    const bool begins =
        i == 0 || behindBrace || makes || token.text == "}" ||
        (beginsOp(context, token.text) && every[i - 1].text != "=") ||
        (line && column(token) <= indent);
    if (!begins)
      continue;
    // Behind the end of an op its own end is missed.
    if (i > found || (i == found && !exact)) {
      last = i;
      break;
    }
    first = i;
    if (line)
      indent = column(token);
  }
  start = first < every.size() ? every[first].begin : all.size();
  const size_t end = last > first ? every[last - 1].end() : start;
  before = all.take_front(start);
  text = all.slice(start, end);
  for (size_t i = first; i < last; ++i)
    tokens.push_back({every[i].begin - start, every[i].text});
  at = std::min(found - first, tokens.size());
  named = tokens.size() > 1 && tokens[1].text == "=";
}
