//===- Completion.cpp - What may be written at a place --------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Completion.h"
#include "SourceText.h"

#include "bundle/program/Scores.h"
#include "heddle/Dialect/Heddle/IR/Heddle.h"
#include "heddle/Dialect/Heddle/IR/Reference.h"
#include "heddle/Pipelines/Compiler.h"
#include "heddle/Pipelines/Reading.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace heddle::editor;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;
using Kind = llvm::lsp::CompletionItemKind;

namespace {

/// Where in the text's brackets a place stands.
enum class Region { None, File, Schedule, Scores };

struct Place {
  Region region = Region::File;
  size_t schedule = 0; ///< where the schedule's body begins
  size_t line = 0;     ///< where the line begins, or the body if that is later
};

} // namespace

/// Reads brackets, strings and comments up to the end of the text.
static Place placeOf(StringRef text) {
  Place place;
  SmallVector<Region> outer;
  size_t since = 0; // the end of what stood before the last op
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') {
      at = text.find('"', at + 1);
    } else if (c == '/' && text.substr(at).starts_with("//")) {
      at = text.find('\n', at);
      if (at != StringRef::npos)
        place.line = at + 1;
    } else if (c == '\n') {
      place.line = at + 1;
    } else if (c == '{') {
      outer.push_back(place.region);
      StringRef head = text.slice(since, at);
      if (place.region == Region::File && head.contains("heddle.schedule")) {
        place.region = Region::Schedule;
        place.schedule = place.line = at + 1;
      } else if (place.region == Region::Schedule && head.contains("scores")) {
        place.region = Region::Scores;
        place.line = at + 1;
      } else if (place.region != Region::File || !head.contains("module")) {
        place.region = Region::None;
      }
      since = at + 1;
    } else if (c == '}') {
      place.region = outer.empty() ? Region::None : outer.pop_back_val();
      since = at + 1;
    }
    if (at == StringRef::npos) { // in a comment or a string
      place.region = Region::None;
      break;
    }
  }
  return place;
}

namespace {

/// A value that is made above the place.
struct MadeValue {
  std::string name; ///< with %
  std::string type; ///< !heddle.cadence
  std::string line; ///< that makes it
};

/// Asks the parser what it takes.
class Asking {
public:
  Asking(mlir::MLIRContext &context, StringRef text, const Place &place)
      : context(context), text(text), place(place) {}

  std::vector<Suggestion> ask();

private:
  void readAbove();
  std::optional<size_t> firstError(StringRef body);
  bool takes(StringRef word);
  bool typeFits(StringRef type);
  void suggestOps();
  void suggestWords(bool atOp);
  void suggestValues();

  mlir::MLIRContext &context;
  StringRef text;
  Place place;
  std::vector<MadeValue> values;
  std::vector<std::string> parameters;
  std::string head; ///< a schedule with the values, up to the line
  std::vector<Suggestion> all;
};

} // namespace

/// Values and parameters of the schedule, from what can be read in front of the
/// line. In `head` each value is made of nothing, so that reading it is quick.
void Asking::readAbove() {
  std::string above = text.take_front(place.line).str();
  if (place.line == place.schedule)
    above = text.take_front(place.schedule).str();
  above += "\n}";
  mlir::ScopedDiagnosticHandler quiet(&context, [](mlir::Diagnostic &) {});
  mlir::heddle::Reading reading(llvm::MemoryBufferRef(above, "above"),
                                &context);
  StringRef declared = text.take_front(place.schedule - 1);
  declared = declared.drop_front(declared.rfind("heddle.schedule"));
  head = declared.str() + "{\n";
  if (size_t open = declared.find('('); open != StringRef::npos) {
    SmallVector<StringRef> parts;
    declared.slice(open + 1, declared.rfind(')')).split(parts, ',');
    for (StringRef part : parts)
      parameters.push_back(part.split('=').first.trim().str());
  }
  if (!reading.module())
    return;
  const char *begin = reading.kept().data();
  for (const auto &op : reading.places().getOpDefs()) {
    auto schedule =
        llvm::dyn_cast_or_null<mlir::heddle::ScheduleOp>(op.op->getParentOp());
    if (!schedule ||
        static_cast<size_t>(op.loc.Start.getPointer() - begin) < place.schedule)
      continue;
    for (const auto &result : op.resultGroups) {
      MadeValue value;
      llvm::SMRange at = result.definition.loc;
      value.name = StringRef(at.Start.getPointer(),
                             at.End.getPointer() - at.Start.getPointer())
                       .str();
      llvm::raw_string_ostream(value.type)
          << op.op->getResult(result.startIndex).getType();
      value.line =
          StringRef(at.Start.getPointer())
              .take_until([](char c) { return c == '\n' || c == '\0'; })
              .rtrim()
              .str();
      head += value.name + " = builtin.unrealized_conversion_cast to " +
              value.type + "\n";
      values.push_back(std::move(value));
    }
  }
}

/// Where the first error of a schedule of `head` and `body` is, in `body`; none
/// if there is no error.
std::optional<size_t> Asking::firstError(StringRef body) {
  std::optional<size_t> at =
      mlir::heddle::firstError(&context, (head + body).str());
  if (at)
    *at -= std::min(*at, head.size());
  return at;
}

