//===- File.h - Reading files without surprises -----------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_BASE_FILE_H
#define HEDDLE_RUNTIME_BASE_FILE_H

#include "bundle/Result.h"

#include <cstdint>
#include <string>

namespace heddle::rt {

/// A regular file open for reading at any offset, from any thread.
///
/// Reads copy. A mapping would save the copy, but a file that is truncated
/// while it is mapped, or a disk that fails, ends the process with SIGBUS;
/// here both are errors (docs/Decisions).
class File {
public:
  /// Fails on what is not a readable regular file.
  static Result<File> open(const std::string &path);

  File(File &&other) noexcept;
  File &operator=(File &&other) noexcept;
  ~File();

  const std::string &path() const { return name; }

  /// Bytes in the file when it was opened.
  int64_t size() const { return bytes; }

  /// Reads exactly [offset, offset + count) into `out`.
  Status read(int64_t offset, int64_t count, void *out) const;

private:
  File(std::string name, int descriptor, int64_t bytes)
      : name(std::move(name)), descriptor(descriptor), bytes(bytes) {}

  std::string name;
  int descriptor = -1;
  int64_t bytes = 0;
};

/// The whole of a text file of at most `limit` bytes.
Result<std::string> readTextFile(const std::string &path, int64_t limit);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_BASE_FILE_H
