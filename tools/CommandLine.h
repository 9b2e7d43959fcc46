//===- CommandLine.h - What is wrong with a command line --------*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TOOLS_COMMANDLINE_H
#define HEDDLE_TOOLS_COMMANDLINE_H

#include "bundle/NearestWord.h"
#include "bundle/program/Printable.h"
#include "tools/trust/Digest.h"

#include <CLI/CLI.hpp>

#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace heddle {

/// Takes a SHA-256 in hexadecimal digits.
inline CLI::Validator isDigest() {
  auto check = [](const std::string &text) -> std::string {
    Status status = trust::checkDigest(text);
    return status ? "" : status.error().text();
  };
  return CLI::Validator(check, "");
}

/// "verify, rebuild or dump".
inline std::string anyOf(const std::vector<std::string> &words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return text;
}

// The library takes "" for 0, -1 for a large unsigned number and what is too
// large for the largest, or infinite; these see the text first.
template <typename T> std::string numberProblem(const std::string &text, T) {
  T value;
  const char *end = text.data() + text.size();
  auto [stop, code] = std::from_chars(text.data(), end, value);
  if (code == std::errc() && stop == end)
    return "";
  const size_t sign = text.starts_with('-') ? 1 : 0;
  if (text.size() == sign ||
      text.find_first_not_of("0123456789", sign) != text.npos)
    return "'" + text + "' is not a whole number";
  using Limits = std::numeric_limits<T>;
  return text + " is out of range, expected " + std::to_string(Limits::min()) +
         " to " + std::to_string(Limits::max());
}

inline std::string numberProblem(const std::string &text, double) {
  char *end = nullptr;
  errno = 0;
  const double value = std::strtod(text.c_str(), &end);
  // Not in hexadecimal digits.
  if (text.empty() || end != text.c_str() + text.size() ||
      text.find_first_of("xX") != text.npos)
    return "'" + text + "' is not a number";
  return errno == ERANGE && std::isinf(value) ? text + " is too large" : "";
}

template <typename T>
std::string numberProblem(const std::string &text, std::optional<T>) {
  return numberProblem(text, T());
}

/// An option for a number that a T, or what is in an optional, can hold. Its
/// leading zeros go, since the library takes 010 for 8.
template <typename T>
CLI::Option *addNumber(CLI::App &app, const std::string &name, T &value,
                       const std::string &help) {
  auto check = [](std::string &text) {
    std::string problem = numberProblem(text, T());
    const size_t zeros = text.starts_with('-') ? 1 : 0;
    while (problem.empty() && text.size() > zeros + 1 && text[zeros] == '0' &&
           std::isdigit(static_cast<unsigned char>(text[zeros + 1])))
      text.erase(zeros, 1);
    return problem;
  };
  // A `check` gets a copy of the text.
  return app.add_option(name, value, help)
      ->transform(CLI::Validator(check, ""));
}

/// Parses the command line. `--option=` without a value, as a script writes it
/// whose variable is empty, is refused: CLI11 takes the next argument for one,
/// which may name a file to write.
inline void parse(CLI::App &app, int argc, const char *const *argv) {
  using namespace std::string_view_literals;
  for (int i = 1; i < argc && argv[i] != "--"sv; ++i)
    if (std::string name = argv[i];
        name.starts_with("--") && name.find('=') == name.size() - 1) {
      name.pop_back();
      throw CLI::ValidationError(printable(name),
                                 "expected a value behind '=', found none");
    }
  app.parse(argc, argv);
}

/// What `app`, or the command of it that was chosen, refused. A word that it
/// does not know comes first: most other errors follow from it.
inline std::string problemOf(const CLI::App &app, const CLI::Error &error) {
  const CLI::App *chosen = &app;
  while (!chosen->get_subcommands().empty())
    chosen = chosen->get_subcommands().back();
  std::vector<std::string> commands, options;
  for (const CLI::App *command :
       chosen->get_subcommands([](const CLI::App *) { return true; }))
    commands.push_back(command->get_name());
  for (const CLI::Option *option : chosen->get_options())
    for (const std::string &name : option->get_lnames())
      options.push_back("--" + name);

  std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  if (unknown.empty()) {
    const bool lacksOne = !commands.empty() &&
                          error.get_exit_code() ==
                              static_cast<int>(CLI::ExitCodes::RequiredError);
    if (lacksOne)
      return "no command; expected " + anyOf(commands);
    const std::string what = error.what();
    constexpr std::string_view often = ": At Most 1 required but received ";
    const size_t at = what.find(often);
    if (at == what.npos)
      return what;
    const std::string name = what.substr(0, at);
    std::string text =
        name + " is given " + what.substr(at + often.size()) + " times";
    if (const CLI::Option *option = chosen->get_option_no_throw(name)) {
      const std::vector<std::string> &values = option->results();
      for (size_t i = 0; i < values.size(); ++i)
        text += (i > 0 && i + 1 == values.size() ? " and '" : ", '") +
                printable(values[i]) + "'";
    }
    return text + "; give it once";
  }
  const bool isOption = unknown.front().starts_with("-");
  const bool isCommand = !isOption && !commands.empty();
  const std::string word =
      printable(unknown.front().substr(0, unknown.front().find('=')));
  std::string text =
      isOption ? "unknown option '" + word + "'"
      : isCommand
          ? "unknown command '" + word + "'; expected " + anyOf(commands)
          : "unexpected argument '" + printable(unknown.front()) + "'";
  std::string_view nearest =
      bundle::nearestOf(word, isOption ? options : commands);
  if (!nearest.empty())
    text += "; did you mean '" + std::string(nearest) + "'?";
  return text;
}

} // namespace heddle

#endif // HEDDLE_TOOLS_COMMANDLINE_H
