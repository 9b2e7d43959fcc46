//===- Parameters.cpp - Numbers that a schedule names ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Parameters.h"

#include "Assembly.h"
#include "bundle/NearestWord.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::heddle;

static thread_local Parameters *inScope = nullptr;

ParameterScope::ParameterScope(Parameters &parameters) : outer(inScope) {
  inScope = &parameters;
}

ParameterScope::~ParameterScope() { inScope = outer; }

bool ParameterScope::isOpen() { return inScope != nullptr; }

Parameters *ParameterScope::current() { return inScope; }

//===----------------------------------------------------------------------===//
// Declarations
//===----------------------------------------------------------------------===//

ParseResult mlir::heddle::parseParameters(AsmParser &parser,
                                          Parameters &parameters) {
  auto parseOne = [&]() -> ParseResult {
    Parameter parameter;
    parameter.loc = parser.getCurrentLocation();
    if (failed(parser.parseOptionalKeyword(&parameter.name)))
      return parser.emitError(parameter.loc, "expected a parameter, such as "
                                             "keep = 20 percent");
    if (parameter.name == "step")
      return parser.emitError(parameter.loc, "no parameter can be named "
                                             "'step', which is a word of at");
    auto same = parameters.find(parameter.name);
    if (same != parameters.end())
      return parser.emitError(parameter.loc)
                 .append("parameter '", parameter.name, "' is declared twice")
                 .attachNote(parser.getEncodedSourceLoc(same->second.loc))
             << "the first one is here";
    SMLoc loc = parser.getCurrentLocation();
    if (failed(parser.parseOptionalEqual()))
      return parser.emitError(loc)
             << "parameter '" << parameter.name
             << "' has no value; write what it is when nothing else is set, "
                "such as "
             << parameter.name << " = 20 percent";
    if (parseNumber(parser, parameter.value))
      return failure();
    parameters.insert({parameter.name, parameter});
    return success();
  };
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::OptionalParen,
                                        parseOne);
}

//===----------------------------------------------------------------------===//
// Uses
//===----------------------------------------------------------------------===//

OptionalParseResult NumberPlace::parseParameter(Attribute &value,
                                                StringRef expected) {
  Parameters none;
  Parameters &known =
      ParameterScope::isOpen() ? *ParameterScope::current() : none;
  StringRef word;
  if (failed(parser.parseOptionalKeyword(&word))) {
    const char *end = text();
    while (*text() == '%' &&
           (end == text() || llvm::isAlnum(*end) || *end == '_'))
      ++end;
    StringRef value(text(), end - text());
    if (known.contains(value.drop_while([](char c) { return c == '%'; })))
      return ParseResult(error() << "expected " << expected << ", found '"
                                 << value << "'; write " << value.drop_front());
    return std::nullopt;
  }
  if (auto found = known.find(word); found != known.end()) {
    found->second.used = true;
    parameter = &found->second;
    value = parameter->value;
    return ParseResult::success();
  }
  InFlightDiagnostic error = parser.emitError(loc);
  error << "expected " << expected << ", found '" << word << "'";
  if (known.empty())
    return ParseResult(error);
  auto names = llvm::to_vector(llvm::make_first_range(known));
  error << "; the schedule's parameters are " << llvm::join(names, ", ");
  StringRef nearest = ::heddle::bundle::nearestOf(word, names);
  if (!nearest.empty())
    error.attachNote(parser.getEncodedSourceLoc(loc))
        << "did you mean '" << nearest << "'?";
  return ParseResult(error);
}

ParseResult NumberPlace::checkPercent(int64_t mostPercent) const {
  const char *end = text();
  while (llvm::isDigit(*end) || *end == '.' || *end == '/')
    ++end;
  StringRef number(text(), end - text());
  while (*end == ' ')
    ++end;
  if (number.empty() || *end != '%')
    return success();
  InFlightDiagnostic refused = error();
  refused << "expected " << (mostPercent ? "a number" : "an integer")
          << ", found '" << number << "%'; ";
  int64_t percent = 0;
  if (mostPercent && !number.getAsInteger(10, percent) && percent > mostPercent)
    return refused << "write at most " << mostPercent << " percent";
  return refused << "write " << number << (mostPercent ? " percent" : "");
}

ParseResult NumberPlace::parseInteger(int64_t &value) {
  if (checkPercent(/*mostPercent=*/0))
    return failure();
  Attribute named;
  OptionalParseResult found = parseParameter(named, "an integer");
  if (!found.has_value())
    return parser.parseInteger(value);
  if (failed(*found))
    return failure();
  auto integer = dyn_cast<IntegerAttr>(named);
  if (!integer)
    return error() << "expected an integer, and parameter '" << parameter->name
                   << "' is a ratio";
  value = integer.getInt();
  return success();
}

InFlightDiagnostic NumberPlace::error(const Twine &message) const {
  InFlightDiagnostic error = parser.emitError(loc, message);
  if (parameter)
    error.attachNote(parser.getEncodedSourceLoc(parameter->loc))
        << "parameter '" << parameter->name << "' is declared here";
  return error;
}
