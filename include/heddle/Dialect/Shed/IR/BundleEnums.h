//===- BundleEnums.h - Enumerations of the bundle -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What `Shed_BundleEnum` (ShedBase.td) asks. The bundle states an enumeration's
// values and their names (`namesOf`); ops of shed have a value by its name.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_SHED_IR_BUNDLEENUMS_H
#define HEDDLE_DIALECT_SHED_IR_BUNDLEENUMS_H

#include "bundle/program/ManifestNames.h"

#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/StringExtras.h"

namespace mlir::shed {

/// The word of a value, in ops' forms.
template <typename E>
ParseResult parseName(OpAsmParser &parser, StringAttr &name) {
  const SMLoc at = parser.getCurrentLocation();
  StringRef word;
  if (succeeded(parser.parseOptionalKeyword(&word)) &&
      ::heddle::bundle::detail::valueOf<E>(word)) {
    name = parser.getBuilder().getStringAttr(word);
    return success();
  }
  InFlightDiagnostic error = parser.emitError(at);
  if (!word.empty())
    error << "found '" << word << "', ";
  return error << "expected one of " << llvm::join(namesOf(E()), ", ");
}

inline ParseResult parseKernelKind(OpAsmParser &parser, StringAttr &name) {
  return parseName<::heddle::bundle::Kernel::Kind>(parser, name);
}
inline ParseResult parseEncoding(OpAsmParser &parser, StringAttr &name) {
  return parseName<::heddle::bundle::Encoding>(parser, name);
}
inline ParseResult parseRowOp(OpAsmParser &parser, StringAttr &name) {
  return parseName<::heddle::bundle::RowOp>(parser, name);
}

inline void printKernelKind(OpAsmPrinter &printer, Operation *,
                            StringAttr name) {
  printer << name.getValue();
}
inline void printEncoding(OpAsmPrinter &printer, Operation *, StringAttr name) {
  printer << name.getValue();
}
inline void printRowOp(OpAsmPrinter &printer, Operation *, StringAttr name) {
  printer << name.getValue();
}

} // namespace mlir::shed

#endif // HEDDLE_DIALECT_SHED_IR_BUNDLEENUMS_H
