//===- CudaTarget.cpp - The GPU that code is made for ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Target/NVPTX/CudaTarget.h"

#include "llvm/ADT/STLExtras.h"

using namespace heddle;

// Code for sm_80 runs on all later GPUs, so its blocks take no more than any of
// them has: an A100's may have 163 KiB.
// Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute
// Capability"; PTX ISA, "Release Notes".
static constexpr Chip chips[] = {
    {"sm_80", "ptx70", 99, 164, false, false},
    {"sm_86", "ptx71", 99, 100, false, false},
    {"sm_89", "ptx78", 99, 100, false, false},
    {"sm_90a", "ptx83", 227, 228, true, true},
    {"sm_100", "ptx86", 227, 228, false, true},
    {"sm_120", "ptx87", 99, 100, false, true},
};

CudaTarget::CudaTarget(const Chip &chip) : chip(chip) {
  target.kind = bundle::Target::Kind::Cuda;
  target.triple = "nvptx64-nvidia-cuda";
  target.cpu = chip.name.str();
  target.features = {chip.ptx.str()};
}

std::string CudaTarget::names() {
  std::string list;
  for (const Chip &chip : chips)
    list += (list.empty() ? "" : ", ") + chip.name.str();
  return list;
}

llvm::Expected<CudaTarget> CudaTarget::get(llvm::StringRef name) {
  const Chip *chip =
      llvm::find_if(chips, [&](const Chip &chip) { return chip.name == name; });
  if (chip == std::end(chips))
    return llvm::createStringError("unknown GPU '" + name +
                                   "'; expected one of " + names() +
                                   " (code for sm_80 runs on all later ones)");
  return CudaTarget(*chip);
}
