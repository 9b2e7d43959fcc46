//===- SeparateFilesTest.cpp - vocab.json and merges.txt ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What Hugging Face makes of such a folder is in goldens/separate_files, which
// GoldenTest.cpp runs; here are older layouts and broken files.
//
//===----------------------------------------------------------------------===//

#include "runtime/test/text/TestFiles.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>

#include <unistd.h>

using namespace heddle;
using namespace heddle::rt;
using nlohmann::json;

namespace {

/// The files of a folder, by name.
using Files = std::map<std::string, std::string>;

Files golden() {
  Files files;
  for (const char *name : {"vocab.json", "merges.txt", "tokenizer_config.json"})
    files[name] = test::readGolden("separate_files", name);
  return files;
}

Result<std::unique_ptr<Tokenizer>> load(const Files &files) {
  std::filesystem::path folder = std::filesystem::path(testing::TempDir()) /
                                 ("heddle-files-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  for (const auto &[name, bytes] : files)
    std::ofstream(folder / name, std::ios::binary) << bytes;
  Result<std::unique_ptr<Tokenizer>> result = Tokenizer::load(folder.string());
  std::filesystem::remove_all(folder);
  return result;
}

std::string errorOf(const Files &files) {
  Result<std::unique_ptr<Tokenizer>> result = load(files);
  return result ? "no error" : result.error().text();
}

/// Changes one JSON file.
void change(Files &files, const char *name,
            const std::function<void(json &)> &apply) {
  json value = json::parse(files[name]);
  apply(value);
  files[name] = value.dump();
}

TEST(SeparateFiles, OlderFoldersMeanTheSame) {
  Files older = golden();
  json added;
  change(older, "tokenizer_config.json", [&](json &config) {
    for (const auto &[id, token] : config["added_tokens_decoder"].items())
      added[token["content"].get<std::string>()] = std::stoi(id);
    config.erase("added_tokens_decoder");
    // Which are special, part of it in the other file.
    config.erase("mask_token");
  });
  older["added_tokens.json"] = added.dump();
  older["special_tokens_map.json"] = R"({"mask_token": {"content":
    "<|mdm_mask|>", "lstrip": false}})";
  Result<std::unique_ptr<Tokenizer>> tokenizer = load(older);
  ASSERT_TRUE(tokenizer) << tokenizer.error().text();
  for (const json &one :
       json::parse(test::readGolden("separate_files", "cases.json"))) {
    Result<std::vector<int32_t>> ids =
        (*tokenizer)->encode(std::string(one[0]));
    ASSERT_TRUE(ids);
    EXPECT_EQ(*ids, one[1].get<std::vector<int32_t>>()) << one[0];
    EXPECT_EQ((*tokenizer)->decode(*ids, true), std::string(one[3]));
  }
}

TEST(SeparateFiles, ATokenizerJsonComesFirst) {
  Files files = golden();
  files["tokenizer.json"] = "[";
  EXPECT_TRUE(errorOf(files).starts_with("tokenizer.json: ")) << errorOf(files);
}

TEST(SeparateFiles, LineEndsOfOtherSystems) {
  Files files = golden();
  std::string text;
  for (char c : files["merges.txt"])
    text += c == '\n' ? "\r\n" : std::string(1, c);
  files["merges.txt"] = text + "\r\n";
  Result<std::unique_ptr<Tokenizer>> tokenizer = load(files);
  ASSERT_TRUE(tokenizer) << tokenizer.error().text();
  EXPECT_EQ(*(*tokenizer)->encode("the loom"),
            *(*load(golden()))->encode("the loom"));
}

TEST(SeparateFiles, MissingOnesAreNamed) {
  Files files = golden();
  files.erase("merges.txt");
  EXPECT_TRUE(errorOf(files).ends_with("/merges.txt: cannot open the file: No "
                                       "such file or directory"))
      << errorOf(files);
  files = golden();
  files.erase("tokenizer_config.json");
  EXPECT_TRUE(errorOf(files).ends_with(
      "/tokenizer_config.json: there is no such file; beside vocab.json it "
      "says how text is split"))
      << errorOf(files);
  EXPECT_TRUE(errorOf({}).ends_with(
      "/tokenizer.json: there is no such file, and no vocab.json beside it; "
      "the folder of a model holds one of them"))
      << errorOf({});
}

