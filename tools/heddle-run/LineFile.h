//===- LineFile.h - A file of lines, or standard output ---------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_RUN_LINEFILE_H
#define HEDDLE_TOOLS_HEDDLE_RUN_LINEFILE_H

#include "bundle/Result.h"

#include <cstdio>
#include <memory>
#include <string>

namespace heddle::run {

/// Lines that readers may follow along.
class LineFile {
public:
  /// `path` may be "-" for standard output.
  static Result<LineFile> open(const std::string &path);

  void write(const std::string &line);

  /// Fails if anything could not be written.
  Status finish();

private:
  struct Closer {
    void operator()(std::FILE *file) const {
      if (file != stdout)
        std::fclose(file);
    }
  };
  LineFile(std::string path, std::FILE *file)
      : path(std::move(path)), file(file) {}

  std::string path;
  int error = 0; ///< errno of the first write that failed, or 0
  std::unique_ptr<std::FILE, Closer> file;
};

} // namespace heddle::run

#endif // HEDDLE_TOOLS_HEDDLE_RUN_LINEFILE_H
