//===- Link.cpp - Link an object to a shared object ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Link.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

/// A new file for temporary use, removed by the caller.
static Expected<std::string> createFile(StringRef suffix, StringRef contents) {
  int descriptor;
  SmallString<128> path;
  if (std::error_code code =
          sys::fs::createTemporaryFile("heddle", suffix, descriptor, path))
    return createStringError(code, "cannot create a temporary file: " +
                                       code.message());
  sys::RemoveFileOnSignal(path); // Ctrl-C leaves nothing behind
  raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
  stream << contents;
  stream.close();
  if (stream.has_error()) {
    std::error_code code = stream.error();
    stream.clear_error();
    sys::fs::remove(path);
    return createStringError(code, "cannot write " + path.str() + ": " +
                                       code.message());
  }
  return path.str().str();
}

Expected<std::string>
mlir::heddle::linkSharedObject(ArrayRef<std::string> objects) {
  ErrorOr<std::string> linker = std::errc::no_such_file_or_directory;
  for (StringRef name : {"ld.lld-22", "ld.lld", "ld"})
    if ((linker = sys::findProgramByName(name)))
      break;
  if (!linker)
    return createStringError("no linker on PATH: looked for ld.lld-22, ld.lld "
                             "and ld; install lld or "
                             "binutils");

  SmallVector<std::string> files;
  scope_exit cleanup([&] {
    for (const std::string &file : files) {
      sys::fs::remove(file);
      sys::DontRemoveFileOnSignal(file);
    }
  });
  auto addFile = [&](StringRef suffix, StringRef contents) -> Error {
    Expected<std::string> path = createFile(suffix, contents);
    if (!path)
      return path.takeError();
    files.push_back(*path);
    return Error::success();
  };
  if (Error error = addFile("so", ""))
    return error;
  if (Error error = addFile("log", ""))
    return error;
  for (const std::string &object : objects)
    if (Error error = addFile("o", object))
      return error;

  SmallVector<StringRef> arguments = {
      *linker,       "-shared",          "-s", "-z",
      "noexecstack", "--hash-style=gnu", "-o", files[0]};
  arguments.append(files.begin() + 2, files.end());
  std::string message;
  StringRef log = files[1];
  int status = sys::ExecuteAndWait(
      *linker, arguments, std::nullopt, {StringRef(""), log, log},
      /*SecondsToWait=*/60, /*MemoryLimit=*/0, &message);
  if (status != 0) {
    if (auto text = MemoryBuffer::getFile(log))
      message += (*text)->getBuffer();
    return createStringError(*linker + " failed: " + message);
  }
  auto result = MemoryBuffer::getFile(files[0]);
  if (!result)
    return createStringError(result.getError(), "cannot read back " + files[0]);
  return (*result)->getBuffer().str();
}
