//===- TemporaryFiles.h - Files for another program's use -------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SUPPORT_TEMPORARYFILES_H
#define HEDDLE_SUPPORT_TEMPORARYFILES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace heddle {

/// Files that programs like linkers and assemblers read and write, gone with
/// this object and when a signal ends the process.
class TemporaryFiles {
public:
  TemporaryFiles() = default;
  TemporaryFiles(const TemporaryFiles &) = delete;
  TemporaryFiles &operator=(const TemporaryFiles &) = delete;
  ~TemporaryFiles();

  /// A new file with `contents`, whose name ends in `.suffix`. Returns its path
  /// or a sentence about why there is none.
  llvm::Expected<std::string> add(llvm::StringRef suffix,
                                  llvm::StringRef contents = "");

private:
  llvm::SmallVector<std::string> paths;
};

/// The bytes of a file.
llvm::Expected<std::string> readFile(llvm::StringRef path);

/// What a program did.
struct ProgramResult {
  int status = 0;  ///< exit status; negative if it did not run to its end
  std::string log; ///< its stdout and stderr, and why it did not end
};

/// Runs the program at the path `program` to its end, which must come within
/// `seconds`, with no input; a signal that ends this process ends it, too. One
/// runs at a time. `arguments` do not include its name. Fails only when there
/// can be no log.
llvm::Expected<ProgramResult>
runProgram(llvm::StringRef program, llvm::ArrayRef<llvm::StringRef> arguments,
           unsigned seconds);

} // namespace heddle

#endif // HEDDLE_SUPPORT_TEMPORARYFILES_H
