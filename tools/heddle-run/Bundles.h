//===- Bundles.h - Bundles as the options have them read --------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_RUN_BUNDLES_H
#define HEDDLE_TOOLS_HEDDLE_RUN_BUNDLES_H

#include "bundle/Result.h"
#include "bundle/format/Bundle.h"

#include <string>
#include <vector>

namespace heddle::run {

/// The bundle of a file, which must have one of the digests if there are any;
/// with `rebuild` what its schedule is compiled to. Ctrl-C ends the compiler.
Result<bundle::Bundle> readBundle(const std::string &path,
                                  const std::vector<std::string> &digests,
                                  bool rebuild);

} // namespace heddle::run

#endif // HEDDLE_TOOLS_HEDDLE_RUN_BUNDLES_H
