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
  if (succeeded(parser.parseOptionalKeyword("positions")))
    return wasWritten(parser, loc, "union positions %a, %b", "union %a, %b");
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

ParseResult mlir::heddle::parsePositions(OpAsmParser &parser,
                                         PositionsKindAttr &kind,
                                         IntegerAttr &count,
                                         std::optional<Operand> &since) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  (void)parser.parseOptionalKeyword(&word);
  bundle::Positions value;
  value.kind = PositionsKind::Union;
  SmallVector<std::string> all;
  for (int i = 0; i < int(PositionsKind::Union); ++i) {
    all.push_back(bundle::detail::wordOf(PositionsKind(i)));
    if (StringRef(all.back()).split('(').first == word)
      value.kind = PositionsKind(i);
  }
  if (value.isMadeOfSets()) {
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
  if (StringRef(all[size_t(value.kind)]).ends_with("(block)") &&
      (parser.parseLParen() || parser.parseKeyword("block") ||
       parser.parseRParen()))
    return failure();
  FormReader reader(parser, "set of positions");
  reader.setOwner(word);
  reader.values["since"] = valueOf(parser, since);
  bundle::detail::fieldsOfForm(reader, value);
  if (reader.finish())
    return failure();
  kind = PositionsKindAttr::get(parser.getContext(), value.kind);
  count = parser.getBuilder().getI64IntegerAttr(value.count);
  return success();
}

