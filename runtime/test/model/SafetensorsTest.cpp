//===- SafetensorsTest.cpp - The format, and files that break it ----------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TinyModel.h"

#include "runtime/model/Safetensors.h"

#include <filesystem>

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::test;

namespace {

std::string errorOfBytes(const std::string &bytes) {
  TemporaryFolder folder;
  std::string path = folder.write("x.safetensors", bytes);
  Result<Checkpoint> checkpoint = Checkpoint::openFile(path);
  if (checkpoint)
    return "no error";
  EXPECT_EQ(checkpoint.error().text().substr(0, path.size() + 2), path + ": ");
  return checkpoint.error().text().substr(path.size() + 2);
}

std::string errorOf(const std::string &header, size_t dataBytes) {
  return errorOfBytes(safetensorsBytes(header, std::string(dataBytes, 'x')));
}

/// A header with one tensor 'a' made of the given fields.
std::string oneTensor(const std::string &dtype, const std::string &shape,
                      const std::string &offsets) {
  return "{\"a\":{\"dtype\":" + dtype + ",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}}";
}

TEST(Safetensors, ReadsTensorsOfEveryKind) {
  TemporaryFolder folder;
  std::string data;
  for (int i = 0; i < 30; ++i)
    data += static_cast<char>(i);
  std::string path = folder.write(
      "x.safetensors",
      safetensorsBytes(
          R"({"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[8,20]},)"
          R"("a":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
          R"("none":{"dtype":"F32","shape":[0,5],"data_offsets":[20,20]},)"
          R"("c":{"dtype":"F16","shape":[5],"data_offsets":[20,30]},)"
          R"("__metadata__":{"format":"pt"}}   )",
          data));
  Result<Checkpoint> checkpoint = Checkpoint::openFile(path);
  ASSERT_TRUE(checkpoint) << checkpoint.error().text();
  ASSERT_EQ(checkpoint->tensors().size(), 4u);
  const TensorInfo &b = checkpoint->tensors().at("b");
  EXPECT_EQ(b.dtype, DType::BF16);
  EXPECT_EQ(b.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(b.elements, 6);
  EXPECT_FALSE(checkpoint->tensors().at("a").dtype);
  EXPECT_EQ(checkpoint->tensors().at("a").dtypeName, "I64");
  EXPECT_EQ(checkpoint->tensors().at("none").elements, 0);
  EXPECT_EQ(checkpoint->pathOf(b), path);
  char bytes[4];
  ASSERT_TRUE(checkpoint->read(b, 4, 2, bytes));
  EXPECT_EQ(std::string(bytes, 4), std::string("\x10\x11\x12\x13"));
}

TEST(Safetensors, AnEmptyTableIsAFile) {
  EXPECT_EQ(errorOf("{}", 0), "no error");
}

TEST(Safetensors, RefusesBrokenPrefixes) {
  EXPECT_EQ(errorOfBytes(""),
            "the file has 0 bytes; a safetensors file has at least 8");
  EXPECT_EQ(errorOfBytes("1234567"),
            "the file has 7 bytes; a safetensors file has at least 8");
  EXPECT_EQ(errorOfBytes("PK\x03\x04 some other format"),
            "the header claims 7885648053892500304 bytes, at most 100000000 "
            "are allowed: is this a safetensors file?");
  std::string cut = safetensorsBytes("{\"a\":", "").substr(0, 10);
  EXPECT_EQ(errorOfBytes(cut),
            "the header claims 5 bytes, the file has 2 behind its length: the "
            "file is cut off, or not a safetensors file");
  EXPECT_EQ(errorOf("", 0),
            "the header does not start with '{': not a safetensors file");
  EXPECT_EQ(errorOf(" {}", 0),
            "the header does not start with '{': not a safetensors file");
  EXPECT_NE(errorOf("{\"a\":", 0).find("header: not valid JSON at line 1"),
            std::string::npos);
}

TEST(Safetensors, RefusesNamesTwice) {
  EXPECT_EQ(errorOf(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                    R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                    2),
            "header: an object has the key 'a' twice");
}

