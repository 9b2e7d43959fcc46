//===- ProgramAssembly.cpp - Textual form of rows, keys, reuse, commit ----===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

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

/// The forms that a schedule's and a plan's sets have in common. `since` reads
/// what follows `committed(since`.
static ParseResult parseForm(AsmParser &parser, StringRef word, SMLoc loc,
                             PositionsKind &kind, int64_t &count,
                             llvm::function_ref<ParseResult()> since) {
  auto ofBlock = [&] {
    return failure(parser.parseLParen() || parser.parseKeyword("block") ||
                   parser.parseRParen());
  };
  if (word == "before") {
    kind = PositionsKind::BeforeBlock;
    return ofBlock();
  }
  if (word == "from") {
    kind = PositionsKind::FromBlock;
    return ofBlock();
  }
  if (word == "undecoded") {
    kind = PositionsKind::Undecoded;
    if (failed(parser.parseOptionalLParen()))
      return success();
    return failure(parser.parseKeyword("first") || parser.parseEqual() ||
                   parseCount(parser, "the number of positions", count) ||
                   parser.parseRParen());
  }
  if (word == "committed") {
    kind = PositionsKind::Committed;
    if (parser.parseLParen())
      return failure();
    if (succeeded(parser.parseOptionalKeyword("last"))) {
      if (parser.parseEqual() ||
          parseCount(parser, "the number of steps", count))
        return failure();
    } else {
      SMLoc here = parser.getCurrentLocation();
      if (failed(parser.parseOptionalKeyword("since")))
        return parser.emitError(here, "committed(last = steps) or "
                                      "committed(since ...) a cadence");
      if (since())
        return failure();
    }
    return parser.parseRParen();
  }
  for (auto plain :
       {PositionsKind::All, PositionsKind::Prompt, PositionsKind::Response,
        PositionsKind::Block, PositionsKind::Decoded, PositionsKind::Next})
    if (word == stringifyPositionsKind(plain)) {
      kind = plain;
      return success();
    }
  return suggesting(
      parser.emitError(loc)
          << (word.empty() ? "expected a set of positions"
                           : "unknown set of positions '" + word.str() + "'")
          << ": one of all, prompt, response, block, before(block), "
             "from(block), decoded, undecoded, undecoded(first = n), "
             "committed(last = n), committed(since ...), next",
      word,
      {"all", "prompt", "response", "block", "before", "from", "decoded",
       "undecoded", "committed", "next"});
}

/// Prints the same; `since` what follows `committed(since`.
static void printForm(AsmPrinter &printer, PositionsKind kind, int64_t count,
                      llvm::function_ref<void()> since) {
  switch (kind) {
  case PositionsKind::BeforeBlock:
    printer << "before(block)";
    return;
  case PositionsKind::FromBlock:
    printer << "from(block)";
    return;
  case PositionsKind::Undecoded:
    printer << "undecoded";
    if (count > 0)
      printer << "(first = " << count << ')';
    return;
  case PositionsKind::Committed:
    printer << "committed(";
    if (count > 0) {
      printer << "last = " << count;
    } else {
      printer << "since";
      since();
    }
    printer << ')';
    return;
  default:
    printer << stringifyPositionsKind(kind);
  }
}

ParseResult mlir::heddle::parsePositions(OpAsmParser &parser,
                                         PositionsKindAttr &kind,
                                         IntegerAttr &count,
                                         std::optional<Operand> &since) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  (void)parser.parseOptionalKeyword(&word);
  auto cadence = [&] {
    return failure(parser.parseEqual() || parseValue(parser, since.emplace()));
  };
  PositionsKind value;
  int64_t number = 0;
  if (parseForm(parser, word, loc, value, number, cadence))
    return failure();
  kind = PositionsKindAttr::get(parser.getContext(), value);
  count = parser.getBuilder().getI64IntegerAttr(number);
  return success();
}

void mlir::heddle::printPositions(OpAsmPrinter &printer, Operation *,
                                  PositionsKindAttr kind, IntegerAttr count,
                                  Value since) {
  printForm(printer, kind.getValue(), count ? count.getInt() : 0,
            [&] { printer << " = " << since; });
}

