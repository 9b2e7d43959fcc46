//===- Parse.cpp - Reads a schedule's text --------------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bundle/NearestWord.h"
#include "bundle/format/ScheduleText.h"
#include "bundle/program/Fields.h"
#include "bundle/program/Printable.h"
#include "heddle/Dialect/Heddle/IR/Heddle.h"
#include "heddle/Pipelines/Compiler.h"
#include "heddle/Pipelines/Reading.h"

#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace mlir::heddle;

namespace {

constexpr StringLiteral example = "heddle.schedule @name { attend dense }";

/// The source goes into the bundle, and messages quote its lines.
constexpr size_t mostBytes = size_t(16) << 20;
/// Each message quotes its line, and MLIR reads a number in time that grows
/// with the square of its digits.
constexpr size_t mostInLine = size_t(16) << 10;

/// Where a line is longer than any schedule's, or "".
std::string lineProblem(StringRef text) {
  for (int64_t number = 1; !text.empty(); ++number) {
    auto [line, rest] = text.split('\n');
    if (line.size() > mostInLine)
      return ("line " + llvm::Twine(number) + " has " +
              llvm::Twine(line.size()) + " bytes; at most " +
              llvm::Twine(mostInLine) + " are read: break it")
          .str();
    text = rest;
  }
  return "";
}

/// What makes the buffer no MLIR text at all, or "".
std::string problemOf(llvm::MemoryBufferRef buffer) {
  StringRef text = buffer.getBuffer();
  std::string expected =
      ("; expected a schedule, such as '" + example + "'").str();
  if (isBytecode(buffer))
    return "the file is MLIR bytecode, from which the bundle cannot keep the "
           "source; give the schedule's text";
  if (text.starts_with("HEDDLE\r\n"))
    return "the file is a bundle already; heddle-bundle dump shows it";
  if (text.ltrim().starts_with("{") && !text.ltrim().starts_with("{-#"))
    return "the file begins with '{', as JSON does" + expected;
  if (text.size() > 8 && text[8] == '{' &&
      text.take_front(8).ends_with(StringRef("\0\0", 2)))
    return "the file holds a model's weights (safetensors)" + expected;
  auto *start = reinterpret_cast<const llvm::UTF8 *>(text.begin());
  if (text.contains('\0') ||
      !llvm::isLegalUTF8String(
          &start, reinterpret_cast<const llvm::UTF8 *>(text.end())))
    return "the file is not text" + expected;
  if (text.trim().empty())
    return "the file is empty" + expected;
  if (text.starts_with("\xEF\xBB\xBF"))
    return "the file starts with a byte order mark; save it as UTF-8 without "
           "one";
  if (std::string problem = textProblem(text); !problem.empty())
    return problem;
  return lineProblem(text);
}

} // namespace

std::unique_ptr<llvm::MemoryBuffer>
mlir::heddle::readScheduleFile(StringRef path, std::string &problem) {
  namespace fs = llvm::sys::fs;
  fs::file_t file = fs::getStdinHandle();
  bool isFile = path != "-";
  const std::string name =
      isFile ? ::heddle::printablePath(path) : std::string("<stdin>");
  auto fail = [&](const llvm::Twine &why) {
    problem = (name + ": " + why).str();
    return nullptr;
  };
  if (isFile) {
    llvm::Expected<fs::file_t> opened = fs::openNativeFileForRead(path);
    if (!opened)
      return fail(llvm::toString(opened.takeError()));
    if (fs::is_directory(path))
      return fail("Is a directory; expected a schedule's file, such as "
                  "examples/pulsecol.mlir");
    file = *opened;
  }
  auto close = llvm::scope_exit([&] {
    if (isFile)
      (void)fs::closeFile(file);
  });
  SmallVector<char, 0> text;
  constexpr size_t chunk = size_t(64) << 10;
  for (size_t got = chunk; got > 0;) {
    size_t size = text.size();
    text.resize_for_overwrite(size + chunk);
    llvm::Expected<size_t> count = fs::readNativeFile(
        file, llvm::MutableArrayRef(text.data() + size, chunk));
    if (!count)
      return fail(llvm::toString(count.takeError()));
    got = *count;
    text.resize(size + got);
    if (text.size() > mostBytes)
      return fail("there are more than " + llvm::Twine(mostBytes) +
                  " bytes (16 MiB), more than any schedule has");
  }
  std::unique_ptr<llvm::MemoryBuffer> buffer =
      llvm::MemoryBuffer::getMemBufferCopy(StringRef(text.data(), text.size()),
                                           name);
  if (std::string found = problemOf(*buffer); !found.empty())
    return fail(found);
  return buffer;
}

