//===- Forms.h - The bundle's structs as schedules spell them ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_DIALECT_HEDDLE_IR_FORMS_H
#define HEDDLE_LIB_DIALECT_HEDDLE_IR_FORMS_H

#include "Assembly.h"
#include "bundle/program/Fields.h"

#include "llvm/ADT/StringExtras.h"

#include <cstring>

namespace mlir::heddle {

/// Hears the fields of a struct and reads it: its kind, its arguments, which
/// may come in any order, and its clauses (bundle/program/Fields.h).
class FormReader {
public:
  static constexpr bool writes = false;

  /// `what` names the struct in messages: "cadence".
  FormReader(AsmParser &parser, StringRef what) : parser(parser), what(what) {}

  template <typename E>
  void operator()(const char *, E &value, ::heddle::bundle::detail::Kind) {
    SMLoc loc = parser.getCurrentLocation();
    StringRef word;
    (void)parser.parseOptionalKeyword(&word);
    if (std::optional<E> found = wordOf<E>(word)) {
      value = *found;
      owner = spelled(value);
      return;
    }
    auto names = llvm::map_to_vector(
        namesOf(E()), [](std::string_view name) { return StringRef(name); });
    unknownWord(parser, loc, what, word, names);
    bad = true;
  }
  template <typename T, typename R>
  void operator()(const char *name, T &value,
                  ::heddle::bundle::detail::Lone<R> alone) {
    lone = [this, name, &value, alone] {
      return read(the(name), value, alone.rule, /*named=*/false);
    };
  }
  template <typename R>
  void operator()(const char *name, int64_t &value,
                  ::heddle::bundle::detail::Or<R> option) {
    // What may be left out is not said to be nothing.
    R rule = option.rule;
    if (rule.low == 0)
      rule.low = 1;
    wanted.push_back({name,
                      [this, name, &value, rule] {
                        return read("argument '" + std::string(name) + "' of " +
                                        owner.str(),
                                    value, rule, /*named=*/true);
                      },
                      /*required=*/false});
  }
  template <typename T, typename R>
  void operator()(const char *, T &value,
                  ::heddle::bundle::detail::Spelt<R> spelt) {
    (*this)(spelt.name, value, spelt.rule);
  }
  /// A cadence is a value, which `readCadence` reads.
  void operator()(const char *name, ::heddle::bundle::Cadence &,
                  ::heddle::bundle::detail::Any) {
    wanted.push_back({name, readCadence});
  }
  void operator()(const char *name, bool &value,
                  ::heddle::bundle::detail::Flag) {
    wanted.push_back(
        {name, nullptr, /*required=*/false, /*seen=*/false, &value});
  }
  template <typename T, typename R>
  void operator()(const char *name, T &value, R rule) {
    wanted.push_back({name, [this, name, &value, rule] {
                        return read(the(name), value, rule, /*named=*/true);
                      }});
  }
  void operator()(const char *, bool &value,
                  ::heddle::bundle::detail::Clause clause) {
    readArguments();
    auto [first, rest] = StringRef(clause.words).split(' ');
    value = !bad && succeeded(parser.parseOptionalKeyword(first));
    for (StringRef word : llvm::split(rest, ' '))
      bad |= value && parser.parseKeyword(word);
  }
  /// Of two fields the one whose name is written.
  bool has(const char *name, bool, const char *spelled = "") {
    name = *spelled ? spelled : name;
    const char *text = parser.getCurrentLocation().getPointer();
    // The lexer's blanks and comments; a source ends with a zero byte.
    while (*text == '(' || llvm::isSpace(*text) ||
           (text[0] == '/' && text[1] == '/'))
      text += *text == '/' ? std::strcspn(text, "\n") : 1;
    const size_t size = std::strlen(name);
    const bool here =
        std::strncmp(text, name, size) == 0 && !llvm::isAlnum(text[size]);
    if (!here) {
      other = name;
      wanted.push_back({name,
                        [this, name]() -> ParseResult {
                          return parser.emitError(parser.getCurrentLocation())
                                 << owner << '(' << name
                                 << " = ...) takes nothing else";
                        },
                        /*required=*/false});
    }
    return here;
  }

  /// The struct's kind is read; `word` names it in messages.
  void setOwner(StringRef word) { owner = word; }
  std::function<ParseResult()> readCadence;

  /// What was heard, read.
  ParseResult finish() {
    readArguments();
    return failure(bad);
  }

private:
  void readArguments() {
    const bool needed =
        lone || llvm::any_of(wanted, [](const NamedArgument &argument) {
          return argument.required;
        });
    if (!bad && (needed || (!wanted.empty() &&
                            *parser.getCurrentLocation().getPointer() == '(')))
      bad = failed(parseArguments(parser, owner, lone, wanted));
    lone = nullptr;
    wanted.clear();
  }
  std::string the(StringRef name) const {
    return ("the " + name + " of " + owner).str();
  }
  ParseResult read(const std::string &argument, int64_t &value,
                   ::heddle::bundle::detail::Range rule, bool) {
    // C2: a schedule has no negative seed.
    if (parseCount(parser, argument, value,
                   rule.low == INT64_MIN ? 0 : rule.low, rule.high))
      return failure();
    value += rule.base;
    return success();
  }
  ParseResult read(const std::string &argument, ::heddle::bundle::Ratio &value,
                   ::heddle::bundle::detail::UpTo rule, bool named) {
    // Those of a window are; not the bounds of `below` and `above`.
    const bool share = named && !StringRef(argument).starts_with("the below ");
    RatioAttr ratio;
    if (named || rule.most > 1 || other.empty()
            ? parseRatio(parser, argument, ratio, rule.most, /*orNone=*/false,
                         share)
            : parsePlace(parser, owner, other, ratio))
      return failure();
    value = ratio.getValue();
    return success();
  }

  AsmParser &parser;
  StringRef what, owner, other;
  std::function<ParseResult()> lone;
  SmallVector<NamedArgument, 4> wanted;
  bool bad = false;
};

} // namespace mlir::heddle

#endif // HEDDLE_LIB_DIALECT_HEDDLE_IR_FORMS_H