ParseResult mlir::heddle::parsePositionSet(AsmParser &parser,
                                           PositionsKindAttr &kind,
                                           IntegerAttr &count, ArrayAttr &of,
                                           CadenceAttr &cadence) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  (void)parser.parseOptionalKeyword(&word);
  std::optional<PositionsKind> made = symbolizePositionsKind(word);
  int64_t number = 0;
  SmallVector<Attribute> parts;
  PositionsKind value;
  auto part = [&]() -> ParseResult {
    StringAttr name;
    if (parser.parseSymbolName(name))
      return failure();
    parts.push_back(FlatSymbolRefAttr::get(name));
    return success();
  };
  bool neighbors = made == PositionsKind::Neighbors;
  if (neighbors || made == PositionsKind::Last) {
    value = *made;
    if (parser.parseLParen() ||
        parseCount(parser,
                   neighbors ? "the number of neighbors"
                             : "the number of positions",
                   number) ||
        parser.parseRParen() || parser.parseKeyword("of") || part() ||
        (neighbors && (parser.parseKeyword("in") || part())))
      return failure();
  } else if (made && isMadeOfSets(*made)) {
    value = *made;
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, part))
      return failure();
    if (value == PositionsKind::Fixed &&
        (parser.parseKeyword("on") || parseCadence(parser, cadence)))
      return failure();
  } else if (parseForm(parser, word, loc, value, number,
                       [&] { return parseCadence(parser, cadence); })) {
    return failure();
  }
  kind = PositionsKindAttr::get(parser.getContext(), value);
  count = parser.getBuilder().getI64IntegerAttr(number);
  of = parser.getBuilder().getArrayAttr(parts);
  return success();
}

void mlir::heddle::printPositionSet(AsmPrinter &printer, Operation *,
                                    PositionsKindAttr kind, IntegerAttr count,
                                    ArrayAttr of, CadenceAttr cadence) {
  PositionsKind value = kind.getValue();
  printForm(printer, value, count ? count.getInt() : 0, [&] {
    printer << ' ';
    if (cadence)
      printCadence(printer, cadence);
  });
  if (!isMadeOfSets(value))
    return;
  if (value == PositionsKind::Neighbors || value == PositionsKind::Last) {
    printer << '(' << count.getInt() << ") of ";
    llvm::interleave(
        of, printer.getStream(),
        [&](Attribute part) { printer.printAttributeWithoutType(part); },
        " in ");
    return;
  }
  printer << '(';
  llvm::interleaveComma(of, printer.getStream(), [&](Attribute part) {
    printer.printAttributeWithoutType(part);
  });
  printer << ')';
  if (value == PositionsKind::Fixed && cadence) {
    printer << " on ";
    printCadence(printer, cadence);
  }
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// `salient(below = r) in`, `salient_ffn(below = r) in`,
/// `least_similar(keep = r, among = ...) in` or nothing, and then the rows.
/// `among` and `rows` read a set of positions.
static ParseResult parseExact(AsmParser &parser, ExactAttr &exact,
                              RatioAttr &ratio,
                              llvm::function_ref<ParseResult()> among,
                              llvm::function_ref<ParseResult()> rows) {
  Exact kind = Exact::All;
  for (Exact form : {Exact::Salient, Exact::LeastSimilar, Exact::SalientFfn})
    if (succeeded(parser.parseOptionalKeyword(stringifyExact(form)))) {
      kind = form;
      break;
    }
  auto below = [&] {
    return parseRatio(parser, "below", ratio, bundle::maxBelow);
  };
  auto keep = [&] { return parseRatio(parser, "keep", ratio); };
  NamedArgument bound[] = {{"below", below}};
  NamedArgument share[] = {{"keep", keep}, {"among", among}};
  MutableArrayRef<NamedArgument> wanted =
      kind == Exact::LeastSimilar ? share : MutableArrayRef(bound);
  if (kind != Exact::All &&
      parseNamedArguments(parser, stringifyExact(kind), wanted))
    return failure();
  exact = ExactAttr::get(parser.getContext(), kind);
  if (kind != Exact::All && parser.parseKeyword("in"))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("all")))
    return success();
  return rows();
}

