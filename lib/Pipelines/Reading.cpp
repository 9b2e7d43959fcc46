//===- Reading.cpp - Texts of schedules, with all their mistakes ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Pipelines/Reading.h"

#include "bundle/NearestWord.h"
#include "heddle/Dialect/Heddle/IR/Heddle.h"
#include "heddle/Pipelines/Pipelines.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace mlir::heddle;

namespace {

/// The operation of schedules whose name is most like `word`, or "".
StringRef nearestOperation(MLIRContext *context, StringRef word) {
  SmallVector<StringRef> names;
  for (RegisteredOperationName op : context->getRegisteredOperations())
    if (isOfSchedules(op))
      names.push_back(op.stripDialect());
  return ::heddle::bundle::nearestOf(word, names);
}

/// Says what to write to errors of MLIR's own. `found`: the value or word that
/// one is about, or "".
void noteNearest(Diagnostic &error, StringRef found) {
  const std::string text = error.str();
  StringRef word = text;
  const bool isWord = !found.empty() && llvm::isAlpha(found.front());
  if (word == "expected ')'" && (isWord || found.starts_with("%"))) {
    error.attachNote() << "is a comma missing before '" << found << "'?";
    return;
  }
  if (word.contains("expected 'on'") && isWord) {
    error.attachNote() << "'" << found
                       << "' stands here; clauses have one order, and `on` "
                          "with a cadence's value is the last";
    return;
  }
  if (word.contains("expected SSA operand")) {
    error.attachNote() << "values begin with %, such as %cols; an op whose "
                          "value is used has a line of its own";
    return;
  }
  if (word.contains("expected 'on'")) {
    error.attachNote() << "write when: 'on' and a cadence's value, such as on "
                          "%refresh";
    return;
  }
  if (word.starts_with("custom op 'schedule' is unknown")) {
    error.attachNote() << "write 'heddle.schedule'";
    return;
  }
  if (!word.consume_front("custom op '") || !word.contains("' is unknown"))
    return;
  word = word.take_until([](char c) { return c == '\''; });
  word.consume_front("heddle.");
  StringRef nearest = nearestOperation(error.getLocation()->getContext(), word);
  if (!nearest.empty())
    error.attachNote() << "did you mean '" << nearest << "'?";
}

} // namespace

/// The value or word that an operation begins with.
static StringRef firstWord(StringRef operation) {
  return operation.take_until(
      [](char c) { return c == ' ' || c == '=' || c == ':'; });
}

Location mlir::heddle::locationAt(MLIRContext *context, StringRef text,
                                  StringRef name, size_t offset) {
  StringRef before = text.take_front(offset);
  return FileLineColLoc::get(context, name, before.count('\n') + 1,
                             offset - (before.rfind('\n') + 1) + 1);
}

// After an error the text is parsed once more without the operations that
// errors were about, so that several are found.
Reading::Reading(llvm::MemoryBufferRef buffer, MLIRContext *context)
    : context(context), name(buffer.getBufferIdentifier()),
      text(buffer.getBuffer().str()) {
  StringRef(text).split(lines, '\n');
  size_t longest = 0;
  for (StringRef line : lines)
    longest = std::max(longest, line.size());
  blanks.assign(longest, ' ');
  const bool hasSchedules = StringRef(text).contains("schedule");
  constexpr int mostRounds = 10;
  for (int round = 0; round < mostRounds; ++round) {
    newLines.clear();
    if (parse(/*first=*/round == 0)) {
      good = round == 0 && succeeded(verifyAll());
      return;
    }
    if (!hasSchedules || newLines.empty() ||
        !llvm::all_of(newLines,
                      [&](unsigned line) { return dropOperationAt(line); }))
      return;
  }
}

StringRef Reading::kept() const {
  return sources->getMemoryBuffer(sources->getMainFileID())->getBuffer();
}

