//===- Link.cpp - Link an object to a shared object -----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Link.h"

#include "heddle/Support/TemporaryFiles.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"

using namespace llvm;

// A program that holds lld is its own linker, started by this first argument.
#ifdef HEDDLE_BUILTIN_LINKER
static constexpr bool holdsLinker = true;
#else
static constexpr bool holdsLinker = false;
#endif

std::string mlir::heddle::findLinker() {
  if (holdsLinker)
    return sys::fs::getMainExecutable(nullptr, nullptr);
  for (StringRef name : {"ld.lld-22", "ld.lld", "ld"})
    if (ErrorOr<std::string> path = sys::findProgramByName(name))
      return *path;
  return "";
}

Expected<std::string>
mlir::heddle::linkSharedObject(ArrayRef<std::string> objects) {
  std::string linker = findLinker();
  if (linker.empty())
    return createStringError("no linker on PATH: looked for ld.lld-22, ld.lld "
                             "and ld; install lld or binutils");

  ::heddle::TemporaryFiles files;
  Expected<std::string> output = files.add("so");
  if (!output)
    return output.takeError();
  std::vector<std::string> inputs;
  for (const std::string &object : objects) {
    Expected<std::string> input = files.add("o", object);
    if (!input)
      return input.takeError();
    inputs.push_back(std::move(*input));
  }
  SmallVector<StringRef> arguments;
  if (holdsLinker)
    arguments.push_back(linkerArgument);
  arguments.append({"-shared", "-s", "-z", "noexecstack", "--hash-style=gnu",
                    "-o", *output});
  arguments.append(inputs.begin(), inputs.end());
  Expected<::heddle::ProgramResult> result =
      ::heddle::runProgram(linker, arguments, /*seconds=*/60);
  if (!result)
    return result.takeError();
  if (result->status != 0)
    return createStringError(
        linker + " failed: " +
        (result->log.empty()
             ? "it ended with status " + std::to_string(result->status) +
                   " and no message; is the disk of temporary files full?"
             : result->log));
  return ::heddle::readFile(*output);
}
