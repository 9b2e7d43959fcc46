//===- Words.cpp - What to write in place of a slip -----------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Assembly.h"
#include "bundle/NearestWord.h"

#include "llvm/ADT/StringExtras.h"

#include <cstring>

using namespace mlir;
using namespace mlir::heddle;

bool mlir::heddle::beginsLine(const char *text) {
  while (*--text == ' ' || *text == '\t')
    ;
  return *text == '\n' || *text == '\r';
}

InFlightDiagnostic mlir::heddle::suggesting(InFlightDiagnostic error,
                                            StringRef word,
                                            ArrayRef<StringRef> words) {
  StringRef nearest = ::heddle::bundle::nearestOf(word, words);
  if (!word.empty() && !nearest.empty())
    error.attachNote() << "did you mean '" << nearest << "'?";
  return error;
}

InFlightDiagnostic mlir::heddle::unknownWord(AsmParser &parser, SMLoc loc,
                                             StringRef kind, StringRef word,
                                             ArrayRef<StringRef> words) {
  InFlightDiagnostic error = parser.emitError(loc);
  if (word.empty())
    error << "expected a " << kind;
  else
    error << "unknown " << kind << " '" << word << "'";
  error << (words.size() == 1 ? ": there is " : ": one of ")
        << llvm::join(words, ", ");
  return suggesting(std::move(error), word, words);
}

ParseResult mlir::heddle::otherWord(AsmParser &parser, SMLoc loc,
                                    StringRef expected, StringRef argument,
                                    StringRef word, ArrayRef<StringRef> words) {
  InFlightDiagnostic error = parser.emitError(loc, expected);
  if (argument.empty() || !::heddle::bundle::nearestOf(word, words).empty())
    return suggesting(std::move(error), word, words);
  StringRef meant = words[1];
  // In quotation marks, as other languages have it.
  const char *text = loc.getPointer();
  if (*text == '"')
    for (StringRef each : words)
      if (std::strncmp(text + 1, each.data(), each.size()) == 0 &&
          text[1 + each.size()] == '"')
        meant = each;
  return error << "; write " << argument << " = " << meant
               << ", or leave it out";
}

InFlightDiagnostic mlir::heddle::wasWritten(AsmParser &parser, SMLoc loc,
                                            const Twine &before,
                                            const Twine &now,
                                            StringRef instead) {
  InFlightDiagnostic error = parser.emitError(loc)
                             << before << " is now written " << now;
  if (!instead.empty())
    error.attachNote() << "write '" << instead << "'";
  return error;
}

bool mlir::heddle::isOfSchedules(RegisteredOperationName name) {
  return name.hasTrait<OpTrait::HasParent<ScheduleOp>::Impl>() ||
         name.hasTrait<OpTrait::HasParent<ScheduleOp, PlanOp>::Impl>();
}

void mlir::heddle::setWrittenName(Operation *op, StringRef name) {
  op->setLoc(
      NameLoc::get(StringAttr::get(op->getContext(), name), op->getLoc()));
}

StringRef mlir::heddle::writtenName(Operation *op) {
  auto name = dyn_cast<NameLoc>(op->getLoc());
  return name ? name.getName().strref() : StringRef();
}

bool mlir::heddle::isValueOp(AsmParser &parser, StringRef word) {
  auto name = RegisteredOperationName::lookup(("heddle." + word).str(),
                                              parser.getContext());
  return name && isOfSchedules(*name) && name->hasTrait<OpTrait::OneResult>();
}

ParseResult mlir::heddle::parseValue(OpAsmParser &parser,
                                     OpAsmParser::UnresolvedOperand &operand) {
  SMLoc loc = parser.getCurrentLocation();
  OptionalParseResult found = parser.parseOptionalOperand(operand);
  if (found.has_value())
    return *found;
  StringRef word;
  if (failed(parser.parseOptionalKeyword(&word)))
    return parser.emitError(loc, "expected a value, such as %cols");
  if (isValueOp(parser, word))
    return parser.emitError(loc)
           << "expected a value, found the op " << word
           << "; give it a line of its own, %" << word << " = " << word
           << " ..., and write %" << word << " here";
  return parser.emitError(loc) << "expected a value, found '" << word
                               << "'; values begin with %, as %" << word;
}
