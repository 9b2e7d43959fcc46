//===- MappedFile.h - A file's bytes without copying them -------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A mapping is read like memory, so an error of the file is no return value:
// where another program has truncated the file, or its disk fails, the kernel
// sends SIGBUS, which ends a program. While there is a mapping, a handler puts
// zeros in place of what cannot be read and remembers it, and intact() says
// afterwards what happened. Whoever reads a mapping asks intact() before what
// came out of it is used.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_MODEL_MAPPEDFILE_H
#define HEDDLE_RUNTIME_MODEL_MAPPEDFILE_H

#include "bundle/Result.h"
#include "runtime/base/File.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace heddle::rt {

/// The whole of a file, read-only, as long as this object lives. From any
/// thread.
class MappedFile {
public:
  /// The mappings that there can be at once in a process; a model has a file
  /// for every few gigabytes.
  static constexpr int mostMappings = 256;

  /// None where the file cannot be mapped: it is empty, its file system has no
  /// mappings, a limit on address space or `mostMappings` is reached. Such a
  /// file can still be read. `file` must outlive the mapping.
  static std::unique_ptr<MappedFile> map(const File &file);

  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  const std::byte *data() const { return start; }

  /// Whether all bytes that were read so far were the file's. An error says at
  /// which offset they were not.
  Status intact() const;

  /// Says that [offset, offset + count) is read soon.
  void prefetch(int64_t offset, int64_t count) const;

  /// Gives back the memory of whole pages of [offset, offset + count), which
  /// stay in the system's cache and can be read again.
  void release(int64_t offset, int64_t count) const;

private:
  MappedFile(const File &file, const std::byte *start, int slot)
      : file(file), start(start), slot(slot) {}

  const File &file;
  const std::byte *start;
  int slot; ///< where the signal handler finds this mapping
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_MODEL_MAPPEDFILE_H
