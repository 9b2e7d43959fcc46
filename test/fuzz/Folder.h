//===- Folder.h - Inputs as files -------------------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_FUZZ_FOLDER_H
#define HEDDLE_TEST_FUZZ_FOLDER_H

#include <string>

namespace heddle::fuzz {

/// A folder of this process, in memory where the machine has such a file
/// system, gone when the program ends by itself.
class Folder {
public:
  Folder();
  ~Folder();
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;

  const std::string &path() const { return name; }
  /// Replaces a file's contents.
  void write(const std::string &file, const std::string &contents) const;
  void remove(const std::string &file) const;

private:
  std::string name;
};

} // namespace heddle::fuzz

#endif // HEDDLE_TEST_FUZZ_FOLDER_H
