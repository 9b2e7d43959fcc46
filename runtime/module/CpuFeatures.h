//===- CpuFeatures.h - What this machine can execute ------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_MODULE_CPUFEATURES_H
#define HEDDLE_RUNTIME_MODULE_CPUFEATURES_H

#include "bundle/Result.h"
#include "bundle/program/Manifest.h"

#include <string>
#include <string_view>
#include <vector>

namespace heddle::rt {

/// Whether a CPU feature can be used by this process, and if not, why.
enum class FeatureState {
  Usable,
  Missing,     ///< the CPU or the operating system does not offer it
  Unknown,     ///< not a name that this runtime knows how to look for
  NotPermitted ///< AMX: the operating system refused the tile state
};

/// Looks for a feature by LLVM's name ("avx2", "avx512bf16", "amx-tile"). Both
/// the CPU (cpuid) and the register state that the operating system saves
/// (xgetbv) must have it. Asking for an AMX feature asks Linux for the
/// permission to use tile registers, which then holds for the whole process.
/// Source: Intel SDM vol. 1 ch. 13 and vol. 2 CPUID; Linux
/// Documentation/arch/x86/xstate.rst.
FeatureState cpuFeature(std::string_view name);

/// "x86_64" or "aarch64": the architecture part of this machine's triple.
std::string_view hostArchitecture();

/// Success if code compiled for `target` can run here; else an error that names
/// the other architecture or every feature that is missing, and what to do.
Status checkTarget(const bundle::Target &target);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_MODULE_CPUFEATURES_H
