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
#include "heddle/Support/ScoreRegion.h"

#include "llvm/ADT/StringMap.h"

#include <functional>
#include <map>

namespace mlir::heddle {

using EmitError = llvm::function_ref<InFlightDiagnostic()>;

/// A group size must be a power of two in [minGroup, maxGroup] or
/// bundle::groupOfAll (P2), a block's one in [minGroup, bundle::maxBlock] (P6).
LogicalResult checkGroup(EmitError emitError, int64_t group,
                         bool blocks = false);

/// An odd number in [bundle::minPooled, bundle::maxPooled] (P15).
LogicalResult checkPooled(EmitError emitError, int64_t pooled);
ParseResult parsePooled(AsmParser &parser, int64_t &pooled);

/// Counts, periods, steps and sizes are from 1 to bundle::maxCount (C1, P3,
/// P4). `what` names the number in the message: "a window's size".
LogicalResult checkCount(EmitError emitError, StringRef what, int64_t value,
                         int64_t least = 1,
                         int64_t most = ::heddle::bundle::maxCount);

/// Shares are at most 1 (P1), bounds may be more; `orNone`: and 0. `what` names
/// the ratio in the message.
LogicalResult checkRatio(EmitError emitError, StringRef what,
                         ::heddle::bundle::Ratio ratio, int64_t most = 1,
                         bool orNone = false);

/// An integer, or the name of a parameter that is one, of which checkCount
/// holds.
ParseResult parseCount(AsmParser &parser, StringRef what, int64_t &value,
                       int64_t least = 1,
                       int64_t most = ::heddle::bundle::maxCount);

/// Whether nothing but spaces stands in front of it in its line. The name of an
/// op does somewhere.
bool beginsLine(const char *text);

/// The error with the one of `words` that `word` was probably meant to be.
InFlightDiagnostic suggesting(InFlightDiagnostic error, StringRef word,
                              ArrayRef<StringRef> words);

/// "unknown cadence 'evry': one of never, every, ..."; did you mean 'every'?
InFlightDiagnostic unknownWord(AsmParser &parser, SMLoc loc, StringRef kind,
                               StringRef word, ArrayRef<StringRef> words);

/// Whether a word of an enumeration comes next, which `value` becomes; `word`
/// is the one that comes.
template <typename E>
bool takeWord(AsmParser &parser, E &value, StringRef &word) {
  (void)parser.parseOptionalKeyword(&word);
  std::optional<E> found = wordOf<E>(word);
  if (found)
    value = *found;
  return found.has_value();
}

template <typename E> SmallVector<StringRef> wordsOf() {
  return llvm::map_to_vector(
      namesOf(E()), [](std::string_view name) { return StringRef(name); });
}

/// An error at `loc`, where a word of an argument is expected; of `words` the
/// first word is the default.
ParseResult otherWord(AsmParser &parser, SMLoc loc, StringRef expected,
                      StringRef argument, StringRef word,
                      ArrayRef<StringRef> words);

/// A word of an enumeration; `expected` says which there are, and `argument`
/// whose value it is, if it is one's.
template <typename E>
ParseResult parseOneOf(AsmParser &parser, StringRef expected, E &value,
                       StringRef argument = "") {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  if (takeWord(parser, value, word))
    return success();
  return otherWord(parser, loc, expected, argument, word, wordsOf<E>());
}

/// The same; `kind` is what it is one of: "scorer".
template <typename E>
ParseResult parseKind(AsmParser &parser, StringRef kind, E &value) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  if (takeWord(parser, value, word))
    return success();
  return unknownWord(parser, loc, kind, word, wordsOf<E>());
}

/// An attribute of what `parse` makes of a struct.
template <typename Attr, typename Parse>
ParseResult parseStruct(AsmParser &parser, Attr &attr, Parse parse) {
  decltype(attr.getValue()) value;
  if (parse(value))
    return failure();
  attr = Attr::get(parser.getContext(), std::move(value));
  return success();
}

/// What reads operands, by the name of the argument or the word of the clause
/// that has one. An attribute has none.
using Operands = llvm::StringMap<std::function<ParseResult()>>;
/// Their texts, likewise; what is not there has none.
using Texts = std::map<std::string, std::string>;

/// Of a spelling that is no longer one. `instead` is what stands in place of
/// the word at `loc`, if that is all.
InFlightDiagnostic wasWritten(AsmParser &parser, SMLoc loc, const Twine &before,
                              const Twine &now, StringRef instead = "");

/// Whether `word` is an op of schedules that makes a value.
bool isValueOp(AsmParser &parser, StringRef word);

