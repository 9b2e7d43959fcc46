//===- Heddle.h - The heddle dialect ----------------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_IR_HEDDLE_H
#define HEDDLE_DIALECT_HEDDLE_IR_HEDDLE_H

#include "bundle/program/Manifest.h"
#include "bundle/program/ManifestNames.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "llvm/ADT/StringExtras.h"

namespace heddle::bundle {
// What attributes hold is the same if what their text has is.
template <typename T, typename... Ts>
inline constexpr bool isOneOf = (std::is_same_v<T, Ts> || ...);
template <typename T>
concept HeldByAttribute = isOneOf<T, Cadence, Selection, CommitRule, Positions,
                                  Pass, Reuse, Kernel, When>;
template <HeldByAttribute T> llvm::hash_code hash_value(const T &value);
llvm::hash_code hash_value(const Term &value);
} // namespace heddle::bundle

namespace mlir::heddle {

// The bundle's enumerations and numbers are the dialect's.
using ::heddle::bundle::maxGroup;
using ::heddle::bundle::minGroup;
using CadenceKind = ::heddle::bundle::Cadence::Kind;
using CommitKind = ::heddle::bundle::CommitRule::Kind;
using Exact = ::heddle::bundle::Pass::Exact;
using Isolation = ::heddle::bundle::Selection::Isolation;
using PositionsKind = ::heddle::bundle::Positions::Kind;
using ReusedAttention = ::heddle::bundle::Reuse::Attention;
using Scale = ::heddle::bundle::Selection::Scale;
using Scorer = ::heddle::bundle::Selection::Scorer;
using SelectionKind = ::heddle::bundle::Selection::Kind;
using WhenKind = ::heddle::bundle::When::Kind;

/// How an enumerator is spelled in schedules, plans and manifests.
template <typename E> StringRef spelled(E value) {
  static constexpr auto names = namesOf(E());
  return names[static_cast<size_t>(value)];
}

/// The enumerator that is spelled like this.
template <typename E> std::optional<E> wordOf(StringRef word) {
  static constexpr auto names = namesOf(E());
  const auto *found = llvm::find(names, std::string_view(word));
  return found == names.end() ? std::nullopt
                              : std::optional<E>(E(found - names.begin()));
}

} // namespace mlir::heddle

#include "heddle/Dialect/Heddle/IR/HeddleDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "heddle/Dialect/Heddle/IR/HeddleAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "heddle/Dialect/Heddle/IR/HeddleTypes.h.inc"

#define GET_OP_CLASSES
#include "heddle/Dialect/Heddle/IR/HeddleOps.h.inc"

namespace mlir::heddle {

/// The kernel that refreshes a selection; `outer`, if it has a group, is what
/// that one chooses within.
::heddle::bundle::Kernel
refreshKernel(const ::heddle::bundle::Selection &rule,
              const ::heddle::bundle::Selection &outer);

/// Whether ops of this name stand in schedules.
bool isOfSchedules(RegisteredOperationName name);

/// Keeps the name that the source gives to what `op` makes, without '%', in the
/// op's location: two sets that differ in nothing else stay one.
void setWrittenName(Operation *op, StringRef name);

/// That name; "" where there is none.
StringRef writtenName(Operation *op);

/// What the set that `op` makes is called where the source has no name.
StringRef plainName(Operation *set);

} // namespace mlir::heddle

#endif // HEDDLE_DIALECT_HEDDLE_IR_HEDDLE_H
