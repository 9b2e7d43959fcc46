//===- Tuning.h - Tables of measured tilings -------------------*- C++ -*--===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What `bundle/format/Tilings.h` reads, in the compiler.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_SHED_TRANSFORMS_TUNING_H
#define HEDDLE_DIALECT_SHED_TRANSFORMS_TUNING_H

#include "bundle/format/Tilings.h"

#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace mlir::shed {

class KernelOp;

using WgmmaRule = ::heddle::bundle::TilingRule;

/// Whether blocks have the rows of groups of `rows` rows: whole blocks of a
/// head, or with `shared` a group's of several heads.
bool dividesRows(const WgmmaRule &rule, int64_t rows);

/// Whether a kernel has sums that `check_sums` is for: its logits are products
/// as they are, and nobody reads its log-sum-exps.
bool hasSumsToCheck(KernelOp kernel);

/// Where query heads share lists, each for `group` rows, and warpgroups of 64
/// rows compute, `blockRows` a block: rows of a head that a task has. A group's
/// if a block has as many, else 64 of them; 0 if 64 rows would neither be of
/// one head nor of several, with a multiple of 16 each.
int64_t sharedTaskRows(int64_t group, int64_t blockRows);

/// The table for sm_90a that counts where no other is given: the fastest
/// tilings measured on an H200 (docs/Performance.md). The file is
/// lib/Dialect/Shed/Transforms/sm_90a.json.
llvm::StringRef builtInTuning();

} // namespace mlir::shed

#endif // HEDDLE_DIALECT_SHED_TRANSFORMS_TUNING_H