static void printExact(AsmPrinter &printer, ExactAttr exact, RatioAttr ratio,
                       llvm::function_ref<void()> among) {
  if (!exact || exact.getValue() == Exact::All)
    return;
  bool share = exact.getValue() == Exact::LeastSimilar;
  printer << stringifyExact(exact.getValue())
          << (share ? "(keep = " : "(below = ");
  printRatio(printer, ratio);
  if (share) {
    printer << ", among = ";
    among();
  }
  printer << ") in ";
}

static ParseResult parseAlone(AsmParser &parser, UnitAttr &alone) {
  if (succeeded(parser.parseOptionalKeyword("alone")))
    alone = parser.getBuilder().getUnitAttr();
  return success();
}

ParseResult mlir::heddle::parseRecomputed(OpAsmParser &parser,
                                          std::optional<Operand> &rows,
                                          std::optional<Operand> &among,
                                          ExactAttr &exact, RatioAttr &ratio,
                                          UnitAttr &alone) {
  auto rowSet = [&]() -> ParseResult {
    SMLoc loc = parser.getCurrentLocation();
    OptionalParseResult found = parser.parseOptionalOperand(rows.emplace());
    if (found.has_value())
      return *found;
    StringRef word;
    (void)parser.parseOptionalKeyword(&word);
    return suggesting(parser.emitError(loc,
                                       "expected all, %rows, salient(...), "
                                       "salient_ffn(...) or "
                                       "least_similar(...) in rows"),
                      word, {"all", "salient", "salient_ffn", "least_similar"});
  };
  auto amongSet = [&] { return parseValue(parser, among.emplace()); };
  return failure(parseExact(parser, exact, ratio, amongSet, rowSet) ||
                 parseAlone(parser, alone));
}

void mlir::heddle::printRecomputed(OpAsmPrinter &printer, Operation *,
                                   Value rows, Value among, ExactAttr exact,
                                   RatioAttr ratio, UnitAttr alone) {
  printExact(printer, exact, ratio, [&] { printer << among; });
  if (rows)
    printer << rows;
  else
    printer << "all";
  if (alone)
    printer << " alone";
}

ParseResult mlir::heddle::parseAllOn(OpAsmParser &parser,
                                     std::optional<Operand> &allOn) {
  return failure(parser.parseKeyword("on") ||
                 parseValue(parser, allOn.emplace()) ||
                 parser.parseKeyword("then"));
}

void mlir::heddle::printAllOn(OpAsmPrinter &printer, Operation *, Value allOn) {
  printer << "on " << allOn << " then";
}

ParseResult mlir::heddle::parseOnCadences(OpAsmParser &parser,
                                          SmallVectorImpl<Operand> &on) {
  if (failed(parser.parseOptionalKeyword("on")))
    return success();
  do {
    if (parseValue(parser, on.emplace_back()))
      return failure();
  } while (succeeded(parser.parseOptionalKeyword("and")));
  return success();
}

void mlir::heddle::printOnCadences(OpAsmPrinter &printer, Operation *,
                                   OperandRange on) {
  if (on.empty())
    return;
  printer << " on ";
  llvm::interleave(
      on, printer.getStream(), [&](Value cadence) { printer << cadence; },
      " and ");
}

ParseResult mlir::heddle::parseOnCadences(AsmParser &parser, ArrayAttr &on) {
  SmallVector<Attribute> cadences;
  if (succeeded(parser.parseOptionalKeyword("on"))) {
    do {
      CadenceAttr cadence;
      if (parseCadence(parser, cadence))
        return failure();
      cadences.push_back(cadence);
    } while (succeeded(parser.parseOptionalKeyword("and")));
  }
  on = parser.getBuilder().getArrayAttr(cadences);
  return success();
}

