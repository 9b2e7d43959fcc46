//===- CpuName.cpp - What this machine's CPU is called --------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/base/CpuName.h"

#include <fstream>
#include <sstream>

namespace heddle::rt {

std::string cpuNameIn(const std::string &cpuinfo) {
  std::istringstream lines(cpuinfo);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (!line.starts_with("model name") || colon == std::string::npos)
      continue;
    // Brands are padded with blanks on either side and inside.
    std::istringstream words(line.substr(colon + 1));
    std::string name;
    for (std::string word; words >> word;)
      name += (name.empty() ? "" : " ") + word;
    // What virtual machines say that hide it.
    if (!name.empty() && name != "unknown")
      return name;
  }
  return "a CPU without a name";
}

std::string cpuName() {
  std::ifstream file("/proc/cpuinfo");
  std::ostringstream text;
  text << file.rdbuf();
  return cpuNameIn(text.str());
}

} // namespace heddle::rt
