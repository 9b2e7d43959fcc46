//===- Machine.cpp - What the machine grants this process -----------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Machine.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <thread>

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

namespace heddle::rt {

namespace {

std::string readText(const std::string &path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The first number of a file, none when the file is missing or starts with a
/// word ("max").
std::optional<int64_t> readNumber(const std::string &path) {
  std::istringstream text(readText(path));
  int64_t value;
  if (text >> value)
    return value;
  return std::nullopt;
}

/// The number behind `key` in a file of "key value" lines (memory.stat,
/// /proc/meminfo, /proc/self/status).
std::optional<int64_t> readField(const std::string &path,
                                 const std::string &key) {
  std::istringstream text(readText(path));
  std::string line;
  while (std::getline(text, line)) {
    std::istringstream words(line);
    std::string name;
    int64_t value;
    if (words >> name && name == key && words >> value)
      return value;
  }
  return std::nullopt;
}

void tighten(int64_t &limit, int64_t value) {
  value = std::max<int64_t>(value, 0);
  limit = limit < 0 ? value : std::min(limit, value);
}

void tighten(double &limit, double value) {
  limit = limit < 0 ? value : std::min(limit, value);
}

/// Memory of one group, v2 or v1 by the names of its files.
void readGroupMemory(const std::string &folder, bool v2, int64_t &left) {
  std::optional<int64_t> limit =
      readNumber(folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes"));
  std::optional<int64_t> used =
      readNumber(folder + (v2 ? "/memory.current" : "/memory.usage_in_bytes"));
  // v1 writes "no limit" as a number near the largest.
  if (!limit || !used || *limit >= std::numeric_limits<int64_t>::max() / 2)
    return;
  int64_t droppable = readField(folder + "/memory.stat",
                                v2 ? "inactive_file" : "total_inactive_file")
                          .value_or(0);
  tighten(left, *limit - *used + droppable);
}

void readGroupCores(const std::string &folder, bool v2, double &cores) {
  int64_t quota = -1, period = -1;
  if (v2) {
    std::istringstream text(readText(folder + "/cpu.max"));
    if (!(text >> quota >> period)) // "max 100000" has no quota
      return;
  } else {
    quota = readNumber(folder + "/cpu.cfs_quota_us").value_or(-1);
    period = readNumber(folder + "/cpu.cfs_period_us").value_or(-1);
  }
  if (quota > 0 && period > 0)
    tighten(cores, static_cast<double>(quota) / static_cast<double>(period));
}

/// Calls visit(folder) for `root` + `path` and every ancestor down to `root`.
template <typename Visit>
void visitAncestors(const std::string &root, std::string path, Visit visit) {
  while (!path.empty() && path != "/") {
    visit(root + path);
    path.resize(path.find_last_of('/'));
  }
  visit(root);
}

} // namespace

ControlGroupLimits readControlGroups(const std::string &procSelfCgroup,
                                     const std::string &mount) {
  ControlGroupLimits limits;
  std::istringstream lines(procSelfCgroup);
  std::string line;
  while (std::getline(lines, line)) {
    // "0::/path" (v2) or "4:memory:/path", "3:cpu,cpuacct:/path" (v1).
    size_t first = line.find(':');
    size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos ||
        line.compare(second + 1, 1, "/") != 0)
      continue;
    std::string path = line.substr(second + 1);
    std::istringstream controllers(line.substr(first + 1, second - first - 1));
    if (second == first + 1) {
      visitAncestors(mount, path, [&](const std::string &folder) {
        readGroupMemory(folder, /*v2=*/true, limits.memoryLeft);
        readGroupCores(folder, /*v2=*/true, limits.cores);
      });
      continue;
    }
    for (std::string name; std::getline(controllers, name, ',');) {
      if (name == "memory")
        visitAncestors(mount + "/memory", path, [&](const std::string &folder) {
          readGroupMemory(folder, /*v2=*/false, limits.memoryLeft);
        });
      else if (name == "cpu")
        visitAncestors(mount + "/cpu", path, [&](const std::string &folder) {
          readGroupCores(folder, /*v2=*/false, limits.cores);
        });
    }
  }
  return limits;
}

int availableCores() {
  int cores = static_cast<int>(std::thread::hardware_concurrency());
  // The mask of a machine with more than CPU_SETSIZE cores does not fit a
  // cpu_set_t; the call fails then and the count of cores stands.
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0)
    cores = CPU_COUNT(&mask);
  double quota =
      readControlGroups(readText("/proc/self/cgroup"), "/sys/fs/cgroup").cores;
  if (quota > 0)
    cores = std::min(cores, static_cast<int>(std::ceil(std::min(quota, 1e6))));
  return std::max(cores, 1);
}

int64_t availableMemory() {
  constexpr int64_t kibi = 1024;
  int64_t available = std::numeric_limits<int64_t>::max();
  if (auto memory = readField("/proc/meminfo", "MemAvailable:"))
    available = *memory * kibi;
  int64_t left =
      readControlGroups(readText("/proc/self/cgroup"), "/sys/fs/cgroup")
          .memoryLeft;
  if (left >= 0)
    available = std::min(available, left);
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    int64_t used = readField("/proc/self/status", "VmSize:").value_or(0) * kibi;
    int64_t most = static_cast<int64_t>(
        std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<int64_t>::max()));
    available = std::min(available, std::max<int64_t>(most - used, 0));
  }
  return available;
}

Status checkMemory(int64_t bytes, const std::string &what,
                   const std::string &advice) {
  int64_t available = availableMemory();
  if (bytes <= available)
    return Status::success();
  return Error(what + " needs " + formatBytes(bytes) + ", " +
               formatBytes(available) + " are available: " + advice);
}

std::string formatBytes(int64_t bytes) {
  const char *units[] = {"KB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000)
    return std::to_string(bytes) + " bytes";
  double value = static_cast<double>(bytes) / 1000;
  int unit = 0;
  // 999.95 would be printed as 1000.0.
  for (; value >= 999.95; value /= 1000)
    ++unit;
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %s", value, units[unit]);
  return text;
}

} // namespace heddle::rt
