//===- Assembly.cpp - Parts of the textual form ---------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Clauses.h"
#include "Parameters.h"
#include "bundle/program/ProgramChecks.h"
#include "heddle/Dialect/Heddle/IR/Reference.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cstring>

using namespace mlir;
using namespace mlir::heddle;
namespace bundle = ::heddle::bundle;

//===----------------------------------------------------------------------===//
// Named arguments
//===----------------------------------------------------------------------===//

/// Whether `name =` comes next; the parser sees one token ahead.
static bool isNamed(AsmParser &parser) {
  const char *start = parser.getCurrentLocation().getPointer(), *text = start;
  while (llvm::isAlnum(*text) || *text == '_')
    ++text;
  const bool word = text != start;
  while (llvm::isSpace(*text))
    ++text;
  return word && *text == '=';
}

ParseResult
mlir::heddle::parseArguments(AsmParser &parser, StringRef owner,
                             const std::function<ParseResult()> &lone,
                             MutableArrayRef<NamedArgument> wanted,
                             StringRef lonely) {
  auto names = [&] {
    return llvm::join(llvm::map_range(wanted,
                                      [](const NamedArgument &argument) {
                                        return argument.name;
                                      }),
                      ", ");
  };
  const std::string takes =
      wanted.empty() ? "one " + lonely.rsplit(' ').second.str() : names();
  SMLoc open = parser.getCurrentLocation();
  if (*open.getPointer() != '(') {
    // Behind the word: what comes next may stand lines below.
    const char *end = open.getPointer();
    while (llvm::isSpace(end[-1]))
      --end;
    InFlightDiagnostic error = parser.emitError(SMLoc::getFromPointer(end));
    error << owner << " needs " << (lone ? lonely : "its arguments")
          << " in parentheses";
    if (lone)
      return error;
    auto needed =
        llvm::make_filter_range(wanted, [](const NamedArgument &argument) {
          return argument.required;
        });
    error << "; write " << owner << '(';
    llvm::interleaveComma(needed, error, [&](const NamedArgument &argument) {
      error << argument.name << (argument.parse ? " = ..." : "");
    });
    error << ')';
    if (llvm::any_of(wanted,
                     [](const NamedArgument &each) { return !each.required; }))
      error << "; it takes " << takes;
    return error;
  }
  bool first = true;
  auto parseOne = [&]() -> ParseResult {
    if (std::exchange(first, false) && lone && !isNamed(parser))
      return lone();
    SMLoc loc = parser.getCurrentLocation();
    StringRef name;
    if (failed(parser.parseOptionalKeyword(&name)))
      return parser.emitError(loc)
             << owner << " takes "
             << (wanted.empty() ? takes : "named arguments: " + takes);
    NamedArgument *argument = llvm::find_if(
        wanted, [&](const NamedArgument &a) { return a.name == name; });
    if (argument == wanted.end())
      return suggesting(
          parser.emitError(loc) << owner << " has no argument '" << name
                                << "'; it takes " << takes,
          name, llvm::map_to_vector(wanted, [](const auto &argument) {
            return argument.name;
          }));
    if (argument->seen)
      return parser.emitError(loc)
             << "argument '" << name << "' is given twice";
    argument->seen = true;
    if (!argument->parse) {
      if (argument->note)
        argument->note();
      return success();
    }
    if (llvm::isAlnum(*parser.getCurrentLocation().getPointer()))
      return wasWritten(parser, loc, owner + "(" + name + " n)",
                        owner + "(" + name + " = n)", (name + " =").str());
    return failure(parser.parseEqual() || argument->parse());
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseOne))
    return failure();
  if (first && lone)
    return parser.emitError(open) << owner << " needs " << lonely;
  for (const NamedArgument &argument : wanted)
    if (argument.required && !argument.seen)
      return parser.emitError(open)
             << owner << " needs argument '" << argument.name << "'";
  return success();
}

//===----------------------------------------------------------------------===//
// Cadences
//===----------------------------------------------------------------------===//

ParseResult mlir::heddle::parseCadence(AsmParser &parser,
                                       bundle::Cadence &cadence) {
  FormReader reader(parser, "cadence");
  bundle::detail::fields(reader, cadence);
  return reader.finish();
}

