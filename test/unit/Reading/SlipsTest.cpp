//===- SlipsTest.cpp - What is suggested in place of a slip ---------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every word of every example, in each of its places, with a letter left out or
// two swapped: the error stands at the word and suggests what was written. And
// every token, left out, doubled or behind the next one: the error says so in
// words of schedules. And what other languages write: the error says what is
// written here.
//
//===----------------------------------------------------------------------===//

#include "bundle/NearestWord.h"
#include "bundle/program/ManifestNames.h"
#include "heddle/Dialect/Heddle/IR/Heddle.h"
#include "heddle/Dialect/Heddle/IR/Reference.h"
#include "heddle/Pipelines/Reading.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

using namespace mlir;
using namespace mlir::heddle;
namespace bundle = ::heddle::bundle;

namespace {

/// A word, where it stands in a text, and what tells its place from others.
struct Word {
  size_t at;
  std::string text, place;
};

bool inWord(char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; }

/// The words of a schedule that are the language's: no values, symbols,
/// parameters, numbers, comments, or what other dialects have in scores.
std::vector<Word> wordsIn(StringRef text) {
  std::vector<Word> words;
  std::string op, before; // the line's first word, and what stands before
  int depth = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text.substr(at).starts_with("//"))
      at = std::min(text.find('\n', at), text.size() - 1);
    const char c = text[at];
    if (c == '\n')
      op.clear();
    depth += (c == '{') - (c == '}');
    if (!inWord(c)) {
      if (!llvm::isSpace(c))
        before = c;
      continue;
    }
    const std::string word = text.substr(at).take_while(inWord).str();
    const bool number = llvm::isDigit(word.front());
    const bool name = StringRef("%@").contains(before) && !before.empty();
    if (op.empty() && !name)
      op = word;
    if (!name && !number &&
        (depth == 0   ? word == "heddle.schedule"
         : depth == 1 ? true
                      : word == "yield"))
      words.push_back({at, word, op + " " + before + " " + word});
    before = name ? "value" : number ? "number" : word;
    at += word.size() - 1;
  }
  return words;
}

/// The word with a letter left out, or with two swapped.
std::set<std::string> slipsOf(const std::string &word) {
  std::set<std::string> slips;
  for (size_t i = 0; i < word.size(); ++i) {
    std::string slip = word;
    slips.insert(slip.erase(i, 1));
    slip = word;
    if (i + 1 < word.size())
      std::swap(slip[i], slip[i + 1]);
    slips.insert(slip);
  }
  slips.erase(word);
  slips.erase("");
  return slips;
}

struct Found {
  std::string error;             ///< "" if there is none
  std::string note;              ///< what is meant
  unsigned line = 0, column = 0; ///< of the note
};

/// The first error of a text.
Found read(MLIRContext &context, const std::string &text) {
  Found found;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (!found.error.empty() ||
        diagnostic.getSeverity() != DiagnosticSeverity::Error)
      return;
    found.error = diagnostic.str();
    for (Diagnostic &note : diagnostic.getNotes())
      if (auto place = dyn_cast<FileLineColLoc>(note.getLocation());
          place && StringRef(note.str()).starts_with("did you mean")) {
        found.note = note.str();
        found.line = place.getLine();
        found.column = place.getColumn();
      }
  });
  Reading reading(llvm::MemoryBufferRef(text, "slip"), &context);
  EXPECT_EQ(reading.isGood(), found.error.empty()) << text;
  return found;
}

bool isOfLanguage(MLIRContext &context, StringRef word) {
  return llvm::is_contained(allWords(), word) ||
         RegisteredOperationName::lookup(("heddle." + word).str(), &context);
}

/// The texts of all examples by their file's name.
std::vector<std::pair<std::string, std::string>> examples() {
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto &entry : std::filesystem::directory_iterator(HEDDLE_EXAMPLES))
    if (entry.path().extension() == ".mlir") {
      auto file = llvm::MemoryBuffer::getFile(entry.path().string());
      EXPECT_TRUE(bool(file)) << entry.path();
      if (file)
        all.emplace_back(entry.path().filename().string(),
                         (*file)->getBuffer().str());
    }
  llvm::sort(all);
  EXPECT_GT(all.size(), 40u);
  return all;
}

class Slips : public testing::Test {
protected:
  Slips() : context(MLIRContext::Threading::DISABLED) {
    context
        .loadDialect<HeddleDialect, arith::ArithDialect, math::MathDialect>();
  }

  MLIRContext context;
};

