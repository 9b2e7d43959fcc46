//===- Folder.cpp - Inputs as files ---------------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/fuzz/Folder.h"
#include "test/fuzz/Target.h"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

using namespace heddle::fuzz;

Folder::Folder() {
  const bool inMemory = ::access("/dev/shm", W_OK) == 0;
  name = (inMemory ? "/dev/shm" : std::filesystem::temp_directory_path()) /
         std::filesystem::path("heddle-fuzz-XXXXXX");
  require(::mkdtemp(name.data()) != nullptr, "a temporary folder is made");
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(name, ignored);
}

void Folder::write(const std::string &file, const std::string &contents) const {
  const int fd = ::open((name + "/" + file).c_str(),
                        O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const ssize_t put = ::write(fd, contents.data(), contents.size());
  require(fd >= 0 && put == static_cast<ssize_t>(contents.size()),
          "an input is written to the temporary folder");
  ::close(fd);
}

void Folder::remove(const std::string &file) const {
  ::unlink((name + "/" + file).c_str());
}
