//===- Document.cpp - What the server knows of a file ---------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Document.h"

#include "Completion.h"
#include "heddle/Dialect/Heddle/IR/Heddle.h"
#include "heddle/Dialect/Heddle/IR/Reference.h"
#include "heddle/Pipelines/Compiler.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Regex.h"

using namespace heddle::editor;
using llvm::SmallVector;
using llvm::StringRef;
namespace lsp = llvm::lsp;

Document::Document(mlir::MLIRContext &context, lsp::URIForFile uri,
                   std::string text)
    : uri(std::move(uri)), source(std::move(text)), context(context) {
  mlir::ScopedDiagnosticHandler handler(
      &context, [&](mlir::Diagnostic &diagnostic) { addFinding(diagnostic); });
  if (std::string problem = mlir::heddle::textProblem(source.text());
      !problem.empty()) {
    Finding finding;
    finding.begin = finding.end = 0;
    finding.diagnostic.severity = lsp::DiagnosticSeverity::Error;
    finding.diagnostic.source = "heddle";
    finding.diagnostic.message = problem;
    findings.push_back(std::move(finding));
    return;
  }
  reading = std::make_unique<mlir::heddle::Reading>(
      llvm::MemoryBufferRef(source.text(), this->uri.file()), &context);
  if (reading->isGood())
    (void)mlir::heddle::checkSchedules(reading->module());
}

//===----------------------------------------------------------------------===//
// Diagnostics
//===----------------------------------------------------------------------===//

static lsp::DiagnosticSeverity severityOf(mlir::DiagnosticSeverity severity) {
  switch (severity) {
  case mlir::DiagnosticSeverity::Error:
    return lsp::DiagnosticSeverity::Error;
  case mlir::DiagnosticSeverity::Warning:
    return lsp::DiagnosticSeverity::Warning;
  case mlir::DiagnosticSeverity::Note:
  case mlir::DiagnosticSeverity::Remark:
    return lsp::DiagnosticSeverity::Information;
  }
  llvm_unreachable("no other severity");
}

/// What an error about `token` says to write in its place, or "".
static std::string replacementFor(StringRef token, StringRef message) {
  SmallVector<StringRef, 3> parts;
  // `20%`: 20 percent. Of keep: 20 percent.
  static const llvm::Regex quoted("found '([^']+)'; write ([^;,]+)$");
  static const llvm::Regex number("found ([0-9]+); write ([0-9]+ percent)$");
  // A cadence without on, pairs without parentheses.
  static const llvm::Regex clause("found (%[^;]+); write `([^`]+)`");
  static const llvm::Regex pairs("; write (pairs\\((%[^)]+)\\))$");
  for (const llvm::Regex *pattern : {&quoted, &number, &clause})
    if (pattern->match(message, &parts) && parts[1] == token)
      return parts[2].str();
  if (pairs.match(message, &parts) && parts[2] == token)
    return parts[1].str();
  return "";
}

void Document::addFinding(mlir::Diagnostic &diagnostic) {
  auto placeOf = [&](mlir::Location location) {
    auto place = location->findInstanceOf<mlir::FileLineColLoc>();
    return place ? source.offsetOf(place.getLine(), place.getColumn()) : 0;
  };
  Finding finding;
  finding.begin = placeOf(diagnostic.getLocation());
  finding.end = source.endOfWord(finding.begin);
  StringRef token = source.text().slice(finding.begin, finding.end);
  finding.diagnostic.range = source.rangeOf(finding.begin, finding.end);
  finding.diagnostic.severity = severityOf(diagnostic.getSeverity());
  finding.diagnostic.source = "heddle";
  finding.diagnostic.message = diagnostic.str();
  if (std::string text = replacementFor(token, finding.diagnostic.message);
      !text.empty())
    finding.replacements.push_back({finding.begin, finding.end, text});
  std::vector<lsp::DiagnosticRelatedInformation> notes;
  for (mlir::Diagnostic &note : diagnostic.getNotes()) {
    const std::string text = note.str();
    const size_t at = placeOf(note.getLocation());
    if (at == finding.begin)
      finding.diagnostic.message += "\n" + text;
    notes.emplace_back(
        lsp::Location(uri, source.rangeOf(at, source.endOfWord(at))), text);
    static const llvm::Regex meant("^(did you mean|write) '?([^'?]+)'?\\??$");
    SmallVector<StringRef, 3> parts;
    // MLIR says behind a word what it misses before the next one.
    if (at >= finding.begin &&
        source.text().slice(finding.begin, at).trim(' ').empty() &&
        meant.match(text, &parts))
      finding.replacements.push_back(
          {at, source.endOfWord(at), parts[2].str()});
  }
  if (!notes.empty())
    finding.diagnostic.relatedInformation = std::move(notes);
  findings.push_back(std::move(finding));
}

