//===- ConfigTest.cpp - config.json: the released one, and broken ones ----===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TinyModel.h"

#include "runtime/model/Config.h"

#include <fstream>

#include <gtest/gtest.h>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::test;
using nlohmann::json;

namespace {

json releasedConfig(const char *name = "/llada-8b-config.json") {
  std::ifstream file(std::string(HEDDLE_TEST_INPUTS) + name);
  return json::parse(file);
}

json dreamConfig() { return releasedConfig("/dream-7b-config.json"); }

Result<ModelConfig> loadText(const std::string &text) {
  TemporaryFolder folder;
  folder.write("config.json", text);
  Result<ModelConfig> config = ModelConfig::load(folder.path);
  if (config)
    return config;
  // Tests compare what follows the path.
  std::string prefix = folder.path + "/config.json: ";
  EXPECT_EQ(config.error().text().substr(0, prefix.size()), prefix);
  return Error(config.error().text().substr(prefix.size()));
}

/// The error when a field of the released config has another value.
std::string errorWith(const std::string &field, const json &value) {
  json config = releasedConfig();
  config[field] = value;
  Result<ModelConfig> result = loadText(config.dump());
  return result ? "no error" : result.error().text();
}

std::string dreamErrorWith(const std::string &field, const json &value) {
  json config = dreamConfig();
  config[field] = value;
  Result<ModelConfig> result = loadText(config.dump());
  return result ? "no error" : result.error().text();
}

std::string errorWithout(const std::string &field) {
  json config = releasedConfig();
  config.erase(field);
  Result<ModelConfig> result = loadText(config.dump());
  return result ? "no error" : result.error().text();
}

TEST(Config, ReadsLLaDA8BAsReleased) {
  Result<ModelConfig> config = loadText(releasedConfig().dump(2));
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->architecture, "llada");
  EXPECT_EQ(config->layers, 32);
  EXPECT_EQ(config->hidden, 4096);
  EXPECT_EQ(config->queryHeads, 32);
  EXPECT_EQ(config->kvHeads, 32);
  EXPECT_EQ(config->headDim, 128);
  EXPECT_EQ(config->mlpHidden, 12288);
  EXPECT_EQ(config->vocabSize, 126464);
  EXPECT_EQ(config->maxSequenceLength, 4096);
  EXPECT_EQ(config->ropeTheta, 500000);
  EXPECT_EQ(config->rmsNormEps, 1e-5);
  EXPECT_EQ(config->maskToken, 126336);
  EXPECT_EQ(config->eosToken, 126081);
  EXPECT_EQ(config->padToken, 126081);
  EXPECT_FALSE(config->tiedEmbeddings);
}

TEST(Config, ReadsDream7BAsReleased) {
  Result<ModelConfig> config = loadText(dreamConfig().dump(2));
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->architecture, "dream");
  EXPECT_EQ(config->layers, 28);
  EXPECT_EQ(config->hidden, 3584);
  EXPECT_EQ(config->queryHeads, 28);
  EXPECT_EQ(config->kvHeads, 4);
  EXPECT_EQ(config->headDim, 128);
  EXPECT_EQ(config->mlpHidden, 18944);
  EXPECT_EQ(config->vocabSize, 152064);
  EXPECT_EQ(config->maxSequenceLength, 131072);
  EXPECT_EQ(config->ropeTheta, 1e6);
  EXPECT_EQ(config->rmsNormEps, 1e-6);
  EXPECT_EQ(config->maskToken, 151666);
  EXPECT_EQ(config->eosToken, 151643);
  EXPECT_EQ(config->padToken, 151643);
  EXPECT_FALSE(config->tiedEmbeddings);
}

TEST(Config, SaysInWhatFamiliesDiffer) {
  Result<ModelConfig> llada = loadText(releasedConfig().dump());
  ASSERT_TRUE(llada);
  EXPECT_FALSE(llada->qkvBias);
  EXPECT_TRUE(llada->fullPrecisionRope);
  EXPECT_FALSE(llada->shiftedLogits);
  EXPECT_EQ(llada->sampler, SamplerFamily::Blocks);
  EXPECT_EQ(llada->chat, ChatFormat::LLaDA);
  EXPECT_EQ(llada->predictingRow(0), 0);
  EXPECT_EQ(llada->predictingRow(7), 7);
  Result<ModelConfig> dream = loadText(dreamConfig().dump());
  ASSERT_TRUE(dream);
  EXPECT_TRUE(dream->qkvBias);
  EXPECT_FALSE(dream->fullPrecisionRope);
  EXPECT_TRUE(dream->shiftedLogits);
  EXPECT_EQ(dream->sampler, SamplerFamily::Timesteps);
  EXPECT_EQ(dream->chat, ChatFormat::ChatML);
  EXPECT_EQ(dream->predictingRow(0), 0);
  EXPECT_EQ(dream->predictingRow(1), 0);
  EXPECT_EQ(dream->predictingRow(7), 6);
}