/// `%value`; says what to write in place of an op or of a bare name.
ParseResult parseValue(OpAsmParser &parser,
                       OpAsmParser::UnresolvedOperand &operand);

/// One `name = value` of a parenthesised list; a bare `name`, of which `note`
/// takes note, if there is no `parse`.
struct NamedArgument {
  StringRef name;
  std::function<ParseResult()> parse;
  bool required = true;
  bool seen = false;
  std::function<void()> note = nullptr;
};

/// `(value, name = value, ...)`: first what `lone` reads, if it is given, then
/// the others in any order, each at most once. `owner` names what they belong
/// to in messages, `lonely` what the first one is.
ParseResult parseArguments(AsmParser &parser, StringRef owner,
                           const std::function<ParseResult()> &lone,
                           MutableArrayRef<NamedArgument> wanted,
                           StringRef lonely = "a number");

/// Nothing: an op of a schedule says all in its own words, and a dictionary
/// behind it would say it otherwise, or nothing at all.
ParseResult parseNoAttributes(OpAsmParser &parser, NamedAttrList &attributes);
inline void printNoAttributes(OpAsmPrinter &, Operation *, DictionaryAttr) {}

/// A number as a parameter has it: an IntegerAttr, or a RatioAttr for all that
/// is not a bare integer.
ParseResult parseNumber(AsmParser &parser, Attribute &value);

/// `1/5`, `0.2`, `20 percent`, or a parameter's name. `what` names the ratio in
/// messages: "keep". Of a share, 20 is said to be 20 percent; not of a bound
/// that cosines or probabilities are compared with.
ParseResult parseRatio(AsmParser &parser, StringRef what,
                       ::heddle::bundle::Ratio &ratio, int64_t most = 1,
                       bool orNone = false, bool share = true);

/// The same of a share of the keys.
ParseResult parseShare(AsmParser &parser, RatioAttr &share);
void printShare(AsmPrinter &printer, Operation *, RatioAttr share);

/// An integer, of which the op's verifier says what it may be.
ParseResult parseCount(AsmParser &parser, IntegerAttr &count);
void printCount(AsmPrinter &printer, Operation *, IntegerAttr count);

/// A bare integer is a count, any other ratio a share: `4`, but `10 percent`.
/// Sets one of the two. Messages call them `what` and `ofWhole`.
ParseResult parseCountOrShare(AsmParser &parser, StringRef what,
                              StringRef ofWhole, int64_t &count,
                              ::heddle::bundle::Ratio &share);

/// A fraction of the run, where a whole number is not one but a step, which
/// `other` names: at(16) is to be at(step = 16).
ParseResult parsePlace(AsmParser &parser, StringRef owner, StringRef other,
                       ::heddle::bundle::Ratio &ratio);

/// `uniform(window = 0.3, count = 16)`, ...
ParseResult parseCadence(AsmParser &parser, ::heddle::bundle::Cadence &cadence);
ParseResult parseCadence(AsmParser &parser, CadenceAttr &cadence);
inline void printCadence(AsmPrinter &printer,
                         const ::heddle::bundle::Cadence &cadence) {
  printer << toString(cadence);
}
inline void printCadence(AsmPrinter &printer, Operation *,
                         CadenceAttr cadence) {
  printCadence(printer, cadence.getValue());
}

/// `5` or `0 to 3`.
ParseResult parseLayerRange(AsmParser &parser, LayerRangeAttr &layers);
void printLayerRange(AsmPrinter &printer, Operation *, LayerRangeAttr layers);

/// `layers(0 to 3, 28 to 31)`, `layers(5)`.
ParseResult parseLayerRanges(AsmParser &parser, ArrayAttr &layers);
void printLayerRanges(AsmPrinter &printer, Operation *, ArrayAttr layers);
std::string layersText(ArrayAttr layers);

/// `on CADENCE`, `before CADENCE` or `otherwise`.
ParseResult parseWhen(AsmParser &parser, ::heddle::bundle::When &when);
ParseResult parseWhen(AsmParser &parser, WhenAttr &when);
void printWhen(AsmPrinter &printer, const ::heddle::bundle::When &when);
inline void printWhen(AsmPrinter &printer, Operation *, WhenAttr when) {
  printWhen(printer, when.getValue());
}

/// A group's size, or `all`.
ParseResult parseGroup(AsmParser &parser, int64_t &group, bool blocks);
std::string groupText(int64_t group);

