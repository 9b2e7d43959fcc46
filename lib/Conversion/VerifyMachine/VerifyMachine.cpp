//===- VerifyMachine.cpp - Check the machine level ------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Conversion/Passes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace mlir::heddle {
#define GEN_PASS_DEF_HEDDLEVERIFYMACHINE
#include "heddle/Conversion/Passes.h.inc"
} // namespace mlir::heddle

using namespace mlir;

/// What the host's code generation lowers.
static constexpr StringLiteral hostDialects[] = {"arith", "builtin", "func",
                                                 "llvm",  "scf",     "vector"};

namespace {
struct VerifyMachine
    : mlir::heddle::impl::HeddleVerifyMachineBase<VerifyMachine> {
  using HeddleVerifyMachineBase::HeddleVerifyMachineBase;

  void runOnOperation() override {
    SmallVector<StringRef> allowed(dialects.begin(), dialects.end());
    if (allowed.empty())
      allowed.assign(std::begin(hostDialects), std::end(hostDialects));
    WalkResult result = getOperation().walk([&](Operation *op) {
      StringRef dialect = op->getName().getDialectNamespace();
      if (llvm::is_contained(allowed, dialect))
        return WalkResult::advance();
      op->emitOpError("does not belong at the machine level, which holds the "
                      "dialects ")
          << llvm::join(allowed, ", ");
      return WalkResult::interrupt();
    });
    if (result.wasInterrupted())
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
