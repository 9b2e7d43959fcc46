//===- GuardedBuffer.cpp - Memory that notices stray accesses -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/test/conformance/GuardedBuffer.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

using namespace heddle::conformance;

static constexpr std::byte mark{0xc5};

GuardedBuffer::GuardedBuffer(int64_t bytes, int64_t alignment) : bytes(bytes) {
  int64_t page = sysconf(_SC_PAGESIZE);
  int64_t padded = (bytes + alignment - 1) / alignment * alignment;
  // At least one whole page of marks in front, whatever the size.
  int64_t room = (padded + page - 1) / page * page + page;
  void *memory =
      mmap(nullptr, static_cast<size_t>(room + page), PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("memory for a test");
    std::exit(2);
  }
  mapping = static_cast<std::byte *>(memory);
  wall = mapping + room;
  mprotect(wall, static_cast<size_t>(page), PROT_NONE);
  start = wall - padded;
  std::fill(mapping, wall, mark);
  poison();
}

GuardedBuffer::~GuardedBuffer() {
  munmap(mapping, static_cast<size_t>(wall - mapping + sysconf(_SC_PAGESIZE)));
}

void GuardedBuffer::poison() { std::fill_n(start, bytes, std::byte{0xff}); }

void GuardedBuffer::protect(bool readOnly) {
  mprotect(mapping, static_cast<size_t>(wall - mapping),
           readOnly ? PROT_READ : PROT_READ | PROT_WRITE);
}

bool GuardedBuffer::intact() const {
  auto marked = [](std::byte byte) { return byte == mark; };
  return std::all_of(mapping, start, marked) &&
         std::all_of(start + bytes, wall, marked);
}

//===----------------------------------------------------------------------===//
// Faults
//===----------------------------------------------------------------------===//

static char testing[512];

static void writeText(const char *text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0)
    _exit(1);
}

static void onFault(int) {
  writeText("error: memory outside of the kernel's buffers was read, or memory "
            "other than its outputs and scratch written, in ");
  writeText(testing);
  writeText("\n");
  _exit(1);
}

void heddle::conformance::describeFaults() {
  struct sigaction action{};
  action.sa_handler = onFault;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}

void heddle::conformance::nowTesting(const std::string &what) {
  std::snprintf(testing, sizeof(testing), "%s", what.c_str());
}