/// `columns(keep = 0.2, group = 128) by mean_probability pooled(3)`; of a
/// schedule's op also sets, a selection, cadence and layers, in any order.
/// Operands may note in `rule` that they are there.
ParseResult parseSelectionRule(AsmParser &parser,
                               ::heddle::bundle::Selection &rule,
                               const Operands &operands = {});
void printSelectionRule(AsmPrinter &printer,
                        const ::heddle::bundle::Selection &rule,
                        Texts operands = {});
ParseResult parseSelectionRule(AsmParser &parser, SelectionRuleAttr &rule);
inline void printSelectionRule(AsmPrinter &printer, Operation *,
                               SelectionRuleAttr rule) {
  printSelectionRule(printer, rule.getValue());
}
ParseResult
parseSelectionRule(OpAsmParser &parser, SelectionRuleAttr &rule,
                   std::optional<OpAsmParser::UnresolvedOperand> &rows,
                   std::optional<OpAsmParser::UnresolvedOperand> &always,
                   std::optional<OpAsmParser::UnresolvedOperand> &within,
                   OpAsmParser::UnresolvedOperand &cadence, ArrayAttr &layers);
void printSelectionRule(OpAsmPrinter &printer, Operation *,
                        SelectionRuleAttr rule, Value rows, Value always,
                        Value within, Value cadence, ArrayAttr layers);

/// `attention [window(256)] writes_lse`, `select(group = 32) by
/// mean_probability within blocks(size = 128)`. An attribute has no terms.
ParseResult parseKernelForm(AsmParser &parser, ::heddle::bundle::Kernel &form,
                            ArrayAttr *terms = nullptr);
ParseResult parseKernelForm(AsmParser &parser, KernelFormAttr &form,
                            ArrayAttr &terms);
void printKernelForm(AsmPrinter &printer, const ::heddle::bundle::Kernel &form,
                     ArrayAttr terms = {});
void printKernelForm(AsmPrinter &printer, Operation *op, KernelFormAttr form,
                     ArrayAttr terms);

/// "columns(group = 128)", "blocks(size = 64)": what a kernel chooses within.
std::string withinText(const ::heddle::bundle::Kernel &form);

/// P3, P4: what a set is stated with.
LogicalResult checkTerm(EmitError emitError, const ::heddle::bundle::Term &term,
                        StringRef word);

/// `(256)`: what the set `word` is stated with.
ParseResult parseNumbers(OpAsmParser &parser, TermAttr &term, StringRef word);
void printNumbers(OpAsmPrinter &printer, Operation *, TermAttr term,
                  StringRef word);

/// `dense` or `[columns(@cols, group = 128), window(256), sinks(4)]`.
ParseResult parseTerms(AsmParser &parser, ArrayAttr &terms);
void printTerms(AsmPrinter &printer, ArrayAttr terms);

/// How the result of a set or cadence is called where the op is printed.
void nameResult(Operation *op, OpAsmSetValueNameFn setName);

/// Reads nothing: takes the name of the op's result in the source, if it has
/// one that is not a number.
ParseResult parseResultName(OpAsmParser &parser, StringAttr &name);
inline void printResultName(OpAsmPrinter &, Operation *, StringAttr) {}

/// `dense`, `pairs(%p)` or `dense until(%c) then pairs(%p)`, which may go on
/// with `until(%d) then pairs(%q)`; then clauses.
ParseResult
parseAttended(OpAsmParser &parser,
              SmallVectorImpl<OpAsmParser::UnresolvedOperand> &until,
              SmallVectorImpl<OpAsmParser::UnresolvedOperand> &pairs,
              UnitAttr &atOnce, ArrayAttr &layers, Region &scores);
void printAttended(OpAsmPrinter &printer, Operation *, OperandRange until,
                   OperandRange pairs, UnitAttr atOnce, ArrayAttr layers,
                   Region &scores);

//===----------------------------------------------------------------------===//
// Rows, keys, reuse, commit (ProgramAssembly.cpp)
//===----------------------------------------------------------------------===//

/// `%a, %b`, all of pairs or all of positions: the operands decide.
ParseResult
parseSetOperands(OpAsmParser &parser,
                 SmallVectorImpl<OpAsmParser::UnresolvedOperand> &operands,
                 SmallVectorImpl<Type> &types, Type &result);
void printSetOperands(OpAsmPrinter &printer, Operation *, OperandRange operands,
                      TypeRange types, Type result);

/// `undecoded(first = 16)`, `committed(since = %c)`, ...
ParseResult parsePositionSet(AsmParser &parser,
                             ::heddle::bundle::Positions &set,
                             Operands operands = {});
