//===- Forms.cpp - Which form of a kernel computes a sequence -------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/program/Forms.h"

using namespace heddle::bundle;

static int64_t ceilDiv(int64_t count, int64_t by) {
  return (count + by - 1) / by;
}

int64_t heddle::bundle::tilesOf(const KernelVariant &form, int64_t rows,
                                int64_t kvGroup) {
  return ceilDiv(form.form == LaunchForm::Packed ? rows * kvGroup : rows,
                 form.queryRows);
}

LaunchForms::LaunchForms(
    const Kernel &kernel, const KernelVariant &like,
    const std::function<bool(const KernelVariant &)> &runs) {
  for (const KernelVariant &each : kernel.variants)
    if (each.target == like.target && each.dtype == like.dtype &&
        each.headDim == like.headDim && each.encoding == like.encoding &&
        runs(each))
      variants[static_cast<size_t>(each.form)] = &each;
}

/// The tiles that packing leaves, of those without it. Blocks of a cluster have
/// a tile together.
static double tilesLeft(const KernelVariant &packed, const LaunchShape &shape) {
  const int64_t tileRows = packed.queryRows * packed.cluster;
  return static_cast<double>(ceilDiv(shape.rows * shape.kvGroup, tileRows)) /
         static_cast<double>(ceilDiv(shape.rows, tileRows) * shape.kvGroup);
}

LaunchForm LaunchForms::of(const LaunchShape &shape) const {
  if ((*this)[LaunchForm::All] && shape.rows == shape.keys)
    return LaunchForm::All;
  if (shape.rows < 1 || shape.rows >= shape.keys)
    return LaunchForm::Any;
  const auto keys = static_cast<double>(shape.keys);
  if (const KernelVariant *packed = (*this)[LaunchForm::Packed]) {
    const double left = tilesLeft(*packed, shape);
    // Its more blocks to a tile cost as much as a tenth of the tiles saves.
    if (left <= 0.9 &&
        keys >= static_cast<double>(packed->leastKeys) * left * left)
      return LaunchForm::Packed;
  }
  const KernelVariant *many = (*this)[LaunchForm::Long];
  return many && shape.keys >= many->leastKeys ? LaunchForm::Long
                                               : LaunchForm::Any;
}
