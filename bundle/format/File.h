//===- File.h - Reading whole files, writing atomically ---------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_FORMAT_FILE_H
#define HEDDLE_BUNDLE_FORMAT_FILE_H

#include "bundle/Result.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace heddle::bundle {

/// Reads a regular file whole. `accept` sees the first min(startSize, size)
/// bytes and the size of the file before memory for the rest is asked for.
/// Directories, devices and pipes are errors. Messages start with `path`.
Result<std::string> readRegularFile(
    const std::string &path, uint64_t startSize,
    const std::function<Status(std::string_view start, uint64_t fileSize)>
        &accept);

/// Flushes std::cout and stdout. An error when something that was written to
/// either did not arrive: a full disk, a closed pipe.
Status flushStandardOutput();

/// Writes `bytes` to a temporary file beside `path`, flushes it to the disk
/// and renames it, so that `path` holds either its old contents or all new
/// ones. SIGINT, SIGTERM and SIGHUP of the calling thread wait until the
/// temporary file is gone. Symbolic links are followed, also to a file that is
/// not there yet; a device or pipe is written in place. Messages start with
/// `path`.
Status writeFileAtomically(const std::string &path, std::string_view bytes);

/// Why writeFileAtomically() could not write there, to be said before the work
/// whose result it is.
Status checkWritable(const std::string &path);

} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_FORMAT_FILE_H