void mlir::heddle::printOnCadences(AsmPrinter &printer, Operation *,
                                   ArrayAttr on) {
  if (!on || on.empty())
    return;
  printer << " on ";
  llvm::interleave(
      on.getAsRange<CadenceAttr>(), printer.getStream(),
      [&](CadenceAttr cadence) { printCadence(printer, cadence); }, " and ");
}

ParseResult mlir::heddle::parsePass(AsmParser &parser, ArrayAttr &on,
                                    FlatSymbolRefAttr &rows, ExactAttr &exact,
                                    RatioAttr &ratio, FlatSymbolRefAttr &among,
                                    UnitAttr &alone) {
  if (parseOnCadences(parser, on))
    return failure();
  auto set = [&](FlatSymbolRefAttr &name) -> ParseResult {
    StringAttr text;
    if (parser.parseSymbolName(text))
      return failure();
    name = FlatSymbolRefAttr::get(text);
    return success();
  };
  auto rowSet = [&] { return set(rows); };
  auto amongSet = [&] { return set(among); };
  return failure(parser.parseKeyword("computes") ||
                 parseExact(parser, exact, ratio, amongSet, rowSet) ||
                 parseAlone(parser, alone));
}

void mlir::heddle::printPass(AsmPrinter &printer, Operation *op, ArrayAttr on,
                             FlatSymbolRefAttr rows, ExactAttr exact,
                             RatioAttr ratio, FlatSymbolRefAttr among,
                             UnitAttr alone) {
  printOnCadences(printer, op, on);
  printer << " computes ";
  printExact(printer, exact, ratio,
             [&] { printer.printAttributeWithoutType(among); });
  if (rows)
    printer.printAttributeWithoutType(rows);
  else
    printer << "all";
  if (alone)
    printer << " alone";
}

//===----------------------------------------------------------------------===//
// Reuse, commit
//===----------------------------------------------------------------------===//

ParseResult mlir::heddle::parseCommitKind(AsmParser &parser,
                                          CommitKindAttr &kind,
                                          RatioAttr &ratio, IntegerAttr &count,
                                          UnitAttr &lastAlone) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  (void)parser.parseOptionalKeyword(&word);
  std::optional<CommitKind> found = symbolizeCommitKind(word);
  if (!found)
    return suggesting(
        parser.emitError(loc, "what is committed is said by quota, "
                              "above(confidence), factor(number), "
                              "best(number), timesteps, even, "
                              "even_above(confidence) or random_order"),
        word,
        {"quota", "above", "factor", "best", "timesteps", "even", "even_above",
         "random_order"});
  kind = CommitKindAttr::get(parser.getContext(), *found);
  if (!ruleOf(*found).hasRatio() && *found != CommitKind::Best)
    return success();
  if (parser.parseLParen())
    return failure();
  if (*found == CommitKind::Best) {
    int64_t number = 0;
    if (parseCount(parser, "the number of tokens", number))
      return failure();
    count = parser.getBuilder().getI64IntegerAttr(number);
  } else if (parseRatio(
                 parser,
                 ruleOf(*found).isAbove()
                     ? "the confidence of " + stringifyCommitKind(*found).str()
                     : std::string("the number of factor"),
                 ratio, ruleOf(*found).isAbove() ? 1 : bundle::maxFactor)) {
    return failure();
  }
  if (*found == CommitKind::Factor && succeeded(parser.parseOptionalComma())) {
    if (parser.parseKeyword("last_alone"))
      return failure();
    lastAlone = parser.getBuilder().getUnitAttr();
  }
  return parser.parseRParen();
}

void mlir::heddle::printCommitKind(AsmPrinter &printer, Operation *,
                                   CommitKindAttr kind, RatioAttr ratio,
                                   IntegerAttr count, UnitAttr lastAlone) {
  printer << stringifyCommitKind(kind.getValue());
  if (!ratio && !count)
    return;
  printer << '(';
  if (ratio)
    printRatio(printer, ratio);
  else
    printer << count.getInt();
  printer << (lastAlone ? ", last_alone)" : ")");
}

