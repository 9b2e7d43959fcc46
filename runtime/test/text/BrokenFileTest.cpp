//===- BrokenFileTest.cpp - Errors of tokenizer.json name their place -----===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/test/text/TestFiles.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include <unistd.h>

using namespace heddle::rt;
using nlohmann::json;

namespace {
struct Breakage {
  const char *name;
  std::function<void(json &)> apply;
  const char *message; ///< what the error must say
};

/// Names the case in test listings.
void PrintTo(const Breakage &breakage, std::ostream *os) {
  *os << breakage.name;
}
class BrokenFile : public testing::TestWithParam<Breakage> {};
} // namespace

TEST_P(BrokenFile, IsALocatedError) {
  json file = test::gpt2File();
  GetParam().apply(file);
  std::string error = test::loadError(file.dump());
  EXPECT_TRUE(error.starts_with("tokenizer.json: ")) << error;
  EXPECT_NE(error.find(GetParam().message), std::string::npos) << error;
}

static json added(json id, const char *content) {
  return {{"id", std::move(id)}, {"content", content}};
}

INSTANTIATE_TEST_SUITE_P(
    All, BrokenFile,
    testing::Values(
        Breakage{"NoModel", [](json &f) { f.erase("model"); },
                 "model: missing"},
        Breakage{"ModelIsNull", [](json &f) { f["model"] = nullptr; },
                 "model: missing"},
        Breakage{"Unigram",
                 [](json &f) {
                   f["model"] = {
                       {"type", "Unigram"},
                       {"vocab", json::array({json::array({"a", -1.5})})}};
                 },
                 "model.type: the model \"Unigram\""},
        Breakage{"NoVocab", [](json &f) { f["model"].erase("vocab"); },
                 "model.vocab: missing"},
        Breakage{"VocabIsList",
                 [](json &f) { f["model"]["vocab"] = json::array(); },
                 "model.vocab: missing or not an object"},
        Breakage{"NoMerges", [](json &f) { f["model"].erase("merges"); },
                 "model.merges: missing"},
        Breakage{"NegativeId", [](json &f) { f["model"]["vocab"]["a"] = -1; },
                 "model.vocab[\"a\"]: the id is -1"},
        Breakage{"HugeId",
                 [](json &f) { f["model"]["vocab"]["a"] = uint64_t(1) << 40; },
                 "model.vocab[\"a\"]: the id is 1099511627776"},
        Breakage{"LonelyId",
                 [](json &f) { f["model"]["vocab"]["zzz"] = 9'000'000; },
                 "model.vocab: the largest id is 9000000"},
        Breakage{"TextId", [](json &f) { f["model"]["vocab"]["a"] = "1"; },
                 "model.vocab[\"a\"]: found a string"},
        Breakage{"FractionalId",
                 [](json &f) { f["model"]["vocab"]["a"] = 1.5; },
                 "model.vocab[\"a\"]: found 1.5"},
        Breakage{"NestedId",
                 [](json &f) { f["model"]["vocab"]["a"] = json::array(); },
                 "model.vocab[\"a\"]: found an array"},
        Breakage{"DuplicateId",
                 [](json &f) {
                   f["model"]["vocab"]["a"] = f["model"]["vocab"]["b"];
                 },
                 "already belongs to"},
        Breakage{"EmptyToken", [](json &f) { f["model"]["vocab"][""] = 699; },
                 "model.vocab[\"\"]"},
        Breakage{"ByteMissing",
                 [](json &f) {
                   f["model"]["vocab"].erase("z");
                   f["model"]["merges"] = json::array();
                 },
                 "has no token \"z\" for the byte 122"},
        Breakage{"UnknownInMerge",
                 [](json &f) { f["model"]["merges"][17] = "zq qz"; },
                 "model.merges[17]: the token \"zq\""},
        Breakage{
            "UnknownMerged",
            [](json &f) { f["model"]["merges"][3] = json::array({"z", "q"}); },
            "model.merges[3]: the token \"zq\""},
        Breakage{"MergeWithoutSpace",
                 [](json &f) { f["model"]["merges"][2] = "ab"; },
                 "model.merges[2]: found \"ab\""},
        Breakage{"MergeOfThree",
                 [](json &f) { f["model"]["merges"][2] = "a b c"; },
                 "model.merges[2]: found \"a b c\""},
        Breakage{"MergeListOfThree",
                 [](json &f) {
                   f["model"]["merges"][2] = json::array({"a", "b", "c"});
                 },
                 "model.merges[2]: has more than two"},
        Breakage{"MergeListOfOne",
                 [](json &f) { f["model"]["merges"][2] = json::array({"a"}); },
                 "model.merges[2]: has 1 strings"},
        Breakage{"MergeIsNumber", [](json &f) { f["model"]["merges"][0] = 5; },
                 "model.merges[0]: found 5"},
        Breakage{
            "MergeHoldsList",
            [](json &f) { f["model"]["merges"][1] = {json::array(), "a"}; },
            "model.merges[1]: found an array"},
        Breakage{"Dropout", [](json &f) { f["model"]["dropout"] = 0.1; },
                 "model.dropout"},
        Breakage{
            "Prefix",
            [](json &f) { f["model"]["continuing_subword_prefix"] = "##"; },
            "model.continuing_subword_prefix"},
        Breakage{"IgnoreMergesIsText",
                 [](json &f) { f["model"]["ignore_merges"] = "no"; },
                 "model.ignore_merges: found string"},
        Breakage{"UnknownNormalizer",
                 [](json &f) {
                   f["normalizer"] = {
                       {"type", "Sequence"},
                       {"normalizers",
                        {{{"type", "NFC"}}, {{"type", "BertNormalizer"}}}}};
                 },
                 "normalizer.normalizers[1].type: the normalizer "
                 "\"BertNormalizer\""},
        Breakage{"NormalizerWithoutType",
                 [](json &f) { f["normalizer"] = json::object(); },
                 "normalizer: has no \"type\""},
        Breakage{"NormalizerIsText", [](json &f) { f["normalizer"] = "NFC"; },
                 "normalizer: found string"},
        Breakage{"ReplaceWithoutPattern",
                 [](json &f) {
                   f["normalizer"] = {{"type", "Replace"}, {"content", ""}};
                 },
                 "normalizer.pattern: expected"},
        Breakage{"NoPreTokenizer",
                 [](json &f) { f["pre_tokenizer"] = nullptr; },
                 "pre_tokenizer: holds no ByteLevel"},
        Breakage{"UnknownPreTokenizer",
                 [](json &f) { f["pre_tokenizer"] = {{"type", "Metaspace"}}; },
                 "pre_tokenizer.type: the pre-tokenizer \"Metaspace\""},
        Breakage{"BadRegex",
                 [](json &f) {
                   f["pre_tokenizer"] = {{"type", "Split"},
                                         {"pattern", {{"Regex", "a(b"}}},
                                         {"behavior", "Isolated"}};
                 },
                 "pre_tokenizer.pattern: the regular expression has an "
                 "unclosed '('"},
        Breakage{"UnknownBehavior",
                 [](json &f) {
                   f["pre_tokenizer"] = {{"type", "Split"},
                                         {"pattern", {{"String", "a"}}},
                                         {"behavior", "Doubled"}};
                 },
                 "pre_tokenizer.behavior: found \"Doubled\""},
        Breakage{"UseRegexIsNumber",
                 [](json &f) { f["pre_tokenizer"]["use_regex"] = 1; },
                 "pre_tokenizer.use_regex: found number"},
        Breakage{"NoDecoder", [](json &f) { f.erase("decoder"); },
                 "decoder: found null"},
        Breakage{"UnknownDecoder",
                 [](json &f) { f["decoder"] = {{"type", "WordPiece"}}; },
                 "decoder.type: the decoder \"WordPiece\""},
        Breakage{"TwoByteLevelDecoders",
                 [](json &f) {
                   f["decoder"] = {
                       {"type", "Sequence"},
                       {"decoders",
                        {{{"type", "ByteLevel"}}, {{"type", "ByteLevel"}}}}};
                 },
                 "decoder: expected one ByteLevel, found 2"},
        Breakage{"PostProcessorIsList",
                 [](json &f) { f["post_processor"] = json::array(); },
                 "post_processor: found array"},
        Breakage{"AddedIsObject",
                 [](json &f) { f["added_tokens"] = json::object(); },
                 "added_tokens: found object"},
        Breakage{
            "AddedGap",
            [](json &f) { f["added_tokens"].push_back(added(5000, "<x>")); },
            "added_tokens[1].id: found 5000 for \"<x>\"; expected "},
        Breakage{"AddedNegative",
                 [](json &f) { f["added_tokens"][0]["id"] = -4; },
                 "added_tokens[0].id: found -4"},
        Breakage{"AddedTextId",
                 [](json &f) { f["added_tokens"][0]["id"] = "4"; },
                 "added_tokens[0].id: missing or not an integer"},
        Breakage{
            "AddedTwice",
            [](json &f) { f["added_tokens"].push_back(f["added_tokens"][0]); },
            "added_tokens[1]: the token \"<|endoftext|>\" appears twice"},
        Breakage{"AddedEmpty",
                 [](json &f) { f["added_tokens"][0]["content"] = ""; },
                 "added_tokens[0].content: has 0 bytes"},
        Breakage{"AddedWithoutContent",
                 [](json &f) { f["added_tokens"][0].erase("content"); },
                 "added_tokens[0]: has no \"content\""},
        Breakage{"AddedFlagIsText",
                 [](json &f) { f["added_tokens"][0]["lstrip"] = "yes"; },
                 "added_tokens[0].lstrip: found string"}),
    [](const auto &info) { return std::string(info.param.name); });

