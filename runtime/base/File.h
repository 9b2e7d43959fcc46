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
/// Reads copy; a file that is truncated meanwhile and a disk that fails are
/// errors. What is worth mapping goes through model/MappedFile.h.
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

  /// Bytes in the file now.
  Result<int64_t> currentSize() const;

  /// The open descriptor, which stays this object's.
  int handle() const { return descriptor; }

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
