//===- HostTarget.h - The CPU that code is made for -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TARGET_HOST_HOSTTARGET_H
#define HEDDLE_TARGET_HOST_HOSTTARGET_H

#include "bundle/program/Manifest.h"
#include "heddle/Support/TargetInfo.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace heddle {

/// An x86-64 CPU by name and features. Code for it uses x86-64 and exactly the
/// features of `description()`, so a machine that has these runs it.
class HostTarget final : public HostTargetInfo {
public:
  /// `name` is "host" (this machine, as far as its operating system lets
  /// programs use it) or a CPU as LLVM names it. Fails for unknown CPUs and for
  /// those without AVX2 and FMA.
  static llvm::Expected<HostTarget> get(llvm::StringRef name);

  int64_t vectorBytes() const override { return has("avx512f") ? 64 : 32; }
  int64_t vectorRegisters() const override { return has("avx512f") ? 32 : 16; }
  bool hasBf16Dot() const override { return has("avx512bf16"); }
  bool hasBf16Tiles() const override { return has("amx-bf16"); }
  /// As measured: docs/Decisions/HostKernels.md.
  bool fetchesLate() const override { return target.cpu == "znver5"; }

  /// Whether code may use a feature of LLVM's name.
  bool has(llvm::StringRef feature) const;

  /// For the bundle's manifest.
  const bundle::Target &description() const { return target; }

private:
  bundle::Target target;
};

} // namespace heddle

#endif // HEDDLE_TARGET_HOST_HOSTTARGET_H
