//===- ProgramAssembly.cpp - Textual form of rows, keys, reuse, commit ----===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Clauses.h"
#include "Verify.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cstring>

using namespace mlir;
using namespace mlir::heddle;
namespace bundle = ::heddle::bundle;

using Operand = OpAsmParser::UnresolvedOperand;

//===----------------------------------------------------------------------===//
// Positions
//===----------------------------------------------------------------------===//

/// "a set of pairs", "a set of positions", "a cadence".
static StringRef describe(Type type) {
  return isa<PairsType>(type)       ? "a set of pairs"
         : isa<PositionsType>(type) ? "a set of positions"
                                    : "a cadence";
}

ParseResult mlir::heddle::parseSetOperands(OpAsmParser &parser,
                                           SmallVectorImpl<Operand> &operands,
                                           SmallVectorImpl<Type> &types,
                                           Type &result) {
  MLIRContext *context = parser.getContext();
  const Type pairs = PairsType::get(context);
  const Type positions = PositionsType::get(context);
  result = pairs;
  SMLoc loc = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalKeyword("positions"))) {
    const char *name = parser.getNameLoc().getPointer();
    const StringRef prefix = std::strncmp(name, "heddle.", 7) ? "" : "heddle.";
    const StringRef op = name[prefix.size()] == 'u' ? "union" : "intersect";
    return wasWritten(parser, loc, prefix + op + " positions %a, %b",
                      op + " %a, %b");
  }
  // Without one, P5 says so.
  const char *next = loc.getPointer();
  if (*next != '}' && !beginsLine(next)) {
    do {
      if (parseValue(parser, operands.emplace_back()))
        return failure();
    } while (succeeded(parser.parseOptionalComma()));
  }

  /// The value, if its type is the one.
  auto valueOf = [&](const Operand &operand, Type type) {
    ScopedDiagnosticHandler quiet(context, [](Diagnostic &) {});
    SmallVector<Value, 1> value;
    (void)parser.resolveOperand(operand, type, value);
    return value.empty() ? Value() : value.front();
  };
  Value first;
  for (const Operand &operand : operands) {
    Value value;
    for (Type type : {pairs, positions})
      if (!value)
        value = valueOf(operand, type);
    if (!value)
      return parser.emitError(operand.location)
             << "expected sets of pairs or of positions, and " << operand.name
             << " is a cadence";
    // What stands for a value that is not made above is in no block.
    if (Operation *op = value.getDefiningOp(); op && !op->getBlock())
      return parser.emitError(operand.location,
                              "use of undeclared SSA value name");
    if (!first) {
      first = value;
      result = value.getType();
    } else if (value.getType() != result) {
      return parser.emitError(operand.location)
                 .append(operand.name, " is ", describe(value.getType()),
                         ", and ", operands.front().name, " is ",
                         describe(result),
                         "; sets that are united or intersected are all of "
                         "pairs or all of positions")
                 .attachNote(first.getLoc())
             << operands.front().name << " is made here";
    }
  }
  types.assign(operands.size(), result);
  return success();
}

void mlir::heddle::printSetOperands(OpAsmPrinter &printer, Operation *,
                                    OperandRange operands, TypeRange, Type) {
  printer << operands;
}

ParseResult mlir::heddle::parsePositionSet(AsmParser &parser,
                                           bundle::Positions &set,
                                           Operands operands) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  (void)parser.parseOptionalKeyword(&word);
  set.kind = PositionsKind::Union;
  SmallVector<std::string> all;
  for (int i = 0; i < int(PositionsKind::Union); ++i) {
    all.push_back(bundle::detail::wordOf(PositionsKind(i)));
    if (StringRef(all.back()).split('(').first == word)
      set.kind = PositionsKind(i);
  }
  if (set.isMadeOfSets()) {
    auto words = llvm::map_to_vector(all, [](const std::string &each) {
      return StringRef(each).split('(').first;
    });
    return suggesting(
        parser.emitError(loc)
            << (word.empty() ? "expected a set of positions"
                             : "unknown set of positions '" + word.str() + "'")
            << ": one of " << llvm::join(all, ", "),
        word, words);
  }
  if (StringRef(all[size_t(set.kind)]).ends_with("(block)") &&
      (parser.parseLParen() || parser.parseKeyword("block") ||
       parser.parseRParen()))
    return failure();
  FormReader reader(parser, "set of positions");
  reader.setOwner(word);
  // An attribute says that there is a cadence, and not which.
  operands.try_emplace("since", [&] { return parser.parseKeyword("cadence"); });
  reader.values = std::move(operands);
  bundle::detail::fieldsOfForm(reader, set);
  return reader.finish();
}