ParseResult mlir::heddle::parseCadence(AsmParser &parser,
                                       CadenceAttr &cadence) {
  return parseStruct(parser, cadence, [&](bundle::Cadence &value) {
    return parseCadence(parser, value);
  });
}

ParseResult mlir::heddle::parseWhen(AsmParser &parser, bundle::When &when) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  if (!takeWord(parser, when.kind, word))
    return parser.emitError(loc, "a phase is `on` a cadence, `before` a "
                                 "cadence, or `otherwise`");
  return when.kind == WhenKind::Otherwise ? success()
                                          : parseCadence(parser, when.cadence);
}

ParseResult mlir::heddle::parseWhen(AsmParser &parser, WhenAttr &when) {
  return parseStruct(parser, when, [&](bundle::When &value) {
    return parseWhen(parser, value);
  });
}

void mlir::heddle::printWhen(AsmPrinter &printer, const bundle::When &when) {
  printer << spelled(when.kind);
  if (when.kind != WhenKind::Otherwise)
    printer << ' ' << toString(when.cadence);
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

/// Fails for `0-3`, `0..3` and `0:3`, of which the lexer would make other
/// numbers.
static ParseResult checkRange(AsmParser &parser) {
  SMLoc loc = parser.getCurrentLocation();
  const char *end = loc.getPointer();
  auto skip = [&] {
    while (*end == ' ')
      ++end;
  };
  auto number = [&] {
    const char *begin = end;
    end += *end == '-';
    while (llvm::isDigit(*end))
      ++end;
    return StringRef(begin, static_cast<size_t>(end - begin));
  };
  const StringRef first = number();
  const bool apart = *end == ' ';
  skip();
  const char *const mark = end;
  for (const char *each : {"...", "..", ":", "-"})
    if (const size_t size = std::strlen(each);
        end == mark && std::strncmp(end, each, size) == 0)
      end += size;
  // `0 -3` lacks a comma.
  if (first.empty() || end == mark || (*mark == '-' && apart && *end != ' '))
    return success();
  skip();
  const StringRef last = number();
  if (last.empty())
    return success();
  const StringRef found(loc.getPointer(),
                        static_cast<size_t>(end - loc.getPointer()));
  return parser.emitError(loc)
         << "a range of layers is written with `to`, "
            "found '"
         << found << "'; write " << first << " to " << last;
}

ParseResult mlir::heddle::parseLayerRange(AsmParser &parser,
                                          LayerRangeAttr &layers) {
  SMLoc loc = parser.getCurrentLocation();
  int64_t first, last;
  if (checkRange(parser) || NumberPlace(parser).parseInteger(first))
    return failure();
  last = first;
  if (succeeded(parser.parseOptionalKeyword("to")) &&
      NumberPlace(parser).parseInteger(last))
    return failure();
  layers =
      parser.getChecked<LayerRangeAttr>(loc, parser.getContext(), first, last);
  return success(layers != nullptr);
}

static std::string rangeText(LayerRangeAttr layers) {
  const std::string first = std::to_string(layers.getFirst());
  return layers.getFirst() == layers.getLast()
             ? first
             : first + " to " + std::to_string(layers.getLast());
}

void mlir::heddle::printLayerRange(AsmPrinter &printer, Operation *,
                                   LayerRangeAttr layers) {
  printer << rangeText(layers);
}

ParseResult mlir::heddle::parseLayerRanges(AsmParser &parser,
                                           ArrayAttr &layers) {
  SmallVector<Attribute> ranges;
  auto parseOne = [&]() -> ParseResult {
    LayerRangeAttr range;
    if (parseLayerRange(parser, range))
      return failure();
    ranges.push_back(range);
    return success();
  };
  if (parser.parseKeyword("layers") || parser.parseLParen() ||
      parser.parseCommaSeparatedList(parseOne) || parser.parseRParen())
    return failure();
  layers = parser.getBuilder().getArrayAttr(ranges);
  return success();
}

std::string mlir::heddle::layersText(ArrayAttr layers) {
  return "layers(" +
         llvm::join(
             llvm::map_range(layers.getAsRange<LayerRangeAttr>(), rangeText),
             ", ") +
         ")";
}

void mlir::heddle::printLayerRanges(AsmPrinter &printer, Operation *,
                                    ArrayAttr layers) {
  printer << layersText(layers);
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

ParseResult mlir::heddle::parseSelectionRule(AsmParser &parser,
                                             bundle::Selection &rule,
                                             const Operands &operands) {
  FormReader reader(parser, "selection");
  // P8, P9, P15: what columns or blocks alone can.
  reader.check = [&](SMLoc loc) -> ParseResult {
    if (auto wrong = bundle::checkForm(rule))
      return parser.emitError(loc, *wrong);
    return success();
  };
  SMLoc start = parser.getCurrentLocation();
  formOf(reader, rule);
  if (reader.finish() || reader.check(start))
    return failure();
  if (SMLoc rounding = reader.placeOf("rounding");
      rule.count > 0 && rounding.isValid())
    return parser.emitError(rounding)
           << "rounds a fraction of the "
           << (rule.kind == SelectionKind::Blocks ? "blocks" : "keys")
           << ", and `keep = " << rule.count
           << "` is a number of them; drop it, or write a fraction, such as "
              "20 percent";
  if (parser.parseKeyword("by") || parseKind(parser, "scorer", rule.scorer))
    return failure();
  reader.values = operands;
  clausesOf(reader, rule);
  return reader.finish();
}

void mlir::heddle::printSelectionRule(AsmPrinter &printer,
                                      const bundle::Selection &rule,
                                      Texts operands) {
  FormSpeller speller;
  formOf(speller, rule);
  speller.close();
  speller.text += (" by " + spelled(rule.scorer)).str();
  speller.values = std::move(operands);
  clausesOf(speller, rule);
  printer << speller.text;
}

ParseResult mlir::heddle::parseSelectionRule(AsmParser &parser,
                                             SelectionRuleAttr &rule) {
  return parseStruct(parser, rule, [&](bundle::Selection &value) {
    return parseSelectionRule(parser, value);
  });
}

using Operand = OpAsmParser::UnresolvedOperand;

ParseResult mlir::heddle::parseSelectionRule(
    OpAsmParser &parser, SelectionRuleAttr &rule, std::optional<Operand> &rows,
    std::optional<Operand> &always, std::optional<Operand> &within,
    Operand &cadence, ArrayAttr &layers) {
  return parseStruct(parser, rule, [&](bundle::Selection &value) {
    // That blocks name none is told at the clause; what columns may name is the
    // verifier's to say.
    auto noting = [&](int64_t &set, std::optional<Operand> &operand) {
      return [&] {
        set = value.kind == SelectionKind::Blocks ? 0 : -1;
        return parseValue(parser, operand);
      };
    };
    return parseSelectionRule(
        parser, value,
        {{"of", noting(value.rows, rows)},
         {"always", noting(value.always, always)},
         {"within", noting(value.within, within)},
         {"on", [&] { return parseValue(parser, cadence); }},
         {"in", [&] { return parseLayerRanges(parser, layers); }}});
  });
}

void mlir::heddle::printSelectionRule(OpAsmPrinter &printer, Operation *,
                                      SelectionRuleAttr rule, Value rows,
                                      Value always, Value within, Value cadence,
                                      ArrayAttr layers) {
  Texts operands = textsOf(
      printer,
      {{"of", rows}, {"always", always}, {"within", within}, {"on", cadence}});
  if (layers)
    operands["in"] = layersText(layers);
  printSelectionRule(printer, rule.getValue(), std::move(operands));
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

std::string mlir::heddle::withinText(const bundle::Kernel &form) {
  return (form.withinBlocks ? "blocks(size = " : "columns(group = ") +
         groupText(form.withinGroup) + ")";
}

ParseResult mlir::heddle::parseKernelForm(AsmParser &parser,
                                          bundle::Kernel &form,
                                          ArrayAttr *terms) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  if (!takeWord(parser, form.kind, word))
    return parser.emitError(loc, "a kernel is attention or select");
  if (form.kind == bundle::Kernel::Kind::Attention) {
    if (terms && parseTerms(parser, *terms))
      return failure();
    form.writesLse = succeeded(parser.parseOptionalKeyword("writes_lse"));
    return success();
  }
  if (terms)
    *terms = parser.getBuilder().getArrayAttr({});
  FormReader reader(parser, "kernel");
  reader.setOwner(word);
  formOf(reader, form);
  if (reader.finish() || parser.parseKeyword("by") ||
      parseKind(parser, "scorer", form.scorer))
    return failure();
  reader.values["within"] = [&] {
    form.withinBlocks = succeeded(parser.parseOptionalKeyword("blocks"));
    return failure((!form.withinBlocks && parser.parseKeyword("columns")) ||
                   parser.parseLParen() ||
                   parser.parseKeyword(form.withinBlocks ? "size" : "group") ||
                   parser.parseEqual() ||
                   parseGroup(parser, form.withinGroup, form.withinBlocks) ||
                   parser.parseRParen());
  };
  clausesOf(reader, form);
  return reader.finish();
}

void mlir::heddle::printKernelForm(AsmPrinter &printer,
                                   const bundle::Kernel &form,
                                   ArrayAttr terms) {
  FormSpeller speller(spelled(form.kind).str());
  if (form.kind == bundle::Kernel::Kind::Select) {
    formOf(speller, form);
    speller.close();
    speller.text += (" by " + spelled(form.scorer)).str();
    if (form.withinGroup > 0)
      speller.values["within"] = withinText(form);
    clausesOf(speller, form);
  }
  printer << speller.text;
  if (form.kind == bundle::Kernel::Kind::Select)
    return;
  if (terms) {
    printer << ' ';
    printTerms(printer, terms);
  }
  if (form.writesLse)
    printer << " writes_lse";
}

ParseResult mlir::heddle::parseKernelForm(AsmParser &parser,
                                          KernelFormAttr &form,
                                          ArrayAttr &terms) {
  return parseStruct(parser, form, [&](bundle::Kernel &value) {
    return parseKernelForm(parser, value, &terms);
  });
}

void mlir::heddle::printKernelForm(AsmPrinter &printer, Operation *op,
                                   KernelFormAttr form, ArrayAttr) {
  // Those that go without saying as well.
  printKernelForm(printer, form.getValue(), cast<KernelOp>(op).getTerms());
}

/// The word at the place, or "".
static StringRef wordAt(SMLoc loc) {
  // No StringRef of all that follows: measuring it would read the whole text.
  const char *begin = loc.getPointer(), *end = begin;
  while (llvm::isAlnum(*end) || *end == '_')
    ++end;
  const bool word = llvm::isAlpha(*begin) && *end != '.' && *end != '$';
  return word ? StringRef(begin, static_cast<size_t>(end - begin)) : "";
}

ParseResult mlir::heddle::parseNoAttributes(OpAsmParser &parser,
                                            NamedAttrList &) {
  SMLoc loc = parser.getCurrentLocation();
  if (const char *name = parser.getNameLoc().getPointer();
      ParameterScope::isOpen() && std::strncmp(name, "heddle.", 7) == 0) {
    StringRef word = wordAt(SMLoc::getFromPointer(name + 7));
    return wasWritten(parser, parser.getNameLoc(), "heddle." + word, word,
                      word);
  }
  if (succeeded(parser.parseOptionalLBrace()))
    return parser.emitError(loc, "has no attributes in braces; "
                                 "write what it needs in its own words, such "
                                 "as window(64)");
  // MLIR would take a word that follows for another op, and say that there is
  // none.
  const StringRef word = wordAt(loc);
  auto op = RegisteredOperationName::lookup(("heddle." + word).str(),
                                            parser.getContext());
  if (!word.empty() && word != "loc" && !(op && isOfSchedules(*op)) &&
      (!beginsLine(loc.getPointer()) || llvm::is_contained(allWords(), word)))
    return parser.emitError(loc)
           << "takes no '" << word << "' here: not every op has each clause";
  if (succeeded(parser.parseOptionalLParen()))
    return parser.emitError(loc, "takes nothing in parentheses here");
  if (succeeded(parser.parseOptionalComma()))
    return parser.emitError(loc, "takes no list here");
  // A value that is not the next op's result, in the same line.
  const char *next = loc.getPointer();
  if (*next != '%' || beginsLine(next))
    return success();
  const char *end = next + 1;
  while (llvm::isAlnum(*end) || StringRef("_$.-").contains(*end))
    ++end;
  StringRef name(next, end - next);
  while (*end == ' ')
    ++end;
  if (*end == '=' || *end == ',' || *end == ':')
    return success();
  return parser.emitError(loc)
         << "expected the end of the op, found " << name << "; write `on "
         << name << "` if it is a cadence";
}

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

ParseResult mlir::heddle::parseResultName(OpAsmParser &parser,
                                          StringAttr &name) {
  if (parser.getNumResults() == 0)
    return success();
  StringRef written = parser.getResultName(0).first;
  if (!written.empty() && !llvm::isDigit(written.front()))
    name = parser.getBuilder().getStringAttr(written);
  return success();
}

ParseResult mlir::heddle::parseAttended(OpAsmParser &parser,
                                        SmallVectorImpl<Operand> &until,
                                        SmallVectorImpl<Operand> &pairs,
                                        UnitAttr &atOnce, ArrayAttr &layers,
                                        Region &scores) {
  auto parenthesised = [&](SmallVectorImpl<Operand> &operands) -> ParseResult {
    return failure(parser.parseLParen() ||
                   parseValue(parser, operands.emplace_back()) ||
                   parser.parseRParen());
  };
  auto parsePairs = [&]() -> ParseResult {
    SMLoc loc = parser.getCurrentLocation();
    if (succeeded(parser.parseOptionalKeyword("pairs")))
      return parenthesised(pairs);
    InFlightDiagnostic error = parser.emitError(
        loc, until.empty() ? "expected dense, pairs(%value) or "
                             "dense until(%cadence) then pairs(%value)"
                           : "expected pairs(%value)");
    Operand value;
    StringRef word;
    if (OptionalParseResult bare = parser.parseOptionalOperand(value);
        bare.has_value() && succeeded(*bare))
      return error << "; write pairs(" << value.name << ')';
    if (failed(parser.parseOptionalKeyword(&word)))
      return error;
    if (isValueOp(parser, word))
      return error << "; give " << word << " a line of its own, %" << word
                   << " = " << word << " ..., and write pairs(%" << word << ')';
    SmallVector<StringRef> words = {"pairs"};
    if (until.empty())
      words.push_back("dense");
    return suggesting(std::move(error), word, words);
  };
  if (failed(parser.parseOptionalKeyword("dense")) && parsePairs())
    return failure();
  while (succeeded(parser.parseOptionalKeyword("until")))
    if (parenthesised(until) || parser.parseKeyword("then") || parsePairs())
      return failure();
  FormReader reader(parser, "attend");
  bool now = false;
  reader.values = {
      {"in", [&] { return parseLayerRanges(parser, layers); }},
      {"scores", [&] { return parseScoreRegion(parser, scores); }}};
  reader.clause("at_once", now);
  reader.operand("in");
  reader.operand("scores");
  if (reader.finish())
    return failure();
  atOnce = now ? parser.getBuilder().getUnitAttr() : UnitAttr();
  return success();
}

void mlir::heddle::printAttended(OpAsmPrinter &printer, Operation *op,
                                 OperandRange, OperandRange, UnitAttr atOnce,
                                 ArrayAttr layers, Region &scores) {
  for (AttendOp::Stage stage : cast<AttendOp>(op).getStages()) {
    if (stage.pairs)
      printer << "pairs(" << stage.pairs << ')';
    else
      printer << "dense";
    if (stage.until)
      printer << " until(" << stage.until << ") then ";
  }
  if (atOnce)
    printer << " at_once";
  if (layers)
    printer << " in " << layersText(layers);
  printScores(printer, op, scores);
}

ParseResult mlir::heddle::parseScores(OpAsmParser &parser, Region &region) {
  if (failed(parser.parseOptionalKeyword("scores")))
    return success();
  return parseScoreRegion(parser, region);
}

void mlir::heddle::printScores(OpAsmPrinter &printer, Operation *,
                               Region &region) {
  if (region.empty())
    return;
  printer << " scores";
  printScoreRegion(printer, region);
}
