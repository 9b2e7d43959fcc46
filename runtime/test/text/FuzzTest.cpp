//===- FuzzTest.cpp - Mutated tokenizer.json files never crash ------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/test/text/TestFiles.h"

#include <gtest/gtest.h>

#include <random>

using namespace heddle::rt;
using nlohmann::json;

/// A small file with every kind of component, so that mutations hit them.
static json smallFile() {
  json file =
      json::parse(test::readGolden("split_behaviors", "tokenizer.json"));
  json vocab = json::object(), merges = json::array();
  for (const auto &[token, id] : file["model"]["vocab"].items())
    if (id < 256)
      vocab[token] = id;
  for (const char *pair : {"a b", "t h", "th e"}) {
    merges.push_back(pair);
    std::string joined = pair;
    joined.erase(joined.find(' '), 1);
    vocab[joined] = vocab.size();
  }
  file["model"]["vocab"] = vocab;
  file["model"]["merges"] = merges;
  file["added_tokens"] =
      json::parse(test::readGolden("flags", "tokenizer.json"))["added_tokens"];
  int id = static_cast<int>(vocab.size());
  for (json &token : file["added_tokens"])
    token["id"] = vocab.contains(token["content"])
                      ? vocab[token["content"].get<std::string>()].get<int>()
                      : id++;
  return file;
}

class Mutator {
public:
  explicit Mutator(uint32_t seed) : random(seed) {}

  size_t below(size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  }

  /// Changes bytes of the text, or the tail or a stretch of it.
  std::string text(std::string text) {
    static constexpr char bytes[] = "{}[]\",:0-9\\\0\xFF"
                                    "eE.tnu+*?()|";
    for (size_t i = 0, n = 1 + below(4); i < n && !text.empty(); ++i) {
      size_t at = below(text.size());
      switch (below(5)) {
      case 0:
        text[at] = static_cast<char>(below(256));
        break;
      case 1:
        text.insert(at, 1, bytes[below(sizeof bytes - 1)]);
        break;
      case 2:
        text.erase(at, 1 + below(40));
        break;
      case 3:
        text.insert(at, text, below(text.size()), below(60));
        break;
      default:
        text[at] = bytes[below(sizeof bytes - 1)];
        break;
      }
    }
    if (below(20) == 0)
      text.resize(below(text.size() + 1));
    return text;
  }

  /// Changes one random value of the document: mutations that still parse.
  void tree(json &node, int depth = 0) {
    if (node.is_structured() && !node.empty() && (depth < 2 || below(4))) {
      auto it = node.begin();
      std::advance(it, below(node.size()));
      return tree(*it, depth + 1);
    }
    static const json values[] = {nullptr,
                                  true,
                                  -1,
                                  0,
                                  5,
                                  1e300,
                                  "",
                                  "a",
                                  "ByteLevel",
                                  "Sequence",
                                  "Regex",
                                  json::array(),
                                  json::object(),
                                  "[a-",
                                  "(a+)+b",
                                  "\\p{L}+",
                                  "(?=",
                                  "\xC4\xA0",
                                  4294967296u,
                                  16777215};
    if (node.is_string() && below(2)) {
      std::string changed = node;
      changed.insert(below(changed.size() + 1), 1,
                     "()[]{}*+?|\\^$ 1a"[below(17)]);
      node = changed;
    } else {
      node = values[below(std::size(values))];
    }
  }

private:
  std::mt19937 random;
};

/// Loads a mutated file; if it still loads, what it does must be sound.
static bool exercise(const std::string &file) {
  auto tokenizer = test::loadText(file);
  if (!tokenizer) {
    EXPECT_FALSE(tokenizer.error().text().empty());
    return false;
  }
  auto ids = (*tokenizer)
                 ->encode("The  loom's 12 threads.<l> word \u00C5é\u0301 |a| "
                          "<r>  the\n\n 99aaaaaab");
  if (!ids)
    return true;
  for (int32_t id : *ids) {
    EXPECT_GE(id, 0);
    EXPECT_LT(id, (*tokenizer)->vocabSize());
  }
  (*tokenizer)->decode(*ids, true);
  return true;
}

TEST(Fuzz, MutatedText) {
  std::string file = smallFile().dump();
  ASSERT_TRUE(exercise(file));
  int refused = 0;
  for (uint32_t seed = 0; seed < 1500; ++seed)
    refused += !exercise(Mutator(seed).text(file));
  EXPECT_GT(refused, 500);
}

TEST(Fuzz, MutatedValues) {
  json file = smallFile();
  int refused = 0, accepted = 0;
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    Mutator mutator(seed);
    json mutated = file;
    for (size_t i = 0, n = 1 + mutator.below(3); i < n; ++i)
      mutator.tree(mutated);
    // A mutation may have cut a character in two.
    std::string text =
        mutated.dump(-1, ' ', false, json::error_handler_t::replace);
    (exercise(text) ? accepted : refused)++;
  }
  EXPECT_GT(refused, 300);
  EXPECT_GT(accepted, 100);
}