void mlir::heddle::printPositionSet(AsmPrinter &printer,
                                    const bundle::Positions &set,
                                    Texts operands) {
  FormSpeller speller(bundle::detail::wordOf(set.kind));
  operands.try_emplace("since", "cadence");
  speller.values = std::move(operands);
  bundle::detail::fieldsOfForm(speller, set);
  speller.close();
  printer << speller.text;
}

ParseResult mlir::heddle::parsePositionSet(OpAsmParser &parser,
                                           PositionSetAttr &set,
                                           std::optional<Operand> &since) {
  return parseStruct(parser, set, [&](bundle::Positions &value) {
    return parsePositionSet(parser, value, {{"since", valueOf(parser, since)}});
  });
}

void mlir::heddle::printPositionSet(OpAsmPrinter &printer, Operation *,
                                    PositionSetAttr set, Value since) {
  printPositionSet(printer, set.getValue(),
                   textsOf(printer, {{"since", since}}));
}

/// `%a and %b`
static std::function<ParseResult()> cadencesOf(OpAsmParser &parser,
                                               SmallVectorImpl<Operand> &on) {
  return [&]() -> ParseResult {
    do {
      if (parseValue(parser, on.emplace_back()))
        return failure();
    } while (succeeded(parser.parseOptionalKeyword("and")));
    return success();
  };
}

