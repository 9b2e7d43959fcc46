//===- Printable.cpp - Names out of files, in messages --------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/Printable.h"

#include "bundle/Utf8.h"
#include "bundle/program/Manifest.h"

#include <cstdio>

using namespace heddle;

namespace {

/// Format characters that show nothing, beside those that isPlainText() knows.
bool isUnseen(int32_t c) {
  return c == 0xAD || c == 0x180E || (c >= 0x200B && c <= 0x200D) ||
         (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF ||
         (c >= 0xFFF9 && c <= 0xFFFB) || (c >= 0xE0000 && c <= 0xE007F);
}

void append(std::string &result, const char *format, unsigned value) {
  char escape[16];
  std::snprintf(escape, sizeof(escape), format, value);
  result += escape;
}

std::string escaped(std::string_view text, bool keepLineBreaks) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8Step(text, at);
    const std::string_view bytes = text.substr(at, step.length);
    at += step.length;
    if (step.codepoint < 0)
      for (unsigned char byte : bytes)
        append(result, "\\x%02x", byte);
    else if (step.codepoint == '\n')
      result += keepLineBreaks ? "\n" : "\\n";
    else if (bundle::isPlainText(bytes) && !isUnseen(step.codepoint))
      result += bytes;
    else
      append(result, "\\u%04x", static_cast<unsigned>(step.codepoint));
  }
  return result;
}

} // namespace

std::string heddle::printable(std::string_view text, size_t most) {
  if (text.size() <= most)
    return escaped(text, /*keepLineBreaks=*/false);
  // Between two characters.
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80)
    --most;
  return escaped(text.substr(0, most), /*keepLineBreaks=*/false) + "...";
}

std::string heddle::printablePath(std::string_view path) {
  return escaped(path, /*keepLineBreaks=*/false);
}

std::string heddle::printableLines(std::string_view message) {
  return escaped(message, /*keepLineBreaks=*/true);
}

Error heddle::fileError(std::string_view path, const std::string &what) {
  return Error(printablePath(path) + ": " + what);
}
