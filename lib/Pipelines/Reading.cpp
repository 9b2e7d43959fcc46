//===- Reading.cpp - Texts of schedules, with all their mistakes ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Pipelines/Reading.h"

#include "Braces.h"
#include "Hints.h"
#include "bundle/NearestWord.h"
#include "heddle/Dialect/Heddle/IR/Heddle.h"
#include "heddle/Dialect/Heddle/IR/Reference.h"
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

/// Asking where a word may stand reads the text in front of it many times.
constexpr size_t mostAsked = size_t(64) << 10;

} // namespace

/// Whether a value's or a word's name may have the character.
static bool inWord(char c) {
  return llvm::isAlnum(c) || StringRef("%_$.-").contains(c);
}

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

std::optional<size_t> mlir::heddle::firstError(MLIRContext *context,
                                               StringRef text) {
  std::optional<size_t> first;
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &error) {
    if (first || error.getSeverity() != DiagnosticSeverity::Error)
      return;
    auto place = dyn_cast<FileLineColLoc>(error.getLocation());
    size_t offset = 0;
    for (unsigned line = 1; place && line < place.getLine(); ++line)
      offset = text.find('\n', offset) + 1;
    first =
        offset + (place && place.getColumn() > 0 ? place.getColumn() - 1 : 0);
  });
  ParserConfig config(context, /*verifyAfterParse=*/false);
  if (!parseSourceString<ModuleOp>(text, config) && !first)
    first = 0;
  return first;
}

