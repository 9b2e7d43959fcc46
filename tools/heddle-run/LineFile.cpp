//===- LineFile.cpp - A file of lines, or standard output -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LineFile.h"

#include "bundle/program/Printable.h"

#include <cerrno>
#include <cstring>
#include <unistd.h>

namespace heddle::run {

Result<LineFile> LineFile::open(const std::string &path) {
  std::FILE *file = path == "-" ? stdout : std::fopen(path.c_str(), "w");
  if (!file)
    return Error(printablePath(path) +
                 ": could not be opened for writing: " + std::strerror(errno));
  return LineFile(path, file);
}

void LineFile::write(const std::string &line) {
  // By the descriptor: a signal may end a write to a pipe that is full, which
  // goes on then, and of a stream that failed nobody knows what is written.
  const std::string text = line + '\n';
  for (size_t at = 0; at < text.size() && error == 0;) {
    const ssize_t count =
        ::write(::fileno(file.get()), text.data() + at, text.size() - at);
    if (count >= 0)
      at += static_cast<size_t>(count);
    else if (errno != EINTR)
      error = errno;
  }
}

Status LineFile::finish() {
  if (error != 0)
    return Error((path == "-" ? "standard output" : printablePath(path)) +
                 ": could not be written: " + std::strerror(error));
  return Status::success();
}

} // namespace heddle::run
