//===- MappedFile.cpp - A file's bytes without copying them ---------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/model/MappedFile.h"

#include "bundle/program/Printable.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

namespace heddle::rt {

namespace {

/// What the signal handler knows of a mapping. It reads these while other
/// threads come and go, so they are atomic and never freed.
struct Region {
  std::atomic<uintptr_t> begin{0}; ///< 0: a free slot
  std::atomic<uintptr_t> end{0};
  std::atomic<int64_t> lost{-1}; ///< the first offset that was not readable
};
static_assert(std::atomic<uintptr_t>::is_always_lock_free &&
              std::atomic<int64_t>::is_always_lock_free);

Region regions[MappedFile::mostMappings];
std::mutex installMutex; ///< guards what follows
int mappings = 0;
struct sigaction previous;

uintptr_t pageSize() {
  static const auto size = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

/// What would have happened without this file.
void passOn(int signal, siginfo_t *info, void *context) {
  if (previous.sa_flags & SA_SIGINFO) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN) {
    ::sigaction(signal, &previous, nullptr);
    ::raise(signal); // pending until this handler returns
  } else {
    previous.sa_handler(signal);
  }
}

/// Async-signal-safe: mmap is a plain system call on every system that Heddle
/// runs on, although POSIX does not list it.
void onBusError(int signal, siginfo_t *info, void *context) {
  int savedErrno = errno;
  auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (Region &region : regions) {
    uintptr_t begin = region.begin.load(std::memory_order_acquire);
    uintptr_t end = region.end.load(std::memory_order_acquire);
    if (begin == 0 || address < begin || address >= end)
      continue;
    // To the end of the file: a truncated file would fault at every page.
    uintptr_t page = address & ~(pageSize() - 1);
    if (::mmap(reinterpret_cast<void *>(page), end - page, PROT_READ,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
               0) == MAP_FAILED)
      break;
    auto offset = static_cast<int64_t>(page - begin);
    int64_t known = region.lost.load(std::memory_order_relaxed);
    while ((known < 0 || offset < known) &&
           !region.lost.compare_exchange_weak(known, offset))
      ;
    errno = savedErrno;
    return;
  }
  passOn(signal, info, context);
  errno = savedErrno;
}

/// Takes a slot and, for the first mapping, installs the handler; -1 when
/// there is no slot.
int addRegion(const std::byte *start, int64_t size) {
  std::lock_guard<std::mutex> lock(installMutex);
  int slot = 0;
  while (slot < MappedFile::mostMappings && regions[slot].begin != 0)
    ++slot;
  if (slot == MappedFile::mostMappings)
    return -1;
  if (mappings == 0) {
    pageSize(); // now, not in the handler
    struct sigaction action{};
    action.sa_sigaction = onBusError;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    if (::sigaction(SIGBUS, &action, &previous) != 0)
      return -1;
  }
  ++mappings;
  auto begin = reinterpret_cast<uintptr_t>(start);
  regions[slot].lost = -1;
  regions[slot].end = begin + static_cast<uintptr_t>(size);
  regions[slot].begin = begin;
  return slot;
}

void removeRegion(int slot) {
  std::lock_guard<std::mutex> lock(installMutex);
  regions[slot].begin = 0;
  regions[slot].end = 0;
  if (--mappings > 0)
    return;
  // Only what is still ours is put back.
  struct sigaction current;
  if (::sigaction(SIGBUS, nullptr, &current) == 0 &&
      (current.sa_flags & SA_SIGINFO) && current.sa_sigaction == onBusError)
    ::sigaction(SIGBUS, &previous, nullptr);
}

/// Whole pages of the range; the last may reach behind the file's end.
struct Pages {
  std::byte *first;
  size_t bytes;
};
Pages pagesIn(const std::byte *start, int64_t offset, int64_t count) {
  uintptr_t mask = pageSize() - 1;
  auto base = reinterpret_cast<uintptr_t>(start);
  uintptr_t first = (base + static_cast<uintptr_t>(offset) + mask) & ~mask;
  uintptr_t last = (base + static_cast<uintptr_t>(offset + count)) & ~mask;
  return {reinterpret_cast<std::byte *>(first),
          last > first ? last - first : 0};
}

} // namespace

std::unique_ptr<MappedFile> MappedFile::map(const File &file) {
  if (file.size() == 0)
    return nullptr;
  auto size = static_cast<size_t>(file.size());
  void *memory =
      ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.handle(), 0);
  if (memory == MAP_FAILED)
    return nullptr;
  auto *start = static_cast<std::byte *>(memory);
  int slot = addRegion(start, file.size());
  if (slot < 0) {
    ::munmap(memory, size);
    return nullptr;
  }
  return std::unique_ptr<MappedFile>(new MappedFile(file, start, slot));
}

MappedFile::~MappedFile() {
  removeRegion(slot);
  ::munmap(const_cast<std::byte *>(start), static_cast<size_t>(file.size()));
}

Status MappedFile::intact() const {
  // A page that the file's new end cuts reads as zeros without a signal.
  Result<int64_t> size = file.currentSize();
  if (!size)
    return size.takeError();
  if (*size < file.size())
    return Error(printablePath(file.path()) + ": the file ends at byte " +
                 std::to_string(*size) + ", " + std::to_string(file.size()) +
                 " bytes were there when it was opened: something truncated it "
                 "meanwhile");
  int64_t lost = regions[slot].lost.load();
  if (lost >= 0)
    return Error(printablePath(file.path()) + ": bytes at offset " +
                 std::to_string(lost) +
                 " could not be read: the disk or network share failed, or "
                 "something truncated the file for a while");
  return Status::success();
}

void MappedFile::prefetch(int64_t offset, int64_t count) const {
  if (Pages pages = pagesIn(start, offset, count); pages.bytes > 0)
    ::madvise(pages.first, pages.bytes, MADV_WILLNEED);
}

void MappedFile::release(int64_t offset, int64_t count) const {
  if (Pages pages = pagesIn(start, offset, count); pages.bytes > 0)
    ::madvise(pages.first, pages.bytes, MADV_DONTNEED);
}

} // namespace heddle::rt
