//===- ExportManifest.h - A plan as the bundle's manifest -------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TARGET_BUNDLE_EXPORTMANIFEST_H
#define HEDDLE_TARGET_BUNDLE_EXPORTMANIFEST_H

#include "bundle/program/Manifest.h"
#include "heddle/Dialect/Heddle/IR/Heddle.h"
#include "heddle/Target/Backend.h"

#include <string>

namespace mlir::heddle {

/// The step program of a verified plan: selections, kernels (without their
/// variants) and rules, in the order of the plan's ops; `schedule` is the
/// plan's name and `abi` this build's. Producer and targets stay empty.
::heddle::bundle::Manifest exportManifest(PlanOp plan);

/// Adds to each kernel of `manifest` its compiled forms for the target of index
/// `target`, and to its row kernels if that is a GPU; their symbols are
/// bundle::expectedSymbol() and bundle::rowSymbol(). An error at `loc` when one
/// is not among the `compiled`.
LogicalResult exportVariants(ArrayRef<KernelRecord> compiled,
                             const KernelForms &forms, size_t target,
                             ::heddle::bundle::Manifest &manifest,
                             Location loc);

} // namespace mlir::heddle

#endif // HEDDLE_TARGET_BUNDLE_EXPORTMANIFEST_H