void mlir::heddle::printPositions(OpAsmPrinter &printer, Operation *,
                                  PositionsKindAttr kind, IntegerAttr count,
                                  Value since) {
  bundle::Positions value;
  value.kind = kind.getValue();
  value.count = count ? count.getInt() : 0;
  FormSpeller speller(bundle::detail::wordOf(value.kind));
  speller.values = textsOf(printer, {{"since", since}});
  bundle::detail::fieldsOfForm(speller, value);
  speller.close();
  printer << speller.text;
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

static std::string cadencesText(OpAsmPrinter &printer, OperandRange on) {
  return llvm::join(
      llvm::map_range(
          on, [&](Value each) { return textsOf(printer, {{"", each}})[""]; }),
      " and ");
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

ParseResult mlir::heddle::parseRecomputed(
    OpAsmParser &parser, std::optional<Operand> &rows,
    std::optional<Operand> &among, SmallVectorImpl<Operand> &on,
    ExactAttr &exact, RatioAttr &ratio, RatioAttr &confidence, UnitAttr &alone,
    UnitAttr &unseen, ArrayAttr &layers) {
  bundle::Pass value;
  for (Exact form : {Exact::Salient, Exact::LeastSimilar, Exact::SalientFfn})
    if (succeeded(parser.parseOptionalKeyword(spelled(form)))) {
      value.exact = form;
      break;
    }
  FormReader reader(parser, "recompute");
  reader.setOwner(spelled(value.exact));
  reader.values = {{"among", valueOf(parser, among)},
                   {"on", cadencesOf(parser, on)},
                   {"in", [&] { return parseLayerRanges(parser, layers); }}};
  bundle::detail::comparison(reader, value);
  if (reader.finish() ||
      (value.exact != Exact::All && parser.parseKeyword("in")))
    return failure();
  if (failed(parser.parseOptionalKeyword("all"))) {
    SMLoc loc = parser.getCurrentLocation();
    OptionalParseResult found = parser.parseOptionalOperand(rows.emplace());
    if (found.has_value() && failed(*found))
      return failure();
    StringRef word;
    if (!found.has_value()) {
      (void)parser.parseOptionalKeyword(&word);
      return suggesting(
          parser.emitError(loc, "expected all, %rows, salient(...), "
                                "salient_ffn(...) or least_similar(...) in "
                                "rows"),
          word, {"all", "salient", "salient_ffn", "least_similar"});
    }
  }
  clausesOf(reader, value);
  if (reader.finish())
    return failure();
  MLIRContext *context = parser.getContext();
  auto ratioOf = [&](bundle::Ratio found) {
    return RatioAttr::get(context, found.num, found.den);
  };
  exact = ExactAttr::get(context, value.exact);
  if (value.exact != Exact::All)
    ratio = ratioOf(value.comparesContexts() ? value.below : value.keep);
  if (value.confidence.num > 0)
    confidence = ratioOf(value.confidence);
  alone = value.alone ? UnitAttr::get(context) : UnitAttr();
  unseen = value.unseen ? UnitAttr::get(context) : UnitAttr();
  return success();
}

bundle::Pass mlir::heddle::comparisonOf(Exact exact, RatioAttr ratio,
                                        RatioAttr confidence) {
  bundle::Pass value;
  value.exact = exact;
  if (ratio)
    (value.comparesContexts() ? value.below : value.keep) = ratio.getValue();
  if (confidence)
    value.confidence = confidence.getValue();
  return value;
}

void mlir::heddle::printRecomputed(OpAsmPrinter &printer, Operation *,
                                   Value rows, Value among, OperandRange on,
                                   ExactAttr exact, RatioAttr ratio,
                                   RatioAttr confidence, UnitAttr alone,
                                   UnitAttr unseen, ArrayAttr layers) {
  bundle::Pass value = comparisonOf(exact.getValue(), ratio, confidence);
  value.alone = static_cast<bool>(alone);
  value.unseen = static_cast<bool>(unseen);
  FormSpeller speller;
  auto values = textsOf(printer, {{"among", among}, {"rows", rows}});
  if (value.exact != Exact::All) {
    speller.text = spelled(value.exact);
    speller.values = values;
    bundle::detail::comparison(speller, value);
    speller.close();
    speller.text += " in ";
  }
  speller.text += rows ? values["rows"] : "all";
  if (!on.empty())
    values["on"] = cadencesText(printer, on);
  if (layers)
    values["in"] = layersText(layers);
  speller.values = std::move(values);
  clausesOf(speller, value);
  printer << speller.text;
}

/// `(32, near = 10)`
ParseResult mlir::heddle::parseConfident(OpAsmParser &parser,
                                         IntegerAttr &count,
                                         IntegerAttr &near) {
  bundle::Positions value;
  value.kind = PositionsKind::Confident;
  FormReader reader(parser, "set of positions");
  reader.setOwner(spelled(value.kind));
  bundle::detail::numbersOf(reader, value);
  if (reader.finish())
    return failure();
  count = parser.getBuilder().getI64IntegerAttr(value.count);
  if (value.near > 0)
    near = parser.getBuilder().getI64IntegerAttr(value.near);
  return success();
}

void mlir::heddle::printConfident(OpAsmPrinter &printer, Operation *,
                                  IntegerAttr count, IntegerAttr near) {
  bundle::Positions value;
  value.kind = PositionsKind::Confident;
  value.count = count.getInt();
  value.near = near ? near.getInt() : 0;
  FormSpeller speller;
  bundle::detail::numbersOf(speller, value);
  speller.close();
  printer << speller.text;
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
                                          bundle::CommitRule &rule) {
  FormReader reader(parser, "commit");
  bundle::detail::form(reader, rule);
  clausesOf(reader, rule);
  return reader.finish();
}

void mlir::heddle::printCommitRule(AsmPrinter &printer,
                                   const bundle::CommitRule &rule) {
  FormSpeller speller;
  bundle::detail::form(speller, rule);
  speller.close();
  clausesOf(speller, rule);
  printer << speller.text;
}

ParseResult mlir::heddle::parseCommitted(OpAsmParser &parser,
                                         CommitRuleAttr &rule,
                                         std::optional<Operand> &within,
                                         SmallVectorImpl<Operand> &on) {
  bundle::CommitRule value;
  FormReader reader(parser, "commit");
  reader.values = {{"within", valueOf(parser, within)},
                   {"on", cadencesOf(parser, on)}};
  bundle::detail::form(reader, value);
  clausesOf(reader, value);
  if (reader.finish())
    return failure();
  rule = CommitRuleAttr::get(parser.getContext(), value);
  return success();
}

void mlir::heddle::printCommitted(OpAsmPrinter &printer, Operation *,
                                  CommitRuleAttr rule, Value within,
                                  OperandRange on) {
  FormSpeller speller;
  const bundle::CommitRule value = rule.getValue();
  bundle::detail::form(speller, value);
  speller.close();
  speller.values = textsOf(printer, {{"within", within}});
  if (!on.empty())
    speller.values["on"] = cadencesText(printer, on);
  clausesOf(speller, value);
  printer << speller.text;
}

ParseResult mlir::heddle::parseReused(OpAsmParser &parser, UnitAttr &kv,
                                      ReusedAttentionAttr &attention,
                                      UnitAttr &ffn, UnitAttr &beforeRope,
                                      std::optional<Operand> &inside,
                                      std::optional<Operand> &on,
                                      std::optional<Operand> &refreshed,
                                      RatioAttr &keep) {
  auto parseRefreshed = [&]() -> ParseResult {
    const StringRef similar = spelled(Exact::LeastSimilar);
    if (succeeded(parser.parseOptionalKeyword(similar))) {
      bundle::Reuse value;
      FormReader reader(parser, "reuse");
      reader.setOwner(similar);
      bundle::detail::refreshed(reader, value);
      if (reader.finish() || parser.parseKeyword("in"))
        return failure();
      keep =
          RatioAttr::get(parser.getContext(), value.keep.num, value.keep.den);
      return parseValue(parser, refreshed.emplace());
    }
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
  ReusedParts parts;
  FormReader reader(parser, "reuse");
  reader.values = {{"outside", valueOf(parser, inside)},
                   {"on", valueOf(parser, on)},
                   {"refresh", parseRefreshed}};
  reader.check = [&](SMLoc loc) -> ParseResult {
    if (parts.context + parts.output + parts.outside > 1)
      return parser.emitError(loc, "attention is kept once: as context, as "
                                   "output or outside of a set");
    return success();
  };
  clausesOf(reader, parts);
  auto part = [&]() -> ParseResult {
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
  };
  if (parser.parseCommaSeparatedList(part))
    return failure();
  UnitAttr yes = parser.getBuilder().getUnitAttr();
  kv = parts.kv ? yes : UnitAttr();
  ffn = parts.ffn ? yes : UnitAttr();
  beforeRope = parts.beforeRope ? yes : UnitAttr();
  if (parts.context || parts.output || parts.outside)
    attention = ReusedAttentionAttr::get(
        parser.getContext(), parts.propagating ? ReusedAttention::Propagated
                             : parts.context   ? ReusedAttention::Context
                             : parts.output    ? ReusedAttention::Output
                                               : ReusedAttention::Outside);
  return success();
}

void mlir::heddle::printReused(OpAsmPrinter &printer, Operation *, UnitAttr kv,
                               ReusedAttentionAttr attention, UnitAttr ffn,
                               UnitAttr beforeRope, Value inside, Value on,
                               Value refreshed, RatioAttr keep) {
  const ReusedAttention kept =
      attention ? attention.getValue() : ReusedAttention::None;
  ReusedParts parts;
  parts.kv = static_cast<bool>(kv);
  parts.beforeRope = static_cast<bool>(beforeRope);
  parts.propagating = kept == ReusedAttention::Propagated;
  parts.context = kept == ReusedAttention::Context || parts.propagating;
  parts.output = kept == ReusedAttention::Output;
  parts.outside = kept == ReusedAttention::Outside;
  parts.ffn = static_cast<bool>(ffn);
  FormSpeller speller;
  speller.between = ", ";
  speller.values = textsOf(
      printer, {{"outside", inside}, {"on", on}, {"refresh", refreshed}});
  if (keep) {
    FormSpeller similar(spelled(Exact::LeastSimilar).str());
    bundle::Reuse value;
    value.keep = keep.getValue();
    bundle::detail::refreshed(similar, value);
    similar.close();
    std::string &rows = speller.values["refresh"];
    rows = similar.text + " in " + rows;
  }
  clausesOf(speller, parts);
  printer << speller.text;
}
