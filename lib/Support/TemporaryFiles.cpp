//===- TemporaryFiles.cpp - Files for another program's use ---------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Support/TemporaryFiles.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

using namespace heddle;
using namespace llvm;

TemporaryFiles::~TemporaryFiles() {
  for (const std::string &path : paths) {
    sys::fs::remove(path);
    sys::DontRemoveFileOnSignal(path);
  }
}

Expected<std::string> TemporaryFiles::add(StringRef suffix,
                                          StringRef contents) {
  int descriptor;
  SmallString<128> path;
  if (std::error_code code =
          sys::fs::createTemporaryFile("heddle", suffix, descriptor, path))
    return createStringError(code, "cannot create a temporary file: " +
                                       code.message());
  sys::RemoveFileOnSignal(path); // Ctrl-C leaves nothing behind
  paths.push_back(path.str().str());
  raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
  stream << contents;
  stream.close();
  if (stream.has_error()) {
    std::error_code code = stream.error();
    stream.clear_error(); // else its destructor aborts
    return createStringError(code, "cannot write " + path.str() + ": " +
                                       code.message());
  }
  return paths.back();
}

Expected<std::string> heddle::readFile(StringRef path) {
  auto buffer = MemoryBuffer::getFile(path);
  if (!buffer)
    return createStringError(buffer.getError(),
                             "cannot read " + path + ": " +
                                 buffer.getError().message());
  return (*buffer)->getBuffer().str();
}

Expected<ProgramResult> heddle::runProgram(StringRef program,
                                           ArrayRef<StringRef> arguments,
                                           unsigned seconds) {
  TemporaryFiles files;
  Expected<std::string> log = files.add("log");
  if (!log)
    return log.takeError();
  SmallVector<StringRef> all = {program};
  all.append(arguments.begin(), arguments.end());
  ProgramResult result;
  std::string problem;
  result.status =
      sys::ExecuteAndWait(program, all, std::nullopt,
                          {StringRef(""), StringRef(*log), StringRef(*log)},
                          seconds, /*MemoryLimit=*/0, &problem);
  Expected<std::string> text = readFile(*log);
  if (!text)
    return text.takeError();
  result.log = std::move(*text) + problem;
  return result;
}