/// Where a carriage return stands alone, or "". MLIR ends a comment there, but
/// no line.
static std::string returnProblem(StringRef text) {
  for (size_t at = text.find('\r'); at != StringRef::npos;
       at = text.find('\r', at + 1)) {
    if (text.substr(at + 1).starts_with("\n"))
      continue;
    StringRef before = text.take_front(at);
    return ("line " + llvm::Twine(before.count('\n') + 1) + ", column " +
            llvm::Twine(at - (before.rfind('\n') + 1) + 1) +
            ": found a carriage return (CR) alone, expected a line feed (LF) "
            "behind it; save the file with LF, or CR and LF, as ends of lines")
        .str();
  }
  return "";
}

std::string mlir::heddle::textProblem(StringRef text) {
  if (std::string problem = returnProblem(text); !problem.empty())
    return problem;
  constexpr int mostDepth = 200;
  int depth = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    StringRef rest = text.substr(at);
    char c = text[at];
    if (c == '"') {
      // A string ends with its line at the latest.
      for (++at; at < text.size() && text[at] != '"' && text[at] != '\n'; ++at)
        at += text[at] == '\\';
    } else if (rest.starts_with("//")) {
      at = std::min(text.find('\n', at), text.size());
    } else if (rest.starts_with("->") || rest.starts_with(">=") ||
               rest.starts_with("<=")) {
      ++at;
    } else if (StringRef("{([<").contains(c)) {
      if (++depth > mostDepth)
        return ("line " + llvm::Twine(text.take_front(at).count('\n') + 1) +
                ": brackets are nested more than " + llvm::Twine(mostDepth) +
                " deep")
            .str();
    } else if (StringRef("})]>").contains(c) && depth > 0) {
      --depth;
    }
  }
  return "";
}

