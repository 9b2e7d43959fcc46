//===- ProgramAssembly.cpp - Textual form of rows, keys, reuse, commit ----===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Forms.h"
#include "Verify.h"
#include "bundle/format/ManifestFields.h"

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
  reader.readCadence = [&] { return parseValue(parser, since.emplace()); };
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
  bundle::detail::Speller speller(bundle::detail::wordOf(value.kind));
  if (since) {
    printer << speller.text << "(since = " << since << ')';
    return;
  }
  bundle::detail::fieldsOfForm(speller, value);
  speller.close();
  printer << speller.text;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

ParseResult mlir::heddle::parseRecomputed(OpAsmParser &parser,
                                          std::optional<Operand> &rows,
                                          std::optional<Operand> &among,
                                          ExactAttr &exact, RatioAttr &ratio,
                                          RatioAttr &confidence,
                                          UnitAttr &alone) {
  Exact kind = Exact::All;
  for (Exact form : {Exact::Salient, Exact::LeastSimilar, Exact::SalientFfn})
    if (succeeded(parser.parseOptionalKeyword(spelled(form)))) {
      kind = form;
      break;
    }
  const bool share = kind == Exact::LeastSimilar;
  SmallVector<NamedArgument, 3> wanted = {
      {share ? "keep" : "below", [&] {
         return parseRatio(parser, share ? "keep" : "below", ratio,
                           share ? 1 : bundle::maxBelow, /*orNone=*/share,
                           share);
       }}};
  if (share) {
    wanted.push_back(
        {"among", [&] { return parseValue(parser, among.emplace()); }});
    wanted.push_back(
        {"confidence",
         [&] { return parseRatio(parser, "confidence", confidence); },
         /*required=*/false});
  }
  if (kind != Exact::All &&
      (parseArguments(parser, spelled(kind), nullptr, wanted) ||
       parser.parseKeyword("in")))
    return failure();
  exact = ExactAttr::get(parser.getContext(), kind);
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
  if (succeeded(parser.parseOptionalKeyword("alone")))
    alone = parser.getBuilder().getUnitAttr();
  return success();
}

void mlir::heddle::printRecomputed(OpAsmPrinter &printer, Operation *,
                                   Value rows, Value among, ExactAttr exact,
                                   RatioAttr ratio, RatioAttr confidence,
                                   UnitAttr alone) {
  if (ratio) {
    printer << spelled(exact.getValue()) << (among ? "(keep = " : "(below = ");
    printRatio(printer, ratio);
    if (among)
      printer << ", among = " << among;
    if (confidence) {
      printer << ", confidence = ";
      printRatio(printer, confidence);
    }
    printer << ") in ";
  }
  if (rows)
    printer << rows;
  else
    printer << "all";
  if (alone)
    printer << " alone";
}

ParseResult mlir::heddle::parseConfident(OpAsmParser &parser,
                                         IntegerAttr &count,
                                         IntegerAttr &near) {
  NamedArgument wanted[] = {
      {"near",
       [&]() -> ParseResult {
         int64_t value = 0;
         if (parseCount(parser, "the standard deviation `near`", value, 1,
                        bundle::maxNear))
           return failure();
         near = parser.getBuilder().getI64IntegerAttr(value);
         return success();
       },
       /*required=*/false}};
  return parseArguments(
      parser, "confident", [&] { return parseCount(parser, count); }, wanted);
}