TEST_F(Slips, SuggestWhatWasWritten) {
  std::set<std::string> seen;
  int64_t count = 0, others = 0;
  for (const auto &[file, text] : examples()) {
    ASSERT_EQ(read(context, text).error, "") << file;
    for (const Word &word : wordsIn(text)) {
      if (!seen.insert(word.place).second)
        continue;
      for (const std::string &slip : slipsOf(word.text)) {
        if (isOfLanguage(context, slip))
          continue;
        std::string slipped = text;
        slipped.replace(word.at, word.text.size(), slip);
        const Found found = read(context, slipped);
        const StringRef before = StringRef(text).take_front(word.at);
        const std::string where = file + ": '" + slip + "' for '" + word.text +
                                  "' (" + word.place + "): " + found.error +
                                  " / " + found.note;
        ++count;
        EXPECT_NE(found.note, "") << where;
        EXPECT_EQ(found.line, before.count('\n') + 1) << where;
        EXPECT_EQ(found.column, before.size() - before.rfind('\n')) << where;
        // Or another that is as near.
        StringRef meant =
            StringRef(found.note).split('\'').second.rsplit('\'').first;
        const size_t distance = bundle::editDistance(slip, meant);
        EXPECT_LE(distance, bundle::editDistance(slip, word.text)) << where;
        others += meant != word.text;
      }
    }
  }
  EXPECT_GT(count, 1000);
  EXPECT_LT(others, count / 100);
}

/// A token, where it stands, and what tells its place from others.
struct Piece {
  size_t begin, end;
  std::string place;
};

/// The tokens of a schedule, without those of other dialects in scores.
std::vector<Piece> piecesOf(StringRef text) {
  std::vector<Piece> pieces;
  std::string op, before, previous;
  for (size_t at = 0; at < text.size();) {
    if (text.substr(at).starts_with("//")) {
      at = text.find('\n', at);
      continue;
    }
    if (llvm::isSpace(text[at])) {
      if (text[at] == '\n')
        op.clear();
      ++at;
      continue;
    }
    const size_t begin = at;
    at += StringRef("%@").contains(text[at]);
    while (at < text.size() && inWord(text[at]))
      ++at;
    at = std::max(at, begin + 1);
    StringRef token = text.slice(begin, at);
    const std::string kind = token.starts_with("%")         ? "value"
                             : token.starts_with("@")       ? "name"
                             : llvm::isDigit(token.front()) ? "number"
                                                            : token.str();
    if (op.empty() && kind != "value" && kind != "=")
      op = kind;
    if (!StringRef(op).starts_with("arith.") &&
        !StringRef(op).starts_with("math."))
      pieces.push_back(
          {begin, at, op + " " + before + " " + previous + " " + kind});
    before = previous;
    previous = kind;
  }
  return pieces;
}

/// Whether a message has words of the parser and not of schedules.
bool isOfParser(StringRef message) {
  for (StringRef words :
       {"custom op", "SSA",           "!heddle",     "in quotes",
        "keyword",   "key word",      "region",      "attribute",
        "binding",   "integer value", "nonempty",    "dialect",
        "'builtin",  "operand",       "block",       "' op ",
        "dominate",  "unexpected",    "consecutive", "number of results"})
    if (message.contains(words) &&
        !(words == "block" && !message.contains("block with")))
      return true;
  return false;
}

TEST_F(Slips, OfTokensAreSaidInWordsOfSchedules) {
  std::set<std::string> seen;
  int64_t count = 0, advised = 0;
  for (const auto &[file, text] : examples()) {
    const std::vector<Piece> pieces = piecesOf(text);
    for (size_t i = 0; i < pieces.size(); ++i) {
      const Piece &piece = pieces[i];
      if (!seen.insert(piece.place).second)
        continue;
      const std::string token =
          text.substr(piece.begin, piece.end - piece.begin);
      std::string without = text, twice = text, behind = text;
      without.replace(piece.begin, token.size(), token.size(), ' ');
      twice.insert(piece.begin, token + " ");
      if (i + 1 < pieces.size()) {
        const Piece &next = pieces[i + 1];
        behind.replace(piece.begin, next.end - piece.begin,
                       text.substr(next.begin, next.end - next.begin) + " " +
                           text.substr(piece.end, next.begin - piece.end) +
                           " " + token + " ");
      }
      const std::pair<const char *, const std::string &> slips[] = {
          {"without", without}, {"twice", twice}, {"behind the next", behind}};
      for (const auto &[kind, slipped] : slips) {
        if (slipped == text)
          continue;
        const Found found = read(context, slipped);
        if (found.error.empty())
          continue; // means something else
        ++count;
        advised += StringRef(found.error + found.note).contains("write ") ||
                   StringRef(found.error).contains("drop ") ||
                   !found.note.empty();
        EXPECT_FALSE(isOfParser(found.error))
            << file << ": '" << token << "' " << kind << " (" << piece.place
            << "): " << found.error;
        if (std::getenv("HEDDLE_LIST_SLIPS"))
          llvm::outs() << file << ": '" << token << "' " << kind << " ("
                       << piece.place << "): " << found.error << " / "
                       << found.note << "\n";
      }
    }
  }
  EXPECT_GT(count, 1000);
  llvm::outs() << count << " slips, " << advised << " with advice\n";
}

