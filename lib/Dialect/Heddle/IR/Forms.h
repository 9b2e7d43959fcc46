//===- Forms.h - The bundle's structs as schedules spell them ---*- C++ -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_DIALECT_HEDDLE_IR_FORMS_H
#define HEDDLE_LIB_DIALECT_HEDDLE_IR_FORMS_H

#include "Assembly.h"
#include "bundle/format/ManifestFields.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

#include <cstring>

namespace mlir::heddle {

/// Reads an operand that may be left out.
inline std::function<ParseResult()>
valueOf(OpAsmParser &parser,
        std::optional<OpAsmParser::UnresolvedOperand> &value) {
  return [&parser, &value] { return parseValue(parser, value.emplace()); };
}

/// The names of values, but of those that are null.
inline Texts
textsOf(OpAsmPrinter &printer,
        std::initializer_list<std::pair<const char *, Value>> values) {
  Texts texts;
  for (auto [name, value] : values)
    if (value) {
      llvm::raw_string_ostream stream(texts[name]);
      printer.printOperand(value, stream);
    }
  return texts;
}

/// Hears the fields of a struct and reads it: its kind, its arguments, which
/// may come in any order, and its clauses (bundle/program/Fields.h); or what
/// Clauses.h says of an op, whose clauses may come in any order.
class FormReader {
public:
  static constexpr bool writes = false;

  /// `what` names the struct in messages: "cadence".
  FormReader(AsmParser &parser, StringRef what) : parser(parser), what(what) {}

  template <typename E>
  void operator()(const char *, E &value, ::heddle::bundle::detail::Kind) {
    bad = failed(parseKind(parser, what, value));
    if (!bad)
      owner = spelled(value);
  }
  template <typename T, typename R>
  void operator()(const char *name, T &value,
                  ::heddle::bundle::detail::Lone<R> alone) {
    lone = [this, name, &value, alone] {
      return read("", the(name), value, alone.rule);
    };
  }
  template <typename R>
  void operator()(const char *name, int64_t &value,
                  ::heddle::bundle::detail::Or<R> option) {
    // What may be left out is not said to be nothing.
    R rule = option.rule;
    if (rule.low == 0)
      rule.low = 1;
    optional(name, value, rule);
  }
  template <typename T, typename R>
  void operator()(const char *, T &value,
                  ::heddle::bundle::detail::Spelt<R> spelt) {
    (*this)(spelt.name, value, spelt.rule);
  }
  void operator()(const char *name, ::heddle::bundle::Cadence &,
                  ::heddle::bundle::detail::Any) {
    value(name);
  }
  template <typename T>
  void operator()(const char *name, int64_t &,
                  ::heddle::bundle::detail::Index<T>) {
    value(name);
  }
  void operator()(const char *name, bool &value,
                  ::heddle::bundle::detail::Flag) {
    flag(name, value);
  }
  template <typename T, typename R>
  void operator()(const char *name, T &value, R rule) {
    wanted.push_back({name, [this, name, &value, rule] {
                        return read(name, ofClause ? argument(name) : the(name),
                                    value, rule);
                      }});
  }
  template <typename T, typename R>
  void optional(const char *name, T &value, R rule) {
    wanted.push_back({name,
                      [this, name, &value, rule] {
                        return read(name, argument(name), value, rule);
                      },
                      /*required=*/false});
  }
  template <typename T, typename R>
  void optional(const char *, T &value,
                ::heddle::bundle::detail::Spelt<R> spelt) {
    optional(spelt.name, value, spelt.rule);
  }
  void operator()(const char *, bool &value,
                  ::heddle::bundle::detail::Clause clause) {
    auto [first, rest] = StringRef(clause.words).split(' ');
    clauses.push_back({first,
                       [this, rest]() -> ParseResult {
                         for (StringRef word : llvm::split(rest, ' '))
                           if (parser.parseKeyword(word))
                             return failure();
                         return success();
                       },
                       &value});
  }
  /// A word that says so.
  template <typename E> void flag(const char *name, E &value, E one) {
    addFlag(name, [&value, one] { value = one; }, /*required=*/false);
  }
  void flag(const char *name, bool &value) { flag(name, value, true); }
  template <typename E> void says(E &value, E one) { value = one; }
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

  /// Sets and cadences are values, which these read by the name of the argument
  /// or the word of the clause. A clause of a value that none reads is none.
  Operands values;
  bool takes(const char *name) const { return values.contains(name); }

