//===- Rebuild.h - A bundle's schedule, compiled anew -----------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_TRUST_REBUILD_H
#define HEDDLE_TOOLS_TRUST_REBUILD_H

#include "bundle/Result.h"
#include "bundle/format/Bundle.h"

#include <functional>
#include <string>

namespace heddle::trust {

/// Compiles the schedule that a bundle holds, for the targets, element types,
/// head dims and encodings of index lists that its manifest names, by the table
/// of tilings that it holds or else the compiler's own, with the heddlec that
/// findCompiler() finds. GPU code is assembled where the bundle's was. Nothing
/// of the bundle's code is used. Returns the bytes of the new bundle, which
/// have been verified.
///
/// heddlec is a child process; it ends when `interrupted` is true (the error is
/// then "interrupted"; null is never) and when this program does. Errors: there
/// is no heddlec, no schedule, or heddlec refuses it; what it makes lacks a
/// form that the bundle had.
Result<std::string> rebuild(const bundle::Bundle &bundle,
                            const std::function<bool()> &interrupted = nullptr);

} // namespace heddle::trust

#endif // HEDDLE_TOOLS_TRUST_REBUILD_H
