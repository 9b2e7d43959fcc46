//===- Reading.cpp - Texts of schedules, with all their mistakes ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Pipelines/Reading.h"

#include "Braces.h"
#include "Hints.h"
#include "Tokens.h"
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
#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace mlir::heddle;

namespace {

/// Asking where a word may stand reads the text in front of it many times.
constexpr size_t mostAsked = size_t(64) << 10;

} // namespace

/// The value or word that an operation begins with.
static StringRef firstWord(StringRef operation) {
  return operation.take_until(
      [](char c) { return c == ' ' || c == '=' || c == ':'; });
}

/// Where in the text a place is; its end at the latest.
static size_t offsetOf(StringRef text, FileLineColLoc place) {
  size_t offset = 0;
  for (unsigned line = 1; line < place.getLine(); ++line)
    offset = text.find('\n', offset) + 1;
  return std::min<size_t>(offset + std::max(place.getColumn(), 1u) - 1,
                          text.size());
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
    first = place ? offsetOf(text, place) : 0;
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
  bool hasSchedules = StringRef(text).contains("schedule");
  constexpr int mostRounds = 32;
  for (int round = 0; round < mostRounds; ++round) {
    newLines.clear();
    if (parse(/*first=*/round == 0)) {
      good = round == 0 && !mended && succeeded(verifyAll());
      return;
    }
    if (mendHead()) {
      hasSchedules = true;
      continue;
    }
    if (!hasSchedules || newLines.empty() ||
        !llvm::all_of(newLines,
                      [&](size_t line) { return dropOperationAt(line); }))
      return;
  }
}

StringRef Reading::kept() const {
  return sources->getMemoryBuffer(sources->getMainFileID())->getBuffer();
}

/// Where in the text an error is.
std::optional<size_t> Reading::placeOf(const Diagnostic &error) const {
  auto place = dyn_cast<FileLineColLoc>(error.getLocation());
  if (error.getSeverity() != DiagnosticSeverity::Error || !place ||
      place.getLine() == 0 || place.getLine() > StringRef(text).count('\n') + 1)
    return std::nullopt;
  return offsetOf(text, place);
}

/// Says which braces are missing or too many, and goes on with a text that has
/// them. False if there are none.
bool Reading::mendBraces() {
  if (mended)
    return false;
  const SmallVector<BraceProblem> problems = braceProblems(text);
  if (problems.empty())
    return false;
  for (const BraceProblem &problem : problems) {
    InFlightDiagnostic error =
        emitError(locationAt(context, text, name, problem.at));
    error << problem.message;
    if (problem.noteAt)
      error.attachNote(locationAt(context, text, name, *problem.noteAt))
          << problem.note;
    if (&problem == &problems.back() && problems.size() == mostBraceProblems)
      error.attachNote() << "these are the first " << mostBraceProblems
                         << " braces that are wrong; there may be more";
  }
  // From the back, so that places further to the front stay.
  for (const BraceProblem &problem : llvm::reverse(problems)) {
    size_t at = problem.at;
    // What stands there keeps its column.
    if (problem.missing && at > 0 && at < text.size() &&
        !llvm::isSpace(text[at]) && text[at - 1] == ' ')
      --at;
    if (at == text.size() || text[at] == '\n')
      text.insert(at, 1, problem.missing);
    else if (!problem.missing || text[at] == ' ')
      text[at] = problem.missing ? problem.missing : ' ';
  }
  // There may be more: nothing else can be said.
  if (problems.size() == mostBraceProblems)
    text.clear();
  newLines.clear();
  said.clear();
  return mended = true;
}

/// Goes on with a text in which the schedule's first word is what it is meant
/// to be. False if none is misspelt.
bool Reading::mendHead() {
  if (!head)
    return false;
  static constexpr StringLiteral meant = "heddle.schedule";
  const size_t at = *std::exchange(head, std::nullopt);
  const size_t size = wordAt(StringRef(text).substr(at)).size();
  // What follows keeps its column if there is room.
  const size_t room = std::max(size, meant.size());
  text.replace(at, size, meant.str() + std::string(room - meant.size(), ' '));
  if (room > size)
    moved.push_back({unsigned(StringRef(text).take_front(at).count('\n') + 1),
                     unsigned(columnOf(text, at) + room), room - size});
  return mended = true;
}

/// Gives the error and its notes the places that they have in the file.
void Reading::asWritten(Diagnostic &error) const {
  auto written = [&](Location location) -> Location {
    auto place = dyn_cast<FileLineColLoc>(location);
    if (!place)
      return location;
    unsigned column = place.getColumn();
    for (const Moved &each : llvm::reverse(moved))
      if (each.line == place.getLine() && column > each.column)
        column -= each.by;
    return FileLineColLoc::get(place.getFilename(), place.getLine(), column);
  };
  Diagnostic told(written(error.getLocation()), error.getSeverity());
  told << error.str();
  for (Diagnostic &note : error.getNotes())
    told.attachNote(written(note.getLocation())) << note.str();
  std::swap(error, told);
}