  void value(const char *name, bool required = true) {
    if (takes(name))
      wanted.push_back({name, values.lookup(name), required});
  }
  void loneValue(const char *name) {
    lone = values.lookup(name);
    lonely = "a value";
  }
  /// A word of an enumeration; the first one goes without saying.
  template <typename E>
  void word(const char *name, E &value, const char *expected) {
    wanted.push_back({name,
                      [this, name, &value, expected] {
                        places[name] = parser.getCurrentLocation();
                        return parseOneOf(parser, expected, value, name);
                      },
                      /*required=*/false});
  }
  /// In parentheses; `first`: from which on.
  template <typename E>
  void loneWord(E &value, int first, const char *expected) {
    lone = [this, &value, first, expected]() -> ParseResult {
      SMLoc loc = parser.getCurrentLocation();
      if (parseOneOf(parser, expected, value))
        return failure();
      if (static_cast<int>(value) < first)
        return parser.emitError(loc, expected);
      return success();
    };
    lonely = "a word";
  }
  /// A word that has to be there.
  void needed(const char *name, bool &value) {
    addFlag(name, [&value] { value = true; }, /*required=*/true);
  }
  void share(const char *name, const char *what, int64_t &count,
             ::heddle::bundle::Ratio &share) {
    wanted.push_back({name, [this, name, what, &count, &share] {
                        return parseCountOrShare(parser, what, name, count,
                                                 share);
                      }});
  }
  void group(const char *name, int64_t &value, bool blocks) {
    wanted.push_back({name, [this, &value, blocks] {
                        return parseGroup(parser, value, blocks);
                      }});
  }
  void pooled(int64_t &value) {
    lone = [this, &value] { return parsePooled(parser, value); };
  }

  /// A clause whose arguments `state` says; sets `there`.
  template <typename F> void clause(const char *word, bool &there, F state) {
    add(word, state).there = &there;
  }
  template <typename F> void clause(const char *word, bool &&, F state) {
    add(word, state);
  }
  void clause(const char *word, bool &there) {
    clauses.push_back({word, nullptr, &there});
  }
  /// `of %set`
  void operand(const char *word, bool required = false) {
    if (takes(word))
      clauses.push_back({word, values.lookup(word), nullptr, required});
  }
  /// Looks at what has been read when a clause has been, which is at `loc`.
  std::function<ParseResult(SMLoc loc)> check;

  /// The struct's kind is read; `word` names it in messages.
  void setOwner(StringRef word) {
    owner = word;
    ofClause = true;
  }
  /// Where a word() was written, if it was.
  SMLoc placeOf(StringRef name) const { return places.lookup(name); }

  /// What was heard, read.
  ParseResult finish() {
    readArguments();
    while (!bad) {
      OptionalParseResult read = readClause();
      if (!read.has_value())
        break;
      bad = failed(*read);
    }
    for (const FormClause &clause : clauses)
      if (!bad && clause.required && !clause.seen) {
        // Behind the op: what comes next may stand lines below.
        const char *end = parser.getCurrentLocation().getPointer();
        while (beginsLine(end) && llvm::isSpace(end[-1]))
          --end;
        return parser.emitError(SMLoc::getFromPointer(end))
               << "expected '" << clause.word << "'";
      }
    return failure(bad);
  }

  /// One clause, if one comes next.
  OptionalParseResult readClause() {
    SMLoc loc = parser.getCurrentLocation();
    for (FormClause &clause : clauses) {
      if (failed(parser.parseOptionalKeyword(clause.word)))
        continue;
      if (std::exchange(clause.seen, true))
        return ParseResult(parser.emitError(loc)
                           << "'" << clause.word << "' is given twice");
      if (clause.there)
        *clause.there = true;
      return ParseResult(
          failure((clause.read && clause.read()) || (check && check(loc))));
    }
    return std::nullopt;
  }

private:
  void readArguments() {
    const bool needed =
        lone || llvm::any_of(wanted, [](const NamedArgument &argument) {
          return argument.required;
        });
    if (!bad && (needed || (!wanted.empty() &&
                            *parser.getCurrentLocation().getPointer() == '(')))
      bad = failed(parseArguments(parser, owner, lone, wanted, lonely));
    lone = nullptr;
    wanted.clear();
  }
  std::string the(StringRef name) const {
    return ("the " + name + " of " + owner).str();
  }
  std::string argument(StringRef name) const {
    return ("argument '" + name + "' of " + owner).str();
  }
  ParseResult read(StringRef, const std::string &said, int64_t &value,
                   ::heddle::bundle::detail::Range rule) {
    // C2: a schedule has no negative seed.
    if (parseCount(parser, said, value, rule.low == INT64_MIN ? 0 : rule.low,
                   rule.high))
      return failure();
    value += rule.base;
    return success();
  }
  /// `name` is empty of what has none.
  ParseResult read(StringRef name, const std::string &said,
                   ::heddle::bundle::Ratio &value,
                   ::heddle::bundle::detail::UpTo rule) {
    // Windows and the like are shares; not the bounds of cosines and
    // probabilities.
    const bool share = !name.empty() && name != "below" && name != "above";
    return !name.empty() || rule.most > 1 || other.empty()
               ? parseRatio(parser, said, value, rule.most, rule.orNone, share)
               : parsePlace(parser, owner, other, value);
  }
  void addFlag(StringRef name, std::function<void()> note, bool required) {
    wanted.push_back(
        {name, nullptr, required, /*seen=*/false, std::move(note)});
  }

