//===- File.cpp - Reading whole files, writing atomically -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/format/File.h"

#include "bundle/program/Printable.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <iostream>
#include <sys/stat.h>
#include <unistd.h>

using namespace heddle;

namespace {

/// Owns a file descriptor.
class Descriptor {
public:
  explicit Descriptor(int fd) : fd(fd) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;

  explicit operator bool() const { return fd >= 0; }
  int get() const { return fd; }

  /// Late write errors (quota, network file systems) show only here.
  int close() {
    int result = fd >= 0 ? ::close(fd) : 0;
    fd = -1;
    return result;
  }

private:
  int fd;
};

/// Holds back the signals that end a program, for the scope.
class SignalsHeld {
public:
  SignalsHeld() {
    sigset_t set;
    sigemptyset(&set);
    for (int signal : {SIGINT, SIGTERM, SIGHUP})
      sigaddset(&set, signal);
    pthread_sigmask(SIG_BLOCK, &set, &old);
  }
  ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &old, nullptr); }

private:
  sigset_t old;
};

/// "PATH: what: why".
Error systemError(const std::string &path, const char *what, int code = errno) {
  return fileError(path, std::string(what) + ": " + std::strerror(code));
}

Status readFully(int fd, char *to, uint64_t size, const std::string &path) {
  while (size > 0) {
    ssize_t got = ::read(fd, to, size);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return systemError(path, "cannot read");
    if (got == 0)
      return fileError(path, "became shorter while it was read");
    to += got;
    size -= static_cast<uint64_t>(got);
  }
  return Status::success();
}

Status writeFully(int fd, std::string_view bytes, const std::string &path) {
  while (!bytes.empty()) {
    ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      return systemError(path, "cannot write");
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return Status::success();
}

/// The file that a writer of `path` writes: what symbolic links lead to, be it
/// there or not yet.
Result<std::string> followLinks(const std::string &path) {
  namespace fs = std::filesystem;
  // Also through links of /proc, whose text is no path.
  if (char *real = ::realpath(path.c_str(), nullptr)) {
    std::string result(real);
    std::free(real);
    return result;
  }
  fs::path target = path;
  constexpr int mostLinks = 40; // the kernel's own limit
  for (int links = 0; links <= mostLinks; ++links) {
    std::error_code noLink;
    fs::path next = fs::read_symlink(target, noLink);
    if (noLink)
      return target.string();
    target = target.parent_path() / next;
  }
  return systemError(path, "cannot write", ELOOP);
}

/// Where to write.
struct Output {
  std::string target;
  bool inPlace = false; ///< a device or a pipe
};

Result<Output> outputAt(const std::string &path) {
  if (path.empty())
    return Error("the name of the output file is empty");
  Result<std::string> target = followLinks(path);
  if (!target)
    return target.takeError();
  Output output{std::move(*target)};
  struct stat info;
  if (::stat(output.target.c_str(), &info) != 0)
    return output;
  if (S_ISDIR(info.st_mode))
    return fileError(path, "is a directory, expected a file to write");
  output.inPlace = !S_ISREG(info.st_mode);
  return output;
}

} // namespace

Result<std::string> heddle::bundle::readRegularFile(
    const std::string &path, uint64_t startSize,
    const std::function<Status(std::string_view, uint64_t)> &accept) {
  // Without O_NONBLOCK, opening a named pipe would wait for a writer.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file)
    return systemError(path, "cannot open");
  struct stat info;
  if (::fstat(file.get(), &info) != 0)
    return systemError(path, "cannot read");
  if (S_ISDIR(info.st_mode))
    return fileError(path, "is a directory, expected a file");
  if (!S_ISREG(info.st_mode))
    return fileError(path, "is a device or pipe, expected a file");

  uint64_t size = static_cast<uint64_t>(info.st_size);
  std::string bytes(std::min(startSize, size), '\0');
  if (Status status = readFully(file.get(), bytes.data(), bytes.size(), path);
      !status)
    return status.takeError();
  if (Status status = accept(bytes, size); !status)
    return status.takeError().withContext(printablePath(path));
  uint64_t done = bytes.size();
  bytes.resize(size);
  if (Status status =
          readFully(file.get(), bytes.data() + done, size - done, path);
      !status)
    return status.takeError();
  return bytes;
}

Status heddle::bundle::flushStandardOutput() {
  errno = 0;
  std::cout.flush();
  bool good = std::cout.good();
  good = std::fflush(stdout) == 0 && !std::ferror(stdout) && good;
  if (good)
    return Status::success();
  return Error("cannot write to stdout" +
               (errno ? std::string(": ") + std::strerror(errno) : ""));
}

Status heddle::bundle::checkWritable(const std::string &path) {
  Result<Output> output = outputAt(path);
  if (!output)
    return output.takeError();
  std::string needed = output->target;
  if (!output->inPlace) {
    // A file is replaced, which its folder must allow.
    needed = std::filesystem::path(needed).parent_path().string();
    if (needed.empty())
      needed = ".";
  }
  if (::access(needed.c_str(), W_OK) != 0)
    return systemError(path, "cannot write");
  return Status::success();
}

Status heddle::bundle::writeFileAtomically(const std::string &path,
                                           std::string_view bytes) {
  Result<Output> output = outputAt(path);
  if (!output)
    return output.takeError();
  const std::string &target = output->target;
  if (output->inPlace) {
    Descriptor device(::open(target.c_str(), O_WRONLY | O_CLOEXEC));
    if (!device)
      return systemError(path, "cannot write");
    return writeFully(device.get(), bytes, path);
  }

  SignalsHeld held;
  std::string temporary;
  int fd = -1;
  // Created with the default mode (mkstemp would hide it from other users);
  // the counter passes by what a killed process of the same id left behind.
  for (int attempt = 0; fd < 0 && attempt < 100; ++attempt) {
    temporary = target + ".tmp" + std::to_string(::getpid()) + "." +
                std::to_string(attempt);
    fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                0666);
    if (fd < 0 && errno != EEXIST)
      break;
  }
  Descriptor file(fd);
  if (!file)
    return systemError(path, "cannot write");
  Status status = writeFully(file.get(), bytes, path);
  if (status && ::fsync(file.get()) != 0)
    status = systemError(path, "cannot write");
  if (int failed = file.close(); status && failed != 0)
    status = systemError(path, "cannot write");
  if (status && ::rename(temporary.c_str(), target.c_str()) != 0)
    status = systemError(path, "cannot write");
  if (!status)
    ::unlink(temporary.c_str());
  return status;
}