TEST_F(Slips, OfOtherLanguagesAreToldWhatToWrite) {
  std::set<std::string> seen;
  int64_t count = 0;
  auto expect = [&](StringRef file, std::string text, size_t begin, size_t size,
                    StringRef other, StringRef advice) {
    const std::string slip = other.str();
    text.replace(begin, size, slip);
    const Found found = read(context, text);
    ++count;
    EXPECT_TRUE(StringRef(found.error).contains(advice) &&
                !isOfParser(found.error))
        << file.str() << ": " << slip << " in "
        << text.substr(text.rfind('\n', begin) + 1, 80) << ": " << found.error;
  };
  for (const auto &[file, text] : examples()) {
    const std::vector<Piece> pieces = piecesOf(text);
    for (size_t i = 0; i + 1 < pieces.size(); ++i) {
      const auto &[begin, end, place] = pieces[i];
      StringRef token = StringRef(text).slice(begin, end);
      StringRef line =
          StringRef(text).take_front(begin).rsplit('\n').second.trim();
      // No rest of a comment.
      const bool endsLine =
          StringRef(text).slice(end, pieces[i + 1].begin).trim(' ') == "\n";
      if (!seen.insert(place + (endsLine ? " end" : "")).second)
        continue;
      auto slip = [&](StringRef other, StringRef advice) {
        expect(file, text, begin, token.size(), other, advice);
      };
      if (llvm::isDigit(token.front())) {
        if (!StringRef(text).substr(end).ltrim().starts_with("percent") &&
            text[begin - 1] != '-')
          slip((token + "%").str(), "write ");
        const std::string minus = text[begin - 1] == '-' ? "-" : "";
        slip(".5", "write " + minus + "0.5");
        slip("2e3", "write " + minus + "2000");
        slip("2e-1", "write " + minus + "0.2");
        slip("#8", "write ");
      } else if (token == "=") {
        slip(":=", "found ':='; write =");
      } else if (token == ",") {
        slip("# a list\n,", "a comment begins with //");
        if (StringRef(place).contains(" number ,"))
          slip(";", "found ';'; ");
      } else if (token.starts_with("%") && line.empty() &&
                 pieces[i + 1].place.ends_with("="))
        slip(token.drop_front(), ("write " + token).str());
      if (endsLine && !token.ends_with("{")) {
        slip((token + ";").str(), "found ';'; ");
        slip((token + " # a comment").str(), "a comment begins with //");
        slip((token + " /* a comment */").str(), "a comment begins with //");
      }
    }
  }
  EXPECT_GT(count, 700);
  llvm::outs() << count << " slips of other languages\n";
}

TEST_F(Slips, OfOrderAreSaidWhereAValueIsUsed) {
  int64_t count = 0;
  for (const auto &[file, text] : examples()) {
    SmallVector<StringRef> lines;
    StringRef(text).split(lines, '\n');
    for (size_t i = 0; i + 1 < lines.size(); ++i) {
      // The next line is an op of its own that uses what this one makes.
      StringRef made = lines[i].trim(), next = lines[i + 1].trim();
      StringRef value = made.split(' ').first;
      if (!made.starts_with("%") || !next.starts_with("%") ||
          !llvm::is_contained(llvm::split(next, ' '), value) ||
          i + 2 == lines.size() || lines[i + 2].starts_with("   "))
        continue;
      SmallVector<StringRef> other(lines);
      std::swap(other[i], other[i + 1]);
      const Found found = read(context, llvm::join(other, "\n"));
      ++count;
      EXPECT_TRUE(
          StringRef(found.error)
              .contains(
                  (value + " is made below; write its line above this one")
                      .str()))
          << file << ": " << next.str() << ": " << found.error;
    }
  }
  EXPECT_GT(count, 20);
}

TEST(Reference, TheCadenceOpDescribesEachForm) {
  const std::string text = describeOp("cadence");
  for (std::string_view form : bundle::namesOf(bundle::Cadence::Kind()))
    EXPECT_TRUE(StringRef(text).contains(("`" + StringRef(form)).str()))
        << std::string(form);
}

} // namespace
