//===- ExportManifest.h - A plan as the bundle's manifest -------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TARGET_BUNDLE_EXPORTMANIFEST_H
#define HEDDLE_TARGET_BUNDLE_EXPORTMANIFEST_H

#include "bundle/Manifest.h"
#include "heddle/Dialect/Heddle/IR/Heddle.h"
#include "heddle/Target/Host/HostCodegen.h"

#include <string>

namespace mlir::heddle {

/// The step program of a verified plan: selections, kernels (without their
/// variants) and rules, in the order of the plan's ops; `schedule` is the
/// plan's name and `abi` this build's. Producer and target stay empty.
::heddle::bundle::Manifest exportManifest(PlanOp plan);

/// Adds to each kernel of `manifest` its compiled forms, which are called
/// variantSymbol(). An error at `loc` when one is missing.
LogicalResult exportVariants(ArrayRef<HostKernel> compiled,
                             ArrayRef<std::string> types,
                             ArrayRef<int64_t> headDims,
                             ::heddle::bundle::Manifest &manifest,
                             Location loc);

} // namespace mlir::heddle

#endif // HEDDLE_TARGET_BUNDLE_EXPORTMANIFEST_H
