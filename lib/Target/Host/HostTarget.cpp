//===- HostTarget.cpp - The CPU that code is made for ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Target/Host/HostTarget.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/X86TargetParser.h"

using namespace heddle;

/// The features that code may use, in the order that the manifest lists them.
/// Only these can be checked by the runtime, so no other is ever enabled.
static constexpr llvm::StringLiteral knownFeatures[] = {
    "sse3",       "ssse3",    "sse4.1",   "sse4.2",   "popcnt",   "avx",
    "avx2",       "fma",      "f16c",     "bmi",      "bmi2",     "lzcnt",
    "movbe",      "avx512f",  "avx512cd", "avx512bw", "avx512dq", "avx512vl",
    "avx512bf16", "amx-tile", "amx-bf16"};

bool HostTarget::has(llvm::StringRef feature) const {
  return llvm::is_contained(target.features, feature);
}

llvm::Expected<HostTarget> HostTarget::get(llvm::StringRef name) {
  llvm::StringMap<bool> features;
  HostTarget host;
  host.target.triple = "x86_64-unknown-linux-gnu";
  host.target.cpu = name.str();
  if (name == "host") {
#if defined(__x86_64__)
    host.target.cpu = llvm::sys::getHostCPUName().str();
    for (const auto &entry : llvm::sys::getHostCPUFeatures())
      if (entry.second)
        features[entry.first()] = true;
#else
    return llvm::createStringError(
        "this machine is not x86-64; name the CPU to compile for, such as "
        "x86-64-v3");
#endif
  } else {
    if (llvm::X86::parseArchX86(name, /*Only64Bit=*/true) == llvm::X86::CK_None)
      return llvm::createStringError(
          "unknown CPU '" + name +
          "'; expected host or an x86-64 CPU as LLVM names it, such as "
          "x86-64-v3, x86-64-v4, sapphirerapids or znver4");
    llvm::SmallVector<llvm::StringRef> list;
    llvm::X86::getFeaturesForCPU(name, list);
    // The list leaves out what its entries imply: avx512bw without avx512f.
    for (llvm::StringRef feature : list) {
      features[feature] = true;
      llvm::X86::updateImpliedFeatures(feature, /*Enabled=*/true, features);
    }
  }
  // 512-bit code needs all of x86-64-v4; matrix tiles the vector conversions.
  bool wide = llvm::all_of(
      llvm::ArrayRef<llvm::StringRef>{"avx512f", "avx512cd", "avx512bw",
                                      "avx512dq", "avx512vl"},
      [&](llvm::StringRef f) { return features.lookup(f); });
  bool pairs = wide && features.lookup("avx512bf16");
  bool tiles = pairs && features.lookup("amx-tile");
  for (llvm::StringRef feature : knownFeatures) {
    bool usable = feature == "avx512bf16"         ? pairs
                  : feature.starts_with("amx")    ? tiles
                  : feature.starts_with("avx512") ? wide
                                                  : true;
    if (usable && features.lookup(feature))
      host.target.features.push_back(feature.str());
  }
  if (!host.has("avx2") || !host.has("fma"))
    return llvm::createStringError(
        "CPU '" + name +
        "' has no AVX2 and FMA; generated kernels need at least x86-64-v3");
  return host;
}
