//===- TinySetup.cpp - A model folder and bundles to run ------------------===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TinySetup.h"

#include "runtime/test/schedule/HandBundle.h"
#include "runtime/text/Utf8.h"

#include <cstdio>
#include <cstdlib>

namespace heddle::run::test {

namespace {

using nlohmann::json;

constexpr int64_t vocabulary = 280;
constexpr int32_t endOfText = 256, endOfTurn = 257;

/// Bytes as tokenizers writes them: printable ones as they are, the others from
/// U+0100 on.
json byteVocabulary() {
  json vocab = json::object();
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    bool printable = (byte >= 33 && byte <= 126) ||
                     (byte >= 161 && byte <= 172) || byte >= 174;
    std::string token;
    rt::text::appendUtf8(token, printable ? byte : next++);
    vocab[token] = byte;
  }
  return vocab;
}

json tokenizerJson() {
  json byteLevel = {{"type", "ByteLevel"},
                    {"add_prefix_space", false},
                    {"trim_offsets", true},
                    {"use_regex", true}};
  json added = json::array();
  auto add = [&](int32_t id, const char *content) {
    added.push_back({{"id", id},
                     {"content", content},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  };
  add(endOfText, "<|endoftext|>");
  add(endOfTurn, "<|eot_id|>");
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", byteLevel},
          {"post_processor", nullptr},
          {"decoder", byteLevel},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"vocab", byteVocabulary()},
            {"merges", json::array()}}}};
}

void writeBundle(const std::string &path, const std::string &kernel) {
  bundle::Manifest manifest = heddle::test::handManifest();
  manifest.schedule = kernel;
  manifest.rules[0].phases[0].attention =
      heddle::test::kernelNamed(manifest, kernel);
  // Only what the rule uses: a dense schedule has no sparse kernel.
  manifest.kernels = {manifest.kernels[manifest.rules[0].phases[0].attention]};
  manifest.selections.clear();
  manifest.rules[0].phases[0].attention = 0;
  Status status = bundle::Bundle::write(
      path, manifest,
      {{codeSection(manifest.targets[0], bundle::CodeForm::Native),
        heddle::test::handCode()}});
  if (!status) {
    std::fprintf(stderr, "%s\n", status.error().text().c_str());
    std::abort();
  }
}

} // namespace

TinySetup::TinySetup(bool withTokenizer, bool dream) {
  rt::test::TinyShape shape;
  shape.dream = dream;
  shape.hidden = 2 * heddle::test::handHeadDim;
  shape.mlpHidden = 32;
  shape.vocab = vocabulary;
  shape.maxLength = 160;
  rt::test::TinyModel model =
      rt::test::makeTinyModel(shape, rt::DType::F32, 11);
  model.config["eos_token_id"] = endOfText;
  // Bytes that are letters win, so that texts are fit to look at.
  rt::test::TinyTensor &head = model.tensors["model.transformer.ff_out.weight"];
  for (int64_t id = 0; id < vocabulary; ++id)
    for (int64_t i = 0; i < shape.hidden; ++i)
      head.values[id * shape.hidden + i] *= id >= 'a' && id <= 'z' ? 2 : 0.01f;
  model.write(folder);
  if (withTokenizer)
    folder.write("tokenizer.json", tokenizerJson().dump());
  writeBundle(path() + "/dense.hdl", "dense");
  writeBundle(path() + "/window.hdl", "window6");
}

} // namespace heddle::run::test