std::vector<lsp::Diagnostic> Document::diagnostics() const {
  std::vector<lsp::Diagnostic> all;
  for (const Finding &finding : findings)
    all.push_back(finding.diagnostic);
  return all;
}

std::vector<lsp::CodeAction>
Document::actions(const lsp::CodeActionParams &params) const {
  std::vector<lsp::CodeAction> actions;
  const size_t begin = source.offsetOf(params.range.start);
  const size_t end = source.offsetOf(params.range.end);
  for (const Finding &finding : findings) {
    if (finding.end < begin || finding.begin > end)
      continue;
    for (const auto &[from, to, text] : finding.replacements) {
      lsp::CodeAction action;
      action.title = "Write '" + text + "'";
      action.kind = lsp::CodeAction::kQuickFix.str();
      action.diagnostics = {finding.diagnostic};
      action.isPreferred = finding.replacements.size() == 1;
      action.edit.emplace().changes[uri.uri().str()] = {
          {source.rangeOf(from, to), text}};
      actions.push_back(std::move(action));
    }
  }
  return actions;
}

//===----------------------------------------------------------------------===//
// Values and operations
//===----------------------------------------------------------------------===//

size_t Document::offsetOf(llvm::SMLoc loc) const {
  // kept() has spaces for what was left out, so places are the text's.
  return static_cast<size_t>(loc.getPointer() - reading->kept().data());
}

lsp::Range Document::rangeOf(llvm::SMRange range) const {
  return source.rangeOf(offsetOf(range.Start), offsetOf(range.End));
}

std::optional<Document::Name> Document::nameAt(size_t offset) const {
  if (!reading || !reading->module())
    return std::nullopt;
  auto holds = [&](llvm::SMRange range) {
    return range.isValid() && offsetOf(range.Start) <= offset &&
           offset <= offsetOf(range.End);
  };
  using Definition = mlir::AsmParserState::SMDefinition;
  auto isNamed = [&](const Definition &definition) {
    return holds(definition.loc) || llvm::any_of(definition.uses, holds);
  };
  const mlir::AsmParserState &places = reading->places();
  for (const auto &op : places.getOpDefs()) {
    for (const auto &result : op.resultGroups)
      if (isNamed(result.definition))
        return Name{result.definition.loc, result.definition.uses, op.op};
    if (llvm::any_of(op.symbolUses, holds))
      return Name{op.loc, op.symbolUses, op.op};
  }
  for (const auto &block : places.getBlockDefs()) {
    if (isNamed(block.definition))
      return Name{block.definition.loc, block.definition.uses};
    for (const Definition &argument : block.arguments)
      if (isNamed(argument))
        return Name{argument.loc, argument.uses};
  }
  return std::nullopt;
}

std::vector<lsp::Location>
Document::definition(const lsp::TextDocumentPositionParams &params) const {
  std::optional<Name> name = nameAt(source.offsetOf(params.position));
  if (!name || !name->definition.isValid())
    return {};
  return {{uri, rangeOf(name->definition)}};
}

std::vector<lsp::Location>
Document::references(const lsp::ReferenceParams &params) const {
  std::optional<Name> name = nameAt(source.offsetOf(params.position));
  std::vector<lsp::Location> all;
  if (!name)
    return all;
  if (params.context.includeDeclaration && name->definition.isValid())
    all.emplace_back(uri, rangeOf(name->definition));
  for (llvm::SMRange use : name->uses)
    all.emplace_back(uri, rangeOf(use));
  return all;
}

