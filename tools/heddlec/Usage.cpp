//===- Usage.cpp - What is wrong with heddlec's command line --------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Usage.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;

namespace {

/// The real standard error while another file stands in its place, else -1.
int realErrors = -1;

void giveErrorsBack() {
  if (realErrors < 0)
    return;
  dup2(realErrors, STDERR_FILENO);
  close(realErrors);
  realErrors = -1;
}

/// What `run` writes on standard error. Parsers of values write to
/// llvm::errs(), whatever stream ParseCommandLineOptions() is given, and so do
/// options themselves ("requires a value!"), so that parsers of our own would
/// not hear it. Where no file can be had, it stands on standard error as it is.
std::string errorsOf(llvm::function_ref<void()> run) {
  std::string text;
  const int file = memfd_create("stderr", MFD_CLOEXEC);
  if (file >= 0)
    realErrors = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  if (realErrors >= 0) {
    // --help ends the program, and what can't be written is said after it.
    std::atexit(giveErrorsBack);
    dup2(file, STDERR_FILENO);
  }
  run();
  giveErrorsBack();
  if (file < 0)
    return text;
  char part[256];
  for (ssize_t size; (size = pread(file, part, sizeof part,
                                   static_cast<off_t>(text.size()))) > 0;)
    text.append(part, static_cast<size_t>(size));
  close(file);
  return text;
}

/// What LLVM says of an option's value.
std::string ofValue(StringRef said) {
  said.consume_back("!");
  StringRef value = said;
  if (value.consume_back(" value invalid for floating point argument"))
    return value.str() + " is no number";
  if (value.contains(" value invalid for "))
    return value.substr(0, value.find(" value invalid for ")).str() +
           " is no whole number";
  if (value.consume_back(" is invalid value for boolean argument! Try 0 or 1"))
    return value.str() + " is neither 0 nor 1";
  if (value.consume_front("Cannot find option named "))
    return value.str() + " is none of its values";
  if (said == "requires a value")
    return "needs a value";
  return said.str();
}

std::vector<std::string> sentencesOf(StringRef said, StringRef program) {
  std::vector<std::string> sentences;
  SmallVector<StringRef> lines;
  said.split(lines, '\n', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (StringRef line : lines) {
    line.consume_front(program);
    line.consume_front(": ");
    StringRef rest = line;
    if (rest.consume_front("for the ")) {
      auto [option, what] = rest.split(" option: ");
      sentences.push_back(option.str() + ": " + ofValue(what));
    } else if (rest.consume_front("Unknown command line argument ")) {
      sentences.push_back("unknown option " +
                          rest.split(".  Try: ").first.str());
    } else if (rest.consume_front("Did you mean ") && !sentences.empty()) {
      sentences.back() += "; did you mean " + rest.str();
    } else if (line.starts_with("Too many positional arguments")) {
      sentences.push_back("more than one schedule is given, expected one");
    } else if (!line.starts_with("Can specify at most")) {
      sentences.push_back(line.str());
    }
  }
  return sentences;
}

/// The values that the command line gives an option, as far as they stand in
/// it and in no file of options.
std::vector<std::string> valuesOf(const llvm::cl::Option &option, int argc,
                                  char **argv) {
  std::vector<std::string> values;
  for (int i = 1; i < argc && argv[i] != StringRef("--"); ++i) {
    StringRef name = argv[i];
    if (!name.consume_front("-"))
      continue;
    name.consume_front("-");
    const bool hasValue = name.contains('=');
    auto [word, value] = name.split('=');
    if (word != option.ArgStr)
      continue;
    if (!hasValue && i + 1 < argc &&
        option.getValueExpectedFlag() == llvm::cl::ValueRequired)
      value = argv[++i];
    values.push_back(value.str());
  }
  return values;
}

/// Says which options of one value have several, of which LLVM takes the last.
/// Flags may be repeated.
std::vector<std::string> repeatedOptions(int argc, char **argv) {
  std::vector<std::string> sentences;
  for (const auto &entry : llvm::cl::getRegisteredOptions()) {
    const llvm::cl::Option &option = *entry.second;
    const int times = option.getNumOccurrences();
    if (times < 2 || option.getNumOccurrencesFlag() != llvm::cl::Optional)
      continue;
    const std::vector<std::string> values = valuesOf(option, argc, argv);
    const bool areAll = std::ssize(values) == times;
    if (areAll &&
        llvm::all_of(values, [](const auto &each) { return each.empty(); }))
      continue;
    std::string text = (option.ArgStr.size() == 1 ? "-" : "--") +
                       option.ArgStr.str() + " is given " +
                       std::to_string(times) + " times";
    for (size_t i = 0; areAll && i < values.size(); ++i)
      text += (i > 0 && i + 1 == values.size() ? " and '" : ", '") + values[i] +
              "'";
    sentences.push_back(text + "; give it once");
  }
  llvm::sort(sentences);
  return sentences;
}

} // namespace

std::vector<std::string> mlir::heddle::parseCommandLine(int argc, char **argv,
                                                        StringRef overview) {
  std::string said;
  llvm::raw_string_ostream stream(said);
  bool good = true;
  said += errorsOf([&] {
    good = llvm::cl::ParseCommandLineOptions(argc, argv, overview, &stream);
  });
  if (good)
    return repeatedOptions(argc, argv);
  std::vector<std::string> sentences = sentencesOf(said, "heddlec");
  if (sentences.empty())
    sentences.push_back("the command line is wrong");
  return sentences;
}
