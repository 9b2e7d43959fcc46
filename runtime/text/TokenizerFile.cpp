//===- TokenizerFile.cpp - tokenizer.json as data -------------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/text/TokenizerFile.h"

#include "bundle/program/Printable.h"

#include <limits>
#include <optional>

using namespace heddle;
using namespace heddle::rt::text;
using nlohmann::json;

namespace {
/// The largest id that is read; every published vocabulary is far smaller, and
/// a wild id must not become gigabytes of table.
constexpr int64_t maxId = (1 << 24) - 1;
constexpr size_t maxDepth = 64;

/// Receives the parser's events.
class Reader {
public:
  /// `vocabOnly`: the document itself is the vocabulary.
  explicit Reader(TokenizerFile &file, bool vocabOnly = false)
      : file(file), vocabOnly(vocabOnly) {}
  std::string message;

  bool null() { return value(nullptr); }
  bool boolean(bool v) { return value(v); }
  bool number_integer(int64_t v) { return number(v, v); }
  bool number_unsigned(uint64_t v) {
    return number(v, static_cast<int64_t>(std::min<uint64_t>(
                         v, std::numeric_limits<int64_t>::max())));
  }
  bool number_float(double v, const std::string &) { return value(v); }
  bool binary(json::binary_t &) { return false; } // JSON text has none.
  bool string(std::string &v) {
    return mode == Mode::Merges ? mergeString(v) : value(std::move(v));
  }
  bool start_object(size_t) {
    if (mode != Mode::Document)
      return unexpected("an object");
    if (vocabOnly ? levels.empty() : atModelMember("vocab")) {
      if (file.hasVocab)
        return fail("appears twice");
      file.hasVocab = true;
      mode = Mode::Vocab;
      return true;
    }
    return open(json::object());
  }
  bool end_object() { return close(); }
  bool start_array(size_t) {
    if (mode == Mode::Merges && !pair) {
      pair.emplace();
      return true;
    }
    if (mode != Mode::Document)
      return unexpected("an array");
    if (atModelMember("merges")) {
      if (file.hasMerges)
        return fail("appears twice");
      file.hasMerges = true;
      mode = Mode::Merges;
      return true;
    }
    return open(json::array());
  }
  bool end_array() {
    if (mode != Mode::Merges)
      return close();
    if (!pair) {
      mode = Mode::Document;
      return true;
    }
    if (pair->size() != 2)
      return fail("has " + std::to_string(pair->size()) +
                  " strings; expected two");
    addMerge((*pair)[0], (*pair)[1]);
    pair.reset();
    return true;
  }
  bool key(std::string &name) {
    member = std::move(name);
    return true;
  }
  bool parse_error(size_t, const std::string &,
                   const json::exception &exception) {
    // Drop the library's "[json.exception.parse_error.101] ".
    std::string_view what = exception.what();
    size_t tag = what.find("] ");
    message = printableLines(tag == what.npos ? what : what.substr(tag + 2));
    return false;
  }

private:
  enum class Mode { Document, Vocab, Merges };
  struct Level {
    json *node;
    std::string member; ///< by which the parent holds it, if an object does
  };

  bool fail(const std::string &what) {
    message = path() + ": " + what;
    return false;
  }
  bool unexpected(const char *found) {
    return fail(std::string("found ") + found +
                (mode == Mode::Vocab ? "; expected an integer id"
                                     : "; expected \"left right\" or "
                                       "[\"left\", \"right\"]"));
  }

  /// Where the value that is being read stands, as "model.vocab[\"a\"]".
  std::string path() const {
    if (mode == Mode::Vocab)
      return file.vocabName + "[" + inQuotes(member) + "]";
    if (mode == Mode::Merges)
      return "model.merges[" + std::to_string(mergeIndex) + "]";
    std::string text;
    for (size_t i = 0; i < levels.size(); ++i) {
      const json &node = *levels[i].node;
      bool last = i + 1 == levels.size();
      if (node.is_array()) // the value itself is not in it yet
        text += "[" + std::to_string(node.size() - (last ? 0 : 1)) + "]";
      else
        text += (text.empty() ? "" : ".") +
                printable(last ? member : levels[i + 1].member);
    }
    return text.empty() ? "the document" : text;
  }

  bool atModelMember(const char *name) const {
    return levels.size() == 2 && levels[1].member == "model" &&
           levels[1].node->is_object() && member == name;
  }

  template <typename T> bool number(T v, int64_t id) {
    if (mode != Mode::Vocab)
      return value(v);
    if (id < 0 || id > maxId)
      return fail("the id is " + std::to_string(v) + "; expected 0 to " +
                  std::to_string(maxId));
    file.vocab.push_back({store(member), static_cast<int32_t>(id)});
    return true;
  }

  bool value(json v) {
    if (mode != Mode::Document)
      return unexpected(v.is_string() ? "a string" : v.dump().c_str());
    place(std::move(v));
    return true;
  }