/// Whether the parser goes on behind the word.
bool Asking::takes(StringRef word) {
  std::string body = (text.drop_front(place.line) + word).str();
  std::optional<size_t> error = firstError(body + " ?");
  return error && *error >= body.size();
}

/// Whether a value of the type can stand at the place: some rest makes an op of
/// it.
bool Asking::typeFits(StringRef type) {
  static constexpr StringRef types[] = {"cadence", "pairs", "positions"};
  // Rests of ops behind an operand.
  static constexpr StringRef rests[] = {"",
                                        ")",
                                        ") then pairs(%a_pairs)",
                                        ") in all",
                                        " then %a_positions",
                                        " on %a_cadence",
                                        " in %a_positions"};
  const std::string before = head;
  auto make = [&](StringRef name, StringRef of) {
    head +=
        ("%" + name + " = builtin.unrealized_conversion_cast to " + of + "\n")
            .str();
  };
  for (StringRef other : types)
    make(("a_" + other).str(), ("!heddle." + other).str());
  make("the_one", type);
  const bool fits = llvm::any_of(rests, [&](StringRef rest) {
    return !firstError(
        (text.drop_front(place.line) + "%the_one" + rest + "\n}").str());
  });
  head = before;
  return fits;
}

void Asking::suggestOps() {
  const bool makesValue = text.rtrim(" \t").ends_with("=");
  for (const mlir::heddle::OpReference &op : mlir::heddle::allOps()) {
    auto name = mlir::RegisteredOperationName::lookup(
        ("heddle." + op.name).str(), &context);
    if (!name || !mlir::heddle::isOfSchedules(*name) ||
        name->hasTrait<mlir::OpTrait::OneResult>() != makesValue)
      continue;
    all.push_back({op.name.str(), Kind::Function, op.summary.str(),
                   mlir::heddle::describeOp(op.name)});
  }
}

void Asking::suggestWords(bool atOp) {
  StringRef op = operationOf(text.drop_front(place.line));
  llvm::StringSet<> seen;
  for (const mlir::heddle::FormReference &form : mlir::heddle::allForms()) {
    if (!form.op.empty() && form.op != op)
      continue;
    for (StringRef word : wordsOf(form)) {
      // Where an op may begin, one of that name would be taken as well.
      if (!seen.insert(word).second || (atOp && mlir::heddle::findOp(word)) ||
          !takes(word))
        continue;
      all.push_back({word.str(), Kind::Keyword, "",
                     mlir::heddle::describeWord(op, word)});
    }
  }
  for (const std::string &parameter : parameters)
    if (!seen.contains(parameter) && takes(parameter))
      all.push_back({parameter, Kind::Constant, "a parameter", ""});
}

void Asking::suggestValues() {
  llvm::MapVector<StringRef, SmallVector<const MadeValue *>> byType;
  for (const MadeValue &value : values)
    byType[value.type].push_back(&value);
  SmallVector<StringRef> fitting;
  for (auto &[type, ones] : byType)
    if (takes(ones.front()->name) && typeFits(type))
      fitting.push_back(type);
  for (StringRef type : fitting)
    for (const MadeValue *value : byType[type])
      all.push_back({value->name, Kind::Variable, value->type,
                     "```mlir\n" + value->line + "\n```"});
}

std::vector<Suggestion> Asking::ask() {
  readAbove();
  StringRef line = text.drop_front(place.line);
  const bool atOp = takes("heddle.attend") || takes("heddle.cadence");
  if (atOp && (line.trim().empty() || line.rtrim(" \t").ends_with("="))) {
    suggestOps();
    return std::move(all);
  }
  suggestWords(atOp);
  suggestValues();
  return std::move(all);
}

std::vector<Suggestion> heddle::editor::suggestAt(mlir::MLIRContext &context,
                                                  StringRef text) {
  context.getOrLoadDialect<mlir::heddle::HeddleDialect>();
  if (!mlir::heddle::textProblem(text).empty())
    return {};
  const Place place = placeOf(text);
  switch (place.region) {
  case Region::None:
    return {};
  case Region::File: {
    StringRef line = text.drop_front(place.line);
    if (!line.trim().empty())
      return {};
    return {{"heddle.schedule", Kind::Module,
             mlir::heddle::findOp("schedule")->summary.str(),
             mlir::heddle::describeOp("schedule")}};
  }
  case Region::Schedule:
    return Asking(context, text, place).ask();
  case Region::Scores: {
    std::vector<Suggestion> all;
    for (size_t i = 0; i <= static_cast<size_t>(bundle::Scores::Op::Tanh);
         ++i) {
      auto op = static_cast<bundle::Scores::Op>(i);
      all.push_back({std::string(bundle::dialectOf(op)) + "." +
                         std::string(bundle::nameOf(op)),
                     Kind::Function, "", ""});
    }
    all.push_back({"yield", Kind::Function,
                   mlir::heddle::findOp("yield")
                       ? mlir::heddle::findOp("yield")->summary.str()
                       : "",
                   mlir::heddle::describeOp("yield")});
    return all;
  }
  }
  llvm_unreachable("no other region");
}
