//===- CodeCache.cpp - Compiled code that is kept on disk -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An entry is a file: the BLAKE3 hash of its key and its bytes, then its bytes.
//
//===----------------------------------------------------------------------===//

#include "heddle/Support/CodeCache.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace heddle;
using namespace llvm;

/// llvm::pruneCache() takes only files of such names for its own. Half-written
/// files have it too, so that those of killed processes go like others.
static constexpr StringLiteral prefix = "llvmcache-";

static std::string digestOf(StringRef key, StringRef bytes) {
  BLAKE3 hash;
  hash.update(key);
  hash.update(bytes);
  return toStringRef(hash.final()).str();
}

/// Why what `info` describes may have been written by somebody else, or "".
static std::string whyNotTrusted(const struct stat &info) {
  if (info.st_uid != ::geteuid())
    return formatv("belongs to user {0}, and this is user {1}", info.st_uid,
                   ::geteuid())
        .str();
  if (info.st_mode & (S_IWGRP | S_IWOTH))
    return "may be written by others, who could have it run their code; "
           "'chmod go-w' ends that";
  return "";
}

static std::error_code lastError() {
  return std::error_code(errno, std::generic_category());
}

std::string CodeCache::defaultFolder() {
  SmallString<128> path;
  if (!sys::path::cache_directory(path) || !sys::path::is_absolute(path))
    return "";
  sys::path::append(path, "heddle");
  return path.str().str();
}

Expected<std::unique_ptr<CodeCache>> CodeCache::open(StringRef folder,
                                                     StringRef policy) {
  // Of what is said twice, the later counts.
  std::string whole = defaultPolicy.str();
  if (!policy.empty())
    whole += (":" + policy).str();
  Expected<CachePruningPolicy> parsed = parseCachePruningPolicy(whole);
  if (!parsed)
    return createStringError("the policy '" + policy +
                             "': " + toString(parsed.takeError()));
  if (folder.empty())
    return createStringError("there is no folder to keep it in: neither "
                             "HEDDLE_CACHE_DIR, XDG_CACHE_HOME nor HOME names "
                             "one by an absolute path");
  auto fail = [&](const Twine &why) {
    return createStringError(folder + ": " + why);
  };
  if (std::error_code error = sys::fs::create_directories(
          folder, /*IgnoreExisting=*/true, sys::fs::owner_all))
    return fail("cannot make the folder: " + error.message());
  int descriptor =
      ::open(folder.str().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    return fail("cannot open the folder: " + lastError().message());
  std::unique_ptr<CodeCache> cache(
      new CodeCache(folder.str(), descriptor, *parsed));
  struct stat info;
  if (::fstat(descriptor, &info) != 0)
    return fail(lastError().message());
  if (std::string why = whyNotTrusted(info); !why.empty())
    return fail(why);
  return cache;
}

CodeCache::~CodeCache() { ::close(descriptor); }

std::string CodeCache::pathOf(StringRef name) const {
  SmallString<256> path(directory);
  sys::path::append(path, prefix + name);
  return path.str().str();
}

std::optional<std::string> CodeCache::find(StringRef key) {
  // In the folder that was looked at, whatever has its name by now. Without
  // O_NONBLOCK, opening a named pipe would wait for a writer.
  int file = ::openat(descriptor, (prefix + key).str().c_str(),
                      O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0)
    return std::nullopt;
  auto close = scope_exit([&] { ::close(file); });
  struct stat info;
  if (::fstat(file, &info) != 0 || !S_ISREG(info.st_mode) ||
      !whyNotTrusted(info).empty())
    return std::nullopt;
  // Read, not mapped: nobody can change the bytes once they are checked.
  auto read = MemoryBuffer::getOpenFile(file, key, info.st_size,
                                        /*RequiresNullTerminator=*/false,
                                        /*IsVolatile=*/true);
  if (!read)
    return std::nullopt;
  StringRef contents = (*read)->getBuffer();
  StringRef digest = contents.take_front(sizeof(BLAKE3Result<>));
  StringRef bytes = contents.drop_front(digest.size());
  if (digest != digestOf(key, bytes))
    return std::nullopt;
  // File systems note uses late or never; prune() wants to know.
  struct timespec times[] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
  (void)::futimens(file, times);
  return bytes.str();
}

Error CodeCache::write(StringRef key, StringRef bytes) {
  Expected<sys::fs::TempFile> file = sys::fs::TempFile::create(
      pathOf("%%%%%%%%%%%%.tmp"), sys::fs::owner_read | sys::fs::owner_write);
  if (!file)
    return file.takeError();
  std::string contents = digestOf(key, bytes) + bytes.str();
  for (StringRef rest = contents; !rest.empty();) {
    ssize_t put = ::write(file->FD, rest.data(), rest.size());
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      return joinErrors(errorCodeToError(lastError()), file->discard());
    rest = rest.drop_front(put);
  }
  if (::fsync(file->FD) != 0)
    return joinErrors(errorCodeToError(lastError()), file->discard());
  return file->keep(pathOf(key));
}

void CodeCache::store(StringRef key, StringRef bytes) {
  stored = true;
  Error error = write(key, bytes);
  if (!error)
    return;
  std::string text =
      "cannot write to " + directory + ": " + toString(std::move(error));
  std::lock_guard<std::mutex> lock(mutex);
  if (firstProblem.empty())
    firstProblem = std::move(text);
}

std::string CodeCache::problem() const {
  std::lock_guard<std::mutex> lock(mutex);
  return firstProblem;
}

void CodeCache::prune() {
  if (stored)
    (void)pruneCache(directory, policy);
}

/// Calls `visit` for each of the cache's files.
static Error
visitEntries(StringRef directory,
             function_ref<std::error_code(const std::string &)> visit) {
  std::error_code error;
  sys::fs::directory_iterator at(directory, error), end;
  for (; at != end && !error; at.increment(error))
    if (sys::path::filename(at->path()).starts_with(prefix))
      // Another process may have removed it.
      if (std::error_code failed = visit(at->path());
          failed && failed != std::errc::no_such_file_or_directory)
        return createStringError(failed, at->path() + ": " + failed.message());
  if (error)
    return createStringError(error, directory + ": " + error.message());
  return Error::success();
}

Error CodeCache::clear() {
  return visitEntries(directory, [](const std::string &path) {
    return sys::fs::remove(path, /*IgnoreNonExisting=*/true);
  });
}

Expected<CodeCache::Size> CodeCache::size() const {
  Size result;
  Error error = visitEntries(directory, [&](const std::string &path) {
    uint64_t bytes = 0;
    std::error_code failed = sys::fs::file_size(path, bytes);
    if (!failed) {
      ++result.entries;
      result.bytes += bytes;
    }
    return failed;
  });
  if (error)
    return std::move(error);
  return result;
}