TEST(SeparateFiles, BrokenMergesNameTheLine) {
  for (const char *line : {"a", "a b c", " a", "a ", "a  b"}) {
    Files files = golden();
    files["merges.txt"] =
        "#version: 0.2\n\xC4\xA0 t\n" + std::string(line) + "\n";
    EXPECT_EQ(errorOf(files), "merges.txt:3: found \"" + std::string(line) +
                                  "\"; expected two tokens with one space "
                                  "between them");
  }
  Files files = golden();
  files["merges.txt"] = "#version: 0.2\n\n\xC4\xA0 t\nq zz\n";
  EXPECT_EQ(errorOf(files),
            "merges.txt:4: the token \"zz\" is not in vocab.json");
  files["merges.txt"] = "\xFF \xFE\n";
  EXPECT_TRUE(errorOf(files).starts_with("merges.txt:1: ")) << errorOf(files);
  files["merges.txt"] = std::string("\0 \0", 3);
  EXPECT_TRUE(errorOf(files).starts_with("merges.txt:1: ")) << errorOf(files);
}

/// Each such file reads well, and would cut text into more tokens in silence.
TEST(SeparateFiles, MergesCutAtALinesEndAreRefused) {
  const std::string whole = golden()["merges.txt"];
  size_t cut = whole.find_last_not_of('\n') + 1;
  for (int missing = 1; missing <= 20; ++missing) {
    cut = whole.rfind('\n', cut - 1);
    Files files = golden();
    files["merges.txt"] = whole.substr(0, cut + 1);
    const std::string error = errorOf(files);
    EXPECT_TRUE(error.starts_with("merges.txt: no line of ")) << error;
    EXPECT_NE(error.find(missing == 1 ? "of vocab.json; the file is cut off"
                                      : ", nor " + std::to_string(missing - 1) +
                                            " others; the file is cut off"),
              std::string::npos)
        << error;
  }
}

TEST(SeparateFiles, AddedTokensInTheVocabularyNeedNoMerge) {
  Files files = golden();
  change(files, "vocab.json",
         [](json &vocab) { vocab["<|endoftext|>"] = vocab.size(); });
  EXPECT_EQ(errorOf(files), "no error");
  change(files, "vocab.json",
         [](json &vocab) { vocab["<extra>"] = vocab.size(); });
  EXPECT_TRUE(errorOf(files).starts_with("merges.txt: no line of "))
      << errorOf(files);
}

TEST(SeparateFiles, BrokenVocabulariesNameTheToken) {
  auto with = [](const std::string &text) {
    Files files = golden();
    files["vocab.json"] = text;
    return errorOf(files);
  };
  EXPECT_EQ(with("[]"), "vocab.json: found array; expected an object of "
                        "token: id");
  EXPECT_EQ(with("7"), "vocab.json: found number; expected an object of "
                       "token: id");
  EXPECT_TRUE(with("").starts_with("vocab.json: ")) << with("");
  EXPECT_TRUE(with("{\"a\": 1").starts_with("vocab.json: "));
  EXPECT_EQ(with(golden()["vocab.json"] + std::string("\0}", 2)),
            "vocab.json: byte " +
                std::to_string(golden()["vocab.json"].size()) +
                " is 0, which no JSON has");
  EXPECT_EQ(with("{\"a\": \"b\"}"),
            "vocab.json[\"a\"]: found a string; expected an integer id");
  EXPECT_EQ(with("{\"a\": {}}"),
            "vocab.json[\"a\"]: found an object; expected an integer id");
  EXPECT_EQ(with("{\"a\": -1}"),
            "vocab.json[\"a\"]: the id is -1; expected 0 to 16777215");
  EXPECT_EQ(with("{\"a\": 0, \"b\": 0}"),
            "vocab.json[\"b\"]: the id 0 already belongs to \"a\"");
  EXPECT_EQ(with("{\"a\": 0, \"a\": 1}"),
            "vocab.json[\"a\"]: the token appears twice");
  EXPECT_EQ(with("{}"),
            "vocab.json: has no token \"\u0100\" for the byte 0; a byte-level "
            "vocabulary holds every byte");
}

