//===- SourceText.cpp - A file as an editor counts in it ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SourceText.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>

using namespace heddle::editor;
using llvm::StringRef;

SourceText::SourceText(std::string text) : contents(std::move(text)), lines{0} {
  for (size_t at = 0; at < contents.size(); ++at)
    if (contents[at] == '\n')
      lines.push_back(at + 1);
}

/// UTF-16 units of the character that the byte begins; 0 inside of one.
static int unitsAt(char byte) {
  auto value = static_cast<unsigned char>(byte);
  return (value & 0xC0) == 0x80 ? 0 : value >= 0xF0 ? 2 : 1;
}

size_t SourceText::offsetOf(llvm::lsp::Position position) const {
  if (position.line < 0)
    return 0;
  if (static_cast<size_t>(position.line) >= lines.size())
    return contents.size();
  size_t at = lines[static_cast<size_t>(position.line)];
  for (int units = position.character;
       at < contents.size() && contents[at] != '\n'; ++at) {
    units -= unitsAt(contents[at]);
    if (units < 0)
      break;
  }
  return at;
}

llvm::lsp::Position SourceText::positionOf(size_t offset) const {
  offset = std::min(offset, contents.size());
  auto next = std::upper_bound(lines.begin(), lines.end(), offset);
  int units = 0;
  for (size_t at = *std::prev(next); at < offset; ++at)
    units += unitsAt(contents[at]);
  return {static_cast<int>(next - lines.begin() - 1), units};
}

size_t SourceText::offsetOf(unsigned line, unsigned column) const {
  if (line == 0 || line > lines.size())
    return line == 0 ? 0 : contents.size();
  return std::min(lines[line - 1] + (column > 0 ? column - 1 : 0),
                  contents.size());
}

static bool isWordCharacter(char c) {
  return llvm::isAlnum(c) || c == '_' || c == '$' || c == '.';
}

size_t SourceText::endOfWord(size_t offset) const {
  size_t end = offset;
  if (end < contents.size() && StringRef("%@#!").contains(contents[end]))
    ++end;
  const bool number = end < contents.size() && llvm::isDigit(contents[end]);
  while (end < contents.size() &&
         (isWordCharacter(contents[end]) ||
          (number && (contents[end] == '/' || contents[end] == '%'))))
    ++end;
  return std::min(std::max(end, offset + 1), contents.size());
}

size_t SourceText::beginOfWord(size_t offset) const {
  size_t begin = std::min(offset, contents.size());
  while (begin > 0 && isWordCharacter(contents[begin - 1]))
    --begin;
  if (begin > 0 && StringRef("%@#!").contains(contents[begin - 1]))
    --begin;
  return begin;
}

StringRef heddle::editor::operationOf(StringRef line) {
  line = line.ltrim();
  if (line.starts_with("%"))
    line = line.drop_front(std::min(line.find('=') + 1, line.size())).ltrim();
  line.consume_front("heddle.");
  return line.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
}