/// What MLIR says of an op that no dialect has, as it says it of others.
static void nameUnknown(Diagnostic &error) {
  static const llvm::Regex words(
      "^(Dialect `[^']*' not found for )?custom op '([^']+)'( is unknown)?");
  SmallVector<StringRef, 4> parts;
  const std::string said = error.str();
  if (!words.match(said, &parts) || parts[1].empty() == parts[3].empty())
    return;
  Diagnostic told(error.getLocation(), error.getSeverity());
  told << "custom op '" << parts[2] << "' is unknown";
  std::swap(error, told);
}

bool Reading::parse(bool first) {
  sources = std::make_unique<llvm::SourceMgr>();
  sources->AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(text, name),
                              llvm::SMLoc());
  state = AsmParserState();
  // Said when all is read: what to write is found by reading.
  std::vector<Diagnostic> found;
  auto hear = [&](Diagnostic &diagnostic) {
    nameUnknown(diagnostic);
    std::optional<size_t> place = placeOf(diagnostic);
    if (!place) {
      if (first)
        found.push_back(std::move(diagnostic));
      return;
    }
    const std::optional<size_t> end = endOfUnfinished(diagnostic, *place);
    if (end) {
      retell(diagnostic, locationAt(context, text, name, *end),
             unfinished(diagnostic, *place));
      place = *end;
    }
    if (!said.insert(*place).second)
      return;
    newLines.push_back(StringRef(text).take_front(*place).count('\n'));
    // Not what follows from another.
    if (end || !lost.contains(wordAt(StringRef(text).substr(*place))))
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
  const Hints hints(context, text, name);
  for (Diagnostic &diagnostic : found) {
    if (std::optional<size_t> place = placeOf(diagnostic)) {
      addNotes(diagnostic, *place);
      diagnostic = hints.reword(std::move(diagnostic), *place);
      if (!moved.empty())
        asWritten(diagnostic);
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
std::optional<size_t> Reading::endOfUnfinished(const Diagnostic &error,
                                               size_t place) const {
  const SmallVector<Token> tokens = tokensOf(text);
  const auto *at = llvm::find_if(
      tokens, [&](const Token &token) { return token.begin >= place; });
  if (at == tokens.begin() || at == tokens.end())
    return std::nullopt;
  bool ofAnother = false;
  if (at->begin == place && beginsLine(text, place)) {
    // What operations say of their own first word is theirs.
    const std::string said = error.str();
    ofAnother = StringRef(said).starts_with("custom op '") &&
                !StringRef(said).contains("' is unknown") &&
                !StringRef(said).contains(" is now written ");
  } else if (at->text == "=" && at[-1].isValue() && place >= at[-1].end()) {
    // The value's name was taken for an operand.
    --at;
    ofAnother = beginsLine(text, at->begin);
  }
  if (!ofAnother || at == tokens.begin() ||
      !beginsOperation(StringRef(text).substr(at->begin).split('\n').first))
    return std::nullopt;
  return at[-1].end();
}

/// What an error says at `place`, where the next operation begins, of the end
/// of the one before.
std::string Reading::unfinished(const Diagnostic &error, size_t place) const {
  std::string said = error.str();
  StringRef before = StringRef(text).take_front(place);
  StringRef line = before.substr(before.rfind('\n') + 1);
  // Not what was made of a name that belongs to the next.
  if (!line.trim().empty() || StringRef(said).contains(undeclared))
    return ("this operation has no end: the next one begins in line " +
            Twine(before.count('\n') + 1) + ", with " +
            firstWord(StringRef(text).substr(place - line.size()).ltrim()))
        .str();
  return said;
}

/// Says what to write.
void Reading::addNotes(Diagnostic &error, size_t place) {
  // What is missing is missed behind the word before.
  StringRef before = text;
  StringRef rest = before.substr(place).ltrim(' ');
  before = before.drop_back(rest.size());
  StringRef word = wordAt(rest);
  const std::string said = error.str();
  const bool unknown = StringRef(said).starts_with("custom op '") &&
                       StringRef(said).ends_with("' is unknown");
  if (unknown && openBraces(before).empty() &&
      (word == "schedule" || !meantBy(before, word).empty()))
    head = before.size();
  if (!saysWhatToWrite(error) && text.size() <= mostAsked) {
    StringRef meant = meantBy(before, word);
    if (!meant.empty()) {
      error.attachNote(locationAt(context, text, name, before.size()))
          << "did you mean '" << meant << "'?";
      return;
    }
  }
  if (unknown && word == "schedule")
    error.attachNote() << "write 'heddle.schedule'";
  if (error.str() == undeclared)
    noteValue(error, wordAt(StringRef(text).substr(place)));
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
  if (word.empty() || !llvm::isAlpha(word.front()))
    return "";
  // What stands in front of the last dot is no dialect's name.
  const StringRef whole = word;
  word = word.substr(word.rfind('.') + 1);
  const bool misnamed =
      word.size() < whole.size() && whole.drop_back(word.size()) != "heddle.";
  // One that is spelled right stands at a wrong place.
  auto isLetter = [](char c) { return llvm::isAlnum(c) || c == '_'; };
  if (word.empty() || !llvm::all_of(word, isLetter) ||
      (!misnamed && llvm::is_contained(allWords(), word)))
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
      else if (inScores && (op.getDialectNamespace() == "arith" ||
                            op.getDialectNamespace() == "math"))
        words.push_back(op.getStringRef());
    if (inScores && misnamed)
      word = whole;
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
  for (const Token &token : tokensOf(text))
    if (token.isValue() && beginsLine(text, token.begin))
      made.push_back(token.text);
  StringRef nearest = ::heddle::bundle::nearestOf(value, made);
  if (!nearest.empty() && nearest != value)
    error.attachNote() << "did you mean " << nearest << "?";
}

/// Whether the line is one that an operation of a schedule begins with, and
/// not the rest of one.
bool Reading::beginsOperation(StringRef line) const {
  line = line.ltrim();
  if (line.starts_with("%"))
    return line.contains('=');
  StringRef word = wordAt(line);
  return opOfSchedules(context, word) || word == "yield" ||
         line.starts_with("}");
}

/// Empties the lines of the operation that has this one (from 0), with the
/// region that begins in them. False where the rest would not be what it is
/// with the operation.
bool Reading::dropOperationAt(size_t line) {
  SmallVector<StringRef> lines;
  StringRef(text).split(lines, '\n');
  size_t first = line, end = first + 1;
  auto codeOf = [&](size_t i) { return lines[i].split("//").first; };
  auto isEmpty = [&](size_t i) { return codeOf(i).trim().empty(); };
  // So does one by a word that is none, which goes on with nothing.
  auto begins = [&](size_t i) {
    StringRef word = wordAt(lines[i].ltrim());
    return beginsOperation(lines[i]) ||
           (!word.empty() && llvm::isAlpha(word.front()) &&
            !llvm::is_contained(allWords(), word));
  };
  while (first > 0 && !begins(first) && !isEmpty(first))
    --first;
  while (end < lines.size() && !begins(end) && !isEmpty(end))
    ++end;
  // Scores without their yield would be the next mistake.
  int depth = 0;
  if (lines[first].ltrim().starts_with("yield"))
    while (first > 0 && !codeOf(first).contains('{'))
      --first;
  const bool knownOp = beginsOperation(lines[first]);
  for (size_t i = first; i < end || depth > 0; ++i) {
    if (i == lines.size())
      return false;
    if (StringRef made = lines[i].ltrim(); made.starts_with("%"))
      lost.insert(firstWord(made));
    // Braces of what it stands in stay.
    std::string left(lines[i].size(), ' ');
    for (auto [column, c] : llvm::enumerate(codeOf(i))) {
      if (c == '{' && !knownOp)
        return false;
      depth += c == '{';
      if (c == '}' && depth-- == 0) {
        left[column] = '}';
        depth = 0;
      }
    }
    text.replace(lines[i].data() - text.data(), left.size(), left);
  }
  return true;
}

/// Values that are used above the line that makes them, each at its place.
LogicalResult Reading::checkOrder() {
  bool good = true;
  auto placed = [&](llvm::SMLoc at) {
    return locationAt(context, text, name, at.getPointer() - kept().begin());
  };
  for (const AsmParserState::OperationDefinition &op : state.getOpDefs())
    for (const auto &group : op.resultGroups) {
      const llvm::SMRange made = group.definition.loc;
      StringRef value = wordAt(made.Start.getPointer());
      for (llvm::SMRange use : group.definition.uses) {
        if (use.Start.getPointer() >= made.Start.getPointer())
          continue;
        InFlightDiagnostic error = emitError(placed(use.Start));
        sayMadeBelow(*error.getUnderlyingDiagnostic(), value,
                     placed(made.Start));
        good = false;
      }
    }
  return success(good);
}

/// Each operation by itself, if they are not all good.
LogicalResult Reading::verifyAll() {
  const LogicalResult inOrder = checkOrder();
  DenseSet<Location> told;
  NamesAsWritten names(context);
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
      return failure();
    // By their number operands would be said once more.
    return success(
        (failed(inOrder) &&
         StringRef(diagnostic.str()).contains("does not dominate")) ||
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
  NamesAsWritten names(module.getContext());
  PassManager pm(module.getContext());
  populateSchedulePipeline(pm);
  populatePlanPipeline(pm);
  return pm.run(*copy);
}