  json *place(json v) {
    if (levels.empty()) {
      file.rest = std::move(v);
      return &file.rest;
    }
    json &parent = *levels.back().node;
    if (parent.is_array()) {
      parent.push_back(std::move(v));
      return &parent.back();
    }
    return &(parent[member] = std::move(v));
  }

  bool open(json v) {
    if (levels.size() >= maxDepth)
      return fail("nested deeper than " + std::to_string(maxDepth) + " levels");
    std::string name = member;
    levels.push_back({place(std::move(v)), std::move(name)});
    return true;
  }

  bool close() {
    if (mode == Mode::Vocab) {
      mode = Mode::Document;
      return true;
    }
    // The parent may have to name this level again in a later message.
    member = levels.back().member;
    levels.pop_back();
    return true;
  }

  bool mergeString(const std::string &v) {
    if (pair) {
      if (pair->size() == 2)
        return fail("has more than two strings");
      pair->push_back(v);
      return true;
    }
    if (v.starts_with("#version")) { // of a merges.txt, as tokenizers skips it
      ++mergeIndex;
      return true;
    }
    size_t space = v.find(' ');
    if (space == v.npos || v.find(' ', space + 1) != v.npos)
      return fail("found " + inQuotes(v) +
                  "; expected two tokens with one space between them");
    addMerge(v.substr(0, space), v.substr(space + 1));
    return true;
  }

  void addMerge(const std::string &left, const std::string &right) {
    FileString first = store(left);
    file.merges.push_back({first, store(right), mergeIndex++});
  }

  FileString store(const std::string &text) {
    FileString stored{static_cast<uint32_t>(file.strings.size()),
                      static_cast<uint32_t>(text.size())};
    file.strings += text;
    return stored;
  }

  TokenizerFile &file;
  bool vocabOnly;
  Mode mode = Mode::Document;
  std::vector<Level> levels;
  std::string member;
  std::optional<std::vector<std::string>> pair;
  uint32_t mergeIndex = 0;
};
} // namespace

std::string heddle::rt::text::inQuotes(std::string_view text) {
  return '"' + printable(text, /*most=*/60) + '"';
}

static Status checkText(std::string_view text) {
  if (static_cast<int64_t>(text.size()) > largestFile)
    return Error("the file has " + std::to_string(text.size()) +
                 " bytes; at most " + std::to_string(largestFile) +
                 " are read");
  // The library takes it for the end of the text.
  if (const size_t nul = text.find('\0'); nul != text.npos)
    return Error("byte " + std::to_string(nul) + " is 0, which no JSON has");
  return Status::success();
}

Status heddle::rt::text::parseVocabFile(std::string_view text,
                                        TokenizerFile &file) {
  if (Status status = checkText(text); !status)
    return status.takeError().withContext(file.vocabName);
  file.strings.reserve(text.size());
  Reader reader(file, /*vocabOnly=*/true);
  if (!json::sax_parse(text.data(), text.data() + text.size(), &reader))
    return reader.message.starts_with(file.vocabName)
               ? Error(std::move(reader.message))
               : Error(file.vocabName + ": " + reader.message);
  if (!file.hasVocab)
    return Error(file.vocabName + ": found " +
                 std::string(file.rest.type_name()) +
                 "; expected an object of token: id");
  return Status::success();
}

Result<TokenizerFile>
heddle::rt::text::parseTokenizerFile(std::string_view text) {
  if (Status status = checkText(text); !status)
    return status.takeError();
  TokenizerFile file;
  file.strings.reserve(text.size() / 2);
  Reader reader(file);
  bool ok = json::sax_parse(text.data(), text.data() + text.size(), &reader);
  if (!ok)
    return Error(std::move(reader.message));
  if (!file.rest.is_object())
    return Error("found " + std::string(file.rest.type_name()) +
                 "; expected an object with \"model\" and \"added_tokens\"");
  return file;
}

Result<std::string> heddle::rt::text::stringMember(const json &object,
                                                   const std::string &path,
                                                   const char *name) {
  auto it = object.find(name);
  if (it == object.end())
    return Error(path + ": has no \"" + name + "\"");
  if (!it->is_string())
    return Error(path + "." + name + ": found " + it->type_name() +
                 "; expected a string");
  return it->get<std::string>();
}

Result<bool> heddle::rt::text::boolMember(const json &object,
                                          const std::string &path,
                                          const char *name, bool fallback) {
  auto it = object.find(name);
  if (it == object.end())
    return fallback;
  if (!it->is_boolean())
    return Error(path + "." + name + ": found " + it->type_name() +
                 "; expected true or false");
  return it->get<bool>();
}

Result<std::string> heddle::rt::text::componentType(const json &component,
                                                    const std::string &path) {
  if (!component.is_object())
    return Error(path + ": found " + component.type_name() +
                 "; expected an object with a \"type\"");
  return stringMember(component, path, "type");
}