TEST(SeparateFiles, BrokenConfigurationsNameTheField) {
  auto with = [](const std::function<void(json &)> &apply) {
    Files files = golden();
    change(files, "tokenizer_config.json", apply);
    return errorOf(files);
  };
  EXPECT_EQ(with([](json &c) { c["tokenizer_class"] = "GPT2Tokenizer"; }),
            "tokenizer_config.json: tokenizer_class: found \"GPT2Tokenizer\"; "
            "how vocab.json and merges.txt are used is known for "
            "Qwen2Tokenizer and DreamTokenizer. Other tokenizers need a "
            "tokenizer.json");
  EXPECT_NE(with([](json &c) {
              c.erase("tokenizer_class");
            }).find("tokenizer_class: found nothing"),
            std::string::npos);
  EXPECT_EQ(with([](json &c) { c["tokenizer_class"] = "DreamTokenizer"; }),
            "no error");
  EXPECT_EQ(with([](json &c) { c["add_prefix_space"] = true; }),
            "tokenizer_config.json: add_prefix_space: found true, only false "
            "is supported");
  EXPECT_EQ(with([](json &c) { c["added_tokens_decoder"] = 3; }),
            "tokenizer_config.json: added_tokens_decoder: found number; "
            "expected an object of id: token");
  EXPECT_EQ(with([](json &c) { c["added_tokens_decoder"]["x"] = {}; }),
            "tokenizer_config.json: added_tokens_decoder[\"x\"]: the key is no "
            "token id");
  EXPECT_EQ(with([](json &c) { c["added_tokens_decoder"]["900"] = 1; }),
            "tokenizer_config.json: added_tokens_decoder[\"900\"]: found "
            "number; expected an object with \"content\"");
  std::string flag =
      with([](json &c) { c["added_tokens_decoder"].front()["lstrip"] = 7; });
  EXPECT_TRUE(
      flag.starts_with("tokenizer_config.json: added_tokens_decoder[\""))
      << flag;
  EXPECT_TRUE(
      flag.ends_with("\"].lstrip: found number; expected true or false"))
      << flag;
  EXPECT_NE(with([](json &c) {
              c["added_tokens_decoder"]["900"] = {{"content", "<x>"}};
            }).find("found 900 for \"<x>\"; expected "),
            std::string::npos);
  Files files = golden();
  files["tokenizer_config.json"] = "{";
  EXPECT_TRUE(errorOf(files).starts_with("tokenizer_config.json: "));
}

TEST(SeparateFiles, BrokenAddedTokensNameTheToken) {
  auto with = [](const char *text) {
    Files files = golden();
    change(files, "tokenizer_config.json",
           [](json &c) { c.erase("added_tokens_decoder"); });
    files["added_tokens.json"] = text;
    return errorOf(files);
  };
  EXPECT_EQ(with("{\"<x>\": \"7\"}"),
            "added_tokens.json[\"<x>\"]: found \"7\"; expected a token id");
  EXPECT_EQ(with("{\"<x>\": 545, \"<y>\": 545}"),
            "added_tokens.json[\"<y>\"]: the id 545 already belongs to "
            "\"<x>\"");
  EXPECT_TRUE(with("[1]").starts_with("added_tokens.json: ")) << with("[1]");
  EXPECT_EQ(with("{}"), "no error");
}

/// Bytes changed, taken out, doubled or cut off in one of the files: an error,
/// or a tokenizer whose ids are in its vocabulary.
TEST(SeparateFiles, MutatedFilesNeverCrash) {
  Files files = golden();
  files["added_tokens.json"] = R"({"<|endoftext|>": 545, "<tool>": 546})";
  files["special_tokens_map.json"] = R"({"eos_token": "<|endoftext|>"})";
  int refused = 0;
  for (uint32_t seed = 0; seed < 600; ++seed) {
    std::mt19937 random(seed);
    Files mutated = files;
    if (seed % 2)
      change(mutated, "tokenizer_config.json",
             [](json &c) { c.erase("added_tokens_decoder"); });
    std::string &text =
        std::next(mutated.begin(), random() % mutated.size())->second;
    for (int i = 0; i < 3; ++i) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, 1 + random() % 20);
        text += ' ';
        break;
      case 2:
        text.insert(at, text.substr(random() % text.size(), 30));
        break;
      default:
        text[at] = "{}[]\",: \n0-"[random() % 11];
      }
    }
    if (random() % 20 == 0)
      text.resize(random() % text.size());
    Result<std::unique_ptr<Tokenizer>> tokenizer = load(mutated);
    refused += !tokenizer;
    if (!tokenizer) {
      EXPECT_FALSE(tokenizer.error().text().empty());
      continue;
    }
    auto ids =
        (*tokenizer)->encode("The loom's 12 <tool> <|endoftext|> e\u0301");
    if (!ids)
      continue;
    for (int32_t id : *ids)
      EXPECT_TRUE(id >= 0 && id < (*tokenizer)->vocabSize()) << id;
    (*tokenizer)->decode(*ids, false);
  }
  EXPECT_GT(refused, 100);
}

} // namespace
