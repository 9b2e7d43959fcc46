//===- File.cpp - Reading whole files, writing atomically -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/format/File.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
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

Error systemError(const std::string &what, int code = errno) {
  return Error(what + ": " + std::strerror(code));
}

Status readFully(int fd, char *to, uint64_t size, const std::string &path) {
  while (size > 0) {
    ssize_t got = ::read(fd, to, size);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return systemError(path + ": cannot read");
    if (got == 0)
      return Error(path + ": became shorter while it was read");
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
      return systemError(path + ": cannot write");
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return Status::success();
}

/// `path`, or what it points to when it is a symbolic link to something.
std::string followLinks(const std::string &path) {
  char *real = ::realpath(path.c_str(), nullptr);
  if (!real)
    return path;
  std::string result(real);
  std::free(real);
  return result;
}

} // namespace

Result<std::string> heddle::bundle::readRegularFile(
    const std::string &path, uint64_t startSize,
    const std::function<Status(std::string_view, uint64_t)> &accept) {
  // Without O_NONBLOCK, opening a named pipe would wait for a writer.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file)
    return systemError(path + ": cannot open");
  struct stat info;
  if (::fstat(file.get(), &info) != 0)
    return systemError(path + ": cannot read");
  if (S_ISDIR(info.st_mode))
    return Error(path + ": is a directory, expected a file");
  if (!S_ISREG(info.st_mode))
    return Error(path + ": is a device or pipe, expected a file");

  uint64_t size = static_cast<uint64_t>(info.st_size);
  std::string bytes(std::min(startSize, size), '\0');
  if (Status status = readFully(file.get(), bytes.data(), bytes.size(), path);
      !status)
    return status.takeError();
  if (Status status = accept(bytes, size); !status)
    return status.takeError().withContext(path);
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
  return errno ? systemError("cannot write to stdout")
               : Error("cannot write to stdout");
}

Status heddle::bundle::writeFileAtomically(const std::string &path,
                                           std::string_view bytes) {
  if (path.empty())
    return Error("the name of the output file is empty");
  std::string target = followLinks(path);
  struct stat info;
  if (::stat(target.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode))
      return Error(path + ": is a directory, expected a file to write");
    if (!S_ISREG(info.st_mode)) {
      Descriptor device(::open(target.c_str(), O_WRONLY | O_CLOEXEC));
      if (!device)
        return systemError(path + ": cannot write");
      return writeFully(device.get(), bytes, path);
    }
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
    return systemError(path + ": cannot write");
  Status status = writeFully(file.get(), bytes, path);
  if (status && ::fsync(file.get()) != 0)
    status = systemError(path + ": cannot write");
  if (int failed = file.close(); status && failed != 0)
    status = systemError(path + ": cannot write");
  if (status && ::rename(temporary.c_str(), target.c_str()) != 0)
    status = systemError(path + ": cannot write");
  if (!status)
    ::unlink(temporary.c_str());
  return status;
}