TEST(Safetensors, RefusesBrokenEntries) {
  EXPECT_EQ(errorOf(R"({"a":3})", 0),
            "tensor 'a': expected an object with dtype, shape and "
            "data_offsets, found number");
  EXPECT_EQ(errorOf(R"({"a":{"dtype":"F32","shape":[]}})", 0),
            "tensor 'a': the field 'data_offsets' is missing");
  EXPECT_EQ(
      errorOf(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4],"x":1}})",
              4),
      "tensor 'a': unknown field 'x' (expected dtype, shape, data_offsets)");
  EXPECT_EQ(errorOf(oneTensor("\"F33\"", "[1]", "[0,4]"), 4),
            "tensor 'a': unknown dtype 'F33'");
  EXPECT_EQ(errorOf(oneTensor("7", "[1]", "[0,4]"), 4),
            "tensor 'a': dtype: expected a string");
  EXPECT_EQ(errorOf(oneTensor("\"F32\"", "4", "[0,4]"), 4),
            "tensor 'a': shape: expected an array");
  EXPECT_EQ(errorOf(oneTensor("\"F32\"", "[-1]", "[0,4]"), 4),
            "tensor 'a': shape: expected integers of at least 0, found -1");
  EXPECT_EQ(errorOf(oneTensor("\"F32\"", "[1.5]", "[0,4]"), 4),
            "tensor 'a': shape: expected integers of at least 0, found 1.5");
  EXPECT_EQ(
      errorOf(oneTensor("\"F32\"", "[4294967296,4294967296]", "[0,0]"), 0),
      "tensor 'a': shape [4294967296,4294967296] has more than 2^63 "
      "bytes");
  EXPECT_EQ(errorOf(oneTensor("\"F32\"", "[4611686018427387904]", "[0,0]"), 0),
            "tensor 'a': shape [4611686018427387904] has more than 2^63 bytes");
}