void mlir::heddle::printConfident(OpAsmPrinter &printer, Operation *,
                                  IntegerAttr count, IntegerAttr near) {
  printer << '(' << count.getInt();
  if (near)
    printer << ", near = " << near.getInt();
  printer << ')';
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

//===----------------------------------------------------------------------===//
// Reuse, commit
//===----------------------------------------------------------------------===//

ParseResult
mlir::heddle::parseCommitRule(AsmParser &parser, CommitRuleAttr &rule,
                              llvm::function_ref<ParseResult()> between) {
  bundle::CommitRule value;
  FormReader reader(parser, "commit");
  bundle::detail::form(reader, value);
  if (reader.finish() || between())
    return failure();
  bool passes = false;
  while (true) {
    if (!value.revokes() && succeeded(parser.parseOptionalKeyword("revoke"))) {
      RatioAttr bound;
      NamedArgument below = {"below", [&] {
                               return parseRatio(parser, "below", bound, 1,
                                                 /*orNone=*/false,
                                                 /*share=*/false);
                             }};
      if (parseArguments(parser, "revoke", nullptr, below))
        return failure();
      value.revokeBelow = bound.getValue();
      continue;
    }
    if (!value.edits() && succeeded(parser.parseOptionalKeyword("edit"))) {
      RatioAttr bound;
      NamedArgument wanted[] = {
          {"above",
           [&] {
             return parseRatio(parser, "above", bound, 1, /*orNone=*/false,
                               /*share=*/false);
           }},
          {"further",
           [&] {
             return parseCount(parser, "the number of further passes",
                               value.furtherPasses, 1, bundle::maxSteps);
           },
           /*required=*/false}};
      if (parseArguments(parser, "edit", nullptr, wanted))
        return failure();
      value.editAbove = bound.getValue();
      continue;
    }
    if (!passes && succeeded(parser.parseOptionalKeyword("passes"))) {
      NamedArgument least = {"at_least", [&]() -> ParseResult {
                               return parseCount(parser, "the number of passes",
                                                 value.leastPasses, 1,
                                                 bundle::maxSteps);
                             }};
      if (parseArguments(parser, "passes", nullptr, least))
        return failure();
      passes = true;
      continue;
    }
    if (!value.verifies() && succeeded(parser.parseOptionalKeyword("verify"))) {
      NamedArgument drafts = {"drafts", [&]() -> ParseResult {
                                return parseCount(
                                    parser, "the number of drafts",
                                    value.drafts, 1, bundle::maxDrafts);
                              }};
      if (parseArguments(parser, "verify", nullptr, drafts))
        return failure();
      continue;
    }
    if (value.stopAtEos || failed(parser.parseOptionalKeyword("stop")))
      break;
    if (parser.parseLParen() || parser.parseKeyword("eos"))
      return failure();
    value.stopAtEos = true;
    value.narrows = succeeded(parser.parseOptionalComma());
    if ((value.narrows && parser.parseKeyword("narrowing")) ||
        parser.parseRParen())
      return failure();
  }
  rule = CommitRuleAttr::get(parser.getContext(), value);
  return success();
}

void mlir::heddle::printCommitRule(AsmPrinter &printer, CommitRuleAttr rule,
                                   llvm::function_ref<void()> between) {
  const bundle::CommitRule value = rule.getValue();
  bundle::detail::Speller speller;
  bundle::detail::form(speller, value);
  speller.close();
  printer << speller.text;
  between();
  if (value.revokes())
    printer << " revoke(below = " << bundle::detail::spell(value.revokeBelow)
            << ')';
  if (value.edits()) {
    printer << " edit(above = " << bundle::detail::spell(value.editAbove);
    if (value.furtherPasses > 0)
      printer << ", further = " << value.furtherPasses;
    printer << ')';
  }
  if (value.leastPasses != 1)
    printer << " passes(at_least = " << value.leastPasses << ')';
  if (value.verifies())
    printer << " verify(drafts = " << value.drafts << ')';
  if (value.stopAtEos)
    printer << (value.narrows ? " stop(eos, narrowing)" : " stop(eos)");
}

ParseResult mlir::heddle::parseCommitted(OpAsmParser &parser,
                                         CommitRuleAttr &rule,
                                         std::optional<Operand> &within,
                                         SmallVectorImpl<Operand> &on) {
  return parseCommitRule(parser, rule, [&] {
    if (succeeded(parser.parseOptionalKeyword("within")) &&
        (parser.parseLParen() || parseValue(parser, within.emplace()) ||
         parser.parseRParen()))
      return ParseResult(failure());
    return parseOnCadences(parser, on);
  });
}

void mlir::heddle::printCommitted(OpAsmPrinter &printer, Operation *op,
                                  CommitRuleAttr rule, Value within,
                                  OperandRange on) {
  printCommitRule(printer, rule, [&] {
    if (within)
      printer << " within(" << within << ')';
    printOnCadences(printer, op, on);
  });
}

ParseResult mlir::heddle::parseReused(OpAsmParser &parser, UnitAttr &kv,
                                      ReusedAttentionAttr &attention,
                                      UnitAttr &ffn, UnitAttr &beforeRope,
                                      std::optional<Operand> &inside,
                                      std::optional<Operand> &on,
                                      std::optional<Operand> &refreshed,
                                      RatioAttr &keep) {
  UnitAttr yes = parser.getBuilder().getUnitAttr();
  auto option = [&](StringRef word) -> FailureOr<bool> {
    if (failed(parser.parseOptionalLParen()))
      return false;
    if (parser.parseKeyword(word) || parser.parseRParen())
      return failure();
    return true;
  };
  auto keepAs = [&](ReusedAttention kind, SMLoc loc) -> ParseResult {
    if (attention)
      return parser.emitError(loc, "attention is kept once: as context, as "
                                   "output or outside of a set");
    attention = ReusedAttentionAttr::get(parser.getContext(), kind);
    return success();
  };
  auto parseRefreshed = [&]() -> ParseResult {
    const StringRef similar = spelled(Exact::LeastSimilar);
    if (succeeded(parser.parseOptionalKeyword(similar))) {
      NamedArgument share = {"keep", [&] {
                               return parseRatio(parser, "keep", keep, 1,
                                                 /*orNone=*/true);
                             }};
      return failure(parseArguments(parser, similar, nullptr, share) ||
                     parser.parseKeyword("in") ||
                     parseValue(parser, refreshed.emplace()));
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
      return keepAs(ReusedAttention::Output, loc);
    if (word == "context") {
      FailureOr<bool> propagating = option("propagating");
      if (failed(propagating))
        return failure();
      return keepAs(*propagating ? ReusedAttention::Propagated
                                 : ReusedAttention::Context,
                    loc);
    }
    if (word == "attention") {
      NamedArgument wanted[] = {
          {"outside", [&] { return parseValue(parser, inside.emplace()); }},
          {"on", [&] { return parseValue(parser, on.emplace()); }},
          {"refresh", parseRefreshed, /*required=*/false}};
      return failure(
          failed(keepAs(ReusedAttention::Outside, loc)) ||
          failed(parseArguments(parser, "attention", nullptr, wanted)));
    }
    return suggesting(
        parser.emitError(loc, "what is reused is kv, context, "
                              "context(propagating), output, attention(outside "
                              "= %set, on = %cadence) or ffn"),
        word, {"kv", "context", "output", "attention", "ffn"});
  };
  return parser.parseCommaSeparatedList(part);
}

void mlir::heddle::printReused(OpAsmPrinter &printer, Operation *, UnitAttr kv,
                               ReusedAttentionAttr attention, UnitAttr ffn,
                               UnitAttr beforeRope, Value inside, Value on,
                               Value refreshed, RatioAttr keep) {
  SmallVector<std::string> parts;
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
  case ReusedAttention::Outside: {
    std::string text;
    llvm::raw_string_ostream stream(text);
    stream << "attention(outside = ";
    printer.printOperand(inside, stream);
    stream << ", on = ";
    printer.printOperand(on, stream);
    if (refreshed) {
      stream << ", refresh = ";
      if (keep)
        stream << spelled(Exact::LeastSimilar)
               << "(keep = " << bundle::detail::spell(keep.getValue())
               << ") in ";
      printer.printOperand(refreshed, stream);
    }
    stream << ')';
    parts.push_back(text);
    break;
  }
  }
  if (ffn)
    parts.push_back("ffn");
  llvm::interleaveComma(parts, printer.getStream());
}