OwningOpRef<ModuleOp> mlir::heddle::parseSchedule(llvm::SourceMgr &sourceMgr,
                                                  StringRef name,
                                                  MLIRContext *context) {
  llvm::MemoryBufferRef buffer =
      sourceMgr.getMemoryBuffer(sourceMgr.getMainFileID())->getMemBufferRef();
  Location start =
      FileLineColLoc::get(context, buffer.getBufferIdentifier(), 1, 1);
  if (std::string problem = problemOf(buffer); !problem.empty()) {
    emitError(UnknownLoc::get(context))
        << buffer.getBufferIdentifier() << ": " << problem;
    return nullptr;
  }
  Reading reading(buffer, context);
  if (!reading.isGood())
    return nullptr;
  OwningOpRef<ModuleOp> module = reading.takeModule();

  SmallVector<ScheduleOp> schedules(module->getOps<ScheduleOp>());
  if (schedules.empty()) {
    emitError(start) << "there is no schedule in this file; expected one, such "
                        "as '"
                     << example << "'";
    return nullptr;
  }
  std::string names;
  for (ScheduleOp op : schedules)
    names += (names.empty() ? "@" : ", @") + op.getSymName().str();
  if (name.empty() && schedules.size() > 1) {
    InFlightDiagnostic error = schedules[1].emitError()
                               << "the file has " << schedules.size()
                               << " schedules (" << names
                               << "); choose one with --schedule";
    error.attachNote(schedules[0].getLoc()) << "the first one is here";
    return nullptr;
  }
  if (name.empty())
    return module;
  if (llvm::none_of(schedules,
                    [&](ScheduleOp op) { return op.getSymName() == name; })) {
    emitError(start) << "there is no schedule @" << ::heddle::printable(name)
                     << " in this file, there is " << names;
    return nullptr;
  }
  for (ScheduleOp op : schedules)
    if (op.getSymName() != name)
      op.erase();
  return module;
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

namespace {

enum class NumberKind { None, Integer, Ratio };

NumberKind kindOf(StringRef text) {
  static const llvm::Regex integer("^-?[0-9]+$");
  static const llvm::Regex ratio(
      "^([0-9]+ *percent|([0-9]+/[0-9]+|[0-9]+\\.[0-9]+)( *percent)?)$");
  return integer.match(text) ? NumberKind::Integer
         : ratio.match(text) ? NumberKind::Ratio
                             : NumberKind::None;
}

/// What can be written for a parameter of the kind; of percents that what was
/// given says, these.
std::string settingAdvice(NumberKind declared, StringRef given) {
  if (declared == NumberKind::Integer)
    return "write an integer, such as 32";
  const bool percent = given.consume_back("%");
  given = given.trim();
  double value = 0;
  if ((!percent && kindOf(given) != NumberKind::Integer) ||
      kindOf((given + " percent").str()) != NumberKind::Ratio ||
      given.size() > ::heddle::bundle::maxDecimals ||
      given.getAsDouble(value) || value <= 0 || value > 100)
    return "write a ratio of more than 0 and at most 1, such as 1/5, 0.2 or "
           "'20 percent'";
  return ("write '" + given + " percent'").str() +
         (given == "1" && !percent ? ", or '1/1' for all" : "");
}

/// What is wrong with `value` for the parameter, as an error there.
LogicalResult checkSetting(const ::heddle::bundle::TextParameter &parameter,
                           StringRef value, Location location) {
  const NumberKind declared = kindOf(parameter.value);
  const NumberKind given = kindOf(value);
  if (given == declared ||
      (declared == NumberKind::None && given != NumberKind::None))
    return success();
  InFlightDiagnostic error = emitError(location);
  error << "parameter '" << parameter.name << "' ";
  if (given == NumberKind::None)
    error << "cannot be set to '" << ::heddle::printable(value) << "'";
  else
    error << "is "
          << (given == NumberKind::Ratio ? "an integer, " : "a ratio, ")
          << parameter.value << ", and cannot be set to the "
          << (given == NumberKind::Ratio ? "ratio " : "integer ") << value;
  return error << "; " << settingAdvice(declared, value);
}

} // namespace

FailureOr<std::string> mlir::heddle::setParameters(
    llvm::SourceMgr &sourceMgr, StringRef name,
    ArrayRef<std::pair<std::string, std::string>> settings,
    MLIRContext *context) {
  llvm::MemoryBufferRef buffer =
      sourceMgr.getMemoryBuffer(sourceMgr.getMainFileID())->getMemBufferRef();
  std::string text = buffer.getBuffer().str();
  auto placed = [&](size_t offset) {
    return locationAt(context, text, buffer.getBufferIdentifier(), offset);
  };
  // Not by the parser, which would judge the values that are to be replaced.
  std::vector<::heddle::bundle::TextHead> heads =
      ::heddle::bundle::headsOf(text);
  llvm::erase_if(heads, [&](const ::heddle::bundle::TextHead &head) {
    return !name.empty() && head.name != name;
  });
  const bool plain =
      heads.size() == 1 && heads.front().isWhole &&
      llvm::all_of(heads.front().parameters, [](const auto &parameter) {
        // Also numbers as others write them, such as .5 or +32: what is not
        // replaced is judged in the text that comes of it.
        static const llvm::Regex alien("^[+-]?\\.?[0-9]");
        return kindOf(parameter.value) != NumberKind::None ||
               alien.match(parameter.value);
      });
  if (!plain) {
    // The text that comes of it warns again.
    ScopedDiagnosticHandler quiet(context, [](Diagnostic &diagnostic) {
      return success(diagnostic.getSeverity() == DiagnosticSeverity::Warning);
    });
    OwningOpRef<ModuleOp> module = parseSchedule(sourceMgr, name, context);
    if (!module)
      return failure();
    // In MLIR's generic form one has no head.
    if (heads.empty()) {
      ScheduleOp schedule = *module->getOps<ScheduleOp>().begin();
      heads.push_back(
          {.name = schedule.getSymName().str(), .at = 0, .parameters = {}});
    }
  }
  const ::heddle::bundle::TextHead &head = heads.front();
  const auto &parameters = head.parameters;
  SmallVector<StringRef> names;
  for (const auto &parameter : parameters)
    names.push_back(parameter.name);

  bool good = true;
  for (const auto &[wanted, value] : settings) {
    auto *found = llvm::find(names, wanted);
    if (found != names.end()) {
      const auto &parameter = parameters[found - names.begin()];
      good &=
          succeeded(checkSetting(parameter, value, placed(parameter.nameAt)));
      continue;
    }
    good = false;
    InFlightDiagnostic error = emitError(placed(head.at));
    error << "schedule @" << ::heddle::printable(head.name)
          << " has no parameter '" << ::heddle::printable(wanted)
          << "'; it has " << (names.empty() ? "none" : llvm::join(names, ", "));
    StringRef nearest = ::heddle::bundle::nearestOf(wanted, names);
    if (!nearest.empty())
      error.attachNote(
          placed(parameters[llvm::find(names, nearest) - names.begin()].nameAt))
          << "did you mean '" << nearest << "'?";
  }
  if (!good)
    return failure();
  // From the back, so that places further to the front stay.
  for (const auto &parameter : llvm::reverse(parameters))
    for (const auto &[wanted, value] : settings)
      if (parameter.name == wanted)
        text.replace(parameter.valueAt, parameter.value.size(), value);
  return text;
}