ParseResult mlir::heddle::parseRunEnd(AsmParser &parser, IntegerAttr &passes,
                                      UnitAttr &stop, UnitAttr &narrows) {
  UnitAttr yes = parser.getBuilder().getUnitAttr();
  while (true) {
    if (!passes && succeeded(parser.parseOptionalKeyword("passes"))) {
      int64_t number = 0;
      if (parser.parseLParen() || parser.parseKeyword("at_least") ||
          parser.parseEqual() ||
          parseCount(parser, "the number of passes", number) ||
          parser.parseRParen())
        return failure();
      passes = parser.getBuilder().getI64IntegerAttr(number);
      continue;
    }
    if (stop || failed(parser.parseOptionalKeyword("stop")))
      return success();
    if (parser.parseLParen() || parser.parseKeyword("eos"))
      return failure();
    stop = yes;
    if (succeeded(parser.parseOptionalComma())) {
      if (parser.parseKeyword("narrowing"))
        return failure();
      narrows = yes;
    }
    if (parser.parseRParen())
      return failure();
  }
}

void mlir::heddle::printRunEnd(AsmPrinter &printer, Operation *,
                               IntegerAttr passes, UnitAttr stop,
                               UnitAttr narrows) {
  if (passes)
    printer << " passes(at_least = " << passes.getInt() << ')';
  if (stop)
    printer << (narrows ? " stop(eos, narrowing)" : " stop(eos)");
}

ParseResult mlir::heddle::parseReused(AsmParser &parser, UnitAttr &kv,
                                      ReusedAttentionAttr &attention,
                                      UnitAttr &ffn, UnitAttr &beforeRope) {
  UnitAttr yes = parser.getBuilder().getUnitAttr();
  auto option = [&](StringRef word) -> FailureOr<bool> {
    if (failed(parser.parseOptionalLParen()))
      return false;
    if (parser.parseKeyword(word) || parser.parseRParen())
      return failure();
    return true;
  };
  auto keep = [&](ReusedAttention kind, SMLoc loc) -> ParseResult {
    if (attention)
      return parser.emitError(loc, "attention is kept once: as context or as "
                                   "output");
    attention = ReusedAttentionAttr::get(parser.getContext(), kind);
    return success();
  };
  auto part = [&]() -> ParseResult {
    SMLoc loc = parser.getCurrentLocation();
    StringRef word;
    (void)parser.parseOptionalKeyword(&word);
    if ((word == "kv" && kv) || (word == "ffn" && ffn))
      return parser.emitError(loc) << "'" << word << "' is given twice";
    if (word == "kv") {
      kv = yes;
      FailureOr<bool> early = option("before_rope");
      if (succeeded(early) && *early)
        beforeRope = yes;
      return failure(failed(early));
    }
    if (word == "ffn") {
      ffn = yes;
      return success();
    }
    if (word == "output")
      return keep(ReusedAttention::Output, loc);
    if (word == "context") {
      FailureOr<bool> propagating = option("propagating");
      if (failed(propagating))
        return failure();
      return keep(*propagating ? ReusedAttention::Propagated
                               : ReusedAttention::Context,
                  loc);
    }
    return suggesting(parser.emitError(loc,
                                       "what is reused is kv, context, "
                                       "context(propagating), output or ffn"),
                      word, {"kv", "context", "output", "ffn"});
  };
  return parser.parseCommaSeparatedList(part);
}

void mlir::heddle::printReused(AsmPrinter &printer, Operation *, UnitAttr kv,
                               ReusedAttentionAttr attention, UnitAttr ffn,
                               UnitAttr beforeRope) {
  SmallVector<StringRef> parts;
  if (kv)
    parts.push_back(beforeRope ? "kv(before_rope)" : "kv");
  switch (attention ? attention.getValue() : ReusedAttention::None) {
  case ReusedAttention::None:
    break;
  case ReusedAttention::Context:
    parts.push_back("context");
    break;
  case ReusedAttention::Propagated:
    parts.push_back("context(propagating)");
    break;
  case ReusedAttention::Output:
    parts.push_back("output");
    break;
  }
  if (ffn)
    parts.push_back("ffn");
  llvm::interleaveComma(parts, printer.getStream());
}