TEST(Safetensors, NamesCannotSteerATerminal) {
  EXPECT_EQ(errorOf(R"({"a\n\u202eb":{"dtype":"X\u001b[2J","shape":[],)"
                    R"("data_offsets":[0,0]}})",
                    0),
            "tensor 'a\\n\\u202eb': unknown dtype 'X\\u001b[2J'");
}

TEST(Safetensors, RefusesBrokenOffsets) {
  for (const char *offsets :
       {"[4,0]", "[-4,0]", "[0]", "[0,4,8]", "{}", "[0,\"4\"]", "[0,1e30]"})
    EXPECT_EQ(errorOf(oneTensor("\"F32\"", "[1]", offsets), 4)
                  .find("tensor 'a': data_offsets: expected [begin, end] with "
                        "0 <= begin <= end, found "),
              0u)
        << offsets;
  EXPECT_EQ(errorOf(oneTensor("\"F32\"", "[2]", "[0,8]"), 7),
            "tensor 'a': data_offsets [0,8] reach past the data, which has 7 "
            "bytes (is the file cut off?)");
  EXPECT_EQ(errorOf(oneTensor("\"F32\"", "[2]", "[0,4]"), 4),
            "tensor 'a': data_offsets [0,4] hold 4 bytes, but F32 of shape [2] "
            "needs 8");
  EXPECT_EQ(errorOf(oneTensor("\"U8\"", "[2]", "[0,2]"), 3),
            "the last 1 bytes of the file belong to no tensor");
  EXPECT_EQ(errorOf(oneTensor("\"U8\"", "[2]", "[1,3]"), 3),
            "tensor 'a': bytes 0 to 1 in front of it belong to no tensor");
  EXPECT_EQ(errorOf(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                    R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                    3),
            "tensor 'b': overlaps tensor 'a'");
}

TEST(Safetensors, RefusesBrokenMetadata) {
  EXPECT_EQ(errorOf(R"({"__metadata__":{"a":1}})", 0),
            "__metadata__: 'a' is not a text");
  EXPECT_EQ(errorOf(R"({"__metadata__":[]})", 0),
            "__metadata__: expected an object of texts");
}

/// Every prefix and many one-byte changes of a real file: an error or a
/// checkpoint, never a crash.
TEST(Safetensors, SurvivesDamage) {
  TinyModel model = makeTinyModel({.layers = 1,
                                   .hidden = 8,
                                   .queryHeads = 1,
                                   .kvHeads = 1,
                                   .mlpHidden = 4,
                                   .vocab = 3},
                                  DType::F32, 1);
  std::vector<std::string> names;
  for (const auto &[name, tensor] : model.tensors)
    names.push_back(name);
  std::string bytes = model.file(names);
  TemporaryFolder folder;
  ASSERT_EQ(errorOfBytes(bytes), "no error");
  for (size_t cut = 0; cut < bytes.size(); cut += 7) {
    std::string path = folder.write("x", bytes.substr(0, cut));
    EXPECT_FALSE(Checkpoint::openFile(path)) << cut;
  }
  size_t headerEnd = bytes.find("}}") + 2;
  for (size_t i = 0; i < headerEnd; i += 3)
    for (char change : {'\x01', '\x80', '\x10'}) {
      std::string damaged = bytes;
      damaged[i] ^= change;
      Result<Checkpoint> result =
          Checkpoint::openFile(folder.write("x", damaged));
      if (!result) {
        EXPECT_FALSE(result.error().text().empty());
      }
    }
}

class Shards : public testing::Test {
protected:
  TinyModel model = makeTinyModel({.layers = 1}, DType::BF16, 3);
  TemporaryFolder folder;

  std::string error() {
    Result<Checkpoint> checkpoint = Checkpoint::open(folder.path);
    return checkpoint ? "no error" : checkpoint.error().text();
  }
  std::string indexError(const std::string &text) {
    folder.write("model.safetensors.index.json", text);
    return error();
  }
  std::string index = folder.path + "/model.safetensors.index.json: ";
};

TEST_F(Shards, AreReadThroughTheIndex) {
  model.writeSharded(folder, 3);
  Result<Checkpoint> checkpoint = Checkpoint::open(folder.path);
  ASSERT_TRUE(checkpoint) << checkpoint.error().text();
  EXPECT_EQ(checkpoint->tensors().size(), model.tensors.size());
}

TEST_F(Shards, AFolderWithoutWeights) {
  EXPECT_EQ(error(), folder.path + ": found neither model.safetensors nor "
                                   "model.safetensors.index.json");
  folder.write("pytorch_model.bin", "");
  EXPECT_EQ(error(), folder.path + ": found neither model.safetensors nor "
                                   "model.safetensors.index.json; convert "
                                   "pytorch_model.bin to safetensors first");
}

TEST_F(Shards, ALinkToItselfIsNoMissingFile) {
  for (const char *name :
       {"model.safetensors.index.json", "model.safetensors"}) {
    std::filesystem::create_symlink(name, folder.path + "/" + name);
    EXPECT_EQ(error(), folder.path + "/" + name +
                           ": cannot open the file: Too many levels of "
                           "symbolic links");
  }
}

TEST_F(Shards, NamesCannotSteerATerminal) {
  const std::string name = "a\\u001b[2J\\n\\u202eb"; // in JSON, and as shown
  EXPECT_EQ(indexError("{\"weight_map\":{\"" + name + "\":1}}"),
            index + "weight_map: '" + name + "' is not mapped to a file name");
  EXPECT_EQ(indexError("{\"weight_map\":{\"w\":\"" + name + "\"}}"),
            folder.path + "/" + name +
                ": cannot open the file: No such file or directory");
}

TEST_F(Shards, NamesStayInTheFolder) {
  for (const char *name :
       {"../x", "/etc/passwd", "..", ".", "", "a/b", "a\\\\b", "a\\u0000b"})
    EXPECT_NE(
        indexError(std::string("{\"weight_map\":{\"a\":\"") + name + "\"}}")
            .find("is not a plain file name in the same folder"),
        std::string::npos)
        << name;
}

TEST_F(Shards, BrokenIndices) {
  std::string expected = index + "expected an object 'weight_map' that names "
                                 "the file of each tensor";
  EXPECT_EQ(indexError("{}"), expected);
  EXPECT_EQ(indexError("{\"weight_map\":{}}"), expected);
  EXPECT_EQ(indexError("{\"weight_map\":{\"a\":1}}"),
            index + "weight_map: 'a' is not mapped to a file name");
  EXPECT_EQ(indexError("{\"weight_map\":{\"a\":\"b\",\"a\":\"c\"}}"),
            index + "weight_map: an object has the key 'a' twice");
  EXPECT_EQ(indexError("{\"weight_map\":{\"a\":\"b\"}}"),
            folder.path + "/b: cannot open the file: No such file or "
                          "directory");
}

TEST_F(Shards, IndexAndShardsMustAgree) {
  std::string norm = "model.transformer.ln_f.weight";
  folder.write("one", model.file({norm}));
  folder.write("two", model.file({"model.transformer.wte.weight"}));
  EXPECT_EQ(indexError("{\"weight_map\":{\"" + norm +
                       "\":\"one\",\"lost\":\"one\"}}"),
            index + "weight_map places tensor 'lost' in 'one', which lacks it");
  EXPECT_EQ(indexError("{\"weight_map\":{\"" + norm +
                       "\":\"two\",\"model.transformer.wte.weight\":\"two\"}}"),
            index + "weight_map places tensor '" + norm +
                "' in 'two', which lacks it");
  EXPECT_EQ(
      indexError("{\"weight_map\":{\"" + norm + "\":\"one\",\"x\":\"two\"}}"),
      index + "weight_map places tensor 'x' in 'two', which lacks it");
  folder.write("two", model.file({norm}));
  EXPECT_EQ(
      indexError("{\"weight_map\":{\"" + norm + "\":\"one\",\"x\":\"two\"}}"),
      folder.path + "/two: tensor '" + norm + "' is also in " + folder.path +
          "/one");
  folder.write("one", model.file({norm, "model.transformer.wte.weight"}));
  EXPECT_EQ(indexError("{\"weight_map\":{\"" + norm + "\":\"one\"}}"),
            folder.path +
                "/one: holds tensor 'model.transformer.wte.weight', which " +
                folder.path + "/model.safetensors.index.json does not name");
}

} // namespace