bool Reading::parse(bool first) {
  sources = std::make_unique<llvm::SourceMgr>();
  sources->AddNewSourceBuffer(
      llvm::MemoryBuffer::getMemBufferCopy(llvm::join(lines, "\n"), name),
      llvm::SMLoc());
  state = AsmParserState();
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
      return success(!first);
    auto place = dyn_cast<FileLineColLoc>(diagnostic.getLocation());
    if (!place || place.getLine() == 0 || place.getLine() > lines.size())
      return success(!first);
    if (std::optional<Location> end = endOfUnfinished(diagnostic, place)) {
      sayUnfinished(diagnostic, place, *end);
      return success(); // said there
    }
    StringRef at = lines[place.getLine() - 1].drop_front(std::min<size_t>(
        place.getColumn() - 1, lines[place.getLine() - 1].size()));
    auto inWord = [](char c) {
      return llvm::isAlnum(c) || StringRef("%_$.-").contains(c);
    };
    StringRef value = at.take_while(inWord);
    if (!said.insert({place.getLine(), place.getColumn()}).second)
      return success();
    newLines.push_back(place.getLine());
    if (lost.contains(value))
      return success(); // it follows from another
    // What is missing is missed behind the word before.
    noteNearest(diagnostic, at.ltrim(' ').take_while(inWord));
    if (diagnostic.str() == "expected operation name in quotes")
      noteBrace(diagnostic);
    if (diagnostic.str() == "use of undeclared SSA value name")
      noteValue(diagnostic, value);
    return failure(); // the next handler prints it
  });
  // Verified apart, for all that is wrong.
  ParserConfig config(context, /*verifyAfterParse=*/false);
  result = ModuleOp::create(UnknownLoc::get(context));
  if (failed(parseAsmSourceFile(*sources, result->getBody(), config, &state))) {
    result = nullptr;
    return false;
  }
  // As parseSourceFile() has it.
  Block &body = *result->getBody();
  if (llvm::hasSingleElement(body))
    if (auto only = dyn_cast<ModuleOp>(body.front())) {
      only->remove();
      result = only;
    }
  keepNames();
  return true;
}

/// Sets of positions are called in plans, bundles and explanations as they are
/// here.
void Reading::keepNames() {
  for (const AsmParserState::OperationDefinition &op : state.getOpDefs()) {
    if (op.resultGroups.size() != 1 || op.op->getNumResults() != 1 ||
        !isa<PositionsType>(op.op->getResult(0).getType()))
      continue;
    const llvm::SMRange at = op.resultGroups.front().definition.loc;
    StringRef value(
        at.Start.getPointer(),
        static_cast<size_t>(at.End.getPointer() - at.Start.getPointer()));
    // %0 is no name.
    if (value.consume_front("%") && !value.empty() &&
        !llvm::isDigit(value.front()))
      setWrittenName(op.op, value);
  }
}

/// Where the operation ends that an error at `place` is about, if that is the
/// beginning of another one: what is missing at the end of a line is missed in
/// the next.
std::optional<Location> Reading::endOfUnfinished(const Diagnostic &error,
                                                 FileLineColLoc place) const {
  const unsigned line = place.getLine() - 1;
  StringRef begun = lines[line].ltrim();
  if (!beginsOperation(begun))
    return std::nullopt;
  const size_t column = place.getColumn() - 1;
  const size_t indent = lines[line].size() - begun.size();
  const size_t named = indent + firstWord(begun).size();
  const std::string said = error.str();
  StringRef text = said;
  bool ofAnother = false;
  if (column == indent) {
    // What operations say of their own first word is theirs.
    ofAnother = text.starts_with("custom op '") &&
                !text.contains("' is unknown") &&
                !text.contains(" is now written ");
  } else if (begun.starts_with("%")) {
    // The value's name was taken for an operand.
    const size_t equals = lines[line].find('=');
    ofAnother = column >= named && column <= equals &&
                lines[line].slice(named, equals).trim().empty();
  }
  unsigned before = line;
  StringRef code;
  while (before > 0 && code.empty())
    code = lines[--before].split("//").first.rtrim();
  if (!ofAnother || code.empty())
    return std::nullopt;
  return FileLineColLoc::get(context, name, before + 1, code.size() + 1);
}