void printPositionSet(AsmPrinter &printer,
                      const ::heddle::bundle::Positions &set,
                      Texts operands = {});
ParseResult
parsePositionSet(OpAsmParser &parser, PositionSetAttr &set,
                 std::optional<OpAsmParser::UnresolvedOperand> &since);
void printPositionSet(OpAsmPrinter &printer, Operation *, PositionSetAttr set,
                      Value since);

/// `(32)` or `(32, near = 10)`.
ParseResult parseConfident(OpAsmParser &parser, IntegerAttr &count,
                           IntegerAttr &near);
void printConfident(OpAsmPrinter &printer, Operation *, IntegerAttr count,
                    IntegerAttr near);

/// `(share = 10 percent)`.
ParseResult parseAttended(OpAsmParser &parser, RatioAttr &share);
void printAttended(OpAsmPrinter &printer, Operation *, RatioAttr share);

/// A value. parseEverywhere() reads that of a clause that holds in all layers.
inline ParseResult
parseValue(OpAsmParser &parser,
           std::optional<OpAsmParser::UnresolvedOperand> &value) {
  return parseValue(parser, value.emplace());
}
inline void printValue(OpAsmPrinter &printer, Operation *, Value value) {
  printer << value;
}
ParseResult parseEverywhere(OpAsmParser &parser,
                            OpAsmParser::UnresolvedOperand &value);
inline void printEverywhere(OpAsmPrinter &printer, Operation *, Value value) {
  printer << value;
}

/// `salient(below = 0.99) in %rows alone on %a and %b in layers(0)`, ...
ParseResult parseRowRule(AsmParser &parser, ::heddle::bundle::Pass &rule,
                         Operands operands = {});
void printRowRule(AsmPrinter &printer, const ::heddle::bundle::Pass &rule,
                  Texts operands = {});
ParseResult parseRowRule(OpAsmParser &parser, RowRuleAttr &rule,
                         std::optional<OpAsmParser::UnresolvedOperand> &rows,
                         std::optional<OpAsmParser::UnresolvedOperand> &among,
                         SmallVectorImpl<OpAsmParser::UnresolvedOperand> &on,
                         ArrayAttr &layers);
void printRowRule(OpAsmPrinter &printer, Operation *, RowRuleAttr rule,
                  Value rows, Value among, OperandRange on, ArrayAttr layers);

/// `factor(1, last_alone) within(%p) on %a and %b passes(at_least = 2)
/// stop(eos, narrowing)`.
ParseResult parseCommitRule(AsmParser &parser,
                            ::heddle::bundle::CommitRule &rule,
                            Operands operands = {});
void printCommitRule(AsmPrinter &printer,
                     const ::heddle::bundle::CommitRule &rule,
                     Texts operands = {});
ParseResult
parseCommitRule(OpAsmParser &parser, CommitRuleAttr &rule,
                std::optional<OpAsmParser::UnresolvedOperand> &within,
                SmallVectorImpl<OpAsmParser::UnresolvedOperand> &on);
void printCommitRule(OpAsmPrinter &printer, Operation *, CommitRuleAttr rule,
                     Value within, OperandRange on);

/// `kv, context(propagating), ffn`, `kv(before_rope), attention(outside = %set,
/// on = %c, refresh = least_similar(keep = 0.25) in %rows)`. An attribute does
/// not say whether keys are kept before RoPE.
ParseResult parseReuseRule(AsmParser &parser, ::heddle::bundle::Reuse &rule,
                           Operands operands = {}, bool *beforeRope = nullptr);
void printReuseRule(AsmPrinter &printer, const ::heddle::bundle::Reuse &rule,
                    Texts operands = {}, const bool *beforeRope = nullptr);
ParseResult
parseReuseRule(OpAsmParser &parser, ReuseRuleAttr &rule, UnitAttr &beforeRope,
               std::optional<OpAsmParser::UnresolvedOperand> &inside,
               std::optional<OpAsmParser::UnresolvedOperand> &on,
               std::optional<OpAsmParser::UnresolvedOperand> &refreshed);
void printReuseRule(OpAsmPrinter &printer, Operation *, ReuseRuleAttr rule,
                    UnitAttr beforeRope, Value inside, Value on,
                    Value refreshed);

/// `scores(%logit, ...) {...}`, or nothing.
ParseResult parseScores(OpAsmParser &parser, Region &region);
void printScores(OpAsmPrinter &printer, Operation *op, Region &region);

} // namespace mlir::heddle

#endif // HEDDLE_LIB_DIALECT_HEDDLE_IR_ASSEMBLY_H
