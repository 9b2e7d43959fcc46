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

namespace heddle::run {

Result<LineFile> LineFile::open(const std::string &path) {
  std::FILE *file = path == "-" ? stdout : std::fopen(path.c_str(), "w");
  if (!file)
    return Error(printablePath(path) +
                 ": could not be opened for writing: " + std::strerror(errno));
  return LineFile(path, file);
}

void LineFile::write(const std::string &line) {
  std::fwrite(line.data(), 1, line.size(), file.get());
  std::fputc('\n', file.get());
  std::fflush(file.get());
}

Status LineFile::finish() {
  if (std::fflush(file.get()) != 0 || std::ferror(file.get()))
    return Error((path == "-" ? "standard output" : printablePath(path)) +
                 ": could not be written: " + std::strerror(errno));
  return Status::success();
}

} // namespace heddle::run
