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

#include "bundle/program/Printable.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace heddle::trust {

namespace {

bool isProgram(const std::string &path) {
  struct stat about{};
  return ::stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

Error systemError(const std::string &what, int number) {
  return Error(what + ": " + std::strerror(number));
}

/// The standard streams of a child, and what lies aside.
constexpr int childFiles = 3 + static_cast<int>(asideFiles.size());

/// A file that has no name.
class MemoryFile {
public:
  explicit MemoryFile(const char *name)
      : descriptor(::memfd_create(name, MFD_CLOEXEC)) {
    // The first numbers are the child's own: dup2() onto itself would close it.
    if (descriptor >= 0 && descriptor < childFiles) {
      int higher = ::fcntl(descriptor, F_DUPFD_CLOEXEC, childFiles);
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

  bool write(std::string_view bytes) {
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

/// The folder of the program or the shared library that this code is in; "" if
/// it is not known.
std::string ownFolder() {
  static const char inHere = 0;
  Dl_info about{};
  link_map *object = nullptr;
  namespace fs = std::filesystem;
  fs::path path;
  std::error_code failed;
  if (::dladdr1(&inHere, &about, reinterpret_cast<void **>(&object),
                RTLD_DL_LINKMAP) &&
      object && object->l_name && *object->l_name)
    path = object->l_name;
  else // a program has no name there
    path = fs::read_symlink("/proc/self/exe", failed);
  return path.parent_path().string();
}

/// What a child that is about to become a program does. Only calls that are
/// safe after a fork of a program with threads.
[[noreturn]] void becomeChild(char *const *arguments, const MemoryFile *files,
                              pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  bool good = ::getppid() == parent;
  for (int i = 0; i < childFiles; ++i)
    good = good && ::dup2(files[i].number(), i) == i;
  if (good) {
    ::execv(arguments[0], arguments);
    const char said[] = "it is no program of this machine\n";
    [[maybe_unused]] ssize_t written = ::write(2, said, sizeof(said) - 1);
  }
  ::_exit(127);
}

/// Waits for the child; ends it when we are asked to end. Ended::status.
Result<std::optional<int>> waitFor(pid_t child,
                                   const std::function<bool()> &interrupted) {
  bool ending = false;
  for (int status = 0;;) {
    pid_t done = ::waitpid(child, &status, interrupted ? WNOHANG : 0);
    if (done == child) {
      if (ending)
        return Error("interrupted");
      return std::optional(WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    }
    if (done < 0 && errno == EINTR)
      continue;
    if (done < 0)
      return std::optional<int>();
    if (!ending && interrupted()) {
      ::kill(child, SIGTERM); // it ends its linker and removes its files
      ending = true;
    }
    timespec pause{0, 5'000'000};
    ::nanosleep(&pause, nullptr);
  }
}

} // namespace

Result<std::string> findCompiler(const char *named) {
  const char *chosen = std::getenv("HEDDLEC");
  for (const char *path :
       {named, named ? nullptr : static_cast<const char *>(chosen)})
    if (path && *path) {
      if (!isProgram(path))
        return Error("the compiler " + printablePath(path) +
                     ": no program is there");
      return std::string(path);
    }
  if (std::string folder = ownFolder(); !folder.empty())
    for (const char *place : {"/heddlec", "/../bin/heddlec"})
      if (isProgram(folder + place))
        return folder + place;
  const char *list = std::getenv("PATH");
  std::string folders = list ? list : "";
  // An empty entry means the current folder, where others' files lie.
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
                         std::string_view input, const Aside &aside,
                         const std::function<bool()> &interrupted) {
  MemoryFile files[childFiles] = {
      MemoryFile("heddle-in"), MemoryFile("heddle-out"),
      MemoryFile("heddle-messages"), MemoryFile("heddle-aside"),
      MemoryFile("heddle-aside")};
  for (const MemoryFile &file : files)
    if (file.number() < 0)
      return systemError("no file in memory for " + path, errno);
  bool written = files[0].write(input);
  for (size_t i = 0; i < aside.size(); ++i)
    written = written && files[3 + i].write(aside[i]);
  if (!written)
    return systemError("the input of " + path, errno);

  std::vector<char *> words = {const_cast<char *>(path.c_str())};
  for (const std::string &argument : arguments)
    words.push_back(const_cast<char *>(argument.c_str()));
  words.push_back(nullptr);

  const pid_t self = ::getpid();
  const pid_t child = ::fork();
  if (child < 0)
    return systemError(path + " cannot be started", errno);
  if (child == 0)
    becomeChild(words.data(), files, self);
  Result<std::optional<int>> status = waitFor(child, interrupted);
  if (!status)
    return status.takeError();
  Ended result;
  result.status = *status;
  result.output = files[1].read();
  result.messages = files[2].read();
  return result;
}

} // namespace heddle::trust
