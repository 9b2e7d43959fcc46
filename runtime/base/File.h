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

struct stat;

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
  int64_t size() const { return opened.size; }

  /// Bytes in the file now.
  Result<int64_t> currentSize() const;

  /// Whether the file is the one that was opened, and as it was: size, times of
  /// its last change (ns), and what its path names. A change within one tick of
  /// the file system's clock is not seen.
  Status unchanged() const;

  /// The open descriptor, which stays this object's.
  int handle() const { return descriptor; }

  /// Reads exactly [offset, offset + count) into `out`.
  Status read(int64_t offset, int64_t count, void *out) const;

private:
  /// What tells a file's states apart.
  struct Stamp {
    int64_t size = 0;
    uint64_t device = 0, inode = 0;
    int64_t modified = 0, changed = 0; ///< ns: of the bytes, of anything
    bool operator==(const Stamp &) const = default;
  };
  static Stamp stampOf(const struct stat &info);

  File(std::string name, int descriptor, const Stamp &opened)
      : name(std::move(name)), descriptor(descriptor), opened(opened) {}

  std::string name;
  int descriptor = -1;
  Stamp opened;
};

/// Whether a path names something. What cannot be looked at counts: whoever
/// opens it learns why.
bool isThere(const std::string &path);

/// The whole of a text file of at most `limit` bytes.
Result<std::string> readTextFile(const std::string &path, int64_t limit);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_BASE_FILE_H