TEST(BrokenFile, Truncated) {
  std::string whole = test::readGolden("gpt2", "tokenizer.json");
  for (size_t size : {size_t(0), size_t(1), whole.size() / 3, whole.size() / 2,
                      whole.size() - 2}) {
    std::string error = test::loadError(whole.substr(0, size));
    EXPECT_TRUE(error.starts_with("tokenizer.json: parse error at line"))
        << error;
  }
}

TEST(BrokenFile, NothingStandsBehindAByteOf0) {
  std::string whole = test::readGolden("gpt2", "tokenizer.json");
  const std::string at = std::to_string(whole.size());
  whole.push_back('\0');
  EXPECT_EQ(test::loadError(whole + "and more"),
            "tokenizer.json: byte " + at + " is 0, which no JSON has");
}

TEST(BrokenFile, TwoVocabularies) {
  std::string error =
      test::loadError(R"({"model": {"vocab": {"a": 0}, "vocab": {"a": 0}}})");
  EXPECT_EQ(error, "tokenizer.json: model.vocab: appears twice");
  error = test::loadError(R"({"model": {"vocab": {"a": 0, "a": 1},
                              "merges": []}})");
  EXPECT_EQ(error,
            "tokenizer.json: model.vocab[\"a\"]: the token appears twice");
}

