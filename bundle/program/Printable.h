//===- Printable.h - Names out of files, in messages ------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Messages go to terminals, and quote what others wrote. Worked example: the
// name of a tensor "a<ESC>[2J<line break>b" is shown as a\u001b[2J\nb.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_PROGRAM_PRINTABLE_H
#define HEDDLE_BUNDLE_PROGRAM_PRINTABLE_H

#include "bundle/Result.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace heddle {

/// `text` as it may stand in a line: escapes take the place of what ends a
/// line, steers a terminal, turns the direction of writing or is not seen, and
/// of bytes that are no UTF-8. More than `most` bytes are cut to "...".
std::string printable(std::string_view text, size_t most = 120);

/// The same of a path, which is shown whole.
std::string printablePath(std::string_view path);

/// A whole message, in which line breaks stay.
std::string printableLines(std::string_view message);

/// "PATH: what".
Error fileError(std::string_view path, const std::string &what);

} // namespace heddle

#endif // HEDDLE_BUNDLE_PROGRAM_PRINTABLE_H
