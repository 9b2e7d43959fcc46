//===- Machine.h - What the machine grants this process ---------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_BASE_MACHINE_H
#define HEDDLE_RUNTIME_BASE_MACHINE_H

#include "bundle/Result.h"

#include <cstdint>
#include <string>

namespace heddle::rt {

/// Cores that this process may use: the affinity mask, and not more than the
/// CPU quota of its control groups (v2 or v1) rounded up. At least 1.
int availableCores();

/// Bytes that this process can still allocate: the least of the kernel's
/// MemAvailable, what its control groups leave (page cache that they can drop
/// counts as free) and what RLIMIT_AS leaves.
int64_t availableMemory();

/// Refuses a need that availableMemory() does not cover:
/// "`what` needs 16.1 GB, 7.9 GB are available: `advice`".
Status checkMemory(int64_t bytes, const std::string &what,
                   const std::string &advice);

/// "16.1 GB", "3.2 MB", "17 bytes"; decimal units.
std::string formatBytes(int64_t bytes);

/// What the control groups of a process say. -1 means no limit.
struct ControlGroupLimits {
  int64_t memoryLeft = -1; ///< bytes
  double cores = -1;       ///< CPU quota / period
};

/// Reads the limits of the groups named in `procSelfCgroup` (the text of
/// /proc/self/cgroup) and of all their ancestors below `mount`
/// (/sys/fs/cgroup). The tightest counts; what cannot be read limits nothing.
ControlGroupLimits readControlGroups(const std::string &procSelfCgroup,
                                     const std::string &mount);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_BASE_MACHINE_H