std::vector<lsp::DocumentSymbol>
Document::symbols(const lsp::DocumentSymbolParams &) const {
  std::vector<lsp::DocumentSymbol> all;
  if (!reading || !reading->module())
    return all;
  for (const auto &op : reading->places().getOpDefs()) {
    auto schedule = llvm::dyn_cast<mlir::heddle::ScheduleOp>(op.op);
    if (!schedule)
      continue;
    lsp::DocumentSymbol &symbol =
        all.emplace_back(schedule.getSymName(), lsp::SymbolKind::Module,
                         rangeOf(op.scopeLoc), rangeOf(op.loc));
    for (const auto &part : reading->places().getOpDefs())
      if (part.op->getParentOp() == schedule)
        for (const auto &result : part.resultGroups)
          symbol.children.emplace_back(
              source.text().slice(offsetOf(result.definition.loc.Start),
                                  offsetOf(result.definition.loc.End)),
              lsp::SymbolKind::Variable, rangeOf(part.scopeLoc),
              rangeOf(result.definition.loc));
  }
  return all;
}

std::string Document::operationAt(size_t offset) const {
  const mlir::AsmParserState::OperationDefinition *innermost = nullptr;
  if (reading && reading->module())
    for (const auto &op : reading->places().getOpDefs()) {
      if (offsetOf(op.loc.Start) > offset || offsetOf(op.scopeLoc.End) < offset)
        continue;
      if (!innermost ||
          innermost->loc.Start.getPointer() < op.loc.Start.getPointer())
        innermost = &op;
    }
  if (innermost && !llvm::isa<mlir::heddle::ScheduleOp>(innermost->op))
    return innermost->op->getName().getStringRef().str();
  // It was left out: the first word of the line.
  StringRef text = source.text();
  StringRef line = text.take_front(text.find('\n', offset));
  StringRef word = operationOf(line.drop_front(line.rfind('\n') + 1));
  if (mlir::heddle::findOp(word))
    return ("heddle." + word).str();
  return innermost ? "heddle.schedule" : "";
}

std::optional<lsp::Hover>
Document::hover(const lsp::TextDocumentPositionParams &params) const {
  const size_t offset = source.offsetOf(params.position);
  const size_t begin = source.beginOfWord(offset);
  const size_t end = source.endOfWord(begin);
  StringRef token = source.text().slice(begin, end);
  lsp::Hover hover(source.rangeOf(begin, end));
  std::string &text = hover.contents.value;
  if (std::optional<Name> name = nameAt(offset); name && name->op) {
    if (!token.starts_with("%"))
      text = mlir::heddle::describeOp(token.substr(token.rfind('.') + 1));
    else if (name->op->getNumResults() > 0) {
      // The line that makes it says most.
      StringRef line =
          source.text().drop_front(offsetOf(name->definition.Start));
      std::string type;
      llvm::raw_string_ostream(type) << name->op->getResult(0).getType();
      text = ("`" + token + "`: `" + type + "`\n```mlir\n" +
              line.take_until([](char c) { return c == '\n'; }).rtrim() +
              "\n```\n")
                 .str();
    }
  } else if (!token.empty() && !token.starts_with("%")) {
    std::string op = operationAt(offset);
    StringRef name = op;
    if (name.consume_front("heddle.")) {
      StringRef plain = token;
      plain.consume_front("heddle.");
      // An op's name stands first in it; its words may be named like ops.
      StringRef before = source.text().take_front(begin).rtrim(" \t");
      const bool first =
          before.empty() || StringRef("\n={}").contains(before.back());
      text = plain == name &&
                     (first || mlir::heddle::describeWord(name, token).empty())
                 ? mlir::heddle::describeOp(name)
                 : mlir::heddle::describeWord(name, token);
    }
  }
  if (text.empty())
    return std::nullopt;
  return hover;
}

lsp::CompletionList
Document::complete(const lsp::CompletionParams &params) const {
  const size_t offset = source.offsetOf(params.position);
  const size_t begin = source.beginOfWord(offset);
  lsp::CompletionList list;
  for (Suggestion &suggestion :
       suggestAt(context, source.text().take_front(begin))) {
    lsp::CompletionItem item(suggestion.text, suggestion.kind);
    item.detail = suggestion.detail;
    if (!suggestion.documentation.empty())
      item.documentation = {lsp::MarkupKind::Markdown,
                            suggestion.documentation};
    // What was typed of it is replaced, % included.
    item.textEdit = {source.rangeOf(begin, offset), suggestion.text};
    list.items.push_back(std::move(item));
  }
  return list;
}
