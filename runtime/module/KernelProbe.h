//===- KernelProbe.h - Is a kernel what its manifest says? ------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A manifest can have the right checksum and still be wrong about the code
// beside it: scratch memory, rows of a task, pairs. Called on a user's
// tensors, such a kernel would write where it must not. So each is called once
// before, on one short sequence in memory with room to spare. This finds
// mistakes and files put together by hand; code that means harm can do so here
// already.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_MODULE_KERNELPROBE_H
#define HEDDLE_RUNTIME_MODULE_KERNELPROBE_H

#include "bundle/Result.h"
#include "bundle/abi/Abi.h"
#include "bundle/program/Manifest.h"

namespace heddle::rt {

/// Attention of one head over query_rows + 1 rows. An error, without saying
/// which kernel, when other rows are written than the task's, more scratch
/// than the manifest gives, a log-sum-exp that it does not have, or when rows
/// are not the mean of V over the pairs of the kernel's terms.
Status probeAttention(const bundle::Kernel &kernel,
                      const bundle::KernelVariant &variant,
                      const std::vector<int64_t> &groups,
                      abi::AttentionKernel code);

/// Selection for one head and group + 1 rows. An error when it writes other
/// lists than the task's, more scratch than the manifest gives, or scores rows
/// of other groups.
Status probeSelect(const bundle::Kernel &kernel,
                   const bundle::KernelVariant &variant,
                   abi::SelectKernel code);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_MODULE_KERNELPROBE_H
