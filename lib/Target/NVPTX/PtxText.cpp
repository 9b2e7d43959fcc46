//===- PtxText.cpp - Put PTX modules together -----------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels compile apart, on all cores, and PTX has no linker short of machine
// code, so their modules are joined as text. A module is its three directives,
// then declarations and definitions in any order.
//
//===----------------------------------------------------------------------===//

#include "PtxText.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

Expected<std::string> mlir::heddle::joinPtx(ArrayRef<std::string> modules) {
  SmallVector<StringRef> header;
  SetVector<StringRef> declarations;
  std::string definitions;
  for (StringRef module : modules) {
    SmallVector<StringRef> directives;
    for (StringRef line : split(module, '\n')) {
      StringRef word = line.take_until([](char c) { return isSpace(c); });
      if (word == ".version" || word == ".target" || word == ".address_size")
        directives.push_back(line);
      else if (word == ".extern")
        declarations.insert(line);
      else if (directives.size() == 3) // else the file's comment
        (definitions += line.rtrim()) += '\n';
    }
    if (header.empty())
      header = directives;
    if (header != directives || directives.size() != 3)
      return createStringError("PTX modules for different machines can't be "
                               "joined: " +
                               join(header, " ") + " and " +
                               join(directives, " "));
  }
  std::string result;
  for (StringRef line : header)
    (result += line) += '\n';
  for (StringRef line : declarations)
    (result += line) += '\n';
  return result + definitions;
}
