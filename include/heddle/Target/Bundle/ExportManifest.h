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

#include <vector>

namespace mlir::heddle {

/// The manifest of a verified plan's bundle, but for what is compiled for
/// `targets`: the step program (selections, kernels and rules in the order of
/// the plan's ops), which Program::of() states for the verifier of plans, too;
/// `schedule` is the plan's name and `abi` this build's.
::heddle::bundle::Manifest
exportManifest(PlanOp plan, StringRef producer = "",
               std::vector<::heddle::bundle::Target> targets = {});

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
