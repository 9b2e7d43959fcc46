//===- Assembly.h - Parts of the textual form -------------------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parsers and printers of the words that ops and attributes share. Parsers
// check what they read at the place where it is written, with the same
// functions that the verifiers use.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_DIALECT_HEDDLE_IR_ASSEMBLY_H
#define HEDDLE_LIB_DIALECT_HEDDLE_IR_ASSEMBLY_H

#include "heddle/Dialect/Heddle/IR/Heddle.h"

namespace mlir::heddle {

using EmitError = llvm::function_ref<InFlightDiagnostic()>;

/// A group size must be a power of two in [minGroup, maxGroup] (P2).
LogicalResult checkGroup(EmitError emitError, int64_t group);

/// Counts, periods, steps and sizes are from 1 to bundle::maxCount (C1, P3,
/// P4). `what` names the number in the message: "a window's size".
LogicalResult checkCount(EmitError emitError, StringRef what, int64_t value);

/// `1/5`, `0.2`, `20 percent`.
ParseResult parseRatio(AsmParser &parser, RatioAttr &ratio);
void printRatio(AsmPrinter &printer, RatioAttr ratio);

/// `uniform(window = 0.3, count = 16)`, ...
ParseResult parseCadence(AsmParser &parser, CadenceAttr &cadence);
void printCadence(AsmPrinter &printer, CadenceAttr cadence);
inline void printCadence(AsmPrinter &printer, Operation *,
                         CadenceAttr cadence) {
  printCadence(printer, cadence);
}

/// `layers(0 to 1)`.
ParseResult parseLayers(AsmParser &parser, LayerRangeAttr &layers);
void printLayers(AsmPrinter &printer, Operation *, LayerRangeAttr layers);

/// `default` (no attribute) or `layers(0 to 1)`.
ParseResult parseRuleLayers(AsmParser &parser, LayerRangeAttr &layers);
void printRuleLayers(AsmPrinter &printer, Operation *op, LayerRangeAttr layers);

/// `on CADENCE`, `before CADENCE` or `otherwise`.
ParseResult parseWhen(AsmParser &parser, WhenKindAttr &when,
                      CadenceAttr &cadence);
void printWhen(AsmPrinter &printer, Operation *, WhenKindAttr when,
               CadenceAttr cadence);

/// `(keep = RATIO, group = INT)`, with `rounding = floor|ceil|round` when it is
/// not floor.
ParseResult parseColumns(AsmParser &parser, RatioAttr &keep, IntegerAttr &group,
                         KeepRuleAttr &rounding);
void printColumns(AsmPrinter &printer, Operation *, RatioAttr keep,
                  IntegerAttr group, KeepRuleAttr rounding);

/// The word for a scorer.
ParseResult parseScorer(AsmParser &parser, ScorerAttr &scorer);
void printScorer(AsmPrinter &printer, Operation *, ScorerAttr scorer);

/// `dense` or `[columns(@cols, group = 128), window(256), sinks(4)]`.
ParseResult parseTerms(AsmParser &parser, ArrayAttr &terms);
void printTerms(AsmPrinter &printer, ArrayAttr terms);

/// Reads nothing: takes the name of the op's result in the source, if it has
/// one that is not a number.
ParseResult parseResultName(OpAsmParser &parser, StringAttr &name);
inline void printResultName(OpAsmPrinter &, Operation *, StringAttr) {}

/// `dense`, `pairs(%p)` or `dense until(%c) then pairs(%p)`.
ParseResult parseAttended(OpAsmParser &parser,
                          std::optional<OpAsmParser::UnresolvedOperand> &until,
                          std::optional<OpAsmParser::UnresolvedOperand> &pairs);
void printAttended(OpAsmPrinter &printer, Operation *, Value until,
                   Value pairs);

} // namespace mlir::heddle

#endif // HEDDLE_LIB_DIALECT_HEDDLE_IR_ASSEMBLY_H
