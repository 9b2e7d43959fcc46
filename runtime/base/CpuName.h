//===- CpuName.h - What this machine's CPU is called ------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_BASE_CPUNAME_H
#define HEDDLE_RUNTIME_BASE_CPUNAME_H

#include <string>

namespace heddle::rt {

/// The CPU's brand: "AMD EPYC 9R14 96-Core Processor". Where the system does
/// not tell it, "a CPU without a name".
std::string cpuName();

/// The same of the text of a /proc/cpuinfo.
std::string cpuNameIn(const std::string &cpuinfo);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_BASE_CPUNAME_H
