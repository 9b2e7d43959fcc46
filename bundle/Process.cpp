//===- Process.cpp - What a program does first ----------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/Process.h"

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

namespace {

void openStandardStreams() {
  const int modes[] = {O_RDONLY, O_RDONLY, O_WRONLY};
  // In ascending order: open() takes the lowest number that is free.
  for (int fd = 0; fd < 3; ++fd)
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", modes[fd]) != fd)
      std::_Exit(1);
}

/// Bytes of address space that are taken; 0 where /proc does not say.
uint64_t addressSpaceTaken() {
  unsigned long long pages = 0;
  if (std::FILE *file = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(file, "%llu", &pages) != 1)
      pages = 0;
    std::fclose(file);
  }
  return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

void requireLimit(const char *name, int resource, uint64_t least,
                  const char *what, const char *option) {
  rlimit limit;
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
      limit.rlim_cur >= least)
    return;
  // fprintf() to stderr, which has no buffer, takes 8 KB of the stack for one.
  char text[200];
  const int length = std::snprintf(
      text, sizeof(text),
      "%s: error: the limit on %s is %llu KB, this program needs at least %llu "
      "KB: raise it with 'ulimit %s'\n",
      name, what, static_cast<unsigned long long>(limit.rlim_cur) >> 10,
      static_cast<unsigned long long>(least) >> 10, option);
  [[maybe_unused]] ssize_t written =
      ::write(STDERR_FILENO, text, static_cast<size_t>(length));
  std::_Exit(1);
}

/// Where address space is limited, all threads allocate from one arena. glibc
/// reserves 128 MB for each thread's own; where these are not to be had, it
/// maps every allocation by itself, and a compilation takes ten times as long.
void shareArena() {
  rlimit limit;
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    ::mallopt(M_ARENA_MAX, 1);
}

} // namespace

void heddle::bundle::startProgram(const char *name) {
  openStandardStreams();
  // Whoever ignores it hands that on, and then no status of a child is to be
  // had.
  std::signal(SIGCHLD, SIG_DFL);
  // A file that would be larger than may be is an error of write().
  std::signal(SIGXFSZ, SIG_IGN);
  requireLimit(name, RLIMIT_STACK, uint64_t{256} << 10, "the stack", "-s");
  requireLimit(name, RLIMIT_AS, addressSpaceTaken() + (uint64_t{64} << 20),
               "address space", "-v");
  shareArena();
}