TEST(Config, RefusesADreamThatItDoesNotCompute) {
  EXPECT_EQ(dreamErrorWith("use_sliding_window", true),
            "field 'use_sliding_window': found true (a sliding window of the "
            "model's own), only false is supported");
  EXPECT_EQ(dreamErrorWith("hidden_act", "gelu"),
            "field 'hidden_act': found \"gelu\" (another activation in the "
            "MLP), only \"silu\" is supported");
  EXPECT_NE(dreamErrorWith("rope_scaling", {{"type", "yarn"}})
                .find("only null is supported"),
            std::string::npos);
  EXPECT_NE(dreamErrorWith("use_mrope", true).find("only false is supported"),
            std::string::npos);
  EXPECT_EQ(dreamErrorWith("architectures", {"Qwen2ForCausalLM"}),
            "field 'architectures': found [\"Qwen2ForCausalLM\"], expected "
            "[\"DreamModel\"]");
  EXPECT_EQ(dreamErrorWith("num_key_value_heads", 5),
            "field 'num_attention_heads': found 28, expected a multiple of "
            "num_key_value_heads, 5");
  EXPECT_EQ(dreamErrorWith("hidden_size", 3585),
            "field 'hidden_size': found 3585, expected a multiple of "
            "num_attention_heads, 28");
  EXPECT_EQ(dreamErrorWith("head_dim", 64),
            "field 'head_dim': found 64, expected hidden_size / "
            "num_attention_heads, 128");
  EXPECT_EQ(dreamErrorWith("num_hidden_layers", nullptr),
            "field 'num_hidden_layers' is missing");
  EXPECT_EQ(dreamErrorWith("mask_token_id", nullptr),
            "field 'mask_token_id' is missing");
  EXPECT_EQ(dreamErrorWith("mask_token_id", 152064),
            "field 'mask_token_id': found 152064, expected an integer from 0 "
            "to 152063");
}

TEST(Config, AbsentOrNullMeansWhatLLaDA8BSays) {
  json config = releasedConfig();
  for (const char *field :
       {"activation_type", "alibi", "architectures", "attention_layer_norm",
        "block_type", "include_bias", "layer_norm_type", "rope",
        "rope_full_precision", "rms_norm_eps", "weight_tying", "n_kv_heads",
        "embedding_size", "pad_token_id"})
    config[field] = nullptr;
  Result<ModelConfig> result = loadText(config.dump());
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_EQ(result->kvHeads, 32);
  EXPECT_EQ(result->vocabSize, 126464);
  EXPECT_EQ(result->padToken, -1);
  EXPECT_EQ(errorWithout("rope_full_precision"), "no error");
  EXPECT_EQ(errorWithout("embedding_size"), "no error");
}

TEST(Config, DerivesWhatOlderFilesLeaveOut) {
  json config = releasedConfig();
  config["mlp_hidden_size"] = nullptr;
  config["n_kv_heads"] = nullptr;
  config["multi_query_attention"] = true;
  Result<ModelConfig> result = loadText(config.dump());
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_EQ(result->mlpHidden, 4 * 4096);
  EXPECT_EQ(result->kvHeads, 1);
}

TEST(Config, RefusesWhatItDoesNotCompute) {
  EXPECT_EQ(errorWith("include_qkv_bias", true),
            "field 'include_qkv_bias': found true (biases of query, key and "
            "value), only false is supported");
  EXPECT_EQ(errorWith("activation_type", "swiglu"),
            "field 'activation_type': found \"swiglu\" (another activation in "
            "the MLP), only \"silu\" is supported");
  EXPECT_EQ(errorWith("rope_scaling", {{"type", "linear"}}),
            "field 'rope_scaling': found {\"type\":\"linear\"} (scaled "
            "rotations), only null is supported");
  for (const char *field :
       {"alibi", "attention_layer_norm", "bias_for_layer_norm", "include_bias",
        "input_emb_norm", "scale_logits"})
    EXPECT_NE(errorWith(field, true).find("only false is supported"),
              std::string::npos)
        << field;
  for (const char *field :
       {"rope", "rope_full_precision", "layer_norm_with_affine"})
    EXPECT_NE(errorWith(field, false).find("only true is supported"),
              std::string::npos)
        << field;
  EXPECT_NE(errorWith("layer_norm_type", "default").find("only \"rms\""),
            std::string::npos);
  EXPECT_NE(errorWith("block_type", "sequential").find("only \"llama\""),
            std::string::npos);
  EXPECT_NE(errorWith("block_group_size", 2).find("only 1 is supported"),
            std::string::npos);
}