static void addCadences(OpAsmPrinter &printer, OperandRange on, Texts &texts) {
  if (!on.empty())
    texts["on"] = llvm::join(
        llvm::map_range(
            on, [&](Value each) { return textsOf(printer, {{"", each}})[""]; }),
        " and ");
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

ParseResult mlir::heddle::parseRowRule(AsmParser &parser, bundle::Pass &rule,
                                       Operands operands) {
  for (Exact form : {Exact::Salient, Exact::LeastSimilar, Exact::SalientFfn})
    if (succeeded(parser.parseOptionalKeyword(spelled(form)))) {
      rule.exact = form;
      break;
    }
  operands.try_emplace("rows", [&] { return parser.parseKeyword("all"); });
  FormReader reader(parser, "recompute");
  reader.setOwner(spelled(rule.exact));
  reader.values = std::move(operands);
  bundle::detail::comparison(reader, rule);
  if (reader.finish() ||
      (rule.exact != Exact::All && parser.parseKeyword("in")) ||
      reader.values["rows"]())
    return failure();
  clausesOf(reader, rule);
  return reader.finish();
}

void mlir::heddle::printRowRule(AsmPrinter &printer, const bundle::Pass &rule,
                                Texts operands) {
  operands.try_emplace("rows", "all");
  FormSpeller speller;
  speller.values = std::move(operands);
  if (rule.exact != Exact::All) {
    speller.text = spelled(rule.exact);
    bundle::detail::comparison(speller, rule);
    speller.close();
    speller.text += " in ";
  }
  speller.text += speller.values["rows"];
  clausesOf(speller, rule);
  printer << speller.text;
}

ParseResult mlir::heddle::parseRowRule(OpAsmParser &parser, RowRuleAttr &rule,
                                       std::optional<Operand> &rows,
                                       std::optional<Operand> &among,
                                       SmallVectorImpl<Operand> &on,
                                       ArrayAttr &layers) {
  auto parseRows = [&]() -> ParseResult {
    if (succeeded(parser.parseOptionalKeyword("all")))
      return success();
    SMLoc loc = parser.getCurrentLocation();
    OptionalParseResult found = parser.parseOptionalOperand(rows.emplace());
    if (found.has_value())
      return *found;
    StringRef word;
    (void)parser.parseOptionalKeyword(&word);
    return suggesting(
        parser.emitError(loc, "expected all, %rows, salient(...), "
                              "salient_ffn(...) or least_similar(...) in "
                              "rows"),
        word, {"all", "salient", "salient_ffn", "least_similar"});
  };
  return parseStruct(parser, rule, [&](bundle::Pass &value) {
    return parseRowRule(
        parser, value,
        {{"rows", parseRows},
         {"among", valueOf(parser, among)},
         {"on", cadencesOf(parser, on)},
         {"in", [&] { return parseLayerRanges(parser, layers); }}});
  });
}

void mlir::heddle::printRowRule(OpAsmPrinter &printer, Operation *,
                                RowRuleAttr rule, Value rows, Value among,
                                OperandRange on, ArrayAttr layers) {
  Texts operands = textsOf(printer, {{"among", among}, {"rows", rows}});
  addCadences(printer, on, operands);
  if (layers)
    operands["in"] = layersText(layers);
  printRowRule(printer, rule.getValue(), std::move(operands));
}

/// The numbers in parentheses of a set that is made of another.
static FailureOr<bundle::Positions> parseSetNumbers(OpAsmParser &parser,
                                                    PositionsKind kind) {
  bundle::Positions value;
  value.kind = kind;
  FormReader reader(parser, "set of positions");
  reader.setOwner(spelled(kind));
  bundle::detail::numbersOf(reader, value);
  if (reader.finish())
    return failure();
  return value;
}

static void printSetNumbers(OpAsmPrinter &printer, bundle::Positions value) {
  FormSpeller speller;
  bundle::detail::numbersOf(speller, value);
  speller.close();
  printer << speller.text;
}

/// `(32, near = 10)`
ParseResult mlir::heddle::parseConfident(OpAsmParser &parser,
                                         IntegerAttr &count,
                                         IntegerAttr &near) {
  FailureOr<bundle::Positions> value =
      parseSetNumbers(parser, PositionsKind::Confident);
  if (failed(value))
    return failure();
  count = parser.getBuilder().getI64IntegerAttr(value->count);
  if (value->near > 0)
    near = parser.getBuilder().getI64IntegerAttr(value->near);
  return success();
}

void mlir::heddle::printConfident(OpAsmPrinter &printer, Operation *,
                                  IntegerAttr count, IntegerAttr near) {
  bundle::Positions value;
  value.kind = PositionsKind::Confident;
  value.count = count.getInt();
  value.near = near ? near.getInt() : 0;
  printSetNumbers(printer, value);
}

/// `(share = 0.1)`
ParseResult mlir::heddle::parseAttended(OpAsmParser &parser, RatioAttr &share) {
  FailureOr<bundle::Positions> value =
      parseSetNumbers(parser, PositionsKind::Attended);
  if (failed(value))
    return failure();
  share =
      RatioAttr::get(parser.getContext(), value->share.num, value->share.den);
  return success();
}

void mlir::heddle::printAttended(OpAsmPrinter &printer, Operation *,
                                 RatioAttr share) {
  bundle::Positions value;
  value.kind = PositionsKind::Attended;
  value.share = share.getValue();
  printSetNumbers(printer, value);
}

ParseResult mlir::heddle::parseEverywhere(OpAsmParser &parser, Operand &value) {
  if (parseValue(parser, value))
    return failure();
  // K7: places are counted once for all layers.
  SMLoc loc = parser.getCurrentLocation();
  if (failed(parser.parseOptionalKeyword("in")))
    return success();
  return parser.emitError(
      loc, "names layers, and what is visible is so in all of them, whose "
           "lists, groups and blocks count the same places; say by `attend "
           "pairs(%set) in layers(...)` which keys some layers read, and by "
           "`recompute %rows in layers(...)` which rows they compute");
}

//===----------------------------------------------------------------------===//
// Reuse, commit
//===----------------------------------------------------------------------===//

ParseResult mlir::heddle::parseCommitRule(AsmParser &parser,
                                          bundle::CommitRule &rule,
                                          Operands operands) {
  FormReader reader(parser, "commit");
  reader.values = std::move(operands);
  bundle::detail::form(reader, rule);
  clausesOf(reader, rule);
  return reader.finish();
}

void mlir::heddle::printCommitRule(AsmPrinter &printer,
                                   const bundle::CommitRule &rule,
                                   Texts operands) {
  FormSpeller speller;
  bundle::detail::form(speller, rule);
  speller.close();
  speller.values = std::move(operands);
  clausesOf(speller, rule);
  printer << speller.text;
}

ParseResult mlir::heddle::parseCommitRule(OpAsmParser &parser,
                                          CommitRuleAttr &rule,
                                          std::optional<Operand> &within,
                                          SmallVectorImpl<Operand> &on) {
  return parseStruct(parser, rule, [&](bundle::CommitRule &value) {
    return parseCommitRule(
        parser, value,
        {{"within", valueOf(parser, within)}, {"on", cadencesOf(parser, on)}});
  });
}

void mlir::heddle::printCommitRule(OpAsmPrinter &printer, Operation *,
                                   CommitRuleAttr rule, Value within,
                                   OperandRange on) {
  Texts operands = textsOf(printer, {{"within", within}});
  addCadences(printer, on, operands);
  printCommitRule(printer, rule.getValue(), std::move(operands));
}

/// `least_similar(keep = 0.25)` behind its word.
static ParseResult parseRefreshed(AsmParser &parser, bundle::Reuse &rule) {
  FormReader reader(parser, "reuse");
  reader.setOwner(spelled(Exact::LeastSimilar));
  bundle::detail::refreshed(reader, rule);
  return reader.finish();
}

ParseResult mlir::heddle::parseReuseRule(AsmParser &parser, bundle::Reuse &rule,
                                         Operands operands, bool *beforeRope) {
  operands.try_emplace("refresh", [&] {
    return failure(parser.parseKeyword(spelled(Exact::LeastSimilar)) ||
                   parseRefreshed(parser, rule));
  });
  FormReader reader(parser, "reuse");
  reader.values = std::move(operands);
  ReusedAttention before = ReusedAttention::None;
  reader.check = [&](SMLoc loc) -> ParseResult {
    if (before != ReusedAttention::None && before != rule.attention)
      return parser.emitError(loc, "attention is kept once: as context, as "
                                   "output or outside of a set");
    before = rule.attention;
    return success();
  };
  clausesOf(reader, rule, beforeRope);
  return parser.parseCommaSeparatedList([&]() -> ParseResult {
    SMLoc loc = parser.getCurrentLocation();
    if (OptionalParseResult read = reader.readClause(); read.has_value())
      return *read;
    StringRef word;
    (void)parser.parseOptionalKeyword(&word);
    return suggesting(
        parser.emitError(loc, "what is reused is kv, context, "
                              "context(propagating), output, attention(outside "
                              "= %set, on = %cadence) or ffn"),
        word, {"kv", "context", "output", "attention", "ffn"});
  });
}

void mlir::heddle::printReuseRule(AsmPrinter &printer,
                                  const bundle::Reuse &rule, Texts operands,
                                  const bool *beforeRope) {
  if (rule.keep != bundle::Reuse().keep) {
    FormSpeller similar(spelled(Exact::LeastSimilar).str());
    bundle::detail::refreshed(similar, rule);
    similar.close();
    std::string &rows = operands["refresh"];
    rows = similar.text + (rows.empty() ? "" : " in ") + rows;
  }
  FormSpeller speller;
  speller.between = ", ";
  speller.values = std::move(operands);
  clausesOf(speller, rule, beforeRope);
  printer << speller.text;
}

ParseResult mlir::heddle::parseReuseRule(OpAsmParser &parser,
                                         ReuseRuleAttr &rule,
                                         UnitAttr &beforeRope,
                                         std::optional<Operand> &inside,
                                         std::optional<Operand> &on,
                                         std::optional<Operand> &refreshed) {
  return parseStruct(parser, rule, [&](bundle::Reuse &value) -> ParseResult {
    auto parseRefresh = [&]() -> ParseResult {
      const StringRef similar = spelled(Exact::LeastSimilar);
      if (succeeded(parser.parseOptionalKeyword(similar)))
        return failure(parseRefreshed(parser, value) ||
                       parser.parseKeyword("in") ||
                       parseValue(parser, refreshed.emplace()));
      SMLoc loc = parser.getCurrentLocation();
      OptionalParseResult found =
          parser.parseOptionalOperand(refreshed.emplace());
      if (found.has_value())
        return *found;
      StringRef word;
      (void)parser.parseOptionalKeyword(&word);
      return suggesting(
          parser.emitError(loc, "expected %rows, or least_similar(keep = r) in "
                                "%rows"),
          word, similar);
    };
    bool before = false;
    if (parseReuseRule(parser, value,
                       {{"outside", valueOf(parser, inside)},
                        {"on", valueOf(parser, on)},
                        {"refresh", parseRefresh}},
                       &before))
      return failure();
    if (before)
      beforeRope = parser.getBuilder().getUnitAttr();
    return success();
  });
}

void mlir::heddle::printReuseRule(OpAsmPrinter &printer, Operation *,
                                  ReuseRuleAttr rule, UnitAttr beforeRope,
                                  Value inside, Value on, Value refreshed) {
  const bool before = static_cast<bool>(beforeRope);
  printReuseRule(
      printer, rule.getValue(),
      textsOf(printer,
              {{"outside", inside}, {"on", on}, {"refresh", refreshed}}),
      &before);
}