  struct FormClause {
    StringRef word;
    std::function<ParseResult()> read;
    bool *there = nullptr;
    bool required = false;
    bool seen = false;
  };
  template <typename F> FormClause &add(const char *word, F state) {
    clauses.push_back({word, [this, word, state]() -> ParseResult {
                         FormReader inner(parser, what);
                         inner.setOwner(word);
                         inner.values = values;
                         state(inner);
                         return inner.finish();
                       }});
    return clauses.back();
  }

  AsmParser &parser;
  StringRef what, owner, other, lonely = "a number";
  std::function<ParseResult()> lone;
  SmallVector<NamedArgument, 4> wanted;
  SmallVector<FormClause, 8> clauses;
  llvm::StringMap<SMLoc> places;
  bool ofClause = false;
  bool bad = false;
};

/// Hears the same and writes it, clauses in the order in which they are said.
class FormSpeller : public ::heddle::bundle::detail::Speller {
  using Any = ::heddle::bundle::detail::Any;
  template <typename R> using Lone = ::heddle::bundle::detail::Lone<R>;

public:
  using Speller::Speller;
  using Speller::operator();

  /// The texts of values by the name of the argument or the word of the clause;
  /// what has none is not there.
  Texts values;
  bool takes(const char *name) const { return values.count(name) > 0; }

  template <typename T, typename R>
  void operator()(const char *, const T &value,
                  ::heddle::bundle::detail::Spelt<R> as) {
    (*this)(as.name, value, as.rule);
  }
  void operator()(const char *name, const ::heddle::bundle::Cadence &, Any) {
    value(name);
  }
  template <typename T>
  void operator()(const char *name, const int64_t &,
                  ::heddle::bundle::detail::Index<T>) {
    value(name);
  }
  void value(const char *name, bool = true) {
    if (takes(name))
      (*this)(name, Written{values[name]}, Any{});
  }
  void loneValue(const char *name) { alone(values[name]); }
  template <typename E>
  void word(const char *name, const E &value, const char *) {
    if (value != E())
      (*this)(name, Written{spelled(value).str()}, Any{});
  }
  template <typename E> void loneWord(const E &value, int, const char *) {
    alone(spelled(value).str());
  }
  template <typename E> void flag(const char *name, const E &value, E one) {
    (*this)(name, value == one, ::heddle::bundle::detail::Flag{});
  }
  void flag(const char *name, const bool &value) { flag(name, value, true); }
  void needed(const char *name, const bool &value) { flag(name, value); }
  template <typename E> void says(const E &, E) {}
  void share(const char *name, const char *, const int64_t &count,
             const ::heddle::bundle::Ratio &share) {
    (*this)(name,
            Written{count > 0 ? std::to_string(count)
                              : ::heddle::bundle::detail::spellShare(share)},
            Any{});
  }
  void group(const char *name, const int64_t &value, bool) {
    (*this)(name, Written{groupText(value)}, Any{});
  }
  void pooled(const int64_t &value) { alone(std::to_string(value)); }

  /// What parts clauses.
  const char *between = " ";
  template <typename F>
  void clause(const char *word, const bool &there, F state) {
    if (!there)
      return;
    FormSpeller inner(word);
    inner.values = values;
    state(inner);
    inner.close();
    addClause(inner.text);
  }
  void clause(const char *word, const bool &there) {
    if (there)
      addClause(word);
  }
  void operand(const char *word, bool = false) {
    if (takes(word))
      addClause(word + (" " + values[word]));
  }

private:
  struct Written {
    std::string text;
    friend std::string toString(const Written &written) { return written.text; }
  };
  void alone(const std::string &written) {
    (*this)("", Written{written}, Lone<Any>{});
  }
  void addClause(const std::string &clause) {
    close();
    text += (text.empty() ? "" : between) + clause;
  }
};

} // namespace mlir::heddle

#endif // HEDDLE_LIB_DIALECT_HEDDLE_IR_FORMS_H
