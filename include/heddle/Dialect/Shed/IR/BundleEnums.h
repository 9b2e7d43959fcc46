//===- BundleEnums.h - Enumerations of the bundle as properties -*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What `Shed_BundleEnum` (ShedBase.td) asks. The bundle states an enumeration's
// values and their names (`namesOf`), and shed has them as they are.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_SHED_IR_BUNDLEENUMS_H
#define HEDDLE_DIALECT_SHED_IR_BUNDLEENUMS_H

#include "bundle/program/ManifestNames.h"

#include "mlir/Bytecode/BytecodeImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace mlir::shed {

/// The value of this name.
template <typename E> std::optional<E> valueOf(StringRef name) {
  const auto names = namesOf(E());
  const auto *at = llvm::find(names, std::string_view(name));
  if (at == names.end())
    return std::nullopt;
  return static_cast<E>(at - names.begin());
}

template <typename E>
LogicalResult readName(Attribute attribute, E &value,
                       function_ref<InFlightDiagnostic()> emitError) {
  auto name = dyn_cast_if_present<StringAttr>(attribute);
  if (std::optional<E> found =
          name ? valueOf<E>(name.getValue()) : std::nullopt) {
    value = *found;
    return success();
  }
  return emitError() << "expected one of the strings '"
                     << llvm::join(namesOf(E()), "', '") << "'";
}

template <typename E>
OptionalParseResult parseOptionalName(OpAsmParser &parser, E &value) {
  const SMLoc at = parser.getCurrentLocation();
  StringRef name;
  if (failed(parser.parseOptionalKeyword(&name)))
    return std::nullopt;
  if (std::optional<E> found = valueOf<E>(name)) {
    value = *found;
    return success();
  }
  return parser.emitError(at, "found '")
         << name << "'; expected " << llvm::join(namesOf(E()), ", ");
}

template <typename E> ParseResult parseName(OpAsmParser &parser, E &value) {
  OptionalParseResult parsed = parseOptionalName(parser, value);
  if (parsed.has_value())
    return *parsed;
  return parser.emitError(parser.getCurrentLocation(), "expected ")
         << llvm::join(namesOf(E()), ", ");
}

/// The value of bytecode.
template <typename E>
LogicalResult readNumber(DialectBytecodeReader &reader, E &value) {
  uint64_t number = 0;
  if (failed(reader.readVarInt(number)))
    return failure();
  if (number >= namesOf(E()).size())
    return reader.emitError("found value ")
           << number << " of " << llvm::join(namesOf(E()), ", ");
  value = static_cast<E>(number);
  return success();
}

} // namespace mlir::shed

#endif // HEDDLE_DIALECT_SHED_IR_BUNDLEENUMS_H