/// Says at `end` what an error says at `place`, where the next operation
/// begins.
void Reading::sayUnfinished(const Diagnostic &error, FileLineColLoc place,
                            Location end) const {
  const std::string text = error.str();
  StringRef line = lines[place.getLine() - 1], begun = line.ltrim();
  const bool atWord = place.getColumn() - 1 == line.size() - begun.size();
  // Not what was made of a name that belongs to the next.
  if (!atWord || StringRef(text).contains("undeclared SSA value name"))
    emitError(end) << "this operation has no end: the next one begins in line "
                   << place.getLine() << ", with " << firstWord(begun);
  else
    emitError(end) << text;
}

/// Says which brace has no other.
void Reading::noteBrace(Diagnostic &error) const {
  SmallVector<size_t> open;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '/' && StringRef(text).substr(at).starts_with("//"))
      at = std::min(text.find('\n', at), text.size());
    else if (text[at] == '{')
      open.push_back(at);
    else if (text[at] == '}' && open.empty())
      return void(error.attachNote(locationAt(context, text, name, at))
                  << "this '}' closes nothing");
    else if (text[at] == '}')
      open.pop_back();
  }
  if (!open.empty())
    error.attachNote(locationAt(context, text, name, open.front()))
        << "this '{' has no '}'";
}

/// Says which value was probably meant.
void Reading::noteValue(Diagnostic &error, StringRef value) const {
  SmallVector<StringRef> made;
  for (StringRef line : lines)
    if (line = line.ltrim(); line.starts_with("%"))
      made.push_back(firstWord(line));
  StringRef nearest = ::heddle::bundle::nearestOf(value, made);
  if (nearest == value)
    error.attachNote() << "a value is made in a line above its use";
  else if (!nearest.empty())
    error.attachNote() << "did you mean " << nearest << "?";
}

/// Whether the line is one that an operation of a schedule begins with, and
/// not the rest of one.
bool Reading::beginsOperation(StringRef line) const {
  line = line.ltrim();
  if (line.starts_with("%"))
    return line.contains('=');
  line.consume_front("heddle.");
  StringRef word =
      line.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
  return llvm::any_of(context->getRegisteredOperations(),
                      [&](RegisteredOperationName op) {
                        return isOfSchedules(op) && op.stripDialect() == word;
                      }) ||
         line.starts_with("}");
}

/// Empties the lines of the operation that has this one (from 1). False where
/// the rest would not be what it is with the operation.
bool Reading::dropOperationAt(unsigned line) {
  size_t first = line - 1;
  size_t end = first + 1;
  auto isEmpty = [&](size_t i) {
    return lines[i].split("//").first.trim().empty();
  };
  while (first > 0 && !beginsOperation(lines[first]) && !isEmpty(first))
    --first;
  while (end < lines.size() && !beginsOperation(lines[end]) && !isEmpty(end))
    ++end;
  for (size_t i = first; i < end; ++i) {
    if (lines[i].contains('{') || lines[i].contains('}'))
      return false;
    if (StringRef made = lines[i].ltrim(); made.starts_with("%"))
      lost.insert(firstWord(made));
    lines[i] = StringRef(blanks).take_front(lines[i].size());
  }
  return true;
}

/// Each operation by itself, if they are not all good.
LogicalResult Reading::verifyAll() {
  DenseSet<Location> told;
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
    return success(diagnostic.getSeverity() == DiagnosticSeverity::Error &&
                   !told.insert(diagnostic.getLocation()).second);
  });
  if (succeeded(verify(*result)))
    return success();
  for (auto schedule : result->getOps<ScheduleOp>())
    // The generic form may leave out the region.
    if (schedule->getNumRegions() && !schedule.getBodyRegion().empty())
      for (Operation &op : *schedule.getBody())
        (void)verify(&op);
  return failure();
}

LogicalResult mlir::heddle::checkSchedules(ModuleOp module) {
  for (Operation &op : *module.getBody())
    if (!isa<ScheduleOp>(op))
      return success();
  if (module.getBody()->empty())
    return success();
  OwningOpRef<ModuleOp> copy = module.clone();
  PassManager pm(module.getContext());
  populateSchedulePipeline(pm);
  populatePlanPipeline(pm);
  return pm.run(*copy);
}
