//===- File.cpp - Reading files without surprises -------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/File.h"

#include "bundle/program/Printable.h"
#include "runtime/base/Machine.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace heddle::rt {

namespace {

std::string lastError() { return std::generic_category().message(errno); }

} // namespace

Result<File> File::open(const std::string &path) {
  // O_NONBLOCK: opening a named pipe without a writer would wait for ever.
  int descriptor;
  do
    descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0)
    return fileError(path, "cannot open the file: " + lastError());
  File file(path, descriptor, {});
  struct stat info;
  if (::fstat(descriptor, &info) != 0)
    return fileError(path, "cannot query the file: " + lastError());
  if (!S_ISREG(info.st_mode))
    return fileError(path,
                     std::string("expected a regular file, found a ") +
                         (S_ISDIR(info.st_mode) ? "folder" : "device or pipe"));
  file.opened = stampOf(info);
  return file;
}

File::File(File &&other) noexcept
    : name(std::move(other.name)), descriptor(other.descriptor),
      opened(other.opened) {
  other.descriptor = -1;
}

File &File::operator=(File &&other) noexcept {
  std::swap(name, other.name);
  std::swap(descriptor, other.descriptor);
  std::swap(opened, other.opened);
  return *this;
}

File::~File() {
  if (descriptor >= 0)
    ::close(descriptor);
}

Result<int64_t> File::currentSize() const {
  struct stat info;
  if (::fstat(descriptor, &info) != 0)
    return fileError(name, "cannot query the file: " + lastError());
  return static_cast<int64_t>(info.st_size);
}

File::Stamp File::stampOf(const struct stat &info) {
  auto nanoseconds = [](const timespec &time) {
    return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
  };
  return {.size = info.st_size,
          .device = info.st_dev,
          .inode = info.st_ino,
          .modified = nanoseconds(info.st_mtim),
          .changed = nanoseconds(info.st_ctim)};
}

Status File::unchanged() const {
  struct stat now, named;
  if (::fstat(descriptor, &now) != 0)
    return fileError(name, "cannot query the file: " + lastError());
  if (::stat(name.c_str(), &named) != 0 || named.st_ino != now.st_ino ||
      named.st_dev != now.st_dev)
    return fileError(name,
                     "the file was replaced or removed while it was read; "
                     "run again when it is complete");
  if (stampOf(now) != opened)
    return fileError(name, "the file was changed while it was read; run again "
                           "when it is complete");
  return Status::success();
}

Status File::read(int64_t offset, int64_t count, void *out) const {
  char *to = static_cast<char *>(out);
  while (count > 0) {
    ssize_t got = ::pread(descriptor, to, static_cast<size_t>(count), offset);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return fileError(name, "reading " + formatBytes(count) + " at offset " +
                                 std::to_string(offset) +
                                 " failed: " + lastError());
    if (got == 0)
      return fileError(
          name, "the file ends at byte " + std::to_string(offset) + ", " +
                    std::to_string(opened.size) +
                    " bytes were there when it was opened: something truncated "
                    "it meanwhile");
    to += got;
    offset += got;
    count -= got;
  }
  return Status::success();
}

bool isThere(const std::string &path) {
  std::error_code ignored;
  return std::filesystem::status(path, ignored).type() !=
         std::filesystem::file_type::not_found;
}

Result<std::string> readTextFile(const std::string &path, int64_t limit) {
  Result<File> file = File::open(path);
  if (!file)
    return file.takeError();
  if (file->size() > limit)
    return fileError(path, "the file has " + formatBytes(file->size()) +
                               ", at most " + formatBytes(limit) +
                               " are expected here");
  std::string text(static_cast<size_t>(file->size()), '\0');
  if (Status status = file->read(0, file->size(), text.data()); !status)
    return status.takeError();
  return text;
}

} // namespace heddle::rt
