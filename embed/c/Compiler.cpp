//===- Compiler.cpp - The compiler as a process ---------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Streams are files in memory, not pipes: nothing to be read while the other
// end writes, and no SIGPIPE for a program that is not ours.
//
//===----------------------------------------------------------------------===//

#include "Compiler.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace heddle::embed::c {

namespace {

bool isProgram(const std::string &path) {
  struct stat about{};
  return ::stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

Error systemError(const std::string &what, int number) {
  return Error(what + ": " + std::strerror(number));
}

/// A file that has no name.
class MemoryFile {
public:
  explicit MemoryFile(const char *name)
      : descriptor(::memfd_create(name, MFD_CLOEXEC)) {
    // Numbers 0 to 2 are the child's own: dup2() onto itself would close it.
    if (descriptor >= 0 && descriptor < 3) {
      int higher = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
      ::close(descriptor);
      descriptor = higher;
    }
  }
  ~MemoryFile() {
    if (descriptor >= 0)
      ::close(descriptor);
  }
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;

  int number() const { return descriptor; }

  bool write(const std::string &bytes) {
    for (size_t at = 0; at < bytes.size();) {
      ssize_t done = ::write(descriptor, bytes.data() + at, bytes.size() - at);
      if (done < 0 && errno != EINTR)
        return false;
      at += done > 0 ? static_cast<size_t>(done) : 0;
    }
    return ::lseek(descriptor, 0, SEEK_SET) == 0;
  }

  std::string read() const {
    std::string bytes;
    struct stat about{};
    if (::fstat(descriptor, &about) != 0)
      return bytes;
    bytes.resize(static_cast<size_t>(about.st_size));
    size_t at = 0;
    while (at < bytes.size()) {
      ssize_t done = ::pread(descriptor, bytes.data() + at, bytes.size() - at,
                             static_cast<off_t>(at));
      if (done < 0 && errno == EINTR)
        continue;
      if (done <= 0)
        break;
      at += static_cast<size_t>(done);
    }
    bytes.resize(at);
    return bytes;
  }

private:
  int descriptor;
};

} // namespace

Result<std::string> findCompiler(const char *named) {
  const char *chosen = std::getenv("HEDDLEC");
  for (const char *path :
       {named, named ? nullptr : static_cast<const char *>(chosen)})
    if (path && *path) {
      if (!isProgram(path))
        return Error(std::string("the compiler ") + path +
                     ": no program is there");
      return std::string(path);
    }
  Dl_info here{};
  if (::dladdr(reinterpret_cast<const void *>(&findCompiler), &here) &&
      here.dli_fname) {
    std::string folder = here.dli_fname;
    folder.resize(
        folder.find('/') == std::string::npos ? 0 : folder.rfind('/') + 1);
    std::string path = folder + "../bin/heddlec";
    if (isProgram(path))
      return path;
  }
  const char *list = std::getenv("PATH");
  std::string folders = list ? list : "";
  for (size_t at = 0; at < folders.size();) {
    size_t end = std::min(folders.find(':', at), folders.size());
    std::string path = folders.substr(at, end - at) + "/heddlec";
    if (end > at && isProgram(path))
      return path;
    at = end + 1;
  }
  return std::string();
}

Result<Ended> runProgram(const std::string &path,
                         const std::vector<std::string> &arguments,
                         const std::string &input) {
  MemoryFile files[] = {MemoryFile("heddle-in"), MemoryFile("heddle-out"),
                        MemoryFile("heddle-messages")};
  for (const MemoryFile &file : files)
    if (file.number() < 0)
      return systemError("no file in memory for " + path, errno);
  if (!files[0].write(input))
    return systemError("the input of " + path, errno);

  std::vector<char *> words = {const_cast<char *>(path.c_str())};
  for (const std::string &argument : arguments)
    words.push_back(const_cast<char *>(argument.c_str()));
  words.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  if (int error = ::posix_spawn_file_actions_init(&actions))
    return systemError(path, error);
  if (int error = ::posix_spawnattr_init(&attributes)) {
    ::posix_spawn_file_actions_destroy(&actions);
    return systemError(path, error);
  }
  int error = 0;
  for (int stream = 0; stream < 3 && !error; ++stream)
    error = ::posix_spawn_file_actions_adddup2(&actions, files[stream].number(),
                                               stream);
  sigset_t none;
  sigemptyset(&none);
  if (!error)
    error = ::posix_spawnattr_setsigmask(&attributes, &none);
  if (!error)
    error = ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  if (!error)
    error = ::posix_spawn(&child, path.c_str(), &actions, &attributes,
                          words.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (error)
    return systemError(path + " cannot be started", error);

  int status = 0;
  pid_t ended;
  while ((ended = ::waitpid(child, &status, 0)) < 0 && errno == EINTR)
    ;
  Ended result;
  // A program that ignores SIGCHLD learns nothing of its children.
  if (ended == child && WIFEXITED(status))
    result.status = WEXITSTATUS(status);
  result.output = files[1].read();
  result.messages = files[2].read();
  return result;
}

} // namespace heddle::embed::c
