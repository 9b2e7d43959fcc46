//===- Server.h - The language server protocol ------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_HEDDLE_LSP_SERVER_SERVER_H
#define HEDDLE_TOOLS_HEDDLE_LSP_SERVER_SERVER_H

#include "llvm/Support/LSP/Transport.h"

namespace heddle::editor {

/// Serves the client behind `transport` until it ends. The process's exit code:
/// 0 if the client asked for the end as the protocol wants it, else 1.
int serve(llvm::lsp::JSONTransport &transport);

} // namespace heddle::editor

#endif // HEDDLE_TOOLS_HEDDLE_LSP_SERVER_SERVER_H
