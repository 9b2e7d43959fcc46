//===- Asked.h - Which kernels of a bundle are timed ------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_BENCH_ASKED_H
#define HEDDLE_RUNTIME_BENCH_ASKED_H

#include "bundle/Result.h"
#include "bundle/program/Manifest.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace heddle::bench {

/// Whether a list of what is asked for, empty for everything, has `what`.
template <typename T> bool asked(const std::vector<T> &list, const T &what) {
  return list.empty() ||
         std::find(list.begin(), list.end(), what) != list.end();
}

/// Refuses element types and head dims that no kernel of the bundle's target
/// has; says those that it has.
Status checkAsked(const bundle::Manifest &manifest, int64_t target,
                  const std::vector<std::string> &dtypes,
                  const std::vector<int64_t> &headDims);

} // namespace heddle::bench

#endif // HEDDLE_RUNTIME_BENCH_ASKED_H
