//===- CodeCache.h - Compiled code that is kept on disk ---------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A folder of files, each named by the hash of all that its contents depend on.
// Code from it is run later, so nothing is believed that another user could
// have written, nor anything whose checksum is not right. What is LLVM's of it,
// what is not, and why: docs/Decisions/CodeCache.md.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_SUPPORT_CODECACHE_H
#define HEDDLE_SUPPORT_CODECACHE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/CachePruning.h"
#include "llvm/Support/Error.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace heddle {

/// The name of an entry that follows from `parts`. What this program is and has
/// loaded (build ids) and the form of entries are parts of it, too.
std::string cacheKey(llvm::ArrayRef<llvm::StringRef> parts);

/// Another program of this machine as a part of a key: its real path and what
/// the file system says of the file, which differ for another version. "" when
/// there is none.
std::string programIdentity(llvm::StringRef path);

/// Safe to use from several threads and processes at once: an entry is there
/// whole or not at all, also when a process is killed.
class CodeCache {
public:
  /// One GiB at most; what nobody used for 30 days goes.
  static constexpr llvm::StringLiteral defaultPolicy =
      "cache_size_bytes=1g:cache_size=100%:prune_after=720h:prune_interval=0s";

  /// $XDG_CACHE_HOME/heddle, else ~/.cache/heddle, or "" without a home.
  static std::string defaultFolder();

  /// Makes the folder if need be. `policy` is as llvm::parseCachePruningPolicy
  /// reads it, on top of defaultPolicy. Fails with a sentence when the policy
  /// is wrong, or when the folder cannot be made, belongs to another user or
  /// may be written by one.
  static llvm::Expected<std::unique_ptr<CodeCache>>
  open(llvm::StringRef folder, llvm::StringRef policy);

  ~CodeCache();
  CodeCache(const CodeCache &) = delete;
  CodeCache &operator=(const CodeCache &) = delete;

  /// What was stored as `key`. None when there is nothing, when others could
  /// have written it, or when it is damaged. Counts as a use.
  std::optional<std::string> find(llvm::StringRef key);

  /// Keeps `bytes` as `key`; they are on the disk when it returns. A failure
  /// is no error of a compilation: problem() has it.
  void store(llvm::StringRef key, llvm::StringRef bytes);

  /// Removes what the policy does not keep, the longest unused first, if
  /// anything was stored.
  void prune();

  /// Removes all entries. Other files in the folder stay.
  llvm::Error clear();

  struct Size {
    uint64_t entries = 0;
    uint64_t bytes = 0;
  };
  llvm::Expected<Size> size() const;

  llvm::StringRef folder() const { return directory; }
  /// The most bytes that prune() leaves, 0 for no limit.
  uint64_t limit() const { return policy.MaxSizeBytes; }
  /// Why something could not be stored, the first time that it happened; else
  /// "".
  std::string problem() const;

private:
  CodeCache(std::string folder, int descriptor, llvm::CachePruningPolicy policy)
      : directory(std::move(folder)), descriptor(descriptor), policy(policy) {}

  llvm::Error write(llvm::StringRef key, llvm::StringRef bytes);
  std::string pathOf(llvm::StringRef name) const;

  std::string directory;
  int descriptor; ///< of the folder, which was found to be this user's alone
  llvm::CachePruningPolicy policy;
  std::atomic<bool> stored = false;
  mutable std::mutex mutex; ///< guards `firstProblem`
  std::string firstProblem;
};

} // namespace heddle

#endif // HEDDLE_SUPPORT_CODECACHE_H