// After an error the text is parsed once more without the operations that
// errors were about, so that several are found.
Reading::Reading(llvm::MemoryBufferRef buffer, MLIRContext *context)
    : context(context), name(buffer.getBufferIdentifier()),
      text(buffer.getBuffer().str()) {
  StringRef(text).split(lines, '\n');
  const bool hasSchedules = StringRef(text).contains("schedule");
  constexpr int mostRounds = 32;
  for (int round = 0; round < mostRounds; ++round) {
    newLines.clear();
    if (parse(/*first=*/round == 0)) {
      good = round == 0 && !mended && succeeded(verifyAll());
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

/// Where in the text an error is, or null.
FileLineColLoc Reading::placeOf(const Diagnostic &error) const {
  auto place = dyn_cast<FileLineColLoc>(error.getLocation());
  const bool inText = error.getSeverity() == DiagnosticSeverity::Error &&
                      place && place.getLine() > 0 &&
                      place.getLine() <= lines.size();
  return inText ? place : FileLineColLoc();
}

StringRef Reading::restOfLine(FileLineColLoc place) const {
  StringRef line = lines[place.getLine() - 1];
  return line.drop_front(std::min<size_t>(place.getColumn() - 1, line.size()));
}

/// Says which braces are missing or too many, and goes on with a text that has
/// them. False if there are none, or no room for one.
bool Reading::mendBraces() {
  if (mended)
    return false;
  SmallVector<BraceProblem> problems = braceProblems(text);
  if (problems.empty())
    return false;
  for (const BraceProblem &problem : problems) {
    {
      InFlightDiagnostic error =
          emitError(locationAt(context, text, name, problem.at));
      error << problem.message;
      if (problem.noteAt)
        error.attachNote(locationAt(context, text, name, *problem.noteAt))
            << problem.note;
    }
    StringRef before = StringRef(text).take_front(problem.at);
    StringRef &line = lines[before.count('\n')];
    size_t column = problem.at - (before.rfind('\n') + 1);
    std::string &changed = changedLines.emplace_back(line.str());
    // What stands there keeps its column.
    if (problem.missing && column < line.size() && line[column] != ' ' &&
        column > 0 && line[column - 1] == ' ')
      --column;
    if (column >= changed.size())
      changed += problem.missing;
    else if (!problem.missing || changed[column] == ' ')
      changed[column] = problem.missing ? problem.missing : ' ';
    line = changed;
  }
  newLines.clear();
  said.clear();
  return mended = true;
}

/// The text as it is read in this round.
Hints Reading::hints() const {
  return Hints(context, llvm::join(lines, "\n"), name);
}

/// Where in that text a place is.
size_t Reading::offsetOf(FileLineColLoc place) const {
  size_t offset = 0;
  for (StringRef line : ArrayRef(lines).take_front(place.getLine() - 1))
    offset += line.size() + 1;
  return offset + place.getColumn() - 1;
}

bool Reading::parse(bool first) {
  sources = std::make_unique<llvm::SourceMgr>();
  sources->AddNewSourceBuffer(
      llvm::MemoryBuffer::getMemBufferCopy(llvm::join(lines, "\n"), name),
      llvm::SMLoc());
  state = AsmParserState();
  // Said when all is read: what to write is found by reading.
  std::vector<Diagnostic> found;
  auto hear = [&](Diagnostic &diagnostic) {
    FileLineColLoc place = placeOf(diagnostic);
    if (!place) {
      if (first)
        found.push_back(std::move(diagnostic));
      return;
    }
    const std::optional<FileLineColLoc> end =
        endOfUnfinished(diagnostic, place);
    if (end) {
      Diagnostic there(*end, DiagnosticSeverity::Error);
      there << unfinished(diagnostic, place);
      std::swap(diagnostic, there);
      place = *end;
    }
    if (!said.insert({place.getLine(), place.getColumn()}).second)
      return;
    newLines.push_back(place.getLine());
    // Not what follows from another.
    if (end || !lost.contains(restOfLine(place).take_while(inWord)))
      found.push_back(std::move(diagnostic));
  };
  result = ModuleOp::create(UnknownLoc::get(context));
  bool good;
  {
    ScopedDiagnosticHandler handler(context, hear);
    // Verified apart, for all that is wrong.
    ParserConfig config(context, /*verifyAfterParse=*/false);
    good = succeeded(
        parseAsmSourceFile(*sources, result->getBody(), config, &state));
  }
  if (!good && first && mendBraces())
    return parse(first);
  for (Diagnostic &diagnostic : found) {
    if (FileLineColLoc place = placeOf(diagnostic)) {
      addNotes(diagnostic, place);
      diagnostic = hints().reword(std::move(diagnostic), offsetOf(place));
    }
    context->getDiagEngine().emit(std::move(diagnostic));
  }
  if (!good || mended) {
    result = nullptr;
    return good;
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
std::optional<FileLineColLoc>
Reading::endOfUnfinished(const Diagnostic &error, FileLineColLoc place) const {
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

/// What an error says at `place`, where the next operation begins, of the end
/// of the one before.
std::string Reading::unfinished(const Diagnostic &error,
                                FileLineColLoc place) const {
  std::string text = error.str();
  StringRef line = lines[place.getLine() - 1], begun = line.ltrim();
  const bool atWord = place.getColumn() - 1 == line.size() - begun.size();
  // Not what was made of a name that belongs to the next.
  if (!atWord || StringRef(text).contains("undeclared SSA value name"))
    return ("this operation has no end: the next one begins in line " +
            Twine(place.getLine()) + ", with " + firstWord(begun))
        .str();
  return text;
}

/// Says what to write.
void Reading::addNotes(Diagnostic &error, FileLineColLoc place) const {
  // What is missing is missed behind the word before.
  StringRef rest = restOfLine(place).ltrim(' ');
  StringRef word = rest.take_while(inWord);
  const unsigned line = place.getLine() - 1;
  const bool said = llvm::any_of(error.getNotes(), [](Diagnostic &note) {
    const std::string text = note.str();
    return StringRef(text).starts_with("did you mean ") ||
           StringRef(text).starts_with("write ");
  });
  if (!said && text.size() <= mostAsked) {
    std::string before;
    for (StringRef above : ArrayRef(lines).take_front(line))
      before += (above + "\n").str();
    before += lines[line].drop_back(rest.size());
    StringRef meant = meantBy(before, word);
    if (!meant.empty()) {
      error.attachNote(locationAt(context, text, name, before.size()))
          << "did you mean '" << meant << "'?";
      return;
    }
  }
  if (StringRef(error.str()).starts_with("custom op 'schedule' is unknown"))
    error.attachNote() << "write 'heddle.schedule'";
  if (error.str() == "use of undeclared SSA value name")
    noteValue(error, restOfLine(place).take_while(inWord));
}

/// Of the words that may stand behind `before` the one that `word` was probably
/// meant to be, or "": the parser is asked.
StringRef Reading::meantBy(StringRef before, StringRef word) const {
  using ::heddle::bundle::nearestOf;
  auto takes = [&](StringRef text) {
    std::string all = (before + text).str();
    std::optional<size_t> error = firstError(context, all + " ?");
    return error && *error >= all.size();
  };
  SmallVector<size_t> open = openBraces(before);
  if (open.empty()) {
    static constexpr StringLiteral ofFiles[] = {"heddle.schedule"};
    StringRef name = nearestOf(word, ofFiles);
    return name == word ? StringRef() : name;
  }
  word.consume_front("heddle.");
  // One that is spelled right stands at a wrong place.
  auto isLetter = [](char c) { return llvm::isAlnum(c) || c == '_'; };
  if (word.empty() || llvm::isDigit(word.front()) ||
      !llvm::all_of(word, isLetter) || llvm::is_contained(allWords(), word))
    return "";
  SmallVector<StringRef> words;
  if (takes("heddle.attend")) { // an op may begin
    StringRef head = before.take_front(open.back()).rsplit("scores").second;
    const bool inScores = !head.empty() && !head.contains('{');
    const bool makesValue = before.rtrim().ends_with("=");
    for (RegisteredOperationName op : context->getRegisteredOperations())
      if (inScores ? op.getStringRef() == YieldOp::getOperationName()
                   : isOfSchedules(op) &&
                         op.hasTrait<OpTrait::OneResult>() == makesValue)
        words.push_back(op.stripDialect());
    // Others of their names would be taken as well.
    for (StringRef each : allWords())
      if (!RegisteredOperationName::lookup(("heddle." + each).str(), context))
        words.push_back(each);
  } else {
    llvm::append_range(words, allWords());
  }
  while (true) {
    StringRef nearest = nearestOf(word, words);
    if (nearest.empty() || takes(nearest))
      return nearest;
    words.erase(llvm::find(words, nearest));
  }
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
         word == "yield" || line.starts_with("}");
}

/// Empties the lines of the operation that has this one (from 1), with the
/// region that begins in them. False where the rest would not be what it is
/// with the operation.
bool Reading::dropOperationAt(unsigned line) {
  size_t first = line - 1;
  size_t end = first + 1;
  auto isEmpty = [&](size_t i) {
    return lines[i].split("//").first.trim().empty();
  };
  // So does one by a word that is none, which goes on with nothing.
  auto begins = [&](size_t i) {
    StringRef word = lines[i].ltrim().take_while(
        [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; });
    return beginsOperation(lines[i]) ||
           (!word.empty() && llvm::isAlpha(word.front()) &&
            !word.contains('.') && !llvm::is_contained(allWords(), word));
  };
  while (first > 0 && !begins(first) && !isEmpty(first))
    --first;
  while (end < lines.size() && !begins(end) && !isEmpty(end))
    ++end;
  // Scores without their yield would be the next mistake.
  int depth = 0;
  if (lines[first].ltrim().starts_with("yield"))
    while (first > 0 && !lines[first].split("//").first.contains('{'))
      --first;
  for (size_t i = first; i < end || depth > 0; ++i) {
    if (i == lines.size())
      return false;
    // Braces of what it stands in stay.
    std::string left(lines[i].size(), ' ');
    StringRef code = lines[i].split("//").first;
    for (size_t column = 0; column < code.size(); ++column) {
      if (code[column] == '{' && !beginsOperation(lines[first]))
        return false;
      depth += code[column] == '{';
      if (code[column] == '}' && depth-- == 0) {
        left[column] = '}';
        depth = 0;
      }
    }
    if (StringRef made = lines[i].ltrim(); made.starts_with("%"))
      lost.insert(firstWord(made));
    lines[i] = changedLines.emplace_back(std::move(left));
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