TEST(BrokenFile, NotAnObject) {
  for (const char *text : {"[]", "5", "null", "\"model\""}) {
    std::string error = test::loadError(text);
    EXPECT_NE(error.find("expected an object"), std::string::npos) << error;
  }
}

TEST(BrokenFile, MissingFile) {
  auto result = Tokenizer::load(testing::TempDir() + "/heddle-no-such-folder");
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().text().find("tokenizer.json: there is no such file"),
            std::string::npos)
      << result.error().text();
}

TEST(BrokenFile, ALinkToItselfIsNoMissingFile) {
  for (const char *name : {"tokenizer.json", "vocab.json"}) {
    std::string folder = testing::TempDir() + "/heddle-loop-" +
                         std::to_string(::getpid()) + name;
    std::filesystem::create_directory(folder);
    std::filesystem::create_symlink(name, folder + "/" + name);
    std::filesystem::copy_file(HEDDLE_TEXT_GOLDENS
                               "/separate_files/tokenizer_config.json",
                               folder + "/tokenizer_config.json");
    EXPECT_TRUE(Tokenizer::exists(folder));
    auto result = Tokenizer::load(folder);
    std::filesystem::remove_all(folder);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().text(),
              folder + "/" + name +
                  ": cannot open the file: Too many levels of symbolic links");
  }
}

/// A hole in the vocabulary is legal: models made from tiktoken have some.
TEST(BrokenFile, HolesAreNotBroken) {
  json file = test::gpt2File();
  file["model"]["vocab"]["zzz"] = 900;
  file["added_tokens"] = json::array();
  auto tokenizer = test::loadText(file.dump());
  ASSERT_TRUE(tokenizer) << tokenizer.error().text();
  EXPECT_EQ((*tokenizer)->vocabSize(), 901);
  EXPECT_EQ((*tokenizer)->decode(std::vector<int32_t>{899, 900}, false), "zzz");
}
