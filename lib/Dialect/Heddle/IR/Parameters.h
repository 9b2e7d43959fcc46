//===- Parameters.h - Numbers that a schedule names -------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A schedule's parameters belong to its text: wherever one is named the parser
// reads the number that it stands for, and the IR has numbers alone.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_DIALECT_HEDDLE_IR_PARAMETERS_H
#define HEDDLE_LIB_DIALECT_HEDDLE_IR_PARAMETERS_H

#include "heddle/Dialect/Heddle/IR/Heddle.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/SMLoc.h"

namespace mlir::heddle {

/// `keep = 20 percent`.
struct Parameter {
  StringRef name;
  llvm::SMLoc loc;
  Attribute value; ///< RatioAttr or IntegerAttr (i64)
  bool used = false;
};

/// By name, in the order of the text.
using Parameters = llvm::MapVector<StringRef, Parameter>;

/// `(keep = 20 percent, group = 128)`, or nothing.
ParseResult parseParameters(AsmParser &parser, Parameters &parameters);

/// While it lives, what is parsed on this thread may name the parameters.
/// MLIR's parser hands no state of ours to the parsers of nested operations.
class ParameterScope {
public:
  explicit ParameterScope(Parameters &parameters);
  ~ParameterScope();
  ParameterScope(const ParameterScope &) = delete;
  ParameterScope &operator=(const ParameterScope &) = delete;

  /// Whether a schedule's ops are being parsed.
  static bool isOpen();

  /// Those that may be named here; null where isOpen() is false.
  static Parameters *current();

private:
  Parameters *outer;
};

/// A place where a number is about to be read, literal or by a parameter's
/// name; errors about it point there, and at the parameter.
class NumberPlace {
public:
  explicit NumberPlace(AsmParser &parser)
      : parser(parser), loc(parser.getCurrentLocation()) {}

  /// The value of the parameter that is named here, if there is a word;
  /// `expected` says what else may stand here: "an integer".
  OptionalParseResult parseParameter(Attribute &value, StringRef expected);

  /// Fails for `20%`, which the lexer would take for a value's name; at most so
  /// many may be written with a word instead, or none of an integer.
  ParseResult checkPercent(int64_t mostPercent) const;

  ParseResult parseInteger(int64_t &value);

  InFlightDiagnostic error(const Twine &message = "") const;

  /// The text that begins here.
  const char *text() const { return loc.getPointer(); }

private:
  AsmParser &parser;
  llvm::SMLoc loc;
  const Parameter *parameter = nullptr;
};

} // namespace mlir::heddle

#endif // HEDDLE_LIB_DIALECT_HEDDLE_IR_PARAMETERS_H