TEST(Config, RefusesOtherArchitectures) {
  EXPECT_EQ(errorWith("model_type", "Dream2"),
            "field 'model_type': found \"Dream2\", expected \"llada\" or "
            "\"Dream\", the architectures that are implemented");
  EXPECT_EQ(errorWithout("model_type"),
            "field 'model_type': found nothing, expected \"llada\" or "
            "\"Dream\", the architectures that are implemented");
  EXPECT_EQ(errorWith("architectures", {"LLaDAMoEModelLM"}),
            "field 'architectures': found [\"LLaDAMoEModelLM\"], expected "
            "[\"LLaDAModelLM\"]");
}

TEST(Config, NamesMissingFields) {
  for (const char *field :
       {"n_layers", "d_model", "n_heads", "vocab_size", "max_sequence_length",
        "rope_theta", "mask_token_id"})
    EXPECT_EQ(errorWithout(field),
              std::string("field '") + field + "' is missing");
}

TEST(Config, RefusesBadValues) {
  EXPECT_EQ(errorWith("n_layers", 0),
            "field 'n_layers': found 0, expected an integer from 1 to 100000");
  EXPECT_EQ(errorWith("n_layers", -3),
            "field 'n_layers': found -3, expected an integer from 1 to 100000");
  EXPECT_EQ(errorWith("n_layers", 2.5),
            "field 'n_layers': found 2.5, expected an integer from 1 to "
            "100000");
  EXPECT_EQ(errorWith("d_model", "4096"),
            "field 'd_model': found \"4096\", expected an integer from 1 to "
            "2147483648");
  EXPECT_EQ(errorWith("d_model", 18446744073709551615u),
            "field 'd_model': found 18446744073709551615, expected an integer "
            "from 1 to 2147483648");
  EXPECT_EQ(errorWith("rope_theta", 0),
            "field 'rope_theta': found 0, expected a number above 0");
  EXPECT_EQ(errorWith("rms_norm_eps", "small"),
            "field 'rms_norm_eps': found \"small\", expected a number above 0");
  EXPECT_EQ(errorWith("weight_tying", 1),
            "field 'weight_tying': found 1, expected true or false");
  EXPECT_EQ(errorWith("mask_token_id", 126464),
            "field 'mask_token_id': found 126464, expected an integer from 0 "
            "to 126463");
}

TEST(Config, RefusesContradictions) {
  EXPECT_EQ(errorWith("n_heads", 33),
            "field 'd_model': found 4096, expected a multiple of n_heads, 33");
  EXPECT_EQ(errorWith("n_kv_heads", 5),
            "field 'n_heads': found 32, expected a multiple of n_kv_heads, 5");
  EXPECT_EQ(errorWith("n_heads", 4096),
            "fields 'd_model' and 'n_heads': heads of 1 elements cannot be "
            "rotated in halves, expected an even number");
  EXPECT_EQ(errorWith("multi_query_attention", true),
            "fields 'multi_query_attention' and 'n_kv_heads' contradict each "
            "other: true asks for 1 head, found 32");
  EXPECT_EQ(errorWith("embedding_size", 1000),
            "field 'embedding_size': found 1000, expected at least vocab_size, "
            "126464");
}

TEST(Config, RefusesBrokenFiles) {
  EXPECT_EQ(loadText("{\"a\": 1, \"a\": 2}").error().text(),
            "an object has the key 'a' twice");
  EXPECT_EQ(loadText("[]").error().text(),
            "expected a JSON object ({...}), found array");
  TemporaryFolder empty;
  Result<ModelConfig> missing = ModelConfig::load(empty.path);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().text(),
            empty.path + "/config.json: cannot open the file: No such file or "
                         "directory");
}

} // namespace
