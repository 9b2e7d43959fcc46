//===- Targets.h - What is made for which machine ---------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_PIPELINES_TARGETS_H
#define HEDDLE_LIB_PIPELINES_TARGETS_H

#include "heddle/Pipelines/Compiler.h"

#include <memory>
#include <vector>

namespace mlir::heddle {

/// One machine of a compilation.
struct TargetJob {
  std::unique_ptr<Backend> backend;
  SmallVector<std::string> elementTypes; ///< not empty
};

/// The machines that `options` ask for, with what each of them makes. Fails
/// with a sentence when one is unknown or there twice, has none of the element
/// types, when an element type has no machine, or an encoding of index lists
/// none that could choose it.
llvm::Expected<std::vector<TargetJob>>
planTargets(const CompilerOptions &options);

/// The manifest's record of a machine, with the encodings of index lists that
/// its kernels come in: `encoding` if given and there is a choice, else what
/// the back end finds best for `selections`. Every later stage reads it there.
::heddle::bundle::Target
describe(const TargetJob &job, ArrayRef<::heddle::bundle::Selection> selections,
         std::optional<::heddle::bundle::Encoding> encoding);

} // namespace mlir::heddle

#endif // HEDDLE_LIB_PIPELINES_TARGETS_H
