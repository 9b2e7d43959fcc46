//===- KernelNeeds.h - What a program needs of its kernels ------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which kernels and forms of them a run of a program may launch: those are
// compiled, and those a bundle must have.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_BUNDLE_PROGRAM_KERNELNEEDS_H
#define HEDDLE_BUNDLE_PROGRAM_KERNELNEEDS_H

#include "bundle/abi/RowOps.h"
#include "bundle/program/Manifest.h"

#include <cstdint>
#include <vector>

namespace heddle::bundle {

/// The row operations of a run on a device, in the order of allRowOps: those of
/// a model, its sampler and kept rows, and of those on what is kept the ones
/// that the program asks for.
std::vector<RowOp> rowOpsOf(const Manifest &manifest);

/// The encodings that a kernel with index lists comes in where those of keys
/// come in `ofKeys`. Lists of blocks are Int32 in any case.
std::vector<Encoding> encodingsOf(const Kernel &kernel,
                                  const std::vector<Encoding> &ofKeys);

/// True if all visible rows are computed exactly at every step of `cadence`: a
/// pass that is and surely applies there comes before all that are not. False
/// when that cannot be shown.
bool computesAllRowsOn(const Manifest &manifest, const Cadence &cadence);

/// Whether `kernel`, an index into Manifest::kernels, may have to compute
/// attention of some of a step's rows alone.
bool computesSomeRows(const Manifest &manifest, int64_t kernel);

} // namespace heddle::bundle

#endif // HEDDLE_BUNDLE_PROGRAM_KERNELNEEDS_H
